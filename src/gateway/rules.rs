//! What the configuration says about calls, as of now: it may be put in another's place while calls wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::metadata::Metadata;
use super::principal::{Callers, Principal};
use super::roster::{Entry, Roster};
use crate::approval::{Allowlist, ApprovalUrl};
use crate::config::Config;
use crate::gate::{Policy, PolicyChanged};
use crate::mcp::{Announcer, Change, Changes};
use crate::time::Clock;

/// The path of the endpoint.
pub(super) const PATH: &str = "/mcp";

/// Who may call what, and who may be asked.
pub(super) struct Rules {
    pub(super) callers: Callers,
    pub(super) metadata: Option<Metadata>,
    pub(super) allowlist: Allowlist,
    pub(super) roster: Roster,
}

impl Rules {
    pub(super) fn new(config: &Config, roster: Roster) -> Self {
        Self {
            callers: Callers::new(config.gateway.tokens.clone()),
            metadata: Metadata::new(
                &config.gateway.authorization_servers,
                PATH,
                config.gateway.tls.is_some(),
            ),
            allowlist: config.gateway.prefixes.clone(),
            roster,
        }
    }
}

/// The rules as of now. Cloning gives the same.
#[derive(Clone)]
pub(super) struct Current {
    rules: Arc<Mutex<Arc<Rules>>>,
    /// Whether every tool that asks is stopped.
    frozen: Arc<AtomicBool>,
    /// Tells calls that are held over there of either.
    changed: Announcer,
}

impl Current {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules: Arc::new(Mutex::new(Arc::new(rules))),
            frozen: Arc::default(),
            changed: Announcer::default(),
        }
    }

    pub(super) fn get(&self) -> Arc<Rules> {
        self.rules
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Puts other rules in their place.
    pub(super) fn replace(&self, rules: Rules) {
        let before = {
            let mut current = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, Arc::new(rules))
        };
        // Outside of the lock: it may end servers.
        drop(before);
        self.changed.announce(&Change::Tools);
    }

    /// Stops every tool that asks, or lets them ask again. Whether that is news.
    pub(super) fn freeze(&self, frozen: bool) -> bool {
        let before = self.frozen.swap(frozen, Ordering::AcqRel);
        self.changed.announce(&Change::Tools);
        before != frozen
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::Acquire)
    }

    /// Told of each change from now on.
    pub(super) fn listen(&self) -> Changes {
        self.changed.listen()
    }
}

/// What a call was allowed by. Spending its permit asks whether that still holds: "the caller's token, the allowlist, the
/// tool's definition and its gate" (design section 5).
pub(super) struct AllowedBy {
    pub(super) current: Current,
    pub(super) clock: Clock,
    pub(super) principal: Principal,
    pub(super) entry: Arc<Entry>,
    /// Where the question goes, if somewhere.
    pub(super) channel: Option<ApprovalUrl>,
}

impl Policy for AllowedBy {
    fn still_allows(&self) -> Result<(), PolicyChanged> {
        let refused = |why| Err(PolicyChanged::Rules(why));
        if self.current.is_frozen() {
            return Err(PolicyChanged::Frozen);
        }
        if self.principal.has_ended(self.clock.wall_ms()) {
            return refused("the caller's token has ended since the question was asked");
        }
        let rules = self.current.get();
        let Some(principal) = rules.callers.again(&self.principal) else {
            return refused("the caller's token was withdrawn since the question was asked");
        };
        if principal.has_ended(self.clock.wall_ms()) {
            return refused("the caller's token has ended since the question was asked");
        }
        let entry = rules.roster.find(self.entry.server.slug.as_str());
        let Some(entry) = entry.filter(|entry| principal.may_use(&entry.server)) else {
            return refused("the caller may not use this server any more");
        };
        // What was shown was built from what was said then: of the tool, of its gate, and of who is asked.
        if entry.server.fingerprint != self.entry.server.fingerprint {
            return refused("the tool or its gate has changed since the question was asked");
        }
        if let Some(url) = &self.channel {
            let theirs = principal.channels.as_ref();
            if !rules.allowlist.lists(url) || theirs.is_some_and(|channels| !channels.lists(url)) {
                return refused("the place where the question was asked is not allowed any more");
            }
        }
        Ok(())
    }
}
