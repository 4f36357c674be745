//! See [`countersign_fuzz::chunked_body`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| countersign_fuzz::chunked_body(input));
