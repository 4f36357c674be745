//! The clock: real, or driven by hand.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::wheel::{Key, NotLive, Wheel};
use super::{Deadline, Elapsed, Interval, Sleep};

/// A point in monotonic time: whole milliseconds since the clock that gave it was made.
///
/// Instants of two clocks must not be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The instant `ms` milliseconds after the clock's origin.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the clock's origin.
    #[must_use]
    pub const fn ms(self) -> u64 {
        self.0
    }

    /// This instant moved by `by` into the future, rounded up to the millisecond.
    #[must_use]
    pub fn after(self, by: Duration) -> Self {
        Self(self.0.saturating_add(whole_ms(by)))
    }

    /// The time from `earlier` to this instant; zero when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// A duration in milliseconds, rounded up: a timer may be late, never early.
fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// A source of time with every timer that waits on it. Cloning gives another handle to the same clock.
#[derive(Clone)]
pub struct Clock {
    shared: Arc<Shared>,
}

struct Shared {
    source: Source,
    /// Locked for the length of one wheel operation; wakers run only after the guard is gone.
    timers: Mutex<Timers>,
}

enum Source {
    /// `CLOCK_MONOTONIC` and the system's wall clock.
    Real { origin: std::time::Instant },
    /// [`Clock::advance`] moves it; the two readings are in `Timers`.
    Hand,
}

struct Timers {
    wheel: Wheel,
    /// Readings of a hand-driven clock, ms; unused by a real one.
    hand_now: u64,
    hand_wall: u64,
    /// The tick for which the driver's timer is armed, and who to wake when an earlier one comes.
    armed: u64,
    driver: Option<Waker>,
}

impl Clock {
    /// The machine's clock. Timers fire only while [`Clock::drive`] is polled.
    #[must_use]
    pub fn real() -> Self {
        Self::new(
            Source::Real {
                origin: std::time::Instant::now(),
            },
            0,
        )
    }

    /// A clock that stands still at `wall_ms` (milliseconds since the Unix epoch) until [`Clock::advance`].
    #[must_use]
    pub fn hand_driven(wall_ms: u64) -> Self {
        Self::new(Source::Hand, wall_ms)
    }

    fn new(source: Source, hand_wall: u64) -> Self {
        let timers = Timers {
            wheel: Wheel::new(0),
            hand_now: 0,
            hand_wall,
            armed: u64::MAX,
            driver: None,
        };
        Self {
            shared: Arc::new(Shared {
                source,
                timers: Mutex::new(timers),
            }),
        }
    }

    fn timers(&self) -> MutexGuard<'_, Timers> {
        // The wheel is valid at every line that can panic, so a poisoned lock still guards good state.
        self.shared
            .timers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Monotonic time. It stands still while the machine sleeps: see [`Deadline`].
    #[must_use]
    pub fn now(&self) -> Instant {
        match self.shared.source {
            Source::Real { origin } => Instant(ms_of(origin.elapsed())),
            Source::Hand => Instant(self.timers().hand_now),
        }
    }

    /// Wall-clock time, milliseconds since the Unix epoch.
    #[must_use]
    pub fn wall_ms(&self) -> u64 {
        match self.shared.source {
            Source::Real { .. } => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, ms_of),
            Source::Hand => self.timers().hand_wall,
        }
    }

    /// The first instant that is at least `by` from now.
    #[must_use]
    pub fn after(&self, by: Duration) -> Instant {
        match self.shared.source {
            Source::Real { origin } => Instant(whole_ms(origin.elapsed().saturating_add(by))),
            Source::Hand => self.now().after(by),
        }
    }

    /// A future that completes `by` from now. Dropping it cancels the timer.
    pub fn sleep(&self, by: Duration) -> Sleep {
        self.sleep_until(self.after(by))
    }

    /// A future that completes at `at`, or at once when `at` has passed. Dropping it cancels the timer.
    pub fn sleep_until(&self, at: Instant) -> Sleep {
        Sleep::new(self.clone(), at)
    }

    /// Ticks every `period` (at least 1 ms), the first time one period from now.
    pub fn interval(&self, period: Duration) -> Interval {
        Interval::new(self.clone(), period)
    }

    /// The deadline `by` from now, in monotonic and in wall-clock time.
    #[must_use]
    pub fn deadline(&self, by: Duration) -> Deadline {
        Deadline::new(self.after(by), self.wall_ms().saturating_add(whole_ms(by)))
    }

    /// Runs `future` until it completes or `at` comes.
    ///
    /// The future is polled first: a result that is ready at the same time as the deadline is returned, so what
    /// must not happen late checks its [`Deadline`] itself. Dropping the returned future drops `future`.
    ///
    /// # Errors
    /// [`Elapsed`] when `at` came first; `future` has then been dropped.
    pub async fn timeout<F: Future>(&self, at: Instant, future: F) -> Result<F::Output, Elapsed> {
        let mut future = pin!(future);
        let mut sleep = self.sleep_until(at);
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            Pin::new(&mut sleep).poll(cx).map(|()| Err(Elapsed))
        })
        .await
    }

    /// How many timers are live. For tests and the metric `countersign_timers`.
    #[must_use]
    pub fn live_timers(&self) -> usize {
        self.timers().wheel.len()
    }

    /// Moves a hand-driven clock, monotonic and wall alike, and fires what came due. Does nothing to a real clock.
    pub fn advance(&self, by: Duration) {
        self.jump(whole_ms(by), whole_ms(by));
    }

    /// A hand-driven machine that sleeps for `by`: the wall clock moves, monotonic time does not.
    pub fn suspend(&self, by: Duration) {
        self.jump(0, whole_ms(by));
    }

    fn jump(&self, monotonic: u64, wall: u64) {
        if !matches!(self.shared.source, Source::Hand) {
            return;
        }
        let mut due = Vec::new();
        {
            let mut timers = self.timers();
            timers.hand_now = timers.hand_now.saturating_add(monotonic);
            timers.hand_wall = timers.hand_wall.saturating_add(wall);
            let now = timers.hand_now;
            timers.wheel.advance(now, &mut due);
        }
        due.into_iter().for_each(Waker::wake);
    }

    /// Fires the timers of a real clock, for as long as it is polled; never completes. One future a clock.
    ///
    /// It holds one `async_io::Timer`, armed for the wheel's next tick and re-armed only for an earlier one, so an
    /// idle wheel wakes nobody. Dropping it stops all timers of this clock.
    pub async fn drive(&self) {
        let mut timer = smol::Timer::never();
        let mut due = Vec::new();
        poll_fn(|cx| {
            loop {
                let now = self.now();
                let next = {
                    let mut timers = self.timers();
                    timers.wheel.advance(now.0, &mut due);
                    timers.armed = timers.wheel.next().unwrap_or(u64::MAX);
                    match &mut timers.driver {
                        Some(waker) => waker.clone_from(cx.waker()),
                        none => *none = Some(cx.waker().clone()),
                    }
                    timers.armed
                };
                // A wake can drop a task that cancels a timer: never under the lock.
                due.drain(..).for_each(Waker::wake);
                if next == u64::MAX {
                    timer = smol::Timer::never();
                    return Poll::<()>::Pending;
                }
                let Source::Real { origin } = self.shared.source else {
                    return Poll::Pending;
                };
                match origin.checked_add(Duration::from_millis(next)) {
                    Some(at) => timer.set_at(at),
                    None => timer = smol::Timer::never(),
                }
                if Pin::new(&mut timer).poll(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await;
    }

    /// Arms or re-arms one sleep and returns its key.
    pub(super) fn arm(&self, key: Option<Key>, at: Instant, waker: &Waker) -> Key {
        let (key, driver) = {
            let mut timers = self.timers();
            match key.map(|live| (live, timers.wheel.rewake(live, waker))) {
                Some((live, Ok(replaced))) => {
                    // Dropping a waker can run foreign code: never under the lock.
                    drop(timers);
                    drop(replaced);
                    return live;
                }
                Some((_, Err(NotLive))) | None => {}
            }
            let key = timers.wheel.insert(at.0, waker.clone());
            let earlier = timers.wheel.next().is_some_and(|next| next < timers.armed);
            (key, if earlier { timers.driver.clone() } else { None })
        };
        if let Some(driver) = driver {
            driver.wake();
        }
        key
    }

    /// Cancels one sleep; the waker it held is dropped after the lock.
    pub(super) fn disarm(&self, key: Key) {
        let waker = self.timers().wheel.cancel(key);
        drop(waker);
    }
}

fn ms_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
