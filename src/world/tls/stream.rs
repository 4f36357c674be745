//! A stream with TLS in it.

use std::future::poll_fn;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use rustls::{AlertDescription, CertificateError, Connection, Error};

use super::super::Stream;
use super::fault::TlsFault;

/// Plaintext of one record at most (RFC 8446 section 5.1). A write takes no more, so that one record is under way
/// at a time: the other side can read none of it before all of it was taken by the kernel, and what was not
/// reported as written was not seen.
const RECORD_BYTES: usize = 16_384;

/// Bytes read in one go that carry nothing for us. A handshake message after the handshake has at most 64 KiB;
/// whoever sends more empty records than this would keep the thread from everyone else.
const IDLE_TALK_BYTES: usize = 131_072;

/// rustls' state and the stream beneath it.
///
/// The end of the stream beneath without `close_notify` is [`ErrorKind::UnexpectedEof`] for a read: only then can
/// a body that ends with the connection be told from one that was cut.
pub(in super::super) struct TlsStream {
    beneath: Stream,
    state: Mutex<State>,
}

struct State {
    tls: Connection,
    /// Plaintext bytes in the record that was encrypted and not yet taken whole.
    under_way: usize,
    /// A writer waits for the stream beneath, and will send whatever else is due.
    writer_waits: bool,
    end: End,
}

/// How far our own end of the connection has come.
#[derive(PartialEq, Eq)]
enum End {
    Open,
    /// `close_notify` is on its way.
    Closing,
    Closed,
}

impl TlsStream {
    /// Puts TLS into `beneath`.
    pub(super) fn over(beneath: Stream, tls: Connection) -> Stream {
        let state = State {
            tls,
            under_way: 0,
            writer_waits: false,
            end: End::Open,
        };
        Stream::tls(Self {
            beneath,
            state: Mutex::new(state),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shakes hands; at once when that is done.
    pub(in super::super) async fn handshake(&self) -> Result<(), TlsFault> {
        poll_fn(|cx| self.poll_handshake(cx)).await
    }

    fn poll_handshake(&self, cx: &mut Context<'_>) -> Poll<Result<(), TlsFault>> {
        let mut state = self.state();
        loop {
            ready!(state.poll_flush(&self.beneath, cx)).map_err(|_| TlsFault::Ended)?;
            if !state.tls.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            match ready!(state.poll_fill(|bytes| self.beneath.poll_read(cx, bytes))) {
                Ok(0) | Err(Broken::Beneath(_)) => return Poll::Ready(Err(TlsFault::Ended)),
                Ok(_) => {}
                Err(Broken::Tls(error)) => {
                    // The alert says why; that it arrives is not waited for.
                    let _ = state.poll_flush(&self.beneath, cx);
                    return Poll::Ready(Err(fault_of(&error)));
                }
            }
        }
    }

    pub(in super::super) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        bytes: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.state();
        let read = state.poll_read(bytes, |into| self.beneath.poll_read(cx, into));
        // Reading may have made us owe an alert, and our close may still be due. A writer that waits sends both,
        // and must not lose its wake-up to this one.
        if !state.writer_waits {
            let _ = state.poll_flush(&self.beneath, cx);
        }
        read
    }

    pub(in super::super) fn try_read(&self, bytes: &mut [u8]) -> Option<io::Result<usize>> {
        let source = |into: &mut [u8]| match self.beneath.try_read(into) {
            Some(done) => Poll::Ready(done),
            None => Poll::Pending,
        };
        match self.state().poll_read(bytes, source) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    /// `Ok` comes only when the kernel has taken the whole record. A write that is pending is repeated with the same
    /// bytes, or the stream is dropped.
    pub(in super::super) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.state();
        let written = state.poll_write(&self.beneath, cx, bytes);
        state.writer_waits = written.is_pending();
        written
    }

    /// Sends `close_notify` and then the end of the stream beneath. What the kernel does not take now goes out with
    /// the reads that follow.
    pub(in super::super) fn shutdown_write(&self) {
        let mut state = self.state();
        if state.end == End::Open {
            state.tls.send_close_notify();
            state.end = End::Closing;
        }
        let mut nobody = Context::from_waker(Waker::noop());
        let _ = state.poll_flush(&self.beneath, &mut nobody);
    }

    pub(in super::super) fn reset_on_drop(&self, reset: bool) {
        self.beneath.reset_on_drop(reset);
    }
}

/// Why reading cannot go on.
enum Broken {
    Beneath(io::Error),
    Tls(Error),
}

impl State {
    /// Reads plaintext. It ends in every state: with bytes, the end, an error, or when `source` has no more for now.
    fn poll_read(
        &mut self,
        bytes: &mut [u8],
        mut source: impl FnMut(&mut [u8]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let mut talked = 0;
        loop {
            match self.tls.reader().read(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // Bytes; 0 after close_notify; UnexpectedEof after an end without it.
                done => return Poll::Ready(done),
            }
            match ready!(self.poll_fill(&mut source)) {
                Ok(count) => talked += count,
                Err(Broken::Beneath(error)) => return Poll::Ready(Err(error)),
                Err(Broken::Tls(_)) => return Poll::Ready(Err(ErrorKind::InvalidData.into())),
            }
            if talked > IDLE_TALK_BYTES {
                return Poll::Ready(Err(ErrorKind::InvalidData.into()));
            }
        }
    }

    /// Takes once what the stream beneath has, and works through it. `Ok(0)` is its end.
    fn poll_fill(
        &mut self,
        source: impl FnMut(&mut [u8]) -> Poll<io::Result<usize>>,
    ) -> Poll<Result<usize, Broken>> {
        let count = match self.tls.read_tls(&mut Source(source)) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Poll::Pending,
            Err(error) => return Poll::Ready(Err(Broken::Beneath(error))),
        };
        Poll::Ready(match self.tls.process_new_packets() {
            Ok(_) => Ok(count),
            Err(error) => Err(Broken::Tls(error)),
        })
    }

    fn poll_write(
        &mut self,
        beneath: &Stream,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.tls.is_handshaking() || self.end != End::Open {
            return Poll::Ready(Err(ErrorKind::NotConnected.into()));
        }
        if self.under_way == 0 {
            ready!(self.poll_flush(beneath, cx))?;
            let record = bytes.get(..RECORD_BYTES).unwrap_or(bytes);
            self.under_way = self.tls.writer().write(record)?;
        }
        if self.under_way > bytes.len() {
            return Poll::Ready(Err(ErrorKind::InvalidInput.into()));
        }
        ready!(self.poll_flush(beneath, cx))?;
        Poll::Ready(Ok(std::mem::take(&mut self.under_way)))
    }

    /// Sends what is encrypted.
    fn poll_flush(&mut self, beneath: &Stream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.tls.wants_write() {
            match self
                .tls
                .write_tls(&mut Sink(|bytes: &[u8]| beneath.poll_write(cx, bytes)))
            {
                Ok(0) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        if self.end == End::Closing {
            self.end = End::Closed;
            beneath.shutdown_write();
        }
        Poll::Ready(Ok(()))
    }
}

/// The stream beneath as rustls reads it.
struct Source<F>(F);

impl<F: FnMut(&mut [u8]) -> Poll<io::Result<usize>>> Read for Source<F> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match (self.0)(bytes) {
            Poll::Ready(done) => done,
            Poll::Pending => Err(ErrorKind::WouldBlock.into()),
        }
    }
}

/// The stream beneath as rustls writes it.
struct Sink<F>(F);

impl<F: FnMut(&[u8]) -> Poll<io::Result<usize>>> Write for Sink<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match (self.0)(bytes) {
            Poll::Ready(done) => done,
            Poll::Pending => Err(ErrorKind::WouldBlock.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The reason, in our words.
fn fault_of(error: &Error) -> TlsFault {
    match error {
        Error::InvalidCertificate(certificate) => match certificate {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                TlsFault::Expired
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                TlsFault::NotYetValid
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                TlsFault::WrongName
            }
            CertificateError::UnknownIssuer => TlsFault::UnknownIssuer,
            // webpki's own word, which rustls does not translate; a test holds it.
            CertificateError::Other(other) if other.to_string() == "CaUsedAsEndEntity" => {
                TlsFault::Authority
            }
            _ => TlsFault::Certificate,
        },
        Error::PeerIncompatible(_) | Error::NoApplicationProtocol => TlsFault::Version,
        Error::AlertReceived(AlertDescription::ProtocolVersion) => TlsFault::Version,
        Error::AlertReceived(_) => TlsFault::Refused,
        Error::InvalidMessage(_)
        | Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. }
        | Error::PeerMisbehaved(_)
        | Error::DecryptError
        | Error::PeerSentOversizedRecord => TlsFault::NotTls,
        _ => TlsFault::Refused,
    }
}
