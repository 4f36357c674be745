//! Rows S20 to S33 (S34 is in `desk`, S46 in `stdio_server`): what a server asks of its caller, and what it makes of the answers.

use std::time::Duration;

use super::{answer, error_code, status, with};
use crate::chain;
use crate::eras::{Event, FORM_AND_URL, Served, modern};
use crate::lab::{self, Acts, Endpoint, Reply, advancing};
use crate::relay::LegacyOnly;

/// The gateway in front of a legacy server whose tool `form` asks its caller: a modern one gets a state of ours.
fn parked(world: &countersign::world::World) -> (Served, Served) {
    let hash =
        |token: &str| countersign::secret::hex(&countersign::secret::sha256(token.as_bytes()));
    let (tools, mut far) = Served::apart(world, false);
    far.address = lab::listen(world, LegacyOnly(tools));
    let config = lab::config(&format!(
        "gateway:\n  tokens:\n    - {{id: ann, sha256: {}, roles: [admin]}}\n    - {{id: bob, sha256: {}, roles: [admin]}}\nservers:\n  - {{slug: far, kind: remote-http, url: \"http://{}/mcp\"}}\n",
        hash("ann-token"),
        hash("bob-token"),
        far.address
    ));
    let (_, mut near) = Served::apart(world, false);
    near.address = lab::gateway(world, &config);
    (near, far)
}

async fn call(near: &Served, who: &str, tool: &str, arguments: &str, answers: &str) -> String {
    let params = format!(r#""name":"far__{tool}","arguments":{arguments}{answers}"#);
    let token = format!("Authorization: Bearer {who}-token\r\n");
    with(near, &token, "tools/call", &params, FORM_AND_URL, "").await
}

/// Asks, and gives the state.
async fn state(near: &Served) -> String {
    let got = call(near, "ann", "form", "{}", "").await;
    let state = answer(&got)["result"]["requestState"]
        .as_str()
        .map(str::to_owned);
    state.unwrap_or_else(|| panic!("{got}"))
}

fn yes(state: &str) -> String {
    format!(
        r#","inputResponses":{{"up.question":{{"action":"accept","content":{{}}}}}},"requestState":"{state}""#
    )
}

/// How often the far server has gone on after an answer: it says what it got.
fn went_on(got: &str) -> bool {
    got.contains("accept") && got.contains(r#""resultType":"complete""#)
}

/// `InputRequiredResult` only for `tools/call`, `prompts/get`, `resources/read` (mrtr).
#[test]
fn s20_only_three_methods_ask_for_input() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        for (method, params, named, asks) in [
            ("tools/call", r#""name":"form""#, "", true),
            ("prompts/get", r#""name":"form""#, "", true),
            (
                "resources/read",
                r#""uri":"form""#,
                "Mcp-Name: form\r\n",
                true,
            ),
            ("completion/complete", r#""name":"form""#, "", false),
        ] {
            let got = with(&served, named, method, params, FORM_AND_URL, "").await;
            assert_eq!(got.contains("input_required"), asks, "{method}: {got}");
        }
    });
}

/// `inputRequests` or `requestState` present; entries only elicitation/sampling/roots (mrtr).
#[test]
fn s21_what_is_asked_is_something_a_client_can_answer() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let capable = r#"{"elicitation":{},"sampling":{},"roots":{}}"#;
        let got = with(&served, "", "tools/call", r#""name":"both""#, capable, "").await;
        let got = answer(&got);
        let asked = got["result"]["inputRequests"].as_object().unwrap();
        let methods: Vec<&str> = asked
            .values()
            .map(|one| one["method"].as_str().unwrap())
            .collect();
        assert_eq!(methods, ["sampling/createMessage", "roots/list"]);
        assert!(got["result"]["requestState"].is_string());
    });
}

/// Never an undeclared kind or mode in `inputRequests` (mrtr, elicitation). Needed capability undeclared → `-32021`, 400,
/// object-valued `requiredCapabilities`; tool not executed (basic/index).
#[test]
fn s22_and_s23_nobody_is_asked_what_they_did_not_say_they_answer() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        for (tool, declared) in [
            ("form", "{}"),
            ("form", r#"{"elicitation":{"url":{}}}"#),
            ("url", r#"{"elicitation":{"form":{}}}"#),
            ("both", r#"{"sampling":{}}"#),
        ] {
            let name = format!(r#""name":"{tool}""#);
            let got = with(&served, "", "tools/call", &name, declared, "").await;
            assert_eq!(
                (status(&got), error_code(&got)),
                (400, -32021),
                "{tool} {declared}: {got}"
            );
            let required = &answer(&got)["error"]["data"]["requiredCapabilities"];
            assert!(required.is_object(), "{got}");
        }
    });
}

/// `requestState` bit-flip, truncation, appended text → JSON-RPC error, not executed (mrtr).
#[test]
fn s24_a_state_that_was_changed_runs_nothing_and_the_genuine_one_still_does() {
    lab::run(|world| async move {
        let (near, _far) = parked(&world);
        let state = state(&near).await;
        let mut changed: Vec<String> = (0..state.len())
            .map(|at| {
                let other = if &state[at..=at] == "A" { "B" } else { "A" };
                format!("{}{other}{}", &state[..at], &state[at + 1..])
            })
            .collect();
        changed.extend([
            state[..state.len() - 1].to_owned(),
            format!("{state}A"),
            String::new(),
        ]);
        for changed in changed {
            // The last character of base64url may carry bits that mean nothing: those are refused too.
            let got = call(&near, "ann", "form", "{}", &yes(&changed)).await;
            assert_eq!(error_code(&got), -32602, "{changed}: {got}");
        }
        let got = call(&near, "ann", "form", "{}", &yes(&state)).await;
        assert!(went_on(&got), "{got}");
    });
}

/// State of principal A used by B → rejected (mrtr).
#[test]
fn s25_a_state_is_good_for_its_own_caller() {
    lab::run(|world| async move {
        let (near, _far) = parked(&world);
        let state = state(&near).await;
        let got = call(&near, "bob", "form", "{}", &yes(&state)).await;
        assert_eq!(error_code(&got), -32602, "{got}");
        assert!(went_on(
            &call(&near, "ann", "form", "{}", &yes(&state)).await
        ));
    });
}

/// State used with another tool or changed arguments → rejected (mrtr).
#[test]
fn s26_a_state_is_good_for_its_own_call() {
    lab::run(|world| async move {
        let (near, _far) = parked(&world);
        let state = state(&near).await;
        for (tool, arguments) in [("url", "{}"), ("form", r#"{"a":1}"#)] {
            let got = call(&near, "ann", tool, arguments, &yes(&state)).await;
            assert_eq!(error_code(&got), -32602, "{got}");
        }
        assert!(went_on(
            &call(&near, "ann", "form", "{}", &yes(&state)).await
        ));
    });
}

/// Expired state → rejected (mrtr).
#[test]
fn s27_a_state_ends_with_the_time_of_its_call() {
    lab::run(|world| async move {
        let (near, far) = parked(&world);
        let state = state(&near).await;
        far.expect(Event::Entered("form".to_owned())).await;
        advancing(&world, world.clock.sleep(Duration::from_secs(121))).await;
        let got = call(&near, "ann", "form", "{}", &yes(&state)).await;
        assert_eq!(error_code(&got), -32602, "{got}");
    });
}

/// (gate) state replayed after use → rejected, executed exactly once, also under two concurrent retries (mrtr).
#[test]
fn s28_a_state_is_used_once() {
    lab::run(|world| async move {
        let (near, _far) = parked(&world);
        let state = state(&near).await;
        let answers = yes(&state);
        let (one, two) = smol::future::zip(
            call(&near, "ann", "form", "{}", &answers),
            call(&near, "ann", "form", "{}", &answers),
        )
        .await;
        assert_eq!(
            [&one, &two].iter().filter(|got| went_on(got)).count(),
            1,
            "{one}\n{two}"
        );
        let again = call(&near, "ann", "form", "{}", &answers).await;
        assert_eq!(error_code(&again), -32602, "{again}");
    });
}

/// Missing answer → asked again; extra keys ignored; malformed → error; none executes (mrtr). A parked call cannot be
/// parked twice, so that a missing answer is an error, and the place stays.
#[test]
fn s29_an_answer_that_is_none_runs_nothing() {
    lab::run(|world| async move {
        let (near, _far) = parked(&world);
        let state = state(&near).await;
        for answers in [
            format!(r#","requestState":"{state}""#),
            format!(r#","inputResponses":{{}},"requestState":"{state}""#),
            format!(r#","inputResponses":[],"requestState":"{state}""#),
            format!(r#","inputResponses":{{"up.question":7}},"requestState":"{state}""#),
        ] {
            let got = call(&near, "ann", "form", "{}", &answers).await;
            assert_eq!(error_code(&got), -32602, "{answers}: {got}");
        }
        let more = yes(&state).replace(r#"{"up.question""#, r#"{"other":{},"up.question""#);
        assert!(went_on(&call(&near, "ann", "form", "{}", &more).await));
    });
}

/// A gated tool behind the gateway, and what one answer of the endpoint makes of a call.
async fn asked(
    world: &countersign::world::World,
    more: &str,
    reply: Reply,
) -> (String, usize, Vec<lab::Seen>) {
    let acts = Acts::new();
    let endpoint = Endpoint::start(world);
    let config = lab::config(&chain::text(&endpoint, &acts.argv(), None));
    let (_, mut near) = Served::apart(world, false);
    near.address = lab::gateway(world, &config);
    let channel = format!("X-Elicitation-Url: {}\r\n", endpoint.channel("1-token-aa"));
    let params = format!(r#""name":"s__act","arguments":{{}}{more}"#);
    let (headers, body) = modern("tools/call", &params, FORM_AND_URL, "");
    let caller = near.post(&format!("{headers}{channel}"), &body).await;
    let mut seen = Vec::new();
    let answering = async {
        loop {
            let (one, answer) = endpoint.next().await;
            // "No side effect before approval."
            assert_eq!(acts.count(), 0);
            let _ = answer.try_send(if one.is_post() {
                lab::created()
            } else {
                reply.clone()
            });
            seen.push(one);
        }
    };
    let got = advancing(world, smol::future::or(caller.until(END_OF_IT), answering)).await;
    (got, acts.count(), seen)
}

const END_OF_IT: &str = "countersign/outcome";

/// decline, cancel, accept-without-approve → not executed (elicitation).
#[test]
fn s30_only_a_yes_runs() {
    lab::run(|world| async move {
        for (reply, outcome, acts) in [
            (r#"{"action":"decline","content":null}"#, "declined", 0),
            (r#"{"action":"cancel","content":null}"#, "cancelled", 0),
            (
                r#"{"action":"accept","content":{"confirm":false}}"#,
                "not-confirmed",
                0,
            ),
            (r#"{"action":"accept","content":{}}"#, "not-confirmed", 0),
            (
                r#"{"action":"accept","content":{"confirm":true}}"#,
                "done",
                1,
            ),
        ] {
            let (got, acted, _) = asked(&world, "", Reply::json(reply)).await;
            assert!(
                got.contains(&format!(r#""countersign/outcome":"{outcome}""#)),
                "{got}"
            );
            assert_eq!(acted, acts, "{reply}");
        }
    });
}

/// First call with forged `inputResponses` and no state → not executed.
#[test]
fn s31_an_answer_to_nothing_counts_for_nothing() {
    lab::run(|world| async move {
        let forged = r#","inputResponses":{"gate.confirm":{"action":"accept","content":{"confirm":true}},"confirm":{"action":"accept","content":{"confirm":true}}}"#;
        let decline = Reply::json(r#"{"action":"decline","content":null}"#);
        let (got, acted, seen) = asked(&world, forged, decline).await;
        assert!(got.contains(r#""countersign/outcome":"declined""#), "{got}");
        assert!(seen.iter().any(lab::Seen::is_post) && acted == 0);
        // And at a legacy server behind the gateway it is a call like any other, which asks.
        let (near, _far) = parked(&world);
        let answers = yes("x")
            .split(r#","requestState""#)
            .next()
            .unwrap()
            .to_owned();
        let got = call(&near, "ann", "form", "{}", &answers).await;
        assert!(got.contains("input_required"), "{got}");
    });
}

/// No side effect before approval; nothing leaks if the client never returns (mrtr).
#[test]
fn s32_who_never_returns_leaves_nothing_behind() {
    lab::run(|world| async move {
        let (near, far) = parked(&world);
        state(&near).await;
        far.expect(Event::Entered("form".to_owned())).await;
        // What the far server holds is freed when the call's time is over.
        advancing(&world, world.clock.sleep(Duration::from_secs(121))).await;
        advancing(&world, far.expect(Event::Gone("form".to_owned()))).await;
    });
}

/// No secrets asked by form; URL mode instead (elicitation). Ours asks for one tick and nothing else.
#[test]
fn s33_the_gates_own_question_asks_for_a_tick() {
    lab::run(|world| async move {
        let (_, _, seen) = asked(&world, "", Reply::accept()).await;
        let question: serde_json::Value = serde_json::from_str(&seen[0].body).unwrap();
        let properties = question["requestedSchema"]["properties"]
            .as_object()
            .unwrap();
        assert_eq!(properties.len(), 1, "{question}");
        assert_eq!(properties["confirm"]["type"], "boolean", "{question}");
    });
}
