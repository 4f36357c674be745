//! See [`countersign_fuzz::response_head`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| countersign_fuzz::response_head(input));
