//! Replies of an approval endpoint.

use countersign::approval::url::RequestId;
use countersign::approval::wire::{self, Answer, AnswerFault};
use serde_json::Value;

/// The id of every question here.
const OURS: &str = "5b0d9a0e-2c1e-4a55-9f0b-0c5f6f7b1a21";

/// The id that the endpoint gave.
const POLLED: &str = "srv-88";

/// A reply is a yes only if an independent reader sees `accept`, a ticked box and no other question; and every other
/// answer is the one that such a reader would give. The id to poll with is ours or one path segment that the reply holds.
pub fn approval_answer(data: &[u8]) {
    let ours = RequestId::parse(OURS).expect("of the permitted form");
    let polled = RequestId::parse(POLLED).expect("of the permitted form");
    let answer = wire::parse_poll(data, &ours, &polled);
    let created = wire::parse_created(data, &ours);
    let unread =
        |fault: &AnswerFault| !matches!(fault, AnswerFault::OtherQuestion | AnswerFault::RequestId);
    if answer.as_ref().is_err_and(unread) && created.as_ref().is_err_and(unread) {
        return;
    }
    assert!(data.len() <= wire::MAX_ANSWER_BYTES);
    // A member whose name begins with `$serde_json` has a meaning of its own to `Value`: here it is no independent reader.
    if data.contains(&b'$') || data.windows(6).any(|six| six == br"\u0024") {
        return;
    }
    let value: Value = serde_json::from_slice(data).expect("what was read is JSON");
    assert!(value.is_object());
    let named = value
        .get("_meta")
        .and_then(|meta| meta.get("com.pulsemcp/request-id"));

    assert_eq!(
        answer == Err(AnswerFault::OtherQuestion),
        named.is_some_and(|named| *named != OURS && *named != POLLED),
        "{value}"
    );
    if let Ok(answer) = answer {
        let ticked = value
            .get("content")
            .and_then(|content| content.get("confirm"))
            == Some(&Value::Bool(true));
        let expected = match value.get("action").and_then(Value::as_str) {
            Some("accept") if ticked => Answer::Yes,
            Some("accept") => Answer::NotConfirmed,
            Some("cancel") => Answer::Cancelled,
            Some("expired") => Answer::Expired,
            Some("pending") => Answer::Pending,
            _ => Answer::Declined,
        };
        assert_eq!(answer, expected, "{value}");
    }
    if let Ok(id) = created {
        assert!(
            named.is_none_or(|named| *named == OURS),
            "another question: {named:?}"
        );
        assert_eq!(
            Value::from(id.as_str()),
            *value.get("requestId").unwrap_or(&Value::from(OURS))
        );
        let segment = id
            .as_str()
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        assert!(segment && (1..=128).contains(&id.as_str().len()), "{id}");
    }
}
