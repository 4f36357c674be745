//! MCP: messages, a server and a client for both eras, over Streamable HTTP and over standard streams.
//!
//! Two eras share one endpoint. *Legacy* revisions open with `initialize`; the *modern* one, 2026-07-28, says in every
//! request what it needs. Over HTTP neither leaves state here between requests; over standard streams the connection is
//! the session of the legacy one.

mod answering;
mod calls;
mod capabilities;
mod changes;
pub mod client;
mod crowd;
mod dispatch;
mod envelope;
pub mod header;
pub mod join;
mod lines;
mod listen;
pub mod message;
mod param_headers;
mod request;
mod rest;
mod result;
mod rounds;
mod server;
mod service;
mod session;
mod stdio;
mod stream;
mod subscriptions;
mod version;

pub use capabilities::{Ability, ClientCapabilities};
pub use changes::{Announcer, Change, Changes};
pub use client::{CallFault, Client};
pub use message::{Id, RpcError};
pub use param_headers::ParamHeaders;
pub use request::Request;
pub use result::{InputRequest, KeepMeta, ResultKind, RpcResult};
pub use rounds::missing_ability;
pub use server::{Server, ServerSettings};
pub use service::{Announced, CallContext, HttpRefusal, Offer, Progress, Service, is_log_level};
pub use session::is_session_id;
pub use stdio::serve_stdio;
pub use version::Version;

/// The member of `_meta` that a modern request names its revision in.
pub const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The member of `_meta` with what the client can do, in that request.
pub const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The member of `_meta` with the client's name; self-reported, and nothing depends on it.
pub const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";
/// The member of `_meta` with the least severity of log messages that a modern request wants.
pub const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The member of a result's `_meta` with the server's name.
pub const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// This program's `clientInfo` and `serverInfo`, as JSON.
pub(crate) fn implementation() -> String {
    format!(
        r#"{{"name":"countersign","version":"{}"}}"#,
        env!("CARGO_PKG_VERSION")
    )
}
