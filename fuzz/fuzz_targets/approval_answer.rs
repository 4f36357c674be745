//! See [`countersign_fuzz::approval_answer`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| countersign_fuzz::approval_answer(input));
