//! The gateway as an MCP service.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::value::RawValue;

use super::channel::ChannelHeader;
use super::principal::{Callers, Principal};
use super::roster::{Roster, Selected};
use super::upstream::Forward;
use crate::approval::Allowlist;
use crate::config::Config;
use crate::gate::{Policy, PolicyChanged};
use crate::http::RequestHead;
use crate::json::{Members, quote, string};
use crate::mcp::{CallContext, HttpRefusal, RpcError, Service, ToolCall, ToolResult};
use crate::time::Clock;
use crate::world::World;

/// The path of the endpoint.
const PATH: &str = "/mcp";

/// The endpoint that callers reach.
pub struct Gateway {
    world: World,
    callers: Callers,
    allowlist: Allowlist,
    roster: Roster,
    calls_per_token: usize,
    /// Calls in flight by token id: one caller must not take all there is.
    in_flight: Arc<Mutex<HashMap<String, usize>>>,
}

/// Everything that a request's head says.
pub struct Admitted {
    principal: Principal,
    selected: Selected,
    channel: ChannelHeader,
}

impl Gateway {
    /// The gateway of `config` in front of `roster`.
    #[must_use]
    pub fn new(world: World, config: &Config, roster: Roster) -> Self {
        Self {
            world,
            callers: Callers::new(config.gateway.tokens.clone()),
            allowlist: config.gateway.prefixes.clone(),
            roster,
            calls_per_token: config.limits.calls_per_token,
            in_flight: Arc::default(),
        }
    }

    fn enter(&self, id: &str) -> Option<InFlight> {
        let mut in_flight = self
            .in_flight
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let calls = in_flight.entry(id.to_owned()).or_insert(0);
        if *calls >= self.calls_per_token {
            return None;
        }
        *calls += 1;
        Some(InFlight {
            id: id.to_owned(),
            in_flight: self.in_flight.clone(),
        })
    }
}

impl Service for Gateway {
    type Principal = Admitted;

    fn serves(&self, path: &str) -> bool {
        path == PATH
    }

    fn admit(&self, head: &RequestHead, _peer: SocketAddr) -> Result<Admitted, HttpRefusal> {
        let principal = self.callers.identify(head, self.world.clock.wall_ms())?;
        let selected = self
            .roster
            .select(head.query(), &principal)
            .ok_or_else(|| HttpRefusal {
                status: 404,
                headers: Vec::new(),
                reason: "no such server, or not for this token",
            })?;
        let channel = ChannelHeader::read(head, &self.allowlist);
        Ok(Admitted {
            principal,
            selected,
            channel,
        })
    }

    async fn tools(&self, admitted: &Admitted) -> Result<Vec<Box<RawValue>>, RpcError> {
        let selected = &admitted.selected;
        let clock = &self.world.clock;
        let lists = selected
            .entries
            .iter()
            .map(|entry| entry.upstream.tools(clock));
        let mut tools = Vec::new();
        for (entry, list) in selected.entries.iter().zip(join_all(lists).await) {
            let slug = entry.server.slug.as_str();
            match list {
                Ok(list) if selected.prefixed => {
                    tools.extend(list.iter().filter_map(|tool| prefixed(slug, tool)));
                }
                Ok(list) => tools.extend(list),
                Err(why) if selected.prefixed => {
                    log::warn!("{slug} is missing from a list of tools: {why}")
                }
                Err(why) => return Err(RpcError::new(-32603, format!("{slug}: {why}"))),
            }
        }
        Ok(tools)
    }

    async fn call(
        &self,
        admitted: &Admitted,
        call: ToolCall<'_>,
        context: &CallContext,
    ) -> Result<ToolResult, RpcError> {
        let Admitted {
            principal,
            selected,
            channel,
        } = admitted;
        let unknown = || {
            RpcError::new(
                -32602,
                format!("there is no tool {}", quote(&shortened(&call.name))),
            )
        };
        let (entry, tool) = selected.resolve(&call.name).ok_or_else(unknown)?;
        let Some(_in_flight) = self.enter(&principal.id) else {
            return Err(
                RpcError::new(-32603, "too many calls of this token are waiting").with_status(429),
            );
        };
        let clock = self.world.clock.clone();
        let forward = Forward {
            slug: entry.server.slug.as_str(),
            tool,
            arguments: call.arguments,
            principal: &principal.id,
            forwarded: channel.forward(&entry.server, principal, clock.wall_ms()),
            policy: Arc::new(TokenPolicy {
                clock,
                principal: principal.clone(),
            }),
        };
        entry
            .upstream
            .call(forward, context, &self.world.clock)
            .await
    }
}

/// What may change about a caller while a person decides.
struct TokenPolicy {
    clock: Clock,
    principal: Principal,
}

impl Policy for TokenPolicy {
    fn still_allows(&self) -> Result<(), PolicyChanged> {
        if self.principal.has_ended(self.clock.wall_ms()) {
            return Err(PolicyChanged(
                "the caller's token has ended since the question was asked",
            ));
        }
        Ok(())
    }
}

/// One call in flight; dropping it lets the next one in.
struct InFlight {
    id: String,
    in_flight: Arc<Mutex<HashMap<String, usize>>>,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut in_flight = self
            .in_flight
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(calls) = in_flight.get_mut(&self.id) {
            *calls -= 1;
            if *calls == 0 {
                in_flight.remove(&self.id);
            }
        }
    }
}

/// Awaits all of them at once, in one future: a slow list waits for itself only.
async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut slots: Vec<_> = futures
        .map(|future| (Some(Box::pin(future)), None))
        .collect();
    std::future::poll_fn(|cx| {
        for (future, output) in &mut slots {
            if let Some(running) = future
                && let std::task::Poll::Ready(done) = running.as_mut().poll(cx)
            {
                *output = Some(done);
                *future = None;
            }
        }
        match slots.iter().all(|(future, _)| future.is_none()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    slots.into_iter().filter_map(|(_, output)| output).collect()
}

/// A tool's JSON under its name here, `slug__tool`; `None` for one without a name.
fn prefixed(slug: &str, tool: &RawValue) -> Option<Box<RawValue>> {
    let members = Members::parse(tool.get()).ok()?;
    let name = format!("{slug}__{}", string(members.get("name")?)?);
    let rest = members.iter().filter(|(member, _)| *member != "name");
    let rest: String = rest
        .map(|(member, value)| format!(",{}:{}", quote(member), value.get()))
        .collect();
    RawValue::from_string(format!(r#"{{"name":{}{rest}}}"#, quote(&name))).ok()
}

fn shortened(name: &str) -> String {
    name.chars().take(128).collect()
}
