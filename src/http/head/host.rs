//! The grammar of a Host field.

use std::net::Ipv6Addr;

/// Most bytes of a host name (RFC 1035 section 2.3.4, in its written form with a last dot).
const HOST_NAME_BYTES: usize = 254;

/// Whether `authority` is a host with an optional port: `uri-host [ ":" port ]` of RFC 9110 section 7.2, but
/// without what no host of ours has and what some reader takes for something else: percent signs, sub-delimiters,
/// user information, an empty host, and an empty port, port 0 or one with leading zeros.
pub(super) fn is_host(authority: &str) -> bool {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let Some((address, behind)) = rest.split_once(']') else {
                return false;
            };
            if address.parse::<Ipv6Addr>().is_err() {
                return false;
            }
            ("address", behind)
        }
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let named = (1..=HOST_NAME_BYTES).contains(&host.len())
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'));
    named && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

fn is_port(digits: &str) -> bool {
    digits.starts_with(|first: char| matches!(first, '1'..='9'))
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && digits.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let good = [
            "h",
            "h:1",
            "h:65535",
            "a.example",
            "a.example.",
            "A-b_c.example:8080",
            "127.0.0.1",
            "127.0.0.1:80",
            "[::1]",
            "[::1]:8080",
            "[2001:db8::1]",
            "[::ffff:127.0.0.1]",
        ];
        for host in good {
            assert!(is_host(host), "{host}");
        }
        let bad = [
            "",
            ":",
            ":80",
            "h:",
            "h:0",
            "h:00080",
            "h:080",
            "h:65536",
            "h:+80",
            "h:-1",
            "h: 80",
            "h:80:80",
            "h:8a",
            "h/",
            "h/admin?x=",
            "h?x",
            "h#x",
            "u@h",
            "u:p@h",
            "a b",
            "h,h",
            "h\\",
            "h%00",
            "h%2f",
            "(h)",
            "\u{e9}",
            "[::1",
            "[::1]x",
            "[::1]:",
            "[::1]:0",
            "::1",
            "[]",
            "[fe80::1%25eth0]",
            "[127.0.0.1]",
            "[v1.x]",
            "h]",
        ];
        for host in bad {
            assert!(!is_host(host), "{host}");
        }
        assert!(is_host(&"h".repeat(HOST_NAME_BYTES)));
        assert!(!is_host(&"h".repeat(HOST_NAME_BYTES + 1)));
    }
}
