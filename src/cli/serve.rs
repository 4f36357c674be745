//! `serve`, `gateway`, `bundle`, `desk`: until a signal.

use std::path::PathBuf;
use std::sync::Arc;

use async_signal::{Signal, Signals};
use lexopt::prelude::{Long, Short, ValueExt};
use smol::Task;
use smol::stream::StreamExt;

use super::{Failure, check, help, logging, output, parts};
use crate::config::Config;
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
        let signal = ended(signals).await;
        // Dropping the listeners and connections drops every call: each waiting question ends unanswered.
        drop(served);
        signal
    })
}

/// Starts what `command` names and says where it listens.
fn start(
    world: &World,
    config: &Config,
    command: &str,
    bundle: Option<&str>,
) -> Result<Vec<Task<()>>, Failure> {
    let limits = parts::limits(config);
    let mut tasks = Vec::new();
    if matches!(command, "serve" | "gateway") {
        let listeners = parts::listen(world, "the gateway", &config.gateway.listen)?;
        say("gateway", &listeners, "/mcp");
        let gateway = Arc::new(parts::gateway(world, config));
        tasks.extend(parts::spawn(world, listeners, &gateway, &limits));
    }
    if let Some(desk) = config
        .desk
        .as_ref()
        .filter(|_| matches!(command, "serve" | "desk"))
    {
        let listeners = parts::listen(world, "the desk", &desk.listen)?;
        say("desk", &listeners, "/");
        let address = listeners
            .first()
            .and_then(|listener| listener.local_address().ok());
        if let Some(desk) = parts::desk(world, config, address)? {
            tasks.extend(parts::spawn(world, listeners, &desk, &limits));
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
        let on = config
            .bundle(name)
            .map(|bundle| &bundle.listen[..])
            .unwrap_or_default();
        if on.is_empty() {
            return Err(Failure::Usage(format!(
                "{}: bundles.{name}.listen is needed to run it by itself",
                config.file
            )));
        }
        let bundle = Arc::new(parts::bundle(world, config, name)?);
        let listeners = parts::listen(world, "the bundle", on)?;
        say("bundle", &listeners, "");
        tasks.extend(parts::spawn(world, listeners, &bundle, &limits));
    }
    Ok(tasks)
}

fn say(what: &str, listeners: &[Listener], path: &str) {
    for address in listeners
        .iter()
        .filter_map(|listener| listener.local_address().ok())
    {
        output::note(&format!("countersign: {what} on http://{address}{path}"));
    }
}

/// Receives signals from now on: before this, they end the process at once.
pub(super) fn signals() -> Result<Signals, Failure> {
    Signals::new([Signal::Term, Signal::Int, Signal::Hup])
        .map_err(|error| Failure::Failed(format!("signals cannot be received: {error}")))
}

/// Waits for the signal that ends this process.
pub(super) async fn ended(mut signals: Signals) -> Result<(), Failure> {
    while let Some(signal) = signals.next().await {
        match signal {
            Ok(Signal::Hup) => {
                log::warn!("this build reads its configuration at start only; restart it to reload")
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
