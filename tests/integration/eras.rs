//! What the two eras have apart: sessions, cancellation by message, questions in the middle of a request, batches, and
//! streams of news; against a service that does what its test says.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use countersign::http::RequestHead;
use countersign::mcp::{
    Announced, Announcer, CallContext, Change, Changes, HttpRefusal, InputRequest, Offer,
    ParamHeaders, Progress, Request, RpcError, RpcResult, Server, Service,
};
use countersign::world::World;
use serde_json::value::RawValue;
use smol::channel::{Receiver, Sender, unbounded};

use crate::lab::{self, Caller};

const SECOND: Duration = Duration::from_secs(1);

/// What happens in the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Entered(String),
    Gone(String),
}

pub struct Tools {
    events: Sender<Event>,
    announcer: Announcer,
    announces: bool,
}

struct Entered(Sender<Event>, String);

impl Drop for Entered {
    fn drop(&mut self) {
        let _ = self.0.try_send(Event::Gone(self.1.clone()));
    }
}

/// Looks at its caller when it is dropped.
struct Look(Sender<Event>, Arc<dyn countersign::http::Caller>);

impl Drop for Look {
    fn drop(&mut self) {
        let left = self.1.has_left();
        let _ = self.0.try_send(Event::Entered(format!("has left: {left}")));
    }
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn question(key: &str, method: &str, params: &str) -> InputRequest {
    InputRequest {
        key: key.to_owned(),
        method: method.to_owned(),
        params: raw(params),
    }
}

impl Service for Tools {
    type Principal = String;

    fn serves(&self, path: &str) -> bool {
        path == "/mcp"
    }

    /// Whoever a header says.
    fn admit(&self, head: &RequestHead, _peer: SocketAddr) -> Result<String, HttpRefusal> {
        let who = head.headers.only("x-who").ok().flatten();
        Ok(who.unwrap_or("nobody").to_owned())
    }

    fn identity<'p>(&self, principal: &'p String) -> &'p str {
        principal
    }

    async fn offer(&self, _: &String) -> Offer {
        let announced = Some(Announced(self.announces));
        Offer {
            tools: announced,
            prompts: announced,
            resources: Some(Announced(false)),
            completions: true,
            subscribe: self.announces,
            logging: true,
            tasks: true,
            instructions: "Wait here.".to_owned(),
        }
    }

    fn asks_first(&self, _: &String, tool: &str) -> bool {
        tool == "gated"
    }

    async fn request(
        &self,
        _: &String,
        request: &Request<'_>,
        context: &CallContext,
    ) -> Result<RpcResult, RpcError> {
        if let Some(listed) = listed(&request.method) {
            let mut result = RpcResult::default();
            result.set(listed.0, listed.1.to_owned());
            return Ok(result);
        }
        let name = match &*request.method {
            "resources/read" => request.text("uri")?.into_owned(),
            "completion/complete" if request.param("ref").is_some() => {
                let mut result = RpcResult::default();
                let reference = request.param("ref").unwrap().get();
                result.set(
                    "completion",
                    format!(r#"{{"values":[],"ref":{reference}}}"#),
                );
                return Ok(result);
            }
            "tasks/get" | "tasks/update" | "tasks/cancel" => {
                let task = format!(
                    r#"{{"resultType":"complete","taskId":{},"status":"input_required","inputRequests":{{"q":{{"method":"elicitation/create","params":{{"mode":"form","message":"Sure?","requestedSchema":{{"type":"object","properties":{{}}}}}}}}}}}}"#,
                    request.param("taskId").unwrap().get()
                );
                return Ok(RpcResult::parse(&raw(&task)).unwrap());
            }
            _ => request.text("name")?.into_owned(),
        };
        if request.method == "resources/read" && name == "test://a" {
            let mut result = RpcResult::default();
            result.set(
                "contents",
                r#"[{"uri":"test://a","text":"read"}]"#.to_owned(),
            );
            return Ok(result);
        }
        let _ = self.events.try_send(Event::Entered(name.clone()));
        let _entered = Entered(self.events.clone(), name.clone());
        let answered = request.param("inputResponses");
        match (name.as_str(), answered) {
            ("wait", _) => {
                context.hold();
                pending().await
            }
            ("silent", _) => pending().await,
            ("panic", _) => panic!("a test's own"),
            // Whether the caller is there, once something is announced and once more when the call ends.
            ("look", _) => {
                let _look = Look(self.events.clone(), context.caller.clone());
                self.announcer.listen().next().await;
                Ok(RpcResult::text("looked"))
            }
            ("task", _) => {
                let task = r#"{"resultType":"task","taskId":"t.1","status":"working","createdAt":"2026-12-01T00:00:00Z","lastUpdatedAt":"2026-12-01T00:00:00Z","ttlMs":null}"#;
                Ok(RpcResult::parse(&raw(task)).unwrap())
            }
            ("pretty", _) => {
                let mut result = RpcResult::text("pretty");
                result.set("structuredContent", "{\r\n  \"a\": 1\n}".to_owned());
                Ok(result)
            }
            ("tell", _) => {
                for progress in [1.0, 2.0] {
                    context.progress(&Progress {
                        progress,
                        total: None,
                        message: None,
                    });
                }
                for level in ["\"info\"", "\"error\""] {
                    context.log(
                        &raw(level),
                        &raw(&format!(r#"{{"level":{level},"data":1}}"#)),
                    );
                }
                Ok(RpcResult::text("told"))
            }
            ("region", _) => {
                let schema = listed("tools/list").unwrap().1;
                let tools: Vec<&RawValue> = serde_json::from_str(schema).unwrap();
                request.check_param_headers(&ParamHeaders::of_tool(tools[1]).unwrap())?;
                Ok(RpcResult::text("checked"))
            }
            ("large" | "large-held", _) => {
                if name == "large-held" {
                    context.hold();
                }
                let mut result = RpcResult::text(&large_text());
                result.set("structuredContent", "[1.0]".to_owned());
                result.set_meta("countersign/outcome", "\"done\"".to_owned());
                result.set_meta("com.example/kept", "1.0".to_owned());
                Ok(result)
            }
            ("form" | "url" | "both", Some(answers)) => {
                let state = request.param("requestState").map_or("none", RawValue::get);
                Ok(RpcResult::text(&format!("{} {state}", answers.get())))
            }
            ("form", None) => Ok(RpcResult::input_required(
                &[question(
                    "q",
                    "elicitation/create",
                    r#"{"mode":"form","message":"Name?","requestedSchema":{"type":"object","properties":{}}}"#,
                )],
                Some("st\"ate"),
            )),
            ("url", None) => Ok(RpcResult::input_required(
                &[question(
                    "q",
                    "elicitation/create",
                    r#"{"mode":"url","message":"Look","url":"https://desk.example/1"}"#,
                )],
                Some("s"),
            )),
            ("both", None) => Ok(RpcResult::input_required(
                &[
                    question(
                        "one",
                        "sampling/createMessage",
                        r#"{"messages":[],"maxTokens":1}"#,
                    ),
                    question("two", "roots/list", "{}"),
                ],
                Some("s"),
            )),
            ("for-ever", _) => Ok(RpcResult::input_required(
                &[question("q", "roots/list", "{}")],
                None,
            )),
            _ => Ok(RpcResult::text(&name)),
        }
    }

    fn listen(&self, who: &String) -> Changes {
        match who.as_str() {
            // Of one whom nobody tells anything any more.
            "deserted" => Announcer::default().listen(),
            _ => self.announcer.listen(),
        }
    }

    async fn subscribe(&self, _: &String, uri: &str) -> Result<Changes, RpcError> {
        match self.announces && uri != "file:///none" {
            true => Ok(self.announcer.listen().of_resource(uri, uri)),
            false => Err(RpcError::new(-32602, "there is no such resource")),
        }
    }
}

impl Tools {
    /// The tools, what happens in them, and by which their changes are announced.
    pub fn new(announces: bool) -> (Self, Receiver<Event>, Announcer) {
        let (events, heard) = unbounded();
        let announcer = Announcer::default();
        let tools = Self {
            events,
            announcer: announcer.clone(),
            announces,
        };
        (tools, heard, announcer)
    }
}

/// More than anyone here holds: 3 MB, with characters of every length.
pub fn large_text() -> String {
    "line\n\"quoted\" é \u{1f600} \\ ".repeat(120_000)
}

/// What there is to list.
fn listed(method: &str) -> Option<(&'static str, &'static str)> {
    Some(match method {
        "tools/list" => (
            "tools",
            r#"[{"name":"echo","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"},"icons":[{"src":"a:b"}],"x":1.0},{"name":"region","inputSchema":{"type":"object","properties":{"where":{"type":"string","x-mcp-header":"Region"},"in":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"Count"}}}}}},{"name":"task","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]"#,
        ),
        "prompts/list" => ("prompts", r#"[{"name":"p","title":"P"}]"#),
        "resources/list" => ("resources", r#"[{"uri":"test://a","name":"A"}]"#),
        "resources/templates/list" => (
            "resourceTemplates",
            r#"[{"uriTemplate":"test://{x}","name":"T"}]"#,
        ),
        _ => return None,
    })
}

/// A server of [`Tools`], and what happens in it.
pub struct Served {
    pub world: World,
    pub address: SocketAddr,
    pub events: Receiver<Event>,
    pub announcer: Announcer,
}

impl Served {
    pub fn start(world: &World) -> Self {
        Self::announcing(world, true)
    }

    fn announcing(world: &World, announces: bool) -> Self {
        let (tools, served) = Self::apart(world, announces);
        Self {
            address: lab::listen(world, tools),
            ..served
        }
    }

    /// The server itself, not yet listening, and where to hear of it.
    pub fn apart(world: &World, announces: bool) -> (Server<Tools>, Self) {
        let (tools, heard, announcer) = Tools::new(announces);
        let server = Server::new(world.clone(), Arc::new(tools), lab::settings());
        let served = Self {
            world: world.clone(),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            events: heard,
            announcer,
        };
        (server, served)
    }

    pub async fn send(&self, method: &str, headers: &str, body: &str) -> Caller {
        let caller = Caller::connect(&self.world, self.address).await;
        let request = format!(
            "{method} /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        caller.send(request.as_bytes()).await;
        caller
    }

    pub async fn post(&self, headers: &str, body: &str) -> Caller {
        self.send("POST", headers, body).await
    }

    /// Everything up to the end of the connection.
    pub async fn whole(&self, headers: &str, body: &str) -> String {
        self.post(headers, body).await.until("\u{0}never").await
    }

    /// A legacy client that has opened a session: its headers.
    pub async fn session(&self, who: &str, version: &str, capabilities: &str) -> String {
        let got = self
            .whole(
                &format!("X-Who: {who}\r\n"),
                &format!(
                    r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{capabilities},"clientInfo":{{"name":"t","version":"1"}}}}}}"#
                ),
            )
            .await;
        assert!(
            got.contains(&format!(r#""protocolVersion":"{version}""#)),
            "{got}"
        );
        assert!(got.contains("Wait here."), "{got}");
        let id = got.split("mcp-session-id: ").nth(1).unwrap();
        let id = id.split("\r\n").next().unwrap();
        format!("X-Who: {who}\r\nMCP-Protocol-Version: {version}\r\nMcp-Session-Id: {id}\r\n")
    }

    pub async fn expect(&self, expected: Event) {
        assert_eq!(self.events.recv().await.unwrap(), expected);
    }
}

pub fn call(id: &str, tool: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","_meta":{{"progressToken":"t"}}}}}}"#
    )
}

pub fn cancel(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
    )
}

pub fn modern(method: &str, params: &str, capabilities: &str, more: &str) -> (String, String) {
    let name = params.split(r#""name":""#).nth(1);
    let name = name.and_then(|rest| rest.split('"').next());
    let named = name.map_or_else(String::new, |name| format!("Mcp-Name: {name}\r\n"));
    let headers = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{named}");
    let comma = if params.is_empty() { "" } else { "," };
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":"m","method":"{method}","params":{{{params}{comma}"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{capabilities}{more}}}}}}}"#
    );
    (headers, body)
}

// --- cancelling by message ---

#[test]
fn a_legacy_call_is_cancelled_by_its_own_session_and_id_and_not_answered() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let ours = served.session("ann", "2025-06-18", "{}").await;
        let theirs = served.session("ann", "2025-06-18", "{}").await;
        let waiting = served.post(&ours, &call("7", "wait")).await;
        served.expect(Event::Entered("wait".to_owned())).await;
        let stolen = ours.replace("X-Who: ann", "X-Who: bob");
        let sessionless = ours.split("Mcp-Session-Id").next().unwrap();
        for (headers, id) in [
            (theirs.as_str(), "7"),
            (&ours, "8"),
            (&ours, "\"7\""),
            (&ours, "null"),
            (&stolen, "7"),
            (sessionless, "7"),
        ] {
            let got = served.whole(headers, &cancel(id)).await;
            assert!(got.starts_with("HTTP/1.1 202 "), "{got}");
        }
        assert!(served.events.is_empty());
        served.whole(&ours, &cancel("7")).await;
        served.expect(Event::Gone("wait".to_owned())).await;
        let got = waiting.until("0\r\n\r\n").await;
        assert!(
            got.contains("text/event-stream") && got.ends_with("0\r\n\r\n"),
            "{got}"
        );
        assert!(
            !got.contains("jsonrpc"),
            "a cancelled request is not answered: {got}"
        );
    });
}

/// Before its stream is opened, too.
#[test]
fn a_silent_legacy_call_that_is_cancelled_at_once_ends_with_an_empty_stream() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let ours = served.session("ann", "2025-11-25", "{}").await;
        let waiting = served.post(&ours, &call("7", "silent")).await;
        served.expect(Event::Entered("silent".to_owned())).await;
        served.whole(&ours, &cancel("7")).await;
        served.expect(Event::Gone("silent".to_owned())).await;
        let got = waiting.until("0\r\n\r\n").await;
        assert!(
            got.contains("text/event-stream") && got.ends_with("0\r\n\r\n"),
            "{got}"
        );
        assert!(!got.contains("jsonrpc"), "{got}");
    });
}

#[test]
fn the_end_of_a_session_ends_what_it_has_in_flight() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let ours = served.session("ann", "2025-11-25", "{}").await;
        let theirs = served.session("ann", "2025-11-25", "{}").await;
        let _first = served.post(&ours, &call("1", "wait")).await;
        served.expect(Event::Entered("wait".to_owned())).await;
        let _second = served.post(&theirs, &call("1", "wait")).await;
        served.expect(Event::Entered("wait".to_owned())).await;
        let got = served
            .send("DELETE", &ours, "")
            .await
            .until("\u{0}never")
            .await;
        assert!(got.starts_with("HTTP/1.1 204 "), "{got}");
        served.expect(Event::Gone("wait".to_owned())).await;
        assert!(served.events.is_empty());
        // Its name was all there was of it: "L2 is deliberately not met" (issue), which would say "Request with an ended
        // session id → 404".
        let got = served.whole(&ours, &call("2", "echo")).await;
        assert!(got.starts_with("HTTP/1.1 200 "), "{got}");
    });
}

#[test]
fn an_id_that_is_in_flight_is_not_taken_twice() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let ours = served.session("ann", "2025-11-25", "{}").await;
        let _waiting = served.post(&ours, &call("1", "wait")).await;
        served.expect(Event::Entered("wait".to_owned())).await;
        let got = served.whole(&ours, &call("1", "echo")).await;
        assert!(
            got.starts_with("HTTP/1.1 400 ") && got.contains("-32600"),
            "{got}"
        );
        assert!(served.events.is_empty());
    });
}

// --- questions in the middle of a request ---

pub const FORM_AND_URL: &str = r#"{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}"#;

/// The JSON-RPC message of the last event that holds `marker`, or of an answer that is no stream.
pub fn event(got: &str, marker: &str) -> serde_json::Value {
    let line = got
        .lines()
        .filter_map(|line| {
            line.strip_prefix("data: ")
                .or(Some(line).filter(|line| line.starts_with('{')))
        })
        .rfind(|line| line.contains(marker));
    serde_json::from_str(line.unwrap_or_else(|| panic!("no {marker} in {got}"))).unwrap()
}

#[test]
fn a_legacy_caller_is_asked_on_its_own_stream_and_answers_by_a_message() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        for (version, tool, mode, elicitation_id) in [
            ("2025-06-18", "form", false, false),
            ("2025-11-25", "form", true, false),
            ("2025-11-25", "url", true, true),
        ] {
            let ours = served.session("ann", version, FORM_AND_URL).await;
            let theirs = served.session("ann", version, FORM_AND_URL).await;
            let waiting = served.post(&ours, &call("1", tool)).await;
            let got = waiting.until("elicitation/create").await;
            let asked = event(&got, "elicitation/create");
            assert_eq!(asked["params"].get("mode").is_some(), mode, "{asked}");
            assert_eq!(
                asked["params"].get("elicitationId").is_some(),
                elicitation_id,
                "{asked}"
            );
            assert!(asked["params"]["message"].is_string());
            let answer = format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"action":"accept","content":{{"n":1.0}}}}}}"#,
                asked["id"]
            );
            for headers in [&theirs, &ours.replace("X-Who: ann", "X-Who: bob")] {
                let got = served.whole(headers, &answer).await;
                assert!(got.starts_with("HTTP/1.1 202 "), "{got}");
            }
            assert_eq!(
                served.events.len(),
                2,
                "another's answer counts for nothing"
            );
            let got = served.whole(&ours, &answer).await;
            assert!(got.starts_with("HTTP/1.1 202 "), "{got}");
            let got = waiting.until("0\r\n\r\n").await;
            let text = event(&got, "\"result\"")["result"]["content"][0]["text"].clone();
            let text = text.as_str().unwrap();
            assert!(
                text.starts_with(r#"{"q":{"action":"accept","content":{"n":1.0}}}"#),
                "{text}"
            );
            assert!(
                !got.contains("input_required") && !got.contains("resultType"),
                "{got}"
            );
            while served.events.try_recv().is_ok() {}
        }
    });
}

#[test]
fn several_questions_are_asked_one_after_the_other() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let ours = served.session("ann", "2025-11-25", FORM_AND_URL).await;
        let waiting = served.post(&ours, &call("1", "both")).await;
        for (method, result) in [
            ("sampling/createMessage", r#"{"model":"m"}"#),
            ("roots/list", r#"{"roots":[]}"#),
        ] {
            let asked = event(&waiting.until(method).await, method);
            let answer = format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#,
                asked["id"]
            );
            served.whole(&ours, &answer).await;
        }
        let got = waiting.until("0\r\n\r\n").await;
        let text = event(&got, "\"result\"")["result"]["content"][0]["text"].clone();
        assert_eq!(
            text, r#"{"one":{"model":"m"},"two":{"roots":[]}} "s""#,
            "{got}"
        );
    });
}

#[test]
fn a_caller_that_cannot_be_asked_is_told_so_and_not_left_waiting() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let unable = served
            .session("ann", "2025-06-18", r#"{"sampling":{}}"#)
            .await;
        let sessionless = "MCP-Protocol-Version: 2025-06-18\r\n".to_owned();
        for (headers, tool, says) in [
            (&unable, "form", "elicitation by form"),
            (&unable, "url", "elicitation by URL"),
            (&sessionless, "form", "elicitation by form"),
        ] {
            let got = served.whole(headers, &call("1", tool)).await;
            assert!(got.contains(says) && got.contains("-32603"), "{got}");
        }
        // The client's own refusal is the end of it too.
        let able = served.session("ann", "2025-11-25", FORM_AND_URL).await;
        let waiting = served.post(&able, &call("1", "form")).await;
        let asked = event(
            &waiting.until("elicitation/create").await,
            "elicitation/create",
        );
        let refusal = format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32601,"message":"not here"}}}}"#,
            asked["id"]
        );
        served.whole(&able, &refusal).await;
        let got = waiting.until("0\r\n\r\n").await;
        assert!(got.contains("-32603") && got.contains("not here"), "{got}");
        // And so is time, and a server that is never content.
        let waiting = served.post(&able, &call("2", "form")).await;
        waiting.until("elicitation/create").await;
        let got = lab::advancing(&world, waiting.until("0\r\n\r\n")).await;
        assert!(got.contains("did not answer"), "{got}");
        let waiting = served.post(&able, &call("3", "for-ever")).await;
        for round in 0..10 {
            let got = waiting.until(&format!("countersign-{}\"", round + 2)).await;
            let asked = event(&got, "roots/list");
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, asked["id"]);
            served.whole(&able, &answer).await;
        }
        let got = waiting.until("0\r\n\r\n").await;
        assert!(got.contains("asked again after 10 answers"), "{got}");
    });
}

#[test]
fn a_caller_that_leaves_while_it_is_asked_takes_the_call_with_it() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let ours = served.session("ann", "2025-11-25", FORM_AND_URL).await;
        let waiting = served.post(&ours, &call("1", "form")).await;
        let asked = event(
            &waiting.until("elicitation/create").await,
            "elicitation/create",
        );
        drop(waiting);
        while served.events.len() < 2 {
            lab::turn().await;
        }
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, asked["id"]);
        served.whole(&ours, &answer).await;
        lab::turn().await;
        assert_eq!(served.events.len(), 2, "a late answer does nothing");
    });
}

/// S20 to S23.
#[test]
fn a_modern_caller_is_asked_only_what_it_declares_in_that_request() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        for (tool, capabilities, status, says) in [
            (
                "form",
                r#"{"elicitation":{}}"#,
                200,
                r#""resultType":"input_required""#,
            ),
            (
                "form",
                r#"{"elicitation":{"form":{}}}"#,
                200,
                r#""requestState":"st\"ate""#,
            ),
            (
                "form",
                r#"{"elicitation":{"url":{}}}"#,
                400,
                r#""requiredCapabilities":{"elicitation":{"form":{}}}"#,
            ),
            ("form", r#"{"sampling":{}}"#, 400, "-32021"),
            (
                "url",
                r#"{"elicitation":{}}"#,
                400,
                r#""requiredCapabilities":{"elicitation":{"url":{}}}"#,
            ),
            (
                "url",
                r#"{"elicitation":{"url":{}}}"#,
                200,
                "input_required",
            ),
            (
                "both",
                r#"{"sampling":{}}"#,
                400,
                r#""requiredCapabilities":{"roots":{}}"#,
            ),
            (
                "both",
                r#"{"sampling":{},"roots":{}}"#,
                200,
                "input_required",
            ),
        ] {
            let (headers, body) = modern(
                "tools/call",
                &format!(r#""name":"{tool}""#),
                capabilities,
                "",
            );
            let got = served.whole(&headers, &body).await;
            assert!(
                got.starts_with(&format!("HTTP/1.1 {status} ")),
                "{tool} {capabilities}: {got}"
            );
            assert!(got.contains(says), "{tool} {capabilities}: {got}");
        }
        // "`InputRequiredResult` MUST NOT be sent on anything else."
        let (headers, body) = modern(
            "completion/complete",
            r#""name":"form""#,
            r#"{"elicitation":{}}"#,
            "",
        );
        let got = served.whole(&headers, &body).await;
        assert!(
            got.contains("-32603") && !got.contains("input_required"),
            "{got}"
        );
    });
}

// --- batches ---

#[test]
fn a_batch_is_for_2025_03_26_and_is_answered_as_one() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let old = "MCP-Protocol-Version: 2025-03-26\r\n";
        let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let ping = r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#;
        let batch = format!(
            "[{},{note},{},{ping},{}]",
            call("1", "echo"),
            call("\"2\"", "gated"),
            r#"{"jsonrpc":"2.0","id":3,"method":"initialize","params":{}}"#
        );
        for headers in [old, ""] {
            let got = served.whole(headers, &batch).await;
            assert!(got.starts_with("HTTP/1.1 200 "), "{got}");
            let body = got.split("\r\n\r\n").nth(1).unwrap();
            let answers: serde_json::Value = serde_json::from_str(body).unwrap();
            let answers = answers.as_array().unwrap();
            assert_eq!(answers.len(), 4, "{body}");
            assert_eq!(answers[0]["result"]["content"][0]["text"], "echo");
            assert_eq!(answers[1]["id"], "2");
            assert_eq!(answers[1]["error"]["code"], -32600);
            assert_eq!(answers[2]["result"], serde_json::json!({}));
            assert_eq!(answers[3]["error"]["code"], -32600);
        }
        assert!(
            !std::iter::from_fn(|| served.events.try_recv().ok())
                .any(|event| event == Event::Entered("gated".to_owned()))
        );
        let got = served.whole(old, &format!("[{note}]")).await;
        assert!(got.starts_with("HTTP/1.1 202 "), "{got}");
        let session = served.session("ann", "2025-06-18", "{}").await;
        let headerless: String = session
            .split_inclusive("\r\n")
            .filter(|line| !line.starts_with("MCP-P"))
            .collect();
        for headers in [
            "MCP-Protocol-Version: 2025-06-18\r\n",
            "MCP-Protocol-Version: 2026-07-28\r\n",
            &headerless,
        ] {
            let got = served.whole(headers, &format!("[{ping}]")).await;
            assert!(
                got.starts_with("HTTP/1.1 400 ") && got.contains("-32600"),
                "{got}"
            );
        }
        let many = vec![ping; 33].join(",");
        let got = served.whole(old, &format!("[{many}]")).await;
        assert!(got.starts_with("HTTP/1.1 400 "), "{got}");
    });
}

#[test]
fn a_batch_that_waits_is_a_stream_of_its_answers() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let ours = served.session("ann", "2025-03-26", "{}").await;
        let batch = format!("[{},{}]", call("1", "wait"), call("2", "echo"));
        let waiting = served.post(&ours, &batch).await;
        waiting.until("text/event-stream").await;
        served.whole(&ours, &cancel("1")).await;
        let got = waiting.until("0\r\n\r\n").await;
        assert!(got.contains(r#""text":"echo""#), "{got}");
    });
}

// --- news ---

#[test]
fn a_modern_caller_listens_to_what_it_asked_for() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let wanted = r#""notifications":{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a://b"]}"#;
        let (headers, body) = modern("subscriptions/listen", wanted, "{}", "");
        let listening = served.post(&headers, &body).await;
        let got = listening.until("acknowledged").await;
        let first = event(&got, "jsonrpc");
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        let id = "io.modelcontextprotocol/subscriptionId";
        assert_eq!(first["params"]["_meta"][id], "m");
        // Resources are not offered as a list here.
        assert_eq!(
            first["params"]["notifications"],
            serde_json::json!({"toolsListChanged": true, "resourceSubscriptions": ["a://b"]})
        );
        for change in [
            Change::Prompts,
            Change::Resource("c://d".to_owned()),
            Change::Resource("a://b".to_owned()),
            Change::Tools,
        ] {
            served.announcer.announce(&change);
        }
        let got = listening.until("tools/list_changed").await;
        assert!(
            !got.contains("prompts/list_changed") && !got.contains("c://d"),
            "{got}"
        );
        assert_eq!(
            event(&got, "tools/list_changed")["params"]["_meta"][id],
            "m"
        );
        assert_eq!(event(&got, "resources/updated")["params"]["uri"], "a://b");
        world.clock.advance(15 * SECOND);
        listening.until("still listening").await;
    });
}

#[test]
fn a_legacy_caller_listens_by_get() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let ours = served.session("ann", "2025-11-25", "{}").await;
        let listening = served.send("GET", &ours, "").await;
        listening.until("listening").await;
        served.announcer.announce(&Change::Tools);
        let got = listening.until("tools/list_changed").await;
        assert_eq!(
            event(&got, "tools"),
            serde_json::json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        );
    });
}

#[test]
fn where_nothing_is_announced_nobody_listens() {
    lab::run(|world| async move {
        let served = Served::announcing(&world, false);
        let (headers, body) = modern("subscriptions/listen", r#""notifications":{}"#, "{}", "");
        let got = served.whole(&headers, &body).await;
        assert!(
            got.starts_with("HTTP/1.1 404 ") && got.contains("-32601"),
            "{got}"
        );
        let served = Served::start(&world);
        for params in [
            "",
            r#""notifications":[]"#,
            r#""notifications":{"resourceSubscriptions":7}"#,
        ] {
            let (headers, body) = modern("subscriptions/listen", params, "{}", "");
            let got = served.whole(&headers, &body).await;
            assert!(
                got.starts_with("HTTP/1.1 400 ") && got.contains("-32602"),
                "{got}"
            );
        }
    });
}

// --- what is told meanwhile ---

#[test]
fn logs_go_to_who_asked_for_them_and_progress_to_who_gave_a_token() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let level = |level: &str| format!(r#","io.modelcontextprotocol/logLevel":"{level}""#);
        for (more, progress, info, error) in [
            (String::new(), 0, 0, 0),
            (r#","progressToken":5"#.to_owned(), 2, 0, 0),
            (level("warning"), 0, 0, 1),
            (level("debug"), 0, 1, 1),
        ] {
            let (headers, body) = modern("tools/call", r#""name":"tell""#, "{}", &more);
            let got = served.whole(&headers, &body).await;
            let count = |what: &str| got.matches(what).count();
            assert_eq!(count("notifications/progress"), progress, "{got}");
            assert_eq!(count(r#""level":"info""#), info, "{got}");
            assert_eq!(count(r#""level":"error""#), error, "{got}");
            assert_eq!(count(r#""text":"told""#), 1, "{got}");
        }
        let (headers, body) = modern("tools/call", r#""name":"tell""#, "{}", &level("loud"));
        let got = served.whole(&headers, &body).await;
        assert!(
            got.starts_with("HTTP/1.1 400 ") && got.contains("-32602"),
            "{got}"
        );
        // A legacy caller gets them all, before the answer.
        let got = served
            .whole("MCP-Protocol-Version: 2025-11-25\r\n", &call("1", "tell"))
            .await;
        let order = [
            "notifications/progress",
            r#""level":"info""#,
            r#""level":"error""#,
            "\"told\"",
        ];
        let places: Vec<usize> = order.iter().map(|what| got.find(what).unwrap()).collect();
        assert!(places.is_sorted(), "{got}");
    });
}

/// "A test holds a call for 330 s of virtual time" (issue), as no client in use would survive in silence.
#[test]
fn a_call_of_330_seconds_is_never_silent_for_longer_than_15() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let ours = served.session("ann", "2025-11-25", "{}").await;
        let (headers, body) = modern("tools/call", r#""name":"wait""#, "{}", "");
        for (headers, body) in [(ours, call("1", "wait")), (headers, body)] {
            let waiting = served.post(&headers, &body).await;
            let head = waiting.until(": held").await;
            assert!(
                head.to_lowercase().contains("x-accel-buffering: no"),
                "{head}"
            );
            for comments in 1..=22 {
                world.clock.advance(15 * SECOND);
                loop {
                    let got = waiting.until(": still held").await;
                    if got.matches(": still held").count() >= comments {
                        break;
                    }
                    lab::turn().await;
                    waiting.more().await;
                }
            }
            assert_eq!(
                served.events.try_recv().unwrap(),
                Event::Entered("wait".to_owned())
            );
            assert!(served.events.is_empty(), "it still waits");
            drop(waiting);
            served.expect(Event::Gone("wait".to_owned())).await;
        }
    });
}
