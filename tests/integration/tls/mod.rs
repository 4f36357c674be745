//! TLS over real sockets: our two ends with each other, and each with `openssl` and `curl`.
//!
//! Certificates are made by the `openssl` command when the tests run, so that none is in the repository to expire, and
//! no crate is needed for it. Without that command every test here says that it was skipped.

mod certificates;
mod command;
mod faults;
mod peers;
mod server;
mod truncation;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use certificates::{Files, Pki};
use countersign::http::{
    Client, ClientFault, Connection, Handler, Limits, Method, OutRequest, Reply, Request,
    Responded, Responder, serve,
};
use countersign::time::{Clock, Instant};
use countersign::world::tls::{ClientTls, ServerTls};
use countersign::world::{Listener, Net, Random, Runtime, World};
use smol::channel::{Receiver, Sender, unbounded};
use url::Url;

use crate::lab::within;

/// Far beyond every test: the hand-driven clock stands still unless a test moves it.
const NEVER: Instant = Instant::from_ms(u64::MAX);

fn real_wall_ms() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since_1970.as_millis()).unwrap()
}

/// Runs a test in a world of real sockets, whose clock stands still at the present, when the certificates are valid.
fn run<F: Future<Output = ()> + Send + 'static>(test: impl FnOnce(World, Arc<Pki>) -> F) {
    run_in(Net::real(), test);
}

fn run_in<F: Future<Output = ()> + Send + 'static>(
    net: Net,
    test: impl FnOnce(World, Arc<Pki>) -> F,
) {
    crate::logs::capture();
    let Some(pki) = Pki::get() else {
        println!("skipped: there is no openssl command");
        return;
    };
    let clock = Clock::hand_driven(real_wall_ms());
    let runtime = Runtime::with(clock, net, Random::seeded(11));
    let world = runtime.world().clone();
    runtime.block_on(test(world, pki));
}

/// A handler: `/` greets, `/hold` waits until it is dropped, a POST is echoed, `/many` is a long answer.
struct Greeter {
    held: Sender<()>,
    dropped: Sender<()>,
}

/// Bytes of `/many`: far more than every buffer between the two ends.
const MANY: usize = 3_000_000;

fn many() -> Vec<u8> {
    (0..MANY).map(|index| (index % 251) as u8).collect()
}

struct SaysDropped(Sender<()>);

impl Drop for SaysDropped {
    fn drop(&mut self) {
        let _ = self.0.try_send(());
    }
}

impl Handler for Greeter {
    async fn handle(&self, request: Request, responder: Responder) -> Responded {
        match (&request.head.method, request.head.path()) {
            (Method::Post, _) => {
                let body = request.body.read_all(2 * MANY).await.unwrap();
                responder.send(200, &[], &body).await
            }
            (_, "/many") => responder.send(200, &[], &many()).await,
            (_, "/hold") => {
                let _dropped = SaysDropped(self.dropped.clone());
                self.held.try_send(()).unwrap();
                std::future::pending().await
            }
            _ => responder.send(200, &[], b"hello over TLS\n").await,
        }
    }
}

/// A greeter that listens.
struct Served {
    port: u16,
    tls: ServerTls,
    held: Receiver<()>,
    dropped: Receiver<()>,
}

impl Served {
    fn start(world: &World, files: &Files) -> Self {
        let (held_in, held) = unbounded();
        let (dropped_in, dropped) = unbounded();
        let (tls, listener) = listen(world, files);
        let port = listener.local_address().unwrap().port();
        let greeter = Greeter {
            held: held_in,
            dropped: dropped_in,
        };
        let limits = Arc::new(Limits::default());
        let serving = serve(world.clone(), listener, Arc::new(greeter), limits);
        world.spawn(serving).unwrap().detach();
        Self {
            port,
            tls,
            held,
            dropped,
        }
    }
}

fn listen(world: &World, files: &Files) -> (ServerTls, Listener) {
    let tls = ServerTls::load(&files.cert, &files.key).unwrap();
    let listener = world.net.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    (tls.clone(), listener.with_tls(tls))
}

/// A client that trusts `ca` besides the built-in authorities.
fn client(world: &World, ca: &Path) -> Client {
    let tls = ClientTls::also_trusting(&world.clock, &[ca]).unwrap();
    Client::trusting(world.clone(), tls)
}

async fn get(client: &Client, host: &str, port: u16) -> Result<Reply, ClientFault> {
    get_path(client, host, port, "/").await
}

async fn get_path(
    client: &Client,
    host: &str,
    port: u16,
    path: &str,
) -> Result<Reply, ClientFault> {
    let url = Url::parse(&format!("https://{host}:{port}{path}")).unwrap();
    let request = OutRequest::new(Method::Get, &url).unwrap();
    client.send(request, NEVER, Connection::Pooled).await
}
