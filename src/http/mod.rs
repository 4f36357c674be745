//! HTTP/1.1, by hand and strict: a sans-I/O codec, and the shell of sockets and deadlines around it.
//!
//! [`head`](RequestHead), body and SSE take bytes and give events; they hold no socket and read no clock. [`serve`]
//! and [`Client`] move the bytes. Whatever can be read in two ways is refused: what a strict peer and a lenient one
//! disagree about is how requests are smuggled.

pub mod body;
mod caller;
mod client;
mod guard;
pub mod head;
mod inbound;
mod limits;
mod pool;
mod respond;
mod server;
pub mod sse;
pub(crate) mod throttle;

pub use caller::{Caller, CallerSocket};
pub use client::{Client, ClientFault, Connection, FaultKind, OutRequest, Reply};
pub use guard::Guard;
pub use head::{Headers, Method, RequestHead, ResponseHead};
pub use inbound::{BodyReadFault, BodyReader, ReceivedBody};
pub use limits::{Budget, Limits};
pub use respond::{Responded, Responder, StreamClosed, StreamWriter};
pub use server::{Handler, Request, serve};
