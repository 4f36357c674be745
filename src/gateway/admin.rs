//! Where the gateway is watched and stopped: whether it lives, whether it can be used, and whether tools may ask.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::roster::Entry;
use super::service::Gateway;
use crate::http::{Handler, Method, Request, RequestHead, Responded, Responder};
use crate::mcp::{HttpRefusal, join};
use crate::time::{Clock, Instant};

/// How long it is believed whether servers are up: whoever watches asks often, and each look asks all of them.
const KNOWN_FOR: Duration = Duration::from_secs(5);

/// Answers whoever watches.
pub struct Admin {
    gateway: Arc<Gateway>,
    /// Under an asynchronous lock, so that many watchers at once look once.
    down: smol::lock::Mutex<Option<(Instant, Vec<String>)>>,
}

impl Admin {
    /// For this gateway.
    #[must_use]
    pub const fn new(gateway: Arc<Gateway>) -> Self {
        Self {
            gateway,
            down: smol::lock::Mutex::new(None),
        }
    }

    /// Why the gateway cannot be used now, a line each; none: it can.
    async fn unready(&self) -> Vec<String> {
        let world = self.gateway.world();
        if world.ending.has_begun() {
            return vec!["it is about to end".to_owned()];
        }
        let clock = &world.clock;
        let mut known = self.down.lock().await;
        if let Some((at, down)) = &*known
            && clock.now().since(*at) < KNOWN_FOR
        {
            return down.clone();
        }
        let required = self.gateway.required();
        let looks = required.iter().map(|entry| down(entry, clock));
        let looks = join::all(looks).await;
        let down: Vec<String> = looks.into_iter().flatten().collect();
        *known = Some((clock.now(), down.clone()));
        down
    }
}

/// A line if the server cannot be asked for its tools. The reason may name what is nobody's business; it is in the log.
async fn down(entry: &Arc<Entry>, clock: &Clock) -> Option<String> {
    let slug = &entry.server.slug;
    let listed = entry.upstream.list("tools/list", "tools", clock).await;
    let why = listed.err()?;
    log::warn!("{slug} is required and down: {why}");
    Some(format!("{slug} is down"))
}

impl Handler for Admin {
    async fn handle(&self, request: Request, responder: Responder) -> Responded {
        let Request { head, peer, .. } = request;
        let reply = match head.path() {
            "/healthz" | "/readyz" if !matches!(head.method, Method::Get | Method::Head) => {
                Reply::not_allowed("GET, HEAD")
            }
            "/healthz" => Reply::text(200, "ok"),
            "/readyz" => match self.unready().await {
                down if down.is_empty() => Reply::text(200, "ready"),
                down => Reply::text(503, &down.join("\n")).with("retry-after", "5"),
            },
            "/admin/freeze" | "/admin/thaw" => self.freeze(&head, peer),
            _ => Reply::text(404, "there is nothing at this path"),
        };
        reply.send(responder).await
    }
}

impl Admin {
    /// Stops every tool that asks, or lets them ask again.
    fn freeze(&self, head: &RequestHead, peer: SocketAddr) -> Reply {
        if head.method != Method::Post {
            return Reply::not_allowed("POST");
        }
        // "Origin check on writes": a page in a browser of this machine must not do it.
        if head.headers.all("origin").next().is_some() {
            return Reply::text(403, "not from a page");
        }
        let who = match self.gateway.administrator(head, peer) {
            Ok(who) => who,
            Err(refusal) => return Reply::refused(refusal),
        };
        let frozen = head.path() == "/admin/freeze";
        let word = if frozen { "frozen" } else { "thawed" };
        let news = self.gateway.freeze(frozen);
        log::warn!(
            "{word} by {}{}",
            who.id,
            if news { "" } else { ", as before" }
        );
        Reply::text(200, word)
    }
}

/// A short answer.
struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    text: String,
}

impl Reply {
    fn text(status: u16, text: &str) -> Self {
        Self {
            status,
            headers: Vec::new(),
            text: format!("{text}\n"),
        }
    }

    fn not_allowed(allowed: &'static str) -> Self {
        Self::text(405, "this method is not served here").with("allow", allowed)
    }

    fn refused(refusal: HttpRefusal) -> Self {
        Self {
            headers: refusal.headers,
            ..Self::text(refusal.status, refusal.reason)
        }
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    async fn send(self, responder: Responder) -> Responded {
        let mut headers = vec![
            ("content-type", "text/plain; charset=utf-8"),
            ("cache-control", "no-store"),
        ];
        let more = self.headers.iter();
        headers.extend(more.map(|(name, value)| (*name, value.as_str())));
        responder
            .send(self.status, &headers, self.text.as_bytes())
            .await
    }
}
