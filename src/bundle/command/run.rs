//! The act: one process, started only by what was planned, and if the tool is gated only with a permit for that plan.

use std::time::Duration;

use super::arguments::Arguments;
use crate::approval::wire::rfc3339_utc_ms;
use crate::config::CommandTool;
use crate::gate::{Approval, CallDigest, OUTCOME_KEY, Permit, UNKNOWN};
use crate::json::quote;
use crate::mcp::RpcResult;
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
            stdin: None,
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
    pub(super) async fn run(self, world: &World) -> RpcResult {
        act(world, &self.0).await.told(self.0.timeout)
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
    pub(super) async fn run(self, permit: Permit, world: &World) -> RpcResult {
        let approval = permit.approval();
        // The last step before the act: no await stands between.
        match permit.spend(&self.act.digest) {
            Ok(_spent) => {
                let ended = act(world, &self.act).await;
                let done = matches!(ended, Ended::Finished(_));
                let mut result = ended.told(self.act.timeout);
                approved(&mut result, approval);
                if done {
                    result.set_meta(OUTCOME_KEY, "\"done\"".to_owned());
                }
                result
            }
            Err(unspent) => {
                log::warn!(
                    "a permit was not spent: call {:?}: {unspent}",
                    self.act.digest
                );
                let mut result =
                    RpcResult::error(&format!("A person said yes, but {unspent}. Nothing ran."));
                result.set_meta(OUTCOME_KEY, quote(unspent.word()));
                result
            }
        }
    }
}

fn approved(result: &mut RpcResult, approval: Approval) {
    let when = rfc3339_utc_ms(approval.answered_wall_ms);
    let told = format!(
        r#"{{"when":"{when}","promptDigest":"{}"}}"#,
        approval.prompt
    );
    result.set_meta(&format!("{OUTCOME_KEY}-approval"), told);
}

/// How an act ended.
enum Ended {
    /// It never began.
    NotStarted(SpawnFault),
    /// It began, could not be watched, and was killed: nobody can say how far it came.
    Unseen,
    /// It ran.
    Finished(Finished),
}

/// Starts at the call, not at the first poll of what it returns.
fn act(world: &World, plan: &Act) -> impl Future<Output = Ended> + Send + use<> {
    let running = world.start(&plan.command, world.clock.after(plan.timeout));
    let digest = plan.digest;
    async move {
        let finished = match running {
            Ok(running) => running.await,
            Err(fault) => {
                log::warn!("not acted: call {digest:?}: {fault}");
                return Ended::NotStarted(fault);
            }
        };
        match finished {
            Ok(finished) => {
                log::info!("acted: call {digest:?} exit {:?}", finished.exit_code);
                Ended::Finished(finished)
            }
            Err(error) => {
                log::warn!(
                    "acted: call {digest:?}, and its end was not seen: {}",
                    error.kind()
                );
                Ended::Unseen
            }
        }
    }
}

impl Ended {
    /// The result for the model.
    fn told(self, timeout: Duration) -> RpcResult {
        match self {
            Self::NotStarted(fault) => RpcResult::error(&format!("{fault}. Nothing ran.")),
            Self::Unseen => {
                let mut result = RpcResult::error(
                    "The program was started and then killed, since it could not be watched. Whether it did its work is unknown: look before you repeat it.",
                );
                result.set_meta(OUTCOME_KEY, quote(UNKNOWN));
                result
            }
            Self::Finished(finished) => told(&finished, timeout),
        }
    }
}

/// "Result: text and `structuredContent` `{exitCode, stdout, stderr, truncated}`; `isError` when the exit code is not 0"
/// (interface), and when it was ended for running out of time, whatever it then exited with. A program that a signal
/// ended has the exit code that a shell would give it, 128 and the signal.
fn told(finished: &Finished, timeout: Duration) -> RpcResult {
    let code = finished
        .exit_code
        .unwrap_or_else(|| 128 + finished.signal.unwrap_or_default());
    let stdout = String::from_utf8_lossy(&finished.stdout);
    let stderr = String::from_utf8_lossy(&finished.stderr);
    let mut text = vec![stdout.trim_end().to_owned(), stderr.trim_end().to_owned()];
    text.retain(|part| !part.is_empty());
    if finished.truncated {
        text.push("Not all of its output is here.".to_owned());
    }
    if finished.timed_out {
        text.push(format!("It was ended after {} ms.", timeout.as_millis()));
    }
    if text.is_empty() || code != 0 {
        text.push(format!("Exit code {code}."));
    }
    let mut result = if code == 0 && !finished.timed_out {
        RpcResult::text(&text.join("\n"))
    } else {
        RpcResult::error(&text.join("\n"))
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::approval::{Allowlist, AskTiming, Asker, Channel, Forwarded};
    use crate::gate::{Ask, CallIdentity, Caller, Gate, Outcome, Policy, PolicyChanged};
    use crate::http::{Client, Handler, Limits, Method, Request, Responded, Responder, serve};
    use crate::json::Exact;
    use crate::time::Clock;
    use crate::world::{Net, Random, Runtime};

    fn finished(exit_code: Option<i32>, signal: Option<i32>) -> Finished {
        Finished {
            exit_code,
            signal,
            stdout: Vec::new(),
            stderr: Vec::new(),
            truncated: false,
            timed_out: false,
        }
    }

    #[test]
    fn the_result_says_how_it_ended() {
        let with = |out: &[u8], err: &[u8], code| Finished {
            stdout: out.to_vec(),
            stderr: err.to_vec(),
            ..finished(Some(code), None)
        };
        let timed_out = |end| Finished {
            timed_out: true,
            ..end
        };
        let cut = Finished {
            truncated: true,
            ..with(b"ab", b"", 0)
        };
        for (ended, error, text, structured) in [
            (
                with(b"out\n", b"", 0),
                false,
                "out",
                r#"{"exitCode":0,"stdout":"out\n","stderr":"","truncated":false}"#,
            ),
            (
                with(b"", b"", 0),
                false,
                "Exit code 0.",
                r#"{"exitCode":0,"stdout":"","stderr":"","truncated":false}"#,
            ),
            (
                with(b"a\n", b"b\n", 3),
                true,
                "a\nb\nExit code 3.",
                r#"{"exitCode":3,"stdout":"a\n","stderr":"b\n","truncated":false}"#,
            ),
            // No UTF-8, and text that would end the JSON string.
            (
                with(b"\xff\"}", b"\0", 0),
                false,
                "\u{fffd}\"}\n\0",
                r#"{"exitCode":0,"stdout":"\ufffd\"}","stderr":"\u0000","truncated":false}"#,
            ),
            (
                cut,
                false,
                "ab\nNot all of its output is here.",
                r#"{"exitCode":0,"stdout":"ab","stderr":"","truncated":true}"#,
            ),
            (
                finished(None, Some(9)),
                true,
                "Exit code 137.",
                r#"{"exitCode":137,"stdout":"","stderr":"","truncated":false}"#,
            ),
            (
                timed_out(finished(None, Some(15))),
                true,
                "It was ended after 9 ms.\nExit code 143.",
                r#"{"exitCode":143,"stdout":"","stderr":"","truncated":false}"#,
            ),
            // It put things in order when it was asked to end: its work is not done all the same.
            (
                timed_out(finished(Some(0), None)),
                true,
                "It was ended after 9 ms.",
                r#"{"exitCode":0,"stdout":"","stderr":"","truncated":false}"#,
            ),
        ] {
            let result = told(&ended, Duration::from_millis(9));
            assert_eq!(result.is_error(), error, "{ended:?}");
            assert_eq!(result.texts(), text, "{ended:?}");
            let value = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap();
            assert_eq!(
                value(result.get("structuredContent").unwrap().get()),
                value(structured),
                "{ended:?}"
            );
        }
    }

    #[test]
    fn what_nobody_saw_end_is_unknown_and_what_never_began_ran_nothing() {
        let result = Ended::Unseen.told(Duration::ZERO);
        assert!(result.is_error());
        assert_eq!(result.meta(OUTCOME_KEY).unwrap().get(), r#""unknown""#);
        assert!(result.get("structuredContent").is_none());
        let result = Ended::NotStarted(SpawnFault::NotFound).told(Duration::ZERO);
        assert!(result.is_error() && result.meta(OUTCOME_KEY).is_none());
        assert_eq!(result.texts(), "the program was not found. Nothing ran.");
    }

    fn digest(arguments: &str) -> CallDigest {
        CallDigest::of(&CallIdentity {
            slug: "s",
            tool: "act",
            arguments: &Exact::parse(arguments).unwrap(),
            principal: "p",
            channel: None,
        })
    }

    /// A gated call with these arguments, which runs `argv`.
    fn gated(arguments: &str, argv: &[&str]) -> Gated {
        let tool = CommandTool {
            name: "act".to_owned(),
            description: None,
            argv: Vec::new(),
            gate: Some("It acts.".to_owned()),
            flags: Vec::new(),
            options: Vec::new(),
            positionals: Vec::new(),
            timeout_ms: 1000,
        };
        let read = Arguments {
            shown: Vec::new(),
            argv: argv.iter().map(|&text| text.to_owned()).collect(),
        };
        let env = vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
        match Plan::new(&tool, read, digest(arguments), env, 1000) {
            Plan::Gated(gated) => gated,
            Plan::Open(_) => panic!("a gated tool gave an open plan"),
        }
    }

    #[test]
    fn over_4_kb_of_argv_nobody_is_asked() {
        for (length, too_long) in [(SHOWN_BYTES - 2, false), (SHOWN_BYTES - 1, true)] {
            let long = "\u{e9}".repeat(length / 2) + &"x".repeat(length % 2);
            assert_eq!(gated("{}", &["ab", &long]).is_too_long_to_show(), too_long);
        }
    }

    /// Says yes to every question.
    struct Yes;

    impl Handler for Yes {
        async fn handle(&self, request: Request, responder: Responder) -> Responded {
            let asked = matches!(request.head.method, Method::Post);
            let _ = request.body.read_all(1 << 16).await;
            let (status, body) = match asked {
                true => (201, r#"{"action":"pending","_meta":{}}"#),
                false => (200, r#"{"action":"accept","content":{"confirm":true}}"#),
            };
            let headers = [("content-type", "application/json")];
            responder.send(status, &headers, body.as_bytes()).await
        }
    }

    /// Whether the caller has left and the policy has changed.
    #[derive(Default)]
    struct Meanwhile {
        left: AtomicBool,
        changed: AtomicBool,
    }

    impl Caller for Meanwhile {
        fn has_left(&self) -> bool {
            self.left.load(Ordering::Relaxed)
        }
    }

    impl Policy for Meanwhile {
        fn still_allows(&self) -> Result<(), PolicyChanged> {
            match self.changed.load(Ordering::Relaxed) {
                true => Err(PolicyChanged::Rules("the tool has changed")),
                false => Ok(()),
            }
        }
    }

    /// A permit of the real gate, from an endpoint on loopback that says yes.
    async fn permit(world: &World, digest: CallDigest, meanwhile: &Arc<Meanwhile>) -> Permit {
        let listener = world.net.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let prefix = format!("http://{}/ask/", listener.local_address().unwrap());
        let limits = Arc::new(Limits::default());
        let serving = serve(world.clone(), listener, Arc::new(Yes), limits);
        let serving = world.spawn(serving).unwrap();
        let allowlist = Allowlist::parse(std::slice::from_ref(&prefix)).unwrap();
        let channel = Forwarded::Channel(Channel {
            url: allowlist.admit(format!("{prefix}x").as_bytes()).unwrap(),
            ttl: Duration::from_secs(60),
            slug: "s".to_owned(),
            headers: Vec::new(),
        });
        let timing = AskTiming {
            poll: Duration::from_millis(10),
        };
        let asker = Asker::new(world.clone(), Client::new(world.clone()), timing);
        let ask = Ask {
            digest,
            tool: "act".to_owned(),
            message: "?".to_owned(),
            title: "?".to_owned(),
            description: None,
            caller: meanwhile.clone(),
            policy: meanwhile.clone(),
        };
        let outcome = Gate::new(world.clone(), asker)
            .ask(ask, Some(&channel))
            .await;
        drop(serving);
        match outcome {
            Outcome::Approved(permit) => permit,
            other => panic!("{other}"),
        }
    }

    /// Runs a gated call that would write `file`, after `between` has happened to it, its permit and its world.
    fn after_a_yes(
        shown: &str,
        run: &str,
        argv: &[&str],
        between: impl FnOnce(&World, &Meanwhile) + Send + 'static,
    ) -> RpcResult {
        let runtime = Runtime::with(Clock::real(), Net::real(), Random::seeded(1));
        let world = runtime.world().clone();
        let (shown, call) = (digest(shown), gated(run, argv));
        runtime.block_on(async move {
            let meanwhile = Arc::default();
            let permit = permit(&world, shown, &meanwhile).await;
            between(&world, &meanwhile);
            call.run(permit, &world).await
        })
    }

    #[test]
    fn only_the_call_that_was_shown_runs_and_only_while_it_may() {
        let call = r#"{"name":"a"}"#;
        let file = std::env::temp_dir().join(format!("countersign-act-{}", std::process::id()));
        let path = file.display().to_string();
        let argv = ["touch", "--", &path];
        let nothing = |_: &World, _: &Meanwhile| {};
        let acted = || std::fs::remove_file(&file).is_ok();
        // What a killed test of the same process id left behind is no act.
        acted();

        let result = after_a_yes(call, call, &argv, nothing);
        assert!(acted() && !result.is_error());
        assert_eq!(result.meta(OUTCOME_KEY).unwrap().get(), r#""done""#);
        assert!(result.meta("countersign/outcome-approval").is_some());

        let left = |_: &World, meanwhile: &Meanwhile| meanwhile.left.store(true, Ordering::Relaxed);
        let changed =
            |_: &World, meanwhile: &Meanwhile| meanwhile.changed.store(true, Ordering::Relaxed);
        for (result, word) in [
            (
                after_a_yes(call, r#"{"name":"b"}"#, &argv, nothing),
                "policy-changed",
            ),
            (after_a_yes(call, "{}", &argv, nothing), "policy-changed"),
            (after_a_yes(call, call, &argv, left), "caller-left"),
            (after_a_yes(call, call, &argv, changed), "policy-changed"),
        ] {
            assert!(!acted(), "{word}");
            assert!(result.is_error() && result.texts().ends_with("Nothing ran."));
            assert_eq!(result.meta(OUTCOME_KEY).unwrap().get(), quote(word));
            assert!(result.get("structuredContent").is_none());
        }

        // A yes that could not be acted on is not "done".
        let result = after_a_yes(call, call, &["/nonexistent/program"], nothing);
        assert!(result.is_error() && result.meta(OUTCOME_KEY).is_none());
        assert!(result.meta("countersign/outcome-approval").is_some());
    }
}
