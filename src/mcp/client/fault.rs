//! Why a request to a server gave no result.

use std::fmt;
use std::time::Duration;

use crate::http::ClientFault;
use crate::http::head::BadHeader;
use crate::mcp::message::RpcError;
use crate::world::process::SpawnFault;

/// Why a request to a server gave no result.
#[derive(Clone, Debug)]
pub enum CallFault {
    /// The connection. `sent` in it says whether the server may have acted.
    Connection(ClientFault),
    /// The process of a server ended again and again, and is not started before this has passed.
    Ended {
        /// From now on.
        again_in: Duration,
    },
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
    /// The process of a server could not be started.
    NotStarted(SpawnFault),
}

impl CallFault {
    /// Whether the server may have acted: the request was on the wire and nothing says what became of it.
    #[must_use]
    pub const fn may_have_acted(&self) -> bool {
        match self {
            Self::Connection(fault) => fault.sent,
            Self::Protocol(_) => true,
            Self::Ended { .. }
            | Self::Status(_)
            | Self::Rpc(_)
            | Self::Header
            | Self::NotStarted(_)
            | Self::Unset(_) => false,
        }
    }
}

impl fmt::Display for CallFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(fault) => write!(f, "{fault}"),
            Self::Ended { again_in } => write!(
                f,
                "the server ended again and again; it is started again in {} s at the earliest",
                again_in.as_millis().div_ceil(1000)
            ),
            Self::NotStarted(fault) => write!(f, "{fault}"),
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
