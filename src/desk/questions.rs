//! The questions: those that wait, and for a while those that were answered.
//!
//! One lock, held for the length of one operation: whoever answers a question first has answered it. Expiry is lazy:
//! every operation first settles what has lapsed, so nothing sees a question beyond its deadline.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::people::AnswersFor;
use super::session::SessionName;
use crate::approval::RequestId;
use crate::time::{Clock, Deadline, Instant};

/// Open questions at once: no desk of people answers more.
pub(super) const OPEN_IN_ALL: usize = 4096;

/// Open questions of one session: an agent that has so many unanswered gains nothing by another.
pub(super) const OPEN_PER_SESSION: usize = 64;

/// Bytes of the texts of all open questions together: 16 MB. Of the usual 1 KB each, [`OPEN_IN_ALL`] come first.
pub(super) const OPEN_BYTES: usize = 16_777_216;

/// How long a settled question can be polled, and its id is not taken again. An asker polls every few seconds.
const SETTLED_TIME: Duration = Duration::from_secs(60 * 60);

/// Settled questions kept at once, some 400 bytes each. The oldest go first; their polls then find nothing, which no
/// asker takes for a yes.
const SETTLED_ROWS: usize = 16_384;

/// Lines of the history that one look gives.
pub(super) const RECENT_ROWS: usize = 50;

/// Pages that wait for changes at once; each holds a connection.
const LISTENERS: usize = 512;

/// A question as it was asked.
#[derive(Debug)]
pub(super) struct Asked {
    /// The asker's id for it.
    pub(super) id: RequestId,
    pub(super) session: SessionName,
    /// The exact text.
    pub(super) message: String,
    /// The tool that would act; empty if the asker named none.
    pub(super) tool: String,
    /// The label of the box.
    pub(super) title: String,
    /// A line under the label.
    pub(super) description: Option<String>,
    /// Whether the sender proved more than that it knows the session URL.
    pub(super) sender_verified: bool,
    /// How long it waits for an answer.
    pub(super) window: Duration,
}

impl Asked {
    fn text_bytes(&self) -> usize {
        let description = self.description.as_ref().map_or(0, String::len);
        self.message.len() + self.tool.len() + self.title.len() + description
    }
}

/// A question that waits.
pub(super) struct Open {
    pub(super) asked: Asked,
    pub(super) asked_wall_ms: u64,
    pub(super) deadline: Deadline,
}

/// What a question came to. It never changes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A person accepted with the box ticked.
    Accepted,
    /// A person declined.
    Declined,
    /// Nobody answered in time.
    Expired,
    /// A person accepted with the box unticked.
    NotConfirmed,
}

impl Outcome {
    /// The word for it on the page and in replies.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Accepted => "accept",
            Self::Declined => "decline",
            Self::Expired => "expired",
            Self::NotConfirmed => "not-confirmed",
        }
    }
}

/// A question that waits no more. Its text is gone.
#[derive(Clone)]
pub(super) struct Settled {
    pub(super) id: RequestId,
    pub(super) session: SessionName,
    pub(super) tool: String,
    pub(super) outcome: Outcome,
    /// Who answered, where a person did.
    pub(super) who: Option<String>,
    pub(super) settled_wall_ms: u64,
    /// From the question to its end.
    pub(super) latency_ms: u64,
}

/// What a poll finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Polled {
    Pending,
    Settled { outcome: Outcome, wall_ms: u64 },
}

/// What an answer came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// Another was first, or the time was over.
    Already(Outcome),
    /// This one was the first.
    Now(Outcome),
    /// There is no such question for this person.
    Unknown,
}

/// What a person can do about a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Accept, with the box ticked or not.
    Accept {
        /// Whether it was ticked.
        confirm: bool,
    },
    /// Decline.
    Decline,
}

/// Why a question was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// Its id is, or lately was, that of another.
    Duplicate,
    /// The desk holds as many as it can.
    Full,
    /// Its session holds as many as it may.
    SessionFull,
}

impl fmt::Display for NotTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Duplicate => "the request id has been used before",
            Self::Full => "the desk holds as many open questions as it can",
            Self::SessionFull => "the session has as many open questions as it may have",
        })
    }
}

/// All questions of one desk.
pub(super) struct Questions {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: HashMap<RequestId, Arc<Open>>,
    open_per_session: HashMap<SessionName, usize>,
    open_bytes: usize,
    /// No open question lapses before it.
    earliest: Option<Deadline>,
    settled: HashMap<RequestId, Settled>,
    /// Ids of `settled` and when each was, oldest first.
    settled_order: VecDeque<(Instant, RequestId)>,
    listeners: HashMap<u64, Listener>,
    next_listener: u64,
    /// To be woken when the lock is free.
    due: Vec<Waker>,
}

/// One page that waits for changes.
struct Listener {
    sees: AnswersFor,
    /// Something changed since it last looked.
    changed: bool,
    waker: Option<Waker>,
}

impl Questions {
    pub(super) fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            clock,
            state: Mutex::default(),
        })
    }

    /// Takes a question.
    pub(super) fn create(&self, asked: Asked) -> Result<(), NotTaken> {
        self.with(|state, clock| {
            if state.open.contains_key(&asked.id) || state.settled.contains_key(&asked.id) {
                return Err(NotTaken::Duplicate);
            }
            let bytes = asked.text_bytes();
            if state.open.len() >= OPEN_IN_ALL || state.open_bytes + bytes > OPEN_BYTES {
                return Err(NotTaken::Full);
            }
            let of_session = state
                .open_per_session
                .entry(asked.session.clone())
                .or_default();
            if *of_session >= OPEN_PER_SESSION {
                return Err(NotTaken::SessionFull);
            }
            *of_session += 1;
            state.open_bytes += bytes;
            let deadline = clock.deadline(asked.window);
            state.earliest = Some(state.earliest.map_or(deadline, |at| at.min(deadline)));
            state.changed(&asked.session);
            let open = Open {
                asked_wall_ms: clock.wall_ms(),
                deadline,
                asked,
            };
            state.open.insert(open.asked.id.clone(), Arc::new(open));
            Ok(())
        })
    }

    /// What became of a question of this session; `None` where it has no such question.
    pub(super) fn poll(&self, session: &SessionName, id: &RequestId) -> Option<Polled> {
        self.with(|state, _| {
            if let Some(open) = state.open.get(id) {
                return (open.asked.session == *session).then_some(Polled::Pending);
            }
            let settled = state.settled.get(id)?;
            (settled.session == *session).then_some(Polled::Settled {
                outcome: settled.outcome,
                wall_ms: settled.settled_wall_ms,
            })
        })
    }

    /// Answers a question in the name of `who`, if it is one that they see. The first answer stands.
    pub(super) fn answer(
        &self,
        id: &RequestId,
        sees: &AnswersFor,
        who: &str,
        decision: Decision,
    ) -> Answered {
        self.with(|state, clock| {
            if let Some(settled) = state.settled.get(id) {
                return match sees.covers(&settled.session) {
                    true => Answered::Already(settled.outcome),
                    false => Answered::Unknown,
                };
            }
            match state.open.get(id) {
                Some(open) if sees.covers(&open.asked.session) => {}
                _ => return Answered::Unknown,
            }
            let outcome = match decision {
                Decision::Accept { confirm: true } => Outcome::Accepted,
                Decision::Accept { confirm: false } => Outcome::NotConfirmed,
                Decision::Decline => Outcome::Declined,
            };
            state.settle(id, outcome, Some(who), clock.now(), clock.wall_ms());
            Answered::Now(outcome)
        })
    }

    /// The open questions that `sees` covers, in no order.
    pub(super) fn open(&self, sees: &AnswersFor) -> Vec<Arc<Open>> {
        self.with(|state, _| {
            let all = state.open.values();
            all.filter(|open| sees.covers(&open.asked.session))
                .cloned()
                .collect()
        })
    }

    /// The last settled questions that `sees` covers, newest first.
    pub(super) fn recent(&self, sees: &AnswersFor) -> Vec<Settled> {
        let mut recent: Vec<Settled> = self.with(|state, _| {
            let newest_first = state.settled_order.iter().rev();
            newest_first
                .filter_map(|(_, id)| state.settled.get(id))
                .filter(|settled| sees.covers(&settled.session))
                .take(RECENT_ROWS)
                .cloned()
                .collect()
        });
        // What lapsed unseen was settled after its time.
        recent.sort_by_key(|settled| std::cmp::Reverse(settled.settled_wall_ms));
        recent
    }

    /// One settled question that `sees` covers.
    pub(super) fn settled(&self, id: &RequestId, sees: &AnswersFor) -> Option<Settled> {
        self.with(|state, _| {
            let settled = state.settled.get(id);
            settled
                .filter(|settled| sees.covers(&settled.session))
                .cloned()
        })
    }

    /// Listens for changes of what `sees` covers, from now on; `None` while too many listen already.
    pub(super) fn listen(self: &Arc<Self>, sees: AnswersFor) -> Option<Changes> {
        self.with(|state, _| {
            if state.listeners.len() >= LISTENERS {
                return None;
            }
            state.next_listener += 1;
            let key = state.next_listener;
            let listener = Listener {
                sees,
                changed: false,
                waker: None,
            };
            state.listeners.insert(key, listener);
            Some(Changes {
                questions: self.clone(),
                key,
            })
        })
    }

    /// Runs one operation on what is true now, then wakes whom it concerns.
    fn with<T>(&self, operation: impl FnOnce(&mut State, &Clock) -> T) -> T {
        let (result, due) = {
            let mut state = self.state();
            state.expire(&self.clock);
            state.sweep(&self.clock);
            let result = operation(&mut state, &self.clock);
            (result, std::mem::take(&mut state.due))
        };
        due.into_iter().for_each(Waker::wake);
        result
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Settles every open question whose deadline has passed, as of that deadline.
    fn expire(&mut self, clock: &Clock) {
        if !self.earliest.is_some_and(|at| at.passed(clock)) {
            return;
        }
        let mut lapsed: Vec<Arc<Open>> = self
            .open
            .values()
            .filter(|open| open.deadline.passed(clock))
            .cloned()
            .collect();
        lapsed.sort_by_key(|open| open.deadline.wall_ms());
        for open in lapsed {
            let (id, at) = (&open.asked.id, open.deadline.wall_ms());
            self.settle(id, Outcome::Expired, None, clock.now(), at);
        }
        let deadlines = self.open.values().map(|open| open.deadline);
        self.earliest = deadlines.reduce(Deadline::min);
    }

    /// Moves a question from the open to the settled ones.
    fn settle(
        &mut self,
        id: &RequestId,
        outcome: Outcome,
        who: Option<&str>,
        now: Instant,
        wall_ms: u64,
    ) {
        let Some(open) = self.open.remove(id) else {
            return;
        };
        let asked = &open.asked;
        self.open_bytes -= asked.text_bytes();
        if let Some(of_session) = self.open_per_session.get_mut(&asked.session) {
            *of_session -= 1;
            if *of_session == 0 {
                self.open_per_session.remove(&asked.session);
            }
        }
        let settled = Settled {
            id: id.clone(),
            session: asked.session.clone(),
            tool: asked.tool.clone(),
            outcome,
            who: who.map(str::to_owned),
            settled_wall_ms: wall_ms,
            latency_ms: wall_ms.saturating_sub(open.asked_wall_ms),
        };
        self.settled_order.push_back((now, id.clone()));
        self.settled.insert(id.clone(), settled);
        self.changed(&asked.session);
    }

    /// Forgets settled questions that are old or too many.
    fn sweep(&mut self, clock: &Clock) {
        let now = clock.now();
        while let Some((at, id)) = self.settled_order.front() {
            if self.settled_order.len() <= SETTLED_ROWS && now.since(*at) < SETTLED_TIME {
                return;
            }
            self.settled.remove(id);
            self.settled_order.pop_front();
        }
    }

    /// Marks the listeners that see `session`.
    fn changed(&mut self, session: &SessionName) {
        for listener in self.listeners.values_mut() {
            if listener.sees.covers(session) {
                listener.changed = true;
                self.due.extend(listener.waker.take());
            }
        }
    }
}

/// One listener's place. Dropping it gives the place up.
pub(super) struct Changes {
    questions: Arc<Questions>,
    key: u64,
}

impl Changes {
    /// Waits for a change since the last one that this returned; several make one. Dropping the future loses none.
    pub(super) async fn next(&mut self) {
        poll_fn(|cx| self.poll_next(cx)).await;
    }

    fn poll_next(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.questions.state();
        let Some(listener) = state.listeners.get_mut(&self.key) else {
            return Poll::Pending;
        };
        if std::mem::take(&mut listener.changed) {
            return Poll::Ready(());
        }
        let replaced = listener.waker.replace(cx.waker().clone());
        drop(state);
        // Dropping a waker can run foreign code: never under the lock.
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        let listener = self.questions.state().listeners.remove(&self.key);
        drop(listener);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;
    use crate::desk::people::tests::answers_for;

    const TICKED: Decision = Decision::Accept { confirm: true };

    fn id(text: &str) -> RequestId {
        RequestId::parse(text).unwrap()
    }

    fn session(text: &str) -> SessionName {
        SessionName::parse(text).unwrap()
    }

    fn asked(name: &str, request_id: &str) -> Asked {
        Asked {
            id: id(request_id),
            session: session(name),
            message: "Delete \"a.txt\"?".to_owned(),
            tool: "delete_file".to_owned(),
            title: String::new(),
            description: None,
            sender_verified: false,
            window: Duration::from_secs(105),
        }
    }

    fn desk() -> (Clock, Arc<Questions>, AnswersFor) {
        let clock = Clock::hand_driven(1_000_000);
        (clock.clone(), Questions::new(clock), answers_for(&["*"]))
    }

    fn polled(questions: &Questions, name: &str, request_id: &str) -> Option<Polled> {
        questions.poll(&session(name), &id(request_id))
    }

    #[test]
    fn the_first_answer_stands() {
        for (decision, outcome) in [
            (TICKED, Outcome::Accepted),
            (Decision::Accept { confirm: false }, Outcome::NotConfirmed),
            (Decision::Decline, Outcome::Declined),
        ] {
            let (clock, questions, all) = desk();
            questions.create(asked("a", "r")).unwrap();
            assert_eq!(polled(&questions, "a", "r"), Some(Polled::Pending));
            clock.advance(Duration::from_secs(2));
            assert_eq!(
                questions.answer(&id("r"), &all, "ana", decision),
                Answered::Now(outcome)
            );
            for second in [TICKED, Decision::Decline] {
                let answered = questions.answer(&id("r"), &all, "bo", second);
                assert_eq!(answered, Answered::Already(outcome));
            }
            let wall_ms = 1_002_000;
            assert_eq!(
                polled(&questions, "a", "r"),
                Some(Polled::Settled { outcome, wall_ms })
            );
            let settled = questions.settled(&id("r"), &all).unwrap();
            assert_eq!(
                (settled.who.as_deref(), settled.latency_ms),
                (Some("ana"), 2_000)
            );
            assert!(questions.open(&all).is_empty());
        }
    }

    #[test]
    fn of_answers_from_many_threads_one_is_first() {
        let (_, questions, all) = desk();
        for round in 0..200 {
            let name = format!("r{round}");
            questions.create(asked("a", &name)).unwrap();
            let answers: Vec<Answered> = std::thread::scope(|scope| {
                let threads: Vec<_> = [TICKED, Decision::Decline, TICKED, Decision::Decline]
                    .into_iter()
                    .map(|decision| {
                        let (questions, all, name) = (&questions, &all, &name);
                        scope.spawn(move || questions.answer(&id(name), all, "ana", decision))
                    })
                    .collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap())
                    .collect()
            });
            let first: Vec<&Answered> = answers
                .iter()
                .filter(|answered| matches!(answered, Answered::Now(_)))
                .collect();
            let [Answered::Now(outcome)] = first[..] else {
                panic!("{answers:?}");
            };
            let others = answers
                .iter()
                .filter(|&&answered| answered == Answered::Already(*outcome));
            assert_eq!(others.count(), 3);
        }
    }

    #[test]
    fn a_question_lapses_at_its_deadline() {
        for (ms, sleeps, expired) in [
            (104_999, false, false),
            (105_000, false, true),
            (105_001, false, true),
            (104_999, true, false),
            (105_000, true, true),
        ] {
            let (clock, questions, all) = desk();
            questions.create(asked("a", "r")).unwrap();
            let by = Duration::from_millis(ms);
            if sleeps {
                clock.suspend(by);
            } else {
                clock.advance(by);
            }
            assert_eq!(questions.open(&all).is_empty(), expired);
            let answered = questions.answer(&id("r"), &all, "ana", TICKED);
            if expired {
                assert_eq!(answered, Answered::Already(Outcome::Expired));
                let settled = questions.settled(&id("r"), &all).unwrap();
                assert_eq!(settled.settled_wall_ms, 1_105_000);
                assert_eq!((settled.latency_ms, settled.who), (105_000, None));
            } else {
                assert_eq!(answered, Answered::Now(Outcome::Accepted));
            }
        }
    }

    #[test]
    fn an_earlier_deadline_is_met_among_later_ones() {
        let (clock, questions, all) = desk();
        for (name, seconds) in [("r1", 300), ("r2", 100), ("r3", 200)] {
            let window = Duration::from_secs(seconds);
            questions
                .create(Asked {
                    window,
                    ..asked("a", name)
                })
                .unwrap();
        }
        for (left, at) in [(3, 99), (2, 100), (2, 199), (1, 200), (1, 299), (0, 300)] {
            let target = Instant::from_ms(at * 1000);
            clock.advance(target.since(clock.now()));
            assert_eq!(questions.open(&all).len(), left, "{at}");
        }
        let recent: Vec<String> = questions
            .recent(&all)
            .iter()
            .map(|settled| settled.id.as_str().to_owned())
            .collect();
        assert_eq!(recent, ["r1", "r3", "r2"]);
    }

    #[test]
    fn nobody_sees_or_answers_what_is_not_theirs() {
        let (ana, bo) = (answers_for(&["a"]), answers_for(&["b*"]));
        for (sees, own, other, own_session, other_session) in
            [(&ana, "r1", "r2", "a", "b2"), (&bo, "r2", "r1", "b2", "a")]
        {
            let (_, questions, all) = desk();
            questions.create(asked("a", "r1")).unwrap();
            questions.create(asked("b2", "r2")).unwrap();
            let answer = |request_id| questions.answer(&id(request_id), sees, "x", TICKED);
            let open = questions.open(sees);
            assert_eq!((open.len(), open[0].asked.id.as_str()), (1, own));
            assert_eq!(answer(other), Answered::Unknown);
            assert_eq!(answer("r0"), Answered::Unknown);
            assert_eq!(polled(&questions, own_session, other), None);
            assert_eq!(
                polled(&questions, other_session, other),
                Some(Polled::Pending)
            );
            assert_eq!(answer(own), Answered::Now(Outcome::Accepted));
            assert_eq!(polled(&questions, other_session, own), None);
            // Nor when it is settled.
            questions.answer(&id(other), &all, "y", Decision::Decline);
            assert_eq!(answer(other), Answered::Unknown);
            assert_eq!(questions.recent(sees).len(), 1);
            assert!(questions.settled(&id(other), sees).is_none());
        }
    }

    #[test]
    fn an_id_is_taken_once_until_it_is_swept() {
        let (clock, questions, all) = desk();
        questions.create(asked("a", "r")).unwrap();
        assert_eq!(questions.create(asked("b", "r")), Err(NotTaken::Duplicate));
        questions.answer(&id("r"), &all, "ana", Decision::Decline);
        assert_eq!(questions.create(asked("b", "r")), Err(NotTaken::Duplicate));
        clock.advance(SETTLED_TIME - Duration::from_millis(1));
        assert_eq!(questions.create(asked("b", "r")), Err(NotTaken::Duplicate));
        clock.advance(Duration::from_millis(1));
        assert_eq!(polled(&questions, "a", "r"), None);
        assert_eq!(questions.create(asked("b", "r")), Ok(()));
        assert_eq!(questions.recent(&all).len(), 0);
    }

    #[test]
    fn open_questions_are_bounded_and_room_comes_back() {
        let (clock, questions, all) = desk();
        for at in 0..OPEN_IN_ALL {
            let name = format!("s{}", at / OPEN_PER_SESSION);
            questions.create(asked(&name, &format!("r{at}"))).unwrap();
            if at + 1 == OPEN_PER_SESSION {
                assert_eq!(
                    questions.create(asked("s0", "x")),
                    Err(NotTaken::SessionFull)
                );
            }
        }
        assert_eq!(questions.create(asked("new", "x")), Err(NotTaken::Full));
        questions.answer(&id("r5"), &all, "ana", Decision::Decline);
        assert_eq!(
            questions.create(asked("s1", "x")),
            Err(NotTaken::SessionFull)
        );
        assert_eq!(questions.create(asked("s0", "x")), Ok(()));
        clock.advance(Duration::from_secs(105));
        assert_eq!(questions.create(asked("s0", "y")), Ok(()));
        let state = questions.state();
        assert_eq!((state.open.len(), state.open_per_session.len()), (1, 1));
        assert_eq!(state.open_bytes, asked("s0", "y").text_bytes());
        assert_eq!(state.settled.len(), OPEN_IN_ALL + 1);
    }

    #[test]
    fn their_texts_are_bounded_together() {
        let (_, questions, _) = desk();
        let mut taken = 0;
        loop {
            let question = Asked {
                message: "m".repeat(65_536),
                ..asked(&format!("s{taken}"), &format!("r{taken}"))
            };
            match questions.create(question) {
                Ok(()) => taken += 1,
                Err(refused) => break assert_eq!(refused, NotTaken::Full),
            }
        }
        assert!((200..=256).contains(&taken), "{taken}");
    }

    #[test]
    fn settled_questions_are_bounded() {
        let (_, questions, all) = desk();
        for at in 0..SETTLED_ROWS + 10 {
            let name = format!("r{at}");
            questions.create(asked("a", &name)).unwrap();
            questions.answer(&id(&name), &all, "ana", Decision::Decline);
        }
        assert_eq!(polled(&questions, "a", "r9"), None);
        assert!(polled(&questions, "a", "r10").is_some());
        assert_eq!(questions.state().settled.len(), SETTLED_ROWS);
        assert_eq!(questions.recent(&all).len(), RECENT_ROWS);
    }

    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_listener_hears_of_its_sessions_and_no_others() {
        let (clock, questions, all) = desk();
        let mut changes = questions.listen(answers_for(&["a"])).unwrap();
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(count.clone());
        let mut heard = |expected: bool, woken: usize| {
            let ready = pin!(changes.next())
                .poll(&mut Context::from_waker(&waker))
                .is_ready();
            assert_eq!((ready, count.0.load(Ordering::Relaxed)), (expected, woken));
        };
        heard(false, 0);
        questions.create(asked("b", "r1")).unwrap();
        heard(false, 0);
        questions.create(asked("a", "r2")).unwrap();
        questions.create(asked("a", "r3")).unwrap();
        heard(true, 1);
        heard(false, 1);
        questions.answer(&id("r2"), &all, "ana", TICKED);
        heard(true, 2);
        heard(false, 2);
        clock.advance(Duration::from_secs(105));
        questions.open(&all);
        heard(true, 3);
        drop(changes);
        assert!(questions.state().listeners.is_empty());
    }

    #[test]
    fn listeners_are_bounded() {
        let (_, questions, all) = desk();
        let held: Vec<Changes> = (0..LISTENERS)
            .map(|_| questions.listen(all.clone()).unwrap())
            .collect();
        assert!(questions.listen(all.clone()).is_none());
        drop(held);
        assert!(questions.listen(all).is_some());
    }
}
