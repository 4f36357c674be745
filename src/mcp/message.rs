//! JSON-RPC messages.

use std::borrow::Cow;
use std::fmt;

use serde_json::value::RawValue;

use super::version::Version;
use crate::json::{self, JsonFault, Members, quote};

/// The longest id, in bytes of JSON: it is echoed, so it is held for as long as the call.
const MAX_ID_BYTES: usize = 256;

/// The longest method name that is looked at, in bytes.
const MAX_METHOD_BYTES: usize = 128;

/// A request's id: a string or an integer, kept as it was written, so that it goes back with the same JSON type.
#[derive(Clone)]
pub struct Id(Box<RawValue>);

impl Id {
    /// Takes an id as it stands in a message; `None` for anything but a string or an integer ("never null").
    #[must_use]
    pub fn parse(value: &RawValue) -> Option<Self> {
        let text = value.get();
        let fits = text.len() <= MAX_ID_BYTES && (text.starts_with('"') || is_integer(text));
        fits.then(|| Self(value.to_owned()))
    }

    /// An id of ours.
    #[must_use]
    pub fn number(number: u64) -> Self {
        Self(RawValue::from_string(number.to_string()).unwrap_or_default())
    }

    /// The id as JSON.
    #[must_use]
    pub fn as_json(&self) -> &str {
        self.0.get()
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.get())
    }
}

/// Whether a JSON text is an integer: a progress token and an id are a string or one of these.
pub(super) fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// One message as it came in.
pub enum Message<'a> {
    /// Wants an answer.
    Request {
        /// To be echoed.
        id: Id,
        /// What is asked.
        method: Cow<'a, str>,
        /// Its parameters, empty where the message has none.
        params: Members<'a>,
    },
    /// Wants none.
    Notification {
        /// What happened.
        method: Cow<'a, str>,
        /// Its parameters, empty where the message has none.
        params: Members<'a>,
    },
    /// An answer to a request of ours.
    Response {
        /// The request's id; `None` where there is none that could be ours.
        id: Option<Id>,
        /// The result, or the error in its place.
        outcome: Result<&'a RawValue, RpcError>,
    },
}

/// Messages in one batch of 2025-03-26: each may cost as much as a request of its own.
const MOST_IN_BATCH: usize = 32;

/// A body: one message, or several of 2025-03-26.
pub(super) enum Body<'a> {
    /// One message, or the error to answer it with.
    One(Result<Message<'a>, RpcError>),
    /// Several, each with its error where it is none.
    Batch(Vec<Result<Message<'a>, RpcError>>),
}

/// Reads a body.
///
/// # Errors
/// The error to answer with, where no message could be told from another.
pub(super) fn parse(body: &[u8]) -> Result<Body<'_>, RpcError> {
    let text = json::scan(body).map_err(|fault| match fault {
        JsonFault::Syntax { .. } | JsonFault::NotUtf8 => {
            RpcError::new(-32700, format!("parse error: {fault}"))
        }
        _ => RpcError::new(-32600, format!("invalid request: {fault}")),
    })?;
    let Ok(messages) = json::elements(text) else {
        return Ok(Body::One(message(text)));
    };
    if messages.is_empty() || messages.len() > MOST_IN_BATCH {
        return Err(invalid(&format!(
            "a batch has 1 to {MOST_IN_BATCH} messages"
        )));
    }
    let messages = messages.into_iter().map(|each| message(each.get()));
    Ok(Body::Batch(messages.collect()))
}

fn invalid(what: &str) -> RpcError {
    RpcError::new(-32600, format!("invalid request: {what}"))
}

/// Reads one message of a scanned text, or says what to answer to it.
fn message(text: &str) -> Result<Message<'_>, RpcError> {
    let members = Members::parse(text).map_err(|_| invalid("not one JSON object"))?;
    if members.get("jsonrpc").map(RawValue::get) != Some("\"2.0\"") {
        return Err(invalid("jsonrpc is not \"2.0\""));
    }
    let Some(method) = members.get("method") else {
        let id = members.get("id").and_then(Id::parse);
        let outcome = match (members.get("result"), members.get("error")) {
            (Some(result), None) => Ok(result),
            (None, Some(error)) => Err(RpcError::parse(error)),
            _ => return Err(invalid("no method")),
        };
        return Ok(Message::Response { id, outcome });
    };
    let method = json::string(method)
        .filter(|method| method.len() <= MAX_METHOD_BYTES)
        .ok_or_else(|| invalid("the method is not a short string"))?;
    let params = members.get("params").map_or("{}", RawValue::get);
    let params = Members::parse(params);
    let Some(id) = members.get("id") else {
        // A notification is never answered, so that its parameters cannot be refused either.
        let params = params.or_else(|_| Members::parse("{}"));
        let params = params.map_err(|_| invalid("params is not an object"))?;
        return Ok(Message::Notification { method, params });
    };
    let id = Id::parse(id).ok_or_else(|| invalid("the id is neither a string nor an integer"))?;
    let params =
        params.map_err(|_| RpcError::new(-32602, "params is not an object").about(id.clone()))?;
    Ok(Message::Request { id, method, params })
}

/// A JSON-RPC error, and the HTTP status that goes with it when no stream is open yet.
#[derive(Clone, Debug)]
pub struct RpcError {
    /// The protocol's code.
    pub code: i64,
    /// For people and models; no credential, no path of an approval URL.
    pub message: String,
    /// The `data` member, as JSON.
    pub data: Option<String>,
    /// The HTTP status.
    pub status: u16,
    /// The request it is about, where that could be read.
    id: Option<Id>,
}

impl RpcError {
    /// An error with the status that the protocol wants for its code: 404 for an unknown method, 400 for what is wrong
    /// with the request, 200 for what went wrong behind it.
    #[must_use]
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        let status = match code {
            -32601 => 404,
            -32603 => 200,
            _ => 400,
        };
        Self {
            code,
            message: message.into(),
            data: None,
            status,
            id: None,
        }
    }

    /// Reads the `error` member of a message; one that is broken is an error all the same.
    #[must_use]
    pub(super) fn parse(error: &RawValue) -> Self {
        let members = Members::parse(error.get()).ok();
        let member = |name: &str| members.as_ref().and_then(|members| members.get(name));
        let code = member("code").and_then(|code| code.get().parse().ok());
        let text = member("message").and_then(json::string).unwrap_or_default();
        Self {
            data: member("data").map(|data| data.get().to_owned()),
            ..Self::new(code.unwrap_or(-32603), text.into_owned())
        }
    }

    /// With a `data` member, given as JSON.
    #[must_use]
    pub fn with_data(mut self, data: String) -> Self {
        self.data = Some(data);
        self
    }

    /// With another code, and the status that goes with it.
    #[must_use]
    pub fn with_code(self, code: i64) -> Self {
        let status = Self::new(code, "").status;
        Self {
            code,
            status,
            ..self
        }
    }

    /// With another HTTP status.
    #[must_use]
    pub const fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// With the status that callers of an era expect. Before 2026-07-28 an error that answers a request is a message
    /// like any other, in a 200: clients of that time take another status for a fault of the transport, and hide the
    /// code. What is refused by a limit keeps its status in both.
    pub(super) fn of_era(mut self, version: Version) -> Self {
        if version.is_modern() {
            return self;
        }
        if matches!(self.code, -32601 | -32602) {
            self.status = 200;
        }
        // The modern codes mean nothing there.
        if matches!(self.code, -32022..=-32020) {
            self = Self {
                code: -32603,
                status: 200,
                ..self
            };
        }
        self
    }

    fn about(mut self, id: Id) -> Self {
        self.id = Some(id);
        self
    }

    /// The whole message. Where no id could be read there is none: "never `null`".
    pub(super) fn to_json(&self, id: Option<&Id>) -> String {
        let id = id
            .or(self.id.as_ref())
            .map_or_else(String::new, |id| format!(r#""id":{},"#, id.as_json()));
        let data = self
            .data
            .as_ref()
            .map_or_else(String::new, |data| format!(r#","data":{data}"#));
        format!(
            r#"{{"jsonrpc":"2.0",{id}"error":{{"code":{},"message":{}{data}}}}}"#,
            self.code,
            quote(&self.message)
        )
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.message, self.code)
    }
}

impl std::error::Error for RpcError {}

/// A whole answer to a request.
pub(super) fn response(id: &Id, result: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#,
        id.as_json()
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn ids_keep_their_json_type() {
        for (text, echoed) in [
            ("7", "7"),
            ("\"7\"", "\"7\""),
            ("-1", "-1"),
            ("\"a b\"", "\"a b\""),
        ] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{text},"method":"ping"}}"#);
            let Ok(Body::One(Ok(Message::Request { id, .. }))) = parse(body.as_bytes()) else {
                panic!("{text}")
            };
            assert_eq!(id.as_json(), echoed);
        }
    }

    #[test]
    fn what_is_no_message_says_why() {
        let long_id = format!(
            r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#,
            "x".repeat(300)
        );
        for (body, code) in [
            ("", -32700),
            ("{", -32700),
            ("\u{feff}{}", -32700),
            ("7", -32600),
            ("{}", -32600),
            (r#"{"jsonrpc":"2.0"}"#, -32600),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32600),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#,
                -32602,
            ),
            (&long_id, -32600),
        ] {
            let fault = match parse(body.as_bytes()) {
                Err(fault) | Ok(Body::One(Err(fault))) => fault,
                _ => panic!("{body}"),
            };
            assert_eq!(fault.code, code, "{body}");
        }
    }

    #[test]
    fn notifications_and_responses_are_told_apart() {
        let one = |body: &'static str| match parse(body.as_bytes()) {
            Ok(Body::One(Ok(message))) => message,
            _ => panic!("{body}"),
        };
        for note in [
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":7}"#,
        ] {
            assert!(matches!(one(note), Message::Notification { .. }), "{note}");
        }
        let Message::Response { id, outcome } = one(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)
        else {
            panic!()
        };
        assert_eq!((id.unwrap().as_json(), outcome.unwrap().get()), ("1", "{}"));
        let refused = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}"#;
        let Message::Response { id, outcome } = one(refused) else {
            panic!()
        };
        let error = outcome.unwrap_err();
        assert_eq!(
            (id.is_none(), error.code, &*error.message),
            (true, -1, "no")
        );
    }

    #[test]
    fn a_batch_is_read_message_by_message() {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let batch = |count: usize| format!("[{}]", vec![ping; count].join(","));
        let mixed = format!("[{ping},7]");
        let Ok(Body::Batch(messages)) = parse(mixed.as_bytes()) else {
            panic!()
        };
        assert!(messages[0].is_ok() && messages[1].is_err());
        assert!(parse(batch(32).as_bytes()).is_ok());
        for refused in [batch(33), "[]".to_owned()] {
            assert_eq!(parse(refused.as_bytes()).err().unwrap().code, -32600);
        }
    }

    #[test]
    fn an_error_without_an_id_has_no_id_member() {
        assert!(!RpcError::new(-32700, "x").to_json(None).contains("\"id\""));
        assert!(
            RpcError::new(-32601, "x")
                .to_json(Some(&Id::number(4)))
                .contains(r#""id":4"#)
        );
    }
}
