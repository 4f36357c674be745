//! The parts that a configuration describes, put together and set listening.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use smol::Task;
use url::Url;

use super::Failure;
use crate::approval::{AskTiming, Asker};
use crate::bundle::{Bundle, Confirmer};
use crate::config::{Askers, CertificateFiles, Config, Listen, Placed, ProcessLookup, Template};
use crate::desk::{Desk, DeskSettings, Person};
use crate::gate::Gate;
use crate::gateway::{Gateway, Roster};
use crate::http::{self, Budget, Guard, Handler, Limits};
use crate::mcp::{Server, ServerSettings, Service};
use crate::secret::{MIN_SECRET_BYTES, Sealer, Secret, base64url};
use crate::world::tls::{ClientTls, ServerTls};
use crate::world::{Listener, World};

/// Descriptors that are not connections: listeners, the log, the poller, children's pipes.
const OTHER_DESCRIPTORS: u64 = 128;

/// A file of authorities that are trusted besides the built-in ones, in whatever process it is set.
const CA_VARIABLE: &str = "SSL_CERT_FILE";

/// The client of this process: it trusts the built-in authorities, those of `ca_file`, and those of `SSL_CERT_FILE`.
pub(super) fn client(world: &World, ca_file: Option<&Path>) -> Result<http::Client, Failure> {
    let variable = std::env::var_os(CA_VARIABLE);
    let variable = variable.filter(|file| ClientTls::is_present() && !file.is_empty());
    let files: Vec<&Path> = ca_file
        .into_iter()
        .chain(variable.as_deref().map(|file: &OsStr| Path::new(file)))
        .collect();
    let tls = ClientTls::also_trusting(&world.clock, &files).map_err(|fault| {
        let source = match ca_file {
            Some(file) if file == fault.file => "tls.caFile",
            _ => CA_VARIABLE,
        };
        Failure::Usage(format!("{source}: {fault}"))
    })?;
    Ok(http::Client::trusting(world.clone(), tls))
}

/// The gateway with its bundles inside, and what puts another configuration in the place of this one.
pub(super) fn gateway(
    world: &World,
    config: &Config,
) -> Result<(Server<Gateway>, Reloadable), Failure> {
    let client = client(world, config.tls.ca_file.as_deref())?;
    let confirmer = confirmer(world, config, client.clone());
    let roster = Roster::new(world, config, &confirmer, &client);
    let sealer = sealer(world, config)?;
    let gateway = Arc::new(Gateway::new(world.clone(), config, roster, sealer.clone()));
    let reloadable = Reloadable {
        gateway: gateway.clone(),
        confirmer,
        client,
    };
    let hosts = config.gateway.allowed_hosts.clone();
    let guard = Guard {
        hosts,
        origins: config.gateway.allowed_origins.clone(),
    };
    Ok((server(world, config, gateway, guard, sealer), reloadable))
}

/// A gateway that runs, and what the rest of its servers are made with.
pub(super) struct Reloadable {
    gateway: Arc<Gateway>,
    confirmer: Confirmer,
    client: http::Client,
}

impl Reloadable {
    /// The gateway itself.
    pub(super) const fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// Puts `config` in the place of what the gateway runs with.
    pub(super) fn reload(&self, config: &Config) {
        self.gateway.reload(config, &self.confirmer, &self.client);
    }
}

/// The bundle `name`, for a process of its own.
pub(super) fn bundle(
    world: &World,
    config: &Config,
    name: &str,
) -> Result<Server<Bundle>, Failure> {
    let client = client(world, config.tls.ca_file.as_deref())?;
    let confirmer = confirmer(world, config, client);
    let bundle = Bundle::new(config, name, &confirmer)
        .map_err(|fault| Failure::Usage(format!("{}: {fault}", config.file)))?;
    // Only the gateway calls it, by the name that its own configuration says.
    let url = config.bundle(name).and_then(|bundle| bundle.url.as_ref());
    let hosts = url
        .and_then(Url::host_str)
        .map(str::to_ascii_lowercase)
        .into_iter()
        .collect();
    let guard = Guard {
        hosts,
        origins: Vec::new(),
    };
    let sealer = sealer(world, config)?;
    Ok(server(world, config, Arc::new(bundle), guard, sealer))
}

/// Seals what callers bring back: by `gate.key`, or by a key of this process alone.
fn sealer(world: &World, config: &Config) -> Result<Sealer, Failure> {
    let mut keys = seeded(&config.gate.key);
    if keys.is_empty() {
        let mut bytes = [0; MIN_SECRET_BYTES];
        world.random.fill(&mut bytes);
        keys.push(Secret::new(base64url(&bytes)));
    }
    Sealer::new(&keys)
        .map_err(|fault| Failure::Usage(format!("{}: gate.key: {fault}", config.file)))
}

fn server<S: Service>(
    world: &World,
    config: &Config,
    service: Arc<S>,
    guard: Guard,
    sealer: Sealer,
) -> Server<S> {
    let settings = ServerSettings {
        guard,
        body_bytes: config.limits.body_bytes,
        sealer,
    };
    Server::new(world.clone(), service, settings)
}

fn confirmer(world: &World, config: &Config, client: http::Client) -> Confirmer {
    let timing = AskTiming {
        poll: Duration::from_millis(config.timing.poll_ms),
    };
    let gate = Gate::new(world.clone(), Asker::new(world.clone(), client, timing));
    Confirmer::new(
        world.clone(),
        gate,
        Duration::from_millis(config.timing.keepalive_ms),
    )
}

/// The desk, if the configuration has one. `address` is where it listens, for the public URL where none is configured.
/// A secret that is not set is replaced by a random one with a warning: then no session URL minted earlier is believed.
pub(super) fn desk(
    world: &World,
    config: &Config,
    address: Option<SocketAddr>,
) -> Result<Option<Arc<Desk>>, Failure> {
    let Some(desk) = &config.desk else {
        return Ok(None);
    };
    let mut secrets = seeded(&desk.secret);
    if secrets.is_empty() {
        log::warn!("desk.secret is not set: session URLs minted before this start are refused");
        let mut bytes = [0; MIN_SECRET_BYTES];
        world.random.fill(&mut bytes);
        secrets.push(Secret::new(base64url(&bytes)));
    }
    let people = desk.people.iter().map(|person| Person {
        id: person.id.clone(),
        key_sha256: person.sha256,
        answers_for: person.answers_for.iter().map(pattern).collect(),
    });
    let settings = DeskSettings {
        public_url: match &desk.public_url {
            Some(url) => url.clone(),
            None => {
                let scheme = if desk.tls.is_some() { "https" } else { "http" };
                let configured = desk.listen.first().map(|listen| listen.address);
                local_url(scheme, address.or(configured))?
            }
        },
        secrets,
        people: people.collect(),
        asker_keys: desk.asker_keys.clone(),
        allowed_hosts: Vec::new(),
    };
    Desk::new(world.clone(), settings)
        .map(Some)
        .map_err(|fault| Failure::Usage(format!("{}: {fault}", config.file)))
}

/// A pattern of session names, as the desk takes it.
fn pattern(askers: &Askers) -> String {
    match askers {
        Askers::Named(name) => name.clone(),
        Askers::Starting(start) => format!("{start}*"),
    }
}

/// Whether every secret of the desk is set: `session new` would otherwise mint what `serve` does not believe.
pub(super) fn desk_is_seeded(config: &Config) -> bool {
    config.desk.as_ref().is_some_and(|desk| {
        !desk.secret.is_empty() && seeded(&desk.secret).len() == desk.secret.len()
    })
}

fn seeded(secrets: &[Placed<Template>]) -> Vec<Secret> {
    secrets
        .iter()
        .filter_map(|secret| secret.value.resolve(&ProcessLookup).ok())
        .collect()
}

fn local_url(scheme: &str, address: Option<SocketAddr>) -> Result<Url, Failure> {
    let port = address.map_or(8601, |address| address.port());
    Url::parse(&format!("{scheme}://localhost:{port}"))
        .map_err(|_| Failure::Usage("desk.publicUrl is needed".to_owned()))
}

/// What each server of this process allows, by the configuration and by the descriptors there are.
///
/// # Errors
/// A process that is allowed fewer descriptors than it needs for one connection.
pub(super) fn limits(config: &Config) -> Result<Arc<Limits>, Failure> {
    let configured = &config.limits;
    let timing = &config.timing;
    Ok(Arc::new(Limits {
        head: http::head::HeadLimits {
            bytes: configured.head_bytes,
            headers: configured.headers,
        },
        connections: Budget::new(connections(configured.connections)?),
        head_time: Duration::from_millis(timing.head_ms),
        body_time: Duration::from_millis(timing.body_ms),
        idle_time: Duration::from_millis(timing.idle_ms),
        buffered: Budget::new(configured.buffered_bytes),
    }))
}

/// Raises the soft limit on descriptors as far as the connections need, two each, and clamps their number to what there
/// is.
fn connections(wanted: usize) -> Result<usize, Failure> {
    let need = wanted as u64 * 2 + OTHER_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    let allowed = limit.maximum.unwrap_or(u64::MAX).min(need);
    let mut current = limit.current.unwrap_or(u64::MAX);
    if current < allowed {
        let raised = Rlimit {
            current: Some(allowed),
            maximum: limit.maximum,
        };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            current = allowed;
        }
    }
    let possible = usize::try_from(current.saturating_sub(OTHER_DESCRIPTORS) / 2).unwrap_or(wanted);
    if possible == 0 {
        return Err(Failure::Failed(format!(
            "{current} descriptors are too few for any connection: {} are needed (ulimit -n)",
            OTHER_DESCRIPTORS + 2
        )));
    }
    if possible < wanted {
        log::warn!("{current} descriptors allow {possible} connections instead of {wanted}");
    }
    Ok(wanted.min(possible))
}

/// Opens the listeners, all of them or none.
pub(super) fn listen(
    world: &World,
    what: &str,
    on: &[Listen],
    tls: Option<&ServerTls>,
) -> Result<Vec<Listener>, Failure> {
    let open = |listen: &Listen| {
        let listener = world.net.listen(listen.address).map_err(|error| {
            Failure::Failed(format!(
                "{what}: cannot listen on {}: {error}",
                listen.address
            ))
        })?;
        Ok(match tls {
            Some(tls) => listener.with_tls(tls.clone()),
            None => listener,
        })
    };
    on.iter().map(open).collect()
}

/// Opens the admin's listeners. Where none is configured and the usual one is taken, perhaps by another gateway of this
/// machine, there is none.
pub(super) fn admin_listeners(world: &World, config: &Config) -> Result<Vec<Listener>, Failure> {
    let on = &config.gateway.admin_listen;
    match listen(world, "the admin listener", on, None) {
        Err(failure) if on.iter().all(|on| on.at.line == 0) => {
            log::warn!("there is no admin listener: {failure}");
            Ok(Vec::new())
        }
        opened => opened,
    }
}

/// The certificate that a part serves with, if it has one. `key` is where the configuration names it.
pub(super) fn certificate(
    config: &Config,
    key: &str,
    files: Option<&CertificateFiles>,
) -> Result<Option<ServerTls>, Failure> {
    files
        .map(|files| ServerTls::load(&files.cert, &files.key))
        .transpose()
        .map_err(|fault| Failure::Usage(format!("{}: {key}: {fault}", config.file)))
}

/// Serves `handler` on `listeners`. Dropping the tasks ends every connection.
pub(super) fn spawn<H: Handler>(
    world: &World,
    listeners: Vec<Listener>,
    handler: &Arc<H>,
    limits: &Arc<Limits>,
) -> Vec<Task<()>> {
    let serve = |listener| {
        world.spawn(http::serve(
            world.clone(),
            listener,
            handler.clone(),
            limits.clone(),
        ))
    };
    listeners.into_iter().filter_map(serve).collect()
}
