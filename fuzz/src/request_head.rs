//! Heads of requests.

use countersign::http::head::{
    Framing, HeadLimits, HeadWriter, Method, Parsed, RequestHead, parse_request,
};

use crate::choice::cuts;

/// Any bytes as the start of a connection:
///
/// - no more is consumed than was given, and what follows the head changes nothing;
/// - however the bytes are split, the answer is the same, and no head is whole before its last byte;
/// - a head that is accepted reads the same to a naive reader that knows nothing but lines and colons;
/// - a head that is accepted can be written again, and is then read as the same.
pub fn request_head(input: &[u8]) {
    let limits = HeadLimits::default();
    let whole = parse_request(input, &limits);
    for end in cuts(input) {
        match parse_request(&input[..end], &limits) {
            Ok(Parsed::Partial) => {}
            early => assert_eq!(early, whole, "{end} bytes give another answer than all"),
        }
    }
    let Ok(Parsed::Complete { head, consumed }) = whole else {
        return;
    };
    assert!(consumed <= input.len());
    let raw = &input[..consumed];
    let again = parse_request(raw, &limits);
    assert_eq!(
        again,
        Ok(Parsed::Complete {
            head: head.clone(),
            consumed
        }),
        "what follows the head counts"
    );
    assert_eq!(
        parse_request(&raw[..consumed - 1], &limits),
        Ok(Parsed::Partial),
        "whole before its last byte"
    );
    read_naively(raw, &head);
    write_again(&head);
}

/// Compares `head` with what `raw` says to a reader of lines and colons.
fn read_naively(raw: &[u8], head: &RequestHead) {
    let text: String = raw.iter().map(|&byte| char::from(byte)).collect();
    let text = text.strip_prefix("\r\n").unwrap_or(&text);
    let lines = text
        .strip_suffix("\r\n\r\n")
        .expect("an empty line ends the head");
    let mut lines = lines.split("\r\n");
    let first: Vec<&str> = lines.next().expect("a first line").split(' ').collect();
    let [method, target, version] = first[..] else {
        panic!("a first line has three parts")
    };
    assert!(head.method == Method::Other || head.method.name() == Some(method));
    // An absolute target is the origin form behind `scheme://host`, where an empty path is "/".
    let origin_form = match target.split_once("://") {
        Some((_, rest)) if !target.starts_with('/') => {
            let behind_host = &rest[head.host.len()..];
            format!(
                "{}{behind_host}",
                if behind_host.starts_with('/') {
                    ""
                } else {
                    "/"
                }
            )
        }
        _ => target.to_owned(),
    };
    assert_eq!(head.target, origin_form);
    assert_eq!(head.chunks, version == "HTTP/1.1");

    let mut lengths = Vec::new();
    let mut codings = Vec::new();
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
            "host" => assert_eq!(value.to_ascii_lowercase(), head.host),
            _ => {}
        }
    }
    assert!(fields.next().is_none());
    let framing = match (lengths.as_slice(), codings.as_slice()) {
        ([], []) => Framing::None,
        ([length], []) => Framing::Length(*length),
        ([], [coding]) if coding == "chunked" => Framing::Chunked,
        _ => panic!("a framing of more than one reading was accepted"),
    };
    assert_eq!(head.framing, framing);
}

/// Writes `head` with our own writer and reads it back. What we do not send is left out.
fn write_again(head: &RequestHead) {
    let Ok(mut writer) = HeadWriter::request(&head.method, &head.target, &head.host) else {
        assert!(matches!(head.method, Method::Connect | Method::Other) || head.target == "*");
        return;
    };
    let mut written = Vec::new();
    for (name, value) in head.headers.iter() {
        if let Ok(value) = std::str::from_utf8(value)
            && writer.header(name, value).is_ok()
        {
            written.push((name, value.as_bytes()));
        }
    }
    match head.framing {
        Framing::None => {}
        Framing::Length(length) => writer.length(length),
        Framing::Chunked => writer.chunked(),
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
    }) = parse_request(&bytes, &limits)
    else {
        panic!("a head of our own is refused")
    };
    assert_eq!(consumed, bytes.len());
    assert_eq!(
        (again.method, &again.target, &again.host, again.framing),
        (head.method, &head.target, &head.host, head.framing)
    );
    let ours = ["host", "content-length", "transfer-encoding"];
    let read = again
        .headers
        .iter()
        .filter(|(name, _)| !ours.contains(name));
    assert!(read.eq(written.into_iter().filter(|(name, _)| !ours.contains(name))));
}
