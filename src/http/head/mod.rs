//! The head of a message: from bytes to a request or a reply, and back.
//!
//! Sans-I/O: the shell gives all bytes that it has, from the first byte of the message on, and asks again when more
//! have come. `httparse` splits a head into its tokens; everything that decides where a message ends, whom it is for
//! and whether the connection lives on is decided here, and stricter than the RFCs allow. Whatever a strict peer and
//! a lenient one would read in two ways is refused, since that difference is how requests are smuggled.
//!
//! The rules are those of RFC 9112 (HTTP/1.1) and RFC 9110 (HTTP semantics), named where they are enforced. Where we
//! are stricter, on purpose:
//!
//! - one empty line before a request is skipped (RFC 9112 section 2.2 asks for that), a second one is refused, and
//!   none is skipped before a reply;
//! - every control character but a tab inside a field value is refused, not only CR, LF and NUL;
//! - Content-Length is written once, without a sign, list, blank, tab or leading zero; Transfer-Encoding is written
//!   once and names `chunked` alone; both together are refused;
//! - every request names its host, HTTP/1.0 too, as a name or an address with an optional port that is not 0;
//! - an absolute target names the same host as Host does;
//! - an HTTP/1.0 connection carries one message.
//!
//! `Upgrade` is ignored, as RFC 9110 section 7.8 lets a server do: the request is answered in HTTP/1.1, its body is
//! framed as every other, and nothing is ever passed on unparsed.

mod fault;
mod framing;
mod headers;
mod host;
mod lines;
mod reply;
mod request;
mod writer;

pub use fault::HeadFault;
pub use headers::{Headers, Repeated};
pub use reply::{ResponseHead, parse_response};
pub use request::{RequestHead, parse_request};
pub use writer::{BadHeader, HeadWriter};

/// A request method (RFC 9110 section 9). Names are case-sensitive: `get` is [`Method::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// `GET`.
    Get,
    /// `POST`.
    Post,
    /// `DELETE`.
    Delete,
    /// `PATCH`.
    Patch,
    /// `PUT`.
    Put,
    /// `HEAD`: as `GET`, and the reply has no body.
    Head,
    /// `OPTIONS`.
    Options,
    /// `CONNECT`: asks for a tunnel, which nothing here opens.
    Connect,
    /// Every other token. It never dispatches, and is never sent.
    Other,
}

impl Method {
    /// The method that `token` names.
    pub(crate) fn from_token(token: &str) -> Self {
        match token {
            "GET" => Self::Get,
            "POST" => Self::Post,
            "DELETE" => Self::Delete,
            "PATCH" => Self::Patch,
            "PUT" => Self::Put,
            "HEAD" => Self::Head,
            "OPTIONS" => Self::Options,
            "CONNECT" => Self::Connect,
            _ => Self::Other,
        }
    }

    /// The name on the wire; `None` for [`Method::Other`], whose name is not kept.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Get => Some("GET"),
            Self::Post => Some("POST"),
            Self::Delete => Some("DELETE"),
            Self::Patch => Some("PATCH"),
            Self::Put => Some("PUT"),
            Self::Head => Some("HEAD"),
            Self::Options => Some("OPTIONS"),
            Self::Connect => Some("CONNECT"),
            Self::Other => None,
        }
    }
}

/// How a request's body ends (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Neither framing field: no body (rule 7).
    None,
    /// After so many bytes (rule 6).
    Length(u64),
    /// With the last chunk (rule 4).
    Chunked,
}

/// How a reply's body ends (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyFraming {
    /// No body, whatever the fields say (rule 1).
    None,
    /// After so many bytes (rule 6).
    Length(u64),
    /// With the last chunk (rule 4).
    Chunked,
    /// With the connection (rule 8): a reply cut short looks whole, and the connection carries no other.
    UntilClose,
}

/// What came of looking at the bytes so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed<T> {
    /// Nothing wrong yet, and not the whole head: read more, then ask again with all bytes from the first on.
    Partial,
    /// A whole head.
    Complete {
        /// The head.
        head: T,
        /// How many of the bytes given were the head; the body starts behind them. Never more than were given.
        consumed: usize,
    },
}

/// Most bytes of a head: two cookies and a long token fit, and 1,000 slow heads hold 16 MB.
const HEAD_BYTES: usize = 16_384;

/// Most fields of a head: browsers send about 30, and proxies add about 10.
const HEAD_FIELDS: usize = 100;

/// The most that [`HeadLimits::bytes`] counts for: the index of a head keeps offsets of 16 bits.
const MOST_HEAD_BYTES: usize = u16::MAX as usize;

/// The most that [`HeadLimits::headers`] counts for: tokens are split into an array of this size on the stack (4 KB).
const MOST_HEAD_FIELDS: usize = 128;

/// Bounds of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes, first line and last empty line included. Above 65,535 it counts as 65,535.
    pub bytes: usize,
    /// Fields. Above 128 it counts as 128.
    pub headers: usize,
}

impl HeadLimits {
    /// The bytes that are looked at.
    fn most_bytes(&self) -> usize {
        self.bytes.min(MOST_HEAD_BYTES)
    }

    /// Room for the fields of one head.
    fn room<'b>(&self) -> ([httparse::Header<'b>; MOST_HEAD_FIELDS], usize) {
        (
            [httparse::EMPTY_HEADER; MOST_HEAD_FIELDS],
            self.headers.min(MOST_HEAD_FIELDS),
        )
    }
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self {
            bytes: HEAD_BYTES,
            headers: HEAD_FIELDS,
        }
    }
}

/// Whether `byte` may stand in a token (RFC 9110 section 5.6.2).
pub(crate) const fn is_token_byte(byte: u8) -> bool {
    matches!(
        byte,
        b'!' | b'#'
            | b'$'
            | b'%'
            | b'&'
            | b'\''
            | b'*'
            | b'+'
            | b'-'
            | b'.'
            | b'^'
            | b'_'
            | b'`'
            | b'|'
            | b'~'
    ) || byte.is_ascii_alphanumeric()
}
