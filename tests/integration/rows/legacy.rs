//! Rows L1 to L10: what a server of the legacy era must and should do, and the three that are not met on purpose.

use serde_json::json;

use super::{answer, error_code, messages, status};
use crate::eras::{Event, FORM_AND_URL, Served, call, cancel};
use crate::lab;

fn initialize(version: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"t","version":"1"}}}}}}"#
    )
}

/// `initialize`: supported version echoed, else another supported one in a success result (25: lifecycle).
#[test]
fn l1_initialize_agrees_on_a_version() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
            let got = answer(&served.whole("", &initialize(version)).await);
            assert_eq!(got["result"]["protocolVersion"], version);
        }
        for version in ["2024-11-05", "2026-07-28", "next"] {
            let got = answer(&served.whole("", &initialize(version)).await);
            assert_eq!(got["result"]["protocolVersion"], "2025-11-25", "{got}");
        }
    });
}

/// Request with an ended session id → 404 (25: transports). Not met on purpose: a session id is a sealed name for what is
/// in flight and nothing else ("no state between requests"), so that an ended one is served like none, and opens nothing.
#[test]
fn l2_an_ended_session_is_served_like_none() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let session = served.session("ann", "2025-11-25", "{}").await;
        let ended = served
            .send("DELETE", &session, "")
            .await
            .until("\u{0}never")
            .await;
        assert!(status(&ended) < 300, "{ended}");
        let got = served.whole(&session, &call("1", "echo")).await;
        assert_eq!(status(&got), 200, "{got}");
    });
}

/// Required session id missing (not on `initialize`) → 400 (25: transports). Not met on purpose: none is required.
#[test]
fn l3_no_session_is_needed() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let headers = "MCP-Protocol-Version: 2025-11-25\r\n";
        let got = served.whole(headers, &call("1", "echo")).await;
        assert_eq!(status(&got), 200, "{got}");
    });
}

/// Invalid/unsupported `MCP-Protocol-Version` → 400; absent → assume `2025-03-26` (25: transports).
#[test]
fn l4_the_version_header_is_looked_at() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        for version in ["1999-01-01", "latest", ""] {
            let headers = format!("MCP-Protocol-Version: {version}\r\n");
            let got = served.whole(&headers, &call("1", "echo")).await;
            assert_eq!(status(&got), 400, "{version}: {got}");
        }
        // Batches are of that revision alone.
        let got = served.whole("", &format!("[{}]", call("1", "echo"))).await;
        assert_eq!(status(&got), 200, "{got}");
    });
}

/// GET → SSE or 405; DELETE → ends session or 405 (25: transports).
#[test]
fn l5_get_is_a_stream_and_delete_ends_what_is_in_flight() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let session = served.session("ann", "2025-11-25", "{}").await;
        let got = served
            .send("GET", &session, "")
            .await
            .until("listening")
            .await;
        assert!(got.contains("content-type: text/event-stream"), "{got}");
        let caller = served.post(&session, &call("1", "wait")).await;
        caller.until(": held").await;
        served.expect(Event::Entered("wait".to_owned())).await;
        served
            .send("DELETE", &session, "")
            .await
            .until("\u{0}never")
            .await;
        served.expect(Event::Gone("wait".to_owned())).await;
    });
}

/// When speaking 2025-03-26: accept batch arrays (`initialize` never inside one) (2025-03-26: basic/index, lifecycle).
#[test]
fn l6_a_batch_is_answered_as_one() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let headers = "MCP-Protocol-Version: 2025-03-26\r\n";
        let batch = format!("[{},{}]", call("1", "echo"), call("2", "echo"));
        let got = served.whole(headers, &batch).await;
        let array = got.split("\r\n\r\n").nth(1).unwrap();
        let array: Vec<serde_json::Value> = serde_json::from_str(array.trim()).unwrap();
        let ids: Vec<_> = array.iter().map(|one| one["id"].clone()).collect();
        assert_eq!(ids, [json!(1), json!(2)]);
        let batch = format!("[{}]", initialize("2025-03-26"));
        let got = served.whole(headers, &batch).await;
        assert!(
            got.contains("-32600") && !got.contains("protocolVersion"),
            "{got}"
        );
        let later = "MCP-Protocol-Version: 2025-06-18\r\n";
        let got = served
            .whole(later, &format!("[{}]", call("1", "echo")))
            .await;
        assert_eq!(status(&got), 400, "{got}");
    });
}

/// Disconnect is not a cancel; `notifications/cancelled` is (25: transports). Its first half is not met on purpose: who
/// leaves can receive no result here, so that the call ends.
#[test]
fn l7_who_leaves_ends_the_call_and_a_message_cancels_it() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let session = served.session("ann", "2025-11-25", "{}").await;
        for by_message in [true, false] {
            let caller = served.post(&session, &call("1", "wait")).await;
            caller.until(": held").await;
            served.expect(Event::Entered("wait".to_owned())).await;
            match by_message {
                true => drop(served.whole(&session, &cancel("1")).await),
                false => drop(caller),
            }
            served.expect(Event::Gone("wait".to_owned())).await;
        }
    });
}

/// One message goes to exactly one stream; no responses on the GET stream except on resume (25: transports).
#[test]
fn l8_a_message_is_on_one_stream() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let session = served.session("ann", "2025-11-25", FORM_AND_URL).await;
        let listening = served.send("GET", &session, "").await;
        listening.until("listening").await;
        let got = served.whole(&session, &call("1", "tell")).await;
        assert_eq!(messages(&got).len(), 5, "{got}");
        served.announcer.announce(&countersign::mcp::Change::Tools);
        let heard = listening.until("list_changed").await;
        assert_eq!(messages(&heard).len(), 1, "{heard}");
    });
}

/// `ping` answered promptly with `{}` (25: ping).
#[test]
fn l9_a_ping_is_answered() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let headers = "MCP-Protocol-Version: 2025-11-25\r\n";
        let ping = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;
        let got = answer(&served.whole(headers, ping).await);
        assert_eq!(got["result"], json!({}), "{got}");
        assert_eq!(error_code(r#"{"id":1,"result":{}}"#), 0);
    });
}

/// Session id visible ASCII 0x21–0x7E, unguessable; never used as authentication (25: transports, security best practices).
#[test]
fn l10_a_session_id_is_a_name_and_no_key() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let mut ids = std::collections::HashSet::new();
        for _ in 0..20 {
            let session = served.session("ann", "2025-11-25", "{}").await;
            let id = session
                .split("Mcp-Session-Id: ")
                .nth(1)
                .unwrap()
                .trim_end()
                .to_owned();
            assert!(id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "{id}");
            assert!(id.len() >= 32 && ids.insert(id));
        }
        // Ann's session in somebody else's hands is none: what is hers goes on.
        let session = served.session("ann", "2025-11-25", "{}").await;
        let caller = served.post(&session, &call("1", "wait")).await;
        caller.until(": held").await;
        served.expect(Event::Entered("wait".to_owned())).await;
        let theirs = session.replace("X-Who: ann", "X-Who: bob");
        served.whole(&theirs, &cancel("1")).await;
        served
            .send("DELETE", &theirs, "")
            .await
            .until("\u{0}never")
            .await;
        assert!(served.events.is_empty());
        served.whole(&session, &cancel("1")).await;
        served.expect(Event::Gone("wait".to_owned())).await;
    });
}
