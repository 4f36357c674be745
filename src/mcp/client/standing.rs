//! What a server over HTTP says outside of any request: on a GET stream in the legacy era, and as the answer to
//! `subscriptions/listen` in the modern one.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde_json::value::RawValue;

use super::answer::{Asked, Said, answer_to, open, resource, response_to};
use super::http::{Found, Shared};
use super::post::{Session, is_stream};
use super::resume::SoFar;
use super::{CallFault, Outgoing};
use crate::http::sse::{SseEvent, SseReader};
use crate::http::{Connection, Method, Reply};
use crate::json::{Members, scan};
use crate::mcp::changes::Change;
use crate::mcp::crowd::Crowd;
use crate::mcp::message::{Id, RpcError};
use crate::time::Elapsed;

/// For finding out about the server, and for the head of a stream.
const OPEN_TIME: Duration = Duration::from_secs(10);

/// A stream is opened anew after this time, since a connection that is dead need not look so.
const HELD_FOR: Duration = Duration::from_secs(1800);

/// How long to stay away when none could be opened, twice as long each time: 1 s, 2 s … 64 s.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSES: u32 = 7;

/// The longest message, in bytes. None of them is an answer.
const MESSAGE_BYTES: usize = 1_048_576;

/// Questions that wait for an answer at once.
const QUESTIONS: usize = 16;

/// For an answer to a question.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// How one stream ended.
enum Ended {
    /// The server has no such stream.
    Refused,
    /// It could not be opened.
    Unopened,
    /// It was open, and then cut or closed.
    Cut,
    /// Its time was over.
    Old,
    /// What it was opened by is not so any more.
    Forgotten,
}

/// What is left of the streams before.
#[derive(Default)]
struct Before {
    /// Whether the session had one.
    stood: bool,
    /// Whether there was a time without one: whatever changed meanwhile, nobody said so.
    missed: bool,
    so_far: SoFar,
}

/// Listens for as long as the client lives. Dropping the future closes the stream.
pub(super) async fn stand(shared: Arc<Shared>) {
    let clock = &shared.world.clock;
    let mut unopened = 0;
    let mut before = Before::default();
    loop {
        let ended = stand_once(&shared, &mut before).await;
        shared.settled.0.close();
        unopened = match ended {
            Ended::Unopened => (unopened + 1).min(LONGEST_PAUSES),
            _ => 0,
        };
        before.missed |= !matches!(ended, Ended::Old);
        match ended {
            Ended::Old => {}
            Ended::Cut => clock.sleep(before.so_far.pause()).await,
            Ended::Unopened => clock.sleep(PAUSE * (1 << (unopened - 1))).await,
            Ended::Refused | Ended::Forgotten => {
                if let Ended::Refused = ended {
                    // Until it may be another server than it was.
                    let _ = shared.forgotten.recv().await;
                }
                before = Before {
                    missed: true,
                    ..Before::default()
                };
            }
        }
    }
}

/// Opens one stream and hears it to its end.
async fn stand_once(shared: &Shared, before: &mut Before) -> Ended {
    let clock = &shared.world.clock;
    // What was told until now is about what was found before.
    let _ = shared.forgotten.try_recv();
    let Ok(found) = shared.found(clock.after(OPEN_TIME)).await else {
        return Ended::Unopened;
    };
    let Some(wanted) = Wanted::of(&found) else {
        return Ended::Refused;
    };
    let behind = before.so_far.next().map(|(id, _)| id);
    let mut reply = match open_stream(shared, &found.session, &wanted, behind).await {
        Ok(reply) if reply.status == 200 && is_stream(&reply) => reply,
        // "ended → MUST 404".
        Ok(reply) if reply.status == 404 && before.stood => {
            shared.forget().await;
            *before = Before::default();
            return Ended::Unopened;
        }
        // 405 "or 4xx": there is none. A server that is overloaded, or about to start, says something else.
        Ok(reply) if reply.status < 500 && reply.status != 429 => return Ended::Refused,
        Ok(_) => return Ended::Unopened,
        Err(fault) => {
            log::debug!("a stream of news could not be opened: {fault}");
            return Ended::Unopened;
        }
    };
    before.stood = true;
    shared.settled.0.close();
    if std::mem::take(&mut before.missed) {
        for change in [Change::Tools, Change::Prompts, Change::Resources] {
            shared.announcer.announce(&change);
        }
    }
    let mut hearing = Hearing {
        shared,
        session: &found.session,
        answering: Crowd::default(),
    };
    let mut reader = SseReader::new(MESSAGE_BYTES);
    let ends = clock.after(HELD_FOR);
    loop {
        let chunk = match clock.timeout(ends, hearing.next(&mut reply)).await {
            Ok(Some(Ok(Some(chunk)))) => chunk,
            Ok(Some(_)) => return Ended::Cut,
            Ok(None) => return Ended::Forgotten,
            Err(Elapsed) => return Ended::Old,
        };
        let mut events: Vec<SseEvent> = Vec::new();
        if reader.feed(&chunk, |event| events.push(event)).is_err() {
            return Ended::Cut;
        }
        before.so_far.note(&reader, &events);
        for event in &events {
            hearing.hear(&event.data);
        }
    }
}

/// What is asked for, as JSON; in the legacy era nothing is.
enum Wanted {
    Everything,
    These(String),
}

impl Wanted {
    /// By what the server declares; `None` where it has no news.
    fn of(found: &Found) -> Option<Self> {
        if !found.session.version.is_modern() {
            return Some(Self::Everything);
        }
        let said = Members::parse(found.said.get()).ok()?;
        let capabilities = Members::parse(said.get("capabilities")?.get()).ok()?;
        let announces = |name: &str| {
            let list = Members::parse(capabilities.get(name)?.get()).ok()?;
            (list.get("listChanged")?.get() == "true")
                .then(|| format!(r#""{name}ListChanged":true"#))
        };
        let lists: Vec<String> = ["tools", "prompts", "resources"]
            .into_iter()
            .filter_map(announces)
            .collect();
        (!lists.is_empty()).then(|| Self::These(format!("{{{}}}", lists.join(","))))
    }
}

async fn open_stream(
    shared: &Shared,
    session: &Session,
    wanted: &Wanted,
    behind: Option<&str>,
) -> Result<Reply, CallFault> {
    let post = &shared.post;
    let request = match wanted {
        Wanted::Everything => {
            let request = post
                .bare(Method::Get, session)?
                .header("accept", "text/event-stream")?;
            match behind {
                Some(id) => request.header("last-event-id", id)?,
                None => request,
            }
        }
        Wanted::These(lists) => {
            let mut listen = Outgoing::new("subscriptions/listen");
            listen.params.push(("notifications", lists));
            let body = listen.to_json(&shared.ids.next(), session.version);
            post.head(session)?
                .header("mcp-method", listen.method)?
                .body(body.into_bytes())
        }
    };
    let clock = &shared.world.clock;
    let sent = post
        .http
        .send(request, clock.after(HELD_FOR * 2), Connection::Fresh);
    let opened = clock.timeout(clock.after(OPEN_TIME), sent).await;
    Ok(opened.map_err(|_| CallFault::Status(504))??)
}

/// One stream that is open.
struct Hearing<'a> {
    shared: &'a Shared,
    session: &'a Session,
    /// Answers on their way.
    answering: Crowd<'a>,
}

impl Hearing<'_> {
    /// The next piece of the stream, while answers go out; `None` once what it was opened by is forgotten.
    async fn next(
        &mut self,
        reply: &mut Reply,
    ) -> Option<Result<Option<Vec<u8>>, crate::http::ClientFault>> {
        let mut chunk = pin!(reply.next_chunk());
        let mut forgotten = pin!(self.shared.forgotten.recv());
        let answering = &mut self.answering;
        poll_fn(|cx| {
            if forgotten.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            answering.poll(cx);
            chunk.as_mut().poll(cx).map(Some)
        })
        .await
    }

    fn hear(&mut self, message: &str) {
        let Ok(Ok(said)) = scan(message.as_bytes()).map(open) else {
            return;
        };
        match said {
            Said::Note { method, params } => self.noted(&method, params),
            // "Server-initiated requests" ended with the legacy era.
            Said::Asked(theirs, asked) if !self.session.version.is_modern() => {
                self.asked(theirs, asked);
            }
            Said::Asked(..) | Said::Answer { .. } | Said::Other => {}
        }
    }

    fn noted(&self, method: &str, params: Option<&RawValue>) {
        let change = match method {
            "notifications/tools/list_changed" => Change::Tools,
            "notifications/prompts/list_changed" => Change::Prompts,
            "notifications/resources/list_changed" => Change::Resources,
            "notifications/resources/updated" => match params.and_then(resource) {
                Some(uri) => Change::Resource(uri.into_owned()),
                None => return,
            },
            _ => return,
        };
        self.shared.announcer.announce(&change);
    }

    /// A question that does not say in which request it is asked: servers send such here when they do not tie it to one.
    fn asked(&mut self, theirs: Id, asked: Asked) {
        let (post, session) = (&self.shared.post, self.session);
        let clock = &self.shared.world.clock;
        let only = match asked {
            Asked::Caller { .. } => self.shared.asking.only(),
            Asked::Ping | Asked::Unknown => None,
        };
        let nobody = matches!(asked, Asked::Caller { .. }) && only.is_none();
        let full = self.answering.len() >= QUESTIONS;
        self.answering.push(async move {
            let answer = match nobody || full {
                true => Err(RpcError::new(-32603, "nobody can tell whom this is for")),
                false => answer_to(asked, only.as_ref()).await,
            };
            let response = response_to(&theirs, answer);
            // Nobody waits for what comes of it.
            let _ = post.note(session, response, clock.after(ANSWER_TIME)).await;
        });
    }
}
