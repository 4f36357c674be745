//! See [`countersign_fuzz::differential_response`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| countersign_fuzz::differential_response(input));
