//! Which Host and Origin a server answers to: a page on some other site must not reach it through a browser.

use std::net::IpAddr;

use super::head::RequestHead;

/// Hosts and origins besides loopback ones.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Names, with or without a port, lower case.
    pub hosts: Vec<String>,
    /// Origins such as `https://desk.example`, lower case.
    pub origins: Vec<String>,
}

impl Guard {
    /// Whether the request names a host of ours, and comes from no page of a stranger's.
    #[must_use]
    pub fn admits(&self, head: &RequestHead) -> bool {
        let host = head.host.to_ascii_lowercase();
        let host_is_ours = is_loopback(without_port(&host))
            || self
                .hosts
                .iter()
                .any(|known| *known == host || known == without_port(&host));
        host_is_ours && self.admits_origin(head)
    }

    /// Whether a `Host`, with or without a port, names this machine to itself.
    #[must_use]
    pub fn is_loopback_host(host: &str) -> bool {
        is_loopback(without_port(&host.to_ascii_lowercase()))
    }

    /// Whether every `Origin` is one of ours; a request of a program has none.
    #[must_use]
    pub fn admits_origin(&self, head: &RequestHead) -> bool {
        head.headers.all("origin").all(|origin| {
            let Ok(origin) = std::str::from_utf8(origin) else {
                return false;
            };
            let origin = origin.to_ascii_lowercase();
            let local = origin
                .strip_prefix("http://")
                .or_else(|| origin.strip_prefix("https://"))
                .is_some_and(|host| is_loopback(without_port(host)));
            local || self.origins.contains(&origin)
        })
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') =>
        {
            name
        }
        _ => host,
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    bare == "localhost"
        || bare
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_loopback_and_nothing_else_is() {
        for host in ["localhost", "127.0.0.1", "[::1]", "127.9.9.9"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "localhost.example",
            "127.0.0.1.example",
            "10.0.0.1",
            "[::2]",
            "",
            "evil",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
        assert_eq!(without_port("[::1]:80"), "[::1]");
        assert_eq!(without_port("[::1]"), "[::1]");
        assert_eq!(without_port("localhost:8600"), "localhost");
    }
}
