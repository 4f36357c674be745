//! The client: one server over Streamable HTTP, in either era.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::value::RawValue;
use url::Url;

use super::message::{Id, RpcError};
use super::result::ToolResult;
use super::service::Progress;
use super::version::Version;
use super::{META_CAPABILITIES, META_CLIENT, META_VERSION, header, implementation};
use crate::http::head::BadHeader;
use crate::http::sse::{SseEvent, SseReader};
use crate::http::{self, ClientFault, Connection, FaultKind, Method, OutRequest, Reply};
use crate::json::{self, Members, elements, quote};
use crate::secret::Secret;
use crate::time::Instant;

/// The largest answer that is held, in bytes. What passes through streams instead, in a later part.
const ANSWER_BYTES: usize = 33_554_432;

/// Pages of a list that are asked for; a server that never ends its list is broken.
const MAX_PAGES: usize = 64;

/// One MCP server. Nothing is connected until something is asked.
pub struct Client {
    http: http::Client,
    url: Url,
    headers: Vec<(String, Secret)>,
    next_id: AtomicU64,
}

/// How a server is to be spoken to: its revision, and in the legacy era the session that it opened.
#[derive(Clone)]
pub struct Session {
    /// The revision agreed on.
    pub version: Version,
    id: Option<Secret>,
}

impl Session {
    /// A server that is known to speak 2026-07-28: nothing has to be agreed on.
    pub const MODERN: Self = Self {
        version: Version::V2026_07_28,
        id: None,
    };
}

/// Why a request to a server gave no result.
#[derive(Debug)]
pub enum CallFault {
    /// The connection. `sent` in it says whether the server may have acted.
    Connection(ClientFault),
    /// An HTTP status without a JSON-RPC error.
    Status(u16),
    /// The server's own error.
    Rpc(RpcError),
    /// The reply is not MCP as it must be: the server's fault.
    Protocol(&'static str),
    /// A header of ours that cannot be sent: the configuration's fault.
    Header,
}

impl CallFault {
    /// Whether the server may have acted: the request was on the wire and nothing says what became of it.
    #[must_use]
    pub const fn may_have_acted(&self) -> bool {
        match self {
            Self::Connection(fault) => fault.sent,
            Self::Protocol(_) => true,
            Self::Status(_) | Self::Rpc(_) | Self::Header => false,
        }
    }
}

impl fmt::Display for CallFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(fault) => write!(f, "{fault}"),
            Self::Status(401) => f.write_str("HTTP 401: the token was not accepted"),
            Self::Status(404) => f.write_str("HTTP 404: there is no such endpoint or server"),
            Self::Status(status) => write!(f, "HTTP {status}"),
            Self::Rpc(error) => write!(f, "{error}"),
            Self::Protocol(what) => write!(f, "the server's reply is not valid MCP: {what}"),
            Self::Header => f.write_str("a configured header cannot be sent"),
        }
    }
}

impl std::error::Error for CallFault {}

impl From<ClientFault> for CallFault {
    fn from(fault: ClientFault) -> Self {
        Self::Connection(fault)
    }
}

impl From<BadHeader> for CallFault {
    fn from(_: BadHeader) -> Self {
        Self::Header
    }
}

/// A request as it goes out.
struct Outgoing<'a> {
    method: &'static str,
    /// The members of `params` but `_meta`, as JSON texts.
    params: Vec<(&'static str, &'a str)>,
    /// What `Mcp-Name` must say.
    name: Option<&'a str>,
    /// Members of `_meta` besides the protocol's own.
    meta: Vec<(&'static str, String)>,
    connection: Connection,
}

impl Outgoing<'_> {
    const fn plain(method: &'static str) -> Self {
        Self {
            method,
            params: Vec::new(),
            name: None,
            meta: Vec::new(),
            connection: Connection::Pooled,
        }
    }
}

impl Client {
    /// A client for the server at `url`. `headers` go with every request; their values are credentials.
    #[must_use]
    pub const fn new(http: http::Client, url: Url, headers: Vec<(String, Secret)>) -> Self {
        Self {
            http,
            url,
            headers,
            next_id: AtomicU64::new(1),
        }
    }

    /// Agrees with the server on a revision: `wanted`, or the newest that both speak.
    ///
    /// # Errors
    /// [`CallFault`].
    pub async fn open(
        &self,
        wanted: Option<Version>,
        deadline: Instant,
    ) -> Result<Session, CallFault> {
        if wanted.is_none_or(Version::is_modern) {
            let discovered = self
                .send(
                    &Session::MODERN,
                    Outgoing::plain("server/discover"),
                    deadline,
                    &mut |_| {},
                )
                .await;
            match discovered {
                Ok(_) => return Ok(Session::MODERN),
                Err(fault) if wanted.is_some() || !means_legacy(&fault) => return Err(fault),
                Err(_) => {}
            }
        }
        self.initialize(wanted.unwrap_or(Version::NEWEST_LEGACY), deadline)
            .await
    }

    async fn initialize(&self, wanted: Version, deadline: Instant) -> Result<Session, CallFault> {
        let params = format!(
            r#"{{"protocolVersion":"{}","capabilities":{{}},"clientInfo":{}}}"#,
            wanted.name(),
            implementation()
        );
        let id = self.id();
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{},"method":"initialize","params":{params}}}"#,
            id.as_json()
        );
        let opening = Session {
            version: wanted,
            id: None,
        };
        let reply = self
            .post(&opening, None, body, Connection::Pooled, deadline)
            .await?;
        let session = match reply.headers.only("mcp-session-id") {
            Ok(session) => session.map(|session| Secret::new(session.to_owned())),
            Err(_) => return Err(CallFault::Protocol("several session ids")),
        };
        let result = read_answer(reply, &id, &mut |_| {}).await?;
        let named = Members::parse(result.get())
            .ok()
            .and_then(|result| Version::parse(&json::string(result.get("protocolVersion")?)?));
        let version = named
            .filter(|version| !version.is_modern())
            .ok_or(CallFault::Protocol("no protocol version that both speak"))?;
        let session = Session {
            version,
            id: session,
        };
        let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned();
        let reply = self
            .post(&session, None, note, Connection::Pooled, deadline)
            .await?;
        match reply.status {
            200..300 => Ok(session),
            status => Err(CallFault::Status(status)),
        }
    }

    /// The server's tools, each as JSON, all pages.
    ///
    /// # Errors
    /// [`CallFault`].
    pub async fn tools(
        &self,
        session: &Session,
        deadline: Instant,
    ) -> Result<Vec<Box<RawValue>>, CallFault> {
        let mut tools = Vec::new();
        let mut cursor: Option<Box<RawValue>> = None;
        for _ in 0..MAX_PAGES {
            let mut request = Outgoing::plain("tools/list");
            request
                .params
                .extend(cursor.as_deref().map(|cursor| ("cursor", cursor.get())));
            let result = self.send(session, request, deadline, &mut |_| {}).await?;
            let result = Members::parse(result.get())
                .map_err(|_| CallFault::Protocol("the result is no object"))?;
            let page = result
                .get("tools")
                .and_then(|tools| elements(tools.get()).ok());
            let page = page.ok_or(CallFault::Protocol("tools is no array"))?;
            tools.extend(page.into_iter().map(ToOwned::to_owned));
            // "An empty-string cursor is a valid cursor": only absence and null end the list.
            cursor = result
                .get("nextCursor")
                .filter(|next| next.get() != "null")
                .map(ToOwned::to_owned);
            if cursor.is_none() {
                return Ok(tools);
            }
        }
        Err(CallFault::Protocol("the list of tools never ends"))
    }

    /// Calls a tool, once, on a connection of its own. Dropping the future closes that connection, which is what tells
    /// the server that the call is gone.
    ///
    /// `meta` are members of `_meta` besides the protocol's own, as JSON; a `progressToken` of ours is always sent,
    /// and `progress` is told what comes for it.
    ///
    /// # Errors
    /// [`CallFault`].
    pub async fn call(
        &self,
        session: &Session,
        tool: &str,
        arguments: &RawValue,
        meta: Vec<(&'static str, String)>,
        deadline: Instant,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<ToolResult, CallFault> {
        let name = quote(tool);
        let request = Outgoing {
            method: "tools/call",
            params: vec![("name", name.as_str()), ("arguments", arguments.get())],
            name: Some(tool),
            meta,
            connection: Connection::Fresh,
        };
        let result = self.send(session, request, deadline, progress).await?;
        match Members::parse(result.get())
            .ok()
            .as_ref()
            .and_then(|result| result.get("resultType"))
        {
            // "Absent resultType = complete; unknown value = invalid".
            None => {}
            Some(kind) if kind.get() == "\"complete\"" => {}
            Some(kind) if kind.get() == "\"input_required\"" => {
                return Err(CallFault::Protocol(
                    "the server asks for input, which this client cannot give",
                ));
            }
            Some(_) => return Err(CallFault::Protocol("an unknown resultType")),
        }
        ToolResult::parse(&result).ok_or(CallFault::Protocol("the result is no object"))
    }

    fn id(&self) -> Id {
        Id::number(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    async fn send(
        &self,
        session: &Session,
        request: Outgoing<'_>,
        deadline: Instant,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Box<RawValue>, CallFault> {
        let id = self.id();
        // Our own token, never the caller's; the id is as good a one as any.
        let mut meta = vec![format!(r#""progressToken":{}"#, id.as_json())];
        if session.version.is_modern() {
            meta.push(format!(r#""{META_VERSION}":"{}""#, session.version.name()));
            meta.push(format!(r#""{META_CLIENT}":{}"#, implementation()));
            meta.push(format!(r#""{META_CAPABILITIES}":{{}}"#));
        }
        meta.extend(
            request
                .meta
                .iter()
                .map(|(key, value)| format!("{}:{value}", quote(key))),
        );
        let params = request
            .params
            .iter()
            .map(|(name, value)| format!(r#""{name}":{value},"#));
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{},"method":"{}","params":{{{}"_meta":{{{}}}}}}}"#,
            id.as_json(),
            request.method,
            params.collect::<String>(),
            meta.join(","),
        );
        let named = (request.method, request.name);
        let reply = self
            .post(session, Some(named), body, request.connection, deadline)
            .await?;
        read_answer(reply, &id, progress).await
    }

    async fn post(
        &self,
        session: &Session,
        named: Option<(&str, Option<&str>)>,
        body: String,
        connection: Connection,
        deadline: Instant,
    ) -> Result<Reply, CallFault> {
        let mut request = OutRequest::new(Method::Post, &self.url)?
            .header("content-type", "application/json")?
            .header("accept", "application/json, text/event-stream")?
            .header("mcp-protocol-version", session.version.name())?;
        if session.version.is_modern()
            && let Some((method, name)) = named
        {
            request = request.header("mcp-method", method)?;
            if let Some(name) = name {
                request = request.header("mcp-name", &header::encode(name))?;
            }
        }
        if let Some(id) = &session.id {
            request = request.header("mcp-session-id", id.expose())?;
        }
        for (name, value) in &self.headers {
            request = request.header(name, value.expose())?;
        }
        Ok(self
            .http
            .send(request.body(body.into_bytes()), deadline, connection)
            .await?)
    }
}

/// Whether a failed `server/discover` tells of a legacy server: a client error without one of the modern errors in it.
/// "401/403 and 5xx are not era evidence".
fn means_legacy(fault: &CallFault) -> bool {
    match fault {
        CallFault::Status(status) => {
            (400..500).contains(status) && !matches!(status, 401 | 403 | 429)
        }
        CallFault::Rpc(error) => !matches!(error.code, -32_022..=-32_020),
        CallFault::Connection(_) | CallFault::Protocol(_) | CallFault::Header => false,
    }
}

/// Reads the answer to the request `id`, as plain JSON or as a stream of events.
async fn read_answer(
    mut reply: Reply,
    id: &Id,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Box<RawValue>, CallFault> {
    let status = reply.status;
    if (300..400).contains(&status) {
        return Err(CallFault::Status(status));
    }
    let media = reply
        .headers
        .get("content-type")
        .unwrap_or_default()
        .to_ascii_lowercase();
    if media.starts_with(b"application/json") {
        let body = reply.read_all(ANSWER_BYTES).await?;
        // "A client must parse a JSON-RPC error body from any status".
        return match answer(&body, id) {
            Ok(Some(result)) => result,
            _ if status >= 400 => Err(CallFault::Status(status)),
            Ok(None) => Err(CallFault::Protocol("an answer to another request")),
            Err(what) => Err(CallFault::Protocol(what)),
        };
    }
    if status != 200 {
        return Err(CallFault::Status(status));
    }
    if !media.starts_with(b"text/event-stream") {
        return Err(CallFault::Protocol("neither JSON nor an event stream"));
    }
    let mut reader = SseReader::new(ANSWER_BYTES);
    loop {
        let Some(chunk) = reply.next_chunk().await? else {
            return Err(ClientFault {
                kind: FaultKind::Closed,
                sent: true,
            }
            .into());
        };
        let mut events: Vec<SseEvent> = Vec::new();
        reader
            .feed(&chunk, |event| events.push(event))
            .map_err(|_| CallFault::Protocol("a broken event stream"))?;
        for event in events.iter().filter(|event| !event.data.is_empty()) {
            match answer(event.data.as_bytes(), id) {
                Ok(Some(result)) => return result,
                Ok(None) => progress_of(&event.data, id)
                    .into_iter()
                    .for_each(&mut *progress),
                Err(what) => return Err(CallFault::Protocol(what)),
            }
        }
    }
}

/// One message of a reply: the answer to `id`, or `None` for any other message.
#[allow(clippy::type_complexity)]
fn answer(
    message: &[u8],
    id: &Id,
) -> Result<Option<Result<Box<RawValue>, CallFault>>, &'static str> {
    let text = json::scan(message).map_err(|_| "not valid JSON")?;
    let members = Members::parse(text).map_err(|_| "a message is no object")?;
    let about_us = members
        .get("id")
        .is_some_and(|theirs| theirs.get() == id.as_json());
    if let Some(error) = members.get("error") {
        // An error whose id could not be read has none, or null.
        if !about_us
            && members
                .get("id")
                .is_some_and(|theirs| theirs.get() != "null")
        {
            return Ok(None);
        }
        let error = Members::parse(error.get()).map_err(|_| "the error is no object")?;
        let code = error.get("code").and_then(|code| code.get().parse().ok());
        let code = code.ok_or("the error has no code")?;
        let text = error
            .get("message")
            .and_then(json::string)
            .unwrap_or_default();
        let mut told = RpcError::new(code, text.into_owned());
        told.data = error.get("data").map(|data| data.get().to_owned());
        return Ok(Some(Err(CallFault::Rpc(told))));
    }
    match members.get("result") {
        Some(result) if about_us => Ok(Some(Ok(result.to_owned()))),
        _ => Ok(None),
    }
}

/// The progress that a notification tells for the token `id`.
fn progress_of(message: &str, id: &Id) -> Option<Progress> {
    let members = Members::parse(message).ok()?;
    if members.get("method")?.get() != "\"notifications/progress\"" {
        return None;
    }
    let params = Members::parse(members.get("params")?.get()).ok()?;
    if params.get("progressToken")?.get() != id.as_json() {
        return None;
    }
    Some(Progress {
        progress: params.get("progress")?.get().parse().ok()?,
        total: params
            .get("total")
            .and_then(|total| total.get().parse().ok()),
        message: params
            .get("message")
            .and_then(json::string)
            .map(String::from),
    })
}
