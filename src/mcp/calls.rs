//! What is in flight for legacy sessions: requests that a message may cancel, and questions that a message answers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use smol::channel::{Receiver, Sender};

use super::message::{Id, RpcError};
use super::session::Nonce;

/// A session, and the text of an id in it.
type Key = (Nonce, String);

/// A caller's answer to a question of ours.
pub(super) type Answered = Result<Box<RawValue>, RpcError>;

/// All of one server. Cloning gives the same.
#[derive(Clone, Default)]
pub(super) struct Calls {
    entries: Arc<Entries>,
}

#[derive(Default)]
struct Entries {
    running: Mutex<BTreeMap<Key, Sender<()>>>,
    asked: Mutex<BTreeMap<Key, Sender<Answered>>>,
    questions: AtomicU64,
}

/// A request that can be cancelled, for as long as this lives.
pub(super) struct Running {
    key: Key,
    entries: Arc<Entries>,
    cancelled: Receiver<()>,
}

/// A question that can be answered, for as long as this lives.
pub(super) struct Asked {
    key: Key,
    entries: Arc<Entries>,
    answer: Receiver<Answered>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Calls {
    /// Enters a request; `None` when the session has one of that id in flight: nobody could tell which one a message
    /// means.
    pub(super) fn enter(&self, session: Nonce, id: &Id) -> Option<Running> {
        let key = (session, id.as_json().to_owned());
        let (sender, cancelled) = smol::channel::bounded(1);
        let mut running = lock(&self.entries.running);
        if running.contains_key(&key) {
            return None;
        }
        running.insert(key.clone(), sender);
        drop(running);
        Some(Running {
            key,
            entries: self.entries.clone(),
            cancelled,
        })
    }

    /// Cancels one request, if it is in flight here.
    pub(super) fn cancel(&self, session: Nonce, id: &Id) {
        let key = (session, id.as_json().to_owned());
        if let Some(sender) = lock(&self.entries.running).get(&key) {
            // Full: it is being cancelled already.
            let _ = sender.try_send(());
        }
    }

    /// Cancels everything that the session has in flight.
    pub(super) fn end(&self, session: Nonce) {
        let from = (session, String::new());
        let running = lock(&self.entries.running);
        let of_session = running
            .range(from..)
            .take_while(|((of, _), _)| *of == session);
        for (_, sender) in of_session {
            let _ = sender.try_send(());
        }
    }

    /// A new question to the session's client, and the id to ask it with.
    pub(super) fn ask(&self, session: Nonce) -> (String, Asked) {
        let number = self.entries.questions.fetch_add(1, Ordering::Relaxed);
        let id = format!("\"countersign-{number}\"");
        let key = (session, id.clone());
        let (sender, answer) = smol::channel::bounded(1);
        lock(&self.entries.asked).insert(key.clone(), sender);
        let asked = Asked {
            key,
            entries: self.entries.clone(),
            answer,
        };
        (id, asked)
    }

    /// Hands an answer to whoever asked. Answers to nothing are forgotten.
    pub(super) fn answer(&self, session: Nonce, id: &Id, answered: Answered) {
        let key = (session, id.as_json().to_owned());
        if let Some(sender) = lock(&self.entries.asked).get(&key) {
            // Full: the first answer counts.
            let _ = sender.try_send(answered);
        }
    }
}

impl Running {
    /// Waits until the request is cancelled. Dropping the future loses nothing.
    pub(super) async fn cancelled(&self) {
        // The sender lives in the table for as long as this does.
        let _ = self.cancelled.recv().await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        lock(&self.entries.running).remove(&self.key);
    }
}

impl Asked {
    /// Waits for the answer. Dropping the future loses nothing.
    pub(super) async fn answered(&self) -> Answered {
        let gone = || RpcError::new(-32603, "the question has ended");
        self.answer.recv().await.unwrap_or_else(|_| Err(gone()))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        lock(&self.entries.asked).remove(&self.key);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use smol::future::{block_on, poll_once};

    use super::*;

    const A: Nonce = [1; 16];
    const B: Nonce = [2; 16];

    #[test]
    fn a_request_is_cancelled_by_its_own_session_and_id_only() {
        let calls = Calls::default();
        let (seven, eight) = (Id::number(7), Id::number(8));
        let running = calls.enter(A, &seven).unwrap();
        assert!(calls.enter(A, &seven).is_none());
        let other = calls.enter(B, &seven).unwrap();
        calls.cancel(A, &eight);
        assert!(block_on(poll_once(running.cancelled())).is_none());
        calls.cancel(A, &seven);
        calls.cancel(A, &seven);
        block_on(running.cancelled());
        assert!(block_on(poll_once(other.cancelled())).is_none());
        drop(running);
        let again = calls.enter(A, &seven).unwrap();
        calls.end(A);
        block_on(again.cancelled());
        assert!(block_on(poll_once(other.cancelled())).is_none());
        drop((again, other));
        assert!(lock(&calls.entries.running).is_empty());
    }

    #[test]
    fn a_question_is_answered_once_and_by_its_own_session() {
        let calls = Calls::default();
        let (id, asked) = calls.ask(A);
        let id = Id::parse(serde_json::from_str(&id).unwrap()).unwrap();
        let said = |text: &str| Ok(RawValue::from_string(text.to_owned()).unwrap());
        calls.answer(B, &id, said("0"));
        assert!(block_on(poll_once(asked.answered())).is_none());
        calls.answer(A, &id, said("1"));
        calls.answer(A, &id, said("2"));
        assert_eq!(block_on(asked.answered()).unwrap().get(), "1");
        drop(asked);
        calls.answer(A, &id, said("3"));
        assert!(lock(&calls.entries.asked).is_empty());
    }
}
