//! The MCP endpoint over HTTP: both eras, one request at a time, nothing kept between them.

use std::borrow::Cow;
use std::sync::Arc;

use super::answering::Done;
use super::dispatch::{Dispatcher, Kind, Origin, agreed, meta_of};
use super::envelope::is_modern;
use super::listen;
use super::message::{self, Body, Id, Message, RpcError};
use super::service::{HttpRefusal, Service};
use super::session::SessionId;
use super::stream::{self, RETRY_SECONDS, whole};
use crate::http::{self, BodyReader, Guard, Handler, Method, RequestHead, Responded, Responder};
use crate::json::Members;
use crate::secret::Sealer;
use crate::world::World;

/// The header that names a legacy session.
const SESSION_HEADER: &str = "mcp-session-id";

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
    dispatcher: Dispatcher<S>,
    settings: ServerSettings,
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
        let service = &self.dispatcher.service;
        if let Some(document) = service.document(&head) {
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
        if !service.serves(head.path()) {
            return plain(responder, 404, &[], "there is nothing at this path").await;
        }
        // "GET, DELETE → 405" in the modern era; before it they are for news and for the end of a session.
        let modern = is_modern(Some(&head.headers), None);
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
        let principal = match service.admit(&head, peer) {
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
            let caller = service.identity(&principal);
            SessionId::parse(text, &self.settings.sealer, caller)
        });
        let from = Origin {
            principal: &principal,
            headers: Some(&head.headers),
            session,
            scope: session.map(|session| session.nonce),
            caller: Arc::new(caller),
        };
        match head.method {
            Method::Get => self.news(&from, &head, responder).await,
            Method::Delete => self.end(&from, responder).await,
            _ => self.post(&from, &head, body, responder).await,
        }
    }
}

impl<S: Service> Server<S> {
    /// An endpoint for `service`.
    #[must_use]
    pub fn new(world: World, service: Arc<S>, settings: ServerSettings) -> Self {
        Self {
            dispatcher: Dispatcher::new(world, service),
            settings,
        }
    }

    /// The legacy stream of news: what changes without having been asked for.
    async fn news(
        &self,
        from: &Origin<'_, S::Principal>,
        head: &RequestHead,
        responder: Responder,
    ) -> Responded {
        if !accepts(head, EVENT_STREAM) {
            return plain(responder, 406, &[], "accept must allow text/event-stream").await;
        }
        let news = self.dispatcher.lists(from).await;
        listen::run(&self.dispatcher.world, responder, &news).await
    }

    /// The end of a legacy session: "DELETE ends what the session has in flight".
    async fn end(&self, from: &Origin<'_, S::Principal>, responder: Responder) -> Responded {
        let Some(session) = from.session else {
            return plain(responder, 404, &[], "no such session").await;
        };
        self.dispatcher.calls.end(session.nonce);
        responder.send(204, &[], b"").await
    }

    async fn post(
        &self,
        from: &Origin<'_, S::Principal>,
        head: &RequestHead,
        body: BodyReader,
        responder: Responder,
    ) -> Responded {
        if !is_json(head) {
            let reason = "the content type must be application/json";
            return plain(responder, 415, &[], reason).await;
        }
        // "`Accept` on POST MUST list `application/json` and `text/event-stream`".
        if !(accepts(head, APPLICATION_JSON) && accepts(head, EVENT_STREAM)) {
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
            Ok(Body::One(Ok(message))) => match self.dispatcher.take(from, message) {
                Ok(()) => responder.send(202, &[], b"").await,
                Err(error) => refuse(responder, None, &error).await,
            },
            Ok(Body::Batch(messages)) => match self.dispatcher.batch(from, messages) {
                Ok(Some(answering)) => {
                    stream::run(&self.dispatcher.world, responder, answering).await
                }
                Ok(None) => responder.send(202, &[], b"").await,
                Err(error) => refuse(responder, None, &error).await,
            },
            Ok(Body::One(Err(error))) | Err(error) => refuse(responder, None, &error).await,
        }
    }

    async fn one(
        &self,
        from: &Origin<'_, S::Principal>,
        id: Id,
        method: Cow<'_, str>,
        params: &Members<'_>,
        responder: Responder,
    ) -> Responded {
        let meta = match meta_of(params) {
            Ok(meta) => meta,
            Err(error) => return refuse(responder, Some(&id), &error).await,
        };
        let prepared = match from.prepare(method, params, meta.as_ref()) {
            Ok(prepared) => prepared,
            Err(error) => return refuse(responder, Some(&id), &error).await,
        };
        let world = &self.dispatcher.world;
        if world.ending.has_begun() {
            let why = "this server is about to end; nothing ran";
            return refuse(
                responder,
                Some(&id),
                &RpcError::new(-32603, why).with_status(503),
            )
            .await;
        }
        match prepared.kind() {
            Kind::Initialize => self.initialize(from, &id, params, responder).await,
            Kind::Listen => match self.dispatcher.listen(from, &id, &prepared.request).await {
                Ok(news) => listen::run(world, responder, &news).await,
                Err(error) => refuse(responder, Some(&id), &error).await,
            },
            Kind::Answer => match self.dispatcher.answer(from, &id, &prepared) {
                Ok(answering) => stream::run(world, responder, answering).await,
                Err(error) => refuse(responder, Some(&id), &error).await,
            },
        }
    }

    /// Opens a legacy session.
    async fn initialize(
        &self,
        from: &Origin<'_, S::Principal>,
        id: &Id,
        params: &Members<'_>,
        responder: Responder,
    ) -> Responded {
        let (version, capabilities) = agreed(params);
        let answer = self.dispatcher.initialized(from, id, version).await;
        let session = SessionId::new(&self.dispatcher.world.random, version, capabilities);
        let caller = self.dispatcher.service.identity(from.principal);
        let session = session.to_text(&self.settings.sealer, caller);
        let mut headers = stream::JSON.to_vec();
        headers.push((SESSION_HEADER, &session));
        responder.send(200, &headers, answer.as_bytes()).await
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
