//! Routes of the desk, and what every request passes before it reaches one.

use std::net::IpAddr;
use std::time::Duration;

use super::Desk;
use super::asked::BODY_BYTES;
use super::page::{SCRIPT, STYLE};
use super::poll::not_found;
use super::reply::{COMMON_HEADERS, NO_REFERRER, Reply};
use super::session::ASKERS_PATH;
use super::sign_in::{Caller, Form};
use crate::http::{
    BodyReadFault, BodyReader, Handler, Method, Request, RequestHead, Responded, Responder, sse,
};
use crate::time::Elapsed;

/// Most bytes of a form: a key, or an id and a token.
const FORM_BYTES: usize = 8192;

/// Most bytes of an answer in JSON.
const ANSWER_BYTES: usize = 4096;

/// A comment goes out on a quiet stream this often, so that a page notices a dead connection, and we one.
const COMMENT_TIME: Duration = Duration::from_secs(15);

/// When a page should try again that found too many others listening.
const LISTEN_RETRY_SECONDS: u64 = 10;

/// Where a request goes.
#[derive(Clone, Copy)]
enum Route<'a> {
    Answer,
    ApiAnswer,
    ApiEvents,
    ApiPending,
    /// The session's segment.
    Create(&'a str),
    Page,
    /// The session's segment and the question's id.
    Poll(&'a str, &'a str),
    Script,
    SignIn,
    SignOut,
    Style,
}

impl<'a> Route<'a> {
    /// There is none by which a session's token could answer: `…/TOKEN/ID/respond` is not found.
    fn of(path: &'a str) -> Option<Self> {
        if let Some(rest) = path.strip_prefix(ASKERS_PATH) {
            // Neither a token nor an id holds a dot at its end, so what is taken off is never part of one.
            let rest = rest.strip_suffix(".json").unwrap_or(rest);
            return match rest.split_once('/') {
                None => Some(Self::Create(rest)),
                Some((segment, id)) if !id.contains('/') => Some(Self::Poll(segment, id)),
                Some(_) => None,
            };
        }
        Some(match path {
            "/" => Self::Page,
            "/answer" => Self::Answer,
            "/api/answer" => Self::ApiAnswer,
            "/api/events" => Self::ApiEvents,
            "/api/pending" => Self::ApiPending,
            "/desk.css" => Self::Style,
            "/desk.js" => Self::Script,
            "/sign-in" => Self::SignIn,
            "/sign-out" => Self::SignOut,
            _ => return None,
        })
    }

    /// The methods that it takes, as in an Allow field (RFC 9110 section 10.2.1).
    const fn allow(self) -> &'static str {
        match self {
            Self::Answer | Self::ApiAnswer | Self::Create(_) | Self::SignIn | Self::SignOut => {
                "POST"
            }
            // A HEAD of an endless stream would end at once and tell nothing.
            Self::ApiEvents => "GET",
            Self::ApiPending | Self::Page | Self::Poll(..) | Self::Script | Self::Style => {
                "GET, HEAD"
            }
        }
    }

    fn takes(self, method: Method) -> bool {
        let name = method.name().unwrap_or_default();
        self.allow().split(", ").any(|allowed| allowed == name)
    }
}

impl Handler for Desk {
    /// Dropping it at any await is harmless: what a request changes, it changes at once, under one lock, after its
    /// body was read whole.
    async fn handle(&self, request: Request, responder: Responder) -> Responded {
        let Request {
            head, body, peer, ..
        } = request;
        let peer = peer.ip();
        let reply = match self.admit(&head) {
            Ok(Route::ApiEvents) => match self.caller(&head, peer) {
                Ok(caller) => return self.events(&caller, responder).await,
                Err(why) => why.into(),
            },
            Ok(route) => self
                .reply(route, &head, body, peer)
                .await
                .unwrap_or_else(|refusal| refusal),
            Err(refusal) => refusal,
        };
        reply.send(responder).await
    }
}

impl Desk {
    /// What comes before everything: is the request meant for us, is there such a place, may it be done from there.
    fn admit<'a>(&self, head: &'a RequestHead) -> Result<Route<'a>, Reply> {
        if !self.site.is_ours(&head.host) {
            let message = "This desk does not answer to that host.";
            return Err(Reply::fault(403, "Forbidden", message));
        }
        let route = Route::of(head.path()).ok_or_else(not_found)?;
        if !route.takes(head.method) {
            let reply = Reply::fault(405, "Method Not Allowed", "There is no such method here.");
            return Err(reply.with("allow", route.allow().to_owned()));
        }
        let from_here = match (head.method, head.headers.only("origin")) {
            (Method::Get | Method::Head, _) => true,
            (_, Ok(origin)) => self.site.may_write(&head.host, origin),
            (_, Err(_)) => false,
        };
        if !from_here {
            let message = "Nothing can be changed from that origin.";
            return Err(Reply::fault(403, "Forbidden", message));
        }
        Ok(route)
    }

    async fn reply(
        &self,
        route: Route<'_>,
        head: &RequestHead,
        body: BodyReader,
        peer: IpAddr,
    ) -> Result<Reply, Reply> {
        match route {
            Route::Page => Ok(self.page(head)),
            Route::Script => Ok(Reply::script(SCRIPT)),
            Route::Style => Ok(Reply::style(STYLE)),
            Route::SignIn => Ok(self.sign_in(&form(head, body).await?, peer)),
            Route::SignOut => Ok(self.sign_out(head, &form(head, body).await?)),
            Route::Answer => Ok(self.form_answer(head, &form(head, body).await?)),
            // `handle` took the stream already.
            Route::ApiPending | Route::ApiEvents => Ok(self.pending(&self.caller(head, peer)?)),
            Route::ApiAnswer => {
                let caller = self.caller(head, peer)?;
                self.check_meant(&caller, head)?;
                expect_media_type(head, "application/json")?;
                let body = body.read_all(ANSWER_BYTES).await.map_err(unread)?;
                Ok(self.api_answer(&caller, &body))
            }
            Route::Create(segment) => {
                let asker = self.asker(head, segment)?;
                let body = body.read_all(BODY_BYTES).await.map_err(unread)?;
                Ok(self.create(asker, &body))
            }
            Route::Poll(segment, id) => Ok(self.poll(&self.asker(head, segment)?, id)),
        }
    }

    /// `GET /api/events`: says `changed` whenever `/api/pending` would say something else, until the sign-in ends.
    async fn events(&self, caller: &Caller, responder: Responder) -> Responded {
        // Before the first byte: what happens after it is heard.
        let Some(mut changes) = self.questions.listen(caller.person.sees.clone()) else {
            let message = "Too many pages are listening.";
            return Reply::fault(503, "Service Unavailable", message)
                .retry_after(LISTEN_RETRY_SECONDS)
                .send(responder)
                .await;
        };
        let mut headers = vec![("content-type", "text/event-stream"), NO_REFERRER];
        headers.extend(COMMON_HEADERS);
        let mut bytes = Vec::new();
        sse::comment(&mut bytes, "listening");
        let mut stream = match responder.start(200, &headers, &bytes).await {
            Ok(stream) => stream,
            Err(gone) => return gone,
        };
        let clock = &self.world.clock;
        let ending = &self.world.ending;
        loop {
            bytes.clear();
            let next = smol::future::or(changes.next(), ending.begun());
            match clock.timeout(clock.after(COMMENT_TIME), next).await {
                _ if ending.has_begun() => return stream.finish(b"").await,
                Ok(()) => sse::event(&mut bytes, Some("changed"), "{}"),
                Err(Elapsed) => sse::comment(&mut bytes, "quiet"),
            }
            let signed_in = clock.wall_ms() < caller.until_wall_ms;
            if !signed_in || stream.write(&bytes).await.is_err() {
                return stream.finish(b"").await;
            }
        }
    }
}

async fn form(head: &RequestHead, body: BodyReader) -> Result<Form, Reply> {
    expect_media_type(head, "application/x-www-form-urlencoded")?;
    let body = body.read_all(FORM_BYTES).await.map_err(unread)?;
    Form::parse(&body).ok_or_else(|| Reply::text(400, "A field of the form is there twice."))
}

/// Where a browser sends, only what our own page would send: a form of a stranger can post neither JSON nor a header.
fn expect_media_type(head: &RequestHead, wanted: &str) -> Result<(), Reply> {
    let media_type = head.headers.only("content-type").ok().flatten();
    let essence = media_type.and_then(|value| value.split(';').next());
    if essence.is_some_and(|essence| essence.trim_end().eq_ignore_ascii_case(wanted)) {
        return Ok(());
    }
    let message = format!("The body must be {wanted}.");
    Err(Reply::fault(415, "Unsupported Media Type", &message))
}

fn unread(fault: BodyReadFault) -> Reply {
    let error = match fault {
        BodyReadFault::Malformed => "Bad Request",
        BodyReadFault::Slow => "Request Timeout",
        BodyReadFault::TooLarge => "Content Too Large",
        BodyReadFault::Overloaded => "Service Unavailable",
    };
    let reply = Reply::fault(fault.status(), error, &fault.to_string());
    match fault {
        BodyReadFault::Overloaded => reply.retry_after(1),
        _ => reply,
    }
}
