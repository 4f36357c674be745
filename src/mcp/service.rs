//! What a server offers: the seam between the protocol and the tools.

use std::borrow::Cow;
use std::future::Future;
use std::net::SocketAddr;

use serde_json::value::RawValue;
use smol::channel::{Receiver, Sender};

use super::message::RpcError;
use super::result::ToolResult;
use super::version::Version;
use crate::http::{CallerSocket, RequestHead};
use crate::json::Members;

/// Tools behind an MCP endpoint.
pub trait Service: Send + Sync + 'static {
    /// Who calls, as established by [`Service::admit`].
    type Principal: Send + Sync;

    /// Whether this service answers at `path`. Others are 404.
    fn serves(&self, path: &str) -> bool;

    /// Who calls, by the head alone: before any of the body is read.
    ///
    /// # Errors
    /// [`HttpRefusal`]: 401 for a token that is not ours, 404 for a server that the caller may not know of.
    fn admit(&self, head: &RequestHead, peer: SocketAddr) -> Result<Self::Principal, HttpRefusal>;

    /// The tools, each as JSON, in a fixed order.
    ///
    /// # Errors
    /// [`RpcError`].
    fn tools(
        &self,
        principal: &Self::Principal,
    ) -> impl Future<Output = Result<Vec<Box<RawValue>>, RpcError>> + Send;

    /// Runs one call. The future is dropped the moment the caller leaves.
    ///
    /// # Errors
    /// [`RpcError`] for what is wrong with the request; what went wrong in the tool is a [`ToolResult`].
    fn call(
        &self,
        principal: &Self::Principal,
        call: ToolCall<'_>,
        context: &CallContext,
    ) -> impl Future<Output = Result<ToolResult, RpcError>> + Send;
}

/// A request that is refused before it is MCP.
#[derive(Debug)]
pub struct HttpRefusal {
    /// The status.
    pub status: u16,
    /// Headers that the status wants.
    pub headers: Vec<(&'static str, &'static str)>,
    /// One line for people.
    pub reason: &'static str,
}

/// One `tools/call`.
pub struct ToolCall<'a> {
    /// The tool.
    pub name: Cow<'a, str>,
    /// Its arguments, `{}` where the request has none; one JSON object, scanned.
    pub arguments: &'a RawValue,
    /// The request's own `_meta`, which a gateway never forwards.
    pub meta: Option<Members<'a>>,
    /// The revision that the caller speaks.
    pub version: Version,
}

/// What a call may tell its caller while it runs.
pub struct CallContext {
    /// A look at whether the caller is still there.
    pub caller: CallerSocket,
    events: Sender<Event>,
}

/// Progress of one call.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Grows with every notification; one that does not is left out.
    pub progress: f64,
    /// Where it will end, if that is known.
    pub total: Option<f64>,
    /// For people.
    pub message: Option<String>,
}

/// From a running call to the stream of its answer.
#[derive(Debug)]
pub(super) enum Event {
    /// The call is about to wait: open the stream at once.
    Hold,
    /// For a caller that gave a token.
    Progress(Progress),
}

/// Events held for a caller that reads slowly; what does not fit is left out, for progress is only news.
const EVENTS: usize = 32;

impl CallContext {
    pub(super) fn new(caller: CallerSocket) -> (Self, Receiver<Event>) {
        let (events, receiver) = smol::channel::bounded(EVENTS);
        (Self { caller, events }, receiver)
    }

    /// Says that the call is about to wait, for a person or for an upstream: its answer is opened as a stream at once,
    /// since clients and proxies give up on a silent one.
    pub fn hold(&self) {
        // Full means that the stream is being opened already.
        let _ = self.events.try_send(Event::Hold);
    }

    /// Tells the caller of progress, if it asked to be told.
    pub fn progress(&self, progress: Progress) {
        let _ = self.events.try_send(Event::Progress(progress));
    }
}
