//! The answer to one request.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::body::{LAST_CHUNK, chunk};
use super::head::HeadWriter;
use super::inbound::Inbound;
use crate::time::Clock;

/// Answers one request, once: every way of answering takes it by value and gives the [`Responded`] that a handler
/// must return.
pub struct Responder {
    inbound: Arc<Inbound>,
    clock: Clock,
    /// For each step of a caller that takes the answer slowly.
    step_time: Duration,
    keep_alive: bool,
    /// The head goes out, the body does not: the request was a HEAD (RFC 9110 section 9.3.2), or the status has none.
    head_only: bool,
    /// The caller speaks HTTP/1.0, which has no chunks (RFC 9112 section 6.1).
    chunks: bool,
}

/// Proof that a request was answered, or that its caller is gone. Only a [`Responder`] makes one.
#[must_use]
#[derive(Debug)]
pub struct Responded {
    pub(super) then: Then,
}

impl Responded {
    /// For an answer that is given up half way, its [`StreamWriter`] dropped: the connection ends at once, so that
    /// nobody takes a part for the whole.
    pub(crate) const fn cut() -> Self {
        Self { then: Then::Cut }
    }
}

/// What becomes of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// It may carry another request.
    Reuse,
    /// It ends in order.
    Close,
    /// It ends at once: the answer is not whole, and must not seem to be.
    Cut,
}

/// The caller is gone, or takes nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamClosed;

impl fmt::Display for StreamClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the caller has left")
    }
}

impl std::error::Error for StreamClosed {}

impl Responder {
    pub(super) const fn new(
        inbound: Arc<Inbound>,
        clock: Clock,
        step_time: Duration,
        keep_alive: bool,
        head_only: bool,
        chunks: bool,
    ) -> Self {
        Self {
            inbound,
            clock,
            step_time,
            keep_alive,
            head_only,
            chunks,
        }
    }

    /// Answers whole. `headers` are ours: a name or value that would break the head is left out and logged by name.
    ///
    /// Dropping the future leaves the answer half written, and the connection closes.
    pub async fn send(mut self, status: u16, headers: &[(&str, &str)], body: &[u8]) -> Responded {
        self.settle(status);
        let mut head = HeadWriter::response(status);
        add(&mut head, headers);
        self.head_only |= head.is_bodiless();
        head.length(body.len() as u64);
        if !self.keep_alive {
            head.close();
        }
        let mut bytes = head.finish();
        if !self.head_only {
            bytes.extend_from_slice(body);
        }
        let written = write(&self.inbound, &self.clock, self.step_time, &bytes).await;
        self.responded(written)
    }

    /// Starts an answer whose length is not known. `first` leaves in one write with the head.
    ///
    /// # Errors
    /// [`Responded`] itself when the caller is gone, to be returned as it is.
    pub async fn start(
        mut self,
        status: u16,
        headers: &[(&str, &str)],
        first: &[u8],
    ) -> Result<StreamWriter, Responded> {
        self.settle(status);
        if !self.chunks {
            self.keep_alive = false;
        }
        let mut head = HeadWriter::response(status);
        add(&mut head, headers);
        self.head_only |= head.is_bodiless();
        if self.chunks {
            head.chunked();
        }
        if !self.keep_alive {
            head.close();
        }
        if !self.chunks {
            // RFC 9112 section 8: such an answer ends with its connection, so that one cut short would look whole.
            self.inbound.stream.reset_on_drop(true);
        }
        let mut bytes = head.finish();
        self.frame(&mut bytes, first);
        let writer = StreamWriter { answer: self };
        match writer.put(&bytes).await {
            Ok(()) => Ok(writer),
            Err(StreamClosed) => Err(writer.abandon()),
        }
    }

    const fn responded(&self, written: Result<(), StreamClosed>) -> Responded {
        let then = match written {
            Ok(()) if self.keep_alive => Then::Reuse,
            Ok(()) => Then::Close,
            Err(StreamClosed) => Then::Cut,
        };
        Responded { then }
    }

    /// Decides whether the connection lives on. Those statuses close it whose request cannot be trusted to end
    /// where we think it does, and an answer given before the body had come: the rest of it must never be parsed as
    /// a request.
    fn settle(&mut self, status: u16) {
        if matches!(status, 400 | 403 | 408 | 413 | 431) || !self.inbound.finish_body() {
            self.keep_alive = false;
        }
    }

    fn frame(&self, out: &mut Vec<u8>, data: &[u8]) {
        // An empty chunk would end the body (RFC 9112 section 7.1), and the answer to a HEAD has none: what followed
        // its head would be read as the next answer.
        if data.is_empty() || self.head_only {
            return;
        }
        if self.chunks {
            chunk(out, data)
        } else {
            out.extend_from_slice(data)
        }
    }
}

/// The rest of an answer that was started. Dropping it unfinished closes the connection, so that the caller never
/// takes a part for the whole.
pub struct StreamWriter {
    answer: Responder,
}

impl StreamWriter {
    /// Writes `data` and waits until the kernel has taken it. Dropping the future leaves a part of it written; the
    /// stream is then good for nothing but dropping.
    ///
    /// # Errors
    /// [`StreamClosed`] when the caller is gone or too slow.
    pub async fn write(&mut self, data: &[u8]) -> Result<(), StreamClosed> {
        let mut bytes = Vec::with_capacity(data.len() + 16);
        self.answer.frame(&mut bytes, data);
        self.put(&bytes).await
    }

    /// Ends the answer, with `last` in the same write.
    pub async fn finish(self, last: &[u8]) -> Responded {
        let mut bytes = Vec::with_capacity(last.len() + 32);
        self.answer.frame(&mut bytes, last);
        if self.answer.chunks && !self.answer.head_only {
            bytes.extend_from_slice(LAST_CHUNK);
        }
        let written = self.put(&bytes).await;
        if written.is_ok() {
            self.answer.inbound.stream.reset_on_drop(false);
        }
        self.answer.responded(written)
    }

    /// Gives the answer up half way, after a write that failed; the connection closes.
    pub fn abandon(self) -> Responded {
        Responded::cut()
    }

    async fn put(&self, bytes: &[u8]) -> Result<(), StreamClosed> {
        let answer = &self.answer;
        write(&answer.inbound, &answer.clock, answer.step_time, bytes).await
    }
}

/// Bytes written under one time allowance: a large answer gets one for each.
const STEP_BYTES: usize = 65_536;

async fn write(
    inbound: &Inbound,
    clock: &Clock,
    step_time: Duration,
    bytes: &[u8],
) -> Result<(), StreamClosed> {
    for step in bytes.chunks(STEP_BYTES) {
        let written = clock
            .timeout(clock.after(step_time), inbound.stream.write_all(step))
            .await;
        if !matches!(written, Ok(Ok(()))) {
            return Err(StreamClosed);
        }
    }
    Ok(())
}

fn add(head: &mut HeadWriter, headers: &[(&str, &str)]) {
    for (name, value) in headers {
        if head.header(name, value).is_err() {
            log::error!("the response header {name} has a value that cannot be sent; left out");
        }
    }
}
