//! One pass over a whole text.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{JsonFault, offset_of};

/// How deep arrays and objects may nest. MCP messages need about ten levels and a tool's arguments
/// seldom as many again; each level costs stack here and in whoever reads the text after us.
pub const MAX_DEPTH: usize = 64;

/// How many member names may be held at once, summed over the objects open at one point. A name
/// costs up to about 60 bytes in its set, so this bounds a scan's own memory to about 4 MiB,
/// however large the body may be.
pub const MAX_OPEN_NAMES: usize = 65_536;

/// Checks a whole text: UTF-8, the grammar of RFC 8259, depth at most [`MAX_DEPTH`], no member name
/// twice in any object, no lone surrogate. Gives the same bytes as text.
///
/// Linear in the text; recursion is bounded by [`MAX_DEPTH`] and memory by [`MAX_OPEN_NAMES`].
/// The first fault met ends it, so what comes after is not judged.
///
/// Numbers beyond a double's range are a syntax fault. In a build in which some other crate turns on
/// serde_json's `arbitrary_precision` they pass, and numbers that are no 64-bit integers count as
/// one level of depth; [`Exact`](super::Exact) keeps every token there too.
pub fn scan(bytes: &[u8]) -> Result<&str, JsonFault> {
    let text = std::str::from_utf8(bytes).map_err(|_| JsonFault::NotUtf8)?;
    let tally = Tally::default();
    let mut reader = serde_json::Deserializer::from_str(text);
    let place = Place {
        containers_left: MAX_DEPTH,
        tally: &tally,
    };
    match place.deserialize(&mut reader).and_then(|()| reader.end()) {
        Ok(()) => Ok(text),
        Err(error) => Err(tally.fault.get().unwrap_or_else(|| JsonFault::Syntax {
            offset: offset_of(text, &error),
        })),
    }
}

/// What one scan counts across all levels.
#[derive(Default)]
struct Tally {
    /// Names held by the objects that are open now.
    open_names: Cell<usize>,
    /// The fault that we found, as against one of the grammar.
    fault: Cell<Option<JsonFault>>,
}

impl Tally {
    /// Notes our fault and gives the error that makes `serde_json` stop.
    fn refuse<E: de::Error>(&self, fault: JsonFault) -> E {
        self.fault.set(Some(fault));
        E::custom("refused")
    }
}

/// A place where a value stands.
#[derive(Clone, Copy)]
struct Place<'t> {
    /// How many more arrays and objects may open from here.
    containers_left: usize,
    /// Shared by all places of this scan.
    tally: &'t Tally,
}

impl Place<'_> {
    /// The place of a value inside a container that stands here.
    fn inside<E: de::Error>(self) -> Result<Self, E> {
        match self.containers_left.checked_sub(1) {
            Some(containers_left) => Ok(Self {
                containers_left,
                ..self
            }),
            None => Err(self.tally.refuse(JsonFault::TooDeep)),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Place<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let inside = self.inside()?;
        while elements.next_element_seed(inside)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let inside = self.inside()?;
        let open_names = &self.tally.open_names;
        let held_outside = open_names.get();
        let mut names = HashSet::new();
        while let Some(Name(name)) = members.next_key()? {
            if open_names.get() >= MAX_OPEN_NAMES {
                return Err(self.tally.refuse(JsonFault::TooCostly));
            }
            open_names.set(open_names.get() + 1);
            if !names.insert(name) {
                return Err(self.tally.refuse(JsonFault::DuplicateMember));
            }
            members.next_value_seed(inside)?;
        }
        open_names.set(held_outside);
        Ok(())
    }
}

/// A member's name after unescaping, borrowed from the text where it has no escape.
pub(super) struct Name<'a>(pub(super) Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(NameVisitor)
    }
}

/// Takes a [`Name`] without a copy where it can. (serde's own `Cow` always copies.)
struct NameVisitor;

impl<'de> Visitor<'de> for NameVisitor {
    type Value = Name<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Name<'de>, E> {
        Ok(Name(Cow::Borrowed(name)))
    }

    fn visit_str<E>(self, name: &str) -> Result<Name<'de>, E> {
        Ok(Name(Cow::Owned(name.to_owned())))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::json::arbitrary::{self, Random};

    fn nested(depth: usize, open: &str, close: &str) -> String {
        open.repeat(depth) + "1" + &close.repeat(depth)
    }

    #[test]
    fn sound_texts_pass_unchanged() {
        for text in [
            "null",
            " true\r\n\t",
            "0",
            "-0",
            "1.0e-7",
            "18446744073709551616",
            r#""\ud83d\ude02""#,
            r#""""#,
            "[]",
            "{}",
            "[1,[2,{}],\"\"]",
            // The same name in different objects is no duplicate, nor are different strings alike.
            r#"{"a":{"a":[{"a":1},{"a":2}]},"A":1,"":2," a":3}"#,
            // U+00E9, and e with U+0301: canonically equivalent, but different names.
            "{\"\u{e9}\":1,\"e\u{301}\":2}",
        ] {
            assert_eq!(scan(text.as_bytes()), Ok(text));
        }
    }

    #[test]
    fn broken_texts_are_refused() {
        for text in [
            "",
            " ",
            "nul",
            "nulll",
            "True",
            "01",
            "+1",
            "1.",
            ".5",
            "1e",
            "-",
            "0x1",
            "NaN",
            "Infinity",
            "1e999",
            "\"",
            "\"\n\"",
            "\"\\x\"",
            "\"\\u12\"",
            "'a'",
            "[",
            "[1",
            "[1,",
            "[1,]",
            "[,1]",
            "[1 2]",
            "]",
            "{",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1,}",
            "{,}",
            "{\"a\" 1}",
            "{a:1}",
            "{1:1}",
            "{\"a\":1",
            "{} {}",
            "1 2",
            "{\"zz\":[",
            "{\"zz\":,",
            "// x\n1",
            "\u{feff}1",
            "\u{a0}1",
            "[1]\0",
        ] {
            assert!(
                matches!(scan(text.as_bytes()), Err(JsonFault::Syntax { offset }) if offset <= text.len()),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_syntax_fault_says_where() {
        for (text, offset) in [("[1,x]", 3), ("[1,\n\n  x]", 7), ("x", 0), ("[1]x", 3)] {
            assert_eq!(
                scan(text.as_bytes()),
                Err(JsonFault::Syntax { offset }),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_name_twice_in_one_object_is_refused_at_every_level() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"b":2,"a":3}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"\ud83d\ude02":1,"😂":2}"#,
            r#"{"":1,"":2}"#,
            r#"[0,{"x":[{"y":{"a":1,"a":{}}}]}]"#,
            r#"{"action":"decline","content":{},"action":"accept"}"#,
            // What follows the second is no longer looked at.
            r#"{"a":1,"a":"#,
        ] {
            assert_eq!(
                scan(text.as_bytes()),
                Err(JsonFault::DuplicateMember),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_lone_surrogate_is_refused_in_values_and_names() {
        for text in [
            r#""\ud800""#,
            r#""\udc00""#,
            r#""\ud800\ud800""#,
            r#""\ud800x""#,
            r#""\ud800\n""#,
            r#""\udc00\ud800""#,
            r#"{"\ud800":1}"#,
            r#"{"a":["\udfff"]}"#,
        ] {
            assert!(
                matches!(scan(text.as_bytes()), Err(JsonFault::Syntax { .. })),
                "{text:?}"
            );
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_refused() {
        for bytes in [
            &b"\"\xff\""[..],
            b"\"\xc0\xaf\"",
            b"\"\xed\xa0\x80\"",
            b"\"\xf4\x90\x80\x80\"",
            b"\"\xe2\x82\"",
            b"\xff\xfe1\0",
        ] {
            assert_eq!(scan(bytes), Err(JsonFault::NotUtf8));
        }
    }

    #[test]
    fn depth_is_counted_to_the_level() {
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}"), (r#"[{"a":"#, "}]")] {
            let levels = open.matches(['[', '{']).count();
            let most = MAX_DEPTH / levels;
            assert!(scan(nested(most, open, close).as_bytes()).is_ok());
            assert_eq!(
                scan(nested(most + 1, open, close).as_bytes()),
                Err(JsonFault::TooDeep)
            );
        }
        let empty_at_the_end = "[".repeat(MAX_DEPTH + 1) + &"]".repeat(MAX_DEPTH + 1);
        assert_eq!(scan(empty_at_the_end.as_bytes()), Err(JsonFault::TooDeep));
        // Siblings do not add up.
        let wide = format!("[{}1]", "[[[]]],".repeat(10_000));
        assert!(scan(wide.as_bytes()).is_ok());
    }

    #[test]
    fn a_flood_of_brackets_ends_at_the_limit() {
        for flood in ["[", r#"{"a":"#, r#"[{"a":"#] {
            assert_eq!(
                scan(flood.repeat(1 << 20).as_bytes()),
                Err(JsonFault::TooDeep)
            );
        }
    }

    #[test]
    fn names_held_at_once_are_bounded_and_given_back() {
        let object = |count: usize| {
            let members: Vec<String> = (0..count).map(|n| format!("\"{n}\":0")).collect();
            format!("{{{}}}", members.join(","))
        };
        let half = object(MAX_OPEN_NAMES / 2);
        assert!(scan(object(MAX_OPEN_NAMES).as_bytes()).is_ok());
        assert_eq!(
            scan(object(MAX_OPEN_NAMES + 1).as_bytes()),
            Err(JsonFault::TooCostly)
        );
        // One after the other they are not held together; one inside the other they are.
        assert!(scan(format!("[{half},{half},{half}]").as_bytes()).is_ok());
        let inside = half.replacen(":0}", &format!(":{half}}}"), 1);
        assert!(scan(inside.as_bytes()).is_ok());
        let over = half.replacen(":0}", &format!(":{{\"x\":{half}}}}}"), 1);
        assert_eq!(scan(over.as_bytes()), Err(JsonFault::TooCostly));
    }

    #[test]
    fn every_beginning_of_a_text_is_refused() {
        let text = r#"{"a\u0041":[1.5e3,-0,"x\ud83d\ude02é",null,{"b":true}],"c":{}}"#;
        assert!(scan(text.as_bytes()).is_ok());
        for end in 0..text.len() {
            assert!(scan(&text.as_bytes()[..end]).is_err(), "{end}");
        }
    }

    /// What serde_json takes as a `Value`, a scan takes too unless one of the named rules forbids
    /// it; what serde_json refuses, a scan refuses.
    #[test]
    fn scan_agrees_with_serde_json_on_the_grammar() {
        let mut random = Random::new(1);
        let (mut taken, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let mut bytes = arbitrary::text(&mut random).into_bytes();
            if random.below(4) != 0 {
                arbitrary::damage(&mut random, &mut bytes);
            }
            let reference = serde_json::from_slice::<Value>(&bytes);
            match scan(&bytes) {
                Ok(text) => {
                    taken += 1;
                    assert_eq!(text.as_bytes(), bytes);
                    assert!(reference.is_ok(), "{text}");
                }
                Err(JsonFault::Syntax { .. } | JsonFault::NotUtf8) => {
                    refused += 1;
                    assert!(reference.is_err(), "{}", String::from_utf8_lossy(&bytes));
                }
                // The generator nests less and writes fewer members than the limits.
                Err(JsonFault::DuplicateMember) => {}
                Err(other) => panic!("{other}"),
            }
        }
        assert!(taken > 4_000 && refused > 4_000, "{taken} {refused}");
    }

    #[test]
    fn a_duplicate_put_anywhere_is_found() {
        let mut random = Random::new(2);
        for _ in 0..2_000 {
            let sound = arbitrary::text(&mut random);
            assert!(scan(sound.as_bytes()).is_ok(), "{sound}");
            let twice = format!(r#"[{sound},{{"k":{sound},"\u006b":{sound}}}]"#);
            assert_eq!(scan(twice.as_bytes()), Err(JsonFault::DuplicateMember));
        }
    }

    /// The name by which serde_json carries raw values inside itself has no meaning here.
    #[test]
    fn the_private_member_name_of_serde_json_is_a_name_like_any_other() {
        let text = r#"{"$serde_json::private::RawValue":"{\"a\":1,\"a\":2}"}"#;
        assert_eq!(scan(text.as_bytes()), Ok(text));
    }
}
