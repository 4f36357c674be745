//! The client that the official conformance suite tests: this library's, used for everything that a server has.
//!
//! ```text
//! conformance client --command target/release/examples/conformance_client --requirements 2026-07-28
//! ```
//!
//! The suite appends the URL of its own server. Whatever the scenario, this lists tools, prompts and resources, uses each of
//! them once, and answers what it is asked in between: each scenario looks at another side of that.

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use countersign::json::{Members, elements, quote, scan, string};
use countersign::mcp::client::{CallFault, Listener, Outgoing, Question, fixed};
use countersign::mcp::{
    Ability, Client, ClientCapabilities, InputRequest, ParamHeaders, ResultKind, RpcResult,
};
use countersign::world::{Runtime, World};
use serde_json::value::RawValue;
use smol::channel::{Receiver, Sender};
use url::Url;

/// For each request.
const TIME: Duration = Duration::from_secs(5);

/// Times that one request is answered with questions.
const ROUNDS: usize = 10;

/// For the one tool that wants to be told what was read of another: SEP-1613, SEP-2106.
const ECHO: (&str, &str) = ("json_schema_echo", "json_schema_2020_12_tool");

fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().next_back().unwrap_or_default();
    let url = Url::parse(&url)?;
    let runtime = Runtime::real();
    let world = runtime.world().clone();
    let visited = runtime.block_on(async move {
        let http = countersign::http::Client::new(world.clone());
        let client = Client::new(world.clone(), http, url, fixed(Vec::new()), None).hearing();
        let visitor = Visitor { world, client };
        visitor.visit().await
    });
    Ok(visited?)
}

struct Visitor {
    world: World,
    client: Client,
}

/// One call of a tool.
struct Call {
    tool: String,
    arguments: Box<RawValue>,
}

impl Visitor {
    async fn visit(&self) -> Result<(), CallFault> {
        let offer = self.offer().await?;
        let offer = Members::parse(offer.get()).ok();
        let capabilities = offer.and_then(|offer| offer.get("capabilities"));
        let capabilities = capabilities.and_then(|found| Members::parse(found.get()).ok());
        let has = |name: &str| {
            let offered = capabilities.as_ref().and_then(|found| found.get(name));
            offered.is_some()
        };
        // Asked for even where none are offered: a tool server is what this library's client is for.
        let tools = self.client.tools(self.world.clock.after(TIME)).await?;
        self.use_tools(&tools).await;
        if has("prompts") {
            self.use_all("prompts/list", "prompts", "prompts/get", "name")
                .await?;
        }
        if has("resources") {
            self.use_all("resources/list", "resources", "resources/read", "uri")
                .await?;
        }
        Ok(())
    }

    async fn offer(&self) -> Result<Box<RawValue>, CallFault> {
        let offer = || self.client.offer(self.world.clock.after(TIME));
        match offer().await {
            // "Unsupported protocol version", with a list of those that are supported: it is looked at again.
            Err(CallFault::Rpc(error)) if error.code == -32022 => offer().await,
            done => done,
        }
    }

    /// Calls the tools that the scenario names, with its arguments, or else each one that is listed.
    async fn use_tools(&self, tools: &[Box<RawValue>]) {
        let named = |name: &str| {
            let mut tools = tools.iter().map(|tool| &**tool);
            tools.find(|tool| text(tool, "name").is_some_and(|known| known == name))
        };
        let calls =
            wanted_calls().unwrap_or_else(|| tools.iter().filter_map(|t| call(t)).collect());
        for mut call in calls {
            if let (true, Some(other)) = (call.tool == ECHO.0, named(ECHO.1)) {
                let schema = member(other, "inputSchema").unwrap_or(RawValue::NULL);
                let arguments = format!(r#"{{"schema":{}}}"#, schema.get());
                call.arguments = RawValue::from_string(arguments).unwrap_or_default();
            }
            let quoted = quote(&call.tool);
            let headers = named(&call.tool).map(ParamHeaders::of_tool);
            let request = Outgoing {
                param_headers: match headers {
                    Some(Ok(headers)) => headers.values(&call.arguments),
                    _ => Vec::new(),
                },
                capabilities: abilities(),
                ..Outgoing::call(&call.tool, &quoted, &call.arguments)
            };
            self.ask(request, &call.tool).await;
        }
    }

    /// Lists, and asks for each element by the member that names it.
    async fn use_all(
        &self,
        list: &str,
        elements: &str,
        method: &str,
        named: &str,
    ) -> Result<(), CallFault> {
        let deadline = self.world.clock.after(TIME);
        for element in self.client.list(list, elements, deadline).await? {
            let Some(name) = text(&element, named) else {
                continue;
            };
            let quoted = quote(&name);
            let request = Outgoing {
                params: vec![(named, &quoted)],
                name: Some(&name),
                capabilities: abilities(),
                ..Outgoing::new(method)
            };
            self.ask(request, &name).await;
        }
        Ok(())
    }

    /// One request, in as many rounds as it takes. What goes wrong is told and is no reason to stop: the suite's server
    /// has seen what it wanted to see.
    async fn ask(&self, request: Outgoing<'_>, about: &str) {
        let came = match self.rounds(request).await {
            Ok(result) => result.texts(),
            Err(fault) => fault.to_string(),
        };
        let _ = writeln!(std::io::stderr(), "{about}: {came}");
    }

    async fn rounds(&self, request: Outgoing<'_>) -> Result<RpcResult, CallFault> {
        let mut result = self.once(&request).await?;
        for _ in 0..ROUNDS {
            if result.kind() != ResultKind::InputRequired {
                break;
            }
            let asked = result.input_requests().map_err(CallFault::Protocol)?;
            let answers = asked.iter().map(
                |InputRequest {
                     key,
                     method,
                     params,
                 }| { format!("{}:{}", quote(key), answer(method, params)) },
            );
            let answers = format!("{{{}}}", answers.collect::<Vec<_>>().join(","));
            // "MUST echo back the exact value", and where there was none "MUST NOT include one".
            let state = result.get("requestState").map(RawValue::get);
            let more = [("inputResponses", &*answers)].into_iter();
            let more = more.chain(state.map(|state| ("requestState", state)));
            let again = Outgoing {
                params: request.params.iter().copied().chain(more).collect(),
                param_headers: request.param_headers.clone(),
                meta: Vec::new(),
                ..request
            };
            let next = self.once(&again).await?;
            result = next;
        }
        Ok(result)
    }

    /// One round, in which a legacy server may ask too.
    async fn once(&self, request: &Outgoing<'_>) -> Result<RpcResult, CallFault> {
        let (asking, questions): (Sender<Question>, Receiver<Question>) = smol::channel::bounded(1);
        let mut listener = Listener {
            news: &mut |_| {},
            questions: Some(asking),
        };
        let deadline = self.world.clock.after(TIME);
        let asked = self.client.request(request, deadline, &mut listener);
        let answering = async {
            while let Ok(question) = questions.recv().await {
                let answer = answer(&question.method, &question.params);
                let answer = RawValue::from_string(answer).unwrap_or_default();
                let _ = question.answer.try_send(Ok(answer));
            }
            std::future::pending().await
        };
        smol::future::or(asked, answering).await
    }
}

/// What is answered to a server that asks.
fn abilities() -> ClientCapabilities {
    let abilities = [Ability::Form, Ability::Sampling, Ability::Roots].into_iter();
    abilities.fold(ClientCapabilities::NONE, |all, ability| {
        all.with(ability, true)
    })
}

/// The calls that the scenario wants, if it says so.
fn wanted_calls() -> Option<Vec<Call>> {
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").ok()?;
    let context = Members::parse(scan(context.as_bytes()).ok()?).ok()?;
    let calls = elements(context.get("toolCalls")?.get()).ok()?.into_iter();
    let calls = calls.filter_map(|call| {
        Some(Call {
            tool: text(call, "name")?,
            arguments: member(call, "arguments")?.to_owned(),
        })
    });
    Some(calls.collect())
}

/// A call of a tool that is listed, with a sample of each argument.
fn call(tool: &RawValue) -> Option<Call> {
    let schema = member(tool, "inputSchema")?;
    Some(Call {
        tool: text(tool, "name")?,
        arguments: RawValue::from_string(sample(schema)).ok()?,
    })
}

/// What a person, a model or a program would answer.
fn answer(method: &str, params: &RawValue) -> String {
    match method {
        "elicitation/create" => {
            let content = member(params, "requestedSchema").map_or("{}".to_owned(), sample);
            format!(r#"{{"action":"accept","content":{content}}}"#)
        }
        "sampling/createMessage" => {
            r#"{"role":"assistant","model":"none","content":{"type":"text","text":"Hello"}}"#
                .to_owned()
        }
        _ => r#"{"roots":[]}"#.to_owned(),
    }
}

/// A value that a schema allows: its default, its first alternative, or one of its type.
fn sample(schema: &RawValue) -> String {
    let first = |name: &str| {
        let alternatives = elements(member(schema, name)?.get()).ok()?;
        alternatives.first().map(|first| first.get().to_owned())
    };
    if let Some(default) = member(schema, "default") {
        return default.get().to_owned();
    }
    if let Some(first) = first("enum") {
        return first;
    }
    match text(schema, "type").as_deref() {
        Some("object") => {
            let properties = member(schema, "properties").map_or("{}", RawValue::get);
            let properties = Members::parse(properties);
            let properties = properties.iter().flat_map(Members::iter);
            let properties =
                properties.map(|(name, schema)| format!("{}:{}", quote(name), sample(schema)));
            format!("{{{}}}", properties.collect::<Vec<_>>().join(","))
        }
        Some("array") => "[]".to_owned(),
        Some("integer" | "number") => "1".to_owned(),
        Some("boolean") => "true".to_owned(),
        Some("null") => "null".to_owned(),
        _ => "\"sample\"".to_owned(),
    }
}

fn member<'v>(object: &'v RawValue, name: &str) -> Option<&'v RawValue> {
    Members::parse(object.get()).ok()?.get(name)
}

fn text(object: &RawValue, name: &str) -> Option<String> {
    string(member(object, name)?).map(String::from)
}
