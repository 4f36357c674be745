//! The gateway: the MCP endpoint that callers reach, in front of every server that the configuration names.
//!
//! A request's way: who calls ([`Principal`]) and whom they may ask, by the head alone; which server and tool the
//! call means; what is forwarded about asking; then the server itself, in this process or behind HTTP.

mod admin;
mod channel;
mod lists;
mod metadata;
mod mirrored;
mod names;
mod parked;
mod principal;
mod remote;
mod roster;
mod rules;
mod service;
mod subscribed;
mod tasks;
mod upstream;

pub use admin::Admin;
pub use channel::ChannelHeader;
pub use principal::{Callers, Principal};
pub use roster::{Roster, RosterFault};
pub use service::Gateway;
