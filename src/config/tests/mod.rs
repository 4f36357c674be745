//! What the configuration takes, what it refuses and in which words.

#![allow(clippy::unwrap_used)]

mod examples;
mod faults;
mod hostile;

use super::*;

/// The one word-for-word view of a refusal.
fn faults(text: &str) -> Vec<String> {
    match Config::parse("c.yaml", text) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.iter().map(ToString::to_string).collect(),
    }
}

/// A configuration that is taken.
fn config(text: &str) -> Config {
    match Config::parse("c.yaml", text) {
        Ok((config, _)) => config,
        Err(faults) => {
            let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
            panic!("refused:\n{}\n{text}", faults.join("\n"))
        }
    }
}

/// The warnings of a configuration that is taken.
fn warnings(text: &str) -> Vec<String> {
    let (_, warnings) = Config::parse("c.yaml", text).unwrap();
    warnings.iter().map(ToString::to_string).collect()
}

/// An environment of a test's own.
struct Environment(&'static [(&'static str, &'static str)]);

impl Lookup for Environment {
    fn variable(&self, name: &str) -> Option<crate::secret::Secret> {
        let found = self.0.iter().find(|(its, _)| *its == name)?;
        Some(crate::secret::Secret::new(found.1.to_owned()))
    }

    fn file(&self, path: &std::path::Path) -> Option<crate::secret::Secret> {
        self.variable(path.to_str()?)
    }
}
