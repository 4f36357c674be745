//! What a server says while a request runs: news, questions, and the answer.

use std::borrow::Cow;

use serde_json::value::RawValue;
use smol::channel::Sender;

use super::{CallFault, Listener, News, Question};
use crate::json::{self, Members};
use crate::mcp::message::{Id, RpcError};
use crate::mcp::service::Progress;

/// One message of a server.
pub(super) enum Heard {
    /// The answer to the request at hand.
    Answer(Result<Box<RawValue>, CallFault>),
    /// A request of the server's: its id, and what to answer, once that is known.
    Asked(Id, Asked),
    /// Nothing to do: news, which is told, or an answer to another request.
    Other,
}

/// What a server asks its client.
pub(super) enum Asked {
    /// `ping`.
    Ping,
    /// Something that a caller may answer.
    Caller {
        /// The request's method.
        method: String,
        /// Its parameters.
        params: Box<RawValue>,
    },
    /// What no client answers.
    Unknown,
}

/// One message of a server, opened.
pub(super) enum Said<'a> {
    /// An answer.
    Answer {
        /// To which request; `None` where the server could not read its id.
        id: Option<&'a RawValue>,
        /// The result, or the error.
        outcome: Result<&'a RawValue, &'a RawValue>,
    },
    /// A request: its id, and what is asked.
    Asked(Id, Asked),
    /// A notification.
    Note {
        /// What happened.
        method: Cow<'a, str>,
        /// Its parameters.
        params: Option<&'a RawValue>,
    },
    /// An object that is none of these.
    Other,
}

/// Opens one message of a scanned text.
///
/// # Errors
/// What is wrong with it, the server's fault.
pub(super) fn open(text: &str) -> Result<Said<'_>, &'static str> {
    let members = Members::parse(text).map_err(|_| "a message is no object")?;
    if let Some(method) = members.get("method") {
        let method = json::string(method).ok_or("a method is no string")?;
        let params = members.get("params");
        return Ok(match members.get("id").and_then(Id::parse) {
            Some(theirs) => Said::Asked(theirs, asked(&method, params)),
            None => Said::Note { method, params },
        });
    }
    // An error whose id could not be read has none, or null.
    let id = members.get("id").filter(|id| id.get() != "null");
    Ok(match (members.get("result"), members.get("error")) {
        (Some(result), None) => Said::Answer {
            id,
            outcome: Ok(result),
        },
        (None, Some(error)) => Said::Answer {
            id,
            outcome: Err(error),
        },
        _ => Said::Other,
    })
}

/// Reads one message of the server that the request `id` went to, and tells the listener of news.
///
/// # Errors
/// What is wrong with it, the server's fault.
pub(super) fn hear(
    message: &[u8],
    id: &Id,
    listener: &mut Listener<'_>,
) -> Result<Heard, &'static str> {
    let text = json::scan(message).map_err(|_| "not valid JSON")?;
    Ok(match open(text)? {
        Said::Asked(theirs, asked) => Heard::Asked(theirs, asked),
        Said::Note { method, params } => {
            tell(&method, params, id, listener);
            Heard::Other
        }
        Said::Answer {
            id: theirs,
            outcome,
        } => {
            let about_us = theirs.is_some_and(|theirs| theirs.get() == id.as_json());
            match outcome {
                Ok(result) if about_us => Heard::Answer(Ok(result.to_owned())),
                Err(error) if about_us || theirs.is_none() => {
                    Heard::Answer(Err(CallFault::Rpc(RpcError::parse(error))))
                }
                _ => Heard::Other,
            }
        }
        Said::Other => Heard::Other,
    })
}

fn asked(method: &str, params: Option<&RawValue>) -> Asked {
    match method {
        "ping" => Asked::Ping,
        "elicitation/create" | "sampling/createMessage" | "roots/list" => {
            let params = params.map_or("{}", RawValue::get);
            Asked::Caller {
                method: method.to_owned(),
                params: RawValue::from_string(params.to_owned()).unwrap_or_default(),
            }
        }
        _ => Asked::Unknown,
    }
}

fn tell(method: &str, params: Option<&RawValue>, id: &Id, listener: &mut Listener<'_>) {
    let Some(params) = params else {
        return;
    };
    match method {
        "notifications/progress" => {
            if let Some((token, progress)) = progress(params)
                && token.get() == id.as_json()
            {
                (listener.news)(News::Progress(progress));
            }
        }
        "notifications/message" => {
            if let Some(level) = level(params) {
                (listener.news)(News::Log { level, params });
            }
        }
        "notifications/resources/updated" => {
            if let Some(uri) = resource(params) {
                (listener.news)(News::Resource(&uri));
            }
        }
        _ => {}
    }
}

/// The progress in the parameters of a notification, and its token.
pub(super) fn progress(params: &RawValue) -> Option<(&RawValue, Progress)> {
    let members = Members::parse(params.get()).ok()?;
    let number = |name: &str| members.get(name).and_then(|text| text.get().parse().ok());
    let progress = Progress {
        progress: number("progress")?,
        total: number("total"),
        message: members
            .get("message")
            .and_then(json::string)
            .map(String::from),
    };
    Some((members.get("progressToken")?, progress))
}

/// The URI in the parameters of news of a resource.
pub(super) fn resource(params: &RawValue) -> Option<Cow<'_, str>> {
    Members::parse(params.get())
        .ok()?
        .get("uri")
        .and_then(json::string)
}

/// The severity in the parameters of a message of a log.
pub(super) fn level(params: &RawValue) -> Option<&RawValue> {
    Members::parse(params.get()).ok()?.get("level")
}

/// What to answer to a question of the server's. Dropping the future answers nothing.
pub(super) async fn answer_to(
    asked: Asked,
    questions: Option<&Sender<Question>>,
) -> Result<Box<RawValue>, RpcError> {
    match asked {
        Asked::Ping => Ok(RawValue::from_string("{}".to_owned()).unwrap_or_default()),
        Asked::Unknown => Err(RpcError::new(-32601, "this client answers no such request")),
        Asked::Caller { method, params } => {
            let nobody = || RpcError::new(-32603, "nobody can answer this now");
            let questions = questions.ok_or_else(nobody)?;
            let (answer, answered) = smol::channel::bounded(1);
            let question = Question {
                method,
                params,
                answer,
            };
            questions.send(question).await.map_err(|_| nobody())?;
            answered.recv().await.map_err(|_| nobody())?
        }
    }
}

/// The message that carries an answer to the server's request `id`.
pub(super) fn response_to(id: &Id, answer: Result<Box<RawValue>, RpcError>) -> String {
    match answer {
        Ok(result) => crate::mcp::message::response(id, result.get()),
        Err(error) => error.to_json(Some(id)),
    }
}
