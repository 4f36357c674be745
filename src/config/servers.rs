//! The servers: what each is, how its tools are reached, and what it may do.

use std::fmt;
use std::path::PathBuf;

use url::Url;

use super::fault::Placed;
use super::names::Slug;
use super::sameness::Fingerprint;
use super::template::{ProcessLookup, SlugLookup, Template};
use super::tools::CommandTool;

/// Longest part of `timeoutMs` that is kept back for everything but the person. The spec: "the slug's
/// timeoutMs less a margin of a quarter of it, at most 15 seconds".
const MAX_MARGIN_MS: u64 = 15_000;

/// A server.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its name.
    pub slug: Slug,
    /// How its tools are reached.
    pub kind: Kind,
    /// Roles that may use it, besides `admin`.
    pub entitlements: Vec<String>,
    /// Variables that its mount, its commands or its stdio server see over the process's own.
    pub env: Vec<(String, Placed<Template>)>,
    /// Bounds asking, and for a supplementary image the whole hop.
    pub timeout_ms: u64,
    /// Whether the caller's channel is forwarded.
    pub confirmations: bool,
    /// Whether the question is waived.
    pub skip_confirmations: bool,
    /// Headers that go with each question.
    pub confirmation_headers: Vec<(String, Placed<Template>)>,
    /// References that may be unset without a warning.
    pub may_be_unseeded: Vec<String>,
    /// Whose yes counts.
    pub ask: Ask,
    /// Whether the gateway is not ready while it is down.
    pub required: bool,
    /// What the file says of it.
    pub fingerprint: Fingerprint,
}

/// How a server's tools are reached.
#[derive(Clone)]
pub enum Kind {
    /// Programs that this process runs; they gate in the gateway.
    Command {
        /// The tools.
        tools: Vec<CommandTool>,
    },
    /// An MCP server somewhere else, over HTTP.
    RemoteHttp {
        /// Where it is: https, or http to a loopback host. It may have a query, and no user or fragment.
        url: Url,
        /// Headers that go with each request to it. No two names differ only in case.
        headers: Vec<(String, Placed<Template>)>,
    },
    /// An MCP server that this process starts and speaks to over its standard input and output.
    Stdio {
        /// The program and its arguments; never empty.
        command: Vec<String>,
        /// The directory that it starts in, absolute; `None`: this process's own.
        cwd: Option<PathBuf>,
    },
    /// A mount in a bundle; it gates in the bundle.
    SupplementaryImage {
        /// The container image of its bundle, for `render`.
        image: Option<String>,
        /// The bundle's name.
        bundle: String,
        /// Where in the bundle.
        path: String,
        /// What is mounted.
        mount: Mount,
    },
}

/// What is mounted in a bundle.
#[derive(Clone, Debug)]
pub enum Mount {
    /// Programs that the bundle runs.
    Command {
        /// The tools.
        tools: Vec<CommandTool>,
    },
    /// A mailbox.
    Gmail,
    /// A 1Password account.
    Onepassword,
}

/// Whose yes counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A person's, over the caller's channel.
    Channel,
    /// A person's, at the desk.
    Desk,
    /// The client's word.
    Mrtr,
}

impl Server {
    /// How long a person has to answer: the deadline that goes with a forwarded channel.
    pub fn ttl_ms(&self) -> u64 {
        ttl_ms(self.timeout_ms)
    }

    /// What its commands or its process see: "PATH, HOME, LANG" and its own `env`, resolved now.
    ///
    /// # Errors
    /// The name of what is not set.
    pub fn environment(&self) -> Result<Vec<(String, String)>, String> {
        let lookup = SlugLookup {
            slug: &self.slug,
            shared: &ProcessLookup,
        };
        let mut env: Vec<_> = ["PATH", "HOME", "LANG"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)))
            .collect();
        for (name, value) in &self.env {
            let value = value.value.resolve(&lookup).map_err(|unset| unset.name)?;
            env.retain(|(known, _)| known != name);
            env.push((name.clone(), value.expose().to_owned()));
        }
        Ok(env)
    }

    /// The bundle that it is mounted in.
    pub fn bundle(&self) -> Option<&str> {
        match &self.kind {
            Kind::SupplementaryImage { bundle, .. } => Some(bundle),
            Kind::Command { .. } | Kind::RemoteHttp { .. } | Kind::Stdio { .. } => None,
        }
    }

    /// Its command tools, whichever way they are reached.
    pub fn tools(&self) -> &[CommandTool] {
        match &self.kind {
            Kind::Command { tools } => tools,
            Kind::SupplementaryImage {
                mount: Mount::Command { tools },
                ..
            } => tools,
            Kind::RemoteHttp { .. } | Kind::Stdio { .. } | Kind::SupplementaryImage { .. } => &[],
        }
    }

    /// Every value of it that may hold references.
    pub(super) fn templates(&self) -> impl Iterator<Item = &Placed<Template>> {
        let headers: &[_] = match &self.kind {
            Kind::RemoteHttp { headers, .. } => headers,
            Kind::Command { .. } | Kind::Stdio { .. } | Kind::SupplementaryImage { .. } => &[],
        };
        let lists = [&self.env, &self.confirmation_headers, headers];
        lists.into_iter().flatten().map(|(_, value)| value)
    }

    /// Whether a holder of that role may use it. "`admin` holds every role".
    pub fn entitles(&self, role: &str) -> bool {
        role == "admin" || self.entitlements.iter().any(|entitled| entitled == role)
    }
}

/// Shows the origin of a remote server only: its path and its query may be a credential.
impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Command { tools } => f.debug_struct("Command").field("tools", tools).finish(),
            Kind::RemoteHttp { url, headers } => f
                .debug_struct("RemoteHttp")
                .field("url", &url.origin().ascii_serialization())
                .field("headers", headers)
                .finish(),
            Kind::Stdio { command, cwd } => f
                .debug_struct("Stdio")
                .field("command", command)
                .field("cwd", cwd)
                .finish(),
            Kind::SupplementaryImage {
                image,
                bundle,
                path,
                mount,
            } => f
                .debug_struct("SupplementaryImage")
                .field("image", image)
                .field("bundle", bundle)
                .field("path", path)
                .field("mount", mount)
                .finish(),
        }
    }
}

/// `timeoutMs` less the margin.
pub(super) fn ttl_ms(timeout_ms: u64) -> u64 {
    timeout_ms - (timeout_ms / 4).min(MAX_MARGIN_MS)
}
