//! A bundle in a process of its own: its mounts as MCP endpoints that only the gateway may call.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use super::command::CommandMount;
use super::confirm::Confirmer;
use super::mount::MountCall;
use crate::approval::{Allowlist, Forwarded, KEY};
use crate::config::{Config, Kind, Mount, ProcessLookup};
use crate::gate::{Policy, PolicyChanged};
use crate::http::RequestHead;
use crate::json::quote;
use crate::mcp::{
    Announced, Announcer, CallContext, Changes, HttpRefusal, Offer, Request, RpcError, RpcResult,
    Service,
};
use crate::secret::{Secret, same, sha256};

/// The mounts of one bundle.
pub struct Bundle {
    key: Secret,
    /// The bundle holds what it is told to the same prefixes as the gateway.
    allowlist: Allowlist,
    mounts: Vec<Mounted>,
}

struct Mounted {
    path: String,
    slug: String,
    mount: Option<CommandMount>,
}

/// Why a bundle cannot be served. The configuration's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BundleFault {
    /// Its key is missing or not set: nobody could prove to be its gateway.
    Key(String),
    /// No server is mounted in it.
    Empty(String),
    /// Two servers on one path.
    SharedPath(String),
}

impl fmt::Display for BundleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(name) => write!(
                f,
                "bundles.{name}.key is missing or not set; a bundle in a process of its own knows its gateway by it"
            ),
            Self::Empty(name) => write!(
                f,
                "no server of kind supplementary-image names the bundle {name}"
            ),
            Self::SharedPath(path) => write!(f, "two servers are mounted on the path {path}"),
        }
    }
}

impl std::error::Error for BundleFault {}

impl Bundle {
    /// The bundle `name` of `config`.
    ///
    /// # Errors
    /// [`BundleFault`].
    pub fn new(config: &Config, name: &str, confirmer: &Confirmer) -> Result<Self, BundleFault> {
        let key = config
            .bundle(name)
            .and_then(|bundle| bundle.key.as_ref())
            .and_then(|key| key.value.resolve(&ProcessLookup).ok())
            .filter(|key| !key.is_empty())
            .ok_or_else(|| BundleFault::Key(name.to_owned()))?;
        let mut mounts: Vec<Mounted> = Vec::new();
        for server in &config.servers {
            let Kind::SupplementaryImage {
                bundle,
                path,
                mount,
                ..
            } = &server.kind
            else {
                continue;
            };
            if bundle != name {
                continue;
            }
            if mounts.iter().any(|mounted| mounted.path == *path) {
                return Err(BundleFault::SharedPath(path.clone()));
            }
            let mount = match mount {
                Mount::Command { tools } => {
                    Some(CommandMount::new(server, tools, config, confirmer.clone()))
                }
                Mount::Gmail | Mount::Onepassword => None,
            };
            mounts.push(Mounted {
                path: path.clone(),
                slug: server.slug.to_string(),
                mount,
            });
        }
        if mounts.is_empty() {
            return Err(BundleFault::Empty(name.to_owned()));
        }
        Ok(Self {
            key,
            allowlist: config.gateway.prefixes.clone(),
            mounts,
        })
    }

    fn mount(&self, index: usize) -> Result<&CommandMount, RpcError> {
        let absent = |slug: &str| {
            RpcError::new(
                -32603,
                format!("{slug}: this build has no such mount; nothing ran"),
            )
        };
        let mounted = self.mounts.get(index).ok_or_else(|| absent("?"))?;
        mounted.mount.as_ref().ok_or_else(|| absent(&mounted.slug))
    }
}

/// In a process of its own a bundle's policy is its configuration, which does not change while it runs.
struct Unchanging;

impl Policy for Unchanging {
    fn still_allows(&self) -> Result<(), PolicyChanged> {
        Ok(())
    }
}

impl Service for Bundle {
    /// Which mount.
    type Principal = usize;

    fn serves(&self, path: &str) -> bool {
        self.mounts.iter().any(|mounted| mounted.path == path)
    }

    /// "Between processes an entry without the right key is a refusal, on loopback too" (interface).
    fn admit(&self, head: &RequestHead, _peer: SocketAddr) -> Result<usize, HttpRefusal> {
        let refusal = || HttpRefusal {
            status: 401,
            headers: vec![("www-authenticate", "Bearer".to_owned())],
            reason: "only this bundle's gateway may call it",
        };
        let credentials = head
            .headers
            .only("authorization")
            .ok()
            .flatten()
            .ok_or_else(refusal)?;
        let key = credentials.strip_prefix("Bearer ").ok_or_else(refusal)?;
        // Digests, so that the comparison says nothing of the key's length either.
        if !same(
            &sha256(key.as_bytes()),
            &sha256(self.key.expose().as_bytes()),
        ) {
            return Err(refusal());
        }
        self.mounts
            .iter()
            .position(|mounted| mounted.path == head.path())
            .ok_or_else(refusal)
    }

    fn identity<'p>(&self, _mount: &'p usize) -> &'p str {
        "gateway"
    }

    async fn offer(&self, _mount: &usize) -> Offer {
        Offer {
            tools: Some(Announced(false)),
            instructions: "A bundle of countersign, for its gateway only.".to_owned(),
            ..Offer::default()
        }
    }

    fn asks_first(&self, mount: &usize, tool: &str) -> bool {
        let mount = self.mount(*mount);
        mount.is_ok_and(|mount| mount.asks_first(tool))
    }

    async fn request(
        &self,
        mount: &usize,
        request: &Request<'_>,
        context: &CallContext,
    ) -> Result<RpcResult, RpcError> {
        match &*request.method {
            "tools/list" => {
                let tools = self.mount(*mount)?.tools();
                let tools: Vec<&str> = tools.iter().map(|tool| tool.get()).collect();
                let mut result = RpcResult::default();
                result.set("tools", format!("[{}]", tools.join(",")));
                Ok(result)
            }
            "tools/call" => self.call(*mount, request, context).await,
            method => {
                let shown: String = method.chars().take(64).collect();
                Err(RpcError::new(
                    -32601,
                    format!("there is no method {}", quote(&shown)),
                ))
            }
        }
    }

    /// A bundle's tools do not change while it runs.
    fn listen(&self, _mount: &usize) -> Changes {
        Announcer::default().listen()
    }
}

impl Bundle {
    async fn call(
        &self,
        mount: usize,
        request: &Request<'_>,
        context: &CallContext,
    ) -> Result<RpcResult, RpcError> {
        let slug = self
            .mounts
            .get(mount)
            .map(|mounted| mounted.slug.clone())
            .unwrap_or_default();
        // The gateway never forwards a caller's own `_meta`, so this key is the gateway's word.
        let forwarded = request.meta(KEY).map(|value| {
            let read = Forwarded::parse(value, &self.allowlist);
            read.unwrap_or_else(|fault| Forwarded::Refused {
                reason: fault.to_string(),
                slug,
            })
        });
        let call = MountCall {
            tool: &request.text("name")?,
            arguments: request.arguments()?,
            principal: "gateway",
            forwarded,
            policy: Arc::new(Unchanging),
        };
        self.mount(mount)?.call(call, context).await
    }
}
