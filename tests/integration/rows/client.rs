//! Rows C1 to C29 and L11 to L15: what a client must and should do, seen by a server that writes everything down.
//!
//! C11 to C13, C22 and C23 are about showing things to a person: this client is a library, and what stands in their place
//! here is that nothing is answered by itself.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign::http::{Handler, Request, Responded, Responder};
use countersign::mcp::client::{CallFault, Listener, News, Outgoing, Question, fixed};
use countersign::mcp::{Ability, Client, ClientCapabilities, ParamHeaders, ResultKind, RpcResult};
use countersign::secret::Secret;
use countersign::world::World;
use serde_json::{Value, json};
use smol::channel::{Sender, bounded};
use url::Url;

use crate::lab::{self, advancing, within};

/// One request as the server saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    headers: Vec<(String, String)>,
    pub body: Value,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The method of JSON-RPC; that of HTTP where there is none.
    pub fn what(&self) -> &str {
        self.body["method"].as_str().unwrap_or(&self.method)
    }
}

/// What the server says: a status, a media type and a body; `None`: nothing, for ever.
type Answer = Option<(u16, &'static str, String)>;

pub const JSON: &str = "application/json";
pub const STREAM: &str = "text/event-stream";

/// A server that answers as a test says.
#[derive(Clone)]
pub struct Script {
    seen: Arc<Mutex<Vec<Seen>>>,
    script: Arc<dyn Fn(&Seen) -> Answer + Send + Sync>,
    left: Sender<String>,
}

impl Handler for Script {
    async fn handle(&self, request: Request, responder: Responder) -> Responded {
        let body = request.body.read_all(1 << 20).await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let seen = Seen {
            method: format!("{:?}", request.head.method),
            headers: request
                .head
                .headers
                .iter()
                .map(|(name, value)| (name.to_owned(), text(value)))
                .collect(),
            body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        };
        self.seen.lock().unwrap().push(seen.clone());
        let _left = Left(seen.what().to_owned(), self.left.clone());
        let Some((status, media, text)) = (self.script)(&seen) else {
            return std::future::pending().await;
        };
        let session = [("content-type", media), ("mcp-session-id", "s-1")];
        let plain = [("content-type", media)];
        let headers = if seen.what() == "initialize" {
            &session[..]
        } else {
            &plain[..]
        };
        match status {
            200 if media == STREAM => match responder.start(200, headers, text.as_bytes()).await {
                Ok(writer) => writer.finish(b"").await,
                Err(gone) => gone,
            },
            202 => responder.send(202, &[], b"").await,
            status => responder.send(status, headers, text.as_bytes()).await,
        }
    }
}

struct Left(String, Sender<String>);

impl Drop for Left {
    fn drop(&mut self) {
        let _ = self.1.try_send(self.0.clone());
    }
}

/// The answer to a request: its id, and a result as JSON.
pub fn result(seen: &Seen, result: &str) -> Answer {
    let id = &seen.body["id"];
    Some((
        200,
        JSON,
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
    ))
}

pub fn error(seen: &Seen, status: u16, code: i32, data: &str) -> Answer {
    let id = &seen.body["id"];
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"no","data":{data}}}}}"#
    );
    Some((status, JSON, text))
}

const DISCOVERED: &str =
    r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#;
const INITIALIZED: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}"#;
const DONE: &str = r#"{"resultType":"complete","content":[{"type":"text","text":"done"}]}"#;

/// What a modern server says, and what `otherwise` says to the rest.
pub fn modern(
    otherwise: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
) -> impl Fn(&Seen) -> Answer + Send + Sync {
    move |seen| match seen.what() {
        "server/discover" => result(seen, DISCOVERED),
        _ => otherwise(seen),
    }
}

/// The same of a legacy one.
pub fn legacy(
    otherwise: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
) -> impl Fn(&Seen) -> Answer + Send + Sync {
    move |seen| match seen.what() {
        "server/discover" => Some((400, JSON, String::new())),
        "initialize" => result(seen, INITIALIZED),
        "notifications/initialized" | "notifications/cancelled" => Some((202, JSON, String::new())),
        _ => otherwise(seen),
    }
}

/// A scripted server.
pub struct Far {
    pub address: std::net::SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    pub left: smol::channel::Receiver<String>,
}

impl Far {
    pub fn start(world: &World, script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        let (left, gone) = smol::channel::unbounded();
        let script = Script {
            seen: Arc::default(),
            script: Arc::new(script),
            left,
        };
        let seen = script.seen.clone();
        Self {
            address: lab::listen(world, script),
            seen,
            left: gone,
        }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// What was asked, without what a client finds out first.
    pub fn asked(&self, what: &str) -> Vec<Seen> {
        self.seen()
            .into_iter()
            .filter(|seen| seen.what() == what)
            .collect()
    }
}

/// Our client of a scripted server.
struct Pair {
    world: World,
    far: Far,
    client: Client,
}

impl Pair {
    fn start(world: &World, script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        let far = Far::start(world, script);
        let url = Url::parse(&format!("http://{}/mcp", far.address)).unwrap();
        let http = countersign::http::Client::new(world.clone());
        let headers = fixed(vec![(
            "authorization".to_owned(),
            Secret::new("Bearer far-key".to_owned()),
        )]);
        Self {
            world: world.clone(),
            far,
            client: Client::new(world.clone(), http, url, headers, None),
        }
    }

    async fn ask(
        &self,
        request: &Outgoing<'_>,
        questions: Option<Sender<Question>>,
    ) -> Result<RpcResult, CallFault> {
        let deadline = self.world.clock.after(Duration::from_secs(30));
        let mut listener = Listener {
            news: &mut |_| {},
            questions,
        };
        let asking = self.client.request(request, deadline, &mut listener);
        advancing(&self.world, asking).await
    }

    async fn call(&self) -> Result<RpcResult, CallFault> {
        let arguments = serde_json::from_str("{}").unwrap();
        self.ask(&Outgoing::call("t", "\"t\"", arguments), None)
            .await
    }
}

const ASKS: &str = r#"{"resultType":"input_required","inputRequests":{"q":{"method":"roots/list","params":{}}},"requestState":"a\"b é"}"#;

/// Each message its own POST; `Accept` with both types; JSON and SSE both understood (streamable-http).
#[test]
fn c1_each_message_is_a_post_and_either_form_of_answer_is_read() {
    lab::run(|world| async move {
        for as_stream in [false, true] {
            let pair = Pair::start(
                &world,
                modern(move |seen| {
                    let (_, _, text) = result(seen, DONE).unwrap();
                    Some(match as_stream {
                        true => (200, STREAM, format!("data: {text}\n\n")),
                        false => (200, JSON, text),
                    })
                }),
            );
            assert_eq!(pair.call().await.unwrap().texts(), "done");
            for seen in pair.far.seen() {
                assert_eq!(seen.method, "Post");
                assert_eq!(
                    seen.header("accept"),
                    Some("application/json, text/event-stream")
                );
                assert!(seen.body.is_object());
            }
        }
    });
}

/// `MCP-Protocol-Version`, `Mcp-Method`, `Mcp-Name` equal to the body; Base64 form where needed (streamable-http).
/// `_meta` `protocolVersion` + `clientCapabilities` on every request; `clientInfo` (basic/index).
#[test]
fn c2_and_c3_headers_and_meta_say_what_the_body_says() {
    lab::run(|world| async move {
        let pair = Pair::start(&world, modern(|seen| result(seen, DONE)));
        for (name, header) in [("t", "t"), ("é", "=?base64?w6k=?="), ("a b", "a b")] {
            let quoted = serde_json::to_string(name).unwrap();
            let arguments = serde_json::from_str("{}").unwrap();
            pair.ask(&Outgoing::call(name, &quoted, arguments), None)
                .await
                .unwrap();
            let seen = pair.far.asked("tools/call").pop().unwrap();
            assert_eq!(seen.header("mcp-name"), Some(header));
            assert_eq!(seen.body["params"]["name"], name);
        }
        for seen in pair.far.seen() {
            let meta = &seen.body["params"]["_meta"];
            let version = meta["io.modelcontextprotocol/protocolVersion"].as_str();
            assert_eq!(seen.header("mcp-protocol-version"), version);
            assert_eq!(version, Some("2026-07-28"));
            assert_eq!(seen.header("mcp-method"), Some(seen.what()));
            assert!(meta["io.modelcontextprotocol/clientCapabilities"].is_object());
            assert_eq!(
                meta["io.modelcontextprotocol/clientInfo"]["name"],
                "countersign"
            );
        }
    });
}

/// Never posts responses; id never null, not equal to another in-flight id (basic/index).
#[test]
fn c4_ids_are_never_the_same_and_nothing_is_answered() {
    lab::run(|world| async move {
        let pair = Pair::start(
            &world,
            modern(|seen| {
                let (_, _, text) = result(seen, DONE).unwrap();
                let asks = r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#;
                Some((200, STREAM, format!("data: {asks}\n\ndata: {text}\n\n")))
            }),
        );
        for _ in 0..3 {
            pair.call().await.unwrap();
        }
        let mut ids: Vec<String> = pair
            .far
            .seen()
            .iter()
            .map(|seen| seen.body["id"].to_string())
            .collect();
        assert!(ids.iter().all(|id| id != "null"));
        ids.sort();
        ids.dedup();
        assert_eq!(
            ids.len(),
            pair.far.seen().len(),
            "a response was posted, or an id used twice"
        );
    });
}

/// `-32022` → retry with a listed version (new id), or report; loop guard (versioning).
#[test]
fn c5_a_version_that_is_refused_is_reported_and_found_out_anew() {
    lab::run(|world| async move {
        let pair = Pair::start(
            &world,
            modern(|seen| {
                error(
                    seen,
                    400,
                    -32022,
                    r#"{"supported":["2025-11-25"],"requested":"2026-07-28"}"#,
                )
            }),
        );
        let fault = pair.call().await.unwrap_err();
        assert!(
            matches!(&fault, CallFault::Rpc(error) if error.code == -32022),
            "{fault}"
        );
        assert_eq!(
            pair.far.asked("tools/call").len(),
            1,
            "what may have acted is never sent again"
        );
        let _ = pair.call().await;
        assert_eq!(pair.far.asked("server/discover").len(), 2);
    });
}

/// Absent `resultType` = complete; unknown value = invalid (basic/index).
#[test]
fn c6_a_result_without_a_type_is_complete_and_an_unknown_type_is_none() {
    lab::run(|world| async move {
        for (text, sound) in [
            (r#"{"content":[]}"#, true),
            (r#"{"resultType":"complete","content":[]}"#, true),
            (r#"{"resultType":"partial","content":[]}"#, false),
            (r#"{"resultType":null,"content":[]}"#, false),
        ] {
            let pair = Pair::start(&world, modern(move |seen| result(seen, text)));
            let got = pair.call().await;
            assert_eq!(
                got.is_ok_and(|got| got.kind() == ResultKind::Complete),
                sound,
                "{text}"
            );
        }
    });
}

/// On `inputRequests`: build all answers, then retry with a **new id**, same name + arguments (mrtr). `requestState` echoed
/// byte-exact; absent if not given; never parsed. `inputResponses`/`requestState` never on another request.
#[test]
fn c7_c8_and_c9_an_answer_goes_back_with_its_state_as_it_came() {
    lab::run(|world| async move {
        let pair = Pair::start(
            &world,
            modern(
                |seen| match seen.body["params"]["inputResponses"].is_null() {
                    true => result(seen, ASKS),
                    false => result(seen, DONE),
                },
            ),
        );
        let capabilities = ClientCapabilities::NONE.with(Ability::Roots, true);
        let arguments = serde_json::from_str(r#"{"a":1.0}"#).unwrap();
        let mut request = Outgoing {
            capabilities,
            ..Outgoing::call("t", "\"t\"", arguments)
        };
        let asked = pair.ask(&request, None).await.unwrap();
        assert_eq!(asked.kind(), ResultKind::InputRequired);
        let state = asked.get("requestState").unwrap().get().to_owned();
        request
            .params
            .push(("inputResponses", r#"{"q":{"roots":[]}}"#));
        request.params.push(("requestState", &state));
        assert_eq!(pair.ask(&request, None).await.unwrap().texts(), "done");
        let calls = pair.far.asked("tools/call");
        assert_eq!(calls.len(), 2);
        assert_ne!(calls[0].body["id"], calls[1].body["id"]);
        assert_eq!(calls[1].body["params"]["requestState"], "a\"b é");
        assert_eq!(
            calls[0].body["params"]["name"],
            calls[1].body["params"]["name"]
        );
        assert_eq!(
            calls[0].body["params"]["arguments"],
            calls[1].body["params"]["arguments"]
        );
        pair.call().await.unwrap();
        let next = pair.far.asked("tools/call").pop().unwrap();
        assert!(
            next.body["params"]["requestState"].is_null()
                && next.body["params"]["inputResponses"].is_null()
        );
    });
}

/// Declares `elicitation` on each request if it supports it; at least one mode (elicitation).
#[test]
fn c10_what_can_be_answered_is_declared_with_each_request() {
    lab::run(|world| async move {
        let pair = Pair::start(&world, modern(|seen| result(seen, DONE)));
        for (ability, declared) in [
            (Some(Ability::Form), json!({"form": {}})),
            (Some(Ability::Url), json!({"url": {}})),
            (None, Value::Null),
        ] {
            let capabilities = ability.map_or(ClientCapabilities::NONE, |ability| {
                ClientCapabilities::NONE.with(ability, true)
            });
            let arguments = serde_json::from_str("{}").unwrap();
            let request = Outgoing {
                capabilities,
                ..Outgoing::call("t", "\"t\"", arguments)
            };
            pair.ask(&request, None).await.unwrap();
            let seen = pair.far.asked("tools/call").pop().unwrap();
            let meta = &seen.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
            assert_eq!(meta["elicitation"], declared, "{meta}");
        }
    });
}

/// UI: which server asks; decline and cancel; review before sending. Validates content. URL: no pre-fetch, explicit consent.
/// Human can deny (elicitation, tools). Nothing of that is the library's: it answers nothing by itself, and fetches nothing.
#[test]
fn c11_c12_c13_and_c23_nothing_is_answered_or_fetched_by_itself() {
    lab::run(|world| async move {
        let elsewhere = lab::Endpoint::start(&world);
        let url = elsewhere.channel("page");
        let asks = format!(
            r#"{{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{{"mode":"url","message":"Look","elicitationId":"e","url":"{url}"}}}}"#
        );
        let pair = Pair::start(
            &world,
            legacy(move |seen| {
                let (_, _, text) = result(seen, DONE)?;
                Some(match seen.what() {
                    "tools/call" => (200, STREAM, format!("data: {asks}\n\ndata: {text}\n\n")),
                    _ => (202, JSON, String::new()),
                })
            }),
        );
        pair.call().await.unwrap();
        let answers: Vec<Seen> = pair
            .far
            .seen()
            .into_iter()
            .filter(|seen| seen.body["id"] == "q")
            .collect();
        assert!(
            answers
                .iter()
                .all(|answer| answer.body["error"].is_object()),
            "{answers:?}"
        );
        assert_eq!(answers.len(), 1);
        assert!(elsewhere.seen.is_empty());
    });
}

/// Missing `mode` = form (elicitation).
#[test]
fn c14_a_question_without_a_mode_is_a_form() {
    let form = serde_json::from_str(r#"{"message":"m","requestedSchema":{}}"#).unwrap();
    assert_eq!(
        Ability::needed("elicitation/create", form),
        Some(Ability::Form)
    );
    let url = serde_json::from_str(r#"{"mode":"url","message":"m"}"#).unwrap();
    assert_eq!(
        Ability::needed("elicitation/create", url),
        Some(Ability::Url)
    );
}

/// `x-mcp-header` mirrored; null/absent omitted; invalid tools dropped, others kept (streamable-http).
#[test]
fn c15_arguments_that_go_into_headers_do() {
    lab::run(|world| async move {
        let good = r#"{"name":"good","inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"R"}}}}"#;
        let pair = Pair::start(
            &world,
            modern(move |seen| match seen.what() {
                "tools/list" => {
                    let bad = r#"{"name":"bad","inputSchema":{"type":"object","properties":{"n":{"type":"number","x-mcp-header":"N"}}}}"#;
                    result(seen, &format!(r#"{{"tools":[{bad},{good}]}}"#))
                }
                _ => result(seen, DONE),
            }),
        );
        let deadline = world.clock.after(Duration::from_secs(5));
        let tools = pair.client.tools(deadline).await.unwrap();
        assert_eq!(tools.len(), 1, "{tools:?}");
        let headers = ParamHeaders::of_tool(&tools[0]).unwrap();
        for (arguments, header) in [
            (r#"{"r":"x"}"#, Some("x")),
            (r#"{"r":null}"#, None),
            ("{}", None),
        ] {
            let arguments = serde_json::from_str(arguments).unwrap();
            let param_headers = headers.values(arguments);
            let request = Outgoing {
                param_headers,
                ..Outgoing::call("good", "\"good\"", arguments)
            };
            pair.ask(&request, None).await.unwrap();
            let seen = pair.far.asked("tools/call").pop().unwrap();
            assert_eq!(seen.header("mcp-param-r"), header);
        }
    });
}

/// `-32020` on params → `tools/list` again, retry (streamable-http). A call may have acted, so that it is not sent again: the
/// list is asked for before the next one. (The gateway's part: `mirrored`.)
#[test]
fn c16_a_call_that_is_refused_for_its_headers_is_not_sent_again() {
    lab::run(|world| async move {
        let pair = Pair::start(&world, modern(|seen| error(seen, 400, -32020, "null")));
        assert!(pair.call().await.is_err());
        assert_eq!(pair.far.asked("tools/call").len(), 1);
    });
}

/// Cancel: HTTP close stream; stdio `notifications/cancelled`. Late answers ignored (cancellation).
#[test]
fn c17_a_call_that_is_dropped_closes_its_stream_and_a_legacy_one_is_cancelled_by_message() {
    lab::run(|world| async move {
        for is_modern in [true, false] {
            let hang = |seen: &Seen| match seen.what() {
                "tools/call" => None,
                _ => Some((202, JSON, String::new())),
            };
            let pair = match is_modern {
                true => Pair::start(&world, modern(hang)),
                false => Pair::start(&world, legacy(hang)),
            };
            let entered = async {
                while pair.far.asked("tools/call").is_empty() {
                    lab::turn().await;
                }
            };
            let arguments = serde_json::from_str("{}").unwrap();
            let request = Outgoing::call("t", "\"t\"", arguments);
            let mut nobody = Listener {
                news: &mut |_| {},
                questions: None,
            };
            let deadline = world.clock.after(Duration::from_secs(30));
            let call = async {
                let _ = pair.client.request(&request, deadline, &mut nobody).await;
            };
            within("the call", smol::future::or(entered, call)).await;
            let gone = async { while pair.far.left.recv().await.unwrap() != "tools/call" {} };
            within("its end", gone).await;
            if !is_modern {
                let told = async {
                    while pair.far.asked("notifications/cancelled").is_empty() {
                        lab::turn().await;
                    }
                };
                within("the cancellation", told).await;
            }
        }
    });
}

/// Broken stream → re-issue with a new id, never resume (changelog, streamable-http). What may have acted is not sent again:
/// the fault says that it may have.
#[test]
fn c18_a_stream_that_breaks_is_told_and_never_resumed() {
    lab::run(|world| async move {
        let pair = Pair::start(
            &world,
            modern(|_| Some((200, STREAM, "id: 7\nretry: 1\ndata:\n\n".to_owned()))),
        );
        let fault = pair.call().await.unwrap_err();
        assert!(
            matches!(&fault, CallFault::Connection(fault) if fault.sent),
            "{fault}"
        );
        assert_eq!(pair.far.asked("tools/call").len(), 1);
        assert!(pair.far.seen().iter().all(|seen| seen.method == "Post"));
    });
}

/// Timeouts, with a hard cap despite progress (cancellation).
#[test]
fn c19_progress_does_not_put_the_end_off() {
    lab::run(|world| async move {
        let pair = Pair::start(&world, modern(|_| None));
        let fault = pair.call().await.unwrap_err();
        assert!(fault.to_string().contains("time"), "{fault}");
    });
}

/// Cursor opaque; empty string is a cursor (pagination).
#[test]
fn c20_a_list_goes_on_until_there_is_no_cursor() {
    lab::run(|world| async move {
        let pair = Pair::start(
            &world,
            modern(|seen| {
                let cursor = &seen.body["params"]["cursor"];
                let next = match cursor.as_str() {
                    None => r#","nextCursor":"a/b=\" é""#,
                    Some("a/b=\" é") => r#","nextCursor":"""#,
                    Some("") => r#","nextCursor":null"#,
                    Some(_) => return error(seen, 200, -32602, "null"),
                };
                result(
                    seen,
                    &format!(
                        r#"{{"tools":[{{"name":"t","inputSchema":{{"type":"object"}}}}]{next}}}"#
                    ),
                )
            }),
        );
        let deadline = world.clock.after(Duration::from_secs(5));
        assert_eq!(pair.client.tools(deadline).await.unwrap().len(), 3);
    });
}

/// Cache: key by method+params, private per token, MRTR results never cached (caching). What a server says of itself is believed
/// for as long as it says; nothing else is kept.
#[test]
fn c21_what_a_server_is_counts_for_as_long_as_it_says() {
    lab::run(|world| async move {
        for (ttl, asked) in [("", 3), (r#","ttlMs":-1"#, 3), (r#","ttlMs":60000"#, 1)] {
            let said = format!(
                r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{}}}}{ttl}}}"#
            );
            let pair = Pair::start(&world, move |seen: &Seen| result(seen, &said));
            for _ in 0..3 {
                world.clock.advance(Duration::from_millis(1));
                let deadline = world.clock.after(Duration::from_secs(5));
                pair.client.offer(deadline).await.unwrap();
            }
            assert_eq!(pair.far.asked("server/discover").len(), asked, "{ttl}");
        }
    });
}

/// The same row, of everything else.
#[test]
fn c21_what_is_asked_twice_is_sent_twice() {
    lab::run(|world| async move {
        let pair = Pair::start(
            &world,
            modern(|seen| result(seen, r#"{"tools":[],"ttlMs":600000,"cacheScope":"public"}"#)),
        );
        for _ in 0..2 {
            let deadline = world.clock.after(Duration::from_secs(5));
            pair.client.tools(deadline).await.unwrap();
        }
        assert_eq!(pair.far.asked("tools/list").len(), 2);
    });
}

/// Annotations untrusted (tools). They come as text, and nothing of ours decides by them.
#[test]
fn c22_annotations_are_passed_on_and_not_believed() {
    lab::run(|world| async move {
        let tool = r#"{"name":"t","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"destructiveHint":false}}"#;
        let pair = Pair::start(
            &world,
            modern(move |seen| result(seen, &format!(r#"{{"tools":[{tool}]}}"#))),
        );
        let deadline = world.clock.after(Duration::from_secs(5));
        let tools = pair.client.tools(deadline).await.unwrap();
        assert_eq!(tools[0].get(), tool);
    });
}

/// HTTP 400: read the body before falling back (streamable-http).
#[test]
fn c26_the_body_of_a_400_says_which_era_it_is() {
    lab::run(|world| async move {
        // A modern server that wants something else is not taken for a legacy one.
        let pair = Pair::start(&world, |seen: &Seen| error(seen, 400, -32020, "null"));
        assert!(pair.call().await.is_err());
        assert!(pair.far.asked("initialize").is_empty());
        let pair = Pair::start(&world, legacy(|seen| result(seen, DONE)));
        pair.call().await.unwrap();
        assert_eq!(pair.far.asked("initialize").len(), 1);
    });
}

/// Accepts `-32002` from old servers (resources).
#[test]
fn c27_the_old_code_for_a_resource_that_is_not_there_is_understood() {
    lab::run(|world| async move {
        let pair = Pair::start(
            &world,
            legacy(|seen| error(seen, 200, -32002, r#"{"uri":"a:b"}"#)),
        );
        let mut request = Outgoing::new("resources/read");
        request.params.push(("uri", "\"a:b\""));
        let fault = pair.ask(&request, None).await.unwrap_err();
        assert!(
            matches!(&fault, CallFault::Rpc(error) if error.code == -32002),
            "{fault}"
        );
    });
}

/// Auth: bearer per request, … (authorization). No OAuth here: a server's credentials are headers of the configuration, sent
/// with every request to it, and after no redirect.
#[test]
fn c28_credentials_go_with_every_request_and_nowhere_else() {
    lab::run(|world| async move {
        let elsewhere = lab::Endpoint::start(&world);
        let pair = Pair::start(&world, modern(|seen| result(seen, DONE)));
        pair.call().await.unwrap();
        assert!(
            pair.far
                .seen()
                .iter()
                .all(|seen| seen.header("authorization") == Some("Bearer far-key"))
        );
        for status in [301, 302, 307, 308] {
            let pair = Pair::start(&world, modern(move |_| Some((status, JSON, String::new()))));
            let fault = pair.call().await.unwrap_err();
            assert!(
                matches!(fault, CallFault::Status(told) if told == status),
                "{fault}"
            );
        }
        assert!(elsewhere.seen.is_empty());
    });
}

/// Ignores SSE comments; handles split/multi-line events (streamable-http).
#[test]
fn c29_a_stream_is_read_whatever_is_in_it() {
    lab::run(|world| async move {
        let pair = Pair::start(
            &world,
            modern(|seen| {
                let (_, _, text) = result(seen, DONE)?;
                let (one, two) = text.split_at(text.find(',').unwrap() + 1);
                Some((
                    200,
                    STREAM,
                    format!(
                        ": hello\r\n\r\nevent: other\ndata:\n\n:\nevent: message\rdata: {one}\rdata: {two}\r\r"
                    ),
                ))
            }),
        );
        assert_eq!(pair.call().await.unwrap().texts(), "done");
    });
}

/// Session id repeated on all later requests; 404 → new `initialize` without it (25: transports). `notifications/initialized`
/// after the result; version header on everything after (25: lifecycle, transports).
#[test]
fn l11_and_l12_a_session_is_opened_named_and_opened_anew() {
    lab::run(|world| async move {
        let calls = Arc::new(Mutex::new(0));
        let count = calls.clone();
        let pair = Pair::start(
            &world,
            legacy(move |seen| {
                let mut calls = count.lock().unwrap();
                *calls += 1;
                match *calls {
                    2 => Some((404, JSON, String::new())),
                    _ => result(seen, DONE),
                }
            }),
        );
        pair.call().await.unwrap();
        let order: Vec<String> = pair
            .far
            .seen()
            .iter()
            .map(|seen| seen.what().to_owned())
            .collect();
        assert_eq!(
            order,
            [
                "server/discover",
                "initialize",
                "notifications/initialized",
                "tools/call"
            ]
        );
        for seen in &pair.far.seen()[2..] {
            assert_eq!(seen.header("mcp-session-id"), Some("s-1"));
            assert_eq!(seen.header("mcp-protocol-version"), Some("2025-11-25"));
        }
        assert!(pair.call().await.is_err());
        pair.call().await.unwrap();
        let opened = pair.far.asked("initialize");
        assert_eq!(opened.len(), 2);
        assert!(
            opened
                .iter()
                .all(|seen| seen.header("mcp-session-id").is_none())
        );
        assert_eq!(
            pair.far.asked("tools/call").len(),
            3,
            "a call was sent twice"
        );
    });
}

/// Undeclared elicitation mode answered with `-32602` (25: elicitation). Whoever cannot ask anybody refuses; the gateway, which
/// knows its caller, says -32602.
#[test]
fn l14_a_question_that_nobody_can_answer_is_refused() {
    lab::run(|world| async move {
        for mode in ["url", "voice"] {
            let asks = format!(
                r#"{{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{{"mode":"{mode}","message":"m","url":"https://a.example/"}}}}"#
            );
            let script = move |seen: &Seen| {
                let (_, _, text) = result(seen, DONE)?;
                Some(match seen.what() {
                    "tools/call" => (200, STREAM, format!("data: {asks}\n\ndata: {text}\n\n")),
                    _ => (202, JSON, String::new()),
                })
            };
            let far = Far::start(&world, legacy(script));
            let config = lab::config(&format!(
                "servers:\n  - {{slug: far, kind: remote-http, url: \"http://{}/mcp\"}}\n",
                far.address
            ));
            let (_, mut near) = crate::eras::Served::apart(&world, false);
            near.address = lab::gateway(&world, &config);
            let forms = r#"{"elicitation":{"form":{}}}"#;
            let call = super::with(&near, "", "tools/call", r#""name":"far__t""#, forms, "");
            let got = within("the call", advancing(&world, call)).await;
            assert!(got.contains("done"), "{got}");
            let answers: Vec<Seen> = far
                .seen()
                .into_iter()
                .filter(|seen| seen.body["id"] == "q")
                .collect();
            assert_eq!(answers[0].body["error"]["code"], -32602, "{answers:?}");
        }
    });
}

/// DELETE when the session is no longer needed (25: transports).
#[test]
fn l15_a_session_ends_with_its_client() {
    lab::run(|world| async move {
        let pair = Pair::start(
            &world,
            legacy(|seen| match seen.method.as_str() {
                "Delete" => Some((202, JSON, String::new())),
                _ => result(seen, DONE),
            }),
        );
        pair.call().await.unwrap();
        let Pair { client, far, .. } = pair;
        drop(client);
        let ended = async {
            while far.asked("Delete").is_empty() {
                lab::turn().await;
            }
        };
        within("the end of the session", ended).await;
        assert_eq!(far.asked("Delete")[0].header("mcp-session-id"), Some("s-1"));
    });
}

/// What a server tells while it works is heard, for its own request.
#[test]
fn news_of_another_request_is_not_taken_for_this_ones() {
    lab::run(|world| async move {
        let pair = Pair::start(
            &world,
            modern(|seen| {
                let (_, _, text) = result(seen, DONE)?;
                let token = &seen.body["params"]["_meta"]["progressToken"];
                let news = |token: &Value| {
                    format!(
                        "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":{token},\"progress\":1}}}}\n\n"
                    )
                };
                Some((
                    200,
                    STREAM,
                    format!("{}{}data: {text}\n\n", news(&json!("other")), news(token)),
                ))
            }),
        );
        let arguments = serde_json::from_str("{}").unwrap();
        let request = Outgoing::call("t", "\"t\"", arguments);
        let (told, heard) = bounded(8);
        let mut news = |news: News<'_>| {
            if let News::Progress(progress) = news {
                told.try_send(progress.progress).unwrap();
            }
        };
        let mut listener = Listener {
            news: &mut news,
            questions: None,
        };
        let deadline = world.clock.after(Duration::from_secs(30));
        pair.client
            .request(&request, deadline, &mut listener)
            .await
            .unwrap();
        assert_eq!(heard.len(), 1);
    });
}
