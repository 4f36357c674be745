//! The head of a request.

use std::fmt;

use super::framing::{Framed, framing, keep_alive};
use super::host::is_host;
use super::lines::find_head;
use super::{Framing, HeadFault, HeadLimits, Headers, Method, Parsed};

/// The head of a request whose end, host and target are beyond doubt.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// Path and query as they were sent, from the first slash on; an absolute target is brought into this form. `*`
    /// is possible with `OPTIONS`, and `CONNECT` has the authority here. It can hold a credential.
    pub target: String,
    /// The fields.
    pub headers: Headers,
    /// How the body ends.
    pub framing: Framing,
    /// Whether the connection may carry another request (RFC 9112 section 9.3).
    pub keep_alive: bool,
    /// Whether the caller waits for `100 Continue` before it sends its body (RFC 9110 section 10.1.1).
    pub expect_continue: bool,
    /// The host, with the port if one was sent, in lower case.
    pub host: String,
    /// Whether the caller reads a chunked answer: it speaks HTTP/1.1 (RFC 9112 section 6.1).
    pub chunks: bool,
}

impl RequestHead {
    /// The target before its `?`. Neither decoded nor normalised: compare it whole.
    #[must_use]
    pub fn path(&self) -> &str {
        self.target
            .split_once('?')
            .map_or(self.target.as_str(), |(path, _)| path)
    }

    /// The target behind its `?`.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.target.split_once('?').map(|(_, query)| query)
    }
}

impl fmt::Debug for RequestHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestHead")
            .field("method", &self.method)
            .field("host", &self.host)
            .field("framing", &self.framing)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

/// Looks for the head of a request at the start of `bytes`, which are all that came since the last message ended.
///
/// # Errors
/// [`HeadFault`]: answer with its status, and close.
pub fn parse_request(bytes: &[u8], limits: &HeadLimits) -> Result<Parsed<RequestHead>, HeadFault> {
    let Some(found) = find_head(bytes, limits.most_bytes(), true)? else {
        return Ok(Parsed::Partial);
    };
    let consumed = found.end;
    let raw = bytes.get(found).unwrap_or_default();
    let (mut room, fields) = limits.room();
    let mut tokens = httparse::Request::new(room.get_mut(..fields).unwrap_or_default());
    match tokens.parse(raw) {
        Ok(httparse::Status::Complete(length)) if length == raw.len() => {}
        // The head is whole, and there is no more that could help.
        Ok(_) => return Err(HeadFault::StartLine),
        Err(error) => return Err(fault(error, raw)),
    }
    let (Some(method), Some(target), Some(version)) = (tokens.method, tokens.path, tokens.version)
    else {
        return Err(HeadFault::StartLine);
    };
    let http11 = version == 1;
    let method = Method::from_token(method);
    let headers = Headers::new(raw, tokens.headers).ok_or(HeadFault::Field)?;
    let framing = match framing(&headers, http11)? {
        Framed::Unframed => Framing::None,
        Framed::Length(length) => Framing::Length(length),
        Framed::Chunked => Framing::Chunked,
    };
    let host = host(&headers)?;
    let target = normal_target(method, target, host)?;
    let expected = expects_continue(&headers)?;
    // Without a body there is nothing to continue with, and in HTTP/1.0 the expectation must be ignored (RFC 9110
    // section 10.1.1).
    let expect_continue =
        expected && http11 && !matches!(framing, Framing::None | Framing::Length(0));
    let head = RequestHead {
        method,
        target,
        host: host.to_ascii_lowercase(),
        framing,
        keep_alive: keep_alive(&headers, http11),
        expect_continue,
        chunks: http11,
        headers,
    };
    Ok(Parsed::Complete { head, consumed })
}

/// What `httparse` objected to. It knows versions 1.0 and 1.1 only, so the version is looked at once more.
fn fault(error: httparse::Error, raw: &[u8]) -> HeadFault {
    match error {
        httparse::Error::HeaderName | httparse::Error::HeaderValue => HeadFault::Field,
        httparse::Error::TooManyHeaders => HeadFault::TooManyFields,
        httparse::Error::Version => {
            let line = raw.split(|&byte| byte == b'\r').next().unwrap_or_default();
            // RFC 9112 section 3: a request line has two blanks, and what is behind the second one is the version.
            match line.splitn(3, |&byte| byte == b' ').nth(2) {
                // RFC 9112 section 2.3: `HTTP/` in upper case, DIGIT "." DIGIT.
                Some([b'H', b'T', b'T', b'P', b'/', major, b'.', minor])
                    if major.is_ascii_digit() && minor.is_ascii_digit() =>
                {
                    HeadFault::Version
                }
                _ => HeadFault::StartLine,
            }
        }
        _ => HeadFault::StartLine,
    }
}

/// The one Host field. RFC 9112 section 3.2: a missing, repeated or malformed one must be answered with 400; there it
/// may be missing in HTTP/1.0, but here everything is checked against the host.
fn host(headers: &Headers) -> Result<&str, HeadFault> {
    const NAME: &str = "host";
    match headers.only(NAME) {
        Ok(Some(host)) if is_host(host) && !headers.padded_with_tab(NAME) => Ok(host),
        _ => Err(HeadFault::Host),
    }
}

/// The target as path and query (RFC 9112 section 3.2).
fn normal_target(method: Method, target: &str, host: &str) -> Result<String, HeadFault> {
    // RFC 9110 section 7.1: a fragment is never a part of the target.
    if target.contains('#') {
        return Err(HeadFault::Fragment);
    }
    if method == Method::Connect {
        // Section 3.2.3, the authority form: host and port and nothing else.
        return match is_host(target) && target.rfind(':') > target.rfind(']') {
            true if target.eq_ignore_ascii_case(host) => Ok(target.to_owned()),
            true => Err(HeadFault::TargetHost),
            false => Err(HeadFault::Target),
        };
    }
    if method == Method::Options && target == "*" {
        // Section 3.2.4, the asterisk form.
        return Ok(target.to_owned());
    }
    let origin_form = if target.starts_with('/') {
        target.to_owned()
    } else {
        // Section 3.2.2, the absolute form. Its host would win over the Host field, so they must be the same.
        let rest = strip_scheme(target).ok_or(HeadFault::Target)?;
        let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if !authority.eq_ignore_ascii_case(host) {
            return Err(HeadFault::TargetHost);
        }
        // RFC 9110 section 4.2.3: an empty path is the same as "/".
        if rest.starts_with('/') {
            rest.to_owned()
        } else {
            format!("/{rest}")
        }
    };
    if is_path_and_query(&origin_form) {
        Ok(origin_form)
    } else {
        Err(HeadFault::Target)
    }
}

/// What follows `http://` or `https://`. The scheme decides nothing: who terminates TLS knows how it was reached.
fn strip_scheme(target: &str) -> Option<&str> {
    ["http://", "https://"].into_iter().find_map(|scheme| {
        let (start, rest) = target.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    })
}

/// Whether `target` has only bytes of `path-absolute` and `query` (RFC 3986 sections 3.3 and 3.4), and every percent
/// sign is followed by two hexadecimal digits.
fn is_path_and_query(target: &str) -> bool {
    let mut rest = target.bytes();
    while let Some(byte) = rest.next() {
        let allowed = match byte {
            b'%' => (0..2).all(|_| rest.next().is_some_and(|digit| digit.is_ascii_hexdigit())),
            b'/' | b'?' | b':' | b'@' | b'-' | b'.' | b'_' | b'~' => true,
            b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' => true,
            _ => byte.is_ascii_alphanumeric(),
        };
        if !allowed {
            return false;
        }
    }
    true
}

/// Whether the caller sent the one expectation there is. RFC 9110 section 10.1.1: 417 for every other.
fn expects_continue(headers: &Headers) -> Result<bool, HeadFault> {
    match headers.only("expect") {
        Ok(None) => Ok(false),
        Ok(Some(value)) if value.eq_ignore_ascii_case("100-continue") => Ok(true),
        _ => Err(HeadFault::Expectation),
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

    /// Parses at once, byte by byte and cut short, and insists on one answer.
    fn read(bytes: &[u8]) -> Result<Parsed<RequestHead>, HeadFault> {
        let whole = parse_request(bytes, &LIMITS);
        let first = (0..=bytes.len())
            .map(|end| parse_request(&bytes[..end], &LIMITS))
            .find(|parsed| !matches!(parsed, Ok(Parsed::Partial)))
            .unwrap_or(Ok(Parsed::Partial));
        assert_eq!(first, whole, "{bytes:?}");
        if let Ok(Parsed::Complete { consumed, .. }) = whole {
            assert!(consumed <= bytes.len());
            for end in 0..consumed {
                assert_eq!(
                    parse_request(&bytes[..end], &LIMITS),
                    Ok(Parsed::Partial),
                    "{bytes:?}"
                );
            }
        }
        whole
    }

    fn head(bytes: &[u8]) -> Result<RequestHead, HeadFault> {
        match read(bytes)? {
            Parsed::Complete { head, .. } => Ok(head),
            Parsed::Partial => panic!("not whole: {:?}", String::from_utf8_lossy(bytes)),
        }
    }

    fn show(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// A request whose head is good but for `lines`.
    fn with(lines: &[u8]) -> Vec<u8> {
        [b"POST / HTTP/1.1\r\nHost: h\r\n", lines, b"\r\n"].concat()
    }

    #[test]
    fn framing() {
        use Framing::{Chunked, Length, None};
        use HeadFault as F;
        let rows: &[(&[u8], Result<Framing, HeadFault>)] = &[
            (b"", Ok(None)),
            (b"Content-Length: 0\r\n", Ok(Length(0))),
            (b"Content-Length:5\r\n", Ok(Length(5))),
            (b"content-length:  5 \r\n", Ok(Length(5))),
            (
                b"Content-Length: 18446744073709551615\r\n",
                Ok(Length(u64::MAX)),
            ),
            (
                b"Content-Length: 18446744073709551616\r\n",
                Err(F::ContentLength),
            ),
            (
                b"Content-Length: 99999999999999999999\r\n",
                Err(F::ContentLength),
            ),
            (b"Content-Length:\r\n", Err(F::ContentLength)),
            (b"Content-Length: \r\n", Err(F::ContentLength)),
            (b"Content-Length: +5\r\n", Err(F::ContentLength)),
            (b"Content-Length: -5\r\n", Err(F::ContentLength)),
            (b"Content-Length: 05\r\n", Err(F::ContentLength)),
            (b"Content-Length: 00\r\n", Err(F::ContentLength)),
            (b"Content-Length: 5 5\r\n", Err(F::ContentLength)),
            (b"Content-Length: 5_0\r\n", Err(F::ContentLength)),
            (b"Content-Length: 0x5\r\n", Err(F::ContentLength)),
            (b"Content-Length: 5.0\r\n", Err(F::ContentLength)),
            (b"Content-Length: 5, 5\r\n", Err(F::ContentLength)),
            (b"Content-Length: 5,\r\n", Err(F::ContentLength)),
            (b"Content-Length: \xa05\r\n", Err(F::ContentLength)),
            (b"Content-Length: 5\x85\r\n", Err(F::ContentLength)),
            (b"Content-Length: \xd9\xa5\r\n", Err(F::ContentLength)),
            (b"Content-Length: \t5\r\n", Err(F::ContentLength)),
            (b"Content-Length: 5\t\r\n", Err(F::ContentLength)),
            (b"Content-Length: 5\x0b\r\n", Err(F::ControlCharacter)),
            (
                b"Content-Length: 5\r\nContent-Length: 5\r\n",
                Err(F::ContentLength),
            ),
            (
                b"Content-Length: 5\r\nContent-Length: 6\r\n",
                Err(F::ContentLength),
            ),
            (
                b"Content-Length: 5\r\ncONTENT-lENGTH: 6\r\n",
                Err(F::ContentLength),
            ),
            (b"Content-Length : 5\r\n", Err(F::Field)),
            (b"Content-Length\xa0: 5\r\n", Err(F::Field)),
            (b"Transfer-Encoding: chunked\r\n", Ok(Chunked)),
            (b"Transfer-Encoding:   chunked  \r\n", Ok(Chunked)),
            (b"TRANSFER-ENCODING: Chunked\r\n", Ok(Chunked)),
            (b"Transfer-Encoding: identity\r\n", Err(F::TransferEncoding)),
            (
                b"Transfer-Encoding: gzip, chunked\r\n",
                Err(F::TransferEncoding),
            ),
            (
                b"Transfer-Encoding: chunked, gzip\r\n",
                Err(F::TransferEncoding),
            ),
            (
                b"Transfer-Encoding: chunked, chunked\r\n",
                Err(F::TransferEncoding),
            ),
            (b"Transfer-Encoding: ,chunked\r\n", Err(F::TransferEncoding)),
            (b"Transfer-Encoding: chunked,\r\n", Err(F::TransferEncoding)),
            (
                b"Transfer-Encoding: chunkedchunked\r\n",
                Err(F::TransferEncoding),
            ),
            (
                b"Transfer-Encoding: chunked;q=1\r\n",
                Err(F::TransferEncoding),
            ),
            (
                b"Transfer-Encoding: \"chunked\"\r\n",
                Err(F::TransferEncoding),
            ),
            (b"Transfer-Encoding: xchunked\r\n", Err(F::TransferEncoding)),
            (b"Transfer-Encoding:\r\n", Err(F::TransferEncoding)),
            (b"Transfer-Encoding:\tchunked\r\n", Err(F::TransferEncoding)),
            (
                b"Transfer-Encoding: chunked\t\r\n",
                Err(F::TransferEncoding),
            ),
            (
                b"Transfer-Encoding: \x0bchunked\r\n",
                Err(F::ControlCharacter),
            ),
            (
                b"Transfer-Encoding: chunked\xa0\r\n",
                Err(F::TransferEncoding),
            ),
            (
                b"Transfer-Encoding: \x85chunked\r\n",
                Err(F::TransferEncoding),
            ),
            (
                b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                Err(F::TransferEncoding),
            ),
            (
                b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
                Err(F::TransferEncoding),
            ),
            (
                b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
                Err(F::TransferEncoding),
            ),
            (b"Transfer-Encoding : chunked\r\n", Err(F::Field)),
            (b"Transfer-Encoding\t: chunked\r\n", Err(F::Field)),
            (b"Transfer-Encoding\r\n : chunked\r\n", Err(F::Folded)),
            (b"Transfer-Encoding:\r\n chunked\r\n", Err(F::Folded)),
            (
                b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
                Err(F::TwoFramings),
            ),
            (
                b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                Err(F::TwoFramings),
            ),
            (
                b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
                Err(F::TwoFramings),
            ),
        ];
        for (lines, expected) in rows {
            let framing = head(&with(lines)).map(|head| head.framing);
            assert_eq!(&framing, expected, "{}", show(lines));
        }
        let http10 = b"POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(head(http10), Err(F::TransferEncoding));
    }

    #[test]
    fn lines_and_fields() {
        use HeadFault as F;
        let rows: &[(&[u8], Option<HeadFault>)] = &[
            (b"A: b\r\n", None),
            (b"A:b\r\n", None),
            (b"A:\r\n", None),
            (b"A: b\tc\r\n", None),
            (b"A: \xa0\x85\r\n", None),
            (b"!#$%&'*+-.^_`|~09azAZ: b\r\n", None),
            (b"A : b\r\n", Some(F::Field)),
            (b"A\t: b\r\n", Some(F::Field)),
            (b": b\r\n", Some(F::Field)),
            (b":\r\n", Some(F::Field)),
            (b"A\r\n", Some(F::Field)),
            (b"A b: c\r\n", Some(F::Field)),
            (b"A(b): c\r\n", Some(F::Field)),
            (b"\xa0A: b\r\n", Some(F::Field)),
            (b"A\x85: b\r\n", Some(F::Field)),
            (b"A: b\r\n c\r\n", Some(F::Folded)),
            (b"A: b\r\n\tc\r\n", Some(F::Folded)),
            (b"A: b\r\n \r\n", Some(F::Folded)),
            (b" A: b\r\n", Some(F::Folded)),
            (b"A: b\nB: c\r\n", Some(F::BareLf)),
            (b"A: b\rB: c\r\n", Some(F::BareCr)),
            (b"A: b\r\r\n", Some(F::BareCr)),
            (b"A: b\n\r\n", Some(F::BareLf)),
            (b"A: \0\r\n", Some(F::ControlCharacter)),
            (b"A\0: b\r\n", Some(F::ControlCharacter)),
            (b"A: \x7f\r\n", Some(F::ControlCharacter)),
            (b"A: b\r\nB: c\r\nC: d\r\n", None),
            (b"A: b\r\nB: c\r\nC: d\r\nD: e\r\n", Some(F::TooManyFields)),
        ];
        for (lines, expected) in rows {
            assert_eq!(&head(&with(lines)).err(), expected, "{}", show(lines));
        }
    }

    #[test]
    fn first_lines() {
        use HeadFault as F;
        type Row = (&'static [u8], Result<(Method, &'static str), HeadFault>);
        let rows: &[Row] = &[
            (b"GET / HTTP/1.1", Ok((Method::Get, "/"))),
            (b"\r\nGET / HTTP/1.1", Ok((Method::Get, "/"))),
            (b"\r\n\r\nGET / HTTP/1.1", Err(F::EmptyLine)),
            (b"\nGET / HTTP/1.1", Err(F::BareLf)),
            (b" GET / HTTP/1.1", Err(F::StartLine)),
            (b"get / HTTP/1.1", Ok((Method::Other, "/"))),
            (b"PRI / HTTP/1.1", Ok((Method::Other, "/"))),
            (b"TRACE / HTTP/1.1", Ok((Method::Other, "/"))),
            (b"G\xc3\x89T / HTTP/1.1", Err(F::StartLine)),
            (b"\xffGET / HTTP/1.1", Err(F::StartLine)),
            (b"GET", Err(F::StartLine)),
            (b"GET /", Err(F::StartLine)),
            (b"GET  / HTTP/1.1", Err(F::StartLine)),
            (b"GET /  HTTP/1.1", Err(F::StartLine)),
            (b"GET / a HTTP/1.1", Err(F::StartLine)),
            (b"GET\t/ HTTP/1.1", Err(F::StartLine)),
            (b"GET /\tHTTP/1.1", Err(F::StartLine)),
            (b"GET / HTTP/1.1 ", Err(F::StartLine)),
            (b"GET / http/1.1", Err(F::StartLine)),
            (b"GET / HTTP/1.10", Err(F::StartLine)),
            (b"GET / HTTP/11", Err(F::StartLine)),
            (b"GET / HTTP/1", Err(F::StartLine)),
            (b"GET / HTTP/01.1", Err(F::StartLine)),
            (b"GET / HTTP/1.1a", Err(F::StartLine)),
            (b"GET / HTTPS/1.1", Err(F::StartLine)),
            (b"GET / HTTP/1.2", Err(F::Version)),
            (b"GET / HTTP/0.9", Err(F::Version)),
            (b"GET / HTTP/2.0", Err(F::Version)),
            (b"PRI * HTTP/2.0", Err(F::Version)),
            (b"GET / HTTP/2.0 ", Err(F::StartLine)),
            (b"GET / HTTP/2.0 x", Err(F::StartLine)),
            (b"GET  / HTTP/2.0", Err(F::StartLine)),
            (
                b"GET /a/b?c=d/e?f HTTP/1.1",
                Ok((Method::Get, "/a/b?c=d/e?f")),
            ),
            (b"GET //h/a HTTP/1.1", Ok((Method::Get, "//h/a"))),
            (b"GET /%2f%C3 HTTP/1.1", Ok((Method::Get, "/%2f%C3"))),
            (b"GET /a%2 HTTP/1.1", Err(F::Target)),
            (b"GET /a%g0 HTTP/1.1", Err(F::Target)),
            (b"GET /a#b HTTP/1.1", Err(F::Fragment)),
            (b"GET /a?b#c HTTP/1.1", Err(F::Fragment)),
            (b"GET # HTTP/1.1", Err(F::Fragment)),
            (b"GET http://h/a#b HTTP/1.1", Err(F::Fragment)),
            (b"GET /\xc3\xa9 HTTP/1.1", Err(F::Target)),
            (b"GET /\xff HTTP/1.1", Err(F::StartLine)),
            (b"GET /a\\b HTTP/1.1", Err(F::Target)),
            (b"GET /a|b HTTP/1.1", Err(F::Target)),
            (b"GET a HTTP/1.1", Err(F::Target)),
            (b"GET ?a HTTP/1.1", Err(F::Target)),
            (b"GET * HTTP/1.1", Err(F::Target)),
            (b"OPTIONS * HTTP/1.1", Ok((Method::Options, "*"))),
            (b"OPTIONS ** HTTP/1.1", Err(F::Target)),
            // The absolute form, where Host is `h`.
            (b"GET http://h HTTP/1.1", Ok((Method::Get, "/"))),
            (b"GET http://h/ HTTP/1.1", Ok((Method::Get, "/"))),
            (b"GET http://h?a HTTP/1.1", Ok((Method::Get, "/?a"))),
            (b"GET HTTP://H/a?b HTTP/1.1", Ok((Method::Get, "/a?b"))),
            (b"GET https://h/a HTTP/1.1", Ok((Method::Get, "/a"))),
            (b"GET http://g/a HTTP/1.1", Err(F::TargetHost)),
            (b"GET http://h:80/a HTTP/1.1", Err(F::TargetHost)),
            (b"GET http://u@h/a HTTP/1.1", Err(F::TargetHost)),
            (b"GET http://h@g/a HTTP/1.1", Err(F::TargetHost)),
            (b"GET http:///a HTTP/1.1", Err(F::TargetHost)),
            (b"GET http://h\\a HTTP/1.1", Err(F::TargetHost)),
            (b"GET http:/h/a HTTP/1.1", Err(F::Target)),
            (b"GET ftp://h/a HTTP/1.1", Err(F::Target)),
            (b"GET http://h/a%zz HTTP/1.1", Err(F::Target)),
            // The authority form.
            (b"CONNECT h:80 HTTP/1.1", Err(F::TargetHost)),
            (b"CONNECT h HTTP/1.1", Err(F::Target)),
            (b"CONNECT / HTTP/1.1", Err(F::Target)),
            (b"GET h:80 HTTP/1.1", Err(F::Target)),
        ];
        for (line, expected) in rows {
            let bytes = [line, &b"\r\nHost: h\r\n\r\n"[..]].concat();
            let read = head(&bytes);
            let read = read
                .as_ref()
                .map(|head| (head.method, head.target.as_str()))
                .map_err(|fault| *fault);
            assert_eq!(&read, expected, "{}", show(line));
        }
        let connect = head(b"CONNECT H:443 HTTP/1.1\r\nHost: h:443\r\n\r\n").unwrap();
        assert_eq!(
            (connect.method, connect.target.as_str()),
            (Method::Connect, "H:443")
        );
    }

    #[test]
    fn hosts() {
        let good: &[(&[u8], &str)] = &[
            (b"Host: h\r\n", "h"),
            (b"hOST:Example.ORG:8080 \r\n", "example.org:8080"),
            (b"Host: [::1]:80\r\n", "[::1]:80"),
        ];
        for (lines, host) in good {
            let bytes = [b"GET / HTTP/1.1\r\n", *lines, b"\r\n"].concat();
            assert_eq!(head(&bytes).unwrap().host, *host);
        }
        let bad: &[&[u8]] = &[
            b"",
            b"Host:\r\n",
            b"Host: h\r\nHost: h\r\n",
            b"Host: h\r\nhost: g\r\n",
            b"Host: h/a\r\n",
            b"Host: h/admin?x=\r\n",
            b"Host: u@h\r\n",
            b"Host: h:0\r\n",
            b"Host: h:65536\r\n",
            b"Host: h, g\r\n",
            b"Host: h\xa0\r\n",
            b"Host: \xc3\xa9\r\n",
            b"Host:\th\r\n",
            b"Host: h\t\r\n",
            b"Host: http://h\r\n",
        ];
        for lines in bad {
            for version in ["1.0", "1.1"] {
                let bytes = [
                    format!("GET / HTTP/{version}\r\n").as_bytes(),
                    *lines,
                    b"\r\n",
                ]
                .concat();
                assert_eq!(head(&bytes), Err(HeadFault::Host), "{}", show(lines));
            }
        }
    }

    #[test]
    fn connection_and_expectation() {
        use HeadFault as F;
        // Version, lines, and: keep alive, continue, chunks.
        type Row = (
            &'static str,
            &'static [u8],
            Result<(bool, bool, bool), HeadFault>,
        );
        let rows: &[Row] = &[
            ("1.1", b"", Ok((true, false, true))),
            (
                "1.1",
                b"Connection: keep-alive\r\n",
                Ok((true, false, true)),
            ),
            ("1.1", b"Connection: close\r\n", Ok((false, false, true))),
            (
                "1.1",
                b"Connection: a,\t CLOSE ,b\r\n",
                Ok((false, false, true)),
            ),
            (
                "1.1",
                b"Connection: a\r\nConnection: close\r\n",
                Ok((false, false, true)),
            ),
            (
                "1.1",
                b"Connection: keep-alive, close\r\n",
                Ok((false, false, true)),
            ),
            ("1.1", b"Connection: closed\r\n", Ok((true, false, true))),
            (
                "1.1",
                b"Connection: Upgrade\r\nUpgrade: h2c\r\n",
                Ok((true, false, true)),
            ),
            ("1.0", b"", Ok((false, false, false))),
            (
                "1.0",
                b"Connection: keep-alive\r\n",
                Ok((false, false, false)),
            ),
            (
                "1.1",
                b"Expect: 100-continue\r\nContent-Length: 1\r\n",
                Ok((true, true, true)),
            ),
            (
                "1.1",
                b"expect: 100-Continue\r\nTransfer-Encoding: chunked\r\n",
                Ok((true, true, true)),
            ),
            ("1.1", b"Expect: 100-continue\r\n", Ok((true, false, true))),
            (
                "1.1",
                b"Expect: 100-continue\r\nContent-Length: 0\r\n",
                Ok((true, false, true)),
            ),
            (
                "1.0",
                b"Expect: 100-continue\r\nContent-Length: 1\r\n",
                Ok((false, false, false)),
            ),
            (
                "1.1",
                b"Expect: 100\r\nContent-Length: 1\r\n",
                Err(F::Expectation),
            ),
            ("1.1", b"Expect:\r\n", Err(F::Expectation)),
            ("1.1", b"Expect: 100-continue, x\r\n", Err(F::Expectation)),
            (
                "1.1",
                b"Expect: 100-continue\r\nExpect: 100-continue\r\n",
                Err(F::Expectation),
            ),
        ];
        for (version, lines, expected) in rows {
            let start = format!("GET / HTTP/{version}\r\nHost: h\r\n");
            let read = head(&[start.as_bytes(), *lines, b"\r\n"].concat());
            let read = read.map(|head| (head.keep_alive, head.expect_continue, head.chunks));
            assert_eq!(&read, expected, "{}", show(lines));
        }
    }

    #[test]
    fn each_fault_has_its_status() {
        let long_line = vec![b'a'; 512];
        let rows: &[(&[u8], u16)] = &[
            (b"GET / HTTP/1.1\r\n\r\n", 400),
            (
                b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n",
                400,
            ),
            (b"GET / HTTP/1.1\r\nHost: h\r\nExpect: x\r\n\r\n", 417),
            (
                b"GET / HTTP/1.1\r\nHost: h\r\na:\r\nb:\r\nc:\r\nd:\r\n\r\n",
                431,
            ),
            (b"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505),
            (&long_line, 431),
        ];
        for (bytes, status) in rows {
            assert_eq!(
                read(bytes).unwrap_err().status(),
                *status,
                "{}",
                show(bytes)
            );
        }
    }

    #[test]
    fn the_limit_of_bytes_is_exact() {
        for (filling, fault) in [(471, None), (472, Some(HeadFault::TooLarge))] {
            let bytes = format!(
                "GET / HTTP/1.1\r\nHost: h\r\nfill-12345: {}\r\n\r\n",
                "x".repeat(filling)
            );
            assert_eq!(bytes.len(), 41 + filling);
            // What stands behind the head does not count.
            let bytes = bytes + "the body, of any length";
            assert_eq!(head(bytes.as_bytes()).err(), fault, "{filling}");
        }
    }

    #[test]
    fn limits_past_the_index_count_as_its_own() {
        let limits = HeadLimits {
            bytes: usize::MAX,
            headers: usize::MAX,
        };
        let large = |length: usize| {
            format!(
                "GET / HTTP/1.1\r\nHost: h\r\na: {}\r\n\r\n",
                "x".repeat(length)
            )
        };
        let parsed = parse_request(large(65_503).as_bytes(), &limits);
        let Ok(Parsed::Complete { head, consumed }) = parsed else {
            panic!()
        };
        assert_eq!(
            (head.headers.get("a").map(<[u8]>::len), consumed),
            (Some(65_503), 65_535)
        );
        assert_eq!(
            parse_request(large(65_504).as_bytes(), &limits),
            Err(HeadFault::TooLarge)
        );
        let many = |count: usize| {
            format!(
                "GET / HTTP/1.1\r\nHost: h\r\n{}\r\n",
                "a: b\r\n".repeat(count)
            )
        };
        assert!(matches!(
            parse_request(many(127).as_bytes(), &limits),
            Ok(Parsed::Complete { .. })
        ));
        assert_eq!(
            parse_request(many(128).as_bytes(), &limits),
            Err(HeadFault::TooManyFields)
        );
    }

    #[test]
    fn pipelined_requests_come_one_after_the_other() {
        let bytes = b"GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n";
        let Ok(Parsed::Complete { head, consumed }) = read(bytes) else {
            panic!()
        };
        assert_eq!(head.path(), "/1");
        let Ok(Parsed::Complete {
            head,
            consumed: second,
        }) = read(&bytes[consumed..])
        else {
            panic!()
        };
        assert_eq!((head.path(), consumed + second), ("/2", bytes.len()));
    }

    #[test]
    fn debug_shows_neither_target_nor_values() {
        let head =
            head(b"GET /secret-path?q HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer secret\r\n\r\n")
                .unwrap();
        assert!(!format!("{head:?}").contains("secret"), "{head:?}");
        assert_eq!((head.path(), head.query()), ("/secret-path", Some("q")));
    }
}
