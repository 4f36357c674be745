//! countersign makes a person sign off before an MCP tool acts.
//!
//! An agent calls a tool; the call is held; a person sees exactly what would happen and answers; only an
//! explicit yes lets the call go on, once. This crate is the whole of it: the gateway, the gated tools, the desk
//! where people answer, and the parts that other programs embed.
//!
//! # Which way to read
//!
//! Modules stand in floors, and a file imports only from floors below its own:
//!
//! ```text
//! 7  cli                               the commands
//! 6  gateway  desk  bundle             what listens
//! 5  gate  config                      what decides, and what was decided beforehand
//! 4  approval                          asking a person over the elicitation protocol
//! 3  mcp                               messages, server, client
//! 2  http                              HTTP/1.1, sans-I/O and its shell
//! 1  world  time  json  text  secret   everything else stands on these
//! ```
//!
//! # Cancellation is a drop
//!
//! Everything that a call does lives in one future, owned by its connection. When the caller leaves, the deadline
//! passes or the process drains, that future is dropped, and what it held (the upstream connection, the child
//! process, the wait for an answer) ends with it.

pub mod approval;
pub mod bundle;
pub mod cli;
pub mod config;
pub mod desk;
pub mod gate;
pub mod gateway;
pub mod http;
pub mod json;
pub mod mcp;
pub mod secret;
pub mod text;
pub mod time;
pub mod world;
