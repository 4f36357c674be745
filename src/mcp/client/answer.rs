//! What a server says while a request runs: news, questions, and the answer.

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
    let members = Members::parse(text).map_err(|_| "a message is no object")?;
    if let Some(method) = members.get("method") {
        let method = json::string(method).ok_or("a method is no string")?;
        let params = members.get("params");
        return Ok(match members.get("id").and_then(Id::parse) {
            Some(theirs) => Heard::Asked(theirs, asked(&method, params)),
            None => {
                tell(&method, params, id, listener);
                Heard::Other
            }
        });
    }
    let theirs = members.get("id");
    let about_us = theirs.is_some_and(|theirs| theirs.get() == id.as_json());
    // An error whose id could not be read has none, or null.
    let about_nobody = theirs.is_none_or(|theirs| theirs.get() == "null");
    Ok(match (members.get("result"), members.get("error")) {
        (Some(result), None) if about_us => Heard::Answer(Ok(result.to_owned())),
        (None, Some(error)) if about_us || about_nobody => {
            Heard::Answer(Err(CallFault::Rpc(RpcError::parse(error))))
        }
        _ => Heard::Other,
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
    let Ok(members) = Members::parse(params.get()) else {
        return;
    };
    match method {
        "notifications/progress" => {
            let ours = members
                .get("progressToken")
                .is_some_and(|token| token.get() == id.as_json());
            let number = |name: &str| members.get(name).and_then(|text| text.get().parse().ok());
            if let Some(progress) = number("progress").filter(|_| ours) {
                (listener.news)(News::Progress(Progress {
                    progress,
                    total: number("total"),
                    message: members
                        .get("message")
                        .and_then(json::string)
                        .map(String::from),
                }));
            }
        }
        "notifications/message" => {
            if let Some(level) = members.get("level") {
                (listener.news)(News::Log { level, params });
            }
        }
        _ => {}
    }
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
