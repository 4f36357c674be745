//! Holding a call while a person decides, and telling its caller that it is being held.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::approval::Forwarded;
use crate::gate::{Ask, Gate, Outcome};
use crate::mcp::{CallContext, Progress};
use crate::world::World;

/// Asks before a mount acts. Cloning gives the same gate.
#[derive(Clone)]
pub struct Confirmer {
    world: World,
    gate: Gate,
    keepalive: Duration,
}

impl Confirmer {
    /// A confirmer that tells a waiting caller so every `keepalive`: "Node's fetch in core drops a response body that
    /// has been silent for 300 seconds. So the bundle sends a progress notification every 30 seconds" (spec).
    #[must_use]
    pub const fn new(world: World, gate: Gate, keepalive: Duration) -> Self {
        Self {
            world,
            gate,
            keepalive,
        }
    }

    /// The world that the mounts live in.
    #[must_use]
    pub const fn world(&self) -> &World {
        &self.world
    }

    /// Asks about one call and holds its caller meanwhile. Dropping the future ends the question, and so does the end of
    /// this process; a later answer does nothing.
    pub async fn confirm(
        &self,
        ask: Ask,
        forwarded: Option<&Forwarded>,
        context: &CallContext,
    ) -> Outcome {
        let Some(Forwarded::Channel(channel)) = forwarded else {
            return self.gate.ask(ask, forwarded).await;
        };
        context.hold();
        let begun = self.world.clock.now();
        let total = channel.ttl.as_secs();
        let mut keepalive = self.world.clock.interval(self.keepalive);
        let asking = self.gate.ask(ask, forwarded);
        let ending = async {
            self.world.ending.begun().await;
            Outcome::Cancelled
        };
        let mut asking = pin!(smol::future::or(ending, asking));
        loop {
            let mut tick = pin!(keepalive.tick());
            let outcome = poll_fn(|cx| {
                if let Poll::Ready(outcome) = asking.as_mut().poll(cx) {
                    return Poll::Ready(Some(outcome));
                }
                tick.as_mut().poll(cx).map(|()| None)
            })
            .await;
            if let Some(outcome) = outcome {
                return outcome;
            }
            let waited = self.world.clock.now().since(begun).as_secs();
            context.progress(&Progress {
                progress: waited as f64,
                total: Some(total as f64),
                message: Some(format!("waiting for a person: {waited} s of {total} s")),
            });
        }
    }
}
