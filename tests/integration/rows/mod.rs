//! The checklist of the protocol, a test for every row that a server, a client or a gateway must or should keep, each named
//! after its row and beginning with the row's words. What a row asks is checked here at its core; the files beside this
//! folder try the same things in depth.
//!
//! Some stand where their tools are: S34 in `desk`, S46 in `stdio_server`, C24 and C25 in `stdio_client`, L13 in `resume`.
//!
//! Four rows are not met on purpose: L2, L3, L7 and G15. Their tests quote them and assert our rule.
//!
//! Of S24 to S29 and G11 only that is here which the states of parked calls show (a legacy server's question to a modern
//! caller): the gate's own states come with the gate for such callers.

pub mod client;
mod gateway;
mod legacy;
mod server;
mod server_input;

use crate::eras::{Served, modern};

/// A modern request, sent to a server or a gateway by itself, and the whole answer.
async fn ask(to: &Served, method: &str, params: &str) -> String {
    with(to, "", method, params, "{}", "").await
}

/// The same with headers, capabilities and more of `_meta`.
async fn with(
    to: &Served,
    more_headers: &str,
    method: &str,
    params: &str,
    capabilities: &str,
    more_meta: &str,
) -> String {
    let (headers, body) = modern(method, params, capabilities, more_meta);
    to.whole(&format!("{headers}{more_headers}"), &body).await
}

fn status(got: &str) -> u16 {
    let word = got.split(' ').nth(1).unwrap_or_default();
    word.parse().unwrap_or_else(|_| panic!("no status: {got}"))
}

/// Every JSON-RPC message of an answer, whatever frames it.
fn messages(got: &str) -> Vec<serde_json::Value> {
    let lines = got.lines().map(|line| line.trim_start_matches("data: "));
    lines
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap_or_else(|fault| panic!("{fault}: {line}")))
        .collect()
}

/// The one message that answers.
fn answer(got: &str) -> serde_json::Value {
    let answers: Vec<_> = messages(got)
        .into_iter()
        .filter(|message| message.get("method").is_none())
        .collect();
    assert_eq!(answers.len(), 1, "{got}");
    answers[0].clone()
}

fn error_code(got: &str) -> i64 {
    answer(got)["error"]["code"].as_i64().unwrap_or_default()
}
