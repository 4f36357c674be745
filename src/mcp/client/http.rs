//! A server over Streamable HTTP: what was found out about it, and one POST for each request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use smol::Task;
use smol::channel::{Receiver, Sender};
use url::Url;

use super::era::Era;
use super::post::{Post, Read, Session};
use super::standing::stand;
use super::{CallFault, HeaderSource, Ids, Listener, Outgoing, Question, cancelled};
use crate::http;
use crate::json::Members;
use crate::mcp::changes::Announcer;
use crate::mcp::message::Id;
use crate::mcp::rest::Rest;
use crate::mcp::result::RpcResult;
use crate::mcp::version::Version;
use crate::time::Instant;
use crate::world::World;

/// How long a finding that a server is of the legacy era is believed: one that has been upgraded since would never
/// fail by itself.
const LEGACY_FOR: Duration = Duration::from_secs(600);

/// Cancellations on their way. What does not fit is left out: the request's connection is closed in any case.
const CANCELLATIONS: usize = 64;

/// For the end of a session.
const END_TIME: Duration = Duration::from_secs(2);

/// For each cancellation.
const CANCEL_TIME: Duration = Duration::from_secs(2);

/// How long the first request that may be asked something waits for the stream where that may happen: what a server says
/// before it is open is lost.
const STREAM_TIME: Duration = Duration::from_secs(1);

/// One server.
pub(super) struct HttpServer {
    shared: Arc<Shared>,
    /// Whether it is listened to outside of requests too.
    hears: bool,
    tasks: Mutex<Tasks>,
}

/// What requests and tasks have in common.
pub(super) struct Shared {
    pub(super) world: World,
    pub(super) post: Post,
    pub(super) ids: Ids,
    pub(super) announcer: Announcer,
    pub(super) asking: Asking,
    /// Told when what was found out is forgotten.
    pub(super) forgotten: Receiver<()>,
    /// Closed once it is known whether there is a stream outside of requests. Nothing is ever sent.
    pub(super) settled: (Sender<()>, Receiver<()>),
    forgets: Sender<()>,
    wanted: Option<Version>,
    /// Under an asynchronous lock, so that many requests at once find out once.
    found: smol::lock::Mutex<Option<Found>>,
}

/// What was found out about a server.
#[derive(Clone)]
pub(super) struct Found {
    pub(super) session: Session,
    /// Its `server/discover` or `initialize` result.
    pub(super) said: Box<RawValue>,
    at: Instant,
}

/// What outlives requests, and ends with the client.
#[derive(Default)]
struct Tasks {
    /// Tells a legacy server of requests that are gone.
    cancelling: Option<Cancelling>,
    standing: Option<Task<()>>,
}

struct Cancelling {
    queue: Sender<(Session, Id)>,
    _task: Option<Task<()>>,
}

/// The requests in flight that a legacy server may ask something in. Cloning gives the same.
#[derive(Clone, Default)]
pub(super) struct Asking {
    calls: Arc<Mutex<BTreeMap<String, Sender<Question>>>>,
}

/// One of them, for as long as this lives.
struct Asked {
    id: String,
    asking: Asking,
}

impl Asking {
    fn enter(&self, id: &Id, questions: &Sender<Question>) -> Asked {
        let id = id.as_json().to_owned();
        self.lock().insert(id.clone(), questions.clone());
        Asked {
            id,
            asking: self.clone(),
        }
    }

    /// Whom a question is for that does not say in which request it is asked: the only one there is.
    pub(super) fn only(&self) -> Option<Sender<Question>> {
        let calls = self.lock();
        let mut all = calls.values();
        all.next().filter(|_| all.next().is_none()).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Sender<Question>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.asking.lock().remove(&self.id);
    }
}

impl HttpServer {
    pub(super) fn new(
        world: World,
        http: http::Client,
        url: Url,
        headers: HeaderSource,
        wanted: Option<Version>,
        ids: Ids,
    ) -> Self {
        let post = Post {
            clock: world.clock.clone(),
            http,
            url,
            headers,
        };
        let (forgets, forgotten) = smol::channel::bounded(1);
        let shared = Shared {
            world,
            post,
            ids,
            announcer: Announcer::default(),
            asking: Asking::default(),
            forgotten,
            settled: smol::channel::bounded(1),
            forgets,
            wanted,
            found: smol::lock::Mutex::new(None),
        };
        Self {
            shared: Arc::new(shared),
            hears: false,
            tasks: Mutex::default(),
        }
    }

    pub(super) const fn hear(&mut self) {
        self.hears = true;
    }

    pub(super) fn announcer(&self) -> Option<&Announcer> {
        self.hears.then_some(&self.shared.announcer)
    }

    pub(super) async fn version(&self, deadline: Instant) -> Result<Version, CallFault> {
        Ok(self.session(deadline).await?.version)
    }

    pub(super) async fn offer(&self, deadline: Instant) -> Result<Box<RawValue>, CallFault> {
        let asked = self.shared.world.clock.now();
        let found = self.found(deadline).await?;
        let age = asked.since(found.at);
        let is_new = found.at >= asked;
        if is_new || !found.session.version.is_modern() || age < kept_for(&found.said) {
            return Ok(found.said);
        }
        self.shared.again(deadline).await
    }

    pub(super) async fn request(
        &self,
        id: &Id,
        request: &Outgoing<'_>,
        deadline: Instant,
        listener: &mut Listener<'_>,
    ) -> Result<RpcResult, CallFault> {
        let session = self.session(deadline).await?;
        let shared = &self.shared;
        let _asked = match &listener.questions {
            Some(questions) if self.hears && !session.version.is_modern() => {
                let clock = &shared.world.clock;
                let settled = shared.settled.1.recv();
                let _ = clock.timeout(clock.after(STREAM_TIME), settled).await;
                Some(shared.asking.enter(id, questions))
            }
            _ => None,
        };
        let mut gone = Gone {
            server: self,
            session: &session,
            id: Some(id),
        };
        let done = shared
            .post
            .exchange(&session, id, request, deadline, listener)
            .await;
        gone.id = None;
        if let Err(fault) = &done
            && is_stale(&session, fault)
        {
            shared.forget().await;
        }
        match done? {
            Read::Whole(raw) => RpcResult::parse(&raw).map_err(CallFault::Protocol),
            Read::Large(large) => Ok(RpcResult::large(Rest::new(*large))),
        }
    }

    async fn session(&self, deadline: Instant) -> Result<Session, CallFault> {
        // Asked of a server whose revision is given and needs no handshake, nothing has to be found out.
        if self.shared.wanted.is_some_and(Version::is_modern) {
            return Ok(Session::MODERN);
        }
        Ok(self.found(deadline).await?.session)
    }

    async fn found(&self, deadline: Instant) -> Result<Found, CallFault> {
        let found = self.shared.found(deadline).await?;
        let mut tasks = self.tasks();
        if !found.session.version.is_modern() && tasks.cancelling.is_none() {
            tasks.cancelling = Some(self.cancelling());
        }
        if self.hears && tasks.standing.is_none() {
            tasks.standing = self.shared.world.spawn(stand(self.shared.clone()));
        }
        Ok(found)
    }

    fn cancelling(&self) -> Cancelling {
        let (queue, gone) = smol::channel::bounded::<(Session, Id)>(CANCELLATIONS);
        let shared = self.shared.clone();
        let task = shared.world.clone().spawn(async move {
            while let Ok((session, id)) = gone.recv().await {
                let note = cancelled(id.as_json());
                let deadline = shared.world.clock.after(CANCEL_TIME);
                // Nobody waits for what comes of it.
                let _ = shared.post.note(&session, note, deadline).await;
            }
        });
        Cancelling { queue, _task: task }
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// "DELETE when the session is no longer needed" (2025-11-25). Nobody waits for what comes of it.
impl Drop for HttpServer {
    fn drop(&mut self) {
        let found = self
            .shared
            .found
            .try_lock()
            .and_then(|mut found| found.take());
        let Some(session) = found.map(|found| found.session) else {
            return;
        };
        if session.id.is_none() {
            return;
        }
        let shared = self.shared.clone();
        let ending = shared.world.clone().spawn(async move {
            let deadline = shared.world.clock.after(END_TIME);
            let _ = shared.post.end(&session, deadline).await;
        });
        ending.into_iter().for_each(Task::detach);
    }
}

/// Whether a fault says that what was found out is no longer so: "ended → MUST 404"; and a modern verdict ends with an
/// answer that a modern server does not give.
fn is_stale(session: &Session, fault: &CallFault) -> bool {
    match fault {
        CallFault::Status(404) => true,
        CallFault::Status(400) => session.version.is_modern(),
        CallFault::Rpc(error) => matches!(error.code, -32022 | -32020),
        _ => false,
    }
}

/// For how long a `server/discover` result may be believed. "Absent or negative `ttlMs`: treat as 0."
fn kept_for(said: &RawValue) -> Duration {
    let members = Members::parse(said.get()).ok();
    let kept = members.and_then(|said| said.get("ttlMs")?.get().parse().ok());
    Duration::from_millis(kept.unwrap_or_default())
}

impl Shared {
    /// What is known about the server, found out when it was not.
    pub(super) async fn found(&self, deadline: Instant) -> Result<Found, CallFault> {
        let clock = &self.world.clock;
        let mut known = self.found.lock().await;
        if let Some(found) = &mut *known {
            let age = clock.now().since(found.at);
            if found.session.version.is_modern() || self.wanted.is_some() || age < LEGACY_FOR {
                return Ok(found.clone());
            }
            // Its session goes on if it is still of that era.
            if let Era::Legacy(_) = self.post.discover(deadline, &self.ids.next()).await? {
                found.at = clock.now();
                return Ok(found.clone());
            }
            let _ = self.forgets.try_send(());
        }
        let (session, said) = self.post.open(self.wanted, deadline, &self.ids).await?;
        let found = Found {
            session,
            said,
            at: clock.now(),
        };
        *known = Some(found.clone());
        Ok(found)
    }

    /// What a modern server says of itself by now.
    async fn again(&self, deadline: Instant) -> Result<Box<RawValue>, CallFault> {
        match self.post.discover(deadline, &self.ids.next()).await? {
            Era::Modern(said) => {
                if let Some(found) = &mut *self.found.lock().await {
                    found.said.clone_from(&said);
                    found.at = self.world.clock.now();
                }
                Ok(said)
            }
            Era::Legacy(why) => {
                self.forget().await;
                Err(why)
            }
        }
    }

    /// Forgets what is known.
    pub(super) async fn forget(&self) {
        *self.found.lock().await = None;
        // Full: it is told already.
        let _ = self.forgets.try_send(());
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
        if let Some(cancelling) = &self.server.tasks().cancelling {
            let _ = cancelling
                .queue
                .try_send((self.session.clone(), id.clone()));
        }
    }
}
