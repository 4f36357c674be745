//! What the tests share: a world whose clock is driven by hand and whose sockets are real, the product's parts in it, a
//! scripted approval endpoint, and a caller that speaks raw HTTP.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign::approval::{AskTiming, Asker};
use countersign::bundle::{Bundle, Confirmer};
use countersign::config::Config;
use countersign::gate::Gate;
use countersign::gateway::{Gateway, Roster};
use countersign::http::{self, Guard, Handler, Limits, Request, Responded, Responder, serve};
use countersign::mcp::{Server, ServerSettings};
use countersign::secret::{Sealer, Secret};
use countersign::time::Clock;
use countersign::world::memory::MemoryNet;
use countersign::world::{Net, Random, Runtime, Stream, World};
use smol::channel::{Receiver, Sender, unbounded};

/// 2026-12-01T00:00:00Z.
pub const WALL_MS: u64 = 1_796_083_200_000;

/// Runs a test in a world of real sockets and a clock driven by hand.
pub fn run<F: Future<Output = ()> + Send + 'static>(test: impl FnOnce(World) -> F) {
    run_on(Net::real(), test);
}

/// The same with sockets in memory, for what depends on how much time passes beside the kernel's own work.
pub fn run_in_memory<F: Future<Output = ()> + Send + 'static>(test: impl FnOnce(World) -> F) {
    run_on(Net::memory(MemoryNet::new(Random::seeded(3))), test);
}

fn run_on<F: Future<Output = ()> + Send + 'static>(net: Net, test: impl FnOnce(World) -> F) {
    crate::logs::capture();
    let runtime = Runtime::with(Clock::hand_driven(WALL_MS), net, Random::seeded(7));
    let world = runtime.world().clone();
    runtime.block_on(test(world));
}

/// Advances the clock in small steps until `future` is done.
pub async fn advancing<T>(world: &World, future: impl Future<Output = T>) -> T {
    let hand = async {
        loop {
            turn().await;
            world.clock.advance(Duration::from_millis(50));
        }
    };
    smol::future::or(future, hand).await
}

/// The same where every socket is in memory: time moves only once nothing is left to do, however slow the machine is. No
/// other thread takes part, so a turn of the executor reaches every task that is ready, and an exchange of a few hundred
/// bytes in random pieces takes some tens of turns.
pub async fn advancing_in_memory<T>(world: &World, future: impl Future<Output = T>) -> T {
    const TURNS: usize = 400;
    let hand = async {
        loop {
            for _ in 0..TURNS {
                smol::future::yield_now().await;
            }
            world.clock.advance(Duration::from_millis(50));
        }
    };
    smol::future::or(future, hand).await
}

/// Ends a test that hangs, in real time, with a word on which. Never waited for when all is well.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let late = async {
        smol::Timer::after(Duration::from_secs(60)).await;
        panic!("{what} did not end");
    };
    smol::future::or(future, late).await
}

/// Lets everything that is ready run, what the kernel has ready included: the executor parks in the reactor until
/// another thread has answered.
pub async fn turn() {
    for _ in 0..4 {
        smol::unblock(|| ()).await;
    }
}

/// A configuration, and what can be told apart in it.
pub fn config(text: &str) -> Config {
    match Config::parse("test.yaml", text) {
        Ok((config, _)) => config,
        Err(faults) => panic!(
            "{}",
            faults
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("\n")
        ),
    }
}

fn confirmer(world: &World, config: &Config) -> (Confirmer, http::Client) {
    let client = http::Client::new(world.clone());
    let timing = AskTiming {
        poll: Duration::from_millis(config.timing.poll_ms),
    };
    let gate = Gate::new(
        world.clone(),
        Asker::new(world.clone(), client.clone(), timing),
    );
    let keepalive = Duration::from_millis(config.timing.keepalive_ms);
    (Confirmer::new(world.clone(), gate, keepalive), client)
}

fn sealer() -> Sealer {
    Sealer::new(&[Secret::new("k".repeat(32))]).unwrap()
}

/// How the tests' endpoints behave.
pub fn settings() -> ServerSettings {
    ServerSettings {
        guard: Guard::default(),
        body_bytes: 1 << 20,
        sealer: sealer(),
    }
}

/// Serves `handler` for as long as the world runs.
pub fn listen<H: Handler>(world: &World, handler: H) -> SocketAddr {
    let listener = world.net.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_address().unwrap();
    let serving = serve(
        world.clone(),
        listener,
        Arc::new(handler),
        Arc::new(Limits::default()),
    );
    world.spawn(serving).unwrap().detach();
    address
}

/// The gateway of `config`.
pub fn gateway(world: &World, config: &Config) -> SocketAddr {
    let gateway = gateway_apart(world, config);
    listen(
        world,
        Server::new(world.clone(), Arc::new(gateway), settings()),
    )
}

/// The gateway of `config`, and what puts another configuration in its place.
pub fn reloadable(world: &World, config: &Config) -> (SocketAddr, impl Fn(&Config) + use<>) {
    let (confirmer, client) = confirmer(world, config);
    let gateway = Arc::new(gateway_apart(world, config));
    let address = listen(
        world,
        Server::new(world.clone(), gateway.clone(), settings()),
    );
    let reload = move |config: &Config| gateway.reload(config, &confirmer, &client);
    (address, reload)
}

/// The gateway itself, served by nobody.
pub fn gateway_apart(world: &World, config: &Config) -> Gateway {
    let (confirmer, client) = confirmer(world, config);
    let roster = Roster::new(world, config, &confirmer, &client);
    Gateway::new(world.clone(), config, roster, sealer())
}

/// The bundle `name` of `config`, as if in a process of its own.
pub fn bundle(world: &World, config: &Config, name: &str) -> SocketAddr {
    let (confirmer, _) = confirmer(world, config);
    let bundle = Bundle::new(config, name, &confirmer).unwrap();
    listen(
        world,
        Server::new(world.clone(), Arc::new(bundle), settings()),
    )
}

/// Counts acts: a command appends a line for each.
pub struct Acts(PathBuf);

impl Acts {
    pub fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!(
            "countersign-acts-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let acts = Self(std::env::temp_dir().join(name));
        let _ = std::fs::remove_file(&acts.0);
        acts
    }

    pub fn count(&self) -> usize {
        std::fs::read_to_string(&self.0)
            .unwrap_or_default()
            .lines()
            .count()
    }

    /// What each act wrote.
    pub fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// A YAML `argv` that acts, and writes the call's `note` if it has one.
    pub fn argv(&self) -> String {
        format!(r#"[sh, -c, "echo acted $0 >> {}"]"#, self.0.display())
    }
}

impl Drop for Acts {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// One request that the endpoint saw.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub fn is_post(&self) -> bool {
        self.method == "Post"
    }
}

/// What the endpoint answers.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

impl Reply {
    pub fn json(body: &str) -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            body: body.to_owned(),
        }
    }

    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: "{\"error\":\"secret text of the endpoint\"}".to_owned(),
        }
    }

    pub fn pending() -> Self {
        Self::json(r#"{"action":"pending","content":null}"#)
    }

    pub fn accept() -> Self {
        Self::json(r#"{"action":"accept","content":{"confirm":true}}"#)
    }
}

/// A scripted approval endpoint. Every request comes out of `seen` and waits for its reply from `replies`.
pub struct Endpoint {
    pub address: SocketAddr,
    pub seen: Receiver<(Seen, Sender<Reply>)>,
    /// A message for each request whose caller left before it was answered.
    pub left: Receiver<()>,
}

struct Script {
    seen: Sender<(Seen, Sender<Reply>)>,
    left: Sender<()>,
}

/// Says so when a request is dropped unanswered.
struct Unanswered(Option<Sender<()>>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(left) = self.0.take() {
            let _ = left.try_send(());
        }
    }
}

impl Handler for Script {
    async fn handle(&self, request: Request, responder: Responder) -> Responded {
        let mut unanswered = Unanswered(Some(self.left.clone()));
        let Request { head, body, .. } = request;
        let body = body.read_all(1 << 20).await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let seen = Seen {
            method: format!("{:?}", head.method),
            target: head.target.clone(),
            headers: head
                .headers
                .iter()
                .map(|(name, value)| (name.to_owned(), text(value)))
                .collect(),
            body: text(&body),
        };
        let (reply, replied) = unbounded();
        let _ = self.seen.try_send((seen, reply));
        let Ok(reply) = replied.recv().await else {
            std::future::pending().await
        };
        unanswered.0 = None;
        let mut headers: Vec<(&str, &str)> = vec![("content-type", "application/json")];
        headers.extend(
            reply
                .headers
                .iter()
                .map(|(name, value)| (*name, value.as_str())),
        );
        responder
            .send(reply.status, &headers, reply.body.as_bytes())
            .await
    }
}

impl Endpoint {
    pub fn start(world: &World) -> Self {
        let (seen_in, seen) = unbounded();
        let (left_in, left) = unbounded();
        let address = listen(
            world,
            Script {
                seen: seen_in,
                left: left_in,
            },
        );
        Self {
            address,
            seen,
            left,
        }
    }

    /// The prefix for the allowlist.
    pub fn prefix(&self) -> String {
        format!("http://{}/approve/", self.address)
    }

    pub fn channel(&self, session: &str) -> String {
        format!("{}{session}", self.prefix())
    }

    /// The next request, and where its reply goes.
    pub async fn next(&self) -> (Seen, Sender<Reply>) {
        self.seen.recv().await.unwrap()
    }

    /// Takes the question and answers every poll with `answer`.
    pub async fn answer(&self, answer: Reply) {
        loop {
            let (seen, reply) = self.next().await;
            let _ = reply.try_send(if seen.is_post() {
                created()
            } else {
                answer.clone()
            });
        }
    }
}

/// The reply to a question.
pub fn created() -> Reply {
    Reply {
        status: 201,
        headers: Vec::new(),
        body: r#"{"action":"pending","_meta":{}}"#.to_owned(),
    }
}

/// A caller that speaks raw HTTP.
pub struct Caller {
    pub stream: Stream,
    pub received: Arc<Mutex<Vec<u8>>>,
}

impl Caller {
    pub async fn connect(world: &World, address: SocketAddr) -> Self {
        let stream = world
            .connect(&address.ip().to_string(), address.port())
            .await
            .unwrap();
        Self {
            stream,
            received: Arc::default(),
        }
    }

    pub async fn send(&self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Reads until `marker` has come, or the end. What came so far.
    pub async fn until(&self, marker: &str) -> String {
        loop {
            let text = String::from_utf8_lossy(&self.received.lock().unwrap()).into_owned();
            if text.contains(marker) || !self.more().await {
                return text;
            }
        }
    }

    /// Reads until the end.
    pub async fn until_end(&self) {
        while self.more().await {}
    }

    /// Reads once. Whether anything came before the end.
    pub async fn more(&self) -> bool {
        let mut some = [0; 4096];
        let read = poll_fn(|cx| self.stream.poll_read(cx, &mut some)).await;
        let count = read.unwrap_or(0);
        let mut received = self.received.lock().unwrap();
        received.extend_from_slice(&some[..count]);
        count > 0
    }
}

/// A modern `tools/call` as bytes.
pub fn call(target: &str, tool: &str, arguments: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":41,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments},"_meta":{{"progressToken":"p-1","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    );
    let headers: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    format!(
        "POST {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// The end of an answer that came as a stream, or of one that came whole.
pub const END: &str = "\"id\":41,";
