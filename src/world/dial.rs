//! Connecting to a name that may have several addresses.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::public::is_public;
use super::{ConnectFault, Stream, World};
use crate::time::Sleep;

/// How long one address is tried alone before the next is tried beside it (RFC 8305 section 5: "Connection Attempt
/// Delay", recommended 250 ms).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

type Attempt = Pin<Box<dyn Future<Output = Result<Stream, ConnectFault>> + Send>>;

impl World {
    /// Connects to `host`, a name or an IP address in text form (IPv6 without brackets). Its addresses are tried in
    /// turn, the next one when the last has failed or has taken 250 ms; the first that answers counts. The caller
    /// bounds the time. Dropping the future closes every half-made connection.
    ///
    /// # Errors
    /// [`ConnectFault`], when every address has failed.
    pub async fn connect(&self, host: &str, port: u16) -> Result<Stream, ConnectFault> {
        let addresses = self.net.resolve(host).await?;
        self.connect_to(addresses, port).await
    }

    /// [`World::connect`] for a host that someone else chose: only where every address of it is on the public internet.
    /// The addresses that are looked at are the ones that are connected to; the name is not asked again, since its owner
    /// could answer differently the second time.
    ///
    /// # Errors
    /// [`ConnectFault::NotPublic`] when one address is not, and nothing was connected to; otherwise as there.
    pub async fn connect_in_public(&self, host: &str, port: u16) -> Result<Stream, ConnectFault> {
        let addresses = self.net.resolve(host).await?;
        if !addresses.iter().copied().all(is_public) {
            return Err(ConnectFault::NotPublic);
        }
        self.connect_to(addresses, port).await
    }

    async fn connect_to(&self, addresses: Vec<IpAddr>, port: u16) -> Result<Stream, ConnectFault> {
        let addresses = by_turns(addresses);
        let mut race = Race {
            world: self.clone(),
            port,
            waiting: addresses.into(),
            running: Vec::new(),
            delay: None,
            fault: ConnectFault::Dns,
        };
        poll_fn(|cx| race.poll(cx)).await
    }
}

/// The attempts at one name.
struct Race {
    world: World,
    port: u16,
    /// Not yet tried.
    waiting: VecDeque<IpAddr>,
    running: Vec<Attempt>,
    /// Ends when the next address is due; `None` when it is due now.
    delay: Option<Sleep>,
    /// What is told when nothing is left.
    fault: ConnectFault,
}

impl Race {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Stream, ConnectFault>> {
        loop {
            if let Some(stream) = self.poll_running(cx) {
                return Poll::Ready(Ok(stream));
            }
            if self.waiting.is_empty() {
                return match self.running.is_empty() {
                    true => Poll::Ready(Err(self.fault)),
                    false => Poll::Pending,
                };
            }
            if let Some(delay) = &mut self.delay
                && Pin::new(delay).poll(cx).is_pending()
            {
                return Poll::Pending;
            }
            self.start_next();
        }
    }

    /// Polls what runs. A failure makes the next address due at once.
    fn poll_running(&mut self, cx: &mut Context<'_>) -> Option<Stream> {
        let mut connected = None;
        self.running
            .retain_mut(|attempt| match attempt.as_mut().poll(cx) {
                Poll::Pending => true,
                Poll::Ready(Ok(stream)) => {
                    connected.get_or_insert(stream);
                    false
                }
                Poll::Ready(Err(fault)) => {
                    // That someone is there and refuses says more than that another address leads nowhere.
                    if self.fault != ConnectFault::Refused {
                        self.fault = fault;
                    }
                    self.delay = None;
                    false
                }
            });
        connected
    }

    fn start_next(&mut self) {
        let Some(address) = self.waiting.pop_front() else {
            return;
        };
        let (net, address) = (self.world.net.clone(), SocketAddr::new(address, self.port));
        self.running
            .push(Box::pin(async move { net.dial(address).await }));
        // The last address needs no timer.
        self.delay = match self.waiting.is_empty() {
            true => None,
            false => Some(self.world.clock.sleep(ATTEMPT_DELAY)),
        };
    }
}

/// The two families by turns, each in the resolver's order (RFC 8305 section 4): a family that leads nowhere then costs
/// one delay.
fn by_turns(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let first_is_ipv4 = addresses.first().is_some_and(IpAddr::is_ipv4);
    let (ours, others): (Vec<_>, Vec<_>) = addresses
        .into_iter()
        .partition(|address| address.is_ipv4() == first_is_ipv4);
    let (mut ours, mut others) = (ours.into_iter(), others.into_iter());
    let mut turns = Vec::new();
    loop {
        match (ours.next(), others.next()) {
            (None, None) => return turns,
            (one, other) => turns.extend(one.into_iter().chain(other)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

    use super::super::memory::MemoryNet;
    use super::super::{Net, Random, Runtime};
    use super::*;
    use crate::time::Clock;

    fn runtime() -> Runtime {
        Runtime::with(Clock::hand_driven(0), Net::real(), Random::seeded(1))
    }

    #[test]
    fn families_take_turns() {
        let parse = |all: &[&str]| -> Vec<IpAddr> {
            all.iter().map(|text| text.parse().unwrap()).collect()
        };
        assert_eq!(
            by_turns(parse(&["::1", "::2", "::3", "1.1.1.1"])),
            parse(&["::1", "1.1.1.1", "::2", "::3"])
        );
        assert_eq!(
            by_turns(parse(&["1.1.1.1", "1.1.1.2"])),
            parse(&["1.1.1.1", "1.1.1.2"])
        );
        assert!(by_turns(Vec::new()).is_empty());
    }

    #[test]
    fn a_name_with_one_private_address_is_not_connected_to() {
        let memory = MemoryNet::new(Random::seeded(1));
        let net = Net::memory(memory.clone());
        let runtime = Runtime::with(Clock::hand_driven(0), net, Random::seeded(1));
        let world = runtime.world().clone();
        runtime.block_on(async move {
            let listener = world.net.listen("127.0.0.1:0".parse().unwrap()).unwrap();
            let port = listener.local_address().unwrap().port();
            let rows: [(&[&str], Option<ConnectFault>); 6] = [
                (&["93.184.215.14"], None),
                (&["93.184.215.14", "2606:2800:21f::1"], None),
                (
                    &["93.184.215.14", "10.0.0.1"],
                    Some(ConnectFault::NotPublic),
                ),
                (&["::ffff:93.184.215.14"], Some(ConnectFault::NotPublic)),
                (&["169.254.169.254"], Some(ConnectFault::NotPublic)),
                (&[], Some(ConnectFault::Dns)),
            ];
            for (addresses, expected) in rows {
                let parsed: Vec<IpAddr> =
                    addresses.iter().map(|one| one.parse().unwrap()).collect();
                memory.name("chosen.example", &parsed);
                let before = memory.lookups();
                let got = world.connect_in_public("chosen.example", port).await.err();
                assert_eq!(got, expected, "{addresses:?}");
                assert_eq!(memory.lookups(), before + 1, "{addresses:?}");
            }
            // The first two, and nothing more.
            listener.accept().await.unwrap();
            listener.accept().await.unwrap();
            let third = smol::future::poll_once(listener.accept()).await;
            assert!(third.is_none());
        });
        let runtime = self::runtime();
        let world = runtime.world().clone();
        runtime.block_on(async move {
            for host in [
                "localhost",
                "127.0.0.1",
                "::1",
                "10.0.0.1",
                "desk.localhost",
            ] {
                let got = world.connect_in_public(host, 1).await.err();
                assert_eq!(got, Some(ConnectFault::NotPublic), "{host}");
            }
        });
    }

    /// A listener on `::1`, or `None` on a machine without IPv6.
    fn ipv6_listener() -> Option<TcpListener> {
        TcpListener::bind("[::1]:0").ok()
    }

    #[test]
    fn an_address_that_refuses_gives_way_at_once() {
        let Some(listener) = ipv6_listener() else {
            return;
        };
        let port = listener.local_addr().unwrap().port();
        let runtime = runtime();
        let world = runtime.world().clone();
        runtime.block_on(async move {
            assert!(world.connect("localhost", port).await.is_ok());
            assert_eq!(world.clock.live_timers(), 0);
            drop(listener);
            let none = world.connect("localhost", port).await.err();
            assert_eq!(none, Some(ConnectFault::Refused));
        });
    }

    /// Connections that are left waiting until the listener's queue is full: the next one gets no answer.
    fn fill(listener: &TcpListener) -> Vec<OwnedFd> {
        rustix::net::listen(listener, 0).unwrap();
        let address = listener.local_addr().unwrap();
        let dial = || {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
            let _ = connect(&socket, &address);
            socket
        };
        (0..8).map(|_| dial()).collect()
    }

    #[test]
    fn an_address_that_says_nothing_gives_way_after_the_delay() {
        let Some(there) = ipv6_listener() else { return };
        let port = there.local_addr().unwrap().port();
        let Ok(silent) = TcpListener::bind(("127.0.0.1", port)) else {
            return;
        };
        let held = fill(&silent);
        let runtime = runtime();
        let world = runtime.world().clone();
        runtime.block_on(async move {
            let (begun, clock) = (world.clock.now(), world.clock.clone());
            let hand = async {
                // The first attempt is under way once its timer is.
                while clock.live_timers() == 0 {
                    smol::future::yield_now().await;
                }
                clock.advance(ATTEMPT_DELAY);
                std::future::pending().await
            };
            let connected = smol::future::or(world.connect("localhost", port), hand).await;
            assert!(connected.is_ok());
            assert_eq!(world.clock.now().since(begun), ATTEMPT_DELAY);
            assert_eq!(world.clock.live_timers(), 0);
            let accepted: TcpStream = there.accept().unwrap().0;
            assert!(accepted.peer_addr().unwrap().is_ipv6());
        });
        drop(held);
    }
}
