//! One server, wherever it runs, and one attempt at each request.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use super::parked::Parking;
use super::remote::{Failed, Passing, Remote, is_our_word};
use crate::approval::{Forwarded, KEY};
use crate::bundle::{CommandMount, MountCall};
use crate::gate::{OUTCOME_KEY, Policy, PolicyChanged, UNKNOWN};
use crate::http::{ClientFault, FaultKind};
use crate::json::{Members, quote, string};
use crate::mcp::client::{CallFault, Client, Listener, News, Outgoing};
use crate::mcp::{Announced, Announcer, CallContext, Changes, Offer, Request, RpcError, RpcResult};
use crate::time::{Clock, Elapsed, Instant};
use crate::world::World;

/// How long a server may take to list what it has: a dead one must not hold up the others' lists.
const LIST_TIME: Duration = Duration::from_secs(5);

/// Where a server's tools are.
pub(super) enum Upstream {
    /// In this process.
    Here(Box<CommandMount>),
    /// In a bundle of ours, in another process.
    Bundle {
        client: Box<Client>,
        timeout: Duration,
    },
    /// Somebody else's.
    Remote(Box<Remote>),
    /// Nowhere in this build, or not with this configuration.
    Absent(&'static str),
}

/// What goes with a tool call to a mount of ours.
pub(super) struct Forward {
    pub(super) forwarded: Option<Forwarded>,
    pub(super) policy: Arc<dyn Policy>,
    /// Told when there are other rules.
    pub(super) reloaded: Changes,
}

impl Upstream {
    /// Where the server's own news is announced, if it can be heard.
    pub(super) fn announcer(&self) -> Option<&Announcer> {
        match self {
            Self::Remote(remote) => remote.client.announcer(),
            Self::Here(_) | Self::Bundle { .. } | Self::Absent(_) => None,
        }
    }

    /// What the server has. One that cannot be asked in time has nothing.
    pub(super) async fn offer(&self, clock: &Clock) -> Result<Offer, String> {
        let tools = Offer {
            tools: Some(Announced(false)),
            ..Offer::default()
        };
        match self {
            Self::Here(_) | Self::Bundle { .. } => Ok(tools),
            Self::Remote(remote) => {
                let deadline = clock.after(LIST_TIME);
                let asked = clock.timeout(deadline, remote.client.offer(deadline)).await;
                let said = in_time(asked).map_err(|fault| fault.to_string())?;
                Ok(offered(&said, remote.client.announcer().is_some()))
            }
            Self::Absent(why) => Err((*why).to_owned()),
        }
    }

    /// A whole list of the server, by its method and the member of the result; `None` for what it does not have.
    pub(super) async fn list(
        &self,
        method: &str,
        member: &str,
        clock: &Clock,
    ) -> Result<Option<Vec<Box<RawValue>>>, String> {
        let deadline = clock.after(LIST_TIME);
        let client = match self {
            Self::Here(mount) if method == "tools/list" => return Ok(Some(mount.tools())),
            Self::Bundle { client, .. } if method == "tools/list" => &**client,
            Self::Here(_) | Self::Bundle { .. } => return Ok(None),
            Self::Remote(remote) => &remote.client,
            Self::Absent(why) => return Err((*why).to_owned()),
        };
        let listing = async {
            match self {
                Self::Remote(remote) if method == "tools/list" => remote.tools(deadline).await,
                _ => client.list(method, member, deadline).await,
            }
        };
        match in_time(clock.timeout(deadline, listing).await) {
            // "Unknown or unadvertised method": it has none of them.
            Err(CallFault::Rpc(error)) if error.code == -32601 => Ok(None),
            listed => listed.map(Some).map_err(|fault| fault.to_string()),
        }
    }

    /// Passes one request on, exactly once. Dropping the future drops the call in this process, or closes the one
    /// connection that carries it, which tells the other side that the call is gone.
    pub(super) async fn request(
        &self,
        slug: &str,
        passing: &Passing<'_>,
        forward: Forward,
        context: &CallContext,
        parking: &Parking,
        world: &World,
    ) -> Result<RpcResult, RpcError> {
        let clock = &world.clock;
        let request = passing.request;
        let name = passing.about.header().unwrap_or_default();
        match self {
            Self::Remote(remote) => {
                let deadline = clock.after(remote.timeout);
                let passed = remote.pass(passing, context, parking, clock);
                match clock.timeout(deadline, passed).await {
                    Ok(Ok(result)) => Ok(result),
                    Ok(Err(Failed::Refused(error))) => Err(error),
                    Ok(Err(Failed::Call(fault))) => told(slug, request, fault),
                    Err(Elapsed) => told(slug, request, timed_out()),
                }
            }
            Self::Absent(why) => failed(
                request,
                &format!("{slug} cannot be used: {why}. Nothing ran."),
            ),
            _ if request.method != "tools/call" => Err(RpcError::new(
                -32601,
                format!("{slug} has tools and nothing else"),
            )),
            Self::Here(mount) => {
                let call = MountCall {
                    tool: name,
                    arguments: request.arguments()?,
                    principal: passing.caller,
                    forwarded: forward.forwarded,
                    policy: forward.policy,
                };
                mount.call(call, context).await
            }
            Self::Bundle { client, timeout } => {
                let deadline = clock.after(*timeout);
                let call = bundled(client, name, request, &forward, deadline, context);
                let called = async { Ok(clock.timeout(deadline, call).await) };
                // Its permit cannot ask our rules, so that a call which they do not allow any more is broken off here.
                let forbidden = async { Err(forward.forbidden().await.to_string()) };
                // What acts over there has half of the time that is left.
                let ending = async {
                    world.ending.begun().await;
                    clock.sleep(world.ending.within() / 2).await;
                    Err("the gateway is about to end".to_owned())
                };
                let broken_off = smol::future::or(forbidden, ending);
                let done = match smol::future::or(broken_off, called).await {
                    Ok(done) => done,
                    Err(why) => return Ok(unknown(&format!("The call was broken off: {why}."))),
                };
                // "torn down the moment ... the hop's timeoutMs runs out": a stream that trickles does not extend it.
                match in_time(done) {
                    Ok(mut result) => {
                        // The bundle is ours, so its word on the outcome stands; whatever else is in our namespace does
                        // not.
                        result.retain_meta(|key| key.starts_with(OUTCOME_KEY) || !is_our_word(key));
                        Ok(result)
                    }
                    Err(fault) => told(slug, request, fault),
                }
            }
        }
    }
}

impl Forward {
    /// Waits until other rules forbid a call that a person is asked about. Dropping the future loses nothing.
    async fn forbidden(&self) -> PolicyChanged {
        if let Some(Forwarded::Channel(_)) = self.forwarded {
            while self.reloaded.next().await.is_some() {
                if let Err(changed) = self.policy.still_allows() {
                    return changed;
                }
            }
        }
        std::future::pending().await
    }
}

fn in_time<T>(done: Result<Result<T, CallFault>, Elapsed>) -> Result<T, CallFault> {
    done.unwrap_or_else(|Elapsed| Err(timed_out()))
}

const fn timed_out() -> CallFault {
    CallFault::Connection(ClientFault {
        kind: FaultKind::Timeout,
        sent: true,
    })
}

async fn bundled(
    client: &Client,
    tool: &str,
    request: &Request<'_>,
    forward: &Forward,
    deadline: Instant,
    context: &CallContext,
) -> Result<RpcResult, CallFault> {
    let quoted = quote(tool);
    let arguments = request.arguments().map_err(CallFault::Rpc)?;
    let mut outgoing = Outgoing::call(tool, &quoted, arguments);
    outgoing.in_pieces = true;
    if let Some(forwarded) = &forward.forwarded {
        // It may wait for a person.
        context.hold();
        outgoing.meta.push((KEY, forwarded.to_json()));
    }
    let mut relay = |news: News<'_>| {
        if let News::Progress(progress) = news {
            context.progress(&progress);
        }
    };
    let mut listener = Listener {
        news: &mut relay,
        questions: None,
    };
    client.request(&outgoing, deadline, &mut listener).await
}

/// What a caller is told of a request that came to nothing at the server.
fn told(slug: &str, request: &Request<'_>, fault: CallFault) -> Result<RpcResult, RpcError> {
    match fault {
        CallFault::Rpc(error) => Err(passed_on(error, request)),
        fault if fault.may_have_acted() && request.method == "tools/call" => Ok(unknown(&format!(
            "The call reached {slug}, and then {fault}."
        ))),
        fault => failed(
            request,
            &format!("{slug} could not be reached: {fault}. Nothing ran."),
        ),
    }
}

/// The result of a call of which nothing says what became of it.
fn unknown(what: &str) -> RpcResult {
    let mut result = RpcResult::error(&format!(
        "{what} Whether it ran is unknown: look before you repeat it."
    ));
    result.set_meta(OUTCOME_KEY, format!("\"{UNKNOWN}\""));
    result
}

/// A tool tells of a failure in its result, where a model reads it; everything else has errors.
fn failed(request: &Request<'_>, what: &str) -> Result<RpcResult, RpcError> {
    match &*request.method {
        "tools/call" => Ok(RpcResult::error(what)),
        _ => Err(RpcError::new(-32603, what.to_owned())),
    }
}

/// A server's own error for the caller. "`-32002` from legacy upstream → `-32602` for modern clients; upstream
/// `-32020/-32021/-32022` are the gateway's own problem, not to be relayed as if the client erred."
fn passed_on(error: RpcError, request: &Request<'_>) -> RpcError {
    let code = match error.code {
        -32002 if request.version.is_modern() => -32602,
        // What the caller's own request lacks is the caller's to mend.
        -32021 if request.version.is_modern() => -32021,
        -32099..=-32020 => -32603,
        code => code,
    };
    let status = if code == -32021 { 400 } else { 200 };
    error.with_code(code).with_status(status)
}

/// What a server's `server/discover` or `initialize` result says that it has.
fn offered(said: &RawValue, heard: bool) -> Offer {
    let said = Members::parse(said.get()).ok();
    let member = |name: &str| said.as_ref().and_then(|said| said.get(name));
    let capabilities =
        member("capabilities").and_then(|capabilities| Members::parse(capabilities.get()).ok());
    let has = |name: &str| {
        capabilities
            .as_ref()
            .is_some_and(|capabilities| capabilities.get(name).is_some())
    };
    let inside = |name: &str, member: &str| {
        let capability = capabilities.as_ref()?.get(name)?;
        Members::parse(capability.get()).ok()?.get(member)
    };
    let has_flag =
        |name: &str, flag: &str| inside(name, flag).is_some_and(|flag| flag.get() == "true");
    let list = |name: &str| has(name).then(|| Announced(heard && has_flag(name, "listChanged")));
    Offer {
        tools: list("tools"),
        prompts: list("prompts"),
        resources: list("resources"),
        subscribe: heard && has_flag("resources", "subscribe"),
        completions: has("completions"),
        logging: has("logging"),
        tasks: inside("extensions", "io.modelcontextprotocol/tasks").is_some(),
        instructions: member("instructions")
            .and_then(string)
            .unwrap_or_default()
            .into_owned(),
    }
}
