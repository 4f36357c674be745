//! Whether this process is about to end.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use smol::channel::{Receiver, Sender};

/// Told once that the process is about to end: nothing new is taken, who waits for a person is told, and what acts has a
/// little time. Cloning gives the same.
#[derive(Clone)]
pub struct Ending {
    /// Closed when it begins. Nothing is ever sent.
    channel: (Sender<()>, Receiver<()>),
    within: Arc<OnceLock<Duration>>,
}

impl Default for Ending {
    fn default() -> Self {
        Self {
            channel: smol::channel::bounded(1),
            within: Arc::default(),
        }
    }
}

impl Ending {
    /// Begins to end. After `within` whatever is left is dropped. What came first stands.
    pub fn begin(&self, within: Duration) {
        let _ = self.within.set(within);
        self.channel.0.close();
    }

    /// Whether it has begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.channel.0.is_closed()
    }

    /// Waits until it has begun. Dropping the future loses nothing.
    pub async fn begun(&self) {
        let _ = self.channel.1.recv().await;
    }

    /// How long there is from its beginning on.
    #[must_use]
    pub fn within(&self) -> Duration {
        self.within.get().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use smol::future::{block_on, poll_once};

    use super::*;

    #[test]
    fn everyone_is_told_once() {
        let ending = Ending::default();
        let other = ending.clone();
        assert!(block_on(poll_once(other.begun())).is_none());
        assert!(!other.has_begun());
        ending.begin(Duration::from_secs(7));
        other.begin(Duration::from_secs(9));
        block_on(other.begun());
        assert!(other.has_begun());
        assert_eq!(ending.within(), Duration::from_secs(7));
    }
}
