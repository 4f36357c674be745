//! The servers behind the gateway, and which of them a request names.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::mirrored::Mirrored;
use super::names;
use super::principal::Principal;
use super::remote::Remote;
use super::upstream::Upstream;
use crate::bundle::{CommandMount, Confirmer};
use crate::config::{
    CommandTool, Config, Kind, Mount, Placed, ProcessLookup, Server, SlugLookup, Template,
};
use crate::http;
use crate::json::{Members, elements, string};
use crate::mcp::client::{HeaderSource, ProgramSource, fixed};
use crate::mcp::{self, Request, RpcError, RpcResult, Version};
use crate::secret::Secret;
use crate::world::World;
use crate::world::child::Program;
use url::Url;

/// Every server that the configuration names, in the order of their slugs.
#[derive(Default)]
pub struct Roster {
    entries: Vec<Arc<Entry>>,
}

/// One server.
pub(super) struct Entry {
    pub(super) server: Server,
    pub(super) upstream: Upstream,
}

/// The servers of one request.
#[derive(Clone)]
pub struct Selected {
    /// In the order of their slugs, whatever the request's: the list is "the same for the same token".
    pub(super) entries: Vec<Arc<Entry>>,
    /// Whether tools are named `slug__tool`.
    pub(super) prefixed: bool,
}

/// Why a roster cannot be served. The configuration's fault.
#[derive(Debug)]
pub enum RosterFault {
    /// A bundle in another process whose key is not set.
    BundleKey(String),
}

impl fmt::Display for RosterFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BundleKey(bundle) => write!(
                f,
                "bundles.{bundle}.key is not set, and the bundle believes nobody else"
            ),
        }
    }
}

impl Roster {
    /// The roster of `config`. Local mounts ask through `confirmer`, bundles elsewhere are reached through `client`.
    ///
    /// # Errors
    /// [`RosterFault`]; a key that is missing is no reason not to start, so those servers refuse and it is logged.
    #[must_use]
    pub fn new(
        world: &World,
        config: &Config,
        confirmer: &Confirmer,
        client: &http::Client,
    ) -> Self {
        Self::after(&Self::default(), world, config, confirmer, client)
    }

    /// The roster of `config` in the place of another one: a server of which the same is said goes on as it is.
    #[must_use]
    pub(super) fn after(
        before: &Self,
        world: &World,
        config: &Config,
        confirmer: &Confirmer,
        client: &http::Client,
    ) -> Self {
        let entry = |server: &Server| {
            let known = before.find(server.slug.as_str());
            match known.filter(|known| known.server.fingerprint == server.fingerprint) {
                Some(known) => known.clone(),
                None => Arc::new(Entry {
                    server: server.clone(),
                    upstream: upstream(world, config, server, confirmer, client),
                }),
            }
        };
        let mut entries: Vec<_> = config.servers.iter().map(entry).collect();
        entries.sort_by(|a, b| a.server.slug.cmp(&b.server.slug));
        Self { entries }
    }

    /// The server of that slug.
    pub(super) fn find(&self, slug: &str) -> Option<&Arc<Entry>> {
        let mut entries = self.entries.iter();
        entries.find(|entry| entry.server.slug.as_str() == slug)
    }

    /// The servers with `required: true`.
    pub(super) fn required(&self) -> Vec<Arc<Entry>> {
        let entries = self.entries.iter();
        entries
            .filter(|entry| entry.server.required)
            .cloned()
            .collect()
    }

    /// The servers that a query names for `principal`, or all that it may use. `None`: "An unknown, unentitled or empty
    /// name in the list: 404 for the whole request, always the same body".
    #[must_use]
    pub fn select(&self, query: Option<&str>, principal: &Principal) -> Option<Selected> {
        let usable = || {
            self.entries
                .iter()
                .filter(|entry| principal.may_use(&entry.server))
        };
        let mut named = None;
        for (key, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            if key == "servers" && named.replace(value).is_some() {
                return None;
            }
        }
        let Some(named) = named else {
            return Some(Selected {
                entries: usable().cloned().collect(),
                prefixed: true,
            });
        };
        let names: Vec<&str> = named.split(',').collect();
        if !names
            .iter()
            .all(|name| usable().any(|entry| entry.server.slug.as_str() == *name))
        {
            return None;
        }
        let entries: Vec<_> = usable()
            .filter(|entry| names.contains(&entry.server.slug.as_str()))
            .cloned()
            .collect();
        let prefixed = entries.len() > 1;
        Some(Selected { entries, prefixed })
    }
}

impl Entry {
    /// Whether that tool asks a person before it acts.
    pub(super) fn asks_first(&self, tool: &str) -> bool {
        let mut tools = self.server.tools().iter();
        match tools.find(|known| known.name == tool) {
            Some(known) => known.gate.is_some(),
            // What is not in the file, only the mount knows.
            None => !matches!(self.upstream, Upstream::Here(_) | Upstream::Remote(_)),
        }
    }
}

impl Selected {
    /// The server and tool, or prompt, that a name means here. "split at the first `__`".
    pub(super) fn resolve<'n>(&self, name: &'n str) -> Option<(&Arc<Entry>, &'n str)> {
        match self.prefixed {
            true => self.of(names::split(name)?),
            false => self.entries.first().map(|entry| (entry, name)),
        }
    }

    /// The server and URI that the URI of a resource means here.
    pub(super) fn resolve_resource<'n>(&self, uri: &'n str) -> Option<(&Arc<Entry>, &'n str)> {
        match self.prefixed {
            true => self.of(names::split_resource(uri)?),
            false => self.entries.first().map(|entry| (entry, uri)),
        }
    }

    fn of<'n>(&self, (slug, name): (&str, &'n str)) -> Option<(&Arc<Entry>, &'n str)> {
        let mut entries = self.entries.iter();
        let entry = entries.find(|entry| entry.server.slug.as_str() == slug)?;
        Some((entry, name))
    }

    /// The server that `params.ref` of a completion means, and the reference as it stands there, as JSON.
    pub(super) fn resolve_reference(
        &self,
        request: &Request<'_>,
    ) -> Result<(&Arc<Entry>, String), RpcError> {
        let invalid = || RpcError::new(-32602, "params.ref refers to nothing here");
        let reference = request.param("ref").ok_or_else(invalid)?;
        let members = Members::parse(reference.get()).map_err(|_| invalid())?;
        let text = |name: &str| members.get(name).and_then(string);
        let (member, value) = match text("type").as_deref() {
            Some("ref/prompt") => ("name", text("name")),
            Some("ref/resource") => ("uri", text("uri")),
            _ => return Err(invalid()),
        };
        let value = value.ok_or_else(invalid)?;
        let meant = match member {
            "name" => self.resolve(&value),
            _ => self.resolve_resource(&value),
        };
        let (entry, there) = meant.ok_or_else(invalid)?;
        let renamed = names::renamed(reference, member, |_| there.to_owned());
        Ok((entry, renamed.ok_or_else(invalid)?.get().to_owned()))
    }

    /// What was read of a server's resource, under the URIs that its contents have here.
    pub(super) fn as_read(&self, entry: &Entry, mut read: RpcResult) -> RpcResult {
        let contents = read
            .get("contents")
            .filter(|_| self.prefixed)
            .and_then(|contents| elements(contents.get()).ok());
        let Some(contents) = contents else {
            return read;
        };
        let slug = entry.server.slug.as_str();
        let contents = contents.into_iter().map(|content| {
            names::renamed(content, "uri", |uri| names::of_resource(slug, uri))
                .unwrap_or_else(|| content.to_owned())
        });
        let contents: Vec<String> = contents.map(|content| content.get().to_owned()).collect();
        read.set("contents", format!("[{}]", contents.join(",")));
        read
    }
}

fn here(
    server: &Server,
    tools: &[CommandTool],
    config: &Config,
    confirmer: &Confirmer,
) -> Upstream {
    Upstream::Here(Box::new(CommandMount::new(
        server,
        tools,
        config,
        confirmer.clone(),
    )))
}

fn remote(
    world: &World,
    server: &Server,
    url: &Url,
    headers: &[(String, Placed<Template>)],
    client: &http::Client,
) -> Upstream {
    let slug = server.slug.clone();
    let headers = headers.to_vec();
    let resolve: HeaderSource = Box::new(move || {
        let lookup = SlugLookup {
            slug: &slug,
            shared: &ProcessLookup,
        };
        headers
            .iter()
            .map(|(name, value)| {
                let value = value.value.resolve(&lookup).map_err(|unset| unset.name)?;
                Ok((name.clone(), value))
            })
            .collect()
    });
    let client = mcp::Client::new(world.clone(), client.clone(), url.clone(), resolve, None);
    somebody_elses(server, client.hearing())
}

fn child(world: &World, server: &Server, argv: &[String], cwd: Option<&Path>) -> Upstream {
    let (own, argv, cwd) = (server.clone(), argv.to_vec(), cwd.map(Path::to_owned));
    let program: ProgramSource = Box::new(move || {
        Ok(Program {
            argv: argv.clone(),
            env: own.environment()?,
            cwd: cwd.clone(),
        })
    });
    let label = server.slug.to_string();
    somebody_elses(server, mcp::Client::child(world, label, program, None))
}

fn somebody_elses(server: &Server, client: mcp::Client) -> Upstream {
    Upstream::Remote(Box::new(Remote {
        slug: server.slug.to_string(),
        mirrored: Mirrored::new(client.announcer()),
        client: Arc::new(client),
        timeout: Duration::from_millis(server.timeout_ms),
    }))
}

fn upstream(
    world: &World,
    config: &Config,
    server: &Server,
    confirmer: &Confirmer,
    client: &http::Client,
) -> Upstream {
    let (bundle, path, mount) = match &server.kind {
        Kind::Command { tools } => {
            return here(server, tools, config, confirmer);
        }
        Kind::RemoteHttp { url, headers } => {
            return remote(world, server, url, headers, client);
        }
        Kind::Stdio { command, cwd } => return child(world, server, command, cwd.as_deref()),
        Kind::SupplementaryImage {
            bundle,
            path,
            mount,
            ..
        } => (bundle, path, mount),
    };
    let settings = config.bundle(bundle);
    let Some(base) = settings.and_then(|settings| settings.url.as_ref()) else {
        return match mount {
            Mount::Command { tools } => here(server, tools, config, confirmer),
            Mount::Gmail => Upstream::Absent("this build has no gmail mount"),
            Mount::Onepassword => Upstream::Absent("this build has no onepassword mount"),
        };
    };
    let key = settings
        .and_then(|settings| settings.key.as_ref())
        .and_then(|key| key.value.resolve(&ProcessLookup).ok());
    let Some(key) = key else {
        log::warn!("{}", RosterFault::BundleKey(bundle.clone()));
        return Upstream::Absent("the key of its bundle is not set");
    };
    let Ok(url) = base.join(path.trim_start_matches('/')) else {
        return Upstream::Absent("its bundle's url and path do not make a URL");
    };
    let bearer = Secret::new(format!("Bearer {}", key.expose()));
    let headers = vec![("authorization".to_owned(), bearer)];
    Upstream::Bundle {
        client: Box::new(mcp::Client::new(
            world.clone(),
            client.clone(),
            url,
            fixed(headers),
            Some(Version::V2026_07_28),
        )),
        timeout: Duration::from_millis(server.timeout_ms),
    }
}
