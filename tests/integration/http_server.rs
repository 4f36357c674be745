//! The HTTP server over real sockets: where one request ends and the next begins, what closes a connection and what
//! ends a handler.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use countersign::http::{
    Budget, Caller, CallerSocket, Handler, Limits, Request, Responded, Responder, serve,
};
use smol::Task;

use crate::support::{End, OnThread, PATIENCE, Raw};

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);

/// Larger than what the kernel holds for one connection.
const LARGE: usize = 32 << 20;

/// What happens in the handlers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Entered(String),
    /// A handler that looks found its caller gone.
    SawLeave,
    /// A large answer was written as far as it could be.
    Written,
    /// The handler's future is gone, whether it answered or not.
    Gone(String),
}

/// Answers by path.
struct Paths {
    events: Sender<Event>,
    /// Lets held handlers go on.
    go: smol::channel::Receiver<()>,
}

struct Entered {
    events: Sender<Event>,
    path: String,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let _ = self
            .events
            .send(Event::Gone(std::mem::take(&mut self.path)));
    }
}

impl Handler for Paths {
    async fn handle(&self, request: Request, responder: Responder) -> Responded {
        let Request {
            head, body, caller, ..
        } = request;
        let path = head.path().to_owned();
        let _ = self.events.send(Event::Entered(path.clone()));
        let _entered = Entered {
            events: self.events.clone(),
            path: path.clone(),
        };
        let wait = self.go.recv();
        match path.as_str() {
            "/unread" => responder.send(200, &[], b"unread").await,
            "/no-content" => responder.send(204, &[], b"never sent").await,
            "/not-modified" => responder.send(304, &[], b"never sent").await,
            "/splitting" => {
                let headers = [
                    ("x-a", "a\r\nInjected: 1"),
                    (
                        "x-b",
                        "b\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
                    ),
                    ("x-c", "c\nInjected: 1"),
                    ("x-d", "d\rInjected: 1"),
                    ("x-e", "e\0"),
                    ("x-f\r\nInjected", "1"),
                    ("x-g", "whole"),
                ];
                responder.send(200, &headers, b"one").await
            }
            "/panic" => panic!("a handler of the tests panics"),
            "/large" => {
                let responded = responder.send(200, &[], &vec![b'x'; LARGE]).await;
                let _ = self.events.send(Event::Written);
                responded
            }
            "/held" => {
                let _ = wait.await;
                responder.send(200, &[], b"held").await
            }
            "/held-with-body" => {
                let body = body.read_all(1 << 20).await;
                let _ = wait.await;
                let status = body.as_ref().map_or_else(|fault| fault.status(), |_| 200);
                responder.send(status, &[], b"").await
            }
            "/looks" => {
                self.look(&caller);
                let _ = wait.await;
                responder.send(200, &[], b"looked").await
            }
            "/looks-at-body" => {
                while wait_here(&self.go) {
                    let left = caller.has_left();
                    let _ = self.events.send(Event::Written);
                    assert!(!left);
                }
                responder.send(200, &[], b"looked").await
            }
            "/streamed" | "/streamed-in-part" | "/streamed-then-panic" | "/streamed-then-held" => {
                let mut writer = match responder.start(200, &[], b"one,").await {
                    Ok(writer) => writer,
                    Err(gone) => return gone,
                };
                if writer.write(b"two,").await.is_err() {
                    return writer.abandon();
                }
                match path.as_str() {
                    "/streamed" => writer.finish(b"three").await,
                    "/streamed-in-part" => writer.abandon(),
                    "/streamed-then-held" => {
                        let _ = wait.await;
                        writer.finish(b"three").await
                    }
                    _ => panic!("a handler of the tests panics half way"),
                }
            }
            _ => {
                let limit = if path == "/small" { 10 } else { 1 << 20 };
                let (status, text) = match body.read_all(limit).await {
                    Ok(body) => (200, String::from_utf8_lossy(&body).into_owned()),
                    Err(fault) => (fault.status(), fault.to_string()),
                };
                let text = format!("{:?} {} {text}", head.method, head.target);
                responder.send(status, &[], text.as_bytes()).await
            }
        }
    }
}

impl Paths {
    /// Looks for the caller without ever letting another task run.
    fn look(&self, caller: &CallerSocket) {
        let since = Instant::now();
        while !caller.has_left() {
            assert!(since.elapsed() < PATIENCE, "the close never became visible");
            std::thread::yield_now();
        }
        let _ = self.events.send(Event::SawLeave);
    }
}

/// Blocks the whole executor until the test says so. Whether to go on.
fn wait_here(go: &smol::channel::Receiver<()>) -> bool {
    go.recv_blocking().is_ok()
}

/// A server in a world of its own.
struct Served {
    address: SocketAddr,
    events: Receiver<Event>,
    go: smol::channel::Sender<()>,
    handler: Arc<Paths>,
    serving: Option<Task<()>>,
    // Last: its tasks send events to the end.
    there: OnThread,
}

impl Served {
    fn start(limits: Limits) -> Self {
        Self::start_after(limits, |_| {})
    }

    /// `before` runs between listening and serving.
    fn start_after(limits: Limits, before: impl FnOnce(SocketAddr)) -> Self {
        let there = OnThread::hand_driven();
        let listener = there.world.net.listen("127.0.0.1:0".parse().unwrap());
        let listener = listener.unwrap();
        let address = listener.local_address().unwrap();
        before(address);
        let (events_in, events) = mpsc::channel();
        let (go, waits) = smol::channel::unbounded();
        let handler = Arc::new(Paths {
            events: events_in,
            go: waits,
        });
        let world = there.world.clone();
        let serving = serve(world, listener, handler.clone(), Arc::new(limits));
        let serving = there.world.spawn(serving);
        Self {
            address,
            events,
            go,
            handler,
            serving,
            there,
        }
    }

    fn usual() -> Self {
        Self::start(Limits::default())
    }

    fn connect(&self) -> Raw {
        Raw::connect(self.address)
    }

    fn next(&self) -> Event {
        self.events.recv_timeout(PATIENCE).expect("an event")
    }

    fn expect_entered(&self, path: &str) {
        assert_eq!(self.next(), Event::Entered(path.to_owned()));
    }

    fn expect_gone(&self, path: &str) {
        assert_eq!(self.next(), Event::Gone(path.to_owned()));
    }

    /// Asserts that no handler was entered since the events read so far.
    fn nothing_more_entered(&self) {
        self.there.turn();
        let more = self.events.try_iter();
        let entered: Vec<Event> = more.filter(|e| matches!(e, Event::Entered(_))).collect();
        assert_eq!(entered, []);
    }

    /// Waits until so many connections are open: each holds the handler, and so do the server and we.
    fn until_connections(&self, count: usize) {
        let handler = self.handler.clone();
        self.there
            .until("connections", || Arc::strong_count(&handler) == count + 3);
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}")
}

// --- where a request ends ---

#[test]
fn one_connection_carries_request_after_request() {
    let served = Served::usual();
    let mut raw = served.connect();
    for turn in 0..3 {
        raw.send(get(&format!("/a?{turn}")));
        let answer = raw.answer();
        assert_eq!(answer.status, 200);
        assert_eq!(answer.body, format!("Get /a?{turn} "));
        assert!(!answer.closes());
        raw.send(post("/b", "GET /c HTTP/1.1\r\n\r\n"));
        assert_eq!(raw.answer().body, "Post /b GET /c HTTP/1.1\r\n\r\n");
    }
    raw.is_silent();
}

#[test]
fn pipelined_requests_are_answered_in_order_and_a_body_is_no_request() {
    let served = Served::usual();
    let mut raw = served.connect();
    let hidden = get("/hidden");
    raw.send(post("/first", &hidden) + &get("/second") + &post("/third", "3"));
    assert_eq!(raw.answer().body, format!("Post /first {hidden}"));
    assert_eq!(raw.answer().body, "Get /second ");
    assert_eq!(raw.answer().body, "Post /third 3");
    for path in ["/first", "/second", "/third"] {
        served.expect_entered(path);
        served.expect_gone(path);
    }
    served.nothing_more_entered();
}

#[test]
fn a_body_of_get_is_a_body() {
    let served = Served::usual();
    let mut raw = served.connect();
    let hidden = get("/hidden");
    let length = hidden.len();
    raw.send(format!(
        "GET /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{hidden}{}",
        get("/b")
    ));
    assert_eq!(raw.answer().body, format!("Get /a {hidden}"));
    assert_eq!(raw.answer().body, "Get /b ");
}

#[test]
fn a_head_of_many_pieces_is_one_head() {
    let served = Served::usual();
    let mut raw = served.connect();
    for byte in post("/a", "xyz").bytes() {
        raw.send([byte]);
        served.there.turn();
    }
    assert_eq!(raw.answer().body, "Post /a xyz");
}

#[test]
fn a_chunked_body_ends_where_its_last_chunk_does() {
    let served = Served::usual();
    let head = "POST /a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunks = "3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: 1\r\n\r\n";
    let mut raw = served.connect();
    raw.send(format!("{head}{chunks}{}", get("/b")));
    assert_eq!(raw.answer().body, "Post /a abcde");
    assert_eq!(raw.answer().body, "Get /b ");
    for piece in [head, "3;x", "=y\r", "\nab", "c\r\n2\r\nde\r\n0", "\r\n\r"] {
        raw.send(piece);
        served.there.turn();
        raw.is_silent();
    }
    raw.send("\n");
    assert_eq!(raw.answer().body, "Post /a abcde");
}

#[test]
fn broken_chunks_are_answered_and_the_rest_is_never_a_request() {
    let served = Served::usual();
    let mut raw = served.connect();
    raw.send(format!(
        "POST /a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}",
        get("/hidden")
    ));
    let answer = raw.answer();
    assert_eq!(answer.status, 400);
    assert!(answer.closes());
    raw.ends();
    served.expect_entered("/a");
    served.nothing_more_entered();
}

#[test]
fn an_unread_body_is_never_parsed_as_a_request() {
    let served = Served::usual();
    let hidden = get("/hidden");
    // Not all of it has come when the answer is given.
    let mut raw = served.connect();
    raw.send(format!(
        "POST /unread HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{hidden}"
    ));
    let answer = raw.answer();
    assert_eq!((answer.status, answer.closes()), (200, true));
    raw.send(hidden.repeat(3));
    raw.ends();
    served.expect_entered("/unread");
    served.nothing_more_entered();
    // All of it has come: then the connection lives on.
    let mut raw = served.connect();
    raw.send(post("/unread", &hidden) + &get("/b"));
    let answer = raw.answer();
    assert_eq!((answer.status, answer.closes()), (200, false));
    assert_eq!(raw.answer().body, "Get /b ");
    served.expect_entered("/unread");
    served.expect_gone("/unread");
    served.expect_entered("/b");
    served.nothing_more_entered();
}

#[test]
fn the_answer_to_a_caller_that_is_still_sending_arrives() {
    let served = Served::usual();
    for _ in 0..20 {
        let mut raw = served.connect();
        // More than is read ahead, less than is drained.
        raw.send(post("/unread", &"x".repeat(100_000)));
        assert_eq!(raw.answer().body, "unread");
        let (rest, end) = raw.end();
        assert_eq!((rest.as_str(), end), ("", End::Closed));
    }
}

#[test]
fn a_caller_that_waits_for_continue_is_told_when_its_body_is_wanted() {
    let served = Served::usual();
    let expecting = |path: &str, length: usize| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\r\n"
        )
    };
    let mut raw = served.connect();
    raw.send(expecting("/a", 3));
    assert_eq!(raw.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    raw.send("abc");
    assert_eq!(raw.answer().body, "Post /a abc");
    // It did not wait: nothing to tell it.
    raw.send(expecting("/a", 3) + "abc" + &get("/b"));
    assert_eq!(raw.answer().body, "Post /a abc");
    assert_eq!(raw.answer().body, "Get /b ");
    // The body does not come: waiting for it ends, as for any other.
    raw.send(expecting("/a", 3));
    assert_eq!(raw.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    served.there.until_timers(1);
    served.there.advance(30 * SECOND);
    let answer = raw.answer();
    assert_eq!((answer.status, answer.closes()), (408, true));
    raw.ends();
    // Too large, or not wanted: the final answer alone, and the connection closes since a body may follow or not.
    for (path, status) in [("/small", 413), ("/unread", 200)] {
        let mut raw = served.connect();
        raw.send(expecting(path, 11));
        let answer = raw.answer();
        assert_eq!((answer.status, answer.closes()), (status, true), "{path}");
        raw.ends();
    }
}

#[test]
fn a_body_over_the_limit_is_413_whether_its_length_was_said_or_not() {
    let served = Served::usual();
    let mut raw = served.connect();
    raw.send(post("/small", "0123456789"));
    assert_eq!(raw.answer().status, 200);
    raw.send(post("/small", "0123456789a"));
    let answer = raw.answer();
    assert_eq!((answer.status, answer.closes()), (413, true));
    raw.ends();
    let mut raw = served.connect();
    raw.send("POST /small HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n0123456789a\r\n0\r\n\r\n");
    let answer = raw.answer();
    assert_eq!((answer.status, answer.closes()), (413, true));
    raw.ends();
    // Without an end: the answer comes all the same.
    let mut raw = served.connect();
    raw.send("POST /small HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\n0123456789a");
    assert_eq!(raw.answer().status, 413);
}

#[test]
fn a_head_over_the_limit_is_431() {
    let served = Served::usual();
    let long = format!("X: {}\r\n", "x".repeat(20_000));
    let many: String = (0..101).map(|n| format!("X{n}: y\r\n")).collect();
    for headers in [long, many] {
        let mut raw = served.connect();
        raw.send(format!(
            "GET /a HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"
        ));
        let answer = raw.answer();
        assert_eq!((answer.status, answer.closes()), (431, true));
        raw.ends();
    }
    // Without an end.
    let mut raw = served.connect();
    raw.send(format!("GET /{} ", "x".repeat(20_000)));
    assert_eq!(raw.answer().status, 431);
    served.nothing_more_entered();
}

#[test]
fn what_is_not_http_is_answered_once_and_closed() {
    let served = Served::usual();
    for (bytes, status) in [
        ("\x16\x03\x01\x02\x00\x01\x00\x01\x7c\x03\x03\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
        ),
        ("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", 405),
    ] {
        let mut raw = served.connect();
        raw.send(format!("{bytes}{}", get("/hidden")));
        let answer = raw.answer();
        assert_eq!((answer.status, answer.closes()), (status, true), "{bytes}");
        // RFC 9110 section 15.5.6.
        assert_eq!(answer.header("allow"), (status == 405).then_some(""));
        raw.ends();
    }
    served.nothing_more_entered();
}

// --- what the answer's framing depends on ---

#[test]
fn http_1_0_gets_one_answer_without_chunks() {
    let served = Served::usual();
    let mut raw = served.connect();
    raw.send("GET /a HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n");
    let answer = raw.answer();
    assert_eq!(answer.body, "Get /a ");
    assert!(answer.closes());
    raw.ends();
    let mut raw = served.connect();
    raw.send("GET /streamed HTTP/1.0\r\nHost: localhost\r\n\r\n");
    let head = raw.head();
    assert!(head.closes());
    assert_eq!(head.header("transfer-encoding"), None);
    assert_eq!(raw.end(), ("one,two,three".to_owned(), End::Closed));
}

#[test]
fn head_is_answered_without_a_body() {
    let served = Served::usual();
    let mut raw = served.connect();
    let head = |path: &str| format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    raw.send(head("/a") + &get("/b"));
    let answer = raw.head();
    assert_eq!(answer.header("content-length"), Some("8"));
    assert_eq!(raw.answer().body, "Get /b ");
    // Of a stream too: its chunks would be read as the next answer.
    raw.send(head("/streamed") + &get("/b"));
    assert_eq!(raw.head().header("transfer-encoding"), Some("chunked"));
    assert_eq!(raw.answer().body, "Get /b ");
    for (path, status) in [("/no-content", 204), ("/not-modified", 304)] {
        raw.send(get(path) + &get("/b"));
        let answer = raw.head();
        assert_eq!(answer.status, status);
        assert_eq!(answer.header("content-length"), None);
        assert_eq!(raw.answer().body, "Get /b ");
    }
}

#[test]
fn a_value_that_would_split_an_answer_is_left_out_of_it() {
    let served = Served::usual();
    let mut raw = served.connect();
    raw.send(get("/splitting") + &get("/b"));
    let answer = raw.answer();
    assert_eq!(
        answer.head,
        "HTTP/1.1 200 OK\r\nx-g: whole\r\ncontent-length: 3\r\n\r\n"
    );
    assert_eq!(answer.body, "one");
    assert_eq!(raw.answer().body, "Get /b ");
    raw.is_silent();
}

#[test]
fn a_caller_that_asks_to_close_gets_its_answer_and_the_end() {
    let served = Served::usual();
    let mut raw = served.connect();
    let closing = "GET /a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    raw.send(closing.to_owned() + &get("/hidden"));
    let answer = raw.answer();
    assert_eq!((answer.body.as_str(), answer.closes()), ("Get /a ", true));
    assert_eq!(raw.end(), (String::new(), End::Closed));
    served.expect_entered("/a");
    served.nothing_more_entered();
    served.until_connections(0);
}

#[test]
fn a_whole_stream_ends_and_the_connection_lives_on() {
    let served = Served::usual();
    let mut raw = served.connect();
    raw.send(get("/streamed") + &get("/b"));
    let answer = raw.answer();
    assert_eq!(answer.header("content-length"), None);
    assert_eq!(answer.body, "one,two,three");
    assert_eq!(raw.answer().body, "Get /b ");
}

#[test]
fn a_stream_that_stops_half_way_has_no_last_chunk() {
    for path in ["/streamed-in-part", "/streamed-then-panic"] {
        let served = Served::usual();
        let mut raw = served.connect();
        raw.send(get(path));
        raw.head();
        let (rest, _) = raw.end();
        assert_eq!(rest, "4\r\none,\r\n4\r\ntwo,\r\n", "{path}");
    }
}

#[test]
fn a_stream_to_http_1_0_that_stops_half_way_ends_in_a_reset() {
    for path in [
        "/streamed-in-part",
        "/streamed-then-panic",
        "/streamed-then-held",
    ] {
        let mut served = Served::usual();
        let mut raw = served.connect();
        raw.send(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n"));
        if path == "/streamed-then-held" {
            raw.until("one,two,");
            drop(served.serving.take());
        }
        // What was on its way may be lost with it.
        assert_eq!(raw.end().1, End::Reset, "{path}");
    }
}

// --- time ---

#[test]
fn a_slow_head_is_408_after_its_time() {
    let served = Served::usual();
    let mut raw = served.connect();
    // In one write, so that the part has come when the first answer goes out.
    raw.send(get("/a") + "GET /b HTTP/1.1\r\nHo");
    raw.answer();
    served.there.until_timers(1);
    served.there.advance(5 * SECOND);
    // Progress buys no time.
    raw.send("st: localhost\r\n");
    served.there.turn();
    served.there.advance(5 * SECOND - MILLISECOND);
    raw.is_silent();
    served.there.advance(MILLISECOND);
    let answer = raw.answer();
    assert_eq!((answer.status, answer.closes()), (408, true));
    raw.ends();
    served.until_connections(0);
}

#[test]
fn a_slow_body_is_408_after_its_time() {
    let served = Served::usual();
    let mut raw = served.connect();
    raw.send("POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n01234");
    served.expect_entered("/a");
    served.there.until_timers(1);
    served.there.advance(29 * SECOND);
    raw.send("5678");
    served.there.turn();
    served.there.advance(SECOND - MILLISECOND);
    raw.is_silent();
    served.there.advance(MILLISECOND);
    let answer = raw.answer();
    assert_eq!((answer.status, answer.closes()), (408, true));
    raw.send(get("/hidden"));
    raw.ends();
    served.expect_gone("/a");
    served.nothing_more_entered();
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let served = Served::usual();
    let fresh = served.connect();
    served.until_connections(1);
    let mut used = served.connect();
    used.send(get("/a"));
    used.answer();
    served.there.until_timers(2);
    served.there.advance(60 * SECOND - MILLISECOND);
    fresh.is_silent();
    used.is_silent();
    served.there.advance(MILLISECOND);
    assert_eq!(fresh.end(), (String::new(), End::Closed));
    assert_eq!(used.end(), (String::new(), End::Closed));
    served.until_connections(0);
    assert_eq!(served.there.clock.live_timers(), 0);
}

#[test]
fn a_held_request_has_no_deadline_of_the_servers() {
    let served = Served::usual();
    let mut raw = served.connect();
    raw.send(get("/held"));
    served.expect_entered("/held");
    served.there.until_timers(0);
    served.there.advance(3600 * SECOND);
    served.go.send_blocking(()).unwrap();
    assert_eq!(raw.answer().body, "held");
}

#[test]
fn a_caller_that_reads_nothing_holds_an_answer_no_longer_than_a_step() {
    let served = Served::usual();
    let mut raw = served.connect();
    raw.send(get("/large"));
    served.expect_entered("/large");
    let since = served.there.clock.now();
    served.there.until("the end of the answer", || {
        served.there.clock.advance(SECOND);
        served.events.try_recv() == Ok(Event::Written)
    });
    // A step's time after the last one that the kernel took, and it took several while the clock was running.
    let taken = served.there.clock.now().since(since);
    assert!((30 * SECOND..600 * SECOND).contains(&taken), "{taken:?}");
    served.expect_gone("/large");
    // The time for lingering may have begun in the turn that saw the answer end, or begin in a later one.
    let handler = served.handler.clone();
    served.there.until("the end of the connection", || {
        served.there.clock.advance(SECOND);
        Arc::strong_count(&handler) == 3
    });
    drop(handler);
    raw.head();
    let (rest, _) = raw.end();
    assert!(rest.len() < LARGE);
}

#[test]
fn a_caller_that_reads_slowly_gets_its_whole_answer() {
    let served = Served::usual();
    let mut raw = served.connect();
    raw.send(get("/large"));
    let mut left: usize = raw
        .head()
        .header("content-length")
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(left, LARGE);
    while left > 0 {
        // Less than a step's time for each piece.
        served.there.advance(SECOND);
        let piece = left.min(1 << 20);
        assert_eq!(raw.exactly(piece).len(), piece);
        left -= piece;
    }
    raw.send(get("/a"));
    assert_eq!(raw.answer().body, "Get /a ");
}

// --- bounds ---

#[test]
fn one_connection_too_many_is_503_until_another_leaves() {
    let limits = Limits {
        connections: Budget::new(2),
        ..Limits::default()
    };
    let served = Served::start(limits);
    let first = served.connect();
    let second = served.connect();
    served.until_connections(2);
    let mut third = served.connect();
    let answer = third.answer();
    assert_eq!((answer.status, answer.closes()), (503, true));
    assert_eq!(third.end(), (String::new(), End::Closed));
    drop(first);
    served.until_connections(1);
    let mut fourth = served.connect();
    fourth.send(get("/a"));
    assert_eq!(fourth.answer().status, 200);
    drop(second);
}

#[test]
fn a_refused_connection_reads_its_503_even_behind_a_request() {
    let limits = Limits {
        connections: Budget::new(0),
        ..Limits::default()
    };
    let mut raw = None;
    let served = Served::start_after(limits, |address| {
        let mut early = Raw::connect(address);
        early.send(get("/a"));
        raw = Some(early);
    });
    let mut raw = raw.unwrap();
    assert_eq!(raw.answer().status, 503);
    // Not reset: that could overtake the answer and destroy it.
    assert_eq!(raw.end(), (String::new(), End::Closed));
    served.nothing_more_entered();
}

#[test]
fn bodies_over_the_common_budget_are_503_until_room_is_back() {
    let limits = Limits {
        buffered: Budget::new(1000),
        ..Limits::default()
    };
    let served = Served::start(limits);
    let body = "x".repeat(800);
    let mut first = served.connect();
    first.send(post("/held-with-body", &body));
    served.expect_entered("/held-with-body");
    let mut second = served.connect();
    // Entered behind the first one's read, since both are ready in turn.
    served.there.turn();
    second.send(post("/b", &body));
    let answer = second.answer();
    assert_eq!((answer.status, answer.closes()), (503, true));
    second.ends();
    drop(first);
    served.expect_gone("/held-with-body");
    let mut third = served.connect();
    for _ in 0..3 {
        third.send(post("/c", &body));
        assert_eq!(third.answer().status, 200);
    }
}

#[test]
fn what_is_read_ahead_counts_in_the_common_budget() {
    let limits = Limits {
        buffered: Budget::new(1000),
        ..Limits::default()
    };
    let served = Served::start(limits);
    // Half a head, and a request behind one that is held.
    let filler = "x".repeat(400);
    let mut half = served.connect();
    half.send(format!(
        "GET /a HTTP/1.1\r\nHost: localhost\r\nFiller: {filler}"
    ));
    let mut held = served.connect();
    held.send(get("/held"));
    served.expect_entered("/held");
    held.send(post("/behind", &filler));
    // Once all of it was read. One that came before had its body read, and no more of it.
    let mut entered = 0;
    served.there.until("a full budget", || {
        let mut third = served.connect();
        third.send(post("/b", &filler));
        let full = third.answer().status == 503;
        entered += usize::from(!full);
        full
    });
    for _ in 0..entered {
        served.expect_entered("/b");
        served.expect_gone("/b");
    }
    // Room comes back with whoever leaves.
    drop(half);
    served.until_connections(1);
    let mut fourth = served.connect();
    fourth.send(post("/c", &filler));
    assert_eq!(fourth.answer().status, 200);
    // Nobody could see a close behind bytes that are not read.
    held.send(vec![b'y'; 900]);
    served.expect_entered("/c");
    served.expect_gone("/c");
    served.expect_gone("/held");
    served.nothing_more_entered();
}

#[test]
fn a_burst_of_connections_does_not_keep_others_waiting() {
    let mut burst = Vec::new();
    let there = OnThread::hand_driven();
    let listener = there.world.net.listen("127.0.0.1:0".parse().unwrap());
    let listener = listener.unwrap();
    for _ in 0..200 {
        burst.push(Raw::connect(listener.local_address().unwrap()));
    }
    let (events, _) = mpsc::channel();
    let (_go, waits) = smol::channel::unbounded();
    let handler = Arc::new(Paths { events, go: waits });
    let (world, held) = (there.world.clone(), handler.clone());
    let admitted = there.start(async move {
        let serving = serve(
            world.clone(),
            listener,
            held.clone(),
            Arc::new(Limits::default()),
        );
        let _serving = world.spawn(serving);
        let seen = world.spawn(async move { Arc::strong_count(&held) });
        seen.unwrap().await
    });
    assert!(admitted.wait() < 20, "another task had to wait for all");
}

// --- who leaves ---

#[test]
fn a_handler_is_dropped_when_its_caller_leaves_in_whatever_way() {
    type Leave = fn(Raw);
    let ways: [(&str, Leave); 4] = [
        ("close", drop),
        ("reset", Raw::reset),
        ("half-close", |raw| {
            raw.shutdown_write();
            assert_eq!(raw.end(), (String::new(), End::Closed));
        }),
        ("close behind pipelined bytes", |mut raw| {
            raw.send(get("/hidden"));
            drop(raw);
        }),
    ];
    for request in [get("/held"), post("/held-with-body", "body")] {
        for (way, leave) in ways {
            let served = Served::usual();
            let mut raw = served.connect();
            raw.send(&request);
            assert!(matches!(served.next(), Event::Entered(_)));
            served.there.turn();
            leave(raw);
            assert!(matches!(served.next(), Event::Gone(_)), "{way}");
            served.until_connections(0);
            served.nothing_more_entered();
            assert_eq!(served.there.clock.live_timers(), 0, "{way}");
        }
    }
}

#[test]
fn a_caller_that_leaves_half_way_through_its_body_ends_the_handler() {
    let served = Served::usual();
    let mut raw = served.connect();
    raw.send("POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n01234");
    served.expect_entered("/a");
    raw.shutdown_write();
    served.expect_gone("/a");
    raw.ends();
    let mut raw = served.connect();
    raw.send(
        get("/held-with-body").replace("\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"),
    );
    served.expect_entered("/held-with-body");
    drop(raw);
    served.expect_gone("/held-with-body");
    served.until_connections(0);
}

#[test]
fn so_much_behind_a_held_request_that_a_close_could_hide_counts_as_leaving() {
    for request in [
        get("/held"),
        post("/held-with-body", "body"),
        post("/held", ""),
    ] {
        let served = Served::usual();
        let mut raw = served.connect();
        raw.send(request);
        assert!(matches!(served.next(), Event::Entered(_)));
        raw.send("x".repeat(16_000));
        served.there.turn();
        assert_eq!(served.events.try_recv(), Err(mpsc::TryRecvError::Empty));
        raw.send("x".repeat(8_000));
        assert!(matches!(served.next(), Event::Gone(_)));
        served.until_connections(0);
    }
}

#[test]
fn a_large_body_that_waits_to_be_read_is_not_leaving() {
    let served = Served::usual();
    let mut raw = served.connect();
    let body = "x".repeat(500_000);
    raw.send("POST /held HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500000\r\n\r\n");
    served.expect_entered("/held");
    raw.send_what_fits(body.as_bytes());
    served.there.turn();
    assert_eq!(served.events.try_recv(), Err(mpsc::TryRecvError::Empty));
    served.go.send_blocking(()).unwrap();
    let answer = raw.answer();
    assert_eq!((answer.body.as_str(), answer.closes()), ("held", true));
}

#[test]
fn a_large_body_is_read_at_the_handlers_pace() {
    let served = Served::usual();
    let mut raw = served.connect();
    let body = "x".repeat(1 << 20);
    raw.send(post("/a", &body) + &get("/b"));
    assert_eq!(raw.answer().body.len(), "Post /a ".len() + body.len());
    assert_eq!(raw.answer().body, "Get /b ");
}

#[test]
fn a_handler_that_never_yields_sees_its_caller_leave() {
    type Leave = fn(Raw);
    let ways: [(&str, Leave); 5] = [
        ("close", drop),
        ("reset", Raw::reset),
        ("half-close", |raw| {
            raw.shutdown_write();
            raw.ends();
        }),
        ("close behind bytes", |mut raw| {
            raw.send("x".repeat(10_000));
            drop(raw);
        }),
        ("overflow", |mut raw| {
            raw.send("x".repeat(30_000));
            raw.ends();
        }),
    ];
    for (way, leave) in ways {
        let served = Served::usual();
        let mut raw = served.connect();
        raw.send(get("/looks"));
        served.expect_entered("/looks");
        leave(raw);
        assert_eq!(served.next(), Event::SawLeave, "{way}");
        served.expect_gone("/looks");
        served.until_connections(0);
    }
}

#[test]
fn looking_for_the_caller_does_not_read_without_bound() {
    let served = Served::usual();
    let mut raw = served.connect();
    raw.send(
        "POST /looks-at-body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n",
    );
    served.expect_entered("/looks-at-body");
    let piece = vec![b'x'; 64 << 20];
    let mut taken = Vec::new();
    for _ in 0..10 {
        taken.push(raw.send_what_fits(&piece));
        served.go.send_blocking(()).unwrap();
        assert_eq!(served.next(), Event::Written);
    }
    served.go.close();
    // The kernel's buffers fill once; then there is no room, since nobody reads the body.
    assert_eq!(taken[5..], [0; 5], "{taken:?}");
}

#[test]
fn a_panic_closes_its_own_connection_only() {
    let served = Served::usual();
    let mut held = served.connect();
    held.send(get("/held"));
    served.expect_entered("/held");
    let mut other = served.connect();
    other.send(get("/a"));
    other.answer();
    let mut panics = served.connect();
    panics.send(get("/panic"));
    panics.ends();
    other.send(get("/b"));
    assert_eq!(other.answer().body, "Get /b ");
    served.go.send_blocking(()).unwrap();
    assert_eq!(held.answer().body, "held");
    served.until_connections(2);
}

#[test]
fn dropping_the_server_closes_every_connection_and_drops_every_handler() {
    let mut served = Served::usual();
    let mut raws: Vec<Raw> = Vec::new();
    for path in ["/held", "/held", "/streamed-then-held"] {
        let mut raw = served.connect();
        raw.send(get(path));
        served.expect_entered(path);
        raws.push(raw);
    }
    let mut waiting = served.connect();
    waiting.send("POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n01234");
    served.expect_entered("/a");
    raws.push(waiting);
    raws.push(served.connect());
    served.until_connections(5);
    drop(served.serving.take());
    for _ in 0..4 {
        assert!(matches!(served.next(), Event::Gone(_)));
    }
    for raw in raws {
        let (rest, _) = raw.end();
        assert!(!rest.ends_with("0\r\n\r\n"), "cut, not ended: {rest}");
    }
    served.there.until_timers(0);
    let handler = served.handler.clone();
    let ours = || Arc::strong_count(&handler) == 2;
    served.there.until("the end of every handler", ours);
    assert!(std::net::TcpStream::connect(served.address).is_err());
}

#[test]
fn nothing_remains_of_connections_that_come_and_go() {
    let served = Served::usual();
    for round in 0..50 {
        let mut whole = served.connect();
        whole.send(get("/a"));
        whole.answer();
        let mut held = served.connect();
        held.send(get("/held"));
        let mut half = served.connect();
        half.send("POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n01234");
        let mut part = served.connect();
        part.send("GET /a HT");
        if round % 2 == 0 {
            served.there.turn();
            held.reset();
        }
    }
    served.until_connections(0);
    assert_eq!(served.there.clock.live_timers(), 0);
}
