//! Texts with places in them: `{name}`, `{answer.content.name}`.

use std::borrow::Cow;

use countersign::json::{Members, quote, string};
use serde_json::value::RawValue;

/// Where the values come from, the first that has a name: answers, arguments, [`MEDIA`].
pub(crate) type Values<'v> = Vec<Members<'v>>;

/// One pixel, and eight samples of silence, in Base64.
pub(crate) const MEDIA: &str = r#"{
    "png": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    "wav": "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA=="
}"#;

/// A JSON text in which every `{path}`, which must stand inside a string, is replaced by the value there: a string as it
/// is, anything else as JSON, and `null` where there is nothing.
pub(crate) fn fill(json: &str, values: &Values<'_>) -> String {
    let mut filled = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(start) = rest.find('{') {
        let (before, from) = rest.split_at(start);
        filled.push_str(before);
        let place = from[1..].split_once('}').filter(|(path, _)| is_path(path));
        let Some((path, behind)) = place else {
            filled.push('{');
            rest = &from[1..];
            continue;
        };
        let quoted = quote(&text_at(path, values));
        filled.push_str(&quoted[1..quoted.len() - 1]);
        rest = behind;
    }
    filled + rest
}

fn is_path(text: &str) -> bool {
    let bytes = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    !text.is_empty() && text.bytes().all(bytes)
}

fn text_at<'v>(path: &str, values: &Values<'v>) -> Cow<'v, str> {
    let mut names = path.split('.');
    let first = names.next().unwrap_or_default();
    let mut found = values.iter().find_map(|members| members.get(first));
    for name in names {
        found = found.and_then(|value| member(value, name));
    }
    let value = found.unwrap_or(RawValue::NULL);
    string(value).unwrap_or_else(|| Cow::Borrowed(value.get()))
}

fn member<'v>(value: &'v RawValue, name: &str) -> Option<&'v RawValue> {
    Members::parse(value.get()).ok()?.get(name)
}
