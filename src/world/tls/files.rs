//! Certificates and keys from PEM files.

use std::path::Path;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::fault::{CertificateFault, FileFault};

/// Largest file that is read: the bundles of every public authority are a quarter of a megabyte.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// The certificates of a file, at least one, in their order.
pub(super) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateFault> {
    let bytes = read(file)?;
    let all: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&bytes).collect();
    match all {
        Ok(all) if all.is_empty() => Err(fault(file, FileFault::NoCertificate)),
        Ok(all) => Ok(all),
        Err(_) => Err(fault(file, FileFault::NotPem)),
    }
}

/// The first private key of a file.
pub(super) fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, CertificateFault> {
    // The file's bytes are dropped without being wiped, as is the key that rustls keeps for as long as it serves.
    let bytes = read(file)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| {
        fault(
            file,
            match error {
                pem::Error::NoItemsFound => FileFault::NoKey,
                _ => FileFault::NotPem,
            },
        )
    })
}

pub(super) fn fault(file: &Path, fault: FileFault) -> CertificateFault {
    CertificateFault {
        file: file.to_owned(),
        fault,
    }
}

fn read(file: &Path) -> Result<Vec<u8>, CertificateFault> {
    use std::io::Read;
    let unreadable = |error: std::io::Error| fault(file, FileFault::Unreadable(error.kind()));
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(file).map_err(unreadable)?;
    opened
        .take(MAX_FILE_BYTES)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    Ok(bytes)
}
