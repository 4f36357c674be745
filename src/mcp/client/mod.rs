//! The client: one server, in whichever era it speaks, over Streamable HTTP or the standard streams of a child.

mod answer;
mod child;
mod era;
mod fault;
mod http;
mod pieces;
mod post;
mod resume;
mod standing;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::value::RawValue;
use smol::channel::Sender;
use url::Url;

use super::capabilities::{Ability, ClientCapabilities};
use super::changes::Announcer;
use super::message::{Id, RpcError};
use super::param_headers::ParamHeaders;
use super::result::RpcResult;
use super::service::Progress;
use super::version::Version;
use super::{META_CAPABILITIES, META_CLIENT, META_LOG_LEVEL, META_VERSION, implementation};
use crate::http::Connection;
use crate::json::{Members, elements, quote};
use crate::secret::Secret;
use crate::text::printable;
use crate::time::Instant;
use crate::world::World;
use crate::world::child::Program;

use child::Child;
pub use fault::CallFault;
use http::HttpServer;

/// Pages of a list that are asked for; a server that never ends its list is broken.
const MAX_PAGES: usize = 64;

/// One MCP server. Nothing is connected or started until something is asked.
///
/// Dropping the client of a child ends it, and nobody waits for that: its standard input is closed, after 2 s its process
/// group is sent SIGTERM, and after 2 s more SIGKILL.
pub struct Client {
    server: Server,
    ids: Ids,
}

/// Where it is.
enum Server {
    Http(HttpServer),
    Child(Child),
}

/// Numbers requests, so that no two of one client have the same id. Cloning counts on with the same.
#[derive(Clone, Default)]
struct Ids(Arc<AtomicU64>);

impl Ids {
    fn next(&self) -> Id {
        Id::number(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// A request as it goes out.
pub struct Outgoing<'a> {
    /// What is asked.
    pub method: &'a str,
    /// The members of `params` but `_meta`, as JSON texts.
    pub params: Vec<(&'a str, &'a str)>,
    /// What `Mcp-Name` must say.
    pub name: Option<&'a str>,
    /// What `Mcp-Param-NAME` must say, by NAME.
    pub param_headers: Vec<(String, String)>,
    /// Members of `_meta` besides the protocol's own, as JSON texts.
    pub meta: Vec<(&'a str, String)>,
    /// What the server may ask in the middle of the request.
    pub capabilities: ClientCapabilities,
    /// The least severity of log messages that is wanted, by its name.
    pub log_level: Option<&'a str>,
    /// Which connection it may use.
    pub connection: Connection,
    /// Whether a result that is too large to be held may come in pieces: for what is passed on.
    pub in_pieces: bool,
}

impl<'a> Outgoing<'a> {
    /// A request without parameters, that may use a connection which was used before.
    #[must_use]
    pub const fn new(method: &'a str) -> Self {
        Self {
            method,
            params: Vec::new(),
            name: None,
            param_headers: Vec::new(),
            meta: Vec::new(),
            capabilities: ClientCapabilities::NONE,
            log_level: None,
            connection: Connection::Pooled,
            in_pieces: false,
        }
    }

    /// A call of a tool. It acts, so that it gets a connection of its own.
    #[must_use]
    pub fn call(tool: &'a str, quoted: &'a str, arguments: &'a RawValue) -> Self {
        Self {
            params: vec![("name", quoted), ("arguments", arguments.get())],
            name: Some(tool),
            connection: Connection::Fresh,
            ..Self::new("tools/call")
        }
    }

    /// The whole message for a server of that revision.
    fn to_json(&self, id: &Id, version: Version) -> String {
        // Our own token, never the caller's; the id is as good a one as any.
        let mut meta = vec![format!(r#""progressToken":{}"#, id.as_json())];
        if version.is_modern() {
            meta.push(format!(r#""{META_VERSION}":"{}""#, version.name()));
            meta.push(format!(r#""{META_CLIENT}":{}"#, implementation()));
            let capabilities = self.capabilities.to_json(version);
            meta.push(format!(r#""{META_CAPABILITIES}":{capabilities}"#));
            let level = self.log_level;
            meta.extend(level.map(|level| format!(r#""{META_LOG_LEVEL}":{}"#, quote(level))));
        }
        let more = self.meta.iter();
        meta.extend(more.map(|(key, value)| format!("{}:{value}", quote(key))));
        let params = self.params.iter();
        let params = params.map(|(name, value)| format!("{}:{value},", quote(name)));
        format!(
            r#"{{"jsonrpc":"2.0","id":{},"method":{},"params":{{{}"_meta":{{{}}}}}}}"#,
            id.as_json(),
            quote(self.method),
            params.collect::<String>(),
            meta.join(","),
        )
    }
}

/// What a server tells while a request runs.
#[derive(Debug)]
pub enum News<'a> {
    /// For the request's own token.
    Progress(Progress),
    /// The `params` of a message of its log, and the level in them.
    Log {
        /// The severity, as JSON.
        level: &'a RawValue,
        /// All of it, one JSON object.
        params: &'a RawValue,
    },
    /// A resource changed that this request listens to, by its URI.
    Resource(&'a str),
}

/// What a legacy server asks in the middle of a request.
#[derive(Debug)]
pub struct Question {
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// Its parameters, one JSON object.
    pub params: Box<RawValue>,
    /// Where the answer goes. Dropped without one, the server is told that there is none.
    pub answer: Sender<Result<Box<RawValue>, RpcError>>,
}

/// Who hears of a request while it runs.
pub struct Listener<'a> {
    /// Told of progress and log messages.
    pub news: &'a mut (dyn FnMut(News<'_>) + Send),
    /// Given the questions; `None`: each is refused.
    pub questions: Option<Sender<Question>>,
}

/// The headers that go with every request, by name: their values are credentials, looked up anew each time. An error
/// names what is not set, and nothing is sent then.
pub type HeaderSource = Box<dyn Fn() -> Result<Vec<(String, Secret)>, String> + Send + Sync>;

/// What a server over standard streams is, looked up anew for each start. An error names what is not set, and nothing is
/// started then.
pub type ProgramSource = Box<dyn Fn() -> Result<Program, String> + Send + Sync>;

/// Headers that are what they are.
#[must_use]
pub fn fixed(headers: Vec<(String, Secret)>) -> HeaderSource {
    Box::new(move || Ok(headers.clone()))
}

impl Client {
    /// A client for the server at `url`. `headers` are looked up for every request. Without a
    /// `wanted` revision the server's own era is found out and remembered.
    #[must_use]
    pub fn new(
        world: World,
        http: crate::http::Client,
        url: Url,
        headers: HeaderSource,
        wanted: Option<Version>,
    ) -> Self {
        let ids = Ids::default();
        Self {
            server: Server::Http(HttpServer::new(
                world,
                http,
                url,
                headers,
                wanted,
                ids.clone(),
            )),
            ids,
        }
    }

    /// The same client, listening to a server over HTTP outside of requests too, as to a child it always does: once
    /// something was asked, it holds one more connection to a server that has news, and opens it anew when it ends. A
    /// legacy server may ask something there; that goes to the request in flight, if there is but one.
    #[must_use]
    pub fn hearing(mut self) -> Self {
        if let Server::Http(server) = &mut self.server {
            server.hear();
        }
        self
    }

    /// A client for the server that `program` names, over its standard streams. `label` is its name in the log, where its
    /// standard error goes too. Without a `wanted` revision its own era is found out and remembered.
    ///
    /// All calls share one process, which the first of them starts. One that ends is started again for the next call: at
    /// once, and when it ends again and again after 1 s, 2 s, 4 s … 60 s. Nothing that was sent is ever sent again.
    #[must_use]
    pub fn child(
        world: &World,
        label: String,
        program: ProgramSource,
        wanted: Option<Version>,
    ) -> Self {
        let ids = Ids::default();
        Self {
            server: Server::Child(Child::new(world, label, program, wanted, ids.clone())),
            ids,
        }
    }

    /// Where the server's own news of changed lists and resources is announced: that of a child, and over HTTP that of a
    /// client that is [`Client::hearing`]. A modern server is asked for it when it says that it has some. News of a time
    /// without a process is lost: after a restart ask again. Over HTTP every list counts as changed after such a time.
    #[must_use]
    pub fn announcer(&self) -> Option<&Announcer> {
        match &self.server {
            Server::Http(server) => server.announcer(),
            Server::Child(child) => Some(child.announcer()),
        }
    }

    /// The revision that is spoken, agreed on when it was not yet.
    ///
    /// # Errors
    /// [`CallFault`].
    pub async fn version(&self, deadline: Instant) -> Result<Version, CallFault> {
        match &self.server {
            Server::Http(server) => server.version(deadline).await,
            Server::Child(child) => child.version(deadline).await,
        }
    }

    /// The `capabilities` that the server declares, as JSON, and its `instructions`.
    ///
    /// # Errors
    /// [`CallFault`].
    pub async fn offer(&self, deadline: Instant) -> Result<Box<RawValue>, CallFault> {
        match &self.server {
            Server::Http(server) => server.offer(deadline).await,
            Server::Child(child) => child.offer(deadline).await,
        }
    }

    /// Sends one request and waits for its result, in the modern form. It is sent once.
    ///
    /// Dropping the future closes the connection that carries it, which is what tells a modern server that the request
    /// is gone; a legacy one is sent `notifications/cancelled`. So is a child of either era, if any of the request was
    /// written; what was not written then never is.
    ///
    /// # Errors
    /// [`CallFault`].
    pub async fn request(
        &self,
        request: &Outgoing<'_>,
        deadline: Instant,
        listener: &mut Listener<'_>,
    ) -> Result<RpcResult, CallFault> {
        let id = self.ids.next();
        match &self.server {
            Server::Http(server) => server.request(&id, request, deadline, listener).await,
            Server::Child(child) => {
                let raw = child.request(&id, request, deadline, listener).await?;
                RpcResult::parse(&raw).map_err(CallFault::Protocol)
            }
        }
    }

    /// A whole list, all pages: the elements of the member `name` of each page, as JSON.
    ///
    /// # Errors
    /// [`CallFault`].
    pub async fn list(
        &self,
        method: &str,
        name: &str,
        deadline: Instant,
    ) -> Result<Vec<Box<RawValue>>, CallFault> {
        let mut all = Vec::new();
        let mut cursor: Option<Box<RawValue>> = None;
        for _ in 0..MAX_PAGES {
            let mut request = Outgoing::new(method);
            let next = cursor.as_deref().map(|cursor| ("cursor", cursor.get()));
            request.params.extend(next);
            let mut listener = Listener {
                news: &mut |_| {},
                questions: None,
            };
            let result = self.request(&request, deadline, &mut listener).await?;
            let page = result.get(name).and_then(|page| elements(page.get()).ok());
            let page = page.ok_or(CallFault::Protocol("the list is no array"))?;
            all.extend(page.into_iter().map(ToOwned::to_owned));
            // "An empty-string cursor is a valid cursor": only absence and null end the list.
            cursor = result
                .get("nextCursor")
                .filter(|next| next.get() != "null")
                .map(ToOwned::to_owned);
            if cursor.is_none() {
                return Ok(all);
            }
        }
        Err(CallFault::Protocol("the list never ends"))
    }

    /// The server's tools, each as JSON, all pages. Of a modern server those are left out whose headers nobody could send
    /// ("MUST drop tools with a bad annotation").
    ///
    /// # Errors
    /// [`CallFault`].
    pub async fn tools(&self, deadline: Instant) -> Result<Vec<Box<RawValue>>, CallFault> {
        let mut tools = self.list("tools/list", "tools", deadline).await?;
        if self.version(deadline).await?.is_modern() {
            tools.retain(|tool| match ParamHeaders::of_tool(tool) {
                Ok(_) => true,
                Err(why) => {
                    let members = Members::parse(tool.get()).ok();
                    let name = members.and_then(|members| members.get("name"));
                    let name = printable(name.map_or("without a name", RawValue::get));
                    log::warn!("the tool {name} is left out: {why}");
                    false
                }
            });
        }
        Ok(tools)
    }
}

/// Ends the opening of the legacy era.
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// The request that opens the legacy era.
fn initialize(id: &Id, wanted: Version) -> String {
    // A session is shared by callers of every kind. What one of them cannot answer is refused then.
    let capabilities = [
        Ability::Form,
        Ability::Url,
        Ability::Sampling,
        Ability::Roots,
    ]
    .into_iter()
    .fold(ClientCapabilities::NONE, |all, ability| {
        all.with(ability, true)
    });
    format!(
        r#"{{"jsonrpc":"2.0","id":{},"method":"initialize","params":{{"protocolVersion":"{}","capabilities":{},"clientInfo":{}}}}}"#,
        id.as_json(),
        wanted.name(),
        capabilities.to_json(wanted),
        implementation()
    )
}

/// Tells a server that nobody waits for an answer any more.
fn cancelled(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
    )
}

/// The version that an `initialize` result names, if it is one of ours.
fn agreed(result: &RawValue) -> Option<Version> {
    let members = Members::parse(result.get()).ok()?;
    let named = crate::json::string(members.get("protocolVersion")?)?;
    Version::parse(&named).filter(|version| !version.is_modern())
}
