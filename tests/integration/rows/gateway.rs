//! Rows G1 to G25: what a gateway must and should do, between a caller and a server that writes everything down.

use std::time::Duration;

use serde_json::{Value, json};

use super::client::{Far, JSON, STREAM, Seen, error, legacy, modern as far_modern, result};
use super::{answer, ask, error_code, messages, status, with};
use crate::chain;
use crate::eras::{FORM_AND_URL, Served, call, cancel, modern};
use crate::lab::{self, Acts, Endpoint, Reply, advancing, within};

const DONE: &str = r#"{"resultType":"complete","content":[{"type":"text","text":"done"}]}"#;

/// The gateway in front of scripted servers, by their slugs. `more` of each one's configuration.
fn gateway(world: &countersign::world::World, fars: &[(&str, &Far)], more: &str) -> Served {
    let servers: String = fars
        .iter()
        .map(|(slug, far)| {
            format!(
                "  - {{slug: {slug}, kind: remote-http, url: \"http://{}/mcp\"{more}}}\n",
                far.address
            )
        })
        .collect();
    let (_, mut near) = Served::apart(world, false);
    near.address = lab::gateway(world, &lab::config(&format!("servers:\n{servers}")));
    near
}

fn lists(
    tools: &'static str,
) -> impl Fn(&Seen) -> Option<(u16, &'static str, String)> + Send + Sync {
    far_modern(move |seen| match seen.what() {
        "tools/list" => result(
            seen,
            &format!(r#"{{"resultType":"complete","tools":[{tools}]}}"#),
        ),
        "tools/call" => result(seen, DONE),
        _ => error(seen, 404, -32601, "null"),
    })
}

const TOOL: &str = r#"{"name":"t","inputSchema":{"type":"object"}}"#;

/// Is a full server downstream and a full client upstream; everything in 7.1 and 7.2.
#[test]
fn g1_a_call_goes_through_from_end_to_end() {
    lab::run(|world| async move {
        let far = Far::start(&world, lists(TOOL));
        let near = gateway(&world, &[("far", &far)], "");
        let listed = answer(&ask(&near, "tools/list", "").await);
        assert_eq!(listed["result"]["tools"][0]["name"], "far__t");
        let got = answer(&ask(&near, "tools/call", r#""name":"far__t""#).await);
        assert_eq!(got["result"]["content"][0]["text"], "done");
    });
}

/// Client token never forwarded; separate upstream tokens (authorization/security-considerations). And G5, G22's headers: what
/// a caller sends beside its request reaches no server.
#[test]
fn g2_and_g5_what_a_caller_sends_beside_its_request_reaches_nobody() {
    lab::run(|world| async move {
        let far = Far::start(&world, lists(TOOL));
        let near = gateway(&world, &[("far", &far)], ", headers: {X-Key: far-key}");
        let theirs = "Authorization: Bearer caller-token\r\nCookie: c=1\r\nX-Elicitation-Url: https://a.example/s\r\nX-Other: 1\r\nMcp-Param-Unknown: x\r\n";
        let meta = r#","dev.strad/elicitation":{"skip":true,"slug":"far"},"com.example/own":1,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01""#;
        with(
            &near,
            theirs,
            "tools/call",
            r#""name":"far__t""#,
            "{}",
            meta,
        )
        .await;
        let seen = far.asked("tools/call").pop().unwrap();
        assert_eq!(seen.header("x-key"), Some("far-key"));
        for name in [
            "authorization",
            "cookie",
            "x-elicitation-url",
            "x-other",
            "mcp-param-unknown",
        ] {
            assert_eq!(seen.header(name), None, "{name}");
        }
        let meta = seen.body["params"]["_meta"].as_object().unwrap();
        let ours = ["progressToken", "traceparent"];
        for key in meta.keys() {
            assert!(
                key.starts_with("io.modelcontextprotocol/") || ours.contains(&key.as_str()),
                "{key}"
            );
        }
    });
}

/// Body processed → headers validated before any policy decision; decisions use the body (streamable-http).
#[test]
fn g3_and_g6_a_header_that_says_something_else_reaches_no_server() {
    lab::run(|world| async move {
        let far = Far::start(&world, lists(TOOL));
        let near = gateway(&world, &[("far", &far)], "");
        let (headers, body) = modern("tools/call", r#""name":"far__t""#, "{}", "");
        let got = near
            .whole(&headers.replace("far__t", "far__u"), &body)
            .await;
        assert_eq!((status(&got), error_code(&got)), (400, -32020), "{got}");
        assert!(far.seen().is_empty());
    });
}

/// Headers to the upstream rebuilt from the outgoing body (renamed tool → new `Mcp-Name`; new version → new header)
/// (streamable-http).
#[test]
fn g4_headers_say_what_the_outgoing_body_says() {
    lab::run(|world| async move {
        let far = Far::start(&world, lists(TOOL));
        let near = gateway(&world, &[("far", &far)], "");
        ask(&near, "tools/call", r#""name":"far__t""#).await;
        // A legacy caller has no such headers at all.
        near.whole("MCP-Protocol-Version: 2025-06-18\r\n", &call("1", "far__t"))
            .await;
        let seen = far.asked("tools/call");
        assert_eq!(seen.len(), 2);
        for seen in seen {
            assert_eq!(seen.header("mcp-name"), Some("t"));
            assert_eq!(seen.header("mcp-method"), Some("tools/call"));
            assert_eq!(seen.header("mcp-protocol-version"), Some("2026-07-28"));
            assert_eq!(seen.body["params"]["name"], "t");
        }
    });
}

/// Tool name collisions resolved by prefix, not by `serverInfo.name` (tools).
#[test]
fn g7_tools_of_one_name_are_told_apart_by_their_slug() {
    lab::run(|world| async move {
        let (one, two) = (
            Far::start(&world, lists(TOOL)),
            Far::start(&world, lists(TOOL)),
        );
        let near = gateway(&world, &[("one", &one), ("two", &two)], "");
        let listed = answer(&ask(&near, "tools/list", "").await);
        let names: Vec<&Value> = listed["result"]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| &tool["name"])
            .collect();
        assert_eq!(names, ["one__t", "two__t"]);
        ask(&near, "tools/call", r#""name":"two__t""#).await;
        assert_eq!(
            (one.asked("tools/call").len(), two.asked("tools/call").len()),
            (0, 1)
        );
    });
}

/// Ids and `progressToken`s remapped per upstream and mapped back with original JSON type (progress, basic/index).
#[test]
fn g8_ids_and_tokens_are_ours_over_there_and_the_callers_here() {
    lab::run(|world| async move {
        let far = Far::start(
            &world,
            far_modern(|seen| match seen.what() {
                "tools/call" => {
                    let (_, _, text) = result(seen, DONE)?;
                    let token = &seen.body["params"]["_meta"]["progressToken"];
                    Some((
                        200,
                        STREAM,
                        format!(
                            "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":{token},\"progress\":1}}}}\n\ndata: {text}\n\n"
                        ),
                    ))
                }
                _ => result(seen, r#"{"tools":[]}"#),
            }),
        );
        let near = gateway(&world, &[("far", &far)], "");
        for (id, token) in [("\"7\"", "7"), ("7", "\"7\"")] {
            let meta = format!(r#","progressToken":{token}"#);
            let (headers, body) = modern("tools/call", r#""name":"far__t""#, "{}", &meta);
            let body = body.replace(r#""id":"m""#, &format!(r#""id":{id}"#));
            let got = near.whole(&headers, &body).await;
            let parsed = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
            assert_eq!(answer(&got)["id"], parsed(id), "{got}");
            let progress = messages(&got)
                .into_iter()
                .find(|one| one["method"] == "notifications/progress");
            assert_eq!(
                progress.unwrap()["params"]["progressToken"],
                parsed(token),
                "{got}"
            );
        }
        let calls = far.asked("tools/call");
        assert_ne!(calls[0].body["id"], calls[1].body["id"]);
    });
}

/// Upstream `clientCapabilities` ⊆ what the downstream request declared plus what the gateway itself can answer (basic/index).
#[test]
fn g9_a_server_is_told_no_more_than_the_caller_said() {
    lab::run(|world| async move {
        let far = Far::start(&world, lists(TOOL));
        let near = gateway(&world, &[("far", &far)], "");
        for declared in [
            "{}",
            r#"{"roots":{}}"#,
            r#"{"elicitation":{"form":{}},"com.example/x":{}}"#,
        ] {
            with(&near, "", "tools/call", r#""name":"far__t""#, declared, "").await;
            let seen = far.asked("tools/call").pop().unwrap();
            let told =
                seen.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"].clone();
            let declared: Value = serde_json::from_str(declared).unwrap();
            for (name, value) in told.as_object().unwrap() {
                assert_eq!(declared[name], *value, "{told}");
            }
        }
    });
}

/// Upstream `InputRequiredResult` relayed: its `requestState` byte-exact …; retry reaches the same upstream (mrtr).
#[test]
fn g10_a_servers_state_comes_back_to_it_byte_for_byte() {
    lab::run(|world| async move {
        let asks = r#"{"resultType":"input_required","inputRequests":{"k":{"method":"roots/list","params":{}}},"requestState":"\u0041/é=\" "}"#;
        let far = Far::start(
            &world,
            far_modern(
                move |seen| match seen.body["params"]["requestState"].is_null() {
                    true => result(seen, asks),
                    false => result(seen, DONE),
                },
            ),
        );
        let near = gateway(&world, &[("far", &far)], "");
        let roots = r#"{"roots":{}}"#;
        let got = with(&near, "", "tools/call", r#""name":"far__t""#, roots, "").await;
        let got = answer(&got);
        assert_eq!(got["result"]["inputRequests"]["k"]["method"], "roots/list");
        let state = got["result"]["requestState"].to_string();
        let params = format!(
            r#""name":"far__t","inputResponses":{{"k":{{"roots":[]}}}},"requestState":{state}"#
        );
        let got = with(&near, "", "tools/call", &params, roots, "").await;
        assert!(got.contains("done"), "{got}");
        let seen = far.asked("tools/call").pop().unwrap();
        assert_eq!(seen.body["params"]["requestState"], "A/é=\" ");
        assert_eq!(
            seen.body["params"]["inputResponses"],
            json!({"k": {"roots": []}})
        );
    });
}

/// A gated tool behind the gateway, called once, with what the endpoint saw.
async fn gated(
    world: &countersign::world::World,
    arguments: &str,
    reply: Reply,
) -> (String, Vec<lab::Seen>, usize) {
    let (acts, endpoint) = (Acts::new(), Endpoint::start(world));
    let config = lab::config(&chain::text(&endpoint, &acts.argv(), None));
    let (_, mut near) = Served::apart(world, false);
    near.address = lab::gateway(world, &config);
    let channel = format!("X-Elicitation-Url: {}\r\n", endpoint.channel("1-token-bb"));
    let params = format!(r#""name":"s__act","arguments":{arguments}"#);
    let (headers, body) = modern("tools/call", &params, "{}", "");
    let caller = near.post(&format!("{headers}{channel}"), &body).await;
    let mut seen = Vec::new();
    let answering = async {
        loop {
            let (one, answer) = endpoint.next().await;
            let _ = answer.try_send(if one.is_post() {
                lab::created()
            } else {
                reply.clone()
            });
            seen.push(one);
        }
    };
    let got = advancing(
        world,
        smol::future::or(caller.until("countersign/outcome"), answering),
    )
    .await;
    (got, seen, acts.count())
}

/// Gate first, then upstream; approval bound to principal + upstream + tool + argument digest; single use (mrtr).
#[test]
fn g11_the_gate_is_asked_before_anything_runs() {
    lab::run(|world| async move {
        let (got, seen, acts) = gated(&world, "{}", Reply::json(r#"{"action":"decline"}"#)).await;
        assert!(got.contains("declined") && acts == 0, "{got}");
        assert!(seen[0].is_post());
        let (got, _, acts) = gated(&world, "{}", Reply::accept()).await;
        assert!(
            got.contains(r#""countersign/outcome":"done""#) && acts == 1,
            "{got}"
        );
    });
}

/// Approval text built from the real arguments, control characters neutralised, size-limited (elicitation).
#[test]
fn g12_the_question_shows_the_arguments_as_they_are() {
    lab::run(|world| async move {
        let (_, seen, _) = gated(
            &world,
            r#"{"note":"a\u202eb\n[s] forged"}"#,
            Reply::accept(),
        )
        .await;
        let question: Value = serde_json::from_str(&seen[0].body).unwrap();
        let message = question["message"].as_str().unwrap();
        assert!(
            message.contains("forged") && !message.contains('\u{202e}'),
            "{message}"
        );
        assert!(
            !message.lines().any(|line| line.starts_with("[s] forged")),
            "{message}"
        );
        let long = format!(r#"{{"note":"{}"}}"#, "x".repeat(200_000));
        let (got, seen, acts) = gated(&world, &long, Reply::accept()).await;
        assert!(
            got.contains("nobody-to-ask") && seen.is_empty() && acts == 0,
            "{got}"
        );
    });
}

/// No elicitation and no other approval channel → refused, upstream never contacted (basic/index). Ours is a result that says
/// so, as the spec's table of refusals wants.
#[test]
fn g13_without_anybody_to_ask_nothing_runs() {
    lab::run(|world| async move {
        let (acts, endpoint) = (Acts::new(), Endpoint::start(&world));
        let config = lab::config(&chain::text(&endpoint, &acts.argv(), None));
        let (_, mut near) = Served::apart(&world, false);
        near.address = lab::gateway(&world, &config);
        let got = ask(&near, "tools/call", r#""name":"s__act","arguments":{}"#).await;
        assert!(
            got.contains(r#""countersign/outcome":"nobody-to-ask""#),
            "{got}"
        );
        assert!(endpoint.seen.is_empty() && acts.count() == 0);
    });
}

/// Downstream disconnect (modern) → upstream cancelled: modern HTTP close, stdio/legacy `notifications/cancelled`
/// (cancellation). Downstream legacy disconnect → not a cancel; legacy `notifications/cancelled` → close the modern upstream
/// stream (25: transports): its first half is not met on purpose, since who left can receive no result here.
#[test]
fn g14_and_g15_a_caller_that_leaves_or_cancels_ends_the_call_over_there() {
    lab::run(|world| async move {
        for far_is_modern in [true, false] {
            for leaves in ["modern", "legacy", "by message"] {
                let hang = |seen: &Seen| match seen.what() {
                    "tools/call" => None,
                    "tools/list" => result(seen, r#"{"tools":[]}"#),
                    _ => Some((405, JSON, String::new())),
                };
                let far = match far_is_modern {
                    true => Far::start(&world, far_modern(hang)),
                    false => Far::start(&world, legacy(hang)),
                };
                let near = gateway(&world, &[("far", &far)], "");
                let session = near.whole("", r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#).await;
                let id = session
                    .split("mcp-session-id: ")
                    .nth(1)
                    .unwrap()
                    .split("\r\n")
                    .next()
                    .unwrap();
                let session =
                    format!("MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {id}\r\n");
                let caller = match leaves {
                    "modern" => {
                        let (headers, body) = modern("tools/call", r#""name":"far__t""#, "{}", "");
                        near.post(&headers, &body).await
                    }
                    _ => near.post(&session, &call("1", "far__t")).await,
                };
                let until = async |what: &str| {
                    let seen = async {
                        while far.asked(what).is_empty() {
                            lab::turn().await;
                        }
                    };
                    within(what, advancing(&world, seen)).await;
                };
                until("tools/call").await;
                match leaves {
                    "by message" => drop(near.whole(&session, &cancel("1")).await),
                    _ => drop(caller),
                }
                let gone = async { while far.left.recv().await.unwrap() != "tools/call" {} };
                within("the end of the call", advancing(&world, gone)).await;
                if !far_is_modern {
                    until("notifications/cancelled").await;
                }
            }
        }
    });
}

/// Caches: `private` per authorization context; aggregated list uses the strictest scope (and smallest TTL) (caching). Nothing
/// is cached here, what comes of several is nobody else's, and who may ask for one is decided by the gateway's tokens.
#[test]
fn g16_a_list_is_for_its_caller_and_asked_for_each_time() {
    lab::run(|world| async move {
        let far = Far::start(
            &world,
            far_modern(|seen| match seen.what() {
                "resources/read" => result(
                    seen,
                    r#"{"resultType":"complete","contents":[],"ttlMs":600000,"cacheScope":"public"}"#,
                ),
                _ => result(
                    seen,
                    &format!(
                        r#"{{"resultType":"complete","tools":[{TOOL}],"ttlMs":600000,"cacheScope":"public"}}"#
                    ),
                ),
            }),
        );
        let near = gateway(&world, &[("far", &far)], "");
        for _ in 0..2 {
            let got = answer(&ask(&near, "tools/list", "").await);
            assert_eq!(got["result"]["cacheScope"], "private", "{got}");
            assert_eq!(got["result"]["ttlMs"], 0, "{got}");
        }
        assert_eq!(far.asked("tools/list").len(), 2);
        let named = "Mcp-Name: mcp+far+a:b\r\n";
        let uri = r#""uri":"mcp+far+a:b""#;
        let got = with(&near, named, "resources/read", uri, "{}", "").await;
        assert_eq!(answer(&got)["result"]["cacheScope"], "private", "{got}");
        assert_eq!(got.matches("cacheScope").count(), 1, "{got}");
    });
}

/// Legacy upstream → modern client: add `resultType:"complete"` everywhere, `ttlMs:0` + `cacheScope:"private"` on the six
/// cacheable results (basic/index, caching).
#[test]
fn g17_what_a_legacy_server_says_becomes_modern() {
    lab::run(|world| async move {
        let far = Far::start(
            &world,
            legacy(|seen| match seen.what() {
                "tools/list" => result(seen, &format!(r#"{{"tools":[{TOOL}]}}"#)),
                "tools/call" => result(seen, r#"{"content":[]}"#),
                "resources/read" => result(seen, r#"{"contents":[]}"#),
                _ => Some((405, JSON, String::new())),
            }),
        );
        let near = gateway(&world, &[("far", &far)], "");
        let read = "Mcp-Name: mcp+far+a:b\r\n";
        for (method, params, named, kept) in [
            ("tools/list", "", "", true),
            ("tools/call", r#""name":"far__t""#, "", false),
            ("resources/read", r#""uri":"mcp+far+a:b""#, read, true),
        ] {
            let got = with(&near, named, method, params, "{}", "");
            let got = answer(&advancing(&world, got).await);
            assert_eq!(got["result"]["resultType"], "complete", "{got}");
            assert_eq!(got["result"]["ttlMs"] == json!(0), kept, "{got}");
            assert_eq!(
                got["result"]["cacheScope"] == json!("private"),
                kept,
                "{got}"
            );
        }
    });
}

/// Modern upstream → legacy client: `structuredContent` that is not an object and `outputSchema` without an object root are
/// illegal there (drop, keep the text); `resultType`/cache hints may be stripped (25: tools).
#[test]
fn g17b_what_a_modern_server_says_becomes_legacy() {
    lab::run(|world| async move {
        let far = Far::start(
            &world,
            far_modern(|seen| match seen.what() {
                "tools/list" => result(
                    seen,
                    r#"{"resultType":"complete","tools":[{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}]}"#,
                ),
                _ => result(
                    seen,
                    r#"{"resultType":"complete","content":[{"type":"text","text":"[1]"}],"structuredContent":[1]}"#,
                ),
            }),
        );
        let near = gateway(&world, &[("far", &far)], "");
        let headers = "MCP-Protocol-Version: 2025-11-25\r\n";
        let listed = near
            .whole(headers, r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)
            .await;
        assert!(
            !listed.contains("outputSchema") && !listed.contains("resultType"),
            "{listed}"
        );
        let got = near.whole(headers, &call("1", "far__t")).await;
        assert!(
            !got.contains("structuredContent") && got.contains(r#""text":"[1]""#),
            "{got}"
        );
        assert!(
            !got.contains("resultType") && !got.contains("ttlMs"),
            "{got}"
        );
    });
}

/// 2025-11-25 upstream tool with `execution.taskSupport:"required"` answers `-32601` unless called with `params.task`: support
/// it or hide it (25: tasks).
#[test]
fn g17c_a_tool_that_only_runs_as_a_legacy_task_is_hidden() {
    lab::run(|world| async move {
        let far = Far::start(
            &world,
            lists(
                r#"{"name":"t","inputSchema":{"type":"object"}},{"name":"u","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}"#,
            ),
        );
        let near = gateway(&world, &[("far", &far)], "");
        let got = ask(&near, "tools/list", "").await;
        assert!(got.contains("far__t") && !got.contains("far__u"), "{got}");
    });
}

/// Legacy upstream elicitation request mid-call ↔ modern client: needs parked upstream call keyed from `requestState`, bounded
/// by TTL.
#[test]
fn g18_a_legacy_servers_question_reaches_a_modern_caller() {
    lab::run(|world| async move {
        let (tools, mut far) = Served::apart(&world, false);
        far.address = lab::listen(&world, crate::relay::LegacyOnly(tools));
        let config = lab::config(&format!(
            "servers:\n  - {{slug: far, kind: remote-http, url: \"http://{}/mcp\"}}\n",
            far.address
        ));
        let (_, mut near) = Served::apart(&world, false);
        near.address = lab::gateway(&world, &config);
        let got = with(
            &near,
            "",
            "tools/call",
            r#""name":"far__form""#,
            FORM_AND_URL,
            "",
        )
        .await;
        let got = answer(&got);
        assert_eq!(got["result"]["resultType"], "input_required");
        let asked = got["result"]["inputRequests"]
            .as_object()
            .unwrap()
            .values()
            .next()
            .unwrap();
        assert_eq!(asked["params"]["message"], "[far] the server asks: Name?");
        assert!(got["result"]["requestState"].is_string());
    });
}

/// `-32002` from legacy upstream → `-32602` for modern clients; upstream `-32020/-32021/-32022` are the gateway's own problem,
/// not to be relayed as if the client erred (basic/index).
#[test]
fn g19_a_servers_codes_are_put_into_the_callers_era() {
    lab::run(|world| async move {
        for (theirs, ours) in [
            (-32002, -32602),
            (-32020, -32603),
            (-32022, -32603),
            (-32050, -32603),
            (-32601, -32601),
            (7, 7),
        ] {
            let far = Far::start(
                &world,
                legacy(move |seen| match seen.method.as_str() {
                    "Get" => Some((405, JSON, String::new())),
                    _ => error(seen, 200, theirs, "null"),
                }),
            );
            let near = gateway(&world, &[("far", &far)], "");
            let read = with(
                &near,
                "Mcp-Name: mcp+far+a:b\r\n",
                "resources/read",
                r#""uri":"mcp+far+a:b""#,
                "{}",
                "",
            );
            let got = advancing(&world, read).await;
            assert_eq!(error_code(&got), ours, "{theirs}: {got}");
        }
    });
}

/// Tool annotations from upstream untrusted; may only tighten the gate (tools).
#[test]
fn g20_no_annotation_opens_a_gate() {
    lab::run(|world| async move {
        // A gated tool says itself that it destroys, and asks whatever anyone says.
        let (acts, endpoint) = (Acts::new(), Endpoint::start(&world));
        let config = lab::config(&chain::text(&endpoint, &acts.argv(), None));
        let (_, mut near) = Served::apart(&world, false);
        near.address = lab::gateway(&world, &config);
        let listed = answer(&ask(&near, "tools/list", "").await);
        assert_eq!(
            listed["result"]["tools"][0]["annotations"]["destructiveHint"],
            true
        );
        let meta = r#","annotations":{"readOnlyHint":true}"#;
        let got = with(
            &near,
            "",
            "tools/call",
            r#""name":"s__act","arguments":{}"#,
            "{}",
            meta,
        )
        .await;
        assert!(got.contains("nobody-to-ask") && acts.count() == 0, "{got}");
    });
}

/// `x-mcp-header` in re-exported tools: either enforce downstream and emit upstream, or strip (streamable-http).
#[test]
fn g21_arguments_in_headers_are_checked_here_and_sent_there() {
    lab::run(|world| async move {
        let far = Far::start(
            &world,
            lists(
                r#"{"name":"t","inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"R"}}}}"#,
            ),
        );
        let near = gateway(&world, &[("far", &far)], "");
        let params = r#""name":"far__t","arguments":{"r":"x"}"#;
        let got = with(&near, "Mcp-Param-R: y\r\n", "tools/call", params, "{}", "").await;
        assert_eq!((status(&got), error_code(&got)), (400, -32020), "{got}");
        let got = with(&near, "Mcp-Param-R: x\r\n", "tools/call", params, "{}", "").await;
        assert!(got.contains("done"), "{got}");
        assert_eq!(
            far.asked("tools/call").pop().unwrap().header("mcp-param-r"),
            Some("x")
        );
    });
}

/// No token, secret or `requestState` in logs; approvals audited (authorization, tools). The audit file is part 9's.
#[test]
fn g22_nothing_secret_is_logged() {
    lab::run(|world| async move {
        let far = Far::start(
            &world,
            far_modern(|seen| match seen.what() {
                "tools/call" => Some((500, JSON, "far-secret-answer".to_owned())),
                _ => result(seen, r#"{"tools":[]}"#),
            }),
        );
        let near = gateway(
            &world,
            &[("far", &far)],
            ", headers: {X-Key: far-secret-key}",
        );
        let theirs = "Authorization: Bearer g22-caller-token\r\n";
        let params = r#""name":"far__t","arguments":{"a":"g22-secret-argument"},"requestState":"g22-secret-state""#;
        let got = with(&near, theirs, "tools/call", params, "{}", "").await;
        let logged = crate::logs::so_far();
        for secret in [
            "far-secret-answer",
            "far-secret-key",
            "g22-caller-token",
            "g22-secret-argument",
            "g22-secret-state",
        ] {
            assert!(!logged.contains(secret), "{secret} is in the log");
            assert!(!got.contains(secret), "{secret}: {got}");
        }
    });
}

/// 401 downstream points to the gateway's own metadata (authorization-server-discovery). Server-side fetches of
/// metadata/`$ref`/icons guarded against SSRF (security best practices): none is made.
#[test]
fn g23_and_g24_a_refusal_points_here_and_nothing_is_fetched_for_anybody() {
    lab::run(|world| async move {
        let elsewhere = Endpoint::start(&world);
        let tool = format!(
            r#"{{"name":"t","inputSchema":{{"type":"object","properties":{{"a":{{"$ref":"{0}"}}}}}},"icons":[{{"src":"{0}"}}]}}"#,
            elsewhere.channel("icon")
        );
        let far = Far::start(&world, lists(Box::leak(tool.into_boxed_str())));
        let hash = countersign::secret::hex(&countersign::secret::sha256(b"good-token"));
        let config = lab::config(&format!(
            "gateway:\n  tokens: [{{id: a, sha256: {hash}, roles: [admin]}}]\n  oauth: {{authorizationServers: [\"{}\"]}}\nservers:\n  - {{slug: far, kind: remote-http, url: \"http://{}/mcp\"}}\n",
            "https://login.example", far.address
        ));
        let (_, mut near) = Served::apart(&world, false);
        near.address = lab::gateway(&world, &config);
        let got = ask(&near, "tools/list", "").await;
        let ours = format!("resource_metadata=\"http://{}/", "localhost");
        assert!(status(&got) == 401 && got.contains(&ours), "{got}");
        let token = "Authorization: Bearer good-token\r\n";
        let got = with(&near, token, "tools/list", "", "{}", "").await;
        assert!(got.contains("icons"), "{got}");
        lab::turn().await;
        assert!(elsewhere.seen.is_empty());
    });
}

/// Timeouts and per-principal rate limits on calls and on prompts (tools, cancellation).
#[test]
fn g25_a_call_ends_in_time_and_a_caller_has_so_many() {
    lab::run(|world| async move {
        let far = Far::start(
            &world,
            far_modern(|seen| match seen.what() {
                "tools/call" => None,
                _ => result(seen, r#"{"tools":[]}"#),
            }),
        );
        let near = gateway(&world, &[("far", &far)], ", timeoutMs: 20000");
        let before = world.clock.now();
        let got = ask(&near, "tools/call", r#""name":"far__t""#);
        let got = within("the call", advancing(&world, got)).await;
        assert!(answer(&got)["result"]["isError"] == true, "{got}");
        assert!(world.clock.now().since(before) >= Duration::from_secs(20));
    });
}
