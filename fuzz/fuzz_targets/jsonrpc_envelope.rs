//! See [`countersign_fuzz::jsonrpc_envelope`].

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| countersign_fuzz::jsonrpc_envelope(input));
