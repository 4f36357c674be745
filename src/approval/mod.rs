//! Asking a person over the elicitation protocol: where, what, and what the reply means.

mod ask;
mod forwarded;
pub mod url;
pub mod wire;

pub use ask::{AskTiming, Asker, EndpointFault};
pub use forwarded::{Channel, Forwarded, KEY, Unreadable, ttl_of};
pub use url::{Allowlist, ApprovalUrl, RequestId};
pub use wire::{Answer, Question};
