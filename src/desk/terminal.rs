//! A person's side from a terminal: sees and answers over the desk's API, by key.

use std::fmt;

use url::Url;

use super::site::is_loopback;
use crate::http::{Client, ClientFault, Connection, Method, OutRequest, Reply};
use crate::json::{Exact, quote};
use crate::secret::Secret;
use crate::time::Instant;

/// Most bytes of a list of questions that are read: what the desk holds at most, and as much again for escapes.
const PENDING_BYTES: usize = 33_554_432;

/// Most bytes of the reply to an answer that are read.
const ANSWERED_BYTES: usize = 4096;

/// What a person sees. Its texts are as they were sent: to show them, pass them through
/// `text::shown`, line by line.
#[derive(Clone, Debug)]
pub struct Pending {
    /// The desk's wall clock, in milliseconds since 1970.
    pub now_wall_ms: u64,
    /// The open questions, the one with the least time left first.
    pub questions: Vec<PendingQuestion>,
}

/// One open question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingQuestion {
    /// What an answer names.
    pub id: String,
    /// The exact text.
    pub message: String,
    /// The session that asks.
    pub session: String,
    /// The tool that would act.
    pub tool: String,
    /// The label of the box to tick; it may be empty.
    pub title: String,
    /// A line under it.
    pub description: Option<String>,
    /// When it came, in milliseconds since 1970.
    pub asked_wall_ms: u64,
    /// When it stops waiting.
    pub expires_wall_ms: u64,
    /// Whether the sender proved more than that it knows the session URL.
    pub sender_verified: bool,
}

/// An answer from a terminal. Accepting there is accepting with the box ticked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalAnswer {
    /// Yes.
    Accept,
    /// No.
    Decline,
}

/// What the desk made of an answer: `accept`, `not-confirmed`, `decline` or `expired`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The question was not waiting any more, and had come to this.
    Already(String),
    /// The answer was taken, as this.
    Now(String),
    /// There is no such question, or it is not this person's to answer.
    Unknown,
}

/// Why nothing was learnt from the desk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalFault {
    /// The URL is not that of a desk: http or https, host and port.
    DeskUrl,
    /// The key cannot be sent in a header.
    Key,
    /// The reply is not one of a desk.
    NotADesk,
    /// Over plain http the key would cross a network in the clear.
    Plain,
    /// The desk refused with this status.
    Status(u16),
    /// Too many wrong keys came from this address lately.
    TooManyWrong,
    /// No reply came.
    Unreachable(ClientFault),
    /// The desk knows nobody with this key.
    WrongKey,
}

impl fmt::Display for TerminalFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeskUrl => f.write_str("the desk's url must be http or https, a host and a port"),
            Self::Key => f.write_str("the key has characters that no key has"),
            Self::NotADesk => f.write_str("what answered there is not a desk"),
            Self::Plain => {
                f.write_str("the key is sent over https, or over http to this machine only")
            }
            Self::Status(status) => write!(f, "the desk answered HTTP {status}"),
            Self::TooManyWrong => {
                f.write_str("too many wrong keys from this address: try again in a minute")
            }
            Self::Unreachable(fault) => write!(f, "the desk did not answer: {fault}"),
            Self::WrongKey => f.write_str("the desk knows nobody with this key"),
        }
    }
}

impl std::error::Error for TerminalFault {}

impl From<ClientFault> for TerminalFault {
    fn from(fault: ClientFault) -> Self {
        Self::Unreachable(fault)
    }
}

/// The questions that wait for the person with `key`. Dropping the future is harmless.
///
/// # Errors
/// [`TerminalFault`].
pub async fn pending(
    client: &Client,
    deadline: Instant,
    desk: &Url,
    key: &Secret,
) -> Result<Pending, TerminalFault> {
    let request = request(Method::Get, desk, "/api/pending", key)?;
    let reply = client.send(request, deadline, Connection::Fresh).await?;
    if reply.status != 200 {
        return Err(refused(&reply));
    }
    let body = reply.read_all(PENDING_BYTES).await?;
    let list = std::str::from_utf8(&body).ok().and_then(read_pending);
    list.ok_or(TerminalFault::NotADesk)
}

/// Answers the question `id` in the name of the person with `key`. Dropping the future leaves open whether the answer
/// was taken; it is never taken twice.
///
/// # Errors
/// [`TerminalFault`]; after [`TerminalFault::Unreachable`] the answer may have been taken.
pub async fn answer(
    client: &Client,
    deadline: Instant,
    desk: &Url,
    key: &Secret,
    id: &str,
    answer: TerminalAnswer,
) -> Result<Told, TerminalFault> {
    let id = quote(id);
    let body = match answer {
        TerminalAnswer::Accept => format!(r#"{{"id":{id},"action":"accept","confirm":true}}"#),
        TerminalAnswer::Decline => format!(r#"{{"id":{id},"action":"decline"}}"#),
    };
    let request = request(Method::Post, desk, "/api/answer", key)?
        .header("content-type", "application/json")
        .map_err(|_| TerminalFault::DeskUrl)?
        .body(body.into_bytes());
    let reply = client.send(request, deadline, Connection::Fresh).await?;
    let told = match reply.status {
        200 => Told::Now,
        409 => Told::Already,
        404 => return Ok(Told::Unknown),
        _ => return Err(refused(&reply)),
    };
    let body = reply.read_all(ANSWERED_BYTES).await?;
    let result = std::str::from_utf8(&body)
        .ok()
        .and_then(|text| text_of(&Exact::parse(text).ok()?, "result"));
    result.map(told).ok_or(TerminalFault::NotADesk)
}

fn request(
    method: Method,
    desk: &Url,
    path: &str,
    key: &Secret,
) -> Result<OutRequest, TerminalFault> {
    let plain = match (desk.scheme(), desk.host_str()) {
        ("https", Some(_)) => false,
        ("http", Some(host)) => !is_loopback(host),
        _ => return Err(TerminalFault::DeskUrl),
    };
    if plain {
        return Err(TerminalFault::Plain);
    }
    if desk.path() != "/" || desk.query().is_some() || desk.fragment().is_some() {
        return Err(TerminalFault::DeskUrl);
    }
    let url = desk.join(path).map_err(|_| TerminalFault::DeskUrl)?;
    OutRequest::new(method, &url)?
        .header("authorization", &format!("Bearer {}", key.expose()))
        .map_err(|_| TerminalFault::Key)
}

fn refused(reply: &Reply) -> TerminalFault {
    match reply.status {
        401 => TerminalFault::WrongKey,
        429 => TerminalFault::TooManyWrong,
        status => TerminalFault::Status(status),
    }
}

fn read_pending(text: &str) -> Option<Pending> {
    let reply = Exact::parse(text).ok()?;
    let questions = reply.get("pending")?.as_array()?.iter().map(read_question);
    let mut questions: Vec<PendingQuestion> = questions.collect::<Option<_>>()?;
    questions.sort_by(|a, b| {
        let order = |question: &PendingQuestion| (question.expires_wall_ms, question.asked_wall_ms);
        order(a).cmp(&order(b)).then_with(|| a.id.cmp(&b.id))
    });
    Some(Pending {
        now_wall_ms: number_of(&reply, "now")?,
        questions,
    })
}

fn read_question(question: &Exact) -> Option<PendingQuestion> {
    Some(PendingQuestion {
        id: text_of(question, "id")?,
        message: text_of(question, "message")?,
        session: text_of(question, "session")?,
        tool: text_of(question, "tool")?,
        title: text_of(question, "title")?,
        description: text_of(question, "description"),
        asked_wall_ms: number_of(question, "asked")?,
        expires_wall_ms: number_of(question, "expires")?,
        sender_verified: question.get("senderVerified")?.as_bool()?,
    })
}

fn text_of(object: &Exact, name: &str) -> Option<String> {
    object.get(name)?.as_str().map(str::to_owned)
}

fn number_of(object: &Exact, name: &str) -> Option<u64> {
    match object.get(name)? {
        Exact::Number(token) => token.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_key_goes_to_a_desk_and_never_in_the_clear() {
        let key = Secret::new("key".to_owned());
        for (url, expected) in [
            ("http://localhost:8601", None),
            ("http://127.0.0.1:8601/", None),
            ("http://[::1]:8601", None),
            ("http://desk.example", Some(TerminalFault::Plain)),
            ("http://localhost.example", Some(TerminalFault::Plain)),
            ("http://localhost:8601/api", Some(TerminalFault::DeskUrl)),
            ("http://localhost:8601/?a", Some(TerminalFault::DeskUrl)),
            ("ftp://localhost", Some(TerminalFault::DeskUrl)),
            ("data:x", Some(TerminalFault::DeskUrl)),
        ] {
            let request = request(Method::Get, &Url::parse(url).unwrap(), "/api/pending", &key);
            assert_eq!(request.err(), expected, "{url}");
        }
        let url = Url::parse("http://localhost:8601").unwrap();
        let broken = Secret::new("a\r\nb".to_owned());
        let request = request(Method::Get, &url, "/api/pending", &broken);
        assert_eq!(request.err(), Some(TerminalFault::Key));
    }

    #[test]
    fn a_list_is_read_whole_or_not_at_all() {
        let question = |id: &str, expires: u64| {
            format!(
                r#"{{"id":"{id}","message":"m","session":"s","tool":"t","title":"","description":null,
                "asked":1,"expires":{expires},"senderVerified":false,"more":[]}}"#
            )
        };
        let list = |questions: &str| format!(r#"{{"now":7,"pending":[{questions}],"recent":[]}}"#);
        let two = list(&format!("{},{}", question("b", 20), question("a", 10)));
        let read = read_pending(&two).unwrap();
        assert_eq!(read.now_wall_ms, 7);
        let ids: Vec<&str> = read.questions.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(ids, ["a", "b"]);
        for member in [
            "id",
            "message",
            "session",
            "tool",
            "title",
            "asked",
            "expires",
            "senderVerified",
        ] {
            let broken = list(&question("a", 10).replace(&format!("\"{member}\":"), "\"x\":"));
            assert!(read_pending(&broken).is_none(), "{member}");
        }
        for other in [
            "",
            "[]",
            "{}",
            r#"{"now":7}"#,
            r#"{"now":7,"pending":{}}"#,
            r#"{"now":"7","pending":[]}"#,
        ] {
            assert!(read_pending(other).is_none(), "{other}");
        }
    }
}
