//! The owner of a world: its executor and the driver of its timers.

use std::future::Future;
use std::sync::Arc;

use smol::Executor;

use super::{Ending, Net, Random, World};
use crate::time::Clock;

/// Owns the executor on which a world's tasks run. Dropping it drops every task.
///
/// It starts no thread: tasks run while someone awaits [`Runtime::run`] (any executor will do) or is inside
/// [`Runtime::block_on`]. One thread is enough for thousands of waiting calls; a second one cost 2.4 times the CPU
/// at one connection and gained nothing at sixteen.
pub struct Runtime {
    executor: Arc<Executor<'static>>,
    world: World,
}

impl Runtime {
    /// The real clock, network and randomness.
    #[must_use]
    pub fn real() -> Self {
        Self::with(Clock::real(), Net::real(), Random::system())
    }

    /// A world of the given parts: tests mix a hand-driven clock with real sockets, or with sockets in memory.
    #[must_use]
    pub fn with(clock: Clock, net: Net, random: Random) -> Self {
        let executor = Arc::new(Executor::new());
        let driven = clock.clone();
        // A task of its own, so that a tick polls the driver and nothing else.
        executor.spawn(async move { driven.drive().await }).detach();
        let world = World {
            clock,
            net,
            random,
            ending: Ending::default(),
            executor: Arc::downgrade(&executor),
        };
        Self { executor, world }
    }

    /// The world whose tasks run here.
    #[must_use]
    pub const fn world(&self) -> &World {
        &self.world
    }

    /// Runs this world's tasks and `main` on the current thread until `main` completes.
    pub fn block_on<T: Send + 'static>(&self, main: impl Future<Output = T> + Send + 'static) -> T {
        // `main` is a task, so that it is polled for its own wake-ups only (guide/runtime: a future given to `run`
        // itself is polled at every wake-up of the executor).
        let main = self.executor.spawn(main);
        smol::block_on(self.executor.run(main))
    }

    /// Runs this world's tasks inside another executor's task until `until` completes. Dropping the returned future
    /// pauses the tasks; dropping the runtime ends them.
    pub async fn run<T>(&self, until: impl Future<Output = T>) -> T {
        self.executor.run(until).await
    }
}
