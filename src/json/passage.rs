//! One object that is too large to hold: most of what is in its member `result` passes through as it comes.
//!
//! The message is an object, and its member `result` is one. The members inside `result` go out one by one as they are
//! read, without the blanks between tokens; what a caller wants to see first is kept back, as are the members beside
//! `result`. The grammar is RFC 8259's, with the bounds that [`scan`](super::scan()) has. Only two levels are held to have
//! no name twice: whoever reads what lies deeper reads the text that its sender wrote.

use std::collections::HashSet;
use std::fmt;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::{MAX_DEPTH, string, write_string};

/// Bytes of all that is kept back.
const KEPT_BYTES: usize = 65_536;

/// Members of one of the two levels.
const MEMBERS: usize = 1_024;

/// Bytes of a name on those levels, and of a number anywhere.
const TOKEN_BYTES: usize = 1_024;

/// Why a message was refused half way. Its sender's fault; nothing of its content is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassageFault {
    /// The grammar is broken.
    Syntax,
    /// Something on the two levels is larger than what is kept, or nested deeper than is read.
    TooCostly,
    /// A name twice on one of the two levels.
    DuplicateMember,
    /// The message or its `result` is no object.
    WrongKind,
}

impl fmt::Display for PassageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => "sender's json: broken half way",
            Self::TooCostly => "sender's json: more than is held of a large message",
            Self::DuplicateMember => "sender's json: a member name is used twice",
            Self::WrongKind => "sender's json: an object was due",
        })
    }
}

impl std::error::Error for PassageFault {}

/// Whether a member of `result` is kept back, by its name and the first byte of its value.
pub type KeepBack = fn(&str, u8) -> bool;

/// A message on its way through.
pub struct Passage {
    keep_back: KeepBack,
    at: At,
    /// The containers that are open: whether each is an object.
    open: Vec<bool>,
    /// The object at depth 2 is `result`.
    in_result: bool,
    /// The member at hand on one of the two levels.
    name: String,
    sink: Sink,
    /// A name, a number or a literal as far as it came; or a value that is kept back.
    token: Vec<u8>,
    value: Vec<u8>,
    beside: HashSet<String>,
    inside: HashSet<String>,
    passed: Passed,
    kept_bytes: usize,
    /// Whether a member has gone out.
    any_out: bool,
}

/// What was kept back.
#[derive(Debug, Default)]
pub struct Passed {
    /// The members beside `result`.
    pub message: Vec<(String, Box<RawValue>)>,
    /// Members inside `result`.
    pub result: Vec<(String, Box<RawValue>)>,
}

/// What is read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Value,
    /// Behind `[`: a value, or its end.
    FirstElement,
    /// Behind `{`: a name, or its end.
    FirstName,
    /// Behind a comma in an object.
    Name,
    Colon,
    /// Behind a value: a comma, or the end of its container.
    After,
    InString(In),
    /// A number or a literal.
    InScalar,
    /// Nothing but blanks.
    End,
}

/// A place in a string, and whether it is a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct In {
    is_name: bool,
    escape: Escape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    /// None; after the first half of a pair if so.
    None { half: bool },
    /// The backslash was read.
    Begun { half: bool },
    /// So many of four digits, and their value.
    Digits { read: u8, value: u32, half: bool },
}

/// Where the value at hand goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sink {
    /// It is one of the two levels themselves.
    Nowhere,
    Kept,
    Out,
}

impl Passage {
    /// A message of which nothing was read.
    pub fn new(keep_back: KeepBack) -> Self {
        Self {
            keep_back,
            at: At::Value,
            open: Vec::new(),
            in_result: false,
            name: String::new(),
            sink: Sink::Nowhere,
            token: Vec::new(),
            value: Vec::new(),
            beside: HashSet::new(),
            inside: HashSet::new(),
            passed: Passed::default(),
            kept_bytes: 0,
            any_out: false,
        }
    }

    /// Whether `result` has begun: what goes out from here on cannot be taken back.
    pub fn has_begun(&self) -> bool {
        self.in_result || self.beside.contains("result")
    }

    /// Reads what follows, and appends what passes through to `out`: members of `result` with commas between them.
    ///
    /// # Errors
    /// [`PassageFault`]; what is in `out` is then part of nothing.
    pub fn feed(&mut self, text: &str, out: &mut Vec<u8>) -> Result<(), PassageFault> {
        let mut rest = text.as_bytes();
        while let Some((&byte, behind)) = rest.split_first() {
            if let At::InString(In {
                escape: Escape::None { half: false },
                ..
            }) = self.at
            {
                // Most of a large text is plain characters of strings.
                let plain = rest
                    .iter()
                    .position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f));
                let (plain, behind) = rest.split_at(plain.unwrap_or(rest.len()));
                if !plain.is_empty() {
                    self.put(plain, out)?;
                    rest = behind;
                    continue;
                }
            }
            self.step(byte, out)?;
            rest = behind;
        }
        Ok(())
    }

    /// What was kept back, once the message is whole.
    ///
    /// # Errors
    /// [`PassageFault::Syntax`] when it is not.
    pub fn finish(self) -> Result<Passed, PassageFault> {
        match self.at {
            At::End => Ok(self.passed),
            _ => Err(PassageFault::Syntax),
        }
    }

    fn step(&mut self, byte: u8, out: &mut Vec<u8>) -> Result<(), PassageFault> {
        match self.at {
            At::InString(place) => return self.in_string(place, byte, out),
            At::InScalar => {
                if !matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r') {
                    self.token.push(byte);
                    if self.token.len() > TOKEN_BYTES {
                        return Err(PassageFault::TooCostly);
                    }
                    return self.put(&[byte], out);
                }
                serde_json::from_slice::<IgnoredAny>(&self.token)
                    .map_err(|_| PassageFault::Syntax)?;
                self.token.clear();
                self.value_done()?;
            }
            _ => {}
        }
        if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            return Ok(());
        }
        match (self.at, byte) {
            (At::FirstElement, b']') | (At::FirstName, b'}') => self.close(byte, out),
            (At::After, b',') => {
                self.at = match self.open.last() {
                    Some(true) => At::Name,
                    _ => At::Value,
                };
                self.put(&[byte], out)
            }
            (At::After, b'}') if self.open.last() == Some(&true) => self.close(byte, out),
            (At::After, b']') if self.open.last() == Some(&false) => self.close(byte, out),
            (At::FirstName | At::Name, b'"') => {
                self.at = string_at(true);
                self.token.clear();
                self.token.push(byte);
                self.put_deep(byte, out)
            }
            (At::Colon, b':') => {
                self.at = At::Value;
                self.put_deep(byte, out)
            }
            (At::Value | At::FirstElement, _) => self.begin(byte, out),
            _ => Err(PassageFault::Syntax),
        }
    }

    /// On the two levels, whose own text does not go out.
    fn is_level(&self) -> bool {
        self.open.len() == 1 || (self.open.len() == 2 && self.in_result)
    }

    /// A value begins.
    fn begin(&mut self, byte: u8, out: &mut Vec<u8>) -> Result<(), PassageFault> {
        match self.open.len() {
            0 if byte != b'{' => return Err(PassageFault::WrongKind),
            1 if self.name == "result" => {
                if byte != b'{' {
                    return Err(PassageFault::WrongKind);
                }
                self.in_result = true;
            }
            1 => self.sink = Sink::Kept,
            2 if self.in_result => {
                self.sink = match (self.keep_back)(&self.name, byte) {
                    true => Sink::Kept,
                    false => Sink::Out,
                };
                if self.sink == Sink::Out {
                    let mut name = String::new();
                    if std::mem::replace(&mut self.any_out, true) {
                        name.push(',');
                    }
                    write_string(&mut name, &self.name);
                    name.push(':');
                    out.extend_from_slice(name.as_bytes());
                }
            }
            _ => {}
        }
        self.put(&[byte], out)?;
        self.at = match byte {
            b'{' | b'[' => {
                if self.open.len() >= MAX_DEPTH {
                    return Err(PassageFault::TooCostly);
                }
                self.open.push(byte == b'{');
                match byte {
                    b'{' => At::FirstName,
                    _ => At::FirstElement,
                }
            }
            b'"' => string_at(false),
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => {
                self.token.clear();
                self.token.push(byte);
                At::InScalar
            }
            _ => return Err(PassageFault::Syntax),
        };
        Ok(())
    }

    fn close(&mut self, byte: u8, out: &mut Vec<u8>) -> Result<(), PassageFault> {
        let was_result = self.in_result && self.open.len() == 2;
        self.put(&[byte], out)?;
        self.open.pop();
        if was_result {
            self.in_result = false;
            self.at = At::After;
            return Ok(());
        }
        self.value_done()
    }

    /// A value has ended.
    fn value_done(&mut self) -> Result<(), PassageFault> {
        if self.open.is_empty() {
            self.at = At::End;
            return Ok(());
        }
        self.at = At::After;
        if !self.is_level() {
            return Ok(());
        }
        if std::mem::replace(&mut self.sink, Sink::Nowhere) == Sink::Kept {
            let value = String::from_utf8(std::mem::take(&mut self.value));
            let value = value.map_err(|_| PassageFault::Syntax)?;
            let value = RawValue::from_string(value).map_err(|_| PassageFault::Syntax)?;
            let name = std::mem::take(&mut self.name);
            match self.open.len() {
                1 => self.passed.message.push((name, value)),
                _ => self.passed.result.push((name, value)),
            }
        }
        Ok(())
    }

    fn in_string(&mut self, place: In, byte: u8, out: &mut Vec<u8>) -> Result<(), PassageFault> {
        let escape = match (place.escape, byte) {
            (_, 0..=0x1f) => return Err(PassageFault::Syntax),
            (Escape::None { half }, b'\\') => Escape::Begun { half },
            (Escape::None { half: true }, _) => return Err(PassageFault::Syntax),
            (Escape::None { .. }, b'"') => {
                self.put(&[byte], out)?;
                return match place.is_name {
                    true => self.name_done(),
                    false => self.value_done(),
                };
            }
            (Escape::None { .. }, _) => Escape::None { half: false },
            (Escape::Begun { half }, b'u') => Escape::Digits {
                read: 0,
                value: 0,
                half,
            },
            (
                Escape::Begun { half: false },
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't',
            ) => Escape::None { half: false },
            (Escape::Begun { .. }, _) => return Err(PassageFault::Syntax),
            (Escape::Digits { read, value, half }, _) => {
                let digit = char::from(byte).to_digit(16).ok_or(PassageFault::Syntax)?;
                let value = value << 4 | digit;
                match (read, half, value) {
                    (0..3, _, _) => Escape::Digits {
                        read: read + 1,
                        value,
                        half,
                    },
                    // No lone half of a pair: readers disagree about what it is.
                    (_, true, 0xdc00..=0xdfff) => Escape::None { half: false },
                    (_, false, 0xd800..=0xdbff) => Escape::None { half: true },
                    (_, true, _) | (_, false, 0xdc00..=0xdfff) => return Err(PassageFault::Syntax),
                    (_, false, _) => Escape::None { half: false },
                }
            }
        };
        self.at = At::InString(In { escape, ..place });
        self.put(&[byte], out)
    }

    fn name_done(&mut self) -> Result<(), PassageFault> {
        self.at = At::Colon;
        if !self.is_level() {
            return Ok(());
        }
        let token = String::from_utf8(std::mem::take(&mut self.token));
        let token = token.map_err(|_| PassageFault::Syntax)?;
        let token = RawValue::from_string(token).map_err(|_| PassageFault::Syntax)?;
        let name = string(&token).ok_or(PassageFault::Syntax)?.into_owned();
        let names = match self.open.len() {
            1 => &mut self.beside,
            _ => &mut self.inside,
        };
        if names.len() >= MEMBERS {
            return Err(PassageFault::TooCostly);
        }
        if !names.insert(name.clone()) {
            return Err(PassageFault::DuplicateMember);
        }
        self.name = name;
        Ok(())
    }

    /// Bytes of a value, or of a name on the two levels.
    fn put(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), PassageFault> {
        if let At::InString(In { is_name: true, .. }) = self.at
            && self.is_level()
        {
            self.token.extend_from_slice(bytes);
            return match self.token.len() > TOKEN_BYTES {
                true => Err(PassageFault::TooCostly),
                false => Ok(()),
            };
        }
        match self.sink {
            Sink::Nowhere => Ok(()),
            Sink::Out => {
                out.extend_from_slice(bytes);
                Ok(())
            }
            Sink::Kept => {
                self.kept_bytes += bytes.len();
                if self.kept_bytes > KEPT_BYTES {
                    return Err(PassageFault::TooCostly);
                }
                self.value.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// A byte of structure that goes out only from deeper than the two levels.
    fn put_deep(&mut self, byte: u8, out: &mut Vec<u8>) -> Result<(), PassageFault> {
        match self.is_level() {
            true => Ok(()),
            false => self.put(&[byte], out),
        }
    }
}

const fn string_at(is_name: bool) -> At {
    At::InString(In {
        is_name,
        escape: Escape::None { half: false },
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::arbitrary;
    use super::*;

    fn keep(name: &str, first: u8) -> bool {
        matches!(name, "_meta" | "kept") || (name == "object" && first != b'{')
    }

    type Read = Result<(String, String, String), PassageFault>;

    /// Reads at once, byte by byte and in two pieces, and insists on one answer.
    fn read(text: &str) -> Read {
        let feed = |pieces: &[&str]| -> Read {
            let mut passage = Passage::new(keep);
            let mut out = Vec::new();
            for piece in pieces {
                passage.feed(piece, &mut out)?;
            }
            let passed = passage.finish()?;
            let join = |members: &[(String, Box<RawValue>)]| {
                let members: Vec<String> = members
                    .iter()
                    .map(|(name, value)| format!("{name}={}", value.get()))
                    .collect();
                members.join(" ")
            };
            Ok((
                String::from_utf8(out).unwrap(),
                join(&passed.result),
                join(&passed.message),
            ))
        };
        let whole = feed(&[text]);
        let characters: Vec<String> = text.chars().map(String::from).collect();
        let characters: Vec<&str> = characters.iter().map(String::as_str).collect();
        assert_eq!(feed(&characters), whole, "{text}");
        for (at, _) in text.char_indices() {
            let (a, b) = text.split_at(at);
            assert_eq!(feed(&[a, b]), whole, "{text} at {at}");
            assert!(feed(&[a]).is_err(), "{text} cut at {at}");
        }
        whole
    }

    #[test]
    fn what_passes_and_what_is_kept() {
        let ok = |out: &str, result: &str, message: &str| {
            Ok((out.to_owned(), result.to_owned(), message.to_owned()))
        };
        for (text, expected) in [
            (r#"{"result":{}}"#, ok("", "", "")),
            (
                "{ \"jsonrpc\" : \"2.0\" , \"id\" : 7 , \"result\" : { \"a\" : [ 1.0 , { \"b\" : null } ] , \"c\" : \"x y\" } }",
                ok(
                    r#""a":[1.0,{"b":null}],"c":"x y""#,
                    "",
                    r#"jsonrpc="2.0" id=7"#,
                ),
            ),
            (
                r#"{"result":{"_meta":{"k":[1,2]},"a":true,"kept":-1.5e3,"b":[]},"id":"x"}"#,
                ok(
                    r#""a":true,"b":[]"#,
                    r#"_meta={"k":[1,2]} kept=-1.5e3"#,
                    r#"id="x""#,
                ),
            ),
            (
                r#"{"result":{"\u005fmeta":1,"\"":2}}"#,
                ok(r#""\"":2"#, "_meta=1", ""),
            ),
            (
                r#"{"result":{"object":{"a":1}}}"#,
                ok(r#""object":{"a":1}"#, "", ""),
            ),
            (
                r#"{"result":{"object":[{"a":1}]}}"#,
                ok("", r#"object=[{"a":1}]"#, ""),
            ),
            (
                r#"{"result":{"a":"é\ud83d\ude00\n\"","b":{"result":{"_meta":1},"_meta":2}}}"#,
                ok(
                    r#""a":"é\ud83d\ude00\n\"","b":{"result":{"_meta":1},"_meta":2}"#,
                    "",
                    "",
                ),
            ),
            (
                r#"{"error":{"code":-1},"id":1}"#,
                ok("", "", r#"error={"code":-1} id=1"#),
            ),
            (
                r#"{"result":{"a":1,"a":2}}"#,
                Err(PassageFault::DuplicateMember),
            ),
            (
                r#"{"result":{"a":1,"\u0061":2}}"#,
                Err(PassageFault::DuplicateMember),
            ),
            (
                r#"{"result":{},"result":{}}"#,
                Err(PassageFault::DuplicateMember),
            ),
            (
                r#"{"id":1,"id":1,"result":{}}"#,
                Err(PassageFault::DuplicateMember),
            ),
            (r#"{"result":[]}"#, Err(PassageFault::WrongKind)),
            (r#"{"result":"{"}"#, Err(PassageFault::WrongKind)),
            ("[]", Err(PassageFault::WrongKind)),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for inside in [
            "01",
            "1.",
            "+1",
            "-",
            "1e",
            "tru",
            "nul",
            "truefalse",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\\ud800\"",
            "\"\\ud800x\"",
            "\"\\ud800\\n\"",
            "\"\\ude00\"",
            "\"\\ud83d\\ud83d\"",
            "\"\u{1}\"",
            "[1,]",
            "[,1]",
            "[1 2]",
            "{,}",
            "{\"b\":1,}",
            "{\"b\"}",
            "{\"b\" 1}",
            "{b:1}",
            "{1:2}",
            "[1}",
            "{\"b\":1]",
            "'x'",
            "",
            "1,",
            ":1",
            "\u{a0}1",
            "NaN",
            "[[]",
        ] {
            let text = format!(r#"{{"result":{{"a":{inside}}}}}"#);
            let mut passage = Passage::new(keep);
            let read = passage.feed(&text, &mut Vec::new());
            assert!(read.is_err() || passage.finish().is_err(), "{text}");
        }
        for text in [
            "",
            " ",
            "{",
            "{}x",
            "{}{}",
            "{\"result\":{}}}",
            "{\"result\":{}},",
        ] {
            let mut passage = Passage::new(keep);
            let read = passage.feed(text, &mut Vec::new());
            assert!(read.is_err() || passage.finish().is_err(), "{text}");
        }
    }

    #[test]
    fn everything_is_bounded() {
        let costly = Err(PassageFault::TooCostly);
        let long = "x".repeat(KEPT_BYTES);
        let deep = |depth: usize| {
            format!(
                r#"{{"result":{{"a":{}{}}}}}"#,
                "[".repeat(depth),
                "]".repeat(depth)
            )
        };
        let many: Vec<String> = (0..=MEMBERS).map(|at| format!("\"{at}\":1")).collect();
        for text in [
            format!(r#"{{"result":{{"kept":"{long}"}}}}"#),
            format!(r#"{{"id":"{long}","result":{{}}}}"#),
            format!(r#"{{"result":{{"{}":1}}}}"#, "x".repeat(TOKEN_BYTES)),
            format!(r#"{{"result":{{"a":1{}}}}}"#, "0".repeat(TOKEN_BYTES)),
            format!(r#"{{"result":{{{}}}}}"#, many.join(",")),
            deep(63),
        ] {
            assert_eq!(Passage::new(keep).feed(&text, &mut Vec::new()), costly);
        }
        let mut out = Vec::new();
        let mut passage = Passage::new(keep);
        passage.feed(&deep(62), &mut out).unwrap();
        passage.finish().unwrap();
        // What passes is not held.
        let mut passage = Passage::new(keep);
        passage.feed(r#"{"result":{"a":""#, &mut out).unwrap();
        for _ in 0..100 {
            out.clear();
            passage.feed(&long, &mut out).unwrap();
            assert_eq!(out.len(), long.len());
        }
        assert!(passage.value.capacity() + passage.token.capacity() < 4096);
    }

    /// What passes is what was sent, and it is accepted just when the scan accepts it.
    #[test]
    fn it_agrees_with_the_scan() {
        let mut random = arbitrary::Random::new(11);
        for _ in 0..3_000 {
            let value = arbitrary::text(&mut random);
            let text = format!(r#"{{"result":{{"a":{value},"_meta":{value}}}}}"#);
            let scanned = super::super::scan(text.as_bytes()).is_ok();
            let mut out = Vec::new();
            let mut passage = Passage::new(keep);
            let read = passage.feed(&text, &mut out);
            let passed = read.and_then(|()| passage.finish());
            if scanned {
                let passed = passed.unwrap_or_else(|fault| panic!("{fault}: {text}"));
                let out = String::from_utf8(out).unwrap();
                let (_, kept) = &passed.result[0];
                assert_eq!(out, format!("\"a\":{}", kept.get()), "{text}");
                let exact = |text: &str| super::super::Exact::parse(text).map(|e| e.canonical());
                assert_eq!(exact(kept.get()), exact(&value), "{text}");
            }
            // And nothing is accepted that is no JSON.
            let mut damaged = text.into_bytes();
            arbitrary::damage(&mut random, &mut damaged);
            let Ok(damaged) = String::from_utf8(damaged) else {
                continue;
            };
            let mut passage = Passage::new(keep);
            let read = passage.feed(&damaged, &mut Vec::new());
            if read.and_then(|()| passage.finish()).is_ok() {
                assert!(
                    serde_json::from_str::<IgnoredAny>(&damaged).is_ok(),
                    "{damaged}"
                );
            }
        }
    }
}
