//! Approval URLs.

use countersign::approval::url::{Allowlist, MAX_URL_BYTES, RequestId};

/// What is listed: each kind of host, a port, and a whole host.
const PREFIXES: [&str; 5] = [
    "https://zimmer.tadasant.com/api/v1/elicitations/session/",
    "https://desk.example.net:8443/ask/",
    "http://127.0.0.1:8601/e/",
    "http://[::1]:8601/e/",
    "https://whole.example/",
];

/// The id that the endpoint gave.
const POLLED: &str = "srv-88";

/// A URL that is admitted lies under a listed prefix, by a check on text alone; it is what the caller's text says, by
/// another resolution of its dot segments; it is admitted again as it was written; and nothing printed holds its path.
///
/// The first byte says which prefix stands before the rest (0 to 4, modulo 8), or none.
pub fn approval_url(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let prefix = PREFIXES.get(usize::from(first % 8)).copied().unwrap_or("");
    let raw = [prefix.as_bytes(), rest].concat();

    let list = PREFIXES.map(str::to_owned);
    let list = Allowlist::parse(&list).expect("the list is sound");
    let url = match list.admit(&raw) {
        Ok(url) => url,
        Err(refusal) => {
            if let Some(origin) = refusal.origin() {
                let (_, authority) = origin.split_once("://").expect("an origin has a scheme");
                assert!(
                    !authority.contains(['@', '/', '?', '#', '\\']),
                    "more than an origin: {origin:?}"
                );
            }
            assert!(refusal.to_string().is_ascii());
            return;
        }
    };

    let text = url.url().as_str();
    lies_under_a_prefix(text);
    let raw = std::str::from_utf8(&raw).expect("what is admitted is ASCII");
    assert!(
        raw.bytes()
            .all(|byte| byte.is_ascii_graphic() && !b",\\?#".contains(&byte)),
        "{raw:?}"
    );
    let before_path = raw
        .split_once(':')
        .map_or("", |(_, rest)| rest.trim_start_matches('/'));
    let before_path = before_path.split('/').next().unwrap_or("");
    assert!(!before_path.contains(['@', '%']), "{raw:?}");
    assert_eq!(
        decoded(url.url().path()),
        decoded(&resolved_path(raw)),
        "{raw:?}"
    );
    // Encoded by the parser, a text may have grown past the bound.
    if text.len() <= MAX_URL_BYTES {
        let again = list.admit(text.as_bytes()).expect("admitted before");
        assert_eq!(again.url().as_str(), text);
    }
    assert!(list.lists(&url));

    let id = RequestId::parse(POLLED).expect("of the permitted form");
    let poll = url.poll_url(&id);
    assert_eq!(
        poll.as_str(),
        format!("{}/{POLLED}", text.strip_suffix('/').unwrap_or(text))
    );
    lies_under_a_prefix(poll.as_str());

    assert!(text.starts_with(&format!("{url}/")), "{url}");
    assert_eq!(format!("{url:?}"), format!("ApprovalUrl({url}/..)"));

    // Whatever may be listed is admitted with a session behind it.
    if let Ok(listed) = Allowlist::parse(&[raw.to_owned()])
        && raw.len() < MAX_URL_BYTES
    {
        let below = listed.admit(format!("{raw}t").as_bytes());
        assert!(
            raw.ends_with('/')
                && below.is_ok_and(|below| below.url().as_str() == format!("{raw}t")),
            "{raw:?}"
        );
    }
}

/// A check on text alone: a prefix, then at least one segment, none empty but perhaps the last, none a dot segment, and
/// nothing that becomes one where it is decoded.
fn lies_under_a_prefix(text: &str) {
    let below = PREFIXES
        .iter()
        .filter_map(|prefix| text.strip_prefix(prefix))
        .find(|rest| !rest.is_empty());
    let below = below
        .unwrap_or_else(|| panic!("under no prefix: {text:?}"))
        .to_ascii_lowercase();
    assert!(
        !below.starts_with('/') && !below.contains("//"),
        "an empty segment: {text:?}"
    );
    assert!(
        !below.contains(['?', '#', '\\', ',']),
        "more than a path: {text:?}"
    );
    for hidden in ["%2e", "%2f", "%5c", "%25", "%00", "%0a", "%0d"] {
        assert!(!below.contains(hidden), "{hidden} in {text:?}");
    }
    for segment in below.split('/') {
        let name = segment.replace("%3b", ";");
        let name = name.split(';').next().unwrap_or("");
        assert!(name != "." && name != "..", "a dot segment: {text:?}");
    }
}

/// The path that a text names: what stands behind the authority, its dot segments resolved as WHATWG's parser does.
fn resolved_path(raw: &str) -> String {
    let (_, rest) = raw.split_once(':').expect("a URL has a scheme");
    let rest = rest.trim_start_matches('/');
    let path = rest.split_once('/').map_or("", |(_, path)| path);
    let mut segments: Vec<&str> = Vec::new();
    let mut open = false;
    for segment in path.split('/') {
        let plain = segment.to_ascii_lowercase().replace("%2e", ".");
        open = plain == "." || plain == "..";
        match plain.as_str() {
            "." => {}
            ".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    if open {
        segments.push("");
    }
    format!("/{}", segments.join("/"))
}

/// Every escape decoded once. The parser encodes some characters, so paths are compared decoded.
fn decoded(path: &str) -> Vec<u8> {
    let bytes = path.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = path.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match escape.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    out
}
