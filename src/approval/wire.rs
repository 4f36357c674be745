//! The elicitation protocol's bodies: the question as it is sent, and what its replies mean.
//!
//! An endpoint's reply is hostile until it is read here. Exactly one shape is a yes: `action` the string `accept` and
//! `content.confirm` the boolean `true`, in a reply about the question that we asked. Every word that is not known is
//! a decline; a reply that is not of the protocol's form is the endpoint's failure. No text of a reply leaves this file
//! but a request id of the one permitted form.
//!
//! The HTTP status is the asker's to check: 200 to 299 for the question, exactly 200 for a poll.

use std::fmt;

use serde_json::value::RawValue;

use super::url::RequestId;
use crate::json::{JsonFault, Members, scan, string, write_string};

/// Longest reply that is read, in bytes. The largest in the protocol have some 400; an endpoint that echoes the question
/// stays under this too, and thousands of polls at once cannot fill the memory.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// The member of `_meta` that names the question.
const REQUEST_ID: &str = "com.pulsemcp/request-id";

/// The member of `_meta` that says when the question lapses.
const EXPIRES_AT: &str = "com.pulsemcp/expires-at";

/// The member of `_meta` that names the tool.
const TOOL_NAME: &str = "com.pulsemcp/tool-name";

/// A question to a person: all that is sent, and nothing that an agent wrote but what the prompt quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What would happen. Some pages collapse its newlines.
    pub message: String,
    /// The label of the box to tick, such as `Send this email?`.
    pub title: String,
    /// A line under the box; left out of the JSON if absent or empty.
    pub description: Option<String>,
    /// The tool's name.
    pub tool: String,
    /// Ours, fresh for this question.
    pub request_id: RequestId,
    /// When the question lapses, in milliseconds since 1970.
    pub expires_at_wall_ms: u64,
}

impl Question {
    /// The body of the POST, its members in the protocol's order. The schema is never empty (an empty form is accepted
    /// by some clients unseen), and its one box starts ticked: the page then needs no second click, and a person who
    /// unticks it has not confirmed.
    pub fn to_json(&self) -> Vec<u8> {
        let mut body = String::with_capacity(self.message.len() + 512);
        body.push_str(r#"{"mode":"form","message":"#);
        write_string(&mut body, &self.message);
        body.push_str(
            r#","requestedSchema":{"type":"object","properties":{"confirm":{"type":"boolean","title":"#,
        );
        write_string(&mut body, &self.title);
        if let Some(description) = self.description.as_deref().filter(|text| !text.is_empty()) {
            body.push_str(r#","description":"#);
            write_string(&mut body, description);
        }
        body.push_str(r#","default":true}},"required":["confirm"]},"_meta":{"#);
        write_string(&mut body, REQUEST_ID);
        body.push(':');
        write_string(&mut body, self.request_id.as_str());
        body.push(',');
        write_string(&mut body, EXPIRES_AT);
        body.push(':');
        write_string(&mut body, &rfc3339_utc_ms(self.expires_at_wall_ms));
        body.push(',');
        write_string(&mut body, TOOL_NAME);
        body.push(':');
        write_string(&mut body, &self.tool);
        body.push_str("}}");
        body.into_bytes()
    }
}

/// What a poll said. A closed enum: only [`Answer::Yes`] may act, and nothing turns it into a `bool`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Nobody has answered yet.
    Pending,
    /// `accept`, and the box is ticked.
    Yes,
    /// `accept` without a ticked box: unticked, no content, or a `confirm` that is not the boolean `true`.
    NotConfirmed,
    /// `decline`, or no word that the protocol knows.
    Declined,
    /// `cancel`.
    Cancelled,
    /// `expired`: the endpoint says that the question has lapsed.
    Expired,
}

/// Why a reply is no reply. The fault is the endpoint's; nothing of the body is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerFault {
    /// Longer than [`MAX_ANSWER_BYTES`].
    TooLong,
    /// Not JSON, or JSON that two readers may take differently.
    Json(JsonFault),
    /// JSON, but not an object.
    NotAnObject,
    /// `_meta` is there and is not an object.
    MetaNotAnObject,
    /// `requestId` is there and is not `[A-Za-z0-9_-]{1,128}`.
    RequestId,
    /// `_meta` names a question that is not this one.
    OtherQuestion,
}

impl fmt::Display for AnswerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the approval endpoint's reply ")?;
        match self {
            AnswerFault::TooLong => write!(f, "is longer than {MAX_ANSWER_BYTES} bytes"),
            AnswerFault::Json(fault) => write!(f, "cannot be read: {fault}"),
            AnswerFault::NotAnObject => f.write_str("is not a JSON object"),
            AnswerFault::MetaNotAnObject => f.write_str("holds a `_meta` that is not an object"),
            AnswerFault::RequestId => f.write_str("holds a request id of no permitted form"),
            AnswerFault::OtherQuestion => f.write_str("is about another question"),
        }
    }
}

impl std::error::Error for AnswerFault {}

impl From<JsonFault> for AnswerFault {
    fn from(fault: JsonFault) -> AnswerFault {
        AnswerFault::Json(fault)
    }
}

/// Reads the reply to the POST: the id to poll with. That is the endpoint's `requestId` if it gave one, else ours.
///
/// Nothing here is an answer, whatever `action` says. The endpoint's poll URL is not read either: it would be an address
/// that a stranger chose.
pub fn parse_created(body: &[u8], ours: &RequestId) -> Result<RequestId, AnswerFault> {
    let reply = open(body)?;
    check_question(&reply, &[ours])?;
    match reply.get("requestId") {
        None => Ok(ours.clone()),
        Some(id) => string(id)
            .and_then(|id| RequestId::parse(&id))
            .ok_or(AnswerFault::RequestId),
    }
}

/// Reads the reply to a poll. `polled` is the id that [`parse_created`] gave: the reply may name the question by it or by
/// ours, or not at all.
pub fn parse_poll(
    body: &[u8],
    ours: &RequestId,
    polled: &RequestId,
) -> Result<Answer, AnswerFault> {
    let reply = open(body)?;
    check_question(&reply, &[ours, polled])?;
    let action = reply.get("action").and_then(string);
    Ok(match action.as_deref() {
        Some("accept") if confirmed(&reply) => Answer::Yes,
        Some("accept") => Answer::NotConfirmed,
        Some("cancel") => Answer::Cancelled,
        Some("expired") => Answer::Expired,
        Some("pending") => Answer::Pending,
        // The spec: "Every other answer, an unrecognised one included, sends nothing." So `declined`, `Accept` and no
        // string at all are a decline, and at once: an unknown word is not waited on.
        Some(_) | None => Answer::Declined,
    })
}

/// Whether the box is ticked: `content` is an object and its `confirm` the boolean `true`. Further members are ignored.
fn confirmed(reply: &Members<'_>) -> bool {
    let Some(content) = reply.get("content").and_then(object) else {
        return false;
    };
    content
        .get("confirm")
        .is_some_and(|confirm| confirm.get() == "true")
}

/// Opens a body that is one JSON object, with no duplicate member at any level: of two `action`s, one reader takes the
/// first and another the last.
fn open(body: &[u8]) -> Result<Members<'_>, AnswerFault> {
    if body.len() > MAX_ANSWER_BYTES {
        return Err(AnswerFault::TooLong);
    }
    Members::parse(scan(body)?).map_err(|fault| match fault {
        JsonFault::WrongKind => AnswerFault::NotAnObject,
        other => AnswerFault::Json(other),
    })
}

/// Refuses a reply whose `_meta` names a question that is none of `known`. A reply that names none is about the one that
/// was asked for; an id that is no string is no name of it.
fn check_question(reply: &Members<'_>, known: &[&RequestId]) -> Result<(), AnswerFault> {
    let Some(meta) = reply.get("_meta").filter(|meta| meta.get() != "null") else {
        return Ok(());
    };
    let meta = object(meta).ok_or(AnswerFault::MetaNotAnObject)?;
    let Some(named) = meta.get(REQUEST_ID) else {
        return Ok(());
    };
    let named = string(named).ok_or(AnswerFault::OtherQuestion)?;
    if known.iter().any(|id| id.as_str() == named) {
        Ok(())
    } else {
        Err(AnswerFault::OtherQuestion)
    }
}

/// The members of a value that is an object.
fn object(value: &RawValue) -> Option<Members<'_>> {
    Members::parse(value.get()).ok()
}

/// The last millisecond that four digits of a year can name: 9999-12-31T23:59:59.999Z.
const LAST_MS: u64 = 253_402_300_799_999;

/// Milliseconds since 1970 as RFC 3339 in UTC, with milliseconds: `2026-11-30T12:03:45.000Z`. Later than the year 9999
/// counts as its last millisecond (RFC 3339, section 5.6: `date-fullyear = 4DIGIT`).
pub fn rfc3339_utc_ms(wall_ms: u64) -> String {
    let wall_ms = wall_ms.min(LAST_MS);
    let (year, month, day) = civil_date(wall_ms / 86_400_000);
    let (ms, seconds) = (wall_ms % 1_000, wall_ms / 1_000);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.
///
/// Years are counted from March, so that the leap day is the last of its year and every month but the last has a fixed
/// place: five months from March (and from August) have 153 days.
fn civil_date(days_since_1970: u64) -> (u64, u64, u64) {
    /// Days from 0000-03-01 to 1970-01-01.
    const DAYS_TO_1970: u64 = 719_468;
    /// Days in 400 years, after which the calendar repeats.
    const DAYS_IN_ERA: u64 = 146_097;
    /// Days in 100 years whose last has no leap day.
    const DAYS_IN_CENTURY: u64 = 36_524;
    /// Days in 4 years with one leap day.
    const DAYS_IN_FOUR: u64 = 1_461;
    /// Days in a year without one.
    const DAYS_IN_YEAR: u64 = 365;

    let days = days_since_1970 + DAYS_TO_1970;
    let (era, mut day) = (days / DAYS_IN_ERA, days % DAYS_IN_ERA);
    // The last century of an era and the last year of four are one day longer: never a fifth.
    let century = (day / DAYS_IN_CENTURY).min(3);
    day -= century * DAYS_IN_CENTURY;
    let four = day / DAYS_IN_FOUR;
    day -= four * DAYS_IN_FOUR;
    let year = (day / DAYS_IN_YEAR).min(3);
    day -= year * DAYS_IN_YEAR;

    let month_from_march = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month_from_march + 2) / 5 + 1;
    let (month, next_year) = if month_from_march < 10 {
        (month_from_march + 3, 0)
    } else {
        (month_from_march - 9, 1)
    };
    (
        400 * era + 100 * century + 4 * four + year + next_year,
        month,
        day_of_month,
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const OURS: &str = "5b0d9a0e-2c1e-4a55-9f0b-0c5f6f7b1a21";
    const THEIRS: &str = "srv-88";

    fn id(text: &str) -> RequestId {
        RequestId::parse(text).unwrap()
    }

    fn question() -> Question {
        Question {
            message: "[mail] To: \"kim@example.org\" | cannot be undone".to_owned(),
            title: "Send this email?".to_owned(),
            description: Some("Tick to send now.".to_owned()),
            tool: "send_email".to_owned(),
            request_id: id(OURS),
            expires_at_wall_ms: 1_796_040_225_000,
        }
    }

    /// The reply to a poll, read as the asker reads it.
    fn poll(body: &str) -> Result<Answer, AnswerFault> {
        parse_poll(body.as_bytes(), &id(OURS), &id(THEIRS))
    }

    /// The reply to the POST, read as the asker reads it.
    fn created(body: &str) -> Result<String, AnswerFault> {
        parse_created(body.as_bytes(), &id(OURS)).map(|id| id.to_string())
    }

    #[test]
    fn a_question_has_the_protocols_members_in_their_order() {
        let expected = concat!(
            r#"{"mode":"form","message":"[mail] To: \"kim@example.org\" | cannot be undone","#,
            r#""requestedSchema":{"type":"object","properties":{"confirm":{"type":"boolean","#,
            r#""title":"Send this email?","description":"Tick to send now.","default":true}},"required":["confirm"]},"#,
            r#""_meta":{"com.pulsemcp/request-id":"5b0d9a0e-2c1e-4a55-9f0b-0c5f6f7b1a21","#,
            r#""com.pulsemcp/expires-at":"2026-11-30T12:03:45.000Z","com.pulsemcp/tool-name":"send_email"}}"#,
        );
        assert_eq!(String::from_utf8(question().to_json()).unwrap(), expected);
    }

    #[test]
    fn an_absent_or_empty_description_is_left_out() {
        for description in [None, Some(String::new())] {
            let body = String::from_utf8(
                Question {
                    description,
                    ..question()
                }
                .to_json(),
            )
            .unwrap();
            let schema =
                r#"{"confirm":{"type":"boolean","title":"Send this email?","default":true}}"#;
            assert!(body.contains(schema), "{body}");
        }
    }

    #[test]
    fn no_text_breaks_out_of_its_member() {
        let text = "a\"b\\c\n\r\t\0\u{7f}\u{2028}é\u{1F600}\",\"_meta\":{\"x\":1}}";
        let hostile = Question {
            message: text.to_owned(),
            title: text.to_owned(),
            description: Some(text.to_owned()),
            tool: text.to_owned(),
            ..question()
        };
        let body = hostile.to_json();
        assert!(scan(&body).is_ok());
        let value: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let box_shown = &value["requestedSchema"]["properties"]["confirm"];
        assert_eq!(value["message"], text);
        assert_eq!(
            (&box_shown["title"], &box_shown["description"]),
            (&text.into(), &text.into())
        );
        assert_eq!(value["_meta"][TOOL_NAME], text);
        assert_eq!(value["_meta"][REQUEST_ID], OURS);
        assert_eq!(
            (
                value.as_object().unwrap().len(),
                value["_meta"].as_object().unwrap().len()
            ),
            (4, 3)
        );
    }

    /// Case A1, A8: every word but `accept` sends nothing, ticked box or not.
    #[test]
    fn every_word_but_accept_is_no_yes() {
        let words = [
            (r#""pending""#, Answer::Pending),
            (r#""decline""#, Answer::Declined),
            (r#""cancel""#, Answer::Cancelled),
            (r#""expired""#, Answer::Expired),
            // Past tense, other cases, other words.
            (r#""declined""#, Answer::Declined),
            (r#""accepted""#, Answer::Declined),
            (r#""approved""#, Answer::Declined),
            (r#""approve""#, Answer::Declined),
            (r#""cancelled""#, Answer::Declined),
            (r#""canceled""#, Answer::Declined),
            (r#""expire""#, Answer::Declined),
            (r#""reject""#, Answer::Declined),
            (r#""rejected""#, Answer::Declined),
            (r#""confirm""#, Answer::Declined),
            (r#""confirmed""#, Answer::Declined),
            (r#""allow""#, Answer::Declined),
            (r#""ok""#, Answer::Declined),
            (r#""yes""#, Answer::Declined),
            (r#""true""#, Answer::Declined),
            (r#""1""#, Answer::Declined),
            (r#""Accept""#, Answer::Declined),
            (r#""ACCEPT""#, Answer::Declined),
            (r#""Pending""#, Answer::Declined),
            (r#"" accept ""#, Answer::Declined),
            (r#"" accept""#, Answer::Declined),
            (r#""accept ""#, Answer::Declined),
            (r#""accept\n""#, Answer::Declined),
            (r#""accept\u0000""#, Answer::Declined),
            (r#""\"accept\"""#, Answer::Declined),
            (r#""accept,decline""#, Answer::Declined),
            (r#""accep""#, Answer::Declined),
            (r#""accept2""#, Answer::Declined),
            ("\"\u{430}ccept\"", Answer::Declined),
            ("\"accept\u{200b}\"", Answer::Declined),
            ("\"ａccept\"", Answer::Declined),
            (r#""""#, Answer::Declined),
            // No string.
            ("null", Answer::Declined),
            ("true", Answer::Declined),
            ("false", Answer::Declined),
            ("1", Answer::Declined),
            ("0", Answer::Declined),
            ("[]", Answer::Declined),
            (r#"["accept"]"#, Answer::Declined),
            ("{}", Answer::Declined),
            (r#"{"action":"accept"}"#, Answer::Declined),
            (r#"{"accept":true}"#, Answer::Declined),
        ];
        for (word, answer) in words {
            for content in [r#"{"confirm":true}"#, r#"{"confirm":false}"#, "null", "{}"] {
                let body = format!(r#"{{"action":{word},"content":{content}}}"#);
                assert_eq!(poll(&body), Ok(answer), "{body}");
            }
        }
    }

    /// Case A3, A5: what an accept needs besides the word.
    #[test]
    fn an_accept_counts_only_with_the_box_ticked() {
        let contents = [
            // The one shape, and what does not change it.
            (r#"{"confirm":true}"#, Answer::Yes),
            (r#" { "confirm" : true } "#, Answer::Yes),
            (r#"{"confirm":true,"note":"ok"}"#, Answer::Yes),
            (r#"{"note":{"confirm":false},"confirm":true}"#, Answer::Yes),
            (r#"{"c\u006fnfirm":true}"#, Answer::Yes),
            // Everything else.
            (r#"{"confirm":false}"#, Answer::NotConfirmed),
            (r#"{"confirm":null}"#, Answer::NotConfirmed),
            (r#"{"confirm":"true"}"#, Answer::NotConfirmed),
            (r#"{"confirm":"false"}"#, Answer::NotConfirmed),
            (r#"{"confirm":"yes"}"#, Answer::NotConfirmed),
            (r#"{"confirm":""}"#, Answer::NotConfirmed),
            (r#"{"confirm":1}"#, Answer::NotConfirmed),
            (r#"{"confirm":0}"#, Answer::NotConfirmed),
            (r#"{"confirm":1.0}"#, Answer::NotConfirmed),
            (r#"{"confirm":[]}"#, Answer::NotConfirmed),
            (r#"{"confirm":[true]}"#, Answer::NotConfirmed),
            (r#"{"confirm":{}}"#, Answer::NotConfirmed),
            (r#"{"confirm":{"confirm":true}}"#, Answer::NotConfirmed),
            (r#"{"Confirm":true}"#, Answer::NotConfirmed),
            (r#"{"CONFIRM":true}"#, Answer::NotConfirmed),
            (r#"{"confirm ":true}"#, Answer::NotConfirmed),
            (r#"{"confirmed":true}"#, Answer::NotConfirmed),
            (r#"{"confirm_send":true}"#, Answer::NotConfirmed),
            (r#"{"approved":true}"#, Answer::NotConfirmed),
            (r#"{"content":{"confirm":true}}"#, Answer::NotConfirmed),
            ("{}", Answer::NotConfirmed),
            ("null", Answer::NotConfirmed),
            ("true", Answer::NotConfirmed),
            ("1", Answer::NotConfirmed),
            (r#""confirm""#, Answer::NotConfirmed),
            (r#""{\"confirm\":true}""#, Answer::NotConfirmed),
            ("[]", Answer::NotConfirmed),
            (r#"[{"confirm":true}]"#, Answer::NotConfirmed),
            (r#"["confirm",true]"#, Answer::NotConfirmed),
        ];
        for (content, answer) in contents {
            let first = format!(r#"{{"action":"accept","content":{content}}}"#);
            assert_eq!(poll(&first), Ok(answer), "{first}");
            let last = format!(r#" {{"content":{content},"x":[{{}}],"action":"\u0061ccept"}} "#);
            assert_eq!(poll(&last), Ok(answer), "{last}");
        }
        assert_eq!(poll(r#"{"action":"accept"}"#), Ok(Answer::NotConfirmed));
        assert_eq!(
            poll(r#"{"action":"accept","confirm":true}"#),
            Ok(Answer::NotConfirmed)
        );
        assert_eq!(
            poll(r#"{"action":"accept","Content":{"confirm":true}}"#),
            Ok(Answer::NotConfirmed)
        );
    }

    /// Case A6: content beside a decline is not read.
    #[test]
    fn a_decline_with_a_ticked_box_is_a_decline() {
        let body = r#"{"action":"decline","content":{"confirm":true}}"#;
        assert_eq!(poll(body), Ok(Answer::Declined));
    }

    /// Case A11: a reply of another shape is an answer or a fault at once, and never pending.
    #[test]
    fn a_reply_of_another_shape_is_not_waited_on() {
        for body in [
            "{}",
            r#"{"approved":true}"#,
            r#"{"status":"pending"}"#,
            r#"{"result":{"action":"accept"}}"#,
        ] {
            assert_eq!(poll(body), Ok(Answer::Declined), "{body}");
        }
        for body in [
            "null",
            "true",
            "1",
            r#""accept""#,
            "[]",
            r#"[{"action":"accept","content":{"confirm":true}}]"#,
        ] {
            assert_eq!(poll(body), Err(AnswerFault::NotAnObject), "{body}");
            assert_eq!(created(body), Err(AnswerFault::NotAnObject), "{body}");
        }
        let yes = r#"{"action":"accept","content":{"confirm":true}}"#;
        for body in [
            String::new(),
            " ".to_owned(),
            "<html></html>".to_owned(),
            "{".to_owned(),
            format!("\u{feff}{yes}"),
            format!("{yes}{yes}"),
            format!("{yes}x"),
            format!("{yes}\0"),
            format!("// yes\n{yes}"),
            yes.replace('"', "'"),
            yes.replace("}}", ",}}"),
            yes.replace("}}", "},}"),
            yes.replace("true", "True"),
            yes.replace("accept", "accept\\ud800"),
            yes.replace("accept", "accept\n"),
        ] {
            assert!(
                matches!(poll(&body), Err(AnswerFault::Json(_))),
                "{body:?}: {:?}",
                poll(&body)
            );
            assert!(
                matches!(created(&body), Err(AnswerFault::Json(_))),
                "{body:?}"
            );
        }
        let not_utf8 = [
            &b"{\"action\":\"accept\",\"content\":{\"confirm\":true},\"x\":\""[..],
            &[0xFF],
            b"\"}",
        ]
        .concat();
        assert_eq!(
            parse_poll(&not_utf8, &id(OURS), &id(OURS)),
            Err(AnswerFault::Json(JsonFault::NotUtf8))
        );
    }

    #[test]
    fn no_beginning_of_a_yes_is_an_answer() {
        let yes = format!(
            r#"{{"action":"accept","content":{{"confirm":true}},"_meta":{{"{REQUEST_ID}":"{OURS}"}}}}"#
        );
        assert_eq!(poll(&yes), Ok(Answer::Yes));
        for end in 0..yes.len() {
            assert!(poll(&yes[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn a_member_twice_is_a_fault_at_any_level() {
        for body in [
            r#"{"action":"decline","action":"accept","content":{"confirm":true}}"#,
            r#"{"action":"accept","content":{"confirm":true},"action":"accept"}"#,
            r#"{"action":"accept","\u0061ction":"accept","content":{"confirm":true}}"#,
            r#"{"action":"accept","content":{"confirm":false},"content":{"confirm":true}}"#,
            r#"{"action":"accept","content":{"confirm":false,"confirm":true}}"#,
            r#"{"action":"accept","content":{"confirm":true,"confirm":true}}"#,
            r#"{"action":"accept","content":{"confirm":true,"c\u006fnfirm":false}}"#,
            r#"{"action":"accept","content":{"confirm":true,"x":{"a":1,"a":2}}}"#,
            r#"{"action":"accept","content":{"confirm":true},"x":[[{"a":1,"a":2}]]}"#,
            r#"{"action":"accept","content":{"confirm":true},"_meta":{},"_meta":{}}"#,
            r#"{"action":"decline","x":1,"x":1}"#,
        ] {
            assert_eq!(
                poll(body),
                Err(AnswerFault::Json(JsonFault::DuplicateMember)),
                "{body}"
            );
            assert_eq!(
                created(body),
                Err(AnswerFault::Json(JsonFault::DuplicateMember)),
                "{body}"
            );
        }
    }

    #[test]
    fn a_reply_is_bounded() {
        let padded = |length: usize| {
            let yes = r#"{"action":"accept","content":{"confirm":true}}"#;
            format!("{yes}{}", " ".repeat(length - yes.len()))
        };
        assert_eq!(poll(&padded(MAX_ANSWER_BYTES)), Ok(Answer::Yes));
        assert_eq!(
            poll(&padded(MAX_ANSWER_BYTES + 1)),
            Err(AnswerFault::TooLong)
        );
        assert_eq!(
            created(&padded(MAX_ANSWER_BYTES + 1)),
            Err(AnswerFault::TooLong)
        );
        let deep = |levels: usize| {
            let (open, close) = ("[".repeat(levels), "]".repeat(levels));
            format!(r#"{{"action":"accept","content":{{"confirm":true}},"x":{open}{close}}}"#)
        };
        assert_eq!(poll(&deep(60)), Ok(Answer::Yes));
        assert_eq!(
            poll(&deep(30_000)),
            Err(AnswerFault::Json(JsonFault::TooDeep))
        );
    }

    /// Case A9: the question that an answer is about is read from its own member, and from nothing else.
    #[test]
    fn an_answer_about_another_question_is_a_fault() {
        let with_meta = |meta: &str| {
            format!(r#"{{"action":"accept","content":{{"confirm":true}},"_meta":{meta}}}"#)
        };
        let named = |name: &str| with_meta(&format!(r#"{{"{REQUEST_ID}":{name}}}"#));
        for body in [
            named(&format!("\"{OURS}\"")),
            named(&format!("\"{THEIRS}\"")),
            with_meta("{}"),
            with_meta("null"),
            with_meta(r#"{"com.pulsemcp/responded-at":"2026-11-30T12:00:07Z"}"#),
            with_meta(r#"{"request-id":"other"}"#),
            r#"{"requestId":"other","action":"accept","content":{"confirm":true}}"#.to_owned(),
        ] {
            assert_eq!(poll(&body), Ok(Answer::Yes), "{body}");
        }
        let upper = format!("\"{}\"", OURS.to_uppercase());
        for name in [
            r#""other""#,
            r#""""#,
            "null",
            "88",
            "true",
            "[]",
            r#"["srv-88"]"#,
            r#""srv-88 ""#,
            &upper,
        ] {
            assert_eq!(
                poll(&named(name)),
                Err(AnswerFault::OtherQuestion),
                "{name}"
            );
            assert_eq!(
                created(&named(name)),
                Err(AnswerFault::OtherQuestion),
                "{name}"
            );
        }
        for meta in ["[]", r#""""#, "1", "true", "false"] {
            assert_eq!(
                poll(&with_meta(meta)),
                Err(AnswerFault::MetaNotAnObject),
                "{meta}"
            );
            assert_eq!(
                created(&with_meta(meta)),
                Err(AnswerFault::MetaNotAnObject),
                "{meta}"
            );
        }
        // A decline about another question is no decline of this one.
        let body = format!(r#"{{"action":"decline","_meta":{{"{REQUEST_ID}":"other"}}}}"#);
        assert_eq!(poll(&body), Err(AnswerFault::OtherQuestion));
    }

    #[test]
    fn the_reply_to_the_question_names_the_id_to_poll_and_nothing_more() {
        let meta =
            |name: &str| format!(r#"{{"action":"pending","_meta":{{"{REQUEST_ID}":"{name}"}}}}"#);
        let poll_url =
            r#"{"action":"pending","_meta":{"com.pulsemcp/poll-url":"https://evil.example/x"}}"#;
        for (body, polled) in [
            ("{}", OURS),
            (r#"{"action":"pending"}"#, OURS),
            (&meta(OURS), OURS),
            (poll_url, OURS),
            (r#"{"requestId":"srv-88"}"#, "srv-88"),
            (
                r#"{"requestId":"srv-88","action":"pending","_meta":null}"#,
                "srv-88",
            ),
            (&format!(r#"{{"requestId":"{OURS}"}}"#), OURS),
            // No action is an answer here.
            (r#"{"action":"accept","content":{"confirm":true}}"#, OURS),
            (
                r#"{"action":"accept","content":{"confirm":true},"requestId":"srv-88"}"#,
                "srv-88",
            ),
            (r#"{"action":"decline"}"#, OURS),
            (r#"{"action":7}"#, OURS),
            (r#"{"RequestId":"srv-88","request_id":"srv-88"}"#, OURS),
        ] {
            assert_eq!(created(body).as_deref(), Ok(polled), "{body}");
        }
        assert_eq!(created(&meta("other")), Err(AnswerFault::OtherQuestion));
        // The id that an endpoint gave is known only once this has been read: here only ours is.
        assert_eq!(created(&meta(THEIRS)), Err(AnswerFault::OtherQuestion));
        let both = format!(r#"{{"requestId":"{THEIRS}","_meta":{{"{REQUEST_ID}":"{THEIRS}"}}}}"#);
        assert_eq!(created(&both), Err(AnswerFault::OtherQuestion));
    }

    #[test]
    fn a_request_id_that_is_no_path_segment_fails_the_endpoint() {
        let long = format!("\"{}\"", "a".repeat(129));
        for id in [
            r#""""#,
            r#"".""#,
            r#""..""#,
            r#""../x""#,
            r#""a/b""#,
            r#""/""#,
            r#""a?b""#,
            r#""a#b""#,
            r#""a%2fb""#,
            r#""a b""#,
            r#""a\\b""#,
            r#""a\n""#,
            r#""a\u0000""#,
            r#""é""#,
            r#""https://evil.example/x""#,
            "null",
            "1",
            "true",
            "[]",
            "{}",
            &long,
        ] {
            assert_eq!(
                created(&format!(r#"{{"requestId":{id}}}"#)),
                Err(AnswerFault::RequestId),
                "{id}"
            );
        }
    }

    #[test]
    fn no_fault_repeats_the_body() {
        for body in [
            "SECRET",
            r#""SECRET""#,
            r#"{"SECRET":1,"SECRET":2}"#,
            r#"{"requestId":"SECRET/"}"#,
            r#"{"_meta":"SECRET"}"#,
            r#"{"_meta":{"com.pulsemcp/request-id":"SECRET"}}"#,
        ] {
            let fault = created(body).unwrap_err();
            assert!(!format!("{fault} {fault:?}").contains("SECRET"), "{fault}");
            assert!(
                fault
                    .to_string()
                    .starts_with("the approval endpoint's reply "),
                "{fault}"
            );
        }
    }

    #[test]
    fn a_time_is_written_as_rfc_3339_with_milliseconds() {
        for (wall_ms, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1, "1970-01-01T00:00:00.001Z"),
            (999, "1970-01-01T00:00:00.999Z"),
            (1_000, "1970-01-01T00:00:01.000Z"),
            (86_399_999, "1970-01-01T23:59:59.999Z"),
            (86_400_000, "1970-01-02T00:00:00.000Z"),
            (68_169_600_000, "1972-02-29T00:00:00.000Z"),
            (68_256_000_000, "1972-03-01T00:00:00.000Z"),
            (946_684_799_999, "1999-12-31T23:59:59.999Z"),
            (946_684_800_000, "2000-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_000_000_000_000, "2001-09-09T01:46:40.000Z"),
            (1_234_567_890_123, "2009-02-13T23:31:30.123Z"),
            (2_147_483_647_000, "2038-01-19T03:14:07.000Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_740_787_200_000, "2025-03-01T00:00:00.000Z"),
            (1_796_040_225_000, "2026-11-30T12:03:45.000Z"),
            (4_107_542_399_000, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (13_574_563_200_000, "2400-02-29T00:00:00.000Z"),
            (LAST_MS, "9999-12-31T23:59:59.999Z"),
            (LAST_MS + 1, "9999-12-31T23:59:59.999Z"),
            (u64::MAX, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(rfc3339_utc_ms(wall_ms), expected, "{wall_ms}");
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let leap = |year: u64| {
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
        };
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..=LAST_MS / 86_400_000 {
            assert_eq!(civil_date(days), (year, month, day));
            let in_month = match month {
                2 => 28 + u64::from(leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            (day, month) = if day < in_month {
                (day + 1, month)
            } else {
                (1, month + 1)
            };
            (year, month) = if month <= 12 {
                (year, month)
            } else {
                (year + 1, 1)
            };
        }
        assert_eq!(year, 10_000);
    }
}
