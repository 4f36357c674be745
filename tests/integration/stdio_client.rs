//! The MCP client over the standard streams of real children, which are small shell scripts that write down what they got.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign::http::{ClientFault, FaultKind};
use countersign::mcp::client::{Listener, News, Outgoing, ProgramSource, Question};
use countersign::mcp::{CallFault, Change, Client, Progress, Version};
use countersign::world::child::Program;
use countersign::world::process::SpawnFault;
use serde_json::value::RawValue;
use smol::channel::{Receiver, Sender, unbounded};

use crate::support::{OnThread, Started};

const SECOND: Duration = Duration::from_secs(1);

/// What every script begins with. `$id` is that of the line at hand.
const PRELUDE: &str = r#"
note() { printf '%s\n' "$1" >> "$LOG"; }
say() { printf '%s\n' "$1"; }
answer() { say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$1}"; }
fail() { say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":$1,\"message\":\"no\"}}"; }
text() { answer "{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}"; }
progress() { say "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":$1,\"progress\":$2}}"; }
ask() { say "{\"jsonrpc\":\"2.0\",\"id\":\"$1\",\"method\":\"elicitation/create\",\"params\":{\"message\":\"sure?\"}}"; }
log() { say "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"$1\"}}"; }
next() { IFS= read -r line || return 1; note "$line"; id=${line#*'"id":'}; id=${id%%,*}; }
echo "$$" >> "$PIDS"
"#;

const DISCOVERED: &str = r#"*'"server/discover"'*) answer '{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}' ;;"#;

const INITIALIZED: &str = r#"*'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;"#;

/// A server of the modern era, with what else it does with a line.
fn modern(cases: &str) -> String {
    format!("while next; do case $line in {DISCOVERED} {cases} esac; done")
}

/// One of the legacy era.
fn legacy(cases: &str) -> String {
    format!(
        r#"while next; do case $line in *'"server/discover"'*) fail -32601 ;; {INITIALIZED} {cases} esac; done"#
    )
}

/// A folder of a test's own, removed with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("countersign-stdio-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A client in a world of its own, and the child that it asks.
struct Asking {
    /// Taken when the test ends it.
    client: Option<Arc<Client>>,
    there: OnThread,
    label: String,
    scratch: Scratch,
}

type Called = Started<Result<String, CallFault>>;

impl Asking {
    fn of(script: &str) -> Self {
        Self::wanting(script, None)
    }

    fn wanting(script: &str, wanted: Option<Version>) -> Self {
        let script = format!("{PRELUDE}\n{script}");
        Self::running(&["/bin/sh", "-c", &script], wanted)
    }

    fn running(argv: &[&str], wanted: Option<Version>) -> Self {
        let scratch = Scratch::new();
        let file = |name: &str| scratch.0.join(name).display().to_string();
        let there = OnThread::hand_driven();
        let label = format!("{}", scratch.0.file_name().unwrap().display());
        let env = [
            ("PATH", "/usr/bin:/bin".to_owned()),
            ("LOG", file("log")),
            ("PIDS", file("pids")),
            ("GO", file("go")),
        ];
        let program = Program {
            argv: argv.iter().map(|&argument| argument.to_owned()).collect(),
            env: env.map(|(name, value)| (name.to_owned(), value)).to_vec(),
            cwd: None,
        };
        let program: ProgramSource = Box::new(move || Ok(program.clone()));
        let client = Client::child(&there.world, label.clone(), program, wanted);
        Self {
            client: Some(Arc::new(client)),
            there,
            label,
            scratch,
        }
    }

    fn client(&self) -> Arc<Client> {
        self.client.clone().unwrap()
    }

    fn lines(&self, file: &str) -> Vec<String> {
        let text = std::fs::read(self.scratch.0.join(file)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        // The last one may be half written.
        let (whole, _) = text.rsplit_once('\n').unwrap_or_default();
        whole.lines().map(str::to_owned).collect()
    }

    /// What the child got, in all its processes.
    fn got(&self) -> Vec<String> {
        self.lines("log")
    }

    /// How often it got something with that in it.
    fn count(&self, part: &str) -> usize {
        self.got().iter().filter(|line| line.contains(part)).count()
    }

    fn until_got(&self, part: &str) {
        self.there.until(part, || self.count(part) > 0);
    }

    /// Its processes so far.
    fn pids(&self) -> Vec<String> {
        self.lines("pids")
    }

    /// Lets a script go on that waits for it.
    fn go(&self) {
        std::fs::write(self.scratch.0.join("go"), "").unwrap();
    }

    /// What was logged about it.
    fn logged(&self) -> Vec<String> {
        let label = format!("[{}] ", self.label);
        let all = crate::logs::so_far();
        all.lines()
            .filter_map(|line| Some(line.split_once(&label)?.1.to_owned()))
            .collect()
    }

    fn until_logged(&self, part: &str) {
        self.there.until(part, || {
            self.logged().iter().any(|line| line.contains(part))
        });
    }

    fn call(&self, tool: &str) -> Called {
        self.calling(tool, "{}", None, Arc::default())
    }

    fn calling(
        &self,
        tool: &str,
        arguments: &str,
        questions: Option<Sender<Question>>,
        news: Arc<Mutex<Vec<String>>>,
    ) -> Called {
        let (client, deadline) = (self.client(), self.there.clock.after(100 * SECOND));
        let (tool, arguments) = (tool.to_owned(), raw(arguments));
        self.there.start(async move {
            let quoted = format!("\"{tool}\"");
            let request = Outgoing::call(&tool, &quoted, &arguments);
            let mut tell = |told: News<'_>| news.lock().unwrap().push(said(told));
            let mut listener = Listener {
                news: &mut tell,
                questions,
            };
            let result = client.request(&request, deadline, &mut listener).await;
            result.map(|result| result.texts())
        })
    }

    fn version(&self) -> Result<Version, CallFault> {
        let (client, deadline) = (self.client(), self.there.clock.after(100 * SECOND));
        self.there
            .start(async move { client.version(deadline).await })
            .wait()
    }

    /// Calls what the child then has got.
    fn under_way(&self, tool: &str) -> Called {
        let call = self.call(tool);
        self.until_got(&format!("\"name\":\"{tool}\""));
        call
    }
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn said(told: News<'_>) -> String {
    match told {
        News::Progress(Progress { progress, .. }) => format!("{progress}"),
        News::Log { level, params } => format!("{} {}", level.get(), params.get()),
        News::Resource(uri) => uri.to_owned(),
    }
}

/// The kind of a fault of the connection, and whether the request may have been seen.
fn fault(result: Result<String, CallFault>) -> (FaultKind, bool) {
    match result {
        Err(CallFault::Connection(ClientFault { kind, sent })) => (kind, sent),
        other => panic!("{other:?}"),
    }
}

fn code(result: Result<String, CallFault>) -> i64 {
    match result {
        Err(CallFault::Rpc(error)) => error.code,
        other => panic!("{other:?}"),
    }
}

/// Not even waiting to be reaped.
fn is_gone(pid: &str) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

fn id_in(line: &str) -> &str {
    let (_, id) = line.split_once(r#""id":"#).unwrap();
    id.split([',', '}']).next().unwrap()
}

// --- both eras ---

#[test]
fn a_modern_server_is_asked_without_ceremony() {
    let asking = Asking::of(&modern(
        r#"*tools/list*) answer '{"resultType":"complete","tools":[{"name":"a"},{"name":"b"}]}' ;;
           *tools/call*) text "$id" ;;"#,
    ));
    asking.there.turn();
    assert!(asking.pids().is_empty(), "nothing was asked");
    assert_eq!(asking.version().unwrap(), Version::V2026_07_28);
    let (client, deadline) = (asking.client(), asking.there.clock.after(SECOND));
    let asked = asking.there.start(async move {
        let offer = client.offer(deadline).await.unwrap();
        (offer, client.tools(deadline).await.unwrap().len())
    });
    let (offer, tools) = asked.wait();
    assert!(offer.get().contains("supportedVersions"));
    assert_eq!(tools, 2);
    // Blanks of any kind between tokens are passed on, and none of them ends the line.
    let arguments = "{\"a\":\n\"b\\n\"\r\n,\"c\":1.0}";
    let called = asking.calling("one", arguments, None, Arc::default());
    let id = called.wait().unwrap();
    assert_eq!(
        asking.call("two").wait().unwrap(),
        (id.parse::<u64>().unwrap() + 1).to_string()
    );
    let got = asking.got();
    assert_eq!(got.len(), 4, "{got:?}");
    for line in &got {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let meta = &value["params"]["_meta"];
        assert_eq!(
            meta["io.modelcontextprotocol/protocolVersion"],
            "2026-07-28"
        );
        assert_eq!(meta["progressToken"], value["id"]);
    }
    assert!(got[2].contains(r#"{"a": "b\n"  ,"c":1.0}"#), "{}", got[2]);
    assert_eq!(asking.pids().len(), 1);
}

#[test]
fn a_legacy_server_is_opened_first_and_asked_nothing_before() {
    for (wanted, discovers) in [(None, 1), (Some(Version::V2025_11_25), 0)] {
        let asking = Asking::wanting(&legacy("*tools/call*) text hello ;;"), wanted);
        assert_eq!(asking.call("one").wait().unwrap(), "hello");
        assert_eq!(asking.version().unwrap(), Version::V2025_06_18);
        let got = asking.got();
        let methods = ["initialize", "notifications/initialized", "tools/call"];
        assert_eq!(asking.count("server/discover"), discovers);
        for (line, method) in got[discovers..].iter().zip(methods) {
            assert!(line.contains(&format!("\"{method}\"")), "{line}");
        }
        assert_eq!(got.len(), discovers + 3);
        assert!(!got[got.len() - 1].contains("io.modelcontextprotocol"));
    }
}

#[test]
fn c25_silence_means_legacy_after_three_seconds_and_a_late_answer_changes_nothing() {
    let asking = Asking::of(
        r#"next; probe=$id
        while next; do case $line in
            *'"initialize"'*) kept=$id; id=$probe; answer '{"supportedVersions":["2026-07-28"]}'; id=$kept
                answer '{"protocolVersion":"2025-11-25","capabilities":{}}' ;;
            *tools/call*) text hello ;; esac; done"#,
    );
    let called = asking.call("one");
    let given_up = asking.call("two");
    asking.until_got("server/discover");
    asking.there.until_timers(3);
    drop(given_up);
    asking.there.advance(2_999 * Duration::from_millis(1));
    assert_eq!(asking.got().len(), 1);
    asking.there.advance(Duration::from_millis(1));
    assert_eq!(called.wait().unwrap(), "hello");
    assert_eq!(asking.version().unwrap(), Version::V2025_11_25);
    // What was dropped before it could be written never is, and needs no cancellation.
    assert_eq!(asking.got().len(), 4, "{:?}", asking.got());
}

#[test]
fn a_server_that_ends_over_an_early_request_is_started_once_more_and_remembered() {
    let asking = Asking::of(&format!(
        r#"next; case $line in {INITIALIZED} *) exit 1 ;; esac
        while next; do case $line in *'"crash"'*) exit 3 ;; *tools/call*) text hello ;; esac; done"#
    ));
    assert_eq!(asking.call("one").wait().unwrap(), "hello");
    assert_eq!(asking.pids().len(), 2);
    assert_eq!(
        fault(asking.call("crash").wait()),
        (FaultKind::Closed, true)
    );
    assert_eq!(asking.call("two").wait().unwrap(), "hello");
    assert_eq!(asking.pids().len(), 3);
    assert_eq!(asking.count("server/discover"), 1);
}

#[test]
fn what_was_found_out_is_found_out_anew_when_it_no_longer_holds() {
    let new = modern("*tools/call*) text new ;; *) fail -32601 ;;");
    let old = legacy(r#"*'"crash"'*) exit 3 ;; *tools/call*) text old ;;"#);
    let asking = Asking::of(&format!(r#"if [ -e "$GO" ]; then {new}; else {old}; fi"#));
    assert_eq!(asking.call("one").wait().unwrap(), "old");
    asking.go();
    let crash = asking.call("crash").wait();
    assert_eq!(fault(crash), (FaultKind::Closed, true));
    assert_eq!(code(asking.call("one").wait()), -32601);
    asking.there.advance(SECOND);
    assert_eq!(asking.call("one").wait().unwrap(), "new");
    assert_eq!(asking.version().unwrap(), Version::V2026_07_28);
    assert_eq!(asking.count("server/discover"), 2);
}

#[test]
fn one_that_always_ends_is_started_twice_for_the_first_call_and_then_rests() {
    let asking = Asking::of("next; exit 1");
    assert_eq!(fault(asking.call("one").wait()), (FaultKind::Closed, false));
    assert_eq!(asking.pids().len(), 2);
    assert_eq!(asking.count("server/discover"), 1);
    assert_eq!(fault(asking.call("two").wait()), (FaultKind::Closed, false));
    assert_eq!(asking.pids().len(), 4);
    // What was found out over a process that then ended is no verdict.
    assert_eq!(asking.count("server/discover"), 2);
    let Err(CallFault::Ended { again_in }) = asking.call("three").wait() else {
        panic!()
    };
    assert_eq!(again_in, SECOND);
    assert_eq!(asking.pids().len(), 4);
}

// --- calls beside each other ---

#[test]
fn calls_run_beside_each_other_and_each_hears_its_own() {
    for server in [modern, legacy] {
        let asking = Asking::of(&server(
            r#"*'"name":"one"'*) one=$id ;;
            *'"name":"two"'*) two=$id
                progress $one 0.5; progress $two 1; progress 999 7; progress "\"$one\"" 8; progress $one 2
                id=999; text stray; id=$two; text second; id=$one; text first; text again ;;
            *'"name":"three"'*) text third ;;"#,
        ));
        let news: [Arc<Mutex<Vec<String>>>; 2] = Default::default();
        let one = asking.calling("one", "{}", None, news[0].clone());
        asking.until_got("\"name\":\"one\"");
        let two = asking.calling("two", "{}", None, news[1].clone());
        assert_eq!(two.wait().unwrap(), "second");
        assert_eq!(one.wait().unwrap(), "first");
        assert_eq!(asking.call("three").wait().unwrap(), "third");
        assert_eq!(*news[0].lock().unwrap(), ["0.5", "2"]);
        assert_eq!(*news[1].lock().unwrap(), ["1"]);
        assert_eq!(asking.pids().len(), 1);
    }
}

#[test]
fn a_dropped_call_is_cancelled_and_its_late_answer_ignored() {
    for server in [modern, legacy] {
        let asking = Asking::of(&server(
            r#"*'"slow"'*) slow=$id ;;
            *notifications/cancelled*) id=$slow; text late ;;
            *tools/call*) text hello ;;"#,
        ));
        let slow = asking.under_way("slow");
        let news = Arc::default();
        let waits = asking.calling("other", "{}", None, Arc::clone(&news));
        assert_eq!(waits.wait().unwrap(), "hello");
        drop(slow);
        asking.until_got("notifications/cancelled");
        let got = asking.got();
        let of = |part: &str| got.iter().find(|line| line.contains(part)).unwrap().clone();
        let id = id_in(&of("\"slow\"")).to_owned();
        let expected = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
        );
        assert_eq!(of("notifications/cancelled"), expected);
        assert_eq!(asking.call("again").wait().unwrap(), "hello");
        assert_eq!(asking.count("notifications/cancelled"), 1);
    }
}

#[test]
fn a_deadline_cancels_too() {
    let asking = Asking::of(&modern(""));
    let slow = asking.under_way("slow");
    asking.there.advance(100 * SECOND);
    assert_eq!(fault(slow.wait()), (FaultKind::Timeout, true));
    asking.until_got("notifications/cancelled");
}

#[test]
fn an_error_without_an_id_is_about_the_only_call_or_nobody() {
    let asking = Asking::of(&modern(
        r#"*'"one"'*) id=null; fail -32700 ;;
        *'"two"'*) two=$id ;;
        *'"three"'*) three=$id; id=null; fail -32700; id=$two; text second; id=$three; fail -5 ;;"#,
    ));
    assert_eq!(code(asking.call("one").wait()), -32700);
    let two = asking.under_way("two");
    assert_eq!(code(asking.call("three").wait()), -5);
    assert_eq!(two.wait().unwrap(), "second");
}

// --- what the server asks ---

const ASKS: &str = r#"*'"name":"asks"'*) call=$id; ask q1 ;;
    *'"name":"waits"'*) waits=$id; note waiting ;;
    *'"name":"pings"'*) call=$id; say '{"jsonrpc":"2.0","id":7,"method":"ping"}'; say '{"jsonrpc":"2.0","id":8,"method":"odd/one"}' ;;
    *'"id":8,"error"'*) id=$call; text pinged ;;
    *'"id":"q1"'*) id=$call; text done ;;
    *tools/call*) text hello ;;"#;

fn asked(questions: &Receiver<Question>) -> Question {
    soon(async { questions.recv().await.unwrap() })
}

/// What comes of it, which must not take long.
fn soon<T>(future: impl Future<Output = T>) -> T {
    let patience = async {
        smol::Timer::after(crate::support::PATIENCE).await;
        None
    };
    let done = smol::future::or(async { Some(future.await) }, patience);
    smol::block_on(done).expect("it comes")
}

#[test]
fn a_question_goes_to_the_only_call_that_can_answer_and_holds_up_no_other() {
    let asking = Asking::of(&legacy(ASKS));
    let (sender, questions) = unbounded();
    let waits = asking.under_way("waits");
    let call = asking.calling("asks", "{}", Some(sender), Arc::default());
    let question = asked(&questions);
    assert_eq!(question.method, "elicitation/create");
    assert_eq!(question.params.get(), r#"{"message":"sure?"}"#);
    assert_eq!(asking.call("other").wait().unwrap(), "hello");
    let answer = raw(r#"{"action":"accept"}"#);
    question.answer.try_send(Ok(answer)).unwrap();
    assert_eq!(call.wait().unwrap(), "done");
    let response = r#"{"jsonrpc":"2.0","id":"q1","result":{"action":"accept"}}"#;
    assert_eq!(asking.count(response), 1);
    assert!(waits.is_running());
}

#[test]
fn a_question_that_could_be_of_two_calls_or_of_none_is_refused() {
    let asking = Asking::of(&legacy(ASKS));
    let (sender, questions) = unbounded();
    let first = asking.calling("waits", "{}", Some(sender.clone()), Arc::default());
    asking.until_got("waiting");
    let second = asking.calling("asks", "{}", Some(sender), Arc::default());
    assert_eq!(second.wait().unwrap(), "done");
    drop(first);
    asking.until_got("notifications/cancelled");
    let none = asking.call("asks");
    assert_eq!(none.wait().unwrap(), "done");
    assert_eq!(asking.count(r#""id":"q1","error":{"code":-32603"#), 2);
    assert!(questions.is_empty());
}

#[test]
fn a_call_that_leaves_has_its_question_refused() {
    let asking = Asking::of(&legacy(ASKS));
    let (sender, questions) = unbounded();
    let call = asking.calling("asks", "{}", Some(sender), Arc::default());
    let question = asked(&questions);
    drop(call);
    asking.until_got(r#""id":"q1","error":{"code":-32603"#);
    assert_eq!(asking.count("notifications/cancelled"), 1);
    asking.there.until("closed", || question.answer.is_closed());
}

#[test]
fn a_server_may_answer_a_call_without_waiting_for_what_it_asked() {
    let asking = Asking::of(&legacy("*tools/call*) ask q1; text done ;;"));
    let (sender, questions) = unbounded();
    let call = asking.calling("one", "{}", Some(sender), Arc::default());
    assert_eq!(call.wait().unwrap(), "done");
    asking.until_got(r#""id":"q1","error":{"code":-32603"#);
    drop(questions);
}

#[test]
fn a_ping_is_answered_and_what_nobody_knows_refused() {
    let asking = Asking::of(&legacy(ASKS));
    assert_eq!(asking.call("pings").wait().unwrap(), "pinged");
    assert_eq!(asking.count(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#), 1);
    assert_eq!(asking.count(r#""id":8,"error":{"code":-32601"#), 1);
}

#[test]
fn a_modern_server_that_asks_is_given_no_answer() {
    let asking = Asking::of(&modern(
        r#"*tools/call*) ask q1; ask q2; say '{"jsonrpc":"2.0","id":7,"method":"ping"}'; text hello ;;"#,
    ));
    let (sender, questions) = unbounded();
    for _ in 0..2 {
        let call = asking.calling("one", "{}", Some(sender.clone()), Arc::default());
        assert_eq!(call.wait().unwrap(), "hello");
    }
    assert_eq!(asking.got().len(), 3, "{:?}", asking.got());
    assert!(questions.is_empty());
    let logged = asking.logged();
    let told = logged.iter().filter(|line| line.contains("ignored"));
    assert_eq!(told.count(), 1, "{logged:?}");
}

// --- what it tells ---

#[test]
fn a_log_goes_to_the_only_call_or_to_the_log() {
    let asking = Asking::of(&modern(
        r#"*'"one"'*) log for-one; text hello ;;
        *'"two"'*) two=$id ;;
        *'"three"'*) log for-nobody; text hello ;;"#,
    ));
    let news: Arc<Mutex<Vec<String>>> = Arc::default();
    let call = |tool| asking.calling(tool, "{}", None, news.clone());
    call("one").wait().unwrap();
    let told = r#""info" {"level":"info","data":"for-one"}"#;
    assert_eq!(*news.lock().unwrap(), [told]);
    let two = call("two");
    asking.until_got("\"two\"");
    call("three").wait().unwrap();
    assert_eq!(news.lock().unwrap().len(), 1);
    asking.until_logged("for-nobody");
    assert!(!asking.logged().iter().any(|line| line.contains("for-one")));
    assert!(two.is_running());
}

#[test]
fn c24_changes_are_announced_and_a_modern_server_is_asked_for_them() {
    let tell = r#"*tools/call*)
        for list in tools prompts resources; do say "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/$list/list_changed\"}"; done
        say '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}'
        text hello ;;"#;
    let announcing = format!(
        r#"while next; do case $line in
            *'"server/discover"'*) answer '{{"supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{"listChanged":true}},"prompts":{{"listChanged":false}},"resources":{{"listChanged":true}}}}}}' ;;
            {tell} esac; done"#
    );
    for (script, listens) in [(announcing, 1), (legacy(tell), 0)] {
        let asking = Asking::of(&script);
        let changes = asking.client().announcer().unwrap().listen();
        asking.call("one").wait().unwrap();
        let heard: Vec<Change> = soon(async {
            let mut heard = Vec::new();
            for _ in 0..4 {
                heard.push(changes.next().await.unwrap());
            }
            heard
        });
        let resource = Change::Resource("a:b".to_owned());
        let all = [Change::Tools, Change::Prompts, Change::Resources, resource];
        assert_eq!(heard, all);
        let listen =
            r#""params":{"notifications":{"toolsListChanged":true,"resourcesListChanged":true},"#;
        assert_eq!(asking.count(listen), listens);
        assert_eq!(asking.count("subscriptions/listen"), listens);
    }
}

#[test]
fn standard_error_goes_to_the_log_and_nowhere_else() {
    let asking = Asking::of(&modern(
        r#"*'"one"'*) printf 'plain\n\033[31mred\n' >&2; say 'x' >&2; text hello ;;
        *'"flood"'*) head -c 1500 /dev/zero | tr '\0' y >&2; echo >&2
            i=0; while [ $i -lt 1000 ]; do echo "line $i" >&2; i=$((i + 1)); done; text hello ;;"#,
    ));
    assert_eq!(asking.call("one").wait().unwrap(), "hello");
    for part in ["plain", "\u{fffd}[31mred"] {
        asking.until_logged(part);
    }
    asking.there.advance(SECOND);
    assert_eq!(asking.call("flood").wait().unwrap(), "hello");
    // The call and the count of what was left out.
    asking.there.until_timers(1);
    asking.there.advance(SECOND);
    asking.until_logged("lines more were left out");
    let logged = asking.logged();
    let cut = format!("{} …", "y".repeat(1000));
    assert!(logged.contains(&cut), "{logged:?}");
    let lines = logged.iter().filter(|line| line.starts_with("line "));
    assert_eq!(lines.count(), 19, "{logged:?}");
    assert!(
        logged.contains(&"981 lines more were left out".to_owned()),
        "{logged:?}"
    );
    let stdout = logged.iter().filter(|line| line.contains("no message"));
    assert_eq!(stdout.count(), 0);
}

// --- framing ---

#[test]
fn what_is_no_message_is_skipped_and_never_repeated() {
    let asking = Asking::of(&modern(
        r#"*tools/call*)
            say 'swordfish'; say '{"jsonrpc":"2.0","id":1,"result":{}'; say '{"swordfish":1}'; say '"swordfish"'; say '[]'; say 7
            printf '{"jsonrpc":"2.0","id":%s,"result":{"a":"swordfish\377"}}\n' "$id"
            say ''; say '   '; printf '\r\n'
            printf '[{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"batched"}]}}]\r\n' "$id" ;;"#,
    ));
    assert_eq!(asking.call("one").wait().unwrap(), "batched");
    let logged = asking.logged();
    let skipped = logged.iter().filter(|line| line.contains("skipped"));
    assert_eq!(skipped.count(), 7, "{logged:?}");
    assert!(!crate::logs::so_far().contains("swordfish"));
}

#[test]
fn a_hundred_bad_lines_in_a_row_end_the_child() {
    let bad = |count| format!("i=0; while [ $i -lt {count} ]; do echo bad; i=$((i + 1)); done");
    let asking = Asking::of(&modern(&format!(
        r#"*'"almost"'*) {}; text hello ;; *'"broken"'*) {}; sleep 600 ;;"#,
        bad(99),
        bad(100)
    )));
    for _ in 0..2 {
        assert_eq!(asking.call("almost").wait().unwrap(), "hello");
    }
    let broken = asking.call("broken").wait();
    assert_eq!(fault(broken), (FaultKind::Closed, true));
    assert_eq!(asking.pids().len(), 1);
    let pid = &asking.pids()[0];
    asking.there.until("killed", || is_gone(pid));
}

#[test]
fn a_line_without_end_is_skipped_and_the_next_one_read() {
    let asking = Asking::of(&modern(
        r#"*tools/call*) head -c 33554433 /dev/zero | tr '\0' '[' ; echo ' too long'; text hello ;;"#,
    ));
    assert_eq!(asking.call("one").wait().unwrap(), "hello");
    let logged = asking.logged();
    let skipped = "a line of more than 33554432 bytes was skipped";
    assert!(logged.contains(&skipped.to_owned()), "{logged:?}");
}

#[test]
fn a_character_may_be_cut_by_the_pipe() {
    let asking = Asking::of(&modern(
        r#"*tools/call*)
            printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"a\342\202' "$id"
            note half; until [ -e "$GO" ]; do sleep 0.01; done
            printf '\254\303\274"}]}}\n' ;;"#,
    ));
    let call = asking.call("one");
    asking.until_got("half");
    asking.there.turn();
    assert!(call.is_running());
    asking.go();
    assert_eq!(call.wait().unwrap(), "a€ü");
}

#[test]
fn a_large_answer_and_a_large_request_arrive_whole() {
    let asking = Asking::of(&modern(
        r#"*tools/call*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"' "$id"
            head -c 3000000 /dev/zero | tr '\0' z; printf '"}]}}\n' ;;"#,
    ));
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(300_000));
    let call = asking.calling("one", &long, None, Arc::default());
    assert_eq!(call.wait().unwrap(), "z".repeat(3_000_000));
    assert_eq!(asking.count(&long), 1);
}

// --- its end, and the next one ---

#[test]
fn a_crash_fails_what_was_under_way_and_the_next_call_starts_it_again_after_its_rest() {
    let asking = Asking::of(&modern(
        r#"*'"crash"'*) echo 'last words' >&2; exit 3 ;; *'"waits"'*) ;; *tools/call*) text hello ;;"#,
    ));
    let waits = asking.under_way("waits");
    assert_eq!(
        fault(asking.call("crash").wait()),
        (FaultKind::Closed, true)
    );
    assert_eq!(fault(waits.wait()), (FaultKind::Closed, true));
    asking.until_logged("last words");
    asking.until_logged("ended: exit status: 3");
    // 0, 1 s, 2 s, 4 s: from start to start.
    assert_eq!(
        fault(asking.call("crash").wait()),
        (FaultKind::Closed, true)
    );
    for seconds in [1, 2, 4] {
        let starts = asking.pids().len();
        let Err(CallFault::Ended { again_in }) = asking.call("one").wait() else {
            panic!()
        };
        assert_eq!(again_in, seconds * SECOND);
        asking
            .there
            .advance(seconds * SECOND - Duration::from_millis(1));
        let early = asking.call("one").wait().unwrap_err();
        assert!(
            early.to_string().ends_with("again in 1 s at the earliest"),
            "{early}"
        );
        assert!(!early.may_have_acted());
        assert_eq!(asking.pids().len(), starts);
        asking.there.advance(Duration::from_millis(1));
        assert_eq!(asking.call("one").wait().unwrap(), "hello");
        assert_eq!(asking.pids().len(), starts + 1);
        if seconds == 4 {
            break;
        }
        assert_eq!(
            fault(asking.call("crash").wait()),
            (FaultKind::Closed, true)
        );
    }
    // One that could be used for a minute owes nothing.
    asking.there.advance(60 * SECOND);
    assert_eq!(
        fault(asking.call("crash").wait()),
        (FaultKind::Closed, true)
    );
    assert_eq!(asking.call("one").wait().unwrap(), "hello");
    assert_eq!(
        fault(asking.call("crash").wait()),
        (FaultKind::Closed, true)
    );
    let rests = asking.call("one").wait().unwrap_err();
    assert!(matches!(rests, CallFault::Ended { again_in } if again_in == SECOND));
    // Nothing that was sent went out twice.
    let got = asking.got();
    let mut ids: Vec<&str> = got.iter().map(|line| id_in(line)).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), got.len());
    let pids = asking.pids();
    assert!(pids.iter().all(|pid| is_gone(pid)));
}

#[test]
fn the_last_answer_counts_though_its_sender_has_ended() {
    let asking = Asking::of(&modern(
        r#"*tools/call*) note "$(sleep 600 > /dev/null & echo $!)"; text hello; exit 0 ;;"#,
    ));
    assert_eq!(asking.call("one").wait().unwrap(), "hello");
    let left = asking.got().pop().unwrap();
    let pid = asking.pids().pop().unwrap();
    asking.there.until("gone", || is_gone(&pid));
    // What it left behind in its group ended with it; whoever adopted it may still have to reap it.
    let stat = || std::fs::read_to_string(format!("/proc/{left}/stat"));
    asking.there.until("killed", || {
        stat().map_or(true, |stat| stat.contains(") Z "))
    });
}

#[test]
fn what_cannot_be_started_says_so_and_rests() {
    let asking = Asking::running(&["/nonexistent/program"], None);
    for _ in 0..2 {
        let fault = asking.call("one").wait().unwrap_err();
        let not_found = matches!(fault, CallFault::NotStarted(SpawnFault::NotFound));
        assert!(not_found && !fault.may_have_acted(), "{fault:?}");
    }
    let Err(CallFault::Ended { again_in }) = asking.call("one").wait() else {
        panic!()
    };
    assert_eq!(again_in, SECOND);
}

#[test]
fn a_child_that_reads_nothing_holds_up_neither_our_reading_nor_the_deadlines() {
    let asking = Asking::of(&format!(
        r#"next; case $line in {DISCOVERED} esac
        note stuck; until [ -e "$GO" ]; do sleep 0.01; done
        say '{{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}}'; echo stuck >&2; exec sleep 600"#
    ));
    let changes = asking.client().announcer().unwrap().listen();
    asking.version().unwrap();
    asking.until_got("stuck");
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(100_000));
    let call = || asking.calling("one", &long, None, Arc::default());
    // The pipe holds 64 KB of the first, the outbox and the queue some of the rest.
    let first = call();
    asking.there.turn();
    let mut calls: Vec<Called> = (0..60).map(|_| call()).collect();
    asking.there.until_timers(61);
    drop(calls.pop());
    asking.go();
    assert_eq!(soon(changes.next()), Some(Change::Tools));
    asking.until_logged("stuck");
    asking.there.advance(100 * SECOND);
    assert_eq!(fault(first.wait()), (FaultKind::Timeout, true));
    for call in calls {
        assert_eq!(fault(call.wait()), (FaultKind::Timeout, false));
    }
    assert_eq!(asking.got().len(), 2);
}

#[test]
fn a_child_that_closed_its_input_has_not_seen_the_call() {
    for attempt in 0.. {
        let asking = Asking::of(&format!(
            r#"next; case $line in {DISCOVERED} esac
            exec < /dev/null; note deaf; exec sleep 600"#
        ));
        asking.version().unwrap();
        asking.until_got("deaf");
        let call = asking.call("one");
        // The time that its last words have, and the call.
        let clock = &asking.there.clock;
        let is_broken = (0..1000).any(|_| {
            asking.there.turn();
            clock.live_timers() == 2
        });
        if is_broken {
            asking.there.advance(SECOND);
            assert_eq!(fault(call.wait()), (FaultKind::Closed, false));
            return;
        }
        // A child of another test, between its fork and its exec, may have held the reading end open for a moment.
        assert!(attempt < 5, "its input is still open");
    }
}

// --- the client's end ---

/// A server that does not want to end, and a helper in its group.
const STUBBORN: &str = r#"trap 'note term' TERM
    sleep 600 & echo $! >> "$PIDS""#;

#[test]
fn a_dropped_client_closes_the_input_then_asks_then_kills() {
    let mut asking = Asking::of(&format!(
        "{STUBBORN}\n{}\nnote eof; echo 'to nobody'; while :; do sleep 0.01; done",
        modern("")
    ));
    asking.version().unwrap();
    let pids = asking.pids();
    assert_eq!(pids.len(), 2);
    asking.client = None;
    asking.until_got("eof");
    asking.there.until_timers(1);
    asking.there.advance(SECOND);
    assert_eq!(asking.count("term"), 0);
    asking.there.advance(SECOND);
    asking.until_got("term");
    asking.there.until_timers(1);
    asking.there.advance(SECOND);
    assert!(!is_gone(&pids[0]));
    asking.there.advance(SECOND);
    asking.there.until("reaped", || is_gone(&pids[0]));
    assert_eq!(asking.there.clock.live_timers(), 0);
    let stat = || std::fs::read_to_string(format!("/proc/{}/stat", pids[1]));
    asking.there.until("killed", || {
        stat().map_or(true, |stat| stat.contains(") Z "))
    });
    let order: Vec<String> = asking.got().split_off(1);
    assert_eq!(order, ["eof", "term"]);
}

#[test]
fn one_that_ends_at_the_end_of_its_input_is_sent_no_signal() {
    let mut asking = Asking::of(&format!(
        "trap 'note term' TERM\n{}\nnote eof; echo 'late words' >&2; note done",
        modern("")
    ));
    asking.version().unwrap();
    let pid = asking.pids().remove(0);
    asking.client = None;
    asking.there.until("reaped", || is_gone(&pid));
    let order: Vec<String> = asking.got().split_off(1);
    assert_eq!(order, ["eof", "done"]);
}

#[test]
fn the_end_of_the_world_kills_at_once() {
    let asking = Asking::of(&format!(
        "{STUBBORN}\n{}\nwhile :; do sleep 0.01; done",
        modern("")
    ));
    asking.version().unwrap();
    let pid = asking.pids().remove(0);
    let Asking {
        client,
        there,
        scratch,
        ..
    } = asking;
    drop(there);
    let since = std::time::Instant::now();
    while !is_gone(&pid) {
        assert!(since.elapsed() < crate::support::PATIENCE, "not killed");
        std::thread::yield_now();
    }
    drop(client);
    drop(scratch);
}
