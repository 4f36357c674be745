//! What a server offers: the seam between the protocol and what is behind it.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::value::RawValue;
use smol::channel::{Receiver, Sender};

use super::changes::Changes;
use super::message::RpcError;
use super::request::Request;
use super::result::RpcResult;
use super::version::Version;
use crate::http::{Caller, RequestHead};
use crate::json::{quote, string};

/// What answers requests behind an MCP endpoint. It speaks the modern form only: what a caller of the legacy era cannot
/// read is put into its words by the server, and what it is asked in the middle of a request is asked there.
pub trait Service: Send + Sync + 'static {
    /// Who calls, as established by [`Service::admit`].
    type Principal: Send + Sync;

    /// Whether this service answers at `path`. Others are 404.
    fn serves(&self, path: &str) -> bool;

    /// A document that anyone may read at this path, as JSON; `None` where there is none.
    fn document(&self, _head: &RequestHead) -> Option<String> {
        None
    }

    /// Who calls, by the head alone: before any of the body is read.
    ///
    /// # Errors
    /// [`HttpRefusal`]: 401 for a token that is not ours, 404 for a server that the caller may not know of.
    fn admit(&self, head: &RequestHead, peer: SocketAddr) -> Result<Self::Principal, HttpRefusal>;

    /// By which this caller is told from others; its sessions are bound to it.
    fn identity<'p>(&self, principal: &'p Self::Principal) -> &'p str;

    /// What there is for this caller. "Capabilities match real handlers."
    fn offer(&self, principal: &Self::Principal) -> impl Future<Output = Offer> + Send;

    /// Whether that tool asks a person before it acts. Such a one is refused in a batch, whose other calls would wait
    /// with it.
    fn asks_first(&self, principal: &Self::Principal, tool: &str) -> bool;

    /// Answers one request. The future is dropped the moment the caller leaves or cancels.
    ///
    /// # Errors
    /// [`RpcError`] for what is wrong with the request, -32601 for a method that is not offered; what went wrong in a
    /// tool is a result.
    fn request(
        &self,
        principal: &Self::Principal,
        request: &Request<'_>,
        context: &CallContext,
    ) -> impl Future<Output = Result<RpcResult, RpcError>> + Send;

    /// News for this caller from now on.
    fn listen(&self, principal: &Self::Principal) -> Changes;

    /// News of one resource from now on, under the URI that the caller gave. Dropping it ends the subscription.
    ///
    /// # Errors
    /// [`RpcError`]: there is no such resource; -32601 where nothing can be subscribed to.
    fn subscribe(
        &self,
        _principal: &Self::Principal,
        _uri: &str,
    ) -> impl Future<Output = Result<Changes, RpcError>> + Send {
        async {
            Err(RpcError::new(
                -32601,
                "no resource here can be subscribed to",
            ))
        }
    }
}

/// What a server has for one caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Tools, and whether a change of their list is announced.
    pub tools: Option<Announced>,
    /// Prompts, and whether a change of their list is announced.
    pub prompts: Option<Announced>,
    /// Resources, and whether a change of their list is announced.
    pub resources: Option<Announced>,
    /// Whether single resources can be subscribed to.
    pub subscribe: bool,
    /// Completion of arguments.
    pub completions: bool,
    /// Messages of a log in the middle of a request.
    pub logging: bool,
    /// Tasks (extension `io.modelcontextprotocol/tasks`).
    pub tasks: bool,
    /// For models: what is special about this server.
    pub instructions: String,
}

/// Whether changes of a list are announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced(pub bool);

impl Offer {
    /// The `capabilities` of a server of that revision.
    pub(super) fn capabilities(&self, version: Version) -> String {
        let list = |name: &str, offered: Option<Announced>, more: &str| {
            let Announced(announced) = offered?;
            let changed = if announced {
                r#""listChanged":true"#
            } else {
                ""
            };
            let comma = if !changed.is_empty() && !more.is_empty() {
                ","
            } else {
                ""
            };
            Some(format!(r#""{name}":{{{changed}{comma}{more}}}"#))
        };
        let subscribe = if self.subscribe {
            r#""subscribe":true"#
        } else {
            ""
        };
        let plain = |name: &str, offered: bool| offered.then(|| format!(r#""{name}":{{}}"#));
        let tasks = r#""extensions":{"io.modelcontextprotocol/tasks":{}}"#;
        let parts = [
            list("tools", self.tools, ""),
            list("prompts", self.prompts, ""),
            list("resources", self.resources, subscribe),
            plain("completions", self.completions),
            plain("logging", self.logging),
            (self.tasks && version.is_modern()).then(|| tasks.to_owned()),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        format!("{{{}}}", parts.join(","))
    }

    /// Whether any change is announced.
    pub(super) fn announces(&self) -> bool {
        [self.tools, self.prompts, self.resources].contains(&Some(Announced(true)))
            || self.subscribe
    }
}

/// A request that is refused before it is MCP.
#[derive(Debug)]
pub struct HttpRefusal {
    /// The status.
    pub status: u16,
    /// Headers that the status wants.
    pub headers: Vec<(&'static str, String)>,
    /// One line for people.
    pub reason: &'static str,
}

/// What a request may tell its caller while it runs.
pub struct CallContext {
    /// A look at whether the caller is still there.
    pub caller: Arc<dyn Caller>,
    events: Sender<Event>,
    /// The caller's progress token, as JSON.
    token: Option<Box<RawValue>>,
    /// The last progress told.
    last: Mutex<f64>,
    log_level: LogLevel,
    /// Dropped with the request, however many rounds it takes.
    kept: Mutex<Vec<Box<dyn Send>>>,
}

/// Progress of one request.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Grows with every notification; one that does not is left out.
    pub progress: f64,
    /// Where it will end, if that is known.
    pub total: Option<f64>,
    /// For people.
    pub message: Option<String>,
}

/// From a running request to the stream of its answer.
#[derive(Debug)]
pub(super) enum Event {
    /// The request is about to wait: open the stream at once.
    Hold,
    /// A message of JSON-RPC for the caller.
    Message(String),
}

/// Which messages of a log a caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogLevel {
    /// None: "no key, no logs".
    Silent,
    /// Those of this severity and above, by its place in [`LEVELS`].
    From(usize),
}

/// The severities of RFC 5424, the least first.
pub(super) const LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

/// Whether that is the name of a severity.
#[must_use]
pub fn is_log_level(name: &str) -> bool {
    LogLevel::parse(name).is_some()
}

impl LogLevel {
    /// Every message.
    pub(super) const ALL: Self = Self::From(0);

    /// By a level's name; `None` for another word.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let place = LEVELS.iter().position(|level| *level == name)?;
        Some(Self::From(place))
    }
}

/// Events held for a caller that reads slowly; what does not fit is left out, for it is only news.
const EVENTS: usize = 32;

impl CallContext {
    pub(super) fn new(
        caller: Arc<dyn Caller>,
        token: Option<&RawValue>,
        log_level: LogLevel,
    ) -> (Self, Receiver<Event>) {
        let (events, receiver) = Self::channel();
        (Self::telling(caller, token, log_level, events), receiver)
    }

    /// Where what one or several requests tell is read.
    pub(super) fn channel() -> (Sender<Event>, Receiver<Event>) {
        smol::channel::bounded(EVENTS)
    }

    pub(super) fn telling(
        caller: Arc<dyn Caller>,
        token: Option<&RawValue>,
        log_level: LogLevel,
        events: Sender<Event>,
    ) -> Self {
        Self {
            caller,
            events,
            token: token.map(ToOwned::to_owned),
            last: Mutex::new(f64::NEG_INFINITY),
            log_level,
            kept: Mutex::default(),
        }
    }

    /// Says that the request is about to wait, for a person or for an upstream: its answer is opened as a stream at once,
    /// since clients and proxies give up on a silent one.
    pub fn hold(&self) {
        // Full means that the stream is being opened already.
        let _ = self.events.try_send(Event::Hold);
    }

    /// Tells the caller of progress, if it gave a token and the number has grown: "progress MUST increase".
    pub fn progress(&self, progress: &Progress) {
        let Some(token) = &self.token else {
            return;
        };
        {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            if !progress.progress.is_finite() || progress.progress <= *last {
                return;
            }
            *last = progress.progress;
        }
        let total = progress.total.filter(|total| total.is_finite());
        let total = total.map_or_else(String::new, |total| format!(r#","total":{total}"#));
        let message = progress.message.as_deref();
        let message =
            message.map_or_else(String::new, |text| format!(r#","message":{}"#, quote(text)));
        let _ = self.events.try_send(Event::Message(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{},"progress":{}{total}{message}}}}}"#,
            token.get(),
            progress.progress,
        )));
    }

    /// Passes a message of a log on, if the caller wants such: `params` of `notifications/message`, one JSON object with
    /// that `level`.
    pub fn log(&self, level: &RawValue, params: &RawValue) {
        let level = string(level).and_then(|name| LogLevel::parse(&name));
        let wanted = match (self.log_level, level) {
            (LogLevel::From(least), Some(LogLevel::From(level))) => level >= least,
            _ => false,
        };
        if wanted {
            let _ = self.events.try_send(Event::Message(format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{}}}"#,
                params.get()
            )));
        }
    }

    /// Keeps `what` until the caller has left or has its answer, however often it is asked something in between.
    pub fn keep(&self, what: Box<dyn Send>) {
        self.kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(what);
    }

    /// Sends the caller a message that must not be left out.
    pub(super) async fn tell(&self, message: String) {
        // Closed: the answer is under way, and nobody listens any more.
        let _ = self.events.send(Event::Message(message)).await;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    struct Here;

    impl Caller for Here {
        fn has_left(&self) -> bool {
            false
        }
    }

    fn told(events: &Receiver<Event>) -> Vec<String> {
        let mut told = Vec::new();
        while let Ok(event) = events.try_recv() {
            match event {
                Event::Message(message) => told.push(message),
                Event::Hold => told.push("hold".to_owned()),
            }
        }
        told
    }

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn progress_grows_and_goes_only_to_who_asked() {
        let step = |progress| Progress {
            progress,
            total: None,
            message: None,
        };
        let token = raw("\"t\"");
        let (context, events) = CallContext::new(Arc::new(Here), Some(&token), LogLevel::Silent);
        for progress in [1.0, 1.0, 0.5, f64::NAN, 2.5] {
            context.progress(&step(progress));
        }
        let told = told(&events);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[1].contains(r#""progressToken":"t","progress":2.5}"#));
        let (context, events) = CallContext::new(Arc::new(Here), None, LogLevel::Silent);
        context.progress(&step(1.0));
        assert!(events.is_empty());
    }

    #[test]
    fn a_log_is_passed_on_from_the_level_that_was_asked_for() {
        for (wanted, level, passes) in [
            (LogLevel::Silent, "\"emergency\"", false),
            (LogLevel::parse("warning").unwrap(), "\"warning\"", true),
            (LogLevel::parse("warning").unwrap(), "\"notice\"", false),
            (LogLevel::parse("debug").unwrap(), "\"loud\"", false),
            (LogLevel::parse("debug").unwrap(), "7", false),
        ] {
            let (context, events) = CallContext::new(Arc::new(Here), None, wanted);
            context.log(&raw(level), &raw("{}"));
            assert_eq!(!events.is_empty(), passes, "{wanted:?} {level}");
        }
        assert_eq!(LogLevel::parse("loud"), None);
    }

    #[test]
    fn capabilities_are_what_is_offered() {
        let offer = Offer {
            tools: Some(Announced(true)),
            prompts: Some(Announced(false)),
            resources: Some(Announced(true)),
            subscribe: true,
            completions: true,
            logging: true,
            tasks: true,
            instructions: String::new(),
        };
        let legacy = r#"{"tools":{"listChanged":true},"prompts":{},"resources":{"listChanged":true,"subscribe":true},"completions":{},"logging":{}}"#;
        assert_eq!(offer.capabilities(Version::V2025_11_25), legacy);
        let modern = offer.capabilities(Version::V2026_07_28);
        assert!(modern.contains(r#""extensions":{"io.modelcontextprotocol/tasks":{}}"#));
        assert_eq!(Offer::default().capabilities(Version::V2026_07_28), "{}");
        assert!(offer.announces() && !Offer::default().announces());
    }
}
