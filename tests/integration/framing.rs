//! Every kind of framing fault that shipped somewhere (cases/http.md), as raw bytes over real sockets: what the caller saw,
//! whether a handler ran, and that a healthy request on a fresh connection works after it. Each input also byte by byte,
//! and cut at every offset by a close.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use countersign::http::{Handler, Request, Responded, Responder};
use countersign::world::World;

use crate::lab::{self, Caller};

/// Answers with method, target and body, and counts how often it was asked.
struct Echo(Arc<AtomicUsize>);

impl Handler for Echo {
    async fn handle(&self, request: Request, responder: Responder) -> Responded {
        let Request { head, body, .. } = request;
        match body.read_all(100).await {
            Ok(body) => {
                self.0.fetch_add(1, Ordering::Relaxed);
                let text = format!(
                    "<{:?} {} {}>",
                    head.method,
                    head.target,
                    String::from_utf8_lossy(&body)
                );
                responder.send(200, &[], text.as_bytes()).await
            }
            Err(fault) => responder.send(fault.status(), &[], b"").await,
        }
    }
}

fn start(world: &World) -> (SocketAddr, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    (lab::listen(world, Echo(runs.clone())), runs)
}

/// Sends `bytes` in the given pieces and reads to the end of the connection.
async fn exchange(world: &World, address: SocketAddr, pieces: &[&[u8]]) -> String {
    let caller = Caller::connect(world, address).await;
    for piece in pieces {
        // A server that refused already may have closed.
        let _ = caller.stream.write_all(piece).await;
        if pieces.len() > 1 {
            smol::unblock(|| ()).await;
        }
    }
    // A connection that is kept open has answered; its idle time ends it.
    lab::advancing(world, caller.until("\u{0}never")).await
}

const OK: &str = "HTTP/1.1 200 ";
const GET: &str = "GET /a HTTP/1.1\r\nHost: h\r\n";

fn head(lines: &str) -> String {
    format!("POST /a HTTP/1.1\r\nHost: h\r\n{lines}\r\n")
}

/// Rows that end with the last byte of a request.
const WHOLE: [&str; 6] = [
    "healthy",
    "healthy body",
    "healthy chunks",
    "two pipelined",
    "three pipelined",
    "GET with a body",
];

/// What, bytes, the start of each expected answer in order; none of these runs a handler unless an answer is `OK`.
#[rustfmt::skip]
fn rows() -> Vec<(&'static str, String, Vec<&'static str>)> {
    const BAD: &str = "HTTP/1.1 400 ";
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n";
    let long = "a".repeat(20_000);
    let mut rows = vec![
        ("healthy", format!("{GET}\r\n"), vec![OK]),
        ("healthy body", format!("{}hello", head("Content-Length: 5\r\n")), vec![OK]),
        ("healthy chunks", format!("{}5\r\nhello\r\n0\r\n\r\n", head("Transfer-Encoding: chunked\r\n")), vec![OK]),
        ("two pipelined", format!("{}hello{GET}\r\n", head("Content-Length: 5\r\n")), vec![OK, OK]),
        ("three pipelined", format!("{GET}\r\n{GET}\r\n{GET}\r\n"), vec![OK, OK, OK]),
        ("GET with a body", format!("{GET}Content-Length: 5\r\n\r\nhello{GET}\r\n"), vec![OK, OK]),
        ("body, then rubbish", format!("{}helloRUBBISH\r\n\r\n", head("Content-Length: 5\r\n")), vec![OK, BAD]),
        ("TE and CL", format!("{}0\r\n\r\n{smuggled}", head("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n")), vec![BAD]),
        ("CL and TE", format!("{}0\r\n\r\n{smuggled}", head("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n")), vec![BAD]),
        ("body too large", format!("{}{}", head("Content-Length: 101\r\n"), "x".repeat(101)), vec!["HTTP/1.1 413 "]),
        ("chunks too large", format!("{}65\r\n{}\r\n0\r\n\r\n", head("Transfer-Encoding: chunked\r\n"), "x".repeat(101)), vec!["HTTP/1.1 413 "]),
        ("head too large", format!("GET /{long} HTTP/1.1\r\nHost: h\r\n\r\n"), vec!["HTTP/1.1 431 "]),
        ("no line end", long.clone(), vec!["HTTP/1.1 431 "]),
        ("too many headers", format!("{GET}{}\r\n", "X: y\r\n".repeat(120)), vec!["HTTP/1.1 431 "]),
        ("HTTP/2.0", "GET /a HTTP/2.0\r\nHost: h\r\n\r\n".into(), vec!["HTTP/1.1 505 "]),
        ("CONNECT", "CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n".into(), vec!["HTTP/1.1 405 "]),
        ("unknown expectation", format!("{GET}Expect: 200-ok\r\n\r\n"), vec!["HTTP/1.1 417 "]),
        ("upgrade", format!("{GET}Connection: upgrade\r\nUpgrade: h2c\r\n\r\n"), vec![OK]),
        ("HTTP/1.0 with TE", "POST /a HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".into(), vec![BAD]),
        ("HTTP/1.0 keeps nothing", format!("GET /a HTTP/1.0\r\nHost: h\r\n\r\n{GET}\r\n"), vec![OK]),
        ("close keeps nothing", format!("{GET}Connection: close\r\n\r\n{GET}\r\n"), vec![OK]),
    ];
    for line in [
        "GET  /a HTTP/1.1", "GET /a  HTTP/1.1", "GET /a", "GET /a http/1.1", "GET /a HTTP/1.10", "GET /a HTTP/1.", "GET /a#f HTTP/1.1",
        "G\u{e9}T /a HTTP/1.1", " GET /a HTTP/1.1", "GET /a\u{7f} HTTP/1.1", "GET http://other/a HTTP/1.1", "GET a HTTP/1.1", "GET\t/a HTTP/1.1",
    ] {
        rows.push(("request line", format!("{line}\r\nHost: h\r\n\r\n"), vec![BAD]));
    }
    for line in [
        "Host: h", "Host: other", " folded: x", "\tfolded: x", "X : y", "X\u{b}: y", ": y", "X", "X: a\u{0}b", "X: a\rb", "X: a\nY: b",
        "X: \u{1}", "X\u{a0}: y", "X: y\r", "(x): y", "Content-Length", "Content-Length:", "Content-Length: +5", "Content-Length: -5",
        "Content-Length: 5 5", "Content-Length: 5,5", "Content-Length: 0x5", "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 6", "Content-Length: 99999999999999999999", "Content-Length: 5\u{b}", "Content-Length: five",
        "Transfer-Encoding: identity", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, gzip", "Transfer-Encoding: ,chunked",
        "Transfer-Encoding: chunkedchunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding:\u{b}chunked",
        "Transfer-Encoding: xchunked", "Transfer-Encoding:", "Transfer-Encoding: \"chunked\"", "Transfer-Encoding: chunked;q=1",
    ] {
        rows.push(("header", format!("{}0\r\n\r\n{smuggled}", head(&format!("{line}\r\n"))), vec![BAD]));
    }
    for host in ["", "Host: \r\n", "Host: h/path\r\n", "Host: u@h\r\n", "Host: h:0\r\n", "Host: h:65536\r\n", "Host: h:x\r\n", "Host: h, h\r\n", "Host: h h\r\n"] {
        rows.push(("host", format!("GET /a HTTP/1.1\r\n{host}\r\n"), vec![BAD]));
    }
    for chunks in [
        "5;\r\nhello\r\n0\r\n\r\n\u{0}", "0_2\r\nhe\r\n0\r\n\r\n", "+5\r\nhello\r\n0\r\n\r\n", "-1\r\nhello\r\n0\r\n\r\n", "0x5\r\nhello\r\n0\r\n\r\n", " 5\r\nhello\r\n0\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n", "\r\nhello\r\n0\r\n\r\n", "00000000000000005\r\nhello\r\n0\r\n\r\n", "ffffffffffffffff1\r\nhello", "5\r\nhelloXX0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n", "5\nhello\r\n0\r\n\r\n", "5\r\nhello\r\n0\r\nX : y\r\n\r\n", "5\r\nhello\r\n0\r\n folded\r\n\r\n", "5\r\nhello\r\n0\n\r\n", "g\r\n",
    ] {
        rows.push(("chunks", format!("{}{chunks}{smuggled}", head("Transfer-Encoding: chunked\r\n")), vec![BAD]));
    }
    rows.push(("a chunk extension of a megabyte", format!("{}5;x={}\r\nhello\r\n0\r\n\r\n", head("Transfer-Encoding: chunked\r\n"), "y".repeat(1_000_000)), vec![BAD]));
    rows.push(("many small extensions", format!("{}{}0\r\n\r\n", head("Transfer-Encoding: chunked\r\n"), format!("1;x={}\r\na\r\n", "y".repeat(250)).repeat(80)), vec![BAD]));
    rows.push(("trailers of a megabyte", format!("{}0\r\n{}\r\n", head("Transfer-Encoding: chunked\r\n"), format!("X: {}\r\n", "y".repeat(100)).repeat(10_000)), vec![BAD]));
    rows
}

fn expect(what: &str, sent: &str, got: &str, expected: &[&str]) {
    let shown: String = sent.chars().take(200).collect();
    let mut rest = got;
    for answer in expected {
        assert!(
            rest.starts_with(answer),
            "{what}: {shown:?}\nwanted {answer}, got {rest:?}"
        );
        rest = rest.get(answer.len()..).unwrap_or_default();
        rest = rest.find("HTTP/1.1 ").map_or("", |at| &rest[at..]);
    }
    assert!(
        rest.is_empty(),
        "{what}: {shown:?}\none answer too many: {rest:?}"
    );
    assert!(!got.contains("smuggled"), "{what}: {shown:?}\n{got:?}");
}

#[test]
fn each_kind_of_fault_is_answered_once_and_closes() {
    lab::run(|world| async move {
        let (address, runs) = start(&world);
        let rows = rows();
        for (what, bytes, expected) in &rows {
            let before = runs.load(Ordering::Relaxed);
            let begun = world.clock.now();
            let got = exchange(&world, address, &[bytes.as_bytes()]).await;
            expect(what, bytes, &got, expected);
            if expected.last() != Some(&OK) {
                // The server closed by itself: its idle time is 60 s.
                let taken = world.clock.now().since(begun);
                assert!(
                    taken < std::time::Duration::from_secs(20),
                    "{what}: {bytes:?} was kept open for {taken:?}"
                );
            }
            let ran = runs.load(Ordering::Relaxed) - before;
            assert_eq!(
                ran,
                expected.iter().filter(|answer| **answer == OK).count(),
                "{what}: {bytes:?}"
            );
            let healthy = exchange(
                &world,
                address,
                &[format!("{GET}Connection: close\r\n\r\n").as_bytes()],
            )
            .await;
            assert!(
                healthy.starts_with(OK) && healthy.ends_with("<Get /a >"),
                "after {what}: {healthy}"
            );
        }
        println!(
            "{} kinds of framing, each followed by a healthy request",
            rows.len()
        );
    });
}

#[test]
fn byte_by_byte_gives_the_same_answers() {
    lab::run(|world| async move {
        let (address, _runs) = start(&world);
        for (what, bytes, expected) in rows().iter().filter(|(_, bytes, _)| bytes.len() < 400) {
            let pieces: Vec<&[u8]> = bytes.as_bytes().chunks(1).collect();
            let got = exchange(&world, address, &pieces).await;
            expect(what, bytes, &got, expected);
        }
    });
}

/// A close at any offset: no handler runs for a request that is not whole, and nothing spins or stays behind.
#[test]
fn a_close_at_any_offset_runs_nothing_that_is_not_whole() {
    lab::run(|world| async move {
        let (address, runs) = start(&world);
        let timers = world.clock.live_timers();
        for (what, bytes, expected) in rows().iter().filter(|(_, bytes, _)| bytes.len() < 400) {
            let expected = expected.iter().filter(|answer| **answer == OK).count();
            for cut in 0..bytes.len() {
                let before = runs.load(Ordering::Relaxed);
                let caller = Caller::connect(&world, address).await;
                caller.send(&bytes.as_bytes()[..cut]).await;
                caller.stream.shutdown_write();
                let _ = caller.until("\u{0}never").await;
                let ran = runs.load(Ordering::Relaxed) - before;
                // A request whose last byte is missing has not been made.
                let made = if WHOLE.contains(what) {
                    expected - 1
                } else {
                    expected
                };
                assert!(ran <= made, "{what}: {bytes:?} cut at {cut}");
            }
        }
        let healthy = exchange(
            &world,
            address,
            &[format!("{GET}Connection: close\r\n\r\n").as_bytes()],
        )
        .await;
        assert!(healthy.starts_with(OK), "{healthy}");
        for _ in 0..20 {
            lab::turn().await;
        }
        assert!(
            world.clock.live_timers() <= timers + 1,
            "{} timers",
            world.clock.live_timers()
        );
    });
}
