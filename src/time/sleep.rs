//! The futures that wait on a [`Clock`].

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::wheel::Key;
use super::{Clock, Instant};

/// The time was over before the future was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl std::fmt::Display for Elapsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the time allowed has passed")
    }
}

impl std::error::Error for Elapsed {}

/// Completes at its instant. It enters the wheel when it is first polled; dropping it cancels the timer.
pub struct Sleep {
    clock: Clock,
    at: Instant,
    key: Option<Key>,
}

impl Sleep {
    pub(super) const fn new(clock: Clock, at: Instant) -> Self {
        Self {
            clock,
            at,
            key: None,
        }
    }

    /// When it completes.
    #[must_use]
    pub const fn at(&self) -> Instant {
        self.at
    }

    /// Moves it to another instant, as if it had just been made.
    pub fn reset(&mut self, at: Instant) {
        self.cancel();
        self.at = at;
    }

    fn cancel(&mut self) {
        if let Some(key) = self.key.take() {
            self.clock.disarm(key);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // The clock decides, not the wake: a wake-up may be spurious, and the time may have jumped.
        if self.clock.now() >= self.at {
            self.cancel();
            return Poll::Ready(());
        }
        let key = self.clock.arm(self.key, self.at, cx.waker());
        self.key = Some(key);
        // A hand-driven clock may have moved between the look and the arming; the wheel fires past ticks only at
        // its next advance.
        if self.clock.now() >= self.at {
            self.cancel();
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// Ticks at a fixed period. A tick that nobody waited for is skipped, not made up for.
pub struct Interval {
    sleep: Sleep,
    period: Duration,
}

impl Interval {
    pub(super) fn new(clock: Clock, period: Duration) -> Self {
        let period = period.max(Duration::from_millis(1));
        let sleep = clock.sleep(period);
        Self { sleep, period }
    }

    /// Waits for the next tick. Dropping the returned future loses nothing: the tick is still to come.
    pub async fn tick(&mut self) {
        (&mut self.sleep).await;
        let now = self.sleep.clock.now();
        let mut next = self.sleep.at.after(self.period);
        if next <= now {
            next = now.after(self.period);
        }
        self.sleep.reset(next);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use super::*;

    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counted() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count(AtomicUsize::new(0)));
        (count.clone(), Waker::from(count))
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_sleep_ends_at_its_instant_and_not_a_millisecond_before() {
        let clock = Clock::hand_driven(0);
        let (count, waker) = counted();
        let mut cx = Context::from_waker(&waker);
        let mut sleep = clock.sleep(SECOND);
        assert!(Pin::new(&mut sleep).poll(&mut cx).is_pending());
        clock.advance(Duration::from_millis(999));
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        assert!(Pin::new(&mut sleep).poll(&mut cx).is_pending());
        clock.advance(Duration::from_millis(1));
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert!(Pin::new(&mut sleep).poll(&mut cx).is_ready());
        assert_eq!(clock.live_timers(), 0);
    }

    #[test]
    fn dropping_a_sleep_cancels_its_timer() {
        let clock = Clock::hand_driven(0);
        let (count, waker) = counted();
        let mut sleep = clock.sleep(SECOND);
        assert!(
            Pin::new(&mut sleep)
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        assert_eq!(clock.live_timers(), 1);
        drop(sleep);
        assert_eq!(clock.live_timers(), 0);
        clock.advance(2 * SECOND);
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        assert_eq!(
            Arc::strong_count(&count),
            2,
            "the wheel let go of the waker"
        );
    }

    #[test]
    fn a_timeout_prefers_the_result_and_drops_the_future_when_late() {
        let clock = Clock::hand_driven(0);
        assert_eq!(
            smol::block_on(clock.timeout(clock.now(), async { 7 })),
            Ok(7)
        );
        let held = Arc::new(());
        let kept = held.clone();
        let never = async move {
            let _kept = kept;
            std::future::pending::<()>().await;
        };
        assert_eq!(
            smol::block_on(clock.timeout(clock.now(), never)),
            Err(Elapsed)
        );
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn a_deadline_passes_with_the_first_of_its_two_clocks() {
        let clock = Clock::hand_driven(1_000_000);
        let deadline = clock.deadline(105 * SECOND);
        clock.advance(104 * SECOND);
        assert!(!deadline.passed(&clock));
        clock.suspend(SECOND);
        assert!(
            deadline.passed(&clock),
            "the machine slept over the deadline"
        );
        assert_eq!(deadline.remaining(&clock), Duration::ZERO);
    }

    #[test]
    fn an_interval_skips_what_nobody_waited_for() {
        let clock = Clock::hand_driven(0);
        let mut interval = clock.interval(SECOND);
        clock.advance(5 * SECOND + Duration::from_millis(500));
        smol::block_on(interval.tick());
        assert_eq!(interval.sleep.at().ms(), 6_500);
    }

    #[test]
    fn the_real_clock_fires_and_an_idle_one_sleeps() {
        let clock = Clock::real();
        smol::block_on(smol::future::or(
            async {
                clock.drive().await;
            },
            async {
                let before = clock.now();
                clock.sleep(Duration::from_millis(20)).await;
                assert!(clock.now().since(before) >= Duration::from_millis(20));
            },
        ));
    }
}
