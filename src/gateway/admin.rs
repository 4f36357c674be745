//! Where the gateway is watched: whether it lives, and whether it can be used.

use std::sync::Arc;
use std::time::Duration;

use super::roster::Entry;
use super::service::Gateway;
use crate::http::{Handler, Method, Request, Responded, Responder};
use crate::mcp::join;
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
        let (status, text, more) = match (request.head.path(), &request.head.method) {
            ("/healthz" | "/readyz", method) if !matches!(method, Method::Get | Method::Head) => (
                405,
                "GET and HEAD are served here".to_owned(),
                Some(("allow", "GET, HEAD")),
            ),
            ("/healthz", _) => (200, "ok".to_owned(), None),
            ("/readyz", _) => match self.unready().await {
                down if down.is_empty() => (200, "ready".to_owned(), None),
                down => (503, down.join("\n"), Some(("retry-after", "5"))),
            },
            _ => (404, "there is nothing at this path".to_owned(), None),
        };
        let mut headers = vec![
            ("content-type", "text/plain; charset=utf-8"),
            ("cache-control", "no-store"),
        ];
        headers.extend(more);
        responder
            .send(status, &headers, format!("{text}\n").as_bytes())
            .await
    }
}
