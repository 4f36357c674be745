//! What must hold for any bytes, as plain functions that panic where it does not.
//!
//! The fuzz targets (`fuzz_targets/`, one function each) call them with what libFuzzer makes up, and
//! `tests/replay.rs` with the committed corpus, on stable and without libFuzzer. To add a target: a function here and
//! a line in [`TARGETS`], a file in `fuzz_targets/`, a `[[bin]]`, and a few seeds in `corpus/<target>/`.
//!
//! ```text
//! cargo test                                        # replays the corpus
//! RUSTC_BOOTSTRAP=1 cargo fuzz run request_head     # or cargo +nightly fuzz run
//! ```

mod approval_answer;
mod approval_url;
mod choice;
mod chunked_body;
mod configuration;
mod differential_body;
mod differential_request;
mod differential_response;
mod header_values;
mod jsonrpc_envelope;
mod others;
mod request_head;
mod response_head;
mod sealed_state;
mod sse_reader;

pub use approval_answer::approval_answer;
pub use approval_url::approval_url;
pub use chunked_body::chunked_body;
pub use configuration::configuration;
pub use differential_body::differential_body;
pub use differential_request::differential_request;
pub use differential_response::differential_response;
pub use header_values::header_values;
pub use jsonrpc_envelope::jsonrpc_envelope;
pub use request_head::request_head;
pub use response_head::response_head;
pub use sealed_state::sealed_state;
pub use sse_reader::sse_reader;

/// A name and its check.
pub type Target = (&'static str, fn(&[u8]));

/// Every target, by the name of its file and of its corpus.
pub const TARGETS: &[Target] = &[
    ("approval_answer", approval_answer),
    ("approval_url", approval_url),
    ("chunked_body", chunked_body),
    ("configuration", configuration),
    ("differential_body", differential_body),
    ("differential_request", differential_request),
    ("differential_response", differential_response),
    ("header_values", header_values),
    ("jsonrpc_envelope", jsonrpc_envelope),
    ("request_head", request_head),
    ("response_head", response_head),
    ("sealed_state", sealed_state),
    ("sse_reader", sse_reader),
];
