//! The shipped program: real processes, their exit codes, their outputs, and everything that they log at trace.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::support::{PATIENCE, Raw};

const PROGRAM: &str = env!("CARGO_BIN_EXE_countersign");

fn run(arguments: &[&str], env: &[(&str, &str)]) -> Output {
    Command::new(PROGRAM)
        .args(arguments)
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A server of ours, killed when dropped. Its standard error is read to the end by a thread.
pub struct Server {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Server {
    pub fn start(arguments: &[&str], env: &[(&str, &str)]) -> Self {
        Self::spawn(Command::new(PROGRAM).args(arguments), env)
    }

    /// Starts it with so many descriptors at most.
    pub fn start_limited(descriptors: u64, arguments: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        let script = format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"");
        Self::spawn(shell.args(["-c", &script, PROGRAM]).args(arguments), &[])
    }

    fn spawn(command: &mut Command, env: &[(&str, &str)]) -> Self {
        let mut child = command
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, lines }
    }

    /// The address in the line `countersign: WHAT on http://ADDRESS…`.
    pub fn address(&self, what: &str) -> String {
        loop {
            let line = self
                .lines
                .recv()
                .expect("the server ended before it listened");
            if let Some(rest) = line.strip_prefix(&format!("countersign: {what} on http://")) {
                return rest.split('/').next().unwrap().to_owned();
            }
        }
    }

    /// The next line that it says and that holds `marker`.
    pub fn line(&self, marker: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|end| panic!("it never said {marker:?}: {end}"));
            if line.contains(marker) {
                return line;
            }
        }
    }

    /// How many lines it said since the last look that hold `marker`.
    pub fn count(&self, marker: &str) -> usize {
        let lines = self.lines.try_iter();
        lines.filter(|line| line.contains(marker)).count()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it by SIGTERM and gives its exit code and all that it said.
    fn end(self) -> (Option<i32>, String) {
        self.signal(rustix::process::Signal::TERM);
        self.ended()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Its exit code, once it has ended, and all that it said.
    pub fn ended(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        let said: Vec<String> = self.lines.iter().collect();
        (code, said.join("\n"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub struct File(PathBuf);

impl File {
    pub fn new(name: &str, text: &str) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let unique = format!(
            "countersign-{}-{}-{name}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(unique);
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn the_demo_agrees_with_its_answer() {
    for (answer, line) in [
        ("accept", "deleted report-2019.txt\n"),
        ("decline", "declined; report-2019.txt kept\n"),
    ] {
        let done = run(&["demo", "--answer", answer], &[]);
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
        assert_eq!(text(&done.stdout), line);
    }
}

#[test]
fn usage_and_configuration_faults_are_2_and_say_where() {
    let config = File::new(
        "bad.yaml",
        "gateway:\n  lisen: x\nservers:\n  - slug: Bad_Slug\n    kind: command\n",
    );
    let short = File::new(
        "short.yaml",
        "desk:\n  secret: \"${SHORT}\"\n  listen: 127.0.0.1:0\n  people:\n    - {id: kim, sha256: 1111111111111111111111111111111111111111111111111111111111111111, answersFor: [\"*\"]}\n",
    );
    let env = [
        ("SHORT", "short"),
        ("COUNTERSIGN_TOKEN", "token-5b1f"),
        ("COUNTERSIGN_KEY", "key-0c77"),
    ];
    for (arguments, said) in [
        (vec![], "a command is needed"),
        (vec!["fly"], "there is no command"),
        (vec!["serve"], "--config FILE is needed"),
        (vec!["serve", "--bundle", "x"], "--bundle"),
        (vec!["demo", "--answer", "maybe"], "accept or decline"),
        (
            vec!["call", "http://127.0.0.1:1/mcp"],
            "a URL and a tool are needed",
        ),
        (
            vec!["call", "http://127.0.0.1:1/mcp", "t", "[]"],
            "not one JSON object",
        ),
        (vec!["accept"], "--desk URL is needed"),
        (
            vec!["call", "ftp://127.0.0.1/mcp", "t"],
            "must be http or https",
        ),
        (
            vec!["call", "http://gateway.example/mcp", "t"],
            "over https, or over http to this machine only",
        ),
        (
            vec!["tools", "http://gateway.example/mcp"],
            "over https, or over http to this machine only",
        ),
        (
            vec!["pending", "--desk", "http://desk.example"],
            "over https, or over http to this machine only",
        ),
        (
            vec!["accept", "--desk", "ftp://localhost"],
            "must be http or https",
        ),
        (vec!["check", "--config", short.path()], ":2:"),
        (vec!["session", "new", "--config", short.path(), "a"], ":2:"),
        (vec!["desk", "--config", short.path()], "found 5 bytes"),
        (vec!["check", "--config", config.path()], ":2:"),
        (vec!["check", "--config", config.path()], ":4:"),
        (
            vec!["check", "--config", "/nonexistent/x.yaml"],
            "/nonexistent/x.yaml",
        ),
    ] {
        let done = run(&arguments, &env);
        assert_eq!(done.status.code(), Some(2), "{arguments:?}");
        assert!(
            text(&done.stderr).contains(said),
            "{arguments:?}: {}",
            text(&done.stderr)
        );
        assert!(done.stdout.is_empty(), "{arguments:?}");
    }
    for command in [
        "demo", "serve", "check", "tools", "call", "pending", "session", "token",
    ] {
        let done = run(&[command, "--help"], &[]);
        assert_eq!(done.status.code(), Some(0), "{command}");
        assert!(
            text(&done.stdout).contains("usage: countersign"),
            "{command}"
        );
    }
    assert!(text(&run(&["--version"], &[]).stdout).starts_with("countersign "));
}

/// Caller, gateway, bundle and desk in four processes; every credential is then searched for in all that was said at the
/// level trace, and in the process list while a call waits.
#[test]
fn four_processes_hold_a_call_until_a_person_answers() {
    let minted = run(&["token", "new", "--id", "caller"], &[]);
    let minted = text(&minted.stdout);
    let token = minted.lines().next().unwrap().to_owned();
    let token_sha = minted.split("sha256: ").nth(1).unwrap().trim().to_owned();
    let minted = text(&run(&["token", "new", "--id", "kim"], &[]).stdout);
    let key = minted.lines().next().unwrap().to_owned();
    let key_sha = minted.split("sha256: ").nth(1).unwrap().trim().to_owned();
    let (bundle_key, desk_secret) = ("bundle-key-6f2e19", "desk-secret-of-at-least-32-bytes-0f");
    let env = [
        ("BUNDLE_KEY", bundle_key),
        ("DESK_SECRET", desk_secret),
        ("EDGE", "edge-credential-77"),
    ];

    let desk_text = |listen: &str| {
        format!(
            "desk:\n  listen: {listen}\n  secret: \"${{DESK_SECRET}}\"\n  people:\n    - {{id: kim, sha256: {key_sha}, answersFor: [\"agent-*\"]}}\nlog: {{level: trace, format: json}}\n"
        )
    };
    let desk_config = File::new("desk.yaml", &desk_text("127.0.0.1:0"));
    let desk = Server::start(&["desk", "--config", desk_config.path()], &env);
    let desk_address = desk.address("desk");
    let desk_url = format!("http://{desk_address}");
    // The port is known only now, and the session URL names it.
    let port = desk_address.rsplit(':').next().unwrap();
    let public = File::new("public.yaml", &desk_text(&format!("127.0.0.1:{port}")));
    let session = text(
        &run(
            &["session", "new", "--config", public.path(), "agent-1"],
            &env,
        )
        .stdout,
    )
    .trim()
    .to_owned();
    assert!(session.contains("/agent-1-"), "{session}");

    let marker = File::new("acts", "");
    let parts = |url: &str| {
        format!(
            "gateway:\n  listen: 127.0.0.1:0\n  elicitation:\n    allowedUrlPrefixes: [\"http://localhost:{port}/api/v1/elicitations/session/\"]\n  tokens:\n    - {{id: caller, sha256: {token_sha}, roles: [ops]}}\nbundles:\n  b: {{url: \"{url}\", listen: 127.0.0.1:0, key: \"${{BUNDLE_KEY}}\"}}\nservers:\n  - slug: ops\n    kind: supplementary-image\n    image: none\n    bundle: b\n    path: /ops\n    mount: command\n    entitlements: [ops]\n    confirmations: true\n    confirmationHeaders: {{X-Edge: \"${{EDGE}}\"}}\n    tools:\n      - name: act\n        argv: [sh, -c, \"echo acted >> {}\"]\n        gate: It acts.\ntiming: {{pollMs: 1000}}\nlog: {{level: trace, format: json}}\n",
            marker.path()
        )
    };
    let inside = File::new("bundle.yaml", &parts("http://127.0.0.1:1/"));
    let bundle = Server::start(
        &["bundle", "--config", inside.path(), "--bundle", "b"],
        &env,
    );
    let outside = File::new(
        "gateway.yaml",
        &parts(&format!("http://{}/", bundle.address("bundle"))),
    );
    let gateway = Server::start(&["gateway", "--config", outside.path()], &env);
    let url = format!("http://{}/mcp?servers=ops", gateway.address("gateway"));

    let mut said = String::new();
    for (answer, code, acts) in [("decline", 1, 0), ("accept", 0, 1)] {
        let caller = Command::new(PROGRAM)
            .args(["call", &url, "act", "--json"])
            .envs([
                ("COUNTERSIGN_TOKEN", token.as_str()),
                ("COUNTERSIGN_CHANNEL", session.as_str()),
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let person = [("COUNTERSIGN_KEY", key.as_str())];
        loop {
            let pending = run(&["pending", "--desk", &desk_url, "--json"], &person);
            if text(&pending.stdout).contains("act asks to run") {
                break;
            }
        }
        for entry in std::fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
            let Ok(line) = std::fs::read(entry.path().join("cmdline")) else {
                continue;
            };
            for secret in [
                &token,
                &key,
                &session,
                &bundle_key.to_owned(),
                &desk_secret.to_owned(),
            ] {
                assert!(
                    !text(&line).contains(secret.as_str()),
                    "a credential is in the process list"
                );
            }
        }
        let answered = run(&[answer, "--desk", &desk_url], &person);
        assert_eq!(
            answered.status.code(),
            Some(0),
            "{}",
            text(&answered.stderr)
        );
        let called = caller.wait_with_output().unwrap();
        assert_eq!(called.status.code(), Some(code), "{}", text(&called.stderr));
        let mut written = String::new();
        std::fs::File::open(marker.path())
            .unwrap()
            .read_to_string(&mut written)
            .unwrap();
        assert_eq!(written.lines().count(), acts);
        said.push_str(&text(&called.stdout));
        said.push_str(&text(&called.stderr));
    }
    // A wrong key, a wrong token and a foreign channel, for the logs to be tempted.
    assert_eq!(
        run(
            &["pending", "--desk", &desk_url],
            &[("COUNTERSIGN_KEY", "wrong-key-41")]
        )
        .status
        .code(),
        Some(1)
    );
    assert_eq!(
        run(&["tools", &url], &[("COUNTERSIGN_TOKEN", "wrong-token-42")])
            .status
            .code(),
        Some(1)
    );
    let foreign = [
        ("COUNTERSIGN_TOKEN", token.as_str()),
        ("COUNTERSIGN_CHANNEL", "https://evil.example/secret-path-43"),
    ];
    let refused = run(&["call", &url, "act"], &foreign);
    assert_eq!(refused.status.code(), Some(1));
    said.push_str(&text(&refused.stdout));
    for server in [gateway, bundle, desk] {
        let (code, log) = server.end();
        assert_eq!(code, Some(0), "SIGTERM is an orderly end");
        said.push_str(&log);
    }
    assert!(
        said.contains("asked:") && said.contains("acted:"),
        "nothing was logged"
    );
    let tail = session.rsplit('/').next().unwrap();
    for secret in [
        &token,
        &key,
        tail,
        bundle_key,
        desk_secret,
        "edge-credential-77",
        "wrong-key-41",
        "wrong-token-42",
        "secret-path-43",
    ] {
        assert!(!said.contains(secret), "{secret} was said");
    }
}

/// Ctrl-C drops the call: the question is gone and nothing has run.
#[test]
fn a_caller_that_is_interrupted_deletes_nothing() {
    let mut demo = Command::new(PROGRAM)
        .arg("demo")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(demo.stderr.take().unwrap()).lines();
    let mut folder = None;
    let mut key = None;
    for line in lines.by_ref().map_while(Result::ok) {
        if let Some(path) = line.strip_prefix("Scratch folder  ") {
            folder = Some(PathBuf::from(path));
        }
        if let Some(rest) = line.strip_prefix("or type         COUNTERSIGN_KEY=") {
            key = Some(rest.split(' ').next().unwrap().to_owned());
        }
        if line.starts_with("Calling delete_file") {
            break;
        }
    }
    assert!(
        key.is_some()
            && folder
                .as_ref()
                .is_some_and(|folder| folder.join("report-2019.txt").exists())
    );
    let pid = rustix::process::Pid::from_raw(demo.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut out = String::new();
    demo.stdout
        .take()
        .unwrap()
        .read_to_string(&mut out)
        .unwrap();
    assert_eq!(demo.wait().unwrap().code(), Some(1));
    assert_eq!(
        out, "",
        "it says that nothing was deleted by saying nothing"
    );
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert!(
        rest.iter()
            .any(|line| line.contains("dropped; report-2019.txt kept")),
        "{rest:?}"
    );
    std::io::stdout().flush().unwrap();
}

/// How many connections of `local` are in one of those states of the kernel's, by its numbers in `/proc/net/tcp`.
fn in_state(local: SocketAddr, states: &[&str]) -> usize {
    let port = format!(":{:04X}", local.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let of_ours = |line: &&str| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().is_some_and(|field| field.ends_with(&port));
        local && fields.nth(1).is_some_and(|state| states.contains(&state))
    };
    table.lines().filter(of_ours).count()
}

/// The kernel keeps the ends of the old process' connections, those that their callers close and those that they do not.
#[test]
fn a_restart_gets_its_port_back_at_once() {
    // The first until the caller's kernel has acknowledged the end.
    const FIN_WAIT: &[&str] = &["04", "05"];
    const TIME_WAIT: &[&str] = &["06"];
    let config = |listen: &str| {
        let text = format!(
            "gateway: {{listen: \"{listen}\"}}\nservers:\n  - {{slug: one, kind: command, tools: [{{name: open, argv: [\"true\"]}}]}}\n"
        );
        File::new("restart.yaml", &text)
    };
    let start = |config: &File| Server::start(&["serve", "--config", config.path()], &[]);
    let ask = |address: SocketAddr| {
        let mut raw = Raw::connect(address);
        raw.send("GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let answer = raw.answer();
        assert_eq!((answer.status, answer.closes()), (406, false));
        raw
    };
    for orderly in [true, false] {
        let any_port = config("127.0.0.1:0");
        let server = start(&any_port);
        let listened = server.address("gateway");
        let address: SocketAddr = listened.parse().unwrap();
        let closing: Vec<Raw> = (0..3).map(|_| ask(address)).collect();
        let staying: Vec<Raw> = (0..3).map(|_| ask(address)).collect();
        if orderly {
            assert_eq!(server.end().0, Some(0));
        } else {
            drop(server);
        }
        for raw in closing {
            raw.ends();
        }
        let since = Instant::now();
        while in_state(address, TIME_WAIT) < 3 {
            assert!(since.elapsed() < PATIENCE, "the server's end closed first");
            std::thread::yield_now();
        }
        // The kernel's table is no snapshot: what moves while it is read can be in it twice.
        assert!(in_state(address, FIN_WAIT) >= staying.len());

        let same_port = config(&listened);
        let again = start(&same_port);
        assert_eq!(again.address("gateway"), listened);
        drop(ask(address));
        assert!(in_state(address, TIME_WAIT) >= 3, "it was no test");
        for raw in staying {
            raw.ends();
        }
    }
}

/// A client that starts its servers itself: one message a line, the log apart, and the end with its input.
#[test]
fn standalone_serves_its_standard_streams() {
    let config = File::new(
        "standalone.yaml",
        "servers:\n  - slug: one\n    kind: command\n    confirmations: true\n    tools: [{name: open, argv: [echo, hello]}, {name: act, argv: [date], gate: It acts.}]\n  - {slug: two, kind: command, tools: [{name: other, argv: [date]}]}\n",
    );
    let mut child = Command::new(PROGRAM)
        .args(["standalone", "--config", config.path(), "--servers", "one"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut ask = |method: &str, params: &str| {
        let message = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}{meta}}}}}"#
        );
        std::io::Write::write_all(&mut input, format!("{message}\n").as_bytes()).unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        line
    };
    let listed = ask("tools/list", "");
    assert!(
        listed.contains(r#""name":"open""#) && !listed.contains("other"),
        "{listed}"
    );
    let called = ask("tools/call", r#""name":"open","#);
    assert!(called.contains("hello"), "{called}");
    let refused = ask("tools/call", r#""name":"act","#);
    assert!(refused.contains("nobody-to-ask"), "{refused}");
    drop(input);
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(0));
    assert_eq!(text(&done.stdout), "");

    let done = run(
        &[
            "standalone",
            "--config",
            config.path(),
            "--servers",
            "three",
        ],
        &[],
    );
    assert_eq!(done.status.code(), Some(2));
    let done = run(&["standalone", "gmail"], &[]);
    assert_eq!(done.status.code(), Some(2));
    assert!(text(&done.stderr).contains("this build has no gmail mount"));
}
