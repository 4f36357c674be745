//! The header `X-Elicitation-Url`: whom a call may have asked, read once, held to the allowlist, never logged.

use std::time::Duration;

use super::principal::Principal;
use crate::approval::{Allowlist, ApprovalUrl, Channel, Forwarded, ttl_of};
use crate::config::{ProcessLookup, Server, SlugLookup};
use crate::http::RequestHead;

/// The header's name.
const HEADER: &str = "x-elicitation-url";

/// The shortest window that the protocol can name.
const SHORTEST_TTL: Duration = Duration::from_millis(1);

/// What one request's header came to. The raw text is gone.
#[derive(Clone, Debug)]
pub enum ChannelHeader {
    /// The request had none.
    Absent,
    /// Somebody may be asked.
    Admitted(ApprovalUrl),
    /// "A URL that fails is not dropped silently: it reaches the bundle as a refusal carrying the reason" (spec). The
    /// rule and at most the origin.
    Refused(String),
}

impl ChannelHeader {
    /// Reads the header. "A value that is not exactly one URL is refused; that includes a repeated header".
    #[must_use]
    pub fn read(head: &RequestHead, allowlist: &Allowlist) -> Self {
        let mut values = head.headers.all(HEADER);
        let value = match (values.next(), values.next()) {
            (None, _) => return Self::Absent,
            (Some(value), None) => value,
            (Some(_), Some(_)) => {
                return Self::Refused("X-Elicitation-Url was sent more than once".to_owned());
            }
        };
        match allowlist.admit(value) {
            Ok(url) => Self::Admitted(url),
            Err(refusal) => Self::Refused(format!("X-Elicitation-Url: {refusal}")),
        }
    }

    /// What the tool of `server` is told about asking on behalf of `principal`; `None`: nothing at all.
    ///
    /// Only a server with `confirmations: true` gets a channel: "Most of those mounts are third-party code, and the
    /// URL is a credential". The window ends with the caller's token at the latest: a bundle in another process knows
    /// nothing of tokens, and would take a yes to a call of a token that has ended meanwhile.
    #[must_use]
    pub fn forward(
        &self,
        server: &Server,
        principal: &Principal,
        now_wall_ms: u64,
    ) -> Option<Forwarded> {
        let slug = server.slug.to_string();
        if server.skip_confirmations {
            return Some(Forwarded::Skip { slug });
        }
        if !server.confirmations {
            return None;
        }
        let refused = |reason: String| {
            Some(Forwarded::Refused {
                reason,
                slug: slug.clone(),
            })
        };
        if principal.is_grant() {
            return refused(
                "the call came through a flow-through grant, which has no session to ask"
                    .to_owned(),
            );
        }
        let url = match self {
            Self::Absent => return None,
            Self::Refused(reason) => return refused(reason.clone()),
            Self::Admitted(url) => url.clone(),
        };
        if principal
            .channels
            .as_ref()
            .is_some_and(|channels| !channels.lists(&url))
        {
            return refused(format!(
                "X-Elicitation-Url: {} is not a channel of this token",
                url.origin()
            ));
        }
        let lookup = SlugLookup {
            slug: &server.slug,
            shared: &ProcessLookup,
        };
        let mut headers = Vec::new();
        for (name, value) in &server.confirmation_headers {
            // "resolved by core ... on every call".
            match value.value.resolve(&lookup) {
                Ok(value) => headers.push((name.clone(), value)),
                Err(unseeded) => {
                    return refused(format!(
                        "{} is not set, without which the approval endpoint's edge would refuse the question",
                        unseeded.name
                    ));
                }
            }
        }
        let mut ttl = ttl_of(Duration::from_millis(server.timeout_ms));
        if let Some(end) = principal.expires_at_wall_ms {
            ttl = ttl.min(Duration::from_millis(end.saturating_sub(now_wall_ms)));
        }
        if ttl < SHORTEST_TTL {
            return refused("the caller's token ends before a person could answer".to_owned());
        }
        Some(Forwarded::Channel(Channel {
            url,
            ttl,
            slug,
            headers,
        }))
    }
}
