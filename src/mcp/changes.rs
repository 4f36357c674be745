//! News for callers who listen: a list changed, or a resource did.

use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use smol::channel::{Receiver, Sender, TrySendError};

/// News held for a listener that reads slowly. What does not fit is left out: a listener asks again for what it wants
/// to know, so that one piece of news of a kind says all.
const NEWS: usize = 64;

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources or of their templates.
    Resources,
    /// One resource.
    Resource(String),
}

impl Change {
    /// The notification's method.
    pub(super) const fn method(&self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
            Self::Resource(_) => "notifications/resources/updated",
        }
    }
}

/// Tells listeners. Cloning gives the same one.
#[derive(Clone, Default)]
pub struct Announcer {
    listeners: Arc<Mutex<Vec<Sender<Change>>>>,
}

/// One listener's news. Dropping it ends the listening.
pub struct Changes(Vec<Receiver<Change>>);

impl Announcer {
    /// A new listener.
    #[must_use]
    pub fn listen(&self) -> Changes {
        let (sender, receiver) = smol::channel::bounded(NEWS);
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(sender);
        Changes(vec![receiver])
    }

    /// Tells everyone who listens now.
    pub fn announce(&self, change: &Change) {
        let mut listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| {
            !matches!(
                listener.try_send(change.clone()),
                Err(TrySendError::Closed(_))
            )
        });
    }
}

impl Changes {
    /// This news and that of others.
    #[must_use]
    pub fn and(mut self, mut others: Self) -> Self {
        self.0.append(&mut others.0);
        self
    }

    /// Whether `wanted` has come since the last look, or may have been left out for want of room. Takes all the news.
    #[must_use]
    pub fn has_come(&self, wanted: &Change) -> bool {
        let mut come = false;
        for one in &self.0 {
            come |= one.is_full();
            while let Ok(change) = one.try_recv() {
                come |= change == *wanted;
            }
        }
        come
    }

    /// The next piece of news; `None` when nobody can announce any more. Dropping the future loses none.
    pub async fn next(&self) -> Option<Change> {
        let mut all: Vec<_> = self.0.iter().map(|one| Box::pin(one.recv())).collect();
        poll_fn(|cx| {
            let mut closed = true;
            for one in &mut all {
                match one.as_mut().poll(cx) {
                    Poll::Ready(Ok(change)) => return Poll::Ready(Some(change)),
                    Poll::Ready(Err(_)) => {}
                    Poll::Pending => closed = false,
                }
            }
            match closed {
                true => Poll::Ready(None),
                false => Poll::Pending,
            }
        })
        .await
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_listener_hears_and_a_slow_one_holds_up_nobody() {
        let announcer = Announcer::default();
        let (one, two) = (announcer.listen(), announcer.listen());
        announcer.announce(&Change::Tools);
        assert_eq!(smol::block_on(one.next()), Some(Change::Tools));
        drop(one);
        for _ in 0..NEWS * 2 {
            announcer.announce(&Change::Prompts);
        }
        assert_eq!(announcer.listeners.lock().unwrap().len(), 1);
        drop(announcer);
        let mut heard = Vec::new();
        while let Some(change) = smol::block_on(two.next()) {
            heard.push(change);
        }
        assert_eq!((heard.len(), &heard[0]), (NEWS, &Change::Tools));
    }

    #[test]
    fn what_may_have_been_left_out_has_come() {
        let announcer = Announcer::default();
        let changes = announcer.listen();
        assert!(!changes.has_come(&Change::Tools));
        announcer.announce(&Change::Prompts);
        assert!(!changes.has_come(&Change::Tools));
        announcer.announce(&Change::Tools);
        assert!(changes.has_come(&Change::Tools));
        assert!(!changes.has_come(&Change::Tools));
        for _ in 0..NEWS {
            announcer.announce(&Change::Prompts);
        }
        announcer.announce(&Change::Tools);
        assert!(changes.has_come(&Change::Tools));
    }

    #[test]
    fn one_listener_hears_several() {
        let (one, two) = (Announcer::default(), Announcer::default());
        let both = one.listen().and(two.listen());
        two.announce(&Change::Tools);
        assert_eq!(smol::block_on(both.next()), Some(Change::Tools));
        drop(one);
        two.announce(&Change::Prompts);
        assert_eq!(smol::block_on(both.next()), Some(Change::Prompts));
        drop(two);
        assert_eq!(smol::block_on(both.next()), None);
    }
}
