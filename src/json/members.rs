//! One level of an object or array, opened without touching what is inside.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::scan::Name;
use super::{JsonFault, MAX_OPEN_NAMES, offset_of};

/// The members of one object, each value as the text that was sent.
///
/// Made from text that [`scan`](super::scan()) has passed: the values inside are checked for their
/// grammar only, neither for depth nor for duplicates nor for surrogates.
pub struct Members<'a> {
    /// In the order of the text; no name twice.
    members: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> Members<'a> {
    /// Opens one object. Linear in the text, no recursion.
    pub fn parse(text: &'a str) -> Result<Self, JsonFault> {
        let members = open(text, '{', MembersVisitor)?;
        if members.len() > MAX_OPEN_NAMES {
            return Err(JsonFault::TooCostly);
        }
        let mut names = HashSet::with_capacity(members.len());
        if !members.iter().all(|(name, _)| names.insert(name.as_ref())) {
            return Err(JsonFault::DuplicateMember);
        }
        Ok(Self { members })
    }

    /// The value of the member of exactly this name.
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.members
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, value)| *value)
    }

    /// The members in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.members
            .iter()
            .map(|(name, value)| (name.as_ref(), *value))
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

/// Counts only: names and values are the sender's and may be secret.
impl fmt::Debug for Members<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Members({})", self.members.len())
    }
}

/// The elements of one array, each as the text that was sent; at most [`MAX_OPEN_NAMES`].
/// Made from text that [`scan`](super::scan()) has passed, as [`Members`] is.
pub fn elements(text: &str) -> Result<Vec<&RawValue>, JsonFault> {
    let elements = open(text, '[', ElementsVisitor)?;
    if elements.len() > MAX_OPEN_NAMES {
        return Err(JsonFault::TooCostly);
    }
    Ok(elements)
}

/// The string that stands here, unescaped; `None` for any other kind of value.
pub fn string(value: &RawValue) -> Option<Cow<'_, str>> {
    let Name(text) = serde_json::from_str(value.get()).ok()?;
    Some(text)
}

/// Reads one container that begins with `bracket`, and nothing after it.
fn open<'a, V: Visitor<'a>>(
    text: &'a str,
    bracket: char,
    visitor: V,
) -> Result<V::Value, JsonFault> {
    // RFC 8259 section 2: the whitespace that may stand around a value.
    if !text
        .trim_start_matches([' ', '\t', '\n', '\r'])
        .starts_with(bracket)
    {
        return Err(JsonFault::WrongKind);
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    reader
        .deserialize_any(visitor)
        .and_then(|value| reader.end().map(|()| value))
        .map_err(|error| JsonFault::Syntax {
            offset: offset_of(text, &error),
        })
}

/// Collects members up to one beyond the limit, so that the caller sees it was passed.
struct MembersVisitor;

impl<'a> Visitor<'a> for MembersVisitor {
    type Value = Vec<(Cow<'a, str>, &'a RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(Name(name)) = map.next_key()? {
            let value = map.next_value()?;
            if members.len() <= MAX_OPEN_NAMES {
                members.push((name, value));
            }
        }
        Ok(members)
    }
}

/// Collects elements up to one beyond the limit, so that the caller sees it was passed.
struct ElementsVisitor;

impl<'a> Visitor<'a> for ElementsVisitor {
    type Value = Vec<&'a RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = sequence.next_element()? {
            if elements.len() <= MAX_OPEN_NAMES {
                elements.push(element);
            }
        }
        Ok(elements)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_text() {
        let text =
            " { \"a\" : 1.0 , \"b\":{ \"x\" : [ 1 ] },\"\\u0063\":\"\\u0041\", \"d\":null }\n";
        let members = Members::parse(text).unwrap();
        let seen: Vec<(&str, &str)> = members
            .iter()
            .map(|(name, raw)| (name, raw.get()))
            .collect();
        assert_eq!(
            seen,
            [
                ("a", "1.0"),
                ("b", "{ \"x\" : [ 1 ] }"),
                ("c", "\"\\u0041\""),
                ("d", "null")
            ]
        );
        assert_eq!(members.get("a").unwrap().get(), "1.0");
        assert!(members.get("x").is_none());
        assert_eq!(string(members.get("c").unwrap()).unwrap(), "A");
        assert!(string(members.get("d").unwrap()).is_none());
        assert_eq!((members.len(), members.is_empty()), (4, false));
        assert!(Members::parse("{}").unwrap().is_empty());
    }

    #[test]
    fn other_kinds_broken_texts_and_duplicates_are_refused() {
        for (text, fault) in [
            ("[]", JsonFault::WrongKind),
            ("null", JsonFault::WrongKind),
            ("\"{}\"", JsonFault::WrongKind),
            ("", JsonFault::WrongKind),
            ("\u{a0}{}", JsonFault::WrongKind),
            ("{} {}", JsonFault::Syntax { offset: 3 }),
            ("{\"a\":1,\"a\":2}", JsonFault::DuplicateMember),
            ("{\"a\":1,\"\\u0061\":2}", JsonFault::DuplicateMember),
        ] {
            assert_eq!(Members::parse(text).unwrap_err(), fault, "{text:?}");
        }
        let text = r#"{"a":{"b":1},"c":[2]}"#;
        for end in 1..text.len() {
            assert!(
                matches!(Members::parse(&text[..end]), Err(JsonFault::Syntax { .. })),
                "{end}"
            );
        }
    }

    #[test]
    fn elements_keep_their_text() {
        let seen: Vec<&str> = elements("[ 1 , {\"a\": 2}, [ ] ]")
            .unwrap()
            .into_iter()
            .map(RawValue::get)
            .collect();
        assert_eq!(seen, ["1", "{\"a\": 2}", "[ ]"]);
        assert_eq!(elements("{}").unwrap_err(), JsonFault::WrongKind);
        assert!(matches!(elements("[1,]"), Err(JsonFault::Syntax { .. })));
    }

    #[test]
    fn floods_are_refused_without_being_held() {
        let many = format!("[{}0]", "0,".repeat(MAX_OPEN_NAMES));
        assert_eq!(elements(&many).unwrap_err(), JsonFault::TooCostly);
        assert_eq!(
            elements(&many.replacen("0,", "", 1)).unwrap().len(),
            MAX_OPEN_NAMES
        );
        let names: Vec<String> = (0..=MAX_OPEN_NAMES).map(|n| format!("\"{n}\":0")).collect();
        let most = names[1..].join(",");
        assert_eq!(
            Members::parse(&format!("{{{most}}}")).unwrap().len(),
            MAX_OPEN_NAMES
        );
        let many = names.join(",");
        assert_eq!(
            Members::parse(&format!("{{{many}}}")).unwrap_err(),
            JsonFault::TooCostly
        );
        // Deep text inside a value costs no stack.
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(1 << 20), "]".repeat(1 << 20));
        assert_eq!(Members::parse(&deep).unwrap().len(), 1);
    }

    #[test]
    fn debug_shows_no_content() {
        let members = Members::parse(r#"{"hunter2":"hunter2"}"#).unwrap();
        assert_eq!(format!("{members:?}"), "Members(1)");
    }
}
