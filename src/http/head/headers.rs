//! The fields of a head.

use std::fmt;
use std::ops::Range;

/// The fields of one head: its bytes, kept once, and an index into them. Two allocations, however many fields.
///
/// Names are compared without regard to case (RFC 9110 section 5.1). Debug shows names only: values are credentials
/// as often as not.
#[derive(Clone, PartialEq, Eq)]
pub struct Headers {
    /// From the first line to the empty last one.
    raw: Box<[u8]>,
    fields: Box<[Field]>,
}

/// Where one field stands in the raw bytes; 16 bits suffice, since no head is longer than `MOST_HEAD_BYTES`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Field {
    name: (u16, u16),
    value: (u16, u16),
}

/// A field is there more than once, or its one value is not ASCII text: it does not say one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeated;

impl fmt::Display for Repeated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the peer sent a header field twice, or one that is not ascii text")
    }
}

impl std::error::Error for Repeated {}

impl Headers {
    /// Keeps `raw`, in which `tokens` were found. `None` if one does not lie in it.
    pub(super) fn new(raw: &[u8], tokens: &[httparse::Header<'_>]) -> Option<Self> {
        let field = |token: &httparse::Header<'_>| {
            let name = place(raw, token.name.as_bytes())?;
            Some(Field {
                name,
                value: place(raw, token.value)?,
            })
        };
        let fields = tokens.iter().map(field).collect::<Option<_>>()?;
        Some(Self {
            raw: raw.into(),
            fields,
        })
    }

    /// The value of the first field of this name, without the blanks around it. Use [`Headers::only`] where the
    /// value decides anything.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.all(name).next()
    }

    /// The values of all fields of this name, in the order they came in.
    pub fn all<'h>(&'h self, name: &str) -> impl Iterator<Item = &'h [u8]> {
        self.fields_of(name).map(|field| self.bytes(field.value))
    }

    /// The value of the one field of this name; `None` when there is none.
    ///
    /// # Errors
    /// [`Repeated`] when there are several, even equal ones, or the value is not ASCII.
    pub fn only(&self, name: &str) -> Result<Option<&str>, Repeated> {
        let mut values = self.all(name);
        let Some(value) = values.next() else {
            return Ok(None);
        };
        match std::str::from_utf8(value) {
            Ok(text) if text.is_ascii() && values.next().is_none() => Ok(Some(text)),
            _ => Err(Repeated),
        }
    }

    /// Each field's name as it came in and its value, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.fields
            .iter()
            .map(|field| (self.name(field), self.bytes(field.value)))
    }

    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there is no field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Whether a tab stands around a value of this name. It is a legal blank (RFC 9110 section 5.6.3) that some
    /// parsers take for a part of the value, which for a framing field makes two readings.
    pub(super) fn padded_with_tab(&self, name: &str) -> bool {
        self.fields_of(name).any(|field| {
            let line = self
                .raw
                .get(usize::from(field.name.1)..)
                .unwrap_or_default();
            let value = usize::from(field.value.0)..usize::from(field.value.1);
            line.iter()
                .take_while(|&&byte| byte != b'\r')
                .zip(usize::from(field.name.1)..)
                .any(|(&byte, at)| byte == b'\t' && !value.contains(&at))
        })
    }

    fn fields_of<'h>(&'h self, name: &str) -> impl Iterator<Item = &'h Field> {
        self.fields
            .iter()
            .filter(move |field| self.name(field).eq_ignore_ascii_case(name))
    }

    fn name(&self, field: &Field) -> &str {
        // Always text: only tokens are indexed.
        std::str::from_utf8(self.bytes(field.name)).unwrap_or_default()
    }

    fn bytes(&self, (start, end): (u16, u16)) -> &[u8] {
        self.raw
            .get(Range {
                start: start.into(),
                end: end.into(),
            })
            .unwrap_or_default()
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.iter().map(|(name, _)| name))
            .finish()
    }
}

/// Where `part`, a slice of `whole`, lies in it.
fn place(whole: &[u8], part: &[u8]) -> Option<(u16, u16)> {
    let start = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    let end = start
        .checked_add(part.len())
        .filter(|&end| end <= whole.len())?;
    Some((u16::try_from(start).ok()?, u16::try_from(end).ok()?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn headers(lines: &str) -> Headers {
        let raw = format!("{lines}\r\n");
        let mut room = [httparse::EMPTY_HEADER; 8];
        let (_, tokens) = httparse::parse_headers(raw.as_bytes(), &mut room)
            .unwrap()
            .unwrap();
        Headers::new(raw.as_bytes(), tokens).unwrap()
    }

    #[test]
    fn fields_are_found_without_regard_to_case() {
        let fields =
            headers("A: 1\r\nb:  2 \r\na: 3\r\nempty:\r\nEmpty2:   \r\nnot-text: \u{e9}\r\n");
        assert_eq!(fields.len(), 6);
        assert!(!fields.is_empty());
        assert_eq!(fields.get("a"), Some(&b"1"[..]));
        assert_eq!(fields.all("A").collect::<Vec<_>>(), [b"1", b"3"]);
        assert_eq!(fields.get("B"), Some(&b"2"[..]));
        assert_eq!(fields.get("empty"), Some(&b""[..]));
        assert_eq!(fields.get("empty2"), Some(&b""[..]));
        assert_eq!(fields.get("c"), None);
        assert_eq!(fields.only("b"), Ok(Some("2")));
        assert_eq!(fields.only("a"), Err(Repeated));
        assert_eq!(fields.only("not-text"), Err(Repeated));
        assert_eq!(fields.only("c"), Ok(None));
        assert_eq!(fields.iter().next(), Some(("A", &b"1"[..])));
    }

    #[test]
    fn debug_shows_no_value() {
        let fields = headers("Authorization: Bearer secret\r\nX: y\r\n");
        assert_eq!(format!("{fields:?}"), r#"["Authorization", "X"]"#);
    }

    #[test]
    fn tabs_around_a_value_are_seen_and_those_inside_are_not() {
        let rows = [
            ("a: b\r\n", false),
            ("a:b\r\n", false),
            ("a: b c\r\n", false),
            ("a: b\tc\r\n", false),
            ("a:\tb\r\n", true),
            ("a: \tb\r\n", true),
            ("a: b\t\r\n", true),
            ("a: b \t \r\n", true),
            ("a:\t\r\n", true),
            ("b:\tc\r\na: d\r\n", false),
            ("a: d\r\nb:\tc\r\n", false),
            ("a: d\r\nA:\tc\r\n", true),
        ];
        for (lines, padded) in rows {
            assert_eq!(headers(lines).padded_with_tab("a"), padded, "{lines:?}");
        }
    }

    #[test]
    fn a_token_from_elsewhere_is_not_kept() {
        let elsewhere = String::from("name");
        let tokens = [httparse::Header {
            name: &elsewhere,
            value: b"",
        }];
        assert!(Headers::new(b"x", &tokens).is_none());
    }
}
