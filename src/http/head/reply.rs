//! The head of a reply.

use super::framing::{Framed, framing, keep_alive};
use super::lines::find_head;
use super::{HeadFault, HeadLimits, Headers, Method, Parsed, ReplyFraming};

/// The head of a reply whose end is beyond doubt. A redirect is a head like any other; nothing here follows one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status, 100 to 599.
    pub status: u16,
    /// The fields.
    pub headers: Headers,
    /// How the body ends.
    pub framing: ReplyFraming,
    /// Whether the connection may carry another request once the body is whole.
    pub keep_alive: bool,
}

impl ResponseHead {
    /// Whether this is an interim reply (RFC 9110 section 15.2): it has no body, and another head follows right
    /// behind it. Take `consumed` bytes off and parse again, but not without end. 101 is one too, and would change
    /// the protocol: nothing here asks for that, so a client refuses it.
    #[must_use]
    pub const fn is_interim(&self) -> bool {
        self.status < 200
    }
}

/// Looks for the head of a reply at the start of `bytes`, which are all that came since the last message ended.
/// `request_method` is that of the request it replies to: what `HEAD` asks for has no body. Interim replies are
/// returned as they are, see [`ResponseHead::is_interim`].
///
/// # Errors
/// [`HeadFault`]: close, and take nothing that was sent for a reply.
pub fn parse_response(
    bytes: &[u8],
    request_method: &Method,
    limits: &HeadLimits,
) -> Result<Parsed<ResponseHead>, HeadFault> {
    let Some(found) = find_head(bytes, limits.most_bytes(), false)? else {
        return Ok(Parsed::Partial);
    };
    let consumed = found.end;
    let raw = bytes.get(found).unwrap_or_default();
    let (mut room, fields) = limits.room();
    let mut tokens = httparse::Response::new(room.get_mut(..fields).unwrap_or_default());
    match tokens.parse(raw) {
        Ok(httparse::Status::Complete(length)) if length == raw.len() => {}
        // The head is whole, and there is no more that could help.
        Ok(_) => return Err(HeadFault::StartLine),
        Err(httparse::Error::HeaderName | httparse::Error::HeaderValue) => {
            return Err(HeadFault::Field);
        }
        Err(httparse::Error::TooManyHeaders) => return Err(HeadFault::TooManyFields),
        Err(httparse::Error::Version) => return Err(HeadFault::Version),
        Err(_) => return Err(HeadFault::StartLine),
    }
    let (Some(version), Some(status)) = (tokens.version, tokens.code) else {
        return Err(HeadFault::StartLine);
    };
    // RFC 9110 section 15: values outside 100 to 599 are invalid.
    if !(100..600).contains(&status) {
        return Err(HeadFault::Status);
    }
    let http11 = version == 1;
    let headers = Headers::new(raw, tokens.headers).ok_or(HeadFault::Field)?;
    let framing = reply_framing(status, *request_method, framing(&headers, http11)?)?;
    let keep_alive = keep_alive(&headers, http11) && framing != ReplyFraming::UntilClose;
    Ok(Parsed::Complete {
        head: ResponseHead {
            status,
            headers,
            framing,
            keep_alive,
        },
        consumed,
    })
}

/// Where the reply ends (RFC 9112 section 6.3).
fn reply_framing(status: u16, method: Method, framed: Framed) -> Result<ReplyFraming, HeadFault> {
    match (status, framed) {
        // RFC 9112 section 6.1 and RFC 9110 section 8.6 forbid both framing fields in these. Rule 1 would ignore
        // them; who sends them may send a body as well. A length of 0 says the same as none, and is common.
        (100..=199 | 204, Framed::Chunked | Framed::Length(1..)) => Err(HeadFault::UnexpectedBody),
        (100..=199 | 204, _) => Ok(ReplyFraming::None),
        // Rule 1: the fields say what a body would have been framed with.
        (304, _) => Ok(ReplyFraming::None),
        _ if method == Method::Head => Ok(ReplyFraming::None),
        // Rule 2: behind it would be a tunnel. CONNECT is never sent.
        (200..=299, _) if method == Method::Connect => Err(HeadFault::UnexpectedBody),
        (_, Framed::Chunked) => Ok(ReplyFraming::Chunked),
        (_, Framed::Length(length)) => Ok(ReplyFraming::Length(length)),
        // Rule 8.
        (_, Framed::Unframed) => Ok(ReplyFraming::UntilClose),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const LIMITS: HeadLimits = HeadLimits {
        bytes: 512,
        headers: 4,
    };

    /// What a row expects: status, framing, keep alive.
    type Read = Result<(u16, ReplyFraming, bool), HeadFault>;

    /// Parses at once, byte by byte and cut short, and insists on one answer.
    fn read(bytes: &[u8], method: Method) -> Result<Parsed<ResponseHead>, HeadFault> {
        let whole = parse_response(bytes, &method, &LIMITS);
        let first = (0..=bytes.len())
            .map(|end| parse_response(&bytes[..end], &method, &LIMITS))
            .find(|parsed| !matches!(parsed, Ok(Parsed::Partial)))
            .unwrap_or(Ok(Parsed::Partial));
        assert_eq!(first, whole, "{bytes:?}");
        if let Ok(Parsed::Complete { consumed, .. }) = whole {
            assert!(consumed <= bytes.len());
            for end in 0..consumed {
                assert_eq!(
                    parse_response(&bytes[..end], &method, &LIMITS),
                    Ok(Parsed::Partial),
                    "{bytes:?}"
                );
            }
        }
        whole
    }

    #[test]
    fn replies() {
        use HeadFault as F;
        use ReplyFraming::{Chunked, Length, None, UntilClose};
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(5));
        let large = format!("HTTP/1.1 200 OK\r\na: {}", "b".repeat(512));
        let rows: &[(&[u8], Read)] = &[
            (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", Ok((200, Length(5), true))),
            (b"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", Ok((200, Length(0), true))),
            (b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", Ok((200, Length(0), true))),
            (b"HTTP/1.1 200 \xe9\r\nContent-Length: 0\r\n\r\n", Ok((200, Length(0), true))),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", Ok((200, Chunked, true))),
            (b"HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 5\r\n\r\n", Ok((200, Length(5), false))),
            (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\n", Ok((200, Length(5), false))),
            // No framing on a connection that would live on: it ends with the connection.
            (b"HTTP/1.1 200 OK\r\n\r\n", Ok((200, UntilClose, false))),
            (b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\n", Ok((200, UntilClose, false))),
            (b"HTTP/1.0 200 OK\r\n\r\n", Ok((200, UntilClose, false))),
            // Replies without a body.
            (b"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1", Ok((204, None, true))),
            (b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", Ok((204, None, true))),
            (b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", Err(F::UnexpectedBody)),
            (b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", Err(F::UnexpectedBody)),
            (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", Ok((304, None, true))),
            (b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", Ok((304, None, true))),
            (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", Ok((100, None, true))),
            (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", Ok((103, None, true))),
            (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", Ok((101, None, true))),
            (b"HTTP/1.1 100 Continue\r\nContent-Length: 1\r\n\r\n", Err(F::UnexpectedBody)),
            // A redirect is a head like any other.
            (b"HTTP/1.1 302 Found\r\nLocation: http://h/\r\nContent-Length: 0\r\n\r\n", Ok((302, Length(0), true))),
            // Both framings, in either order, and framings of more than one reading.
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
                Err(F::TwoFramings),
            ),
            (
                b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                Err(F::TwoFramings),
            ),
            (
                b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                Err(F::TwoFramings),
            ),
            (b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Err(F::TransferEncoding)),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", Err(F::TransferEncoding)),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n", Err(F::TransferEncoding)),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n", Err(F::ContentLength)),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", Err(F::ContentLength)),
            (b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n", Err(F::ContentLength)),
            // Lines.
            (b"\r\nHTTP/1.1 200 OK\r\n\r\n", Err(F::EmptyLine)),
            (b"HTTP/1.1 200 OK\n\n", Err(F::BareLf)),
            (b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", Err(F::Folded)),
            (b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n", Err(F::Field)),
            (b"HTTP/1.1 200 OK\r\n: b\r\n\r\n", Err(F::Field)),
            (b"HTTP/1.1 200 OK\r\nA\r\n\r\n", Err(F::Field)),
            (b"HTTP/1.1 200 O\rK\r\n\r\n", Err(F::BareCr)),
            (b"HTTP/1.1 200 OK\r\nA: \0\r\n\r\n", Err(F::ControlCharacter)),
            (b"HTTP/1.1 099 OK\r\n\r\n", Err(F::Status)),
            (b"HTTP/1.1 600 OK\r\n\r\n", Err(F::Status)),
            (b"HTTP/1.1 20 OK\r\n\r\n", Err(F::StartLine)),
            (b"HTTP/1.1 2000 OK\r\n\r\n", Err(F::StartLine)),
            (b"HTTP/1.1 +20 OK\r\n\r\n", Err(F::StartLine)),
            (b"HTTP/1.1  200 OK\r\n\r\n", Err(F::StartLine)),
            (b"HTTP/2.0 200 OK\r\n\r\n", Err(F::Version)),
            (b"http/1.1 200 OK\r\n\r\n", Err(F::Version)),
            (b"HTTP/1.10 200 OK\r\n\r\n", Err(F::Version)),
            (b"ICY 200 OK\r\n\r\n", Err(F::Version)),
            (many.as_bytes(), Err(F::TooManyFields)),
            (large.as_bytes(), Err(F::TooLarge)),
        ];
        for (bytes, expected) in rows {
            let read = match read(bytes, Method::Post) {
                Ok(Parsed::Complete { head, .. }) => {
                    assert_eq!(head.is_interim(), head.status < 200);
                    Ok((head.status, head.framing, head.keep_alive))
                }
                Ok(Parsed::Partial) => panic!("not whole: {bytes:?}"),
                Err(fault) => Err(fault),
            };
            assert_eq!(&read, expected, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn the_method_decides_whether_there_is_a_body() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        let Ok(Parsed::Complete { head, .. }) = read(bytes, Method::Head) else {
            panic!()
        };
        assert_eq!((head.framing, head.keep_alive), (ReplyFraming::None, true));
        assert_eq!(read(bytes, Method::Connect), Err(HeadFault::UnexpectedBody));
    }

    #[test]
    fn interim_replies_are_taken_off_one_by_one() {
        let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\nrest";
        let mut rest = &bytes[..];
        let mut seen = Vec::new();
        loop {
            let Ok(Parsed::Complete { head, consumed }) = read(rest, Method::Get) else {
                panic!()
            };
            rest = &rest[consumed..];
            seen.push(head.status);
            if !head.is_interim() {
                break;
            }
        }
        assert_eq!((seen, rest), (vec![100, 103, 204], &b"rest"[..]));
    }
}
