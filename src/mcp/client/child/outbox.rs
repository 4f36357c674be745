//! What is still to be written to a child, and how far each call's message came.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

/// Messages that wait for the child to read. Beyond it callers keep theirs, and their deadlines with them.
const MESSAGES: usize = 32;

/// Bytes of them, 16 pipes full.
const BYTES: usize = 1 << 20;

/// Answers to the child's own requests that wait for it to read. One that asks and does not read gets no more.
const REPLIES: usize = 64;

/// Writes in a row, each a pipe full at the most: then it is the reading's turn.
const WRITES_IN_A_ROW: usize = 16;

/// How far a call came, known to its future and to the owner of the child.
#[derive(Default)]
pub(super) struct Progressed(AtomicU8);

impl Progressed {
    /// Some of its message may be in the pipe.
    const BEGUN: u8 = 1;
    /// Its future is gone.
    const LEFT: u8 = 2;

    /// Says that its message is about to be written; `false` when nobody wants that any more. After `false` it never will.
    fn begin(&self) -> bool {
        let begun = self
            .0
            .compare_exchange(0, Self::BEGUN, Ordering::AcqRel, Ordering::Acquire);
        matches!(begun, Ok(_) | Err(Self::BEGUN))
    }

    /// Says that nothing was written after all. Where its future left meanwhile, that has been told the worse.
    fn take_back(&self) {
        let _ = self
            .0
            .compare_exchange(Self::BEGUN, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Says that its future is gone. Whether some of its message may be in the pipe.
    pub(super) fn leave(&self) -> bool {
        self.0.fetch_or(Self::LEFT, Ordering::AcqRel) & Self::BEGUN != 0
    }

    pub(super) fn has_begun(&self) -> bool {
        self.0.load(Ordering::Acquire) & Self::BEGUN != 0
    }

    pub(super) fn has_left(&self) -> bool {
        self.0.load(Ordering::Acquire) & Self::LEFT != 0
    }
}

/// Messages for one child, in order, each written once.
#[derive(Default)]
pub(super) struct Outbox {
    messages: VecDeque<Message>,
    bytes: usize,
}

struct Message {
    bytes: Vec<u8>,
    written: usize,
    kind: Kind,
}

enum Kind {
    /// A call's request, by its id.
    Call(String, Arc<Progressed>),
    /// An answer to a request of the child's.
    Reply,
    /// Anything else of ours. There are no more of them than calls.
    Own,
}

impl Outbox {
    /// Whether another call may be taken.
    pub(super) fn has_room(&self) -> bool {
        self.messages.len() < MESSAGES && self.bytes < BYTES
    }

    /// Adds a call's request, which [`Outbox::withdraw`] finds by its id.
    pub(super) fn call(&mut self, id: String, far: Arc<Progressed>, message: Vec<u8>) {
        self.push(message, Kind::Call(id, far));
    }

    /// Adds an answer to a request of the child's; `false` when too many wait.
    #[must_use]
    pub(super) fn reply(&mut self, message: String) -> bool {
        let replies = self.messages.iter();
        let replies = replies.filter(|message| matches!(message.kind, Kind::Reply));
        let fits = replies.count() < REPLIES;
        if fits {
            self.push(line(message), Kind::Reply);
        }
        fits
    }

    /// Adds any other message.
    pub(super) fn own(&mut self, message: String) {
        self.push(line(message), Kind::Own);
    }

    fn push(&mut self, bytes: Vec<u8>, kind: Kind) {
        self.bytes += bytes.len();
        self.messages.push_back(Message {
            bytes,
            written: 0,
            kind,
        });
    }

    /// Takes a call's request out again, if none of it was written. Whether that was so.
    pub(super) fn withdraw(&mut self, id: &str) -> bool {
        let unwritten = |message: &Message| {
            message.written == 0 && matches!(&message.kind, Kind::Call(of, _) if of == id)
        };
        let place = self.messages.iter().position(unwritten);
        let taken = place.and_then(|place| self.messages.remove(place));
        self.bytes -= taken.as_ref().map_or(0, |message| message.bytes.len());
        taken.is_some()
    }

    /// Writes what `write` takes. Ready when something was written and the rest may be tried again.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(&mut Context<'_>, &[u8]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<()>> {
        let mut some = false;
        for _ in 0..WRITES_IN_A_ROW {
            let Some(first) = self.messages.front_mut() else {
                break;
            };
            let begins = first.written == 0;
            if let Kind::Call(_, far) = &first.kind
                && begins
                && !far.begin()
            {
                self.pop();
                some = true;
                continue;
            }
            let rest = first.bytes.get(first.written..).unwrap_or_default();
            let done = write(cx, rest);
            if let Kind::Call(_, far) = &first.kind
                && begins
                && !matches!(done, Poll::Ready(Ok(_)))
            {
                far.take_back();
            }
            match done {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => {
                    some = true;
                    first.written += count;
                    if first.written >= first.bytes.len() {
                        self.pop();
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => break,
            }
        }
        if some {
            Poll::Ready(Ok(()))
        } else {
            Poll::Pending
        }
    }

    fn pop(&mut self) {
        if let Some(message) = self.messages.pop_front() {
            self.bytes -= message.bytes.len();
        }
    }
}

/// A message as a line. What was passed on as it came may hold line ends between its tokens, where they mean as much as a
/// blank; inside a string of JSON they cannot stand.
pub(super) fn line(message: String) -> Vec<u8> {
    let mut bytes = message.into_bytes();
    for byte in &mut bytes {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Lets the outbox write into a pipe with so much room, and gives what arrived.
    fn write(outbox: &mut Outbox, mut room: usize) -> String {
        let mut pipe = Vec::new();
        let mut cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(done) = outbox.poll_write(&mut cx, |_, bytes| {
            let count = bytes.len().min(room);
            room -= count;
            pipe.extend_from_slice(&bytes[..count]);
            match count {
                0 => Poll::Pending,
                count => Poll::Ready(Ok(count)),
            }
        }) {
            done.unwrap();
        }
        String::from_utf8(pipe).unwrap()
    }

    fn call(outbox: &mut Outbox, id: &str) -> Arc<Progressed> {
        let far = Arc::<Progressed>::default();
        outbox.call(id.to_owned(), far.clone(), line(format!("call {id}")));
        far
    }

    #[test]
    fn a_line_has_one_end() {
        assert_eq!(line("{\n\"a\": \r\n1}".to_owned()), b"{ \"a\":   1}\n");
    }

    #[test]
    fn what_was_not_begun_can_be_taken_back() {
        let mut outbox = Outbox::default();
        let (one, two, three) = (
            call(&mut outbox, "1"),
            call(&mut outbox, "2"),
            call(&mut outbox, "3"),
        );
        assert_eq!(write(&mut outbox, 3), "cal");
        assert!(one.has_begun() && !two.has_begun());
        assert!(!outbox.withdraw("1") && outbox.withdraw("2") && !outbox.withdraw("2"));
        // One that left by itself, before the owner heard of it.
        assert!(!three.leave());
        outbox.own("note".to_owned());
        assert_eq!(write(&mut outbox, 100), "l 1\nnote\n");
        assert_eq!(outbox.bytes, 0);
        assert!(one.leave() && !three.has_begun());
    }

    #[test]
    fn a_full_pipe_leaves_a_call_unbegun() {
        let mut outbox = Outbox::default();
        let far = call(&mut outbox, "1");
        assert_eq!(write(&mut outbox, 0), "");
        assert!(!far.has_begun());
        let mut cx = Context::from_waker(Waker::noop());
        let broken = outbox.poll_write(&mut cx, |_, _| {
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        });
        assert!(matches!(broken, Poll::Ready(Err(_))) && !far.has_begun());
        assert!(!far.leave());
    }

    #[test]
    fn a_child_that_reads_nothing_is_kept_a_bounded_number_of_messages() {
        let mut outbox = Outbox::default();
        let mut count = 0;
        while outbox.has_room() {
            count += 1;
            call(&mut outbox, "1");
        }
        assert_eq!(count, MESSAGES);
        let replies = (0..1000).filter(|_| outbox.reply("{}".to_owned()));
        assert_eq!(replies.count(), REPLIES);
        let mut outbox = Outbox::default();
        outbox.own("x".repeat(BYTES));
        assert!(!outbox.has_room());
    }
}
