//! Who calls: bearer tokens, their roles, and what they may use.

use crate::approval::Allowlist;
use crate::config::{Reach, Server, Token};
use crate::http::RequestHead;
use crate::mcp::HttpRefusal;
use crate::secret::{same, sha256};

/// The role that holds every other.
const ADMIN: &str = "admin";

/// The longest token that is looked at, in bytes.
const MAX_TOKEN_BYTES: usize = 512;

/// Everyone who may call.
pub struct Callers {
    tokens: Vec<Token>,
}

/// One caller, for the length of one request.
#[derive(Clone, Debug)]
pub struct Principal {
    /// The token's id, or `local` where no tokens are configured.
    pub id: String,
    /// What it may use.
    pub reach: Reach,
    /// When the token ends, milliseconds since the Unix epoch.
    pub expires_at_wall_ms: Option<u64>,
    /// Narrows where this caller may have people asked.
    pub channels: Option<Allowlist>,
    /// SHA-256 of the token, by which it is found again; `None` for `local`.
    token: Option<[u8; 32]>,
}

impl Callers {
    /// The callers that the configuration names. None: one principal `local` with every role ("as soon as one exists,
    /// none is anonymous").
    #[must_use]
    pub const fn new(tokens: Vec<Token>) -> Self {
        Self { tokens }
    }

    /// Who sent this head.
    ///
    /// # Errors
    /// 401 for no token, several, or one that is not ours or has ended.
    pub fn identify(&self, head: &RequestHead, wall_ms: u64) -> Result<Principal, HttpRefusal> {
        if self.tokens.is_empty() {
            return Ok(Principal::local());
        }
        let refusal = HttpRefusal {
            status: 401,
            headers: vec![("www-authenticate", "Bearer".to_owned())],
            reason: "a bearer token of this gateway is needed",
        };
        let Ok(Some(credentials)) = head.headers.only("authorization") else {
            return Err(refusal);
        };
        // RFC 9110 section 11.1: the scheme is compared without regard to case.
        let token = match credentials.split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
                token.trim_matches(' ')
            }
            _ => return Err(refusal),
        };
        if token.is_empty() || token.len() > MAX_TOKEN_BYTES {
            return Err(refusal);
        }
        self.find(&sha256(token.as_bytes()))
            .filter(|principal| !principal.has_ended(wall_ms))
            .ok_or(refusal)
    }

    /// Who `principal` is by now: `None` for one whose token was withdrawn, or whose place there is none any more.
    #[must_use]
    pub fn again(&self, principal: &Principal) -> Option<Principal> {
        match &principal.token {
            None => self.tokens.is_empty().then(Principal::local),
            Some(digest) => self.find(digest).filter(|found| found.id == principal.id),
        }
    }

    fn find(&self, digest: &[u8; 32]) -> Option<Principal> {
        // Every token is compared, whichever matches: the time says nothing about which ids exist.
        let found = self.tokens.iter().fold(None, |found, token| {
            if same(&token.sha256, digest) {
                Some(token)
            } else {
                found
            }
        });
        found.map(|token| Principal {
            id: token.id.clone(),
            reach: token.reach.clone(),
            expires_at_wall_ms: ends_at(token),
            channels: token.channels.clone(),
            token: Some(token.sha256),
        })
    }
}

/// The earlier of the token's own end and its grant's.
fn ends_at(token: &Token) -> Option<u64> {
    let grant = match &token.reach {
        Reach::Grant {
            expires_at_wall_ms, ..
        } => Some(*expires_at_wall_ms),
        Reach::Roles(_) => None,
    };
    token.expires_at_wall_ms.into_iter().chain(grant).min()
}

impl Principal {
    /// Whoever calls where there are no tokens.
    pub(super) fn local() -> Self {
        Self {
            id: "local".to_owned(),
            reach: Reach::Roles(vec![ADMIN.to_owned()]),
            expires_at_wall_ms: None,
            channels: None,
            token: None,
        }
    }

    /// Whether the token's time is over.
    #[must_use]
    pub fn has_ended(&self, wall_ms: u64) -> bool {
        self.expires_at_wall_ms.is_some_and(|end| wall_ms >= end)
    }

    /// Whether this caller may use `server`. "No `entitlements`: admin only."
    #[must_use]
    pub fn may_use(&self, server: &Server) -> bool {
        match &self.reach {
            Reach::Grant { servers, .. } => servers.contains(&server.slug),
            Reach::Roles(roles) => roles
                .iter()
                .any(|role| role == ADMIN || server.entitlements.contains(role)),
        }
    }

    /// Whether this caller holds every role.
    #[must_use]
    pub fn is_admin(&self) -> bool {
        match &self.reach {
            Reach::Grant { .. } => false,
            Reach::Roles(roles) => roles.iter().any(|role| role == ADMIN),
        }
    }

    /// Whether this caller is a flow-through grant, which has no session to ask.
    #[must_use]
    pub const fn is_grant(&self) -> bool {
        matches!(self.reach, Reach::Grant { .. })
    }
}
