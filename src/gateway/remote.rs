//! A server of someone else's: what is passed on to it, what comes back, and what it asks in between.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use super::mirrored::Mirrored;
use super::parked::{Next, Parking, Running, Told};
use crate::gate::{CallDigest, CallIdentity};
use crate::http::Connection;
use crate::json::{Exact, Members, quote, string};
use crate::mcp::client::{CallFault, Client, Listener, News, Outgoing};
use crate::mcp::{
    Ability, CallContext, InputRequest, META_SERVER, Request, ResultKind, RpcError, RpcResult,
    Version, missing_ability,
};
use crate::time::{Clock, Instant};

/// News and questions of one call that its caller has not taken yet.
const QUEUE: usize = 32;

/// The one question of a legacy server at a time.
const QUESTION_KEY: &str = "up.question";

/// Members of a caller's `_meta` that are passed on: what W3C Trace Context needs, and nothing else ("Core never forwards
/// a client's own _meta").
const TRACE: [&str; 3] = ["traceparent", "tracestate", "baggage"];

/// One server.
pub(super) struct Remote {
    pub(super) slug: String,
    pub(super) client: Arc<Client>,
    /// For a whole request, whatever happens in between.
    pub(super) timeout: Duration,
    pub(super) mirrored: Mirrored,
}

/// Whom a request is passed on for, and under which name there.
pub(super) struct Passing<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) caller: &'a str,
    /// What it is about.
    pub(super) about: About<'a>,
}

/// What a request is about, under the name that it has at the server.
pub(super) enum About<'a> {
    /// A tool or a prompt.
    Name(&'a str),
    /// A resource.
    Uri(&'a str),
    /// What an argument is completed for: a reference, as JSON.
    Reference(&'a str),
    /// A task.
    Task(&'a str),
}

impl About<'_> {
    /// The member of `params` that says it, and its value, as JSON.
    fn member(&self) -> (&'static str, String) {
        match self {
            Self::Name(name) => ("name", quote(name)),
            Self::Uri(uri) => ("uri", quote(uri)),
            Self::Reference(reference) => ("ref", (*reference).to_owned()),
            Self::Task(id) => ("taskId", quote(id)),
        }
    }

    /// What `Mcp-Name` says, where there is one.
    pub(super) const fn header(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Uri(uri) => Some(uri),
            Self::Task(id) => Some(id),
            Self::Reference(_) => None,
        }
    }
}

impl Remote {
    /// Passes one request on, once. Dropping the future drops it there too.
    ///
    /// # Errors
    /// The server's own errors, and [`RpcError`] for what cannot be passed on.
    pub(super) async fn pass(
        &self,
        passing: &Passing<'_>,
        context: &CallContext,
        parking: &Parking,
        clock: &Clock,
    ) -> Result<RpcResult, Failed> {
        let request = passing.request;
        let deadline = clock.after(self.timeout);
        let digest = self.digest(passing)?;
        let param_headers = self.param_headers(passing, deadline).await?;
        let version = self.client.version(deadline).await.map_err(Failed::Call)?;
        let state = request.param("requestState").and_then(string);
        let mut running = match state.filter(|_| !version.is_modern()) {
            // A legacy server keeps no state of that kind: it is one of ours, or nobody's.
            Some(state) => self.resume(&state, passing, &digest, parking)?,
            None => self.start(passing, version, param_headers, deadline),
        };
        loop {
            match running.next(context).await {
                Next::Done(done) => {
                    if let Err(CallFault::Rpc(error)) = &done
                        && error.code == -32020
                    {
                        // "On -32020 about `Mcp-Param-*` the client SHOULD re-fetch `tools/list`": before the next call.
                        self.mirrored.forget();
                    }
                    return self.came(request, done.map_err(Failed::Call)?);
                }
                Next::Asked(question) => {
                    let needed = Ability::needed(&question.method, &question.params);
                    let can = needed.is_some_and(|needed| request.capabilities.has(needed));
                    if !can || !request.may_need_input() {
                        let refusal = match needed {
                            Some(needed) => missing_ability(needed).with_code(-32602),
                            // "The server sends an `elicitation/create` with a mode not declared: -32602".
                            None if question.method == "elicitation/create" => {
                                RpcError::new(-32602, "no client has this mode of elicitation")
                            }
                            None => RpcError::new(-32601, "no client answers such a request"),
                        };
                        // Full: it has been answered.
                        let _ = question.answer.try_send(Err(refusal));
                        continue;
                    }
                    let asked = InputRequest {
                        key: QUESTION_KEY.to_owned(),
                        method: question.method.clone(),
                        params: self.labelled(&question.method, &question.params),
                    };
                    let (state, key) = parking
                        .park(running, question, passing.caller, digest)
                        .map_err(Failed::Refused)?;
                    // A modern caller comes back with another request, or the place is freed at the deadline. A legacy one
                    // is asked while it stays, and takes the call with it when it leaves.
                    if !request.version.is_modern() {
                        context.keep(Box::new(parking.keep(key)));
                    }
                    return Ok(RpcResult::input_required(&[asked], Some(&state)));
                }
            }
        }
    }

    /// What a state is bound to: the same caller, server, method, name and parameters.
    fn digest(&self, passing: &Passing<'_>) -> Result<CallDigest, Failed> {
        let arguments = passing.request.param("arguments");
        let arguments = arguments.map_or("{}", RawValue::get);
        let arguments = Exact::parse(arguments)
            .map_err(|fault| Failed::Refused(RpcError::new(-32602, fault.to_string())))?;
        let (_, about) = passing.about.member();
        let tool = format!("{} {about}", passing.request.method);
        Ok(CallDigest::of(&CallIdentity {
            slug: &self.slug,
            tool: &tool,
            arguments: &arguments,
            principal: passing.caller,
            channel: None,
        }))
    }

    /// What a call carries in headers, which the caller's own must say too: that is an HTTP error, so it is looked at
    /// before a stream opens. A tool that no list has named yet is looked for first, since a call is sent once: what a
    /// server refuses for its headers is not tried again.
    async fn param_headers(
        &self,
        passing: &Passing<'_>,
        deadline: Instant,
    ) -> Result<Vec<(String, String)>, Failed> {
        let About::Name(tool) = passing.about else {
            return Ok(Vec::new());
        };
        if passing.request.method != "tools/call" {
            return Ok(Vec::new());
        }
        if !self.mirrored.knows(tool)
            && let Err(fault) = self.tools(deadline).await
        {
            log::debug!("{}: its tools are not known: {fault}", self.slug);
        }
        self.mirrored
            .of_call(tool, passing.request)
            .map_err(Failed::Refused)
    }

    /// The server's tools, each as JSON.
    ///
    /// # Errors
    /// [`CallFault`].
    pub(super) async fn tools(&self, deadline: Instant) -> Result<Vec<Box<RawValue>>, CallFault> {
        let tools = self.client.tools(deadline).await?;
        self.mirrored.learn(&tools);
        Ok(tools)
    }

    fn start(
        &self,
        passing: &Passing<'_>,
        version: Version,
        param_headers: Vec<(String, String)>,
        deadline: Instant,
    ) -> Running {
        let request = passing.request;
        let client = self.client.clone();
        let method = request.method.clone().into_owned();
        let name = passing.about.header().map(str::to_owned);
        let (renamed, about) = passing.about.member();
        let params: Vec<(String, String)> = request
            .members()
            // They mean nothing to a legacy server.
            .filter(|(member, _)| {
                version.is_modern() || !matches!(*member, "inputResponses" | "requestState")
            })
            .map(|(member, value)| {
                let value = match member == renamed {
                    true => about.clone(),
                    false => value.get().to_owned(),
                };
                (member.to_owned(), value)
            })
            .collect();
        let meta: Vec<(&'static str, String)> = TRACE
            .into_iter()
            .filter_map(|key| Some((key, request.meta(key)?.get().to_owned())))
            .collect();
        let level = request.log_level().map(str::to_owned);
        let capabilities = request.capabilities;
        let (asking, questions) = smol::channel::bounded(QUEUE);
        let (telling, news) = smol::channel::bounded(QUEUE);
        let call = Box::pin(async move {
            let outgoing = Outgoing {
                params: params
                    .iter()
                    .map(|(member, value)| (member.as_str(), value.as_str()))
                    .collect(),
                name: name.as_deref(),
                param_headers,
                meta,
                // No more than the caller said.
                capabilities,
                log_level: level.as_deref(),
                // What acts goes on a connection of its own.
                connection: match method.as_str() {
                    "tools/call" => Connection::Fresh,
                    _ => Connection::Pooled,
                },
                in_pieces: true,
                ..Outgoing::new(&method)
            };
            let mut tell = |news: News<'_>| {
                let told = match news {
                    News::Progress(progress) => Told::Progress(progress),
                    News::Log { level, params } => Told::Log {
                        level: level.to_owned(),
                        params: params.to_owned(),
                    },
                    News::Resource(_) => return,
                };
                // Full: it is only news.
                let _ = telling.try_send(told);
            };
            let mut listener = Listener {
                news: &mut tell,
                questions: Some(asking),
            };
            client.request(&outgoing, deadline, &mut listener).await
        });
        Running {
            call,
            questions,
            news,
            ends: deadline,
        }
    }

    /// Goes on with a call whose caller brings the answer.
    fn resume(
        &self,
        state: &str,
        passing: &Passing<'_>,
        digest: &CallDigest,
        parking: &Parking,
    ) -> Result<Running, Failed> {
        let refused = |what: &str| Failed::Refused(RpcError::new(-32602, what.to_owned()));
        let answers = passing.request.param("inputResponses");
        let answers = answers
            .map(|answers| Members::parse(answers.get()))
            .transpose()
            .map_err(|_| refused("params.inputResponses is not an object"))?;
        let answer = answers.and_then(|answers| answers.get(QUESTION_KEY));
        let answer = answer
            .filter(|answer| answer.get().starts_with('{'))
            .ok_or_else(|| refused("params.inputResponses lacks the answer"))?;
        let (running, question) = parking
            .take(state, passing.caller, digest)
            .ok_or_else(|| refused("requestState is invalid, expired or already used"))?;
        // Full: cannot be, the question was just taken.
        let _ = question.answer.try_send(Ok(answer.to_owned()));
        Ok(running)
    }

    /// The result as it is passed on.
    fn came(&self, request: &Request<'_>, mut result: RpcResult) -> Result<RpcResult, Failed> {
        result.retain_meta(|key| !is_our_word(key));
        result.make_private();
        if result.kind() == ResultKind::Task && !request.capabilities.has(Ability::Tasks) {
            return Err(Failed::Call(CallFault::Protocol(
                "a task, where none may be",
            )));
        }
        if result.kind() == ResultKind::InputRequired || request.method.starts_with("tasks/") {
            let questions = result
                .input_requests()
                .map_err(|what| Failed::Call(CallFault::Protocol(what)))?;
            let questions: Vec<_> = questions
                .into_iter()
                .map(|question| InputRequest {
                    params: self.labelled(&question.method, &question.params),
                    ..question
                })
                .collect();
            let asked = RpcResult::input_required(&questions, None);
            if let Some(requests) = asked.get("inputRequests").filter(|_| !questions.is_empty()) {
                result.set("inputRequests", requests.get().to_owned());
            }
        }
        Ok(result)
    }

    /// "Its text is shown with `[slug] the server asks:` in front": nobody may take it for our gate's question.
    fn labelled(&self, method: &str, params: &RawValue) -> Box<RawValue> {
        if method != "elicitation/create" {
            return params.to_owned();
        }
        let label = |text: &str| format!("[{}] the server asks: {text}", self.slug);
        super::names::renamed(params, "message", label).unwrap_or_else(|| params.to_owned())
    }
}

/// Whether a key of a result's `_meta` is for this program alone to say: who answered, which each hop says of itself, and
/// "`dev.strad/*` and `countersign/*` keys in what an upstream sends are removed" (interface).
pub(super) fn is_our_word(key: &str) -> bool {
    key == META_SERVER || key.starts_with("dev.strad/") || key.starts_with("countersign/")
}

/// Why a request was not passed on, or came to nothing.
#[derive(Debug)]
pub(super) enum Failed {
    /// It is the caller's fault, or a limit of ours.
    Refused(RpcError),
    /// What became of it at the server.
    Call(CallFault),
}
