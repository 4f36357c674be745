//! The outside world as one value: clock, network, randomness, and where tasks run.
//!
//! Everything above takes these from a [`World`] that is passed down, never from a global, so that a test can give
//! it a clock that is driven by hand, a network in memory and randomness from a seed (design section 2).

pub mod child;
mod dial;
mod ending;
pub mod memory;
mod net;
pub mod process;
mod public;
mod random;
mod resolve;
mod runtime;
pub mod tls;

pub use ending::Ending;
pub use net::{ConnectFault, Listener, Net, Stream};
pub use random::Random;
pub use runtime::Runtime;

use std::future::Future;
use std::sync::Weak;

use smol::{Executor, Task};

use crate::time::Clock;

/// A handle to the outside world. Cloning is cheap and gives the same world.
#[derive(Clone)]
pub struct World {
    /// Time and timers.
    pub clock: Clock,
    /// Connections and listeners.
    pub net: Net,
    /// Unpredictable bytes.
    pub random: Random,
    /// Whether the process is about to end.
    pub ending: Ending,
    /// The executor of the [`Runtime`] that made this world. Weak: tasks hold worlds, and an executor that its own
    /// tasks kept alive would never be dropped.
    executor: Weak<Executor<'static>>,
}

impl World {
    /// Starts a task that lives until it ends, its handle is dropped, or the [`Runtime`] is dropped.
    ///
    /// For what listens and for owners that outlive calls, never inside a call: a call is one future, so that
    /// dropping it ends all of it. Returns `None` when the runtime is gone; `future` is then dropped.
    pub fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<Task<T>> {
        Some(self.executor.upgrade()?.spawn(future))
    }
}
