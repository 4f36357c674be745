//! `freeze` and `thaw`: every tool that asks a person is stopped, until it is not.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::{Long, Short, ValueExt};

use super::{Failure, credentials, help, output, parts};
use crate::http::{Connection, Method, OutRequest};
use crate::world::Runtime;

/// For the whole of it.
const TIME: Duration = Duration::from_secs(10);

/// Where a gateway of this machine is administered.
const USUAL: &str = "http://127.0.0.1:8602";

/// `countersign freeze|thaw [--gateway URL]`
pub(super) fn run(command: &str, mut parser: lexopt::Parser) -> Result<(), Failure> {
    let (mut gateway, mut token_file) = (USUAL.to_owned(), None::<PathBuf>);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("gateway") => gateway = parser.value()?.string()?,
            Long("token-file") => token_file = Some(parser.value()?.into()),
            Long("help") | Short('h') => {
                output::result(help::FREEZE);
                return Ok(());
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let url = credentials::address(&gateway)?;
    let url = url
        .join(&format!("/admin/{command}"))
        .map_err(|fault| Failure::Usage(format!("--gateway: {fault}")))?;
    let token = credentials::TOKEN.read(token_file.as_deref())?;
    if token.is_some() {
        credentials::may_go_to(&url)?;
    }
    let runtime = Runtime::real();
    let world = runtime.world().clone();
    let client = parts::client(&world, None)?;
    let answer = runtime.block_on(async move {
        let deadline = world.clock.after(TIME);
        let mut request = OutRequest::new(Method::Post, &url).map_err(|fault| fault.to_string())?;
        if let Some(token) = token {
            let bearer = format!("Bearer {}", token.expose());
            request = request
                .header("authorization", &bearer)
                .map_err(|fault| fault.to_string())?;
        }
        let reply = client
            .send(request.body(Vec::new()), deadline, Connection::Fresh)
            .await;
        reply
            .map(|reply| reply.status)
            .map_err(|fault| fault.to_string())
    });
    match answer {
        Ok(200) => {
            output::result(if command == "freeze" {
                "frozen"
            } else {
                "thawed"
            });
            Ok(())
        }
        Ok(401) => Err(Failure::Failed(
            "HTTP 401: the token was not accepted".to_owned(),
        )),
        Ok(403) => Err(Failure::Failed(
            "HTTP 403: the token has not the role admin".to_owned(),
        )),
        Ok(status) => Err(Failure::Failed(format!("{gateway} answered HTTP {status}"))),
        Err(why) => Err(Failure::Failed(format!("{gateway}: {why}"))),
    }
}
