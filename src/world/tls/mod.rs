//! TLS over a stream: rustls with the ring provider, TLS 1.2 and 1.3, HTTP/1.1 by ALPN.
//!
//! A [`Stream`](super::Stream) with TLS in it reads and writes like any other, so nothing above knows the
//! difference but where a certificate is loaded and a connection is begun. Without the feature `tls` the same
//! names exist and refuse: this file is the only one that knows whether it is there.

mod fault;

#[cfg(feature = "tls")]
mod client;
#[cfg(feature = "tls")]
mod files;
#[cfg(feature = "tls")]
mod server;
#[cfg(feature = "tls")]
mod stream;

#[cfg(not(feature = "tls"))]
mod absent;

#[cfg(not(feature = "tls"))]
pub(super) use absent::TlsStream;
#[cfg(not(feature = "tls"))]
pub use absent::{ClientTls, ServerTls};
#[cfg(feature = "tls")]
pub use client::ClientTls;
pub use fault::{CertificateFault, FileFault, TlsFault};
#[cfg(feature = "tls")]
pub use server::ServerTls;
#[cfg(feature = "tls")]
pub(super) use stream::TlsStream;

use std::time::Duration;

/// For a whole handshake, from either side. A round trip or two and a signature take less than a second on the
/// slowest link in use; whoever needs longer holds a connection and says nothing.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// The only protocol spoken here (RFC 7301): a caller that offers others and not this one is refused in the
/// handshake, where it can still fall back.
#[cfg(feature = "tls")]
const ALPN_HTTP_1_1: &[u8] = b"http/1.1";
