//! The answer to one call: plain JSON when it comes at once, a stream of events when it waits.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use serde_json::value::RawValue;
use smol::channel::Receiver;

use super::message::{Id, RpcError, response};
use super::result::ToolResult;
use super::service::{Event, Progress};
use super::version::Version;
use crate::http::sse;
use crate::http::{Responded, Responder, StreamWriter};
use crate::json::quote;
use crate::world::World;

/// How long a call may stay unanswered before its stream is opened without its asking.
const OPEN_AFTER: Duration = Duration::from_secs(1);

/// Between comments on a silent stream. Clients in use give up on one after 300 s, and proxies after 60.
const COMMENT_EVERY: Duration = Duration::from_secs(15);

/// `X-Accel-Buffering` asks proxies not to hold events back.
const HEADERS: [(&str, &str); 3] = [
    ("content-type", "text/event-stream"),
    ("cache-control", "no-store"),
    ("x-accel-buffering", "no"),
];

/// One call on its way to its caller.
pub(super) struct Answer<'a> {
    pub(super) world: &'a World,
    pub(super) id: &'a Id,
    pub(super) version: Version,
    /// The caller's progress token, as JSON.
    pub(super) token: Option<&'a RawValue>,
}

enum Next {
    Done(Result<ToolResult, RpcError>),
    Event(Event),
    Tick,
}

impl Answer<'_> {
    /// Runs `call` and answers with its result. Dropping the future drops the call.
    pub(super) async fn run(
        self,
        responder: Responder,
        mut call: Pin<&mut impl Future<Output = Result<ToolResult, RpcError>>>,
        events: Receiver<Event>,
    ) -> Responded {
        let mut next = async |wait: Duration| {
            let mut tick = self.world.clock.sleep(wait);
            let mut event = pin!(events.recv());
            poll_fn(|cx| {
                if let Poll::Ready(done) = call.as_mut().poll(cx) {
                    return Poll::Ready(Next::Done(done));
                }
                // The sender lives in the call's context, which outlives the call.
                if let Poll::Ready(Ok(event)) = event.as_mut().poll(cx) {
                    return Poll::Ready(Next::Event(event));
                }
                Pin::new(&mut tick).poll(cx).map(|()| Next::Tick)
            })
            .await
        };
        let mut last = f64::NEG_INFINITY;
        let first = match next(OPEN_AFTER).await {
            Next::Done(done) => {
                let done = done.map_err(|error| error.of_era(self.version));
                let status = done.as_ref().map_or_else(|error| error.status, |_| 200);
                return super::server::whole(responder, status, &self.message(done)).await;
            }
            Next::Event(Event::Progress(progress)) => self.notification(&progress, &mut last),
            Next::Event(Event::Hold) | Next::Tick => None,
        };
        // Head and first bytes leave in one write.
        let mut bytes = Vec::new();
        sse::comment(&mut bytes, "held");
        bytes.extend(first.unwrap_or_default());
        let mut writer = match responder.start(200, &HEADERS, &bytes).await {
            Ok(writer) => writer,
            Err(gone) => return gone,
        };
        loop {
            let mut bytes = Vec::new();
            match next(COMMENT_EVERY).await {
                Next::Done(done) => return self.last(writer, done).await,
                Next::Event(Event::Hold) => continue,
                Next::Event(Event::Progress(progress)) => {
                    bytes.extend(self.notification(&progress, &mut last).unwrap_or_default());
                }
                Next::Tick => sse::comment(&mut bytes, "still held"),
            }
            if writer.write(&bytes).await.is_err() {
                return writer.abandon();
            }
        }
    }

    async fn last(&self, writer: StreamWriter, done: Result<ToolResult, RpcError>) -> Responded {
        let mut bytes = Vec::new();
        sse::event(&mut bytes, Some("message"), &self.message(done));
        writer.finish(&bytes).await
    }

    fn message(&self, done: Result<ToolResult, RpcError>) -> String {
        match done {
            Ok(result) => response(self.id, &result.to_json(self.version)),
            Err(error) => error.to_json(Some(self.id)),
        }
    }

    /// A `notifications/progress` event, if the caller gave a token and the number has grown: "progress MUST increase".
    fn notification(&self, progress: &Progress, last: &mut f64) -> Option<Vec<u8>> {
        let token = self.token?;
        if !progress.progress.is_finite() || progress.progress <= *last {
            return None;
        }
        *last = progress.progress;
        let total = progress.total.filter(|total| total.is_finite());
        let total = total.map_or_else(String::new, |total| format!(r#","total":{total}"#));
        let message = progress.message.as_deref();
        let message =
            message.map_or_else(String::new, |text| format!(r#","message":{}"#, quote(text)));
        let mut bytes = Vec::new();
        let data = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{},"progress":{}{total}{message}}}}}"#,
            token.get(),
            progress.progress,
        );
        sse::event(&mut bytes, Some("message"), &data);
        Some(bytes)
    }
}
