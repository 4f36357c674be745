//! The answer to a request: plain JSON when it comes at once, a stream of events when it waits.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use smol::channel::Receiver;

use super::service::Event;
use crate::http::sse;
use crate::http::{Responded, Responder, StreamWriter};
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
        Next::Done(done) if events.is_empty() => return whole(responder, done).await,
        Next::Done(done) => return drained(responder, bytes, &events, done).await,
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
            Next::Done(done) => return last(writer, &events, done).await,
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

/// A request that told something and was done at once.
async fn drained(
    responder: Responder,
    mut bytes: Vec<u8>,
    events: &Receiver<Event>,
    done: Done,
) -> Responded {
    append(&mut bytes, events, &done);
    match responder.start(200, &STREAM, &bytes).await {
        Ok(writer) => writer.finish(b"").await,
        Err(gone) => gone,
    }
}

async fn last(writer: StreamWriter, events: &Receiver<Event>, done: Done) -> Responded {
    let mut bytes = Vec::new();
    append(&mut bytes, events, &done);
    writer.finish(&bytes).await
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
