//! The result of a request, in the modern form, and as each revision writes it.

use serde_json::value::RawValue;

use super::rest::Rest;
use super::version::Version;
use super::{META_SERVER, implementation};
use crate::json::{Members, elements, quote, string};

/// Operations whose results say how long they may be kept ("MUST be on `complete` results of").
const CACHEABLE: [&str; 6] = [
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
];

/// What kind of result it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResultKind {
    /// The request is done.
    #[default]
    Complete,
    /// The caller has to answer something and ask again.
    InputRequired,
    /// A task goes on without the request (extension `io.modelcontextprotocol/tasks`).
    Task,
}

impl ResultKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::InputRequired => "input_required",
            Self::Task => "task",
        }
    }
}

/// Whether a member of `_meta` is passed on.
pub type KeepMeta = fn(&str) -> bool;

/// One thing that a service asks of a caller: a method and its parameters.
#[derive(Clone, Debug)]
pub struct InputRequest {
    /// By which the answer is found.
    pub key: String,
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// Its parameters, one JSON object.
    pub params: Box<RawValue>,
}

/// The result of a request. What an upstream gave is kept as raw text, numbers and order included.
#[derive(Debug, Default)]
pub struct RpcResult {
    kind: ResultKind,
    /// What is still to come, of a result that is too large to be held.
    rest: Option<Rest>,
    /// Of which `_meta` only so much is passed on: for what is still to come.
    keeps: Option<KeepMeta>,
    /// Whether it may be kept for its caller alone, whatever it says.
    private: bool,
    /// Every member but `_meta` and `resultType`.
    members: Vec<(String, Box<RawValue>)>,
    meta: Vec<(String, Box<RawValue>)>,
}

impl RpcResult {
    /// A tool's result: one text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        let mut result = Self::default();
        result.set(
            "content",
            format!(r#"[{{"type":"text","text":{}}}]"#, quote(text)),
        );
        result
    }

    /// A tool's result: one text that tells of a failure.
    #[must_use]
    pub fn error(text: &str) -> Self {
        let mut result = Self::text(text);
        result.set("isError", "true".to_owned());
        result
    }

    /// Asks the caller for input. `state` comes back with the answers, byte for byte; whoever has it is no one in
    /// particular, so it must be sealed.
    #[must_use]
    pub fn input_required(requests: &[InputRequest], state: Option<&str>) -> Self {
        let requests: Vec<_> = requests
            .iter()
            .map(|request| {
                format!(
                    r#"{}:{{"method":{},"params":{}}}"#,
                    quote(&request.key),
                    quote(&request.method),
                    request.params.get()
                )
            })
            .collect();
        let mut result = Self {
            kind: ResultKind::InputRequired,
            ..Self::default()
        };
        result.set("inputRequests", format!("{{{}}}", requests.join(",")));
        if let Some(state) = state {
            result.set("requestState", quote(state));
        }
        result
    }

    /// Reads an upstream's result. Duplicate members were refused by the scan.
    ///
    /// # Errors
    /// What is wrong with it, the upstream's fault.
    pub fn parse(raw: &RawValue) -> Result<Self, &'static str> {
        let mut result = Self::default();
        let members = Members::parse(raw.get()).map_err(|_| "the result is no object")?;
        for (name, value) in members.iter() {
            match name {
                // "Absent resultType = complete; unknown value = invalid".
                "resultType" => {
                    result.kind = match value.get() {
                        "\"complete\"" => ResultKind::Complete,
                        "\"input_required\"" => ResultKind::InputRequired,
                        "\"task\"" => ResultKind::Task,
                        _ => return Err("an unknown resultType"),
                    };
                }
                "_meta" => {
                    let meta = Members::parse(value.get());
                    for (key, value) in meta.map_err(|_| "_meta is no object")?.iter() {
                        result.meta.push((key.to_owned(), value.to_owned()));
                    }
                }
                _ => result.members.push((name.to_owned(), value.to_owned())),
            }
        }
        Ok(result)
    }

    /// What kind of result it is.
    #[must_use]
    pub const fn kind(&self) -> ResultKind {
        self.kind
    }

    /// What the caller is asked, in the order of the text.
    ///
    /// # Errors
    /// What is wrong with it, the fault of whoever made it.
    pub fn input_requests(&self) -> Result<Vec<InputRequest>, &'static str> {
        let Some(requests) = self.get("inputRequests") else {
            return Ok(Vec::new());
        };
        let requests = Members::parse(requests.get()).map_err(|_| "inputRequests is no object")?;
        requests
            .iter()
            .map(|(key, request)| {
                let request =
                    Members::parse(request.get()).map_err(|_| "an input request is no object")?;
                let method = request.get("method").and_then(string);
                let params = request.get("params").map(RawValue::get).unwrap_or("{}");
                Ok(InputRequest {
                    key: key.to_owned(),
                    method: method.ok_or("an input request has no method")?.into_owned(),
                    params: RawValue::from_string(params.to_owned()).unwrap_or_default(),
                })
            })
            .collect()
    }

    /// Sets a member to a JSON text; one that is not JSON is left out.
    pub fn set(&mut self, name: &str, json: String) {
        if let Ok(value) = RawValue::from_string(json) {
            match self.members.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => *known = value,
                None => self.members.push((name.to_owned(), value)),
            }
        }
    }

    /// Removes a member.
    pub fn remove(&mut self, name: &str) {
        self.members.retain(|(known, _)| known != name);
    }

    /// Sets a member of `_meta` to a JSON text.
    pub fn set_meta(&mut self, key: &str, json: String) {
        self.meta.retain(|(known, _)| known != key);
        if let Ok(value) = RawValue::from_string(json) {
            self.meta.push((key.to_owned(), value));
        }
    }

    /// Keeps only those members of `_meta` that `keep` says.
    pub fn retain_meta(&mut self, keep: KeepMeta) {
        self.meta.retain(|(key, _)| keep(key));
        self.keeps = Some(keep);
    }

    /// Lets it be kept for its caller alone, whatever its server says: who may ask for it is decided here.
    pub const fn make_private(&mut self) {
        self.private = true;
    }

    /// Whether it may be kept for its caller alone.
    pub(super) const fn is_private(&self) -> bool {
        self.private
    }

    /// A result of which most is still to come.
    pub(super) fn large(rest: Rest) -> Self {
        Self {
            rest: Some(rest),
            ..Self::default()
        }
    }

    /// From what was kept back of a large result.
    pub(super) fn of_members(members: Vec<(String, Box<RawValue>)>) -> Result<Self, &'static str> {
        let text: Vec<String> = members
            .iter()
            .map(|(name, value)| format!("{}:{}", quote(name), value.get()))
            .collect();
        let text = RawValue::from_string(format!("{{{}}}", text.join(",")));
        Self::parse(&text.map_err(|_| "the result is no object")?)
    }

    /// Whether most of it is still to come: then it can only be passed on.
    #[must_use]
    pub const fn is_large(&self) -> bool {
        self.rest.is_some()
    }

    /// What is still to come of a large result, and what is to be done to its end.
    pub(super) fn take_rest(&mut self) -> Option<(Rest, Option<KeepMeta>)> {
        Some((self.rest.take()?, self.keeps))
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
            .and_then(|content| elements(content.get()).ok());
        let texts = blocks.into_iter().flatten().filter_map(|block| {
            let text = Members::parse(block.get())
                .ok()?
                .get("text")
                .and_then(string)?;
            Some(text.into_owned())
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// The result of `method` for a caller on `version`.
    #[must_use]
    pub fn to_json(&self, method: &str, version: Version) -> String {
        format!("{{{}}}", self.members_to_json(method, version))
    }

    /// The members of [`RpcResult::to_json`], without the braces.
    pub(super) fn members_to_json(&self, method: &str, version: Version) -> String {
        let modern = version.is_modern();
        let server = modern.then(implementation);
        let known = self
            .meta
            .iter()
            .map(|(key, value)| (key.as_str(), value.get()));
        let ours = server.iter().map(|server| (META_SERVER, server.as_str()));
        let meta: Vec<_> = known
            .filter(|(key, _)| *key != META_SERVER || !modern)
            .chain(ours)
            .map(|(key, value)| format!("{}:{value}", quote(key)))
            .collect();
        let mut parts = Vec::with_capacity(self.members.len() + 4);
        if modern {
            parts.push(format!(r#""resultType":"{}""#, self.kind.name()));
        }
        parts.extend(
            self.members
                .iter()
                .filter(|(name, value)| modern || is_legacy_too(name, value))
                .filter(|(name, _)| !(self.private && name == "cacheScope"))
                .map(|(name, value)| format!("{}:{}", quote(name), value.get())),
        );
        // A server of the legacy era says nothing of keeping, so nothing is kept of it.
        if modern && self.kind == ResultKind::Complete && CACHEABLE.contains(&method) {
            for (name, value) in [("ttlMs", "0"), ("cacheScope", "\"private\"")] {
                if self.get(name).is_none() || (self.private && name == "cacheScope") {
                    parts.push(format!(r#""{name}":{value}"#));
                }
            }
        }
        if !meta.is_empty() {
            parts.push(format!(r#""_meta":{{{}}}"#, meta.join(",")));
        }
        parts.join(",")
    }
}

/// Whether a member may stand in a legacy result. Before 2026-07-28 `structuredContent` is an object, and a client of
/// that time may fail on anything else: the text says the same.
fn is_legacy_too(name: &str, value: &RawValue) -> bool {
    match name {
        "ttlMs" | "cacheScope" => false,
        "structuredContent" => value.get().starts_with('{'),
        _ => true,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<RpcResult, &'static str> {
        RpcResult::parse(serde_json::from_str(text).unwrap())
    }

    #[test]
    fn each_era_reads_what_it_knows() {
        let modern = Version::V2026_07_28;
        let legacy = Version::V2025_06_18;
        let server = format!(r#""_meta":{{"{META_SERVER}":{}}}"#, implementation());
        for (result, method, version, written) in [
            (
                r#"{"content":[],"structuredContent":[1]}"#,
                "tools/call",
                legacy,
                r#"{"content":[]}"#.to_owned(),
            ),
            (
                r#"{"content":[],"structuredContent":{"a":1.0}}"#,
                "tools/call",
                legacy,
                r#"{"content":[],"structuredContent":{"a":1.0}}"#.to_owned(),
            ),
            (
                r#"{"content":[],"structuredContent":[1]}"#,
                "tools/call",
                modern,
                format!(
                    r#"{{"resultType":"complete","content":[],"structuredContent":[1],{server}}}"#
                ),
            ),
            (
                r#"{"tools":[]}"#,
                "tools/list",
                modern,
                format!(
                    r#"{{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private",{server}}}"#
                ),
            ),
            (
                r#"{"tools":[],"ttlMs":5,"cacheScope":"public","_meta":{"a":1}}"#,
                "tools/list",
                legacy,
                r#"{"tools":[],"_meta":{"a":1}}"#.to_owned(),
            ),
            (
                r#"{"resultType":"input_required","requestState":"s"}"#,
                "resources/read",
                modern,
                format!(r#"{{"resultType":"input_required","requestState":"s",{server}}}"#),
            ),
        ] {
            let result = parse(result).unwrap();
            assert_eq!(result.to_json(method, version), written);
        }
        assert!(parse(r#"{"resultType":"other"}"#).is_err());
        assert!(parse("[]").is_err());
        assert!(parse(r#"{"_meta":1}"#).is_err());
    }

    #[test]
    fn what_is_asked_for_is_read_as_it_was_written() {
        let params = RawValue::from_string(r#"{"message":"m","n":1.0}"#.to_owned()).unwrap();
        let asked = InputRequest {
            key: "a\"b".to_owned(),
            method: "elicitation/create".to_owned(),
            params,
        };
        let result = RpcResult::input_required(std::slice::from_ref(&asked), Some("st\"ate"));
        assert_eq!(result.kind(), ResultKind::InputRequired);
        let read = result.input_requests().unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!(
            (&read[0].key, &read[0].method, read[0].params.get()),
            (&asked.key, &asked.method, asked.params.get())
        );
        assert_eq!(result.get("requestState").unwrap().get(), r#""st\"ate""#);
    }
}
