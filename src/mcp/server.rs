//! The MCP endpoint over HTTP: both eras, one request at a time, nothing kept between them.

use std::pin::pin;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::envelope::{VERSION_HEADER, check_modern, is_modern, unsupported};
use super::message::{self, Id, Message, RpcError, is_integer, response};
use super::service::{CallContext, HttpRefusal, Service, ToolCall};
use super::stream::Answer;
use super::version::Version;
use super::{META_SERVER, implementation};
use crate::http::{Guard, Handler, Request, RequestHead, Responded, Responder};
use crate::json::{self, Members, quote};
use crate::world::World;

/// The headers of a plain answer.
const JSON: [(&str, &str); 2] = [
    ("content-type", "application/json"),
    ("cache-control", "no-store"),
];

/// When to try again: what fills a limit here is calls that wait, and any of them may end at any time.
const RETRY_SECONDS: &str = "1";

/// A body of at most this many bytes is read of anyone who was admitted.
const LISTS_MAY_BE_KEPT_MS: u64 = 0;

/// How one endpoint behaves.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Hosts and origins that it answers to.
    pub guard: Guard,
    /// The largest request body, in bytes.
    pub body_bytes: usize,
    /// Told to every client that opens or discovers.
    pub instructions: String,
}

/// A [`Service`] behind HTTP.
pub struct Server<S> {
    world: World,
    service: Arc<S>,
    settings: ServerSettings,
}

impl<S: Service> Handler for Server<S> {
    /// The order of the checks is that of the protocol digest, section 2.6: cheap and anonymous ones first, the body
    /// only for a caller who was admitted, and everything that must be an HTTP error before a stream opens.
    async fn handle(&self, request: Request, responder: Responder) -> Responded {
        let Request {
            head,
            body,
            peer,
            caller,
        } = request;
        if !self.settings.guard.admits(&head) {
            return plain(
                responder,
                403,
                &[],
                "this host or origin is not served here",
            )
            .await;
        }
        if !self.service.serves(head.path()) {
            return plain(responder, 404, &[], "there is nothing at this path").await;
        }
        if head.method != crate::http::Method::Post {
            return plain(
                responder,
                405,
                &[("allow", "POST")],
                "only POST is served here",
            )
            .await;
        }
        let principal = match self.service.admit(&head, peer) {
            Ok(principal) => principal,
            Err(HttpRefusal {
                status,
                headers,
                reason,
            }) => {
                return plain(responder, status, &headers, reason).await;
            }
        };
        if !is_json(&head) {
            return plain(
                responder,
                415,
                &[],
                "the content type must be application/json",
            )
            .await;
        }
        if !accepts_both(&head) {
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
        let (id, method, params) = match message::parse(&body) {
            Ok(Message::Request { id, method, params }) => (id, method, params),
            // A notification wants no answer, and we never ask what a response would answer.
            Ok(Message::Notification { .. } | Message::Response) => {
                return responder.send(202, &[], b"").await;
            }
            Err(error) => return refuse(responder, None, &error).await,
        };
        let meta = match params
            .get("_meta")
            .map(|meta| Members::parse(meta.get()))
            .transpose()
        {
            Ok(meta) => meta,
            Err(_) => {
                let error = RpcError::new(-32602, "params._meta is not an object");
                return refuse(responder, Some(&id), &error).await;
            }
        };
        let version = match settle(&head, &method, &params, meta.as_ref()) {
            Ok(version) => version,
            Err(error) => return refuse(responder, Some(&id), &error).await,
        };
        let token = meta.as_ref().and_then(|meta| meta.get("progressToken"));
        let token = token.filter(|token| token.get().starts_with('"') || is_integer(token.get()));
        if method == "tools/call" {
            let call = match tool_call(&params, meta, version) {
                Ok(call) => call,
                Err(error) => return refuse(responder, Some(&id), &error.of_era(version)).await,
            };
            let (context, events) = CallContext::new(caller);
            let running = pin!(self.service.call(&principal, call, &context));
            let answer = Answer {
                world: &self.world,
                id: &id,
                version,
                token,
            };
            return answer.run(responder, running, events).await;
        }
        match self.answer(&principal, &method, &params, version).await {
            Ok(result) => {
                responder
                    .send(200, &JSON, response(&id, &result).as_bytes())
                    .await
            }
            Err(error) => refuse(responder, Some(&id), &error.of_era(version)).await,
        }
    }
}

impl<S: Service> Server<S> {
    /// An endpoint for `service`.
    #[must_use]
    pub const fn new(world: World, service: Arc<S>, settings: ServerSettings) -> Self {
        Self {
            world,
            service,
            settings,
        }
    }

    /// Everything but `tools/call`.
    async fn answer(
        &self,
        principal: &S::Principal,
        method: &str,
        params: &Members<'_>,
        version: Version,
    ) -> Result<String, RpcError> {
        match (method, version.is_modern()) {
            ("server/discover", true) => Ok(self.discover()),
            ("initialize", false) => Ok(self.initialize(params)),
            ("ping", false) => Ok("{}".to_owned()),
            ("tools/list", _) => {
                // All tools fit on one page, so no cursor was ever given out.
                if params
                    .get("cursor")
                    .is_some_and(|cursor| cursor.get() != "null")
                {
                    return Err(RpcError::new(-32602, "unknown cursor"));
                }
                let tools = self.service.tools(principal).await?;
                Ok(tools_list(&tools, version))
            }
            _ => {
                let shown: String = method.chars().take(64).collect();
                Err(RpcError::new(
                    -32601,
                    format!("there is no method {}", quote(&shown)),
                ))
            }
        }
    }

    fn discover(&self) -> String {
        format!(
            r#"{{"resultType":"complete","supportedVersions":{},"capabilities":{{"tools":{{}}}},"instructions":{},"ttlMs":{LISTS_MAY_BE_KEPT_MS},"cacheScope":"private","_meta":{{"{META_SERVER}":{}}}}}"#,
            Version::all_as_json(),
            quote(&self.settings.instructions),
            implementation(),
        )
    }

    /// "Server has that version → MUST answer the same string. Otherwise → MUST answer another version it supports".
    fn initialize(&self, params: &Members<'_>) -> String {
        let wanted = params.get("protocolVersion").and_then(json::string);
        let version = wanted
            .and_then(|name| Version::parse(&name))
            .filter(|version| !version.is_modern())
            .unwrap_or(Version::NEWEST_LEGACY);
        format!(
            r#"{{"protocolVersion":"{}","capabilities":{{"tools":{{}}}},"serverInfo":{},"instructions":{}}}"#,
            version.name(),
            implementation(),
            quote(&self.settings.instructions),
        )
    }
}

fn tools_list(tools: &[Box<RawValue>], version: Version) -> String {
    let tools: Vec<&str> = tools.iter().map(|tool| tool.get()).collect();
    let tools = tools.join(",");
    if version.is_modern() {
        format!(
            r#"{{"resultType":"complete","tools":[{tools}],"ttlMs":{LISTS_MAY_BE_KEPT_MS},"cacheScope":"private","_meta":{{"{META_SERVER}":{}}}}}"#,
            implementation()
        )
    } else {
        format!(r#"{{"tools":[{tools}]}}"#)
    }
}

/// The revision of a request, from the request alone.
fn settle(
    head: &RequestHead,
    method: &str,
    params: &Members<'_>,
    meta: Option<&Members<'_>>,
) -> Result<Version, RpcError> {
    if is_modern(head, meta) {
        check_modern(head, method, params, meta)?;
        return Ok(Version::V2026_07_28);
    }
    let named = match head.headers.only(VERSION_HEADER) {
        Ok(named) => named,
        Err(_) => return Err(RpcError::new(-32600, "MCP-Protocol-Version is repeated")),
    };
    match named {
        // The header comes after `initialize`, which names the version itself.
        _ if method == "initialize" => Ok(Version::NEWEST_LEGACY),
        // "Header absent and nothing else known → server SHOULD assume 2025-03-26".
        None => Ok(Version::V2025_03_26),
        Some(name) => Version::parse(name).ok_or_else(|| unsupported(name)),
    }
}

fn tool_call<'a>(
    params: &Members<'a>,
    meta: Option<Members<'a>>,
    version: Version,
) -> Result<ToolCall<'a>, RpcError> {
    let name = params
        .get("name")
        .and_then(json::string)
        .ok_or_else(|| RpcError::new(-32602, "params.name is not a string"))?;
    let arguments = match params.get("arguments") {
        None => empty_object(),
        Some(arguments) if arguments.get().starts_with('{') => arguments,
        Some(_) => return Err(RpcError::new(-32602, "params.arguments is not an object")),
    };
    Ok(ToolCall {
        name,
        arguments,
        meta,
        version,
    })
}

/// `{}`, for a call without arguments.
fn empty_object() -> &'static RawValue {
    serde_json::from_str("{}").unwrap_or(RawValue::NULL)
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

/// "`Accept` on POST MUST list `application/json` and `text/event-stream`"; ranges that hold them count.
fn accepts_both(head: &RequestHead) -> bool {
    let accepts = |wanted: [&str; 3]| {
        head.headers
            .all("accept")
            .filter_map(|line| std::str::from_utf8(line).ok())
            .any(|line| {
                line.split(',').any(|range| {
                    let range = range.split(';').next().unwrap_or_default().trim();
                    wanted
                        .iter()
                        .any(|wanted| range.eq_ignore_ascii_case(wanted))
                })
            })
    };
    accepts(["application/json", "application/*", "*/*"])
        && accepts(["text/event-stream", "text/*", "*/*"])
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
    whole(responder, error.status, &error.to_json(id)).await
}

/// A whole JSON answer. "429 and 503 with `Retry-After`" (interface).
pub(super) async fn whole(responder: Responder, status: u16, body: &str) -> Responded {
    let mut headers = JSON.to_vec();
    if matches!(status, 429 | 503) {
        headers.push(("retry-after", RETRY_SECONDS));
    }
    responder.send(status, &headers, body.as_bytes()).await
}
