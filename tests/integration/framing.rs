//! Every kind of framing fault that shipped somewhere (cases/http.md), as raw bytes over real sockets: what the caller saw,
//! what the handler saw, and that a healthy request on a fresh connection works after it. Each input also byte by byte,
//! and cut at every offset by a close. What a client takes for a reply is in `http_client`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use countersign::http::{Handler, Request, Responded, Responder};
use countersign::world::World;

use crate::lab::{self, Caller, within};

/// The most that the handler reads of a body.
const BODY_LIMIT: usize = 100;

/// Longer rows are sent in larger pieces and cut at fewer places.
const LONG: usize = 400;

/// What the handler saw.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Method and target of each request.
    entered: Vec<String>,
    /// How many bodies it read whole.
    whole: usize,
}

/// Answers with method, target, body and the field `x`; to `/unread` without a look at the body.
#[derive(Clone, Default)]
struct Echo(Arc<Mutex<Seen>>);

impl Echo {
    fn seen(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// What was seen since the last time.
    fn take(&self) -> Seen {
        let mut taken = Seen::default();
        self.seen(|seen| std::mem::swap(seen, &mut taken));
        taken
    }
}

impl Handler for Echo {
    async fn handle(&self, request: Request, responder: Responder) -> Responded {
        let Request { head, body, .. } = request;
        let what = format!("{:?} {}", head.method, head.target);
        self.seen(|seen| seen.entered.push(what.clone()));
        if head.path() == "/unread" {
            return responder.send(200, &[], b"unread").await;
        }
        match body.read_all(BODY_LIMIT).await {
            Ok(body) => {
                self.seen(|seen| seen.whole += 1);
                let mut text = format!("{what} {}", String::from_utf8_lossy(&body));
                if let Some(x) = head.headers.get("x") {
                    text += &format!(" x={}", x.escape_ascii());
                }
                responder.send(200, &[], text.as_bytes()).await
            }
            Err(fault) => responder.send(fault.status(), &[], b"").await,
        }
    }
}

/// What comes behind the echoes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// The connection carries another request.
    Kept,
    /// The server closes.
    Closed,
    /// This status without a handler, and the server closes.
    Refused(u16),
    /// This status, by a handler whose body was no body, and the server closes.
    BadBody(u16),
    /// Nothing: a handler waits for the rest of its body.
    Waits,
}

struct Row {
    kind: &'static str,
    bytes: Vec<u8>,
    /// Bodies of the answers with status 200, in order.
    echoes: Vec<String>,
    then: Then,
}

impl Row {
    /// Status and body of each answer.
    fn answers(&self) -> Vec<(u16, String)> {
        let echoes = self.echoes.iter().map(|echo| (200, echo.clone()));
        let last = match self.then {
            Then::Refused(status) | Then::BadBody(status) => Some(status),
            _ => None,
        };
        // The words of a refusal are no matter of framing.
        echoes
            .chain(last.map(|status| (status, String::new())))
            .collect()
    }

    fn entered(&self) -> usize {
        self.echoes.len() + usize::from(matches!(self.then, Then::BadBody(_) | Then::Waits))
    }

    fn whole(&self) -> usize {
        self.echoes.iter().filter(|echo| *echo != "unread").count()
    }

    fn context(&self, how: &str) -> String {
        let shown = self.bytes.get(..LONG).unwrap_or(&self.bytes);
        format!("{}, {how}: {}", self.kind, shown.escape_ascii())
    }
}

#[derive(Default)]
struct Table(Vec<Row>);

impl Table {
    fn add(&mut self, kind: &'static str, echoes: &[&str], then: Then, all: Vec<Vec<u8>>) {
        self.0.extend(all.into_iter().map(|bytes| Row {
            kind,
            bytes,
            echoes: echoes.iter().map(|echo| (*echo).to_owned()).collect(),
            then,
        }));
    }

    fn refused(&mut self, kind: &'static str, status: u16, all: Vec<Vec<u8>>) {
        self.add(kind, &[], Then::Refused(status), all);
    }

    fn bad_body(&mut self, kind: &'static str, status: u16, all: Vec<Vec<u8>>) {
        self.add(kind, &[], Then::BadBody(status), all);
    }

    fn kept(&mut self, kind: &'static str, echo: &str, all: Vec<Vec<u8>>) {
        self.add(kind, &[echo], Then::Kept, all);
    }
}

/// `before`, one of `all`, `behind`.
pub fn each(before: &[u8], all: &[&[u8]], behind: &[u8]) -> Vec<Vec<u8>> {
    all.iter()
        .map(|one| [before, one, behind].concat())
        .collect()
}

/// Whole requests.
fn bytes(all: &[&[u8]]) -> Vec<Vec<u8>> {
    each(b"", all, b"")
}

/// A good request but for these lines, with this body.
fn heads(lines: &[&[u8]], body: &[u8]) -> Vec<Vec<u8>> {
    let behind = [b"\r\n\r\n", body].concat();
    each(b"POST /a HTTP/1.1\r\nHost: h\r\n", lines, &behind)
}

const CHUNKED: &[u8] = b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Chunked bodies.
fn chunked(bodies: &[&[u8]]) -> Vec<Vec<u8>> {
    each(CHUNKED, bodies, b"")
}

/// First lines.
fn lines(all: &[&[u8]]) -> Vec<Vec<u8>> {
    each(b"", all, b"\r\nHost: h\r\n\r\n")
}

/// What some language's `trim` takes for a blank, besides the blank and the tab: 0xA0 and 0x85 where bytes are Latin-1, VT
/// and FF in C, 0x1C to 0x1F in Python, NUL in PHP, and where bytes are UTF-8 the no-break space, the next line, the em
/// space, the line separator and the byte order mark.
pub const BLANKS: [&[u8]; 12] = [
    b"\xa0",
    b"\x85",
    b"\x0b",
    b"\x0c",
    b"\x1c",
    b"\x1f",
    b"\0",
    b"\xc2\xa0",
    b"\xc2\x85",
    b"\xe2\x80\x83",
    b"\xe2\x80\xa8",
    b"\xef\xbb\xbf",
];

const WAITS_FOR_CONTINUE: &str = "an expectation and its body";

/// The patterns with `blank` in place of each `~`.
pub fn each_with(blank: &[u8], patterns: &[&[u8]]) -> Vec<Vec<u8>> {
    let with = |pattern: &&[u8]| {
        pattern
            .split(|&byte| byte == b'~')
            .collect::<Vec<_>>()
            .join(blank)
    };
    patterns.iter().map(with).collect()
}

/// Follows what must not be parsed any further.
const SMUGGLED: &[u8] = b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n";

/// Follows what leaves the connection in step.
const AFTER: &[u8] = b"GET /after HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

fn rows() -> Vec<Row> {
    let mut table = Table::default();
    healthy(&mut table);
    request_lines(&mut table);
    fields(&mut table);
    hosts(&mut table);
    lengths(&mut table);
    codings(&mut table);
    chunks(&mut table);
    blanks(&mut table);
    table.0
}

#[rustfmt::skip]
fn healthy(table: &mut Table) {
    table.kept("a request", "Get /a ", lines(&[b"GET /a HTTP/1.1"]));
    table.kept("a body", "Post /a hello", heads(&[b"Content-Length:5", b"Content-Length: 5", b"content-length:   5  "], b"hello"));
    table.kept("chunks", "Post /a hello", heads(&[b"Transfer-Encoding: chunked", b"Transfer-Encoding:chunked", b"transfer-encoding:  Chunked  "], b"5\r\nhello\r\n0\r\n\r\n"));
    table.kept("one empty line before a request is skipped", "Get /a ", lines(&[b"\r\nGET /a HTTP/1.1"]));
    table.add("pipelined requests", &["Post /a hello", "Get /b "], Then::Kept, heads(&[b"Content-Length: 5"], b"helloGET /b HTTP/1.1\r\nHost: h\r\n\r\n"));
    table.add(
        "pipelined requests", &["Post /a 1", "Get /b ", "Post /c 22", "Get /d "], Then::Kept,
        bytes(&[b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n1GET /b HTTP/1.1\r\nHost: h\r\n\r\nPOST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n22\r\n0\r\n\r\nGET /d HTTP/1.1\r\nHost: h\r\n\r\n"]),
    );
    table.add("a body, then rubbish", &["Post /a hello"], Then::Refused(400), heads(&[b"Content-Length: 5"], b"helloRUBBISH\r\n\r\n"));
    let inner = std::str::from_utf8(SMUGGLED).unwrap();
    let length = format!("Content-Length: {}", inner.len());
    // RUSTSEC-2020-0008 for the GET.
    table.kept("a request within a body is a body", &format!("Post /a {inner}"), heads(&[length.as_bytes()], SMUGGLED));
    table.kept("a request within a body is a body", &format!("Post /a {inner}"), chunked(&[format!("{:x}\r\n{inner}\r\n0\r\n\r\n", inner.len()).as_bytes()]));
    table.kept("a GET with a body", &format!("Get /a {inner}"), bytes(&[format!("GET /a HTTP/1.1\r\nHost: h\r\n{length}\r\n\r\n{inner}").as_bytes()]));
    // RUSTSEC-2020-0093, RUSTSEC-2025-0037.
    table.add(
        "an answer before the body", &["unread"], Then::Closed,
        bytes(&[
            b"POST /unread HTTP/1.1\r\nHost: h\r\nContent-Length: 50000\r\n\r\n",
            b"GET /unread HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n",
            b"POST /unread HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
        ]),
    );
    table.add(
        "nothing behind a close is parsed", &["Get /a "], Then::Closed,
        each(b"GET /a HTTP/1.1\r\nHost: h\r\n", &[
            b"Connection: close", b"connection:CLOSE", b"Connection: keep-alive, Close", b"Connection: keep-alive\r\nConnection: close", b"Connection: close\t,",
        ], b"\r\n\r\n"),
    );
    table.add("HTTP/1.0 keeps nothing", &["Get /a "], Then::Closed, each(b"GET /a HTTP/1.0\r\nHost: h\r\n", &[b"", b"Connection: keep-alive\r\n"], b"\r\n"));
    // RUSTSEC-2026-0033; RFC 9110 section 7.8.
    table.kept("an upgrade is ignored", "Post /a hello", heads(&[
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5",
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\nContent-Length: 5",
    ], b"hello"));
    // Nothing to continue with, and nothing to say before the answer.
    table.kept("an expectation without a body", "Post /a ", heads(&[b"Expect: 100-continue", b"Expect: 100-Continue\r\nContent-Length: 0"], b""));
    table.kept(WAITS_FOR_CONTINUE, "Post /a hello", heads(&[b"Expect: 100-continue\r\nContent-Length: 5"], b"hello"));
    table.add("an expectation in HTTP/1.0", &["Post /a hello"], Then::Closed, bytes(&[b"POST /a HTTP/1.0\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello"]));
    table.add("a body that does not come", &[], Then::Waits, heads(&[b"Content-Length: 6", b"Content-Length: 100"], b"hello"));
    table.bad_body("a body too large", 413, heads(&[b"Content-Length: 101", b"Content-Length: 9223372036854775808", b"Content-Length: 18446744073709551615"], &[b'x'; 101]));
    table.bad_body("chunks too large", 413, chunked(&[&[b"65\r\n", &[b'x'; 101][..], b"\r\n0\r\n\r\n"].concat()]));
    table.bad_body("chunks too large", 413, chunked(&[&[&b"1\r\nx\r\n".repeat(101)[..], b"0\r\n\r\n"].concat()]));
}

/// RFC 9112 section 3.
#[rustfmt::skip]
fn request_lines(table: &mut Table) {
    table.refused("request line", 400, lines(&[
        b"GET  /a HTTP/1.1", b"GET /a  HTTP/1.1", b" GET /a HTTP/1.1", b"GET /a HTTP/1.1 ", b"GET\t/a HTTP/1.1", b"GET /a\tHTTP/1.1", b"GET /a", b"GET /a ",
        b"GET", b"GET /a http/1.1", b"GET /a Http/1.1", b"GET /a HTTP/1.10", b"GET /a HTTP/1.01", b"GET /a HTTP/11", b"GET /a HTTP/1,1", b"GET /a HTTP/1.",
        b"GET /a HTTP /1.1", b"GET /a HTTP/+1.1", b"GET /a FTP/1.1", b"GET /a HTTP/1.1 HTTP/1.1", b"GET /a?b c HTTP/1.1", b"G\xc9T /a HTTP/1.1",
        b"G\xc3\xa9T /a HTTP/1.1", b"G(T /a HTTP/1.1", b"G:T /a HTTP/1.1", b"HTTP/1.1 200 OK", b"/a", b"\x7f",
    ]));
    table.refused("target", 400, lines(&[
        b"GET /\xe9 HTTP/1.1", b"GET /\xc3\xa9 HTTP/1.1", b"GET /a#f HTTP/1.1", b"GET /a?q#f HTTP/1.1", b"GET #f HTTP/1.1", b"GET a HTTP/1.1", b"GET * HTTP/1.1",
        b"GET h:80 HTTP/1.1", b"GET //h/a\\x HTTP/1.1", b"GET /a%zz HTTP/1.1", b"GET /a% HTTP/1.1", b"GET /a<> HTTP/1.1", b"GET /a\x7f HTTP/1.1", b"GET /a\0 HTTP/1.1",
        b"GET javascript:alert(1) HTTP/1.1", b"GET http://other/a HTTP/1.1", b"GET http://user@h/a HTTP/1.1", b"GET http:///a HTTP/1.1", b"GET http://h:80/a HTTP/1.1",
        b"CONNECT /a HTTP/1.1", b"CONNECT h HTTP/1.1", b"CONNECT other:80 HTTP/1.1", b"CONNECT http://h/ HTTP/1.1",
    ]));
    table.kept("an absolute target of the same host", "Get /a?q ", bytes(&[
        b"GET http://h/a?q HTTP/1.1\r\nHost: h\r\n\r\n", b"GET HTTP://H:80/a?q HTTP/1.1\r\nHost: h:80\r\n\r\n", b"GET /a?q HTTP/1.1\r\nHost: [::1]:8600\r\n\r\n",
    ]));
    table.kept("a method that nothing knows", "Other /a ", lines(&[b"get /a HTTP/1.1", b"BREW /a HTTP/1.1", b"TRACE /a HTTP/1.1"]));
    // RFC 9110 section 15.6.6; the last one is the preface of RFC 9113 section 3.4.
    table.refused("version", 505, lines(&[b"GET /a HTTP/2.0", b"GET /a HTTP/1.2", b"GET /a HTTP/0.9", b"GET /a HTTP/3.0", b"GET /a HTTP/9.9", b"PRI * HTTP/2.0"]));
    table.refused("CONNECT", 405, each(b"CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n", &[b"", b"Content-Length: 35\r\n"], b"\r\n"));
    table.refused("empty lines", 400, lines(&[b"\r\n\r\nGET /a HTTP/1.1", b"\nGET /a HTTP/1.1", b"\r\rGET /a HTTP/1.1"]));
    table.refused("no HTTP", 400, bytes(&[b"\0", b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", b"SSH-2.0-OpenSSH_9.0\r\n\r\n", &[[0xff; 64].as_slice(), b"\r\n\r\n"].concat()]));
    let long = [b'a'; 20_000];
    table.refused("a head too large", 431, bytes(&[&long, &b"GET /a HTTP/1.1\r\n".repeat(2_000)]));
    table.refused("a head too large", 431, each(b"GET /", &[&long], b" HTTP/1.1\r\nHost: h\r\n\r\n"));
}

/// RFC 9112 sections 2.2, 5.1 and 5.2, RFC 9110 section 5.5.
#[rustfmt::skip]
fn fields(table: &mut Table) {
    table.refused("field", 400, heads(&[
        b" folded: x", b"\tfolded: x", b"X: y\r\n folded", b"X: y\r\n\tfolded", b"X : y", b"X\t: y", b": y", b":", b"X", b"X Y: z", b"X: y\rz", b"X: y\r", b"X: y\nY: z", b"X: y\n",
        b"X: y\0z", b"X\0: y", b"X: \x01", b"X: \x7f", b"X: \x1b[2J", b"X(y): z", b"(x): y", b"\"X\": y", b"X@y: z", b"X/y: z", b"X\xe9: y",
    ], b""));
    table.refused("line ends", 400, bytes(&[
        b"GET /a HTTP/1.1\nHost: h\n\n", b"GET /a HTTP/1.1\r\nHost: h\r\n\n", b"GET /a HTTP/1.1\r\nHost: h\n\r\n", b"GET /a HTTP/1.1\rHost: h\r\r", b"GET /a HTTP/1.1\r\n Host: h\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: h\r\r\n\r\n", b"GET /a HTTP/1.1\n\rHost: h\n\r\n\r",
    ]));
    table.refused("too many fields", 431, heads(&[&b"X: y\r\n".repeat(120)], b""));
    table.refused("a head too large", 431, heads(&[&[&b"X: "[..], &[b'y'; 20_000]].concat(), &b"X: y\r\n".repeat(5_000)], b""));
    // RFC 9110 section 10.1.1.
    table.refused("expectation", 417, heads(&[
        b"Expect: 200-ok\r\nContent-Length: 5", b"Expect: 100-continue, 200-ok", b"Expect:", b"Expect: 100-continue\r\nExpect: 100-continue", b"Expect: 100-continue;q=1",
    ], b"hello"));
}

/// RFC 9112 section 3.2. Whether a host is ours is not a matter of framing: RUSTSEC-2026-0189 is in `mcp`.
#[rustfmt::skip]
fn hosts(table: &mut Table) {
    table.refused("host", 400, each(b"GET /a HTTP/1.1\r\n", &[
        b"", b"Host:\r\n", b"Host: \r\n", b"Host: h\r\nHost: h\r\n", b"Host: h\r\nhOST: other\r\n", b"Host: h, h\r\n", b"Host: h h\r\n", b"Host: h/\r\n", b"Host: h/path\r\n", b"Host: h?q\r\n",
        b"Host: h#f\r\n", b"Host: u@h\r\n", b"Host: u:p@h\r\n", b"Host: h:\r\n", b"Host: h:0\r\n", b"Host: h:080\r\n", b"Host: h:65536\r\n", b"Host: h:99999999999\r\n", b"Host: h:x\r\n",
        b"Host: h:8a\r\n", b"Host: h:+80\r\n", b"Host: h:80:80\r\n", b"Host: :80\r\n", b"Host: h\\other\r\n", b"Host: \th\r\n", b"Host: h\t\r\n", b"Host: [::1\r\n", b"Host: [::1]x\r\n",
        b"Host: ::1\r\n", b"Host: h%00\r\n",
    ], b"\r\n"));
    table.refused("host", 400, bytes(&[b"GET /a HTTP/1.0\r\n\r\n", b"GET http://h/a HTTP/1.1\r\n\r\n"]));
}

/// RUSTSEC-2021-0078; RFC 9110 section 8.6, RFC 9112 section 6.3 rule 5.
#[rustfmt::skip]
fn lengths(table: &mut Table) {
    table.refused("content-length", 400, each(b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length", &[
        b"", b":", b": ", b": +5", b": -5", b": -0", b": 5 5", b": 5,5", b": 5, 5", b": 5,", b": ,5", b": 05", b": 0x5", b": 5_0", b": 5.0", b": 5e0", b": 5;", b": \"5\"", b": five",
        b":\t5", b": 5\t", b": \xd9\xa5", b": 18446744073709551616", b": 18446744073709551621", b": 99999999999999999999999999",
        b": 5\r\nContent-Length: 5", b": 5\r\nContent-Length: 6", b": 5\r\ncontent-LENGTH: 0", b": 5\r\nX: y\r\nContent-Length:", b": 5\r\n 5", b" : 5",
    ], b"\r\n\r\nhello"));
}

/// RUSTSEC-2020-0031, RUSTSEC-2021-0020; RFC 9112 sections 6.1 and 6.3 rule 3.
#[rustfmt::skip]
fn codings(table: &mut Table) {
    const BODY: &[u8] = b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    table.refused("transfer-encoding", 400, each(b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding", &[
        b"", b":", b": identity", b": gzip", b": gzip, chunked", b": chunked, gzip", b": chunked, identity", b": ,chunked", b": , chunked", b": chunked,", b": chunked, chunked",
        b": chunkedchunked", b": xchunked", b": chunke", b": chunked;q=1", b": \"chunked\"", b": 'chunked'", b": chunked chunked", b":\tchunked", b": chunked\t", b": \r\n chunked",
        b": chunked\r\nTransfer-Encoding: chunked", b": chunked\r\nTransfer-Encoding: identity", b": identity\r\nTransfer-Encoding: chunked", b": gzip\r\ntransfer-encoding: chunked", b": chunked\r\nTransfer-Encoding:",
        b" : chunked", b"\t: chunked",
    ], BODY));
    table.refused("both framings", 400, each(b"POST /a HTTP/1.1\r\nHost: h\r\n", &[
        b"Transfer-Encoding: chunked\r\nContent-Length: 4", b"Content-Length: 4\r\nTransfer-Encoding: chunked", b"Transfer-Encoding: chunked\r\nContent-Length: 15", b"Content-Length: 15\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nContent-Length: 0", b"Transfer-Encoding: identity\r\nContent-Length: 15", b"Transfer-Encoding: gzip\r\nContent-Length: 15",
    ], BODY));
    // RUSTSEC-2026-0034.
    table.refused("transfer-encoding in HTTP/1.0", 400, each(b"POST /a HTTP/1.0\r\nHost: h\r\n", &[
        b"Transfer-Encoding: chunked", b"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: 15",
    ], BODY));
    // Whoever takes the name for the other one sees both framings; here it is a field like any other.
    table.add("a name that is not the name", &["Post /a "], Then::Refused(400), each(b"POST /a HTTP/1.1\r\nHost: h\r\n", &[b"Transfer_Encoding: chunked", b"Content_Length: 5", b"XTransfer-Encoding: chunked"], b"\r\n\r\nrubbish\r\n\r\n"));
}

/// RUSTSEC-2021-0079; RFC 9112 section 7.1.
#[rustfmt::skip]
fn chunks(table: &mut Table) {
    let sizes = |all: &[&[u8]]| each(CHUNKED, all, b"\r\nhello\r\n0\r\n\r\n");
    table.bad_body("chunk size", 400, sizes(&[
        b"", b"0_2e", b"0_5", b"5_", b"+5", b"-1", b"-0", b"0x5", b"0X5", b"5h", b"g", b" 5", b"5 ", b"\t5", b"5\t", b"\xd9\xa5", b"00000000000000005", b"fffffffffffffffff", b"ffffffffffffffff1",
        b"10000000000000005", b"five", b"5.0", b"5,5", b"\"5\"",
    ]));
    table.bad_body("chunk size", 400, chunked(&[
        b"5\nhello\r\n0\r\n\r\n", b"5\rhello\r\n0\r\n\r\n", b"\n5\r\nhello\r\n0\r\n\r\n", b"\r\n5\r\nhello\r\n0\r\n\r\n", b"5\r\nhello\r\n\r\n", b"5\r\nhello\r\n+0\r\n\r\n", b"5\r\nhello\r\n 0\r\n\r\n", b"5\r\nhello\r\n0 \r\n\r\n",
    ]));
    table.add("a chunk size of 64 bits", &[], Then::Waits, chunked(&[b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n", b"7fffffffffffffff\r\n"]));
    table.kept("chunk size in other spellings", "Post /a hello", sizes(&[b"5", b"05", b"0000000000000005"]));
    table.kept("chunk size in other spellings", "Post /a helloworld", chunked(&[b"A\r\nhelloworld\r\n0\r\n\r\n", b"a\r\nhelloworld\r\n000\r\n\r\n", b"1\r\nh\r\n9\r\nelloworld\r\n0000000000000000\r\n\r\n"]));
    table.bad_body("chunk data without its line end", 400, each(&[CHUNKED, b"5\r\nhello"].concat(), &[b"", b"XX", b"\n\n", b"\r\r", b"\n\r", b"  ", b"\n", b"\rX", b"00", b"!\r\n"], b"0\r\n\r\n"));
    table.bad_body("chunk extension", 400, sizes(&[
        b"5;", b"5;a=", b"5;=b", b"5;a=\"b", b"5;a=\"b\"c", b"5 ;a=b", b"5; a=b", b"5;a =b", b"5;a= b", b"5;a=b ", b"5;a\nb", b"5;a\rb", b"5;a=\"\r\n\"", b"5;;", b"5;a=\"\0\"",
    ]));
    table.bad_body("chunk extension", 400, chunked(&[b"5\r\nhello\r\n0;\r\n\r\n", b"5\r\nhello\r\n0;a=\"b\r\n\r\n"]));
    table.kept("a chunk extension is dropped", "Post /a hello", sizes(&[b"5;a", b"5;a=b", b"5;a=\"b;\\\"\";c", b"5;0", b"5;a=\"\xa0 \x85\""]));
    table.bad_body("chunk extensions too large", 400, chunked(&[
        &[b"5;", &[b'a'; 1 << 20][..], b"\r\nhello\r\n0\r\n\r\n"].concat(), &[b"5;a=\"", &[b'a'; 1 << 20][..], b"\"\r\nhello\r\n0\r\n\r\n"].concat(),
        &[b"0;", &[b'a'; 1 << 17][..], b"\r\n\r\n"].concat(), &[&[b"1;a=", &[b'b'; 250][..], b"\r\nx\r\n"].concat().repeat(80), &b"0\r\n\r\n"[..]].concat(),
    ]));
    let trailers = |all: &[&[u8]]| each(&[CHUNKED, b"5\r\nhello\r\n0\r\n"].concat(), all, b"");
    table.bad_body("trailer", 400, trailers(&[
        b"X\r\n\r\n", b": y\r\n\r\n", b"X : y\r\n\r\n", b" X: y\r\n\r\n", b"\tX: y\r\n\r\n", b"X: y\n\r\n", b"X: y\rz\r\n\r\n", b"X: \0\r\n\r\n", b"X: \x7f\r\n\r\n", b"X: y\r\n z\r\n\r\n", b"\n", b"\rX", SMUGGLED,
    ]));
    table.bad_body("trailers too large", 400, trailers(&[&[b"X: ", &[b'y'; 1 << 20][..], b"\r\n\r\n"].concat(), &[&b"X: y\r\n".repeat(20_000)[..], b"\r\n"].concat()]));
    table.kept("a trailer is dropped", "Post /a hello", trailers(&[b"\r\n", b"X: y\r\n\r\n", b"X:\xa0y\x85\r\n\r\n", b"Content-Length: 50\r\nTransfer-Encoding: gzip\r\nHost: other\r\n\r\n"]));
}

/// What some language takes for a blank is a byte like any other, or a control character.
#[rustfmt::skip]
fn blanks(table: &mut Table) {
    for blank in BLANKS {
        let all = |patterns: &[&[u8]]| each_with(blank, patterns);
        let control = blank.iter().all(|byte| *byte < 0x20);
        table.refused("blanks in a request line", 400, all(&[
            b"~GET /a HTTP/1.1\r\nHost: h\r\n\r\n", b"GET~/a HTTP/1.1\r\nHost: h\r\n\r\n", b"GET~ /a HTTP/1.1\r\nHost: h\r\n\r\n", b"GET ~/a HTTP/1.1\r\nHost: h\r\n\r\n", b"GET /a~HTTP/1.1\r\nHost: h\r\n\r\n",
            b"GET /a~ HTTP/1.1\r\nHost: h\r\n\r\n", b"GET /a ~HTTP/1.1\r\nHost: h\r\n\r\n", b"GET /a HTTP/1.1~\r\nHost: h\r\n\r\n", b"GET /a HTTP/1.~1\r\nHost: h\r\n\r\n", b"GET /a HTTP~/1.1\r\nHost: h\r\n\r\n",
        ]));
        table.refused("blanks around a name", 400, all(&[
            b"POST /a HTTP/1.1\r\n~Host: h\r\n\r\n", b"POST /a HTTP/1.1\r\nHost~: h\r\n\r\n", b"POST /a HTTP/1.1\r\nHost: h\r\nX~: y\r\n\r\n", b"POST /a HTTP/1.1\r\nHost: h\r\n~X: y\r\n\r\n",
            b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding~: chunked\r\n\r\n0\r\n\r\n", b"POST /a HTTP/1.1\r\nHost: h\r\n~Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer~Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length~: 5\r\n\r\nhello", b"POST /a HTTP/1.1\r\nHost: h\r\n~Content-Length: 5\r\n\r\nhello", b"POST /a HTTP/1.1\r\nHost: h\r\n~\r\n\r\n",
        ]));
        table.refused("blanks around a host", 400, all(&[b"GET /a HTTP/1.1\r\nHost:~h\r\n\r\n", b"GET /a HTTP/1.1\r\nHost: ~h\r\n\r\n", b"GET /a HTTP/1.1\r\nHost: h~\r\n\r\n", b"GET /a HTTP/1.1\r\nHost: ~\r\n\r\n"]));
        table.refused("blanks around a content-length", 400, all(&[
            b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length:~5\r\n\r\nhello", b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: ~5\r\n\r\nhello", b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5~\r\n\r\nhello",
            b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5 ~\r\n\r\nhello", b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5~5\r\n\r\nhello", b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: ~\r\n\r\nhello",
        ]));
        table.refused("blanks around a transfer-encoding", 400, all(&[
            b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:~chunked\r\n\r\n0\r\n\r\n", b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: ~chunked\r\n\r\n0\r\n\r\n", b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked~\r\n\r\n0\r\n\r\n",
            b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked ~\r\n\r\n0\r\n\r\n", b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity,~chunked\r\n\r\n0\r\n\r\n", b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: ~\r\n\r\n0\r\n\r\n",
        ]));
        table.bad_body("blanks around a chunk size", 400, all(&[b"~5", b"5~", b"5~;a", b"~", b"5 ~"]).iter().flat_map(|size| each(CHUNKED, &[size], b"\r\nhello\r\n0\r\n\r\n")).collect());
        table.bad_body("blanks around a chunk size", 400, all(&[b"5\r\nhello~\r\n0\r\n\r\n", b"5\r\nhello\r\n~0\r\n\r\n", b"5\r\nhello\r\n0~\r\n\r\n", b"5\r\nhello\r\n0\r\n~\r\n"]).iter().flat_map(|body| each(CHUNKED, &[body], b"")).collect());
        table.bad_body("blanks in a chunk extension", 400, all(&[b"5;~a", b"5;a~", b"5;a~=b", b"5;a=~b", b"5;a=b~", b"5;a=\"b\"~"]).iter().flat_map(|size| each(CHUNKED, &[size], b"\r\nhello\r\n0\r\n\r\n")).collect());
        table.bad_body("blanks around a trailer's name", 400, all(&[b"~X: y\r\n\r\n", b"X~: y\r\n\r\n"]).iter().flat_map(|trailer| each(CHUNKED, &[b"0\r\n"], trailer)).collect());
        table.refused("blanks around an expectation", if control { 400 } else { 417 }, all(&[b"POST /a HTTP/1.1\r\nHost: h\r\nExpect: ~100-continue\r\n\r\n", b"POST /a HTTP/1.1\r\nHost: h\r\nExpect: 100-continue~\r\n\r\n"]));
        let value = all(&[b"POST /a HTTP/1.1\r\nHost: h\r\nX: ~y~\r\n\r\n"]);
        // An option of another name, by every reading but a lenient one.
        let close = all(&[b"POST /a HTTP/1.1\r\nHost: h\r\nConnection: close~, ~close\r\n\r\n"]);
        if control {
            table.refused("blanks around a value", 400, [value, close].concat());
        } else {
            let shown = blank.escape_ascii();
            table.kept("blanks around a value are of the value", &format!("Post /a  x={shown}y{shown}"), value);
            table.kept("blanks around an option are of the option", "Post /a ", close);
        }
    }
}

/// The interim reply, which is no answer.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The whole answers in `bytes`, read by a length that each must have: status, body, and whether it closes.
fn answers(mut bytes: &[u8]) -> Vec<(u16, String, bool)> {
    let mut answers = Vec::new();
    while !bytes.is_empty() {
        if let Some(behind) = bytes.strip_prefix(CONTINUE) {
            bytes = behind;
            continue;
        }
        let end = bytes
            .windows(4)
            .position(|window| window == b"\r\n\r\n")
            .unwrap_or_else(|| panic!("no answer: {}", bytes.escape_ascii()));
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let status = head.strip_prefix("HTTP/1.1 ").unwrap()[..3]
            .parse()
            .unwrap();
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
        let length: usize = field("content-length: ").unwrap().parse().unwrap();
        let (body, behind) = bytes[end + 4..].split_at(length);
        let closes = field("connection: ") == Some("close");
        answers.push((status, String::from_utf8_lossy(body).into_owned(), closes));
        bytes = behind;
    }
    answers
}

/// Sends `bytes` in pieces of `piece`, and reads to the end. Until nothing is left of the connection.
async fn exchange(
    world: &World,
    address: SocketAddr,
    bytes: &[u8],
    piece: usize,
    half_close: bool,
) -> Vec<u8> {
    let caller = Caller::connect(world, address).await;
    for part in bytes.chunks(piece.max(1)) {
        // A server that refused already may have closed.
        if caller.stream.write_all(part).await.is_err() {
            break;
        }
        if piece < bytes.len() {
            // Lets the server read it by itself.
            for _ in 0..4 {
                smol::future::yield_now().await;
            }
        }
    }
    if half_close {
        caller.stream.shutdown_write();
    }
    // No time passes: whoever closes does it by itself.
    caller.until_end().await;
    let received = caller.received.lock().unwrap().clone();
    drop(caller);
    // Each connection that waits has a timer.
    while world.clock.live_timers() > 0 {
        lab::turn().await;
    }
    received
}

async fn is_as_expected(world: &World, address: SocketAddr, echo: &Echo, row: &Row, piece: usize) {
    let context = row.context(&format!("in pieces of {piece}"));
    let behind = match row.then {
        Then::Kept => AFTER,
        Then::Waits => b"",
        Then::Closed | Then::Refused(_) | Then::BadBody(_) => SMUGGLED,
    };
    let sent = [&row.bytes, behind].concat();
    let half_close = row.then == Then::Waits;
    let exchange = exchange(world, address, &sent, piece, half_close);
    let got = within(&context, exchange).await;
    // Whoever sends its body without waiting is not told to.
    let interim = row.kind == WAITS_FOR_CONTINUE && piece < sent.len();
    assert_eq!(got.starts_with(CONTINUE), interim, "{context}");
    let got = answers(&got);
    let mut expected = row.answers();
    let mut entered = row.entered();
    let mut whole = row.whole();
    if row.then == Then::Kept {
        expected.push((200, "Get /after ".to_owned()));
        entered += 1;
        whole += 1;
    }
    let last = expected.len().saturating_sub(1);
    assert_eq!(got.len(), expected.len(), "{context}\n{got:?}");
    for (at, ((status, body, closes), (wanted, echo))) in got.iter().zip(&expected).enumerate() {
        assert_eq!(status, wanted, "{context}\n{got:?}");
        assert!(*status != 200 || body == echo, "{context}\n{got:?}");
        assert_eq!(*closes, at == last, "{context}\n{got:?}");
    }
    let seen = echo.take();
    assert_eq!(
        (seen.entered.len(), seen.whole),
        (entered, whole),
        "{context}\n{seen:?}"
    );
}

async fn is_healthy(world: &World, address: SocketAddr, echo: &Echo, context: &str) {
    let exchange = exchange(world, address, AFTER, AFTER.len(), false);
    let got = within(context, exchange).await;
    let healthy = [(200, "Get /after ".to_owned(), true)];
    assert_eq!(answers(&got), healthy, "after {context}");
    assert_eq!(echo.take().whole, 1, "after {context}");
}

#[test]
fn each_kind_of_fault_is_answered_once_and_closes() {
    lab::run(|world| async move {
        let echo = Echo::default();
        let address = lab::listen(&world, echo.clone());
        let mut counts = BTreeMap::new();
        for row in rows() {
            is_as_expected(&world, address, &echo, &row, row.bytes.len() + AFTER.len()).await;
            is_healthy(&world, address, &echo, &row.context("at once")).await;
            *counts.entry(row.kind).or_insert(0) += 1;
        }
        for (kind, count) in &counts {
            println!("{count:4} {kind}");
        }
        println!(
            "{:4} rows, each followed by a healthy request",
            counts.values().sum::<i32>()
        );
    });
}

#[test]
fn byte_by_byte_gives_the_same_answers() {
    lab::run_in_memory(|world| async move {
        let echo = Echo::default();
        let address = lab::listen(&world, echo.clone());
        for row in rows() {
            is_as_expected(&world, address, &echo, &row, row.bytes.len().div_ceil(LONG)).await;
        }
        is_healthy(&world, address, &echo, "all").await;
    });
}

/// A close at any offset: no handler has a body whole that is not, a fault that was made stays made, and nothing spins or
/// stays behind. How many there were.
async fn cut(world: &World, every: usize) -> usize {
    let echo = Echo::default();
    let address = lab::listen(world, echo.clone());
    let mut cuts = 0;
    for row in rows() {
        let expected = row.answers();
        let mut refused = false;
        let step = row.bytes.len().div_ceil(LONG) * every;
        for cut in (0..row.bytes.len()).step_by(step) {
            let context = row.context(&format!("cut at {cut}"));
            let exchange = exchange(world, address, &row.bytes[..cut], cut, true);
            let got = within(&context, exchange).await;
            let got = answers(&got);
            assert!(got.len() <= expected.len(), "{context}\n{got:?}");
            for ((status, body, _), (wanted, echo)) in got.iter().zip(&expected) {
                assert_eq!(status, wanted, "{context}\n{got:?}");
                assert!(*status != 200 || body == echo, "{context}\n{got:?}");
            }
            if matches!(row.then, Then::Refused(_)) && row.echoes.is_empty() {
                assert!(!refused || got.len() == 1, "{context}\n{got:?}");
                refused = got.len() == 1;
            }
            let seen = echo.take();
            // A request whose last byte is missing has not been made.
            let whole = row.whole() - usize::from(row.then == Then::Kept);
            assert!(seen.whole <= whole, "{context}\n{seen:?}");
            assert!(seen.entered.len() <= row.entered(), "{context}\n{seen:?}");
            cuts += 1;
        }
    }
    is_healthy(world, address, &echo, "all").await;
    cuts
}

#[test]
fn a_close_at_any_offset_runs_nothing_that_is_not_whole() {
    lab::run_in_memory(|world| async move { println!("{} cuts", cut(&world, 1).await) });
}

/// At some offsets only: each leaves a port of this machine waiting for a minute.
#[test]
fn a_close_of_a_real_socket_runs_nothing_that_is_not_whole() {
    lab::run(|world| async move { println!("{} cuts", cut(&world, 17).await) });
}

/// The bytes that the server takes before it closes are those of its limit, of lingering, and of the kernel.
#[test]
fn a_line_without_end_is_refused_long_before_its_64_mebibytes() {
    lab::run(|world| async move {
        let echo = Echo::default();
        let address = lab::listen(&world, echo.clone());
        let caller = Caller::connect(&world, address).await;
        let piece = [b'a'; 65_536];
        let mut taken = 0;
        while taken < 64 << 20 {
            if within("a write", caller.stream.write_all(&piece))
                .await
                .is_err()
            {
                break;
            }
            taken += piece.len();
        }
        assert!(taken < 64 << 20, "all of it was taken");
        within("the end", caller.until_end()).await;
        let got = answers(&caller.received.lock().unwrap());
        assert_eq!(got.iter().map(|answer| answer.0).collect::<Vec<_>>(), [431]);
        assert_eq!(echo.take(), Seen::default());
        is_healthy(&world, address, &echo, "it").await;
    });
}
