//! `health`: whether the gateway of a container lives.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::{Long, Short};
use url::Url;

use super::{Failure, check, help, output};
use crate::config::Config;
use crate::http::{Client, Connection, Method, OutRequest};
use crate::world::Runtime;

/// Container runtimes wait for so long by themselves.
const TIME: Duration = Duration::from_secs(5);

/// `countersign health [--config FILE]`
pub(super) fn run(mut parser: lexopt::Parser) -> Result<(), Failure> {
    let mut file = None::<PathBuf>;
    while let Some(argument) = parser.next()? {
        match argument {
            Long("config") => file = Some(parser.value()?.into()),
            Long("help") | Short('h') => {
                output::result(help::HEALTH);
                return Ok(());
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let config = match file {
        Some(file) => check::load(Some(&file))?,
        None => Config::parse("the default configuration", "")
            .map(|(config, _)| config)
            .map_err(|_| Failure::Told)?,
    };
    let address = config.gateway.admin_listen.first().map(|on| on.address);
    let address = reachable(address.ok_or(Failure::Told)?);
    let url = Url::parse(&format!("http://{address}/healthz"))
        .map_err(|fault| Failure::Failed(fault.to_string()))?;
    let runtime = Runtime::real();
    let world = runtime.world().clone();
    let status = runtime.block_on(async move {
        let deadline = world.clock.after(TIME);
        let request = OutRequest::new(Method::Get, &url).map_err(|fault| fault.to_string())?;
        let client = Client::new(world);
        let reply = client.send(request, deadline, Connection::Fresh).await;
        reply
            .map(|reply| reply.status)
            .map_err(|fault| fault.to_string())
    });
    match status {
        Ok(200) => {
            output::result("ok");
            Ok(())
        }
        Ok(status) => Err(Failure::Failed(format!("{address} answered HTTP {status}"))),
        Err(why) => Err(Failure::Failed(format!("{address}: {why}"))),
    }
}

/// What listens on every address is reached on this machine's own.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        ip if ip.is_unspecified() => {
            SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port())
        }
        _ => address,
    }
}
