//! What has come in on one connection: bytes read ahead, the request's body in them, and the caller's close.

use std::fmt;
use std::future::poll_fn;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::body::{BodyDecoder, BodyFault};
use super::head::{Framing, HeadFault, HeadLimits, Parsed, RequestHead, parse_request};
use super::limits::{Budget, Limits};
use crate::time::{Clock, Elapsed};
use crate::world::{Stream, World};

/// Bytes read at a time, on the stack: a buffer for each waiting connection would cost 8 KB a call.
const READ_BYTES: usize = 8192;

/// Bytes kept that the handler has not asked for. While a call is held they are pipelined requests; a caller that
/// sends more than this behind a held call could hide its leaving behind them, so it counts as having left.
const READ_AHEAD_BYTES: usize = 16_384;

/// One connection's socket and what was read from it.
pub(super) struct Inbound {
    pub(super) stream: Stream,
    state: Mutex<State>,
}

struct State {
    /// Read and not yet consumed. Empty and without memory while nothing waits.
    bytes: Vec<u8>,
    /// What `bytes` counts against.
    budget: Budget,
    /// Something was read for which all requests together left no room; it is lost, and the connection with it.
    overloaded: bool,
    /// The caller's end was seen: end of stream or an error.
    ended: bool,
    /// The body of the request at hand, until it is whole.
    body: Option<BodyDecoder>,
    /// The watch has to look again: a body reader made room since it last did, or a handler's own look read what the
    /// socket then no longer wakes anyone for.
    watch_due: bool,
    /// Who waits for more body.
    body_waker: Option<Waker>,
}

/// What a look at the socket found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// Nothing that ends the call.
    Present,
    /// The caller left, or may have left unseen.
    Left,
}

/// Why no head came.
#[derive(Debug)]
pub(super) enum NoHead {
    /// The connection ended, or stayed idle: nothing to answer.
    Ended,
    /// The head was refused.
    Refused(HeadFault),
    /// All requests together hold as much as this server keeps.
    Overloaded,
    /// The head took longer than [`Limits::head_time`].
    Slow,
}

impl Inbound {
    /// What is read ahead counts against `budget`.
    pub(super) fn new(stream: Stream, budget: Budget) -> Arc<Self> {
        let state = State {
            bytes: Vec::new(),
            budget,
            overloaded: false,
            ended: false,
            body: None,
            watch_due: false,
            body_waker: None,
        };
        Arc::new(Self {
            stream,
            state: Mutex::new(state),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads once what the socket has. `Ready(false)`: the end.
    fn poll_fill(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut some = [0; READ_BYTES];
        match self.stream.poll_read(cx, &mut some) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(count)) if count > 0 => {
                self.keep(&some[..count]);
                Poll::Ready(true)
            }
            // A reset, or the end: with unread bytes on its side a leaving caller sends the one, without the other.
            Poll::Ready(_) => {
                self.state().ended = true;
                Poll::Ready(false)
            }
        }
    }

    fn keep(&self, bytes: &[u8]) {
        let waker = {
            let mut state = self.state();
            state.keep(bytes);
            state.body_waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits for the next request's head.
    ///
    /// Dropping the future loses no byte.
    pub(super) async fn head(&self, world: &World, limits: &Limits) -> Result<RequestHead, NoHead> {
        let clock = &world.clock;
        // The first byte of a request may take as long as an idle connection may stay.
        let first = poll_fn(|cx| {
            if self.state().bytes.is_empty() {
                self.poll_fill(cx)
            } else {
                Poll::Ready(true)
            }
        });
        let ending = async {
            world.ending.begun().await;
            false
        };
        let first = smol::future::or(first, ending);
        match clock.timeout(clock.after(limits.idle_time), first).await {
            Ok(true) => {}
            Ok(false) | Err(Elapsed) => return Err(NoHead::Ended),
        }
        let whole = poll_fn(|cx| {
            loop {
                if self.state().overloaded {
                    return Poll::Ready(Err(NoHead::Overloaded));
                }
                match self.parse_head(&limits.head) {
                    Ok(Some(head)) => return Poll::Ready(Ok(head)),
                    Ok(None) => {}
                    Err(fault) => return Poll::Ready(Err(NoHead::Refused(fault))),
                }
                match self.poll_fill(cx) {
                    Poll::Ready(true) => {}
                    Poll::Ready(false) => return Poll::Ready(Err(NoHead::Ended)),
                    Poll::Pending => return Poll::Pending,
                }
            }
        });
        let at = clock.after(limits.head_time);
        clock.timeout(at, whole).await.unwrap_or(Err(NoHead::Slow))
    }

    fn parse_head(&self, limits: &HeadLimits) -> Result<Option<RequestHead>, HeadFault> {
        let mut state = self.state();
        match parse_request(&state.bytes, limits)? {
            Parsed::Partial => Ok(None),
            Parsed::Complete { head, consumed } => {
                state.consume(consumed);
                state.body = match head.framing {
                    // Nothing to come: what follows is behind a whole request, though nobody reads the body.
                    Framing::None | Framing::Length(0) => None,
                    framing => Some(BodyDecoder::new(framing)),
                };
                Ok(Some(head))
            }
        }
    }

    /// Looks at the socket while a handler runs: reads ahead within bounds, and says when the caller left.
    pub(super) fn poll_watch(&self, cx: &mut Context<'_>) -> Watch {
        loop {
            {
                let mut state = self.state();
                state.watch_due = false;
                if let Some(watch) = state.verdict() {
                    return watch;
                }
            }
            match self.poll_fill(cx) {
                Poll::Ready(_) => {}
                Poll::Pending => return Watch::Present,
            }
        }
    }

    /// Whether something happened since the last [`Inbound::poll_watch`] that calls for another one.
    pub(super) fn watch_is_due(&self) -> bool {
        self.state().watch_due
    }

    /// Whether the caller has left, by a look that does not wait.
    pub(super) fn look(&self) -> bool {
        let mut some = [0; READ_BYTES];
        loop {
            if let Some(watch) = self.state().verdict() {
                return watch == Watch::Left;
            }
            match self.stream.try_read(&mut some) {
                None => return false,
                Some(Ok(count)) if count > 0 => self.keep(&some[..count]),
                Some(_) => self.state().ended = true,
            }
            self.state().watch_due = true;
        }
    }

    /// Discards what has already come of a body that the handler did not read. Whether the body is then whole: only
    /// then may the connection carry another request (an unread body must never be parsed as one).
    pub(super) fn finish_body(&self) -> bool {
        let mut discarded = Vec::new();
        let mut state = self.state();
        if state.overloaded {
            return false;
        }
        loop {
            discarded.clear();
            match state.decode(&mut discarded, READ_BYTES) {
                Ok(true) => return true,
                Ok(false) if discarded.is_empty() => return false,
                Ok(false) => {}
                Err(_) => return false,
            }
        }
    }

    /// Closes so that the caller can still read our last answer: a socket closed with unread bytes sends a reset,
    /// which can destroy it (RFC 9112 section 9.6). Reads and discards within a bound.
    pub(super) async fn linger(&self, clock: &Clock) {
        /// Bytes and time granted to a caller that is still sending.
        const LINGER_BYTES: usize = 262_144;
        const LINGER_TIME: std::time::Duration = std::time::Duration::from_secs(1);
        self.stream.shutdown_write();
        let mut left = LINGER_BYTES;
        let drained = poll_fn(|cx| {
            let mut some = [0; READ_BYTES];
            loop {
                match self.stream.poll_read(cx, &mut some) {
                    Poll::Ready(Ok(count)) if count > 0 && count <= left => left -= count,
                    Poll::Ready(_) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
        });
        // Either way the connection closes now.
        let _ = clock.timeout(clock.after(LINGER_TIME), drained).await;
    }
}

impl State {
    fn keep(&mut self, bytes: &[u8]) {
        if !self.overloaded && self.budget.take(bytes.len()) {
            self.bytes.extend_from_slice(bytes);
        } else {
            self.overloaded = true;
        }
    }

    /// What is known without reading more, which must then not be done. `None`: the socket has to be read.
    const fn verdict(&self) -> Option<Watch> {
        if self.ended {
            return Some(Watch::Left);
        }
        if self.bytes.len() < READ_AHEAD_BYTES && !self.overloaded {
            return None;
        }
        // With its body still coming the caller is being read at the handler's pace; behind a whole request the close
        // could no longer be seen.
        Some(if self.body.is_some() {
            Watch::Present
        } else {
            Watch::Left
        })
    }

    fn consume(&mut self, count: usize) {
        let count = count.min(self.bytes.len());
        self.bytes.drain(..count);
        self.budget.put_back(count);
        if self.bytes.is_empty() {
            // A connection that waits holds no buffer.
            self.bytes = Vec::new();
        }
        // Only what was taken makes room: a reader that finds nothing must not have the connection look again at once.
        self.watch_due |= count > 0;
    }

    /// Decodes at most about `most` bytes of the body. `Ok(true)`: the body is whole.
    fn decode(&mut self, out: &mut Vec<u8>, most: usize) -> Result<bool, BodyFault> {
        let Some(decoder) = &mut self.body else {
            return Ok(true);
        };
        let step = decoder.decode(&self.bytes, out, most)?;
        if step.done {
            self.body = None;
        }
        self.consume(step.consumed);
        Ok(step.done)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.budget.put_back(self.bytes.len());
    }
}

/// The body of a request, read at the handler's pace.
pub struct BodyReader {
    inbound: Arc<Inbound>,
    clock: Clock,
    time: std::time::Duration,
    budget: Budget,
    /// The caller waits for `100 Continue` before it sends its body (RFC 9110 section 10.1.1).
    expects_continue: bool,
}

impl BodyReader {
    pub(super) fn new(
        inbound: Arc<Inbound>,
        clock: Clock,
        limits: &Limits,
        expects_continue: bool,
    ) -> Self {
        let (time, budget) = (limits.body_time, limits.buffered.clone());
        Self {
            inbound,
            clock,
            time,
            budget,
            expects_continue,
        }
    }

    /// The whole body, of at most `limit` bytes. A body cut short never comes back as whole.
    ///
    /// Dropping the future leaves the body half read; the connection then closes after the answer.
    ///
    /// # Errors
    /// [`BodyReadFault`], which names the status to answer with.
    pub async fn read_all(mut self, limit: usize) -> Result<ReceivedBody, BodyReadFault> {
        let at = self.clock.after(self.time);
        let clock = self.clock.clone();
        clock
            .timeout(at, self.read_within(limit))
            .await
            .unwrap_or(Err(BodyReadFault::Slow))
    }

    async fn read_within(&mut self, limit: usize) -> Result<ReceivedBody, BodyReadFault> {
        let mut body = ReceivedBody {
            bytes: Vec::new(),
            reserved: 0,
            budget: self.budget.clone(),
        };
        if self
            .inbound
            .state()
            .body
            .as_ref()
            .and_then(BodyDecoder::length)
            .is_some_and(|length| length > limit as u64)
        {
            return Err(BodyReadFault::TooLarge);
        }
        if self.expects_continue && self.inbound.state().bytes.is_empty() {
            let interim = self
                .inbound
                .stream
                .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
                .await;
            interim.map_err(|_| BodyReadFault::Malformed)?;
        }
        loop {
            let before = body.bytes.len();
            let done = poll_fn(|cx| {
                let mut state = self.inbound.state();
                if state.overloaded {
                    return Poll::Ready(Err(BodyReadFault::Overloaded));
                }
                match state.decode(&mut body.bytes, READ_AHEAD_BYTES) {
                    Err(_) => Poll::Ready(Err(BodyReadFault::Malformed)),
                    Ok(true) => Poll::Ready(Ok(true)),
                    Ok(false) if body.bytes.len() > before => Poll::Ready(Ok(false)),
                    Ok(false) => {
                        // The connection, which is polled before us, reads the socket and ends us with it.
                        state.body_waker = Some(cx.waker().clone());
                        Poll::Pending
                    }
                }
            })
            .await?;
            if body.bytes.len() > limit {
                return Err(BodyReadFault::TooLarge);
            }
            body.reserve()?;
            if done {
                return Ok(body);
            }
        }
    }
}

/// A whole request body. Its bytes count against the server's [`Budget`] until it is dropped.
pub struct ReceivedBody {
    bytes: Vec<u8>,
    reserved: usize,
    budget: Budget,
}

impl ReceivedBody {
    fn reserve(&mut self) -> Result<(), BodyReadFault> {
        let more = self.bytes.len() - self.reserved;
        if !self.budget.take(more) {
            return Err(BodyReadFault::Overloaded);
        }
        self.reserved = self.bytes.len();
        Ok(())
    }
}

impl Deref for ReceivedBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for ReceivedBody {
    fn drop(&mut self) {
        self.budget.put_back(self.reserved);
    }
}

/// Why a body was not read. The caller's fault, but for [`BodyReadFault::Overloaded`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyReadFault {
    /// Its framing was broken.
    Malformed,
    /// It took longer than [`Limits::body_time`].
    Slow,
    /// It is larger than allowed.
    TooLarge,
    /// All requests together hold as much as this server keeps.
    Overloaded,
}

impl BodyReadFault {
    /// The status to answer with.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Malformed => 400,
            Self::Slow => 408,
            Self::TooLarge => 413,
            Self::Overloaded => 503,
        }
    }
}

impl fmt::Display for BodyReadFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "the request's body is malformed",
            Self::Slow => "the request's body came too slowly",
            Self::TooLarge => "the request's body is too large",
            Self::Overloaded => "too many requests are being read at once",
        })
    }
}

impl std::error::Error for BodyReadFault {}
