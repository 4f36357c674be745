//! A child that stays: its three standard streams belong to whoever started it, for as long as it lives.

use std::fmt;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::{ChildStderr, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::task::{Context, Poll, ready};

use rustix::process::Signal;
use smol::Async;
use smol::io::{AsyncRead, AsyncWrite};

use super::World;
use super::process::{READS_IN_A_ROW, Running, SpawnFault, TERM_TIME, exit_of};
use crate::time::Instant;

/// A program to run without a shell, for as long as it is wanted.
#[derive(Clone)]
pub struct Program {
    /// The program, found on the PATH of `env`, and its arguments.
    pub argv: Vec<String>,
    /// The whole environment: nothing is inherited.
    pub env: Vec<(String, String)>,
    /// The working directory; `None`: this process's.
    pub cwd: Option<PathBuf>,
}

/// The arguments and the environment can hold secrets: only the program is shown.
impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("program", &self.argv.first())
            .finish_non_exhaustive()
    }
}

/// A running child with its input and outputs. One task may poll it.
///
/// Dropping it ends the child as [`Piped::end`] does, in a task of the world's executor, so that nobody waits. Where that
/// executor is gone, or goes before the child has ended, its group is killed at once.
pub struct Piped {
    /// `None` once it has ended.
    living: Option<Living>,
}

struct Living {
    running: Running,
    exit: Async<OwnedFd>,
    /// Each is `None` once it is closed.
    stdin: Option<Async<ChildStdin>>,
    stdout: Option<Async<ChildStdout>>,
    stderr: Option<Async<ChildStderr>>,
}

impl World {
    /// Starts `program` in a process group of its own.
    ///
    /// # Errors
    /// [`SpawnFault`]; nothing has run, or what could not be watched was killed at once.
    pub fn start_piped(&self, program: &Program) -> Result<Piped, SpawnFault> {
        let cwd = program.cwd.as_deref();
        let (argv, env) = (&program.argv, &program.env);
        let mut running = Running::start(self, argv, env, cwd, Stdio::piped())?;
        let child = running.child.as_mut().ok_or(SpawnFault::NotFound)?;
        let exit = exit_of(child)?;
        let stdin = child.stdin.take().map(Async::new).transpose()?;
        let stdout = child.stdout.take().map(Async::new).transpose()?;
        let stderr = child.stderr.take().map(Async::new).transpose()?;
        Ok(Piped {
            living: Some(Living {
                running,
                exit,
                stdin,
                stdout,
                stderr,
            }),
        })
    }
}

impl Piped {
    /// Writes to its standard input. After an error the input is closed.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let closed = || Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        let Some(living) = &mut self.living else {
            return closed();
        };
        let Some(stdin) = &mut living.stdin else {
            return closed();
        };
        let written = ready!(Pin::new(stdin).poll_write(cx, bytes));
        if written.is_err() {
            living.stdin = None;
        }
        Poll::Ready(written)
    }

    /// Reads from its standard output; 0 at its end, however that came.
    pub fn poll_stdout(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<usize> {
        match &mut self.living {
            Some(living) => poll_read(&mut living.stdout, cx, into),
            None => Poll::Ready(0),
        }
    }

    /// Reads from its standard error; 0 at its end, however that came.
    pub fn poll_stderr(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<usize> {
        match &mut self.living {
            Some(living) => poll_read(&mut living.stderr, cx, into),
            None => Poll::Ready(0),
        }
    }

    /// Ready once the child has ended. What it left behind in its group may still run, and hold its outputs open.
    pub fn poll_exit(&self, cx: &mut Context<'_>) -> Poll<()> {
        match &self.living {
            Some(living) => living.exit.poll_readable(cx).map(drop),
            None => Poll::Ready(()),
        }
    }

    /// Kills its whole group. A process with a session of its own (`setsid`) is out of reach.
    pub fn kill(&self) {
        if let Some(living) = &self.living {
            living.running.signal(Signal::KILL);
        }
    }

    /// Ends it: its input is closed; after 2 s its group is sent SIGTERM; after 2 s more its group is killed; and it is
    /// reaped. What it still writes is read and thrown away. How it ended, if that could be seen.
    ///
    /// Dropping the future leaves the rest to a task, like dropping the child itself.
    pub async fn end(mut self) -> Option<ExitStatus> {
        let status = match &mut self.living {
            Some(living) => living.end().await,
            None => None,
        };
        self.living = None;
        status
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        let Some(mut living) = self.living.take() else {
            return;
        };
        // Its end outlives whoever wanted it. Without an executor `living` is dropped here, and killed.
        let world = living.running.world.clone();
        let ending = world.spawn(async move { living.end().await });
        ending.into_iter().for_each(smol::Task::detach);
    }
}

impl Living {
    async fn end(&mut self) -> Option<ExitStatus> {
        self.stdin = None;
        let clock = self.running.world.clock.clone();
        for signal in [Signal::TERM, Signal::KILL] {
            if self.exited(Some(clock.after(TERM_TIME))).await {
                break;
            }
            self.running.signal(signal);
        }
        self.exited(None).await;
        self.running.reap()
    }

    /// Whether it has ended by then. Its last words are read meanwhile: for a full pipe, or one without a reader, it
    /// would not end as it wants to.
    async fn exited(&mut self, until: Option<Instant>) -> bool {
        let clock = self.running.world.clock.clone();
        let mut sleep = until.map(|until| clock.sleep_until(until));
        std::future::poll_fn(|cx| {
            if self.exit.poll_readable(cx).is_ready() {
                return Poll::Ready(true);
            }
            drain(&mut self.stdout, cx);
            drain(&mut self.stderr, cx);
            match &mut sleep {
                Some(sleep) => Pin::new(sleep).poll(cx).map(|()| false),
                None => Poll::Pending,
            }
        })
        .await
    }
}

fn poll_read<P: AsyncRead + Unpin>(
    pipe: &mut Option<P>,
    cx: &mut Context<'_>,
    into: &mut [u8],
) -> Poll<usize> {
    let Some(open) = pipe else {
        return Poll::Ready(0);
    };
    let count = ready!(Pin::new(open).poll_read(cx, into)).unwrap_or(0);
    if count == 0 {
        *pipe = None;
    }
    Poll::Ready(count)
}

/// Throws away what there is, one pipe full at the most before it is everyone else's turn.
fn drain<P: AsyncRead + Unpin>(pipe: &mut Option<P>, cx: &mut Context<'_>) {
    let mut some = [0; 4096];
    for _ in 0..READS_IN_A_ROW {
        match poll_read(pipe, cx, &mut some) {
            Poll::Ready(count) if count > 0 => {}
            _ => return,
        }
    }
    cx.waker().wake_by_ref();
}
