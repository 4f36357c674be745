//! The answer to a request: plain JSON when it comes at once, a stream of events when it waits.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use smol::channel::Receiver;

use super::client::CallFault;
use super::rest::{Piece, Rest};
use super::result::{KeepMeta, RpcResult};
use super::service::Event;
use super::version::Version;
use crate::http::sse;
use crate::http::{Responded, Responder, StreamClosed, StreamWriter};
use crate::world::World;

/// How long a request may stay unanswered before its stream is opened without its asking.
const OPEN_AFTER: Duration = Duration::from_secs(1);

/// Between comments on a silent stream. Clients in use give up on one after 300 s, and proxies after 60.
pub(super) const COMMENT_EVERY: Duration = Duration::from_secs(15);

/// `X-Accel-Buffering` asks proxies not to hold events back.
pub(super) const STREAM: [(&str, &str); 3] = [
    ("content-type", "text/event-stream"),
    ("cache-control", "no-store"),
    ("x-accel-buffering", "no"),
];

/// The headers of a plain answer.
pub(super) const JSON: [(&str, &str); 2] = [
    ("content-type", "application/json"),
    ("cache-control", "no-store"),
];

/// When to try again: what fills a limit here is calls that wait, and any of them may end at any time.
pub(super) const RETRY_SECONDS: &str = "1";

/// What a request, or a batch of them, came to.
pub(super) struct Done {
    /// The status, where no stream is open yet.
    pub(super) status: u16,
    /// The messages, each a whole one of JSON-RPC.
    pub(super) messages: Vec<String>,
    /// Whether they go out as an array, where no stream is open yet.
    pub(super) is_batch: bool,
    /// A last message of which most is still to come.
    pub(super) large: Option<Large>,
}

impl Done {
    /// One message.
    pub(super) fn one(status: u16, message: String) -> Self {
        Self {
            status,
            messages: vec![message],
            is_batch: false,
            large: None,
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
    pub(super) method: String,
    pub(super) version: Version,
}

impl Large {
    /// What follows the members that came in pieces: the end of the message.
    fn end(&self, mut last: RpcResult, any: bool) -> String {
        if let Some(keeps) = self.keeps {
            last.retain_meta(keeps);
        }
        let members = last.members_to_json(&self.method, self.version);
        let comma = if any && !members.is_empty() { "," } else { "" };
        format!("{comma}{members}}}}}")
    }

    /// The whole message, where it cannot go out in pieces; at most `limit` bytes.
    pub(super) async fn gather(mut self, limit: usize) -> Result<String, CallFault> {
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

enum Next {
    Done(Done),
    Event(Event),
    Cancelled,
    Tick,
}

/// Runs `request` and answers with what it comes to; nothing more is said once `cancelled` is ready. Dropping the future
/// drops the request.
pub(super) async fn run(
    world: &World,
    responder: Responder,
    mut request: Pin<Box<dyn Future<Output = Done> + Send + '_>>,
    events: Receiver<Event>,
    cancelled: impl Future<Output = ()> + Send,
) -> Responded {
    let mut cancelled = pin!(cancelled);
    let mut next = async |wait: Duration| {
        let mut tick = world.clock.sleep(wait);
        let mut event = pin!(events.recv());
        poll_fn(|cx| {
            if cancelled.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Next::Cancelled);
            }
            // What was told before the end goes out before it.
            if let Poll::Ready(Ok(event)) = event.as_mut().poll(cx) {
                return Poll::Ready(Next::Event(event));
            }
            if let Poll::Ready(done) = request.as_mut().poll(cx) {
                return Poll::Ready(Next::Done(done));
            }
            Pin::new(&mut tick).poll(cx).map(|()| Next::Tick)
        })
        .await
    };
    // Head and first bytes leave in one write.
    let mut bytes = Vec::new();
    sse::comment(&mut bytes, "held");
    match next(OPEN_AFTER).await {
        Next::Done(Done {
            large: Some(large), ..
        }) if events.is_empty() => {
            let sending = in_json(responder, large);
            return or_cut(sending, cancelled).await;
        }
        Next::Done(done) if events.is_empty() => return whole(responder, done).await,
        Next::Done(done) => {
            let sending = async {
                match responder.start(200, &STREAM, &bytes).await {
                    Ok(writer) => last(writer, &events, done).await,
                    Err(gone) => gone,
                }
            };
            return or_cut(sending, cancelled).await;
        }
        Next::Event(Event::Message(message)) => sse::event(&mut bytes, Some("message"), &message),
        Next::Event(Event::Hold) | Next::Tick | Next::Cancelled => {}
    }
    let mut writer = match responder.start(200, &STREAM, &bytes).await {
        Ok(writer) => writer,
        Err(gone) => return gone,
    };
    loop {
        let mut bytes = Vec::new();
        match next(COMMENT_EVERY).await {
            Next::Done(done) => return or_cut(last(writer, &events, done), cancelled).await,
            Next::Cancelled => return writer.finish(b"").await,
            Next::Event(Event::Hold) => continue,
            Next::Event(Event::Message(message)) => {
                sse::event(&mut bytes, Some("message"), &message);
            }
            Next::Tick => sse::comment(&mut bytes, "still held"),
        }
        if writer.write(&bytes).await.is_err() {
            return writer.abandon();
        }
    }
}

/// Sends the end of an answer, unless the request is cancelled before that is out.
async fn or_cut(
    sending: impl Future<Output = Responded>,
    cancelled: Pin<&mut impl Future<Output = ()>>,
) -> Responded {
    let cut = async {
        cancelled.await;
        Responded::cut()
    };
    smol::future::or(cut, sending).await
}

async fn last(mut writer: StreamWriter, events: &Receiver<Event>, mut done: Done) -> Responded {
    let mut bytes = Vec::new();
    append(&mut bytes, events, &done);
    let Some(large) = done.large.take() else {
        return writer.finish(&bytes).await;
    };
    bytes.extend_from_slice(b"event: message\ndata: ");
    bytes.extend_from_slice(large.begin.as_bytes());
    match writer.write(&bytes).await {
        Ok(()) => in_pieces(writer, large, b"\n\n").await,
        Err(StreamClosed) => writer.abandon(),
    }
}

async fn in_json(responder: Responder, large: Large) -> Responded {
    match responder.start(200, &JSON, large.begin.as_bytes()).await {
        Ok(writer) => in_pieces(writer, large, b"").await,
        Err(gone) => gone,
    }
}

/// Passes the rest of an answer on as it comes: the next piece is read when the last one is gone. A fault found late cuts
/// the answer, so that nobody takes it for whole.
async fn in_pieces(mut writer: StreamWriter, mut large: Large, end: &[u8]) -> Responded {
    let mut any = false;
    loop {
        match large.rest.next().await {
            Ok(Piece::Members(bytes)) => {
                any = true;
                if writer.write(&bytes).await.is_err() {
                    return writer.abandon();
                }
            }
            Ok(Piece::Last(last)) => {
                let mut bytes = large.end(last, any).into_bytes();
                bytes.extend_from_slice(end);
                return writer.finish(&bytes).await;
            }
            Err(fault) => {
                log::warn!("a large answer is cut: {fault}");
                return writer.abandon();
            }
        }
    }
}

/// What was told last, and the end.
fn append(bytes: &mut Vec<u8>, events: &Receiver<Event>, done: &Done) {
    while let Ok(event) = events.try_recv() {
        if let Event::Message(message) = event {
            sse::event(bytes, Some("message"), &message);
        }
    }
    for message in &done.messages {
        sse::event(bytes, Some("message"), message);
    }
}

/// A whole JSON answer. "429 and 503 with `Retry-After`" (interface).
pub(super) async fn whole(responder: Responder, done: Done) -> Responded {
    let mut headers = JSON.to_vec();
    if matches!(done.status, 429 | 503) {
        headers.push(("retry-after", RETRY_SECONDS));
    }
    let body = match (done.is_batch, &done.messages[..]) {
        (false, [message]) => message.clone(),
        (_, messages) => format!("[{}]", messages.join(",")),
    };
    responder.send(done.status, &headers, body.as_bytes()).await
}
