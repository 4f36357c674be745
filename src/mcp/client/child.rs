//! A server on the standard streams of a child: one process for all calls, owned by one task.
//!
//! A call puts its message on a bounded queue and waits for what the owner hears about it. The owner alone reads and
//! writes; it waits for no call, so that a slow one holds up no other. A call that is dropped leaves a mark that the owner
//! looks for when it is woken by a signal, of which one at a time is enough.

mod hearing;
mod lines;
mod opening;
mod outbox;
mod owner;
mod talk;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use serde_json::value::RawValue;
use smol::Task;
use smol::channel::{Receiver, Sender};

use super::ProgramSource;
use super::answer::{Asked, answer_to, response_to};
use super::{CallFault, Ids, Listener, News, Outgoing, Question};
use crate::http::{ClientFault, FaultKind};
use crate::mcp::changes::Announcer;
use crate::mcp::message::Id;
use crate::mcp::service::Progress;
use crate::mcp::version::Version;
use crate::time::{Clock, Elapsed, Instant};
use crate::world::World;
use outbox::{Progressed, line};
use owner::Owner;

/// Commands on their way to the owner. It takes none while the child does not read: callers then wait here.
const COMMANDS: usize = 16;

/// News of one call that its future has not taken yet; what does not fit is left out, for it is only news.
const NEWS: usize = 32;

/// Questions of the child that are open at once; it gets an error for more.
const QUESTIONS: usize = 16;

/// Room for everything that the owner may tell one call without waiting: its news, its questions, and its answer.
const EVENTS: usize = NEWS + QUESTIONS + 1;

/// One server.
pub(super) struct Child {
    clock: Clock,
    commands: Sender<Command>,
    /// Full when the owner has still to look for calls that are gone.
    gone: Sender<()>,
    answers: Sender<Answered>,
    announcer: Announcer,
    /// Ends with this, and the process with it.
    _owner: Option<Task<()>>,
}

/// From a call to the owner.
enum Command {
    /// Someone wants to know how the server is spoken to.
    Open(Sender<Result<Found, CallFault>>),
    /// A request.
    Request(Request),
}

/// A request for one process.
struct Request {
    id: Id,
    /// The process whose era the message is for.
    run: u64,
    message: Vec<u8>,
    events: Sender<Event>,
    /// Whether questions in the middle of it can be answered.
    asks: bool,
    far: Arc<Progressed>,
}

/// How one process is spoken to.
#[derive(Clone)]
struct Found {
    /// Which process it is.
    run: u64,
    version: Version,
    /// Its `server/discover` or `initialize` result.
    said: Result<Arc<RawValue>, CallFault>,
}

/// From the owner to a call.
enum Event {
    /// That process is gone, and the message was not taken.
    Again,
    /// News of it.
    Told(Told),
    /// The child asks something, which is to be answered under that id.
    Asked(Id, Asked),
    /// The end.
    Answer(Result<Box<RawValue>, CallFault>),
}

enum Told {
    Progress(Progress),
    Log {
        level: Box<RawValue>,
        params: Box<RawValue>,
    },
}

/// An answer to a request of the child's.
struct Answered {
    run: u64,
    theirs: Id,
    response: String,
}

impl Child {
    pub(super) fn new(
        world: &World,
        label: String,
        program: ProgramSource,
        wanted: Option<Version>,
        ids: Ids,
    ) -> Self {
        let (commands, to_do) = smol::channel::bounded(COMMANDS);
        let (gone, signals) = smol::channel::bounded(1);
        let (answers, answered) = smol::channel::bounded(QUESTIONS);
        let announcer = Announcer::default();
        let owner = Owner {
            world: world.clone(),
            label,
            program,
            wanted,
            ids,
            announcer: announcer.clone(),
            commands: to_do,
            gone: signals,
            answers: answered,
        };
        Self {
            clock: world.clock.clone(),
            commands,
            gone,
            answers,
            announcer,
            _owner: world.spawn(owner.own()),
        }
    }

    pub(super) const fn announcer(&self) -> &Announcer {
        &self.announcer
    }

    pub(super) async fn version(&self, deadline: Instant) -> Result<Version, CallFault> {
        Ok(self.found_by(deadline).await?.version)
    }

    pub(super) async fn offer(&self, deadline: Instant) -> Result<Box<RawValue>, CallFault> {
        self.found_by(deadline)
            .await?
            .said
            .map(|said| (*said).to_owned())
    }

    async fn found_by(&self, deadline: Instant) -> Result<Found, CallFault> {
        let found = self.clock.timeout(deadline, self.found()).await;
        found.unwrap_or(Err(broken(FaultKind::Timeout, false)))
    }

    /// How the process is spoken to, which is started if there is none.
    async fn found(&self) -> Result<Found, CallFault> {
        let (told, tell) = smol::channel::bounded(1);
        let closed = || broken(FaultKind::Closed, false);
        let open = self.commands.send(Command::Open(told)).await;
        open.map_err(|_| closed())?;
        tell.recv().await.map_err(|_| closed())?
    }

    /// Dropping the future has `notifications/cancelled` written, if any of the request was; what was not, never is.
    pub(super) async fn request(
        &self,
        id: &Id,
        request: &Outgoing<'_>,
        deadline: Instant,
        listener: &mut Listener<'_>,
    ) -> Result<Box<RawValue>, CallFault> {
        let mut leaving = Leaving {
            far: Arc::default(),
            gone: Some(&self.gone),
        };
        let far = leaving.far.clone();
        let asked = self.ask(id, request, &far, listener);
        match self.clock.timeout(deadline, asked).await {
            Ok(done) => {
                // The owner has forgotten it.
                leaving.gone = None;
                done
            }
            Err(Elapsed) => Err(broken(FaultKind::Timeout, far.leave())),
        }
    }

    async fn ask(
        &self,
        id: &Id,
        request: &Outgoing<'_>,
        far: &Arc<Progressed>,
        listener: &mut Listener<'_>,
    ) -> Result<Box<RawValue>, CallFault> {
        // Another turn only when a process ended between the two steps, which a start is due after: it is soon refused.
        loop {
            let Found { run, version, .. } = self.found().await?;
            let (events, heard) = smol::channel::bounded(EVENTS);
            let request = Request {
                id: id.clone(),
                run,
                message: line(request.to_json(id, version)),
                events,
                asks: listener.questions.is_some(),
                far: far.clone(),
            };
            let queued = self.commands.send(Command::Request(request)).await;
            queued.map_err(|_| broken(FaultKind::Closed, false))?;
            if let Some(done) = self.follow(run, &heard, listener).await {
                return done.unwrap_or_else(|| Err(broken(FaultKind::Closed, far.has_begun())));
            }
        }
    }

    /// Hears what becomes of one request. `None`: it was not taken; `Some(None)`: nobody is there any more.
    async fn follow(
        &self,
        run: u64,
        heard: &Receiver<Event>,
        listener: &mut Listener<'_>,
    ) -> Option<Option<Result<Box<RawValue>, CallFault>>> {
        let mut asking: Vec<Pin<Box<dyn Future<Output = ()> + Send>>> = Vec::new();
        loop {
            let mut next = pin!(heard.recv());
            let event = poll_fn(|cx| {
                // The answer first: it makes every question void.
                if let Poll::Ready(event) = next.as_mut().poll(cx) {
                    return Poll::Ready(event);
                }
                asking.retain_mut(|question| question.as_mut().poll(cx).is_pending());
                Poll::Pending
            });
            match event.await {
                Err(_) => return Some(None),
                Ok(Event::Again) => return None,
                Ok(Event::Answer(answer)) => return Some(Some(answer)),
                Ok(Event::Told(Told::Progress(progress))) => {
                    (listener.news)(News::Progress(progress));
                }
                Ok(Event::Told(Told::Log { level, params })) => {
                    let (level, params) = (&*level, &*params);
                    (listener.news)(News::Log { level, params });
                }
                Ok(Event::Asked(theirs, asked)) => {
                    let (questions, answers) = (listener.questions.clone(), self.answers.clone());
                    asking.push(Box::pin(put(run, theirs, asked, questions, answers)));
                }
            }
        }
    }
}

/// Puts one question of the child's and passes the answer on. Dropped with its call, it passes on none: the owner says so.
async fn put(
    run: u64,
    theirs: Id,
    asked: Asked,
    questions: Option<Sender<Question>>,
    answers: Sender<Answered>,
) {
    let answer = answer_to(asked, questions.as_ref()).await;
    let response = response_to(&theirs, answer);
    let answered = Answered {
        run,
        theirs,
        response,
    };
    // Closed: there is no process to answer to.
    let _ = answers.send(answered).await;
}

/// Tells the owner of a call whose future is gone.
struct Leaving<'a> {
    far: Arc<Progressed>,
    /// `None` once the call has ended by itself.
    gone: Option<&'a Sender<()>>,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if let Some(gone) = self.gone {
            self.far.leave();
            // Full: the owner is about to look for all of them.
            let _ = gone.try_send(());
        }
    }
}

const fn broken(kind: FaultKind, sent: bool) -> CallFault {
    CallFault::Connection(ClientFault { kind, sent })
}
