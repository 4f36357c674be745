//! Input in the middle of a request: asked of a legacy caller here, and checked before a modern one is told to ask again.

use std::time::Duration;

use serde_json::value::RawValue;

use super::calls::Calls;
use super::capabilities::{Ability, ClientCapabilities};
use super::message::RpcError;
use super::request::{Request, Round};
use super::result::{InputRequest, ResultKind, RpcResult};
use super::service::{CallContext, Service};
use super::session::Nonce;
use super::version::Version;
use crate::json::{Members, quote};
use crate::time::Clock;

/// Rounds of one request; both official SDKs stop after as many.
const ROUNDS: usize = 10;

/// How long a caller may take to answer one question. A person may be behind it.
const ANSWER_TIME: Duration = Duration::from_secs(600);

/// By which a legacy caller can be asked something while its request runs.
pub(super) struct Interview<'a> {
    pub(super) calls: &'a Calls,
    pub(super) session: Nonce,
    pub(super) clock: &'a Clock,
}

/// Answers one request, in as many rounds as it takes where its caller cannot ask again by itself.
///
/// Dropping the future drops the request, and ends a question to its caller.
pub(super) async fn fulfil<S: Service>(
    service: &S,
    principal: &S::Principal,
    request: &Request<'_>,
    context: &CallContext,
    interview: Option<Interview<'_>>,
) -> Result<RpcResult, RpcError> {
    let mut result = service.request(principal, request, context).await?;
    for _ in 0..ROUNDS {
        if result.kind() != ResultKind::InputRequired {
            return Ok(result);
        }
        let questions = checked(&result, request)?;
        if request.version.is_modern() {
            return Ok(result);
        }
        let interview = interview.as_ref().ok_or_else(|| {
            RpcError::new(
                -32603,
                "the server asks something in the middle of this request, and a client without a session cannot be asked",
            )
        })?;
        let mut answers = Vec::new();
        for question in &questions {
            let answer = interview.ask(question, request.version, context).await?;
            answers.push(format!("{}:{}", quote(&question.key), answer.get()));
        }
        let round = Round {
            responses: RawValue::from_string(format!("{{{}}}", answers.join(",")))
                .unwrap_or_default(),
            state: result.get("requestState").map(ToOwned::to_owned),
        };
        let again = request.with_round(&round);
        result = service.request(principal, &again, context).await?;
    }
    Err(RpcError::new(
        -32603,
        format!("the server asked again after {ROUNDS} answers"),
    ))
}

/// What the caller is asked, if it may be asked at all.
///
/// "`InputRequiredResult` MUST NOT be sent on anything else"; "MUST NOT put an `elicitation/create` (or a mode) the
/// client did not declare into `inputRequests`".
fn checked(result: &RpcResult, request: &Request<'_>) -> Result<Vec<InputRequest>, RpcError> {
    let broken = |what: &str| RpcError::new(-32603, format!("the server's question: {what}"));
    if !request.may_need_input() {
        return Err(broken("this method takes no input"));
    }
    let questions = result.input_requests().map_err(broken)?;
    if questions.is_empty() && result.get("requestState").is_none() {
        return Err(broken("it asks nothing"));
    }
    for question in &questions {
        let needed = Ability::needed(&question.method, &question.params)
            .ok_or_else(|| broken("no client answers such a request"))?;
        if !request.capabilities.has(needed) {
            return Err(missing_ability(needed));
        }
    }
    Ok(questions)
}

/// The error for a request that needs what its client did not declare: "-32021 with `data.requiredCapabilities`".
pub fn missing_ability(needed: Ability) -> RpcError {
    let required = ClientCapabilities::NONE.with(needed, true);
    let what = match needed {
        Ability::Form => "elicitation by form",
        Ability::Url => "elicitation by URL",
        Ability::Sampling => "sampling",
        Ability::SamplingTools => "sampling with tools",
        Ability::SamplingContext => "sampling with context",
        Ability::Roots => "roots",
        Ability::Tasks => "tasks",
    };
    // An ability that refines another one is declared inside it.
    let required = match needed {
        Ability::SamplingTools | Ability::SamplingContext => required.with(Ability::Sampling, true),
        _ => required,
    };
    RpcError::new(
        -32021,
        format!("this request needs {what}, which the client does not declare; nothing ran"),
    )
    .with_data(format!(
        r#"{{"requiredCapabilities":{}}}"#,
        required.to_json(Version::V2026_07_28)
    ))
}

impl Interview<'_> {
    async fn ask(
        &self,
        question: &InputRequest,
        version: Version,
        context: &CallContext,
    ) -> Result<Box<RawValue>, RpcError> {
        let (id, asked) = self.calls.ask(self.session);
        let params = params_for(question, version, &id);
        context
            .tell(format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":{},"params":{params}}}"#,
                quote(&question.method),
            ))
            .await;
        let waiting = asked.answered();
        let answered = self
            .clock
            .timeout(self.clock.after(ANSWER_TIME), waiting)
            .await
            .map_err(|_| {
                RpcError::new(-32603, "the client did not answer the server's question")
            })?;
        answered.map_err(|error| {
            RpcError::new(
                -32603,
                format!(
                    "the client refused the server's question: {}",
                    error.message
                ),
            )
        })
    }
}

/// A question's parameters as a legacy revision has them: `mode` came with URLs in 2025-11-25, and there a URL needs an
/// `elicitationId`.
fn params_for(question: &InputRequest, version: Version, id: &str) -> String {
    let Ok(members) = Members::parse(question.params.get()) else {
        return "{}".to_owned();
    };
    let modes = version >= Version::V2025_11_25;
    let by_url = members
        .get("mode")
        .is_some_and(|mode| mode.get() == "\"url\"");
    let mut parts: Vec<_> = members
        .iter()
        .filter(|(name, _)| modes || *name != "mode")
        .map(|(name, value)| format!("{}:{}", quote(name), value.get()))
        .collect();
    if by_url && members.get("elicitationId").is_none() {
        parts.push(format!(r#""elicitationId":{id}"#));
    }
    format!("{{{}}}", parts.join(","))
}
