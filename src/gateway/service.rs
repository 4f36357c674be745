//! The gateway as an MCP service.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use super::channel::ChannelHeader;
use super::parked::Parking;
use super::principal::Principal;
use super::remote::{About, Passing};
use super::roster::{Entry, Roster, Selected};
use super::rules::{AllowedBy, Current, PATH, Rules};
use super::subscribed::subscribe;
use super::tasks;
use super::upstream::{Forward, Upstream};
use crate::approval::Forwarded;
use crate::bundle::Confirmer;
use crate::config::Config;
use crate::gate::{OUTCOME_KEY, PolicyChanged};
use crate::http::throttle::Throttle;
use crate::http::{self, RequestHead};
use crate::json::{quote, string};
use crate::mcp::{
    Announcer, CallContext, Change, Changes, HttpRefusal, Offer, Request, ResultKind, RpcError,
    RpcResult, Service,
};
use crate::secret::Sealer;
use crate::world::World;

/// The endpoint that callers reach.
pub struct Gateway {
    world: World,
    rules: Current,
    parking: Parking,
    sealer: Sealer,
    announcer: Announcer,
    calls_per_token: usize,
    throttle: Throttle,
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
    /// The gateway of `config` in front of `roster`. `sealer` seals what its callers bring back.
    #[must_use]
    pub fn new(world: World, config: &Config, roster: Roster, sealer: Sealer) -> Self {
        Self {
            parking: Parking::new(world.clone(), sealer.clone()),
            throttle: Throttle::new(world.clock.clone()),
            sealer,
            announcer: Announcer::default(),
            world,
            rules: Current::new(Rules::new(config, roster)),
            calls_per_token: config.limits.calls_per_token,
            in_flight: Arc::default(),
        }
    }

    /// Puts what `config` says about calls in the place of what was said: a server of which the same is said goes on as it
    /// is, calls that wait go on and are held to the new rules when they act, and callers that listen are told that lists
    /// may have changed. What is read at start only is the caller's to compare: [`Config::needs_restart`].
    pub fn reload(&self, config: &Config, confirmer: &Confirmer, client: &http::Client) {
        let before = self.rules.get();
        let roster = Roster::after(&before.roster, &self.world, config, confirmer, client);
        self.rules.replace(Rules::new(config, roster));
        for change in [Change::Tools, Change::Prompts, Change::Resources] {
            self.announcer.announce(&change);
        }
    }

    /// Stops every tool that asks a person, those that wait included, or lets them ask again. Whether that is news.
    pub(super) fn freeze(&self, frozen: bool) -> bool {
        self.rules.freeze(frozen)
    }

    /// Who sent that head, if it may administer.
    pub(super) fn administrator(
        &self,
        head: &RequestHead,
        peer: SocketAddr,
    ) -> Result<Principal, HttpRefusal> {
        let principal = self.known(head, peer)?;
        match principal.is_admin() {
            true => Ok(principal),
            false => Err(HttpRefusal {
                status: 403,
                headers: Vec::new(),
                reason: "a token with the role admin is needed",
            }),
        }
    }

    /// Who sent that head.
    fn known(&self, head: &RequestHead, peer: SocketAddr) -> Result<Principal, HttpRefusal> {
        let rules = self.rules.get();
        let identified = rules.callers.identify(head, self.world.clock.wall_ms());
        identified.map_err(|refusal| {
            // "failing requests are slowed per address in a bounded table, a valid token never is".
            if let Some(wait) = self.throttle.wait(peer.ip()) {
                return HttpRefusal {
                    status: 429,
                    headers: vec![("retry-after", wait.as_secs().max(1).to_string())],
                    reason: "too many requests from this address had no token of this gateway",
                };
            }
            self.throttle.count_wrong(peer.ip());
            match &rules.metadata {
                Some(metadata) => HttpRefusal {
                    headers: vec![("www-authenticate", metadata.challenge(head))],
                    ..refusal
                },
                None => refusal,
            }
        })
    }

    pub(super) const fn world(&self) -> &World {
        &self.world
    }

    /// The servers without which it cannot be used.
    pub(super) fn required(&self) -> Vec<Arc<Entry>> {
        self.rules.get().roster.required()
    }

    /// Whoever started this process, for a client on its standard streams: it may use every server, or those of `servers`,
    /// and names no channel. `None`: not every one of them is there.
    #[must_use]
    pub fn at_hand(&self, servers: Option<&str>) -> Option<Admitted> {
        let query = servers.map(|servers| format!("servers={servers}"));
        let principal = Principal::local();
        let selected = self
            .rules
            .get()
            .roster
            .select(query.as_deref(), &principal)?;
        Some(Admitted {
            principal,
            selected,
            channel: ChannelHeader::Absent,
        })
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

    fn document(&self, head: &RequestHead) -> Option<String> {
        self.rules.get().metadata.as_ref()?.document(head)
    }

    fn admit(&self, head: &RequestHead, peer: SocketAddr) -> Result<Admitted, HttpRefusal> {
        let principal = self.known(head, peer)?;
        let rules = self.rules.get();
        let selected = rules
            .roster
            .select(head.query(), &principal)
            .ok_or_else(|| HttpRefusal {
                status: 404,
                headers: Vec::new(),
                reason: "no such server, or not for this token",
            })?;
        let channel = ChannelHeader::read(head, &rules.allowlist);
        Ok(Admitted {
            principal,
            selected,
            channel,
        })
    }

    fn identity<'p>(&self, admitted: &'p Admitted) -> &'p str {
        &admitted.principal.id
    }

    async fn offer(&self, admitted: &Admitted) -> Offer {
        admitted.selected.offer(&self.world.clock).await
    }

    fn asks_first(&self, admitted: &Admitted, tool: &str) -> bool {
        let meant = admitted.selected.resolve(tool);
        meant.is_some_and(|(entry, tool)| entry.asks_first(tool))
    }

    async fn request(
        &self,
        admitted: &Admitted,
        request: &Request<'_>,
        context: &CallContext,
    ) -> Result<RpcResult, RpcError> {
        let method = &*request.method;
        let selected = &admitted.selected;
        if Selected::is_list(method) {
            // Everything fits on one page, so no cursor was ever given out.
            if request
                .param("cursor")
                .is_some_and(|cursor| cursor.get() != "null")
            {
                return Err(RpcError::new(-32602, "unknown cursor"));
            }
            return selected
                .list(method, request.version, &self.world.clock)
                .await;
        }
        match method {
            "tools/call" | "prompts/get" => {
                let name = request.text("name")?;
                let what = if method == "tools/call" {
                    "tool"
                } else {
                    "prompt"
                };
                let (entry, name) = selected
                    .resolve(&name)
                    .ok_or_else(|| unknown(what, &name))?;
                self.pass(admitted, entry, request, About::Name(name), context)
                    .await
            }
            "resources/read" => {
                let uri = request.text("uri")?;
                let (entry, uri) = selected
                    .resolve_resource(&uri)
                    .ok_or_else(|| unknown_resource(&uri))?;
                let read = self
                    .pass(admitted, entry, request, About::Uri(uri), context)
                    .await?;
                Ok(selected.as_read(entry, read))
            }
            "completion/complete" => {
                let (entry, reference) = selected.resolve_reference(request)?;
                self.pass(
                    admitted,
                    entry,
                    request,
                    About::Reference(&reference),
                    context,
                )
                .await
            }
            "tasks/get" | "tasks/update" | "tasks/cancel" => {
                let known = request.text("taskId")?;
                let (entry, id) = self
                    .task(admitted, &known)
                    .ok_or_else(|| unknown("task", &known))?;
                self.pass(admitted, entry, request, About::Task(id), context)
                    .await
            }
            // What is set for a session would have to be remembered for it. Every message of a request's own is passed on.
            "logging/setLevel" if !request.version.is_modern() => {
                let level = request.text("level")?;
                match crate::mcp::is_log_level(&level) {
                    true => Ok(RpcResult::default()),
                    false => Err(RpcError::new(
                        -32602,
                        "the log level is not one of the eight",
                    )),
                }
            }
            _ => Err(RpcError::new(
                -32601,
                format!("there is no method {}", quote(&shortened(method))),
            )),
        }
    }

    fn listen(&self, admitted: &Admitted) -> Changes {
        let of_servers = admitted
            .selected
            .entries
            .iter()
            .filter_map(|entry| entry.upstream.announcer());
        of_servers.fold(self.announcer.listen(), |all, one| all.and(one.listen()))
    }

    async fn subscribe(&self, admitted: &Admitted, uri: &str) -> Result<Changes, RpcError> {
        let meant = admitted.selected.resolve_resource(uri);
        let meant = meant.and_then(|(entry, there)| match &entry.upstream {
            Upstream::Remote(remote) => Some((remote, there)),
            _ => None,
        });
        let (remote, there) = meant.ok_or_else(|| unknown_resource(uri))?;
        let in_flight = self.enter(&admitted.principal.id).ok_or_else(too_many)?;
        let changes = subscribe(&self.world, remote, there, uri).await?;
        Ok(changes.keeping(Box::new(in_flight)))
    }
}

impl Gateway {
    /// The server and its task that a caller's id means.
    fn task<'a>(
        &self,
        admitted: &'a Admitted,
        known: &'a str,
    ) -> Option<(&'a Arc<Entry>, &'a str)> {
        let (slug, id) = tasks::open(&self.sealer, &admitted.principal.id, known)?;
        let mut entries = admitted.selected.entries.iter();
        let entry = entries.find(|entry| entry.server.slug.as_str() == slug)?;
        Some((entry, id))
    }

    async fn pass(
        &self,
        admitted: &Admitted,
        entry: &Arc<Entry>,
        request: &Request<'_>,
        about: About<'_>,
        context: &CallContext,
    ) -> Result<RpcResult, RpcError> {
        let Admitted {
            principal, channel, ..
        } = admitted;
        let in_flight = self.enter(&principal.id).ok_or_else(too_many)?;
        let clock = &self.world.clock;
        if let About::Name(tool) = about
            && self.rules.is_frozen()
            && request.method == "tools/call"
            && entry.asks_first(tool)
        {
            let mut result =
                RpcResult::error(&format!("{}. The call did not run.", PolicyChanged::Frozen));
            result.set_meta(OUTCOME_KEY, quote(PolicyChanged::Frozen.word()));
            return Ok(result);
        }
        let forwarded = channel.forward(&entry.server, principal, clock.wall_ms());
        let policy = AllowedBy {
            current: self.rules.clone(),
            clock: clock.clone(),
            principal: principal.clone(),
            entry: entry.clone(),
            channel: match &forwarded {
                Some(Forwarded::Channel(channel)) => Some(channel.url.clone()),
                _ => None,
            },
        };
        let reloaded = match &forwarded {
            Some(Forwarded::Channel(_)) => self.rules.listen(),
            _ => Changes::default(),
        };
        let forward = Forward {
            forwarded,
            policy: Arc::new(policy),
            reloaded,
        };
        let passing = Passing {
            request,
            caller: &principal.id,
            about,
        };
        let slug = entry.server.slug.as_str();
        let mut result = entry
            .upstream
            .request(slug, &passing, forward, context, &self.parking, &self.world)
            .await?;
        let tells_of_a_task = request.method.starts_with("tasks/");
        if (tells_of_a_task || result.kind() == ResultKind::Task)
            && let Some(id) = result.get("taskId").and_then(string)
        {
            let known = tasks::seal(&self.sealer, &principal.id, slug, &id);
            result.set("taskId", quote(&known));
        }
        if result.is_large() {
            // It is in flight until it has all gone out.
            context.keep(Box::new(in_flight));
        }
        Ok(result)
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

fn too_many() -> RpcError {
    RpcError::new(-32603, "too many calls of this token are waiting").with_status(429)
}

fn unknown(what: &str, name: &str) -> RpcError {
    let name = quote(&shortened(name));
    RpcError::new(-32602, format!("there is no {what} {name}"))
}

fn unknown_resource(uri: &str) -> RpcError {
    unknown("resource", uri).with_data(format!(r#"{{"uri":{}}}"#, quote(uri)))
}

fn shortened(name: &str) -> String {
    name.chars().take(128).collect()
}
