//! The HTTP client against scripted peers on real sockets: what it sends and how often, what it takes for a reply, and
//! when it lets go.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use countersign::http::{
    Client, ClientFault, Connection, FaultKind, Handler, Limits, Method, OutRequest, Request,
    Responded, Responder, serve,
};
use countersign::time::{Clock, Instant};
use countersign::world::memory::MemoryNet;
use countersign::world::tls::TlsFault;
use countersign::world::{Net, Random, Runtime};
use url::Url;

use crate::framing::{BLANKS, each, each_with};
use crate::support::{OnThread, Peer, Raw, Started};

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);

/// More than the kernel holds for one connection.
const LARGE: usize = 32 << 20;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A reply as the tests look at it.
#[derive(Debug, PartialEq, Eq)]
struct Got {
    status: u16,
    location: Option<String>,
    body: String,
}

impl Got {
    fn of(status: u16, body: &str) -> Self {
        Self {
            status,
            location: None,
            body: body.to_owned(),
        }
    }
}

/// A client in a world of its own, and the peer that it asks.
struct Asking {
    there: OnThread,
    client: Client,
    peer: Peer,
}

impl Asking {
    fn new() -> Self {
        let there = OnThread::hand_driven();
        Self {
            client: Client::new(there.world.clone()),
            there,
            peer: Peer::new(),
        }
    }

    fn in_ten_seconds(&self) -> Instant {
        self.there.clock.after(10 * SECOND)
    }

    fn request(&self, method: Method, path: &str) -> OutRequest {
        OutRequest::new(method, &self.peer.url(path)).unwrap()
    }

    /// Sends and reads it all.
    fn send(
        &self,
        request: OutRequest,
        connection: Connection,
    ) -> Started<Result<Got, ClientFault>> {
        let (client, deadline) = (self.client.clone(), self.in_ten_seconds());
        self.there.start(async move {
            let reply = client.send(request, deadline, connection).await?;
            let status = reply.status;
            let location = reply.headers.get("location");
            let location = location.map(|value| String::from_utf8_lossy(value).into_owned());
            let body = reply.read_all(1 << 20).await?;
            Ok(Got {
                status,
                location,
                body: String::from_utf8_lossy(&body).into_owned(),
            })
        })
    }

    fn get(&self) -> Started<Result<Got, ClientFault>> {
        self.send(self.request(Method::Get, "/a"), Connection::Pooled)
    }

    fn post(&self) -> Started<Result<Got, ClientFault>> {
        let request = self.request(Method::Post, "/a").body(b"body".to_vec());
        self.send(request, Connection::Pooled)
    }

    /// What comes of a GET that is answered with `reply`, behind which the peer stays.
    fn answered(&self, reply: &str) -> Result<Got, ClientFault> {
        let asked = self.get();
        let mut raw = self.peer.accept();
        raw.until("\r\n\r\n");
        raw.send(reply);
        asked.wait()
    }

    /// A GET that leaves its connection in the pool.
    fn pooled(&self) -> Raw {
        let asked = self.get();
        let mut raw = self.peer.accept();
        raw.until("\r\n\r\n");
        raw.send(OK);
        assert_eq!(asked.wait(), Ok(Got::of(200, "ok")));
        raw
    }
}

fn fault<T>(kind: FaultKind, sent: bool) -> Result<T, ClientFault> {
    Err(ClientFault { kind, sent })
}

// --- what is sent ---

#[test]
fn a_request_is_sent_as_it_was_made_and_nothing_of_the_url_besides() {
    let asking = Asking::new();
    let address = asking.peer.address;
    let url: Url = format!("http://user:word@{address}/p%20q?a=b&c=%2F#fragment")
        .parse()
        .unwrap();
    let request = OutRequest::new(Method::Post, &url).unwrap();
    let request = request.header("x-name", "value").unwrap();
    let asked = asking.send(request.body(b"{}".to_vec()), Connection::Fresh);
    let mut raw = asking.peer.accept();
    let head = raw.until("\r\n\r\n").to_ascii_lowercase();
    assert!(head.starts_with(&format!(
        "post /p%20q?a=b&c=%2f http/1.1\r\nhost: {address}\r\n"
    )));
    assert!(head.contains("\r\nx-name: value\r\n"));
    assert!(head.contains("\r\ncontent-length: 2\r\n"));
    for never in [
        "user",
        "word",
        "authorization",
        "fragment",
        "transfer-encoding",
    ] {
        assert!(!head.contains(never), "{never}");
    }
    assert_eq!(raw.exactly(2), "{}");
    raw.send(OK);
    assert_eq!(asked.wait(), Ok(Got::of(200, "ok")));
    raw.is_silent();
}

#[test]
fn what_is_neither_http_nor_https_is_refused_before_anything_is_opened() {
    let asking = Asking::new();
    let address = asking.peer.address;
    let made = |url: String| OutRequest::new(Method::Get, &url.parse().unwrap()).map(|_| ());
    for scheme in ["ftp", "ws", "wss", "httpx", "unix"] {
        let got = made(format!("{scheme}://{address}/"));
        assert_eq!(got, fault(FaultKind::Protocol, false), "{scheme}");
    }
    for url in ["file:///x", "data:,x", "mailto:a@b.example", "about:blank"] {
        let got = made(url.to_owned());
        assert_eq!(got, fault(FaultKind::Protocol, false), "{url}");
    }
    assert_eq!(made(format!("http://{address}/")), Ok(()));
    // Where this build has no TLS, https is refused just as early, and by its name.
    let https = if cfg!(feature = "tls") {
        Ok(())
    } else {
        fault(FaultKind::Tls(TlsFault::Absent), false)
    };
    assert_eq!(made(format!("https://{address}/")), https);
    asking.there.turn();
    assert!(!asking.peer.has_caller());
}

#[test]
fn where_nobody_listens_the_connection_is_refused() {
    let mut asking = Asking::new();
    let request = asking.request(Method::Get, "/a");
    asking.peer = Peer::new();
    let asked = asking.send(request, Connection::Pooled);
    assert_eq!(asked.wait(), fault(FaultKind::Refused, false));
}

// --- the pool ---

#[test]
fn one_connection_carries_request_after_request() {
    let asking = Asking::new();
    let mut raw = asking.pooled();
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x=y\r\no\r\n1\r\nk\r\n0\r\nTrailer: 1\r\n\r\n";
    let empty = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";
    let none = "HTTP/1.1 204 No Content\r\n\r\n";
    let rows = [
        (OK, 200, "ok"),
        (chunked, 200, "ok"),
        (empty, 202, ""),
        (none, 204, ""),
    ];
    for (reply, status, body) in rows {
        let asked = asking.get();
        raw.until("\r\n\r\n");
        raw.send(reply);
        assert_eq!(asked.wait(), Ok(Got::of(status, body)));
        let asked = asking.post();
        raw.until("\r\n\r\nbody");
        raw.send(reply);
        assert_eq!(asked.wait(), Ok(Got::of(status, body)));
    }
    // What HEAD asks for has a length and no body.
    for _ in 0..2 {
        let request = asking.request(Method::Head, "/a");
        let asked = asking.send(request, Connection::Pooled);
        raw.until("\r\n\r\n");
        raw.send("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n");
        assert_eq!(asked.wait(), Ok(Got::of(200, "")));
    }
    assert!(!asking.peer.has_caller());
}

#[test]
fn a_fresh_connection_is_opened_though_an_idle_one_is_there() {
    let asking = Asking::new();
    let idle = asking.pooled();
    let asked = asking.send(asking.request(Method::Post, "/a"), Connection::Fresh);
    let mut raw = asking.peer.accept();
    raw.until("\r\n\r\n");
    raw.send(OK);
    assert_eq!(asked.wait(), Ok(Got::of(200, "ok")));
    idle.is_silent();
}

#[test]
fn a_connection_is_not_kept_when_it_may_not_or_must_not_be() {
    for (method, reply, status, body) in [
        (
            Method::Get,
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
            200,
            "ok",
        ),
        (
            Method::Get,
            "HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok",
            200,
            "ok",
        ),
        // More than was promised, and a body where there is none.
        (
            Method::Get,
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n",
            200,
            "ok",
        ),
        (
            Method::Get,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n0\r\n\r\n",
            200,
            "ok",
        ),
        (
            Method::Get,
            "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
            204,
            "",
        ),
        (
            Method::Get,
            "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\nevil",
            204,
            "",
        ),
        (
            Method::Get,
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\nevil",
            304,
            "",
        ),
        (
            Method::Head,
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
            200,
            "",
        ),
        (
            Method::Head,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n",
            200,
            "",
        ),
    ] {
        let asking = Asking::new();
        let asked = asking.send(asking.request(method, "/a"), Connection::Pooled);
        let mut raw = asking.peer.accept();
        raw.until("\r\n\r\n");
        raw.send(reply);
        assert_eq!(asked.wait(), Ok(Got::of(status, body)), "{reply}");
        raw.ends();
        asking.pooled();
    }
}

#[test]
fn a_get_on_a_connection_that_died_idle_is_sent_once_more_on_a_fresh_one() {
    type Die = fn(Raw);
    let ways: [Die; 2] = [drop, Raw::reset];
    for die in ways {
        let asking = Asking::new();
        let mut raw = asking.pooled();
        let asked = asking.get();
        raw.until("\r\n\r\n");
        die(raw);
        let mut fresh = asking.peer.accept();
        fresh.until("\r\n\r\n");
        fresh.send(OK);
        assert_eq!(asked.wait(), Ok(Got::of(200, "ok")));
        // Once, not for ever: a fresh one that breaks is an answer.
        let asked = asking.get();
        fresh.until("\r\n\r\n");
        die(fresh);
        let mut fresh = asking.peer.accept();
        fresh.until("\r\n\r\n");
        die(fresh);
        assert_eq!(asked.wait(), fault(FaultKind::Closed, true));
        assert!(!asking.peer.has_caller());
    }
}

#[test]
fn nothing_but_a_get_without_a_byte_of_a_reply_is_ever_sent_twice() {
    let asking = Asking::new();
    for method in [Method::Post, Method::Put, Method::Delete, Method::Patch] {
        let mut raw = asking.pooled();
        let asked = asking.send(asking.request(method, "/a"), Connection::Pooled);
        raw.until("\r\n\r\n");
        drop(raw);
        assert_eq!(asked.wait(), fault(FaultKind::Closed, true));
        assert!(!asking.peer.has_caller());
    }
    let mut raw = asking.pooled();
    let asked = asking.get();
    raw.until("\r\n\r\n");
    raw.send("H");
    drop(raw);
    assert_eq!(asked.wait(), fault(FaultKind::Closed, true));
    assert!(!asking.peer.has_caller());
}

#[test]
fn an_idle_connection_that_ended_or_spoke_out_of_turn_is_not_used() {
    type Spoil = fn(&mut Raw);
    let ways: [Spoil; 2] = [
        |raw| raw.shutdown_write(),
        // Taken for the next reply it would answer a question that it never heard.
        |raw| raw.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"),
    ];
    for spoil in ways {
        let asking = Asking::new();
        let mut raw = asking.pooled();
        spoil(&mut raw);
        let asked = asking.post();
        let mut fresh = asking.peer.accept();
        fresh.until("\r\n\r\nbody");
        fresh.send(OK);
        assert_eq!(asked.wait(), Ok(Got::of(200, "ok")));
        raw.ends();
    }
}

#[test]
fn an_idle_connection_is_kept_for_55_seconds() {
    let asking = Asking::new();
    let mut raw = asking.pooled();
    asking.there.advance(55 * SECOND - MILLISECOND);
    let asked = asking.get();
    raw.until("\r\n\r\n");
    raw.send(OK);
    assert!(asked.wait().is_ok());
    asking.there.advance(55 * SECOND);
    let fresh = asking.pooled();
    raw.ends();
    fresh.is_silent();
    assert_eq!(asking.there.clock.live_timers(), 0);
}

// --- what is a reply ---

#[test]
fn interim_replies_are_skipped_and_counted() {
    let interim = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
    let asking = Asking::new();
    let got = asking.answered(&(interim.repeat(8) + OK));
    assert_eq!(got, Ok(Got::of(200, "ok")));
    let asking = Asking::new();
    let got = asking.answered(&(interim.repeat(9) + OK));
    assert_eq!(got, fault(FaultKind::Protocol, true));
    // It would change the protocol, and nobody asked.
    let asking = Asking::new();
    let got = asking.answered("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n");
    assert_eq!(got, fault(FaultKind::Protocol, true));
}

/// What is no reply: its kind, and its bytes.
#[rustfmt::skip]
fn no_replies() -> Vec<(&'static str, Vec<u8>)> {
    const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut rows = Vec::new();
    let mut add = |kind, all: Vec<Vec<u8>>| rows.extend(all.into_iter().map(|bytes| (kind, bytes)));
    let heads = |all: &[&[u8]]| each(b"HTTP/1.1 200 OK\r\n", all, b"\r\n\r\nok");
    add("status line", each(b"", &[
        b"SSH-2.0-OpenSSH_9.0", b"ICY 200 OK", b"http/1.1 200 OK", b"HTTP/1.10 200 OK", b"HTTP/2.0 200 OK", b"HTTP/0.9 200 OK", b"HTTP/1.1  200 OK", b"HTTP/1.1\t200 OK", b" HTTP/1.1 200 OK", b"\r\nHTTP/1.1 200 OK",
        b"HTTP/1.1 099 OK", b"HTTP/1.1 600 OK", b"HTTP/1.1 20 OK", b"HTTP/1.1 2000 OK", b"HTTP/1.1 +20 OK", b"HTTP/1.1 200OK", b"HTTP/1.1", b"HTTP/1.1 ", b"200 OK", b"GET /a HTTP/1.1", b"\x16\x03\x01",
    ], b"\r\nContent-Length: 2\r\n\r\nok"));
    add("line ends", each(b"HTTP/1.1 200 OK", &[
        b"\nContent-Length: 2\n\n", b"\r\nContent-Length: 2\r\n\n", b"\r\nContent-Length: 2\n\r\n", b"\rContent-Length: 2\r\r", b"\r\n Content-Length: 2\r\n\r\n", b"\r\nContent-Length: 2\r\r\n\r\n",
    ], b"ok"));
    add("field", heads(&[
        b"X : y", b"X\t: y", b": y", b":", b"X", b"X Y: z", b"X: y\r\n folded", b"X: y\r\n\tfolded", b"X: y\rz", b"X: y\nY: z", b"X: y\0z", b"X\0: y", b"X: \x01", b"X: \x7f", b"X: \x1b[2J", b"X(y): z", b"X\xe9: y",
    ]));
    add("content-length", each(b"HTTP/1.1 200 OK\r\nContent-Length", &[
        b"", b":", b": +2", b": -2", b": 2 2", b": 2,2", b": 2, 2", b": 2,", b": 02", b": 0x2", b": 2_0", b": 2.0", b": 2;", b": \"2\"", b": two", b":\t2", b": 2\t", b": \xd9\xa2", b": 18446744073709551616", b": 99999999999999999999999999",
        b": 2\r\nContent-Length: 2", b": 2\r\nContent-Length: 3", b": 2\r\ncontent-LENGTH: 0", b" : 2",
    ], b"\r\n\r\nok"));
    add("transfer-encoding", each(b"HTTP/1.1 200 OK\r\nTransfer-Encoding", &[
        b"", b":", b": identity", b": gzip", b": gzip, chunked", b": chunked, gzip", b": chunked, identity", b": ,chunked", b": chunked,", b": chunked, chunked", b": chunkedchunked", b": xchunked", b": chunked;q=1", b": \"chunked\"", b":\tchunked", b": chunked\t",
        b": chunked\r\nTransfer-Encoding: chunked", b": identity\r\nTransfer-Encoding: chunked", b" : chunked",
    ], b"\r\n\r\n2\r\nok\r\n0\r\n\r\n"));
    add("both framings", heads(&[b"Transfer-Encoding: chunked\r\nContent-Length: 2", b"Content-Length: 2\r\nTransfer-Encoding: chunked", b"Content-Length: 0\r\nTransfer-Encoding: chunked", b"Transfer-Encoding: identity\r\nContent-Length: 2"]));
    add("both framings", vec![b"HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec()]);
    add("transfer-encoding in HTTP/1.0", vec![b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n".to_vec()]);
    add("a body where there is none", each(b"HTTP/1.1 ", &[
        b"204 No Content\r\nContent-Length: 2", b"204 No Content\r\nTransfer-Encoding: chunked", b"100 Continue\r\nContent-Length: 2", b"103 Early Hints\r\nTransfer-Encoding: chunked",
    ], b"\r\n\r\nok"));
    add("an upgrade", vec![b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n".to_vec()]);
    add("chunk size", each(CHUNKED, &[
        b"", b"0_2", b"2_", b"+2", b"-2", b"-0", b"0x2", b"2h", b"zz", b" 2", b"2 ", b"\t2", b"2\t", b"\xd9\xa2", b"00000000000000002", b"fffffffffffffffff", b"10000000000000002", b"\"2\"", b"2\nok", b"2\rok", b"\r\n2",
    ], b"\r\nok\r\n0\r\n\r\n"));
    add("chunk data without its line end", each(&[CHUNKED, b"2\r\nok"].concat(), &[b"", b"XX", b"\n\n", b"\r\r", b"\n\r", b"  ", b"\n", b"\rX", b"!\r\n"], b"0\r\n\r\n"));
    add("chunk extension", each(CHUNKED, &[b"2;", b"2;a=", b"2;=b", b"2;a=\"b", b"2 ;a=b", b"2; a=b", b"2;a\nb", b"2;a=\"b\"c", b"2;;"], b"\r\nok\r\n0\r\n\r\n"));
    add("trailer", each(&[CHUNKED, b"2\r\nok\r\n0\r\n"].concat(), &[
        b"X\r\n\r\n", b": y\r\n\r\n", b"X : y\r\n\r\n", b" X: y\r\n\r\n", b"X: y\n\r\n", b"X: y\rz\r\n\r\n", b"X: \0\r\n\r\n", b"X: y\r\n z\r\n\r\n", b"\n", b"\rX", b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
    ], b""));
    let large = [b'y'; 20_000];
    add("too much", heads(&[&[b"X: ", &large[..]].concat(), &b"X: y\r\n".repeat(120)]));
    add("too much", each(b"HTTP/1.1 200 ", &[&large], b""));
    add("too much", each(CHUNKED, &[
        &[b"2;a=", &large[..], b"\r\nok\r\n0\r\n\r\n"].concat(), &[&[b"1;a=", &[b'b'; 250][..], b"\r\nx\r\n"].concat().repeat(80), &b"0\r\n\r\n"[..]].concat(), &[b"0\r\nX: ", &large[..], b"\r\n\r\n"].concat(), &[b"0\r\n", &b"X: y\r\n".repeat(4_000)[..]].concat(),
    ], b""));
    for blank in BLANKS {
        let all = |patterns: &[&[u8]]| each_with(blank, patterns);
        add("blanks in a status line", all(&[
            b"~HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b"HTTP/1.1~200 OK\r\nContent-Length: 2\r\n\r\nok", b"HTTP/1.1 ~200 OK\r\nContent-Length: 2\r\n\r\nok", b"HTTP/1.1 200~OK\r\nContent-Length: 2\r\n\r\nok", b"HTTP~/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        ]));
        add("blanks around a name", all(&[
            b"HTTP/1.1 200 OK\r\nX~: y\r\nContent-Length: 2\r\n\r\nok", b"HTTP/1.1 200 OK\r\nContent-Length~: 2\r\n\r\nok", b"HTTP/1.1 200 OK\r\n~Content-Length: 2\r\n\r\nok", b"HTTP/1.1 200 OK\r\nTransfer-Encoding~: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", b"HTTP/1.1 200 OK\r\n~Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ]));
        add("blanks around a content-length", all(&[b"HTTP/1.1 200 OK\r\nContent-Length:~2\r\n\r\nok", b"HTTP/1.1 200 OK\r\nContent-Length: ~2\r\n\r\nok", b"HTTP/1.1 200 OK\r\nContent-Length: 2~\r\n\r\nok", b"HTTP/1.1 200 OK\r\nContent-Length: ~\r\n\r\nok"]));
        add("blanks around a transfer-encoding", all(&[b"HTTP/1.1 200 OK\r\nTransfer-Encoding:~chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: ~chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked~\r\n\r\n2\r\nok\r\n0\r\n\r\n"]));
        add("blanks in chunks", all(&[b"~2\r\nok\r\n0\r\n\r\n", b"2~\r\nok\r\n0\r\n\r\n", b"2;~a\r\nok\r\n0\r\n\r\n", b"2;a~\r\nok\r\n0\r\n\r\n", b"2\r\nok~\r\n0\r\n\r\n", b"2\r\nok\r\n~0\r\n\r\n", b"2\r\nok\r\n0~\r\n\r\n", b"2\r\nok\r\n0\r\nX~: y\r\n\r\n"]).iter().flat_map(|body| each(CHUNKED, &[body], b"")).collect());
    }
    rows
}

#[test]
fn what_is_not_a_reply_is_a_fault_and_closes() {
    let rows = no_replies();
    let mut counts = std::collections::BTreeMap::new();
    for (kind, reply) in &rows {
        // At once, and as far as it goes, byte by byte.
        for piece in [reply.len(), reply.len().div_ceil(400)] {
            let asking = Asking::new();
            let context = format!("{kind}, in pieces of {piece}: {}", reply.escape_ascii());
            let asked = asking.get();
            let mut raw = asking.peer.accept();
            raw.until("\r\n\r\n");
            for part in reply.chunks(piece) {
                raw.send_while_open(part);
                if piece < reply.len() {
                    asking.there.turn();
                }
            }
            assert_eq!(asked.wait(), fault(FaultKind::Protocol, true), "{context}");
            raw.ends();
            assert!(!asking.peer.has_caller(), "{context}");
        }
        *counts.entry(kind).or_insert(0) += 1;
    }
    for (kind, count) in counts {
        println!("{count:4} {kind}");
    }
    println!("{:4} rows", rows.len());
}

#[test]
fn a_body_cut_short_is_never_whole() {
    type Cut = fn(Raw);
    let ways: [Cut; 2] = [drop, Raw::reset];
    for reply in [
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 103 Early Hints\r\n\r\n",
    ] {
        for cut in ways {
            let asking = Asking::new();
            let asked = asking.get();
            let mut raw = asking.peer.accept();
            raw.until("\r\n\r\n");
            raw.send(reply);
            cut(raw);
            assert_eq!(asked.wait(), fault(FaultKind::Closed, true), "{reply}");
        }
    }
}

#[test]
fn a_body_without_a_length_is_whole_at_the_end_of_the_stream_and_not_at_a_reset() {
    let reply = "HTTP/1.1 200 OK\r\n\r\nall of it";
    for (cut, expected) in [
        (drop as fn(Raw), Ok(Got::of(200, "all of it"))),
        (Raw::reset, fault(FaultKind::Closed, true)),
    ] {
        let asking = Asking::new();
        let asked = asking.get();
        let mut raw = asking.peer.accept();
        raw.until("\r\n\r\n");
        raw.send(reply);
        cut(raw);
        assert_eq!(asked.wait(), expected);
    }
}

#[test]
fn a_body_that_failed_does_not_end_well_when_asked_again() {
    for reply in [
        "HTTP/1.1 200 OK\r\n\r\npart",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\nzz\r\n",
    ] {
        let asking = Asking::new();
        let (client, deadline) = (asking.client.clone(), asking.in_ten_seconds());
        let request = asking.request(Method::Get, "/a");
        let asked = asking.there.start(async move {
            let mut reply = client
                .send(request, deadline, Connection::Pooled)
                .await
                .unwrap();
            let mut outcomes = Vec::new();
            for _ in 0..100 {
                match reply.next_chunk().await {
                    Ok(Some(_)) if outcomes.is_empty() => {}
                    outcome => outcomes.push(outcome.is_err()),
                }
            }
            outcomes
        });
        let mut raw = asking.peer.accept();
        raw.until("\r\n\r\n");
        raw.send(reply);
        raw.reset();
        let outcomes = asked.wait();
        assert!(
            outcomes.len() > 1 && outcomes.iter().all(|failed| *failed),
            "{reply}"
        );
    }
}

#[test]
fn a_redirect_is_a_reply_and_nothing_else() {
    let asking = Asking::new();
    let elsewhere = Peer::new();
    let mut raw = asking.pooled();
    for status in [301, 302, 303, 307, 308] {
        let location = format!("HTTP://{}/%7Eelsewhere/../x", elsewhere.address);
        let asked = asking.get();
        raw.until("\r\n\r\n");
        raw.send(format!(
            "HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 2\r\n\r\ngo"
        ));
        let expected = Got {
            status,
            location: Some(location),
            body: "go".to_owned(),
        };
        assert_eq!(asked.wait(), Ok(expected));
    }
    asking.there.turn();
    assert!(!elsewhere.has_caller() && !asking.peer.has_caller());
}

// --- bounds and deadlines ---

#[test]
fn a_body_is_read_up_to_the_limit_and_no_further() {
    for (limit, whole) in [(2, true), (1, false)] {
        let asking = Asking::new();
        let (client, deadline) = (asking.client.clone(), asking.in_ten_seconds());
        let request = asking.request(Method::Get, "/a");
        let asked = asking.there.start(async move {
            let reply = client.send(request, deadline, Connection::Pooled).await?;
            reply.read_all(limit).await
        });
        let mut raw = asking.peer.accept();
        raw.until("\r\n\r\n");
        raw.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n");
        if whole {
            raw.send("0\r\n\r\n");
            assert_eq!(asked.wait(), Ok(b"ok".to_vec()));
            raw.is_silent();
        } else {
            let got = asked.wait();
            assert_eq!(got, fault(FaultKind::TooLarge, true));
            raw.ends();
        }
    }
}

#[test]
fn a_body_without_end_ends_at_the_limit() {
    for head in [
        "HTTP/1.1 200 OK\r\nContent-Length: 9999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n",
    ] {
        let asking = Asking::new();
        let asked = asking.get();
        let mut raw = asking.peer.accept();
        raw.until("\r\n\r\n");
        raw.send(head);
        let piece = vec![b'x'; 65_536];
        while asked.is_running() {
            raw.send_while_open(&piece);
        }
        assert_eq!(asked.wait(), fault(FaultKind::TooLarge, true));
    }
}

impl Raw {
    /// Writes, and does not mind that the other side may have closed.
    fn send_while_open(&mut self, bytes: &[u8]) {
        use std::io::Write;
        let _ = self.stream.write_all(bytes);
    }
}

#[test]
fn the_deadline_holds_while_connecting() {
    let asking = Asking::new();
    let _last = asking.peer.fill_backlog();
    let asked = asking.get();
    asking.there.until_timers(1);
    asking.there.advance(10 * SECOND - MILLISECOND);
    assert!(asked.is_running());
    asking.there.advance(MILLISECOND);
    assert_eq!(asked.wait(), fault(FaultKind::Timeout, false));
    assert_eq!(asking.there.clock.live_timers(), 0);
}

#[test]
fn the_deadline_holds_while_the_head_is_awaited() {
    for part in ["", "HTTP/1.1 200 OK\r\nX: y\r\n", "HTTP/1.1 103 x\r\n\r\n"] {
        let asking = Asking::new();
        let asked = asking.get();
        let mut raw = asking.peer.accept();
        raw.until("\r\n\r\n");
        raw.send(part);
        asking.there.until_timers(1);
        asking.there.advance(10 * SECOND - MILLISECOND);
        assert!(asked.is_running());
        asking.there.advance(MILLISECOND);
        assert_eq!(asked.wait(), fault(FaultKind::Timeout, true));
        raw.ends();
        assert!(!asking.peer.has_caller(), "it was not sent again");
    }
}

/// A byte a second is progress, and buys no time.
#[test]
fn the_deadline_holds_for_a_reply_that_trickles() {
    for begun in [
        "",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n63\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
    ] {
        let asking = Asking::new();
        let asked = asking.get();
        let mut raw = asking.peer.accept();
        raw.until("\r\n\r\n");
        raw.send(begun);
        asking.there.until_timers(1);
        for _ in 0..9 {
            raw.send("a");
            asking.there.advance(SECOND);
            assert!(asked.is_running(), "{begun:?}");
        }
        asking.there.advance(SECOND - MILLISECOND);
        assert!(asked.is_running(), "{begun:?}");
        raw.send("a");
        asking.there.advance(MILLISECOND);
        assert_eq!(asked.wait(), fault(FaultKind::Timeout, true), "{begun:?}");
        raw.ends();
        assert!(!asking.peer.has_caller(), "it was not sent again");
    }
}

#[test]
fn the_deadline_holds_while_the_request_is_written() {
    let asking = Asking::new();
    let request = asking.request(Method::Post, "/a").body(vec![b'x'; LARGE]);
    let asked = asking.send(request, Connection::Fresh);
    let mut raw = asking.peer.accept();
    raw.until("\r\n\r\n");
    asking.there.until_timers(1);
    asking.there.advance(10 * SECOND);
    assert_eq!(asked.wait(), fault(FaultKind::Timeout, true));
    let (sent, _) = raw.end();
    assert!(sent.len() < LARGE);
}

#[test]
fn the_deadline_holds_for_the_body_until_it_is_moved() {
    let asking = Asking::new();
    let (client, deadline) = (asking.client.clone(), asking.in_ten_seconds());
    let request = asking.request(Method::Get, "/a");
    let (clock, (head_in, head)) = (asking.there.clock.clone(), std::sync::mpsc::channel());
    let asked = asking.there.start(async move {
        let mut reply = client.send(request, deadline, Connection::Pooled).await?;
        let _ = head_in.send(());
        let first = reply.next_chunk().await;
        let second = reply.next_chunk().await;
        reply.set_deadline(clock.after(10 * SECOND));
        Ok::<_, ClientFault>((first, second, reply.read_all(100).await))
    });
    let mut raw = asking.peer.accept();
    raw.until("\r\n\r\n");
    raw.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\none");
    head.recv_timeout(crate::support::PATIENCE).unwrap();
    asking.there.until_timers(1);
    asking.there.advance(10 * SECOND - MILLISECOND);
    assert!(asked.is_running());
    asking.there.advance(MILLISECOND);
    asking.there.until_timers(1);
    raw.send("two");
    let (first, second, rest) = asked.wait().unwrap();
    assert_eq!(first, Ok(Some(b"one".to_vec())));
    assert_eq!(second, fault(FaultKind::Timeout, true));
    assert_eq!(rest, Ok(b"two".to_vec()), "waiting in vain lost a byte");
    raw.is_silent();
}

#[test]
fn the_deadline_holds_for_a_body_that_always_has_more() {
    let asking = Asking::new();
    let (client, deadline) = (asking.client.clone(), asking.in_ten_seconds());
    let request = asking.request(Method::Get, "/a");
    let clock = asking.there.clock.clone();
    let asked = asking.there.start(async move {
        let mut reply = client.send(request, deadline, Connection::Pooled).await?;
        let first = reply.next_chunk().await;
        clock.advance(10 * SECOND);
        Ok::<_, ClientFault>((first.map(|_| ()), reply.next_chunk().await))
    });
    let mut raw = asking.peer.accept();
    raw.until("\r\n\r\n");
    raw.send(format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n{}",
        "x".repeat(40_000)
    ));
    let (first, second) = asked.wait().unwrap();
    assert_eq!((first, second), (Ok(()), fault(FaultKind::Timeout, true)));
}

#[test]
fn nothing_is_sent_after_the_deadline() {
    let asking = Asking::new();
    for connection in [Connection::Pooled, Connection::Fresh] {
        let raw = asking.pooled();
        let (client, deadline) = (asking.client.clone(), asking.there.clock.now());
        let request = asking.request(Method::Get, "/a");
        let asked = asking
            .there
            .start(async move { client.send(request, deadline, connection).await.map(|_| ()) });
        assert_eq!(asked.wait(), fault(FaultKind::Timeout, false));
        if connection == Connection::Pooled {
            raw.ends();
        }
    }
}

// --- early replies, and letting go ---

#[test]
fn a_reply_may_come_before_the_request_is_sent() {
    let asking = Asking::new();
    let request = asking.request(Method::Post, "/a").body(vec![b'x'; LARGE]);
    let asked = asking.send(request, Connection::Pooled);
    let mut raw = asking.peer.accept();
    raw.until("\r\n\r\n");
    raw.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno");
    assert_eq!(asked.wait(), Ok(Got::of(413, "no")));
    // Half a request is on it: it carries no other, and the peer sees the end.
    let (sent, _) = raw.end();
    assert!(sent.len() < LARGE);
    asking.pooled();
}

#[test]
fn a_reply_is_read_though_the_peer_reset_the_connection_behind_it() {
    let asking = Asking::new();
    for _ in 0..200 {
        let request = asking
            .request(Method::Post, "/a")
            .body(vec![b'x'; LARGE / 4]);
        let asked = asking.send(request, Connection::Fresh);
        let mut raw = asking.peer.accept();
        raw.until("\r\n\r\n");
        raw.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno");
        raw.reset();
        assert_eq!(asked.wait(), Ok(Got::of(413, "no")));
    }
}

#[test]
fn dropping_what_was_begun_closes_the_connection() {
    // The future that waits for the head.
    let asking = Asking::new();
    let asked = asking.get();
    let mut raw = asking.peer.accept();
    raw.until("\r\n\r\n");
    asking.there.until_timers(1);
    drop(asked);
    raw.ends();
    // On a connection from the pool, too, which is not given back.
    let mut raw = asking.pooled();
    let asked = asking.get();
    raw.until("\r\n\r\n");
    drop(asked);
    raw.ends();
    // A reply that is half read, and one that nobody read.
    for chunks in [0, 1] {
        let (client, deadline) = (asking.client.clone(), asking.in_ten_seconds());
        let request = asking.request(Method::Get, "/a");
        let asked = asking.there.start(async move {
            let mut reply = client.send(request, deadline, Connection::Pooled).await?;
            for _ in 0..chunks {
                reply.next_chunk().await?;
            }
            Ok::<_, ClientFault>(())
        });
        let mut raw = asking.peer.accept();
        raw.until("\r\n\r\n");
        raw.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
        assert_eq!(asked.wait(), Ok(()));
        raw.ends();
    }
    assert_eq!(asking.there.clock.live_timers(), 0);
}

// --- both ends of ours, on a network that is never convenient ---

/// Answers with what was asked: whole, or streamed in two pieces.
struct Echo;

impl Handler for Echo {
    async fn handle(&self, request: Request, responder: Responder) -> Responded {
        let Request { head, body, .. } = request;
        if head.path() == "/unread" {
            return responder.send(200, &[], b"unread").await;
        }
        let body = match body.read_all(100_000).await {
            Ok(body) => body,
            Err(fault) => return responder.send(fault.status(), &[], b"").await,
        };
        if head.path() != "/streamed" {
            return responder.send(200, &[], &body).await;
        }
        let (first, second) = body.split_at(body.len() / 2);
        match responder.start(200, &[], first).await {
            Ok(writer) => writer.finish(second).await,
            Err(gone) => gone,
        }
    }
}

#[test]
fn whatever_the_pieces_the_messages_are_the_same() {
    for seed in 0..200 {
        let clock = Clock::hand_driven(crate::lab::WALL_MS);
        let net = MemoryNet::new(Random::seeded(seed));
        let runtime = Runtime::with(clock, Net::memory(net), Random::seeded(seed));
        let world = runtime.world().clone();
        runtime.block_on(async move {
            let listener = world.net.listen("127.0.0.1:0".parse().unwrap()).unwrap();
            let port = listener.local_address().unwrap().port();
            let limits = Arc::new(Limits::default());
            let serving = serve(world.clone(), listener, Arc::new(Echo), limits);
            let serving = world.spawn(serving);
            let client = Client::new(world.clone());
            let deadline = world.clock.after(SECOND);
            for (path, length) in [("/a", 0), ("/a", 1), ("/streamed", 9_000), ("/a", 9_000)] {
                let url = format!("http://any.example:{port}{path}").parse().unwrap();
                let body: Vec<u8> = (0..length).map(|n: u32| (n % 251) as u8).collect();
                let request = OutRequest::new(Method::Post, &url)
                    .unwrap()
                    .body(body.clone());
                let reply = client.send(request, deadline, Connection::Pooled).await;
                let reply = reply.unwrap().read_all(100_000).await;
                assert_eq!(reply, Ok(body), "seed {seed}, {path}");
            }
            // Pipelined, of every framing, and at the end a body that nobody reads and that is not all there.
            let stream = world.connect("any.example", port).await.unwrap();
            let sent = "GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nGET \
                POST /streamed HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n1\r\nd\r\n0\r\n\r\n\
                HEAD /streamed HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxy\
                POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 999\r\n\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n";
            stream.write_all(sent.as_bytes()).await.unwrap();
            let mut received = Vec::new();
            let mut some = [0; 64];
            while let Ok(1..) = poll_fn(|cx| stream.poll_read(cx, &mut some))
                .await
                .inspect(|&count| received.extend_from_slice(&some[..count]))
            {}
            let expected = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nGET \
                HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n\
                HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
                HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\nunread";
            assert_eq!(String::from_utf8_lossy(&received), expected, "seed {seed}");
            drop(serving);
        });
    }
}
