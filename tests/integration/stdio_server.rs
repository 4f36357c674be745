//! A server on standard streams: both eras on one connection, against a service that does what its test says; and the
//! gateway behind such a one. The streams are real sockets, read in pieces of every size.

use std::collections::BTreeMap;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use countersign::http::RequestHead;
use countersign::http::head::{HeadLimits, Parsed, parse_request};
use countersign::mcp::{Announcer, Change, Service, serve_stdio};
use countersign::world::World;
use serde_json::{Value, json};
use smol::channel::Receiver;
use smol::future::poll_once;
use smol::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use smol::{Async, Task};

use crate::eras::{Event, FORM_AND_URL, Tools, call, cancel, large_text};
use crate::lab::{self, Acts, Endpoint, Reply, within};

/// Bytes of the longest line.
const LINE_BYTES: usize = 33_554_432;

/// Requests that may be in flight.
const REQUESTS: usize = 256;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Reads no more than so much at once.
struct Pieces(Async<UnixStream>, usize);

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let most = into.len().min(self.1);
        Pin::new(&mut self.0).poll_read(cx, &mut into[..most])
    }
}

/// A client, and the server that it has to itself.
struct Client {
    world: World,
    input: Async<UnixStream>,
    output: Async<UnixStream>,
    received: Vec<u8>,
    serving: Option<Task<io::Result<()>>>,
    events: Receiver<Event>,
    announcer: Announcer,
}

impl Client {
    fn start(world: &World) -> Self {
        Self::with(world, "local", usize::MAX)
    }

    fn with(world: &World, who: &str, piece: usize) -> Self {
        let (tools, events, announcer) = Tools::new(true);
        let client = Self::of(world, tools, who.to_owned(), piece);
        Self {
            events,
            announcer,
            ..client
        }
    }

    fn of<S: Service>(world: &World, service: S, principal: S::Principal, piece: usize) -> Self
    where
        S::Principal: 'static,
    {
        let (input, theirs) = UnixStream::pair().unwrap();
        let (output, written) = UnixStream::pair().unwrap();
        let ends = [input, theirs, output, written];
        let [input, theirs, output, written] = ends.map(|end| Async::new(end).unwrap());
        let inside = world.clone();
        let serving = world.spawn(async move {
            let theirs = Pieces(theirs, piece);
            serve_stdio(&inside, Arc::new(service), principal, theirs, written).await
        });
        Self {
            world: world.clone(),
            input,
            output,
            received: Vec::new(),
            serving,
            events: smol::channel::unbounded().1,
            announcer: Announcer::default(),
        }
    }

    async fn bytes(&mut self, bytes: &[u8]) {
        let writing = self.input.write_all(bytes);
        within("writing", writing).await.unwrap();
    }

    async fn send(&mut self, message: &str) {
        self.bytes(format!("{message}\n").as_bytes()).await;
    }

    /// The next line, which is a message: "nothing but messages on stdout, one per line".
    async fn next(&mut self) -> Value {
        let line = self.line().await.expect("a message, and not the end");
        let message: Value = serde_json::from_slice(&line).unwrap_or_else(|fault| {
            panic!("{fault}: {}", String::from_utf8_lossy(&line));
        });
        let each = message.as_array().cloned();
        for message in each.unwrap_or_else(|| vec![message.clone()]) {
            assert_eq!(message["jsonrpc"], "2.0", "{message}");
        }
        message
    }

    async fn line(&mut self) -> Option<Vec<u8>> {
        let mut some = vec![0; 1 << 16];
        let mut looked = 0;
        loop {
            let found = self.received[looked..]
                .iter()
                .position(|byte| *byte == b'\n');
            if let Some(end) = found {
                let rest = self.received.split_off(looked + end + 1);
                let mut line = std::mem::replace(&mut self.received, rest);
                line.pop();
                assert!(!line.contains(&b'\r'), "a line has one end");
                return Some(line);
            }
            looked = self.received.len();
            let count = within("reading", self.output.read(&mut some))
                .await
                .unwrap();
            if count == 0 {
                return None;
            }
            self.received.extend_from_slice(&some[..count]);
        }
    }

    async fn ask(&mut self, message: &str) -> Value {
        self.send(message).await;
        self.next().await
    }

    /// Nothing was told but what was read: the next message is the answer to a question that is asked now.
    async fn silence(&mut self) {
        let got = self
            .ask(&modern("\"probe\"", "server/discover", "", "{}", ""))
            .await;
        assert_eq!(got["id"], "probe", "{got}");
    }

    /// Opens the legacy era. `capabilities` of the client.
    async fn initialize(&mut self, version: &str, capabilities: &str) -> Value {
        let got = self.ask(&initialize(version, capabilities)).await;
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
            .await;
        got
    }

    async fn expect(&self, expected: Event) {
        let event = within("an event", self.events.recv()).await.unwrap();
        assert_eq!(event, expected);
    }

    async fn entered(&self, tool: &str) {
        self.expect(Event::Entered(tool.to_owned())).await;
    }

    async fn gone(&self, tool: &str) {
        self.expect(Event::Gone(tool.to_owned())).await;
    }

    fn close(&self) {
        self.input.get_ref().shutdown(Shutdown::Write).unwrap();
    }

    async fn served(&mut self) -> io::Result<()> {
        within("serving", self.serving.take().unwrap()).await
    }
}

fn initialize(version: &str, capabilities: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":"i","method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{capabilities},"clientInfo":{{"name":"t","version":"1"}}}}}}"#
    )
}

fn legacy(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}}}"#)
}

fn modern(id: &str, method: &str, params: &str, capabilities: &str, more: &str) -> String {
    let comma = if params.is_empty() { "" } else { "," };
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}{comma}"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{capabilities}{more}}}}}}}"#
    )
}

fn modern_call(id: &str, tool: &str) -> String {
    let name = format!(r#""name":"{tool}""#);
    modern(
        id,
        "tools/call",
        &name,
        FORM_AND_URL,
        r#","progressToken":"t""#,
    )
}

/// A call in either era.
fn in_era(is_modern: bool, id: &str, tool: &str) -> String {
    match is_modern {
        true => modern_call(id, tool),
        false => call(id, tool),
    }
}

fn text(message: &Value) -> &str {
    message["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text in {message}"))
}

fn code(message: &Value) -> i64 {
    message["error"]["code"]
        .as_i64()
        .unwrap_or_else(|| panic!("no error in {message}"))
}

// --- eras ---

/// However the stream is cut.
#[test]
fn both_eras_are_served_on_one_stream() {
    for piece in [1, 7, usize::MAX] {
        lab::run(move |world| async move {
            let mut client = Client::with(&world, "local", piece);
            let got = client
                .ask(&modern("1", "server/discover", "", "{}", ""))
                .await;
            let result = &got["result"];
            assert_eq!(
                (&got["id"], &result["resultType"], &result["ttlMs"]),
                (&json!(1), &json!("complete"), &json!(0))
            );
            assert!(result["supportedVersions"].as_array().unwrap().len() == 4);
            assert_eq!(result["capabilities"]["tools"]["listChanged"], true);
            let got = client
                .ask(&modern("\"1\"", "tools/list", "", "{}", ""))
                .await;
            assert_eq!(got["id"], "1", "an id keeps its type");
            assert_eq!(got["result"]["tools"][0]["name"], "echo");
            assert_eq!(got["result"]["resultType"], "complete");

            let got = client.initialize("2025-06-18", "{}").await;
            assert_eq!(got["result"]["protocolVersion"], "2025-06-18");
            assert_eq!(got["result"]["instructions"], "Wait here.");
            assert_eq!(got["result"]["serverInfo"]["name"], "countersign");
            let got = client.ask(&legacy("2", "tools/list", "")).await;
            assert_eq!(got["result"]["tools"][0]["x"], 1.0);
            assert!(got["result"].get("resultType").is_none(), "{got}");
            // Each with characters of several bytes, which the pieces cut.
            for (asked, is_modern) in [
                (call("3", "é€\u{1f600}"), false),
                (modern_call("4", "é€\u{1f600}"), true),
            ] {
                let got = client.ask(&asked).await;
                assert_eq!(text(&got), "é€\u{1f600}");
                assert_eq!(
                    got["result"].get("resultType").is_some(),
                    is_modern,
                    "{got}"
                );
            }
            assert_eq!(
                client.ask(&legacy("5", "ping", "")).await["result"],
                json!({})
            );
            client.silence().await;
        });
    }
}

/// S6, S8, S11, S48, L1.
#[test]
fn a_version_is_settled_by_the_request_or_by_initialize() {
    lab::run(|world| async move {
        let far = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
        let half = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let other = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}}"#;
        let odd = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":7}}"#;
        let refusals = [
            (far.to_owned(), -32022),
            (half.to_owned(), -32602),
            (other.to_owned(), -32602),
            (odd.to_owned(), -32602),
            (modern("1", "ping", "", "{}", ""), -32601),
            (
                modern("1", "logging/setLevel", r#""level":"info""#, "{}", ""),
                -32601,
            ),
            (
                modern(
                    "1",
                    "initialize",
                    r#""protocolVersion":"2025-11-25""#,
                    "{}",
                    "",
                ),
                -32601,
            ),
        ];
        let mut client = Client::start(&world);
        for (request, expected) in &refusals {
            let got = client.ask(request).await;
            assert_eq!(
                (&got["id"], code(&got)),
                (&json!(1), *expected),
                "{request}"
            );
        }
        let got = client.ask(far).await;
        assert_eq!(got["error"]["data"]["requested"], "2027-01-01");
        // Nothing was agreed on so far, and then only `ping` is common.
        for method in ["tools/list", "server/discover", "subscriptions/listen"] {
            assert_eq!(code(&client.ask(&legacy("1", method, "")).await), -32602);
        }
        assert_eq!(
            client.ask(&legacy("1", "ping", "")).await["result"],
            json!({})
        );
        for (asked, answered) in [
            ("2025-03-26", "2025-03-26"),
            ("2025-11-25", "2025-11-25"),
            ("2024-11-05", "2025-11-25"),
            ("2026-07-28", "2025-11-25"),
        ] {
            let mut client = Client::start(&world);
            let got = client.initialize(asked, "{}").await;
            assert_eq!(got["result"]["protocolVersion"], answered, "{asked}");
            assert!(client.ask(&legacy("1", "tools/list", "")).await["result"].is_object());
            for method in ["server/discover", "subscriptions/listen"] {
                assert_eq!(code(&client.ask(&legacy("1", method, "")).await), -32601);
            }
            // What was agreed on changes nothing for a request that says more.
            for (request, expected) in &refusals {
                assert_eq!(code(&client.ask(request).await), *expected, "{request}");
            }
        }
    });
}

/// What `initialize` says counts for the very next line, though it is not answered yet.
#[test]
fn a_client_need_not_wait_for_the_answer_to_initialize() {
    lab::run(|world| async move {
        let mut client = Client::start(&world);
        let lines = [
            initialize("2025-06-18", "{}"),
            legacy("1", "tools/list", ""),
        ];
        client.send(&lines.join("\n")).await;
        assert_eq!(client.next().await["id"], "i");
        assert!(client.next().await["result"].is_object());
    });
}

// --- what is told meanwhile ---

/// S35, S36.
#[test]
fn progress_and_logs_come_before_the_answer_and_to_who_asked() {
    lab::run(|world| async move {
        let level = |level: &str| format!(r#","io.modelcontextprotocol/logLevel":"{level}""#);
        let token = r#","progressToken":5"#.to_owned();
        let name = r#""name":"tell""#;
        let mut client = Client::start(&world);
        for (more, progress, levels) in [
            (String::new(), 0, vec![]),
            (token.clone(), 2, vec![]),
            (level("warning"), 0, vec!["error"]),
            (level("debug"), 0, vec!["info", "error"]),
            (token.clone() + &level("emergency"), 2, vec![]),
        ] {
            client
                .send(&modern("1", "tools/call", name, "{}", &more))
                .await;
            told(&mut client, &json!(5), progress, &levels).await;
        }
        let got = client
            .ask(&modern("1", "tools/call", name, "{}", &level("loud")))
            .await;
        assert_eq!(code(&got), -32602);
        client.initialize("2025-11-25", "{}").await;
        client.send(&call("1", "tell")).await;
        told(&mut client, &json!("t"), 2, &["info", "error"]).await;
        client.send(&legacy("1", "tools/call", name)).await;
        told(&mut client, &json!("t"), 0, &["info", "error"]).await;
        client.silence().await;
    });
}

async fn told(client: &mut Client, token: &Value, progress: usize, levels: &[&str]) {
    for number in 1..=progress {
        let got = client.next().await;
        assert_eq!(got["method"], "notifications/progress", "{got}");
        assert_eq!(&got["params"]["progressToken"], token);
        assert_eq!(got["params"]["progress"], number);
    }
    for level in levels {
        let got = client.next().await;
        assert_eq!(got["method"], "notifications/message", "{got}");
        assert_eq!(got["params"]["level"], *level);
    }
    assert_eq!(text(&client.next().await), "told");
}

// --- cancelling ---

/// S18, L7.
#[test]
fn a_cancelled_call_is_dropped_and_not_answered() {
    lab::run(|world| async move {
        for is_modern in [true, false] {
            for tool in ["wait", "silent"] {
                let mut client = Client::start(&world);
                if !is_modern {
                    client.initialize("2025-11-25", "{}").await;
                }
                client.send(&in_era(is_modern, "7", tool)).await;
                client.entered(tool).await;
                for other in ["8", "\"7\"", "null", "7.0", "{}"] {
                    client.send(&cancel(other)).await;
                }
                client.silence().await;
                assert!(client.events.is_empty());
                client.send(&cancel("7")).await;
                client.gone(tool).await;
                client.silence().await;
                // And one that comes in the same breath is cancelled too.
                let both = [in_era(is_modern, "8", tool), cancel("8")].join("\n");
                client.send(&both).await;
                client.entered(tool).await;
                client.gone(tool).await;
                client.silence().await;
                // The id is free again.
                let got = client.ask(&in_era(is_modern, "7", "echo")).await;
                assert_eq!((&got["id"], text(&got)), (&json!(7), "echo"));
            }
        }
    });
}

#[test]
fn an_id_that_is_in_flight_is_not_taken_twice() {
    lab::run(|world| async move {
        for is_modern in [true, false] {
            let mut client = Client::start(&world);
            if !is_modern {
                client.initialize("2025-11-25", "{}").await;
            }
            client.send(&in_era(is_modern, "1", "wait")).await;
            client.entered("wait").await;
            let got = client.ask(&in_era(is_modern, "1", "echo")).await;
            assert_eq!((&got["id"], code(&got)), (&json!(1), -32600));
            assert!(client.events.is_empty());
            let got = client.ask(&in_era(is_modern, "\"1\"", "echo")).await;
            assert_eq!(text(&got), "echo");
        }
    });
}

// --- questions ---

#[test]
fn a_legacy_client_is_asked_by_a_request_and_answers_by_a_response() {
    lab::run(|world| async move {
        for (version, tool, mode, elicitation_id) in [
            ("2025-06-18", "form", false, false),
            ("2025-11-25", "form", true, false),
            ("2025-11-25", "url", true, true),
        ] {
            let mut client = Client::start(&world);
            client.initialize(version, FORM_AND_URL).await;
            let asked = client.ask(&call("1", tool)).await;
            assert_eq!(asked["method"], "elicitation/create", "{asked}");
            let params = &asked["params"];
            assert_eq!(params.get("mode").is_some(), mode, "{asked}");
            assert_eq!(
                params.get("elicitationId").is_some(),
                elicitation_id,
                "{asked}"
            );
            // An answer to something else counts for nothing, and other calls go on meanwhile.
            client.send(&answer("\"countersign-99\"", "{}")).await;
            assert_eq!(text(&client.ask(&call("2", "echo")).await), "echo");
            let given = r#"{"action":"accept","content":{"n":1.0}}"#;
            let got = client.ask(&answer(&asked["id"].to_string(), given)).await;
            assert_eq!(got["id"], 1);
            assert!(
                text(&got).starts_with(&format!(r#"{{"q":{given}}}"#)),
                "{got}"
            );
            // A late one does nothing.
            client.send(&answer(&asked["id"].to_string(), given)).await;
            client.silence().await;
        }
    });
}

fn answer(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

#[test]
fn a_question_ends_with_its_call_and_a_refusal_ends_the_call() {
    lab::run(|world| async move {
        let mut client = Client::start(&world);
        client.initialize("2025-11-25", FORM_AND_URL).await;
        let asked = client.ask(&call("1", "form")).await;
        client.send(&cancel("1")).await;
        client.send(&answer(&asked["id"].to_string(), "{}")).await;
        client.silence().await;
        let asked = client.ask(&call("2", "form")).await;
        let refusal = format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32601,"message":"not here"}}}}"#,
            asked["id"]
        );
        let got = client.ask(&refusal).await;
        assert_eq!((&got["id"], code(&got)), (&json!(2), -32603));
        assert!(
            got["error"]["message"]
                .as_str()
                .unwrap()
                .contains("not here")
        );
        client.ask(&call("3", "form")).await;
        let world = client.world.clone();
        let got = lab::advancing(&world, client.next()).await;
        assert_eq!((&got["id"], code(&got)), (&json!(3), -32603));
        // One that declares nothing is not asked.
        let mut client = Client::start(&world);
        client.initialize("2025-11-25", r#"{"sampling":{}}"#).await;
        assert_eq!(code(&client.ask(&call("1", "form")).await), -32603);
    });
}

/// S16, S19: with a legacy client's abilities on the same connection.
#[test]
fn a_modern_request_is_never_answered_by_a_request_and_counts_on_nothing_said_before() {
    lab::run(|world| async move {
        let mut client = Client::start(&world);
        client.initialize("2025-11-25", FORM_AND_URL).await;
        let name = r#""name":"form""#;
        let got = client.ask(&modern("1", "tools/call", name, "{}", "")).await;
        assert_eq!(code(&got), -32021);
        assert_eq!(
            got["error"]["data"]["requiredCapabilities"],
            json!({"elicitation": {"form": {}}})
        );
        let able = r#"{"elicitation":{}}"#;
        let got = client.ask(&modern("2", "tools/call", name, able, "")).await;
        assert_eq!(got["result"]["resultType"], "input_required");
        assert_eq!(got["result"]["requestState"], "st\"ate");
        let again = format!(
            r#"{name},"inputResponses":{{"q":{{"action":"cancel"}}}},"requestState":"st\"ate""#
        );
        let got = client
            .ask(&modern("3", "tools/call", &again, able, ""))
            .await;
        assert_eq!(text(&got), r#"{"q":{"action":"cancel"}} "st\"ate""#);
        let got = client.ask(&modern("4", "tools/call", name, "{}", "")).await;
        assert_eq!(code(&got), -32021);
        client.silence().await;
    });
}

/// "There is no header layer": what HTTP wants in headers too is wanted here in the body only.
#[test]
fn no_header_is_missed() {
    lab::run(|world| async move {
        let mut client = Client::start(&world);
        let params = r#""name":"region","arguments":{"where":"x","in":{"n":1}}"#;
        let got = client
            .ask(&modern("1", "tools/call", params, "{}", ""))
            .await;
        assert_eq!(text(&got), "checked");
        let read = modern("2", "resources/read", r#""uri":"test://a""#, "{}", "");
        let got = client.ask(&read).await;
        assert_eq!(got["result"]["contents"][0]["text"], "read");
    });
}

// --- side by side ---

#[test]
fn calls_end_in_their_own_order() {
    lab::run(|world| async move {
        let mut client = Client::start(&world);
        client.initialize("2025-11-25", FORM_AND_URL).await;
        client.send(&modern_call("1", "look")).await;
        client.entered("look").await;
        let asked = client.ask(&call("2", "form")).await;
        for (id, tool) in [("3", "a"), ("4", "b")] {
            let got = client.ask(&call(id, tool)).await;
            assert_eq!((got["id"].to_string().as_str(), text(&got)), (id, tool));
        }
        let got = client.ask(&answer(&asked["id"].to_string(), "{}")).await;
        assert_eq!(got["id"], 2);
        client
            .announcer
            .announce(&Change::Resource("a://b".to_owned()));
        let got = client.next().await;
        assert_eq!((&got["id"], text(&got)), (&json!(1), "looked"));
        // A burst is answered whole, though it is more than may be in flight.
        let burst: Vec<String> = (0..1000).map(|id| call(&id.to_string(), "echo")).collect();
        let mut left: BTreeMap<u64, ()> = (0..1000).map(|id| (id, ())).collect();
        client.send(&burst.join("\n")).await;
        while !left.is_empty() {
            let got = client.next().await;
            assert_eq!(text(&got), "echo");
            assert!(left.remove(&got["id"].as_u64().unwrap()).is_some(), "{got}");
        }
    });
}

#[test]
fn more_than_a_bounded_number_of_waiting_calls_is_refused_and_can_be_made_room_for() {
    lab::run(|world| async move {
        let mut client = Client::start(&world);
        for id in 0..REQUESTS {
            client.send(&modern_call(&id.to_string(), "wait")).await;
            client.entered("wait").await;
        }
        for _ in 0..2 {
            let got = client.ask(&modern_call("999", "echo")).await;
            assert_eq!((&got["id"], code(&got)), (&json!(999), -32603));
            assert!(client.events.is_empty());
        }
        client.send(&cancel("17")).await;
        client.gone("wait").await;
        assert_eq!(text(&client.ask(&modern_call("999", "echo")).await), "echo");
        client.close();
        client.served().await.unwrap();
    });
}

/// As many bytes, too: every request holds its line.
#[test]
fn what_waiting_calls_hold_is_bounded() {
    lab::run(|world| async move {
        let mut client = Client::start(&world);
        let blanks = " ".repeat(LINE_BYTES - 1000);
        for id in 0..8 {
            let waiting = modern_call(&id.to_string(), "wait");
            client.send(&format!("{blanks}{waiting}")).await;
            client.entered("wait").await;
        }
        let got = client
            .ask(&format!("{blanks}{}", modern_call("9", "echo")))
            .await;
        assert_eq!((&got["id"], code(&got)), (&json!(9), -32603));
        assert_eq!(text(&client.ask(&modern_call("10", "echo")).await), "echo");
    });
}

#[test]
fn a_panic_in_one_call_ends_that_one() {
    lab::run(|world| async move {
        let mut client = Client::start(&world);
        client.send(&modern_call("1", "wait")).await;
        client.entered("wait").await;
        let got = client.ask(&modern_call("2", "panic")).await;
        assert_eq!((&got["id"], code(&got)), (&json!(2), -32603));
        client.entered("panic").await;
        client.gone("panic").await;
        assert_eq!(text(&client.ask(&modern_call("2", "echo")).await), "echo");
        client.entered("echo").await;
        client.gone("echo").await;
        assert!(client.events.is_empty());
    });
}

// --- lines ---

#[test]
fn garbage_is_answered_without_an_id_and_the_next_line_is_read() {
    lab::run(|world| async move {
        for piece in [1, usize::MAX] {
            let mut client = Client::with(&world, "local", piece);
            for (line, expected) in [
                (&b"{"[..], -32700),
                (b"Starting up...", -32700),
                (b"\xff\xfe{}", -32700),
                (b"\xef\xbb\xbf{}", -32700),
                (b"\"\xc3", -32700),
                (
                    b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} {}",
                    -32700,
                ),
                (b"7", -32600),
                (b"{}", -32600),
                (b"[]", -32600),
                (
                    b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}",
                    -32600,
                ),
                (
                    b"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}",
                    -32600,
                ),
                (b"{\"jsonrpc\":\"2.0\",\"id\":1}", -32600),
            ] {
                client.bytes(&[line, b"\n"].concat()).await;
                let got = client.next().await;
                let what = String::from_utf8_lossy(line).into_owned();
                assert_eq!(code(&got), expected, "{what}");
                assert!(got.get("id").is_none(), "{what}: {got}");
                assert_eq!(text(&client.ask(&modern_call("1", "echo")).await), "echo");
            }
            // One whose id could be read.
            let got = client
                .ask(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#)
                .await;
            assert_eq!((&got["id"], code(&got)), (&json!(1), -32602));
            for nothing in [
                "",
                "   ",
                "\r",
                "\n\n",
                r#"{"jsonrpc":"2.0","id":"no","result":{}}"#,
                r#"{"jsonrpc":"2.0","method":"notifications/unknown"}"#,
                r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"wait"}}"#,
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":7}"#,
                r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            ] {
                client.send(nothing).await;
            }
            client.silence().await;
        }
    });
}

#[test]
fn a_line_that_is_too_long_is_refused_and_not_held() {
    lab::run(|world| async move {
        let mut client = Client::start(&world);
        let asked = modern_call("1", "echo");
        for (length, passes) in [(LINE_BYTES, true), (LINE_BYTES + 1, false)] {
            let line = format!("{}{asked}", " ".repeat(length - asked.len()));
            let got = client.ask(&line).await;
            if passes {
                assert_eq!(text(&got), "echo");
            } else {
                assert_eq!(code(&got), -32600);
                assert!(got.get("id").is_none());
            }
            client.silence().await;
        }
        // It is refused before it ends.
        client.bytes(&vec![b'x'; LINE_BYTES + 1]).await;
        assert_eq!(code(&client.next().await), -32600);
        client.bytes(b"xyz\n").await;
        client.silence().await;
    });
}

#[test]
fn an_answer_is_one_line_whatever_it_holds() {
    lab::run(|world| async move {
        let mut client = Client::start(&world);
        let got = client.ask(&modern_call("1", "pretty")).await;
        assert_eq!(got["result"]["structuredContent"], json!({"a": 1}));
        let got = client.ask(&modern_call("2", "large")).await;
        assert!(text(&got) == large_text());
        client.silence().await;
    });
}

/// 2025-03-26 alone; as over HTTP.
#[test]
fn a_batch_is_for_2025_03_26_and_is_answered_in_one_line() {
    lab::run(|world| async move {
        let note = r#"{"jsonrpc":"2.0","method":"notifications/unknown"}"#;
        let ping = legacy("9", "ping", "");
        let mut client = Client::start(&world);
        for version in [None, Some("2025-06-18"), Some("2025-11-25")] {
            if let Some(version) = version {
                client.initialize(version, "{}").await;
            }
            let got = client.ask(&format!("[{ping}]")).await;
            assert_eq!(code(&got), -32600, "{version:?}");
            assert!(got.get("id").is_none());
        }
        let mut client = Client::start(&world);
        client.initialize("2025-03-26", "{}").await;
        let batch = [
            call("1", "echo"),
            note.to_owned(),
            call("\"2\"", "gated"),
            ping.clone(),
            initialize("2025-03-26", "{}"),
            modern_call("4", "echo"),
        ];
        let got = client.ask(&format!("[{}]", batch.join(","))).await;
        let answers = got.as_array().unwrap();
        assert_eq!(answers.len(), 5, "{got}");
        assert_eq!(text(&answers[0]), "echo");
        assert_eq!(
            (&answers[1]["id"], code(&answers[1])),
            (&json!("2"), -32600)
        );
        assert_eq!(answers[2]["result"], json!({}));
        assert_eq!((code(&answers[3]), code(&answers[4])), (-32600, -32600));
        client.entered("echo").await;
        client.gone("echo").await;
        assert!(client.events.is_empty(), "the gated one did not run");
        // One that wants no answer, and one with a call that is cancelled.
        client.send(&format!("[{note},{note}]")).await;
        client
            .send(&format!("[{},{}]", call("1", "wait"), call("2", "echo")))
            .await;
        client.entered("wait").await;
        client.silence().await;
        let got = client.ask(&cancel("1")).await;
        assert_eq!((code(&got[0]), text(&got[1])), (-32603, "echo"));
        // Alone it is served as ever, and a batch counts all its requests.
        assert_eq!(text(&client.ask(&call("1", "echo")).await), "echo");
        let waiting = |batch: usize| {
            let calls = (0..32).map(|each| call(&(batch * 100 + each).to_string(), "silent"));
            format!("[{}]", calls.collect::<Vec<_>>().join(","))
        };
        for batch in 1..=8 {
            client.send(&waiting(batch)).await;
        }
        let got = client.ask(&waiting(9)).await;
        assert_eq!(code(&got), -32603, "{got}");
    });
}

// --- news ---

/// S43, and X1 of the protocol digest.
#[test]
fn a_modern_client_listens_to_what_it_asked_for_until_it_cancels() {
    lab::run(|world| async move {
        let mut client = Client::start(&world);
        let wanted = r#""notifications":{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a://b"]}"#;
        let got = client
            .ask(&modern("7", "subscriptions/listen", wanted, "{}", ""))
            .await;
        assert_eq!(got["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(got["params"]["_meta"][SUBSCRIPTION], 7);
        assert_eq!(
            got["params"]["notifications"],
            json!({"toolsListChanged": true, "resourceSubscriptions": ["a://b"]})
        );
        let prompts = r#""notifications":{"promptsListChanged":true}"#;
        let got = client
            .ask(&modern("\"p\"", "subscriptions/listen", prompts, "{}", ""))
            .await;
        assert_eq!(got["params"]["_meta"][SUBSCRIPTION], "p");
        for change in [
            Change::Resources,
            Change::Resource("c://d".to_owned()),
            Change::Resource("a://b".to_owned()),
        ] {
            client.announcer.announce(&change);
        }
        let got = client.next().await;
        assert_eq!(got["method"], "notifications/resources/updated");
        assert_eq!(
            got["params"],
            json!({"uri": "a://b", "_meta": {SUBSCRIPTION: 7}})
        );
        client.announcer.announce(&Change::Prompts);
        let got = client.next().await;
        assert_eq!(got["method"], "notifications/prompts/list_changed");
        assert_eq!(got["params"]["_meta"][SUBSCRIPTION], "p");
        // Calls are answered meanwhile.
        assert_eq!(text(&client.ask(&modern_call("8", "echo")).await), "echo");
        client.send(&cancel("7")).await;
        client.silence().await;
        client.announcer.announce(&Change::Tools);
        client.announcer.announce(&Change::Prompts);
        let got = client.next().await;
        assert_eq!(
            got["params"]["_meta"][SUBSCRIPTION], "p",
            "the other one goes on: {got}"
        );
        client.silence().await;
        for params in ["", r#""notifications":[]"#] {
            let got = client
                .ask(&modern("1", "subscriptions/listen", params, "{}", ""))
                .await;
            assert_eq!(code(&got), -32602);
        }
    });
}

/// X1: "stdio → send both, which satisfies every page".
#[test]
fn news_that_the_server_ends_are_closed_by_an_answer_and_by_a_cancellation() {
    lab::run(|world| async move {
        let mut client = Client::with(&world, "deserted", usize::MAX);
        let wanted = r#""notifications":{"toolsListChanged":true}"#;
        let got = client
            .ask(&modern("7", "subscriptions/listen", wanted, "{}", ""))
            .await;
        assert_eq!(got["method"], "notifications/subscriptions/acknowledged");
        let got = client.next().await;
        assert_eq!(got["id"], 7);
        assert_eq!(
            got["result"],
            json!({"resultType": "complete", "_meta": {SUBSCRIPTION: 7}})
        );
        let got = client.next().await;
        assert_eq!(got["method"], "notifications/cancelled");
        assert_eq!(got["params"], json!({"requestId": 7}));
        client.silence().await;
    });
}

#[test]
fn a_legacy_client_hears_of_changes_unasked_once_it_is_ready() {
    lab::run(|world| async move {
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let mut client = Client::start(&world);
        // Not before there is a legacy client, and not before it is ready.
        client.send(ready).await;
        client.silence().await;
        client.announcer.announce(&Change::Tools);
        client.silence().await;
        client.ask(&initialize("2025-11-25", "{}")).await;
        client.announcer.announce(&Change::Tools);
        client.silence().await;
        // Twice is once.
        client.send(&format!("{ready}\n{ready}")).await;
        client.silence().await;
        for change in [
            Change::Tools,
            // Is not offered as a list, or was not subscribed to.
            Change::Resources,
            Change::Resource("a://b".to_owned()),
            Change::Prompts,
        ] {
            client.announcer.announce(&change);
        }
        for method in ["tools", "prompts"] {
            assert_eq!(
                client.next().await,
                json!({"jsonrpc": "2.0", "method": format!("notifications/{method}/list_changed")})
            );
        }
        client.silence().await;
    });
}

// --- the end ---

/// S46.
#[test]
fn the_end_of_input_drops_everything_in_flight() {
    lab::run(|world| async move {
        for is_modern in [true, false] {
            let mut client = Client::start(&world);
            if !is_modern {
                client.initialize("2025-11-25", FORM_AND_URL).await;
                client.ask(&call("1", "form")).await;
                client.entered("form").await;
                client.gone("form").await;
            }
            let wanted = r#""notifications":{"toolsListChanged":true}"#;
            client
                .ask(&modern("9", "subscriptions/listen", wanted, "{}", ""))
                .await;
            client.send(&in_era(is_modern, "2", "wait")).await;
            client.entered("wait").await;
            client.send(&in_era(is_modern, "3", "look")).await;
            client.entered("look").await;
            // Half a line is no message.
            client.bytes(call("4", "echo").as_bytes()).await;
            client.close();
            client.served().await.unwrap();
            let events: Vec<Event> = std::iter::from_fn(|| client.events.try_recv().ok()).collect();
            assert_eq!(events.len(), 3, "{events:?}");
            for expected in [
                Event::Gone("wait".to_owned()),
                Event::Gone("look".to_owned()),
                Event::Entered("has left: true".to_owned()),
            ] {
                assert!(events.contains(&expected), "{events:?}");
            }
            assert_eq!(client.line().await, None, "and nothing is said of it");
        }
    });
}

#[test]
fn a_caller_that_is_there_is_seen_to_be_there() {
    lab::run(|world| async move {
        let mut client = Client::start(&world);
        client.send(&modern_call("1", "look")).await;
        client.entered("look").await;
        client
            .announcer
            .announce(&Change::Resource("a://b".to_owned()));
        client.entered("has left: false").await;
        assert_eq!(text(&client.next().await), "looked");
    });
}

#[test]
fn dropping_the_server_drops_its_calls() {
    lab::run(|world| async move {
        let mut client = Client::start(&world);
        client.send(&modern_call("1", "wait")).await;
        client.entered("wait").await;
        drop(client.serving.take());
        client.gone("wait").await;
        assert_eq!(client.line().await, None);
    });
}

#[test]
fn a_client_that_can_be_told_nothing_ends_it() {
    lab::run(|world| async move {
        let mut client = Client::start(&world);
        client.send(&modern_call("1", "wait")).await;
        client.entered("wait").await;
        client.output.get_ref().shutdown(Shutdown::Both).unwrap();
        client.send(&modern_call("2", "echo")).await;
        assert!(client.served().await.is_err());
        client.entered("echo").await;
        let mut gone = [
            client.events.recv().await.unwrap(),
            client.events.recv().await.unwrap(),
        ];
        gone.sort_by_key(|event| format!("{event:?}"));
        assert_eq!(
            gone,
            ["echo", "wait"].map(|tool| Event::Gone(tool.to_owned()))
        );
    });
}

/// A client that asks without end.
struct Asks {
    first: Vec<u8>,
    again: Vec<u8>,
    given: Arc<AtomicUsize>,
}

impl AsyncRead for Asks {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let given = self.given.fetch_add(into.len(), Ordering::Relaxed);
        let asked = self.first.iter().chain(self.again.iter().cycle());
        for (place, byte) in into.iter_mut().zip(asked.skip(given)) {
            *place = *byte;
        }
        Poll::Ready(Ok(into.len()))
    }
}

/// And reads nothing.
struct Deaf;

impl AsyncWrite for Deaf {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

/// It is not read without end, and cannot be told from one that left.
#[test]
fn a_client_that_reads_nothing_stops_everything() {
    lab::run(|world| async move {
        for again in [
            modern_call("1", "echo"),
            modern_call("1", "tell"),
            "no message".to_owned(),
            modern(
                "1",
                "subscriptions/listen",
                r#""notifications":{}"#,
                "{}",
                "",
            ),
        ] {
            let (tools, events, announcer) = Tools::new(true);
            let given = Arc::<AtomicUsize>::default();
            let asks = Asks {
                first: format!("{}\n", modern_call("\"look\"", "look")).into_bytes(),
                again: format!("{again}\n").into_bytes(),
                given: given.clone(),
            };
            let who = "local".to_owned();
            let serving = serve_stdio(&world, Arc::new(tools), who, asks, Deaf);
            let mut serving = pin!(serving);
            for _ in 0..100 {
                assert!(poll_once(&mut serving).await.is_none());
            }
            let given = given.load(Ordering::Relaxed);
            assert!((65_536..70_000).contains(&given), "{given} {again}");
            announcer.announce(&Change::Resource("a://b".to_owned()));
            assert!(poll_once(&mut serving).await.is_none());
            let seen: Vec<Event> = std::iter::from_fn(|| events.try_recv().ok()).collect();
            let look = Event::Entered("has left: true".to_owned());
            assert!(seen.contains(&look), "{seen:?}");
        }
    });
}

/// The end behind a few lines that nobody takes.
#[test]
fn the_end_is_seen_though_the_client_reads_nothing() {
    lab::run(|world| async move {
        let mut client = Client::start(&world);
        client.send(&modern_call("1", "wait")).await;
        client.entered("wait").await;
        // More than the kernel holds, so that its writing waits.
        client.send(&modern_call("2", "large")).await;
        client.entered("large").await;
        client.gone("large").await;
        for _ in 0..10 {
            client.send(&modern_call("3", "echo")).await;
        }
        lab::turn().await;
        client.close();
        client.served().await.unwrap();
        let events: Vec<Event> = std::iter::from_fn(|| client.events.try_recv().ok()).collect();
        assert!(
            events.contains(&Event::Gone("wait".to_owned())),
            "{events:?}"
        );
        let echo = Event::Entered("echo".to_owned());
        let taken = events.iter().filter(|event| **event == echo).count();
        assert!(
            taken <= 2,
            "one is in the queue and one waits for it: {taken}"
        );
    });
}

// --- the gateway ---

/// What a head says, as whoever puts the gateway on standard streams makes it up.
fn head(session: &str) -> RequestHead {
    let text = format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\n{session}\r\n");
    match parse_request(text.as_bytes(), &HeadLimits::default()) {
        Ok(Parsed::Complete { head, .. }) => head,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_gated_call_acts_upon_a_yes_and_ends_with_its_client() {
    lab::run(|world| async move {
        let endpoint = Endpoint::start(&world);
        let acts = Acts::new();
        let config = lab::config(&crate::chain::text(&endpoint, &acts.argv(), None));
        let channel = endpoint.channel("1-token-4bd9");
        let start = || {
            let gateway = lab::gateway_apart(&world, &config);
            let head = head(&format!("X-Elicitation-Url: {channel}\r\n"));
            let admitted = gateway
                .admit(&head, "127.0.0.1:1".parse().unwrap())
                .unwrap();
            Client::of(&world, gateway, admitted, 100)
        };
        let act = modern(
            "1",
            "tools/call",
            r#""name":"s__act","arguments":{}"#,
            "{}",
            "",
        );
        let mut client = start();
        client.send(&act).await;
        let answering = async { endpoint.answer(Reply::accept()).await };
        let ended = smol::future::or(client.next(), async {
            answering.await;
            unreachable!()
        });
        let got = lab::advancing(&world, ended).await;
        assert_eq!(got["result"]["structuredContent"]["exitCode"], 0, "{got}");
        assert_eq!(acts.count(), 1);

        let mut client = start();
        client.send(&act).await;
        let (seen, reply) = endpoint.next().await;
        assert!(seen.is_post());
        reply.try_send(lab::created()).unwrap();
        let (_, _unanswered) = endpoint.next().await;
        client.close();
        client.served().await.unwrap();
        within("the poll", endpoint.left.recv()).await.unwrap();
        lab::turn().await;
        world.clock.advance(Duration::from_secs(300));
        lab::turn().await;
        assert_eq!(acts.count(), 1);
    });
}

/// What comes in pieces over HTTP leaves as one line.
#[test]
fn a_large_result_of_an_upstream_is_one_line() {
    lab::run(|world| async move {
        let (far, _) = crate::eras::Served::apart(&world, false);
        let address = lab::listen(&world, far);
        let config = lab::config(&format!(
            "servers:\n  - slug: far\n    kind: remote-http\n    url: http://{address}/mcp\n"
        ));
        let gateway = lab::gateway_apart(&world, &config);
        let admitted = gateway
            .admit(&head(""), "127.0.0.1:1".parse().unwrap())
            .unwrap();
        let mut client = Client::of(&world, gateway, admitted, usize::MAX);
        let got = client.ask(&modern_call("1", "far__large")).await;
        assert!(text(&got) == large_text());
        assert_eq!(got["result"]["_meta"]["com.example/kept"], 1.0);
        // One after the other, more of them than are gathered at once.
        client.initialize("2025-11-25", "{}").await;
        let calls: Vec<String> = (1..=6)
            .map(|id| call(&id.to_string(), "far__large"))
            .collect();
        client.send(&calls.join("\n")).await;
        for _ in 1..=6 {
            let got = client.next().await;
            assert!(text(&got) == large_text());
            assert!(got["result"].get("resultType").is_none());
        }
        client.silence().await;
    });
}

/// Row S46: "nothing but messages on stdout, one per line; exit on EOF".
#[test]
fn s46_standard_output_has_one_message_a_line_and_ends_with_the_input() {
    lab::run(|world| async move {
        let mut client = Client::start(&world);
        client.send("not a message").await;
        for tool in ["echo", "pretty", "large"] {
            let name = format!(r#""name":"{tool}""#);
            client
                .send(&modern("1", "tools/call", &name, "{}", ""))
                .await;
            client.next().await;
        }
        client.next().await;
        client.close();
        assert!(client.line().await.is_none());
        client.served().await.unwrap();
    });
}
