//! The answer to a request: plain JSON when it comes at once, a stream of events when it waits.

use std::future::Future;
use std::time::Duration;

use smol::channel::Receiver;

use super::answering::{Answering, Done, Large, Next, unless};
use super::rest::Piece;
use super::service::Event;
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

/// Answers with what a request comes to; nothing more is said once it is cancelled. Dropping the future drops the request.
pub(super) async fn run(
    world: &World,
    responder: Responder,
    mut answering: Answering<'_>,
) -> Responded {
    // Head and first bytes leave in one write.
    let mut bytes = Vec::new();
    sse::comment(&mut bytes, "held");
    match within(world, OPEN_AFTER, &mut answering).await {
        Some(Next::Done(done)) => {
            let events = &answering.events;
            let sending = async {
                if events.is_empty() {
                    return in_json(responder, done).await;
                }
                match responder.start(200, &STREAM, &bytes).await {
                    Ok(writer) => last(writer, events, done).await,
                    Err(gone) => gone,
                }
            };
            return or_cut(sending, answering.cancelled).await;
        }
        Some(Next::Cancelled) => {
            return match responder.start(200, &STREAM, &bytes).await {
                Ok(writer) => writer.finish(b"").await,
                Err(gone) => gone,
            };
        }
        Some(Next::Event(Event::Message(message))) => {
            sse::event(&mut bytes, Some("message"), &message);
        }
        Some(Next::Event(Event::Hold)) | None => {}
    }
    let mut writer = match responder.start(200, &STREAM, &bytes).await {
        Ok(writer) => writer,
        Err(gone) => return gone,
    };
    loop {
        let mut bytes = Vec::new();
        match within(world, COMMENT_EVERY, &mut answering).await {
            Some(Next::Done(done)) => {
                let sending = last(writer, &answering.events, done);
                return or_cut(sending, answering.cancelled).await;
            }
            Some(Next::Cancelled) => return writer.finish(b"").await,
            Some(Next::Event(Event::Hold)) => continue,
            Some(Next::Event(Event::Message(message))) => {
                sse::event(&mut bytes, Some("message"), &message);
            }
            None => sse::comment(&mut bytes, "still held"),
        }
        if writer.write(&bytes).await.is_err() {
            return writer.abandon();
        }
    }
}

/// What happens next, if anything does in that time.
async fn within(world: &World, time: Duration, answering: &mut Answering<'_>) -> Option<Next> {
    let clock = &world.clock;
    clock
        .timeout(clock.after(time), answering.next())
        .await
        .ok()
}

/// Sends the end of an answer, unless the request is cancelled before that is out.
async fn or_cut(
    sending: impl Future<Output = Responded>,
    cancelled: impl Future<Output = ()>,
) -> Responded {
    unless(cancelled, sending)
        .await
        .unwrap_or_else(Responded::cut)
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

async fn in_json(responder: Responder, mut done: Done) -> Responded {
    let Some(large) = done.large.take() else {
        return whole(responder, done).await;
    };
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
    let body = done.to_json();
    responder.send(done.status, &headers, body.as_bytes()).await
}
