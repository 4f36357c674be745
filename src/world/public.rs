//! Which addresses are on the public internet: for URLs that others choose, which must not reach into the network that
//! this program runs in.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether `address` is one that anyone on the internet could reach. Everything else is refused: what the registries of
/// special addresses list (RFC 6890 and its successors), multicast, and IPv6 that wraps an IPv4 address, in which a
/// private one could hide.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    /// Network and length of its prefix.
    const SPECIAL: [([u8; 4], u32); 16] = [
        ([0, 0, 0, 0], 8),        // this network (RFC 791)
        ([10, 0, 0, 0], 8),       // private (RFC 1918)
        ([100, 64, 0, 0], 10),    // shared by carriers (RFC 6598)
        ([127, 0, 0, 0], 8),      // loopback (RFC 1122)
        ([169, 254, 0, 0], 16),   // link-local (RFC 3927), where clouds keep their metadata
        ([172, 16, 0, 0], 12),    // private
        ([192, 0, 0, 0], 24),     // protocol assignments (RFC 6890)
        ([192, 0, 2, 0], 24),     // documentation (RFC 5737)
        ([192, 88, 99, 0], 24),   // 6to4 relays (RFC 7526)
        ([192, 168, 0, 0], 16),   // private
        ([198, 18, 0, 0], 15),    // benchmarks (RFC 2544)
        ([198, 51, 100, 0], 24),  // documentation
        ([203, 0, 113, 0], 24),   // documentation
        ([224, 0, 0, 0], 4),      // multicast (RFC 5771)
        ([240, 0, 0, 0], 4),      // reserved (RFC 1112), broadcast
        ([168, 63, 129, 16], 32), // Azure's platform, a public number that only its own network routes
    ];
    let bits = u32::from(address);
    !SPECIAL.iter().any(|&(network, length)| {
        let mask = u32::MAX << (32 - length);
        bits & mask == u32::from_be_bytes(network) & mask
    })
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    // RFC 4291 section 2.4 with the registry of today: only 2000::/3 is given out. That leaves out ::1, ::,
    // fc00::/7, fe80::/10, ff00::/8, ::ffff:0:0/96 (mapped) and 64:ff9b::/96 (translated).
    let unicast = first & 0xe000 == 0x2000;
    let special = match first {
        // 2001::/23 is for protocols (RFC 2928), Teredo with an IPv4 address in it among them; 2001:db8::/32 is for
        // documentation (RFC 3849).
        0x2001 => second < 0x0200 || second == 0x0db8,
        // 6to4, with an IPv4 address in it (RFC 3056).
        0x2002 => true,
        // Documentation (RFC 9637).
        0x3fff => second < 0x1000,
        _ => false,
    };
    unicast && !special
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_internet_reaches_is_public() {
        let public = [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "168.63.129.15",
            "2606:4700::1111",
            "2001:200::1",
            "2001:db7::1",
            "2003::1",
            "3ffe::1",
            "3fff:1000::1",
        ];
        let private = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.0.0",
            "169.254.169.254",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.0",
            "192.168.255.255",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.255",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:1.1.1.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:0:1::1",
            "2001:1ff::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "3fff:fff::1",
            "4000::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ];
        for address in public {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
        for address in private {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }
}
