//! What a server over HTTP says outside of requests, and what our client and the gateway make of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign::http::{Handler, Method, Request, Responded, Responder};
use countersign::mcp::client::{CallFault, Listener, Outgoing, Question, fixed};
use countersign::mcp::{Change, Changes, Client, RpcResult};
use countersign::world::World;
use smol::channel::{Receiver, Sender, bounded, unbounded};
use url::Url;

use crate::eras::{Served, modern};
use crate::lab::{self, Caller, advancing, within};
use crate::relay::LegacyOnly;

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];
const STREAM: [(&str, &str); 1] = [("content-type", "text/event-stream")];

/// One request that the test answers: a GET, `subscriptions/listen`, `tools/call`, or an answer of the client's.
struct Open {
    what: String,
    body: String,
    /// The status, which opens a stream if it is 200; then what it says, until this is dropped.
    say: Sender<Said>,
}

enum Said {
    Status(u16),
    Text(String),
}

impl Open {
    async fn status(&self, status: u16) {
        self.say.send(Said::Status(status)).await.unwrap();
    }

    async fn text(&self, text: &str) {
        self.say.send(Said::Text(text.to_owned())).await.unwrap();
    }

    async fn message(&self, message: &str) {
        self.text(&format!("data: {message}\n\n")).await;
    }
}

/// A server whose streams a test writes. It opens sessions s-1, s-2 …
#[derive(Clone)]
struct Far {
    /// The capabilities of a modern one.
    modern: Option<&'static str>,
    opens: Sender<Open>,
    sessions: Arc<Mutex<u32>>,
}

impl Handler for Far {
    async fn handle(&self, request: Request, responder: Responder) -> Responded {
        let body = request.body.read_all(65_536).await.unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        let head = &request.head;
        let header = |name: &str| head.headers.only(name).unwrap().map(str::to_owned);
        let id = body.split(r#""id":"#).nth(1).unwrap_or_default();
        let id: String = id.chars().take_while(char::is_ascii_digit).collect();
        let method = body.split(r#""method":""#).nth(1).unwrap_or_default();
        let method = method.split('"').next().unwrap_or_default();
        let result = match (method, self.modern) {
            ("initialize", _) => {
                let mut sessions = self.sessions.lock().unwrap();
                *sessions += 1;
                format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{"listChanged":true}}}}}}}}"#
                )
            }
            ("server/discover", Some(capabilities)) => format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"supportedVersions":["2026-07-28"],"capabilities":{capabilities}}}}}"#
            ),
            ("server/discover", None) => return responder.send(400, &[], b"").await,
            ("notifications/initialized", _) => return responder.send(202, &[], b"").await,
            _ => {
                let what = match (&head.method, method) {
                    (Method::Get, _) => format!(
                        "GET {} {}",
                        header("mcp-session-id").unwrap_or_default(),
                        header("last-event-id").unwrap_or_default()
                    ),
                    (_, "") => "answer".to_owned(),
                    (_, method) => method.to_owned(),
                };
                let (say, said) = bounded(1);
                let open = Open {
                    what: what.trim_end().to_owned(),
                    body,
                    say,
                };
                self.opens.send(open).await.unwrap();
                let status = match said.recv().await {
                    Ok(Said::Status(status)) => status,
                    // What is only taken.
                    _ => 202,
                };
                if status != 200 {
                    return responder.send(status, &[], b"").await;
                }
                let mut writer = match responder.start(200, &STREAM, b": there\n\n").await {
                    Ok(writer) => writer,
                    Err(gone) => return gone,
                };
                while let Ok(Said::Text(text)) = said.recv().await {
                    if writer.write(text.as_bytes()).await.is_err() {
                        return writer.abandon();
                    }
                }
                return writer.finish(b"").await;
            }
        };
        let session = format!("s-{}", self.sessions.lock().unwrap());
        let mut headers = JSON.to_vec();
        if method == "initialize" {
            headers.push(("mcp-session-id", &session));
        }
        responder.send(200, &headers, result.as_bytes()).await
    }
}

/// A server and our client, which has found out what it is.
struct Pair {
    world: World,
    client: Arc<Client>,
    opens: Receiver<Open>,
    news: Changes,
}

impl Pair {
    async fn start(world: &World, modern: Option<&'static str>) -> Self {
        let (sender, opens) = unbounded();
        let far = Far {
            modern,
            opens: sender,
            sessions: Arc::default(),
        };
        let address = lab::listen(world, far);
        let url = Url::parse(&format!("http://{address}/mcp")).unwrap();
        let http = countersign::http::Client::new(world.clone());
        let client = Client::new(world.clone(), http, url, fixed(Vec::new()), None).hearing();
        let news = client.announcer().unwrap().listen();
        let pair = Self {
            world: world.clone(),
            client: Arc::new(client),
            opens,
            news,
        };
        let deadline = world.clock.after(Duration::from_secs(5));
        within("finding out", pair.client.offer(deadline))
            .await
            .unwrap();
        pair
    }

    /// The next request that the test is to answer; time passes meanwhile.
    async fn open(&self, what: &str) -> Open {
        let open = advancing(&self.world, within(what, self.opens.recv()))
            .await
            .unwrap();
        assert_eq!(open.what, what);
        open
    }

    async fn news(&self, expected: Change) {
        let change = within("the news", self.news.next()).await;
        assert_eq!(change, Some(expected));
    }

    async fn every_list(&self) {
        for change in [Change::Tools, Change::Prompts, Change::Resources] {
            self.news(change).await;
        }
    }

    /// A call that may be asked something, and where its questions come.
    fn call(&self) -> (smol::Task<Result<RpcResult, CallFault>>, Receiver<Question>) {
        let (asking, questions) = bounded(4);
        let client = self.client.clone();
        let deadline = self.world.clock.after(Duration::from_secs(60));
        let call = async move {
            let arguments = serde_json::from_str("{}").unwrap();
            let request = Outgoing::call("ask", "\"ask\"", arguments);
            let mut listener = Listener {
                news: &mut |_| {},
                questions: Some(asking),
            };
            client.request(&request, deadline, &mut listener).await
        };
        (self.world.spawn(call).unwrap(), questions)
    }
}

const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
const QUESTION: &str = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}}"#;

#[test]
fn a_legacy_server_tells_its_news_on_a_stream_of_its_session() {
    lab::run(|world| async move {
        let pair = Pair::start(&world, None).await;
        let stream = pair.open("GET s-1").await;
        stream.status(200).await;
        stream.message(CHANGED).await;
        pair.news(Change::Tools).await;
        stream.message("[1").await;
        stream
            .message(r#"{"method":"notifications/resources/updated","params":{"uri":"a://b"}}"#)
            .await;
        pair.news(Change::Resource("a://b".to_owned())).await;
    });
}

/// "If the server closes the connection … the client SHOULD respect the `retry` field." What was said meanwhile nobody
/// knows.
#[test]
fn a_stream_that_ends_is_opened_again_behind_what_was_heard_and_every_list_may_have_changed() {
    lab::run(|world| async move {
        let pair = Pair::start(&world, None).await;
        let stream = pair.open("GET s-1").await;
        stream.status(200).await;
        stream.text("id: e7\nretry: 3000\ndata:\n\n").await;
        stream.message(CHANGED).await;
        pair.news(Change::Tools).await;
        let before = world.clock.now();
        drop(stream);
        let stream = pair.open("GET s-1 e7").await;
        assert!(world.clock.now().since(before) >= Duration::from_secs(3));
        stream.status(200).await;
        pair.every_list().await;
        stream.message(CHANGED).await;
        pair.news(Change::Tools).await;
    });
}

#[test]
fn a_server_without_such_a_stream_is_not_asked_for_it_again() {
    lab::run(|world| async move {
        let pair = Pair::start(&world, None).await;
        pair.open("GET s-1").await.status(405).await;
        let day = world.clock.sleep(Duration::from_secs(600));
        advancing(&world, day).await;
        assert!(pair.opens.is_empty());
        // It is used all the same.
        let (call, _questions) = pair.call();
        let asked = pair.open("tools/call").await;
        asked.status(200).await;
        let id: serde_json::Value = serde_json::from_str(&asked.body).unwrap();
        asked
            .message(&format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":[]}}}}"#,
                id["id"]
            ))
            .await;
        within("the call", call).await.unwrap();
    });
}

/// Servers send a question there when they do not tie it to the request in whose middle they ask.
#[test]
fn a_question_outside_of_requests_goes_to_the_only_one_that_is_in_flight() {
    lab::run(|world| async move {
        let pair = Pair::start(&world, None).await;
        let stream = pair.open("GET s-1").await;
        stream.status(200).await;

        // To nobody, while nothing is in flight.
        stream.message(QUESTION).await;
        let answer = pair.open("answer").await;
        assert!(answer.body.contains("nobody can tell whom this is for"));
        drop(answer);

        let (call, questions) = pair.call();
        let asked = pair.open("tools/call").await;
        asked.status(200).await;
        stream.message(QUESTION).await;
        let question = within("the question", questions.recv()).await.unwrap();
        assert_eq!(question.method, "elicitation/create");
        // Meanwhile the stream is heard.
        stream.message(CHANGED).await;
        pair.news(Change::Tools).await;
        let accept = serde_json::from_str(r#"{"action":"accept","content":{}}"#).unwrap();
        question.answer.send(Ok(accept)).await.unwrap();
        let answer = pair.open("answer").await;
        assert!(
            answer
                .body
                .contains(r#""id":"q","result":{"action":"accept""#),
            "{}",
            answer.body
        );
        drop(answer);

        // Not to one of two.
        let (_second, more) = pair.call();
        let other = pair.open("tools/call").await;
        other.status(200).await;
        stream.message(QUESTION).await;
        let answer = pair.open("answer").await;
        assert!(answer.body.contains("nobody can tell whom this is for"));
        assert!(questions.is_empty() && more.is_empty());
        drop(answer);

        // A question ends with the call that it was for.
        drop(_second);
        drop(other);
        loop {
            // Its end is told to the server first.
            let open = advancing(&world, within("the cancellation", pair.opens.recv()))
                .await
                .unwrap();
            if open.what == "notifications/cancelled" {
                break;
            }
        }
        stream.message(QUESTION).await;
        let question = within("the question", questions.recv()).await.unwrap();
        drop(call);
        drop(question);
        loop {
            let open = advancing(&world, within("the answer", pair.opens.recv()))
                .await
                .unwrap();
            if open.what == "answer" {
                assert!(open.body.contains("nobody can answer this now"));
                break;
            }
        }
    });
}

/// "ended → MUST 404" and "a new `initialize` without it".
#[test]
fn a_session_that_has_ended_is_opened_anew() {
    lab::run(|world| async move {
        let pair = Pair::start(&world, None).await;
        let stream = pair.open("GET s-1").await;
        stream.status(200).await;
        stream.message(CHANGED).await;
        pair.news(Change::Tools).await;
        drop(stream);
        pair.open("GET s-1").await.status(404).await;
        let stream = pair.open("GET s-2").await;
        stream.status(200).await;
        stream.message(CHANGED).await;
        pair.news(Change::Tools).await;
    });
}

#[test]
fn a_modern_server_is_asked_for_the_news_that_it_says_it_has() {
    lab::run(|world| async move {
        let declared =
            r#"{"tools":{"listChanged":true},"prompts":{},"resources":{"listChanged":true}}"#;
        let pair = Pair::start(&world, Some(declared)).await;
        let stream = pair.open("subscriptions/listen").await;
        assert!(
            stream.body.contains(
                r#""notifications":{"toolsListChanged":true,"resourcesListChanged":true}"#
            ),
            "{}",
            stream.body
        );
        stream.status(200).await;
        stream.message(CHANGED).await;
        pair.news(Change::Tools).await;
        // "Server-initiated requests" ended with the legacy era.
        stream.message(QUESTION).await;
        drop(stream);
        let stream = pair.open("subscriptions/listen").await;
        stream.status(200).await;
        pair.every_list().await;

        let pair = Pair::start(&world, Some(r#"{"tools":{}}"#)).await;
        let long = world.clock.sleep(Duration::from_secs(600));
        advancing(&world, long).await;
        assert!(pair.opens.is_empty());
    });
}

/// Through the gateway, to callers of both eras, and no server is said to have news that has none.
#[test]
fn callers_hear_of_changes_behind_the_gateway() {
    lab::run(|world| async move {
        for announces in [true, false] {
            let (far, served) = Served::apart(&world, announces);
            let address = lab::listen(&world, far);
            let config = lab::config(&format!(
                "servers:\n  - {{slug: far, kind: remote-http, url: \"http://{address}/mcp\"}}\n"
            ));
            let (_, mut near) = Served::apart(&world, false);
            near.address = lab::gateway(&world, &config);
            let (headers, body) = modern(
                "subscriptions/listen",
                r#""notifications":{"promptsListChanged":true}"#,
                "{}",
                "",
            );
            let listening = near.post(&headers, &body).await;
            let got = listening.until("acknowledged").await;
            assert_eq!(got.contains("promptsListChanged"), announces, "{got}");
            if announces {
                // The gateway's own stream may still be on its way.
                let telling = async {
                    loop {
                        served.announcer.announce(&Change::Prompts);
                        lab::turn().await;
                    }
                };
                let heard = listening.until("notifications/prompts/list_changed");
                within("the news", smol::future::or(heard, telling)).await;
            }
        }
    });
}

// --- resources that are subscribed to ---

fn about(method: &str, id: u32, uri: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"resources/{method}","params":{{"uri":"{uri}"}}}}"#
    )
}

/// Announces that `uri` changed until `caller` has been told something that holds `marker`: what carries it from a far
/// server may still be on its way.
async fn told(caller: &Caller, far: &Served, uri: &str, marker: &str) -> String {
    let telling = async {
        loop {
            far.announcer
                .announce(&Change::Resource("file:///other".to_owned()));
            far.announcer.announce(&Change::Resource(uri.to_owned()));
            lab::turn().await;
        }
    };
    let heard = caller.until(marker);
    within("the news", smol::future::or(heard, telling)).await
}

#[test]
fn a_legacy_client_is_told_of_its_resources_on_its_stream_and_of_no_others() {
    lab::run(|world| async move {
        let served = Served::start(&world);
        let session = served.session("ann", "2025-11-25", "{}").await;

        // It may ask before its stream is open, but not without one.
        let early = served
            .post(&session, &about("subscribe", 1, "file:///a"))
            .await;
        let refused = advancing(&world, early.until("the session's own stream")).await;
        assert!(refused.contains("-32600"), "{refused}");
        let early = served
            .post(&session, &about("subscribe", 2, "file:///a"))
            .await;
        let stream = served.send("GET", &session, "").await;
        stream.until("listening").await;
        early.until(r#""id":2,"result":{}"#).await;

        let got = told(&stream, &served, "file:///a", "resources/updated").await;
        assert!(got.contains(r#""uri":"file:///a""#), "{got}");
        assert!(!got.contains("file:///other"), "{got}");

        let unknown = served
            .whole(&session, &about("subscribe", 3, "file:///none"))
            .await;
        assert!(unknown.contains("there is no such resource"), "{unknown}");

        // Not after it was ended.
        served
            .whole(&session, &about("subscribe", 4, "file:///b"))
            .await;
        let ended = served
            .whole(&session, &about("unsubscribe", 5, "file:///a"))
            .await;
        assert!(ended.contains(r#""id":5,"result":{}"#), "{ended}");
        told(&stream, &served, "file:///b", r#""uri":"file:///b""#).await;
        served
            .announcer
            .announce(&Change::Resource("file:///a".to_owned()));
        served.announcer.announce(&Change::Tools);
        let got = stream.until("tools/list_changed").await;
        let (_, after) = got.split_once("file:///b").unwrap();
        assert!(!after.contains("file:///a"), "{got}");

        // Another session's stream is not told.
        let other = served.session("ann", "2025-11-25", "{}").await;
        let theirs = served.send("GET", &other, "").await;
        theirs.until("listening").await;
        told(&stream, &served, "file:///b", r#""uri":"file:///b""#).await;
        served.announcer.announce(&Change::Tools);
        let got = theirs.until("tools/list_changed").await;
        assert!(!got.contains("resources/updated"), "{got}");

        // It ends with the stream.
        drop(stream);
        let stream = served.send("GET", &session, "").await;
        stream.until("listening").await;
        served
            .announcer
            .announce(&Change::Resource("file:///b".to_owned()));
        served.announcer.announce(&Change::Tools);
        let got = stream.until("tools/list_changed").await;
        assert!(!got.contains("resources/updated"), "{got}");
    });
}

#[test]
fn resources_behind_the_gateway_can_be_subscribed_to_in_every_pairing_of_eras() {
    lab::run(|world| async move {
        for legacy_server in [true, false] {
            let (tools, mut far) = Served::apart(&world, true);
            far.address = match legacy_server {
                true => lab::listen(&world, LegacyOnly(tools)),
                false => lab::listen(&world, tools),
            };
            let config = lab::config(&format!(
                "servers:\n  - {{slug: far, kind: remote-http, url: \"http://{}/mcp\"}}\n",
                far.address
            ));
            let (_, mut near) = Served::apart(&world, false);
            near.address = lab::gateway(&world, &config);

            let (headers, body) = modern(
                "subscriptions/listen",
                r#""notifications":{"resourceSubscriptions":["mcp+far+file:///a","mcp+nobody+file:///a"]}"#,
                "{}",
                "",
            );
            let listening = near.post(&headers, &body).await;
            let got = listening.until("acknowledged").await;
            assert!(
                got.contains(r#""resourceSubscriptions":["mcp+far+file:///a"]"#),
                "{got}"
            );
            let got = told(&listening, &far, "file:///a", "resources/updated").await;
            assert!(got.contains(r#""uri":"mcp+far+file:///a""#), "{got}");
            assert!(!got.contains("other"), "{got}");

            let session = near.session("ann", "2025-11-25", "{}").await;
            let stream = near.send("GET", &session, "").await;
            stream.until("listening").await;
            for (uri, fails) in [("mcp+far+file:///b", false), ("mcp+nobody+file:///b", true)] {
                let got = near.whole(&session, &about("subscribe", 1, uri)).await;
                assert_eq!(got.contains("there is no resource"), fails, "{got}");
            }
            // A modern server refuses by leaving it out, which nobody waits for.
            let got = near
                .whole(&session, &about("subscribe", 2, "mcp+far+file:///none"))
                .await;
            assert_eq!(
                got.contains("there is no such resource"),
                legacy_server,
                "{got}"
            );
            let got = told(&stream, &far, "file:///b", "resources/updated").await;
            assert!(got.contains(r#""uri":"mcp+far+file:///b""#), "{got}");
            assert!(!got.contains("other"), "{got}");
        }
    });
}
