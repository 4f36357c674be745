//! The MCP endpoint in both eras, by raw bytes: the order of the checks, the status codes, and what is said.

use std::net::SocketAddr;

use countersign::mcp::client::{Listener, Outgoing, fixed};
use countersign::mcp::{Client, Version};
use countersign::world::World;
use url::Url;

use crate::lab::{self, Acts, Caller, Endpoint};

const MODERN_META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

fn start(world: &World) -> (SocketAddr, Acts) {
    let acts = Acts::new();
    let endpoint = Endpoint::start(world);
    let config = lab::config(&format!(
        "gateway:\n  elicitation:\n    allowedUrlPrefixes: [\"{}\"]\nservers:\n  - slug: one\n    kind: command\n    confirmations: true\n    tools:\n      - {{name: open, argv: [echo, hello]}}\n      - {{name: act, argv: {}, gate: It acts.}}\n  - slug: two\n    kind: command\n    tools:\n      - {{name: open, argv: [echo, two]}}\n",
        endpoint.prefix(),
        acts.argv()
    ));
    (lab::gateway(world, &config), acts)
}

async fn exchange(world: &World, address: SocketAddr, request: &str) -> String {
    let caller = Caller::connect(world, address).await;
    caller.send(request.as_bytes()).await;
    let head = caller.until("\r\n\r\n").await;
    let length = head
        .to_lowercase()
        .split("content-length: ")
        .nth(1)
        .and_then(|rest| rest.split("\r\n").next()?.parse::<usize>().ok());
    let Some(length) = length else {
        return caller.until("0\r\n\r\n").await;
    };
    let at = head.find("\r\n\r\n").unwrap() + 4;
    loop {
        let text = String::from_utf8_lossy(&caller.received.lock().unwrap()).into_owned();
        if text.len() >= at + length {
            return text;
        }
        caller.until("\u{0}never").await;
    }
}

fn post(target: &str, headers: &str, body: &str) -> String {
    format!(
        "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn modern(method: &str, params: &str, headers: &str) -> String {
    let comma = if params.is_empty() { "" } else { "," };
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":"x7","method":"{method}","params":{{{params}{comma}{MODERN_META}}}}}"#
    );
    let headers = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{headers}");
    post("/mcp?servers=one", &headers, &body)
}

fn legacy(method: &str, params: &str) -> String {
    let body = format!(r#"{{"jsonrpc":"2.0","id":3,"method":"{method}","params":{params}}}"#);
    post(
        "/mcp?servers=one",
        "MCP-Protocol-Version: 2025-11-25\r\n",
        &body,
    )
}

/// Digest sections 2.5 and 2.6, and what the conformance suite pins of them.
#[test]
fn each_fault_has_its_status_and_code() {
    lab::run(|world| async move {
        let (gateway, _acts) = start(&world);
        let call = r#""name":"open","arguments":{}"#;
        let body = |meta: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":"x7","method":"tools/list","params":{{{meta}}}}}"#)
        };
        let named = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n";
        let meta = |version: &str, capabilities: &str| {
            format!(
                r#""_meta":{{"io.modelcontextprotocol/protocolVersion":{version}{capabilities}}}"#
            )
        };
        let capable = r#","io.modelcontextprotocol/clientCapabilities":{}"#;
        let rows: Vec<(&str, String, &str, &str)> = vec![
            (
                "foreign host",
                modern("tools/list", "", "").replace("Host: localhost", "Host: evil.example"),
                "403",
                "",
            ),
            (
                "foreign origin",
                modern("tools/list", "", "Origin: https://evil.example\r\n"),
                "403",
                "",
            ),
            (
                "null origin",
                modern("tools/list", "", "Origin: null\r\n"),
                "403",
                "",
            ),
            (
                "local origin",
                modern("tools/list", "", "Origin: http://localhost:3000\r\n"),
                "200",
                "tools",
            ),
            (
                "another path",
                modern("tools/list", "", "").replace("/mcp?", "/mcp/x?"),
                "404",
                "",
            ),
            (
                "GET",
                "GET /mcp HTTP/1.1\r\nHost: localhost\r\nMCP-Protocol-Version: 2026-07-28\r\nAccept: text/event-stream\r\n\r\n".into(),
                "405",
                "",
            ),
            (
                "DELETE",
                "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nMCP-Protocol-Version: 2026-07-28\r\n\r\n".into(),
                "405",
                "",
            ),
            (
                "legacy DELETE of no session",
                "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n".into(),
                "404",
                "",
            ),
            (
                "legacy GET without the stream's type",
                "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n".into(),
                "406",
                "",
            ),
            (
                "PUT",
                "PUT /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n".into(),
                "405",
                "",
            ),
            (
                "a batch",
                post("/mcp", named, "[]"),
                "400",
                "-32600",
            ),
            (
                "text body",
                modern("tools/list", "", "")
                    .replace("application/json\r\nAccept", "text/plain\r\nAccept"),
                "415",
                "",
            ),
            (
                "accept",
                modern("tools/list", "", "").replace(
                    "Accept: application/json, text/event-stream",
                    "Accept: application/json",
                ),
                "406",
                "",
            ),
            ("not JSON", post("/mcp", named, "{"), "400", "-32700"),
            ("an array", post("/mcp", named, "[]"), "400", "-32600"),
            (
                "twice a member",
                post(
                    "/mcp",
                    named,
                    r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
                ),
                "400",
                "-32600",
            ),
            ("no meta", post("/mcp", named, &body("")), "400", "-32602"),
            (
                "no version",
                post(
                    "/mcp",
                    named,
                    &body(r#""_meta":{"io.modelcontextprotocol/clientCapabilities":{}}"#),
                ),
                "400",
                "-32602",
            ),
            (
                "no capabilities",
                post("/mcp", named, &body(&meta("\"2026-07-28\"", ""))),
                "400",
                "-32602",
            ),
            (
                "no client info",
                post("/mcp", named, &body(&meta("\"2026-07-28\"", capable))),
                "200",
                "tools",
            ),
            (
                "versions differ",
                post("/mcp", named, &body(&meta("\"v999.0.0\"", capable))),
                "400",
                "-32020",
            ),
            (
                "unknown version",
                post(
                    "/mcp",
                    "MCP-Protocol-Version: v999.0.0\r\nMcp-Method: tools/list\r\n",
                    &body(&meta("\"v999.0.0\"", capable)),
                ),
                "400",
                "-32022",
            ),
            (
                "no version header",
                post(
                    "/mcp",
                    "Mcp-Method: tools/list\r\n",
                    &body(&meta("\"2026-07-28\"", capable)),
                ),
                "400",
                "-32020",
            ),
            (
                "no method header",
                modern("tools/list", "", "").replace("Mcp-Method: tools/list\r\n", ""),
                "400",
                "-32020",
            ),
            (
                "method in capitals",
                modern("tools/list", "", "")
                    .replace("Mcp-Method: tools/list", "Mcp-Method: TOOLS/LIST"),
                "400",
                "-32020",
            ),
            (
                "method twice",
                modern("tools/list", "", "Mcp-Method: tools/list\r\n"),
                "400",
                "-32020",
            ),
            (
                "no name header",
                modern("tools/call", call, ""),
                "400",
                "-32020",
            ),
            (
                "another name",
                modern("tools/call", call, "Mcp-Name: act\r\n"),
                "400",
                "-32020",
            ),
            (
                "name in base64",
                modern("tools/call", call, "mcp-name:  =?base64?b3Blbg==?= \r\n"),
                "200",
                "hello",
            ),
            (
                "bad base64",
                modern("tools/call", call, "Mcp-Name: =?base64?b3Blbg?=\r\n"),
                "400",
                "-32020",
            ),
            ("initialize", modern("initialize", "", ""), "404", "-32601"),
            ("ping", modern("ping", "", ""), "404", "-32601"),
            ("unknown method", modern("no/such", "", ""), "404", "-32601"),
            (
                "unknown tool",
                modern("tools/call", r#""name":"none""#, "Mcp-Name: none\r\n"),
                "400",
                "-32602",
            ),
            (
                "arguments no object",
                modern(
                    "tools/call",
                    r#""name":"open","arguments":[]"#,
                    "Mcp-Name: open\r\n",
                ),
                "400",
                "-32602",
            ),
            (
                "a cursor",
                modern("tools/list", r#""cursor":"x""#, ""),
                "400",
                "-32602",
            ),
            (
                "discover",
                modern("server/discover", "", ""),
                "200",
                "supportedVersions",
            ),
            (
                "a notification",
                post(
                    "/mcp",
                    "",
                    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
                ),
                "202",
                "",
            ),
            (
                "a response",
                post("/mcp", "", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
                "202",
                "",
            ),
            (
                "legacy initialize",
                post(
                    "/mcp",
                    "",
                    r#"{"jsonrpc":"2.0","id":3,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{}}}"#,
                ),
                "200",
                r#""protocolVersion":"2025-06-18""#,
            ),
            (
                "initialize, a version of tomorrow",
                post(
                    "/mcp",
                    "",
                    r#"{"jsonrpc":"2.0","id":3,"method":"initialize","params":{"protocolVersion":"2030-01-01","capabilities":{},"clientInfo":{}}}"#,
                ),
                "200",
                r#""protocolVersion":"2025-11-25""#,
            ),
            ("legacy ping", legacy("ping", "{}"), "200", r#""result":{}"#),
            (
                "legacy list",
                legacy("tools/list", "{}"),
                "200",
                "inputSchema",
            ),
            (
                "legacy call",
                legacy("tools/call", r#"{"name":"open"}"#),
                "200",
                "hello",
            ),
            (
                "legacy discover",
                legacy("server/discover", "{}"),
                "200",
                "-32601",
            ),
            (
                "legacy unknown method",
                legacy("prompts/list", "{}"),
                "200",
                "-32601",
            ),
            (
                "legacy unknown tool",
                legacy("tools/call", r#"{"name":"none"}"#),
                "200",
                "-32602",
            ),
            (
                "legacy call without a name",
                legacy("tools/call", "{}"),
                "200",
                "-32602",
            ),
            (
                "legacy cursor",
                legacy("tools/list", r#"{"cursor":"x"}"#),
                "200",
                "-32602",
            ),
            (
                "legacy header unknown",
                legacy("ping", "{}").replace("2025-11-25", "2024-01-01"),
                "400",
                "-32022",
            ),
            (
                "no header at all",
                legacy("ping", "{}").replace("MCP-Protocol-Version: 2025-11-25\r\n", ""),
                "200",
                r#""result":{}"#,
            ),
            (
                "unknown server",
                modern("tools/list", "", "").replace("servers=one", "servers=none"),
                "404",
                "",
            ),
            (
                "one of them unknown",
                modern("tools/list", "", "").replace("servers=one", "servers=one,none"),
                "404",
                "",
            ),
            (
                "an empty name",
                modern("tools/list", "", "").replace("servers=one", "servers=one,"),
                "404",
                "",
            ),
            (
                "servers twice",
                modern("tools/list", "", "").replace("servers=one", "servers=one&servers=two"),
                "404",
                "",
            ),
        ];
        for (what, request, status, holds) in rows {
            let got = exchange(&world, gateway, &request).await;
            assert!(
                got.starts_with(&format!("HTTP/1.1 {status} ")),
                "{what}: {got}"
            );
            assert!(got.contains(holds), "{what}: {got}");
            if holds.starts_with("-32") && request.contains("x7") {
                assert!(
                    got.contains(r#""id":"x7""#),
                    "{what}: the id is echoed: {got}"
                );
            }
            // Only a legacy client is given a session, when it opens one.
            let opened = request.contains(r#""method":"initialize""#) && status == "200";
            assert_eq!(got.contains("\r\nmcp-session-id: "), opened, "{what}");
        }
    });
}

#[test]
fn modern_results_say_their_kind_and_legacy_ones_do_not() {
    lab::run(|world| async move {
        let (gateway, _acts) = start(&world);
        let call = modern(
            "tools/call",
            r#""name":"open","arguments":{}"#,
            "Mcp-Name: open\r\n",
        );
        for request in [
            modern("tools/list", "", ""),
            modern("server/discover", "", ""),
            call,
        ] {
            let got = exchange(&world, gateway, &request).await;
            assert!(got.contains(r#""resultType":"complete""#), "{got}");
            assert!(got.contains("io.modelcontextprotocol/serverInfo"), "{got}");
        }
        for request in [
            legacy("tools/list", "{}"),
            legacy("tools/call", r#"{"name":"open"}"#),
        ] {
            let got = exchange(&world, gateway, &request).await;
            assert!(
                !got.contains("resultType") && !got.contains("ttlMs"),
                "{got}"
            );
        }
    });
}

/// "No state taken from earlier requests or the connection".
#[test]
fn nothing_is_remembered_of_an_earlier_request_on_the_connection() {
    lab::run(|world| async move {
        let (gateway, _acts) = start(&world);
        let caller = Caller::connect(&world, gateway).await;
        let first = modern("tools/list", "", "").replace("Connection: close\r\n", "");
        let second = post(
            "/mcp",
            "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n",
            r#"{"jsonrpc":"2.0","id":8,"method":"tools/list","params":{}}"#,
        );
        caller.send(format!("{first}{second}").as_bytes()).await;
        let got = caller.until("-32602").await;
        assert!(
            got.contains(r#""id":"x7""#) && got.contains(r#""id":8"#),
            "{got}"
        );
    });
}

#[test]
fn several_servers_have_prefixed_names_and_one_keeps_its_own() {
    lab::run(|world| async move {
        let (gateway, _acts) = start(&world);
        let one = exchange(&world, gateway, &modern("tools/list", "", "")).await;
        assert!(
            one.contains(r#""name":"open""#) && one.contains(r#""destructiveHint":true"#),
            "{one}"
        );
        for target in ["/mcp", "/mcp?servers=two,one"] {
            let all = exchange(
                &world,
                gateway,
                &modern("tools/list", "", "").replace("/mcp?servers=one", target),
            )
            .await;
            let order: Vec<usize> = ["one__open", "one__act", "two__open"]
                .iter()
                .map(|name| all.find(name).unwrap())
                .collect();
            assert!(order.is_sorted(), "{all}");
        }
        let call = modern(
            "tools/call",
            r#""name":"two__open","arguments":{}"#,
            "Mcp-Name: two__open\r\n",
        )
        .replace("?servers=one", "");
        assert!(exchange(&world, gateway, &call).await.contains("two"));
    });
}

#[test]
fn tokens_decide_who_may_use_what() {
    lab::run(|world| async move {
        let token = |secret: &str| {
            countersign::secret::hex(&countersign::secret::sha256(secret.as_bytes()))
        };
        let config = lab::config(&format!(
            "gateway:\n  tokens:\n    - {{id: a, sha256: {}, roles: [admin]}}\n    - {{id: m, sha256: {}, roles: [mail]}}\n    - {{id: old, sha256: {}, roles: [admin], expiresAt: \"2026-11-30T00:00:00Z\"}}\n    - {{id: g, sha256: {}, grant: {{servers: [one], expiresAt: \"2027-01-01T00:00:00Z\"}}}}\nservers:\n  - slug: one\n    kind: command\n    tools:\n      - {{name: open, argv: [echo, hello]}}\n  - slug: two\n    kind: command\n    entitlements: [mail]\n    tools:\n      - {{name: open, argv: [echo, two]}}\n",
            token("admin-token"),
            token("mail-token"),
            token("old-token"),
            token("grant-token")
        ));
        let gateway = lab::gateway(&world, &config);
        let list = |servers: &str, authorization: &str| {
            modern("tools/list", "", authorization).replace("servers=one", servers)
        };
        for (authorization, servers, status) in [
            ("", "servers=one", "401"),
            ("Authorization: Bearer wrong\r\n", "servers=one", "401"),
            ("Authorization: Bearer old-token\r\n", "servers=one", "401"),
            ("Authorization: admin-token\r\n", "servers=one", "401"),
            (
                "Authorization: Bearer admin-token\r\nAuthorization: Bearer admin-token\r\n",
                "servers=one",
                "401",
            ),
            (
                "Authorization: Bearer admin-token\r\n",
                "servers=one,two",
                "200",
            ),
            (
                "Authorization: bearer admin-token\r\n",
                "servers=one",
                "200",
            ),
            ("Authorization: Bearer mail-token\r\n", "servers=two", "200"),
            ("Authorization: Bearer mail-token\r\n", "servers=one", "404"),
            (
                "Authorization: Bearer grant-token\r\n",
                "servers=one",
                "200",
            ),
            (
                "Authorization: Bearer grant-token\r\n",
                "servers=two",
                "404",
            ),
        ] {
            let got = exchange(&world, gateway, &list(servers, authorization)).await;
            assert!(
                got.starts_with(&format!("HTTP/1.1 {status} ")),
                "{authorization}{servers}: {got}"
            );
            if status == "401" {
                assert!(
                    got.to_lowercase().contains("www-authenticate: bearer"),
                    "{got}"
                );
            }
        }
        let own = exchange(
            &world,
            gateway,
            &list("", "Authorization: Bearer mail-token\r\n"),
        )
        .await;
        assert!(
            own.contains("two__open") && !own.contains("one__open"),
            "{own}"
        );
    });
}

#[test]
fn our_client_speaks_every_revision() {
    lab::run(|world| async move {
        let (gateway, _acts) = start(&world);
        let url = Url::parse(&format!("http://{gateway}/mcp?servers=one")).unwrap();
        let deadline = world.clock.after(std::time::Duration::from_secs(60));
        for wanted in Version::ALL.map(Some).into_iter().chain([None]) {
            let http = countersign::http::Client::new(world.clone());
            let client = Client::new(world.clone(), http, url.clone(), fixed(Vec::new()), wanted);
            let version = client.version(deadline).await.unwrap();
            assert_eq!(version, wanted.unwrap_or(Version::V2026_07_28));
            assert_eq!(client.tools(deadline).await.unwrap().len(), 2);
            let arguments = serde_json::value::RawValue::from_string("{}".to_owned()).unwrap();
            let mut listener = Listener {
                news: &mut |_| {},
                questions: None,
            };
            let request = Outgoing::call("open", "\"open\"", &arguments);
            let result = client.request(&request, deadline, &mut listener);
            let result = result.await.unwrap();
            assert_eq!(result.texts(), "hello");
        }
    });
}

/// "408, 413, 415, 406, 431, 429 and 503 with `Retry-After`" (interface).
#[test]
fn a_token_with_too_many_calls_is_told_when_to_try_again() {
    lab::run(|world| async move {
        let acts = Acts::new();
        let endpoint = Endpoint::start(&world);
        let config = lab::config(&format!(
            "gateway:\n  elicitation:\n    allowedUrlPrefixes: [\"{}\"]\nservers:\n  - slug: one\n    kind: command\n    confirmations: true\n    tools:\n      - {{name: act, argv: {}, gate: It acts.}}\nlimits: {{callsPerToken: 1}}\n",
            endpoint.prefix(),
            acts.argv()
        ));
        let gateway = lab::gateway(&world, &config);
        let channel = endpoint.channel("s");
        let bytes = lab::call(
            "/mcp?servers=one",
            "act",
            "{}",
            &[("X-Elicitation-Url", &channel)],
        );
        let waiting = Caller::connect(&world, gateway).await;
        waiting.send(&bytes).await;
        endpoint.next().await;
        let refused = Caller::connect(&world, gateway).await;
        refused.send(&bytes).await;
        let got = refused.until("too many calls").await;
        assert!(got.starts_with("HTTP/1.1 429 "), "{got}");
        assert!(got.contains("\r\nretry-after: 1\r\n"), "{got}");
        assert_eq!(acts.count(), 0);
    });
}

/// "MUST implement RFC 9728 metadata", at the path form and at the root, and 401 points there.
#[test]
fn a_caller_without_a_token_is_told_where_to_get_one() {
    lab::run(|world| async move {
        let token = countersign::secret::hex(&countersign::secret::sha256(b"one"));
        let config = lab::config(&format!(
            "gateway:\n  oauth: {{authorizationServers: [\"https://issuer.example/t\"]}}\n  tokens: [{{id: a, sha256: {token}, roles: [admin]}}]\nservers:\n  - slug: one\n    kind: command\n    tools: [{{name: open, argv: [echo, hello]}}]\n"
        ));
        let gateway = lab::gateway(&world, &config);
        let refused = exchange(&world, gateway, &modern("tools/list", "", "")).await;
        assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
        let challenge = "www-authenticate: Bearer resource_metadata=\"http://localhost/.well-known/oauth-protected-resource/mcp\"\r\n";
        assert!(refused.contains(challenge), "{refused}");
        let get = |path: &str| {
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        };
        for (path, status) in [
            ("/.well-known/oauth-protected-resource/mcp", 200),
            ("/.well-known/oauth-protected-resource", 200),
            ("/.well-known/oauth-protected-resource/other", 404),
            ("/.well-known/oauth-protected-resourcex", 404),
        ] {
            let got = exchange(&world, gateway, &get(path)).await;
            assert!(
                got.starts_with(&format!("HTTP/1.1 {status} ")),
                "{path}: {got}"
            );
            if status == 200 {
                let body: serde_json::Value =
                    serde_json::from_str(got.split("\r\n\r\n").nth(1).unwrap()).unwrap();
                assert_eq!(body["resource"], "http://localhost/mcp");
                assert_eq!(body["authorization_servers"][0], "https://issuer.example/t");
            }
        }
        // Who has no say in the host has none in the document either.
        let foreign =
            get("/.well-known/oauth-protected-resource").replace("localhost", "evil.example");
        assert!(
            exchange(&world, gateway, &foreign)
                .await
                .starts_with("HTTP/1.1 403 ")
        );
        let post = get("/.well-known/oauth-protected-resource").replace("GET", "PUT");
        assert!(
            exchange(&world, gateway, &post)
                .await
                .starts_with("HTTP/1.1 405 ")
        );
        // Without the configuration there is nothing there.
        let config = lab::config(
            "servers:\n  - slug: one\n    kind: command\n    tools: [{name: open, argv: [echo, hello]}]\n",
        );
        let gateway = lab::gateway(&world, &config);
        let got = exchange(
            &world,
            gateway,
            &get("/.well-known/oauth-protected-resource"),
        )
        .await;
        assert!(got.starts_with("HTTP/1.1 404 "), "{got}");
    });
}
