//! JSON from outside, and the envelope of JSON-RPC around it.

use countersign::json::{self, Exact, JsonFault, MAX_DEPTH, Members};
use countersign::mcp::Id;
use serde_json::Value;
use serde_json::value::RawValue;

/// Any bytes as one JSON text:
///
/// - what the scan accepts, an independent reader accepts, sees no deeper than allowed and with every member once; what
///   the scan calls no JSON, that reader refuses;
/// - opened level by level, each part is a piece of the input that the scan accepts by itself;
/// - its tree has the value that the independent reader sees, and its canonical text is one that is read as itself;
/// - an id, a method and a version are what the independent reader sees, and an id goes back as it came.
pub fn jsonrpc_envelope(input: &[u8]) {
    let scanned = json::scan(input);
    // A member whose name begins with `$serde_json` has a meaning of its own to `Value`: here it is no independent reader.
    let independent = !input.contains(&b'$') && !input.windows(6).any(|six| six == br"\u0024");
    let text = match scanned {
        Ok(text) => text,
        Err(JsonFault::Syntax { .. } | JsonFault::NotUtf8) => {
            let offset_is_inside = match scanned {
                Err(JsonFault::Syntax { offset }) => offset <= input.len(),
                _ => true,
            };
            assert!(offset_is_inside);
            assert!(!independent || serde_json::from_slice::<Value>(input).is_err());
            return;
        }
        Err(_) => return,
    };
    assert_eq!(text.as_bytes(), input);
    let Ok(tree) = Exact::parse(text) else {
        panic!("scanned, and no tree: only one of very many values has none")
    };
    let canonical = tree.canonical();
    let again = Exact::parse(&canonical).expect("a canonical text is JSON");
    assert_eq!(again.canonical(), canonical);
    assert_eq!(again.to_value(), tree.to_value());
    opened(text, text, &tree);
    if !independent {
        return;
    }
    let value: Value = serde_json::from_slice(input).expect("what was scanned is JSON");
    assert_eq!(tree.to_value(), value);
    // `Value` keeps one of equal names, so a second one would be missing here.
    assert_eq!(sized(&value), sized_exactly(&tree));
    assert!(sized(&value).1 <= MAX_DEPTH);
    envelope(text, &value);
}

/// Opens every level of `part`, a part of `whole`, and compares it with its tree.
fn opened(whole: &str, part: &str, tree: &Exact) {
    let range = whole.as_bytes().as_ptr_range();
    assert!(
        part.is_empty() || range.contains(&part.as_ptr()),
        "a part lies elsewhere"
    );
    assert_eq!(json::scan(part.as_bytes()), Ok(part));
    match tree {
        Exact::Object(expected) => {
            let members = Members::parse(part).expect("an object opens");
            assert_eq!(json::elements(part).err(), Some(JsonFault::WrongKind));
            assert_eq!(members.len(), expected.len());
            for ((name, value), (expected, tree)) in members.iter().zip(expected) {
                assert_eq!(name, expected);
                let got = members.get(name).expect("a member that is there");
                assert_eq!(got.get(), value.get());
                opened(whole, value.get(), tree);
            }
        }
        Exact::Array(expected) => {
            let elements = json::elements(part).expect("an array opens");
            assert_eq!(Members::parse(part).err(), Some(JsonFault::WrongKind));
            assert_eq!(elements.len(), expected.len());
            for (value, tree) in elements.into_iter().zip(expected) {
                opened(whole, value.get(), tree);
            }
        }
        Exact::String(expected) => {
            let raw: &RawValue = serde_json::from_str(part).expect("a value");
            assert_eq!(json::string(raw).as_deref(), Some(expected.as_str()));
        }
        Exact::Number(token) => assert_eq!(part.trim(), &**token),
        Exact::Null | Exact::Bool(_) => assert_eq!(part.trim(), tree.canonical()),
    }
}

/// The envelope as the server opens it, against the independent reader.
fn envelope(text: &str, value: &Value) {
    let Ok(members) = Members::parse(text) else {
        assert!(!value.is_object());
        return;
    };
    for name in ["jsonrpc", "id", "method", "params", "result", "error"] {
        assert_eq!(members.get(name).is_some(), value.get(name).is_some());
    }
    if members.get("jsonrpc").map(RawValue::get) == Some("\"2.0\"") {
        assert_eq!(value["jsonrpc"], "2.0");
    }
    if let Some(method) = members.get("method") {
        assert_eq!(json::string(method).as_deref(), value["method"].as_str());
    }
    if let Some(raw) = members.get("id")
        && let Some(id) = Id::parse(raw)
    {
        assert!(value["id"].is_string() || value["id"].is_number());
        assert_eq!(id.as_json(), raw.get());
        let echo = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id.as_json());
        let echo: Value = serde_json::from_str(&echo).expect("an answer is JSON");
        assert_eq!(echo["id"], value["id"], "the id has another type or value");
    }
}

/// How many members there are at all levels, and how many containers lie in each other.
fn sized(value: &Value) -> (usize, usize) {
    match value {
        Value::Object(members) => level(members.len(), members.values().map(sized)),
        Value::Array(elements) => level(0, elements.iter().map(sized)),
        _ => (0, 0),
    }
}

/// The same of a tree of ours.
fn sized_exactly(tree: &Exact) -> (usize, usize) {
    match tree {
        Exact::Object(members) => level(
            members.len(),
            members.iter().map(|(_, value)| sized_exactly(value)),
        ),
        Exact::Array(elements) => level(0, elements.iter().map(sized_exactly)),
        _ => (0, 0),
    }
}

fn level(own: usize, inner: impl Iterator<Item = (usize, usize)>) -> (usize, usize) {
    let (members, depth) = inner.fold((own, 0), |(members, deepest), (more, depth)| {
        (members + more, deepest.max(depth))
    });
    (members, depth + 1)
}
