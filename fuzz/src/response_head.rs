//! Heads of replies.

use countersign::http::head::{
    HeadLimits, HeadWriter, Method, Parsed, ReplyFraming, ResponseHead, parse_response,
};

use crate::choice::cuts;

/// What a reply can be to; its length is no divisor of 256, so each is chosen by many first bytes.
pub const METHODS: [Method; 5] = [
    Method::Get,
    Method::Post,
    Method::Head,
    Method::Connect,
    Method::Other,
];

/// Any bytes as the start of a reply; the first byte says to which method, modulo the number of [`METHODS`]:
///
/// - no more is consumed than was given, and what follows the head changes nothing;
/// - however the bytes are split, the answer is the same, and no head is whole before its last byte;
/// - a head that is accepted reads the same to a naive reader that knows nothing but lines and colons, and its body ends
///   where that reader sees it end;
/// - a head that is accepted can be written again, and is then read as the same.
pub fn response_head(input: &[u8]) {
    let Some((first, input)) = input.split_first() else {
        return;
    };
    let method = METHODS[usize::from(*first) % METHODS.len()];
    let parse = |bytes: &[u8]| parse_response(bytes, &method, &HeadLimits::default());
    let whole = parse(input);
    for end in cuts(input) {
        match parse(&input[..end]) {
            Ok(Parsed::Partial) => {}
            early => assert_eq!(early, whole, "{end} bytes give another answer than all"),
        }
    }
    let Ok(Parsed::Complete { head, consumed }) = whole else {
        return;
    };
    assert!(consumed <= input.len());
    let raw = &input[..consumed];
    assert_eq!(
        parse(raw),
        Ok(Parsed::Complete {
            head: head.clone(),
            consumed
        }),
        "what follows the head counts"
    );
    assert_eq!(
        parse(&raw[..consumed - 1]),
        Ok(Parsed::Partial),
        "whole before its last byte"
    );
    read_naively(raw, method, &head);
    write_again(method, &head);
}

/// Compares `head` with what `raw` says to a reader of lines and colons.
fn read_naively(raw: &[u8], method: Method, head: &ResponseHead) {
    let text: String = raw.iter().map(|&byte| char::from(byte)).collect();
    let text = text
        .strip_suffix("\r\n\r\n")
        .expect("an empty line ends the head");
    let mut lines = text.split("\r\n");
    let mut first = lines.next().expect("a first line").splitn(3, ' ');
    let version = first.next().expect("a version");
    assert!(version == "HTTP/1.1" || version == "HTTP/1.0", "{version}");
    let status = first.next().expect("a status");
    assert_eq!(status.len(), 3);
    assert_eq!(status.parse(), Ok(head.status));
    assert!((100..600).contains(&head.status));
    assert_eq!(head.is_interim(), head.status < 200);

    let mut lengths = Vec::new();
    let mut codings = Vec::new();
    let mut closes = version == "HTTP/1.0";
    let mut fields = head.headers.iter();
    for line in lines {
        assert!(!line.contains(['\r', '\n', '\0']));
        let (name, value) = line.split_once(':').expect("a colon in each field line");
        let value = value.trim_matches([' ', '\t']);
        let (read_name, read_value) = fields.next().expect("each line is a field");
        let read_value: String = read_value.iter().map(|&byte| char::from(byte)).collect();
        assert_eq!((read_name, read_value.as_str()), (name, value));
        match name.to_ascii_lowercase().as_str() {
            "content-length" => lengths.push(value.parse::<u64>().expect("a number")),
            "transfer-encoding" => codings.push(value.to_ascii_lowercase()),
            "connection" => {
                closes |= value.split(',').any(|option| {
                    option
                        .trim_matches([' ', '\t'])
                        .eq_ignore_ascii_case("close")
                });
            }
            _ => {}
        }
    }
    assert!(fields.next().is_none());
    // RFC 9112 section 6.3, in its order.
    let framing = match (head.status, lengths.as_slice(), codings.as_slice()) {
        (100..=199 | 204, [] | [0], []) => ReplyFraming::None,
        (100..=199 | 204, ..) => panic!("a reply without a body was accepted with one"),
        (304, ..) => ReplyFraming::None,
        _ if method == Method::Head => ReplyFraming::None,
        (200..=299, ..) if method == Method::Connect => panic!("a tunnel was accepted"),
        (_, [], []) => ReplyFraming::UntilClose,
        (_, [length], []) => ReplyFraming::Length(*length),
        (_, [], [coding]) if coding == "chunked" && version == "HTTP/1.1" => ReplyFraming::Chunked,
        _ => panic!("a framing of more than one reading was accepted"),
    };
    assert_eq!(head.framing, framing);
    assert!(lengths.len() + codings.len() <= 1);
    assert_eq!(
        head.keep_alive,
        !closes && framing != ReplyFraming::UntilClose
    );
}

/// Writes `head` with our own writer and reads it back. What we do not send is left out.
fn write_again(method: Method, head: &ResponseHead) {
    let mut writer = HeadWriter::response(head.status);
    let mut written = Vec::new();
    for (name, value) in head.headers.iter() {
        if let Ok(value) = std::str::from_utf8(value)
            && writer.header(name, value).is_ok()
        {
            written.push((name, value.as_bytes()));
        }
    }
    match head.framing {
        ReplyFraming::None => {}
        ReplyFraming::Length(length) => writer.length(length),
        ReplyFraming::Chunked => writer.chunked(),
        ReplyFraming::UntilClose => writer.close(),
    }
    let bytes = writer.finish();
    // The blank behind each colon can make a head at the limit a little longer.
    let limits = HeadLimits {
        bytes: usize::MAX,
        headers: usize::MAX,
    };
    let Ok(Parsed::Complete {
        head: again,
        consumed,
    }) = parse_response(&bytes, &method, &limits)
    else {
        panic!("a head of our own is refused")
    };
    assert_eq!(consumed, bytes.len());
    assert_eq!((again.status, again.framing), (head.status, head.framing));
    let ours = ["connection", "content-length", "transfer-encoding"];
    let read = again
        .headers
        .iter()
        .filter(|(name, _)| !ours.contains(name));
    assert!(read.eq(written));
}
