//! Headers that the configuration adds to requests of ours: to questions, and to what goes to a remote server.

use std::collections::HashSet;

use super::fault::Report;
use super::names;
use super::reader::Place;
use super::template::Template;
use super::values;

/// Header names that no file may set. The spec: "A confirmationHeaders: name that would collide with what the
/// bundle owns (content-type, content-length, transfer-encoding, connection, host) is a config error". The others
/// belong to the connection (RFC 9110, section 7.6.1), or our client sets them.
const RESERVED_HEADERS: &[&str] = &[
    "accept",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What headers go with.
#[derive(Clone, Copy)]
pub(super) enum Sent {
    /// The POST of a question, and every poll.
    WithQuestions,
    /// Every request to a remote server.
    WithRequests,
}

impl Sent {
    /// What is reserved besides [`RESERVED_HEADERS`]; a final `*` stands for any rest. MCP's own headers say what the
    /// body says, and a server refuses a request where the two differ.
    const fn also_reserved(self) -> &'static str {
        match self {
            Self::WithQuestions => "user-agent",
            Self::WithRequests => "mcp-*",
        }
    }

    /// Whether a name in lower case is reserved.
    fn reserves(self, lower: &str) -> bool {
        let also = self.also_reserved();
        let is_also = match also.strip_suffix('*') {
            Some(start) => lower.starts_with(start),
            None => lower == also,
        };
        is_also || RESERVED_HEADERS.contains(&lower)
    }
}

/// Checks a map of header names to values.
pub(super) fn check(section: &Place<'_>, sent: Sent, report: &mut Report) {
    let mut seen = HashSet::new();
    for (name, place) in section.by_name() {
        let lower = name.name.to_ascii_lowercase();
        let text = if !names::is_token(name.name) {
            Some("found no name of a header, allowed: a token of RFC 9110".to_owned())
        } else if sent.reserves(&lower) {
            Some(format!(
                "found a reserved name, allowed: any but {}, {}",
                RESERVED_HEADERS.join(", "),
                sent.also_reserved()
            ))
        } else if !seen.insert(lower) {
            Some("found the name a second time in other letters, allowed: once".to_owned())
        } else {
            None
        };
        if let Some(text) = text {
            report.fault(&name.at, text);
        }
        let template = values::template(&place, report);
        if let Some(text) = place
            .text()
            .and_then(|text| unsendable(text, template.as_ref().map(|placed| &placed.value)))
        {
            place.fault(report, text);
        }
    }
}

/// Why no request could carry a value, whatever its references stand for. The client would refuse it on every call.
fn unsendable(text: &str, template: Option<&Template>) -> Option<&'static str> {
    if text.contains(|c: char| c.is_control() && c != '\t') {
        return Some("found a line end or another control character, allowed: text without");
    }
    if text.trim_matches([' ', '\t']) != text {
        // Whoever receives it drops them (RFC 9110, section 5.5), and so would read another value.
        return Some("found a blank at its start or end, allowed: text without");
    }
    // A reference may name any file: its own letters are not sent.
    let plain = template.is_none_or(|template| template.literals().all(str::is_ascii));
    (!plain).then_some("found a character outside ASCII, allowed: ASCII")
}
