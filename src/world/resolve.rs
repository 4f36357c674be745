//! Names to addresses, on a bounded number of threads.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs};
use std::sync::Arc;

use smol::lock::Semaphore;

/// Lookups at a time. The system's resolver blocks a thread for each, and a dropped lookup keeps its thread to its
/// own end: without a bound, 600 callers naming a dead domain held 500 threads.
const LOOKUPS: usize = 4;

/// Addresses tried of one name: more would only spend the deadline.
const ADDRESSES: usize = 8;

/// Resolves names. Cloning shares the bound on lookups.
#[derive(Clone)]
pub(super) struct Resolver {
    lookups: Arc<Semaphore>,
}

impl Resolver {
    pub(super) fn new() -> Self {
        Self {
            lookups: Arc::new(Semaphore::new(LOOKUPS)),
        }
    }

    /// The addresses of `host`, which is an IP address in text form (IPv6 without brackets) or a name. Dropping the
    /// future frees the caller at once; the thread it used ends with the system's own timeout.
    pub(super) async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![address]);
        }
        // Said here and not asked of anyone: with no /etc/hosts `localhost` would go to DNS, and a name that passed
        // a check for loopback would connect elsewhere.
        if is_localhost(host) {
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        let permit = self.lookups.acquire_arc().await;
        let name = host.to_owned();
        smol::unblock(move || {
            let _permit = permit;
            let found = (name.as_str(), 0).to_socket_addrs()?;
            Ok(found.map(|address| address.ip()).take(ADDRESSES).collect())
        })
        .await
    }
}

/// Whether `host` is `localhost` or below it (RFC 6761 section 6.3), with or without the final dot.
fn is_localhost(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn localhost_is_loopback_without_asking() {
        let resolver = Resolver::new();
        for host in ["localhost", "LOCALHOST.", "desk.localhost"] {
            let found = smol::block_on(resolver.resolve(host)).unwrap();
            assert!(found.iter().all(IpAddr::is_loopback), "{host}: {found:?}");
        }
        assert_eq!(
            smol::block_on(resolver.resolve("127.0.0.1")).unwrap().len(),
            1
        );
        assert!(!is_localhost("localhost.example.net"));
    }
}
