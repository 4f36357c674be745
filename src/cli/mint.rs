//! `session new` and `token new`: what is minted once and printed once.

use std::path::PathBuf;

use lexopt::prelude::{Long, Short, Value, ValueExt};

use super::{Failure, check, help, output, parts};
use crate::desk::SessionName;
use crate::secret::{base64url, hex, sha256};
use crate::world::{Random, Runtime};

/// Random bytes of a token: 256 bits cannot be guessed.
const TOKEN_BYTES: usize = 32;

/// A new credential with a prefix that secret scanners can be taught.
pub(super) fn credential(random: &Random, prefix: &str) -> String {
    let mut bytes = [0; TOKEN_BYTES];
    random.fill(&mut bytes);
    format!("{prefix}_{}", base64url(&bytes))
}

fn expect_new(parser: &mut lexopt::Parser, usage: &str) -> Result<bool, Failure> {
    match parser.next()? {
        Some(Value(word)) if word == "new" => Ok(true),
        Some(Long("help") | Short('h')) => {
            output::result(usage);
            Ok(false)
        }
        _ => Err(Failure::Usage(format!(
            "only `new` is known here\n\n{usage}"
        ))),
    }
}

/// `countersign token new [--id NAME]`
pub(super) fn token(mut parser: lexopt::Parser) -> Result<(), Failure> {
    if !expect_new(&mut parser, help::TOKEN)? {
        return Ok(());
    }
    let mut id = "NAME".to_owned();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("id") => id = parser.value()?.string()?,
            Long("help") | Short('h') => {
                output::result(help::TOKEN);
                return Ok(());
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let token = credential(&Random::system(), "countersign");
    output::result(&token);
    output::note("It is shown this once. In the configuration:");
    output::result(&format!(
        "- id: {id}\n  sha256: {}",
        hex(&sha256(token.as_bytes()))
    ));
    Ok(())
}

/// `countersign session new --config FILE NAME`
pub(super) fn session(mut parser: lexopt::Parser) -> Result<(), Failure> {
    if !expect_new(&mut parser, help::SESSION)? {
        return Ok(());
    }
    let (mut file, mut name) = (None::<PathBuf>, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("config") => file = Some(parser.value()?.into()),
            Value(value) if name.is_none() => name = Some(value.string()?),
            Long("help") | Short('h') => {
                output::result(help::SESSION);
                return Ok(());
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let name =
        name.ok_or_else(|| Failure::Usage(format!("a NAME is needed\n\n{}", help::SESSION)))?;
    let config = check::load(file.as_deref())?;
    if !parts::desk_is_seeded(&config) {
        let text = "desk.secret is not set: without it `serve` would not believe the URL";
        return Err(Failure::Usage(format!("{}: {text}", config.file)));
    }
    let name = SessionName::parse(&name).ok_or_else(|| {
        Failure::Usage(format!(
            "{name:?} is no session name: letters, digits, `.`, `_`, `-`, at most 64"
        ))
    })?;
    let desk = parts::desk(Runtime::real().world(), &config, None)?.ok_or(Failure::Told)?;
    output::result(desk.session_url(&name).expose());
    Ok(())
}
