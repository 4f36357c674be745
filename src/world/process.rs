//! Child processes: each in a group of its own, which ends with the future that runs it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::process::{Child, ExitStatus, Stdio};
use std::task::Poll;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use smol::Async;
use smol::io::{AsyncRead, AsyncWriteExt};

use super::World;
use crate::time::Instant;

/// Between SIGTERM and SIGKILL for a child that has run out of time: long enough to put things in order.
pub(super) const TERM_TIME: Duration = Duration::from_secs(2);

/// How long output is still read after the child has ended: a process that left the group may hold the pipe for ever.
const PIPE_GRACE: Duration = Duration::from_millis(200);

/// Reads of one output in a row, 64 KB as a pipe holds: then it is everyone else's turn. Without a bound a child that
/// writes without end kept the thread for 69 ms at a time, and no deadline was looked at.
pub(super) const READS_IN_A_ROW: usize = 16;

/// A program to run, without a shell.
#[derive(Clone)]
pub struct Command {
    /// The program, found on the PATH of `env`, and its arguments.
    pub argv: Vec<String>,
    /// The whole environment: nothing is inherited.
    pub env: Vec<(String, String)>,
    /// The working directory; `None`: this process's.
    pub cwd: Option<PathBuf>,
    /// What it reads on its standard input; `None`: nothing, at once at its end.
    pub stdin: Option<Vec<u8>>,
    /// Bytes kept of each output; the rest is read and thrown away, so that the child is never blocked by it.
    pub output_bytes: usize,
}

/// The arguments, the environment and the input can hold secrets: only the program is shown.
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("program", &self.argv.first())
            .finish_non_exhaustive()
    }
}

/// A program that has run.
#[derive(Debug)]
pub struct Finished {
    /// Its exit code; `None` when a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// What it wrote, up to the bound.
    pub stdout: Vec<u8>,
    /// What it wrote, up to the bound.
    pub stderr: Vec<u8>,
    /// Whether either was cut.
    pub truncated: bool,
    /// Whether it was ended for running out of time.
    pub timed_out: bool,
}

/// Why a program could not be started. Nothing has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnFault {
    /// No program of that name, on this PATH.
    NotFound,
    /// It may not be run.
    NotAllowed,
    /// This process, or the machine, has no descriptor left for its pipes.
    NoDescriptor,
    /// Every other reason.
    Other(io::ErrorKind),
}

impl fmt::Display for SpawnFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("the program was not found"),
            Self::NotAllowed => f.write_str("the program may not be run"),
            Self::NoDescriptor => {
                f.write_str("no descriptor is left to start the program with (ulimit -n)")
            }
            Self::Other(kind) => write!(f, "the program could not be started: {kind}"),
        }
    }
}

impl std::error::Error for SpawnFault {}

impl From<io::Error> for SpawnFault {
    fn from(error: io::Error) -> Self {
        if let Some(Errno::MFILE | Errno::NFILE) = Errno::from_io_error(&error) {
            return Self::NoDescriptor;
        }
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::PermissionDenied => Self::NotAllowed,
            kind => Self::Other(kind),
        }
    }
}

impl World {
    /// Starts `command` at once and gives the future that sees it to its end, no later than `deadline`.
    ///
    /// Dropping the future, polled or not, kills the child's whole process group. A grandchild that has made a session of its
    /// own (`setsid`) is no longer in that group and survives; there is no portable way to reach it.
    ///
    /// # Errors
    /// [`SpawnFault`]; nothing has run.
    pub fn start(
        &self,
        command: &Command,
        deadline: Instant,
    ) -> Result<impl Future<Output = io::Result<Finished>> + Send + use<>, SpawnFault> {
        let stdin = match command.stdin {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        };
        let cwd = command.cwd.as_deref();
        let mut running = Running::start(self, &command.argv, &command.env, cwd, stdin)?;
        let (input, limit) = (command.stdin.clone(), command.output_bytes);
        Ok(async move { running.finish(input, limit, deadline).await })
    }
}

/// A child and its group. Dropping it kills both and has the child reaped.
pub(super) struct Running {
    pub(super) world: World,
    /// `None` once it was reaped.
    pub(super) child: Option<Child>,
}

impl Running {
    /// Starts a program in a group of its own, with that environment and no other, and pipes for its outputs.
    pub(super) fn start(
        world: &World,
        argv: &[String],
        env: &[(String, String)],
        cwd: Option<&Path>,
        stdin: Stdio,
    ) -> Result<Self, SpawnFault> {
        let (program, arguments) = argv.split_first().ok_or(SpawnFault::NotFound)?;
        let mut child = std::process::Command::new(program);
        child
            .args(arguments)
            .env_clear()
            .envs(env.iter().map(|(name, value)| (name, value)))
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        if let Some(cwd) = cwd {
            child.current_dir(cwd);
        }
        Ok(Self {
            world: world.clone(),
            child: Some(child.spawn()?),
        })
    }

    /// Signals the whole group, if the child has not been reaped.
    pub(super) fn signal(&self, which: Signal) {
        if let Some(child) = &self.child {
            signal(child, which);
        }
    }

    /// Reaps a child that has ended, and kills what it left behind in its group; before, while its pid is its own.
    pub(super) fn reap(&mut self) -> Option<ExitStatus> {
        self.signal(Signal::KILL);
        let status = self.child.as_mut()?.wait().ok();
        self.child = None;
        status
    }

    async fn finish(
        &mut self,
        input: Option<Vec<u8>>,
        limit: usize,
        deadline: Instant,
    ) -> io::Result<Finished> {
        let world = self.world.clone();
        let Some(child) = &mut self.child else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let exit = exit_of(child)?;
        let stdin = child.stdin.take().map(Async::new).transpose()?;
        let stdout = child.stdout.take().map(Async::new).transpose()?;
        let stderr = child.stderr.take().map(Async::new).transpose()?;
        let (mut out, mut err) = (Output::new(limit), Output::new(limit));
        let (timed_out, whole);
        {
            let mut reading = pin!(smol::future::zip(out.read(stdout), err.read(stderr)));
            let mut writing = pin!(async move {
                if let (Some(mut stdin), Some(input)) = (stdin, input) {
                    // A child that does not read all of it is free not to: what it makes of that is in its exit code.
                    let _ = stdin.write_all(&input).await;
                }
            });
            let (mut read_all, mut written) = (false, false);
            // Writes and reads beside the wait for the exit: a child with a full pipe would never end.
            let mut ended = async |until: Option<Instant>, exit: Option<&Async<OwnedFd>>| {
                let mut sleep = until.map(|until| world.clock.sleep_until(until));
                let mut exited = pin!(async {
                    match exit {
                        Some(exit) => drop(exit.readable().await),
                        None => std::future::pending().await,
                    }
                });
                poll_fn(|cx| {
                    written = written || writing.as_mut().poll(cx).is_ready();
                    read_all = read_all || reading.as_mut().poll(cx).is_ready();
                    if exited.as_mut().poll(cx).is_ready() || (exit.is_none() && read_all) {
                        return Poll::Ready(true);
                    }
                    match &mut sleep {
                        Some(sleep) => pin!(sleep).poll(cx).map(|()| false),
                        None => Poll::Pending,
                    }
                })
                .await
            };
            timed_out = !ended(Some(deadline), Some(&exit)).await;
            if timed_out {
                signal(child, Signal::TERM);
                if !ended(Some(world.clock.after(TERM_TIME)), Some(&exit)).await {
                    signal(child, Signal::KILL);
                    ended(None, Some(&exit)).await;
                }
            }
            // What it left behind in its group ends with it. Its pid is still its own: it has not been reaped.
            signal(child, Signal::KILL);
            whole = ended(Some(world.clock.after(PIPE_GRACE)), None).await;
        }
        let status = child.wait()?;
        self.child = None;
        Ok(Finished {
            exit_code: status.code(),
            signal: status.signal(),
            truncated: out.truncated || err.truncated || !whole,
            stdout: out.bytes,
            stderr: err.bytes,
            timed_out,
        })
    }
}

/// Readable once the child has ended, without reaping it.
pub(super) fn exit_of(child: &Child) -> io::Result<Async<OwnedFd>> {
    let pid = pid_of(child).ok_or(io::ErrorKind::NotFound)?;
    Async::new(pidfd_open(pid, PidfdFlags::NONBLOCK)?)
}

fn pid_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}

/// Signals the group of a child that has not been reaped, so that its number cannot be another's.
fn signal(child: &Child, signal: Signal) {
    if let Some(pid) = pid_of(child)
        && let Err(error) = kill_process_group(pid, signal)
        && error != rustix::io::Errno::SRCH
    {
        log::warn!("a process group could not be signalled: {error}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(child) = self.child.take() else {
            return;
        };
        signal(&child, Signal::KILL);
        // Waiting for its end outlives the call, so the world's executor takes it over.
        let reaper = self.world.spawn(Killed(Some(child)).reap());
        reaper.into_iter().for_each(smol::Task::detach);
    }
}

/// A killed child that is still to be reaped. Dropping it, as the end of the executor does, leaves that to a thread.
struct Killed(Option<Child>);

impl Killed {
    async fn reap(mut self) {
        let Some(Ok(exit)) = self.0.as_ref().map(exit_of) else {
            return;
        };
        let _ = exit.readable().await;
        if let Some(mut child) = self.0.take() {
            let _ = child.wait();
        }
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            smol::unblock(move || child.wait()).detach();
        }
    }
}

/// One output of a child, up to a bound.
struct Output {
    bytes: Vec<u8>,
    limit: usize,
    truncated: bool,
}

impl Output {
    const fn new(limit: usize) -> Self {
        Self {
            bytes: Vec::new(),
            limit,
            truncated: false,
        }
    }

    async fn read(&mut self, pipe: Option<impl AsyncRead + Unpin>) {
        let Some(mut pipe) = pipe else { return };
        // The array is on the stack of each poll, not in the future: a call that waits to act would hold it all along.
        poll_fn(|cx| {
            let mut some = [0; 4096];
            for _ in 0..READS_IN_A_ROW {
                match Pin::new(&mut pipe).poll_read(cx, &mut some) {
                    Poll::Ready(Ok(count)) if count > 0 => self.keep(&some[..count]),
                    Poll::Ready(_) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    fn keep(&mut self, bytes: &[u8]) {
        let kept = bytes.len().min(self.limit - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..kept]);
        self.truncated |= kept < bytes.len();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::{Net, Random, Runtime};
    use super::*;
    use crate::time::Clock;

    fn runtime() -> Runtime {
        Runtime::with(Clock::hand_driven(0), Net::real(), Random::seeded(1))
    }

    fn shell(script: &str) -> Command {
        Command {
            argv: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            env: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
            cwd: None,
            stdin: None,
            output_bytes: 1000,
        }
    }

    fn run(command: Command) -> Finished {
        let runtime = runtime();
        let world = runtime.world().clone();
        runtime.block_on(async move {
            let deadline = world.clock.after(Duration::from_secs(60));
            world.start(&command, deadline).unwrap().await.unwrap()
        })
    }

    #[test]
    fn outputs_and_exit_code_come_back() {
        let finished = run(shell("echo out; echo err >&2; exit 3"));
        assert_eq!(finished.exit_code, Some(3));
        assert_eq!(
            (&finished.stdout[..], &finished.stderr[..]),
            (&b"out\n"[..], &b"err\n"[..])
        );
        assert!(!finished.truncated && !finished.timed_out);
    }

    #[test]
    fn the_environment_is_only_what_was_given() {
        let mut command = shell("env");
        command.env.push(("OWN".to_owned(), "a b\nc".to_owned()));
        let finished = run(command);
        let text = String::from_utf8(finished.stdout).unwrap();
        let names: Vec<_> = text
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, _)| name)
            .collect();
        assert!(
            names
                .iter()
                .all(|name| ["PATH", "OWN", "PWD", "_", "SHLVL", "OLDPWD"].contains(name)),
            "{names:?}"
        );
    }

    #[test]
    fn arguments_arrive_as_they_are() {
        let mut command = shell("");
        command.argv = ["printf", "%s|", "a b", "-x", "c\nd", "$(id)", "*"]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(run(command).stdout, b"a b|-x|c\nd|$(id)|*|");
    }

    #[test]
    fn a_flood_is_cut_and_does_not_block_the_child() {
        let finished = run(shell("head -c 3000000 /dev/zero; echo done >&2"));
        assert_eq!(finished.stdout.len(), 1000);
        assert!(finished.truncated);
        assert_eq!(finished.stderr, b"done\n");
    }

    #[test]
    fn what_cannot_start_says_why() {
        let world = runtime().world().clone();
        let mut command = shell("");
        command.argv = vec!["/nonexistent/program".to_owned()];
        assert_eq!(
            world.start(&command, Instant::from_ms(9)).err(),
            Some(SpawnFault::NotFound)
        );
        command.argv = vec!["/etc/passwd".to_owned()];
        assert_eq!(
            world.start(&command, Instant::from_ms(9)).err(),
            Some(SpawnFault::NotAllowed)
        );
        command.argv = Vec::new();
        assert!(world.start(&command, Instant::from_ms(9)).is_err());
    }

    fn alive(pid: u32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        // A zombie has ended; its reaper comes when it comes.
        stat.is_ok_and(|stat| {
            !stat
                .rsplit(')')
                .next()
                .unwrap_or_default()
                .starts_with(" Z")
        })
    }

    /// A file of this test's own, removed with the value.
    struct Scratch(std::path::PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("countersign-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            // One that a killed test of the same process id left behind would look ready.
            let _ = std::fs::remove_file(&path);
            Self(path)
        }

        fn pids(&self) -> Vec<u32> {
            pids(&self.0)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// A script that ignores SIGTERM, forks twice, and writes the three pids to `file`.
    fn family(file: &Path, inner: &Path) -> Command {
        let (file, inner) = (file.display(), inner.display());
        shell(&format!(
            "trap '' TERM; sleep 600 & a=$!; (trap '' TERM; sleep 600 & echo $! > {inner}; wait) & \
             while [ ! -s {inner} ]; do :; done; echo $$ $a $(cat {inner}) > {file}.tmp; mv {file}.tmp {file}; wait"
        ))
    }

    fn pids(file: &Path) -> Vec<u32> {
        loop {
            if let Ok(text) = std::fs::read_to_string(file)
                && text.ends_with('\n')
            {
                return text
                    .split_whitespace()
                    .map(|pid| pid.parse().unwrap())
                    .collect();
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn dropping_the_future_ends_the_whole_group() {
        let runtime = runtime();
        let world = runtime.world().clone();
        let (file, inner) = (Scratch::new("family"), Scratch::new("family.c"));
        let command = family(&file.0, &inner.0);
        let ids = file.0.clone();
        let pids = runtime.block_on(async move {
            let deadline = world.clock.after(Duration::from_secs(60));
            let running = world.start(&command, deadline).unwrap();
            let pids = smol::unblock(move || pids(&ids));
            let pids = smol::future::or(async { Some(pids.await) }, async {
                running.await.ok().and(None)
            })
            .await;
            pids.expect("the family ended by itself")
        });
        assert_eq!(pids.len(), 3);
        while pids.iter().any(|pid| alive(*pid)) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_child_out_of_time_is_ended_even_if_it_ignores_sigterm() {
        let runtime = runtime();
        let world = runtime.world().clone();
        let file = Scratch::new("deaf");
        let command = shell(&format!(
            "trap '' TERM; echo 1 > {}; while :; do sleep 600; done",
            file.0.display()
        ));
        let ready = file.0.clone();
        let finished = runtime.block_on(async move {
            let deadline = world.clock.after(Duration::from_secs(1));
            let running = world.start(&command, deadline).unwrap();
            let hand = async {
                smol::unblock(move || pids(&ready)).await;
                loop {
                    world.clock.advance(Duration::from_millis(500));
                    smol::future::yield_now().await;
                }
            };
            smol::future::or(running, hand).await.unwrap()
        });
        assert!(finished.timed_out);
        assert_eq!(finished.exit_code, None);
        assert_eq!(finished.signal, Some(9));
    }

    /// Neither running nor waiting to be reaped: not in the process table at all.
    fn gone(pid: u32) -> bool {
        !Path::new(&format!("/proc/{pid}")).exists()
    }

    #[test]
    fn input_is_the_given_bytes_and_then_the_end() {
        let bytes: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut command = shell("cat; echo end >&2");
        command.output_bytes = bytes.len();
        command.stdin = Some(bytes.clone());
        let finished = run(command);
        assert!(finished.stdout == bytes && !finished.truncated);
        assert_eq!(finished.stderr, b"end\n");
        // None is an end at once, not this process's input.
        assert_eq!(run(shell("cat; echo end")).stdout, b"end\n");
    }

    #[test]
    fn a_child_may_close_any_of_its_pipes() {
        let megabyte = vec![b'x'; 1 << 20];
        for (script, stdout) in [
            ("exit 4", ""),
            ("exec <&-; echo unread; exit 4", "unread\n"),
            ("head -c 3; exit 4", "xxx"),
            // Both outputs are at their end long before the input is.
            ("exec >&- 2>&-; cat >/dev/null || exit 5; exit 4", ""),
        ] {
            let mut command = shell(script);
            command.stdin = Some(megabyte.clone());
            let finished = run(command);
            assert_eq!(finished.exit_code, Some(4), "{script}");
            assert_eq!(finished.stdout, stdout.as_bytes(), "{script}");
            assert!(!finished.truncated, "{script}");
        }
    }

    #[test]
    fn the_bound_is_exact_and_bytes_stay_bytes() {
        for (count, truncated) in [(999, false), (1000, false), (1001, true)] {
            let finished = run(shell(&format!("head -c {count} /dev/zero >&2")));
            assert_eq!(finished.stderr.len(), count.min(1000), "{count}");
            assert_eq!(finished.truncated, truncated, "{count}");
        }
        let finished = run(shell(r"printf '\377\000\303\n'"));
        assert_eq!(finished.stdout, b"\xff\0\xc3\n");
    }

    /// Always has more to give, for longer than one turn may last.
    struct Flood(usize);

    impl AsyncRead for Flood {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            into: &mut [u8],
        ) -> Poll<io::Result<usize>> {
            let left = self.0;
            self.0 = left.saturating_sub(1);
            Poll::Ready(Ok(if left == 0 { 0 } else { into.len() }))
        }
    }

    #[test]
    fn a_flood_gives_way_after_each_pipe_full() {
        let mut output = Output::new(10);
        let mut turns = 0;
        let mut reading = pin!(output.read(Some(Flood(10 * READS_IN_A_ROW))));
        smol::block_on(poll_fn(|cx| {
            turns += 1;
            reading.as_mut().poll(cx)
        }));
        assert_eq!(turns, 11);
    }

    #[test]
    fn a_flood_does_not_outlast_its_deadline() {
        let runtime = Runtime::with(Clock::real(), Net::real(), Random::seeded(1));
        let world = runtime.world().clone();
        let finished = runtime.block_on(async move {
            let command = shell("cat /dev/zero & cat /dev/zero >&2");
            let deadline = world.clock.after(Duration::from_millis(50));
            world.start(&command, deadline).unwrap().await.unwrap()
        });
        assert!(finished.timed_out && finished.truncated);
        assert_eq!((finished.exit_code, finished.signal), (None, Some(15)));
    }

    #[test]
    fn what_it_leaves_in_its_group_ends_with_it() {
        let left = Scratch::new("left");
        let file = left.0.display();
        let finished = run(shell(&format!(
            "(trap '' TERM; sleep 600) & echo $! > {file}; exit 0"
        )));
        // At once and whole, though the one left behind held both pipes.
        assert_eq!(finished.exit_code, Some(0));
        assert!(!finished.truncated && !finished.timed_out);
        for pid in left.pids() {
            while alive(pid) {
                std::thread::yield_now();
            }
        }
    }

    /// The documented limit: a session of its own is out of reach. It must not hold the result up for ever.
    #[test]
    fn a_session_of_its_own_survives_and_holds_the_result_up_for_the_grace_only() {
        let away = Scratch::new("away");
        let file = away.0.display();
        let command = shell(&format!(
            "setsid sh -c \"echo $$ \\$\\$ > {file}; exec sleep 600\" & while [ ! -s {file} ]; do :; done; echo out; exit 6"
        ));
        let runtime = runtime();
        let world = runtime.world().clone();
        let path = away.0.clone();
        let (finished, waited) = runtime.block_on(async move {
            let deadline = world.clock.after(Duration::from_secs(1 << 32));
            let running = world.start(&command, deadline).unwrap();
            let hand = async {
                smol::unblock(move || {
                    let leader = pids(&path)[0];
                    while alive(leader) {
                        std::thread::yield_now();
                    }
                })
                .await;
                loop {
                    smol::unblock(|| ()).await;
                    world.clock.advance(Duration::from_millis(1));
                }
            };
            let finished = smol::future::or(running, hand).await.unwrap();
            // The clock stood still until the leader had ended.
            (finished, Duration::from_millis(world.clock.now().ms()))
        });
        let pid = away.pids()[1];
        assert!(alive(pid));
        let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
        assert_eq!(finished.exit_code, Some(6));
        assert_eq!(finished.stdout, b"out\n");
        assert!(finished.truncated, "nobody saw the end of the output");
        assert!(!finished.timed_out);
        assert!(waited >= PIPE_GRACE, "{waited:?}");
    }

    #[test]
    fn no_zombie_stays_however_the_future_is_dropped() {
        /// When the future is dropped, and whether the executor still runs then.
        #[derive(Clone, Copy, Debug)]
        enum Dropped {
            Unpolled,
            Polled,
            AfterItsRuntime,
        }
        for dropped in [Dropped::Unpolled, Dropped::Polled, Dropped::AfterItsRuntime] {
            let file = Scratch::new(&format!("zombie-{dropped:?}"));
            let command = shell(&format!("echo $$ > {}; sleep 600", file.0.display()));
            let runtime = runtime();
            let world = runtime.world().clone();
            let running = world.start(&command, Instant::from_ms(60_000)).unwrap();
            let mut running = Box::pin(running);
            let pids = file.pids();
            match dropped {
                Dropped::Unpolled => drop(running),
                Dropped::Polled => {
                    smol::block_on(async {
                        assert!(smol::future::poll_once(&mut running).await.is_none());
                    });
                    drop(running);
                }
                Dropped::AfterItsRuntime => {
                    drop(runtime);
                    drop(running);
                    while !pids.iter().all(|pid| gone(*pid)) {
                        std::thread::yield_now();
                    }
                    continue;
                }
            }
            runtime.block_on(async move {
                while !pids.iter().all(|pid| gone(*pid)) {
                    smol::future::yield_now().await;
                }
            });
        }
    }

    #[test]
    fn a_deadline_asks_first_and_the_answer_counts() {
        let ready = Scratch::new("asked");
        let command = shell(&format!(
            "trap 'echo tidy; exit 7' TERM; echo 1 > {}; while :; do sleep 600 & wait; done",
            ready.0.display()
        ));
        let file = ready.0.clone();
        let runtime = runtime();
        let world = runtime.world().clone();
        let finished = runtime.block_on(async move {
            let deadline = world.clock.after(Duration::from_secs(1));
            let running = world.start(&command, deadline).unwrap();
            let hand = async {
                smol::unblock(move || pids(&file)).await;
                world.clock.advance(Duration::from_secs(1));
                std::future::pending().await
            };
            smol::future::or(running, hand).await.unwrap()
        });
        assert!(finished.timed_out);
        assert_eq!((finished.exit_code, finished.signal), (Some(7), None));
        assert_eq!(finished.stdout, b"tidy\n");
    }
}
