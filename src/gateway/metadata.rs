//! What a client without a token is told: where to get one (RFC 9728, "OAuth 2.0 Protected Resource Metadata").

use crate::http::RequestHead;
use crate::json::quote;

/// The well-known path, which a resource's own path follows (RFC 9728 section 3.1), and its form at the root.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The metadata of one endpoint.
pub(super) struct Metadata {
    servers: Vec<String>,
    /// The path of the endpoint.
    path: &'static str,
    /// Whether this process speaks TLS itself.
    secure: bool,
}

impl Metadata {
    /// `None` where no authorization server is configured: then there is nothing to tell.
    pub(super) fn new(servers: &[String], path: &'static str, secure: bool) -> Option<Self> {
        (!servers.is_empty()).then(|| Self {
            servers: servers.to_vec(),
            path,
            secure,
        })
    }

    /// The document, if that is what the path asks for.
    pub(super) fn document(&self, head: &RequestHead) -> Option<String> {
        let rest = head.path().strip_prefix(WELL_KNOWN)?;
        if !rest.is_empty() && rest != self.path {
            return None;
        }
        let servers: Vec<String> = self.servers.iter().map(|server| quote(server)).collect();
        Some(format!(
            r#"{{"resource":{},"authorization_servers":[{}],"bearer_methods_supported":["header"],"resource_name":"countersign"}}"#,
            quote(&format!("{}{}", self.origin(head), self.path)),
            servers.join(","),
        ))
    }

    /// The challenge of a 401. "MUST implement RFC 9728 metadata … announce by `WWW-Authenticate: Bearer
    /// resource_metadata=…`".
    pub(super) fn challenge(&self, head: &RequestHead) -> String {
        let origin = self.origin(head);
        format!(
            r#"Bearer resource_metadata="{origin}{WELL_KNOWN}{}""#,
            self.path
        )
    }

    /// How the client reaches this endpoint, by the host that it named, which was held to the configured ones. Behind
    /// somebody else's TLS the scheme cannot be seen: anything but this machine is https.
    fn origin(&self, head: &RequestHead) -> String {
        let plain = !self.secure && crate::http::Guard::is_loopback_host(&head.host);
        let scheme = if plain { "http" } else { "https" };
        format!("{scheme}://{}", head.host.to_ascii_lowercase())
    }
}
