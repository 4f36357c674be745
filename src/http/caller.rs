//! Whether the caller is still there.

use std::sync::Arc;

use super::inbound::Inbound;

/// Who waits for a result, looked at without waiting.
pub trait Caller: Send + Sync + 'static {
    /// Whether the caller's close is visible at this process now.
    fn has_left(&self) -> bool;
}

/// A look at the caller's socket from inside a handler. Cloning gives the same socket.
#[derive(Clone)]
pub struct CallerSocket(Arc<Inbound>);

impl CallerSocket {
    pub(super) const fn new(inbound: Arc<Inbound>) -> Self {
        Self(inbound)
    }
}

impl Caller for CallerSocket {
    /// Whether the caller's close is visible here, looked at now and without waiting: the end of its stream, a
    /// reset, or so many bytes sent behind the request that a close could hide behind them.
    ///
    /// A half-close counts as leaving: HTTP/1.1 gives it no meaning, a caller of ours has no reason for it, and a
    /// caller that cannot be told from one that left is not one to act for.
    fn has_left(&self) -> bool {
        self.0.look()
    }
}
