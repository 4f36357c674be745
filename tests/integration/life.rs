//! A gateway whose configuration changes while it runs, and one that ends.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use countersign::gateway::Admin;
use countersign::world::World;
use rustix::process::Signal;

use crate::binary::{File, Server};
use crate::chain;
use crate::eras::{Served, modern};
use crate::lab::{self, Acts, Caller, Endpoint, Reply, advancing, within};
use crate::rows::client::{Far, JSON, modern as rows_modern, result};
use crate::support::{OnThread, Raw};

const TOKEN: &str = "life-token";

/// What the gateway is started with, and what may be said instead.
fn text(endpoint: &Endpoint, acts: &Acts, bundle: Option<&str>) -> String {
    let hash = countersign::secret::hex(&countersign::secret::sha256(TOKEN.as_bytes()));
    let tokens = format!(
        "gateway:\n  tokens:\n    - {{id: ann, sha256: {hash}, roles: [admin]}}\n    - {{id: bob, sha256: {}, roles: [admin]}}\n",
        "1".repeat(64)
    );
    chain::text(endpoint, &acts.argv(), bundle).replace("gateway:\n", &tokens)
}

/// Holds a call, puts `change`d text in the place of what the gateway was started with, says yes, and gives what the caller
/// got and how often it acted.
async fn reloaded(world: &World, two: bool, change: fn(String) -> String) -> (String, usize) {
    let (endpoint, acts) = (Endpoint::start(world), Acts::new());
    let address = two.then(|| {
        let inside = lab::config(&text(&endpoint, &acts, Some("http://127.0.0.1:1/")));
        format!("http://{}/", lab::bundle(world, &inside, "b"))
    });
    let text = text(&endpoint, &acts, address.as_deref());
    let (gateway, reload) = lab::reloadable(world, &lab::config(&text));
    let caller = Caller::connect(world, gateway).await;
    let channel = endpoint.channel("1-token-4bd9");
    let token = format!("Bearer {TOKEN}");
    let headers = [("X-Elicitation-Url", &*channel), ("Authorization", &*token)];
    caller
        .send(&lab::call("/mcp?servers=s", "act", "{}", &headers))
        .await;
    let (question, created) = within("the question", endpoint.next()).await;
    assert!(question.is_post());
    let _ = created.try_send(lab::created());
    reload(&lab::config(&change(text)));
    let answering = endpoint.answer(Reply::accept());
    let ended = caller.until("countersign/outcome\":\"");
    let ended = smol::future::or(ended, async {
        answering.await;
        unreachable!()
    });
    let got = within("the call", advancing(world, ended)).await;
    (got, acts.count())
}

type Changed = (&'static str, fn(String) -> String, &'static str);

/// What no longer allows a call that waits, and what a model reads then.
const CHANGES: [Changed; 6] = [
    (
        "the token is withdrawn",
        |text| text.replace("id: ann", "id: eve"),
        "the caller's token was withdrawn",
    ),
    (
        "the prefix is removed",
        |text| {
            let (before, rest) = text.split_once("allowedUrlPrefixes: [\"").unwrap();
            let (_, after) = rest.split_once('"').unwrap();
            format!("{before}allowedUrlPrefixes: [\"https://other.example/a/{after}")
                .replacen("/a/]", "/a/\"]", 1)
        },
        "is not allowed any more",
    ),
    (
        "the tool's gate says something else",
        |text| text.replace("gate: It acts.", "gate: It acts twice."),
        "has changed since the question was asked",
    ),
    (
        "the tool runs something else",
        |text| text.replace("argv: [sh,", "argv: [bash,"),
        "has changed since the question was asked",
    ),
    (
        "the server asks in another way",
        |text| text.replace("edge-secret-91b7", "edge-secret-other"),
        "has changed since the question was asked",
    ),
    (
        "the server is gone",
        |text| {
            text.replace("slug: s\n", "slug: t\n")
                .replace("path: /s", "path: /t")
        },
        "may not use this server any more",
    ),
];

#[test]
fn a_yes_under_other_rules_acts_for_nobody() {
    for (what, change, why) in CHANGES {
        lab::run(move |world| async move {
            let (got, acts) = reloaded(&world, false, change).await;
            assert!(got.contains(why), "{what}: {got}");
            assert!(
                got.contains(r#""countersign/outcome":"policy-changed""#),
                "{what}: {got}"
            );
            assert_eq!(acts, 0, "{what}");
        });
        // A bundle elsewhere knows nothing of tokens and prefixes: there the call is broken off at once.
        lab::run(move |world| async move {
            let (got, acts) = reloaded(&world, true, change).await;
            assert!(got.contains(why), "{what}: {got}");
            assert!(
                got.contains(r#""countersign/outcome":"unknown""#),
                "{what}: {got}"
            );
            assert_eq!(acts, 0, "{what}");
        });
    }
}

#[test]
fn a_call_that_is_still_allowed_goes_on_under_other_rules() {
    for two in [false, true] {
        lab::run(move |world| async move {
            let (got, acts) = reloaded(&world, two, |text| {
                // Further down, in other words, and with another server beside it.
                let (gateway, servers) = text.split_once("servers:\n").unwrap();
                format!("# moved\n\n{gateway}servers:\n  - slug: more\n    kind: command\n    tools: [{{name: t, argv: [date]}}]\n{servers}")
            })
            .await;
            assert!(got.contains(r#""countersign/outcome":"done""#), "{got}");
            assert_eq!(acts, 1);
        });
    }
}

#[test]
fn listeners_hear_of_other_rules_and_calls_follow_them() {
    lab::run(|world| async move {
        let acts = Acts::new();
        let text = |gate: &str| {
            lab::config(&format!(
                "servers:\n  - slug: one\n    kind: command\n    confirmations: true\n    tools:\n      - {{name: act, argv: {}{gate}}}\n",
                acts.argv()
            ))
        };
        let (address, reload) = lab::reloadable(&world, &text(""));
        let (_, mut near) = Served::apart(&world, false);
        near.address = address;
        let (headers, body) = modern(
            "subscriptions/listen",
            r#""notifications":{"toolsListChanged":true}"#,
            "{}",
            "",
        );
        let listening = near.post(&headers, &body).await;
        listening.until("acknowledged").await;
        let (headers, body) = modern("tools/call", r#""name":"one__act""#, "{}", "");
        let got = advancing(&world, near.whole(&headers, &body)).await;
        assert!(
            got.contains(r#""exitCode":0"#) && acts.count() == 1,
            "{got}"
        );
        reload(&text(", gate: It acts."));
        let heard = within("the news", listening.until("tools/list_changed")).await;
        assert!(heard.contains("acknowledged"), "{heard}");
        let got = near.whole(&headers, &body).await;
        assert!(got.contains("nobody-to-ask") && acts.count() == 1, "{got}");
    });
}

// --- who is watched, and who is slowed ---

async fn get(world: &World, address: std::net::SocketAddr, path: &str) -> String {
    let caller = Caller::connect(world, address).await;
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: 10.0.0.7:8602\r\nConnection: close\r\n\r\n");
    caller.send(request.as_bytes()).await;
    advancing(world, caller.until("\u{0}never")).await
}

/// "`/readyz` (false while an upstream that is required is down or while draining)" (issue).
#[test]
fn a_gateway_is_ready_while_what_it_needs_is_up() {
    lab::run(|world| async move {
        let up = Arc::new(AtomicBool::new(false));
        let is_up = up.clone();
        let far = Far::start(
            &world,
            rows_modern(move |seen| match is_up.load(Ordering::Relaxed) {
                true => result(seen, r#"{"tools":[]}"#),
                false => Some((500, JSON, String::new())),
            }),
        );
        let text = |required: bool| {
            lab::config(&format!(
                "servers:\n  - {{slug: far, kind: remote-http, url: \"http://{}/mcp\", required: {required}}}\n  - {{slug: off, kind: remote-http, url: \"http://127.0.0.1:1/mcp\"}}\n",
                far.address
            ))
        };
        let gateway = Arc::new(lab::gateway_apart(&world, &text(true)));
        let admin = lab::listen(&world, Admin::new(gateway));
        let got = get(&world, admin, "/healthz").await;
        assert!(
            got.starts_with("HTTP/1.1 200 ") && got.ends_with("ok\n"),
            "{got}"
        );
        let got = get(&world, admin, "/readyz").await;
        assert!(
            got.starts_with("HTTP/1.1 503 ") && got.ends_with("far is down\n"),
            "{got}"
        );
        // It is believed for a while, however often anyone looks.
        up.store(true, Ordering::Relaxed);
        let looks = far.seen().len();
        world.clock.advance(Duration::from_secs(5));
        let got = get(&world, admin, "/readyz").await;
        assert!(got.starts_with("HTTP/1.1 200 "), "{got}");
        assert!(far.seen().len() > looks);
        for path in ["/", "/mcp", "/metrics", "/admin/roster", "/readyz/x"] {
            assert!(
                get(&world, admin, path).await.starts_with("HTTP/1.1 404 "),
                "{path}"
            );
        }
        let optional = Arc::new(lab::gateway_apart(&world, &text(false)));
        up.store(false, Ordering::Relaxed);
        let other = lab::listen(&world, Admin::new(optional));
        assert!(
            get(&world, other, "/readyz")
                .await
                .starts_with("HTTP/1.1 200 ")
        );
        // Whoever is connected already is told.
        let caller = Caller::connect(&world, admin).await;
        caller.send(b"GET /readyz HTTP/1.1\r\nHost: a\r\n").await;
        lab::turn().await;
        world.ending.begin(Duration::from_secs(1));
        caller.send(b"\r\n").await;
        let got = caller.until("about to end").await;
        assert!(got.starts_with("HTTP/1.1 503 "), "{got}");
    });
}

async fn post(world: &World, address: std::net::SocketAddr, path: &str, headers: &str) -> String {
    let caller = Caller::connect(world, address).await;
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n{headers}\r\n"
    );
    caller.send(request.as_bytes()).await;
    caller.until("\u{0}never").await
}

/// "refuse every confirmed tool until thawed" (interface), those that wait included.
#[test]
fn a_frozen_gateway_asks_nobody_and_takes_no_yes() {
    for two in [false, true] {
        lab::run(move |world| async move {
            let (endpoint, acts) = (Endpoint::start(&world), Acts::new());
            let address = two.then(|| {
                let inside = lab::config(&text(&endpoint, &acts, Some("http://127.0.0.1:1/")));
                format!("http://{}/", lab::bundle(&world, &inside, "b"))
            });
            let role = "    - {id: low, sha256: LOW, roles: [none]}\n".replace(
                "LOW",
                &countersign::secret::hex(&countersign::secret::sha256(b"low-token")),
            );
            let text = text(&endpoint, &acts, address.as_deref())
                .replace("  tokens:\n", &format!("  tokens:\n{role}"));
            let gateway = Arc::new(lab::gateway_apart(&world, &lab::config(&text)));
            let admin = lab::listen(&world, Admin::new(gateway.clone()));
            let mcp = countersign::mcp::Server::new(world.clone(), gateway, lab::settings());
            let mcp = lab::listen(&world, mcp);
            let token = format!("Bearer {TOKEN}");
            let ours = format!("Authorization: {token}\r\n");
            let call = async || {
                let caller = Caller::connect(&world, mcp).await;
                let channel = endpoint.channel("1-token-4bd9");
                let headers = [("X-Elicitation-Url", &*channel), ("Authorization", &*token)];
                let bytes = lab::call("/mcp?servers=s", "act", "{}", &headers);
                caller.send(&bytes).await;
                caller
            };

            // By whom it may be frozen, and from where.
            for (headers, status) in [
                (String::new(), "401"),
                ("Authorization: Bearer low-token\r\n".to_owned(), "403"),
                (format!("{ours}Origin: http://localhost:8602\r\n"), "403"),
            ] {
                let got = post(&world, admin, "/admin/freeze", &headers).await;
                assert!(got.starts_with(&format!("HTTP/1.1 {status} ")), "{got}");
            }
            let got = get(&world, admin, "/admin/freeze").await;
            assert!(got.starts_with("HTTP/1.1 405 "), "{got}");

            let waiting = call().await;
            let (_, created) = within("the question", endpoint.next()).await;
            let _ = created.try_send(lab::created());
            let got = post(&world, admin, "/admin/freeze", &ours).await;
            assert!(got.ends_with("frozen\n"), "{got}");
            let answering = async {
                endpoint.answer(Reply::accept()).await;
                unreachable!()
            };
            let ended = smol::future::or(waiting.until("countersign/outcome\":\""), answering);
            let got = within("the call", advancing(&world, ended)).await;
            assert!(got.contains("an operator has stopped every tool"), "{got}");
            let outcome = if two { "unknown" } else { "frozen" };
            assert!(
                got.contains(&format!(r#""countersign/outcome":"{outcome}""#)),
                "{got}"
            );

            // Nobody is asked any more, until it is thawed.
            let got = call().await.until("countersign/outcome\":\"").await;
            assert!(got.contains(r#""countersign/outcome":"frozen""#), "{got}");
            assert_eq!(acts.count(), 0);
            let got = post(&world, admin, "/admin/thaw", &ours).await;
            assert!(got.ends_with("thawed\n"), "{got}");
            let again = call().await;
            let answering = async {
                endpoint.answer(Reply::accept()).await;
                unreachable!()
            };
            let ended = smol::future::or(again.until("countersign/outcome\":\""), answering);
            let got = within("the call", advancing(&world, ended)).await;
            assert!(got.contains(r#""countersign/outcome":"done""#), "{got}");
            assert_eq!(acts.count(), 1);
        });
    }
}

/// "failing requests are slowed per address in a bounded table, a valid token never is" (issue).
#[test]
fn who_has_no_token_is_slowed_and_who_has_one_never_is() {
    lab::run(|world| async move {
        let (endpoint, acts) = (Endpoint::start(&world), Acts::new());
        let config = lab::config(&text(&endpoint, &acts, None));
        let (_, mut near) = Served::apart(&world, false);
        near.address = lab::gateway(&world, &config);
        let ask = async |token: &str| {
            let (headers, body) = modern("tools/list", "", "{}", "");
            let headers = format!("{headers}Authorization: Bearer {token}\r\n");
            near.whole(&headers, &body).await
        };
        for _ in 0..10 {
            assert!(ask("wrong").await.starts_with("HTTP/1.1 401 "));
        }
        for token in ["wrong", "other", ""] {
            let got = ask(token).await;
            assert!(got.starts_with("HTTP/1.1 429 "), "{got}");
            assert!(got.to_lowercase().contains("retry-after: "), "{got}");
            assert!(ask(TOKEN).await.starts_with("HTTP/1.1 200 "));
        }
        world.clock.advance(Duration::from_secs(6));
        assert!(ask("wrong").await.starts_with("HTTP/1.1 401 "));
    });
}

// --- the real program ---

#[test]
fn a_container_is_asked_whether_it_lives() {
    let text = |port: &str| {
        format!("gateway: {{listen: 127.0.0.1:0, adminListen: {port}}}\nservers: []\n")
    };
    let config = File::new("health.yaml", &text("127.0.0.1:0"));
    let server = Server::start(&["serve", "--config", config.path()], &[]);
    let asked = File::new("asked.yaml", &text(&server.address("admin")));
    let health = || {
        std::process::Command::new(env!("CARGO_BIN_EXE_countersign"))
            .args(["health", "--config", asked.path()])
            .output()
            .unwrap()
    };
    let done = health();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert_eq!(done.stdout, b"ok\n");
    let admin = std::fs::read_to_string(asked.path()).unwrap();
    let admin = admin
        .split("adminListen: ")
        .nth(1)
        .unwrap()
        .split('}')
        .next()
        .unwrap();
    for (command, said) in [("freeze", "frozen\n"), ("thaw", "thawed\n")] {
        let done = std::process::Command::new(env!("CARGO_BIN_EXE_countersign"))
            .args([command, "--gateway", &format!("http://{admin}")])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&done.stdout), said, "{done:?}");
    }
    server.signal(Signal::TERM);
    assert_eq!(server.ended().0, Some(0));
    let done = health();
    assert_eq!(done.status.code(), Some(1), "{done:?}");
}

fn list(address: &str) -> String {
    let mut raw = Raw::of(TcpStream::connect(address).unwrap());
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;
    raw.send(format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    raw.answer().body
}

/// "SIGHUP reloads; a wrong new configuration is refused whole and the old one stays" (interface).
#[test]
fn sighup_puts_a_whole_configuration_in_place_or_nothing_of_it() {
    let text = |listen: &str, tools: &str| {
        format!(
            "gateway: {{listen: {listen}}}\nservers:\n  - {{slug: one, kind: command, tools: [{tools}]}}\nlog: {{level: warn}}\n"
        )
    };
    let first = "{name: first, argv: [date]}";
    let config = File::new("reload.yaml", &text("127.0.0.1:0", first));
    let server = Server::start(&["serve", "--config", config.path()], &[]);
    let address = server.address("gateway");
    for (wrong, said) in [
        (
            text("127.0.0.1:0", "{name: second, argv: date}"),
            "the old configuration stays: the configuration is wrong",
        ),
        (
            text("127.0.0.1:1", "{name: second, argv: [date]}"),
            "the old configuration stays: gateway.listen changed, which is read at start only",
        ),
    ] {
        std::fs::write(config.path(), wrong).unwrap();
        server.signal(Signal::HUP);
        server.line(said);
        let listed = list(&address);
        assert!(
            listed.contains("one__first") && !listed.contains("second"),
            "{listed}"
        );
    }
    std::fs::write(
        config.path(),
        text("127.0.0.1:0", "{name: second, argv: [date]}"),
    )
    .unwrap();
    server.signal(Signal::HUP);
    server.line("the configuration was read anew");
    let listed = list(&address);
    assert!(
        listed.contains("one__second") && !listed.contains("first"),
        "{listed}"
    );
}

/// A server with a gated tool and one that waits for a line of a FIFO, and an endpoint that never answers.
struct Busy {
    server: Server,
    address: String,
    endpoint: Endpoint,
    _there: OnThread,
    _config: File,
    fifo: File,
}

impl Busy {
    fn start(drain_ms: u32) -> Self {
        let there = OnThread::hand_driven();
        let endpoint = Endpoint::start(&there.world);
        let fifo = File::new("fifo", "");
        std::fs::remove_file(fifo.path()).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(fifo.path())
            .status();
        assert!(made.unwrap().success());
        let config = File::new(
            "drain.yaml",
            &format!(
                "gateway: {{listen: 127.0.0.1:0, elicitation: {{allowedUrlPrefixes: [\"{}\"]}}}}\nservers:\n  - slug: one\n    kind: command\n    confirmations: true\n    tools:\n      - {{name: act, argv: [date], gate: It acts.}}\n      - {{name: slow, argv: [cat, {}]}}\ntiming: {{drainMs: {drain_ms}}}\nlog: {{level: warn}}\n",
                endpoint.prefix(),
                fifo.path()
            ),
        );
        let server = Server::start(&["serve", "--config", config.path()], &[]);
        let address = server.address("gateway");
        Self {
            server,
            address,
            endpoint,
            _there: there,
            _config: config,
            fifo,
        }
    }

    fn call(&self, tool: &str) -> Raw {
        let mut raw = Raw::of(TcpStream::connect(&self.address).unwrap());
        let channel = self.endpoint.channel("1-token-aa");
        raw.send(lab::call(
            "/mcp?servers=one",
            tool,
            "{}",
            &[("X-Elicitation-Url", &channel)],
        ));
        raw
    }
}

/// "SIGTERM drains: no new calls, waiting ones end as cancelled within `drainMs`, exit 0" (interface). What acts has its
/// time.
#[test]
fn sigterm_ends_what_waits_and_lets_what_acts_end() {
    let busy = Busy::start(60_000);
    let mut waiting = busy.call("act");
    let mut acting = busy.call("slow");
    let idle = Raw::of(TcpStream::connect(&busy.address).unwrap());
    let (question, _held) = smol::block_on(within("the question", busy.endpoint.next()));
    assert!(question.is_post());
    // Opened for reading: the program runs.
    let mut fifo = std::fs::OpenOptions::new()
        .write(true)
        .open(busy.fifo.path())
        .unwrap();
    busy.server.signal(Signal::TERM);
    let told = waiting.until("countersign/outcome\":\"cancelled\"");
    assert!(told.contains("The call did not run"), "{told}");
    // Nothing new is taken, on no connection.
    assert_eq!(idle.end().0, "");
    assert!(TcpStream::connect(&busy.address).is_err());
    fifo.write_all(b"late but whole\n").unwrap();
    drop(fifo);
    acting.until("late but whole");
    let (code, _) = busy.server.ended();
    assert_eq!(code, Some(0));
}

#[test]
fn what_does_not_end_in_time_is_dropped() {
    for again in [false, true] {
        let busy = Busy::start(if again { 86_400_000 } else { 100 });
        let acting = busy.call("slow");
        let _fifo = std::fs::OpenOptions::new()
            .write(true)
            .open(busy.fifo.path())
            .unwrap();
        busy.server.signal(Signal::TERM);
        if again {
            // Once it is draining, which closes its listener.
            while TcpStream::connect(&busy.address).is_ok() {}
            busy.server.signal(Signal::TERM);
        }
        let (code, _) = busy.server.ended();
        assert_eq!(code, Some(0));
        drop(acting);
    }
}
