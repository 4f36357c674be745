//! See [`countersign_fuzz::header_values`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| countersign_fuzz::header_values(input));
