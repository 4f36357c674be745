//! Why a request to a server gave no result.

use std::fmt;

use crate::http::ClientFault;
use crate::http::head::BadHeader;
use crate::mcp::message::RpcError;

/// Why a request to a server gave no result.
#[derive(Clone, Debug)]
pub enum CallFault {
    /// The connection. `sent` in it says whether the server may have acted.
    Connection(ClientFault),
    /// An HTTP status without a JSON-RPC error.
    Status(u16),
    /// The server's own error.
    Rpc(RpcError),
    /// The reply is not MCP as it must be: the server's fault.
    Protocol(&'static str),
    /// What a header needs and is not set, by name: the configuration's fault. Nothing was sent.
    Unset(String),
    /// A header of ours that cannot be sent: the configuration's fault.
    Header,
}

impl CallFault {
    /// Whether the server may have acted: the request was on the wire and nothing says what became of it.
    #[must_use]
    pub const fn may_have_acted(&self) -> bool {
        match self {
            Self::Connection(fault) => fault.sent,
            Self::Protocol(_) => true,
            Self::Status(_) | Self::Rpc(_) | Self::Header | Self::Unset(_) => false,
        }
    }
}

impl fmt::Display for CallFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(fault) => write!(f, "{fault}"),
            Self::Status(401) => f.write_str("HTTP 401: the token was not accepted"),
            Self::Status(404) => f.write_str("HTTP 404: there is no such endpoint or server"),
            Self::Status(status) => write!(f, "HTTP {status}"),
            Self::Rpc(error) => write!(f, "{error}"),
            Self::Protocol(what) => write!(f, "the server's reply is not valid MCP: {what}"),
            Self::Unset(name) => write!(f, "{name} is not set"),
            Self::Header => f.write_str("a configured header cannot be sent"),
        }
    }
}

impl std::error::Error for CallFault {}

impl From<ClientFault> for CallFault {
    fn from(fault: ClientFault) -> Self {
        Self::Connection(fault)
    }
}

impl From<BadHeader> for CallFault {
    fn from(_: BadHeader) -> Self {
        Self::Header
    }
}
