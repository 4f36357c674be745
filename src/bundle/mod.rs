//! The bundle: mounts of gated tools, behind the gateway.
//!
//! A mount runs inside the gateway's process or in one of its own; either way it decides by the same gate whether a
//! call may act. In a process of its own it believes nobody but the holder of the bundle key.

pub mod command;
mod confirm;
mod mount;
mod service;

pub use command::CommandMount;
pub use confirm::Confirmer;
pub use mount::MountCall;
pub use service::{Bundle, BundleFault};
