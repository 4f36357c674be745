//! The MCP endpoint over HTTP: both eras, one request at a time, nothing kept between them.

use std::borrow::Cow;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;

use serde_json::value::RawValue;
use smol::channel::Sender;

use super::calls::{Calls, Running};
use super::capabilities::ClientCapabilities;
use super::envelope::{VERSION_HEADER, check_modern, is_modern, unsupported};
use super::listen::{self, Wanted};
use super::message::{self, Body, Id, Message, RpcError, is_integer, response};
use super::request::Request;
use super::result::RpcResult;
use super::rounds::{Interview, fulfil};
use super::service::{CallContext, Event, HttpRefusal, LogLevel, Offer, Service};
use super::session::SessionId;
use super::stream::{self, Done, Large, RETRY_SECONDS, whole};
use super::version::Version;
use super::{META_CAPABILITIES, META_LOG_LEVEL, implementation};
use crate::http::{
    self, BodyReader, CallerSocket, Guard, Handler, Method, RequestHead, Responded, Responder,
};
use crate::json::{self, Members, quote};
use crate::secret::Sealer;
use crate::world::World;

/// The header that names a legacy session.
const SESSION_HEADER: &str = "mcp-session-id";

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

/// How one endpoint behaves.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Hosts and origins that it answers to.
    pub guard: Guard,
    /// The largest request body, in bytes.
    pub body_bytes: usize,
    /// Seals the session ids of the legacy era.
    pub sealer: Sealer,
}

/// A [`Service`] behind HTTP.
pub struct Server<S> {
    world: World,
    service: Arc<S>,
    settings: ServerSettings,
    calls: Calls,
}

/// Who sends a message, and how: what all messages of one HTTP request share.
struct Incoming<'a, P> {
    principal: &'a P,
    head: &'a RequestHead,
    /// The legacy session that the head names, if it is one of this caller's.
    session: Option<SessionId>,
    socket: CallerSocket,
}

/// A request that may be answered, and what goes with its answer.
struct Prepared<'a> {
    request: Request<'a>,
    /// The caller's progress token, as JSON.
    token: Option<&'a RawValue>,
}

impl<S: Service> Handler for Server<S> {
    /// The order of the checks is that of the protocol digest, section 2.6: cheap and anonymous ones first, the body
    /// only for a caller who was admitted, and everything that must be an HTTP error before a stream opens.
    async fn handle(&self, request: http::Request, responder: Responder) -> Responded {
        let http::Request {
            head,
            body,
            peer,
            caller,
        } = request;
        if !self.settings.guard.admits(&head) {
            let reason = "this host or origin is not served here";
            return plain(responder, 403, &[], reason).await;
        }
        if let Some(document) = self.service.document(&head) {
            return match head.method {
                Method::Get | Method::Head => {
                    responder
                        .send(200, &stream::JSON, document.as_bytes())
                        .await
                }
                _ => {
                    let reason = "this is a document";
                    plain(responder, 405, &[("allow", "GET, HEAD")], reason).await
                }
            };
        }
        if !self.service.serves(head.path()) {
            return plain(responder, 404, &[], "there is nothing at this path").await;
        }
        // "GET, DELETE → 405" in the modern era; before it they are for news and for the end of a session.
        let modern = is_modern(&head, None);
        let allowed = match head.method {
            Method::Post => true,
            Method::Get | Method::Delete => !modern,
            _ => false,
        };
        if !allowed {
            let allow = if modern { "POST" } else { "POST, GET, DELETE" };
            let reason = "this method is not served here";
            return plain(responder, 405, &[("allow", allow)], reason).await;
        }
        let principal = match self.service.admit(&head, peer) {
            Ok(principal) => principal,
            Err(HttpRefusal {
                status,
                headers,
                reason,
            }) => {
                let headers = headers.iter().map(|(name, value)| (*name, value.as_str()));
                let headers: Vec<_> = headers.collect();
                return plain(responder, status, &headers, reason).await;
            }
        };
        let session = head.headers.only(SESSION_HEADER).ok().flatten();
        let session = session.filter(|_| !modern).and_then(|text| {
            let caller = self.service.identity(&principal);
            SessionId::parse(text, &self.settings.sealer, caller)
        });
        let from = Incoming {
            principal: &principal,
            head: &head,
            session,
            socket: caller,
        };
        match head.method {
            Method::Get => self.news(&from, responder).await,
            Method::Delete => self.end(&from, responder).await,
            _ => self.post(&from, body, responder).await,
        }
    }
}

impl<S: Service> Server<S> {
    /// An endpoint for `service`.
    #[must_use]
    pub fn new(world: World, service: Arc<S>, settings: ServerSettings) -> Self {
        Self {
            world,
            service,
            settings,
            calls: Calls::default(),
        }
    }

    /// The legacy stream of news: what changes without having been asked for.
    async fn news(&self, from: &Incoming<'_, S::Principal>, responder: Responder) -> Responded {
        if !accepts(from.head, EVENT_STREAM) {
            return plain(responder, 406, &[], "accept must allow text/event-stream").await;
        }
        let offer = self.service.offer(from.principal).await;
        let changes = self.service.listen(from.principal);
        let wanted = Wanted::lists(&offer);
        listen::run(&self.world, responder, &changes, &wanted, None).await
    }

    /// The end of a legacy session: "DELETE ends what the session has in flight".
    async fn end(&self, from: &Incoming<'_, S::Principal>, responder: Responder) -> Responded {
        let Some(session) = from.session else {
            return plain(responder, 404, &[], "no such session").await;
        };
        self.calls.end(session.nonce);
        responder.send(204, &[], b"").await
    }

    async fn post(
        &self,
        from: &Incoming<'_, S::Principal>,
        body: BodyReader,
        responder: Responder,
    ) -> Responded {
        if !is_json(from.head) {
            let reason = "the content type must be application/json";
            return plain(responder, 415, &[], reason).await;
        }
        // "`Accept` on POST MUST list `application/json` and `text/event-stream`".
        if !(accepts(from.head, APPLICATION_JSON) && accepts(from.head, EVENT_STREAM)) {
            let reason = "accept must allow application/json and text/event-stream";
            return plain(responder, 406, &[], reason).await;
        }
        let body = match body.read_all(self.settings.body_bytes).await {
            Ok(body) => body,
            Err(fault) => {
                let retry = [("retry-after", RETRY_SECONDS)];
                let headers = if fault.status() == 503 {
                    &retry[..]
                } else {
                    &[]
                };
                return plain(responder, fault.status(), headers, &fault.to_string()).await;
            }
        };
        match message::parse(&body) {
            Ok(Body::One(Ok(Message::Request { id, method, params }))) => {
                self.one(from, id, method, &params, responder).await
            }
            Ok(Body::One(Ok(message))) => match self.take(from, message) {
                Ok(()) => responder.send(202, &[], b"").await,
                Err(error) => refuse(responder, None, &error).await,
            },
            Ok(Body::Batch(messages)) => self.batch(from, messages, responder).await,
            Ok(Body::One(Err(error))) | Err(error) => refuse(responder, None, &error).await,
        }
    }

    /// Takes a message that wants no answer.
    fn take(
        &self,
        from: &Incoming<'_, S::Principal>,
        message: Message<'_>,
    ) -> Result<(), RpcError> {
        match message {
            Message::Notification { method, params } if method == "notifications/cancelled" => {
                let id = params.get("requestId").and_then(Id::parse);
                if let (Some(session), Some(id)) = (from.session, id) {
                    self.calls.cancel(session.nonce, &id);
                }
                Ok(())
            }
            Message::Response { .. } if is_modern(from.head, None) => {
                // "Client MUST NOT send responses."
                Err(RpcError::new(-32600, "a response, and nothing was asked"))
            }
            Message::Response {
                id: Some(id),
                outcome,
            } => {
                if let Some(session) = from.session {
                    let outcome = outcome.map(ToOwned::to_owned);
                    self.calls.answer(session.nonce, &id, outcome);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn one(
        &self,
        from: &Incoming<'_, S::Principal>,
        id: Id,
        method: Cow<'_, str>,
        params: &Members<'_>,
        responder: Responder,
    ) -> Responded {
        let meta = match meta_of(params) {
            Ok(meta) => meta,
            Err(error) => return refuse(responder, Some(&id), &error).await,
        };
        let prepared = match prepare(from.head, from.session, method, params, meta.as_ref()) {
            Ok(prepared) => prepared,
            Err(error) => return refuse(responder, Some(&id), &error).await,
        };
        let version = prepared.request.version;
        match (&*prepared.request.method, version.is_modern()) {
            ("initialize", false) => self.initialize(from, &id, params, responder).await,
            ("subscriptions/listen", true) => {
                let offer = self.service.offer(from.principal).await;
                self.listen(from, &id, &prepared.request, &offer, responder)
                    .await
            }
            _ => {
                let running = match self.enter(from, &id) {
                    Ok(running) => running,
                    Err(error) => return refuse(responder, Some(&id), &error).await,
                };
                let (context, events) = CallContext::new(
                    Arc::new(from.socket.clone()),
                    prepared.token,
                    prepared.request.log_level,
                );
                let answering: Pin<Box<dyn Future<Output = Done> + Send + '_>> = Box::pin(async {
                    let done = self.answer(from, &prepared.request, &context).await;
                    finished(&id, &prepared.request, done)
                });
                let cancelled = cancelled(running.as_ref());
                stream::run(&self.world, responder, answering, events, cancelled).await
            }
        }
    }

    /// Several messages of 2025-03-26, all at once.
    async fn batch(
        &self,
        from: &Incoming<'_, S::Principal>,
        messages: Vec<Result<Message<'_>, RpcError>>,
        responder: Responder,
    ) -> Responded {
        match legacy_version(from.head, from.session) {
            Ok(Version::V2025_03_26) if !is_modern(from.head, None) => {}
            _ => {
                let error = RpcError::new(-32600, "a batch is for 2025-03-26 only");
                return refuse(responder, None, &error).await;
            }
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
                Err(error) => return refuse(responder, None, &error).await,
            }
        }
        drop(sender);
        if answers.is_empty() {
            return responder.send(202, &[], b"").await;
        }
        let answering: Pin<Box<dyn Future<Output = Done> + Send + '_>> = Box::pin(async {
            Done {
                status: 200,
                messages: super::join::all(answers).await,
                is_batch: true,
                large: None,
            }
        });
        stream::run(&self.world, responder, answering, events, pending()).await
    }

    /// One request of a batch.
    async fn in_batch(
        &self,
        from: &Incoming<'_, S::Principal>,
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
        let prepared = match prepare(from.head, from.session, method, &params, meta.as_ref()) {
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
        let context = CallContext::telling(
            Arc::new(from.socket.clone()),
            prepared.token,
            prepared.request.log_level,
            events,
        );
        let answering = async {
            let done = self.answer(from, request, &context).await;
            in_one_piece(&id, finished(&id, request, done)).await
        };
        let given_up = async {
            cancelled(running.as_ref()).await;
            refused(RpcError::new(-32603, "cancelled"))
        };
        smol::future::or(given_up, answering).await
    }

    /// A request in flight that a message may cancel, where the caller has a session.
    fn enter(
        &self,
        from: &Incoming<'_, S::Principal>,
        id: &Id,
    ) -> Result<Option<Running>, RpcError> {
        let Some(session) = from.session else {
            return Ok(None);
        };
        let running = self.calls.enter(session.nonce, id);
        let running = running
            .ok_or_else(|| RpcError::new(-32600, "a request of this id is still in flight"))?;
        Ok(Some(running))
    }

    /// Every request whose answer is a result.
    async fn answer(
        &self,
        from: &Incoming<'_, S::Principal>,
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

    /// "Server has that version → MUST answer the same string. Otherwise → MUST answer another version it supports".
    async fn initialize(
        &self,
        from: &Incoming<'_, S::Principal>,
        id: &Id,
        params: &Members<'_>,
        responder: Responder,
    ) -> Responded {
        let wanted = params.get("protocolVersion").and_then(json::string);
        let version = wanted
            .and_then(|name| Version::parse(&name))
            .filter(|version| !version.is_modern())
            .unwrap_or(Version::NEWEST_LEGACY);
        let declared = params.get("capabilities");
        let capabilities = declared.map_or(ClientCapabilities::NONE, ClientCapabilities::parse);
        let offer = self.service.offer(from.principal).await;
        let result = format!(
            r#"{{"protocolVersion":"{}","capabilities":{},"serverInfo":{},"instructions":{}}}"#,
            version.name(),
            offer.capabilities(version),
            implementation(),
            quote(&offer.instructions),
        );
        let session = SessionId::new(&self.world.random, version, capabilities);
        let caller = self.service.identity(from.principal);
        let session = session.to_text(&self.settings.sealer, caller);
        let mut headers = stream::JSON.to_vec();
        headers.push((SESSION_HEADER, &session));
        let answer = response(id, &result);
        responder.send(200, &headers, answer.as_bytes()).await
    }

    async fn listen(
        &self,
        from: &Incoming<'_, S::Principal>,
        id: &Id,
        request: &Request<'_>,
        offer: &Offer,
        responder: Responder,
    ) -> Responded {
        if !offer.announces() {
            let error = RpcError::new(-32601, "nothing here is announced");
            return refuse(responder, Some(id), &error).await;
        }
        let changes = self.service.listen(from.principal);
        match Wanted::parse(request, offer) {
            Ok(wanted) => listen::run(&self.world, responder, &changes, &wanted, Some(id)).await,
            Err(error) => refuse(responder, Some(id), &error).await,
        }
    }
}

fn discovered(offer: &Offer) -> RpcResult {
    let mut result = RpcResult::default();
    result.set("supportedVersions", Version::all_as_json());
    result.set("capabilities", offer.capabilities(Version::V2026_07_28));
    result.set("instructions", quote(&offer.instructions));
    result
}

/// What a request came to, as it is answered.
fn finished(id: &Id, request: &Request<'_>, done: Result<RpcResult, RpcError>) -> Done {
    match done {
        Ok(mut result) => match result.take_rest() {
            Some((rest, keeps)) => Done {
                status: 200,
                messages: Vec::new(),
                is_batch: false,
                large: Some(Large {
                    begin: format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"#, id.as_json()),
                    rest,
                    keeps,
                    method: request.method.clone().into_owned(),
                    version: request.version,
                }),
            },
            None => {
                let result = result.to_json(&request.method, request.version);
                Done::one(200, response(id, &result))
            }
        },
        Err(error) => {
            let error = error.of_era(request.version);
            Done::one(error.status, error.to_json(Some(id)))
        }
    }
}

/// The message of an answer that has to be whole.
async fn in_one_piece(id: &Id, done: Done) -> String {
    match done.large {
        None => done.messages.concat(),
        Some(large) => large
            .gather(GATHERED_BYTES)
            .await
            .unwrap_or_else(|fault| RpcError::new(-32603, fault.to_string()).to_json(Some(id))),
    }
}

async fn cancelled(running: Option<&Running>) {
    match running {
        Some(running) => running.cancelled().await,
        None => pending().await,
    }
}

fn meta_of<'a>(params: &Members<'a>) -> Result<Option<Members<'a>>, RpcError> {
    let meta = params.get("_meta").map(|meta| Members::parse(meta.get()));
    meta.transpose()
        .map_err(|_| RpcError::new(-32602, "params._meta is not an object"))
}

fn prepare<'a>(
    head: &'a RequestHead,
    session: Option<SessionId>,
    method: Cow<'a, str>,
    params: &'a Members<'a>,
    meta: Option<&'a Members<'a>>,
) -> Result<Prepared<'a>, RpcError> {
    let version = settle(head, session, &method, params, meta)?;
    let said = |key: &str| meta.and_then(|meta| meta.get(key));
    let capabilities = match version.is_modern() {
        true => said(META_CAPABILITIES).map(ClientCapabilities::parse),
        false => session.map(|session| session.capabilities),
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
            headers: &head.headers,
            params,
            meta,
            log_level,
            round: None,
        },
        token,
    })
}

/// The revision of a request, from the request alone.
fn settle(
    head: &RequestHead,
    session: Option<SessionId>,
    method: &str,
    params: &Members<'_>,
    meta: Option<&Members<'_>>,
) -> Result<Version, RpcError> {
    if is_modern(head, meta) {
        check_modern(head, method, params, meta)?;
        return Ok(Version::V2026_07_28);
    }
    match method {
        // The header comes after `initialize`, which names the version itself.
        "initialize" => Ok(Version::NEWEST_LEGACY),
        _ => legacy_version(head, session),
    }
}

fn legacy_version(head: &RequestHead, session: Option<SessionId>) -> Result<Version, RpcError> {
    match head.headers.only(VERSION_HEADER) {
        Err(_) => Err(RpcError::new(-32600, "MCP-Protocol-Version is repeated")),
        Ok(Some(name)) => Version::parse(name).ok_or_else(|| unsupported(name)),
        // "Header absent and nothing else known → server SHOULD assume 2025-03-26".
        Ok(None) => Ok(session.map_or(Version::V2025_03_26, |session| session.version)),
    }
}

/// Media types are compared without their parameters (RFC 9110 section 8.3.1).
fn is_json(head: &RequestHead) -> bool {
    let Ok(Some(media)) = head.headers.only("content-type") else {
        return false;
    };
    media
        .split(';')
        .next()
        .is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json"))
}

/// What allows plain JSON, and what allows a stream.
const APPLICATION_JSON: [&str; 3] = ["application/json", "application/*", "*/*"];
const EVENT_STREAM: [&str; 3] = ["text/event-stream", "text/*", "*/*"];

/// Whether `Accept` lists one of these; ranges that hold them count.
fn accepts(head: &RequestHead, wanted: [&str; 3]) -> bool {
    let lines = head.headers.all("accept");
    lines
        .filter_map(|line| std::str::from_utf8(line).ok())
        .flat_map(|line| line.split(','))
        .any(|range| {
            let range = range.split(';').next().unwrap_or_default().trim();
            wanted
                .iter()
                .any(|wanted| range.eq_ignore_ascii_case(wanted))
        })
}

async fn plain(
    responder: Responder,
    status: u16,
    headers: &[(&str, &str)],
    reason: &str,
) -> Responded {
    let mut all = vec![("content-type", "text/plain; charset=utf-8")];
    all.extend_from_slice(headers);
    responder
        .send(status, &all, format!("{reason}\n").as_bytes())
        .await
}

async fn refuse(responder: Responder, id: Option<&Id>, error: &RpcError) -> Responded {
    let done = Done::one(error.status, error.to_json(id));
    whole(responder, done).await
}
