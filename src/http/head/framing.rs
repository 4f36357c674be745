//! What the fields say about the end of the body and of the connection: the same for requests and replies.

use super::{HeadFault, Headers};

/// How the fields frame a body. A reply without a framing field ends with its connection, a request has no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framed {
    Unframed,
    Length(u64),
    Chunked,
}

/// Reads the framing fields (RFC 9112 section 6.3). `http11` says whether the message is HTTP/1.1.
pub(super) fn framing(headers: &Headers, http11: bool) -> Result<Framed, HeadFault> {
    let chunked = transfer_encoding(headers, http11)?;
    let length = content_length(headers)?;
    match (chunked, length) {
        // Section 6.3 rule 3: it ought to be handled as an error, whichever comes first.
        (true, Some(_)) => Err(HeadFault::TwoFramings),
        (true, None) => Ok(Framed::Chunked),
        (false, Some(length)) => Ok(Framed::Length(length)),
        (false, None) => Ok(Framed::Unframed),
    }
}

/// Whether the one Transfer-Encoding field names `chunked` alone.
///
/// RFC 9112 section 7 compares codings without regard to case, and no lenient peer reads `Chunked` in another way.
fn transfer_encoding(headers: &Headers, http11: bool) -> Result<bool, HeadFault> {
    const NAME: &str = "transfer-encoding";
    let mut values = headers.all(NAME);
    let Some(value) = values.next() else {
        return Ok(false);
    };
    let lone = values.next().is_none()
        && value.eq_ignore_ascii_case(b"chunked")
        && !headers.padded_with_tab(NAME);
    // Section 6.1: in HTTP/1.0 the framing is to be treated as faulty.
    if lone && http11 {
        Ok(true)
    } else {
        Err(HeadFault::TransferEncoding)
    }
}

/// The number in the one Content-Length field.
///
/// RFC 9110 section 8.6 has `1*DIGIT`, and lets a recipient take a list of equal numbers; we do not. A leading zero is
/// refused too, since there are readers that take what follows it for octal.
fn content_length(headers: &Headers) -> Result<Option<u64>, HeadFault> {
    const NAME: &str = "content-length";
    let mut values = headers.all(NAME);
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let plain = match value {
        b"0" => true,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !plain || values.next().is_some() || headers.padded_with_tab(NAME) {
        return Err(HeadFault::ContentLength);
    }
    let digits = std::str::from_utf8(value).map_err(|_| HeadFault::ContentLength)?;
    digits
        .parse()
        .map(Some)
        .map_err(|_| HeadFault::ContentLength)
}

/// Whether the connection may carry another message (RFC 9112 section 9.3). HTTP/1.0 needs `keep-alive` for that,
/// which section 9.3 lets a recipient ignore, and we do.
pub(super) fn keep_alive(headers: &Headers, http11: bool) -> bool {
    let close = headers
        .all("connection")
        .flat_map(|value| value.split(|&byte| byte == b','))
        .any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"));
    http11 && !close
}
