//! The owner of the process: when it is started, and when again.

use std::time::Duration;

use smol::channel::{Receiver, Sender};

use super::opening::{Era, Known, Opening};
use super::talk::{End, Talk};
use super::{Answered, CallFault, Command, Event, Found, Ids, broken};
use crate::http::FaultKind;
use crate::mcp::changes::Announcer;
use crate::mcp::client::ProgramSource;
use crate::mcp::version::Version;
use crate::time::Instant;
use crate::world::World;

/// A process that could be used for so long had started well: what ended it then is no fault of its start.
const STEADY: Duration = Duration::from_secs(60);

/// The longest time between two starts of a server that fails again and again.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// Everything that outlives one process.
pub(super) struct Owner {
    pub(super) world: World,
    pub(super) label: String,
    pub(super) program: ProgramSource,
    pub(super) wanted: Option<Version>,
    pub(super) ids: Ids,
    pub(super) announcer: Announcer,
    pub(super) commands: Receiver<Command>,
    pub(super) gone: Receiver<()>,
    pub(super) answers: Receiver<Answered>,
}

/// What the past of a server says of its future.
#[derive(Default)]
struct History {
    era: Option<Era>,
    /// Processes that failed, one after the other.
    failures: u32,
    /// The last start.
    started: Option<Instant>,
}

impl Owner {
    /// Lives as long as the client does. Dropping the future ends the process.
    pub(super) async fn own(self) {
        let mut history = History::default();
        let mut run = 0;
        while let Ok(command) = self.commands.recv().await {
            match command {
                // It was for a process that is gone.
                Command::Request(request) => drop(request.events.try_send(Event::Again)),
                Command::Open(told) => match history.rest(self.world.clock.now()) {
                    Some(again_in) => {
                        drop(told.try_send(Err(CallFault::Ended { again_in })));
                    }
                    None => self.serve(told, &mut history, &mut run).await,
                },
            }
        }
    }

    /// Starts the process and sees it to its end.
    async fn serve(
        &self,
        first: Sender<Result<Found, CallFault>>,
        history: &mut History,
        run: &mut u64,
    ) {
        let clock = &self.world.clock;
        let mut waiting = vec![first];
        let mut dies_of_probe = false;
        loop {
            *run += 1;
            let known = Known {
                wanted: self.wanted,
                era: history.era,
                dies_of_probe,
            };
            let now = clock.now();
            history.started = Some(now);
            let program = match (self.program)() {
                Ok(program) => program,
                Err(name) => {
                    // Nothing was started, so that nothing has to rest.
                    tell(&mut waiting, &Err(CallFault::Unset(name)));
                    return;
                }
            };
            let child = match self.world.start_piped(&program) {
                Ok(child) => child,
                Err(fault) => {
                    log::warn!("[{}] not started: {fault}", self.label);
                    history.failed(None, now);
                    tell(&mut waiting, &Err(CallFault::NotStarted(fault)));
                    return;
                }
            };
            log::info!("[{}] started", self.label);
            let (opening, message) = Opening::new(known, now, &self.ids);
            let mut talk = Talk::new(self, *run, child, opening, message, waiting);
            let end = talk.run().await;
            let open = talk.open.take();
            if let Some((since, version)) = open {
                history.era = Some(match version.is_modern() {
                    true => Era::Modern,
                    false => Era::Legacy,
                });
                history.failed(Some(since), clock.now());
            }
            waiting = talk.waiting;
            // Dropping the child ends it, now or in a moment with this task: not both, or it would have its time twice.
            if matches!(end, End::Left) {
                return;
            }
            // Before the next one starts: two processes of one server might not get on with each other.
            let status = talk.child.end().await;
            match status {
                Some(status) => log::warn!("[{}] ended: {status}", self.label),
                None => log::warn!("[{}] ended", self.label),
            }
            let fault = match end {
                End::DiedOfProbe => {
                    dies_of_probe = true;
                    continue;
                }
                End::Died | End::Left => broken(FaultKind::Closed, false),
                End::Failed(fault) => fault,
            };
            if open.is_none() {
                log::warn!("[{}] cannot be used: {fault}", self.label);
                // What was known is to be found out anew.
                history.era = None;
                history.failed(None, clock.now());
            }
            tell(&mut waiting, &Err(fault));
            return;
        }
    }
}

/// Tells everyone who waits for the opening what came of it.
pub(super) fn tell(
    waiting: &mut Vec<Sender<Result<Found, CallFault>>>,
    what: &Result<Found, CallFault>,
) {
    for told in waiting.drain(..) {
        // Closed: it waits no longer.
        let _ = told.try_send(what.clone());
    }
}

impl History {
    /// A process has ended that nobody ended, or could not be started. Since when it could be used.
    fn failed(&mut self, open_since: Option<Instant>, now: Instant) {
        let was_steady = open_since.is_some_and(|since| now.since(since) >= STEADY);
        self.failures = match was_steady {
            true => 1,
            false => self.failures.saturating_add(1),
        };
    }

    /// How long nothing may be started yet: 0, 1 s, 2 s, 4 s … 60 s from one start to the next.
    fn rest(&self, now: Instant) -> Option<Duration> {
        let doublings = self.failures.checked_sub(2)?;
        let rest = 1_u64.checked_shl(doublings).map(Duration::from_secs);
        let rest = rest.map_or(LONGEST_REST, |rest| rest.min(LONGEST_REST));
        let left = self.started?.after(rest).since(now);
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_double_up_to_a_minute_and_a_steady_process_ends_them() {
        let mut history = History::default();
        let at = |seconds: u64| Instant::from_ms(seconds * 1000);
        let mut now = 0;
        for expected in [0, 1, 2, 4, 8, 16, 32, 60, 60] {
            history.started = Some(at(now));
            history.failed(None, at(now));
            let rest = history.rest(at(now)).unwrap_or_default();
            assert_eq!(rest, Duration::from_secs(expected));
            assert_eq!(history.rest(at(now + expected)), None);
            now += 100;
        }
        history.failures = u32::MAX;
        history.failed(Some(at(now)), at(now + 59));
        assert_eq!(history.rest(at(now - 100)), Some(LONGEST_REST));
        // From start to start, however long it ran in between.
        assert_eq!(history.rest(at(now - 50)), Some(LONGEST_REST / 6));
        history.failed(Some(at(now)), at(now + 60));
        assert_eq!(history.failures, 1);
    }
}
