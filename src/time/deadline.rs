//! A deadline that a sleeping machine does not stretch.

use std::time::Duration;

use super::{Clock, Instant};

/// A point after which nothing may act: a monotonic instant **and** a wall-clock time, passed with the first.
///
/// The monotonic clock stands still while the machine sleeps, so on its own it would find a window still open an
/// hour later; the wall clock can be set back, so on its own it would too (design section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    at: Instant,
    wall_ms: u64,
}

impl Deadline {
    pub(super) const fn new(at: Instant, wall_ms: u64) -> Self {
        Self { at, wall_ms }
    }

    /// The monotonic half, for timers.
    #[must_use]
    pub const fn at(&self) -> Instant {
        self.at
    }

    /// The wall-clock half, milliseconds since the Unix epoch, for people and other machines.
    #[must_use]
    pub const fn wall_ms(&self) -> u64 {
        self.wall_ms
    }

    /// Whether it has come: the very millisecond of the deadline is past it.
    #[must_use]
    pub fn passed(&self, clock: &Clock) -> bool {
        clock.now() >= self.at || clock.wall_ms() >= self.wall_ms
    }

    /// The time left by whichever clock is nearer to it; zero once passed.
    #[must_use]
    pub fn remaining(&self, clock: &Clock) -> Duration {
        let wall = Duration::from_millis(self.wall_ms.saturating_sub(clock.wall_ms()));
        self.at.since(clock.now()).min(wall)
    }

    /// The earlier of two deadlines, half by half.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self {
            at: self.at.min(other.at),
            wall_ms: self.wall_ms.min(other.wall_ms),
        }
    }
}
