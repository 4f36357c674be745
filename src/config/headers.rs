//! The headers that go with each question, for an edge in front of the approval URL.

use std::collections::HashSet;

use super::fault::Report;
use super::names;
use super::reader::Place;
use super::values;

/// Header names that `confirmationHeaders` may not set. The spec: "A confirmationHeaders: name that would
/// collide with what the bundle owns (content-type, content-length, transfer-encoding, connection, host) is a
/// config error". The others belong to the connection (RFC 9110, section 7.6.1), or our client sets them.
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
    "user-agent",
];

/// Checks the `confirmationHeaders` of a server.
pub(super) fn check(server: &Place<'_>, confirmations: bool, report: &mut Report) {
    let Some(section) = server.get("confirmationHeaders") else {
        return;
    };
    if !confirmations {
        // The spec: "because nothing would ever send them".
        section.fault(
            report,
            "found headers without confirmations: true, which nothing would send",
        );
    }
    let mut seen = HashSet::new();
    for (name, place) in section.by_name() {
        let lower = name.name.to_ascii_lowercase();
        let text = if !names::is_token(name.name) {
            Some("found no name of a header, allowed: a token of RFC 9110".to_owned())
        } else if RESERVED_HEADERS.contains(&lower.as_str()) {
            Some(format!(
                "found a reserved name, allowed: any but {}",
                RESERVED_HEADERS.join(", ")
            ))
        } else if !seen.insert(lower) {
            Some("found the name a second time in other letters, allowed: once".to_owned())
        } else {
            None
        };
        if let Some(text) = text {
            report.fault(&name.at, text);
        }
        if place
            .text()
            .is_some_and(|text| text.contains(|c: char| c.is_control() && c != '\t'))
        {
            place.fault(
                report,
                "found a line end or another control character, allowed: text without",
            );
        }
        values::template(&place, report);
    }
}
