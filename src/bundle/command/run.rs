//! The act: one process, started only by what was planned, and if the tool is gated only with a permit for that plan.

use std::time::Duration;

use super::arguments::Arguments;
use crate::approval::wire::rfc3339_utc_ms;
use crate::config::CommandTool;
use crate::gate::{Approval, CallDigest, OUTCOME_KEY, Permit};
use crate::json::quote;
use crate::mcp::ToolResult;
use crate::world::World;
use crate::world::process::{Command, Finished, SpawnFault};

/// What a person must judge of one command: beyond it nobody reads, so nobody is asked. "Recipients, argv, paths and ids
/// are never cut: together over 4 KB, the call is refused unasked" (design section 5).
const SHOWN_BYTES: usize = 4096;

/// One call, everything resolved. Which of the two it is, its tool decides; only one of them runs without a permit.
pub(super) enum Plan {
    Open(Open),
    Gated(Gated),
}

/// A call of a tool without a gate.
pub(super) struct Open(Act);

/// A call of a gated tool.
pub(super) struct Gated {
    act: Act,
    /// What the tool's configuration says that it does.
    pub(super) consequence: String,
    /// The arguments' names and values, for the question.
    pub(super) arguments: Vec<(String, String)>,
}

/// What will run.
struct Act {
    command: Command,
    timeout: Duration,
    digest: CallDigest,
}

impl Plan {
    pub(super) fn new(
        tool: &CommandTool,
        arguments: Arguments,
        digest: CallDigest,
        env: Vec<(String, String)>,
        output_bytes: usize,
    ) -> Self {
        let Arguments { shown, argv } = arguments;
        let command = Command {
            argv,
            env,
            cwd: None,
            output_bytes,
        };
        let act = Act {
            command,
            timeout: Duration::from_millis(tool.timeout_ms),
            digest,
        };
        match &tool.gate {
            None => Self::Open(Open(act)),
            Some(consequence) => Self::Gated(Gated {
                act,
                consequence: consequence.clone(),
                arguments: shown,
            }),
        }
    }
}

impl Open {
    /// Runs it. Dropping the future kills the process group.
    pub(super) async fn run(self, world: &World) -> ToolResult {
        act(world, &self.0).await
    }
}

impl Gated {
    /// What the permit must be for.
    pub(super) const fn digest(&self) -> CallDigest {
        self.act.digest
    }

    /// The program and everything it gets.
    pub(super) fn argv(&self) -> &[String] {
        &self.act.command.argv
    }

    /// Whether there is more than a person can judge.
    pub(super) fn is_too_long_to_show(&self) -> bool {
        self.argv().iter().map(String::len).sum::<usize>() > SHOWN_BYTES
    }

    /// Spends the permit and runs it. Dropping the future kills the process group.
    pub(super) async fn run(self, permit: Permit, world: &World) -> ToolResult {
        let approval = permit.approval();
        // The last step before the act: no await stands between.
        match permit.spend(&self.act.digest) {
            Ok(_spent) => {
                let mut result = act(world, &self.act).await;
                approved(&mut result, approval);
                result
            }
            Err(unspent) => {
                log::warn!(
                    "a permit was not spent: call {:?}: {unspent}",
                    self.act.digest
                );
                let mut result =
                    ToolResult::error(&format!("A person said yes, but {unspent}. Nothing ran."));
                result.set_meta(OUTCOME_KEY, quote(unspent.word()));
                result
            }
        }
    }
}

fn approved(result: &mut ToolResult, approval: Approval) {
    result.set_meta(OUTCOME_KEY, "\"done\"".to_owned());
    let when = rfc3339_utc_ms(approval.answered_wall_ms);
    let told = format!(
        r#"{{"when":"{when}","promptDigest":"{}"}}"#,
        approval.prompt
    );
    result.set_meta(&format!("{OUTCOME_KEY}-approval"), told);
}

/// Starts at the call, not at the first poll of what it returns.
fn act(world: &World, plan: &Act) -> impl Future<Output = ToolResult> + Send + use<> {
    let deadline = world.clock.after(plan.timeout);
    let running = world.start(&plan.command, deadline);
    let digest = plan.digest;
    let timeout = plan.timeout;
    async move {
        let finished = match running {
            Ok(running) => running.await,
            Err(fault) => return not_started(fault),
        };
        match finished {
            Ok(finished) => {
                log::info!("acted: call {digest:?} exit {:?}", finished.exit_code);
                told(&finished, timeout)
            }
            Err(error) => {
                log::warn!(
                    "acted: call {digest:?}, and its end was not seen: {}",
                    error.kind()
                );
                ToolResult::error("The program was started, and its end was not seen.")
            }
        }
    }
}

fn not_started(fault: SpawnFault) -> ToolResult {
    ToolResult::error(&format!("{fault}. Nothing ran."))
}

/// "Result: text and `structuredContent` `{exitCode, stdout, stderr, truncated}`; `isError` when the exit code is not 0"
/// (interface). A program that a signal ended has the exit code that a shell would give it, 128 and the signal.
fn told(finished: &Finished, timeout: Duration) -> ToolResult {
    let code = finished
        .exit_code
        .unwrap_or_else(|| 128 + finished.signal.unwrap_or_default());
    let stdout = String::from_utf8_lossy(&finished.stdout);
    let stderr = String::from_utf8_lossy(&finished.stderr);
    let mut text = vec![stdout.trim_end().to_owned(), stderr.trim_end().to_owned()];
    text.retain(|part| !part.is_empty());
    if finished.timed_out {
        text.push(format!("It was ended after {} ms.", timeout.as_millis()));
    }
    if text.is_empty() || code != 0 {
        text.push(format!("Exit code {code}."));
    }
    let mut result = if code == 0 {
        ToolResult::text(&text.join("\n"))
    } else {
        ToolResult::error(&text.join("\n"))
    };
    result.set(
        "structuredContent",
        format!(
            r#"{{"exitCode":{code},"stdout":{},"stderr":{},"truncated":{}}}"#,
            quote(&stdout),
            quote(&stderr),
            finished.truncated
        ),
    );
    result
}
