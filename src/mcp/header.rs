//! The encoding of values in `Mcp-Name` and `Mcp-Param-*` (2026-07-28, streamable HTTP).

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// `value` as a header value: as it is when it is printable ASCII without blanks at its ends and does not look encoded,
/// else in the Base64 form.
#[must_use]
pub fn encode(value: &str) -> Cow<'_, str> {
    let printable = value.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    let blank_ends = value.starts_with(' ') || value.ends_with(' ');
    let looks_encoded = value.starts_with(PREFIX) && value.ends_with(SUFFIX);
    if printable && !blank_ends && !looks_encoded {
        Cow::Borrowed(value)
    } else {
        Cow::Owned(format!("{PREFIX}{}{SUFFIX}", STANDARD.encode(value)))
    }
}

/// The value that a header names; `None` when it is encoded badly. Surrounding blanks are not part of it.
#[must_use]
pub fn decode(header: &[u8]) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(header).ok()?.trim_matches([' ', '\t']);
    if !text
        .bytes()
        .all(|byte| (0x20..=0x7e).contains(&byte) || byte == b'\t')
    {
        return None;
    }
    let Some(coded) = text
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.strip_suffix(SUFFIX))
    else {
        return Some(Cow::Borrowed(text));
    };
    String::from_utf8(STANDARD.decode(coded).ok()?)
        .ok()
        .map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_specifications_vectors() {
        for (value, header) in [
            ("us-west1", "us-west1"),
            ("us west 1", "us west 1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("\tindented", "=?base64?CWluZGVudGVk?="),
            ("", ""),
        ] {
            assert_eq!(encode(value), header);
            assert_eq!(decode(header.as_bytes()).as_deref(), Some(value));
        }
    }

    #[test]
    fn bad_padding_is_refused_and_near_misses_are_literal() {
        assert_eq!(decode(b"=?base64?SGVsbG8?="), None);
        assert_eq!(decode(b"=?base64?SGVs!!!bG8=?="), None);
        for literal in [
            "=?BASE64?SGVsbG8=?=",
            "=?base64?SGVsbG8=",
            "base64?SGVsbG8=?=",
        ] {
            assert_eq!(decode(literal.as_bytes()).as_deref(), Some(literal));
        }
    }
}
