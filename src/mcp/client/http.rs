//! A server over Streamable HTTP: which era it is of, its session in the legacy one, and one POST for each request.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use smol::Task;
use smol::channel::Sender;
use url::Url;

use super::answer::{Heard, answer_to, hear, response_to};
use super::pieces::{Large, too_large};
use super::resume::SoFar;
use super::{CallFault, HeaderSource, INITIALIZED, Listener, Outgoing, agreed, cancelled};
use crate::http::sse::{SseEvent, SseReader};
use crate::http::{self, ClientFault, Connection, FaultKind, Method, OutRequest, Reply};
use crate::json::{Members, elements, string};
use crate::mcp::header;
use crate::mcp::message::Id;
use crate::mcp::rest::Rest;
use crate::mcp::result::RpcResult;
use crate::mcp::version::Version;
use crate::secret::Secret;
use crate::time::{Clock, Elapsed, Instant};
use crate::world::World;

/// The largest answer that is held, in bytes.
const ANSWER_BYTES: usize = 33_554_432;

/// From how many bytes on an answer may come in pieces. Less is answered whole, with an HTTP status that says how it went.
const PIECES_FROM: usize = 65_536;

/// How long a finding that a server is of the legacy era is believed: one that has been upgraded since would never
/// fail by itself.
const LEGACY_FOR: Duration = Duration::from_secs(600);

/// Cancellations on their way. What does not fit is left out: the request's connection is closed in any case.
const CANCELLATIONS: usize = 64;

/// For each cancellation.
const CANCEL_TIME: Duration = Duration::from_secs(2);

/// One server.
pub(super) struct HttpServer {
    world: World,
    post: Arc<Post>,
    wanted: Option<Version>,
    /// Under an asynchronous lock, so that many requests at once find out once.
    found: smol::lock::Mutex<Option<Found>>,
    cancelling: Mutex<Option<Cancelling>>,
}

/// How to reach it.
struct Post {
    clock: Clock,
    http: http::Client,
    url: Url,
    headers: HeaderSource,
}

/// What was found out about a server.
#[derive(Clone)]
struct Found {
    session: Session,
    /// Its `server/discover` or `initialize` result.
    said: Box<RawValue>,
    at: Instant,
}

/// How a server is to be spoken to: its revision, and in the legacy era the session that it opened.
#[derive(Clone)]
struct Session {
    version: Version,
    id: Option<Secret>,
}

impl Session {
    const MODERN: Self = Self {
        version: Version::V2026_07_28,
        id: None,
    };
}

/// The task that tells a legacy server of requests that are gone. It outlives them, and ends with the client.
struct Cancelling {
    queue: Sender<(Session, Id)>,
    _task: Option<Task<()>>,
}

impl HttpServer {
    pub(super) fn new(
        world: World,
        http: http::Client,
        url: Url,
        headers: HeaderSource,
        wanted: Option<Version>,
    ) -> Self {
        let post = Post {
            clock: world.clock.clone(),
            http,
            url,
            headers,
        };
        Self {
            world,
            post: Arc::new(post),
            wanted,
            found: smol::lock::Mutex::new(None),
            cancelling: Mutex::new(None),
        }
    }

    pub(super) async fn version(
        &self,
        deadline: Instant,
        ids: &(dyn Fn() -> Id + Sync),
    ) -> Result<Version, CallFault> {
        Ok(self.session(deadline, ids).await?.version)
    }

    pub(super) async fn offer(
        &self,
        deadline: Instant,
        ids: &(dyn Fn() -> Id + Sync),
    ) -> Result<Box<RawValue>, CallFault> {
        Ok(self.found(deadline, ids).await?.said)
    }

    pub(super) async fn request(
        &self,
        id: &Id,
        request: &Outgoing<'_>,
        deadline: Instant,
        listener: &mut Listener<'_>,
        ids: &(dyn Fn() -> Id + Sync),
    ) -> Result<RpcResult, CallFault> {
        let session = self.session(deadline, ids).await?;
        let mut gone = Gone {
            server: self,
            session: &session,
            id: Some(id),
        };
        let done = self
            .post
            .exchange(&session, id, request, deadline, listener)
            .await;
        gone.id = None;
        if let Err(fault) = &done
            && self.is_stale(&session, fault)
        {
            *self.found.lock().await = None;
        }
        match done? {
            Read::Whole(raw) => RpcResult::parse(&raw).map_err(CallFault::Protocol),
            Read::Large(large) => Ok(RpcResult::large(Rest::new(*large))),
        }
    }

    /// Whether a fault says that what was found out is no longer so: "ended → MUST 404"; and a modern verdict ends with an
    /// answer that a modern server does not give.
    fn is_stale(&self, session: &Session, fault: &CallFault) -> bool {
        match fault {
            CallFault::Status(404) => true,
            CallFault::Status(400) => session.version.is_modern(),
            CallFault::Rpc(error) => matches!(error.code, -32022 | -32020),
            _ => false,
        }
    }

    async fn session(
        &self,
        deadline: Instant,
        ids: &(dyn Fn() -> Id + Sync),
    ) -> Result<Session, CallFault> {
        // Asked of a server whose revision is given and needs no handshake, nothing has to be found out.
        if self.wanted.is_some_and(Version::is_modern) {
            return Ok(Session::MODERN);
        }
        Ok(self.found(deadline, ids).await?.session)
    }

    async fn found(
        &self,
        deadline: Instant,
        ids: &(dyn Fn() -> Id + Sync),
    ) -> Result<Found, CallFault> {
        let clock = &self.world.clock;
        let mut known = self.found.lock().await;
        if let Some(found) = &*known {
            let age = clock.now().since(found.at);
            if found.session.version.is_modern() || self.wanted.is_some() || age < LEGACY_FOR {
                return Ok(found.clone());
            }
        }
        let (session, said) = self.post.open(self.wanted, deadline, ids).await?;
        if !session.version.is_modern() {
            self.start_cancelling();
        }
        let found = Found {
            session,
            said,
            at: clock.now(),
        };
        *known = Some(found.clone());
        Ok(found)
    }

    fn start_cancelling(&self) {
        let mut cancelling = self
            .cancelling
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if cancelling.is_some() {
            return;
        }
        let (queue, gone) = smol::channel::bounded::<(Session, Id)>(CANCELLATIONS);
        let (post, clock) = (self.post.clone(), self.world.clock.clone());
        let task = self.world.spawn(async move {
            while let Ok((session, id)) = gone.recv().await {
                let note = cancelled(id.as_json());
                let deadline = clock.after(CANCEL_TIME);
                // Nobody waits for what comes of it.
                let _ = post.note(&session, note, deadline).await;
            }
        });
        *cancelling = Some(Cancelling { queue, _task: task });
    }
}

/// Tells a legacy server of a request whose future was dropped: there a closed connection says nothing.
struct Gone<'a> {
    server: &'a HttpServer,
    session: &'a Session,
    id: Option<&'a Id>,
}

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.filter(|_| !self.session.version.is_modern()) else {
            return;
        };
        let cancelling = self.server.cancelling.lock();
        if let Some(cancelling) = &*cancelling.unwrap_or_else(PoisonError::into_inner) {
            let _ = cancelling
                .queue
                .try_send((self.session.clone(), id.clone()));
        }
    }
}

impl Post {
    /// Agrees with the server on a revision: `wanted`, or the newest that both speak.
    async fn open(
        &self,
        wanted: Option<Version>,
        deadline: Instant,
        ids: &(dyn Fn() -> Id + Sync),
    ) -> Result<(Session, Box<RawValue>), CallFault> {
        if wanted.is_none_or(Version::is_modern) {
            let request = Outgoing::new("server/discover");
            let mut nobody = Listener {
                news: &mut |_| {},
                questions: None,
            };
            let discovered = self
                .exchange(&Session::MODERN, &ids(), &request, deadline, &mut nobody)
                .await;
            match discovered.and_then(Read::whole) {
                Ok(said) if is_of_modern(&said) => {
                    return Ok((Session::MODERN, said));
                }
                // Some legacy servers answer every method.
                Ok(_) if wanted.is_some() => {
                    return Err(CallFault::Protocol(
                        "it does not list the revision that is wanted",
                    ));
                }
                Ok(_) => {}
                Err(fault) if wanted.is_some() || !means_legacy(&fault) => return Err(fault),
                Err(_) => {}
            }
        }
        self.initialize(wanted.unwrap_or(Version::NEWEST_LEGACY), deadline, &ids())
            .await
    }

    async fn initialize(
        &self,
        wanted: Version,
        deadline: Instant,
        id: &Id,
    ) -> Result<(Session, Box<RawValue>), CallFault> {
        let body = super::initialize(id, wanted);
        let opening = Session {
            version: wanted,
            id: None,
        };
        let request = self.head(&opening)?.body(body.into_bytes());
        let reply = self
            .http
            .send(request, deadline, Connection::Pooled)
            .await?;
        let id_of_session = match reply.headers.only("mcp-session-id") {
            Ok(session) => session.map(|session| Secret::new(session.to_owned())),
            Err(_) => return Err(CallFault::Protocol("several session ids")),
        };
        let mut nobody = Listener {
            news: &mut |_| {},
            questions: None,
        };
        let said = self.read(reply, &opening, id, deadline, &mut nobody, false);
        let said = said.await?.whole()?;
        let version =
            agreed(&said).ok_or(CallFault::Protocol("no protocol version that both speak"))?;
        let session = Session {
            version,
            id: id_of_session,
        };
        self.note(&session, INITIALIZED.to_owned(), deadline)
            .await?;
        Ok((session, said))
    }

    /// Sends what wants no answer.
    async fn note(
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

    async fn exchange(
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

    fn head(&self, session: &Session) -> Result<OutRequest, CallFault> {
        let request = self.bare(Method::Post, session)?;
        Ok(request
            .header("content-type", "application/json")?
            .header("accept", "application/json, text/event-stream")?)
    }

    fn bare(&self, method: Method, session: &Session) -> Result<OutRequest, CallFault> {
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
    async fn read(
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
enum Read {
    Whole(Box<RawValue>),
    Large(Box<Large>),
}

impl Read {
    fn whole(self) -> Result<Box<RawValue>, CallFault> {
        match self {
            Self::Whole(raw) => Ok(raw),
            Self::Large(_) => Err(too_large()),
        }
    }
}

fn is_stream(reply: &Reply) -> bool {
    let media = reply.headers.get("content-type").unwrap_or_default();
    media.to_ascii_lowercase().starts_with(b"text/event-stream")
}

/// Whether a failed `server/discover` tells of a legacy server: a client error without one of the modern errors in it.
/// "401/403 and 5xx are not era evidence".
fn means_legacy(fault: &CallFault) -> bool {
    match fault {
        CallFault::Status(status) => {
            (400..500).contains(status) && !matches!(status, 401 | 403 | 429)
        }
        // A modern server has the method, whatever else it lacks; one that lists only legacy revisions is dual.
        CallFault::Rpc(error) if error.code == -32022 => lists_only_legacy(error.data.as_deref()),
        CallFault::Rpc(error) => !matches!(error.code, -32_021..=-32_020),
        CallFault::Connection(_)
        | CallFault::Ended { .. }
        | CallFault::Protocol(_)
        | CallFault::Header
        | CallFault::NotStarted(_)
        | CallFault::Unset(_) => false,
    }
}

/// Whether a `server/discover` result is one: of a server of the modern era.
fn is_of_modern(said: &RawValue) -> bool {
    let listed = versions(said.get(), "supportedVersions");
    listed.into_iter().any(Version::is_modern)
}

fn lists_only_legacy(data: Option<&str>) -> bool {
    let listed = versions(data.unwrap_or_default(), "supported");
    !listed.is_empty() && !listed.into_iter().any(Version::is_modern)
}

/// The revisions of ours in a list of names, the member `name` of an object.
fn versions(object: &str, name: &str) -> Vec<Version> {
    let names = Members::parse(object)
        .ok()
        .and_then(|object| object.get(name))
        .and_then(|names| elements(names.get()).ok());
    let names = names.into_iter().flatten();
    names
        .filter_map(|name| Version::parse(&string(name)?))
        .collect()
}
