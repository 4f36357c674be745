//! Certificates for the tests, made by the `openssl` command once a run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, Weak};

/// A certificate and its key.
#[derive(Clone)]
pub struct Files {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// Everything that the tests show each other. Removed when the last test is done with it.
pub struct Pki {
    pub folder: PathBuf,
    /// The authority that clients are told to trust.
    pub ca: Files,
    /// Another authority, that nobody trusts.
    pub other_ca: Files,
    /// For `localhost` and 127.0.0.1, by `ca`, ECDSA.
    pub good: Files,
    /// The same with RSA.
    pub rsa: Files,
    /// For `localhost` only.
    pub named: Files,
    /// For 127.0.0.1 only.
    pub addressed: Files,
    /// For `localhost` and 127.0.0.1, by `other_ca`.
    pub stranger: Files,
    /// Signed by itself, as a server's.
    pub self_signed: Files,
    /// Signed by itself, as an authority's: what `openssl req -x509` makes.
    pub self_signed_ca: Files,
}

const BOTH: &str = "subjectAltName=DNS:localhost,IP:127.0.0.1";
const LEAF: &str = "basicConstraints=critical,CA:FALSE";
const AUTHORITY: &str = "basicConstraints=critical,CA:TRUE";

impl Pki {
    /// The certificates, or `None` where there is no `openssl`.
    pub fn get() -> Option<Arc<Self>> {
        static SHARED: Mutex<Weak<Pki>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(pki) = shared.upgrade() {
            return Some(pki);
        }
        Command::new("openssl").arg("version").output().ok()?;
        let pki = Arc::new(Self::make());
        *shared = Arc::downgrade(&pki);
        Some(pki)
    }

    fn make() -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (id, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(format!("countersign-tls-{id}-{next}"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        // Nothing but what is asked for below: the system's file adds extensions of its own.
        std::fs::write(
            folder.join("openssl.cnf"),
            "[req]\ndistinguished_name = name\n[name]\n",
        )
        .unwrap();
        let at = &folder;
        let ca = certificate(at, "ca", "ec", &[AUTHORITY], None);
        let other_ca = certificate(at, "other-ca", "ec", &[AUTHORITY], None);
        let leaf = |name, kind, names, by| certificate(at, name, kind, &[LEAF, names], Some(by));
        Self {
            good: leaf("good", "ec", BOTH, &ca),
            rsa: leaf("rsa", "rsa:2048", BOTH, &ca),
            named: leaf("named", "ec", "subjectAltName=DNS:localhost", &ca),
            addressed: leaf("addressed", "ec", "subjectAltName=IP:127.0.0.1", &ca),
            stranger: leaf("stranger", "ec", BOTH, &other_ca),
            self_signed: certificate(at, "self-signed", "ec", &[LEAF, BOTH], None),
            self_signed_ca: certificate(at, "self-signed-ca", "ec", &[AUTHORITY, BOTH], None),
            ca,
            other_ca,
            folder,
        }
    }
}

impl Drop for Pki {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn certificate(
    folder: &Path,
    name: &str,
    kind: &str,
    extensions: &[&str],
    by: Option<&Files>,
) -> Files {
    let files = Files {
        cert: folder.join(format!("{name}.pem")),
        key: folder.join(format!("{name}.key")),
    };
    let mut openssl = Command::new("openssl");
    openssl
        .args([
            "req", "-x509", "-nodes", "-sha256", "-days", "30", "-newkey",
        ])
        .arg(kind)
        .args(["-subj", &format!("/CN={name}"), "-config"])
        .arg(folder.join("openssl.cnf"))
        .arg("-keyout")
        .arg(&files.key)
        .arg("-out")
        .arg(&files.cert);
    if kind == "ec" {
        openssl.args(["-pkeyopt", "ec_paramgen_curve:P-256"]);
    }
    for extension in extensions {
        openssl.args(["-addext", extension]);
    }
    if let Some(by) = by {
        openssl.arg("-CA").arg(&by.cert).arg("-CAkey").arg(&by.key);
    }
    let done = openssl.output().unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    files
}
