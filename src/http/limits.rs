//! What a server allows, each bound with its reason.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::head::HeadLimits;

/// Bounds of one server. The defaults are those of the configuration reference.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Size and count of a request's head.
    pub head: HeadLimits,
    /// Connections open at once, over all servers that share it; the next one is answered 503 and closed. Each costs a
    /// descriptor.
    pub connections: Budget,
    /// From the first byte of a head to its end: a slow head holds a connection no longer than this.
    pub head_time: Duration,
    /// For a whole body, and for each step of a reader that takes our answer slowly.
    pub body_time: Duration,
    /// Between requests of one connection.
    pub idle_time: Duration,
    /// Bytes of request bodies held by all connections together.
    pub buffered: Budget,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: HeadLimits::default(),
            connections: Budget::new(16_384),
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            idle_time: Duration::from_secs(60),
            buffered: Budget::new(268_435_456),
        }
    }
}

/// A number of bytes, or of connections, that all servers of a process share. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Budget(Arc<AtomicUsize>);

impl Budget {
    /// A budget of so many.
    #[must_use]
    pub fn new(amount: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(amount)))
    }

    /// Takes `amount` out, or nothing when less is left.
    pub(super) fn take(&self, amount: usize) -> bool {
        let less = |left: usize| left.checked_sub(amount);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok()
    }

    /// Puts `amount` back.
    pub(super) fn put_back(&self, amount: usize) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// Takes one, which comes back when the place is dropped.
    pub(super) fn place(&self) -> Option<Place> {
        self.take(1).then(|| Place(self.clone()))
    }
}

/// One of a [`Budget`].
pub(super) struct Place(Budget);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.put_back(1);
    }
}
