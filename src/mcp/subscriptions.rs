//! Resources that legacy clients subscribe to. What changes is told on the open stream of the session, so that this is
//! what holds a subscription: it ends with the stream, and where there is none yet it is waited for a little.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use smol::Task;
use smol::channel::{Receiver, Sender};

use super::changes::{Change, Changes};
use super::message::RpcError;
use super::session::Nonce;
use crate::time::Elapsed;
use crate::world::World;

/// A client may subscribe while its stream is still on its way.
const STREAM_TIME: Duration = Duration::from_secs(2);

/// Resources of one session.
const MOST_RESOURCES: usize = 256;

/// News on its way to one stream.
const NEWS: usize = 64;

/// All of one server. Cloning gives the same.
#[derive(Clone, Default)]
pub(super) struct Subscriptions {
    sessions: Arc<Mutex<BTreeMap<Nonce, Session>>>,
}

/// One session, for as long as anyone holds it: its streams, and requests that wait for one.
struct Session {
    holders: usize,
    /// Closed once there is a stream. Nothing is ever sent.
    opened: (Sender<()>, Receiver<()>),
    news: (Sender<Change>, Receiver<Change>),
    resources: HashMap<String, Option<Task<()>>>,
}

/// Holds a session.
struct Held {
    nonce: Nonce,
    subscriptions: Subscriptions,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut sessions = self.subscriptions.lock();
        let ended = sessions.get_mut(&self.nonce).is_some_and(|session| {
            session.holders -= 1;
            session.holders == 0
        });
        let ended = ended.then(|| sessions.remove(&self.nonce)).flatten();
        drop(sessions);
        // Outside of the lock: it drops what others gave.
        drop(ended);
    }
}

impl Subscriptions {
    /// What is told on a new stream of a session. "One message goes to exactly one stream."
    pub(super) fn open(&self, nonce: Nonce) -> Changes {
        let held = self.hold(nonce);
        let mut sessions = self.lock();
        let session = sessions.entry(nonce).or_insert_with(Session::new);
        session.opened.0.close();
        let news = session.news.1.clone();
        drop(sessions);
        Changes::from(news).keeping(Box::new(held))
    }

    /// Tells the session of a resource from now on.
    ///
    /// # Errors
    /// The client's fault: there is no stream to tell it on, or it wants too much.
    pub(super) async fn subscribe(
        &self,
        nonce: Nonce,
        uri: &str,
        changes: Changes,
        world: &World,
    ) -> Result<(), RpcError> {
        let _held = self.hold(nonce);
        let opened = self
            .lock()
            .get(&nonce)
            .map(|session| session.opened.1.clone());
        if let Some(opened) = opened {
            let clock = &world.clock;
            let waited = clock.timeout(clock.after(STREAM_TIME), opened.recv()).await;
            let _closed = waited.map_err(|Elapsed| {
                RpcError::new(
                    -32600,
                    "what changes is told on the session's own stream: open it first, by GET",
                )
            })?;
        }
        let mut sessions = self.lock();
        let session = sessions.entry(nonce).or_insert_with(Session::new);
        if session.resources.len() >= MOST_RESOURCES && !session.resources.contains_key(uri) {
            return Err(RpcError::new(
                -32603,
                "too many resources are subscribed to",
            ));
        }
        let news = session.news.0.clone();
        let telling = world.spawn(async move {
            while let Some(change) = changes.next().await {
                // Full: it is only news, and some is on its way.
                let _ = news.try_send(change);
            }
        });
        let before = session.resources.insert(uri.to_owned(), telling);
        drop(sessions);
        drop(before);
        Ok(())
    }

    /// Ends one subscription, if there is one.
    pub(super) fn unsubscribe(&self, nonce: Nonce, uri: &str) {
        let mut sessions = self.lock();
        let ended = sessions
            .get_mut(&nonce)
            .and_then(|session| session.resources.remove(uri));
        drop(sessions);
        drop(ended);
    }

    fn hold(&self, nonce: Nonce) -> Held {
        let mut sessions = self.lock();
        sessions.entry(nonce).or_insert_with(Session::new).holders += 1;
        Held {
            nonce,
            subscriptions: self.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Nonce, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    fn new() -> Self {
        Self {
            holders: 0,
            opened: smol::channel::bounded(1),
            news: smol::channel::bounded(NEWS),
            resources: HashMap::new(),
        }
    }
}
