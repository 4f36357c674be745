//! Calls of legacy servers that wait for an answer of a modern caller, who brings it with a request of its own.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use serde_json::value::RawValue;
use smol::Task;
use smol::channel::Receiver;

use crate::gate::CallDigest;
use crate::mcp::client::{CallFault, Question};
use crate::mcp::{CallContext, Progress, RpcError, RpcResult};
use crate::secret::{Sealer, Use, base64url, parse_base64url};
use crate::time::Instant;
use crate::world::World;

/// Calls that may wait at once: each holds a connection to its server.
const MOST: usize = 256;

/// Of one caller.
const MOST_OF_ONE: usize = 16;

/// By which a place is found.
pub(super) type Key = [u8; 16];

/// One call of a server that is under way. Dropping it drops the call.
pub(super) struct Running {
    pub(super) call: Pin<Box<dyn Future<Output = Result<RpcResult, CallFault>> + Send>>,
    pub(super) questions: Receiver<Question>,
    pub(super) news: Receiver<Told>,
    /// When it ends in any case.
    pub(super) ends: Instant,
}

/// News of a running call, on its way to whoever waits for it now.
pub(super) enum Told {
    Progress(Progress),
    Log {
        level: Box<RawValue>,
        params: Box<RawValue>,
    },
}

impl Told {
    fn tell(&self, context: &CallContext) {
        match self {
            Self::Progress(progress) => context.progress(progress),
            Self::Log { level, params } => context.log(level, params),
        }
    }
}

/// What a running call comes to next.
pub(super) enum Next {
    Done(Result<RpcResult, CallFault>),
    Asked(Question),
}

impl Running {
    /// Goes on until the call is done or asks something. News goes to `context`. Dropping the future loses nothing.
    pub(super) async fn next(&mut self, context: &CallContext) -> Next {
        loop {
            let mut question = pin!(self.questions.recv());
            let mut news = pin!(self.news.recv());
            let call = &mut self.call;
            let told = poll_fn(|cx| {
                if let Poll::Ready(Ok(told)) = news.as_mut().poll(cx) {
                    return Poll::Ready(Err(told));
                }
                if let Poll::Ready(Ok(question)) = question.as_mut().poll(cx) {
                    return Poll::Ready(Ok(Next::Asked(question)));
                }
                call.as_mut().poll(cx).map(|done| Ok(Next::Done(done)))
            })
            .await;
            match told {
                Ok(next) => {
                    // What was told before it goes out before it.
                    while let Ok(told) = self.news.try_recv() {
                        told.tell(context);
                    }
                    return next;
                }
                Err(told) => told.tell(context),
            }
        }
    }
}

/// The calls that wait. Cloning gives the same.
#[derive(Clone)]
pub(super) struct Parking {
    world: World,
    sealer: Sealer,
    places: Arc<Mutex<HashMap<Key, Place>>>,
}

struct Place {
    running: Running,
    question: Question,
    caller: String,
    /// Frees the place when nobody comes back.
    end: Option<Task<()>>,
}

/// Frees a place when it is dropped, for a caller that is still connected.
pub(super) struct Kept {
    key: Key,
    places: Arc<Mutex<HashMap<Key, Place>>>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        let place = lock(&self.places).remove(&self.key);
        // Outside of the lock: it drops a whole call.
        drop(place);
    }
}

fn lock(places: &Mutex<HashMap<Key, Place>>) -> MutexGuard<'_, HashMap<Key, Place>> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Parking {
    pub(super) fn new(world: World, sealer: Sealer) -> Self {
        Self {
            world,
            sealer,
            places: Arc::default(),
        }
    }

    /// Parks a call that asks something. The state by which it is found again, for this caller and this call only.
    ///
    /// # Errors
    /// Too many wait; the call is then dropped.
    pub(super) fn park(
        &self,
        running: Running,
        question: Question,
        caller: &str,
        call: CallDigest,
    ) -> Result<(String, Key), RpcError> {
        let mut key = Key::default();
        self.world.random.fill(&mut key);
        let ends = self.world.clock.sleep_until(running.ends);
        let places = Arc::downgrade(&self.places);
        let end = self.world.spawn(async move {
            ends.await;
            let place = places
                .upgrade()
                .and_then(|places| lock(&places).remove(&key));
            // Its own task is in it, and may not be dropped from inside.
            if let Some(end) = place.and_then(|mut place| place.end.take()) {
                end.detach();
            }
        });
        let mut places = lock(&self.places);
        let of_caller = places.values().filter(|place| place.caller == caller);
        if places.len() >= MOST || of_caller.count() >= MOST_OF_ONE {
            return Err(RpcError::new(
                -32603,
                "too many calls are waiting for answers of their callers",
            )
            .with_status(429));
        }
        let place = Place {
            running,
            question,
            caller: caller.to_owned(),
            end,
        };
        places.insert(key, place);
        let mut state = key.to_vec();
        state.extend_from_slice(&self.seal(key, caller, &call));
        Ok((base64url(&state), key))
    }

    /// Frees a place when this is dropped.
    pub(super) fn keep(&self, key: Key) -> Kept {
        Kept {
            key,
            places: self.places.clone(),
        }
    }

    /// Takes the call that a state names: once, and by its own caller with the same call.
    pub(super) fn take(
        &self,
        state: &str,
        caller: &str,
        call: &CallDigest,
    ) -> Option<(Running, Question)> {
        let bytes = parse_base64url(state)?;
        let (key, seal) = bytes.split_first_chunk::<16>()?;
        let message = sealed(*key, caller, call);
        if !self.sealer.verify(Use::State, &message, seal) {
            return None;
        }
        let mut place = lock(&self.places).remove(key)?;
        // The end of this task is the end of the place, which has come.
        drop(place.end.take());
        Some((place.running, place.question))
    }

    fn seal(&self, key: Key, caller: &str, call: &CallDigest) -> [u8; 32] {
        self.sealer.mac(Use::State, &sealed(key, caller, call))
    }
}

/// What a state's seal covers.
fn sealed(key: Key, caller: &str, call: &CallDigest) -> Vec<u8> {
    [b"parked", &key[..], call.as_bytes(), caller.as_bytes()].concat()
}
