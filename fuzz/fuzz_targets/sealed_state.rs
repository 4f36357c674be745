//! See [`countersign_fuzz::sealed_state`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| countersign_fuzz::sealed_state(input));
