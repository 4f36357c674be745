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

mod chunked_body;
mod request_head;

pub use chunked_body::chunked_body;
pub use request_head::request_head;

/// A name and its check.
pub type Target = (&'static str, fn(&[u8]));

/// Every target, by the name of its file and of its corpus.
pub const TARGETS: &[Target] = &[
    ("chunked_body", chunked_body),
    ("request_head", request_head),
];
