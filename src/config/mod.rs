//! The configuration: YAML in, one valid [`Config`] out, or every fault of it at once.
//!
//! # Two stages
//!
//! [`keys`] lists every key. The first stage (`reader`) holds a file against that list alone: unknown keys, wrong
//! types, words and numbers out of bounds. The second (`gateway`, `draft`, `desk`, and `rules` between
//! servers) reads what passed and checks what it means. Both note what they find in one report, and a file with
//! a fault is refused whole.
//!
//! # Secrets
//!
//! A value that may be a credential is a [`Template`]. It keeps references as they stand and resolves them for
//! each call, so a configuration holds no secret but those that were written into it.

mod desk;
mod draft;
mod fault;
mod gateway;
mod headers;
pub mod keys;
mod model;
mod names;
mod reader;
mod rules;
mod sameness;
mod scalar;
mod servers;
mod settings;
mod template;
mod tools;
mod values;
mod yaml;

#[cfg(test)]
mod tests;

pub use desk::{Askers, Desk, GateKeys, Person};
pub use fault::{At, Fault, MAX_FAULTS, Notice, Placed, Warning};
pub use gateway::{Bundle, Gateway, Reach, Token};
pub use model::Config;
pub use names::Slug;
pub use sameness::Fingerprint;
pub use servers::{Ask, Kind, Mount, Server};
pub use settings::{Limits, Log, LogFormat, Timing, Trust};
pub use template::{Lookup, ProcessLookup, Reference, SlugLookup, Template, Unseeded};
pub use tools::CommandTool;
pub use values::{CertificateFiles, Listen};
