//! How a question ends. A closed list: each outcome has its own words, and only the first can act.

use std::fmt;

use super::permit::Permit;
use crate::approval::EndpointFault;

/// The member of a result's `_meta` that carries the outcome's word.
pub const OUTCOME_KEY: &str = "countersign/outcome";

/// The outcome of a call that was on the wire when its connection broke: nobody can say whether it acted.
pub const UNKNOWN: &str = "unknown";

/// How a question ended.
#[derive(Debug)]
#[must_use]
pub enum Outcome {
    /// A person said yes to this very call.
    Approved(Permit),
    /// A person said no, or the endpoint answered a word that is no answer.
    Declined,
    /// The question was closed without an answer.
    Cancelled,
    /// Nobody answered in time.
    Expired,
    /// It was accepted with the box unticked.
    NotConfirmed,
    /// Nobody was asked.
    NotAsked(NotAsked),
    /// The approval endpoint failed.
    EndpointFailed(EndpointFault),
}

/// Why nobody was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAsked {
    /// The call named nobody.
    NoChannel,
    /// The gateway or the mount refused the channel that the call named; the rule and the origin, never the URL.
    Refused(String),
    /// What a person would have to judge is too long to be shown whole.
    TooLong,
}

impl Outcome {
    /// The one word for the model, the audit and the metrics.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Approved(_) => "done",
            Self::Declined => "declined",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::NotConfirmed => "not-confirmed",
            Self::NotAsked(_) => "nobody-to-ask",
            Self::EndpointFailed(_) => "endpoint-failed",
        }
    }
}

/// What the model reads of an outcome that did not act. Each says that nothing ran, and none names a setting that would
/// skip the question.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Approved(_) => f.write_str("A person approved this call."),
            Self::Declined => f.write_str(
                "A person declined this call. It did not run. Do not repeat it unchanged.",
            ),
            Self::Cancelled => f.write_str(
                "The question was closed without an answer. The call did not run; it may be asked again later.",
            ),
            Self::Expired => f.write_str("Nobody answered in time. The call did not run."),
            Self::NotConfirmed => f.write_str(
                "The question was accepted with its confirm box unticked, which is no approval. The call did not run.",
            ),
            Self::NotAsked(why) => write!(f, "This tool asks a person first, and nobody could be asked: {why}. The call did not run."),
            Self::EndpointFailed(fault) => write!(f, "Approval failed: {fault}. The call did not run."),
        }
    }
}

impl fmt::Display for NotAsked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoChannel => {
                f.write_str("the call named no approval channel (X-Elicitation-Url)")
            }
            Self::Refused(reason) => f.write_str(reason),
            Self::TooLong => {
                f.write_str("what a person would have to judge is too long to be shown whole")
            }
        }
    }
}
