//! `pending`, `accept`, `decline`: answering from a terminal.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::{Long, Short, Value, ValueExt};
use url::Url;

use super::{Failure, credentials, help, output, parts};
use crate::desk::terminal::{self, PendingQuestion, TerminalAnswer, TerminalFault, Told};
use crate::json::quote;
use crate::secret::Secret;
use crate::text::printable;
use crate::world::Runtime;

/// How long the desk may take.
const DESK_TIME: Duration = Duration::from_secs(30);

struct Options {
    id: Option<String>,
    desk: Url,
    key: Secret,
    json: bool,
}

/// `None`: help was asked for and given.
fn options(mut parser: lexopt::Parser) -> Result<Option<Options>, Failure> {
    let (mut id, mut desk, mut key_file, mut json) = (None, None, None::<PathBuf>, false);
    while let Some(argument) = parser.next()? {
        match argument {
            Value(value) if id.is_none() => id = Some(value.string()?),
            Long("desk") => desk = Some(parser.value()?.string()?),
            Long("key-file") => key_file = Some(parser.value()?.into()),
            Long("json") => json = true,
            Long("help") | Short('h') => {
                output::result(help::ANSWER);
                return Ok(None);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let desk =
        desk.ok_or_else(|| Failure::Usage(format!("--desk URL is needed\n\n{}", help::ANSWER)))?;
    let desk = Url::parse(&desk).map_err(|_| Failure::Usage("--desk is not a URL".to_owned()))?;
    let key = credentials::KEY.require(key_file.as_deref())?;
    Ok(Some(Options {
        id,
        desk,
        key,
        json,
    }))
}

fn questions(runtime: &Runtime, options: &Options) -> Result<terminal::Pending, Failure> {
    let world = runtime.world().clone();
    let (desk, key) = (options.desk.clone(), options.key.clone());
    let client = parts::client(&world, None)?;
    let listed = runtime.block_on(async move {
        terminal::pending(&client, world.clock.after(DESK_TIME), &desk, &key).await
    });
    listed.map_err(failure)
}

/// What was typed wrongly is usage; the rest failed.
fn failure(fault: TerminalFault) -> Failure {
    let text = fault.to_string();
    match fault {
        TerminalFault::DeskUrl | TerminalFault::Key | TerminalFault::Plain => Failure::Usage(text),
        _ => Failure::Failed(text),
    }
}

/// `countersign pending --desk URL`
pub(super) fn pending(parser: lexopt::Parser) -> Result<(), Failure> {
    let Some(options) = options(parser)? else {
        return Ok(());
    };
    let pending = questions(&Runtime::real(), &options)?;
    if options.json {
        let all: Vec<String> = pending.questions.iter().map(as_json).collect();
        output::result(&format!("[{}]", all.join(",")));
        return Ok(());
    }
    if pending.questions.is_empty() {
        output::note("nothing waits for you");
    }
    for question in &pending.questions {
        let left = question.expires_wall_ms.saturating_sub(pending.now_wall_ms) / 1000;
        let from = if question.sender_verified {
            ""
        } else {
            ", sender not verified"
        };
        output::result(&format!(
            "{}  {} for {}, {left} s left{from}",
            question.id,
            printable(&question.tool),
            printable(&question.session)
        ));
        for line in question.message.lines() {
            output::result(&format!("    {}", printable(line)));
        }
    }
    Ok(())
}

fn as_json(question: &PendingQuestion) -> String {
    format!(
        r#"{{"id":{},"session":{},"tool":{},"message":{},"expires":{}}}"#,
        quote(&question.id),
        quote(&question.session),
        quote(&question.tool),
        quote(&question.message),
        question.expires_wall_ms,
    )
}

/// `countersign accept|decline [ID] --desk URL`
pub(super) fn answer(command: &str, parser: lexopt::Parser) -> Result<(), Failure> {
    let Some(options) = options(parser)? else {
        return Ok(());
    };
    let answer = if command == "accept" {
        TerminalAnswer::Accept
    } else {
        TerminalAnswer::Decline
    };
    let runtime = Runtime::real();
    let id = match &options.id {
        Some(id) => id.clone(),
        None => only(&questions(&runtime, &options)?.questions)?,
    };
    let world = runtime.world().clone();
    let client = parts::client(&world, None)?;
    let told = runtime.block_on(async move {
        let deadline = world.clock.after(DESK_TIME);
        terminal::answer(&client, deadline, &options.desk, &options.key, &id, answer).await
    });
    match told.map_err(failure)? {
        Told::Now(result) => {
            output::result(&result);
            Ok(())
        }
        Told::Already(result) => Err(Failure::Failed(format!(
            "too late: it was already {result}"
        ))),
        Told::Unknown => Err(Failure::Failed(
            "there is no such question, or it is not yours to answer".to_owned(),
        )),
    }
}

/// The one question that waits. With several, which one is meant must be said: a yes is for what was read.
fn only(questions: &[PendingQuestion]) -> Result<String, Failure> {
    match questions {
        [question] => Ok(question.id.clone()),
        [] => Err(Failure::Failed("nothing waits for you".to_owned())),
        several => {
            let ids: Vec<&str> = several
                .iter()
                .map(|question| question.id.as_str())
                .collect();
            Err(Failure::Usage(format!(
                "several wait; say which: {}",
                ids.join(" ")
            )))
        }
    }
}
