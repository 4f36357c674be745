//! Event streams.

use countersign::http::sse::{self, SseEvent, SseFault, SseReader};

/// Larger than any input that the fuzzer makes up.
const NO_LIMIT: usize = 1 << 24;

/// Any bytes as an event stream. The first one says how the rest is split, the second how large an event may be:
///
/// - however the bytes are split, the events and the fault are the same;
/// - a stream that is read reads the same to a naive reader of whole lines (WHATWG HTML, section 9.2.6);
/// - a smaller limit on events only ever cuts the stream short, and no event is larger than it;
/// - each event can be written again, and is then read as the same.
pub fn sse_reader(input: &[u8]) {
    let [size, limit, stream @ ..] = input else {
        return;
    };
    let size = usize::from(*size) % 17 + 1;
    let whole = read(stream, NO_LIMIT, usize::MAX);
    for size in [1, size] {
        assert_eq!(read(stream, NO_LIMIT, size), whole, "in pieces of {size}");
    }
    match (&whole, std::str::from_utf8(stream)) {
        ((events, None), Ok(text)) => assert_eq!(*events, read_naively(text)),
        // What no line end follows is not looked at; nor is a character that is cut.
        ((_, None), Err(fault)) => {
            let unread = &stream[fault.valid_up_to()..];
            assert!(!unread.iter().any(|byte| matches!(byte, b'\r' | b'\n')));
        }
        ((_, fault), text) => {
            assert_eq!(*fault, Some(SseFault::NotUtf8));
            assert!(text.is_err(), "text was refused");
        }
    }

    let limit = usize::from(*limit);
    let limited = read(stream, limit, usize::MAX);
    assert_eq!(read(stream, limit, size), limited, "limited, in pieces");
    assert!(limited.0.iter().all(|event| event.data.len() <= limit));
    assert!(whole.0.starts_with(&limited.0));
    if limited.1 != Some(SseFault::TooLarge) {
        assert_eq!(limited, whole);
    }

    for event in &whole.0 {
        let name = event.name.as_deref();
        let mut wire = Vec::new();
        sse::comment(&mut wire, &event.data);
        sse::event(&mut wire, name, &event.data);
        let (again, fault) = read(&wire, NO_LIMIT, usize::MAX);
        assert_eq!(fault, None);
        let [again] = again.as_slice() else {
            panic!("one event was read as {}", again.len())
        };
        assert_eq!((&again.name, &again.data), (&event.name, &event.data));
        assert_eq!((&again.id, again.retry), (&None, None));
    }
}

/// Feeds `stream` in pieces of `size`: the events and the fault, which must then stay.
fn read(stream: &[u8], limit: usize, size: usize) -> (Vec<SseEvent>, Option<SseFault>) {
    let mut reader = SseReader::new(limit);
    let mut events = Vec::new();
    for piece in stream.chunks(size) {
        if let Err(fault) = reader.feed(piece, |event| events.push(event)) {
            let after = reader.feed(b"\n\ndata: x\n\n", |_| panic!("an event behind a fault"));
            assert_eq!(after, Err(fault));
            return (events, Some(fault));
        }
    }
    (events, None)
}

/// Reads a whole stream line by line.
fn read_naively(text: &str) -> Vec<SseEvent> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines: Vec<&str> = text.split('\n').collect();
    // What no line end follows.
    lines.pop();
    let mut events = Vec::new();
    let (mut name, mut data, mut id, mut retry) = (String::new(), Vec::new(), String::new(), None);
    for line in lines {
        if line.is_empty() {
            let lines: Vec<&str> = std::mem::take(&mut data);
            let name = std::mem::take(&mut name);
            if !lines.is_empty() {
                events.push(SseEvent {
                    name: Some(name).filter(|name| !name.is_empty()),
                    data: lines.join("\n"),
                    id: Some(id.clone()).filter(|id| !id.is_empty()),
                    retry: std::mem::take(&mut retry),
                });
            }
            continue;
        }
        let (field, value) = match line.find(':') {
            Some(at) => (
                &line[..at],
                line[at + 1..].strip_prefix(' ').unwrap_or(&line[at + 1..]),
            ),
            None => (line, ""),
        };
        match field {
            "event" => name = value.to_owned(),
            "data" => data.push(value),
            "id" if !value.contains('\0') => id = value.to_owned(),
            "retry" if value.chars().all(|digit| digit.is_ascii_digit()) => {
                retry = value.parse().ok().or(retry);
            }
            _ => {}
        }
    }
    events
}
