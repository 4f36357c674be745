//! What a client can do, as it said in `initialize` or in one request.

use serde_json::value::RawValue;

use super::version::Version;
use crate::json::{Members, string};

/// One thing that a client can do for a server in the middle of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// Show a form to a person.
    Form = 1,
    /// Show a URL to a person.
    Url = 1 << 1,
    /// Ask a model.
    Sampling = 1 << 2,
    /// Ask a model that may call tools.
    SamplingTools = 1 << 3,
    /// Ask a model with context of servers.
    SamplingContext = 1 << 4,
    /// List its roots.
    Roots = 1 << 5,
    /// Follow a task (extension `io.modelcontextprotocol/tasks`).
    Tasks = 1 << 6,
}

impl Ability {
    const ALL: [Self; 7] = [
        Self::Form,
        Self::Url,
        Self::Sampling,
        Self::SamplingTools,
        Self::SamplingContext,
        Self::Roots,
        Self::Tasks,
    ];

    /// What a request of a server to its client needs of the client; `None` for a method that is no such request.
    #[must_use]
    pub fn needed(method: &str, params: &RawValue) -> Option<Self> {
        let params = Members::parse(params.get()).ok();
        let member = |name: &str| params.as_ref().and_then(|params| params.get(name));
        match method {
            "elicitation/create" => match member("mode").and_then(string).as_deref() {
                // "missing = form".
                None | Some("form") => Some(Self::Form),
                Some("url") => Some(Self::Url),
                Some(_) => None,
            },
            "sampling/createMessage" if member("tools").is_some() => Some(Self::SamplingTools),
            "sampling/createMessage" => Some(Self::Sampling),
            "roots/list" => Some(Self::Roots),
            _ => None,
        }
    }
}

/// What a client can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCapabilities(u8);

impl ClientCapabilities {
    /// Nothing.
    pub const NONE: Self = Self(0);

    /// Reads a `capabilities` or `clientCapabilities` object; what is not known here is left out.
    #[must_use]
    pub fn parse(declared: &RawValue) -> Self {
        let mut found = Self::NONE;
        let Ok(declared) = Members::parse(declared.get()) else {
            return found;
        };
        let inside = |name: &str| {
            declared
                .get(name)
                .and_then(|value| Members::parse(value.get()).ok())
        };
        if let Some(elicitation) = inside("elicitation") {
            // "`{}` or `{"form":{}}` = form only; `{"url":{}}` = URL only".
            let url = elicitation.get("url").is_some();
            found = found.with(Ability::Url, url);
            found = found.with(Ability::Form, elicitation.get("form").is_some() || !url);
        }
        if let Some(sampling) = inside("sampling") {
            found = found.with(Ability::Sampling, true);
            found = found.with(Ability::SamplingTools, sampling.get("tools").is_some());
            found = found.with(Ability::SamplingContext, sampling.get("context").is_some());
        }
        found = found.with(Ability::Roots, inside("roots").is_some());
        let tasks = inside("extensions")
            .is_some_and(|extensions| extensions.get("io.modelcontextprotocol/tasks").is_some());
        found.with(Ability::Tasks, tasks)
    }

    /// With or without one ability.
    #[must_use]
    pub const fn with(self, ability: Ability, present: bool) -> Self {
        if present {
            Self(self.0 | ability as u8)
        } else {
            Self(self.0 & !(ability as u8))
        }
    }

    /// Whether the client said that it can.
    #[must_use]
    pub const fn has(self, ability: Ability) -> bool {
        self.0 & ability as u8 != 0
    }

    /// One byte for all of them.
    pub(super) const fn bits(self) -> u8 {
        self.0
    }

    /// From [`ClientCapabilities::bits`]; `None` for what it never gives.
    pub(super) fn from_bits(bits: u8) -> Option<Self> {
        let known = Ability::ALL
            .iter()
            .fold(0, |known, ability| known | *ability as u8);
        (bits & !known == 0).then_some(Self(bits))
    }

    /// As a revision writes it. What a revision has no words for is left out.
    #[must_use]
    pub fn to_json(self, version: Version) -> String {
        let mut parts = Vec::new();
        let (form, url) = (self.has(Ability::Form), self.has(Ability::Url));
        if version >= Version::V2025_11_25 && (form || url) {
            let modes = [(form, r#""form":{}"#), (url, r#""url":{}"#)];
            parts.push(format!(r#""elicitation":{{{}}}"#, present(&modes)));
        } else if version == Version::V2025_06_18 && form {
            parts.push(r#""elicitation":{}"#.to_owned());
        }
        if self.has(Ability::Sampling) {
            let more = [
                (self.has(Ability::SamplingTools), r#""tools":{}"#),
                (self.has(Ability::SamplingContext), r#""context":{}"#),
            ];
            let more = if version >= Version::V2025_11_25 {
                present(&more)
            } else {
                String::new()
            };
            parts.push(format!(r#""sampling":{{{more}}}"#));
        }
        if self.has(Ability::Roots) {
            parts.push(r#""roots":{}"#.to_owned());
        }
        if self.has(Ability::Tasks) && version.is_modern() {
            parts.push(r#""extensions":{"io.modelcontextprotocol/tasks":{}}"#.to_owned());
        }
        format!("{{{}}}", parts.join(","))
    }
}

fn present(parts: &[(bool, &str)]) -> String {
    let present: Vec<&str> = parts
        .iter()
        .filter(|(is, _)| *is)
        .map(|(_, part)| *part)
        .collect();
    present.join(",")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parse(text: &str) -> ClientCapabilities {
        ClientCapabilities::parse(serde_json::from_str(text).unwrap())
    }

    #[test]
    fn what_is_declared_is_read_and_written_again() {
        use Version::{V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28};
        let all = r#"{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
        for (declared, version, written) in [
            ("{}", V2026_07_28, "{}"),
            ("[]", V2026_07_28, "{}"),
            (all, V2026_07_28, all),
            (
                all,
                V2025_11_25,
                r#"{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{}}"#,
            ),
            (
                all,
                V2025_06_18,
                r#"{"elicitation":{},"sampling":{},"roots":{}}"#,
            ),
            (all, V2025_03_26, r#"{"sampling":{},"roots":{}}"#),
            (
                r#"{"elicitation":{},"roots":{"listChanged":true},"experimental":{"x":{}}}"#,
                V2025_11_25,
                r#"{"elicitation":{"form":{}},"roots":{}}"#,
            ),
            (
                r#"{"elicitation":{"url":{}}}"#,
                V2026_07_28,
                r#"{"elicitation":{"url":{}}}"#,
            ),
            (r#"{"elicitation":{"url":{}}}"#, V2025_06_18, "{}"),
            (r#"{"elicitation":true,"sampling":null}"#, V2026_07_28, "{}"),
        ] {
            let read = parse(declared);
            assert_eq!(read.to_json(version), written, "{declared}");
            assert_eq!(ClientCapabilities::from_bits(read.bits()), Some(read));
        }
    }

    #[test]
    fn each_request_to_a_client_needs_one_ability() {
        for (method, params, needed) in [
            ("elicitation/create", "{}", Some(Ability::Form)),
            (
                "elicitation/create",
                r#"{"mode":"form"}"#,
                Some(Ability::Form),
            ),
            (
                "elicitation/create",
                r#"{"mode":"url"}"#,
                Some(Ability::Url),
            ),
            ("elicitation/create", r#"{"mode":"voice"}"#, None),
            ("sampling/createMessage", "{}", Some(Ability::Sampling)),
            (
                "sampling/createMessage",
                r#"{"tools":[]}"#,
                Some(Ability::SamplingTools),
            ),
            ("roots/list", "{}", Some(Ability::Roots)),
            ("tools/call", "{}", None),
        ] {
            let params: &RawValue = serde_json::from_str(params).unwrap();
            assert_eq!(Ability::needed(method, params), needed, "{method}");
        }
    }
}
