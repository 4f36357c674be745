//! The gateway's section: where it listens, whom it takes, where it lets people be asked.

use std::collections::HashSet;

use url::{Origin, Url};

use super::fault::{Fault, Placed, Report, named};
use super::names::{NAME_GRAMMAR, SLUG_GRAMMAR, Slug, is_name};
use super::reader::Place;
use super::template::Template;
use super::values::{self, CertificateFiles, Listen};
use crate::approval::url::Allowlist;

/// The gateway.
#[derive(Clone, Debug)]
pub struct Gateway {
    /// Where it listens.
    pub listen: Vec<Listen>,
    /// Where it is administered and watched.
    pub admin_listen: Vec<Listen>,
    /// The certificate that it serves with; `None`: plain HTTP.
    pub tls: Option<CertificateFiles>,
    /// Host names that it takes besides the loopback ones, in lower case.
    pub allowed_hosts: Vec<String>,
    /// Origins that it takes besides the loopback ones, in normal form.
    pub allowed_origins: Vec<String>,
    /// Issuers of tokens, as they name themselves. Empty: clients are not told where to get one.
    pub authorization_servers: Vec<String>,
    /// Where people may be asked. Empty: every confirmed tool refuses.
    pub prefixes: Allowlist,
    /// Who may call. Empty: one principal `local` with every role, on loopback only.
    pub tokens: Vec<Token>,
}

/// Who may call.
#[derive(Clone, Debug)]
pub struct Token {
    /// Its name in logs, refusals and the audit.
    pub id: String,
    /// SHA-256 of the token.
    pub sha256: [u8; 32],
    /// What it may use.
    pub reach: Reach,
    /// When it ends, in milliseconds since 1970.
    pub expires_at_wall_ms: Option<u64>,
    /// Narrows [`Gateway::prefixes`]: a channel must lie under both.
    pub channels: Option<Allowlist>,
}

/// What a token may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// A flow-through grant: these servers, until then. It has nobody to ask.
    Grant {
        /// The slugs.
        servers: Vec<Slug>,
        /// When it ends, in milliseconds since 1970.
        expires_at_wall_ms: u64,
    },
    /// The servers whose entitlements name one of these roles; `admin` is every role.
    Roles(Vec<String>),
}

/// Where a bundle runs.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// Its name.
    pub name: String,
    /// Where the gateway reaches it; `None`: inside this process.
    pub url: Option<Url>,
    /// Where it listens when it runs as a process of its own.
    pub listen: Vec<Listen>,
    /// The certificate that it then serves with; `None`: plain HTTP.
    pub tls: Option<CertificateFiles>,
    /// The secret by which it knows its gateway. There is one wherever there is a `url` or a `listen`.
    pub key: Option<Placed<Template>>,
}

impl Gateway {
    pub(super) fn read(section: &Place<'_>, report: &mut Report) -> Gateway {
        let elicitation = section.get("elicitation");
        let prefixes = elicitation.and_then(|place| place.get("allowedUrlPrefixes"));
        Gateway {
            listen: values::listen(section, "listen", report),
            admin_listen: values::listen(section, "adminListen", report),
            tls: values::certificate(section, report),
            allowed_hosts: allowed_hosts(section, report),
            allowed_origins: allowed_origins(section, report),
            authorization_servers: authorization_servers(section, report),
            prefixes: prefixes
                .map(|list| values::prefixes(&list, report))
                .unwrap_or_default(),
            tokens: tokens(section, report),
        }
    }

    /// What stops a start and only a start: anything but loopback needs at least one token.
    pub(super) fn start_faults(&self, file: &str) -> Vec<Fault> {
        if !self.tokens.is_empty() {
            return Vec::new();
        }
        let open = self
            .listen
            .iter()
            .chain(&self.admin_listen)
            .filter(|listen| !listen.address.ip().is_loopback());
        let fault = |listen: &Listen| Fault {
            file: file.to_owned(),
            at: listen.at.clone(),
            text: format!(
                "found {}, and no token in gateway.tokens, allowed: a loopback address, or at least one token",
                listen.address
            ),
        };
        open.map(fault).collect()
    }
}

fn allowed_hosts(section: &Place<'_>, report: &mut Report) -> Vec<String> {
    let items = section
        .get("allowedHosts")
        .map(|place| place.items())
        .unwrap_or_default();
    let mut hosts = Vec::new();
    for item in items {
        let Some(text) = item.text() else { continue };
        // Read as the authority of a URL, so that an IPv6 address and a port mean what they do there.
        let authority = !text.contains(['/', '@', '?', '#', '*']);
        let parsed = values::parse_url(&format!("http://{text}/")).filter(|_| authority);
        match parsed {
            Some(_) => hosts.push(text.to_ascii_lowercase()),
            None => {
                let text = format!("found {}, allowed: a host name, or HOST:PORT", named(text));
                item.fault(report, text);
            }
        }
    }
    hosts
}

/// Issuers are compared as text (RFC 8414 section 3.3), so they stay as they were written.
fn authorization_servers(section: &Place<'_>, report: &mut Report) -> Vec<String> {
    let list = section
        .get("oauth")
        .and_then(|oauth| oauth.get("authorizationServers"));
    let Some(list) = list else {
        return Vec::new();
    };
    if list.is_list() && list.items().is_empty() {
        list.fault(
            report,
            "found no authorization server, allowed: at least one",
        );
    }
    let mut servers = Vec::new();
    for item in list.items() {
        let Some(text) = item.text() else { continue };
        match values::parse_address(text).filter(values::is_private) {
            Some(_) => servers.push(text.to_owned()),
            None => item.fault(
                report,
                "found no issuer in normal form, allowed: https, or http to a loopback host, without query and fragment",
            ),
        }
    }
    servers
}

fn allowed_origins(section: &Place<'_>, report: &mut Report) -> Vec<String> {
    let items = section
        .get("allowedOrigins")
        .map(|place| place.items())
        .unwrap_or_default();
    let mut origins = Vec::new();
    for item in items {
        let Some(text) = item.text() else { continue };
        // Browsers send origins in this form, and they are compared as text.
        if values::parse_url(text)
            .and_then(|url| origin_of(&url))
            .as_deref()
            == Some(text)
        {
            origins.push(text.to_owned());
        } else {
            let allowed = "SCHEME://HOST or SCHEME://HOST:PORT";
            item.fault(
                report,
                format!("found no origin in normal form, allowed: {allowed}"),
            );
        }
    }
    origins
}

/// The origin as a browser sends it. Pages of other schemes than the web's (extensions) have their host too.
fn origin_of(url: &Url) -> Option<String> {
    match url.origin() {
        origin @ Origin::Tuple(..) => Some(origin.ascii_serialization()),
        Origin::Opaque(_) => {
            let port = url
                .port()
                .map(|port| format!(":{port}"))
                .unwrap_or_default();
            let host = url.host_str().filter(|host| !host.is_empty())?;
            Some(format!("{}://{host}{port}", url.scheme()))
        }
    }
}

fn tokens(section: &Place<'_>, report: &mut Report) -> Vec<Token> {
    let items = section
        .get("tokens")
        .map(|place| place.items())
        .unwrap_or_default();
    let mut tokens: Vec<Token> = Vec::new();
    for item in &items {
        let Some(token) = token(item, report) else {
            continue;
        };
        if tokens.iter().any(|other| other.id == token.id) {
            let place = item.get("id");
            let text = format!("found {} a second time, allowed: once", named(&token.id));
            place.as_ref().unwrap_or(item).fault(report, text);
        }
        if let Some(other) = tokens.iter().find(|other| other.sha256 == token.sha256) {
            let place = item.get("sha256");
            let text = format!(
                "found the token of {}, allowed: one of its own",
                named(&other.id)
            );
            place.as_ref().unwrap_or(item).fault(report, text);
        }
        tokens.push(token);
    }
    tokens
}

/// Reads one token. Everything is looked at before anything is given up.
fn token(item: &Place<'_>, report: &mut Report) -> Option<Token> {
    let id = item
        .get("id")
        .and_then(|place| values::name(&place, report));
    let sha256 = values::digest(item, "sha256", report);
    let expires_at_wall_ms = values::time(item, "expiresAt", report);
    let channels = item
        .get("channels")
        .map(|list| values::prefixes(&list, report));
    let reach = match (item.has("roles"), item.get("grant")) {
        (true, None) => Some(Reach::Roles(values::names(item, "roles", report))),
        (false, Some(grant)) => read_grant(&grant, report),
        (true, Some(grant)) => {
            grant.fault(report, "found a grant beside roles, allowed: one of them");
            None
        }
        (false, None) => {
            item.fault(
                report,
                "found neither roles nor grant, allowed: one of them",
            );
            None
        }
    };
    Some(Token {
        id: id?,
        sha256: sha256?,
        reach: reach?,
        expires_at_wall_ms,
        channels,
    })
}

fn read_grant(grant: &Place<'_>, report: &mut Report) -> Option<Reach> {
    let items = grant
        .get("servers")
        .map(|place| place.items())
        .unwrap_or_default();
    let mut servers = Vec::new();
    for item in items {
        let Some(text) = item.text() else { continue };
        match Slug::parse(text) {
            Some(slug) => servers.push(slug),
            None => item.fault(
                report,
                format!("found {}, allowed: {SLUG_GRAMMAR}", named(text)),
            ),
        }
    }
    let expires_at_wall_ms = values::time(grant, "expiresAt", report)?;
    Some(Reach::Grant {
        servers,
        expires_at_wall_ms,
    })
}

/// Checks that each slug of each grant is a server's. It needs the servers, which are read later.
pub(super) fn check_grants(section: &Place<'_>, slugs: &HashSet<&str>, report: &mut Report) {
    let items = section
        .get("tokens")
        .map(|place| place.items())
        .unwrap_or_default();
    let grants = items
        .iter()
        .filter_map(|item| item.get("grant")?.get("servers"));
    for item in grants.flat_map(|list| list.items()) {
        let Some(text) = item.text().filter(|text| Slug::parse(text).is_some()) else {
            continue;
        };
        if !slugs.contains(text) {
            item.fault(
                report,
                format!("found {}, allowed: a slug of servers", named(text)),
            );
        }
    }
}

impl Bundle {
    pub(super) fn read_all(root: &Place<'_>, report: &mut Report) -> Vec<Bundle> {
        let entries = root
            .get("bundles")
            .map(|place| place.by_name())
            .unwrap_or_default();
        let mut bundles = Vec::new();
        for (key, place) in entries {
            if !is_name(key.name) {
                let text = format!("found a bundle of that name, allowed: {NAME_GRAMMAR}");
                report.fault(&key.at, text);
            }
            bundles.push(Bundle::read(key.name, &place, report));
        }
        bundles
    }

    fn read(name: &str, section: &Place<'_>, report: &mut Report) -> Bundle {
        let bundle = Bundle {
            name: name.to_owned(),
            url: section
                .get("url")
                .and_then(|place| bundle_url(&place, report)),
            listen: values::listen(section, "listen", report),
            tls: values::certificate(section, report),
            key: section
                .get("key")
                .and_then(|place| values::template(&place, report)),
        };
        // The interface: "Between processes an entry without the right key is a refusal, on loopback too."
        if !section.has("key") && (section.has("url") || section.has("listen")) {
            section.fault(
                report,
                "found a bundle between processes without a key, allowed: with one",
            );
        }
        bundle
    }
}

/// Reads where a bundle is reached. The key goes there as Bearer: "sent over https or loopback only".
fn bundle_url(place: &Place<'_>, report: &mut Report) -> Option<Url> {
    let text = place.text()?;
    let url = values::parse_address(text).filter(values::is_private);
    if url.is_none() {
        let allowed =
            "https, or http to a loopback host, in normal form, without user, query and fragment";
        place.fault(report, format!("found another address, allowed: {allowed}"));
    }
    url
}
