//! Chunked bodies, as others read them.

use countersign::http::head::Framing;

use crate::others::rfc9112::Chunks;
use crate::others::{Body, Reading, Stop, async_h1, ours, rfc9112};

/// Fields that `async-h1` has room for among the trailers.
const ASYNC_H1_TRAILERS: usize = 16;

/// Bytes of trailers that it has room for.
const ASYNC_H1_TRAILER_BYTES: usize = 8192;

/// What comes before the body, for readers that want it.
const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Any bytes as a chunked body and what follows it, read by us, by RFC 9112 and by `async-h1`:
///
/// - whatever we accept, RFC 9112 accepts, with the same content and the same end;
/// - so does `async-h1`, but for the few things that it is known to refuse;
/// - where we wait for more, no other has seen the end.
pub fn differential_body(input: &[u8]) {
    agrees_with_rfc9112(input);
    let input = async_h1::askable(input);
    let request = async_h1::read(&[HEAD, &input].concat()).expect("a good head");
    assert_eq!(
        (request.head, request.framing),
        (HEAD.len(), Framing::Chunked)
    );
    agrees_with_async_h1(&input, &request.body);
}

/// Compares our reading of a chunked body with that of the RFC.
pub fn agrees_with_rfc9112(input: &[u8]) {
    let other = rfc9112::chunks(input).map(|chunks| chunks.body);
    agrees(&ours(input, Framing::Chunked), &other, "rfc 9112");
}

/// Compares our reading of a chunked body with what `async-h1` made of it.
pub fn agrees_with_async_h1(input: &[u8], other: &Reading<Body>) {
    let ours = ours(input, Framing::Chunked);
    if ours.is_ok() && *other == Err(Stop::Refused) {
        let chunks = rfc9112::chunks(input).expect("we accept it, so does the rfc");
        assert!(async_h1_minds(&chunks), "refused by async-h1: {chunks:?}");
        return;
    }
    agrees(&ours, other, "async-h1");
}

/// Where `async-h1` is stricter than we are: it knows no extensions (RFC 9112 section 7.1.1 has a recipient ignore
/// them), and its room for trailers is small.
fn async_h1_minds(chunks: &Chunks) -> bool {
    chunks.extensions
        || chunks.trailers > ASYNC_H1_TRAILERS
        || chunks.trailer_bytes >= ASYNC_H1_TRAILER_BYTES
}

/// What must hold of ours and any other reading of the same body. Ours may refuse whatever it likes.
pub fn agrees(ours: &Reading<Body>, other: &Reading<Body>, who: &str) {
    match ours {
        Ok(_) => assert_eq!(ours, other, "{who} reads another body"),
        Err(Stop::More) => assert!(other.is_err(), "{who} has seen the end: {other:?}"),
        Err(Stop::Refused) => {}
    }
}
