//! See [`countersign_fuzz::differential_request`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| countersign_fuzz::differential_request(input));
