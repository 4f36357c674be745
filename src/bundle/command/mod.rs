//! Command tools: programs that run without a shell, the gated ones only with a permit.

mod arguments;
mod prompt;
mod run;
mod schema;

use std::time::Duration;

use serde_json::value::RawValue;

use super::confirm::Confirmer;
use super::mount::MountCall;
use crate::approval::Forwarded;
use crate::config::{Ask, CommandTool, Config, Server};
use crate::gate::{self, NotAsked, Outcome};
use crate::json::{Exact, quote};
use crate::mcp::{CallContext, RpcError, RpcResult};

use arguments::{Arguments, Fault};
use run::Plan;

/// The command tools of one server.
pub struct CommandMount {
    server: Server,
    tools: Vec<CommandTool>,
    confirmer: Confirmer,
    output_bytes: usize,
}

impl CommandMount {
    /// The mount of `server`'s `tools`, whose gated ones ask through `confirmer`.
    #[must_use]
    pub fn new(
        server: &Server,
        tools: &[CommandTool],
        config: &Config,
        confirmer: Confirmer,
    ) -> Self {
        let output_bytes = config.limits.child_output_bytes;
        Self {
            server: server.clone(),
            tools: tools.to_vec(),
            confirmer,
            output_bytes,
        }
    }

    /// The tools as MCP lists them.
    #[must_use]
    pub fn tools(&self) -> Vec<Box<RawValue>> {
        self.tools
            .iter()
            .filter_map(|tool| RawValue::from_string(schema::tool(tool)).ok())
            .collect()
    }

    /// Whether that tool asks a person before it acts.
    #[must_use]
    pub fn asks_first(&self, tool: &str) -> bool {
        let mut tools = self.tools.iter();
        tools.any(|known| known.name == tool && known.gate.is_some())
    }

    /// Runs one call: what is open at once, what is gated after a person's yes. Dropping the future ends the question,
    /// or kills the process group.
    ///
    /// # Errors
    /// [`RpcError`] for an unknown tool. Arguments that do not fit are a result that says what would.
    pub async fn call(
        &self,
        call: MountCall<'_>,
        context: &CallContext,
    ) -> Result<RpcResult, RpcError> {
        let tool = self
            .tools
            .iter()
            .find(|tool| tool.name == call.tool)
            .ok_or_else(|| {
                let shown: String = call.tool.chars().take(128).collect();
                RpcError::new(-32602, format!("there is no tool {}", quote(&shown)))
            })?;
        let plan = match self.plan(tool, &call) {
            Ok(plan) => plan,
            Err(fault) => return Ok(RpcResult::error(&format!("{fault}. Nothing ran."))),
        };
        let gated = match plan {
            Plan::Open(open) => return Ok(open.run(self.confirmer.world()).await),
            Plan::Gated(gated) => gated,
        };
        if gated.is_too_long_to_show() {
            return Ok(refused(&Outcome::NotAsked(NotAsked::TooLong)));
        }
        if self.server.ask != Ask::Channel {
            let reason = "this build cannot ask in the way that is configured for it".to_owned();
            return Ok(refused(&Outcome::NotAsked(NotAsked::Refused(reason))));
        }
        let window = match &call.forwarded {
            Some(Forwarded::Channel(channel)) => channel.ttl,
            _ => Duration::ZERO,
        };
        let lapses = self.confirmer.world().clock.deadline(window).wall_ms();
        let ask = gate::Ask {
            digest: gated.digest(),
            tool: tool.name.clone(),
            message: prompt::message(self.server.slug.as_str(), tool, &gated, lapses),
            title: prompt::title(tool),
            description: None,
            caller: context.caller.clone(),
            policy: call.policy.clone(),
        };
        match self
            .confirmer
            .confirm(ask, call.forwarded.as_ref(), context)
            .await
        {
            Outcome::Approved(permit) => Ok(gated.run(permit, self.confirmer.world()).await),
            other => Ok(refused(&other)),
        }
    }

    fn plan(&self, tool: &CommandTool, call: &MountCall<'_>) -> Result<Plan, Fault> {
        let exact = Exact::parse(call.arguments.get()).map_err(Fault::Json)?;
        let arguments = Arguments::read(tool, &exact)?;
        let channel = match &call.forwarded {
            Some(Forwarded::Channel(channel)) => Some(channel.url.same_channel_key()),
            _ => None,
        };
        let digest = gate::CallDigest::of(&gate::CallIdentity {
            slug: self.server.slug.as_str(),
            tool: &tool.name,
            arguments: &exact,
            principal: call.principal,
            channel: channel.as_deref(),
        });
        Ok(Plan::new(
            tool,
            arguments,
            digest,
            self.server.environment().map_err(Fault::Unset)?,
            self.output_bytes,
        ))
    }
}

/// The result of a gated call that did not run. "Declined: exit code 1 and `aborted at the user's request`, nothing run"
/// (interface).
fn refused(outcome: &Outcome) -> RpcResult {
    let mut result = match outcome {
        Outcome::Declined => {
            let mut result = RpcResult::error(&format!("aborted at the user's request\n{outcome}"));
            result.set(
                "structuredContent",
                r#"{"exitCode":1,"stdout":"","stderr":"aborted at the user's request","truncated":false}"#.to_owned(),
            );
            result
        }
        other => RpcResult::error(&other.to_string()),
    };
    result.set_meta(gate::OUTCOME_KEY, quote(outcome.word()));
    result
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::approval::{AskTiming, Asker};
    use crate::config::Kind;
    use crate::gate::Gate;
    use crate::http::Client;
    use crate::world::Runtime;

    fn mount(env: &str) -> CommandMount {
        let text = format!(
            "servers:\n  - slug: one\n    kind: command\n    env: {env}\n    tools:\n      - {{name: open, argv: [\"true\"]}}\n"
        );
        let (config, _) = Config::parse("test.yaml", &text).unwrap();
        let runtime = Runtime::real();
        let world = runtime.world().clone();
        let timing = AskTiming {
            poll: Duration::from_secs(1),
        };
        let asker = Asker::new(world.clone(), Client::new(world.clone()), timing);
        let gate = Gate::new(world.clone(), asker);
        let confirmer = Confirmer::new(world, gate, Duration::from_secs(30));
        let server = &config.servers[0];
        let Kind::Command { tools } = &server.kind else {
            panic!("another kind")
        };
        CommandMount::new(server, tools, &config, confirmer)
    }

    #[test]
    fn the_environment_is_three_names_and_its_own() {
        let names = |env: &[(String, String)]| -> Vec<String> {
            env.iter().map(|(name, _)| name.clone()).collect()
        };
        let inherited = names(&mount("{}").server.environment().unwrap());
        let three = ["PATH", "HOME", "LANG"];
        assert!(inherited.iter().all(|name| three.contains(&name.as_str())));
        assert!(inherited.contains(&"PATH".to_owned()));

        let env = mount("{OWN: \"a b\", PATH: /own}")
            .server
            .environment()
            .unwrap();
        let mut expected = inherited;
        expected.retain(|name| name != "PATH");
        let mut got = names(&env);
        got.retain(|name| !["OWN", "PATH"].contains(&name.as_str()));
        assert_eq!(got, expected);
        // Each once: its own word wins.
        assert_eq!(env.len(), expected.len() + 2);
        for (name, value) in [("OWN", "a b"), ("PATH", "/own")] {
            assert!(env.contains(&(name.to_owned(), value.to_owned())), "{name}");
        }
    }

    #[test]
    fn an_unset_secret_refuses_by_its_name() {
        let fault = mount("{OWN: \"${COUNTERSIGN_TEST_NEVER_SET}\"}")
            .server
            .environment()
            .unwrap_err();
        assert!(
            fault.to_string().contains("COUNTERSIGN_TEST_NEVER_SET"),
            "{fault}"
        );
    }

    #[test]
    fn a_declined_call_is_exit_code_1_and_ran_nothing() {
        let result = refused(&Outcome::Declined);
        assert!(result.is_error());
        assert!(
            result
                .texts()
                .starts_with("aborted at the user's request\n")
        );
        let structured = result.get("structuredContent").unwrap().get();
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(structured).unwrap(),
            serde_json::json!({"exitCode": 1, "stdout": "", "stderr": "aborted at the user's request", "truncated": false})
        );
        for (outcome, word) in [
            (Outcome::Declined, "declined"),
            (Outcome::Cancelled, "cancelled"),
            (Outcome::Expired, "expired"),
            (Outcome::NotConfirmed, "not-confirmed"),
            (Outcome::NotAsked(NotAsked::TooLong), "nobody-to-ask"),
        ] {
            let result = refused(&outcome);
            assert!(result.is_error(), "{word}");
            assert_eq!(result.meta(gate::OUTCOME_KEY).unwrap().get(), quote(word));
            let declined = matches!(outcome, Outcome::Declined);
            assert_eq!(
                result.get("structuredContent").is_some(),
                declined,
                "{word}"
            );
        }
    }
}
