//! See [`countersign_fuzz::configuration`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| countersign_fuzz::configuration(input));
