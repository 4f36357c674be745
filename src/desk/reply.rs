//! What the desk answers: a status, a body of a known kind, and the headers that go with every answer.

use super::page::CONTENT_SECURITY_POLICY;
use crate::http::{Responded, Responder};
use crate::json::quote;

/// A whole answer.
pub(super) struct Reply {
    status: u16,
    kind: Kind,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Html,
    Json,
    Script,
    Style,
    Text,
}

impl Kind {
    const fn media_type(self) -> &'static str {
        match self {
            Self::Html => "text/html; charset=utf-8",
            Self::Json => "application/json; charset=utf-8",
            Self::Script => "text/javascript; charset=utf-8",
            Self::Style => "text/css; charset=utf-8",
            Self::Text => "text/plain; charset=utf-8",
        }
    }
}

/// Headers of every answer, a stream's too.
pub(super) const COMMON_HEADERS: [(&str, &str); 3] = [
    ("content-security-policy", CONTENT_SECURITY_POLICY),
    ("x-content-type-options", "nosniff"),
    // Questions are for one pair of eyes, and a page from the cache would show what is long answered.
    ("cache-control", "no-store"),
];

/// No address of the desk is told to another site, nor to itself.
pub(super) const NO_REFERRER: (&str, &str) = ("referrer-policy", "no-referrer");

/// For pages with forms. Under `no-referrer` a browser gives the origin of a form's post as `null` (Fetch, "append a
/// request `Origin` header"), which is what a hidden stranger's post has; no other site is told anything here either.
const REFERRER_HERE: (&str, &str) = ("referrer-policy", "same-origin");

impl Reply {
    fn new(status: u16, kind: Kind, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            kind,
            headers: Vec::new(),
            body: body.into(),
        }
    }

    /// JSON text.
    pub(super) fn json(status: u16, text: String) -> Self {
        Self::new(status, Kind::Json, text)
    }

    /// A page.
    pub(super) fn html(status: u16, text: String) -> Self {
        Self::new(status, Kind::Html, text)
    }

    /// The page's script.
    pub(super) fn script(text: &'static str) -> Self {
        Self::new(200, Kind::Script, text)
    }

    /// The page's style sheet.
    pub(super) fn style(text: &'static str) -> Self {
        Self::new(200, Kind::Style, text)
    }

    /// A line for a person whose form was refused.
    pub(super) fn text(status: u16, text: &str) -> Self {
        Self::new(status, Kind::Text, format!("{text}\n"))
    }

    /// The protocol's envelope of an error (elicitation protocol, 4.6). `message` is ours and repeats nothing.
    pub(super) fn fault(status: u16, error: &str, message: &str) -> Self {
        let (error, message) = (quote(error), quote(message));
        Self::json(
            status,
            format!(r#"{{"error":{error},"message":{message},"messages":[{message}]}}"#),
        )
    }

    /// Sends a browser on with a GET (RFC 9110 section 15.4.4).
    pub(super) fn see_other(path: String) -> Self {
        Self::new(303, Kind::Text, "").with("location", path)
    }

    /// Adds a header.
    pub(super) fn with(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Asks the caller to come again after so many seconds.
    pub(super) fn retry_after(self, seconds: u64) -> Self {
        self.with("retry-after", seconds.max(1).to_string())
    }

    /// Sends it. Dropping the future leaves it half sent, and the connection closes.
    pub(super) async fn send(self, responder: Responder) -> Responded {
        let mut headers = vec![("content-type", self.kind.media_type())];
        headers.extend(COMMON_HEADERS);
        headers.push(match self.kind {
            Kind::Html => REFERRER_HERE,
            _ => NO_REFERRER,
        });
        headers.extend(
            self.headers
                .iter()
                .map(|(name, value)| (*name, value.as_str())),
        );
        responder.send(self.status, &headers, &self.body).await
    }
}
