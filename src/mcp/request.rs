//! One request as a service sees it: in the modern form, whichever era its caller speaks.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::capabilities::ClientCapabilities;
use super::message::RpcError;
use super::param_headers::ParamHeaders;
use super::service::{LEVELS, LogLevel};
use super::version::Version;
use crate::http::Headers;
use crate::json::{self, Members};

/// Methods whose answer may be that input is needed first ("Only `tools/call`, `prompts/get`, `resources/read`").
const MAY_NEED_INPUT: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];

/// One request, with what it says of itself.
pub struct Request<'a> {
    /// What is asked.
    pub method: Cow<'a, str>,
    /// The revision that the caller speaks.
    pub version: Version,
    /// What the caller can do while the request runs: what this very request says, or in the legacy era what its
    /// session was opened with.
    pub capabilities: ClientCapabilities,
    /// Of the HTTP request that carried it, if one did.
    pub(super) headers: Option<&'a Headers>,
    pub(super) params: &'a Members<'a>,
    pub(super) meta: Option<&'a Members<'a>>,
    pub(super) log_level: LogLevel,
    /// In place of what `params` says: the answers that a legacy caller gave meanwhile.
    pub(super) round: Option<&'a Round>,
}

/// The answers to what a service asked for in the middle of a request, and its state.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) responses: Box<RawValue>,
    pub(super) state: Option<Box<RawValue>>,
}

impl<'a> Request<'a> {
    /// A member of `params`, but for `_meta`.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<&'a RawValue> {
        match (name, self.round) {
            ("inputResponses", Some(round)) => Some(&round.responses),
            ("requestState", Some(round)) => round.state.as_deref(),
            ("_meta", _) => None,
            // Whoever is asked in the middle of a request answers there and not in it: such a member is a forgery.
            ("inputResponses" | "requestState", None) if !self.version.is_modern() => None,
            _ => self.params.get(name),
        }
    }

    /// Every member of `params` but `_meta`, in the order of the text.
    pub fn members(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        let legacy = !self.version.is_modern();
        let ours = move |name: &str| {
            name == "_meta" || (legacy && matches!(name, "inputResponses" | "requestState"))
        };
        let round = ["inputResponses", "requestState"]
            .into_iter()
            .filter(|_| self.round.is_some());
        self.params
            .iter()
            .filter(move |(name, _)| !ours(name))
            .chain(round.filter_map(|name| Some((name, self.param(name)?))))
    }

    /// A member of `params` that must be a string.
    ///
    /// # Errors
    /// -32602, the caller's fault.
    pub fn text(&self, name: &str) -> Result<Cow<'a, str>, RpcError> {
        self.param(name)
            .and_then(json::string)
            .ok_or_else(|| RpcError::new(-32602, format!("params.{name} is not a string")))
    }

    /// The arguments of a tool: one JSON object, `{}` where the request has none.
    ///
    /// # Errors
    /// -32602, the caller's fault.
    pub fn arguments(&self) -> Result<&'a RawValue, RpcError> {
        match self.param("arguments") {
            None => Ok(serde_json::from_str("{}").unwrap_or(RawValue::NULL)),
            Some(arguments) if arguments.get().starts_with('{') => Ok(arguments),
            Some(_) => Err(RpcError::new(-32602, "params.arguments is not an object")),
        }
    }

    /// Checks that a call's headers say what its arguments say, where its tool wants both ("MUST check equality"). Only a
    /// service knows the tool; one whose tools have no `x-mcp-header` need not ask. Neither the legacy era nor standard
    /// streams have such headers.
    ///
    /// # Errors
    /// -32020, the caller's fault.
    pub fn check_param_headers(&self, wanted: &ParamHeaders) -> Result<(), RpcError> {
        match self.headers {
            Some(headers) if self.version.is_modern() => wanted.check(headers, self.arguments()?),
            _ => Ok(()),
        }
    }

    /// A member of the request's own `_meta`, which a gateway never forwards as it is.
    #[must_use]
    pub fn meta(&self, key: &str) -> Option<&'a RawValue> {
        self.meta.and_then(|meta| meta.get(key))
    }

    /// The least severity of log messages that the caller wants, by its name. A legacy caller has none in its requests
    /// and is told what servers commonly tell.
    #[must_use]
    pub fn log_level(&self) -> Option<&'static str> {
        match (self.log_level, self.version.is_modern()) {
            (_, false) => Some("info"),
            (LogLevel::From(place), true) => LEVELS.get(place).copied(),
            (LogLevel::Silent, true) => None,
        }
    }

    /// Whether the answer may be that input is needed first.
    #[must_use]
    pub fn may_need_input(&self) -> bool {
        MAY_NEED_INPUT.contains(&&*self.method)
    }

    /// The same request with what its caller answered meanwhile.
    pub(super) fn with_round(&self, round: &'a Round) -> Self {
        Self {
            method: self.method.clone(),
            round: Some(round),
            ..*self
        }
    }
}
