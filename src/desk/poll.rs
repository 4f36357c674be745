//! The asker's side: asks a question, and polls what became of it.
//!
//! The session's token in the path is what an asker has to show, and asking and polling is all that it is good for.

use super::asked::{self, BadQuestion};
use super::questions::{NotTaken, Outcome, Polled};
use super::reply::Reply;
use super::{Desk, SessionName};
use crate::approval::RequestId;
use crate::approval::wire::rfc3339_utc_ms;
use crate::http::RequestHead;
use crate::json::quote;
use crate::secret::{same, sha256};

/// The header by which an asker proves that it is more than somebody who knows the session URL.
const ASKER_HEADER: &str = "x-countersign-asker";

/// When to try again with a session or a desk that is full: about the time that a person takes for one answer.
const FULL_RETRY_SECONDS: u64 = 30;

/// Who asks.
pub(super) struct AskerSession {
    session: SessionName,
    verified: bool,
}

impl Desk {
    /// Who asks, by the token in the path and the asker's secret where one is due.
    pub(super) fn asker(&self, head: &RequestHead, segment: &str) -> Result<AskerSession, Reply> {
        let refusal = |message| Reply::fault(401, "Unauthorized", message);
        let session = self
            .sessions
            .verify(segment)
            .ok_or_else(|| refusal("The session token is not valid here."))?;
        if self.asker_keys.is_empty() {
            return Ok(AskerSession {
                session,
                verified: false,
            });
        }
        match head.headers.only(ASKER_HEADER) {
            Ok(Some(key)) if self.is_asker_key(key) => Ok(AskerSession {
                session,
                verified: true,
            }),
            _ => Err(refusal("The asker's key is missing or wrong.")),
        }
    }

    /// Compares with every key, so that the time tells neither which one fits nor how nearly.
    fn is_asker_key(&self, key: &str) -> bool {
        let digest = sha256(key.as_bytes());
        let keys = self.asker_keys.iter();
        keys.fold(false, |found, key| same(key, &digest) | found)
    }

    /// `POST …/session/TOKEN`: takes the question. What is answered is no answer: it says `pending`, always.
    pub(super) fn create(&self, asker: AskerSession, body: &[u8]) -> Reply {
        let AskerSession { session, verified } = asker;
        let mut question = match asked::read(body, &session, self.world.clock.wall_ms()) {
            Ok(question) => question,
            Err(fault) => return bad_question(fault),
        };
        question.sender_verified = verified;
        let id = question.id.clone();
        if let Err(fault) = self.questions.create(question) {
            return not_taken(fault);
        }
        log::info!("question {} of session {session} waits", id.as_str());
        let poll_url = self.sessions.poll_url(&session, id.as_str());
        let (id, poll_url) = (quote(id.as_str()), quote(poll_url.expose()));
        Reply::json(
            201,
            format!(
                r#"{{"action":"pending","_meta":{{"com.pulsemcp/request-id":{id},"com.pulsemcp/poll-url":{poll_url}}}}}"#
            ),
        )
    }

    /// `GET …/session/TOKEN/ID`: what became of the question.
    pub(super) fn poll(&self, asker: &AskerSession, id: &str) -> Reply {
        let found = RequestId::parse(id)
            .and_then(|id| Some((self.questions.poll(&asker.session, &id)?, id)));
        let Some((polled, id)) = found else {
            return not_found();
        };
        let (action, content, responded_at) = match polled {
            Polled::Pending => ("pending", "null", String::new()),
            Polled::Settled { outcome, wall_ms } => {
                let (action, content) = protocol_words(outcome);
                let at = quote(&rfc3339_utc_ms(wall_ms));
                (
                    action,
                    content,
                    format!(r#","com.pulsemcp/responded-at":{at}"#),
                )
            }
        };
        let id = quote(id.as_str());
        Reply::json(
            200,
            format!(
                r#"{{"action":"{action}","content":{content},"_meta":{{"com.pulsemcp/request-id":{id}{responded_at}}}}}"#
            ),
        )
    }
}

/// An outcome as the protocol has it (elicitation protocol, 4.3): content with an accept only.
const fn protocol_words(outcome: Outcome) -> (&'static str, &'static str) {
    match outcome {
        Outcome::Accepted => ("accept", r#"{"confirm":true}"#),
        Outcome::Declined => ("decline", "null"),
        Outcome::Expired => ("expired", "null"),
        Outcome::NotConfirmed => ("accept", r#"{"confirm":false}"#),
    }
}

/// The answer to whatever is not there, or not for this caller.
pub(super) fn not_found() -> Reply {
    Reply::fault(404, "Not Found", "There is nothing here for you.")
}

/// Elicitation protocol, 4.6.
fn bad_question(fault: BadQuestion) -> Reply {
    match fault {
        BadQuestion::Json(fault) => Reply::fault(400, "Bad Request", &fault.to_string()),
        BadQuestion::Missing(what) => Reply::fault(
            422,
            "Missing parameter",
            &format!("{what} is missing or blank"),
        ),
        BadQuestion::OtherSession => Reply::fault(
            403,
            "Forbidden",
            "_meta names a session that this token is not for",
        ),
        BadQuestion::Unprocessable(why) => Reply::fault(422, "Unprocessable Entity", why),
    }
}

fn not_taken(fault: NotTaken) -> Reply {
    let (status, error) = match fault {
        NotTaken::Duplicate => (422, "Unprocessable Entity"),
        NotTaken::Full => (503, "Service Unavailable"),
        NotTaken::SessionFull => (429, "Too Many Requests"),
    };
    let reply = Reply::fault(status, error, &fault.to_string());
    match fault {
        NotTaken::Duplicate => reply,
        NotTaken::Full | NotTaken::SessionFull => reply.retry_after(FULL_RETRY_SECONDS),
    }
}
