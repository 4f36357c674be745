//! A crowd of slow and idle connections beside healthy ones, against the real program, with and without descriptors left.

use std::io::{Read, Write};
use std::net::TcpStream;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::binary::{File, Server};
use crate::eras::{Served, modern};
use crate::lab::{self, Acts, Endpoint, Reply, created, within};
use crate::support::{OnThread, Raw};

/// Connections that never finish what they began. Well under what the descriptors of a CI machine allow.
const SLOW: usize = 2_000;
const HEALTHY: usize = 1_000;

fn config() -> File {
    File::new(
        "crowd.yaml",
        "gateway: {listen: 127.0.0.1:0}\nservers:\n  - slug: one\n    kind: command\n    tools:\n      - {name: open, argv: [echo, hello]}\ntiming: {headMs: 600000, idleMs: 600000, bodyMs: 600000}\nlog: {level: warn}\n",
    )
}

fn list() -> Vec<u8> {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn ask(stream: &mut TcpStream) -> String {
    stream.write_all(&list()).unwrap();
    let mut got = Vec::new();
    let mut some = [0; 4096];
    while !String::from_utf8_lossy(&got).contains("]}}") {
        let count = stream.read(&mut some).unwrap();
        assert!(count > 0, "closed: {}", String::from_utf8_lossy(&got));
        got.extend_from_slice(&some[..count]);
    }
    String::from_utf8_lossy(&got).into_owned()
}

fn resident_kb(pid: u32) -> usize {
    status_kb(pid, "RssAnon")
}

fn status_kb(pid: u32, name: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn two_thousand_slow_connections_do_not_stop_a_healthy_one() {
    let config = config();
    let server = Server::start(&["serve", "--config", config.path()], &[]);
    let address = server.address("gateway");
    let connect = || TcpStream::connect(&address).unwrap();
    ask(&mut connect());
    let empty = resident_kb(server.id());

    let idle: Vec<_> = (0..SLOW)
        .map(|_| {
            let mut stream = connect();
            ask(&mut stream);
            stream
        })
        .collect();
    let with_idle = resident_kb(server.id());
    drop(idle);

    // A third each: half a head, a head without its body, a body that has begun.
    let whole = list();
    let cuts = [40, whole.len() - 58, whole.len() - 10];
    let slow: Vec<_> = (0..SLOW)
        .map(|index| {
            let mut stream = connect();
            stream.write_all(&whole[..cuts[index % 3]]).unwrap();
            stream
        })
        .collect();
    for _ in 0..HEALTHY {
        let got = ask(&mut connect());
        assert!(got.starts_with("HTTP/1.1 200 "), "{got}");
    }
    let with_slow = resident_kb(server.id());
    let each = |total: usize| total.saturating_sub(empty) * 1024 / SLOW;
    println!(
        "bytes per idle connection {}, per slow one {}",
        each(with_idle),
        each(with_slow)
    );
    // Not a figure, a bound: a buffer for each connection would be 16 KB.
    assert!(
        each(with_idle) < 8_000 && each(with_slow) < 12_000,
        "{empty} {with_idle} {with_slow}"
    );
    // Every slow one is still held, and answered once it goes on.
    for (index, mut stream) in slow.into_iter().enumerate().take(6) {
        stream.write_all(&whole[cuts[index % 3]..]).unwrap();
        let mut got = [0; 15];
        stream.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"HTTP/1.1 200 OK");
    }
}

#[test]
fn the_descriptors_that_there_are_bound_the_connections() {
    let config = config();
    let server = Server::start_limited(160, &["serve", "--config", config.path()]);
    // Half of those that are left for connections.
    server.line("160 descriptors allow 16 connections instead of 16384");
    let address = server.address("gateway");
    let connect = || TcpStream::connect(&address).unwrap();
    let mut all: Vec<TcpStream> = (0..16).map(|_| connect()).collect();
    for stream in &mut all {
        ask(stream);
    }
    let refused = Raw::of(connect());
    assert!(refused.end().0.starts_with("HTTP/1.1 503 "));
    for stream in &mut all {
        ask(stream);
    }
    // One that leaves makes room; how soon that is seen is not said.
    drop(all.pop());
    let mut refused = 0;
    let answer = loop {
        let mut raw = Raw::of(connect());
        raw.send(list());
        let answer = raw.answer();
        if answer.status != 503 {
            break answer;
        }
        refused += 1;
        assert!(refused < 10_000, "there was never room");
    };
    assert_eq!(answer.status, 200);
    assert_eq!(server.count("connections cannot be accepted"), 0);
}

#[test]
fn two_listeners_share_the_descriptors() {
    let config = File::new(
        "two_listeners.yaml",
        "gateway: {listen: [127.0.0.1:0, 127.0.0.1:0]}\nservers:\n  - {slug: one, kind: command, tools: [{name: t, argv: [date]}]}\nlog: {level: warn}\n",
    );
    let server = Server::start_limited(160, &["serve", "--config", config.path()]);
    let addresses = [server.address("gateway"), server.address("gateway")];
    let mut all: Vec<TcpStream> = (0..16)
        .map(|index| TcpStream::connect(&addresses[index % 2]).unwrap())
        .collect();
    for stream in &mut all {
        ask(stream);
    }
    for address in &addresses {
        let refused = Raw::of(TcpStream::connect(address).unwrap());
        assert!(refused.end().0.starts_with("HTTP/1.1 503 "));
    }
}

/// With so few it would answer everything 503.
#[test]
fn a_server_with_too_few_descriptors_for_any_connection_does_not_start() {
    let config = config();
    let server = Server::start_limited(129, &["serve", "--config", config.path()]);
    let (code, said) = server.ended();
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("129 descriptors are too few for any connection: 130 are needed (ulimit -n)"),
        "{said}"
    );
}

/// Clock ticks, of which there are 100 a second, that the process had of the processor.
fn ticks(pid: u32) -> usize {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // Behind the name, which is in parentheses: the state is the third field, user and system time are 14 and 15.
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    fields
        .skip(11)
        .take(2)
        .map(|field| field.parse::<usize>().unwrap())
        .sum()
}

/// Calls `act`, and the question gets to the endpoint.
fn held(gateway: &str, endpoint: &Endpoint, session: &str) -> Raw {
    let mut raw = Raw::of(TcpStream::connect(gateway).unwrap());
    let channel = endpoint.channel(session);
    let headers = [("X-Elicitation-Url", channel.as_str())];
    raw.send(lab::call("/mcp?servers=one", "act", "{}", &headers));
    loop {
        let (seen, reply) = next(endpoint);
        if seen.is_post() {
            assert!(seen.target.contains(session), "{}", seen.target);
            reply.send_blocking(created()).unwrap();
            return raw;
        }
        reply.send_blocking(Reply::pending()).unwrap();
    }
}

fn next(endpoint: &Endpoint) -> (lab::Seen, smol::channel::Sender<Reply>) {
    smol::block_on(within("a request to the endpoint", endpoint.next()))
}

/// Answers the next polls, one of each session.
fn answer(endpoint: &Endpoint, answers: &[(&str, Reply)]) {
    let mut left = answers.to_vec();
    while !left.is_empty() {
        let (seen, reply) = next(endpoint);
        let at = left
            .iter()
            .position(|(session, _)| seen.target.contains(session));
        let with = at.map_or_else(Reply::pending, |at| left.remove(at).1);
        reply.send_blocking(with).unwrap();
    }
}

/// Accepting fails while there is no descriptor. That costs nothing, ends nothing, and passes.
#[test]
fn a_server_out_of_descriptors_waits_and_keeps_what_it_holds() {
    const ROOM: usize = 24;
    let there = OnThread::hand_driven();
    let endpoint = Endpoint::start(&there.world);
    let acts = Acts::new();
    let config = File::new(
        "descriptors.yaml",
        &format!(
            "gateway: {{listen: 127.0.0.1:0, elicitation: {{allowedUrlPrefixes: [\"{}\"]}}}}\nservers:\n  - slug: one\n    kind: command\n    confirmations: true\n    tools:\n      - {{name: act, argv: {}, gate: It acts.}}\ntiming: {{pollMs: 1000}}\nlog: {{level: warn}}\n",
            endpoint.prefix(),
            acts.argv()
        ),
    );
    let server = Server::start(&["serve", "--config", config.path()], &[]);
    let address = server.address("gateway");
    let connect = || TcpStream::connect(&address).unwrap();
    let mut early = connect();
    ask(&mut early);
    let mut declined = held(&address, &endpoint, "first-5d1c");
    let mut accepted = held(&address, &endpoint, "second-83aa");

    // From now on there are so many more than it holds, with gaps between them: an act needs some ten.
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap();
    let number = |entry: std::io::Result<std::fs::DirEntry>| -> u64 {
        let name = entry.unwrap().file_name();
        name.to_str().unwrap().parse().unwrap()
    };
    let open: std::collections::BTreeSet<u64> = open.map(number).collect();
    let most = (0..)
        .filter(|number| !open.contains(number))
        .nth(ROOM)
        .unwrap();
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    prlimit(Pid::from_raw(server.id() as i32), Resource::Nofile, limit).unwrap();
    let crowd: Vec<TcpStream> = (0..2 * ROOM).map(|_| connect()).collect();
    let mut waiting = connect();
    waiting.write_all(&list()).unwrap();
    server.line("connections cannot be accepted for now");

    // Its own polls are the measure of time: about a second lies between two of one call.
    let pending = [("first", Reply::pending()), ("second", Reply::pending())];
    answer(&endpoint, &pending);
    server.count("");
    let before = ticks(server.id());
    for _ in 0..2 {
        answer(&endpoint, &pending);
    }
    let spent = ticks(server.id()) - before;
    println!("accepting failed for {spent} ticks");
    // It tried some 20 times, in no time and silently. A loop without a pause would try some 100,000 times, for some 200
    // ticks.
    assert_eq!(server.count("connections cannot be accepted"), 0);
    assert!(spent < 50, "{spent} ticks");

    // What is held goes on: on connections that are open. An act would need more of them.
    ask(&mut early);
    answer(
        &endpoint,
        &[
            (
                "first",
                Reply::json(r#"{"action":"decline","content":null}"#),
            ),
            ("second", Reply::accept()),
        ],
    );
    declined.until(r#""countersign/outcome":"declined""#);
    let why = accepted.until("Nothing ran.");
    assert!(why.contains("no descriptor is left"), "{why}");
    assert_eq!(acts.count(), 0);

    // Whoever waited is served once others leave, and so is whoever comes.
    drop(crowd);
    waiting
        .set_read_timeout(Some(crate::support::PATIENCE))
        .unwrap();
    let mut got = [0; 15];
    waiting.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"HTTP/1.1 200 OK");
    ask(&mut connect());
    let mut acted = held(&address, &endpoint, "third-07f2");
    answer(&endpoint, &[("third", Reply::accept())]);
    acted.until(r#""countersign/outcome":"done""#);
    assert_eq!(acts.count(), 1);
}

/// "A 3 MB result costs the gateway a bounded buffer, not three copies": the most that it ever held, with several at once
/// and readers that take a little at a time.
#[test]
fn large_results_cost_the_gateway_a_bounded_buffer_each() {
    const CALLERS: usize = 8;
    let there = OnThread::hand_driven();
    let (tools, _far) = Served::apart(&there.world, false);
    let far = lab::listen(&there.world, tools);
    let config = File::new(
        "large.yaml",
        &format!(
            "gateway: {{listen: 127.0.0.1:0}}\nservers:\n  - {{slug: far, kind: remote-http, url: \"http://{far}/mcp\"}}\n"
        ),
    );
    let server = Server::start(&["serve", "--config", config.path()], &[]);
    let address = server.address("gateway");
    let (headers, body) = modern("tools/call", r#""name":"far__large""#, "{}", "");
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let connect = || {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    };
    ask(&mut TcpStream::connect(&address).unwrap());
    let before = status_kb(server.id(), "VmHWM");
    let mut open: Vec<(TcpStream, usize)> = (0..CALLERS).map(|_| (connect(), 0)).collect();
    let mut some = vec![0; 16_384];
    let mut ended = Vec::new();
    while !open.is_empty() {
        open.retain_mut(|(stream, read)| {
            let count = stream.read(&mut some).unwrap();
            *read += count;
            if count == 0 {
                ended.push(*read);
            }
            count > 0
        });
    }
    let most = status_kb(server.id(), "VmHWM") - before;
    println!(
        "{CALLERS} results of {} KB: {most} KB at most",
        ended[0] / 1024
    );
    assert!(ended.iter().all(|read| *read > 3_000_000), "{ended:?}");
    assert!(most < CALLERS * 1024, "{most} KB");
}
