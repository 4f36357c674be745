//! The server that the official conformance suite tests: this library, with the suite's own tools, prompts and resources.
//!
//! ```text
//! cargo run --release --example conformance -- [--port N] [--gateway]
//! ```
//!
//! The first line on stdout is the URL. Port 0, which is the default, is any that is free. With `--gateway` it is the URL of
//! a gateway in front of the same server. `tests/conformance/run.mjs` runs the suite against both.

mod asking;
mod fixture;
mod prompts;
mod resources;
mod template;
mod tools;

use std::error::Error;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use countersign::approval::{AskTiming, Asker};
use countersign::bundle::Confirmer;
use countersign::config::Config;
use countersign::gate::Gate;
use countersign::gateway::{Gateway, Roster};
use countersign::http::{Client, Guard, Handler, Limits, Request, Responded, Responder, serve};
use countersign::mcp::{Server, ServerSettings, Service};
use countersign::secret::{Sealer, Secret, base64url};
use countersign::world::{Runtime, World};
use fixture::Fixture;
use lexopt::prelude::{Long, ValueExt};

/// One server alone keeps the names of its tools.
const ALONE: &str = "servers=fixture";

/// The largest request body, in bytes.
const BODY_BYTES: usize = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let (mut port, mut with_gateway) = (0, false);
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("port") => port = arguments.value()?.parse()?,
            Long("gateway") => with_gateway = true,
            other => return Err(other.unexpected().into()),
        }
    }
    let runtime = Runtime::real();
    let world = runtime.world();
    let sealer = sealer(world)?;
    let fixture = Fixture::new(world.clone(), sealer.clone());
    let url = if with_gateway {
        let behind = start(world, server(world, fixture, sealer.clone()), 0)?;
        let gateway = gateway(world, behind, &sealer)?;
        let address = start(world, Alone(server(world, gateway, sealer)), port)?;
        format!("http://{address}/mcp?{ALONE}")
    } else {
        let address = start(world, server(world, fixture, sealer), port)?;
        format!("http://{address}/mcp")
    };
    writeln!(std::io::stdout(), "{url}")?;
    runtime.block_on(std::future::pending::<()>());
    Ok(())
}

/// Serves on loopback for as long as the world runs.
fn start<H: Handler>(world: &World, handler: H, port: u16) -> Result<SocketAddr, Box<dyn Error>> {
    let listener = world.net.listen((Ipv4Addr::LOCALHOST, port).into())?;
    let address = listener.local_address()?;
    let limits = Arc::new(Limits::default());
    let serving = serve(world.clone(), listener, Arc::new(handler), limits);
    let task = world.spawn(serving).ok_or("the runtime has ended")?;
    task.detach();
    Ok(address)
}

fn server<S: Service>(world: &World, service: S, sealer: Sealer) -> Server<S> {
    let settings = ServerSettings {
        guard: Guard::default(),
        body_bytes: BODY_BYTES,
        sealer,
    };
    Server::new(world.clone(), Arc::new(service), settings)
}

/// A gateway that is asked for one server, whatever the URL says: the suite leaves the query out of some requests.
struct Alone(Server<Gateway>);

impl Handler for Alone {
    async fn handle(&self, mut request: Request, responder: Responder) -> Responded {
        if request.head.query().is_none() {
            request.head.target.push_str(&format!("?{ALONE}"));
        }
        self.0.handle(request, responder).await
    }
}

/// A gateway with one server behind it, `fixture`.
fn gateway(world: &World, behind: SocketAddr, sealer: &Sealer) -> Result<Gateway, Box<dyn Error>> {
    let text = format!(
        "servers:\n  - slug: fixture\n    kind: remote-http\n    url: http://{behind}/mcp\n"
    );
    let (config, _) = Config::parse("conformance.yaml", &text).map_err(|faults| {
        let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
        faults.join("\n")
    })?;
    let client = Client::new(world.clone());
    let timing = AskTiming {
        poll: Duration::from_millis(config.timing.poll_ms),
    };
    let asker = Asker::new(world.clone(), client.clone(), timing);
    let keepalive = Duration::from_millis(config.timing.keepalive_ms);
    let gate = Gate::new(world.clone(), asker);
    let confirmer = Confirmer::new(world.clone(), gate, keepalive);
    let roster = Roster::new(world, &config, &confirmer, &client);
    Ok(Gateway::new(world.clone(), &config, roster, sealer.clone()))
}

/// Seals with a key that nobody has, so that states and sessions end with the process.
fn sealer(world: &World) -> Result<Sealer, Box<dyn Error>> {
    let mut key = [0; 32];
    world.random.fill(&mut key);
    Sealer::new(&[Secret::new(base64url(&key))]).map_err(|fault| fault.to_string().into())
}
