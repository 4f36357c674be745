//! The commands: what a person or a script types.
//!
//! Results go to standard output, all else to standard error. Exit codes: 0 done; 1 refused, declined, expired or
//! failed; 2 wrong usage or wrong configuration. No credential is ever an argument: the process list would show it.

mod answer;
mod call;
mod check;
mod credentials;
mod demo;
mod freeze;
mod health;
mod help;
mod logging;
mod mint;
mod output;
mod parts;
mod render;
mod serve;
mod standalone;
mod waiting;

use std::ffi::OsString;
use std::fmt;
use std::process::ExitCode;

/// Why a command ended without having done what was asked.
#[derive(Debug)]
enum Failure {
    /// Wrong usage or wrong configuration, exit code 2. One line or more for the person who typed it.
    Usage(String),
    /// Refused, declined, expired or failed, exit code 1.
    Failed(String),
    /// The same, with everything said already.
    Told,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Failed(text) => f.write_str(text),
            Self::Told => Ok(()),
        }
    }
}

impl From<lexopt::Error> for Failure {
    fn from(error: lexopt::Error) -> Self {
        // lexopt repeats the value of an unexpected argument; what was typed is on the screen anyway.
        Self::Usage(error.to_string())
    }
}

/// Runs the command that `arguments` (without the program's name) say. For `main`.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match dispatch(lexopt::Parser::from_args(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let text = failure.to_string();
            if !text.is_empty() {
                output::note(&format!("countersign: {text}"));
            }
            match failure {
                Failure::Usage(_) => ExitCode::from(2),
                Failure::Failed(_) | Failure::Told => ExitCode::from(1),
            }
        }
    }
}

fn dispatch(mut parser: lexopt::Parser) -> Result<(), Failure> {
    use lexopt::prelude::{Long, Short, Value};
    let command = match parser.next()? {
        Some(Value(command)) => command.to_string_lossy().into_owned(),
        Some(Long("help") | Short('h')) => {
            output::result(help::ALL);
            return Ok(());
        }
        Some(Long("version") | Short('V')) => {
            output::result(concat!("countersign ", env!("CARGO_PKG_VERSION")));
            return Ok(());
        }
        Some(other) => return Err(other.unexpected().into()),
        None => {
            return Err(Failure::Usage(format!(
                "a command is needed\n\n{}",
                help::ALL
            )));
        }
    };
    match command.as_str() {
        "demo" => demo::run(parser),
        "serve" | "gateway" | "desk" | "bundle" => serve::run(&command, parser),
        "check" => check::run(parser),
        "freeze" | "thaw" => freeze::run(&command, parser),
        "health" => health::run(parser),
        "render" => render::run(parser),
        "standalone" => standalone::run(parser),
        "tools" => call::tools(parser),
        "call" => call::call(parser),
        "pending" => answer::pending(parser),
        "accept" | "decline" => answer::answer(&command, parser),
        "session" => mint::session(parser),
        "token" => mint::token(parser),
        "help" => {
            output::result(help::ALL);
            Ok(())
        }
        _ => Err(Failure::Usage(format!(
            "there is no command {command:?}\n\n{}",
            help::ALL
        ))),
    }
}
