//! The gate itself: one question, and the permit that only a yes makes.

use std::sync::Arc;

use super::digest::{CallDigest, PromptDigest};
use super::outcome::{NotAsked, Outcome};
use super::permit::{Approval, Permit, Policy};
use crate::approval::{Answer, Asker, Forwarded, Question, RequestId};
use crate::http::Caller;
use crate::world::World;

/// Decides whether calls may act. Cloning gives the same gate.
#[derive(Clone)]
pub struct Gate {
    world: World,
    asker: Asker,
}

/// One call to be asked about, everything resolved.
pub struct Ask {
    /// What will act, digested: the permit is for this and nothing else.
    pub digest: CallDigest,
    /// The tool's name.
    pub tool: String,
    /// What a person reads.
    pub message: String,
    /// The label of the box to tick.
    pub title: String,
    /// A line under the box.
    pub description: Option<String>,
    /// Who waits for the result.
    pub caller: Arc<dyn Caller>,
    /// What is re-checked when the permit is spent.
    pub policy: Arc<dyn Policy>,
}

impl Gate {
    /// A gate that asks through `asker`.
    #[must_use]
    pub const fn new(world: World, asker: Asker) -> Self {
        Self { world, asker }
    }

    /// Asks a person about one call, over what the gateway forwarded with it.
    ///
    /// Fails closed: whatever is not a yes, read in time, to this very question, gives no permit. Dropping the future
    /// ends the question; an answer that comes later does nothing.
    pub async fn ask(&self, ask: Ask, forwarded: Option<&Forwarded>) -> Outcome {
        let channel = match forwarded {
            Some(Forwarded::Channel(channel)) => channel,
            Some(Forwarded::Refused { reason, .. }) => {
                return Outcome::NotAsked(NotAsked::Refused(reason.clone()));
            }
            Some(Forwarded::Skip { .. }) => {
                // The waiver is Gmail's alone, and its mount answers it; everywhere else it refuses.
                let reason = "this tool cannot be waived".to_owned();
                return Outcome::NotAsked(NotAsked::Refused(reason));
            }
            None => return Outcome::NotAsked(NotAsked::NoChannel),
        };
        let deadline = self.world.clock.deadline(channel.ttl);
        let mut id = [0; 16];
        self.world.random.fill(&mut id);
        let question = Question {
            message: ask.message,
            title: ask.title,
            description: ask.description,
            tool: ask.tool,
            request_id: RequestId::from_random(id),
            expires_at_wall_ms: deadline.wall_ms(),
        };
        let prompt = PromptDigest::of(&question.message);
        log::info!(
            "asked: slug {} tool {} call {:?} prompt {prompt:?} endpoint {}",
            channel.slug,
            question.tool,
            ask.digest,
            channel.url
        );
        let begun = self.world.clock.now();
        let outcome = match self.asker.ask(channel, &question, &deadline).await {
            // The one arm that can act.
            Ok(Answer::Yes) => Outcome::Approved(Permit::new(
                ask.digest,
                deadline,
                Approval {
                    prompt,
                    answered_wall_ms: self.world.clock.wall_ms(),
                },
                self.world.clock.clone(),
                ask.caller,
                ask.policy,
            )),
            Ok(Answer::NotConfirmed) => Outcome::NotConfirmed,
            Ok(Answer::Declined) => Outcome::Declined,
            Ok(Answer::Cancelled) => Outcome::Cancelled,
            Ok(Answer::Expired | Answer::Pending) => Outcome::Expired,
            Err(fault) => Outcome::EndpointFailed(fault),
        };
        let word = match &outcome {
            Outcome::Approved(_) => "approved",
            other => other.word(),
        };
        let latency = self.world.clock.now().since(begun).as_millis();
        log::info!("answered: call {:?} {word} after {latency} ms", ask.digest);
        outcome
    }
}
