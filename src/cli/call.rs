//! `tools` and `call`: an MCP client for the terminal.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::{Long, Short, Value, ValueExt};
use serde_json::value::RawValue;

use super::{Failure, credentials, help, output, parts, waiting::Waiting};
use crate::json::{self, Members, quote, string};
use crate::mcp::client::{Listener, News, Outgoing, fixed};
use crate::mcp::{Client, RpcResult, Version};
use crate::secret::Secret;
use crate::world::{Runtime, World};

/// How long a call may take when nothing else is said: longer than any window that people use.
const CALL_TIME: Duration = Duration::from_secs(600);

/// How long a server may take to open and to list.
const LIST_TIME: Duration = Duration::from_secs(30);

/// What both commands take.
#[derive(Default)]
struct Options {
    positionals: Vec<String>,
    servers: Option<String>,
    protocol: Option<Version>,
    timeout: Option<Duration>,
    json: bool,
    token_file: Option<PathBuf>,
    channel_file: Option<PathBuf>,
    help: bool,
}

fn options(mut parser: lexopt::Parser) -> Result<Options, Failure> {
    let mut options = Options::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Value(value) => options.positionals.push(value.string()?),
            Long("servers") => options.servers = Some(parser.value()?.string()?),
            Long("protocol") => {
                let name = parser.value()?.string()?;
                let version = Version::parse(&name).ok_or_else(|| {
                    let known = Version::ALL.map(Version::name).join(", ");
                    Failure::Usage(format!("--protocol {name:?} is not known; known: {known}"))
                })?;
                options.protocol = Some(version);
            }
            Long("timeout") => {
                options.timeout = Some(Duration::from_secs(parser.value()?.parse()?));
            }
            Long("json") => options.json = true,
            Long("token-file") => options.token_file = Some(parser.value()?.into()),
            Long("channel-file") => options.channel_file = Some(parser.value()?.into()),
            Long("help") | Short('h') => options.help = true,
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(options)
}

/// `countersign tools URL`
pub(super) fn tools(parser: lexopt::Parser) -> Result<(), Failure> {
    let options = options(parser)?;
    if options.help {
        output::result(help::TOOLS);
        return Ok(());
    }
    let [url] = &options.positionals[..] else {
        return Err(Failure::Usage(format!(
            "one URL is needed\n\n{}",
            help::TOOLS
        )));
    };
    let runtime = Runtime::real();
    let world = runtime.world().clone();
    let client = client(&world, url, &options)?;
    let json = options.json;
    let tools = runtime.block_on(async move {
        let deadline = world.clock.after(LIST_TIME);
        client.tools(deadline).await
    });
    let tools = tools.map_err(|fault| Failure::Failed(fault.to_string()))?;
    if json {
        let tools: Vec<&str> = tools.iter().map(|tool| tool.get()).collect();
        output::result(&format!("[{}]", tools.join(",")));
        return Ok(());
    }
    for tool in &tools {
        let Ok(tool) = Members::parse(tool.get()) else {
            continue;
        };
        let text = |name: &str| {
            tool.get(name)
                .and_then(string)
                .unwrap_or_default()
                .into_owned()
        };
        let about = crate::text::printable(text("description").lines().next().unwrap_or_default());
        output::result(&format!(
            "{:32} {about}",
            crate::text::printable(&text("name"))
        ));
    }
    Ok(())
}

/// `countersign call URL TOOL [JSON]`
pub(super) fn call(parser: lexopt::Parser) -> Result<(), Failure> {
    let options = options(parser)?;
    if options.help {
        output::result(help::CALL);
        return Ok(());
    }
    let (url, tool, arguments) = match &options.positionals[..] {
        [url, tool] => (url, tool.clone(), "{}"),
        [url, tool, json] => (url, tool.clone(), json.as_str()),
        _ => {
            return Err(Failure::Usage(format!(
                "a URL and a tool are needed\n\n{}",
                help::CALL
            )));
        }
    };
    let arguments = arguments_of(arguments)?;
    let runtime = Runtime::real();
    let world = runtime.world().clone();
    let client = client(&world, url, &options)?;
    let timeout = options.timeout.unwrap_or(CALL_TIME);
    let called = runtime.block_on(async move {
        let deadline = world.clock.after(timeout);
        let version = client
            .version(world.clock.after(LIST_TIME).min(deadline))
            .await?;
        let waiting = Waiting::new(world.clock.clone(), None);
        let mut heard = |news: News<'_>| waiting.heard(&news);
        let mut listener = Listener {
            news: &mut heard,
            questions: None,
        };
        let quoted = quote(&tool);
        let request = Outgoing::call(&tool, &quoted, &arguments);
        let calling = client.request(&request, deadline, &mut listener);
        waiting.show(calling).await.map(|result| (result, version))
    });
    let (result, version) = called.map_err(|fault| {
        let unknown = if fault.may_have_acted() {
            "; whether the call ran is unknown"
        } else {
            ""
        };
        Failure::Failed(format!("{fault}{unknown}"))
    })?;
    if options.json {
        output::result(&result.to_json("tools/call", version));
    } else {
        print(&result);
    }
    if result.is_error() {
        Err(Failure::Told)
    } else {
        Ok(())
    }
}

fn print(result: &RpcResult) {
    let text = result.texts();
    // A terminal obeys control characters; what a server sent does not get to use them.
    for line in text.lines() {
        output::result(&crate::text::printable(line));
    }
}

fn arguments_of(text: &str) -> Result<Box<RawValue>, Failure> {
    let fault =
        |what: String| Failure::Usage(format!("the arguments are not one JSON object: {what}"));
    let scanned = json::scan(text.as_bytes()).map_err(|error| fault(error.to_string()))?;
    if !scanned.trim_start().starts_with('{') {
        return Err(fault("found another kind of value".to_owned()));
    }
    RawValue::from_string(scanned.trim().to_owned()).map_err(|_| fault("unreadable".to_owned()))
}

fn client(world: &World, url: &str, options: &Options) -> Result<Client, Failure> {
    let mut url = credentials::address(url)?;
    if let Some(servers) = &options.servers {
        url.query_pairs_mut().append_pair("servers", servers);
    }
    let mut headers = Vec::new();
    if let Some(token) = credentials::TOKEN.read(options.token_file.as_deref())? {
        let bearer = Secret::new(format!("Bearer {}", token.expose()));
        headers.push(("authorization".to_owned(), bearer));
    }
    if let Some(channel) = credentials::CHANNEL.read(options.channel_file.as_deref())? {
        headers.push(("x-elicitation-url".to_owned(), channel));
    }
    if !headers.is_empty() {
        credentials::may_go_to(&url)?;
    }
    Ok(Client::new(
        world.clone(),
        parts::client(world, None)?,
        url,
        fixed(headers),
        options.protocol,
    ))
}
