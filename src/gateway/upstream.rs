//! One server, wherever it runs, and one attempt at each call.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::approval::{Forwarded, KEY};
use crate::bundle::{CommandMount, MountCall};
use crate::gate::{OUTCOME_KEY, Policy, UNKNOWN};
use crate::http::{ClientFault, FaultKind};
use crate::mcp::{CallContext, CallFault, Client, RpcError, Session, ToolResult};
use crate::time::{Clock, Elapsed};

/// How long a server may take to list its tools: a dead one must not hold up the others' lists.
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
    /// Nowhere in this build, or not with this configuration.
    Absent(&'static str),
}

/// One call on its way.
pub(super) struct Forward<'a> {
    pub(super) slug: &'a str,
    pub(super) tool: &'a str,
    pub(super) arguments: &'a RawValue,
    pub(super) principal: &'a str,
    pub(super) forwarded: Option<Forwarded>,
    pub(super) policy: Arc<dyn Policy>,
}

impl Upstream {
    /// The server's tools, within a bound.
    pub(super) async fn tools(&self, clock: &Clock) -> Result<Vec<Box<RawValue>>, String> {
        match self {
            Self::Here(mount) => Ok(mount.tools()),
            Self::Bundle { client, .. } => {
                let deadline = clock.after(LIST_TIME);
                client
                    .tools(&Session::MODERN, deadline)
                    .await
                    .map_err(|fault| fault.to_string())
            }
            Self::Absent(why) => Err((*why).to_owned()),
        }
    }

    /// Calls a tool, exactly once. Dropping the future drops the call in this process, or closes the one connection to
    /// the bundle that carries it, which tells the bundle that the call is gone.
    pub(super) async fn call(
        &self,
        call: Forward<'_>,
        context: &CallContext,
        clock: &Clock,
    ) -> Result<ToolResult, RpcError> {
        match self {
            Self::Here(mount) => {
                let Forward {
                    tool,
                    arguments,
                    principal,
                    forwarded,
                    policy,
                    ..
                } = call;
                let call = MountCall {
                    tool,
                    arguments,
                    principal,
                    forwarded,
                    policy,
                };
                mount.call(call, context).await
            }
            Self::Bundle { client, timeout } => {
                bundled(client, *timeout, call, context, clock).await
            }
            Self::Absent(why) => Ok(ToolResult::error(&format!(
                "{} cannot be used: {why}. Nothing ran.",
                call.slug
            ))),
        }
    }
}

async fn bundled(
    client: &Client,
    timeout: Duration,
    call: Forward<'_>,
    context: &CallContext,
    clock: &Clock,
) -> Result<ToolResult, RpcError> {
    let mut meta = Vec::new();
    if let Some(forwarded) = &call.forwarded {
        // It may wait for a person.
        context.hold();
        meta.push((KEY, forwarded.to_json()));
    }
    let deadline = clock.after(timeout);
    let mut relay = |progress| context.progress(progress);
    let calling = client.call(
        &Session::MODERN,
        call.tool,
        call.arguments,
        meta,
        deadline,
        &mut relay,
    );
    // "torn down the moment ... the hop's timeoutMs runs out": a stream that trickles does not extend it.
    let done = match clock.timeout(deadline, calling).await {
        Ok(done) => done,
        Err(Elapsed) => Err(CallFault::Connection(ClientFault {
            kind: FaultKind::Timeout,
            sent: true,
        })),
    };
    match done {
        Ok(mut result) => {
            // The bundle is ours, so its word on the outcome stands; whatever else is in our namespace does not.
            result.retain_meta(|key| {
                key.starts_with(OUTCOME_KEY)
                    || !(key.starts_with("dev.strad/") || key.starts_with("countersign/"))
            });
            Ok(result)
        }
        // Wrong arguments or an unknown tool are the caller's to mend; every other code is between us and the bundle.
        Err(CallFault::Rpc(error)) if error.code == -32602 => {
            Err(RpcError::new(-32602, error.message).with_status(200))
        }
        Err(fault) if fault.may_have_acted() => {
            let mut result = ToolResult::error(&format!(
                "The call reached {}, and then {fault}. Whether it ran is unknown: look before you repeat it.",
                call.slug
            ));
            result.set_meta(OUTCOME_KEY, format!("\"{UNKNOWN}\""));
            Ok(result)
        }
        Err(fault) => Ok(ToolResult::error(&format!(
            "{} could not be reached: {fault}. Nothing ran.",
            call.slug
        ))),
    }
}
