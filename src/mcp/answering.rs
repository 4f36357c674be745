//! A request on its way to its answer, whatever carries it there.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use smol::channel::Receiver;

use super::client::CallFault;
use super::message::{Id, RpcError, response};
use super::request::Request;
use super::rest::{Piece, Rest};
use super::result::{KeepMeta, RpcResult};
use super::service::{CallContext, Event};
use super::version::Version;

/// A request, or a batch of them, that is being answered. Dropping it drops them.
pub(super) struct Answering<'a> {
    /// What it will come to.
    pub(super) request: Pin<Box<dyn Future<Output = Done> + Send + 'a>>,
    /// What it tells meanwhile.
    pub(super) events: Receiver<Event>,
    /// Ready when a message has cancelled it.
    pub(super) cancelled: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
}

/// What becomes of a request.
pub(super) enum Next {
    /// The end; what was told last may still be among the events.
    Done(Done),
    Event(Event),
    /// Nothing more may be said.
    Cancelled,
}

impl Answering<'_> {
    /// What happens next; nothing does after [`Next::Done`] or [`Next::Cancelled`]. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Next {
        let mut event = pin!(self.events.recv());
        poll_fn(|cx| {
            if self.cancelled.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Next::Cancelled);
            }
            // What was told before the end goes out before it.
            if let Poll::Ready(Ok(event)) = event.as_mut().poll(cx) {
                return Poll::Ready(Next::Event(event));
            }
            self.request.as_mut().poll(cx).map(Next::Done)
        })
        .await
    }
}

/// Does `sending`, unless the request is cancelled before that is done.
pub(super) async fn unless<T>(
    cancelled: impl Future<Output = ()>,
    sending: impl Future<Output = T>,
) -> Option<T> {
    let cancelled = async {
        cancelled.await;
        None
    };
    smol::future::or(cancelled, async { Some(sending.await) }).await
}

/// What a request, or a batch of them, came to.
pub(super) struct Done {
    /// The HTTP status, where no stream is open yet.
    pub(super) status: u16,
    /// The messages, each a whole one of JSON-RPC.
    pub(super) messages: Vec<String>,
    /// Whether they go out as an array, where no stream is open yet.
    pub(super) is_batch: bool,
    /// A last message of which most is still to come.
    pub(super) large: Option<Large>,
    /// What the request keeps until its answer is out.
    pub(super) _kept: Option<CallContext>,
}

impl Done {
    /// One message.
    pub(super) fn one(status: u16, message: String) -> Self {
        Self {
            status,
            messages: vec![message],
            is_batch: false,
            large: None,
            _kept: None,
        }
    }

    /// What `request` came to, as it is answered.
    pub(super) fn of(
        id: &Id,
        request: &Request<'_>,
        result: Result<RpcResult, RpcError>,
        kept: CallContext,
    ) -> Self {
        let done = match result {
            Ok(mut result) => match result.take_rest() {
                Some((rest, keeps)) => Self {
                    status: 200,
                    messages: Vec::new(),
                    is_batch: false,
                    large: Some(Large {
                        begin: format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"#, id.as_json()),
                        rest,
                        keeps,
                        private: result.is_private(),
                        method: request.method.clone().into_owned(),
                        version: request.version,
                    }),
                    _kept: None,
                },
                None => {
                    let result = result.to_json(&request.method, request.version);
                    Self::one(200, response(id, &result))
                }
            },
            Err(error) => {
                let error = error.of_era(request.version);
                Self::one(error.status, error.to_json(Some(id)))
            }
        };
        Self {
            _kept: Some(kept),
            ..done
        }
    }

    /// One text of JSON, where nothing is still to come.
    pub(super) fn to_json(&self) -> String {
        match (self.is_batch, &self.messages[..]) {
            (false, [message]) => message.clone(),
            (_, messages) => format!("[{}]", messages.join(",")),
        }
    }

    /// The text of an answer that has to be whole, with what is still to come of it; of that at most `limit` bytes.
    pub(super) async fn in_one_piece(mut self, id: Option<&Id>, limit: usize) -> String {
        match self.large.take() {
            None => self.to_json(),
            Some(large) => large
                .gather(limit)
                .await
                .unwrap_or_else(|fault| RpcError::new(-32603, fault.to_string()).to_json(id)),
        }
    }
}

/// An answer that is too large to be held.
pub(super) struct Large {
    /// The message up to the members of its result.
    pub(super) begin: String,
    pub(super) rest: Rest,
    /// Which `_meta` of it is passed on.
    pub(super) keeps: Option<KeepMeta>,
    /// Whether it may be kept for its caller alone.
    pub(super) private: bool,
    pub(super) method: String,
    pub(super) version: Version,
}

impl Large {
    /// What follows the members that came in pieces: the end of the message.
    pub(super) fn end(&self, mut last: RpcResult, any: bool) -> String {
        if let Some(keeps) = self.keeps {
            last.retain_meta(keeps);
        }
        if self.private {
            last.make_private();
        }
        let members = last.members_to_json(&self.method, self.version);
        let comma = if any && !members.is_empty() { "," } else { "" };
        format!("{comma}{members}}}}}")
    }

    /// The whole message, where it cannot go out in pieces; at most `limit` bytes.
    async fn gather(mut self, limit: usize) -> Result<String, CallFault> {
        let mut message = std::mem::take(&mut self.begin).into_bytes();
        let begun = message.len();
        loop {
            match self.rest.next().await? {
                Piece::Members(bytes) if message.len() + bytes.len() <= limit => {
                    message.extend_from_slice(&bytes);
                }
                Piece::Members(_) => {
                    return Err(CallFault::Protocol("an answer that is too large"));
                }
                Piece::Last(last) => {
                    message.extend_from_slice(self.end(last, message.len() > begun).as_bytes());
                    let message = String::from_utf8(message);
                    return message.map_err(|_| CallFault::Protocol("bytes that are no text"));
                }
            }
        }
    }
}
