//! Listeners and streams: TCP, or in memory, with TLS or without.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use smol::Async;

use super::memory::{self, MemoryNet};
use super::resolve::Resolver;
use super::tls::{ServerTls, TlsFault, TlsStream};

/// Connections that the kernel completes for us while we are busy. The standard library asks for 128, which a burst
/// of callers overflows.
const BACKLOG: i32 = 1024;

/// The network: real, or in memory.
#[derive(Clone)]
pub struct Net(Kind);

#[derive(Clone)]
enum Kind {
    Real(Resolver),
    Memory(MemoryNet),
}

impl Net {
    /// The machine's own network.
    #[must_use]
    pub fn real() -> Self {
        Self(Kind::Real(Resolver::new()))
    }

    /// A network in memory, for tests and simulation.
    #[must_use]
    pub const fn memory(net: MemoryNet) -> Self {
        Self(Kind::Memory(net))
    }

    /// Listens on `address`; port 0 asks for a free one. `SO_REUSEADDR` is set, so that a restart is immediate.
    ///
    /// # Errors
    /// The operating system's, above all that the port is taken (configuration).
    pub fn listen(&self, address: SocketAddr) -> io::Result<Listener> {
        match &self.0 {
            Kind::Real(_) => {
                let listener = TcpListener::bind(address)?;
                rustix::net::listen(&listener, BACKLOG)?;
                Ok(Listener::of(ListenerKind::Tcp(Async::new(listener)?)))
            }
            Kind::Memory(net) => Ok(Listener::of(ListenerKind::Memory(net.listen(address)?))),
        }
    }

    /// The addresses of `host`, a name or an IP address in text form (IPv6 without brackets), in the order in which
    /// they are to be tried.
    pub(super) async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, ConnectFault> {
        match &self.0 {
            Kind::Real(resolver) => resolver.resolve(host).await.map_err(|_| ConnectFault::Dns),
            Kind::Memory(net) => Ok(net.resolve(host)),
        }
    }

    /// Connects to one address.
    pub(super) async fn dial(&self, address: SocketAddr) -> Result<Stream, ConnectFault> {
        let connected = match &self.0 {
            Kind::Real(_) => Async::<TcpStream>::connect(address).await.map(Stream::tcp),
            Kind::Memory(net) => {
                let end = net.connect(address.port()).await;
                end.map(|end| Stream(StreamKind::Memory(end)))
            }
        };
        connected.map_err(|error| ConnectFault::of(&error))
    }
}

/// Why no connection came about. The other side's fault, or the network's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectFault {
    /// The name has no address, or nobody could say.
    Dns,
    /// The name leads to an address that is not on the public internet, where only such may be.
    NotPublic,
    /// Nobody listens there.
    Refused,
    /// Every other fault of the network.
    Unreachable,
}

impl ConnectFault {
    fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            _ => Self::Unreachable,
        }
    }
}

impl fmt::Display for ConnectFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dns => "the name has no address (DNS)",
            Self::NotPublic => "the name has an address that is not a public one",
            Self::Refused => "the connection was refused",
            Self::Unreachable => "the address cannot be reached",
        })
    }
}

impl std::error::Error for ConnectFault {}

/// Accepts connections.
pub struct Listener {
    kind: ListenerKind,
    tls: Option<ServerTls>,
}

enum ListenerKind {
    Tcp(Async<TcpListener>),
    Memory(memory::Listening),
}

impl Listener {
    const fn of(kind: ListenerKind) -> Self {
        Self { kind, tls: None }
    }

    /// The same listener, speaking TLS with that certificate on what it accepts from now on.
    #[must_use]
    pub fn with_tls(self, tls: ServerTls) -> Self {
        Self {
            tls: Some(tls),
            ..self
        }
    }

    /// Whether it speaks TLS.
    #[must_use]
    pub const fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// The address it listens on, with the port that the system chose for port 0.
    ///
    /// # Errors
    /// The operating system's.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        match &self.kind {
            ListenerKind::Tcp(listener) => listener.get_ref().local_addr(),
            ListenerKind::Memory(listening) => Ok(listening.address()),
        }
    }

    /// Waits for the next connection. Dropping the future loses none. Where the listener speaks TLS, the handshake is
    /// still to come: see [`Stream::handshake`].
    ///
    /// # Errors
    /// The operating system's: out of descriptors, or a connection that ended before it was accepted.
    pub async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        let (stream, peer) = match &self.kind {
            ListenerKind::Tcp(listener) => loop {
                match listener.get_ref().accept() {
                    Ok((stream, peer)) => break (Stream::tcp(Async::new(stream)?), peer),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        listener.readable().await?;
                    }
                    Err(error) => return Err(error),
                }
            },
            ListenerKind::Memory(listening) => {
                let (end, peer) = listening.accept().await;
                (Stream(StreamKind::Memory(end)), peer)
            }
        };
        match &self.tls {
            Some(tls) => Ok((tls.accept(stream)?, peer)),
            None => Ok((stream, peer)),
        }
    }
}

/// One connection's bytes. Reads and writes take `&self`; one task at a time may wait for each direction, since a
/// socket remembers one waker a direction. Dropping it closes the connection.
pub struct Stream(StreamKind);

enum StreamKind {
    Tcp(Async<TcpStream>),
    Memory(memory::End),
    Tls(Box<TlsStream>),
}

impl Stream {
    pub(super) fn tls(stream: TlsStream) -> Self {
        Self(StreamKind::Tls(Box::new(stream)))
    }

    fn tcp(stream: Async<TcpStream>) -> Self {
        // Without it an answer in two writes waits for the other side's delayed acknowledgement, 40 ms.
        if let Err(error) = stream.get_ref().set_nodelay(true) {
            log::debug!("TCP_NODELAY could not be set: {}", error.kind());
        }
        Self(StreamKind::Tcp(stream))
    }

    /// Shakes hands where there is TLS in it and that was not done; at once elsewhere. The caller bounds the time.
    ///
    /// # Errors
    /// [`TlsFault`]; the stream is then good for nothing but dropping.
    pub async fn handshake(&self) -> Result<(), TlsFault> {
        match &self.0 {
            StreamKind::Tls(stream) => stream.handshake().await,
            StreamKind::Tcp(_) | StreamKind::Memory(_) => Ok(()),
        }
    }

    /// Reads what is there, or registers for the wake-up. `Ok(0)` is the end.
    ///
    /// # Errors
    /// The operating system's, a reset by the other side among them; with TLS, `UnexpectedEof` for an end that the
    /// other side did not announce, and `InvalidData` for what is no TLS.
    pub fn poll_read(&self, cx: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
        match &self.0 {
            // Waits first, then reads: under load a read that finds nothing costs more than the wait saves.
            StreamKind::Tcp(stream) => loop {
                ready!(stream.poll_readable(cx))?;
                if let Some(done) = without_waiting(|| stream.get_ref().read(bytes)) {
                    return Poll::Ready(done);
                }
            },
            StreamKind::Memory(end) => end.poll_read(cx, bytes),
            StreamKind::Tls(stream) => stream.poll_read(cx, bytes),
        }
    }

    /// Reads what is there now; `None` when there is nothing yet.
    pub fn try_read(&self, bytes: &mut [u8]) -> Option<io::Result<usize>> {
        match &self.0 {
            StreamKind::Tcp(stream) => without_waiting(|| stream.get_ref().read(bytes)),
            StreamKind::Memory(end) => end.try_read(bytes),
            StreamKind::Tls(stream) => stream.try_read(bytes),
        }
    }

    /// Writes as much as fits, or registers for the wake-up. What was not reported as written was not seen by the
    /// other side. A pending write is repeated with the same bytes, or no other follows it.
    ///
    /// # Errors
    /// The operating system's.
    pub fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &self.0 {
            StreamKind::Tcp(stream) => loop {
                if let Some(done) = without_waiting(|| stream.get_ref().write(bytes)) {
                    return Poll::Ready(done);
                }
                ready!(stream.poll_writable(cx))?;
            },
            StreamKind::Memory(end) => end.poll_write(cx, bytes),
            StreamKind::Tls(stream) => stream.poll_write(cx, bytes),
        }
    }

    /// Says that no more will be written; the other side reads the end after what is already on its way.
    pub fn shutdown_write(&self) {
        match &self.0 {
            // It fails only when the connection is gone, which is what was wanted.
            StreamKind::Tcp(stream) => drop(stream.get_ref().shutdown(Shutdown::Write)),
            StreamKind::Memory(end) => end.shutdown_write(),
            StreamKind::Tls(stream) => stream.shutdown_write(),
        }
    }

    /// Whether dropping it resets the connection, so that the other side cannot take what it got for all there is.
    pub fn reset_on_drop(&self, reset: bool) {
        match &self.0 {
            StreamKind::Tcp(stream) => {
                // It fails only when the connection is gone. A linger of no time is how a reset is asked for.
                let linger = reset.then_some(Duration::ZERO);
                let _ = rustix::net::sockopt::set_socket_linger(stream.get_ref(), linger);
            }
            StreamKind::Memory(end) => end.cut_on_drop(reset),
            StreamKind::Tls(stream) => stream.reset_on_drop(reset),
        }
    }

    /// Writes all of `bytes`. Dropping the future leaves an unknown part of them written.
    ///
    /// # Errors
    /// The operating system's, and `WriteZero` when the stream takes no more.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = std::future::poll_fn(|cx| self.poll_write(cx, bytes)).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = &bytes[written..];
        }
        Ok(())
    }
}

/// One attempt at a non-blocking operation: `None` where it would block, tried again where a signal cut it short.
fn without_waiting(mut attempt: impl FnMut() -> io::Result<usize>) -> Option<io::Result<usize>> {
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return Some(done),
        }
    }
}
