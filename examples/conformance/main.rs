//! The server that the official conformance suite tests: this library, with the suite's own tools, prompts and resources.
//!
//! ```text
//! cargo run --release --example conformance -- [--port N]
//! ```
//!
//! The first line on stdout is the URL. Port 0, which is the default, is any that is free. `tests/conformance/run` runs the
//! suite against it.

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

use countersign::http::{Guard, Limits, serve};
use countersign::mcp::{Server, ServerSettings};
use countersign::secret::{Sealer, Secret, base64url};
use countersign::world::{Runtime, World};
use fixture::Fixture;
use lexopt::prelude::{Long, ValueExt};

/// The largest request body, in bytes.
const BODY_BYTES: usize = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let mut port = 0;
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("port") => port = arguments.value()?.parse()?,
            other => return Err(other.unexpected().into()),
        }
    }
    let runtime = Runtime::real();
    let world = runtime.world();
    let address = start_fixture(world, port)?;
    writeln!(std::io::stdout(), "http://{address}/mcp")?;
    runtime.block_on(std::future::pending::<()>());
    Ok(())
}

/// Serves the fixture on loopback for as long as the world runs.
fn start_fixture(world: &World, port: u16) -> Result<SocketAddr, Box<dyn Error>> {
    let sealer = sealer(world)?;
    let settings = ServerSettings {
        guard: Guard::default(),
        body_bytes: BODY_BYTES,
        sealer: sealer.clone(),
    };
    let fixture = Arc::new(Fixture::new(world.clone(), sealer));
    let server = Server::new(world.clone(), fixture, settings);
    let listener = world.net.listen((Ipv4Addr::LOCALHOST, port).into())?;
    let address = listener.local_address()?;
    let limits = Arc::new(Limits::default());
    let serving = serve(world.clone(), listener, Arc::new(server), limits);
    let task = world.spawn(serving).ok_or("the runtime has ended")?;
    task.detach();
    Ok(address)
}

/// Seals with a key that nobody has, so that states and sessions end with the process.
fn sealer(world: &World) -> Result<Sealer, Box<dyn Error>> {
    let mut key = [0; 32];
    world.random.fill(&mut key);
    Sealer::new(&[Secret::new(base64url(&key))]).map_err(|fault| fault.to_string().into())
}
