//! `serve`, `gateway`, `bundle`, `desk`: until a signal.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_signal::{Signal, Signals};
use lexopt::prelude::{Long, Short, ValueExt};
use smol::Task;
use smol::stream::StreamExt;

use super::parts::Reloadable;
use super::{Failure, check, help, logging, output, parts};
use crate::config::Config;
use crate::gateway::Admin;
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
    let mut served = start(&world, &config, command, bundle.as_deref())?;
    let within = Duration::from_millis(config.timing.drain_ms);
    served.config = Some(config);
    runtime.block_on(async move {
        let mut signals = signals;
        ended(&mut signals, &mut served).await?;
        drain(&world, &mut signals, served, within).await
    })
}

/// "SIGTERM drains: no new calls, waiting ones end as cancelled within `drainMs`, exit 0" (interface). Another signal ends
/// it at once.
async fn drain(
    world: &World,
    signals: &mut Signals,
    served: Served,
    within: Duration,
) -> Result<(), Failure> {
    world.ending.begin(within);
    let last = async {
        for task in served.tasks {
            task.await;
        }
    };
    let again = async { while let Some(Ok(Signal::Hup)) = signals.next().await {} };
    // Dropping what is left ends every call.
    let clock = &world.clock;
    let _ = clock
        .timeout(clock.after(within), smol::future::or(last, again))
        .await;
    Ok(())
}

/// What runs until a signal.
#[derive(Default)]
pub(super) struct Served {
    tasks: Vec<Task<()>>,
    certificates: Vec<ServerTls>,
    /// The gateway, if one runs.
    gateway: Option<Reloadable>,
    /// What all of it runs with; `None` where nothing was read from a file.
    config: Option<Config>,
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
        let (handler, reloadable) = parts::gateway(world, config)?;
        let handler = Arc::new(handler);
        let gateway_itself = reloadable.gateway().clone();
        served.gateway = Some(reloadable);
        let listeners = parts::listen(world, "the gateway", &gateway.listen, tls.as_ref())?;
        say("gateway", &listeners, "/mcp");
        let admin = parts::admin_listeners(world, config)?;
        say("admin", &admin, "/healthz");
        let watched = Arc::new(Admin::new(gateway_itself));
        served
            .tasks
            .extend(parts::spawn(world, admin, &watched, &limits));
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

/// Waits for the signal that ends this process. SIGHUP reads the configuration and the certificates anew.
pub(super) async fn ended(signals: &mut Signals, served: &mut Served) -> Result<(), Failure> {
    while let Some(signal) = signals.next().await {
        match signal {
            Ok(Signal::Hup) => {
                if let (Some(gateway), Some(config)) = (&served.gateway, &mut served.config) {
                    reload(gateway, config).await;
                }
                reload_certificates(&served.certificates).await;
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

/// "SIGHUP reloads; a wrong new configuration is refused whole and the old one stays" (interface).
async fn reload(gateway: &Reloadable, config: &mut Config) {
    let file = PathBuf::from(&config.file);
    let read = smol::unblock(move || {
        let config = check::load(Some(&file))?;
        let faults = config.start_faults();
        let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
        match faults.is_empty() {
            true => Ok(config),
            false => Err(Failure::Usage(lines.join("\n"))),
        }
    });
    let new = match read.await {
        Ok(new) => new,
        Err(failure) => {
            log::error!("the old configuration stays: {failure}");
            return;
        }
    };
    let at_start = config.needs_restart(&new);
    if !at_start.is_empty() {
        log::error!(
            "the old configuration stays: {} changed, which is read at start only",
            at_start.join(", ")
        );
        return;
    }
    for notice in &new.notices {
        log::warn!("{notice}");
    }
    gateway.reload(&new);
    *config = new;
    log::warn!("the configuration was read anew");
}

/// Reads each certificate anew, and says what came of it.
async fn reload_certificates(certificates: &[ServerTls]) {
    for tls in certificates {
        match tls.reload().await {
            Ok(()) => {
                log::info!("the certificate was read anew; new connections are served with it")
            }
            Err(fault) => log::error!("the old certificate stays: {fault}"),
        }
    }
}
