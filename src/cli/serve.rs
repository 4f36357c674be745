//! `serve`, `gateway`, `bundle`, `desk`: until a signal.

use std::path::PathBuf;
use std::sync::Arc;

use async_signal::{Signal, Signals};
use lexopt::prelude::{Long, Short, ValueExt};
use smol::Task;
use smol::stream::StreamExt;

use super::{Failure, check, help, logging, output, parts};
use crate::config::Config;
use crate::world::tls::ServerTls;
use crate::world::{Listener, Runtime, World};

pub(super) fn run(command: &str, mut parser: lexopt::Parser) -> Result<(), Failure> {
    let (mut file, mut bundle) = (None::<PathBuf>, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("config") => file = Some(parser.value()?.into()),
            Long("bundle") if command == "bundle" => bundle = Some(parser.value()?.string()?),
            Long("help") | Short('h') => {
                output::result(help::SERVE);
                return Ok(());
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let config = check::load(file.as_deref())?;
    let faults = config.start_faults();
    if !faults.is_empty() {
        let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
        return Err(Failure::Usage(lines.join("\n")));
    }
    logging::start(config.log.level, config.log.format);
    for notice in &config.notices {
        log::warn!("{notice}");
    }
    let runtime = Runtime::real();
    let world = runtime.world().clone();
    let signals = signals()?;
    let served = start(&world, &config, command, bundle.as_deref())?;
    runtime.block_on(async move {
        let signal = ended(signals, &served.certificates).await;
        // Dropping the listeners and connections drops every call: each waiting question ends unanswered.
        drop(served);
        signal
    })
}

/// What runs until a signal.
#[derive(Default)]
struct Served {
    tasks: Vec<Task<()>>,
    certificates: Vec<ServerTls>,
}

/// Starts what `command` names and says where it listens.
fn start(
    world: &World,
    config: &Config,
    command: &str,
    bundle: Option<&str>,
) -> Result<Served, Failure> {
    let limits = parts::limits(config)?;
    let mut served = Served::default();
    if matches!(command, "serve" | "gateway") {
        let gateway = &config.gateway;
        let tls = parts::certificate(config, "gateway.tls", gateway.tls.as_ref())?;
        let handler = Arc::new(parts::gateway(world, config)?);
        let listeners = parts::listen(world, "the gateway", &gateway.listen, tls.as_ref())?;
        say("gateway", &listeners, "/mcp");
        served
            .tasks
            .extend(parts::spawn(world, listeners, &handler, &limits));
        served.certificates.extend(tls);
    }
    if let Some(desk) = config
        .desk
        .as_ref()
        .filter(|_| matches!(command, "serve" | "desk"))
    {
        let tls = parts::certificate(config, "desk.tls", desk.tls.as_ref())?;
        let listeners = parts::listen(world, "the desk", &desk.listen, tls.as_ref())?;
        say("desk", &listeners, "/");
        let address = listeners
            .first()
            .and_then(|listener| listener.local_address().ok());
        if let Some(desk) = parts::desk(world, config, address)? {
            served
                .tasks
                .extend(parts::spawn(world, listeners, &desk, &limits));
            served.certificates.extend(tls);
        }
    } else if command == "desk" {
        return Err(Failure::Usage(format!(
            "{}: there is no desk in it",
            config.file
        )));
    }
    if command == "bundle" {
        let name = bundle
            .ok_or_else(|| Failure::Usage(format!("--bundle NAME is needed\n\n{}", help::SERVE)))?;
        let settings = config.bundle(name);
        let on = settings
            .map(|bundle| &bundle.listen[..])
            .unwrap_or_default();
        if on.is_empty() {
            return Err(Failure::Usage(format!(
                "{}: bundles.{name}.listen is needed to run it by itself",
                config.file
            )));
        }
        let bundle = Arc::new(parts::bundle(world, config, name)?);
        let files = settings.and_then(|bundle| bundle.tls.as_ref());
        let tls = parts::certificate(config, &format!("bundles.{name}.tls"), files)?;
        let listeners = parts::listen(world, "the bundle", on, tls.as_ref())?;
        say("bundle", &listeners, "");
        served
            .tasks
            .extend(parts::spawn(world, listeners, &bundle, &limits));
        served.certificates.extend(tls);
    }
    Ok(served)
}

fn say(what: &str, listeners: &[Listener], path: &str) {
    for listener in listeners {
        let scheme = if listener.is_secure() {
            "https"
        } else {
            "http"
        };
        if let Ok(address) = listener.local_address() {
            output::note(&format!(
                "countersign: {what} on {scheme}://{address}{path}"
            ));
        }
    }
}

/// Receives signals from now on: before this, they end the process at once.
pub(super) fn signals() -> Result<Signals, Failure> {
    Signals::new([Signal::Term, Signal::Int, Signal::Hup])
        .map_err(|error| Failure::Failed(format!("signals cannot be received: {error}")))
}

/// Waits for the signal that ends this process. SIGHUP reads the certificates anew.
pub(super) async fn ended(mut signals: Signals, certificates: &[ServerTls]) -> Result<(), Failure> {
    while let Some(signal) = signals.next().await {
        match signal {
            Ok(Signal::Hup) => {
                log::warn!(
                    "SIGHUP reads certificates anew; the rest of the configuration is read at start only"
                );
                reload(certificates).await;
            }
            Ok(_) => return Ok(()),
            Err(error) => {
                return Err(Failure::Failed(format!(
                    "signals cannot be received: {error}"
                )));
            }
        }
    }
    Ok(())
}

/// Reads each certificate anew, and says what came of it.
async fn reload(certificates: &[ServerTls]) {
    for tls in certificates {
        match tls.reload().await {
            Ok(()) => {
                log::info!("the certificate was read anew; new connections are served with it")
            }
            Err(fault) => log::error!("the old certificate stays: {fault}"),
        }
    }
}
