//! See [`countersign_fuzz::approval_url`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| countersign_fuzz::approval_url(input));
