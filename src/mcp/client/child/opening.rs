//! How a process and its client come to terms: which era it is of, and what it offers.
//!
//! No I/O here: the owner writes what this says, and tells it what came.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use super::super::{INITIALIZED, Ids, Outgoing, agreed, initialize};
use crate::http::{ClientFault, FaultKind};
use crate::json::{Members, elements, string};
use crate::mcp::client::CallFault;
use crate::mcp::message::{Id, RpcError};
use crate::mcp::version::Version;
use crate::time::Instant;

/// How long a silent server is asked for its era: servers of the legacy one may leave an early request unanswered.
const PROBE_TIME: Duration = Duration::from_secs(3);

/// How long a process may take until it can be used. Long, since a launcher may have to download the server first.
const OPEN_TIME: Duration = Duration::from_secs(300);

/// What was found out about a server, kept for its next process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Era {
    /// `initialize` opens it.
    Legacy,
    /// Every request stands alone.
    Modern,
}

/// What is known before a process starts.
#[derive(Clone, Copy)]
pub(super) struct Known {
    /// The revision that the configuration wants.
    pub(super) wanted: Option<Version>,
    /// What an earlier process showed.
    pub(super) era: Option<Era>,
    /// Whether an earlier process ended over the probe, so that this one must not be probed.
    pub(super) dies_of_probe: bool,
}

/// One process's opening.
pub(super) struct Opening {
    known: Known,
    /// The request that is waited for; `None` once the process can be used, or never will be.
    waits: Option<(Asked, Id)>,
    /// The probe's id, when it was sent.
    probe: Option<Id>,
    /// The probe's answer, where that came after the probe was given up.
    late: Option<Discovered>,
    due: Instant,
    /// When the whole of it has to be over.
    ends: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Discover,
    Initialize,
}

/// What comes next.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing.
    Wait,
    /// This message goes out.
    Send(String),
    /// The process can be used. `note` goes out first.
    Open {
        version: Version,
        said: Result<Arc<RawValue>, CallFault>,
        note: Option<&'static str>,
    },
    /// It cannot.
    Failed(CallFault),
}

/// What an answer to `server/discover` tells.
enum Discovered {
    /// Our modern revision is spoken; its word on what it has, where that came.
    Ours(Result<Arc<RawValue>, CallFault>),
    /// Modern revisions are spoken, and none of ours.
    Others,
    /// Not an answer of a modern server, or of one that also speaks a legacy revision and not ours.
    Legacy,
}

impl Opening {
    /// Begins. The message to send first.
    pub(super) fn new(known: Known, now: Instant, ids: &Ids) -> (Self, String) {
        let ends = now.after(OPEN_TIME);
        let mut opening = Self {
            known,
            waits: None,
            probe: None,
            late: None,
            due: ends,
            ends,
        };
        let legacy = match known.wanted {
            Some(wanted) => !wanted.is_modern(),
            None => known.dies_of_probe || known.era == Some(Era::Legacy),
        };
        if legacy {
            let message = opening.initialize(ids);
            return (opening, message);
        }
        let id = ids.next();
        let message = Outgoing::new("server/discover").to_json(&id, Version::V2026_07_28);
        // Of a server that is known to be modern, silence says that it is slow, and nothing else.
        if opening.is_probing() {
            opening.due = now.after(PROBE_TIME);
        }
        opening.probe = Some(id.clone());
        opening.waits = Some((Asked::Discover, id));
        (opening, message)
    }

    /// Whether the era is what is to be found out.
    fn is_probing(&self) -> bool {
        self.known.wanted.is_none() && self.known.era.is_none() && !self.known.dies_of_probe
    }

    fn initialize(&mut self, ids: &Ids) -> String {
        let id = ids.next();
        let message = initialize(&id, self.known.wanted.unwrap_or(Version::NEWEST_LEGACY));
        self.waits = Some((Asked::Initialize, id));
        self.due = self.ends;
        message
    }

    /// Whether it goes on.
    pub(super) const fn is_under_way(&self) -> bool {
        self.waits.is_some()
    }

    /// Whether the process has been asked `initialize`, so that it may ask in its turn.
    pub(super) fn is_legacy(&self) -> bool {
        matches!(&self.waits, Some((Asked::Initialize, _)))
    }

    /// Whether a process that has ended now is to be started again without the probe: some legacy servers end over a
    /// request that comes before `initialize`.
    pub(super) fn may_have_died_of_probe(&self) -> bool {
        self.is_under_way() && self.is_probing()
    }

    /// When [`Opening::late`] is to be called.
    pub(super) fn due(&self) -> Option<Instant> {
        self.is_under_way().then_some(self.due)
    }

    /// The time is up.
    pub(super) fn late(&mut self, now: Instant, ids: &Ids) -> Step {
        match self.due() {
            Some(due) if due <= now => {}
            _ => return Step::Wait,
        }
        if now < self.ends {
            return Step::Send(self.initialize(ids));
        }
        self.fail(CallFault::Connection(ClientFault {
            kind: FaultKind::Timeout,
            sent: false,
        }))
    }

    fn fail(&mut self, fault: CallFault) -> Step {
        self.waits = None;
        Step::Failed(fault)
    }

    /// An answer came: to the request `id`, or to nobody knows which. `None` when it is not for this opening.
    pub(super) fn answered(
        &mut self,
        id: Option<&str>,
        outcome: Result<&RawValue, &RawValue>,
        ids: &Ids,
    ) -> Option<Step> {
        let is = |ours: &Id| id.is_none_or(|id| id == ours.as_json());
        match &self.waits {
            Some((Asked::Discover, ours)) if is(ours) => Some(self.discovered(outcome, ids)),
            Some((Asked::Initialize, ours)) if is(ours) => Some(self.initialized(outcome)),
            Some(_) if self.probe.as_ref().is_some_and(is) => {
                self.late = Some(discovered(outcome));
                Some(Step::Wait)
            }
            _ => None,
        }
    }

    fn discovered(&mut self, outcome: Result<&RawValue, &RawValue>, ids: &Ids) -> Step {
        // What the configuration says needs no proof; only what there is cannot be told without an answer.
        let found = match self.known.wanted {
            Some(_) => Discovered::Ours(word(outcome)),
            None => discovered(outcome),
        };
        match found {
            Discovered::Ours(said) => self.modern(said),
            Discovered::Others => self.fail(CallFault::Protocol(NO_VERSION)),
            Discovered::Legacy => Step::Send(self.initialize(ids)),
        }
    }

    fn modern(&mut self, said: Result<Arc<RawValue>, CallFault>) -> Step {
        self.waits = None;
        Step::Open {
            version: Version::V2026_07_28,
            said,
            note: None,
        }
    }

    fn initialized(&mut self, outcome: Result<&RawValue, &RawValue>) -> Step {
        match (outcome, self.late.take()) {
            // A slow server of both eras has answered both: the second made this process a legacy one.
            (Ok(said), _) => match agreed(said) {
                Some(version) => {
                    self.waits = None;
                    Step::Open {
                        version,
                        said: Ok(said.to_owned().into()),
                        note: Some(INITIALIZED),
                    }
                }
                None => self.fail(CallFault::Protocol(NO_VERSION)),
            },
            // A slow modern one: it was only silent for too long.
            (Err(_), Some(Discovered::Ours(said))) => self.modern(said),
            (Err(error), _) => self.fail(CallFault::Rpc(RpcError::parse(error))),
        }
    }
}

const NO_VERSION: &str = "no protocol version that both speak";

fn word(outcome: Result<&RawValue, &RawValue>) -> Result<Arc<RawValue>, CallFault> {
    match outcome {
        Ok(said) => Ok(said.to_owned().into()),
        Err(error) => Err(CallFault::Rpc(RpcError::parse(error))),
    }
}

/// "`DiscoverResult` → modern. `-32022` → modern, use its list. Any other error → legacy".
fn discovered(outcome: Result<&RawValue, &RawValue>) -> Discovered {
    let listed = match outcome {
        Ok(said) => {
            let said = Members::parse(said.get()).ok();
            let has = |name: &str| said.as_ref().is_some_and(|said| said.get(name).is_some());
            match said.as_ref().and_then(|said| said.get("supportedVersions")) {
                Some(listed) => names(listed),
                // It lacks what it must have, and is no answer of another kind.
                None if has("capabilities") => return Discovered::Ours(word(outcome)),
                None => return Discovered::Legacy,
            }
        }
        Err(error) => {
            let error = RpcError::parse(error);
            let data = error.data.filter(|_| error.code == -32022);
            let data = data.as_deref().and_then(|data| Members::parse(data).ok());
            match data.and_then(|data| data.get("supported")) {
                Some(listed) => names(listed),
                None => return Discovered::Legacy,
            }
        }
    };
    let speaks = |wanted: &dyn Fn(Version) -> bool| {
        let mut known = listed.iter().filter_map(|name| Version::parse(name));
        known.any(wanted)
    };
    let newest_of_ours = Version::V2026_07_28.name();
    if speaks(&Version::is_modern) {
        Discovered::Ours(word(outcome))
    } else if !speaks(&|_| true) && listed.iter().any(|name| &**name > newest_of_ours) {
        // Revisions are named by their dates.
        Discovered::Others
    } else {
        Discovered::Legacy
    }
}

fn names(list: &RawValue) -> Vec<String> {
    let names = elements(list.get()).unwrap_or_default();
    let names = names.into_iter().filter_map(string);
    names.map(String::from).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const UNKNOWN: Known = Known {
        wanted: None,
        era: None,
        dies_of_probe: false,
    };

    fn raw(text: &str) -> &RawValue {
        serde_json::from_str(text).unwrap()
    }

    fn start(known: Known) -> (Opening, &'static str, Ids) {
        let ids = Ids::default();
        let (opening, first) = Opening::new(known, Instant::from_ms(0), &ids);
        let first = match first.contains("server/discover") {
            true => "discover",
            false => "initialize",
        };
        (opening, first, ids)
    }

    /// What it comes to, in one word, and the version that is spoken.
    fn word_of(step: &Step) -> String {
        match step {
            Step::Wait => "wait".to_owned(),
            Step::Send(message) if message.contains("\"initialize\"") => "initialize".to_owned(),
            Step::Send(message) => panic!("{message}"),
            Step::Open { version, said, .. } => {
                format!("{} {}", version.name(), said.is_ok())
            }
            Step::Failed(fault) => fault.to_string(),
        }
    }

    #[test]
    fn an_answer_to_the_probe_tells_the_era() {
        for (answer, expected) in [
            (
                Ok(r#"{"supportedVersions":["2026-07-28"]}"#),
                "2026-07-28 true",
            ),
            (
                Ok(r#"{"supportedVersions":["2027-01-01","2026-07-28"]}"#),
                "2026-07-28 true",
            ),
            (Ok(r#"{"capabilities":{}}"#), "2026-07-28 true"),
            (Ok("{}"), "initialize"),
            (Ok("7"), "initialize"),
            (Ok(r#"{"supportedVersions":["2025-11-25"]}"#), "initialize"),
            (
                Ok(r#"{"supportedVersions":["2027-01-01","2025-11-25"]}"#),
                "initialize",
            ),
            (
                Ok(r#"{"supportedVersions":["2027-01-01"]}"#),
                "the server's reply is not valid MCP: no protocol version that both speak",
            ),
            (
                Err(r#"{"code":-32022,"message":"m","data":{"supported":["2026-07-28"]}}"#),
                "2026-07-28 false",
            ),
            (
                Err(r#"{"code":-32022,"message":"m","data":{"supported":["2025-11-25"]}}"#),
                "initialize",
            ),
            (Err(r#"{"code":-32022,"message":"m"}"#), "initialize"),
            (
                Err(r#"{"code":-32602,"message":"m","data":{"supported":["2026-07-28"]}}"#),
                "initialize",
            ),
            (Err(r#"{"code":-32601,"message":"m"}"#), "initialize"),
            (Err("null"), "initialize"),
        ] {
            for id in [Some("1"), None] {
                let (mut opening, first, ids) = start(UNKNOWN);
                assert_eq!(first, "discover");
                let step = opening.answered(id, answer.map(raw).map_err(raw), &ids);
                assert_eq!(word_of(&step.unwrap()), expected, "{answer:?}");
            }
        }
    }

    #[test]
    fn what_is_known_before_decides_what_is_asked_first() {
        let wanted = |version| Known {
            wanted: Some(version),
            ..UNKNOWN
        };
        let era = |era| Known {
            era: Some(era),
            ..UNKNOWN
        };
        let died = Known {
            dies_of_probe: true,
            ..UNKNOWN
        };
        for (known, first, silence_says, dies_of_probe) in [
            (UNKNOWN, "discover", true, true),
            (wanted(Version::V2026_07_28), "discover", false, false),
            (wanted(Version::V2025_06_18), "initialize", false, false),
            (era(Era::Modern), "discover", false, false),
            (era(Era::Legacy), "initialize", false, false),
            (died, "initialize", false, false),
        ] {
            let (mut opening, asked, ids) = start(known);
            assert_eq!(asked, first);
            assert_eq!(opening.may_have_died_of_probe(), dies_of_probe);
            assert_eq!(
                word_of(&opening.late(Instant::from_ms(2_999), &ids)),
                "wait"
            );
            let said = word_of(&opening.late(Instant::from_ms(3_000), &ids));
            assert_eq!(said, if silence_says { "initialize" } else { "wait" });
            assert_eq!(opening.may_have_died_of_probe(), dies_of_probe);
            let end = opening.late(Instant::from_ms(300_000), &ids);
            assert!(matches!(end, Step::Failed(CallFault::Connection(fault)) if !fault.sent));
            assert!(!opening.is_under_way() && opening.due().is_none());
        }
        let (mut opening, _, ids) = start(wanted(Version::V2026_07_28));
        let refused = opening.answered(Some("1"), Err(raw(r#"{"code":-32601}"#)), &ids);
        assert_eq!(word_of(&refused.unwrap()), "2026-07-28 false");
    }

    #[test]
    fn after_silence_the_second_answer_counts() {
        let initialized = r#"{"protocolVersion":"2025-06-18"}"#;
        let modern = r#"{"supportedVersions":["2026-07-28"]}"#;
        let refused = r#"{"code":-32601,"message":"m"}"#;
        for (late, answer, expected) in [
            (None, Ok(initialized), "2025-06-18 true"),
            (Some(modern), Ok(initialized), "2025-06-18 true"),
            (Some(modern), Err(refused), "2026-07-28 true"),
            (None, Err(refused), "m (code -32601)"),
            (Some("{}"), Err(refused), "m (code -32601)"),
            (
                None,
                Ok(r#"{"protocolVersion":"2024-11-05"}"#),
                "the server's reply is not valid MCP: no protocol version that both speak",
            ),
        ] {
            let (mut opening, _, ids) = start(UNKNOWN);
            opening.late(Instant::from_ms(3_000), &ids);
            if let Some(late) = late {
                let step = opening.answered(Some("1"), Ok(raw(late)), &ids).unwrap();
                assert_eq!(word_of(&step), "wait");
            }
            assert!(opening.answered(Some("3"), Ok(raw("{}")), &ids).is_none());
            let step = opening.answered(Some("2"), answer.map(raw).map_err(raw), &ids);
            assert_eq!(word_of(&step.unwrap()), expected);
            assert!(opening.answered(Some("2"), Ok(raw("{}")), &ids).is_none());
            assert!(opening.answered(None, Err(raw("{}")), &ids).is_none());
        }
    }
}
