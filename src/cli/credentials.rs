//! Credentials: from the environment or a file, never from an argument.

use std::io::Read;
use std::path::Path;

use url::Url;

use super::Failure;
use crate::secret::Secret;

/// The longest credential that is read, in bytes.
const MAX_BYTES: u64 = 4096;

/// Where one credential may come from.
pub(super) struct Source {
    /// The environment variable.
    pub(super) variable: &'static str,
    /// The option that names a file.
    pub(super) option: &'static str,
}

pub(super) const TOKEN: Source = Source {
    variable: "COUNTERSIGN_TOKEN",
    option: "--token-file",
};
pub(super) const KEY: Source = Source {
    variable: "COUNTERSIGN_KEY",
    option: "--key-file",
};
pub(super) const CHANNEL: Source = Source {
    variable: "COUNTERSIGN_CHANNEL",
    option: "--channel-file",
};

/// The address of a server that credentials may be sent to.
pub(super) fn address(text: &str) -> Result<Url, Failure> {
    let url = Url::parse(text).map_err(|_| Failure::Usage(format!("{text:?} is not a URL")))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Failure::Usage(
            "a URL with credentials in it is not taken; use --token-file".to_owned(),
        ));
    }
    match (url.scheme(), url.host_str()) {
        ("http" | "https", Some(_)) => Ok(url),
        _ => Err(Failure::Usage("the URL must be http or https".to_owned())),
    }
}

/// Refuses to send a credential where others could read it.
pub(super) fn may_go_to(url: &Url) -> Result<(), Failure> {
    let here = url.host_str().is_some_and(crate::desk::is_loopback);
    match url.scheme() == "https" || here {
        true => Ok(()),
        false => Err(Failure::Usage(
            "a token or an approval URL is sent over https, or over http to this machine only"
                .to_owned(),
        )),
    }
}

impl Source {
    /// The credential, if there is one: the file wins over the environment.
    pub(super) fn read(&self, file: Option<&Path>) -> Result<Option<Secret>, Failure> {
        let text = match file {
            None => match std::env::var(self.variable) {
                Ok(text) => text,
                Err(std::env::VarError::NotPresent) => return Ok(None),
                Err(_) => return Err(Failure::Usage(format!("{} is not UTF-8", self.variable))),
            },
            Some(path) => {
                let fault = |error: std::io::Error| {
                    Failure::Usage(format!(
                        "{} {}: {}",
                        self.option,
                        path.display(),
                        error.kind()
                    ))
                };
                let mut text = String::new();
                let read = if path == Path::new("-") {
                    std::io::stdin()
                        .lock()
                        .take(MAX_BYTES)
                        .read_to_string(&mut text)
                } else {
                    std::fs::File::open(path)
                        .map_err(fault)?
                        .take(MAX_BYTES)
                        .read_to_string(&mut text)
                };
                read.map_err(fault)?;
                text
            }
        };
        let text = text.trim();
        Ok((!text.is_empty()).then(|| Secret::new(text.to_owned())))
    }

    /// The credential, which must be there.
    pub(super) fn require(&self, file: Option<&Path>) -> Result<Secret, Failure> {
        self.read(file)?.ok_or_else(|| {
            Failure::Usage(format!(
                "a credential is needed: set {} or give {} FILE",
                self.variable, self.option
            ))
        })
    }
}
