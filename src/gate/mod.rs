//! The one place that decides whether a call may act.
//!
//! ```text
//! call -> (slug, tool, arguments, principal, channel) -> CallDigest
//!      -> Gate::ask(..) -> Approved(Permit) | every other Outcome, none of which can act
//! ```

mod ask;
mod digest;
mod outcome;
mod permit;

pub use crate::http::Caller;
pub use ask::{Ask, Gate};
pub use digest::{CallDigest, CallIdentity, PromptDigest};
pub use outcome::{NotAsked, OUTCOME_KEY, Outcome, UNKNOWN};
pub use permit::{Approval, Permit, Policy, PolicyChanged, Spent, Unspent};
