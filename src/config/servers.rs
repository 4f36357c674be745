//! The servers: what each is, how its tools are reached, and what it may do.

use super::fault::Placed;
use super::names::Slug;
use super::template::Template;
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
    /// Variables that its mount or its commands see over the process's own.
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
}

/// How a server's tools are reached.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Programs that this process runs; they gate in the gateway.
    Command {
        /// The tools.
        tools: Vec<CommandTool>,
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

    /// The bundle that it is mounted in.
    pub fn bundle(&self) -> Option<&str> {
        match &self.kind {
            Kind::SupplementaryImage { bundle, .. } => Some(bundle),
            Kind::Command { .. } => None,
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
            Kind::SupplementaryImage { .. } => &[],
        }
    }

    /// Whether a holder of that role may use it. "`admin` holds every role".
    pub fn entitles(&self, role: &str) -> bool {
        role == "admin" || self.entitlements.iter().any(|entitled| entitled == role)
    }
}

/// `timeoutMs` less the margin.
pub(super) fn ttl_ms(timeout_ms: u64) -> u64 {
    timeout_ms - (timeout_ms / 4).min(MAX_MARGIN_MS)
}
