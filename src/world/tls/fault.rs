//! Why no secure connection came about, and why a certificate file is of no use.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a handshake came to nothing. It names a reason and nothing that the other side sent: no name, no
/// certificate, no text of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFault {
    /// This build has no TLS.
    Absent,
    /// The other side's certificate cannot be accepted for another reason than those below.
    Certificate,
    /// The certificate has run out.
    Expired,
    /// The certificate is an authority's, shown as a server's own.
    Authority,
    /// The connection ended before the handshake did.
    Ended,
    /// What came is no TLS, or breaks its rules.
    NotTls,
    /// The certificate is not valid yet.
    NotYetValid,
    /// The other side refused, for a reason of its own.
    Refused,
    /// The certificate is signed by nobody who is trusted here.
    UnknownIssuer,
    /// No version of TLS, or no cipher of one, that both sides speak.
    Version,
    /// The certificate is for other names.
    WrongName,
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "this build has no TLS",
            Self::Certificate => "the certificate is not acceptable",
            Self::Expired => "the certificate has expired",
            Self::Authority => {
                "the certificate is an authority's own, as a self-signed one often is"
            }
            Self::Ended => "the connection ended during the handshake",
            Self::NotTls => "the other side does not speak TLS as it must",
            Self::NotYetValid => "the certificate is not valid yet",
            Self::Refused => "the other side refused the handshake",
            Self::UnknownIssuer => {
                "the certificate is self-signed, or of an authority that is not trusted here"
            }
            Self::Version => "there is no version of TLS that both sides speak",
            Self::WrongName => "the certificate is for another name",
        })
    }
}

impl std::error::Error for TlsFault {}

/// A certificate or key file that is of no use: the configuration's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFault {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub fault: FileFault,
}

/// What is wrong with a certificate or key file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFault {
    /// This build has no TLS.
    Absent,
    /// It holds a key that belongs to another certificate.
    ForeignKey,
    /// It holds no certificate.
    NoCertificate,
    /// It holds no private key.
    NoKey,
    /// It is no PEM file.
    NotPem,
    /// It cannot be read.
    Unreadable(io::ErrorKind),
    /// What it holds is of a kind that cannot be used.
    Unusable,
}

impl fmt::Display for CertificateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.fault)
    }
}

impl std::error::Error for CertificateFault {}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "this build has no TLS",
            Self::ForeignKey => "the private key is not the certificate's",
            Self::NoCertificate => "no certificate in it, allowed: PEM",
            Self::NoKey => {
                "no private key in it, allowed: PEM of PKCS#8, PKCS#1 or SEC1, not encrypted"
            }
            Self::NotPem => "broken, allowed: PEM",
            Self::Unreadable(kind) => return write!(f, "cannot be read: {kind}"),
            Self::Unusable => {
                "cannot be used, allowed: X.509 version 3 and a key of RSA, ECDSA or Ed25519"
            }
        })
    }
}
