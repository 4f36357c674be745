//! Futures that come and go, side by side in one.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

type Member<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Runs its members inside whoever polls it, each only when that one was woken: many that wait cost nothing. Dropping it
/// drops them all.
#[derive(Default)]
pub(super) struct Crowd<'a> {
    places: Vec<Place<'a>>,
    free: Vec<usize>,
    bells: Arc<Bells>,
}

struct Place<'a> {
    member: Option<Member<'a>>,
    bell: Arc<Bell>,
}

/// Who was woken.
#[derive(Default)]
struct Bells {
    rung: Mutex<Rung>,
}

#[derive(Default)]
struct Rung {
    places: Vec<usize>,
    /// Whoever polls the crowd.
    owner: Option<Waker>,
}

/// Wakes one member. A place that was given to another meanwhile has its new member polled once for nothing.
struct Bell {
    place: usize,
    /// Whether it rang and was not looked at yet.
    rang: AtomicBool,
    bells: Arc<Bells>,
}

impl Bells {
    fn lock(&self) -> MutexGuard<'_, Rung> {
        self.rung.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.rang.swap(true, Ordering::AcqRel) {
            return;
        }
        let owner = {
            let mut rung = self.bells.lock();
            rung.places.push(self.place);
            rung.owner.take()
        };
        owner.into_iter().for_each(Waker::wake);
    }
}

impl<'a> Crowd<'a> {
    /// Takes a member in and lets it go as far as it comes by itself, before any other goes on.
    pub(super) fn push(&mut self, member: impl Future<Output = ()> + Send + 'a) {
        let place = self.free.pop().unwrap_or_else(|| {
            let bell = Bell {
                place: self.places.len(),
                rang: AtomicBool::new(false),
                bells: self.bells.clone(),
            };
            self.places.push(Place {
                member: None,
                bell: Arc::new(bell),
            });
            self.places.len() - 1
        });
        if let Some(at) = self.places.get_mut(place) {
            at.member = Some(Box::pin(member));
        }
        self.go_on(place);
    }

    /// How many have not ended.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Polls those that were woken, once each. Whether any has ended.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        let woken = {
            let mut rung = self.bells.lock();
            // Before they are looked at, so that none wakes nobody.
            rung.owner = Some(cx.waker().clone());
            std::mem::take(&mut rung.places)
        };
        let ended = woken.into_iter().filter(|place| self.go_on(*place));
        ended.count() > 0
    }

    /// Polls one member, if there is one. Whether it has ended.
    fn go_on(&mut self, place: usize) -> bool {
        let Some(at) = self.places.get_mut(place) else {
            return false;
        };
        at.bell.rang.store(false, Ordering::Release);
        let Some(member) = &mut at.member else {
            return false;
        };
        let waker = Waker::from(at.bell.clone());
        if member
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
        {
            return false;
        }
        at.member = None;
        self.free.push(place);
        true
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::sync::atomic::AtomicUsize;
    use std::task::Poll;

    use smol::channel::unbounded;

    use super::*;

    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct Gone<'a>(&'a AtomicUsize);

    impl Drop for Gone<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn only_who_was_woken_is_polled() {
        let woken = Arc::new(Counted(AtomicUsize::new(0)));
        let waker = Waker::from(woken.clone());
        let mut cx = Context::from_waker(&waker);
        let polls: Vec<AtomicUsize> = (0..100).map(|_| AtomicUsize::new(0)).collect();
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..100).map(|_| unbounded::<()>()).unzip();
        let mut crowd = Crowd::default();
        for (polls, receiver) in polls.iter().zip(&receivers) {
            crowd.push(async move {
                let mut received = Box::pin(receiver.recv());
                poll_fn(|cx| {
                    polls.fetch_add(1, Ordering::Relaxed);
                    received.as_mut().poll(cx).map(drop)
                })
                .await;
            });
        }
        let counts = || -> Vec<usize> {
            polls
                .iter()
                .map(|polls| polls.load(Ordering::Relaxed))
                .collect()
        };
        assert_eq!(counts(), [1; 100], "each goes as far as it comes");
        assert!(!crowd.poll(&mut cx));
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
        senders[7].try_send(()).unwrap();
        senders[50].try_send(()).unwrap();
        assert_eq!(
            woken.0.load(Ordering::Relaxed),
            1,
            "one turn is enough for both"
        );
        assert!(crowd.poll(&mut cx));
        let mut expected = [1; 100];
        (expected[7], expected[50]) = (2, 2);
        assert_eq!(counts(), expected);
        assert!(!crowd.poll(&mut cx));
        // Their places are taken again, and stale wakers harm nobody.
        let gone = AtomicUsize::new(0);
        for _ in 0..2 {
            let guard = Gone(&gone);
            crowd.push(async move {
                let _guard = guard;
                pending().await
            });
        }
        assert_eq!(crowd.places.len(), 100);
        senders.iter().for_each(|sender| {
            let _ = sender.try_send(());
        });
        assert!(crowd.poll(&mut cx));
        assert_eq!(
            (crowd.free.len(), gone.load(Ordering::Relaxed)),
            (98, 0),
            "all but the two"
        );
        drop(crowd);
        assert_eq!(gone.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn one_that_wakes_itself_leaves_the_others_their_turn() {
        let waker = Waker::noop();
        let mut cx = Context::from_waker(waker);
        let turns = AtomicUsize::new(0);
        let mut crowd = Crowd::default();
        crowd.push(async {
            for _ in 0..3 {
                turns.fetch_add(1, Ordering::Relaxed);
                let mut first = true;
                poll_fn(|cx| {
                    cx.waker().wake_by_ref();
                    match std::mem::take(&mut first) {
                        true => Poll::Pending,
                        false => Poll::Ready(()),
                    }
                })
                .await;
            }
        });
        let seen: Vec<_> = (0..3)
            .map(|_| (turns.load(Ordering::Relaxed), crowd.poll(&mut cx)))
            .collect();
        assert_eq!(seen, [(1, false), (2, false), (3, true)]);
    }
}
