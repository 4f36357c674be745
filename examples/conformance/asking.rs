//! What a tool or a prompt asks of its caller before it answers.
//!
//! Nothing is kept between the requests. Where an answer must not come without its question, the question goes out with
//! a sealed state that says which one it was; elsewhere whoever knows the question may answer it at once.

use countersign::json::{Members, string};
use countersign::mcp::{Ability, InputRequest, Request, RpcError, RpcResult};
use countersign::secret::{Sealer, Use, base64url, same};
use serde_json::value::RawValue;

use crate::template::{Values, fill};

/// What is asked, in rounds.
pub(crate) struct Asks {
    pub(crate) rounds: &'static [&'static [Question]],
    pub(crate) kind: Kind,
}

/// How it is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All of it, and answers are taken whether or not they were asked for.
    Plain,
    /// All of it, with a sealed state. Without that state no answer is believed.
    Sealed,
    /// Only what the caller says that it can answer.
    AsDeclared,
}

/// One thing that is asked.
pub(crate) struct Question {
    pub(crate) key: &'static str,
    pub(crate) method: &'static str,
    /// A template of JSON.
    pub(crate) params: &'static str,
}

impl Asks {
    /// What to ask next; `None` once everything has been answered. `name` is that of the tool or prompt.
    ///
    /// # Errors
    /// -32602 for a state that is not ours.
    pub(crate) fn next(
        &self,
        name: &str,
        request: &Request<'_>,
        values: &Values<'_>,
        sealer: &Sealer,
    ) -> Result<Option<RpcResult>, RpcError> {
        let state = request.param("requestState").and_then(string);
        let round = match (self.kind, state) {
            (Kind::Sealed, None) => return Ok(Some(self.ask(0, name, request, values, sealer))),
            (Kind::Sealed, Some(state)) => (0..self.rounds.len())
                .find(|round| same(seal(name, *round, sealer).as_bytes(), state.as_bytes()))
                .ok_or_else(|| RpcError::new(-32602, "requestState is not one of this server's"))?,
            _ => 0,
        };
        let wanted = self.wanted(round, request);
        let next = match wanted.iter().all(|question| question.is_answered(request)) {
            true => round + 1,
            // "SHOULD ask again".
            false => round,
        };
        let asked = || self.ask(next, name, request, values, sealer);
        Ok((next < self.rounds.len()).then(asked))
    }

    fn wanted(&self, round: usize, request: &Request<'_>) -> Vec<&'static Question> {
        let questions = self.rounds.get(round).copied().unwrap_or_default().iter();
        questions
            .filter(|question| self.kind != Kind::AsDeclared || question.is_for(request))
            .collect()
    }

    fn ask(
        &self,
        round: usize,
        name: &str,
        request: &Request<'_>,
        values: &Values<'_>,
        sealer: &Sealer,
    ) -> RpcResult {
        let questions = self.wanted(round, request).into_iter();
        let questions: Vec<_> = questions
            .map(|question| InputRequest {
                key: question.key.to_owned(),
                method: question.method.to_owned(),
                params: RawValue::from_string(fill(question.params, values)).unwrap_or_default(),
            })
            .collect();
        let state = (self.kind == Kind::Sealed).then(|| seal(name, round, sealer));
        RpcResult::input_required(&questions, state.as_deref())
    }
}

impl Question {
    fn is_for(&self, request: &Request<'_>) -> bool {
        let params: Result<&RawValue, _> = serde_json::from_str(self.params);
        let needed = Ability::needed(self.method, params.unwrap_or(RawValue::NULL));
        needed.is_some_and(|needed| request.capabilities.has(needed))
    }

    fn is_answered(&self, request: &Request<'_>) -> bool {
        let answers = answers(request);
        let answer = answers.as_ref().and_then(|answers| answers.get(self.key));
        answer.is_some_and(|answer| answer.get().starts_with('{'))
    }
}

/// The answers that came with a request.
pub(crate) fn answers<'a>(request: &Request<'a>) -> Option<Members<'a>> {
    Members::parse(request.param("inputResponses")?.get()).ok()
}

/// The state of one round of one tool or prompt.
fn seal(name: &str, round: usize, sealer: &Sealer) -> String {
    let state = format!("{name} {round}");
    let mac = sealer.mac(Use::State, state.as_bytes());
    format!("{}.{}", base64url(state.as_bytes()), base64url(&mac))
}
