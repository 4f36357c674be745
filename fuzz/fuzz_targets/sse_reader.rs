//! See [`countersign_fuzz::sse_reader`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| countersign_fuzz::sse_reader(input));
