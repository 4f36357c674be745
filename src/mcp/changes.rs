//! News for callers who listen: a list changed, or a resource did.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use smol::channel::{Receiver, Sender, TrySendError};
use smol::stream::Stream;

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
    listeners: Arc<Mutex<Listeners>>,
}

/// Who listens, and who did until lately.
#[derive(Default)]
struct Listeners {
    senders: Vec<Sender<Change>>,
    /// At so many those are looked for that are gone: there may be long nothing to announce.
    looked_at: usize,
}

/// One listener's news. Dropping it ends the listening.
#[derive(Default)]
pub struct Changes(Vec<Source>);

/// News of one kind, from one announcer.
struct Source {
    news: Receiver<Change>,
    only: Only,
    /// Dropped with it.
    _kept: Vec<Box<dyn Send + Sync>>,
}

/// What of it is told.
enum Only {
    Everything,
    Lists,
    /// One resource, and the URI by which it is told.
    Resource {
        theirs: String,
        ours: String,
    },
}

impl Only {
    fn told(&self, change: Change) -> Option<Change> {
        match (self, change) {
            (Self::Everything, change) => Some(change),
            (Self::Lists, Change::Resource(_)) => None,
            (Self::Lists, list) => Some(list),
            (Self::Resource { theirs, ours }, Change::Resource(uri)) if uri == *theirs => {
                Some(Change::Resource(ours.clone()))
            }
            (Self::Resource { .. }, _) => None,
        }
    }
}

impl Announcer {
    /// A new listener.
    #[must_use]
    pub fn listen(&self) -> Changes {
        let (sender, receiver) = smol::channel::bounded(NEWS);
        let mut listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if listeners.senders.len() >= listeners.looked_at {
            listeners.senders.retain(|listener| !listener.is_closed());
            listeners.looked_at = 2 * listeners.senders.len() + 16;
        }
        listeners.senders.push(sender);
        drop(listeners);
        Changes::from(receiver)
    }

    /// Tells everyone who listens now.
    pub fn announce(&self, change: &Change) {
        let mut listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        listeners.senders.retain(|listener| {
            !matches!(
                listener.try_send(change.clone()),
                Err(TrySendError::Closed(_))
            )
        });
    }
}

impl From<Receiver<Change>> for Changes {
    fn from(news: Receiver<Change>) -> Self {
        Self(vec![Source {
            news,
            only: Only::Everything,
            _kept: Vec::new(),
        }])
    }
}

impl Changes {
    /// Of this news only that of lists.
    #[must_use]
    pub fn of_lists(mut self) -> Self {
        for source in &mut self.0 {
            source.only = Only::Lists;
        }
        self
    }

    /// Of this news only that of the resource `theirs`, as news of `ours`.
    #[must_use]
    pub fn of_resource(mut self, theirs: &str, ours: &str) -> Self {
        for source in &mut self.0 {
            source.only = Only::Resource {
                theirs: theirs.to_owned(),
                ours: ours.to_owned(),
            };
        }
        self
    }

    /// This news, and `what` until nobody wants it any more.
    #[must_use]
    pub fn keeping(mut self, what: Box<dyn Send + Sync>) -> Self {
        if let Some(source) = self.0.last_mut() {
            source._kept.push(what);
        }
        self
    }

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
        for source in &self.0 {
            come |= source.news.is_full();
            while let Ok(change) = source.news.try_recv() {
                come |= source.only.told(change).as_ref() == Some(wanted);
            }
        }
        come
    }

    /// The next piece of news; `None` when nobody can announce any more. Dropping the future loses none.
    pub async fn next(&self) -> Option<Change> {
        let sources = self.0.iter();
        let mut all: Vec<_> = sources
            .map(|source| (&source.only, Box::pin(source.news.clone())))
            .collect();
        poll_fn(|cx| {
            let mut closed = true;
            for (only, news) in &mut all {
                closed &= loop {
                    match news.as_mut().poll_next(cx) {
                        Poll::Ready(Some(change)) => {
                            if let Some(told) = only.told(change) {
                                return Poll::Ready(Some(told));
                            }
                        }
                        Poll::Ready(None) => break true,
                        Poll::Pending => break false,
                    }
                };
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
        assert_eq!(announcer.listeners.lock().unwrap().senders.len(), 1);
        drop(announcer);
        let mut heard = Vec::new();
        while let Some(change) = smol::block_on(two.next()) {
            heard.push(change);
        }
        assert_eq!((heard.len(), &heard[0]), (NEWS, &Change::Tools));
    }

    /// Found by the soak: each call listens, and for days nothing may be announced.
    #[test]
    fn listeners_that_come_and_go_leave_nothing_behind() {
        let announcer = Announcer::default();
        let kept: Vec<Changes> = (0..10).map(|_| announcer.listen()).collect();
        for _ in 0..10_000 {
            drop(announcer.listen());
        }
        assert!(announcer.listeners.lock().unwrap().senders.len() < 100);
        announcer.announce(&Change::Tools);
        for one in &kept {
            assert_eq!(smol::block_on(one.next()), Some(Change::Tools));
        }
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
    fn a_listener_hears_of_what_it_wants_under_its_own_names() {
        let announcer = Announcer::default();
        let gone = Arc::new(());
        let lists = announcer.listen().of_lists();
        let one = announcer.listen().of_resource("a", "far+a");
        let both = lists.and(one.keeping(Box::new(gone.clone())));
        for change in [
            Change::Resource("b".to_owned()),
            Change::Resource("a".to_owned()),
            Change::Tools,
        ] {
            announcer.announce(&change);
        }
        assert_eq!(smol::block_on(both.next()), Some(Change::Tools));
        let told = Change::Resource("far+a".to_owned());
        assert_eq!(smol::block_on(both.next()), Some(told));
        assert!(smol::block_on(smol::future::poll_once(both.next())).is_none());
        drop(both);
        assert_eq!(Arc::strong_count(&gone), 1);
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
