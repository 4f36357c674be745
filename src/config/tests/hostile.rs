//! Files that were written to hurt, or by nobody: each is answered, in bounded time and memory.

use std::time::Instant;

use super::*;

/// A bound that only a cost beyond proportion breaks: in a debug build, a megabyte takes about a second.
const PATIENCE_SECONDS: u64 = 30;

#[test]
fn hostile_files_are_refused_in_bounded_time() {
    let many = 100_000;
    let bomb: String = (1..20)
        .map(|i| format!("a{i}: &a{i} [*a{0}, *a{0}, *a{0}, *a{0}]\n", i - 1))
        .collect();
    let servers = format!("servers:\n{}", "- {slug: a}\n".repeat(60_000));
    let positionals = (0..120_000).map(|i| format!("p{i},")).collect::<String>();
    let tool =
        format!("servers: [{{slug: a, kind: command, tools: [{{positionals: [{positionals}]}}]}}]");
    let cases: Vec<(&str, String)> = vec![
        ("brackets", "[".repeat(many)),
        ("braces", "{".repeat(many)),
        ("block lists", "- ".repeat(many)),
        ("keys", "? ".repeat(many)),
        ("flow maps", "{a: ".repeat(many)),
        (
            "indents",
            (0..1_400)
                .map(|i| format!("{}a:\n", " ".repeat(i)))
                .collect(),
        ),
        ("alias bomb", format!("a0: &a0 [x]\n{bomb}")),
        ("unknown alias", "gateway: *a\n".to_owned()),
        (
            "anchors",
            (0..60_000).map(|i| format!("- &a{i} x\n")).collect(),
        ),
        ("documents", "---\n".repeat(many)),
        ("tags", "a: !x y\n".repeat(1_000)),
        (
            "tag directives",
            (0..30_000).map(|i| format!("%TAG !a{i}! b\n")).collect(),
        ),
        ("equal keys", "log: {}\n".repeat(many)),
        (
            "unknown keys",
            (0..many).map(|i| format!("k{i}: 1\n")).collect(),
        ),
        ("long key", format!("{}: 1", "k".repeat(1_000_000))),
        ("long scalar", format!("gateway: {}", "x".repeat(1_000_000))),
        ("open quote", format!("gateway: \"{}", "x ".repeat(500_000))),
        (
            "empty items",
            format!("servers: [{}]", "~,".repeat(400_000)),
        ),
        (
            "empty lists",
            format!("servers: [{}]", "[],".repeat(300_000)),
        ),
        ("servers", servers),
        ("positionals", tool),
        ("tabs", "gateway:\n\tlisten: x\n".to_owned()),
        ("merge key", "gateway: {<<: {listen: x}}".to_owned()),
        ("NUL", "a\0b: c".to_owned()),
        ("percent", "%".repeat(1_000_000)),
        ("colons", ":".repeat(1_000_000)),
        ("too long", "#".repeat(1_048_577)),
    ];
    for (name, text) in &cases {
        let before = Instant::now();
        let faults = faults(text);
        assert!(
            before.elapsed().as_secs() < PATIENCE_SECONDS,
            "{name}: {:?}",
            before.elapsed()
        );
        assert!(!faults.is_empty(), "{name}");
        assert!(faults.len() <= MAX_FAULTS + 1, "{name}: {}", faults.len());
        assert!(
            faults.iter().all(|fault| fault.len() < 1_000),
            "{name}: {}",
            faults[0]
        );
    }
}

#[test]
fn line_ends_and_marks_of_other_systems_are_taken() {
    let plain = "gateway:\n  listen: 127.0.0.1:9\n";
    let windows = format!("\u{FEFF}{}", plain.replace('\n', "\r\n"));
    assert_eq!(
        config(plain).gateway.listen[0].address,
        config(&windows).gateway.listen[0].address
    );
    assert_eq!(
        faults(&windows.replace("listen", "listem")),
        ["c.yaml:2:3: gateway.listem: found an unknown key, allowed: listen, which is closest"]
    );
}

/// Mutates sound files at random, from a fixed seed: whatever comes out is taken or refused, never a panic,
/// and a refusal says where.
#[test]
fn mutations_never_panic() {
    let seeds = [
        EVERYTHING_FOR_MUTATION,
        "servers:\n- {slug: gmail-a, kind: supplementary-image}\n",
    ];
    let pieces: &[&str] = &[
        "\n",
        "  ",
        "\t",
        ":",
        ": ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        ",",
        "\"",
        "'",
        "#",
        "&a ",
        "*a",
        "!t ",
        "|\n",
        ">\n",
        "---\n",
        "...\n",
        "%YAML 1.2\n",
        "? ",
        "~",
        "true",
        "0",
        "-1",
        "1e9",
        "${",
        "}",
        "${A}",
        "\u{202E}",
        "\u{FEFF}",
        "é",
        "\0",
        "<<: ",
        "\r",
        "99999999999999999999",
        "xn--",
        "Ä",
        "gmail-",
        "command",
    ];
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    for round in 0..6_000 {
        let mut text: Vec<char> = seeds[round % seeds.len()].chars().collect();
        for _ in 0..=random(6) {
            if text.is_empty() {
                text.push('a');
            }
            let at = random(text.len());
            match random(4) {
                0 => drop(text.drain(at..(at + random(20)).min(text.len()))),
                1 => drop(text.splice(at..at, pieces[random(pieces.len())].chars())),
                2 => {
                    let next = (at + 1) % text.len();
                    text.swap(at, next);
                }
                _ => {
                    let from = random(text.len());
                    let piece: Vec<char> = text[from..(from + random(40)).min(text.len())].to_vec();
                    drop(text.splice(at..at, piece));
                }
            }
        }
        let text: String = text.into_iter().collect();
        if let Err(faults) = Config::parse("c.yaml", &text) {
            let lines = text.matches(['\n', '\r']).count();
            assert!(!faults.is_empty());
            for fault in &faults {
                let shown = fault.to_string();
                assert!(
                    !shown.contains("found no configuration"),
                    "unexplained:\n{text}"
                );
                assert!(!shown.contains(['\n', '\0', '\u{202E}']), "{shown:?}");
                assert!(fault.at.line <= lines + 1, "{shown}\n{text}");
            }
        }
    }
}

/// A file with every kind of value in it.
const EVERYTHING_FOR_MUTATION: &str = r#"gateway:
  listen: [127.0.0.1:9600, localhost:9601]
  allowedOrigins: [https://gate.example.com]
  elicitation: {allowedUrlPrefixes: [http://localhost:8601/session/]}
  tokens:
    - id: agent
      sha256: 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
      roles: [zimmer]
      expiresAt: 2030-01-31T12:00:00Z
servers:
  - slug: files
    kind: command
    confirmations: true
    confirmationHeaders: {X-Asker: "${file:/run/secrets/asker}"}
    tools:
      - name: delete_file
        argv: [rm]
        gate: >
          The file
          is gone.
        flags: {force: -f}
        positionals: [path]
  - {slug: far, kind: remote-http, url: "http://[::1]:1/a%20b?c=d", headers: {X-Key: "Bearer ${K}"}}
  - {slug: child, kind: stdio, command: [npx, -y], cwd: /srv, env: {A: "${B}"}}
desk: {secret: "${NEW}", people: [{id: a, sha256: aa, answersFor: ['*']}]}
limits: {bodyBytes: 2048}
"#;
