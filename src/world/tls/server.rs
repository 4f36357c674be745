//! The certificate that a listener serves with.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::crypto::ring;
use rustls::server::ServerConfig;
use rustls::version::{TLS12, TLS13};
use rustls::{Error, ServerConnection};

use super::super::Stream;
use super::fault::{CertificateFault, FileFault};
use super::files::{certificates, fault, private_key};
use super::{ALPN_HTTP_1_1, TlsStream};

/// A certificate and its key, from two PEM files. Cloning gives the same one, so that a reload reaches every
/// listener.
#[derive(Clone)]
pub struct ServerTls(Arc<Files>);

struct Files {
    cert: PathBuf,
    key: PathBuf,
    /// What the next connection is served with. Those under way keep what they began with.
    current: Mutex<Arc<ServerConfig>>,
}

impl ServerTls {
    /// Reads a certificate, with the chain that leads to its authority behind it, and its key.
    ///
    /// # Errors
    /// [`CertificateFault`]: the configuration's fault.
    pub fn load(cert: &Path, key: &Path) -> Result<Self, CertificateFault> {
        let current = Mutex::new(read(cert, key)?);
        Ok(Self(Arc::new(Files {
            cert: cert.to_owned(),
            key: key.to_owned(),
            current,
        })))
    }

    /// Reads the files anew, for the connections that are accepted from now on. With a fault the old certificate
    /// stays: an authority's client that is half way through its two writes must not end the service.
    ///
    /// # Errors
    /// [`CertificateFault`].
    pub async fn reload(&self) -> Result<(), CertificateFault> {
        let files = self.0.clone();
        let new = smol::unblock(move || read(&files.cert, &files.key)).await?;
        *self
            .0
            .current
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// Puts TLS into a stream that was accepted; its handshake is still to come.
    pub(in super::super) fn accept(&self, stream: Stream) -> io::Result<Stream> {
        let current = self
            .0
            .current
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let tls = ServerConnection::new(current.clone()).map_err(io::Error::other)?;
        Ok(TlsStream::over(stream, tls.into()))
    }
}

fn read(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, CertificateFault> {
    let chain = certificates(cert)?;
    let secret = private_key(key)?;
    let unusable = |error| match error {
        Error::InconsistentKeys(_) => fault(key, FileFault::ForeignKey),
        Error::General(_) => fault(key, FileFault::Unusable),
        _ => fault(cert, FileFault::Unusable),
    };
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(unusable)?;
    config.alpn_protocols = vec![ALPN_HTTP_1_1.to_vec()];
    Ok(Arc::new(config))
}
