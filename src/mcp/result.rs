//! The result of a tool call.

use serde_json::value::RawValue;

use super::version::Version;
use super::{META_SERVER, implementation};
use crate::json::{Members, quote};

/// A `CallToolResult`. What an upstream gave is kept as raw text, numbers and order included.
#[derive(Clone, Debug, Default)]
pub struct ToolResult {
    /// Every member but `_meta` and `resultType`.
    members: Vec<(String, Box<RawValue>)>,
    meta: Vec<(String, Box<RawValue>)>,
}

impl ToolResult {
    /// One text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        let mut result = Self::default();
        result.set(
            "content",
            format!(r#"[{{"type":"text","text":{}}}]"#, quote(text)),
        );
        result
    }

    /// One text that tells of a failure.
    #[must_use]
    pub fn error(text: &str) -> Self {
        let mut result = Self::text(text);
        result.set("isError", "true".to_owned());
        result
    }

    /// Reads an upstream's result; `None` when it is not an object. Duplicate members were refused by the scan.
    #[must_use]
    pub fn parse(raw: &RawValue) -> Option<Self> {
        let mut result = Self::default();
        for (name, value) in Members::parse(raw.get()).ok()?.iter() {
            match name {
                "resultType" => {}
                "_meta" => {
                    for (key, value) in Members::parse(value.get()).ok()?.iter() {
                        result.meta.push((key.to_owned(), value.to_owned()));
                    }
                }
                _ => result.members.push((name.to_owned(), value.to_owned())),
            }
        }
        Some(result)
    }

    /// Sets a member to a JSON text; one that is not JSON is left out.
    pub fn set(&mut self, name: &str, json: String) {
        self.members.retain(|(known, _)| known != name);
        if let Ok(value) = RawValue::from_string(json) {
            self.members.push((name.to_owned(), value));
        }
    }

    /// Sets a member of `_meta` to a JSON text.
    pub fn set_meta(&mut self, key: &str, json: String) {
        self.meta.retain(|(known, _)| known != key);
        if let Ok(value) = RawValue::from_string(json) {
            self.meta.push((key.to_owned(), value));
        }
    }

    /// Keeps only those members of `_meta` that `keep` says.
    pub fn retain_meta(&mut self, keep: impl Fn(&str) -> bool) {
        self.meta.retain(|(key, _)| keep(key));
    }

    /// A member as it stands.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&RawValue> {
        self.members
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| &**value)
    }

    /// A member of `_meta` as it stands.
    #[must_use]
    pub fn meta(&self, key: &str) -> Option<&RawValue> {
        self.meta
            .iter()
            .find(|(known, _)| known == key)
            .map(|(_, value)| &**value)
    }

    /// Whether the tool says that it failed.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.get("isError")
            .is_some_and(|value| value.get() == "true")
    }

    /// The texts of its content, joined by newlines.
    #[must_use]
    pub fn texts(&self) -> String {
        let blocks = self
            .get("content")
            .and_then(|content| crate::json::elements(content.get()).ok());
        let texts = blocks.into_iter().flatten().filter_map(|block| {
            let text = Members::parse(block.get())
                .ok()?
                .get("text")
                .and_then(crate::json::string)?;
            Some(text.into_owned())
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// The result for a caller on `version`.
    #[must_use]
    pub fn to_json(&self, version: Version) -> String {
        let server = version.is_modern().then(implementation);
        let known = self
            .meta
            .iter()
            .map(|(key, value)| (key.as_str(), value.get()));
        let ours = server.iter().map(|server| (META_SERVER, server.as_str()));
        let meta: Vec<_> = known
            .filter(|(key, _)| *key != META_SERVER || server.is_none())
            .chain(ours)
            .map(|(key, value)| format!("{}:{value}", quote(key)))
            .collect();
        let mut parts = Vec::with_capacity(self.members.len() + 2);
        if version.is_modern() {
            parts.push(r#""resultType":"complete""#.to_owned());
        }
        parts.extend(
            self.members
                .iter()
                .map(|(name, value)| format!("{}:{}", quote(name), value.get())),
        );
        if !meta.is_empty() {
            parts.push(format!(r#""_meta":{{{}}}"#, meta.join(",")));
        }
        format!("{{{}}}", parts.join(","))
    }
}
