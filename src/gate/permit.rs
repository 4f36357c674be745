//! The permit: proof that a person said yes to one call.

use std::fmt;
use std::sync::Arc;

use super::digest::{CallDigest, PromptDigest};
use crate::http::Caller;
use crate::time::{Clock, Deadline};

/// What was decided beforehand and may have changed while a person decided: the token, the allowlist, the tool.
pub trait Policy: Send + Sync + 'static {
    /// Whether the call is still allowed, asked at the moment that a permit is spent.
    ///
    /// # Errors
    /// [`PolicyChanged`] with the reason.
    fn still_allows(&self) -> Result<(), PolicyChanged>;
}

/// Why a call that was allowed when it was asked about is not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyChanged {
    /// An operator has stopped every tool that asks.
    Frozen,
    /// The rules say something else; the reason.
    Rules(&'static str),
}

impl PolicyChanged {
    /// The one word for the model, the audit and the metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Frozen => "frozen",
            Self::Rules(_) => "policy-changed",
        }
    }
}

impl fmt::Display for PolicyChanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Frozen => "an operator has stopped every tool that asks a person",
            Self::Rules(why) => why,
        })
    }
}

/// A person's yes to one call. It is spent by value, so once; only the gate's accept arm makes one.
///
/// A thing that acts takes a permit by value and spends it as its last step before acting:
///
/// ```compile_fail
/// # use countersign::gate::{CallDigest, Permit};
/// fn twice(permit: Permit, digest: &CallDigest) {
///     let _ = permit.spend(digest);
///     let _ = permit.spend(digest); // moved: does not compile
/// }
/// ```
#[must_use = "a yes that is not spent does nothing"]
pub struct Permit {
    digest: CallDigest,
    deadline: Deadline,
    approval: Approval,
    clock: Clock,
    caller: Arc<dyn Caller>,
    policy: Arc<dyn Policy>,
}

/// What a person said yes to, and when: goes with the result.
#[derive(Clone, Copy, Debug)]
pub struct Approval {
    /// The prompt that the person read.
    pub prompt: PromptDigest,
    /// When the yes was read, milliseconds since the Unix epoch.
    pub answered_wall_ms: u64,
}

/// Proof that a permit was spent just now.
#[derive(Debug)]
#[must_use]
pub struct Spent(());

/// Why a permit could not be spent. Nothing has acted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unspent {
    /// The caller's close is visible: nobody would receive the result.
    CallerLeft,
    /// The window is over.
    Expired,
    /// The call about to act is not the call that was shown.
    OtherCall,
    /// What was decided beforehand has changed.
    Policy(PolicyChanged),
}

impl fmt::Display for Unspent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CallerLeft => f.write_str("the caller left before the call could act"),
            Self::Expired => f.write_str("the yes came too late to be used"),
            Self::OtherCall => f.write_str("the call is not the one that was shown"),
            Self::Policy(changed) => write!(f, "{changed}"),
        }
    }
}

impl std::error::Error for Unspent {}

impl Unspent {
    /// The one word for the model, the audit and the metrics.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::CallerLeft => "caller-left",
            Self::Expired => "expired",
            Self::OtherCall => "policy-changed",
            Self::Policy(changed) => changed.word(),
        }
    }
}

impl Permit {
    /// For the gate's accept arm alone.
    pub(super) fn new(
        digest: CallDigest,
        deadline: Deadline,
        approval: Approval,
        clock: Clock,
        caller: Arc<dyn Caller>,
        policy: Arc<dyn Policy>,
    ) -> Self {
        Self {
            digest,
            deadline,
            approval,
            clock,
            caller,
            policy,
        }
    }

    /// When it can no longer be spent.
    #[must_use]
    pub const fn deadline(&self) -> &Deadline {
        &self.deadline
    }

    /// What was approved, and when.
    #[must_use]
    pub const fn approval(&self) -> Approval {
        self.approval
    }

    /// Spends it for the call with `digest`, which must be the one that was shown. Synchronous: between this and the
    /// act there is no await at which anything could change.
    ///
    /// # Errors
    /// [`Unspent`]; the permit is gone all the same.
    pub fn spend(self, digest: &CallDigest) -> Result<Spent, Unspent> {
        if *digest != self.digest {
            return Err(Unspent::OtherCall);
        }
        self.policy.still_allows().map_err(Unspent::Policy)?;
        if self.deadline.passed(&self.clock) {
            return Err(Unspent::Expired);
        }
        // Last, and as late as it can be: no act once the close is visible here (design section 1).
        if self.caller.has_left() {
            return Err(Unspent::CallerLeft);
        }
        Ok(Spent(()))
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::super::digest::CallIdentity;
    use super::*;
    use crate::json::Exact;

    #[derive(Default)]
    struct World {
        left: AtomicBool,
        changed: AtomicBool,
    }

    impl Caller for World {
        fn has_left(&self) -> bool {
            self.left.load(Ordering::Relaxed)
        }
    }

    impl Policy for World {
        fn still_allows(&self) -> Result<(), PolicyChanged> {
            match self.changed.load(Ordering::Relaxed) {
                true => Err(PolicyChanged::Rules("the token has ended")),
                false => Ok(()),
            }
        }
    }

    fn digest(
        slug: &str,
        tool: &str,
        arguments: &str,
        principal: &str,
        channel: Option<&str>,
    ) -> CallDigest {
        let arguments = &Exact::parse(arguments).unwrap();
        CallDigest::of(&CallIdentity {
            slug,
            tool,
            arguments,
            principal,
            channel,
        })
    }

    fn shown() -> CallDigest {
        digest(
            "mail",
            "send",
            r#"{"to":"a","n":9007199254740993}"#,
            "caller",
            Some("c"),
        )
    }

    fn permit(clock: &Clock, world: &Arc<World>) -> Permit {
        let approval = Approval {
            prompt: PromptDigest::of("?"),
            answered_wall_ms: 0,
        };
        let deadline = clock.deadline(Duration::from_secs(105));
        Permit::new(
            shown(),
            deadline,
            approval,
            clock.clone(),
            world.clone(),
            world.clone(),
        )
    }

    #[test]
    fn it_is_spent_for_the_call_that_was_shown_and_for_no_other() {
        let clock = Clock::hand_driven(0);
        let world = Arc::new(World::default());
        assert!(permit(&clock, &world).spend(&shown()).is_ok());
        let arguments = r#"{"n":9007199254740993,"to":"a"}"#;
        assert!(
            permit(&clock, &world)
                .spend(&digest("mail", "send", arguments, "caller", Some("c")))
                .is_ok(),
            "the order of members means nothing"
        );
        for other in [
            digest("mai", "lsend", arguments, "caller", Some("c")),
            digest("mail", "send2", arguments, "caller", Some("c")),
            digest(
                "mail",
                "send",
                r#"{"n":9007199254740992,"to":"a"}"#,
                "caller",
                Some("c"),
            ),
            digest(
                "mail",
                "send",
                r#"{"n":9007199254740993,"to":"b"}"#,
                "caller",
                Some("c"),
            ),
            digest(
                "mail",
                "send",
                r#"{"n":9007199254740993,"to":"a","bcc":"x"}"#,
                "caller",
                Some("c"),
            ),
            digest("mail", "send", arguments, "other", Some("c")),
            digest("mail", "send", arguments, "caller", Some("d")),
            digest("mail", "send", arguments, "caller", None),
        ] {
            assert_eq!(
                permit(&clock, &world).spend(&other).err(),
                Some(Unspent::OtherCall)
            );
        }
    }

    #[test]
    fn the_last_millisecond_counts_and_the_deadline_does_not() {
        let world = Arc::new(World::default());
        for (ms, spent) in [(104_999, true), (105_000, false), (105_001, false)] {
            for slept in [false, true] {
                let clock = Clock::hand_driven(0);
                let permit = permit(&clock, &world);
                let by = Duration::from_millis(ms);
                if slept {
                    clock.suspend(by)
                } else {
                    clock.advance(by)
                }
                assert_eq!(
                    permit.spend(&shown()).is_ok(),
                    spent,
                    "{ms} ms, asleep: {slept}"
                );
            }
        }
    }

    #[test]
    fn a_caller_that_left_and_a_policy_that_changed_stop_it() {
        let clock = Clock::hand_driven(0);
        let world = Arc::new(World::default());
        let (first, second) = (permit(&clock, &world), permit(&clock, &world));
        world.left.store(true, Ordering::Relaxed);
        assert_eq!(first.spend(&shown()).err(), Some(Unspent::CallerLeft));
        world.changed.store(true, Ordering::Relaxed);
        let changed = PolicyChanged::Rules("the token has ended");
        assert_eq!(second.spend(&shown()).err(), Some(Unspent::Policy(changed)));
    }
}
