//! What one process says: answers, news, and questions, each to the call that it is for.

use log::Level;
use serde_json::value::RawValue;

use super::lines::{Line, SHOWN_BYTES};
use super::talk::{End, LINE_BYTES, Talk};
use super::{CallFault, Event, QUESTIONS, Told};
use crate::json::{self, Members, elements};
use crate::mcp::changes::Change;
use crate::mcp::client::answer::{Asked, Said, level, open, progress, resource};
use crate::mcp::message::{Id, RpcError, response};

/// The longest message that is kept for a call as news, in bytes: of these, unlike answers, there may be many.
const NEWS_BYTES: usize = 65_536;

/// Lines that are no messages, without one that is between them: such a child does not speak MCP.
const BAD_LINES: u32 = 100;

impl Talk<'_> {
    pub(super) fn hear_line(&mut self, line: &Line) -> Result<(), End> {
        // Its content may be anyone's secret: only its length is told.
        let text = json::scan(&line.bytes).ok().filter(|_| line.whole);
        let understood = match text {
            Some(text) => self.hear_messages(text)?,
            None => false,
        };
        if understood {
            self.bad = 0;
            return Ok(());
        }
        let now = self.owner.world.clock.now();
        let what = match line.whole {
            true => format!(
                "a line of {} bytes that is no message was skipped",
                line.bytes.len()
            ),
            false => format!("a line of more than {LINE_BYTES} bytes was skipped"),
        };
        self.journal.note(now, Level::Warn, what.as_bytes());
        self.bad += 1;
        if self.bad < BAD_LINES {
            return Ok(());
        }
        log::error!(
            "[{}] killed: it does not speak MCP, {BAD_LINES} lines in a row were no messages",
            self.owner.label
        );
        self.child.kill();
        Err(End::Died)
    }

    /// Hears one message, or several of 2025-03-26. Whether each was one.
    fn hear_messages(&mut self, text: &str) -> Result<bool, End> {
        let Ok(messages) = elements(text) else {
            return self.hear(text);
        };
        let mut understood = !messages.is_empty();
        for message in messages {
            understood &= self.hear(message.get())?;
        }
        Ok(understood)
    }

    fn hear(&mut self, message: &str) -> Result<bool, End> {
        match open(message) {
            Ok(Said::Answer { id, outcome }) => self.answered(id.map(RawValue::get), outcome)?,
            Ok(Said::Asked(theirs, asked)) => self.asked(theirs, asked),
            Ok(Said::Note { method, params }) => {
                self.noted(&method, params, message.len());
            }
            Ok(Said::Other) | Err(_) => return Ok(false),
        }
        Ok(true)
    }

    fn answered(
        &mut self,
        id: Option<&str>,
        outcome: Result<&RawValue, &RawValue>,
    ) -> Result<(), End> {
        if id.is_some() || outcome.is_err() {
            let step = self.opening.answered(id, outcome, &self.owner.ids);
            if let Some(step) = step {
                return self.step(step);
            }
        }
        // An error whose request the child could not read is about the only one there is, or about nobody.
        let id = match id {
            Some(id) => Some(id.to_owned()),
            None if outcome.is_err() => self.the_only_call().cloned(),
            None => None,
        };
        // Of a call that is gone: "late answers ignored".
        let Some((id, flight)) = id.and_then(|id| self.flights.remove_entry(&id)) else {
            return Ok(());
        };
        self.close_questions(&id);
        let outcome = match outcome {
            Ok(result) => Ok(result.to_owned()),
            Err(error) => Err(CallFault::Rpc(RpcError::parse(error))),
        };
        // There is room for it, and closed means that nobody waits.
        let _ = flight.events.try_send(Event::Answer(outcome));
        Ok(())
    }

    /// The call that is meant where the child does not say which: the only one it has heard of.
    fn the_only_call(&self) -> Option<&String> {
        let mut heard_of = self.flights.iter().filter(|(_, call)| call.far.has_begun());
        let (id, _) = heard_of.next()?;
        heard_of.next().is_none().then_some(id)
    }

    fn asked(&mut self, theirs: Id, asked: Asked) {
        let legacy = match self.open {
            Some((_, version)) => !version.is_modern(),
            None => self.opening.is_legacy(),
        };
        if !legacy {
            // "Responses MUST NOT be written".
            self.warn_once("it asks something, which a server of its era must not: ignored");
            return;
        }
        match asked {
            Asked::Ping => self.reply(response(&theirs, "{}")),
            Asked::Unknown => self.refuse(&theirs, -32601, "this client answers no such request"),
            Asked::Caller { .. } => {
                let calls = self.flights.iter();
                let mut calls = calls.filter(|(_, call)| call.asks && call.far.has_begun());
                // Nothing says in which call it asks.
                let only = calls.next().filter(|_| calls.next().is_none());
                let fits = self.questions.len() < QUESTIONS;
                let Some((id, flight)) = only.filter(|_| fits) else {
                    self.refuse(&theirs, -32603, "nobody can tell whom this is for");
                    return;
                };
                self.questions.push((theirs.clone(), id.clone()));
                // There is room for it, and closed means that its call is about to be forgotten.
                let _ = flight.events.try_send(Event::Asked(theirs, asked));
            }
        }
    }

    fn noted(&mut self, method: &str, params: Option<&RawValue>, bytes: usize) {
        let change = match method {
            "notifications/tools/list_changed" => Change::Tools,
            "notifications/prompts/list_changed" => Change::Prompts,
            "notifications/resources/list_changed" => Change::Resources,
            _ => {
                if let Some(params) = params {
                    self.told(method, params, bytes);
                }
                return;
            }
        };
        self.owner.announcer.announce(&change);
    }

    fn told(&mut self, method: &str, params: &RawValue, bytes: usize) {
        let member = |name: &str| Members::parse(params.get()).ok()?.get(name);
        match method {
            "notifications/resources/updated" => {
                if let Some(uri) = resource(params) {
                    let change = Change::Resource(uri.into_owned());
                    self.owner.announcer.announce(&change);
                }
            }
            "notifications/progress" if bytes <= NEWS_BYTES => {
                if let Some((token, progress)) = progress(params)
                    && let Some(flight) = self.flights.get(token.get())
                {
                    flight.tell(Told::Progress(progress));
                }
            }
            "notifications/message" => {
                let only = self.the_only_call().and_then(|id| self.flights.get(id));
                match (only, level(params)) {
                    (Some(call), Some(level)) if bytes <= NEWS_BYTES => call.tell(Told::Log {
                        level: level.to_owned(),
                        params: params.to_owned(),
                    }),
                    _ => {
                        let now = self.owner.world.clock.now();
                        let said = params.get().as_bytes();
                        let said = said.get(..SHOWN_BYTES).unwrap_or(said);
                        self.journal.note(now, Level::Info, said);
                    }
                }
            }
            "notifications/cancelled" => {
                // It does not want its answer any more, so that it gets none.
                let theirs = member("requestId").map(RawValue::get);
                self.questions
                    .retain(|(id, _)| Some(id.as_json()) != theirs);
            }
            _ => {}
        }
    }
}
