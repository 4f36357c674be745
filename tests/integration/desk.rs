//! The desk over real loopback sockets, on a clock driven by hand.

#![allow(clippy::unwrap_used)]

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use countersign::desk::terminal::{self, TerminalAnswer, TerminalFault, Told};
use countersign::desk::{Desk, DeskFault, DeskSettings, Person, SessionName, SessionUrls};
use countersign::http::{Client, Connection, Limits, Method, OutRequest, Reply, serve};
use countersign::json::Exact;
use countersign::secret::{Secret, sha256};
use countersign::time::{Clock, Instant};
use countersign::world::{Net, Random, Runtime, World};
use url::Url;

/// 2026-11-30T12:03:45Z.
const START_WALL_MS: u64 = 1_796_040_225_000;

/// Far beyond every test: the hand-driven clock stands still unless a test moves it.
const NEVER: Instant = Instant::from_ms(u64::MAX);

const ANA: &str = "ana-key";
const BO: &str = "bo-key";

/// A desk that listens, and a client of it.
struct Scene {
    world: World,
    client: Client,
    desk: Arc<Desk>,
    address: SocketAddr,
    url: Url,
}

/// What came back.
struct Got {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl Got {
    fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let (_, value) = headers.find(|(other, _)| other.eq_ignore_ascii_case(name))?;
        Some(value)
    }

    fn json(&self) -> Exact {
        Exact::parse(&self.body).unwrap()
    }

    fn text(&self, name: &str) -> Option<String> {
        Some(self.json().get(name)?.as_str()?.to_owned())
    }
}

fn person(id: &str, key: &str, answers_for: &[&str]) -> Person {
    Person {
        id: id.to_owned(),
        key_sha256: sha256(key.as_bytes()),
        answers_for: answers_for.iter().map(|&text| text.to_owned()).collect(),
    }
}

fn settings(public_url: &Url) -> DeskSettings {
    DeskSettings {
        public_url: public_url.clone(),
        secrets: vec![Secret::new("s".repeat(32))],
        people: vec![
            person("ana", ANA, &["a", "demo*"]),
            person("bo", BO, &["b*"]),
        ],
        asker_keys: vec![],
        allowed_hosts: vec!["desk.example".to_owned()],
    }
}

/// Runs `test` beside a desk whose settings went through `change`.
fn with_desk<F: Future<Output = ()> + Send + 'static>(
    change: impl FnOnce(&mut DeskSettings),
    test: impl FnOnce(Scene) -> F,
) {
    let clock = Clock::hand_driven(START_WALL_MS);
    let runtime = Runtime::with(clock, Net::real(), Random::system());
    let world = runtime.world().clone();
    let listener = world.net.listen(([127, 0, 0, 1], 0).into()).unwrap();
    let address = listener.local_address().unwrap();
    let url = Url::parse(&format!("http://{address}")).unwrap();
    let mut settings = settings(&url);
    change(&mut settings);
    let desk = Desk::new(world.clone(), settings).unwrap();
    let server = serve(
        world.clone(),
        listener,
        desk.clone(),
        Arc::new(Limits::default()),
    );
    let serving = world.spawn(server).unwrap();
    let scene = Scene {
        client: Client::new(world.clone()),
        world,
        desk,
        address,
        url,
    };
    runtime.block_on(test(scene));
    drop(serving);
}

fn plain<F: Future<Output = ()> + Send + 'static>(test: impl FnOnce(Scene) -> F) {
    with_desk(|_| {}, test);
}

impl Scene {
    async fn start(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Reply {
        let mut request = OutRequest::new(method, &self.url.join(path).unwrap()).unwrap();
        for (name, value) in headers {
            request = request.header(name, value).unwrap();
        }
        if let Some(body) = body {
            request = request.body(body.as_bytes().to_vec());
        }
        self.client
            .send(request, NEVER, Connection::Fresh)
            .await
            .unwrap()
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Got {
        let reply = self.start(method, path, headers, body).await;
        let status = reply.status;
        let headers = reply.headers.iter();
        let headers = headers
            .map(|(name, value)| (name.to_owned(), String::from_utf8(value.to_vec()).unwrap()))
            .collect();
        let body = reply.read_all(1 << 26).await.unwrap();
        let body = String::from_utf8(body).unwrap();
        Got {
            status,
            headers,
            body,
        }
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Got {
        self.send(Method::Get, path, headers, None).await
    }

    /// The path of a session's URL, which holds its token.
    fn session(&self, name: &str) -> String {
        let url = self.desk.session_url(&SessionName::parse(name).unwrap());
        Url::parse(url.expose()).unwrap().path().to_owned()
    }

    async fn post(&self, path: &str, body: &str) -> Got {
        let json = [("content-type", "application/json")];
        self.send(Method::Post, path, &json, Some(body)).await
    }

    async fn ask(&self, session: &str, id: &str) {
        let got = self.post(&self.session(session), &question(id)).await;
        assert_eq!(got.status, 201, "{}", got.body);
    }

    async fn poll(&self, session: &str, id: &str) -> Got {
        self.get(&format!("{}/{id}", self.session(session)), &[])
            .await
    }

    async fn action(&self, session: &str, id: &str) -> String {
        self.poll(session, id).await.text("action").unwrap()
    }

    async fn answer(&self, key: &str, body: &str) -> Got {
        let key = format!("Bearer {key}");
        let headers = [
            ("authorization", key.as_str()),
            ("content-type", "application/json"),
        ];
        self.send(Method::Post, "/api/answer", &headers, Some(body))
            .await
    }

    async fn form(&self, path: &str, cookie: Option<&str>, fields: &[(&str, &str)]) -> Got {
        let body = {
            let mut body = url::form_urlencoded::Serializer::new(String::new());
            body.extend_pairs(fields);
            body.finish()
        };
        let mut headers = vec![("content-type", "application/x-www-form-urlencoded")];
        headers.extend(cookie.map(|cookie| ("cookie", cookie)));
        self.send(Method::Post, path, &headers, Some(&body)).await
    }

    /// Signs in, and gives the cookie pair and the page's token.
    async fn sign_in(&self, key: &str) -> (String, String) {
        let got = self.form("/sign-in", None, &[("key", key)]).await;
        assert_eq!((got.status, got.header("location")), (303, Some("/")));
        let cookie = got
            .header("set-cookie")
            .unwrap()
            .split(';')
            .next()
            .unwrap()
            .to_owned();
        let page = self.get("/", &[("cookie", &cookie)]).await;
        let (_, rest) = page
            .body
            .split_once("<meta name=\"csrf\" content=\"")
            .unwrap();
        let (csrf, _) = rest.split_once('"').unwrap();
        (cookie, csrf.to_owned())
    }

    /// Sends bytes as they are, and reads to the end of the connection.
    async fn raw(&self, bytes: &str) -> String {
        let host = self.address.ip().to_string();
        let stream = self
            .world
            .connect(&host, self.address.port())
            .await
            .unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        let mut all = Vec::new();
        loop {
            let mut some = [0; 4096];
            match poll_fn(|cx| stream.poll_read(cx, &mut some)).await {
                Ok(count) if count > 0 => all.extend_from_slice(&some[..count]),
                _ => return String::from_utf8(all).unwrap(),
            }
        }
    }

    /// The status of a request with this Host and, if any, this Origin.
    async fn raw_status(&self, method: &str, path: &str, host: &str, more: &str) -> String {
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n");
        let reply = self.raw(&request).await;
        reply.split(' ').nth(1).unwrap_or_default().to_owned()
    }
}

fn question(id: &str) -> String {
    format!(
        r#"{{"mode":"form","message":"Delete \"a.txt\"?","requestedSchema":{{"type":"object","properties":{{"confirm":
        {{"type":"boolean","title":"Delete it?"}}}},"required":["confirm"]}},"_meta":{{"com.pulsemcp/request-id":"{id}",
        "com.pulsemcp/expires-at":"2026-11-30T12:05:30.000Z","com.pulsemcp/tool-name":"delete_file"}}}}"#
    )
}

fn accept(id: &str) -> String {
    format!(r#"{{"id":"{id}","action":"accept","confirm":true}}"#)
}

fn decline(id: &str) -> String {
    format!(r#"{{"id":"{id}","action":"decline"}}"#)
}

/// The ids that a person sees in `GET /api/pending`, open ones first.
fn ids(got: &Got) -> (Vec<String>, Vec<String>) {
    assert_eq!(got.status, 200, "{}", got.body);
    let json = got.json();
    let of = |list: &str| -> Vec<String> {
        let list = json.get(list).unwrap().as_array().unwrap();
        let id = |one: &Exact| one.get("id").unwrap().as_str().unwrap().to_owned();
        list.iter().map(id).collect()
    };
    (of("pending"), of("recent"))
}

#[test]
fn a_question_is_asked_polled_and_answered() {
    plain(|scene| async move {
        let session = scene.session("a");
        let created = scene.post(&session, &question("r-1")).await;
        assert_eq!(created.status, 201);
        let poll_url = format!(
            "{}{}/r-1",
            scene.url.as_str().trim_end_matches('/'),
            session
        );
        assert_eq!(
            created.body,
            format!(
                r#"{{"action":"pending","_meta":{{"com.pulsemcp/request-id":"r-1","com.pulsemcp/poll-url":"{poll_url}"}}}}"#
            )
        );
        let pending =
            r#"{"action":"pending","content":null,"_meta":{"com.pulsemcp/request-id":"r-1"}}"#;
        for path in [format!("{session}/r-1"), format!("{session}/r-1.json")] {
            let polled = scene.get(&path, &[]).await;
            assert_eq!((polled.status, polled.body.as_str()), (200, pending));
        }
        scene.world.clock.advance(Duration::from_millis(6_000));
        let answered = scene.answer(ANA, &accept("r-1")).await;
        assert_eq!(
            (answered.status, answered.body.as_str()),
            (200, r#"{"result":"accept"}"#)
        );
        let polled = scene
            .get(
                &format!("{session}/r-1"),
                &[("content-type", "application/json")],
            )
            .await;
        assert_eq!(polled.status, 200);
        assert_eq!(
            polled.body,
            r#"{"action":"accept","content":{"confirm":true},"_meta":{"com.pulsemcp/request-id":"r-1","com.pulsemcp/responded-at":"2026-11-30T12:03:51.000Z"}}"#
        );

        for (id, body, result, action, content) in [
            ("r-2", decline("r-2"), "decline", "decline", "null"),
            (
                "r-3",
                accept("r-3").replace("true", "false"),
                "not-confirmed",
                "accept",
                r#"{"confirm":false}"#,
            ),
            // What else a decline says is not content.
            (
                "r-4",
                accept("r-4").replace("accept", "decline"),
                "decline",
                "decline",
                "null",
            ),
        ] {
            scene.ask("a", id).await;
            let answered = scene.answer(ANA, &body).await;
            assert_eq!(answered.body, format!(r#"{{"result":"{result}"}}"#));
            let polled = scene.poll("a", id).await.body;
            let start = format!(r#"{{"action":"{action}","content":{content},"_meta""#);
            assert!(polled.starts_with(&start), "{polled}");
        }
    });
}

#[test]
fn the_protocols_status_codes() {
    plain(|scene| async move {
        let session = scene.session("a");
        let (token, _) = session
            .rsplit_once('/')
            .map(|(_, token)| (token, ()))
            .unwrap();
        let wrong = session.replace(token, &token.replace("a-", "b-"));
        let with = |from: &str, to: &str| question("r-9").replace(from, to);
        let id = r#""com.pulsemcp/request-id":"r-9","#;
        scene.ask("a", "r-1").await;
        for (path, body, status, error) in [
            (session.clone(), question("r-2"), 201, ""),
            (format!("{session}.json"), question("r-3"), 201, ""),
            (
                session.clone(),
                question("r-1"),
                422,
                "Unprocessable Entity",
            ),
            (
                scene.session("b"),
                question("r-1"),
                422,
                "Unprocessable Entity",
            ),
            (wrong.clone(), question("r-9"), 401, "Unauthorized"),
            (
                session.replace("a-", "A-"),
                question("r-9"),
                401,
                "Unauthorized",
            ),
            (session.clone(), with(id, ""), 422, "Missing parameter"),
            (
                session.clone(),
                with("message", "massage"),
                422,
                "Missing parameter",
            ),
            (
                session.clone(),
                with(r#""form""#, r#""url""#),
                422,
                "Unprocessable Entity",
            ),
            (
                session.clone(),
                with(id, &format!(r#"{id}"com.pulsemcp/session-id":"b","#)),
                403,
                "Forbidden",
            ),
            (
                session.clone(),
                with(id, &format!(r#"{id}"com.pulsemcp/session-id":"a","#)),
                201,
                "",
            ),
            (session.clone(), "{".to_owned(), 400, "Bad Request"),
            (
                session.clone(),
                format!("{}{}", question("r-8"), "x"),
                400,
                "Bad Request",
            ),
            (
                format!("{session}/r-1/respond"),
                accept("r-1"),
                404,
                "Not Found",
            ),
            (
                "/api/v1/elicitations".to_owned(),
                question("r-9"),
                404,
                "Not Found",
            ),
        ] {
            let got = scene.post(&path, &body).await;
            assert_eq!(got.status, status, "{path} {body} {}", got.body);
            if status != 201 {
                assert_eq!(got.text("error").as_deref(), Some(error));
                let message = got.text("message").unwrap();
                let messages = got.json().get("messages").unwrap().clone();
                assert_eq!(messages, Exact::Array(vec![Exact::String(message)]));
                assert!(!got.body.contains(token) && !got.body.contains("r-1"));
            }
        }
        let unread = "zimmer-reachability-probe";
        for (path, status) in [
            (format!("{session}/r-1"), 200),
            (format!("{session}/r-0"), 404),
            (format!("{session}/1"), 404),
            (format!("{session}/"), 404),
            (format!("{session}/a%20b"), 404),
            (format!("{}/r-1", scene.session("b")), 404),
            (format!("{wrong}/r-1"), 401),
            (
                format!("/api/v1/elicitations/session/{unread}/{unread}"),
                401,
            ),
            ("/api/v1/elicitations/r-1".to_owned(), 404),
            (session.clone(), 405),
            ("/nowhere".to_owned(), 404),
        ] {
            assert_eq!(scene.get(&path, &[]).await.status, status, "{path}");
        }
        let put = scene.send(Method::Put, &session, &[], Some("{}")).await;
        assert_eq!((put.status, put.header("allow")), (405, Some("POST")));
        let head = scene
            .send(Method::Head, &format!("{session}/r-1"), &[], None)
            .await;
        assert_eq!((head.status, head.body.as_str()), (200, ""));
    });
}

#[test]
fn a_session_url_can_neither_answer_nor_list() {
    plain(|scene| async move {
        let session = scene.session("a");
        let (_, token) = session.rsplit_once('/').unwrap();
        scene.ask("a", "r-1").await;
        let answer = r#"{"action_type":"accept","content":{"confirm":true}}"#;
        for path in [
            format!("{session}/r-1/respond"),
            format!("{session}/r-1/respond.json"),
            "/api/v1/elicitations/r-1/respond".to_owned(),
        ] {
            for method in [Method::Patch, Method::Post, Method::Put] {
                assert_eq!(
                    scene.send(method, &path, &[], Some(answer)).await.status,
                    404,
                    "{path}"
                );
            }
        }
        for method in [Method::Patch, Method::Post, Method::Put, Method::Delete] {
            let got = scene
                .send(method, &format!("{session}/r-1"), &[], Some(answer))
                .await;
            assert_eq!(got.status, 405);
        }
        let url = scene.desk.session_url(&SessionName::parse("a").unwrap());
        for key in [token, url.expose(), "s-secret", "."] {
            let bearer = format!("Bearer {key}");
            let headers = [("authorization", bearer.as_str())];
            assert_eq!(scene.get("/api/pending", &headers).await.status, 401);
            assert_eq!(scene.get("/api/events", &headers).await.status, 401);
            assert_eq!(scene.answer(key, &accept("r-1")).await.status, 401);
            assert_eq!(
                scene.form("/sign-in", None, &[("key", key)]).await.status,
                401
            );
            scene.world.clock.advance(Duration::from_secs(20));
        }
        let mac = token.strip_prefix("a-").unwrap();
        for cookie in [token, mac, &format!("YW5h.9999999999999.{mac}")] {
            let cookie = format!("countersign-desk={cookie}");
            assert_eq!(
                scene
                    .get("/api/pending", &[("cookie", &cookie)])
                    .await
                    .status,
                401
            );
        }
        // And what it asks is no answer either.
        let body = question("r-2").replace(
            r#""mode""#,
            r#""action":"accept","content":{"confirm":true},"mode""#,
        );
        let created = scene.post(&session, &body).await;
        assert_eq!(
            (created.status, created.text("action").as_deref()),
            (201, Some("pending"))
        );
        assert_eq!(scene.action("a", "r-1").await, "pending");
        assert_eq!(scene.action("a", "r-2").await, "pending");
    });
}

#[test]
fn of_two_answers_at_once_the_first_stands() {
    plain(|scene| async move {
        let mut outcomes = std::collections::BTreeSet::new();
        for round in 0..40 {
            let id = format!("r-{round}");
            scene.ask("a", &id).await;
            let (yes, no) = (accept(&id), decline(&id));
            let both = if round % 2 == 0 {
                smol::future::zip(scene.answer(ANA, &yes), scene.answer(ANA, &no)).await
            } else {
                let (no, yes) =
                    smol::future::zip(scene.answer(ANA, &no), scene.answer(ANA, &yes)).await;
                (yes, no)
            };
            let statuses = (both.0.status, both.1.status);
            assert!(matches!(statuses, (200, 409) | (409, 200)), "{statuses:?}");
            assert_eq!(both.0.body, both.1.body);
            let stands = if statuses.0 == 200 {
                "accept"
            } else {
                "decline"
            };
            assert_eq!(both.0.text("result").as_deref(), Some(stands));
            assert_eq!(scene.action("a", &id).await, stands);
            let again = scene.answer(ANA, &yes).await;
            assert_eq!(
                (again.status, again.text("result").as_deref()),
                (409, Some(stands))
            );
            assert_eq!(scene.action("a", &id).await, stands);
            outcomes.insert(stands);
        }
        assert_eq!(outcomes.len(), 2, "both orders were seen");
    });
}

#[test]
fn a_question_expires_at_its_deadline() {
    // `question` lapses 105 s after the clock's start.
    for (ms, expired) in [(104_999, false), (105_000, true), (105_001, true)] {
        plain(move |scene| async move {
            scene.ask("a", "r-1").await;
            scene.ask("a", "r-2").await;
            scene.world.clock.advance(Duration::from_millis(ms));
            let answered = scene.answer(ANA, &accept("r-1")).await;
            let polled = scene.poll("a", "r-1").await;
            if expired {
                assert_eq!(
                    (answered.status, answered.text("result").as_deref()),
                    (409, Some("expired"))
                );
                assert!(
                    polled
                        .body
                        .starts_with(r#"{"action":"expired","content":null,"#)
                );
                assert!(polled.body.contains("12:05:30.000Z"), "{}", polled.body);
                assert_eq!(scene.action("a", "r-2").await, "expired");
            } else {
                assert_eq!(
                    (answered.status, answered.text("result").as_deref()),
                    (200, Some("accept"))
                );
                assert!(
                    polled
                        .body
                        .starts_with(r#"{"action":"accept","content":{"confirm":true},"#)
                );
                assert_eq!(scene.action("a", "r-2").await, "pending");
            }
        });
    }
}

#[test]
fn expiry_wishes_are_held_within_bounds() {
    let wish = r#""com.pulsemcp/expires-at":"2026-11-30T12:05:30.000Z","#;
    for (expires_at, seconds) in [
        (r#""2026-11-30T12:03:46Z""#, 60),
        (r#""2001-01-01T00:00:00Z""#, 60),
        (r#""2027-11-30T12:03:46Z""#, 604_800),
        (r#""2026-11-30T13:04:45+01:00""#, 60),
        (r#""tomorrow""#, 3600),
        ("null", 3600),
        ("17", 3600),
    ] {
        plain(move |scene| async move {
            let wished = format!(r#""com.pulsemcp/expires-at":{expires_at},"#);
            let body = question("r-1").replace(wish, &wished);
            assert_eq!(scene.post(&scene.session("a"), &body).await.status, 201);
            scene
                .world
                .clock
                .advance(Duration::from_millis(seconds * 1000 - 1));
            assert_eq!(scene.action("a", "r-1").await, "pending", "{expires_at}");
            scene.world.clock.advance(Duration::from_millis(1));
            assert_eq!(scene.action("a", "r-1").await, "expired", "{expires_at}");
        });
    }
}

#[test]
fn a_machine_that_slept_finds_the_question_lapsed() {
    plain(|scene| async move {
        scene.ask("a", "r-1").await;
        scene.world.clock.suspend(Duration::from_secs(105));
        assert_eq!(scene.answer(ANA, &accept("r-1")).await.status, 409);
        assert_eq!(scene.action("a", "r-1").await, "expired");
    });
}

#[test]
fn each_person_sees_and_answers_only_their_own_sessions() {
    plain(|scene| async move {
        scene.ask("a", "r-a").await;
        scene.ask("b", "r-b").await;
        scene.ask("demo-7", "r-demo").await;
        scene.ask("c", "r-c").await;
        for (key, own, other) in [(ANA, "r-a", "r-b"), (BO, "r-b", "r-a")] {
            let bearer = format!("Bearer {key}");
            let headers = [("authorization", bearer.as_str())];
            let (pending, _) = ids(&scene.get("/api/pending", &headers).await);
            assert!(pending.iter().any(|id| id == own), "{pending:?}");
            assert!(
                !pending.iter().any(|id| id == other || id == "r-c"),
                "{pending:?}"
            );
            let (cookie, csrf) = scene.sign_in(key).await;
            let page = scene.get("/", &[("cookie", &cookie)]).await.body;
            assert!(page.contains(&format!("data-id=\"{own}\"")));
            assert!(!page.contains(other) && !page.contains("r-c"));
            for body in [
                accept(other),
                decline(other),
                accept("r-c"),
                accept("r-0"),
                accept("no id"),
            ] {
                assert_eq!(scene.answer(key, &body).await.status, 404, "{body}");
            }
            let fields = [
                ("csrf", csrf.as_str()),
                ("id", other),
                ("action", "accept"),
                ("confirm", "true"),
            ];
            scene.form("/answer", Some(&cookie), &fields).await;
        }
        assert_eq!(scene.action("a", "r-a").await, "pending");
        assert_eq!(scene.action("b", "r-b").await, "pending");
        assert_eq!(scene.answer(BO, &accept("r-b")).await.status, 200);
        assert_eq!(scene.answer(ANA, &decline("r-a")).await.status, 200);
        assert_eq!(scene.action("a", "r-a").await, "decline");
        assert_eq!(scene.action("b", "r-b").await, "accept");
        // What is settled is not the other's either.
        assert_eq!(scene.answer(ANA, &accept("r-b")).await.status, 404);
        assert_eq!(scene.answer(BO, &accept("r-a")).await.status, 404);
        for (key, who, own) in [(ANA, "ana", "r-a"), (BO, "bo", "r-b")] {
            let bearer = format!("Bearer {key}");
            let got = scene
                .get("/api/pending", &[("authorization", &bearer)])
                .await;
            assert_eq!(ids(&got).1, [own]);
            assert!(got.body.contains(&format!(r#""who":"{who}""#)));
        }
    });
}

#[test]
fn the_list_says_all_that_the_page_shows() {
    plain(|scene| async move {
        scene.ask("a", "r-1").await;
        let bare = r#"{"message":"m\u202e\n","_meta":{"com.pulsemcp/request-id":"r-2"}}"#;
        scene.world.clock.advance(Duration::from_millis(500));
        assert_eq!(scene.post(&scene.session("a"), bare).await.status, 201);
        let got = scene
            .get("/api/pending", &[("authorization", "Bearer ana-key")])
            .await;
        let lines = [
            r#"{"id":"r-1","message":"Delete \"a.txt\"?","session":"a","tool":"delete_file","title":"Delete it?","description":null,"asked":1796040225000,"expires":1796040330000,"senderVerified":false}"#,
            "{\"id\":\"r-2\",\"message\":\"m\u{202e}\\n\",\"session\":\"a\",\"tool\":\"unnamed tool\",\"title\":\"\",\"description\":null,\"asked\":1796040225500,\"expires\":1796043825500,\"senderVerified\":false}",
        ];
        // Which of the two comes first is not said.
        let whole = |first, second| {
            format!(r#"{{"now":1796040225500,"pending":[{first},{second}],"recent":[]}}"#)
        };
        let [one, two] = lines;
        assert!(
            [whole(one, two), whole(two, one)].contains(&got.body),
            "{}",
            got.body
        );
    });
}

#[test]
fn answers_that_say_neither_yes_nor_no_change_nothing() {
    plain(|scene| async move {
        scene.ask("a", "r-1").await;
        for (body, status) in [
            ("", 400),
            ("[]", 422),
            (r#"{"action":"accept","confirm":true}"#, 422),
            (r#"{"id":"r-1","action":"accept"}"#, 422),
            (r#"{"id":"r-1","action":"accept","confirm":"true"}"#, 422),
            (r#"{"id":"r-1","action":"accept","confirm":null}"#, 422),
            (r#"{"id":"r-1","action":"Accept","confirm":true}"#, 422),
            (r#"{"id":"r-1","action":"accepted","confirm":true}"#, 422),
            (r#"{"id":"r-1","action":"cancel","confirm":true}"#, 422),
            (r#"{"id":"r-1","action":null,"confirm":true}"#, 422),
            (
                r#"{"id":"r-1","action":"decline","action":"accept","confirm":true}"#,
                400,
            ),
            (
                r#"{"id":"r-1","action":"accept","confirm":false,"confirm":true}"#,
                400,
            ),
            (r#"{"id":["r-1"],"action":"accept","confirm":true}"#, 422),
        ] {
            assert_eq!(scene.answer(ANA, body).await.status, status, "{body}");
        }
        let form = [
            ("authorization", "Bearer ana-key"),
            ("content-type", "application/x-www-form-urlencoded"),
        ];
        let got = scene
            .send(Method::Post, "/api/answer", &form, Some(&accept("r-1")))
            .await;
        assert_eq!(got.status, 415);
        let long = format!(
            r#"{{"id":"r-1","action":"accept","confirm":true,"x":"{}"}}"#,
            "x".repeat(5000)
        );
        assert_eq!(scene.answer(ANA, &long).await.status, 413);
        assert_eq!(scene.action("a", "r-1").await, "pending");
    });
}

#[test]
fn a_signed_in_write_needs_the_token_of_its_own_page() {
    plain(|scene| async move {
        scene.ask("a", "r-1").await;
        let (cookie, csrf) = scene.sign_in(ANA).await;
        let (_, other_csrf) = scene.sign_in(BO).await;
        let body = accept("r-1");
        for (headers, status) in [
            (vec![], 401),
            (vec![("x-csrf-token", csrf.as_str())], 401),
            (vec![("cookie", cookie.as_str())], 403),
            (vec![("cookie", &cookie), ("x-csrf-token", "")], 403),
            (
                vec![("cookie", &cookie), ("x-csrf-token", &other_csrf)],
                403,
            ),
            (vec![("cookie", &cookie), ("x-csrf-token", &csrf[1..])], 403),
            (
                vec![
                    ("cookie", &cookie),
                    ("x-csrf-token", &csrf),
                    ("x-csrf-token", &csrf),
                ],
                403,
            ),
            (
                vec![("cookie", "countersign-desk=x"), ("x-csrf-token", &csrf)],
                401,
            ),
        ] {
            let mut headers = headers;
            headers.push(("content-type", "application/json"));
            let got = scene
                .send(Method::Post, "/api/answer", &headers, Some(&body))
                .await;
            assert_eq!(got.status, status, "{headers:?}");
        }
        let answer = [("id", "r-1"), ("action", "accept"), ("confirm", "true")];
        let with = |token| [("csrf", token), answer[0], answer[1], answer[2]];
        assert_eq!(
            scene.form("/answer", Some(&cookie), &answer).await.status,
            403
        );
        assert_eq!(
            scene
                .form("/answer", Some(&cookie), &with(&other_csrf))
                .await
                .status,
            403
        );
        let signed_out = scene.form("/answer", None, &with(&csrf)).await;
        assert_eq!(
            (signed_out.status, signed_out.header("location")),
            (303, Some("/"))
        );
        assert_eq!(
            scene.form("/sign-out", Some(&cookie), &[]).await.status,
            403
        );
        assert_eq!(scene.action("a", "r-1").await, "pending");

        // The same with the token is taken, so it was the token that was missing.
        let headers = [
            ("cookie", cookie.as_str()),
            ("x-csrf-token", &csrf),
            ("content-type", "application/json"),
        ];
        let got = scene
            .send(Method::Post, "/api/answer", &headers, Some(&body))
            .await;
        assert_eq!(
            (got.status, got.text("result").as_deref()),
            (200, Some("accept"))
        );
        scene.ask("a", "r-2").await;
        let fields = [("csrf", csrf.as_str()), ("id", "r-2"), ("action", "accept")];
        let got = scene.form("/answer", Some(&cookie), &fields).await;
        assert_eq!(
            (got.status, got.header("location")),
            (303, Some("/?answered=r-2"))
        );
        let polled = scene.poll("a", "r-2").await.body;
        assert!(
            polled.contains(r#""action":"accept","content":{"confirm":false}"#),
            "{polled}"
        );
        let page = scene
            .get("/?answered=r-2", &[("cookie", &cookie)])
            .await
            .body;
        assert!(
            page.contains(">That question was accepted without the tick by ana.<"),
            "{page}"
        );
        let page = scene
            .get("/?answered=%3Cb%3E", &[("cookie", &cookie)])
            .await
            .body;
        assert!(page.contains(">This question is gone.<") && !page.contains("<b>"));
        let out = scene
            .form("/sign-out", Some(&cookie), &[("csrf", &csrf)])
            .await;
        assert_eq!((out.status, out.header("location")), (303, Some("/")));
        assert!(
            out.header("set-cookie")
                .unwrap()
                .starts_with("countersign-desk=; Max-Age=0; Path=/; HttpOnly")
        );
    });
}

#[test]
fn a_sign_in_lasts_twelve_hours() {
    plain(|scene| async move {
        let got = scene.form("/sign-in", None, &[("key", ANA)]).await;
        let set = got.header("set-cookie").unwrap();
        assert!(
            set.ends_with("; Max-Age=43200; Path=/; HttpOnly; SameSite=Strict"),
            "{set}"
        );
        assert!(!set.contains(ANA));
        let cookie = format!("other=1; {}; last=2", set.split(';').next().unwrap());
        let twelve_hours = Duration::from_secs(12 * 60 * 60);
        scene
            .world
            .clock
            .advance(twelve_hours - Duration::from_millis(1));
        assert_eq!(
            scene
                .get("/api/pending", &[("cookie", &cookie)])
                .await
                .status,
            200
        );
        scene.world.clock.advance(Duration::from_millis(1));
        assert_eq!(
            scene
                .get("/api/pending", &[("cookie", &cookie)])
                .await
                .status,
            401
        );
        let page = scene.get("/", &[("cookie", &cookie)]).await;
        assert!(page.status == 200 && page.body.contains("id=\"sign-in\""));
    });
}

#[test]
fn over_https_the_cookie_is_bound_to_the_host() {
    let https = |settings: &mut DeskSettings| {
        settings.public_url = Url::parse("https://desk.example").unwrap();
    };
    with_desk(https, |scene| async move {
        let got = scene.form("/sign-in", None, &[("key", ANA)]).await;
        let set = got.header("set-cookie").unwrap();
        assert!(set.starts_with("__Host-countersign-desk="), "{set}");
        assert!(
            set.ends_with("; Path=/; HttpOnly; SameSite=Strict; Secure"),
            "{set}"
        );
        let created = scene.post(&scene.session("a"), &question("r-1")).await;
        assert!(
            created
                .body
                .contains(r#""com.pulsemcp/poll-url":"https://desk.example/api/v1/"#)
        );
    });
}

#[test]
fn wrong_keys_are_slowed_for_their_address() {
    plain(|scene| async move {
        let (cookie, _) = scene.sign_in(ANA).await;
        for _ in 0..10 {
            let got = scene.form("/sign-in", None, &[("key", "wrong")]).await;
            assert_eq!(got.status, 401);
            assert!(
                got.body.contains("This key opens nothing here.") && !got.body.contains("wrong")
            );
        }
        // No key is looked at, the right one neither, by neither way in.
        let got = scene.form("/sign-in", None, &[("key", ANA)]).await;
        assert_eq!((got.status, got.header("retry-after")), (429, Some("6")));
        let got = scene.answer(ANA, &accept("r-1")).await;
        assert_eq!((got.status, got.header("retry-after")), (429, Some("6")));
        // Whoever is signed in goes on.
        assert_eq!(
            scene
                .get("/api/pending", &[("cookie", &cookie)])
                .await
                .status,
            200
        );
        scene.world.clock.advance(Duration::from_secs(6));
        assert_eq!(
            scene.form("/sign-in", None, &[("key", ANA)]).await.status,
            303
        );
    });
}

#[test]
fn only_our_own_hosts_and_origins_are_served() {
    plain(|scene| async move {
        scene.ask("a", "r-1").await;
        let poll = format!("{}/r-1", scene.session("a"));
        let own = scene.address.to_string();
        let port = scene.address.port();
        for (host, status) in [
            (own.clone(), "200"),
            (format!("localhost:{port}"), "200"),
            ("localhost".to_owned(), "200"),
            (format!("[::1]:{port}"), "200"),
            ("desk.example".to_owned(), "200"),
            ("DESK.example:8443".to_owned(), "200"),
            (format!("evil.example:{port}"), "403"),
            ("localhost.evil.example".to_owned(), "403"),
            ("0.0.0.0".to_owned(), "403"),
            ("10.0.0.1".to_owned(), "403"),
        ] {
            for path in ["/", "/desk.js", poll.as_str()] {
                assert_eq!(
                    scene.raw_status("GET", path, &host, "").await,
                    status,
                    "{host} {path}"
                );
            }
            let answered = scene.raw_status("POST", "/sign-in", &host, "").await;
            assert_eq!(
                answered,
                if status == "403" { "403" } else { "415" },
                "{host}"
            );
        }
        let body = accept("r-1");
        let answer = |origin: &str| {
            format!(
                "{origin}Authorization: Bearer {ANA}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
        };
        for origin in [
            "Origin: http://evil.example\r\n".to_owned(),
            "Origin: null\r\n".to_owned(),
            "Origin: \r\n".to_owned(),
            "Origin: http://127.0.0.1:1\r\n".to_owned(),
            format!("Origin: http://localhost:{port}\r\n"),
            format!("Origin: http://{own}\r\nOrigin: http://{own}\r\n"),
            format!("Origin: http://{own}/\r\n"),
        ] {
            let status = scene
                .raw_status("POST", "/api/answer", &own, &answer(&origin))
                .await;
            assert_eq!(status, "403", "{origin}");
            for path in ["/sign-in", "/sign-out", "/answer", &scene.session("a")] {
                assert_eq!(
                    scene.raw_status("POST", path, &own, &origin).await,
                    "403",
                    "{origin} {path}"
                );
            }
        }
        assert_eq!(scene.action("a", "r-1").await, "pending");
        let ours = format!("Origin: http://{own}\r\n");
        assert_eq!(
            scene
                .raw_status("POST", "/api/answer", &own, &answer(&ours))
                .await,
            "200"
        );
        // No other origin is told that it may.
        let preflight = "Origin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n";
        let reply = scene
            .raw(&format!("OPTIONS /api/answer HTTP/1.1\r\nHost: {own}\r\nConnection: close\r\n{preflight}\r\n"))
            .await;
        assert!(
            reply.starts_with("HTTP/1.1 405 ") && !reply.to_lowercase().contains("access-control")
        );
    });
}

#[test]
fn an_asker_that_must_prove_itself_does() {
    let keyed = |settings: &mut DeskSettings| {
        settings.asker_keys = vec![sha256(b"first"), sha256(b"second")];
    };
    with_desk(keyed, |scene| async move {
        let session = scene.session("a");
        let body = question("r-1");
        for headers in [
            vec![],
            vec![("x-countersign-asker", "")],
            vec![("x-countersign-asker", "third")],
            vec![
                ("x-countersign-asker", "first"),
                ("x-countersign-asker", "first"),
            ],
            vec![("authorization", "Bearer first")],
        ] {
            let got = scene
                .send(Method::Post, &session, &headers, Some(&body))
                .await;
            assert_eq!(got.status, 401, "{headers:?}");
            assert_eq!(
                scene.get(&format!("{session}/r-1"), &headers).await.status,
                401
            );
        }
        let key = [("x-countersign-asker", "second")];
        assert_eq!(
            scene
                .send(Method::Post, &session, &key, Some(&body))
                .await
                .status,
            201
        );
        assert_eq!(scene.get(&format!("{session}/r-1"), &key).await.status, 200);
        // The key is no key to another door.
        let wrong = session.replace("a-", "b-");
        assert_eq!(
            scene
                .send(Method::Post, &wrong, &key, Some(&body))
                .await
                .status,
            401
        );
        let got = scene
            .get("/api/pending", &[("authorization", "Bearer ana-key")])
            .await;
        assert!(got.body.contains(r#""senderVerified":true"#));
    });
}

#[test]
fn what_one_session_can_ask_is_bounded() {
    plain(|scene| async move {
        let session = scene.session("a");
        let long = |length: usize, id: &str| {
            question(id).replace(r#"Delete \"a.txt\"?"#, &"x".repeat(length))
        };
        assert_eq!(scene.post(&session, &long(65_537, "r-x")).await.status, 422);
        assert_eq!(
            scene.post(&session, &long(262_144, "r-x")).await.status,
            413
        );
        for at in 0..64 {
            let id = format!("r-{at}");
            assert_eq!(scene.post(&session, &long(65_536, &id)).await.status, 201);
        }
        let full = scene.post(&session, &question("r-64")).await;
        assert_eq!((full.status, full.header("retry-after")), (429, Some("30")));
        scene.ask("b", "r-b").await;
        assert_eq!(scene.answer(ANA, &decline("r-7")).await.status, 200);
        scene.ask("a", "r-65").await;
        let got = scene
            .get("/api/pending", &[("authorization", "Bearer ana-key")])
            .await;
        assert_eq!(ids(&got).0.len(), 64);
    });
}

#[test]
fn the_history_is_the_last_fifty() {
    plain(|scene| async move {
        for at in 0..52 {
            let id = format!("r-{at}");
            scene.ask("a", &id).await;
            scene.world.clock.advance(Duration::from_millis(10));
            assert_eq!(scene.answer(ANA, &decline(&id)).await.status, 200);
        }
        let got = scene
            .get("/api/pending", &[("authorization", "Bearer ana-key")])
            .await;
        let (_, recent) = ids(&got);
        let expected: Vec<String> = (2..52).rev().map(|at| format!("r-{at}")).collect();
        assert_eq!(recent, expected);
        assert!(got.body.contains(
            r#""action":"decline","who":"ana","answered":1796040225520,"latencyMs":10}"#
        ));
        // After an hour there is nothing left, and its id may be used again.
        scene.world.clock.advance(Duration::from_secs(3600));
        assert_eq!(scene.poll("a", "r-51").await.status, 404);
        scene.ask("b", "r-51").await;
    });
}

/// Reads a stream until `wanted` came.
async fn read_until(reply: &mut Reply, wanted: &str) -> String {
    let mut all = String::new();
    while !all.contains(wanted) {
        let chunk = reply.next_chunk().await.unwrap().unwrap();
        all.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    all
}

#[test]
fn a_page_hears_of_its_own_sessions_and_of_nothing_else() {
    plain(|scene| async move {
        let (cookie, _) = scene.sign_in(ANA).await;
        let headers = [("cookie", cookie.as_str())];
        let mut events = scene
            .start(Method::Get, "/api/events", &headers, None)
            .await;
        assert_eq!(events.status, 200);
        assert_eq!(
            events.headers.only("content-type"),
            Ok(Some("text/event-stream"))
        );
        assert_eq!(events.headers.only("cache-control"), Ok(Some("no-store")));
        assert_eq!(read_until(&mut events, "\n\n").await, ": listening\n\n");
        let changed = "event: changed\ndata: {}\n\n";
        scene.ask("b", "r-b").await;
        scene.ask("a", "r-1").await;
        assert_eq!(read_until(&mut events, "\n\n").await, changed);
        scene.answer(ANA, &accept("r-1")).await;
        assert_eq!(read_until(&mut events, "\n\n").await, changed);
        scene.answer(BO, &decline("r-b")).await;
        scene.world.clock.advance(Duration::from_secs(15));
        assert_eq!(read_until(&mut events, "\n\n").await, ": quiet\n\n");
        // It ends with the sign-in.
        scene.world.clock.advance(Duration::from_secs(12 * 60 * 60));
        assert!(matches!(events.next_chunk().await, Ok(None)));
        assert_eq!(scene.get("/api/events", &headers).await.status, 401);
        assert_eq!(scene.get("/api/events", &[]).await.status, 401);
    });
}

#[test]
fn a_stream_whose_page_left_gives_its_place_up() {
    plain(|scene| async move {
        let (cookie, _) = scene.sign_in(ANA).await;
        let headers = [("cookie", cookie.as_str())];
        let mut held = Vec::new();
        loop {
            let mut events = scene
                .start(Method::Get, "/api/events", &headers, None)
                .await;
            if events.status == 503 {
                assert_eq!(events.headers.only("retry-after"), Ok(Some("10")));
                break;
            }
            read_until(&mut events, "\n\n").await;
            held.push(events);
        }
        assert_eq!(held.len(), 512);
        drop(held);
        // The server sees the closes on its own turns.
        while scene
            .start(Method::Get, "/api/events", &headers, None)
            .await
            .status
            == 503
        {
            smol::future::yield_now().await;
        }
    });
}

#[test]
fn every_answer_carries_the_pages_policy() {
    plain(|scene| async move {
        scene.ask("a", "r-1").await;
        let hostile = r#"{"message":"</div><script>alert(1)</script>","_meta":{"com.pulsemcp/request-id":"r-2",
            "com.pulsemcp/tool-name":"<img src=x onerror=alert(1)>"}}"#;
        assert_eq!(scene.post(&scene.session("a"), hostile).await.status, 201);
        let (cookie, _) = scene.sign_in(ANA).await;
        let signed_in = [("cookie", cookie.as_str())];
        let page = scene.get("/", &signed_in).await;
        assert!(page.body.contains("data-id=\"r-1\"") && page.body.contains("sender not verified"));
        assert!(!page.body.contains("<script>alert") && !page.body.contains("<img"));
        let poll = format!("{}/r-1", scene.session("a"));
        for (path, kind, referrer) in [
            ("/", "text/html; charset=utf-8", "same-origin"),
            ("/desk.js", "text/javascript; charset=utf-8", "no-referrer"),
            ("/desk.css", "text/css; charset=utf-8", "no-referrer"),
            (
                "/api/pending",
                "application/json; charset=utf-8",
                "no-referrer",
            ),
            (&poll, "application/json; charset=utf-8", "no-referrer"),
            ("/nowhere", "application/json; charset=utf-8", "no-referrer"),
        ] {
            let got = scene.get(path, &signed_in).await;
            assert_eq!(got.header("content-type"), Some(kind), "{path}");
            assert_eq!(got.header("referrer-policy"), Some(referrer), "{path}");
            assert_eq!(got.header("x-content-type-options"), Some("nosniff"));
            assert_eq!(got.header("cache-control"), Some("no-store"));
            assert!(
                got.header("content-security-policy")
                    .unwrap()
                    .starts_with("default-src 'none'")
            );
        }
    });
}

#[test]
fn a_person_answers_from_a_terminal() {
    plain(|scene| async move {
        scene.ask("a", "r-1").await;
        scene.ask("a", "r-2").await;
        scene.ask("b", "r-b").await;
        let (client, url, key) = (&scene.client, &scene.url, Secret::new(ANA.to_owned()));
        let seen = terminal::pending(client, NEVER, url, &key).await.unwrap();
        assert_eq!(seen.now_wall_ms, START_WALL_MS);
        let ids: Vec<&str> = seen.questions.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(ids, ["r-1", "r-2"]);
        let first = &seen.questions[0];
        assert_eq!(
            (first.message.as_str(), first.tool.as_str()),
            ("Delete \"a.txt\"?", "delete_file")
        );
        assert_eq!(
            (first.session.as_str(), first.title.as_str()),
            ("a", "Delete it?")
        );
        assert_eq!(first.expires_wall_ms, START_WALL_MS + 105_000);
        assert!(!first.sender_verified && first.description.is_none());
        for (id, answer, told) in [
            (
                "r-1",
                TerminalAnswer::Accept,
                Told::Now("accept".to_owned()),
            ),
            (
                "r-1",
                TerminalAnswer::Decline,
                Told::Already("accept".to_owned()),
            ),
            (
                "r-2",
                TerminalAnswer::Decline,
                Told::Now("decline".to_owned()),
            ),
            ("r-b", TerminalAnswer::Accept, Told::Unknown),
            ("\"}{", TerminalAnswer::Accept, Told::Unknown),
        ] {
            let result = terminal::answer(client, NEVER, url, &key, id, answer).await;
            assert_eq!(result, Ok(told), "{id}");
        }
        assert!(
            scene
                .poll("a", "r-1")
                .await
                .body
                .contains(r#"{"confirm":true}"#)
        );
        assert_eq!(scene.action("b", "r-b").await, "pending");

        let wrong = Secret::new("wrong".to_owned());
        for _ in 0..10 {
            let result = terminal::pending(client, NEVER, url, &wrong).await;
            assert_eq!(result.unwrap_err(), TerminalFault::WrongKey);
        }
        let result =
            terminal::answer(client, NEVER, url, &key, "r-b", TerminalAnswer::Accept).await;
        assert_eq!(result.unwrap_err(), TerminalFault::TooManyWrong);
    });
}

#[test]
fn a_session_url_is_minted_without_a_desk() {
    plain(|scene| async move {
        let urls = SessionUrls::new(&[Secret::new("s".repeat(32))], &scene.url).unwrap();
        let name = SessionName::parse("a").unwrap();
        assert_eq!(
            urls.url(&name).expose(),
            scene.desk.session_url(&name).expose()
        );
    });
}

#[test]
fn a_new_secret_can_stand_before_the_old_one() {
    let old = Secret::new("s".repeat(32));
    let turning = |settings: &mut DeskSettings| {
        settings.secrets = vec![Secret::new("n".repeat(32)), Secret::new("s".repeat(32))];
    };
    with_desk(turning, |scene| async move {
        let urls = SessionUrls::new(&[old], &scene.url).unwrap();
        let url = urls.url(&SessionName::parse("a").unwrap());
        let path = Url::parse(url.expose()).unwrap().path().to_owned();
        assert_ne!(path, scene.session("a"));
        assert_eq!(scene.post(&path, &question("r-1")).await.status, 201);
        assert_eq!(scene.action("a", "r-1").await, "pending");
    });
}

#[test]
fn settings_without_which_there_is_no_desk() {
    let runtime = Runtime::with(Clock::hand_driven(0), Net::real(), Random::system());
    let url = Url::parse("http://localhost:8601").unwrap();
    let fault = |change: fn(&mut DeskSettings)| {
        let mut settings = settings(&url);
        change(&mut settings);
        Desk::new(runtime.world().clone(), settings).err()
    };
    assert_eq!(fault(|_| {}), None);
    assert!(matches!(
        fault(|s| s.secrets.clear()),
        Some(DeskFault::Secret(_))
    ));
    let short = fault(|s| s.secrets.push(Secret::new("hunter2".to_owned()))).unwrap();
    assert!(!format!("{short} {short:?}").contains("hunter2"));
    let path = |s: &mut DeskSettings| s.public_url.set_path("/desk");
    assert_eq!(fault(path), Some(DeskFault::PublicUrl));
    let host = |s: &mut DeskSettings| s.allowed_hosts.push("a/b".to_owned());
    assert_eq!(fault(host), Some(DeskFault::AllowedHost { position: 1 }));
    let twice = |s: &mut DeskSettings| s.people.push(s.people[0].clone());
    assert_eq!(fault(twice), Some(DeskFault::PersonTwice { position: 2 }));
    let printed = format!("{:?}", settings(&url));
    assert!(
        !printed.contains("sss") && !printed.contains("key"),
        "{printed}"
    );
}

/// Row S34 of the protocol's checklist: "URL page checks who opens it; URL has no user data, not pre-authenticated".
#[test]
fn s34_the_page_where_people_answer_wants_to_know_who_opens_it() {
    plain(async |scene: Scene| {
        scene.ask("a", "1").await;
        for cookie in ["", "countersign=forged"] {
            let page = scene.get("/", &[("cookie", cookie)]).await;
            assert!(page.body.contains("name=\"key\""), "{}", page.body);
            assert!(!page.body.contains("message of 1"), "{}", page.body);
            let list = scene.get("/api/pending", &[("cookie", cookie)]).await;
            assert_eq!(list.status, 401, "{}", list.body);
        }
        let (cookie, _) = scene.sign_in(ANA).await;
        let page = scene.get("/", &[("cookie", &cookie)]).await;
        assert_eq!(page.status, 200);
        assert!(!page.body.contains("name=\"key\""), "{}", page.body);
    });
}
