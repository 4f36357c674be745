//! A crowd of slow and idle connections beside healthy ones, against the real program.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::binary::{File, Server};

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
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("RssAnon"))
        .unwrap();
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
