//! What the tests of the HTTP shell share: a world on a thread of its own, and blocking raw sockets facing it.
//!
//! The test's thread is the other side and may block. Nothing sleeps: it waits for bytes, for messages or for turns of
//! the world's executor, and every wait ends in a failure when it takes longer than [`PATIENCE`].

use std::future::Future;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use countersign::time::Clock;
use countersign::world::{Net, Random, Runtime, World};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use smol::Task;

/// How long anything may take before the test fails. Never waited for when all is well.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A world of real sockets whose tasks run on a thread of their own until this is dropped.
pub struct OnThread {
    pub world: World,
    pub clock: Clock,
    stop: smol::channel::Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl OnThread {
    /// A clock that only the test moves.
    pub fn hand_driven() -> Self {
        crate::logs::capture();
        Self::run(Runtime::with(
            Clock::hand_driven(crate::lab::WALL_MS),
            Net::real(),
            Random::seeded(7),
        ))
    }

    fn run(runtime: Runtime) -> Self {
        let world = runtime.world().clone();
        let (stop, stopped) = smol::channel::bounded::<()>(1);
        let thread = std::thread::spawn(move || {
            runtime.block_on(async move {
                let _ = stopped.recv().await;
            });
        });
        Self {
            clock: world.clock.clone(),
            world,
            stop,
            thread: Some(thread),
        }
    }

    /// Starts a task over there.
    pub fn start<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Started<T> {
        let (done, output) = mpsc::channel();
        let task = self.world.spawn(async move {
            let _ = done.send(future.await);
        });
        Started {
            task: task.unwrap(),
            output,
        }
    }

    /// Lets everything that is ready over there run, what the kernel has ready included.
    pub fn turn(&self) {
        self.start(crate::lab::turn()).wait();
    }

    /// Waits, turn by turn, until `met`.
    pub fn until(&self, what: &str, mut met: impl FnMut() -> bool) {
        let since = Instant::now();
        while !met() {
            assert!(since.elapsed() < PATIENCE, "never came: {what}");
            self.turn();
        }
    }

    /// Waits until so many timers are armed.
    pub fn until_timers(&self, count: usize) {
        let clock = self.clock.clone();
        self.until("timers", || clock.live_timers() == count);
    }

    /// Moves the clock and lets what came due run.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.turn();
    }
}

impl Drop for OnThread {
    fn drop(&mut self) {
        self.stop.close();
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            assert!(matches!(ended, Some(Ok(()))), "the world's thread panicked");
        }
    }
}

/// A task in the world. Dropping it drops the task's future.
pub struct Started<T> {
    task: Task<()>,
    output: Receiver<T>,
}

impl<T> Started<T> {
    pub fn wait(self) -> T {
        let output = self.output.recv_timeout(PATIENCE);
        drop(self.task);
        output.expect("the task ends with an output")
    }

    pub fn is_running(&self) -> bool {
        !self.task.is_finished()
    }
}

/// One end of a TCP connection, blocking.
pub struct Raw {
    pub stream: TcpStream,
    received: Vec<u8>,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Closed,
    Reset,
}

/// One answer, read by its own framing.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// With the empty line.
    pub head: String,
    pub body: String,
}

impl Answer {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub fn closes(&self) -> bool {
        self.header("connection") == Some("close")
    }
}

impl Raw {
    pub fn connect(address: SocketAddr) -> Self {
        Self::of(TcpStream::connect(address).unwrap())
    }

    pub fn of(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self {
            stream,
            received: Vec::new(),
        }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Reads once. What ended the connection, if it has ended.
    fn fill(&mut self) -> Result<(), End> {
        let mut some = [0; 65_536];
        match self.stream.read(&mut some) {
            Ok(0) => Err(End::Closed),
            Ok(count) => {
                self.received.extend_from_slice(&some[..count]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(End::Reset),
            Err(error) => panic!(
                "nothing came behind {:?}: {error}",
                String::from_utf8_lossy(&self.received)
            ),
        }
    }

    /// The received bytes up to and with `marker`, which are then taken.
    pub fn until(&mut self, marker: &str) -> String {
        let marker = marker.as_bytes();
        loop {
            let found = self
                .received
                .windows(marker.len())
                .position(|part| part == marker);
            if let Some(at) = found {
                let taken: Vec<u8> = self.received.drain(..at + marker.len()).collect();
                return String::from_utf8(taken).unwrap();
            }
            self.fill().expect("the connection is open");
        }
    }

    /// So many bytes, which are then taken.
    pub fn exactly(&mut self, count: usize) -> String {
        while self.received.len() < count {
            self.fill().expect("the connection is open");
        }
        String::from_utf8(self.received.drain(..count).collect()).unwrap()
    }

    /// One answer to a request other than HEAD.
    pub fn answer(&mut self) -> Answer {
        let mut answer = self.head();
        if answer.header("transfer-encoding") == Some("chunked") {
            loop {
                let size = self.until("\r\n");
                let size = usize::from_str_radix(size.trim_end(), 16).unwrap();
                answer.body += &self.exactly(size);
                assert_eq!(self.exactly(2), "\r\n");
                if size == 0 {
                    return answer;
                }
            }
        }
        let length = answer.header("content-length").unwrap().parse().unwrap();
        answer.body = self.exactly(length);
        answer
    }

    /// A head alone.
    pub fn head(&mut self) -> Answer {
        let head = self.until("\r\n\r\n");
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer {
            status,
            head,
            body: String::new(),
        }
    }

    /// Everything up to the end, and which end it was.
    pub fn end(mut self) -> (String, End) {
        loop {
            if let Err(end) = self.fill() {
                return (String::from_utf8(self.received).unwrap(), end);
            }
        }
    }

    /// Asserts that nothing more comes, and that the other side closes.
    pub fn ends(self) {
        let (rest, _) = self.end();
        assert_eq!(rest, "", "bytes behind the last answer");
    }

    /// Asserts that nothing has come, not even the end.
    pub fn is_silent(&self) {
        assert!(self.received.is_empty());
        assert!(!is_ready(&self.stream, PollFlags::IN), "something came");
    }

    pub fn shutdown_write(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Closes so that the other side gets a reset and no end of stream.
    pub fn reset(self) {
        rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO)).unwrap();
    }

    /// Writes `bytes` until the kernel takes no more. How many it took.
    pub fn send_what_fits(&mut self, bytes: &[u8]) -> usize {
        self.stream.set_nonblocking(true).unwrap();
        let mut taken = 0;
        while taken < bytes.len() {
            match self.stream.write(&bytes[taken..]) {
                Ok(count) => taken += count,
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
                    break;
                }
            }
        }
        self.stream.set_nonblocking(false).unwrap();
        taken
    }
}

/// A listener for a scripted peer.
pub struct Peer {
    listener: TcpListener,
    pub address: SocketAddr,
}

impl Peer {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        Self { listener, address }
    }

    pub fn url(&self, path: &str) -> url::Url {
        format!("http://{}{path}", self.address).parse().unwrap()
    }

    pub fn accept(&self) -> Raw {
        let patience = Timespec {
            tv_sec: PATIENCE.as_secs() as i64,
            tv_nsec: 0,
        };
        let mut waited = [PollFd::new(&self.listener, PollFlags::IN)];
        assert_eq!(
            poll(&mut waited, Some(&patience)),
            Ok(1),
            "nobody connected"
        );
        Raw::of(self.listener.accept().unwrap().0)
    }

    /// Whether a connection waits to be accepted.
    pub fn has_caller(&self) -> bool {
        is_ready(&self.listener, PollFlags::IN)
    }

    /// Takes the last room for connections: from now on the kernel answers no more of them (Linux holds one more
    /// than the backlog says).
    pub fn fill_backlog(&self) -> TcpStream {
        rustix::net::listen(&self.listener, 0).unwrap();
        TcpStream::connect(self.address).unwrap()
    }
}

fn is_ready(socket: &impl std::os::fd::AsFd, flags: PollFlags) -> bool {
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut waited = [PollFd::new(socket, flags)];
    poll(&mut waited, Some(&at_once)).unwrap() > 0
}
