//! Behaviour over real sockets, and the whole chain on a clock driven by hand.
// One crate of tests: what is `pub` is shared between its files, and a test may stop at once.
#![allow(unreachable_pub, clippy::unwrap_used, clippy::print_stdout)]

mod ask;
mod binary;
mod chain;
mod crowd;
mod desk;
mod elsewhere;
mod eras;
mod framing;
mod http_client;
mod http_server;
mod lab;
mod life;
mod logs;
mod mcp;
mod mirrored;
mod refusals;
mod relay;
mod resume;
mod rows;
mod soak;
mod standing;
mod stdio_client;
mod stdio_server;
mod support;
#[cfg(feature = "tls")]
mod tls;
