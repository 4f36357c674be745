//! The person's side: sees the questions that are theirs, and answers them.

use std::fmt::Write as _;

use super::Desk;
use super::page::{self, AnsweredView, PageView, PendingView};
use super::people::Known;
use super::poll::not_found;
use super::questions::{Answered, Decision, Open, Outcome, Settled};
use super::reply::Reply;
use super::sign_in::{Caller, Form, stale_page};
use crate::approval::RequestId;
use crate::http::RequestHead;
use crate::json::{Exact, quote};

/// What stands for the tool where the asker named none.
const UNNAMED_TOOL: &str = "unnamed tool";

impl Desk {
    /// `GET /`: the questions, or the door.
    pub(super) fn page(&self, head: &RequestHead) -> Reply {
        match self.signed_in(head) {
            Some(Caller {
                person,
                cookie: Some(cookie),
                ..
            }) => Reply::html(200, self.index(&person, &cookie, head.query())),
            _ => Reply::html(200, page::sign_in(None)),
        }
    }

    fn index(&self, person: &Known, cookie: &str, query: Option<&str>) -> String {
        let notice = query.and_then(|query| self.notice(person, query));
        let open = self.questions.open(&person.sees);
        let recent = self.questions.recent(&person.sees);
        page::index(&PageView {
            person: &person.id,
            csrf: &self.people.csrf_token(cookie),
            now_wall_ms: self.world.clock.wall_ms(),
            notice: notice.as_deref(),
            pending: open.iter().map(|open| pending_view(open)).collect(),
            recent: recent.into_iter().map(answered_view).collect(),
        })
    }

    /// What became of the question that `?answered=ID` names, for a browser without script. Of the address only the
    /// id is used: no link can make the page say what did not happen.
    fn notice(&self, person: &Known, query: &str) -> Option<String> {
        let form = Form::parse(query.as_bytes())?;
        let id = form.get("answered")?;
        let settled = RequestId::parse(id).and_then(|id| self.questions.settled(&id, &person.sees));
        let Some(settled) = settled else {
            return Some("This question is gone.".to_owned());
        };
        let outcome = match settled.outcome {
            Outcome::Accepted => "accepted",
            Outcome::Declined => "declined",
            Outcome::Expired => return Some("That question had expired.".to_owned()),
            Outcome::NotConfirmed => "accepted without the tick",
        };
        let who = settled.who.unwrap_or_default();
        Some(format!("That question was {outcome} by {who}."))
    }

    /// `POST /answer`: the page's form, for a browser without script.
    pub(super) fn form_answer(&self, head: &RequestHead, form: &Form) -> Reply {
        let Some(caller) = self.signed_in(head) else {
            return Reply::see_other("/".to_owned());
        };
        if !self.is_meant(&caller, form.get("csrf")) {
            return stale_page();
        }
        // A browser leaves an unticked box out.
        let confirm = form.get("confirm") == Some("true");
        let Some(decision) = form.get("action").and_then(|word| decision(word, confirm)) else {
            return Reply::text(422, "This is neither a yes nor a no.");
        };
        let Some(id) = form.get("id").and_then(RequestId::parse) else {
            return Reply::text(404, "There is no such question.");
        };
        self.answer(&caller.person, &id, decision);
        Reply::see_other(format!("/?answered={}", id.as_str()))
    }

    /// `GET /api/pending`: the open questions and what was answered lately.
    pub(super) fn pending(&self, caller: &Caller) -> Reply {
        let sees = &caller.person.sees;
        let mut text = format!(r#"{{"now":{},"pending":["#, self.world.clock.wall_ms());
        for (at, open) in self.questions.open(sees).iter().enumerate() {
            text.push_str(if at == 0 { "" } else { "," });
            write_pending(&mut text, &pending_view(open));
        }
        text.push_str(r#"],"recent":["#);
        for (at, settled) in self.questions.recent(sees).into_iter().enumerate() {
            text.push_str(if at == 0 { "" } else { "," });
            write_answered(&mut text, &answered_view(settled));
        }
        text.push_str("]}");
        Reply::json(200, text)
    }

    /// `POST /api/answer` with `{"id", "action": "accept" | "decline", "confirm": bool}`.
    pub(super) fn api_answer(&self, caller: &Caller, body: &[u8]) -> Reply {
        let unprocessable = |message| Reply::fault(422, "Unprocessable Entity", message);
        let Some(body) = std::str::from_utf8(body)
            .ok()
            .and_then(|text| Exact::parse(text).ok())
        else {
            return Reply::fault(400, "Bad Request", "The body is no unambiguous JSON.");
        };
        let Some(id) = body.get("id").and_then(Exact::as_str) else {
            return unprocessable("id must be the id of a question");
        };
        // A yes says explicitly whether the box was ticked.
        let confirm = body.get("confirm").and_then(Exact::as_bool);
        let decision = match body.get("action").and_then(Exact::as_str) {
            Some("accept") => match confirm {
                Some(confirm) => Decision::Accept { confirm },
                None => return unprocessable("confirm must be true or false"),
            },
            Some("decline") => Decision::Decline,
            _ => return unprocessable("action must be accept or decline"),
        };
        let Some(id) = RequestId::parse(id) else {
            return not_found();
        };
        let (status, outcome) = match self.answer(&caller.person, &id, decision) {
            Answered::Now(outcome) => (200, outcome),
            Answered::Already(outcome) => (409, outcome),
            Answered::Unknown => return not_found(),
        };
        Reply::json(status, format!(r#"{{"result":"{}"}}"#, outcome.word()))
    }

    fn answer(&self, person: &Known, id: &RequestId, decision: Decision) -> Answered {
        let answered = self
            .questions
            .answer(id, &person.sees, &person.id, decision);
        if let Answered::Now(outcome) = answered {
            let (id, word) = (id.as_str(), outcome.word());
            log::info!("question {id} was answered {word} by {:?}", person.id);
        }
        answered
    }
}

fn decision(word: &str, confirm: bool) -> Option<Decision> {
    match word {
        "accept" => Some(Decision::Accept { confirm }),
        "decline" => Some(Decision::Decline),
        _ => None,
    }
}

fn shown_tool(tool: &str) -> String {
    let named = Some(tool).filter(|tool| !tool.trim().is_empty());
    named.unwrap_or(UNNAMED_TOOL).to_owned()
}

fn pending_view(open: &Open) -> PendingView {
    let asked = &open.asked;
    PendingView {
        id: asked.id.as_str().to_owned(),
        message: asked.message.clone(),
        session: asked.session.as_str().to_owned(),
        tool: shown_tool(&asked.tool),
        asked_wall_ms: open.asked_wall_ms,
        expires_wall_ms: open.deadline.wall_ms(),
        title: asked.title.clone(),
        description: asked.description.clone(),
        sender_verified: asked.sender_verified,
    }
}

fn answered_view(settled: Settled) -> AnsweredView {
    AnsweredView {
        id: settled.id.as_str().to_owned(),
        tool: shown_tool(&settled.tool),
        session: settled.session.as_str().to_owned(),
        action: settled.outcome.word().to_owned(),
        who: settled.who,
        answered_wall_ms: settled.settled_wall_ms,
        latency_ms: settled.latency_ms,
    }
}

fn write_pending(out: &mut String, view: &PendingView) {
    let [id, message, session, tool, title] = [
        &view.id,
        &view.message,
        &view.session,
        &view.tool,
        &view.title,
    ]
    .map(|text| quote(text));
    let description = nullable(view.description.as_deref());
    let (asked, expires) = (view.asked_wall_ms, view.expires_wall_ms);
    let verified = view.sender_verified;
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        r#"{{"id":{id},"message":{message},"session":{session},"tool":{tool},"title":{title},"description":{description},"asked":{asked},"expires":{expires},"senderVerified":{verified}}}"#
    );
}

fn write_answered(out: &mut String, view: &AnsweredView) {
    let [id, tool, session, action] =
        [&view.id, &view.tool, &view.session, &view.action].map(|text| quote(text));
    let who = nullable(view.who.as_deref());
    let (answered, latency) = (view.answered_wall_ms, view.latency_ms);
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        r#"{{"id":{id},"tool":{tool},"session":{session},"action":{action},"who":{who},"answered":{answered},"latencyMs":{latency}}}"#
    );
}

fn nullable(text: Option<&str>) -> String {
    text.map_or_else(|| "null".to_owned(), quote)
}
