//! The tree of which a call's digest is made.

use std::fmt;

use serde_json::{Map, Value};

use super::{JsonFault, scan, write_string};

/// How many values one tree may hold, containers and leaves together. A node with its name costs
/// up to about 150 bytes, two bytes of text can make one, and a tree lives as long as a person
/// thinks: this bounds it to about 20 MiB beyond the text's own length.
pub const MAX_VALUES: usize = 131_072;

/// A JSON value in which nothing was rounded: a number is the token that was sent.
///
/// As doubles 9007199254740993 and 9007199254740992 would be one call, and a yes to one would be a
/// yes to the other. So numbers are compared as text, and `1.0` is not `1` either.
///
/// Equality is by text and in the order of the members; two texts of one meaning are compared by
/// their [`canonical`](Self::canonical) form.
#[derive(Clone, PartialEq, Eq)]
pub enum Exact {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// The source token of a number.
    Number(Box<str>),
    /// A string, unescaped.
    String(String),
    /// An array.
    Array(Vec<Exact>),
    /// An object's members in the order of the text; no name twice.
    Object(Vec<(String, Exact)>),
}

impl Exact {
    /// Scans a text with all the rules of [`scan`](super::scan()) and builds its tree; at most
    /// [`MAX_VALUES`] values. Linear in the text.
    pub fn parse(text: &str) -> Result<Self, JsonFault> {
        let mut builder = Builder {
            text: scan(text.as_bytes())?,
            at: 0,
            values_left: MAX_VALUES,
        };
        let value = builder.value()?;
        match builder.peek() {
            None => Ok(value),
            Some(_) => Err(builder.fault()),
        }
    }

    /// The one text of this value: members sorted by UTF-16 code units and strings escaped as
    /// RFC 8785 sections 3.2.3 and 3.2.2.2 say, no whitespace. Section 3.2.2.3 is left on purpose:
    /// a number stays the token that it was.
    pub fn canonical(&self) -> String {
        let mut out = String::new();
        self.write_canonical(&mut out);
        out
    }

    /// The value of an object's member; `None` if there is none, or this is no object.
    pub fn get(&self, name: &str) -> Option<&Exact> {
        let Self::Object(members) = self else {
            return None;
        };
        members
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, value)| value)
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The truth of a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// The elements of an array.
    pub fn as_array(&self) -> Option<&[Exact]> {
        match self {
            Self::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// The same value for code that wants a `Value`, such as a schema check. Numbers beyond 64 bits
    /// are rounded there, so what acts is written from [`canonical`](Self::canonical) instead.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(truth) => Value::Bool(*truth),
            Self::Number(token) => match token.parse() {
                Ok(number) => Value::Number(number),
                // No parsed tree gets here; one that we built wrongly must not change its meaning
                // to a number that nobody wrote.
                Err(_) => Value::String(token.to_string()),
            },
            Self::String(text) => Value::String(text.clone()),
            Self::Array(elements) => elements.iter().map(Self::to_value).collect(),
            Self::Object(members) => {
                let mut map = Map::new();
                for (name, value) in members {
                    map.insert(name.clone(), value.to_value());
                }
                Value::Object(map)
            }
        }
    }

    fn write_canonical(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(true) => out.push_str("true"),
            Self::Bool(false) => out.push_str("false"),
            Self::Number(token) => out.push_str(token),
            Self::String(text) => write_string(out, text),
            Self::Array(elements) => {
                out.push('[');
                for (index, element) in elements.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    element.write_canonical(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                let mut sorted: Vec<&(String, Exact)> = members.iter().collect();
                sorted
                    .sort_by(|(left, _), (right, _)| left.encode_utf16().cmp(right.encode_utf16()));
                out.push('{');
                for (index, (name, value)) in sorted.into_iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    write_string(out, name);
                    out.push(':');
                    value.write_canonical(out);
                }
                out.push('}');
            }
        }
    }
}

/// A value that we made, such as a resolved draft, so that it can be digested with the call.
impl From<&Value> for Exact {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(truth) => Self::Bool(*truth),
            Value::Number(number) => Self::Number(number.to_string().into()),
            Value::String(text) => Self::String(text.clone()),
            Value::Array(elements) => Self::Array(elements.iter().map(Self::from).collect()),
            Value::Object(members) => Self::Object(
                members
                    .iter()
                    .map(|(name, value)| (name.clone(), Self::from(value)))
                    .collect(),
            ),
        }
    }
}

/// Kinds and counts only: a call's arguments may be secret.
impl fmt::Debug for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::Bool(_) => f.write_str("Bool(..)"),
            Self::Number(_) => f.write_str("Number(..)"),
            Self::String(_) => f.write_str("String(..)"),
            Self::Array(elements) => write!(f, "Array({})", elements.len()),
            Self::Object(members) => write!(f, "Object({})", members.len()),
        }
    }
}

/// Cuts a text that [`scan`](super::scan()) has passed into values.
///
/// serde_json hands out a number's token only by `RawValue`, which would read the text once more
/// for every level; or by a feature that changes `Value` for everyone in the build. With the
/// grammar already proved, where a value ends is seen from its first byte. Whatever looks otherwise
/// than proved is a fault, never a guess.
struct Builder<'a> {
    /// The whole text.
    text: &'a str,
    /// Bytes done; always on a character's boundary.
    at: usize,
    /// How many more values may be made.
    values_left: usize,
}

impl<'a> Builder<'a> {
    /// One value. Recursion is bounded by the scan's depth.
    fn value(&mut self) -> Result<Exact, JsonFault> {
        self.values_left = self
            .values_left
            .checked_sub(1)
            .ok_or(JsonFault::TooCostly)?;
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => self.string().map(Exact::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'n') => self.word("null", Exact::Null),
            Some(b't') => self.word("true", Exact::Bool(true)),
            Some(b'f') => self.word("false", Exact::Bool(false)),
            _ => Err(self.fault()),
        }
    }

    fn object(&mut self) -> Result<Exact, JsonFault> {
        let mut members = Vec::new();
        self.take(b'{')?;
        if self.peek() != Some(b'}') {
            loop {
                if self.peek() != Some(b'"') {
                    return Err(self.fault());
                }
                let name = self.string()?;
                self.take(b':')?;
                members.push((name, self.value()?));
                if self.peek() != Some(b',') {
                    break;
                }
                self.take(b',')?;
            }
        }
        self.take(b'}')?;
        Ok(Exact::Object(members))
    }

    fn array(&mut self) -> Result<Exact, JsonFault> {
        let mut elements = Vec::new();
        self.take(b'[')?;
        if self.peek() != Some(b']') {
            loop {
                elements.push(self.value()?);
                if self.peek() != Some(b',') {
                    break;
                }
                self.take(b',')?;
            }
        }
        self.take(b']')?;
        Ok(Exact::Array(elements))
    }

    /// A string, which begins at the next byte. serde_json does the unescaping.
    fn string(&mut self) -> Result<String, JsonFault> {
        let mut escaped = false;
        let length = self
            .rest()
            .bytes()
            .skip(1)
            .position(|byte| {
                let ends = byte == b'"' && !escaped;
                escaped = byte == b'\\' && !escaped;
                ends
            })
            .ok_or(self.fault())?
            + 2;
        let token = self.token(length)?;
        serde_json::from_str(token).map_err(|_| self.fault())
    }

    /// A number: RFC 8259 section 6 leaves no doubt where it ends.
    fn number(&mut self) -> Result<Exact, JsonFault> {
        let length = self
            .rest()
            .bytes()
            .take_while(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'))
            .count();
        Ok(Exact::Number(self.token(length)?.into()))
    }

    fn word(&mut self, word: &str, value: Exact) -> Result<Exact, JsonFault> {
        if self.token(word.len())? != word {
            return Err(self.fault());
        }
        Ok(value)
    }

    /// Steps over one byte of punctuation.
    fn take(&mut self, byte: u8) -> Result<(), JsonFault> {
        if self.peek() != Some(byte) {
            return Err(self.fault());
        }
        self.at += 1;
        Ok(())
    }

    /// Steps over the next `length` bytes and gives them.
    fn token(&mut self, length: usize) -> Result<&'a str, JsonFault> {
        let fault = self.fault();
        let token = self.text.get(self.at..self.at + length).ok_or(fault)?;
        self.at += length;
        Ok(token)
    }

    /// Steps over whitespace (RFC 8259 section 2) and shows the byte behind it.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.rest();
        let behind = rest.trim_start_matches([' ', '\t', '\n', '\r']);
        self.at += rest.len() - behind.len();
        behind.bytes().next()
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn fault(&self) -> JsonFault {
        JsonFault::Syntax { offset: self.at }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::json::arbitrary::{self, Random};
    use crate::json::{MAX_DEPTH, Members, elements, string};

    fn canonical(text: &str) -> String {
        Exact::parse(text).unwrap().canonical()
    }

    #[test]
    fn canonical_texts() {
        for (text, expected) in [
            (" null ", "null"),
            ("[ true , false,\n[ ] ,{ } ]", "[true,false,[],{}]"),
            (
                r#"{"b":1,"a":{"d":[],"c":""}}"#,
                r#"{"a":{"c":"","d":[]},"b":1}"#,
            ),
            (
                r#""\u0041\/\u000A\u001F\"\\ \u007f""#,
                "\"A/\\n\\u001f\\\"\\\\ \u{7f}\"",
            ),
            (r#""\ud83d\ude02\u20ac""#, "\"\u{1f602}\u{20ac}\""),
            (r#"["\\\"","\\","a"]"#, r#"["\\\"","\\","a"]"#),
            // Arrays keep their order.
            ("[3,1,2]", "[3,1,2]"),
        ] {
            assert_eq!(canonical(text), expected, "{text}");
        }
    }

    #[test]
    fn numbers_keep_their_token() {
        for token in [
            "0",
            "-0",
            "0.0",
            "-0.0",
            "1",
            "1.0",
            "1e2",
            "1E2",
            "1e+2",
            "100",
            "9007199254740992",
            "9007199254740993",
            "18446744073709551615",
            "18446744073709551616",
            "-9223372036854775809",
            "123456789012345678901234567890",
            "0.1000000000000000055511151231257827",
            "1e-400",
        ] {
            for (before, after) in [("", ""), ("[", "]"), ("{\"n\":", "}"), (" [ 7,", " ,7 ] ")] {
                let found = canonical(&format!("{before}{token}{after}"));
                let expected = format!("{before}{token}{after}").replace(' ', "");
                assert_eq!(found, expected);
            }
        }
        let distinct = [
            "9007199254740993",
            "9007199254740992",
            "1",
            "1.0",
            "-0",
            "0",
        ];
        for (index, left) in distinct.iter().enumerate() {
            for right in &distinct[index + 1..] {
                assert_ne!(canonical(left), canonical(right));
                assert!(Exact::parse(left).unwrap() != Exact::parse(right).unwrap());
            }
        }
    }

    /// The example of RFC 8785 section 3.2.3, whose order differs from that of code points.
    #[test]
    fn members_stand_in_the_order_of_utf16_code_units() {
        let text = r#"{
            "\u20ac": "Euro Sign",
            "\r": "Carriage Return",
            "\ufb33": "Hebrew Letter Dalet With Dagesh",
            "1": "One",
            "\ud83d\ude00": "Emoji: Grinning Face",
            "\u0080": "Control",
            "\u00f6": "Latin Small Letter O With Diaeresis"
        }"#;
        let expected = [
            "Carriage Return",
            "One",
            "Control",
            "Latin Small Letter O With Diaeresis",
            "Euro Sign",
            "Emoji: Grinning Face",
            "Hebrew Letter Dalet With Dagesh",
        ];
        let sorted = canonical(text);
        let places: Vec<usize> = expected
            .iter()
            .map(|name| sorted.find(name).unwrap())
            .collect();
        assert!(places.is_sorted(), "{sorted}");
        assert_eq!(
            canonical(r#"{"ab":1,"a":2,"":3,"B":4}"#),
            r#"{"":3,"B":4,"a":2,"ab":1}"#
        );
    }

    #[test]
    fn what_a_scan_refuses_has_no_tree() {
        for (text, fault) in [
            (r#"{"a":1,"\u0061":1}"#, JsonFault::DuplicateMember),
            ("[1]]", JsonFault::Syntax { offset: 3 }),
            ("1e999", JsonFault::Syntax { offset: 4 }),
        ] {
            assert_eq!(Exact::parse(text).unwrap_err(), fault, "{text}");
        }
        assert!(Exact::parse(r#""\ud800""#).is_err());
        let deep = "[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH);
        assert_eq!(canonical(&deep), deep);
        assert_eq!(
            Exact::parse(&format!("[{deep}]")).unwrap_err(),
            JsonFault::TooDeep
        );
    }

    #[test]
    fn the_number_of_values_is_bounded() {
        let most = format!("[{}0]", "0,".repeat(MAX_VALUES - 2));
        assert_eq!(canonical(&most), most);
        let over = format!("[{}0]", "0,".repeat(MAX_VALUES - 1));
        assert_eq!(Exact::parse(&over).unwrap_err(), JsonFault::TooCostly);
    }

    #[test]
    fn the_canonical_text_is_a_fixed_point_whatever_the_order() {
        let mut random = Random::new(3);
        for _ in 0..5_000 {
            let text = arbitrary::text(&mut random);
            let tree = Exact::parse(&text).unwrap();
            let once = tree.canonical();
            let again = Exact::parse(&once).unwrap();
            assert_eq!(again.canonical(), once, "{text}");
            assert!(sorted(again) == sorted(tree.clone()), "{text}");
            assert_eq!(shuffled(&mut random, tree).canonical(), once, "{text}");
        }
    }

    /// serde_json's own readers see the same values: `Value` for all but a number's token, and
    /// `RawValue`, level by level, for that too.
    #[test]
    fn the_tree_agrees_with_serde_json() {
        let mut random = Random::new(4);
        for _ in 0..5_000 {
            let text = arbitrary::text(&mut random);
            let tree = Exact::parse(&text).unwrap();
            assert_eq!(
                tree.to_value(),
                serde_json::from_str::<Value>(&text).unwrap(),
                "{text}"
            );
            assert!(tree == by_raw_values(&text), "{text}");
        }
    }

    #[test]
    fn any_change_of_a_text_changes_its_canonical_form_or_its_meaning_stayed() {
        let mut random = Random::new(5);
        let mut changed = 0;
        for _ in 0..10_000 {
            let text = arbitrary::text(&mut random);
            let mut bytes = text.clone().into_bytes();
            arbitrary::damage(&mut random, &mut bytes);
            let Some(other) = std::str::from_utf8(&bytes)
                .ok()
                .and_then(|other| Exact::parse(other).ok())
            else {
                continue;
            };
            let tree = Exact::parse(&text).unwrap();
            let same_meaning = sorted(tree.clone()) == sorted(other.clone());
            assert_eq!(
                tree.canonical() == other.canonical(),
                same_meaning,
                "{text}"
            );
            changed += usize::from(!same_meaning);
        }
        assert!(changed > 500, "{changed}");
    }

    #[test]
    fn members_and_kinds() {
        let tree = Exact::parse(r#"{"a":"x","b":[true],"c":null}"#).unwrap();
        assert_eq!(tree.get("a").and_then(Exact::as_str), Some("x"));
        let elements = tree.get("b").and_then(Exact::as_array).unwrap();
        assert_eq!(elements[0].as_bool(), Some(true));
        assert!(tree.get("c") == Some(&Exact::Null));
        assert!(tree.get("d").is_none());
        assert!(Exact::Null.get("a").is_none());
        assert_eq!(tree.get("b").and_then(Exact::as_str), None);
        assert_eq!(
            format!("{tree:?} {:?} {elements:?}", tree.get("a")),
            "Object(3) Some(String(..)) [Bool(..)]"
        );
        assert!(Exact::from(&tree.to_value()).canonical() == tree.canonical());
    }

    /// The member name by which serde_json smuggles raw values opens nothing, here or in `Value`.
    #[test]
    fn a_string_is_never_opened_as_a_second_document() {
        let text = r#"{"$serde_json::private::RawValue":"{\"a\":1,\"a\":2}"}"#;
        let tree = Exact::parse(text).unwrap();
        assert_eq!(tree.canonical(), text);
        assert_eq!(tree.to_value().to_string(), text);
        let inner = tree.get("$serde_json::private::RawValue");
        assert_eq!(inner.and_then(Exact::as_str), Some(r#"{"a":1,"a":2}"#));
    }

    /// The same tree by another way: one reader of serde_json for each level.
    fn by_raw_values(text: &str) -> Exact {
        let text = text.trim();
        match text.as_bytes()[0] {
            b'{' => Exact::Object(
                Members::parse(text)
                    .unwrap()
                    .iter()
                    .map(|(name, raw)| (name.to_owned(), by_raw_values(raw.get())))
                    .collect(),
            ),
            b'[' => Exact::Array(
                elements(text)
                    .unwrap()
                    .into_iter()
                    .map(|raw| by_raw_values(raw.get()))
                    .collect(),
            ),
            b'"' => {
                let raw = serde_json::from_str(text).unwrap();
                Exact::String(string(raw).unwrap().into_owned())
            }
            b'n' => Exact::Null,
            b't' => Exact::Bool(true),
            b'f' => Exact::Bool(false),
            _ => Exact::Number(text.into()),
        }
    }

    /// Members in one order, whichever: by code points, which is not the canonical one.
    fn sorted(tree: Exact) -> Exact {
        match tree {
            Exact::Array(elements) => Exact::Array(elements.into_iter().map(sorted).collect()),
            Exact::Object(members) => {
                let mut members: Vec<_> = members
                    .into_iter()
                    .map(|(name, value)| (name, sorted(value)))
                    .collect();
                members.sort_by(|(left, _), (right, _)| left.cmp(right));
                Exact::Object(members)
            }
            leaf => leaf,
        }
    }

    fn shuffled(random: &mut Random, tree: Exact) -> Exact {
        match tree {
            Exact::Array(elements) => Exact::Array(
                elements
                    .into_iter()
                    .map(|element| shuffled(random, element))
                    .collect(),
            ),
            Exact::Object(mut members) => {
                for end in (1..members.len()).rev() {
                    members.swap(end, random.below(end + 1));
                }
                Exact::Object(
                    members
                        .into_iter()
                        .map(|(name, value)| (name, shuffled(random, value)))
                        .collect(),
                )
            }
            leaf => leaf,
        }
    }
}
