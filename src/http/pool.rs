//! Connections kept between requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::client::Origin;
use crate::time::{Clock, Instant};
use crate::world::Stream;

/// Idle connections kept to one origin. A burst of callers would otherwise leave as many open as it had members.
const IDLE_PER_ORIGIN: usize = 32;

/// Idle connections kept in all: each holds a descriptor, and callers name the origins.
const IDLE_IN_ALL: usize = 256;

/// How long an idle connection is worth keeping: servers drop theirs after 5 to 75 s, and a poll comes each 5 s.
const IDLE_TIME: Duration = Duration::from_secs(55);

/// Idle connections by origin; the one used last goes out first. Cloning gives the same pool.
#[derive(Clone)]
pub(super) struct Pool {
    clock: Clock,
    idle: Arc<Mutex<HashMap<Origin, Vec<Idle>>>>,
}

struct Idle {
    stream: Stream,
    since: Instant,
}

impl Pool {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            idle: Arc::default(),
        }
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<Origin, Vec<Idle>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that is still open and silent, if there is one.
    pub(super) fn take(&self, origin: &Origin) -> Option<Stream> {
        let now = self.clock.now();
        let mut idle = self.idle();
        let kept = idle.get_mut(origin)?;
        while let Some(last) = kept.pop() {
            // Bytes that nobody asked for are as bad as an end: they would be taken for the next reply.
            let silent = last.stream.try_read(&mut [0; 1]).is_none();
            if silent && now.since(last.since) < IDLE_TIME {
                return Some(last.stream);
            }
        }
        idle.remove(origin);
        None
    }

    /// Keeps a connection after a reply that was framed and read whole.
    pub(super) fn put(&self, origin: &Origin, stream: Stream) {
        let now = self.clock.now();
        let mut idle = self.idle();
        idle.retain(|_, kept| {
            kept.retain(|one| now.since(one.since) < IDLE_TIME);
            !kept.is_empty()
        });
        if idle.values().map(Vec::len).sum::<usize>() >= IDLE_IN_ALL {
            return;
        }
        let kept = idle.entry(origin.clone()).or_default();
        if kept.len() < IDLE_PER_ORIGIN {
            kept.push(Idle { stream, since: now });
        }
    }
}
