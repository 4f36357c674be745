//! The gateway in front of somebody else's server: every pairing of eras, what is passed on in both directions, and what
//! becomes of a call when one side leaves.

use std::net::SocketAddr;
use std::time::Duration;

use countersign::http::{Handler, Request, Responded, Responder};
use countersign::mcp::Server;
use countersign::world::World;

use crate::eras::{Event, FORM_AND_URL, Served, Tools, call, cancel, event, modern};
use crate::lab;

/// A server that knows nothing of the modern era: it answers such a request with a 400 and no body.
pub struct LegacyOnly(pub Server<Tools>);

impl Handler for LegacyOnly {
    async fn handle(&self, request: Request, responder: Responder) -> Responded {
        let version = request.head.headers.only("mcp-protocol-version");
        if version == Ok(Some("2026-07-28")) {
            return responder.send(400, &[], b"").await;
        }
        self.0.handle(request, responder).await
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Era {
    Legacy,
    Modern,
}

/// A server, and the gateway in front of it.
struct Relayed {
    far: Served,
    /// The gateway, asked as the other tests ask a server.
    near: Served,
}

fn start(world: &World, era: Era) -> Relayed {
    start_with(world, era, "", "")
}

fn start_with(world: &World, era: Era, gateway: &str, server: &str) -> Relayed {
    let (tools, mut far) = Served::apart(world, false);
    far.address = match era {
        Era::Modern => lab::listen(world, tools),
        Era::Legacy => lab::listen(world, LegacyOnly(tools)),
    };
    let config = lab::config(&format!(
        "{gateway}servers:\n  - slug: far\n    kind: remote-http\n    url: http://{}/mcp\n    timeoutMs: 120000\n{server}",
        far.address
    ));
    let (_, mut near) = Served::apart(world, false);
    near.address = lab::gateway(world, &config);
    Relayed { far, near }
}

impl Relayed {
    /// What a caller of that era sends, and where.
    async fn caller(&self, era: Era) -> String {
        match era {
            Era::Legacy => self.near.session("ann", "2025-11-25", FORM_AND_URL).await,
            Era::Modern => String::new(),
        }
    }

    fn request(&self, era: Era, headers: &str, id: &str, tool: &str) -> (String, String) {
        match era {
            Era::Legacy => (headers.to_owned(), call(id, tool)),
            Era::Modern => modern(
                "tools/call",
                &format!(r#""name":"{tool}""#),
                FORM_AND_URL,
                r#","progressToken":"t","io.modelcontextprotocol/logLevel":"debug""#,
            ),
        }
    }
}

const PAIRS: [(Era, Era); 4] = [
    (Era::Modern, Era::Modern),
    (Era::Modern, Era::Legacy),
    (Era::Legacy, Era::Modern),
    (Era::Legacy, Era::Legacy),
];

#[test]
fn every_caller_reaches_every_server() {
    lab::run(|world| async move {
        for (caller, server) in PAIRS {
            let relayed = start(&world, server);
            let headers = relayed.caller(caller).await;
            let (with, body) = relayed.request(caller, &headers, "1", "far__tell");
            let got = relayed.near.whole(&with, &body).await;
            assert!(
                got.contains(r#""text":"told""#),
                "{caller:?} {server:?}: {got}"
            );
            let told = event(&got, "notifications/progress");
            assert_eq!(
                told["params"]["progressToken"], "t",
                "{caller:?} {server:?}"
            );
            assert_eq!(got.matches("notifications/progress").count(), 2, "{got}");
            assert_eq!(got.matches("notifications/message").count(), 2, "{got}");
            let modern = caller == Era::Modern;
            assert_eq!(
                got.contains("resultType"),
                modern,
                "{caller:?} {server:?}: {got}"
            );
            // Unprefixed, where it is the only one that is named.
            let (with, body) = relayed.request(caller, &headers, "2", "echo");
            let request = format!(
                "POST /mcp?servers=far HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nConnection: close\r\n{with}Content-Length: {}\r\n\r\n{body}",
                body.len()
            );
            let one = lab::Caller::connect(&world, relayed.near.address).await;
            one.send(request.as_bytes()).await;
            let got = one.until("\"echo\"").await;
            assert!(
                got.contains(r#""text":"echo""#),
                "{caller:?} {server:?}: {got}"
            );
        }
    });
}

#[test]
fn lists_prompts_resources_and_completion_are_passed_on_under_names_of_the_gateway() {
    lab::run(|world| async move {
        for server in [Era::Modern, Era::Legacy] {
            let relayed = start(&world, server);
            let ask = async |method: &str, params: &str| {
                let (mut headers, body) = modern(method, params, "{}", "");
                if let Some(uri) = params
                    .split(r#""uri":""#)
                    .nth(1)
                    .filter(|_| method == "resources/read")
                {
                    let uri = uri.split('"').next().unwrap();
                    headers += &format!("Mcp-Name: {uri}\r\n");
                }
                let got = relayed.near.whole(&headers, &body).await;
                let body = match got.contains("text/event-stream") {
                    true => return event(&got, "jsonrpc"),
                    false => got.split("\r\n\r\n").nth(1).unwrap_or_default(),
                };
                serde_json::from_str(body).unwrap_or_else(|_| panic!("{method}: {got}"))
            };
            let tools = ask("tools/list", "").await["result"].clone();
            assert_eq!(
                tools["tools"][0],
                serde_json::json!({"name": "far__echo", "inputSchema": {"type": "object"}, "icons": [{"src": "a:b"}], "x": 1.0}),
                "{server:?}"
            );
            assert_eq!(
                tools["tools"][1]["inputSchema"]["properties"]["where"]["x-mcp-header"],
                "Region"
            );
            assert_eq!(
                tools["tools"].as_array().unwrap().len(),
                2,
                "no task-only tool"
            );
            assert_eq!(
                (&tools["ttlMs"], &tools["cacheScope"]),
                (&0.into(), &"private".into())
            );
            let prompts = ask("prompts/list", "").await["result"]["prompts"].clone();
            assert_eq!(
                prompts,
                serde_json::json!([{"name": "far__p", "title": "P"}])
            );
            let resources = ask("resources/list", "").await["result"]["resources"].clone();
            assert_eq!(resources[0]["uri"], "mcp+far+test://a");
            let templates = ask("resources/templates/list", "").await;
            let templates = &templates["result"]["resourceTemplates"];
            assert_eq!(templates[0]["uriTemplate"], "mcp+far+test://{x}");
            let read = ask("resources/read", r#""uri":"mcp+far+test://a""#).await;
            let contents = &read["result"]["contents"];
            assert_eq!(contents[0]["uri"], "mcp+far+test://a");
            assert_eq!(contents[0]["text"], "read");
            let read = ask("resources/read", r#""uri":"test://a""#).await;
            assert_eq!(read["error"]["code"], -32602);
            assert_eq!(read["error"]["data"]["uri"], "test://a");
            let got = ask("prompts/get", r#""name":"far__p""#).await;
            assert_eq!(got["result"]["content"][0]["text"], "p", "{got}");
            for (reference, there) in [
                (
                    r#"{"type":"ref/prompt","name":"far__p"}"#,
                    serde_json::json!({"type": "ref/prompt", "name": "p"}),
                ),
                (
                    r#"{"type":"ref/resource","uri":"mcp+far+test://{x}"}"#,
                    serde_json::json!({"type": "ref/resource", "uri": "test://{x}"}),
                ),
            ] {
                let done = ask(
                    "completion/complete",
                    &format!(r#""ref":{reference},"argument":{{}}"#),
                )
                .await;
                assert_eq!(done["result"]["completion"]["ref"], there, "{done}");
            }
            let discovered = ask("server/discover", "").await["result"].clone();
            let capabilities = &discovered["capabilities"];
            for name in ["tools", "prompts", "resources", "completions", "logging"] {
                assert!(capabilities.get(name).is_some(), "{name}: {discovered}");
            }
            let says = discovered["instructions"].as_str().unwrap();
            assert!(says.contains("The server far says: Wait here."), "{says}");
        }
    });
}

#[test]
fn what_a_server_asks_reaches_its_very_caller_and_says_who_asks() {
    lab::run(|world| async move {
        for (caller, server) in PAIRS {
            let relayed = start(&world, server);
            let headers = relayed.caller(caller).await;
            let answer = r#"{"action":"accept","content":{"n":1.0}}"#;
            let (with, body) = relayed.request(caller, &headers, "1", "far__form");
            let waiting = relayed.near.post(&with, &body).await;
            let text = match caller {
                Era::Legacy => {
                    let asked = event(
                        &waiting.until("elicitation/create").await,
                        "elicitation/create",
                    );
                    assert_eq!(asked["params"]["message"], "[far] the server asks: Name?");
                    let response = format!(
                        r#"{{"jsonrpc":"2.0","id":{},"result":{answer}}}"#,
                        asked["id"]
                    );
                    relayed.near.whole(&headers, &response).await;
                    let got = waiting.until("0\r\n\r\n").await;
                    event(&got, "\"result\"")["result"]["content"][0]["text"].clone()
                }
                Era::Modern => {
                    let got = waiting.until("0\r\n\r\n").await;
                    let asked = event(&got, "input_required")["result"].clone();
                    let (key, question) = asked["inputRequests"]
                        .as_object()
                        .unwrap()
                        .iter()
                        .next()
                        .unwrap();
                    assert_eq!(
                        question["params"]["message"],
                        "[far] the server asks: Name?"
                    );
                    let again = format!(
                        r#""name":"far__form","inputResponses":{{"{key}":{answer}}},"requestState":{}"#,
                        asked["requestState"]
                    );
                    let (with, body) = modern("tools/call", &again, FORM_AND_URL, "");
                    let got = relayed.near.whole(&with, &body).await;
                    event(&got, "\"result\"")["result"]["content"][0]["text"].clone()
                }
            };
            // The far server sees its own key and state, byte for byte.
            let text = text.as_str().unwrap().to_owned();
            assert!(
                text.starts_with(&format!(r#"{{"q":{answer}}}"#)),
                "{caller:?} {server:?}: {text}"
            );
            assert!(
                text.ends_with(r#""st\"ate""#),
                "{caller:?} {server:?}: {text}"
            );
        }
    });
}

/// One call of a legacy server that waits for its modern caller; the member `requestState` as JSON.
async fn parked(relayed: &Relayed, headers: &str) -> String {
    let (with, body) = modern(
        "tools/call",
        r#""name":"far__form","arguments":{"a":1}"#,
        FORM_AND_URL,
        "",
    );
    let got = relayed.near.whole(&format!("{with}{headers}"), &body).await;
    event(&got, "input_required")["result"]["requestState"].to_string()
}

async fn brought(
    relayed: &Relayed,
    headers: &str,
    tool: &str,
    arguments: &str,
    state: &str,
) -> String {
    let again = format!(
        r#""name":"far__{tool}","arguments":{arguments},"inputResponses":{{"up.question":{{"action":"decline"}}}},"requestState":{state}"#
    );
    let (with, body) = modern("tools/call", &again, FORM_AND_URL, "");
    relayed.near.whole(&format!("{with}{headers}"), &body).await
}

#[test]
fn the_state_of_a_waiting_call_is_of_one_caller_and_call_and_works_once() {
    lab::run(|world| async move {
        let token = |secret: &str| {
            countersign::secret::hex(&countersign::secret::sha256(secret.as_bytes()))
        };
        let tokens = format!(
            "gateway:\n  tokens:\n    - {{id: a, sha256: {}, roles: [admin]}}\n    - {{id: b, sha256: {}, roles: [admin]}}\n",
            token("one"),
            token("two")
        );
        let relayed = start_with(&world, Era::Legacy, &tokens, "");
        let (ann, bob) = (
            "Authorization: Bearer one\r\n",
            "Authorization: Bearer two\r\n",
        );
        let state = parked(&relayed, ann).await;
        let tampered = state.replacen(char::is_alphanumeric, "-", 1);
        let longer = state.replace('"', "").to_owned() + "AA";
        for (headers, tool, arguments, state) in [
            (bob, "form", r#"{"a":1}"#, state.as_str()),
            (ann, "url", r#"{"a":1}"#, &state),
            (ann, "form", r#"{"a":2}"#, &state),
            (ann, "form", r#"{"a":1.0}"#, &state),
            (ann, "form", r#"{"a":1}"#, &tampered),
            (ann, "form", r#"{"a":1}"#, &format!("\"{longer}\"")),
            (ann, "form", r#"{"a":1}"#, r#""""#),
        ] {
            let got = brought(&relayed, headers, tool, arguments, state).await;
            assert!(got.contains("-32602"), "{tool} {arguments}: {got}");
        }
        assert_eq!(relayed.far.events.len(), 2, "nothing ran again");
        // Members in another order are the same call.
        let got = brought(&relayed, ann, "form", r#"{ "a" : 1 }"#, &state).await;
        assert!(got.contains("decline"), "{got}");
        let ran = relayed.far.events.len();
        let got = brought(&relayed, ann, "form", r#"{"a":1}"#, &state).await;
        assert!(got.contains("-32602"), "{got}");
        assert_eq!(relayed.far.events.len(), ran, "a state works once");
    });
}

#[test]
fn a_waiting_call_ends_when_nobody_comes_back() {
    lab::run(|world| async move {
        let relayed = start(&world, Era::Legacy);
        let state = parked(&relayed, "").await;
        while relayed.far.events.try_recv().is_ok() {}
        world.clock.advance(Duration::from_secs(119));
        lab::turn().await;
        world.clock.advance(Duration::from_secs(1));
        let got = brought(&relayed, "", "form", r#"{"a":1}"#, &state).await;
        assert!(got.contains("-32602"), "{got}");
        assert!(relayed.far.events.is_empty());
        // There are so many at a time for one caller.
        for _ in 0..16 {
            parked(&relayed, "").await;
        }
        let (with, body) = modern("tools/call", r#""name":"far__form""#, FORM_AND_URL, "");
        let got = relayed.near.whole(&with, &body).await;
        assert!(got.contains("too many calls are waiting"), "{got}");
    });
}

#[test]
fn a_question_that_nobody_can_answer_is_refused_and_not_left_open() {
    lab::run(|world| async move {
        for server in [Era::Modern, Era::Legacy] {
            let relayed = start(&world, server);
            let (with, body) = modern("tools/call", r#""name":"far__form""#, "{}", "");
            let got = relayed.near.whole(&with, &body).await;
            assert!(got.contains("elicitation by form"), "{server:?}: {got}");
            let old = "MCP-Protocol-Version: 2025-03-26\r\n";
            let got = relayed.near.whole(old, &call("1", "far__form")).await;
            assert!(got.contains("elicitation by form"), "{server:?}: {got}");
        }
    });
}

#[test]
fn a_caller_that_leaves_or_cancels_takes_the_call_at_the_server_with_it() {
    lab::run(|world| async move {
        for (caller, server) in PAIRS {
            for by_message in [false, true] {
                if by_message && caller == Era::Modern {
                    continue;
                }
                let relayed = start(&world, server);
                let headers = relayed.caller(caller).await;
                let (with, body) = relayed.request(caller, &headers, "1", "far__wait");
                let waiting = relayed.near.post(&with, &body).await;
                relayed.far.expect(Event::Entered("wait".to_owned())).await;
                if by_message {
                    relayed.near.whole(&headers, &cancel("1")).await;
                } else {
                    drop(waiting);
                }
                relayed.far.expect(Event::Gone("wait".to_owned())).await;
            }
        }
    });
}

#[test]
fn a_dead_or_silent_server_is_missing_from_a_list_and_holds_up_nobody() {
    lab::run(|world| async move {
        let silent = world.net.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let dead: SocketAddr = {
            let listener = world.net.listen("127.0.0.1:0".parse().unwrap()).unwrap();
            listener.local_address().unwrap()
        };
        let others = format!(
            "  - slug: dead\n    kind: remote-http\n    url: http://{dead}/mcp\n  - slug: silent\n    kind: remote-http\n    url: http://{}/mcp\n",
            silent.local_address().unwrap()
        );
        let relayed = start_with(&world, Era::Modern, "", &others);
        let (headers, body) = modern("tools/list", "", "{}", "");
        let listing = relayed.near.whole(&headers, &body);
        let got = lab::advancing(&world, listing).await;
        assert!(got.contains("far__echo"), "{got}");
        let (headers, body) = modern("server/discover", "", "{}", "");
        let got = lab::advancing(&world, relayed.near.whole(&headers, &body)).await;
        assert!(got.contains("Not available now: dead, silent."), "{got}");
        let (headers, body) = modern("tools/call", r#""name":"dead__x""#, "{}", "");
        let got = lab::advancing(&world, relayed.near.whole(&headers, &body)).await;
        assert!(
            got.contains("Nothing ran") && got.contains("isError"),
            "{got}"
        );
    });
}

#[test]
fn a_legacy_server_that_forgets_its_session_is_opened_anew() {
    lab::run(|world| async move {
        let relayed = start(&world, Era::Legacy);
        let (headers, body) = modern("tools/call", r#""name":"far__echo""#, "{}", "");
        for _ in 0..2 {
            let got = relayed.near.whole(&headers, &body).await;
            assert!(got.contains(r#""text":"echo""#), "{got}");
        }
    });
}

/// The message of an answer of either form, its chunks taken apart.
fn answered(got: &[u8]) -> serde_json::Value {
    let head = got.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let (head, mut rest) = got.split_at(head);
    let head = String::from_utf8_lossy(head).to_lowercase();
    assert!(head.starts_with("http/1.1 200 "), "{head}");
    let mut body = Vec::new();
    if head.contains("chunked") {
        loop {
            let line = rest.windows(2).position(|two| two == b"\r\n").unwrap();
            let size = std::str::from_utf8(&rest[..line]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            body.extend_from_slice(&rest[line + 2..line + 2 + size]);
            rest = &rest[line + 4 + size..];
            if size == 0 {
                break;
            }
        }
    } else {
        body.extend_from_slice(rest);
    }
    let body = String::from_utf8(body).unwrap();
    if head.contains("text/event-stream") {
        let mut data = body.lines().filter_map(|line| line.strip_prefix("data: "));
        return serde_json::from_str(data.next().unwrap()).unwrap();
    }
    serde_json::from_str(&body).unwrap()
}

async fn bytes_of(world: &World, address: SocketAddr, headers: &str, body: &str) -> Vec<u8> {
    let caller = lab::Caller::connect(world, address).await;
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    caller.send(request.as_bytes()).await;
    caller.until_end().await;
    let received = caller.received.lock().unwrap();
    received.clone()
}

#[test]
fn a_large_result_comes_through_whole_and_in_the_words_of_its_caller() {
    lab::run(|world| async move {
        let text = crate::eras::large_text();
        for (caller, server) in PAIRS {
            for tool in ["far__large", "far__large-held"] {
                let relayed = start(&world, server);
                let headers = relayed.caller(caller).await;
                let (with, body) = relayed.request(caller, &headers, "1", tool);
                let got = bytes_of(&world, relayed.near.address, &with, &body).await;
                let message = answered(&got);
                let result = &message["result"];
                let what = format!("{caller:?} {server:?} {tool}");
                assert!(result["content"][0]["text"] == text.as_str(), "{what}");
                let modern = caller == Era::Modern;
                assert_eq!(result.get("resultType").is_some(), modern, "{what}");
                // Anything but an object is not for a legacy caller, and a legacy server must not send it either.
                let structured = modern && server == Era::Modern;
                assert_eq!(
                    result.get("structuredContent").is_some(),
                    structured,
                    "{what}"
                );
                let meta = &result["_meta"];
                assert_eq!(meta["com.example/kept"], 1.0, "{what}");
                assert!(meta.get("countersign/outcome").is_none(), "{what}");
            }
        }
    });
}

/// A server that begins a large answer and then does what its name says.
struct Cut(&'static str);

impl Handler for Cut {
    async fn handle(&self, request: Request, responder: Responder) -> Responded {
        let body = request.body.read_all(1 << 20).await.unwrap();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let id = &body["id"];
        if body["method"] == "server/discover" {
            let answer = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{{}}}}}}"#
            );
            let json = [("content-type", "application/json")];
            return responder.send(200, &json, answer.as_bytes()).await;
        }
        let text = "x".repeat(100_000);
        let begin = format!(
            r#"data: {{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{text}"#
        );
        let json = [("content-type", "text/event-stream")];
        let mut writer = match responder.start(200, &json, begin.as_bytes()).await {
            Ok(writer) => writer,
            Err(gone) => return gone,
        };
        let rest = match self.0 {
            "ends" => return writer.finish(b"").await,
            "closes" => return writer.abandon(),
            "breaks the grammar" => "\"}]]",
            "names another request" => "\"}]},\"id\":\"other\"}\n\n",
            "asks" => "\"}],\"resultType\":\"input_required\"}}\n\n",
            "is an error too" => "\"}]},\"error\":{}}\n\n",
            _ => "\"}]}}\n\n",
        };
        let _ = writer.write(rest.as_bytes()).await;
        writer.finish(b"").await
    }
}

#[test]
fn a_large_answer_with_a_fault_at_its_end_is_cut() {
    lab::run(|world| async move {
        for what in [
            "ends",
            "closes",
            "breaks the grammar",
            "names another request",
            "asks",
            "is an error too",
            "is sound",
        ] {
            let far = lab::listen(&world, Cut(what));
            let config = lab::config(&format!(
                "servers:\n  - slug: far\n    kind: remote-http\n    url: http://{far}/mcp\n"
            ));
            let (_, mut near) = Served::apart(&world, false);
            near.address = lab::gateway(&world, &config);
            let (headers, body) = modern("tools/call", r#""name":"far__x""#, "{}", "");
            let got = bytes_of(&world, near.address, &headers, &body).await;
            let whole = got.ends_with(b"0\r\n\r\n");
            assert_eq!(
                whole,
                what == "is sound",
                "{what} {}",
                String::from_utf8_lossy(&got[got.len().saturating_sub(600)..])
            );
            assert!(got.len() > 60_000, "{what}");
        }
    });
}

#[test]
fn arguments_that_headers_mirror_are_checked_here_and_mirrored_there() {
    lab::run(|world| async move {
        for server in [Era::Modern, Era::Legacy] {
            let relayed = start(&world, server);
            let arguments = r#""name":"far__region","arguments":{"where":"Zürich","in":{"n":42}}"#;
            let (headers, body) = modern("tools/call", arguments, "{}", "");
            let right = "Mcp-Param-Region: =?base64?WsO8cmljaA==?=\r\nMcp-Param-Count: 42\r\n";
            for (more, status) in [
                (right.to_owned(), "200"),
                (right.replace("42", "42.0"), "200"),
                (right.replace("42", "43"), "400"),
                (right.replace("WsO8cmljaA==", "WsO8cmljaA"), "400"),
                ("Mcp-Param-Count: 42\r\n".to_owned(), "400"),
                (String::new(), "400"),
                (format!("{right}Mcp-Param-Other: x\r\n"), "200"),
            ] {
                let got = relayed.near.whole(&format!("{headers}{more}"), &body).await;
                assert!(
                    got.starts_with(&format!("HTTP/1.1 {status} ")),
                    "{server:?} {more}: {got}"
                );
                let says = if status == "200" { "checked" } else { "-32020" };
                assert!(got.contains(says), "{server:?} {more}: {got}");
            }
            // A legacy caller knows of no such headers, and they are made for it.
            let old = "MCP-Protocol-Version: 2025-11-25\r\n";
            let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"far__region","arguments":{"where":"a"}}}"#;
            let got = relayed.near.whole(old, call).await;
            assert!(got.contains("checked"), "{server:?}: {got}");
        }
    });
}

// --- tasks ---

/// `tasks/get` and its like, as a modern caller sends them.
fn about_task(method: &str, id: &str, who: &str) -> (String, String) {
    let params = format!(r#""taskId":"{id}""#);
    let (headers, body) = modern(method, &params, TASKS, "");
    let who = match who {
        "" => String::new(),
        token => format!("Authorization: Bearer {token}\r\n"),
    };
    (format!("{headers}Mcp-Name: {id}\r\n{who}"), body)
}

const TASKS: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}},"elicitation":{}}"#;

/// "Auth check on each call": to the server all callers are the gateway.
#[test]
fn a_task_is_followed_by_who_began_it_and_by_nobody_else() {
    lab::run(|world| async move {
        let token = |id: &str| {
            let sha256 = countersign::secret::sha256(format!("{id}-token").as_bytes());
            let sha256 = countersign::secret::hex(&sha256);
            format!("    - {{id: {id}, sha256: {sha256}, roles: [admin]}}\n")
        };
        let tokens = format!("gateway:\n  tokens:\n{}{}", token("ann"), token("bob"));
        let relayed = start_with(&world, Era::Modern, &tokens, "");
        let near = &relayed.near;
        let discover = modern("server/discover", "", "{}", "");
        let ann = "Authorization: Bearer ann-token\r\n";
        let got = near
            .whole(&format!("{}{ann}", discover.0), &discover.1)
            .await;
        assert!(got.contains("io.modelcontextprotocol/tasks"), "{got}");

        let (headers, body) = modern("tools/call", r#""name":"far__task""#, TASKS, "");
        let got = near.whole(&format!("{headers}{ann}"), &body).await;
        assert!(got.contains(r#""resultType":"task""#), "{got}");
        let id = got.split(r#""taskId":""#).nth(1).unwrap();
        let id = id.split('"').next().unwrap();
        assert!(id.ends_with(".far.t.1"), "{id}");

        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let (headers, body) = about_task(method, id, "ann-token");
            let got = near.whole(&headers, &body).await;
            assert!(got.contains(&format!(r#""taskId":"{id}""#)), "{got}");
            assert!(got.contains("[far] the server asks: Sure?"), "{got}");
            for (id, who) in [(id, "bob-token"), ("t.1", "ann-token")] {
                let (headers, body) = about_task(method, id, who);
                let got = near.whole(&headers, &body).await;
                assert!(
                    got.contains("-32602") && got.contains("there is no task"),
                    "{got}"
                );
            }
        }
        // The header says which, too.
        let (headers, body) = about_task("tasks/get", id, "ann-token");
        let other = headers.replace("Mcp-Name: ", "Mcp-Name: x");
        let got = near.whole(&other, &body).await;
        assert!(got.contains("-32020"), "{got}");

        // Nobody gets one who did not say that it follows tasks, whatever a server does.
        let (headers, body) = modern("tools/call", r#""name":"far__task""#, "{}", "");
        let got = near.whole(&format!("{headers}{ann}"), &body).await;
        assert!(!got.contains("t.1"), "{got}");
        assert!(got.contains("a task, where none may be"), "{got}");
    });
}
