//! Which hosts and origins are the desk's own.
//!
//! A page of a stranger reaches a desk on loopback in two ways: by a name of its own that resolves to 127.0.0.1 (DNS
//! rebinding), which the Host check refuses; and by posting to our address from its page, which the Origin check
//! refuses.

use std::net::{Ipv4Addr, Ipv6Addr};

use url::Url;

use super::DeskFault;

/// The desk's addresses.
#[derive(Debug)]
pub(super) struct Site {
    /// The origin of the public URL: scheme, host, and the port unless it is the scheme's own.
    origin: String,
    /// Whether it is reached by https.
    secure: bool,
    /// The host of the public URL, without a port.
    public_host: String,
    /// Further ones from the configuration: a host, and the port if one is required.
    allowed: Vec<(String, Option<String>)>,
}

/// What is known of the host that a request names.
enum Named {
    Public,
    /// A loopback name or address, or one of the configured hosts.
    Other,
}

impl Site {
    /// The desk at `public_url`, which also answers to `allowed_hosts` and to every loopback name.
    ///
    /// # Errors
    /// [`DeskFault`] for a URL that is more than an origin, and for a host that is none.
    pub(super) fn new(public_url: &Url, allowed_hosts: &[String]) -> Result<Self, DeskFault> {
        let plain = matches!(public_url.scheme(), "http" | "https")
            && public_url.username().is_empty()
            && public_url.password().is_none()
            && public_url.path() == "/"
            && public_url.query().is_none()
            && public_url.fragment().is_none();
        let (true, Some(host)) = (plain, public_url.host_str()) else {
            return Err(DeskFault::PublicUrl);
        };
        let allowed = allowed_hosts.iter().enumerate();
        Ok(Self {
            origin: public_url.origin().ascii_serialization(),
            secure: public_url.scheme() == "https",
            public_host: host.to_owned(),
            allowed: allowed
                .map(|(position, text)| {
                    allowed_host(text).ok_or(DeskFault::AllowedHost { position })
                })
                .collect::<Result<_, _>>()?,
        })
    }

    /// The origin of the public URL.
    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    /// Whether browsers reach it by https.
    pub(super) fn is_secure(&self) -> bool {
        self.secure
    }

    /// Whether people's keys would cross a network in the clear.
    pub(super) fn is_exposed(&self) -> bool {
        !self.secure && !is_loopback(&self.public_host)
    }

    /// Whether a request that names this host (lower case, with its port) is meant for the desk.
    pub(super) fn is_ours(&self, host: &str) -> bool {
        self.named(host).is_some()
    }

    /// Whether a request that changes something may come from `origin`. A program sends none; every browser sends one
    /// with a POST.
    pub(super) fn may_write(&self, host: &str, origin: Option<&str>) -> bool {
        let Some(origin) = origin else {
            return true;
        };
        if origin == self.origin {
            return true;
        }
        match self.named(host) {
            // Of https and http under one name only the configured one is ours.
            None | Some(Named::Public) => false,
            // The very host and port that was asked for: another program on this machine has another port.
            Some(Named::Other) => ["http://", "https://"]
                .iter()
                .any(|scheme| origin.strip_prefix(scheme) == Some(host)),
        }
    }

    fn named(&self, host: &str) -> Option<Named> {
        let (name, port) = split(host);
        if is_loopback(name) {
            return Some(Named::Other);
        }
        if name == self.public_host {
            return Some(Named::Public);
        }
        let allowed = |(allowed, wanted): &(String, Option<String>)| {
            allowed == name && (wanted.is_none() || wanted.as_deref() == port)
        };
        self.allowed.iter().any(allowed).then_some(Named::Other)
    }
}

/// Host and port of an authority that has the form of one.
fn split(authority: &str) -> (&str, Option<&str>) {
    let port_from = authority.rfind(']').unwrap_or(0);
    match authority.get(port_from..).and_then(|rest| rest.find(':')) {
        Some(colon) => {
            let (host, port) = authority.split_at(port_from + colon);
            (host, port.strip_prefix(':'))
        }
        None => (authority, None),
    }
}

/// A configured host, with its port if it has one, as Host fields have it: a name in ASCII, or an address. No pattern.
fn allowed_host(text: &str) -> Option<(String, Option<String>)> {
    let text = text.to_ascii_lowercase();
    let (host, port) = split(&text);
    let is_host = match host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
        }
    };
    // One text for one port: in a Host field neither `080` nor `+80` can stand.
    let is_port = port.is_none_or(|port| {
        port.parse::<u16>()
            .is_ok_and(|number| number != 0 && number.to_string() == port)
    });
    (is_host && is_port).then(|| (host.to_owned(), port.map(str::to_owned)))
}

/// Whether a host without its port is this machine and nothing else.
pub(crate) fn is_loopback(host: &str) -> bool {
    let address = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    match address {
        Some(address) => address
            .parse::<Ipv6Addr>()
            .is_ok_and(|address| address.is_loopback()),
        None => {
            host == "localhost"
                || host
                    .parse::<Ipv4Addr>()
                    .is_ok_and(|address| address.is_loopback())
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn site(url: &str, allowed: &[&str]) -> Result<Site, DeskFault> {
        let allowed: Vec<String> = allowed.iter().map(|&host| host.to_owned()).collect();
        Site::new(&Url::parse(url).unwrap(), &allowed)
    }

    #[test]
    fn hosts() {
        let site = site(
            "https://desk.example",
            &["Other.example", "port.example:8443", "[2001:db8::1]"],
        )
        .unwrap();
        for host in [
            "localhost",
            "localhost:8601",
            "localhost:1",
            "127.0.0.1:8601",
            "127.9.9.9",
            "[::1]:8601",
            "[::1]",
            "desk.example",
            "desk.example:443",
            "other.example",
            "other.example:99",
            "port.example:8443",
            "[2001:db8::1]:8601",
        ] {
            assert!(site.is_ours(host), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "localhost.",
            "127.0.0.1.evil.example",
            "0.0.0.0:8601",
            "[::]:8601",
            "[::ffff:10.0.0.1]",
            "10.0.0.1",
            "127.1",
            "2130706433",
            "desk.example.",
            "desk.example.evil.example",
            "notdesk.example",
            "port.example",
            "port.example:8444",
            "[2001:db8::2]",
        ] {
            assert!(!site.is_ours(host), "{host}");
        }
    }

    #[test]
    fn origins() {
        let site = site("https://desk.example", &["other.example"]).unwrap();
        for (host, origin, expected) in [
            ("localhost:8601", None, true),
            ("localhost:8601", Some("http://localhost:8601"), true),
            ("localhost:8601", Some("https://localhost:8601"), true),
            ("localhost:8601", Some("http://localhost:3000"), false),
            ("localhost:8601", Some("http://127.0.0.1:8601"), false),
            ("localhost:8601", Some("http://localhost"), false),
            ("localhost:8601", Some("null"), false),
            ("localhost:8601", Some(""), false),
            ("localhost:8601", Some("http://evil.example"), false),
            ("localhost:8601", Some("https://desk.example"), true),
            ("desk.example", Some("https://desk.example"), true),
            ("desk.example", Some("http://desk.example"), false),
            ("desk.example", Some("https://desk.example:444"), false),
            ("desk.example:444", Some("https://desk.example:444"), false),
            ("other.example:1", Some("http://other.example:1"), true),
            ("other.example:1", Some("ftp://other.example:1"), false),
            ("evil.example", Some("http://evil.example"), false),
        ] {
            assert_eq!(site.may_write(host, origin), expected, "{host} {origin:?}");
        }
    }

    #[test]
    fn a_public_url_is_an_origin() {
        for (url, origin, secure, exposed) in [
            (
                "http://localhost:8601",
                "http://localhost:8601",
                false,
                false,
            ),
            (
                "http://localhost:8601/",
                "http://localhost:8601",
                false,
                false,
            ),
            (
                "https://DESK.example:443",
                "https://desk.example",
                true,
                false,
            ),
            ("http://desk.example", "http://desk.example", false, true),
            ("http://[::1]:8601", "http://[::1]:8601", false, false),
        ] {
            let site = site(url, &[]).unwrap();
            assert_eq!(site.origin(), origin);
            assert_eq!(
                (site.is_secure(), site.is_exposed()),
                (secure, exposed),
                "{url}"
            );
        }
        for url in [
            "ftp://desk.example",
            "https://desk.example/path",
            "https://desk.example/?q",
            "https://desk.example/#f",
            "https://u@desk.example",
            "https://u:p@desk.example",
            "data:x",
        ] {
            assert!(matches!(site(url, &[]), Err(DeskFault::PublicUrl)), "{url}");
        }
    }

    #[test]
    fn an_allowed_host_is_a_host() {
        for bad in [
            "", " a", "a/b", "http://a", "a:", "a:0x1", "a:080", "a:99999", "u@a", "*", "*.a",
            "a b", "[::1",
        ] {
            let allowed = ["good.example", bad];
            assert!(
                matches!(
                    site("https://desk.example", &allowed),
                    Err(DeskFault::AllowedHost { position: 1 })
                ),
                "{bad:?}"
            );
        }
    }
}
