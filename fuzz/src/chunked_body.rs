//! Chunked bodies.

use countersign::http::body::{BodyDecoder, BodyFault, LAST_CHUNK, chunk};
use countersign::http::head::Framing;

/// Content and the bytes consumed, `None` if the body did not end, or the fault.
type Read = Result<Option<(Vec<u8>, usize)>, BodyFault>;

/// Any bytes as a chunked body and what follows it:
///
/// - no more is consumed than was given, and no more comes out than there was room for;
/// - however the bytes are split, and however little room there is, the answer is the same;
/// - a body that is accepted reads the same to a naive reader of lines and sizes;
/// - its content can be written again, in chunks of any size, and is then read as the same.
pub fn chunked_body(input: &[u8]) {
    // Two bytes of the input choose how it is split, so that the fuzzer can move the cuts.
    let size = usize::from(input.first().copied().unwrap_or_default()) % 17 + 1;
    let room = usize::from(input.last().copied().unwrap_or_default()) % 5 + 1;
    let whole = read(input, usize::MAX, usize::MAX);
    for (size, room) in [
        (1, usize::MAX),
        (size, usize::MAX),
        (usize::MAX, room),
        (size, room),
    ] {
        assert_eq!(
            read(input, size, room),
            whole,
            "in pieces of {size} with room for {room}"
        );
    }
    let Ok(Some((content, consumed))) = whole else {
        return;
    };
    assert_eq!(read_naively(&input[..consumed]), content);
    // What follows changes nothing, and without its last byte the body is not whole.
    assert_eq!(
        read(&input[..consumed], usize::MAX, usize::MAX),
        Ok(Some((content.clone(), consumed)))
    );
    assert_eq!(
        read(&input[..consumed - 1], usize::MAX, usize::MAX),
        Ok(None)
    );

    let mut wire = Vec::new();
    for part in content.chunks(size) {
        chunk(&mut wire, part);
        chunk(&mut wire, b"");
    }
    wire.extend_from_slice(LAST_CHUNK);
    assert_eq!(
        read(&wire, usize::MAX, usize::MAX),
        Ok(Some((content, wire.len())))
    );
}

/// Feeds `input` in pieces of `size`, with `room` for each call.
fn read(input: &[u8], size: usize, room: usize) -> Read {
    let mut decoder = BodyDecoder::new(Framing::Chunked);
    let mut content = Vec::new();
    let mut consumed = 0;
    let mut given = 0;
    while given < input.len() {
        given = given.saturating_add(size).min(input.len());
        while consumed < given {
            let before = content.len();
            let step = decoder.decode(&input[consumed..given], &mut content, room)?;
            consumed += step.consumed;
            let came = content.len() - before;
            assert!(consumed <= given && came <= room);
            if step.done {
                assert_eq!(decoder.eof(), Ok(()));
                return Ok(Some((content, consumed)));
            }
            assert!(
                consumed == given || came == room,
                "stopped with room and input left"
            );
        }
    }
    assert_eq!(decoder.eof(), Err(BodyFault::Truncated));
    Ok(None)
}

/// Reads a whole body that was accepted, trusting it.
fn read_naively(mut body: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let end = body
            .windows(2)
            .position(|pair| pair == b"\r\n")
            .expect("a size line has an end");
        let line = &body[..end];
        let digits = line.split(|&byte| byte == b';').next().unwrap_or_default();
        let size = usize::from_str_radix(std::str::from_utf8(digits).expect("digits"), 16)
            .expect("a size");
        body = &body[end + 2..];
        if size == 0 {
            assert!(body == b"\r\n" || body.ends_with(b"\r\n\r\n"));
            return content;
        }
        let (data, rest) = body.split_at(size);
        content.extend_from_slice(data);
        body = rest.strip_prefix(b"\r\n").expect("data ends with CRLF");
    }
}
