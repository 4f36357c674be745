//! See [`countersign_fuzz::request_head`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| countersign_fuzz::request_head(input));
