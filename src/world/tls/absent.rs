//! What stands in where this build has no TLS: the same names, each of which refuses.

use std::io;
use std::path::Path;
use std::task::{Context, Poll};

use super::super::Stream;
use super::fault::{CertificateFault, FileFault, TlsFault};
use crate::time::Clock;

/// A certificate to serve with: none can be made in this build.
#[derive(Clone)]
pub enum ServerTls {}

impl ServerTls {
    /// Refuses.
    ///
    /// # Errors
    /// [`FileFault::Absent`], always.
    pub fn load(cert: &Path, _key: &Path) -> Result<Self, CertificateFault> {
        Err(absent(cert))
    }

    /// Never called: there is none.
    ///
    /// # Errors
    /// None.
    pub async fn reload(&self) -> Result<(), CertificateFault> {
        match *self {}
    }

    pub(in super::super) fn accept(&self, _: Stream) -> io::Result<Stream> {
        match *self {}
    }
}

/// What is trusted: of no use in this build.
#[derive(Clone)]
pub struct ClientTls(Option<TlsStream>);

impl ClientTls {
    /// The built-in roots, of no use in this build.
    #[must_use]
    pub const fn built_in(_: &Clock) -> Self {
        Self(None)
    }

    /// Refuses any file.
    ///
    /// # Errors
    /// [`FileFault::Absent`] when `files` holds any.
    pub fn also_trusting(_: &Clock, files: &[&Path]) -> Result<Self, CertificateFault> {
        match files.first() {
            Some(file) => Err(absent(file)),
            None => Ok(Self(None)),
        }
    }

    /// Whether this build has TLS at all: no.
    #[must_use]
    pub const fn is_present() -> bool {
        false
    }

    /// Refuses.
    ///
    /// # Errors
    /// [`TlsFault::Absent`], always.
    pub async fn connect(&self, _: Stream, _: &str) -> Result<Stream, TlsFault> {
        self.0.clone().map(Stream::tls).ok_or(TlsFault::Absent)
    }
}

fn absent(file: &Path) -> CertificateFault {
    CertificateFault {
        file: file.to_owned(),
        fault: FileFault::Absent,
    }
}

/// A stream with TLS in it: there is none in this build.
#[derive(Clone)]
pub(in super::super) enum TlsStream {}

impl TlsStream {
    pub(in super::super) async fn handshake(&self) -> Result<(), TlsFault> {
        match *self {}
    }

    pub(in super::super) fn poll_read(
        &self,
        _: &mut Context<'_>,
        _: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match *self {}
    }

    pub(in super::super) fn try_read(&self, _: &mut [u8]) -> Option<io::Result<usize>> {
        match *self {}
    }

    pub(in super::super) fn poll_write(
        &self,
        _: &mut Context<'_>,
        _: &[u8],
    ) -> Poll<io::Result<usize>> {
        match *self {}
    }

    pub(in super::super) fn shutdown_write(&self) {
        match *self {}
    }
    pub(in super::super) fn reset_on_drop(&self, _: bool) {
        match *self {}
    }
}
