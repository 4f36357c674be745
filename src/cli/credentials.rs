//! Credentials: from the environment or a file, never from an argument.

use std::io::Read;
use std::path::Path;

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
