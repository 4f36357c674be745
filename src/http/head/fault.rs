//! Why a head was refused.

use std::fmt;

/// Why a head was refused. Always the fault of the peer that sent it: the caller's for a request, the upstream's or
/// endpoint's for a reply. After any of them the connection is good for one answer at most: where the next message
/// starts is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadFault {
    /// A carriage return that no line feed follows.
    BareCr,
    /// A line feed that no carriage return precedes.
    BareLf,
    /// Content-Length is not one plain number.
    ContentLength,
    /// A control character other than a tab.
    ControlCharacter,
    /// An empty line where the first line is due.
    EmptyLine,
    /// An expectation other than `100-continue`.
    Expectation,
    /// A field line is not a token, a colon and a value.
    Field,
    /// A field value that goes on in the next line.
    Folded,
    /// The target has a fragment.
    Fragment,
    /// Host is missing, repeated, or not a host with an optional port.
    Host,
    /// The first line is not one of HTTP/1.1.
    StartLine,
    /// A status outside 100 to 599.
    Status,
    /// The target has no form that this server takes.
    Target,
    /// The target names another host than Host does.
    TargetHost,
    /// More bytes than allowed.
    TooLarge,
    /// More fields than allowed.
    TooManyFields,
    /// Transfer-Encoding is not `chunked` alone, in HTTP/1.1.
    TransferEncoding,
    /// Transfer-Encoding and Content-Length together.
    TwoFramings,
    /// A framing field in a reply that cannot have a body.
    UnexpectedBody,
    /// A version of HTTP other than 1.0 and 1.1.
    Version,
}

impl HeadFault {
    /// The status to answer a refused request with.
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self {
            // RFC 9110 section 10.1.1.
            Self::Expectation => 417,
            // RFC 6585 section 5.
            Self::TooLarge | Self::TooManyFields => 431,
            // RFC 9110 section 15.6.6.
            Self::Version => 505,
            // RFC 9112 section 6.1 would have 501 for a coding that we do not know. A request whose end we do not
            // know is bad before anything else.
            _ => 400,
        }
    }
}

impl fmt::Display for HeadFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BareCr => "the peer sent a carriage return alone in the head",
            Self::BareLf => "the peer sent a line feed alone in the head",
            Self::ContentLength => "the peer sent a content-length that is not one plain number",
            Self::ControlCharacter => "the peer sent a control character in the head",
            Self::EmptyLine => "the peer sent an empty line in place of the first line",
            Self::Expectation => "the peer expects something other than 100-continue",
            Self::Field => "the peer sent a malformed field line",
            Self::Folded => "the peer folded a field value over two lines",
            Self::Fragment => "the peer sent a target with a fragment",
            Self::Host => "the peer sent no host, several, or a malformed one",
            Self::StartLine => "the peer sent a malformed first line",
            Self::Status => "the peer sent a status outside 100 to 599",
            Self::Target => "the peer sent a malformed target",
            Self::TargetHost => "the peer sent a target for another host than its host field",
            Self::TooLarge => "the peer sent a head that is too large",
            Self::TooManyFields => "the peer sent too many fields",
            Self::TransferEncoding => "the peer sent a transfer-encoding other than chunked alone",
            Self::TwoFramings => "the peer sent both transfer-encoding and content-length",
            Self::UnexpectedBody => "the peer framed a body where there can be none",
            Self::Version => "the peer speaks a version of http other than 1.0 and 1.1",
        })
    }
}

impl std::error::Error for HeadFault {}
