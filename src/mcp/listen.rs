//! News: `subscriptions/listen` in the modern era; in the legacy one GET over HTTP, and unasked over standard streams.

use std::collections::BTreeSet;

use super::changes::{Change, Changes};
use super::message::{Id, RpcError, response};
use super::request::Request;
use super::service::{Announced, Offer};
use super::stream::{COMMENT_EVERY, STREAM};
use crate::http::{Responded, Responder, sse};
use crate::json::{Members, elements, quote, string};
use crate::time::Elapsed;
use crate::world::World;

/// The member of `_meta` by which a message of a stream of news names the request that opened it.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Resources that one stream may name.
const MOST_RESOURCES: usize = 256;

/// What one stream tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    tools: bool,
    prompts: bool,
    resources: bool,
    /// Those that single news is wanted of.
    pub(super) resources_by_uri: BTreeSet<String>,
}

impl Wanted {
    /// What a legacy client is told without asking: every list that changes.
    pub(super) fn lists(offer: &Offer) -> Self {
        let announced = |offered: Option<Announced>| offered == Some(Announced(true));
        Self {
            tools: announced(offer.tools),
            prompts: announced(offer.prompts),
            resources: announced(offer.resources),
            resources_by_uri: BTreeSet::new(),
        }
    }

    /// What a modern client asks for, as far as it is offered.
    pub(super) fn parse(request: &Request<'_>, offer: &Offer) -> Result<Self, RpcError> {
        let invalid = |what: &str| RpcError::new(-32602, format!("params.notifications {what}"));
        let wanted = request
            .param("notifications")
            .ok_or_else(|| invalid("is missing"))?;
        let wanted = Members::parse(wanted.get()).map_err(|_| invalid("is not an object"))?;
        let flag = |name: &str| wanted.get(name).is_some_and(|flag| flag.get() == "true");
        let offered = Self::lists(offer);
        let mut resources_by_uri = BTreeSet::new();
        if let Some(uris) = wanted
            .get("resourceSubscriptions")
            .filter(|_| offer.subscribe)
        {
            let uris = elements(uris.get())
                .map_err(|_| invalid("has resourceSubscriptions that are no array"))?;
            if uris.len() > MOST_RESOURCES {
                return Err(invalid("names too many resources"));
            }
            resources_by_uri.extend(uris.iter().filter_map(|uri| string(uri)).map(String::from));
        }
        Ok(Self {
            tools: flag("toolsListChanged") && offered.tools,
            prompts: flag("promptsListChanged") && offered.prompts,
            resources: flag("resourcesListChanged") && offered.resources,
            resources_by_uri,
        })
    }

    fn has(&self, change: &Change) -> bool {
        match change {
            Change::Tools => self.tools,
            Change::Prompts => self.prompts,
            Change::Resources => self.resources,
            // Only what was subscribed to gets here.
            Change::Resource(_) => true,
        }
    }

    /// "The accepted subset."
    fn to_json(&self) -> String {
        let flags = [
            (self.tools, "toolsListChanged"),
            (self.prompts, "promptsListChanged"),
            (self.resources, "resourcesListChanged"),
        ];
        let mut parts: Vec<_> = flags
            .iter()
            .filter(|(wanted, _)| *wanted)
            .map(|(_, name)| format!(r#""{name}":true"#))
            .collect();
        if !self.resources_by_uri.is_empty() {
            let uris = self.resources_by_uri.iter();
            let uris: Vec<_> = uris.map(|uri| quote(uri)).collect();
            parts.push(format!(r#""resourceSubscriptions":[{}]"#, uris.join(",")));
        }
        format!("{{{}}}", parts.join(","))
    }
}

/// News for one caller, as messages.
pub(super) struct News {
    changes: Changes,
    wanted: Wanted,
    /// Of the request that asked for it, in the modern era.
    id: Option<Id>,
}

impl News {
    pub(super) const fn new(changes: Changes, wanted: Wanted, id: Option<Id>) -> Self {
        Self {
            changes,
            wanted,
            id,
        }
    }

    /// "First message MUST be `notifications/subscriptions/acknowledged`": where news was asked for.
    pub(super) fn acknowledged(&self) -> Option<String> {
        let id = self.id.as_ref()?;
        let accepted = format!(r#""notifications":{}"#, self.wanted.to_json());
        let method = "notifications/subscriptions/acknowledged";
        Some(notification(method, Some(id), Some(&accepted)))
    }

    /// The next message; `None` when nobody can announce any more. Dropping the future loses none.
    pub(super) async fn next(&self) -> Option<String> {
        loop {
            let change = self.changes.next().await?;
            if !self.wanted.has(&change) {
                continue;
            }
            let uri = match &change {
                Change::Resource(uri) => Some(format!(r#""uri":{}"#, quote(uri))),
                _ => None,
            };
            let id = self.id.as_ref();
            return Some(notification(change.method(), id, uri.as_deref()));
        }
    }

    /// The answer to the request that asked for it, when the server ends it.
    pub(super) fn closing(&self) -> Option<String> {
        let id = self.id.as_ref()?;
        let result = format!(
            r#"{{"resultType":"complete","_meta":{{"{SUBSCRIPTION}":{}}}}}"#,
            id.as_json()
        );
        Some(response(id, &result))
    }
}

/// A stream of news until its caller leaves. Dropping the future ends the stream.
pub(super) async fn run(world: &World, responder: Responder, news: &News) -> Responded {
    let mut bytes = Vec::new();
    sse::comment(&mut bytes, "listening");
    if let Some(message) = news.acknowledged() {
        sse::event(&mut bytes, Some("message"), &message);
    }
    let mut writer = match responder.start(200, &STREAM, &bytes).await {
        Ok(writer) => writer,
        Err(gone) => return gone,
    };
    let clock = &world.clock;
    loop {
        let mut bytes = Vec::new();
        let ending = async {
            world.ending.begun().await;
            None
        };
        let next = smol::future::or(ending, news.next());
        match clock.timeout(clock.after(COMMENT_EVERY), next).await {
            Err(Elapsed) => sse::comment(&mut bytes, "still listening"),
            Ok(Some(message)) => sse::event(&mut bytes, Some("message"), &message),
            Ok(None) => {
                if let Some(message) = news.closing() {
                    sse::event(&mut bytes, Some("message"), &message);
                }
                return writer.finish(&bytes).await;
            }
        }
        if writer.write(&bytes).await.is_err() {
            return writer.abandon();
        }
    }
}

/// A notification of a stream of news; `params` are its members but `_meta`, as JSON.
fn notification(method: &str, id: Option<&Id>, params: Option<&str>) -> String {
    let meta = id.map(|id| format!(r#""_meta":{{"{SUBSCRIPTION}":{}}}"#, id.as_json()));
    let params: Vec<&str> = params.into_iter().chain(meta.as_deref()).collect();
    let params = match params.is_empty() {
        true => String::new(),
        false => format!(r#","params":{{{}}}"#, params.join(",")),
    };
    format!(r#"{{"jsonrpc":"2.0","method":"{method}"{params}}}"#)
}
