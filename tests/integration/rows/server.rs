//! Rows S1 to S19, and S35 on: what a modern server must and should do.

use countersign::mcp::Change;
use serde_json::json;

use super::{answer, ask, error_code, messages, status, with};
use crate::eras::{Event, FORM_AND_URL, Served, modern};
use crate::lab::{self, Acts, Caller, Endpoint, advancing};

const TEXT: &str = r#""name":"echo""#;

/// POST on one endpoint; JSON or SSE per request (streamable-http).
#[test]
fn s1_one_endpoint_answers_in_json_or_as_a_stream() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let plain = ask(&served, "tools/call", TEXT).await;
        assert!(plain.contains("content-type: application/json"), "{plain}");
        let streamed = ask(&served, "tools/call", r#""name":"large-held""#).await;
        assert!(streamed.contains("content-type: text/event-stream"));
    });
}

/// Bad Origin → 403 (absent Origin is fine) (streamable-http).
#[test]
fn s2_a_foreign_origin_is_403() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        for (origin, expected) in [
            ("", 200),
            ("Origin: http://localhost:3000\r\n", 200),
            ("Origin: https://evil.example\r\n", 403),
            ("Origin: null\r\n", 403),
        ] {
            let got = with(&served, origin, "tools/call", TEXT, "{}", "").await;
            assert_eq!(status(&got), expected, "{origin}");
        }
    });
}

/// Bind 127.0.0.1 when local; a foreign `Host` and `Origin` is any 4xx (streamable-http).
#[test]
fn s3_it_listens_on_loopback_and_knows_its_hosts() {
    let config = lab::config("servers: []\n");
    assert!(
        config
            .gateway
            .listen
            .iter()
            .all(|on| on.address.ip().is_loopback())
    );
    lab::run(|world| async move {
        let served = Served::start(&world);
        let (headers, body) = modern("tools/call", TEXT, "{}", "");
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: evil.example\r\nOrigin: https://evil.example\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let caller = Caller::connect(&world, served.address).await;
        caller.send(request.as_bytes()).await;
        assert_eq!(status(&caller.until("\r\n\r\n").await), 403);
    });
}

/// GET, DELETE → 405; ignore `Mcp-Session-Id`, `Last-Event-ID`; never send a session id (streamable-http).
#[test]
fn s4_there_are_no_sessions_and_no_other_methods() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let version = "MCP-Protocol-Version: 2026-07-28\r\n";
        for method in ["GET", "DELETE"] {
            let got = served
                .send(method, version, "")
                .await
                .until("\u{0}never")
                .await;
            assert_eq!(status(&got), 405, "{got}");
            assert!(got.contains("allow: "), "{got}");
        }
        let old = "Mcp-Session-Id: not-ours\r\nLast-Event-ID: 7\r\n";
        let got = with(&served, old, "tools/call", TEXT, "{}", "").await;
        assert_eq!(status(&got), 200, "{got}");
        assert!(!got.to_lowercase().contains("mcp-session-id"), "{got}");
    });
}

/// Notification → 202 with empty body; never a JSON-RPC answer (streamable-http, basic/index).
#[test]
fn s5_a_notification_is_202_and_nothing_more() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        for method in ["notifications/cancelled", "notifications/nobody-knows"] {
            let (headers, body) = modern(method, "", "{}", "");
            let body = body.replace(r#""id":"m","#, "");
            let got = served.whole(&headers, &body).await;
            assert_eq!(status(&got), 202, "{got}");
            assert!(got.ends_with("\r\n\r\n"), "{got}");
        }
    });
}

/// Missing `_meta` / `protocolVersion` / `clientCapabilities` → `-32602`, 400; missing `clientInfo` is served (basic/index).
#[test]
fn s6_a_request_says_what_it_needs() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n";
        let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
        let capabilities = r#""io.modelcontextprotocol/clientCapabilities":{}"#;
        for (params, served_at_all) in [
            (String::new(), false),
            (format!(r#""_meta":{{{capabilities}}}"#), false),
            (format!(r#""_meta":{{{version}}}"#), false),
            (format!(r#""_meta":{{{version},{capabilities}}}"#), true),
        ] {
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{{params}}}}}"#
            );
            let got = served.whole(headers, &body).await;
            match served_at_all {
                true => assert_eq!(status(&got), 200, "{got}"),
                false => assert_eq!((status(&got), error_code(&got)), (400, -32602), "{params}"),
            }
        }
    });
}

/// Version header absent or ≠ `_meta` → `-32020`, 400 (streamable-http).
#[test]
fn s7_the_version_header_says_what_the_body_says() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let (headers, body) = modern("tools/list", "", "{}", "");
        for headers in [
            headers.replace("MCP-Protocol-Version: 2026-07-28\r\n", ""),
            headers.replace("2026-07-28", "2025-11-25"),
        ] {
            let got = served.whole(&headers, &body).await;
            assert_eq!((status(&got), error_code(&got)), (400, -32020), "{got}");
        }
    });
}

/// Unsupported version → `-32022`, 400, `data.supported` + `data.requested` (versioning).
#[test]
fn s8_an_unknown_version_is_refused_with_those_that_are_known() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let (headers, body) = modern("tools/list", "", "{}", "");
        let unknown = |text: &str| text.replace("2026-07-28", "2099-01-01");
        let got = served.whole(&unknown(&headers), &unknown(&body)).await;
        assert_eq!((status(&got), error_code(&got)), (400, -32022), "{got}");
        let data = &answer(&got)["error"]["data"];
        assert_eq!(data["requested"], "2099-01-01");
        assert!(
            data["supported"]
                .as_array()
                .unwrap()
                .contains(&json!("2026-07-28"))
        );
    });
}

/// `Mcp-Method`/`Mcp-Name` absent or different → `-32020`, 400; name case-insensitive, value case-sensitive; OWS trimmed;
/// Base64 decoded (streamable-http).
#[test]
fn s9_the_headers_name_what_the_body_names() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let (headers, body) = modern("tools/call", TEXT, "{}", "");
        for (from, to, sound) in [
            ("Mcp-Method: tools/call\r\n", "", false),
            ("Mcp-Method: tools/call", "Mcp-Method: tools/list", false),
            ("Mcp-Method: tools/call", "Mcp-Method: TOOLS/CALL", false),
            ("Mcp-Name: echo\r\n", "", false),
            ("Mcp-Name: echo", "Mcp-Name: Echo", false),
            ("Mcp-Name: echo", "mCP-nAME: \t echo \t", true),
            ("Mcp-Name: echo", "Mcp-Name: =?base64?ZWNobw==?=", true),
            ("Mcp-Name: echo", "Mcp-Name: =?base64?ZWNobw?=", false),
        ] {
            let got = served.whole(&headers.replace(from, to), &body).await;
            match sound {
                true => assert_eq!(status(&got), 200, "{to}: {got}"),
                false => assert_eq!((status(&got), error_code(&got)), (400, -32020), "{to}"),
            }
        }
    });
}

/// `Mcp-Param-*` checked against arguments; missing, different, undecodable → `-32020`, 400 (streamable-http).
#[test]
fn s10_what_a_call_says_in_headers_is_what_it_says_in_its_arguments() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let params = r#""name":"region","arguments":{"where":"north","in":{"n":7}}"#;
        for (more, sound) in [
            ("Mcp-Param-Region: north\r\nMcp-Param-Count: 7\r\n", true),
            ("Mcp-Param-Region: north\r\n", false),
            ("Mcp-Param-Region: south\r\nMcp-Param-Count: 7\r\n", false),
            (
                "Mcp-Param-Region: =?base64?!?=\r\nMcp-Param-Count: 7\r\n",
                false,
            ),
        ] {
            let got = with(&served, more, "tools/call", params, "{}", "").await;
            match sound {
                true => assert_eq!(status(&got), 200, "{got}"),
                false => assert_eq!((status(&got), error_code(&got)), (400, -32020), "{more}"),
            }
        }
    });
}

/// Unknown method → 404 + `-32601`, incl. those of the era before (streamable-http).
#[test]
fn s11_an_unknown_method_is_404() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        for method in [
            "ping",
            "logging/setLevel",
            "resources/subscribe",
            "resources/unsubscribe",
            "initialize",
            "no/such",
        ] {
            let got = ask(&served, method, "").await;
            assert_eq!((status(&got), error_code(&got)), (404, -32601), "{got}");
        }
    });
}

/// `server/discover` implemented; `supportedVersions` consistent with S8; capabilities match real handlers (discover).
#[test]
fn s12_discovery_says_what_there_is() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let got = answer(&ask(&served, "server/discover", "").await);
        let versions = got["result"]["supportedVersions"].as_array().unwrap();
        assert!(versions.contains(&json!("2026-07-28")), "{got}");
        for (capability, method) in [
            ("tools", "tools/list"),
            ("prompts", "prompts/list"),
            ("resources", "resources/list"),
        ] {
            assert!(
                got["result"]["capabilities"][capability].is_object(),
                "{got}"
            );
            assert_eq!(status(&ask(&served, method, "").await), 200, "{method}");
        }
    });
}

/// `resultType` in every result (basic/index). And `serverInfo` in its `_meta`.
#[test]
fn s13_and_s14_every_result_says_its_type_and_whose_it_is() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        for (method, params) in [
            ("server/discover", ""),
            ("tools/list", ""),
            ("tools/call", TEXT),
            ("prompts/list", ""),
            ("prompts/get", r#""name":"p""#),
            ("resources/list", ""),
            ("resources/templates/list", ""),
            (
                "completion/complete",
                r#""ref":{"type":"ref/prompt","name":"p"}"#,
            ),
        ] {
            let got = answer(&ask(&served, method, params).await);
            assert_eq!(got["result"]["resultType"], "complete", "{method}: {got}");
            let info = &got["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
            assert_eq!(info["name"], "countersign", "{method}: {got}");
        }
    });
}

/// Same id (and type) in every response; id omitted only if unreadable (basic/index).
#[test]
fn s15_an_answer_has_the_id_of_its_request() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let (headers, body) = modern("tools/list", "", "{}", "");
        for id in ["\"m\"", "7", "-1", "\"7\"", "\"\""] {
            let body = body.replace(r#""id":"m""#, &format!(r#""id":{id}"#));
            let got = served.whole(&headers, &body).await;
            let id: serde_json::Value = serde_json::from_str(id).unwrap();
            assert_eq!(answer(&got)["id"], id, "{got}");
        }
        for body in ["{", r#"{"jsonrpc":"2.0","id":{},"method":"tools/list"}"#] {
            let got = answer(&served.whole(&headers, body).await);
            assert!(
                got.get("id").is_none_or(serde_json::Value::is_null),
                "{got}"
            );
        }
    });
}

/// No JSON-RPC requests from the server, on any stream (transports).
#[test]
fn s16_a_modern_caller_is_never_sent_a_request() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        for tool in ["form", "url", "tell", "large-held"] {
            let name = format!(r#""name":"{tool}""#);
            let got = with(&served, "", "tools/call", &name, FORM_AND_URL, "").await;
            for message in messages(&got) {
                let asks = message.get("id").is_some() && message.get("method").is_some();
                assert!(!asks, "{tool}: {message}");
            }
        }
    });
}

/// Stream carries only notifications of its own request, then the response; then end (streamable-http).
#[test]
fn s17_a_stream_has_its_own_news_then_the_answer_then_its_end() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let (headers, body) = modern("tools/call", r#""name":"wait""#, "{}", "");
        let other = served.post(&headers, &body).await;
        other.until(": held").await;
        let meta = r#","progressToken":"mine","io.modelcontextprotocol/logLevel":"debug""#;
        let got = with(&served, "", "tools/call", r#""name":"tell""#, "{}", meta).await;
        let all = messages(&got);
        let (last, news) = all.split_last().unwrap();
        assert_eq!(last["id"], "m", "{got}");
        assert_eq!(news.len(), 4, "{got}");
        for one in news
            .iter()
            .filter(|one| one["method"] == "notifications/progress")
        {
            assert_eq!(one["params"]["progressToken"], "mine");
        }
        served.announcer.announce(&Change::Tools);
        lab::turn().await;
        let waiting = String::from_utf8_lossy(&other.received.lock().unwrap()).into_owned();
        assert!(!waiting.contains("data:"), "{waiting}");
    });
}

/// Disconnect → request cancelled, nothing more sent; work stops soon (cancellation).
#[test]
fn s18_who_leaves_has_cancelled() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let (headers, body) = modern("tools/call", r#""name":"wait""#, "{}", "");
        let caller = served.post(&headers, &body).await;
        caller.until(": held").await;
        served.expect(Event::Entered("wait".to_owned())).await;
        drop(caller);
        served.expect(Event::Gone("wait".to_owned())).await;
    });
}

/// No state taken from earlier requests or the connection (send request B without capabilities after A with) (basic/index).
#[test]
fn s19_nothing_is_remembered_of_the_request_before() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let caller = Caller::connect(&world, served.address).await;
        for (capabilities, expected) in [(FORM_AND_URL, "input_required"), ("{}", "-32021")] {
            let (headers, body) = modern("tools/call", r#""name":"form""#, capabilities, "");
            let request = format!(
                "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n{body}",
                body.len()
            );
            caller.send(request.as_bytes()).await;
            let got = caller.until(expected).await;
            assert!(got.contains(expected), "{got}");
        }
    });
}

/// Progress: only with a token, own stream, strictly increasing, stops at completion (progress).
#[test]
fn s35_progress_goes_to_who_asked_and_grows() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let got = ask(&served, "tools/call", r#""name":"tell""#).await;
        assert!(!got.contains("notifications/progress"), "{got}");
        let meta = r#","progressToken":7"#;
        let got = with(&served, "", "tools/call", r#""name":"tell""#, "{}", meta).await;
        let all = messages(&got);
        let told: Vec<f64> = all
            .iter()
            .filter(|one| one["method"] == "notifications/progress")
            .map(|one| {
                assert_eq!(one["params"]["progressToken"], 7);
                one["params"]["progress"].as_f64().unwrap()
            })
            .collect();
        assert_eq!(told, [1.0, 2.0], "{got}");
        assert_eq!(all.last().unwrap()["id"], "m", "{got}");
    });
}

/// No `notifications/message` without `logLevel`; none on a listen stream (logging).
#[test]
fn s36_logs_go_to_who_asked() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let (headers, body) = modern(
            "subscriptions/listen",
            r#""notifications":{"toolsListChanged":true}"#,
            "{}",
            r#","io.modelcontextprotocol/logLevel":"debug""#,
        );
        let listening = served.post(&headers, &body).await;
        listening.until("acknowledged").await;
        for (level, lines) in [("", 0), ("error", 1), ("debug", 2)] {
            let meta = match level {
                "" => String::new(),
                level => format!(r#","io.modelcontextprotocol/logLevel":"{level}""#),
            };
            let got = with(&served, "", "tools/call", r#""name":"tell""#, "{}", &meta).await;
            assert_eq!(got.matches("notifications/message").count(), lines, "{got}");
        }
        served.announcer.announce(&Change::Tools);
        let got = listening.until("list_changed").await;
        assert!(!got.contains("notifications/message"), "{got}");
    });
}

/// Cache hints on the 6 operations, `ttlMs` ≥ 0, one `cacheScope` over all pages (caching).
#[test]
fn s37_what_may_be_kept_says_how_long_and_for_whom() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        for (method, params) in [
            ("server/discover", ""),
            ("tools/list", ""),
            ("prompts/list", ""),
            ("resources/list", ""),
            ("resources/templates/list", ""),
            ("resources/read", r#""uri":"test://a""#),
        ] {
            let (headers, body) = modern(method, params, "{}", "");
            let named = match method {
                "resources/read" => "Mcp-Name: test://a\r\n",
                _ => "",
            };
            let got = answer(&served.whole(&format!("{headers}{named}"), &body).await);
            assert!(got["result"]["ttlMs"].as_u64().is_some(), "{method}: {got}");
            assert_eq!(got["result"]["cacheScope"], "private", "{method}: {got}");
        }
    });
}

/// Tool list not connection-dependent; deterministic order (tools).
#[test]
fn s38_the_list_of_tools_is_always_the_same() {
    lab::run(|world| async move {
        let config = lab::config(
            "servers:\n  - {slug: zwei, kind: command, tools: [{name: b, argv: [date]}, {name: a, argv: [date]}]}\n  - {slug: eins, kind: command, tools: [{name: c, argv: [date]}]}\n",
        );
        let (_, mut near) = Served::apart(&world, false);
        near.address = lab::gateway(&world, &config);
        let mut lists = Vec::new();
        for _ in 0..3 {
            let got = answer(&ask(&near, "tools/list", "").await);
            let tools = got["result"]["tools"].as_array().unwrap().clone();
            let names = tools
                .iter()
                .map(|tool| tool["name"].as_str().unwrap().to_owned());
            lists.push(names.collect::<Vec<_>>());
        }
        assert_eq!(lists[0], ["eins__c", "zwei__b", "zwei__a"]);
        assert!(lists.iter().all(|list| *list == lists[0]));
    });
}

/// Bad cursor → `-32602`; unknown tool → `-32602`; unknown resource → `-32602` (pagination, tools, resources).
#[test]
fn s39_what_is_not_there_is_32602() {
    lab::run(|world| async move {
        let config = lab::config(
            "servers:\n  - {slug: one, kind: command, tools: [{name: a, argv: [date]}]}\n",
        );
        let (_, mut near) = Served::apart(&world, false);
        near.address = lab::gateway(&world, &config);
        for (method, params) in [
            ("tools/list", r#""cursor":"never-given""#),
            ("tools/call", r#""name":"one__b""#),
            ("tools/call", r#""name":"two__a""#),
        ] {
            let got = ask(&near, method, params).await;
            assert_eq!(error_code(&got), -32602, "{got}");
        }
        let (headers, body) = modern("resources/read", r#""uri":"no://where""#, "{}", "");
        let got = near
            .whole(&format!("{headers}Mcp-Name: no://where\r\n"), &body)
            .await;
        assert_eq!(error_code(&got), -32602, "{got}");
    });
}

/// `structuredContent` conforms to `outputSchema` (tools). Command tools declare none, so that nothing has to; what is
/// somebody else's passes as it is, schema and content alike.
#[test]
fn s40_what_is_structured_is_held_to_no_schema_that_it_does_not_keep() {
    lab::run(|world| async move {
        let config = lab::config(
            "servers:\n  - {slug: one, kind: command, tools: [{name: a, argv: [echo, hi]}]}\n",
        );
        let (_, mut near) = Served::apart(&world, false);
        near.address = lab::gateway(&world, &config);
        let listed = answer(&ask(&near, "tools/list", "").await);
        assert!(listed["result"]["tools"][0]["outputSchema"].is_null());
        let got = advancing(&world, ask(&near, "tools/call", r#""name":"one__a""#)).await;
        let given = answer(&got)["result"]["structuredContent"].clone();
        assert_eq!(
            given,
            json!({"exitCode": 0, "stdout": "hi\n", "stderr": "", "truncated": false})
        );
    });
}

/// Validate inputs, access control, rate limit, sanitize (tools).
#[test]
fn s41_inputs_callers_and_their_number_are_checked() {
    lab::run(|world| async move {
        let acts = Acts::new();
        let hash = countersign::secret::hex(&countersign::secret::sha256(b"good-token"));
        let config = lab::config(&format!(
            "gateway: {{tokens: [{{id: a, sha256: {hash}, roles: [admin]}}]}}\nlimits: {{callsPerToken: 1}}\nservers:\n  - {{slug: one, kind: command, tools: [{{name: act, argv: {}, options: {{note: --note}}}}, {{name: slow, argv: [sleep, \"600\"]}}]}}\n",
            acts.argv()
        ));
        let (_, mut near) = Served::apart(&world, false);
        near.address = lab::gateway(&world, &config);
        let act = |arguments: &str| format!(r#""name":"one__act","arguments":{arguments}"#);
        let got = ask(&near, "tools/call", &act("{}")).await;
        assert_eq!(status(&got), 401, "{got}");
        let ours = "Authorization: Bearer good-token\r\n";
        for arguments in [
            r#"{"note":7}"#,
            r#"{"other":"x"}"#,
            r#"{"note":"a","note":"b"}"#,
        ] {
            let got = with(&near, ours, "tools/call", &act(arguments), "{}", "").await;
            assert!(
                got.contains("Nothing ran") || error_code(&got) < 0,
                "{arguments}: {got}"
            );
        }
        assert_eq!(acts.count(), 0);
        let (headers, body) = modern("tools/call", r#""name":"one__slow""#, "{}", "");
        let slow = near.post(&format!("{headers}{ours}"), &body).await;
        let again = async {
            loop {
                let got = with(&near, ours, "tools/call", &act("{}"), "{}", "").await;
                if status(&got) == 429 {
                    return;
                }
            }
        };
        lab::within("the refusal", advancing(&world, again)).await;
        drop(slow);
    });
}

/// Do not emit `-32002`, `-32042`, or undefined codes in `-32020…-32099` (basic/index).
#[test]
fn s42_no_code_is_used_that_means_nothing() {
    let mut files = vec![std::path::PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src"
    ))];
    let mut looked_at = 0;
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(
                std::fs::read_dir(path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for made in text
            .split("RpcError::new(")
            .skip(1)
            .chain(text.split("with_code(").skip(1))
        {
            looked_at += 1;
            let code: String = made
                .trim_start()
                .chars()
                .take_while(|c| !",)".contains(*c))
                .collect();
            let code = code.replace('_', "");
            let Ok(code) = code.trim().parse::<i32>() else {
                continue;
            };
            let defined = !(-32099..=-32020).contains(&code) || (-32022..=-32020).contains(&code);
            assert!(
                defined && code != -32002 && code != -32042,
                "{}: {code}",
                path.display()
            );
        }
    }
    assert!(looked_at > 50);
}

/// listen: ack first, subset echoed, `subscriptionId` = request id on all, filter obeyed (subscriptions).
#[test]
fn s43_a_stream_of_news_begins_with_what_it_will_tell() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let wanted = r#""notifications":{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["file:///a"]}"#;
        let (headers, body) = modern("subscriptions/listen", wanted, "{}", "");
        let listening = served.post(&headers, &body).await;
        let got = listening.until("acknowledged").await;
        let first = &messages(&got)[0];
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        // The list of resources is not announced by this one.
        assert_eq!(
            first["params"]["notifications"],
            json!({"toolsListChanged": true, "resourceSubscriptions": ["file:///a"]})
        );
        for change in [
            Change::Prompts,
            Change::Resource("file:///b".to_owned()),
            Change::Resource("file:///a".to_owned()),
            Change::Tools,
        ] {
            served.announcer.announce(&change);
        }
        listening.until("file:///a").await;
        let got = listening.until("tools/list_changed").await;
        assert!(
            !got.contains("file:///b") && !got.contains("prompts"),
            "{got}"
        );
        for message in messages(&got) {
            let id = &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
            assert_eq!(*id, "m", "{message}");
        }
    });
}

/// No network `$ref` fetch; bounded schema work (basic/index).
#[test]
fn s44_a_schema_that_points_elsewhere_is_not_followed() {
    lab::run(|world| async move {
        let elsewhere = Endpoint::start(&world);
        let schema = format!(
            r#"{{"name":"t","inputSchema":{{"type":"object","properties":{{"a":{{"$ref":"{}"}}}}}}}}"#,
            elsewhere.channel("schema")
        );
        let headers =
            countersign::mcp::ParamHeaders::of_tool(serde_json::from_str(&schema).unwrap());
        assert!(headers.is_ok());
        lab::turn().await;
        assert!(elsewhere.seen.is_empty());
    });
}

/// 401 for bad token; audience checked; metadata with `authorization_servers` (authorization).
#[test]
fn s45_who_is_not_known_is_401_and_told_where_to_ask() {
    lab::run(|world| async move {
        let hash = countersign::secret::hex(&countersign::secret::sha256(b"good-token"));
        let config = lab::config(&format!(
            "gateway:\n  tokens: [{{id: a, sha256: {hash}, roles: [admin]}}]\n  oauth: {{authorizationServers: [\"https://login.example\"]}}\nservers: []\n"
        ));
        let (_, mut near) = Served::apart(&world, false);
        near.address = lab::gateway(&world, &config);
        for token in [
            "",
            "Authorization: Bearer other\r\n",
            "Authorization: Basic Zm9v\r\n",
        ] {
            let got = with(&near, token, "tools/list", "", "{}", "").await;
            assert_eq!(status(&got), 401, "{got}");
            assert!(got.contains("www-authenticate: Bearer"), "{got}");
            assert!(got.contains("resource_metadata="), "{got}");
        }
        let caller = Caller::connect(&world, near.address).await;
        caller
            .send(b"GET /.well-known/oauth-protected-resource/mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .await;
        let got = caller.until("\u{0}never").await;
        assert!(
            got.contains(r#""authorization_servers":["https://login.example"]"#),
            "{got}"
        );
    });
}

/// `X-Accel-Buffering: no` on SSE; comments as keep-alive on long streams (streamable-http).
#[test]
fn s47_no_hop_holds_a_stream_back_or_finds_it_silent() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let (headers, body) = modern("tools/call", r#""name":"wait""#, "{}", "");
        let caller = served.post(&headers, &body).await;
        let got = caller.until(": held").await;
        assert!(got.contains("x-accel-buffering: no"), "{got}");
        advancing(&world, caller.until(": still held")).await;
    });
}

/// modern-only: error to `initialize` names supported versions (versioning). This server is of both eras: it opens a session,
/// and what it cannot speak it says at any other method.
#[test]
fn s48_initialize_is_answered_by_a_server_of_both_eras() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        served.session("ann", "2025-11-25", "{}").await;
    });
}
