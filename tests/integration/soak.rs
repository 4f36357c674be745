//! Many callers that connect, call and leave at random, and a bundle that is restarted meanwhile: at the end everything is
//! back where it began, and nothing acted twice or without a yes.
//!
//! `tests/all --long` runs it. `SOAK_CALLS` says how many calls each caller makes.

use std::collections::HashMap;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use countersign::world::Random;

use crate::binary::{File, Server};
use crate::lab::{self, Acts, Endpoint, Reply};
use crate::support::{OnThread, PATIENCE, Raw};

const CALLERS: u64 = 16;

/// Descriptors of a process that has nothing to do: listeners, the poller and its friends, the log, a connection or two, and
/// at most 32 idle ones to the one origin that it asks (`http::pool`).
const AT_REST: usize = 24 + 32;

/// What becomes of the question with this number.
fn answer(number: u64) -> &'static str {
    match number % 8 {
        0 => "nobody answers",
        1 => "decline",
        2 => "cancel",
        _ => "accept",
    }
}

fn config(endpoint: &Endpoint, acts: &Acts, bundle: &str) -> String {
    format!(
        "gateway:\n  listen: 127.0.0.1:0\n  adminListen: 127.0.0.1:0\n  elicitation: {{allowedUrlPrefixes: [\"{}\"]}}\nbundles:\n  b: {{url: \"http://{bundle}/\", listen: {bundle}, key: soak-bundle-key-0123456789}}\nservers:\n  - slug: s\n    kind: supplementary-image\n    image: none\n    bundle: b\n    path: /s\n    mount: command\n    confirmations: true\n    timeoutMs: 4000\n    tools:\n      - {{name: open, argv: [echo, hello]}}\n      - {{name: act, argv: {}, gate: It acts., options: {{note: --note}}}}\ntiming: {{pollMs: 1000, idleMs: 1000}}\nlog: {{level: error}}\n",
        endpoint.prefix(),
        acts.argv()
    )
}

fn list() -> String {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// What came until `marker`, or the end.
fn until(stream: &mut TcpStream, marker: &str) -> String {
    let mut got = Vec::new();
    let mut some = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&got).into_owned();
        if text.contains(marker) {
            return text;
        }
        match stream.read(&mut some) {
            Ok(count) if count > 0 => got.extend_from_slice(&some[..count]),
            _ => return text,
        }
    }
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

fn children(pid: u32) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    text.unwrap_or_default().split_whitespace().count()
}

fn anonymous_kb(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon"));
    line.unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}

fn wait_for(what: &str, mut met: impl FnMut() -> bool) {
    let since = Instant::now();
    while !met() {
        assert!(since.elapsed() < PATIENCE, "never came: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The call with this number, which asks.
fn gated(endpoint: &Endpoint, number: u64) -> Vec<u8> {
    let channel = endpoint.channel(&format!("1-soak-{number}"));
    let arguments = format!(r#"{{"note":"{number}"}}"#);
    lab::call(
        "/mcp?servers=s",
        "act",
        &arguments,
        &[("X-Elicitation-Url", &channel), ("Connection", "close")],
    )
}

/// One caller's next step, and what a gated call came to.
fn step(address: &str, endpoint: &Endpoint, number: u64, random: &Random) -> Option<String> {
    use std::io::Write;
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let gated = || gated(endpoint, number);
    match random.u64() % 8 {
        0 => {
            stream.write_all(list().as_bytes()).ok()?;
            until(&mut stream, "\u{0}never");
        }
        1 => {
            let call = lab::call("/mcp?servers=s", "open", "{}", &[("Connection", "close")]);
            stream.write_all(&call).ok()?;
            until(&mut stream, "hello");
        }
        2 => stream
            .write_all(&gated()[..(random.u64() % 300) as usize])
            .ok()?,
        3 => stream.write_all(&gated()).ok()?,
        4 => {
            stream.write_all(&gated()).ok()?;
            until(&mut stream, ": held");
        }
        5 => {
            let get = "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n";
            stream.write_all(get.as_bytes()).ok()?;
            until(&mut stream, "listening");
        }
        _ => {
            stream.write_all(&gated()).ok()?;
            let got = until(&mut stream, "countersign/outcome\":\"");
            let rest = got + &until(&mut stream, "\"");
            let word = rest.split("countersign/outcome\":\"").nth(1)?;
            return Some(word.split('"').next()?.to_owned());
        }
    }
    None
}

#[test]
#[ignore = "takes minutes: tests/all --long runs it"]
fn everything_is_back_where_it_began() {
    let calls: u64 = std::env::var("SOAK_CALLS").map_or(150, |calls| calls.parse().unwrap());
    let there = OnThread::hand_driven();
    let endpoint = Arc::new(Endpoint::start(&there.world));
    let acts = Acts::new();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let bundle_at = free.local_addr().unwrap().to_string();
    drop(free);
    let config = File::new("soak.yaml", &config(&endpoint, &acts, &bundle_at));
    let start_bundle = || {
        let bundle = Server::start(&["bundle", "--config", config.path(), "--bundle", "b"], &[]);
        bundle.address("bundle");
        bundle
    };
    let mut bundle = Some(start_bundle());
    let gateway = Server::start(&["gateway", "--config", config.path()], &[]);
    let address = gateway.address("gateway");

    // People.
    let answering = endpoint.clone();
    let people = std::thread::spawn(move || {
        smol::block_on(async {
            while let Ok((seen, reply)) = answering.seen.recv().await {
                let number = seen.target.split("1-soak-").nth(1).unwrap_or_default();
                let number: String = number.chars().take_while(char::is_ascii_digit).collect();
                let with = match answer(number.parse().unwrap_or_default()) {
                    _ if seen.is_post() => lab::created(),
                    "accept" => Reply::accept(),
                    "nobody answers" => Reply::pending(),
                    word => Reply::json(&format!(r#"{{"action":"{word}","content":null}}"#)),
                };
                let _ = reply.try_send(with);
            }
        });
    });

    let next = Arc::new(AtomicU64::new(1));
    let outcomes: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
    let wrong: Arc<Mutex<Vec<String>>> = Arc::default();
    let work = |callers: u64, calls: u64| {
        let workers: Vec<_> = (0..callers)
            .map(|caller| {
                let (next, outcomes, wrong) = (next.clone(), outcomes.clone(), wrong.clone());
                let (address, endpoint) = (address.clone(), endpoint.clone());
                std::thread::spawn(move || {
                    let random = Random::seeded(caller * 7919 + 1);
                    for _ in 0..calls {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(word) = step(&address, &endpoint, number, &random) else {
                            continue;
                        };
                        let fits = match answer(number) {
                            "accept" => !matches!(&*word, "declined" | "cancelled"),
                            "decline" => word != "done" && word != "cancelled",
                            "cancel" => word != "done" && word != "declined",
                            _ => word != "done" && word != "declined",
                        };
                        if !fits {
                            wrong.lock().unwrap().push(format!("{number}: {word}"));
                        }
                        *outcomes.lock().unwrap().entry(word).or_default() += 1;
                    }
                })
            })
            .collect();
        workers
    };

    // Warm.
    for worker in work(CALLERS, 10) {
        worker.join().unwrap();
    }
    wait_for("calm after warming up", || children(gateway.id()) == 0);
    let before = anonymous_kb(gateway.id());

    let workers = work(CALLERS, calls);
    let done = AtomicBool::new(false);
    let mut restarts = 0;
    std::thread::scope(|scope| {
        let done = &done;
        scope.spawn(move || {
            for worker in workers {
                worker.join().unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        let mut at = next.load(Ordering::Relaxed);
        while !done.load(Ordering::Relaxed) {
            // After every so many calls the bundle is killed and started again.
            if next.load(Ordering::Relaxed) > at + CALLERS * 20 {
                at = next.load(Ordering::Relaxed);
                drop(bundle.take());
                bundle = Some(start_bundle());
                restarts += 1;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });

    // Idle connections are closed by whoever accepted them, and forgotten by whoever opened them when it is used again.
    let settle = || {
        std::thread::sleep(Duration::from_millis(1500));
        there.advance(Duration::from_secs(61));
        std::thread::sleep(Duration::from_millis(200));
        let number = next.fetch_add(8, Ordering::Relaxed) / 8 * 8 + 3;
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        std::io::Write::write_all(&mut stream, &gated(&endpoint, number)).unwrap();
        let got = until(&mut stream, "countersign/outcome\":\"done\"");
        assert!(got.contains("done"), "{got}");
    };
    settle();
    wait_for("the gateway's descriptors", || {
        descriptors(gateway.id()) <= AT_REST
    });
    let id = bundle.as_ref().map_or(0, Server::id);
    wait_for("the bundle's children", || children(id) == 0);
    wait_for("the bundle's descriptors", || descriptors(id) <= AT_REST);
    let after = anonymous_kb(gateway.id());
    println!(
        "{} calls, {restarts} restarts of the bundle; outcomes {:?}; the gateway's anonymous memory {before} KB when warm, {after} KB at the end",
        next.load(Ordering::Relaxed),
        outcomes.lock().unwrap(),
    );
    assert_eq!(*wrong.lock().unwrap(), Vec::<String>::new());
    assert!(after < before + 4096, "{before} {after}");

    // Each act once, and by a yes.
    let mut numbers: Vec<u64> = acts
        .lines()
        .iter()
        .map(|line| line.rsplit('=').next().unwrap().trim().parse().unwrap())
        .collect();
    assert!(numbers.iter().all(|number| answer(*number) == "accept"));
    let all = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), all, "an act twice");
    let told = outcomes
        .lock()
        .unwrap()
        .get("done")
        .copied()
        .unwrap_or_default();
    assert!(all >= told && told > 0, "{all} acts, {told} told");

    // It still works.
    let mut raw = Raw::of(TcpStream::connect(&address).unwrap());
    raw.send(list());
    assert_eq!(raw.answer().status, 200);
    drop((gateway, bundle));
    endpoint.seen.close();
    people.join().unwrap();
}
