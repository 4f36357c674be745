//! One question, asked and waited for: POST, then polls until an answer or the deadline.

use std::fmt;
use std::time::Duration;

use super::forwarded::Channel;
use super::url::RequestId;
use super::wire::{Answer, AnswerFault, MAX_ANSWER_BYTES, Question, parse_created, parse_poll};
use crate::http::{Client, ClientFault, Connection, FaultKind, Method, OutRequest, Reply};
use crate::time::Deadline;
use crate::world::World;

/// How often an endpoint is asked for the answer.
#[derive(Clone, Copy, Debug)]
pub struct AskTiming {
    /// Between two polls. Spread by a tenth either way: thousands of calls that began together would otherwise poll in
    /// step for ever.
    pub poll: Duration,
}

impl Default for AskTiming {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(5),
        }
    }
}

/// The last poll starts this long before the deadline: a yes must have been read before it, so a poll that begins at the
/// deadline could never count. Where a round trip has taken long, one poll starts twice that before the deadline too.
const FINAL_MARGIN: Duration = Duration::from_secs(1);

/// Headers that are the asker's own; those of the framing are the codec's. A second one beside ours would be read by one
/// endpoint and not by another.
const OWN_HEADERS: [&str; 2] = ["accept", "content-type"];

/// Asks questions. Cloning shares the connections.
#[derive(Clone)]
pub struct Asker {
    world: World,
    client: Client,
    timing: AskTiming,
}

/// Why an endpoint gave no answer. It names a status or a kind of failure, never a body or a header: "A failure names a
/// status, never a body" (spec).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointFault {
    /// A reply that is not of the protocol.
    Answer(AnswerFault),
    /// The connection, before any status.
    Connection(FaultKind),
    /// A redirect, refused: it is never followed.
    Redirect(u16),
    /// Any status that is not success.
    Status(u16),
    /// A header from the configuration that cannot be sent.
    Header,
}

impl fmt::Display for EndpointFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer(fault) => fault.fmt(f),
            Self::Connection(kind) => {
                write!(
                    f,
                    "the exchange with the approval endpoint failed: {}",
                    ClientFault {
                        kind: *kind,
                        sent: false
                    }
                )
            }
            Self::Redirect(status) => {
                write!(
                    f,
                    "the approval endpoint answered HTTP {status}, a redirect, which is refused"
                )
            }
            Self::Status(status) => write!(f, "the approval endpoint answered HTTP {status}"),
            Self::Header => f.write_str("a header for the approval endpoint cannot be sent"),
        }
    }
}

impl std::error::Error for EndpointFault {}

impl Asker {
    /// An asker in `world` that sends through `client`.
    #[must_use]
    pub const fn new(world: World, client: Client, timing: AskTiming) -> Self {
        Self {
            world,
            client,
            timing,
        }
    }

    /// Asks `question` over `channel` and waits for the answer, no longer than `deadline`. Never [`Answer::Pending`].
    ///
    /// Nothing is ever posted twice. Any failure ends the question at once: one 502 is terminal, and fails closed.
    /// Dropping the future closes its connection; the question then lapses unanswered, and a late answer does nothing.
    ///
    /// # Errors
    /// [`EndpointFault`]: the endpoint's fault, or the network's.
    pub async fn ask(
        &self,
        channel: &Channel,
        question: &Question,
        deadline: &Deadline,
    ) -> Result<Answer, EndpointFault> {
        let polled = self.post(channel, question, deadline).await?;
        let url = channel.url.poll_url(&polled);
        let clock = &self.world.clock;
        let window = deadline.remaining(clock);
        let mut slowest = Duration::ZERO;
        loop {
            // A machine that slept wakes with its timers unmoved: the wall clock may have passed the deadline since.
            if deadline.passed(clock) {
                return Ok(Answer::Expired);
            }
            let asked = clock.now();
            let reply = match self
                .request(Method::Get, &url, channel, None, deadline)
                .await
            {
                // What came too late was not an answer: the window is over.
                Err(EndpointFault::Connection(FaultKind::Timeout)) => return Ok(Answer::Expired),
                reply => reply?,
            };
            if reply.status != 200 {
                return Err(EndpointFault::Status(reply.status));
            }
            let body = match reply.read_all(MAX_ANSWER_BYTES).await {
                Err(ClientFault {
                    kind: FaultKind::Timeout,
                    ..
                }) => return Ok(Answer::Expired),
                body => body.map_err(EndpointFault::from)?,
            };
            let answer =
                parse_poll(&body, &question.request_id, &polled).map_err(EndpointFault::Answer)?;
            // "An answer read after it counts as expired" (spec), whichever clock says so.
            if deadline.passed(clock) {
                return Ok(Answer::Expired);
            }
            if answer != Answer::Pending {
                return Ok(answer);
            }
            slowest = slowest.max(clock.now().since(asked));
            let last = FINAL_MARGIN.min(window / 4);
            let left = deadline.remaining(clock);
            if left <= last {
                return Ok(Answer::Expired);
            }
            // One slow round trip must not end the window early: behind the poll that allows for it there is another.
            let safe = last.max(2 * slowest).min(window / 4);
            let margin = if left > safe { safe } else { last };
            clock.sleep(self.next_poll().min(left - margin)).await;
        }
    }

    async fn post(
        &self,
        channel: &Channel,
        question: &Question,
        deadline: &Deadline,
    ) -> Result<RequestId, EndpointFault> {
        let body = Some(question.to_json());
        let reply = self
            .request(Method::Post, channel.url.url(), channel, body, deadline)
            .await?;
        if !(200..300).contains(&reply.status) {
            return Err(EndpointFault::Status(reply.status));
        }
        let body = reply.read_all(MAX_ANSWER_BYTES).await?;
        parse_created(&body, &question.request_id).map_err(EndpointFault::Answer)
    }

    async fn request(
        &self,
        method: Method,
        url: &url::Url,
        channel: &Channel,
        body: Option<Vec<u8>>,
        deadline: &Deadline,
    ) -> Result<Reply, EndpointFault> {
        let mut request = OutRequest::new(method, url)?.header("accept", "application/json")?;
        for (name, value) in &channel.headers {
            if OWN_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
                return Err(EndpointFault::Header);
            }
            request = request.header(name, value.expose())?;
        }
        // A POST that may have been seen is never repeated, so it does not risk a pooled connection that has died.
        let mut connection = Connection::Pooled;
        if let Some(body) = body {
            request = request
                .header("content-type", "application/json")?
                .body(body);
            connection = Connection::Fresh;
        }
        let reply = self.client.send(request, deadline.at(), connection).await?;
        match reply.status {
            status @ 300..400 => Err(EndpointFault::Redirect(status)),
            _ => Ok(reply),
        }
    }

    /// The time to the next poll, spread by a tenth either way.
    fn next_poll(&self) -> Duration {
        let poll = u64::try_from(self.timing.poll.as_millis()).unwrap_or(u64::MAX);
        let spread = poll / 5;
        Duration::from_millis(poll - spread / 2 + self.world.random.below(spread + 1))
    }
}

impl From<ClientFault> for EndpointFault {
    fn from(fault: ClientFault) -> Self {
        match fault.kind {
            FaultKind::TooLarge => Self::Answer(AnswerFault::TooLong),
            kind => Self::Connection(kind),
        }
    }
}

impl From<crate::http::head::BadHeader> for EndpointFault {
    fn from(_: crate::http::head::BadHeader) -> Self {
        Self::Header
    }
}
