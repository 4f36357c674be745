//! A network in memory: pipes that are never convenient.
//!
//! Every read and write moves a random part of what it could, so that code which counts on whole messages fails in a
//! test. Connections can be cut, as by a reset, at any moment.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::Random;

/// Bytes that one direction of a connection holds before writing waits, like a small socket buffer.
const PIPE_BYTES: usize = 4096;

/// The first port given to a listener that asked for port 0.
const FIRST_PORT: u16 = 40_000;

/// Listeners and connections in memory. Cloning gives a handle to the same network. Every name and address leads to it:
/// only ports tell listeners apart.
#[derive(Clone)]
pub struct MemoryNet {
    random: Random,
    ports: Arc<Mutex<Ports>>,
}

struct Ports {
    next: u16,
    names: HashMap<String, Vec<IpAddr>>,
    lookups: usize,
    listeners: HashMap<u16, Arc<Mutex<Backlog>>>,
    /// Pipes of every connection made, for [`MemoryNet::cut_all`].
    pipes: Vec<std::sync::Weak<Mutex<Pipe>>>,
}

#[derive(Default)]
struct Backlog {
    waiting: VecDeque<(End, SocketAddr)>,
    waker: Option<Waker>,
}

impl MemoryNet {
    /// An empty network whose short reads and writes come from `random`.
    #[must_use]
    pub fn new(random: Random) -> Self {
        let ports = Ports {
            next: FIRST_PORT,
            names: HashMap::new(),
            lookups: 0,
            listeners: HashMap::new(),
            pipes: Vec::new(),
        };
        Self {
            random,
            ports: Arc::new(Mutex::new(ports)),
        }
    }

    fn ports(&self) -> MutexGuard<'_, Ports> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives `host` those addresses in place of 127.0.0.1. They are only looked at: all lead to this network.
    pub fn name(&self, host: &str, addresses: &[IpAddr]) {
        let mut ports = self.ports();
        ports.names.insert(host.to_owned(), addresses.to_vec());
    }

    /// How often a name was looked up.
    #[must_use]
    pub fn lookups(&self) -> usize {
        self.ports().lookups
    }

    pub(super) fn resolve(&self, host: &str) -> Vec<IpAddr> {
        let mut ports = self.ports();
        ports.lookups += 1;
        let known = ports.names.get(host).cloned();
        known.unwrap_or_else(|| vec![Ipv4Addr::LOCALHOST.into()])
    }

    pub(super) fn listen(&self, address: SocketAddr) -> io::Result<Listening> {
        let mut ports = self.ports();
        let port = match address.port() {
            0 => {
                ports.next = ports.next.wrapping_add(1);
                ports.next
            }
            port => port,
        };
        if ports.listeners.contains_key(&port) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let backlog = Arc::new(Mutex::new(Backlog::default()));
        ports.listeners.insert(port, backlog.clone());
        Ok(Listening {
            net: self.clone(),
            port,
            backlog,
        })
    }

    pub(super) async fn connect(&self, port: u16) -> io::Result<End> {
        let waker = {
            let mut ports = self.ports();
            let Some(backlog) = ports.listeners.get(&port).cloned() else {
                return Err(io::ErrorKind::ConnectionRefused.into());
            };
            let [there, back] = [(); 2].map(|()| Arc::new(Mutex::new(Pipe::default())));
            ports.pipes.retain(|pipe| pipe.strong_count() > 0);
            ports
                .pipes
                .extend([Arc::downgrade(&there), Arc::downgrade(&back)]);
            let random = self.random.clone();
            let ours = End {
                random: random.clone(),
                reads: back.clone(),
                writes: there.clone(),
            };
            let theirs = End {
                random,
                reads: there,
                writes: back,
            };
            let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
            let mut backlog = backlog.lock().unwrap_or_else(PoisonError::into_inner);
            backlog.waiting.push_back((theirs, peer));
            (ours, backlog.waker.take())
        };
        if let Some(waker) = waker.1 {
            waker.wake();
        }
        Ok(waker.0)
    }

    /// Cuts every connection, as by a reset: both ends fail from now on, and what was on its way is lost.
    pub fn cut_all(&self) {
        let pipes = std::mem::take(&mut self.ports().pipes);
        for pipe in pipes.iter().filter_map(std::sync::Weak::upgrade) {
            let wakers = {
                let mut pipe = lock(&pipe);
                pipe.cut = true;
                pipe.wakers()
            };
            wakers.into_iter().flatten().for_each(Waker::wake);
        }
    }
}

/// A listener in memory. Dropping it frees the port; connections not yet accepted are cut.
pub(super) struct Listening {
    net: MemoryNet,
    port: u16,
    backlog: Arc<Mutex<Backlog>>,
}

impl Listening {
    pub(super) fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    pub(super) async fn accept(&self) -> (End, SocketAddr) {
        poll_fn(|cx| {
            let mut backlog = self.backlog.lock().unwrap_or_else(PoisonError::into_inner);
            match backlog.waiting.pop_front() {
                Some(accepted) => Poll::Ready(accepted),
                None => {
                    backlog.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.net.ports().listeners.remove(&self.port);
    }
}

/// One direction of a connection.
#[derive(Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    /// The writing end is done or gone: reading ends after `bytes`.
    ended: bool,
    /// The reading end is gone: writing fails.
    abandoned: bool,
    cut: bool,
    /// The writing end cuts it by being dropped.
    cut_on_drop: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn wakers(&mut self) -> [Option<Waker>; 2] {
        [self.reader.take(), self.writer.take()]
    }
}

fn lock(pipe: &Mutex<Pipe>) -> MutexGuard<'_, Pipe> {
    pipe.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One end of a connection in memory.
pub(super) struct End {
    random: Random,
    reads: Arc<Mutex<Pipe>>,
    writes: Arc<Mutex<Pipe>>,
}

impl End {
    /// How much of `most` this one operation moves: at least one byte.
    fn part(&self, most: usize) -> usize {
        if most <= 1 {
            most
        } else {
            1 + self.random.below(most as u64) as usize
        }
    }

    fn read(&self, pipe: &mut Pipe, into: &mut [u8]) -> Option<io::Result<usize>> {
        if pipe.cut {
            return Some(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if pipe.bytes.is_empty() {
            return pipe.ended.then_some(Ok(0));
        }
        let count = self.part(pipe.bytes.len().min(into.len()));
        for (slot, byte) in into.iter_mut().zip(pipe.bytes.drain(..count)) {
            *slot = byte;
        }
        Some(Ok(count))
    }

    pub(super) fn try_read(&self, into: &mut [u8]) -> Option<io::Result<usize>> {
        let (done, writer) = {
            let mut pipe = lock(&self.reads);
            (self.read(&mut pipe, into), pipe.writer.take())
        };
        writer.into_iter().for_each(Waker::wake);
        done
    }

    pub(super) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let (done, writer) = {
            let mut pipe = lock(&self.reads);
            match self.read(&mut pipe, into) {
                Some(done) => (Poll::Ready(done), pipe.writer.take()),
                None => {
                    pipe.reader = Some(cx.waker().clone());
                    (Poll::Pending, None)
                }
            }
        };
        writer.into_iter().for_each(Waker::wake);
        done
    }

    pub(super) fn poll_write(&self, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let (done, reader) = {
            let mut pipe = lock(&self.writes);
            let room = PIPE_BYTES.saturating_sub(pipe.bytes.len()).min(from.len());
            if pipe.cut || pipe.abandoned || pipe.ended {
                (
                    Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                    None,
                )
            } else if room == 0 && !from.is_empty() {
                pipe.writer = Some(cx.waker().clone());
                (Poll::Pending, None)
            } else {
                let count = self.part(room);
                pipe.bytes.extend(&from[..count]);
                (Poll::Ready(Ok(count)), pipe.reader.take())
            }
        };
        reader.into_iter().for_each(Waker::wake);
        done
    }

    pub(super) fn shutdown_write(&self) {
        let reader = {
            let mut pipe = lock(&self.writes);
            pipe.ended = true;
            pipe.reader.take()
        };
        reader.into_iter().for_each(Waker::wake);
    }
}

impl End {
    pub(super) fn cut_on_drop(&self, cut: bool) {
        lock(&self.writes).cut_on_drop = cut;
    }
}

impl Drop for End {
    fn drop(&mut self) {
        {
            let mut pipe = lock(&self.writes);
            pipe.cut |= pipe.cut_on_drop;
        }
        self.shutdown_write();
        let writer = {
            let mut pipe = lock(&self.reads);
            pipe.abandoned = true;
            pipe.writer.take()
        };
        writer.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::super::{Net, Runtime, Stream};
    use super::*;
    use crate::time::Clock;

    async fn read_to_end(stream: &Stream) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        let mut some = [0; 64];
        loop {
            match poll_fn(|cx| stream.poll_read(cx, &mut some)).await? {
                0 => return Ok(all),
                count => all.extend(&some[..count]),
            }
        }
    }

    #[test]
    fn bytes_cross_in_order_whatever_the_pieces() {
        let net = MemoryNet::new(Random::seeded(1));
        let runtime = Runtime::with(Clock::hand_driven(0), Net::memory(net), Random::seeded(2));
        let world = runtime.world().clone();
        runtime.block_on(async move {
            let listener = world.net.listen("127.0.0.1:0".parse().unwrap()).unwrap();
            let port = listener.local_address().unwrap().port();
            let sent: Vec<u8> = (0..20_000_u32).flat_map(u32::to_le_bytes).collect();
            let expected = sent.clone();
            let sender = world.clone();
            let sending = world.spawn(async move {
                let stream = sender.connect("any.example", port).await.unwrap();
                stream.write_all(&sent).await.unwrap();
            });
            let (stream, _) = listener.accept().await.unwrap();
            assert_eq!(read_to_end(&stream).await.unwrap(), expected);
            sending.unwrap().await;
            drop(listener);
            let gone = world.connect("any.example", port).await;
            assert!(matches!(gone, Err(super::super::ConnectFault::Refused)));
        });
    }

    #[test]
    fn a_cut_connection_fails_at_both_ends() {
        let net = MemoryNet::new(Random::seeded(1));
        let knife = net.clone();
        let runtime = Runtime::with(Clock::hand_driven(0), Net::memory(net), Random::seeded(2));
        let world = runtime.world().clone();
        runtime.block_on(async move {
            let listener = world.net.listen("127.0.0.1:0".parse().unwrap()).unwrap();
            let port = listener.local_address().unwrap().port();
            let here = world.connect("any.example", port).await.unwrap();
            let (there, _) = listener.accept().await.unwrap();
            knife.cut_all();
            assert!(read_to_end(&here).await.is_err());
            assert!(there.write_all(b"late").await.is_err());
            assert_eq!(world.clock.live_timers(), 0);
            world.clock.advance(Duration::from_secs(1));
        });
    }
}
