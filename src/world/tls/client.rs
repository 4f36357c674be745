//! Whom a client trusts.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::{ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConnection, RootCertStore};

use super::super::Stream;
use super::fault::{CertificateFault, FileFault, TlsFault};
use super::files::{certificates, fault};
use super::{ALPN_HTTP_1_1, TlsStream};
use crate::time::Clock;

/// The authorities that a client trusts. Cloning shares them, and the sessions that can be resumed.
#[derive(Clone)]
pub struct ClientTls(Arc<ClientConfig>);

impl ClientTls {
    /// The authorities that browsers trust, as of the release of webpki-roots. Certificates are valid or not by
    /// `clock`.
    #[must_use]
    pub fn built_in(clock: &Clock) -> Self {
        Self::with(clock, built_in())
    }

    /// The authorities that browsers trust, and those of some PEM files.
    ///
    /// # Errors
    /// [`CertificateFault`], of the first file that holds no certificate that can be used.
    pub fn also_trusting(clock: &Clock, files: &[&Path]) -> Result<Self, CertificateFault> {
        let mut roots = built_in();
        for file in files {
            // A system's bundle may hold what only others can read: what is left out cannot make anything trusted.
            let (added, ignored) = roots.add_parsable_certificates(certificates(file)?);
            if added == 0 {
                return Err(fault(file, FileFault::Unusable));
            }
            if ignored > 0 {
                log::warn!(
                    "{}: {ignored} of its certificates cannot be used",
                    file.display()
                );
            }
        }
        Ok(Self::with(clock, roots))
    }

    /// Whether this build has TLS at all: yes.
    #[must_use]
    pub const fn is_present() -> bool {
        true
    }

    fn with(clock: &Clock, roots: RootCertStore) -> Self {
        let provider = Arc::new(ring::default_provider());
        let time = Arc::new(Wall(clock.clone()));
        #[allow(clippy::expect_used)]
        let mut config = ClientConfig::builder_with_details(provider, time)
            .with_protocol_versions(&[&TLS13, &TLS12])
            .expect("ring has ciphers for both versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![ALPN_HTTP_1_1.to_vec()];
        Self(Arc::new(config))
    }

    /// Shakes hands over `stream` with `host`, a name or an IP address in text form (IPv6 without brackets). The
    /// caller bounds the time. Dropping the future closes the connection.
    ///
    /// # Errors
    /// [`TlsFault`].
    pub async fn connect(&self, stream: Stream, host: &str) -> Result<Stream, TlsFault> {
        // RFC 6066 section 3: the name goes out "without a trailing dot", and no certificate has one.
        let name = host.strip_suffix('.').unwrap_or(host).to_owned();
        // An address is no name for SNI, and is compared with the certificate's addresses.
        let name = ServerName::try_from(name).map_err(|_| TlsFault::WrongName)?;
        let tls = ClientConnection::new(self.0.clone(), name).map_err(|_| TlsFault::Certificate)?;
        let stream = TlsStream::over(stream, tls.into());
        stream.handshake().await?;
        Ok(stream)
    }
}

fn built_in() -> RootCertStore {
    RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    }
}

/// The world's time of day, by which certificates are valid.
struct Wall(Clock);

impl std::fmt::Debug for Wall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wall")
    }
}

impl TimeProvider for Wall {
    fn current_time(&self) -> Option<UnixTime> {
        let since_1970 = Duration::from_millis(self.0.wall_ms());
        Some(UnixTime::since_unix_epoch(since_1970))
    }
}
