//! `demo`: the whole path on loopback, without a configuration.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lexopt::prelude::{Long, Short, ValueExt};
use serde_json::value::RawValue;
use smol::Task;
use url::Url;

use super::{Failure, help, logging, mint, output, parts, serve, waiting::Waiting};
use crate::approval::ttl_of;
use crate::config::{Config, LogFormat};
use crate::desk::terminal::{self, TerminalAnswer, Told};
use crate::desk::{Desk, DeskSettings, Person, SessionName};
use crate::gate::OUTCOME_KEY;
use crate::http::Client;
use crate::json::{quote, string};
use crate::mcp::client::{Listener, News, Outgoing, fixed};
use crate::mcp::{self, CallFault, RpcResult, Version};
use crate::secret::{Secret, sha256};
use crate::world::{Random, Runtime, World};

/// The files of the scratch folder; the first is the one to be deleted.
const FILES: [&str; 3] = ["report-2019.txt", "notes.txt", "photo.jpg"];

/// The window that the demo gives a person: the default of a slug, 120 s less its margin.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Between two looks for the question that the demo answers itself.
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Default)]
struct Options {
    answer: Option<TerminalAnswer>,
    port: u16,
}

/// `countersign demo [--answer accept|decline] [--port N]`
pub(super) fn run(mut parser: lexopt::Parser) -> Result<(), Failure> {
    let mut options = Options::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("answer") => {
                let answer = parser.value()?.string()?;
                options.answer = Some(match answer.as_str() {
                    "accept" => TerminalAnswer::Accept,
                    "decline" => TerminalAnswer::Decline,
                    _ => {
                        return Err(Failure::Usage(format!(
                            "--answer {answer:?}: accept or decline"
                        )));
                    }
                });
            }
            Long("port") => options.port = parser.value()?.parse()?,
            Long("help") | Short('h') => {
                output::result(help::DEMO);
                return Ok(());
            }
            other => return Err(other.unexpected().into()),
        }
    }
    logging::start(log::LevelFilter::Warn, LogFormat::Text);
    let signals = serve::signals()?;
    let runtime = Runtime::real();
    let world = runtime.world().clone();
    let scratch = Scratch::make(&world.random)?;
    let demo = Demo::start(&world, options.port)?;
    demo.introduce(&scratch);
    let stay = options.answer.is_none() && output::is_terminal();
    runtime.block_on(async move {
        let played = async {
            let played = demo.play(&scratch, options.answer).await;
            if stay {
                output::note("\nStill serving, for your own client. Ctrl-C ends it.");
                std::future::pending::<()>().await;
            }
            played
        };
        let signalled = async {
            let mut signals = signals;
            serve::ended(&mut signals, &mut serve::Served::default()).await?;
            if scratch.has(FILES[0]) && !stay {
                output::note(&format!("\ndropped; {} kept", FILES[0]));
            }
            Err(Failure::Told)
        };
        let ended = smol::future::or(played, signalled).await;
        drop(demo);
        ended
    })
}

/// A folder of the demo's own, which is also where its tools run. Removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn make(random: &Random) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::Failed(format!("no scratch folder: {error}"));
        let folder = std::env::temp_dir().join(format!("countersign-demo-{:016x}", random.u64()));
        std::fs::create_dir(&folder).map_err(failed)?;
        let scratch = Self(folder);
        for name in FILES {
            std::fs::write(
                scratch.0.join(name),
                format!("{name} of the countersign demo\n"),
            )
            .map_err(failed)?;
        }
        std::env::set_current_dir(&scratch.0).map_err(failed)?;
        Ok(scratch)
    }

    fn has(&self, name: &str) -> bool {
        self.0.join(name).exists()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::env::set_current_dir(std::env::temp_dir());
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            log::warn!("{} is left behind: {error}", self.0.display());
        }
    }
}

/// Gateway, bundle and desk, listening on loopback.
struct Demo {
    world: World,
    gateway: SocketAddr,
    desk: SocketAddr,
    key: Secret,
    channel: Secret,
    _served: Vec<Task<()>>,
}

impl Demo {
    fn start(world: &World, port: u16) -> Result<Self, Failure> {
        let failed =
            |error: std::io::Error| Failure::Failed(format!("cannot listen on loopback: {error}"));
        let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let desk_listener = world.net.listen(loopback(0)).map_err(failed)?;
        let desk_address = desk_listener.local_address().map_err(failed)?;
        let gateway_listener = world.net.listen(loopback(port)).map_err(failed)?;
        let gateway_address = gateway_listener.local_address().map_err(failed)?;

        let config = configuration(desk_address)?;
        let limits = parts::limits(&config)?;
        let key = Secret::new(mint::credential(&world.random, "key"));
        let desk = desk(world, desk_address, &key)?;
        let session = SessionName::parse("demo").ok_or(Failure::Told)?;
        let channel = desk.session_url(&session);
        let mut served = parts::spawn(world, vec![desk_listener], &desk, &limits);
        let (gateway, _) = parts::gateway(world, &config)?;
        let gateway = Arc::new(gateway);
        served.extend(parts::spawn(
            world,
            vec![gateway_listener],
            &gateway,
            &limits,
        ));
        Ok(Self {
            world: world.clone(),
            gateway: gateway_address,
            desk: desk_address,
            key,
            channel,
            _served: served,
        })
    }

    fn url(&self) -> String {
        format!("http://{}/mcp?servers=demo", self.gateway)
    }

    fn introduce(&self, scratch: &Scratch) {
        let (url, channel, key, desk) = (
            self.url(),
            self.channel.expose(),
            self.key.expose(),
            self.desk,
        );
        output::note(&format!(
            "Scratch folder  {}
Answer here     http://{desk}/#key={key}
or type         COUNTERSIGN_KEY={key} countersign accept --desk http://{desk}

Your own MCP client, with tools that ask you:
  claude mcp add --transport http countersign-demo '{url}' --header 'X-Elicitation-Url: {channel}'
or in its JSON configuration:
  {{\"mcpServers\":{{\"countersign-demo\":{{\"type\":\"http\",\"url\":{},\"headers\":{{\"X-Elicitation-Url\":{}}}}}}}}}
",
            scratch.0.display(),
            quote(&url),
            quote(channel),
        ));
    }

    /// Calls `delete_file` as a client would, and says what came of it.
    async fn play(&self, scratch: &Scratch, answer: Option<TerminalAnswer>) -> Result<(), Failure> {
        let name = FILES[0];
        output::note(&format!(
            "Calling delete_file {name}; it is held until somebody answers."
        ));
        let called = smol::future::zip(self.delete(name), self.answer(answer)).await;
        let result = match called {
            (Ok(result), Ok(())) => result,
            (_, Err(failure)) => return Err(failure),
            (Err(fault), _) => return Err(Failure::Failed(fault.to_string())),
        };
        let outcome = result
            .meta(OUTCOME_KEY)
            .and_then(string)
            .unwrap_or_default()
            .into_owned();
        let (deleted, kept) = (outcome == "done" && !result.is_error(), scratch.has(name));
        if deleted == kept {
            let text = format!(
                "the call says {outcome:?}, and {name} is {}",
                if kept { "there" } else { "gone" }
            );
            return Err(Failure::Failed(text));
        }
        output::result(&if deleted {
            format!("deleted {name}")
        } else {
            format!("{outcome}; {name} kept")
        });
        match (answer, deleted) {
            (None, true)
            | (Some(TerminalAnswer::Accept), true)
            | (Some(TerminalAnswer::Decline), false) => Ok(()),
            _ => Err(Failure::Told),
        }
    }

    async fn delete(&self, name: &str) -> Result<RpcResult, CallFault> {
        let url = Url::parse(&self.url()).map_err(|_| CallFault::Header)?;
        let headers = vec![("x-elicitation-url".to_owned(), self.channel.clone())];
        let client = mcp::Client::new(
            self.world.clone(),
            Client::new(self.world.clone()),
            url,
            fixed(headers),
            Some(Version::V2026_07_28),
        );
        let arguments = RawValue::from_string(format!(r#"{{"name":{}}}"#, quote(name)));
        let arguments = arguments.map_err(|_| CallFault::Header)?;
        let waiting = Waiting::new(self.world.clock.clone(), Some(ttl_of(TIMEOUT)));
        let deadline = self.world.clock.after(2 * TIMEOUT);
        let mut heard = |news: News<'_>| waiting.heard(&news);
        let mut listener = Listener {
            news: &mut heard,
            questions: None,
        };
        let request = Outgoing::call("delete_file", "\"delete_file\"", &arguments);
        let call = client.request(&request, deadline, &mut listener);
        waiting.show(call).await
    }

    /// Answers the demo's one question over the desk's own API, if that is wanted.
    async fn answer(&self, answer: Option<TerminalAnswer>) -> Result<(), Failure> {
        let Some(answer) = answer else { return Ok(()) };
        let failed = |what: String| Failure::Failed(format!("answering at the desk: {what}"));
        let desk = Url::parse(&format!("http://{}/", self.desk))
            .map_err(|error| failed(error.to_string()))?;
        let client = Client::new(self.world.clone());
        let deadline = self.world.clock.after(TIMEOUT);
        let id = loop {
            let pending = terminal::pending(&client, deadline, &desk, &self.key).await;
            let pending = pending.map_err(|fault| failed(fault.to_string()))?;
            if let Some(question) = pending.questions.first() {
                break question.id.clone();
            }
            self.world.clock.sleep(LOOK_EVERY).await;
        };
        match terminal::answer(&client, deadline, &desk, &self.key, &id, answer).await {
            Ok(Told::Now(_)) => Ok(()),
            Ok(told) => Err(failed(format!("{told:?}"))),
            Err(fault) => Err(failed(fault.to_string())),
        }
    }
}

/// The demo's configuration goes through the same reader as everyone's.
fn configuration(desk: SocketAddr) -> Result<Config, Failure> {
    let text = format!(
        "
gateway:
  elicitation:
    allowedUrlPrefixes: [\"http://{desk}/api/v1/elicitations/session/\"]
timing:
  pollMs: 1000
servers:
  - slug: demo
    kind: supplementary-image
    bundle: demo
    path: /demo
    mount: command
    confirmations: true
    timeoutMs: {}
    tools:
      - name: list_files
        description: Lists the files of the scratch folder.
        argv: [ls, \"-1\"]
      - name: delete_file
        description: Deletes a file of the scratch folder.
        argv: [rm]
        positionals: [name]
        gate: \"This deletes the file. This cannot be undone.\"
",
        TIMEOUT.as_millis()
    );
    let told = |faults: Vec<crate::config::Fault>| {
        let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
        Failure::Failed(lines.join("\n"))
    };
    Config::parse("demo", &text)
        .map(|(config, _)| config)
        .map_err(told)
}

fn desk(world: &World, address: SocketAddr, key: &Secret) -> Result<Arc<Desk>, Failure> {
    let failed = |what: String| Failure::Failed(format!("the desk: {what}"));
    let settings = DeskSettings {
        public_url: Url::parse(&format!("http://{address}"))
            .map_err(|error| failed(error.to_string()))?,
        secrets: vec![Secret::new(mint::credential(&world.random, "desk"))],
        people: vec![Person {
            id: "you".to_owned(),
            key_sha256: sha256(key.expose().as_bytes()),
            answers_for: vec!["demo".to_owned()],
        }],
        asker_keys: Vec::new(),
        allowed_hosts: Vec::new(),
    };
    Desk::new(world.clone(), settings).map_err(|fault| failed(fault.to_string()))
}
