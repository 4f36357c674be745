//! Heads of our own, which nothing put into them can break.

use std::fmt;

use super::host::is_host;
use super::{Method, ReplyFraming, is_token_byte};

/// Writes one head. The framing and whether the connection closes have methods of their own and are written once, at
/// the end, so that no head has two.
#[derive(Clone)]
pub struct HeadWriter {
    bytes: Vec<u8>,
    framing: Option<ReplyFraming>,
    close: bool,
    /// A 1xx or 204: no framing field may stand in it.
    bodiless: bool,
}

/// Why a part of a head was not written: our own fault, or that of the configuration it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadHeader {
    /// The host is not one.
    Host,
    /// The method is one that we do not send.
    Method,
    /// The name is not a token (RFC 9110 section 5.1).
    Name,
    /// The name is one that the writer writes itself.
    Reserved,
    /// The target is not path and query in visible ASCII.
    Target,
    /// The value has a control character, a byte outside ASCII, or a blank at an end (RFC 9110 section 5.5).
    Value,
}

impl fmt::Display for BadHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "our request has a malformed host",
            Self::Method => "our request has a method that is never sent",
            Self::Name => "our header name is not a token",
            Self::Reserved => "our header name is one that the codec writes itself",
            Self::Target => "our request has a malformed target",
            Self::Value => "our header value has a control character, a non-ascii character or a blank at an end",
        })
    }
}

impl std::error::Error for BadHeader {}

/// Names that decide where a message ends or whom it is for.
const RESERVED: [&str; 4] = ["connection", "content-length", "host", "transfer-encoding"];

impl HeadWriter {
    /// Starts a request for `target` (path and query, from the first slash on) at `host` (with its port, unless that
    /// is the scheme's own).
    ///
    /// # Errors
    /// [`BadHeader`] when one of them is not what it should be: a line break in either would start another request.
    pub fn request(method: &Method, target: &str, host: &str) -> Result<Self, BadHeader> {
        let name = match method {
            Method::Connect | Method::Other => None,
            method => method.name(),
        };
        let name = name.ok_or(BadHeader::Method)?;
        // Wider than what `parse_request` accepts: a URL keeps `|` and its like in a query (WHATWG), and the other
        // side decides about them. A fragment is never sent (RFC 9110 section 7.1).
        if !target.starts_with('/')
            || !target
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'#')
        {
            return Err(BadHeader::Target);
        }
        if !is_host(host) {
            return Err(BadHeader::Host);
        }
        // RFC 9112 section 3.2: Host right behind the first line.
        Ok(Self::begin(
            format!("{name} {target} HTTP/1.1\r\nhost: {host}\r\n"),
            false,
        ))
    }

    /// Starts a reply. A status outside 100 to 599 is a mistake of ours, and goes out as 500.
    #[must_use]
    pub fn response(status: u16) -> Self {
        let status = if (100..600).contains(&status) {
            status
        } else {
            500
        };
        // RFC 9112 section 4: the blank before the reason stays even where there is none.
        Self::begin(
            format!("HTTP/1.1 {status} {}\r\n", reason(status)),
            status < 200 || matches!(status, 204 | 304),
        )
    }

    fn begin(line: String, bodiless: bool) -> Self {
        Self {
            bytes: line.into_bytes(),
            framing: None,
            close: false,
            bodiless,
        }
    }

    /// Adds a field.
    ///
    /// # Errors
    /// [`BadHeader`]; nothing is written then.
    pub fn header(&mut self, name: &str, value: &str) -> Result<(), BadHeader> {
        if name.is_empty() || !name.bytes().all(is_token_byte) {
            return Err(BadHeader::Name);
        }
        if RESERVED
            .iter()
            .any(|reserved| name.eq_ignore_ascii_case(reserved))
        {
            return Err(BadHeader::Reserved);
        }
        // What the other side reads must be what was written, so nothing it would strip.
        let bytes = value.as_bytes();
        let clean = bytes
            .iter()
            .all(|&byte| matches!(byte, b'\t' | b' '..=b'~'))
            && bytes.trim_ascii() == bytes;
        if !clean {
            return Err(BadHeader::Value);
        }
        for part in [name.as_bytes(), b": ", bytes, b"\r\n"] {
            self.bytes.extend_from_slice(part);
        }
        Ok(())
    }

    /// The body has so many bytes. Ignored for 1xx, 204 (RFC 9110 section 8.6) and 304.
    pub const fn length(&mut self, length: u64) {
        self.framing = Some(ReplyFraming::Length(length));
    }

    /// The body comes in chunks. Ignored for 1xx, 204 (RFC 9112 section 6.1) and 304.
    pub const fn chunked(&mut self) {
        self.framing = Some(ReplyFraming::Chunked);
    }

    /// The connection closes behind this message (RFC 9112 section 9.6). With neither [`HeadWriter::length`] nor
    /// [`HeadWriter::chunked`], a reply's body ends with it.
    pub const fn close(&mut self) {
        self.close = true;
    }

    /// Whether no body may follow, whatever the method was. RFC 9112 section 6.3 rule 1: "any response with a 1xx
    /// (Informational), 204 (No Content), or 304 (Not Modified) status code is always terminated by the first empty
    /// line".
    pub(in crate::http) const fn is_bodiless(&self) -> bool {
        self.bodiless
    }

    /// The whole head, to be followed by the body.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let mut bytes = self.bytes;
        match self.framing {
            Some(ReplyFraming::Length(length)) if !self.bodiless => {
                bytes.extend_from_slice(format!("content-length: {length}\r\n").as_bytes());
            }
            Some(ReplyFraming::Chunked) if !self.bodiless => {
                bytes.extend_from_slice(b"transfer-encoding: chunked\r\n");
            }
            _ => {}
        }
        if self.close {
            bytes.extend_from_slice(b"connection: close\r\n");
        }
        bytes.extend_from_slice(b"\r\n");
        bytes
    }
}

/// For people who read the wire; nothing reads it otherwise (RFC 9112 section 4).
const fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        303 => "See Other",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::{Framing, HeadLimits, Parsed, parse_request, parse_response};
    use super::*;

    fn text(writer: HeadWriter) -> String {
        String::from_utf8(writer.finish()).unwrap()
    }

    #[test]
    fn heads_as_written() {
        let mut head = HeadWriter::request(&Method::Post, "/mcp?a=b|c", "h:8080").unwrap();
        head.header("Accept", "a, b\tc").unwrap();
        head.header("X-Empty", "").unwrap();
        head.chunked();
        head.length(5);
        assert_eq!(
            text(head),
            "POST /mcp?a=b|c HTTP/1.1\r\nhost: h:8080\r\nAccept: a, b\tc\r\nX-Empty: \r\ncontent-length: 5\r\n\r\n"
        );
        let mut head = HeadWriter::response(200);
        head.length(5);
        head.chunked();
        head.close();
        assert_eq!(
            text(head),
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
        );
        for status in [100, 204] {
            let mut head = HeadWriter::response(status);
            head.length(0);
            let text = text(head);
            assert!(text.ends_with("\r\n\r\n") && !text.contains(':'), "{text}");
        }
        for (status, line) in [
            (299, "HTTP/1.1 299 \r\n\r\n"),
            (0, "HTTP/1.1 500 Internal Server Error\r\n\r\n"),
        ] {
            assert_eq!(text(HeadWriter::response(status)), line);
        }
        assert!(text(HeadWriter::response(1000)).starts_with("HTTP/1.1 500 "));
    }

    #[test]
    fn nothing_that_breaks_a_head_gets_into_it() {
        let mut head = HeadWriter::response(200);
        for value in [
            "a\r\nb: c",
            "a\rb",
            "a\nb",
            "a\0",
            "a\x0b",
            "\x7f",
            " a",
            "a ",
            "\ta",
            "\u{e9}",
            "a\r\n",
            "\n",
        ] {
            assert_eq!(head.header("a", value), Err(BadHeader::Value), "{value:?}");
        }
        for name in [
            "", "a b", "a:", "a\r\n", " a", "a\0", "\u{e9}", "a(", "a/b", "\"",
        ] {
            assert_eq!(head.header(name, "v"), Err(BadHeader::Name), "{name:?}");
        }
        for name in ["Content-Length", "TRANSFER-ENCODING", "host", "Connection"] {
            assert_eq!(head.header(name, "v"), Err(BadHeader::Reserved), "{name}");
        }
        assert_eq!(text(head), "HTTP/1.1 200 OK\r\n\r\n");

        for target in [
            "",
            "a",
            "*",
            "/ b",
            "/a#b",
            "/\r\n",
            "/\u{e9}",
            "/\0",
            "http://h/",
        ] {
            assert_eq!(
                HeadWriter::request(&Method::Get, target, "h").err(),
                Some(BadHeader::Target),
                "{target:?}"
            );
        }
        for host in ["", "h/", "h\r\n", "u@h", "h:0", "h h"] {
            assert_eq!(
                HeadWriter::request(&Method::Get, "/", host).err(),
                Some(BadHeader::Host),
                "{host:?}"
            );
        }
        for method in [Method::Other, Method::Connect] {
            assert_eq!(
                HeadWriter::request(&method, "/", "h").err(),
                Some(BadHeader::Method)
            );
        }
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let methods = [
            Method::Get,
            Method::Post,
            Method::Delete,
            Method::Patch,
            Method::Put,
            Method::Head,
            Method::Options,
        ];
        for method in methods {
            let mut head = HeadWriter::request(&method, "/a?b", "h:1").unwrap();
            head.header("x", "y").unwrap();
            head.chunked();
            let bytes = head.finish();
            let parsed = parse_request(&bytes, &HeadLimits::default()).unwrap();
            let Parsed::Complete { head, consumed } = parsed else {
                panic!()
            };
            assert_eq!(consumed, bytes.len());
            assert_eq!(
                (head.method, head.path(), head.query()),
                (method, "/a", Some("b"))
            );
            assert_eq!(
                (head.host.as_str(), head.framing),
                ("h:1", Framing::Chunked)
            );
            assert_eq!(head.headers.only("x"), Ok(Some("y")));
        }
        for status in 100..600 {
            let bytes = HeadWriter::response(status).finish();
            let parsed = parse_response(&bytes, &Method::Get, &HeadLimits::default()).unwrap();
            let Parsed::Complete { head, .. } = parsed else {
                panic!()
            };
            assert_eq!(head.status, status);
        }
    }
}
