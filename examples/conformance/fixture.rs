//! The suite's server as a service of this library.

use std::net::SocketAddr;
use std::time::Duration;

use countersign::http::RequestHead;
use countersign::json::{Members, quote, string};
use countersign::mcp::{
    Announced, Announcer, CallContext, Changes, HttpRefusal, Offer, ParamHeaders, Progress,
    Request, RpcError, RpcResult, Service, is_log_level,
};
use countersign::secret::Sealer;
use countersign::world::World;
use serde_json::value::RawValue;

use crate::asking::answers;
use crate::prompts::PROMPTS;
use crate::resources::{self, RESOURCES, TEMPLATES};
use crate::template::{MEDIA, Values, fill};
use crate::tools::{Act, TOOLS, Tool};

/// Between two things that a tool tells: "~50ms".
const PAUSE: Duration = Duration::from_millis(50);

/// What is proposed for arguments.
const PROPOSALS: [&str; 3] = ["paris", "park", "party"];

/// Everything that the suite asks for.
pub(crate) struct Fixture {
    world: World,
    sealer: Sealer,
    announcer: Announcer,
}

impl Fixture {
    pub(crate) fn new(world: World, sealer: Sealer) -> Self {
        Self {
            world,
            sealer,
            announcer: Announcer::default(),
        }
    }
}

impl Service for Fixture {
    type Principal = ();

    fn serves(&self, path: &str) -> bool {
        path == "/mcp"
    }

    fn admit(&self, _head: &RequestHead, _peer: SocketAddr) -> Result<(), HttpRefusal> {
        Ok(())
    }

    fn identity<'p>(&self, (): &'p ()) -> &'p str {
        "anyone"
    }

    async fn offer(&self, (): &()) -> Offer {
        Offer {
            tools: Some(Announced(true)),
            prompts: Some(Announced(true)),
            resources: Some(Announced(false)),
            subscribe: true,
            completions: true,
            logging: true,
            tasks: false,
            instructions: "The fixtures of the MCP conformance suite.".to_owned(),
        }
    }

    fn asks_first(&self, (): &(), tool: &str) -> bool {
        let mut tools = TOOLS.iter();
        tools.any(|known| known.name == tool && matches!(known.act, Act::Asks(_)))
    }

    async fn request(
        &self,
        (): &(),
        request: &Request<'_>,
        context: &CallContext,
    ) -> Result<RpcResult, RpcError> {
        match &*request.method {
            "tools/list" => Ok(list("tools", TOOLS.iter().map(Tool::to_json))),
            "tools/call" => self.call(request, context).await,
            "prompts/list" => Ok(list("prompts", PROMPTS.iter().map(|p| p.to_json()))),
            "prompts/get" => self.prompt(request),
            "resources/list" => Ok(list(
                "resources",
                RESOURCES.iter().map(|r| r.to_json("uri")),
            )),
            "resources/templates/list" => {
                let templates = TEMPLATES.iter().map(|t| t.to_json("uriTemplate"));
                Ok(list("resourceTemplates", templates))
            }
            "resources/read" => resources::read(&request.text("uri")?),
            "completion/complete" => complete(request),
            "logging/setLevel" if is_log_level(&request.text("level")?) => Ok(RpcResult::default()),
            "logging/setLevel" => Err(RpcError::new(-32602, "the level is not one of the eight")),
            _ => Err(RpcError::new(-32601, "there is no such method")),
        }
    }

    fn listen(&self, (): &()) -> Changes {
        self.announcer.listen()
    }

    async fn subscribe(&self, (): &(), uri: &str) -> Result<Changes, RpcError> {
        Ok(self.announcer.listen().of_resource(uri, uri))
    }
}

impl Fixture {
    async fn call(
        &self,
        request: &Request<'_>,
        context: &CallContext,
    ) -> Result<RpcResult, RpcError> {
        let name = request.text("name")?;
        let tool = TOOLS.iter().find(|tool| tool.name == name);
        let tool = tool.ok_or_else(|| RpcError::new(-32602, "there is no such tool"))?;
        let headers = ParamHeaders::of_schema(parsed(tool.schema));
        request.check_param_headers(&headers.unwrap_or_default())?;
        let values = values(request)?;
        let mut result = RpcResult::default();
        match &tool.act {
            Act::Answers => {}
            Act::Fails => result.set("isError", "true".to_owned()),
            Act::Logs(lines) => {
                for line in *lines {
                    let params = format!(r#"{{"level":"info","data":{}}}"#, quote(line));
                    context.log(parsed(r#""info""#), parsed(&params));
                    self.world.clock.sleep(PAUSE).await;
                }
            }
            Act::Progresses(steps) => {
                for progress in *steps {
                    context.progress(&Progress {
                        progress: *progress,
                        total: Some(100.0),
                        message: None,
                    });
                    self.world.clock.sleep(PAUSE).await;
                }
            }
            Act::Announces(change) => self.announcer.announce(change),
            Act::Asks(asks) => {
                if let Some(asked) = asks.next(tool.name, request, &values, &self.sealer)? {
                    return Ok(asked);
                }
            }
        }
        result.set("content", fill(tool.content, &values));
        Ok(result)
    }

    fn prompt(&self, request: &Request<'_>) -> Result<RpcResult, RpcError> {
        let name = request.text("name")?;
        let prompt = PROMPTS.iter().find(|prompt| prompt.name == name);
        let prompt = prompt.ok_or_else(|| RpcError::new(-32602, "there is no such prompt"))?;
        let values = values(request)?;
        if let Some(asks) = &prompt.asks
            && let Some(asked) = asks.next(prompt.name, request, &values, &self.sealer)?
        {
            return Ok(asked);
        }
        let mut result = RpcResult::default();
        result.set("messages", fill(prompt.messages, &values));
        Ok(result)
    }
}

/// What a template is filled with: what the caller answered, its arguments, and our own media.
fn values<'a>(request: &Request<'a>) -> Result<Values<'a>, RpcError> {
    let arguments = Members::parse(request.arguments()?.get())
        .map_err(|_| RpcError::new(-32602, "params.arguments cannot be read"))?;
    let media = Members::parse(MEDIA).ok();
    let all = answers(request).into_iter().chain([arguments]);
    Ok(all.chain(media).collect())
}

fn complete(request: &Request<'_>) -> Result<RpcResult, RpcError> {
    let invalid = || RpcError::new(-32602, "params.argument has no value");
    let argument = request.param("argument").ok_or_else(invalid)?;
    let argument = Members::parse(argument.get()).map_err(|_| invalid())?;
    let typed = argument.get("value").and_then(string).ok_or_else(invalid)?;
    let proposed = PROPOSALS.iter().filter(|word| word.starts_with(&*typed));
    let proposed: Vec<_> = proposed.map(|word| quote(word)).collect();
    let mut result = RpcResult::default();
    let (values, total) = (proposed.join(","), proposed.len());
    result.set(
        "completion",
        format!(r#"{{"values":[{values}],"total":{total},"hasMore":false}}"#),
    );
    Ok(result)
}

fn list(name: &str, elements: impl Iterator<Item = String>) -> RpcResult {
    let mut result = RpcResult::default();
    let elements: Vec<_> = elements.collect();
    result.set(name, format!("[{}]", elements.join(",")));
    result
}

/// A JSON text of our own.
fn parsed(json: &str) -> &RawValue {
    serde_json::from_str(json).unwrap_or(RawValue::NULL)
}
