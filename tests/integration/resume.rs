//! A legacy server that closes the stream of a call, and what our client makes of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign::http::{Handler, Method, Request, Responded, Responder};
use countersign::mcp::client::{CallFault, Listener, Outgoing, fixed};
use countersign::mcp::{Client, RpcResult};
use countersign::time::Instant;
use countersign::world::World;
use url::Url;

use crate::lab;

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];
const STREAM: [(&str, &str); 1] = [("content-type", "text/event-stream")];

/// The client's first id is that of the call, the next ones those of what it finds out for it.
const ANSWER: &str =
    r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"late"}]}}"#;

/// What was seen of the server, and when.
type Seen = Arc<Mutex<Vec<(String, Instant)>>>;

/// Closes every stream at once, but the last one of `streams`, each the text of one.
struct Closing {
    world: World,
    discovered: &'static str,
    streams: Vec<(u16, String)>,
    seen: Seen,
}

impl Closing {
    fn see(&self, what: String) {
        self.seen
            .lock()
            .unwrap()
            .push((what, self.world.clock.now()));
    }
}

impl Handler for Closing {
    async fn handle(&self, request: Request, responder: Responder) -> Responded {
        let body = request.body.read_all(65_536).await.unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        if body.contains("notifications/") {
            return responder.send(202, &[], b"").await;
        }
        if body.contains("server/discover") {
            let answer = format!(r#"{{"jsonrpc":"2.0","id":2,"result":{}}}"#, self.discovered);
            return responder.send(200, &JSON, answer.as_bytes()).await;
        }
        if body.contains("initialize") {
            let answer = r#"{"jsonrpc":"2.0","id":3,"result":{"protocolVersion":"2025-11-25"}}"#;
            return responder.send(200, &JSON, answer.as_bytes()).await;
        }
        let head = &request.head;
        let id = head.headers.only("last-event-id").unwrap();
        self.see(match head.method {
            Method::Get => format!("GET {}", id.unwrap_or("without an id")),
            _ => "POST".to_owned(),
        });
        let streams = self.seen.lock().unwrap().len();
        let (status, text) = &self.streams[streams - 1];
        match responder.start(*status, &STREAM, text.as_bytes()).await {
            Ok(writer) => writer.finish(b"").await,
            Err(gone) => gone,
        }
    }
}

async fn call(
    world: &World,
    discovered: &'static str,
    streams: Vec<(u16, String)>,
) -> (Result<RpcResult, CallFault>, Vec<(String, Instant)>) {
    let seen = Seen::default();
    let closing = Closing {
        world: world.clone(),
        discovered,
        streams,
        seen: seen.clone(),
    };
    let address = lab::listen(world, closing);
    let url = Url::parse(&format!("http://{address}/mcp")).unwrap();
    let http = countersign::http::Client::new(world.clone());
    let client = Client::new(world.clone(), http, url, fixed(Vec::new()), None);
    let arguments = serde_json::from_str("{}").unwrap();
    let request = Outgoing::call("slow", "\"slow\"", arguments);
    let deadline = world.clock.after(Duration::from_secs(60));
    let mut listener = Listener {
        news: &mut |_| {},
        questions: None,
    };
    let called = client.request(&request, deadline, &mut listener);
    let called = lab::advancing(world, called).await;
    let seen = seen.lock().unwrap().clone();
    (called, seen)
}

/// 2025-11-25: "the client SHOULD respect the `retry` field, waiting the given number of milliseconds".
#[test]
fn l13_a_call_whose_stream_ends_goes_on_after_its_pause_behind_the_last_event() {
    lab::run(|world| async move {
        let streams = vec![
            (200, "id: e1\nretry: 700\ndata:\n\n".to_owned()),
            (
                200,
                "id: e2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n".to_owned(),
            ),
            (200, format!("id: e3\ndata: {ANSWER}\n\n")),
        ];
        // Some legacy servers answer every method: what does not list a modern revision is no answer of a modern one.
        let (called, seen) = call(&world, "{}", streams).await;
        assert_eq!(called.unwrap().texts(), "late");
        let what: Vec<_> = seen.iter().map(|(what, _)| what.as_str()).collect();
        assert_eq!(what, ["POST", "GET e1", "GET e2"]);
        for pair in seen.windows(2) {
            let paused = pair[1].1.since(pair[0].1);
            assert!(paused >= Duration::from_millis(700), "{paused:?}");
        }
    });
}

#[test]
fn a_call_that_cannot_go_on_may_have_run() {
    lab::run(|world| async move {
        let modern = r#"{"supportedVersions":["2026-07-28"]}"#;
        let with_id = "id: e1\ndata:\n\n".to_owned();
        for (what, discovered, streams, seen) in [
            ("no id", "{}", vec![(200, "data:\n\n".to_owned())], 1),
            ("a modern server", modern, vec![(200, with_id.clone())], 1),
            (
                "no stream to go on with",
                "{}",
                vec![(200, with_id.clone()), (405, String::new())],
                2,
            ),
        ] {
            let (called, asked) = call(&world, discovered, streams).await;
            let fault = called.unwrap_err();
            assert!(fault.may_have_acted(), "{what}: {fault}");
            assert_eq!(asked.len(), seen, "{what}");
        }
    });
}
