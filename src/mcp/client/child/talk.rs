//! One process, from its start to its end: what is read from it, what is written to it, and who hears of which.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use log::Level;
use serde_json::value::RawValue;
use smol::channel::Sender;

use super::lines::{Journal, Line, Lines, SHOWN_BYTES};
use super::opening::{Opening, Step};
use super::outbox::{Outbox, Progressed};
use super::owner::{Owner, tell};
use super::{Answered, CallFault, Command, Event, Found, Ids, NEWS, Request, Told, broken};
use crate::http::FaultKind;
use crate::json::Members;
use crate::mcp::client::answer::response_to;
use crate::mcp::client::{Outgoing, cancelled};
use crate::mcp::message::{Id, RpcError};
use crate::mcp::version::Version;
use crate::time::Instant;
use crate::world::child::Piped;

/// The longest message of a child, in bytes: as much as an answer over HTTP may have.
pub(super) const LINE_BYTES: usize = 33_554_432;

/// Calls and askers at once.
const CALLS: usize = 1024;

/// Bytes read at a time, on the stack.
const READ_BYTES: usize = 16_384;

/// What happens before it is everyone else's turn: at most one pipe full is read meanwhile.
const TURNS_IN_A_ROW: u32 = 4;

/// How long a child that closed one of its streams may take to end, and how long what it left in its pipes is read.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How it came to its end.
pub(super) enum End {
    /// The client is gone.
    Left,
    /// The process ended, or has to.
    Died,
    /// It ended over the probe, perhaps.
    DiedOfProbe,
    /// It cannot be used.
    Failed(CallFault),
}

/// One process.
pub(super) struct Talk<'o> {
    pub(super) owner: &'o Owner,
    run: u64,
    pub(super) child: Piped,
    pub(super) opening: Opening,
    /// Since when it can be used, and in which version.
    pub(super) open: Option<(Instant, Version)>,
    /// What it said it has.
    found: Option<Found>,
    /// Who waits for the opening.
    pub(super) waiting: Vec<Sender<Result<Found, CallFault>>>,
    /// Calls under way, by their ids.
    pub(super) flights: HashMap<String, Flight>,
    /// The child's questions that are open: their ids, and the calls that they were put to.
    pub(super) questions: Vec<(Id, String)>,
    outbox: Outbox,
    lines: Lines,
    pub(super) bad: u32,
    complaints: Lines,
    /// For standard error, and for everything else that it has to say.
    stderr: Journal,
    pub(super) journal: Journal,
    warned: bool,
}

/// A call under way.
pub(super) struct Flight {
    pub(super) events: Sender<Event>,
    pub(super) asks: bool,
    pub(super) far: Arc<Progressed>,
}

/// What happens next.
enum Turn {
    Answered(Answered),
    /// A stream has ended, or the process.
    Closing,
    Command(Command),
    Due,
    Gone,
    Left,
    Line(Line),
    /// Bytes went in or out, and everything is to be looked at again.
    Moved,
}

impl<'o> Talk<'o> {
    pub(super) fn new(
        owner: &'o Owner,
        run: u64,
        child: Piped,
        opening: Opening,
        first: String,
        waiting: Vec<Sender<Result<Found, CallFault>>>,
    ) -> Self {
        let mut outbox = Outbox::default();
        outbox.own(first);
        Self {
            owner,
            run,
            child,
            opening,
            open: None,
            found: None,
            waiting,
            flights: HashMap::new(),
            questions: Vec::new(),
            outbox,
            lines: Lines::new(LINE_BYTES),
            bad: 0,
            complaints: Lines::new(SHOWN_BYTES),
            stderr: Journal::new(&owner.label),
            journal: Journal::new(&owner.label),
            warned: false,
        }
    }

    /// Goes on until the process has ended or must. Every call under way has then been told.
    pub(super) async fn run(&mut self) -> End {
        let end = self.go_on().await;
        self.fail_all();
        self.complaints.end();
        self.note_complaints();
        self.stderr.close();
        self.journal.close();
        end
    }

    async fn go_on(&mut self) -> End {
        let mut turns = 0;
        loop {
            give_way(&mut turns).await;
            let ended = match self.turn().await {
                Turn::Answered(answered) => {
                    self.pass_on(answered);
                    Ok(())
                }
                Turn::Closing => return self.last_words().await,
                Turn::Command(command) => {
                    self.take(command);
                    Ok(())
                }
                Turn::Due => self.due_now(),
                Turn::Gone => {
                    self.forget_the_gone();
                    Ok(())
                }
                Turn::Left => return End::Left,
                Turn::Line(line) => self.hear_line(&line),
                Turn::Moved => Ok(()),
            };
            if let Err(end) = ended {
                return end;
            }
        }
    }

    /// Waits for whatever comes first. Dropping the future loses nothing.
    async fn turn(&mut self) -> Turn {
        let owner = self.owner;
        let takes = self.outbox.has_room() && self.flights.len() < CALLS && self.has_a_place();
        let due = [self.opening.due(), self.stderr.due(), self.journal.due()];
        let due = due.into_iter().flatten().min();
        let mut sleep = due.map(|at| owner.world.clock.sleep_until(at));
        let mut gone = pin!(owner.gone.recv());
        let mut answered = pin!(owner.answers.recv());
        let mut command = pin!(owner.commands.recv());
        poll_fn(|cx| {
            // What callers want comes first, and cannot last: they wait for what comes after.
            if let Poll::Ready(Ok(())) = gone.as_mut().poll(cx) {
                return Poll::Ready(Turn::Gone);
            }
            if let Poll::Ready(Ok(answered)) = answered.as_mut().poll(cx) {
                return Poll::Ready(Turn::Answered(answered));
            }
            if takes && let Poll::Ready(command) = command.as_mut().poll(cx) {
                return Poll::Ready(command.map_or(Turn::Left, Turn::Command));
            }
            if let Some(sleep) = &mut sleep
                && Pin::new(sleep).poll(cx).is_ready()
            {
                return Poll::Ready(Turn::Due);
            }
            let child = &mut self.child;
            let written = self
                .outbox
                .poll_write(cx, |cx, bytes| child.poll_write(cx, bytes));
            match written {
                Poll::Ready(Ok(())) => return Poll::Ready(Turn::Moved),
                Poll::Ready(Err(_)) => return Poll::Ready(Turn::Closing),
                Poll::Pending => {}
            }
            self.poll_stderr(cx);
            match self.poll_line(cx) {
                Poll::Ready(Some(turn)) => return Poll::Ready(turn),
                Poll::Ready(None) => return Poll::Ready(Turn::Closing),
                Poll::Pending => {}
            }
            self.child.poll_exit(cx).map(|()| Turn::Closing)
        })
        .await
    }

    /// Whether one more may wait for the opening.
    fn has_a_place(&mut self) -> bool {
        if self.waiting.len() >= CALLS {
            self.waiting.retain(|told| !told.is_closed());
        }
        self.waiting.len() < CALLS
    }

    /// The next line, or `Moved` where more has to be read for one; `None` at the end.
    fn poll_line(&mut self, cx: &mut Context<'_>) -> Poll<Option<Turn>> {
        if let Some(line) = self.lines.next() {
            return Poll::Ready(Some(Turn::Line(line)));
        }
        let mut some = [0; READ_BYTES];
        self.child.poll_stdout(cx, &mut some).map(|count| {
            if count > 0 {
                self.lines.feed(some.get(..count).unwrap_or_default());
                return Some(Turn::Moved);
            }
            // One that ends without a line end may be whole all the same.
            self.lines.end();
            self.lines.next().map(Turn::Line)
        })
    }

    /// Logs what there is, and wakes the task for more. Whether it is over.
    fn poll_stderr(&mut self, cx: &mut Context<'_>) -> bool {
        let mut some = [0; READ_BYTES];
        match self.child.poll_stderr(cx, &mut some) {
            Poll::Ready(0) => return true,
            Poll::Ready(count) => {
                self.complaints.feed(some.get(..count).unwrap_or_default());
                cx.waker().wake_by_ref();
            }
            Poll::Pending => {}
        }
        self.note_complaints();
        false
    }

    fn note_complaints(&mut self) {
        while let Some(line) = self.complaints.next() {
            let now = self.owner.world.clock.now();
            self.stderr.note(now, Level::Info, &line.bytes);
        }
    }

    /// Hears what a process that is about to end, or has, left in its pipes.
    async fn last_words(&mut self) -> End {
        let clock = self.owner.world.clock.clone();
        let mut sleep = clock.sleep(LAST_WORDS);
        let (mut exited, mut silent, mut turns) = (false, false, 0);
        loop {
            give_way(&mut turns).await;
            let turn = poll_fn(|cx| {
                // First, since what left the group may write for ever.
                if Pin::new(&mut sleep).poll(cx).is_ready() {
                    return Poll::Ready(None);
                }
                if !exited && self.child.poll_exit(cx).is_ready() {
                    exited = true;
                    // What it left behind may hold its pipes, and is of no use without it.
                    self.child.kill();
                }
                let complained = self.poll_stderr(cx);
                if !silent {
                    match self.poll_line(cx) {
                        Poll::Ready(Some(turn)) => return Poll::Ready(Some(turn)),
                        Poll::Ready(None) => {
                            silent = true;
                            // No answer can come any more.
                            self.fail_all();
                        }
                        Poll::Pending => {}
                    }
                }
                match exited && silent && complained {
                    true => Poll::Ready(None),
                    false => Poll::Pending,
                }
            });
            match turn.await {
                Some(Turn::Line(line)) => {
                    if let Err(end) = self.hear_line(&line) {
                        return end;
                    }
                }
                Some(_) => {}
                None if self.opening.may_have_died_of_probe() => return End::DiedOfProbe,
                None => return End::Died,
            }
        }
    }

    /// Tells every call under way that nothing will come.
    fn fail_all(&mut self) {
        self.questions.clear();
        for (_, flight) in self.flights.drain() {
            let fault = broken(FaultKind::Closed, flight.far.has_begun());
            // There is room for it, and closed means that nobody waits.
            let _ = flight.events.try_send(Event::Answer(Err(fault)));
        }
    }

    // --- from callers ---

    fn take(&mut self, command: Command) {
        match command {
            Command::Open(told) => match &self.found {
                Some(found) => drop(told.try_send(Ok(found.clone()))),
                None => self.waiting.push(told),
            },
            Command::Request(request) if request.far.has_left() => {}
            Command::Request(request) if request.run != self.run || self.open.is_none() => {
                drop(request.events.try_send(Event::Again));
            }
            Command::Request(request) => {
                let Request {
                    id,
                    message,
                    events,
                    asks,
                    far,
                    ..
                } = request;
                let id = id.as_json().to_owned();
                self.outbox.call(id.clone(), far.clone(), message);
                self.flights.insert(id, Flight { events, asks, far });
            }
        }
    }

    fn forget_the_gone(&mut self) {
        let gone: Vec<String> = self
            .flights
            .iter()
            .filter(|(_, flight)| flight.far.has_left())
            .map(|(id, _)| id.clone())
            .collect();
        for id in gone {
            self.flights.remove(&id);
            if !self.outbox.withdraw(&id) {
                self.outbox.own(cancelled(&id));
            }
            self.close_questions(&id);
        }
    }

    /// Tells the child that what it asked in the middle of a call is not answered any more.
    pub(super) fn close_questions(&mut self, call: &str) {
        let (closed, open) = std::mem::take(&mut self.questions)
            .into_iter()
            .partition(|(_, of)| of == call);
        self.questions = open;
        for (theirs, _) in closed {
            self.refuse(&theirs, -32603, "the call is gone that this was asked in");
        }
    }

    fn pass_on(&mut self, answered: Answered) {
        let theirs = answered.theirs.as_json();
        let open = self.questions.iter();
        let place = open.map(|(id, _)| id).position(|id| id.as_json() == theirs);
        if let Some(place) = place.filter(|_| answered.run == self.run) {
            self.questions.swap_remove(place);
            self.reply(answered.response);
        }
    }

    pub(super) fn refuse(&mut self, theirs: &Id, code: i64, why: &str) {
        self.reply(response_to(theirs, Err(RpcError::new(code, why))));
    }

    pub(super) fn reply(&mut self, response: String) {
        if !self.outbox.reply(response) {
            self.warn_once("it asks more than it reads answers");
        }
    }

    pub(super) fn warn_once(&mut self, what: &str) {
        if !self.warned {
            self.warned = true;
            log::warn!("[{}] {what}", self.owner.label);
        }
    }

    // --- from the clock, and to the opening ---

    fn due_now(&mut self) -> Result<(), End> {
        let now = self.owner.world.clock.now();
        for journal in [&mut self.stderr, &mut self.journal] {
            if journal.due().is_some_and(|due| due <= now) {
                journal.close();
            }
        }
        let step = self.opening.late(now, &self.owner.ids);
        self.step(step)
    }

    pub(super) fn step(&mut self, step: Step) -> Result<(), End> {
        match step {
            Step::Wait => {}
            Step::Send(message) => self.outbox.own(message),
            Step::Failed(fault) => return Err(End::Failed(fault)),
            Step::Open {
                version,
                said,
                note,
            } => {
                note.into_iter()
                    .for_each(|note| self.outbox.own(note.to_owned()));
                let said_it = said.as_ref().ok();
                let listen = said_it.and_then(|said| listen(said, version, &self.owner.ids));
                listen.into_iter().for_each(|it| self.outbox.own(it));
                let found = Found {
                    run: self.run,
                    version,
                    said,
                };
                self.open = Some((self.owner.world.clock.now(), version));
                tell(&mut self.waiting, &Ok(found.clone()));
                self.found = Some(found);
            }
        }
        Ok(())
    }
}

impl Flight {
    pub(super) fn tell(&self, told: Told) {
        // The rest of the room is for what must not be left out.
        if self.events.len() < NEWS {
            let _ = self.events.try_send(Event::Told(told));
        }
    }
}

/// Lets everyone else have their turn, now and then.
async fn give_way(turns: &mut u32) {
    *turns += 1;
    if *turns == TURNS_IN_A_ROW {
        *turns = 0;
        smol::future::yield_now().await;
    }
}

/// The request by which a modern server is asked to announce changes of those lists whose changes it can announce.
fn listen(said: &RawValue, version: Version, ids: &Ids) -> Option<String> {
    if !version.is_modern() {
        return None;
    }
    let capabilities = Members::parse(said.get()).ok()?.get("capabilities")?;
    let capabilities = Members::parse(capabilities.get()).ok()?;
    let announces = |list: &str| {
        let capability = Members::parse(capabilities.get(list)?.get()).ok()?;
        (capability.get("listChanged")?.get() == "true")
            .then(|| format!(r#""{list}ListChanged":true"#))
    };
    let lists: Vec<String> = ["tools", "prompts", "resources"]
        .into_iter()
        .filter_map(announces)
        .collect();
    if lists.is_empty() {
        return None;
    }
    let lists = format!("{{{}}}", lists.join(","));
    let mut request = Outgoing::new("subscriptions/listen");
    request.params.push(("notifications", &lists));
    Some(request.to_json(&ids.next(), version))
}
