//! One POST to a server, and its answer as JSON or as a stream.

use serde_json::value::RawValue;
use url::Url;

use super::answer::{Heard, answer_to, hear, response_to};
use super::pieces::{Large, too_large};
use super::resume::SoFar;
use super::{CallFault, HeaderSource, Listener, Outgoing};
use crate::http::sse::{SseEvent, SseReader};
use crate::http::{self, ClientFault, Connection, FaultKind, Method, OutRequest, Reply};
use crate::mcp::header;
use crate::mcp::message::Id;
use crate::mcp::version::Version;
use crate::secret::Secret;
use crate::time::{Clock, Elapsed, Instant};

/// The largest answer that is held, in bytes.
const ANSWER_BYTES: usize = 33_554_432;

/// From how many bytes on an answer may come in pieces. Less is answered whole, with an HTTP status that says how it went.
const PIECES_FROM: usize = 65_536;

/// How to reach it.
pub(super) struct Post {
    pub(super) clock: Clock,
    pub(super) http: http::Client,
    pub(super) url: Url,
    pub(super) headers: HeaderSource,
}

/// How a server is to be spoken to: its revision, and in the legacy era the session that it opened.
#[derive(Clone)]
pub(super) struct Session {
    pub(super) version: Version,
    pub(super) id: Option<Secret>,
}

impl Session {
    pub(super) const MODERN: Self = Self {
        version: Version::V2026_07_28,
        id: None,
    };
}

impl Post {
    /// Sends what wants no answer.
    pub(super) async fn note(
        &self,
        session: &Session,
        note: String,
        deadline: Instant,
    ) -> Result<(), CallFault> {
        let request = self.head(session)?.body(note.into_bytes());
        let reply = self
            .http
            .send(request, deadline, Connection::Pooled)
            .await?;
        match reply.status {
            200..300 => Ok(()),
            status => Err(CallFault::Status(status)),
        }
    }

    /// Ends a session.
    pub(super) async fn end(&self, session: &Session, deadline: Instant) -> Result<(), CallFault> {
        let request = self.bare(Method::Delete, session)?;
        self.http
            .send(request, deadline, Connection::Pooled)
            .await?;
        Ok(())
    }

    pub(super) async fn exchange(
        &self,
        session: &Session,
        id: &Id,
        request: &Outgoing<'_>,
        deadline: Instant,
        listener: &mut Listener<'_>,
    ) -> Result<Read, CallFault> {
        let mut head = self.head(session)?;
        if session.version.is_modern() {
            head = head.header("mcp-method", request.method)?;
            if let Some(name) = request.name {
                head = head.header("mcp-name", &header::encode(name))?;
            }
            for (name, value) in &request.param_headers {
                head = head.header(&format!("mcp-param-{name}"), &header::encode(value))?;
            }
        }
        let body = request.to_json(id, session.version);
        let sent = head.body(body.into_bytes());
        let reply = self.http.send(sent, deadline, request.connection).await?;
        let in_pieces = request.in_pieces;
        self.read(reply, session, id, deadline, listener, in_pieces)
            .await
    }

    pub(super) fn head(&self, session: &Session) -> Result<OutRequest, CallFault> {
        let request = self.bare(Method::Post, session)?;
        Ok(request
            .header("content-type", "application/json")?
            .header("accept", "application/json, text/event-stream")?)
    }

    pub(super) fn bare(&self, method: Method, session: &Session) -> Result<OutRequest, CallFault> {
        let mut request = OutRequest::new(method, &self.url)?
            .header("mcp-protocol-version", session.version.name())?;
        if let Some(id) = &session.id {
            request = request.header("mcp-session-id", id.expose())?;
        }
        for (name, value) in (self.headers)().map_err(CallFault::Unset)? {
            request = request.header(&name, value.expose())?;
        }
        Ok(request)
    }

    /// Reads the answer to the request `id`, as plain JSON or as a stream of events.
    pub(super) async fn read(
        &self,
        mut reply: Reply,
        session: &Session,
        id: &Id,
        deadline: Instant,
        listener: &mut Listener<'_>,
        in_pieces: bool,
    ) -> Result<Read, CallFault> {
        let status = reply.status;
        if (300..400).contains(&status) {
            return Err(CallFault::Status(status));
        }
        let media = reply.headers.get("content-type").unwrap_or_default();
        let media = media.to_ascii_lowercase();
        if media.starts_with(b"application/json") {
            let mut body = Vec::new();
            while let Some(chunk) = reply.next_chunk().await? {
                body.extend_from_slice(&chunk);
                if in_pieces && status == 200 && body.len() > PIECES_FROM {
                    return Large::of_body(reply, id, &body).map(Read::Large);
                }
                if body.len() > ANSWER_BYTES {
                    return Err(too_large());
                }
            }
            // "A client must parse a JSON-RPC error body from any status".
            return match hear(&body, id, listener) {
                Ok(Heard::Answer(answer)) => answer.map(Read::Whole),
                _ if status >= 400 => Err(CallFault::Status(status)),
                Ok(_) => Err(CallFault::Protocol("an answer to another request")),
                Err(what) => Err(CallFault::Protocol(what)),
            };
        }
        if status != 200 {
            return Err(CallFault::Status(status));
        }
        if !is_stream(&reply) {
            return Err(CallFault::Protocol("neither JSON nor an event stream"));
        }
        let mut reader = SseReader::new(ANSWER_BYTES);
        let mut so_far = SoFar::default();
        loop {
            let chunk = match reply.next_chunk().await {
                Ok(Some(chunk)) => chunk,
                Err(fault) if fault.kind != FaultKind::Closed => return Err(fault.into()),
                Ok(None) | Err(_) => {
                    reply = self.resume(session, &so_far, deadline).await?;
                    reader = SseReader::new(ANSWER_BYTES);
                    continue;
                }
            };
            let mut events: Vec<SseEvent> = Vec::new();
            reader
                .feed(&chunk, |event| events.push(event))
                .map_err(|_| CallFault::Protocol("a broken event stream"))?;
            so_far.note(&reader, &events);
            for event in events.iter().filter(|event| !event.data.is_empty()) {
                let heard = hear(event.data.as_bytes(), id, listener);
                match heard.map_err(CallFault::Protocol)? {
                    Heard::Answer(answer) => return answer.map(Read::Whole),
                    // "Server-initiated requests" ended with the legacy era.
                    Heard::Asked(theirs, asked) if !session.version.is_modern() => {
                        let answer = answer_to(asked, listener.questions.as_ref()).await;
                        let response = response_to(&theirs, answer);
                        self.note(session, response, deadline).await?;
                    }
                    Heard::Asked(..) | Heard::Other => {}
                }
            }
            // Only answers are that large; what else is, is no news that anyone waits for.
            if in_pieces && reader.pending() > PIECES_FROM {
                return Large::of_stream(reply, id, reader).map(Read::Large);
            }
        }
    }

    /// Goes on with a stream that ended before its answer, by GET.
    ///
    /// # Errors
    /// That the connection closed, or that the time is over: the request was sent in any case.
    async fn resume(
        &self,
        session: &Session,
        so_far: &SoFar,
        deadline: Instant,
    ) -> Result<Reply, CallFault> {
        let gone = |kind| CallFault::Connection(ClientFault { kind, sent: true });
        let next = so_far.next().filter(|_| !session.version.is_modern());
        let (id, pause) = next.ok_or_else(|| gone(FaultKind::Closed))?;
        let clock = &self.clock;
        clock
            .timeout(deadline, clock.sleep(pause))
            .await
            .map_err(|Elapsed| gone(FaultKind::Timeout))?;
        let request = self.bare(Method::Get, session).and_then(|request| {
            Ok(request
                .header("accept", "text/event-stream")?
                .header("last-event-id", id)?)
        });
        let request = request.map_err(|_| gone(FaultKind::Closed))?;
        let sent = self.http.send(request, deadline, Connection::Pooled).await;
        let reply = sent.map_err(|fault| gone(fault.kind))?;
        match reply.status == 200 && is_stream(&reply) {
            true => Ok(reply),
            false => Err(gone(FaultKind::Closed)),
        }
    }
}

/// What was read of an answer.
pub(super) enum Read {
    Whole(Box<RawValue>),
    Large(Box<Large>),
}

impl Read {
    pub(super) fn whole(self) -> Result<Box<RawValue>, CallFault> {
        match self {
            Self::Whole(raw) => Ok(raw),
            Self::Large(_) => Err(too_large()),
        }
    }
}

pub(super) fn is_stream(reply: &Reply) -> bool {
    let media = reply.headers.get("content-type").unwrap_or_default();
    media.to_ascii_lowercase().starts_with(b"text/event-stream")
}
