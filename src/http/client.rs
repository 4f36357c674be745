//! The client: one request, one deadline, no redirects.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use url::Url;

use super::body::BodyDecoder;
use super::head::{
    BadHeader, HeadLimits, HeadWriter, Headers, Method, Parsed, ReplyFraming, ResponseHead,
    parse_response,
};
use super::pool::Pool;
use crate::time::{Elapsed, Instant};
use crate::world::tls::{ClientTls, HANDSHAKE_TIME, TlsFault};
use crate::world::{ConnectFault, Stream, World};

/// Interim replies (1xx) skipped before the real one; a server that sends more is not making progress.
const INTERIM_REPLIES: usize = 8;

/// Bytes read at a time, on the stack.
const READ_BYTES: usize = 8192;

/// Sends requests. Cloning shares the pool of idle connections.
#[derive(Clone)]
pub struct Client {
    world: World,
    pool: Pool,
    heads: HeadLimits,
    tls: ClientTls,
}

/// Which connection a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// A pooled one where there is one. For what may be asked twice.
    Pooled,
    /// One opened for this request. For what acts: a pooled connection may have died, and then nobody can say
    /// whether the request was seen.
    Fresh,
}

/// Scheme, host and port: what a connection is to.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    /// https: what was agreed with one side of it must never go out on the other.
    secure: bool,
    /// Someone else chose it: only public addresses.
    public: bool,
    host: String,
    port: u16,
}

/// A request to be sent.
pub struct OutRequest {
    method: Method,
    origin: Origin,
    head: HeadWriter,
    body: Vec<u8>,
}

impl OutRequest {
    /// A request for `url`, whose fragment and credentials are not sent.
    ///
    /// # Errors
    /// [`FaultKind::Tls`] for an https URL where this build has no TLS, [`FaultKind::Protocol`] for any other scheme or a
    /// URL without a host.
    pub fn new(method: Method, url: &Url) -> Result<Self, ClientFault> {
        let secure = match url.scheme() {
            "http" => false,
            "https" if ClientTls::is_present() => true,
            "https" => return Err(ClientFault::before(FaultKind::Tls(TlsFault::Absent))),
            _ => return Err(ClientFault::before(FaultKind::Protocol)),
        };
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return Err(ClientFault::before(FaultKind::Protocol));
        };
        let authority = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let target = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        let origin = Origin {
            secure,
            public: false,
            host: bare.to_owned(),
            port,
        };
        let head = HeadWriter::request(&method, &target, &authority)
            .map_err(|_| ClientFault::before(FaultKind::Protocol))?;
        Ok(Self {
            method,
            origin,
            head,
            body: Vec::new(),
        })
    }

    /// Adds a header.
    ///
    /// # Errors
    /// A name that is no token, or a value with CR, LF, NUL or another control character in it.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, BadHeader> {
        self.head.header(name, value)?;
        Ok(self)
    }

    /// For a URL that someone else chose: it goes out only where every address of the host is on the public internet
    /// ([`FaultKind::NotPublic`] otherwise).
    #[must_use]
    pub const fn in_public(mut self) -> Self {
        self.origin.public = true;
        self
    }

    /// Sets the body; its length is sent with it.
    #[must_use]
    pub fn body(mut self, body: Vec<u8>) -> Self {
        self.head.length(body.len() as u64);
        self.body = body;
        self
    }
}

/// Why a request came to nothing, without a word of what the other side sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientFault {
    /// What failed.
    pub kind: FaultKind,
    /// Whether a byte of the request may have left: what acts may then have acted.
    pub sent: bool,
}

/// What failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The connection ended before the reply was whole.
    Closed,
    /// The name has no address.
    Dns,
    /// The name leads to an address that is not on the public internet, where only such may be.
    NotPublic,
    /// The reply is not HTTP as it must be.
    Protocol,
    /// Nobody listens there.
    Refused,
    /// The deadline passed.
    Timeout,
    /// The reply is larger than allowed.
    TooLarge,
    /// No secure connection came about.
    Tls(TlsFault),
    /// Every other fault of the network.
    Unreachable,
}

impl ClientFault {
    const fn before(kind: FaultKind) -> Self {
        Self { kind, sent: false }
    }

    const fn after(kind: FaultKind) -> Self {
        Self { kind, sent: true }
    }
}

impl fmt::Display for ClientFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            FaultKind::Closed => "the connection broke",
            FaultKind::Dns => "the name has no address (DNS)",
            FaultKind::NotPublic => "the name has an address that is not a public one",
            FaultKind::Protocol => "the reply is not valid HTTP",
            FaultKind::Refused => "the connection was refused",
            FaultKind::Timeout => "no answer in time (timeout)",
            FaultKind::TooLarge => "the reply is too large",
            FaultKind::Tls(fault) => return write!(f, "no secure connection: {fault} (TLS)"),
            FaultKind::Unreachable => "the address cannot be reached",
        })
    }
}

impl std::error::Error for ClientFault {}

impl Client {
    /// A client in `world` with an empty pool. For https it trusts the authorities that browsers trust.
    #[must_use]
    pub fn new(world: World) -> Self {
        let tls = ClientTls::built_in(&world.clock);
        Self::trusting(world, tls)
    }

    /// A client in `world` with an empty pool, that trusts those authorities.
    #[must_use]
    pub fn trusting(world: World, tls: ClientTls) -> Self {
        let pool = Pool::new(world.clock.clone());
        Self {
            world,
            pool,
            heads: HeadLimits::default(),
            tls,
        }
    }

    /// Sends `request` and waits for the reply's head, until `deadline`. A redirect is a reply like any other: it
    /// is never followed.
    ///
    /// A GET is sent once more when a pooled connection broke before a byte of the reply: the server had closed it
    /// while it was idle. Nothing else is ever sent twice. Dropping the future closes the connection, which tells
    /// the server that its caller left.
    ///
    /// # Errors
    /// [`ClientFault`].
    pub async fn send(
        &self,
        request: OutRequest,
        deadline: Instant,
        connection: Connection,
    ) -> Result<Reply, ClientFault> {
        let OutRequest {
            method,
            origin,
            head,
            mut body,
        } = request;
        let mut bytes = head.finish();
        bytes.append(&mut body);
        let pooled = match connection {
            Connection::Pooled => self.pool.take(&origin),
            Connection::Fresh => None,
        };
        if let Some(stream) = pooled {
            let mut wire = Wire::new(stream);
            match self.exchange(&mut wire, &method, &bytes, deadline).await {
                Err(ClientFault {
                    kind: FaultKind::Closed,
                    ..
                }) if method == Method::Get && !wire.replied => {}
                done => return Ok(self.reply(origin, wire, done?, deadline)),
            }
        }
        let connecting = self.connect(&origin);
        let stream = match self.world.clock.timeout(deadline, connecting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(kind)) => return Err(ClientFault::before(kind)),
            Err(Elapsed) => return Err(ClientFault::before(FaultKind::Timeout)),
        };
        let mut wire = Wire::new(stream);
        let head = self.exchange(&mut wire, &method, &bytes, deadline).await?;
        Ok(self.reply(origin, wire, head, deadline))
    }

    /// Connects, and shakes hands where the origin is https. Nothing of the request leaves here.
    async fn connect(&self, origin: &Origin) -> Result<Stream, FaultKind> {
        let stream = if origin.public {
            self.world
                .connect_in_public(&origin.host, origin.port)
                .await?
        } else {
            self.world.connect(&origin.host, origin.port).await?
        };
        if !origin.secure {
            return Ok(stream);
        }
        let clock = &self.world.clock;
        let shaking = self.tls.connect(stream, &origin.host);
        match clock.timeout(clock.after(HANDSHAKE_TIME), shaking).await {
            Ok(shaken) => shaken.map_err(FaultKind::Tls),
            Err(Elapsed) => Err(FaultKind::Timeout),
        }
    }

    async fn exchange(
        &self,
        wire: &mut Wire,
        method: &Method,
        request: &[u8],
        deadline: Instant,
    ) -> Result<ResponseHead, ClientFault> {
        // A timeout polls first, and the first poll writes: what came too late must not be sent at all.
        if self.world.clock.now() >= deadline {
            return Err(ClientFault::before(FaultKind::Timeout));
        }
        let head = poll_fn(|cx| wire.poll_exchange(cx, method, request, &self.heads));
        match self.world.clock.timeout(deadline, head).await {
            Ok(done) => done,
            Err(Elapsed) => Err(ClientFault {
                kind: FaultKind::Timeout,
                sent: wire.written > 0,
            }),
        }
    }

    fn reply(&self, origin: Origin, wire: Wire, head: ResponseHead, deadline: Instant) -> Reply {
        let ResponseHead {
            status,
            headers,
            framing,
            keep_alive,
        } = head;
        let decoder = BodyDecoder::reply(framing);
        let world = self.world.clone();
        let home = keep_alive.then(|| (self.pool.clone(), origin));
        let mut reply = Reply {
            status,
            headers,
            wire: Some(wire),
            fault: None,
            decoder,
            home,
            world,
            deadline,
        };
        if matches!(framing, ReplyFraming::None) {
            reply.settle();
        }
        reply
    }
}

impl From<ConnectFault> for FaultKind {
    fn from(fault: ConnectFault) -> Self {
        match fault {
            ConnectFault::Dns => Self::Dns,
            ConnectFault::NotPublic => Self::NotPublic,
            ConnectFault::Refused => Self::Refused,
            ConnectFault::Unreachable => Self::Unreachable,
        }
    }
}

/// One connection in the middle of an exchange.
struct Wire {
    stream: Stream,
    /// Bytes of the request that the kernel took.
    written: usize,
    /// Whether all of them were.
    whole: bool,
    /// Bytes of the reply not yet consumed.
    bytes: Vec<u8>,
    /// Whether any byte of a reply came.
    replied: bool,
    interim: usize,
}

impl Wire {
    const fn new(stream: Stream) -> Self {
        Self {
            stream,
            written: 0,
            whole: false,
            bytes: Vec::new(),
            replied: false,
            interim: 0,
        }
    }

    /// Writes and reads at the same time: a server may answer before it has read all, and then stop reading.
    fn poll_exchange(
        &mut self,
        cx: &mut Context<'_>,
        method: &Method,
        request: &[u8],
        heads: &HeadLimits,
    ) -> Poll<Result<ResponseHead, ClientFault>> {
        let mut write_failed = false;
        while self.written < request.len() {
            match self.stream.poll_write(cx, &request[self.written..]) {
                Poll::Ready(Ok(count)) if count > 0 => self.written += count,
                Poll::Ready(_) => {
                    // It may have answered before it closed: read that first, below.
                    write_failed = true;
                    break;
                }
                Poll::Pending => break,
            }
        }
        self.whole = self.written == request.len();
        let sent = self.written > 0;
        loop {
            match parse_response(&self.bytes, method, heads) {
                Err(_) => {
                    return Poll::Ready(Err(ClientFault {
                        kind: FaultKind::Protocol,
                        sent,
                    }));
                }
                Ok(Parsed::Complete { head, consumed }) => {
                    self.bytes.drain(..consumed);
                    if !(100..200).contains(&head.status) {
                        return Poll::Ready(Ok(head));
                    }
                    // RFC 9110 section 15.2: interim replies come first; 101 would change the protocol, and we
                    // never ask for that.
                    self.interim += 1;
                    if head.status == 101 || self.interim > INTERIM_REPLIES {
                        return Poll::Ready(Err(ClientFault {
                            kind: FaultKind::Protocol,
                            sent,
                        }));
                    }
                    continue;
                }
                Ok(Parsed::Partial) => {}
            }
            let filled = if write_failed {
                // Without waiting for the reactor, which may not have said yet that there is something to read.
                Poll::Ready(self.fill())
            } else {
                self.poll_fill(cx)
            };
            match filled {
                Poll::Ready(Fill::More) => {}
                Poll::Ready(Fill::End | Fill::Broken) => {
                    return Poll::Ready(Err(ClientFault {
                        kind: FaultKind::Closed,
                        sent,
                    }));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Reads once what the socket has.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Fill> {
        let mut some = [0; READ_BYTES];
        let read = ready!(self.stream.poll_read(cx, &mut some));
        Poll::Ready(self.keep(read, &some))
    }

    /// Reads once what the socket has now; for a connection that will not have more.
    fn fill(&mut self) -> Fill {
        let mut some = [0; READ_BYTES];
        match self.stream.try_read(&mut some) {
            Some(read) => self.keep(read, &some),
            None => Fill::Broken,
        }
    }

    fn keep(&mut self, read: io::Result<usize>, some: &[u8]) -> Fill {
        match read {
            Ok(0) => Fill::End,
            Ok(count) => {
                self.replied = true;
                self.bytes.extend_from_slice(&some[..count]);
                Fill::More
            }
            Err(_) => Fill::Broken,
        }
    }
}

/// What reading once gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fill {
    More,
    /// The end of the stream, which can be the end of a body.
    End,
    /// A reset or another fault of the connection, which never is one.
    Broken,
}

/// A reply whose body is still to be read. Dropping it before the end closes its connection.
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: Headers,
    /// Until the body is whole or has failed.
    wire: Option<Wire>,
    /// Why it failed.
    fault: Option<ClientFault>,
    decoder: BodyDecoder,
    /// Where the connection goes after a whole reply that allows another.
    home: Option<(Pool, Origin)>,
    world: World,
    deadline: Instant,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

impl Reply {
    /// The next piece of the body, or `None` at its end. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`ClientFault`]: a body cut short, broken framing, or the deadline.
    pub async fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, ClientFault> {
        let clock = self.world.clock.clone();
        let deadline = self.deadline;
        // A timeout polls first: a body that always has more would never see it.
        if clock.now() >= deadline {
            return Err(ClientFault::after(FaultKind::Timeout));
        }
        let next = poll_fn(|cx| self.poll_chunk(cx));
        clock
            .timeout(deadline, next)
            .await
            .unwrap_or(Err(ClientFault::after(FaultKind::Timeout)))
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, ClientFault>> {
        loop {
            let Some(wire) = &mut self.wire else {
                return Poll::Ready(self.fault.map_or(Ok(None), Err));
            };
            let mut chunk = Vec::new();
            let Ok(step) = self.decoder.decode(&wire.bytes, &mut chunk, READ_BYTES) else {
                return Poll::Ready(Err(self.fail(FaultKind::Protocol)));
            };
            wire.bytes.drain(..step.consumed);
            if step.done {
                self.settle();
            }
            if !chunk.is_empty() || step.done {
                return Poll::Ready(Ok((!chunk.is_empty()).then_some(chunk)));
            }
            let Some(wire) = &mut self.wire else {
                return Poll::Ready(Ok(None));
            };
            match wire.poll_fill(cx) {
                Poll::Ready(Fill::More) => {}
                // RFC 9112 section 8: without a length the end of the stream is the end of the body, unless the
                // connection says that something went wrong.
                Poll::Ready(end) => {
                    self.wire = None;
                    return Poll::Ready(match self.decoder.eof() {
                        Ok(()) if end == Fill::End => Ok(None),
                        _ => Err(self.fail(FaultKind::Closed)),
                    });
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Closes the connection, and remembers why: asked again, a body that failed must not seem to end well.
    fn fail(&mut self, kind: FaultKind) -> ClientFault {
        self.wire = None;
        *self.fault.insert(ClientFault::after(kind))
    }

    /// The rest of the body, of at most `limit` bytes.
    ///
    /// # Errors
    /// [`ClientFault`]; [`FaultKind::TooLarge`] past the limit.
    pub async fn read_all(mut self, limit: usize) -> Result<Vec<u8>, ClientFault> {
        let mut body = Vec::new();
        while let Some(chunk) = self.next_chunk().await? {
            if body.len() + chunk.len() > limit {
                return Err(ClientFault::after(FaultKind::TooLarge));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// Moves the deadline of what is still to be read, for a body that may take long by its nature.
    pub const fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// The body is whole: the connection goes back if nothing else is on it.
    fn settle(&mut self) {
        if let (Some(wire), Some((pool, origin))) = (self.wire.take(), self.home.take())
            && wire.whole
            && wire.bytes.is_empty()
        {
            pool.put(&origin, wire.stream);
        }
    }
}
