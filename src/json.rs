//! JSON that comes from outside.
//!
//! `serde_json` does the grammar; what it lets pass silently is decided here. It keeps the last of
//! two equal member names, so two readers of one text can see two calls; it follows depth only for
//! some targets; and as a `Value` it turns 9007199254740993 into a double's neighbour.
//!
//! - [`scan()`] looks at a whole text once and says whether every reader would read the same.
//! - [`Members`] opens one level of a scanned text and leaves the rest as it was sent.
//! - [`Exact`] is the tree of which a call's digest is made: numbers keep their source token.
//!
//! Do not parse outside text with `serde_json::from_str::<Value>`: with `raw_value` on, a member
//! named `$serde_json::private::RawValue` makes it open the string within as a second document,
//! which nothing has scanned. [`Exact::parse`] with [`Exact::to_value`] has no such door.

mod exact;
mod members;
mod passage;
mod scan;

#[cfg(test)]
pub(crate) mod arbitrary;

use std::fmt::{self, Write};

pub use exact::{Exact, MAX_VALUES};
pub use members::{Members, elements, string};
pub use passage::{KeepBack, Passage, PassageFault, Passed};
pub use scan::{MAX_DEPTH, MAX_OPEN_NAMES, scan};

/// Why a text was refused. The fault is its sender's; nothing of its content is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonFault {
    /// The same member name twice in one object, however it is escaped. RFC 8259 section 4 leaves
    /// what that means to the reader, so two readers may differ.
    DuplicateMember,
    /// The bytes are not UTF-8 (RFC 8259 section 8.1).
    NotUtf8,
    /// The grammar is broken, a number is beyond a double's range, or a string holds a lone
    /// surrogate, at or near this byte.
    Syntax {
        /// Bytes from the start of the text.
        offset: usize,
    },
    /// More member names or values than this program is willing to hold at once.
    TooCostly,
    /// Arrays and objects nested deeper than [`MAX_DEPTH`].
    TooDeep,
    /// Sound JSON, but not the object or array that had to stand here.
    WrongKind,
}

impl fmt::Display for JsonFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateMember => f.write_str("sender's json: a member name is used twice"),
            Self::NotUtf8 => f.write_str("sender's json: not utf-8"),
            Self::Syntax { offset } => {
                write!(f, "sender's json: broken at or near byte {offset}")
            }
            Self::TooCostly => f.write_str("sender's json: too many members or values"),
            Self::TooDeep => write!(f, "sender's json: nested deeper than {MAX_DEPTH}"),
            Self::WrongKind => f.write_str("sender's json: an object or array was due here"),
        }
    }
}

impl std::error::Error for JsonFault {}

/// Appends `text` to `out` as a JSON string with its quotes, escaped as RFC 8785 section 3.2.2.2
/// says: the two-character forms where there is one, lower-case `\u00xx` for the other controls,
/// and everything else as it is.
pub fn write_string(out: &mut String, text: &str) {
    out.reserve(text.len() + 2);
    out.push('"');
    let mut plain_from = 0;
    for (at, byte) in text.bytes().enumerate() {
        // What needs an escape is ASCII, so a cut beside it never falls inside a character.
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(text.get(plain_from..at).unwrap_or_default());
        plain_from = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\x08' => out.push_str("\\b"),
            b'\t' => out.push_str("\\t"),
            b'\n' => out.push_str("\\n"),
            b'\x0c' => out.push_str("\\f"),
            b'\r' => out.push_str("\\r"),
            control => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{control:04x}");
            }
        }
    }
    out.push_str(text.get(plain_from..).unwrap_or_default());
    out.push('"');
}

/// `text` as a JSON string with its quotes. See [`write_string`].
pub fn quote(text: &str) -> String {
    let mut out = String::new();
    write_string(&mut out, text);
    out
}

/// Where in `text` the fault lies that `serde_json` gives as a line and a column of bytes.
fn offset_of(text: &str, error: &serde_json::Error) -> usize {
    let line_start: usize = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum();
    (line_start + error.column().saturating_sub(1)).min(text.len())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_escaped_as_rfc_8785_says() {
        for (text, expected) in [
            ("", r#""""#),
            ("plain", r#""plain""#),
            ("\u{8}\t\n\u{c}\r\"\\/", r#""\b\t\n\f\r\"\\/""#),
            ("\u{0}\u{b}\u{1f}", r#""\u0000\u000b\u001f""#),
            (
                "\u{7f}\u{80}\u{2028}\u{20ac}\u{1f602}",
                "\"\u{7f}\u{80}\u{2028}\u{20ac}\u{1f602}\"",
            ),
        ] {
            assert_eq!(quote(text), expected);
            assert_eq!(serde_json::from_str::<String>(&quote(text)).unwrap(), text);
        }
    }

    #[test]
    fn every_character_comes_back_from_its_quoted_form() {
        let all: String = ('\u{0}'..=char::MAX).collect();
        assert_eq!(serde_json::from_str::<String>(&quote(&all)).unwrap(), all);
    }

    #[test]
    fn no_fault_repeats_content() {
        for fault in [
            scan(br#"{"hunter2":1,"hunter2":2}"#).unwrap_err(),
            scan(br#"{"a":hunter2}"#).unwrap_err(),
            scan(b"\"hunter2\xff\"").unwrap_err(),
        ] {
            assert!(!format!("{fault} {fault:?}").contains("hunter2"));
        }
    }
}
