//! What a message means, whatever carried it here: over HTTP and over standard streams, in both eras.
//!
//! A carrier gives each message an [`Origin`], and takes what comes of it: an answer on its way, news, or an error.

use std::borrow::Cow;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;

use serde_json::value::RawValue;
use smol::channel::Sender;

use super::answering::{Answering, Done};
use super::calls::{Calls, Running};
use super::capabilities::ClientCapabilities;
use super::envelope::{VERSION_HEADER, check_modern, is_modern, unsupported};
use super::listen::{News, Wanted};
use super::message::{Id, Message, RpcError, is_integer, response};
use super::request::Request;
use super::result::RpcResult;
use super::rounds::{Interview, fulfil};
use super::service::{CallContext, Event, LogLevel, Offer, Service};
use super::session::{Nonce, SessionId};
use super::subscriptions::Subscriptions;
use super::version::Version;
use super::{META_CAPABILITIES, META_LOG_LEVEL, implementation};
use crate::http::{Caller, Headers};
use crate::json::{self, Members, quote};
use crate::world::World;

/// The methods of 2026-07-28, with those of the tasks extension. Every other one is unknown there, whatever a service
/// would make of it ("Removed methods: 404").
const MODERN_METHODS: [&str; 13] = [
    "server/discover",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "subscriptions/listen",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
];

/// Bytes of an answer that is gathered for a batch.
const GATHERED_BYTES: usize = 1_048_576;

/// A service, and what is in flight for its legacy sessions and connections.
pub(super) struct Dispatcher<S> {
    pub(super) world: World,
    pub(super) service: Arc<S>,
    pub(super) calls: Calls,
    pub(super) subscriptions: Subscriptions,
}

/// Where a message comes from: what all messages of one HTTP request have in common, or of one connection.
pub(super) struct Origin<'a, P> {
    pub(super) principal: &'a P,
    /// Those of the HTTP request; `None` where "there is no header layer".
    pub(super) headers: Option<&'a Headers>,
    /// What `initialize` agreed on.
    pub(super) session: Option<SessionId>,
    /// By which a later message finds a request: the session's over HTTP, the connection's elsewhere.
    pub(super) scope: Option<Nonce>,
    pub(super) caller: Arc<dyn Caller>,
}

/// A request that may be answered, and what goes with its answer.
pub(super) struct Prepared<'a> {
    pub(super) request: Request<'a>,
    /// The caller's progress token, as JSON.
    token: Option<&'a RawValue>,
}

/// What a request wants of its carrier.
pub(super) enum Kind {
    /// To agree on a session.
    Initialize,
    /// News.
    Listen,
    /// A result.
    Answer,
}

impl Prepared<'_> {
    pub(super) fn kind(&self) -> Kind {
        match (&*self.request.method, self.request.version.is_modern()) {
            ("initialize", false) => Kind::Initialize,
            ("subscriptions/listen", true) => Kind::Listen,
            _ => Kind::Answer,
        }
    }
}

impl<S: Service> Dispatcher<S> {
    pub(super) fn new(world: World, service: Arc<S>) -> Self {
        Self {
            world,
            service,
            calls: Calls::default(),
            subscriptions: Subscriptions::default(),
        }
    }

    /// Takes a message that wants no answer.
    pub(super) fn take(
        &self,
        from: &Origin<'_, S::Principal>,
        message: Message<'_>,
    ) -> Result<(), RpcError> {
        match message {
            Message::Notification { method, params } if method == "notifications/cancelled" => {
                let id = params.get("requestId").and_then(Id::parse);
                if let (Some(scope), Some(id)) = (from.scope, id) {
                    self.calls.cancel(scope, &id);
                }
                Ok(())
            }
            Message::Response { .. } if is_modern(from.headers, None) => {
                // "Client MUST NOT send responses."
                Err(RpcError::new(-32600, "a response, and nothing was asked"))
            }
            Message::Response {
                id: Some(id),
                outcome,
            } => {
                if let Some(scope) = from.scope {
                    let outcome = outcome.map(ToOwned::to_owned);
                    self.calls.answer(scope, &id, outcome);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The answer to one request, on its way.
    pub(super) fn answer<'a>(
        &'a self,
        from: &'a Origin<'_, S::Principal>,
        id: &'a Id,
        prepared: &'a Prepared<'_>,
    ) -> Result<Answering<'a>, RpcError> {
        let running = self.enter(from, id)?;
        let request = &prepared.request;
        let (context, events) =
            CallContext::new(from.caller.clone(), prepared.token, request.log_level);
        Ok(Answering {
            request: Box::pin(async move {
                let result = self.result(from, request, &context).await;
                Done::of(id, request, result, context)
            }),
            events,
            cancelled: cancelled(running),
        })
    }

    /// The answers to several messages of 2025-03-26, all at once; `None` where none of them wants one.
    pub(super) fn batch<'a>(
        &'a self,
        from: &'a Origin<'_, S::Principal>,
        messages: Vec<Result<Message<'a>, RpcError>>,
    ) -> Result<Option<Answering<'a>>, RpcError> {
        match from.legacy_version() {
            Ok(Version::V2025_03_26) if !is_modern(from.headers, None) => {}
            _ => return Err(RpcError::new(-32600, "a batch is for 2025-03-26 only")),
        }
        let (sender, events) = CallContext::channel();
        let mut answers = Vec::new();
        for message in messages {
            match message {
                Ok(Message::Request { id, method, params }) => {
                    answers.push(self.in_batch(from, id, method, params, sender.clone()));
                }
                // It cannot be refused: whoever reads the batch's answer takes each for one of its requests.
                Ok(message) => {
                    let _ = self.take(from, message);
                }
                Err(error) => return Err(error),
            }
        }
        drop(sender);
        if answers.is_empty() {
            return Ok(None);
        }
        Ok(Some(Answering {
            request: Box::pin(async {
                Done {
                    messages: super::join::all(answers).await,
                    is_batch: true,
                    ..Done::one(200, String::new())
                }
            }),
            events,
            cancelled: Box::pin(pending()),
        }))
    }

    /// One request of a batch.
    async fn in_batch(
        &self,
        from: &Origin<'_, S::Principal>,
        id: Id,
        method: Cow<'_, str>,
        params: Members<'_>,
        events: Sender<Event>,
    ) -> String {
        let refused = |error: RpcError| error.to_json(Some(&id));
        let meta = match meta_of(&params) {
            Ok(meta) => meta,
            Err(error) => return refused(error),
        };
        let prepared = match from.prepare(method, &params, meta.as_ref()) {
            Ok(prepared) => prepared,
            Err(error) => return refused(error),
        };
        let request = &prepared.request;
        // "`initialize` never inside one"; and a batch is answered as a whole, so that no call in it may wait for a person.
        let asks = || {
            request
                .text("name")
                .is_ok_and(|tool| self.service.asks_first(from.principal, &tool))
        };
        match &*request.method {
            _ if request.version.is_modern() => {
                let why = "a request of 2026-07-28 stands alone";
                return refused(RpcError::new(-32600, why));
            }
            "initialize" => return refused(RpcError::new(-32600, "initialize stands alone")),
            "tools/call" if asks() => {
                let why =
                    "a tool that asks a person first cannot be called in a batch; nothing ran";
                return refused(RpcError::new(-32600, why));
            }
            _ => {}
        }
        let running = match self.enter(from, &id) {
            Ok(running) => running,
            Err(error) => return refused(error),
        };
        let caller = from.caller.clone();
        let context = CallContext::telling(caller, prepared.token, request.log_level, events);
        let answering = async {
            let result = self.result(from, request, &context).await;
            let done = Done::of(&id, request, result, context);
            done.in_one_piece(Some(&id), GATHERED_BYTES).await
        };
        let given_up = async {
            cancelled(running).await;
            refused(RpcError::new(-32603, "cancelled"))
        };
        smol::future::or(given_up, answering).await
    }

    /// A request in flight that a message may cancel, where one could find it.
    pub(super) fn enter(
        &self,
        from: &Origin<'_, S::Principal>,
        id: &Id,
    ) -> Result<Option<Running>, RpcError> {
        let Some(scope) = from.scope else {
            return Ok(None);
        };
        let running = self.calls.enter(scope, id);
        let running = running
            .ok_or_else(|| RpcError::new(-32600, "a request of this id is still in flight"))?;
        Ok(Some(running))
    }

    /// What a request comes to.
    async fn result(
        &self,
        from: &Origin<'_, S::Principal>,
        request: &Request<'_>,
        context: &CallContext,
    ) -> Result<RpcResult, RpcError> {
        let modern = request.version.is_modern();
        let unknown = || {
            let shown: String = request.method.chars().take(64).collect();
            RpcError::new(-32601, format!("there is no method {}", quote(&shown)))
        };
        match (&*request.method, modern) {
            ("server/discover", true) => {
                let offer = self.service.offer(from.principal).await;
                Ok(discovered(&offer))
            }
            ("ping", false) => Ok(RpcResult::default()),
            ("resources/subscribe", false) => self.subscribe(from, &request.text("uri")?).await,
            ("resources/unsubscribe", false) => {
                let uri = request.text("uri")?;
                if let Some(scope) = from.scope {
                    self.subscriptions.unsubscribe(scope, &uri);
                }
                Ok(RpcResult::default())
            }
            ("server/discover", false) | ("subscriptions/listen", false) => Err(unknown()),
            (method, true) if !MODERN_METHODS.contains(&method) => Err(unknown()),
            _ => {
                let interview = from.session.map(|session| Interview {
                    calls: &self.calls,
                    session: session.nonce,
                    clock: &self.world.clock,
                });
                fulfil(&*self.service, from.principal, request, context, interview).await
            }
        }
    }

    /// Subscribes a legacy client to one resource.
    async fn subscribe(
        &self,
        from: &Origin<'_, S::Principal>,
        uri: &str,
    ) -> Result<RpcResult, RpcError> {
        let changes = self.service.subscribe(from.principal, uri).await?;
        let scope = from
            .scope
            .ok_or_else(|| RpcError::new(-32600, "a subscription needs a session"))?;
        self.subscriptions
            .subscribe(scope, uri, changes, &self.world)
            .await?;
        Ok(RpcResult::default())
    }

    /// The answer to `initialize`, once it is known on what to agree.
    pub(super) async fn initialized(
        &self,
        from: &Origin<'_, S::Principal>,
        id: &Id,
        version: Version,
    ) -> String {
        let offer = self.service.offer(from.principal).await;
        let result = format!(
            r#"{{"protocolVersion":"{}","capabilities":{},"serverInfo":{},"instructions":{}}}"#,
            version.name(),
            offer.capabilities(version),
            implementation(),
            quote(&offer.instructions),
        );
        response(id, &result)
    }

    /// The news that a modern request asks for.
    pub(super) async fn listen(
        &self,
        from: &Origin<'_, S::Principal>,
        id: &Id,
        request: &Request<'_>,
    ) -> Result<News, RpcError> {
        let mut changes = self.service.listen(from.principal).of_lists();
        let offer = self.service.offer(from.principal).await;
        if !offer.announces() {
            return Err(RpcError::new(-32601, "nothing here is announced"));
        }
        let mut wanted = Wanted::parse(request, &offer)?;
        let resources = std::mem::take(&mut wanted.resources_by_uri).into_iter();
        let subscribed = resources.map(async |uri| {
            let subscribed = self.service.subscribe(from.principal, &uri).await;
            subscribed.ok().map(|changes| (uri, changes))
        });
        for (uri, more) in super::join::all(subscribed).await.into_iter().flatten() {
            wanted.resources_by_uri.insert(uri);
            changes = changes.and(more);
        }
        Ok(News::new(changes, wanted, Some(id.clone())))
    }

    /// The news that a legacy client hears without asking.
    pub(super) async fn lists(&self, from: &Origin<'_, S::Principal>) -> News {
        let changes = self.service.listen(from.principal).of_lists();
        let offer = self.service.offer(from.principal).await;
        let subscribed = from.scope.filter(|_| offer.subscribe);
        let subscribed = subscribed.map(|scope| self.subscriptions.open(scope));
        let changes = changes.and(subscribed.unwrap_or_default());
        News::new(changes, Wanted::lists(&offer), None)
    }
}

impl<P> Origin<'_, P> {
    /// Reads what a request says of itself.
    pub(super) fn prepare<'r>(
        &'r self,
        method: Cow<'r, str>,
        params: &'r Members<'r>,
        meta: Option<&'r Members<'r>>,
    ) -> Result<Prepared<'r>, RpcError> {
        let version = self.settle(&method, params, meta)?;
        let said = |key: &str| meta.and_then(|meta| meta.get(key));
        let capabilities = match version.is_modern() {
            true => said(META_CAPABILITIES).map(ClientCapabilities::parse),
            false => self.session.map(|session| session.capabilities),
        };
        let log_level = match said(META_LOG_LEVEL).filter(|_| version.is_modern()) {
            Some(level) => json::string(level)
                .and_then(|level| LogLevel::parse(&level))
                .ok_or_else(|| RpcError::new(-32602, "the log level is not one of the eight"))?,
            None if version.is_modern() => LogLevel::Silent,
            // Before, a level was set for a session, and what is not set is up to the server.
            None => LogLevel::ALL,
        };
        let token = said("progressToken");
        let token = token.filter(|token| token.get().starts_with('"') || is_integer(token.get()));
        Ok(Prepared {
            request: Request {
                method,
                version,
                capabilities: capabilities.unwrap_or_default(),
                headers: self.headers,
                params,
                meta,
                log_level,
                round: None,
            },
            token,
        })
    }

    /// The revision of a request: from the request alone in the modern era, else from what was agreed on.
    fn settle(
        &self,
        method: &str,
        params: &Members<'_>,
        meta: Option<&Members<'_>>,
    ) -> Result<Version, RpcError> {
        if is_modern(self.headers, meta) {
            check_modern(self.headers, method, params, meta)?;
            return Ok(Version::V2026_07_28);
        }
        match method {
            // It names the version itself.
            "initialize" => Ok(Version::NEWEST_LEGACY),
            _ => self.legacy_version().or_else(|error| match method {
                // "Before the `initialize` result the client SHOULD send only `ping`".
                "ping" if self.headers.is_none() => Ok(Version::NEWEST_LEGACY),
                _ => Err(error),
            }),
        }
    }

    fn legacy_version(&self) -> Result<Version, RpcError> {
        let agreed = self.session.map(|session| session.version);
        let Some(headers) = self.headers else {
            let missing = "params._meta lacks everything: it is required on every request, unless there was an initialize";
            return agreed.ok_or_else(|| RpcError::new(-32602, missing));
        };
        match headers.only(VERSION_HEADER) {
            Err(_) => Err(RpcError::new(-32600, "MCP-Protocol-Version is repeated")),
            Ok(Some(name)) => Version::parse(name).ok_or_else(|| unsupported(name)),
            // "Header absent and nothing else known → server SHOULD assume 2025-03-26".
            Ok(None) => Ok(agreed.unwrap_or(Version::V2025_03_26)),
        }
    }
}

/// What `initialize` agrees on. "Server has that version → MUST answer the same string. Otherwise → MUST answer another
/// version it supports".
pub(super) fn agreed(params: &Members<'_>) -> (Version, ClientCapabilities) {
    let wanted = params.get("protocolVersion").and_then(json::string);
    let version = wanted
        .and_then(|name| Version::parse(&name))
        .filter(|version| !version.is_modern())
        .unwrap_or(Version::NEWEST_LEGACY);
    let declared = params.get("capabilities");
    let capabilities = declared.map_or(ClientCapabilities::NONE, ClientCapabilities::parse);
    (version, capabilities)
}

/// A request's `_meta`.
pub(super) fn meta_of<'a>(params: &Members<'a>) -> Result<Option<Members<'a>>, RpcError> {
    let meta = params.get("_meta").map(|meta| Members::parse(meta.get()));
    meta.transpose()
        .map_err(|_| RpcError::new(-32602, "params._meta is not an object"))
}

/// Ready when a message has cancelled the request.
pub(super) fn cancelled<'a>(
    running: Option<Running>,
) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
    Box::pin(async move {
        match running {
            Some(running) => running.cancelled().await,
            None => pending().await,
        }
    })
}

fn discovered(offer: &Offer) -> RpcResult {
    let mut result = RpcResult::default();
    result.set("supportedVersions", Version::all_as_json());
    result.set("capabilities", offer.capabilities(Version::V2026_07_28));
    result.set("instructions", quote(&offer.instructions));
    result
}
