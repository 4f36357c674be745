//! Reads a question as the elicitation protocol sends it (4.1).
//!
//! A question that the page could not show whole is refused, never shown in part: what a person did not see they did
//! not say yes to.

use super::expiry::window;
use super::questions::Asked;
use super::session::SessionName;
use crate::approval::RequestId;
use crate::json::{Exact, JsonFault};

/// Most bytes of a question's body. Its texts have at most 70 KB, and an escape takes up to six bytes for one.
pub(super) const BODY_BYTES: usize = 262_144;

/// Most bytes of the text of a question: some 30 pages.
const MESSAGE_BYTES: usize = 65_536;

/// Most bytes of the tool's name.
const TOOL_BYTES: usize = 256;

/// Most bytes of the label of the box: it stands on one line.
const TITLE_BYTES: usize = 1024;

/// Most bytes of the line under it.
const DESCRIPTION_BYTES: usize = 4096;

/// Why a body is no question. The asker's fault; nothing of the body is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadQuestion {
    /// It cannot be read.
    Json(JsonFault),
    /// Something is missing without which there is no question.
    Missing(&'static str),
    /// `_meta` names a session that the URL is not for.
    OtherSession,
    /// It is there, and is not what can be asked here.
    Unprocessable(&'static str),
}

/// Reads a question that came by the URL of `session`. Whether its sender proved itself is for the caller to say.
pub(super) fn read(
    body: &[u8],
    session: &SessionName,
    now_wall_ms: u64,
) -> Result<Asked, BadQuestion> {
    use BadQuestion::{Json, Missing, OtherSession, Unprocessable};

    let text = std::str::from_utf8(body).map_err(|_| Json(JsonFault::NotUtf8))?;
    let body = Exact::parse(text).map_err(Json)?;
    if !matches!(body, Exact::Object(_)) {
        return Err(Json(JsonFault::WrongKind));
    }
    let meta = match present(&body, "_meta") {
        None => return Err(Missing("_meta")),
        Some(meta @ Exact::Object(_)) => meta,
        Some(_) => return Err(Unprocessable("_meta must be an object")),
    };
    match present(meta, "com.pulsemcp/session-id") {
        None => {}
        Some(Exact::String(id)) if id == session.as_str() => {}
        Some(Exact::Number(id)) if **id == *session.as_str() => {}
        Some(_) => return Err(OtherSession),
    }
    let id = match string(meta, "com.pulsemcp/request-id")? {
        None | Some("") => return Err(Missing("_meta com.pulsemcp/request-id")),
        Some(id) => RequestId::parse(id).ok_or(Unprocessable(
            "the request id must be 1 to 128 characters of A-Z a-z 0-9 _ -",
        ))?,
    };
    let message = match string(&body, "message")? {
        None => return Err(Missing("message")),
        Some(blank) if blank.trim().is_empty() => return Err(Missing("message")),
        Some(message) => bounded(
            message,
            MESSAGE_BYTES,
            "the message is longer than 65536 bytes",
        )?,
    };
    if !matches!(string(&body, "mode")?, None | Some("form")) {
        return Err(Unprocessable("the only mode is form"));
    }
    let (title, description) = confirm_box(&body)?;
    let tool = string(meta, "com.pulsemcp/tool-name")?.unwrap_or_default();
    let tool = bounded(tool, TOOL_BYTES, "the tool name is longer than 256 bytes")?;
    // What cannot be read counts as not said; so does what is no string.
    let expires_at = present(meta, "com.pulsemcp/expires-at").and_then(Exact::as_str);
    Ok(Asked {
        id,
        session: session.clone(),
        message,
        tool,
        title,
        description,
        sender_verified: false,
        window: window(expires_at, now_wall_ms),
    })
}

/// The label of the box and the line under it. The page has this one box: a schema that asks for more, or for
/// something else, cannot be answered here.
fn confirm_box(body: &Exact) -> Result<(String, Option<String>), BadQuestion> {
    use BadQuestion::Unprocessable;
    const ONE_BOX: BadQuestion =
        Unprocessable("requestedSchema may have one property only, the boolean confirm");

    let schema = match present(body, "requestedSchema") {
        None => return Ok(Default::default()),
        Some(schema @ Exact::Object(_)) => schema,
        Some(_) => return Err(Unprocessable("requestedSchema must be an object")),
    };
    let confirm = match present(schema, "properties") {
        None => return Ok(Default::default()),
        Some(Exact::Object(properties)) => match properties.as_slice() {
            [] => return Ok(Default::default()),
            [(name, confirm @ Exact::Object(_))] if name == "confirm" => confirm,
            _ => return Err(ONE_BOX),
        },
        Some(_) => return Err(ONE_BOX),
    };
    if string(confirm, "type")? != Some("boolean") {
        return Err(ONE_BOX);
    }
    let title = string(confirm, "title")?.unwrap_or_default();
    let title = bounded(title, TITLE_BYTES, "the title is longer than 1024 bytes")?;
    let description = string(confirm, "description")?
        .filter(|text| !text.is_empty())
        .map(|text| {
            bounded(
                text,
                DESCRIPTION_BYTES,
                "the description is longer than 4096 bytes",
            )
        })
        .transpose()?;
    Ok((title, description))
}

/// A member that is there and not `null`.
fn present<'a>(object: &'a Exact, name: &str) -> Option<&'a Exact> {
    object
        .get(name)
        .filter(|value| !matches!(value, Exact::Null))
}

/// A member that is a string if it is there.
fn string<'a>(object: &'a Exact, name: &str) -> Result<Option<&'a str>, BadQuestion> {
    match present(object, name) {
        None => Ok(None),
        Some(Exact::String(text)) => Ok(Some(text)),
        Some(_) => Err(BadQuestion::Unprocessable("a text member is not a string")),
    }
}

fn bounded(text: &str, bytes: usize, longer: &'static str) -> Result<String, BadQuestion> {
    if text.len() > bytes {
        return Err(BadQuestion::Unprocessable(longer));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::BadQuestion::{Json, Missing, OtherSession, Unprocessable};
    use super::*;

    fn read_text(body: &str) -> Result<Asked, BadQuestion> {
        read(body.as_bytes(), &SessionName::parse("4711").unwrap(), 0)
    }

    const META: &str = r#""_meta":{"com.pulsemcp/request-id":"r-1"}"#;

    #[test]
    fn the_question_that_our_asker_sends_is_read_whole() {
        let question = crate::approval::Question {
            message: "Delete \"a.txt\"?\nSecond line \u{1F511}".to_owned(),
            title: "Delete it?".to_owned(),
            description: Some("There is no way back.".to_owned()),
            tool: "delete_file".to_owned(),
            request_id: RequestId::parse("r-1").unwrap(),
            expires_at_wall_ms: 105_000,
        };
        let asked = read(&question.to_json(), &SessionName::parse("a").unwrap(), 0).unwrap();
        assert_eq!(asked.id, question.request_id);
        assert_eq!(asked.session.as_str(), "a");
        assert_eq!(asked.message, question.message);
        assert_eq!(asked.title, question.title);
        assert_eq!(asked.description, question.description);
        assert_eq!(asked.tool, question.tool);
        assert_eq!(asked.window, Duration::from_secs(105));
        assert!(!asked.sender_verified);
    }

    #[test]
    fn a_bare_question_gets_the_defaults() {
        for more in [
            "",
            r#","mode":"form""#,
            r#","mode":null,"requestedSchema":null"#,
            r#","requestedSchema":{}"#,
            r#","requestedSchema":{"type":"object","properties":{}}"#,
            r#","requestedSchema":{"properties":{"confirm":{"type":"boolean"}}},"future":[1]"#,
        ] {
            let asked = read_text(&format!(r#"{{"message":"m",{META}{more}}}"#)).unwrap();
            assert_eq!(
                (asked.title.as_str(), asked.tool.as_str()),
                ("", ""),
                "{more}"
            );
            assert_eq!(asked.description, None);
            assert_eq!(asked.window, Duration::from_secs(3600));
        }
        for id in [r#""4711""#, "4711", "null"] {
            let meta =
                format!(r#"{{"com.pulsemcp/request-id":"r","com.pulsemcp/session-id":{id}}}"#);
            assert!(
                read_text(&format!(r#"{{"message":"m","_meta":{meta}}}"#)).is_ok(),
                "{id}"
            );
        }
        for odd in [r#""soon""#, "7", "[]"] {
            let meta =
                format!(r#"{{"com.pulsemcp/request-id":"r","com.pulsemcp/expires-at":{odd}}}"#);
            let asked = read_text(&format!(r#"{{"message":"m","_meta":{meta}}}"#)).unwrap();
            assert_eq!(asked.window, Duration::from_secs(3600));
        }
    }

    #[test]
    fn what_is_no_question_is_refused() {
        let full = |member: &str| format!(r#"{{"message":"m",{META},{member}}}"#);
        let text = "a text member is not a string";
        let box_only = "requestedSchema may have one property only, the boolean confirm";
        for (body, fault) in [
            (String::new(), Json(JsonFault::Syntax { offset: 0 })),
            ("[]".to_owned(), Json(JsonFault::WrongKind)),
            ("null".to_owned(), Json(JsonFault::WrongKind)),
            (full(r#""message":"other""#), Json(JsonFault::DuplicateMember)),
            (format!("{{{META}}}"), Missing("message")),
            (format!(r#"{{"message":null,{META}}}"#), Missing("message")),
            (format!(r#"{{"message":" \n\t ",{META}}}"#), Missing("message")),
            (format!(r#"{{"message":7,{META}}}"#), Unprocessable(text)),
            (r#"{"message":"m"}"#.to_owned(), Missing("_meta")),
            (r#"{"message":"m","_meta":[]}"#.to_owned(), Unprocessable("_meta must be an object")),
            (r#"{"message":"m","_meta":{}}"#.to_owned(), Missing("_meta com.pulsemcp/request-id")),
            (r#"{"message":"m","_meta":{"com.pulsemcp/request-id":7}}"#.to_owned(), Unprocessable(text)),
            (
                r#"{"message":"m","_meta":{"com.pulsemcp/request-id":"a b"}}"#.to_owned(),
                Unprocessable("the request id must be 1 to 128 characters of A-Z a-z 0-9 _ -"),
            ),
            (full(r#""mode":"url""#), Unprocessable("the only mode is form")),
            (full(r#""mode":"""#), Unprocessable("the only mode is form")),
            (full(r#""requestedSchema":[]"#), Unprocessable("requestedSchema must be an object")),
            (full(r#""requestedSchema":{"properties":[]}"#), Unprocessable(box_only)),
            (full(r#""requestedSchema":{"properties":{"confirm":{}}}"#), Unprocessable(box_only)),
            (full(r#""requestedSchema":{"properties":{"confirm":true}}"#), Unprocessable(box_only)),
            (
                full(r#""requestedSchema":{"properties":{"confirm":{"type":"string"}}}"#),
                Unprocessable(box_only),
            ),
            (
                full(r#""requestedSchema":{"properties":{"confirmed":{"type":"boolean"}}}"#),
                Unprocessable(box_only),
            ),
            (
                full(r#""requestedSchema":{"properties":{"confirm":{"type":"boolean"},"b":{"type":"string"}}}"#),
                Unprocessable(box_only),
            ),
            (
                r#"{"message":"m","_meta":{"com.pulsemcp/request-id":"r","com.pulsemcp/session-id":"4712"}}"#.to_owned(),
                OtherSession,
            ),
            (
                r#"{"message":"m","_meta":{"com.pulsemcp/request-id":"r","com.pulsemcp/session-id":4711.0}}"#.to_owned(),
                OtherSession,
            ),
            (r#"{"_meta":{"com.pulsemcp/session-id":["4711"]}}"#.to_owned(), OtherSession),
        ] {
            assert_eq!(read_text(&body).unwrap_err(), fault, "{body}");
        }
        let session = SessionName::parse("a").unwrap();
        assert_eq!(
            read(b"\"\xff\"", &session, 0).unwrap_err(),
            Json(JsonFault::NotUtf8)
        );
    }

    #[test]
    fn every_text_has_its_bound() {
        let body = |message: usize, tool: usize, title: usize, description: usize| {
            let [message, tool, title, description] =
                [message, tool, title, description].map(|length| "x".repeat(length));
            read_text(&format!(
                r#"{{"message":"{message}","requestedSchema":{{"properties":{{"confirm":{{"type":"boolean",
                "title":"{title}","description":"{description}"}}}}}},
                "_meta":{{"com.pulsemcp/request-id":"r","com.pulsemcp/tool-name":"{tool}"}}}}"#
            ))
        };
        assert!(body(65_536, 256, 1024, 4096).is_ok());
        for (message, tool, title, description) in [
            (65_537, 1, 1, 1),
            (1, 257, 1, 1),
            (1, 1, 1025, 1),
            (1, 1, 1, 4097),
        ] {
            let fault = body(message, tool, title, description).unwrap_err();
            assert!(matches!(fault, Unprocessable(text) if text.contains("longer")));
        }
    }
}
