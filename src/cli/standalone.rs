//! `standalone`: tools on standard input and output, for a client that starts its servers itself.

use std::path::PathBuf;

use lexopt::prelude::{Long, Short, Value, ValueExt};
use smol::Unblock;

use super::{Failure, check, help, logging, output, parts, serve};
use crate::mcp::serve_stdio;
use crate::world::Runtime;

/// `countersign standalone --config FILE [--servers a,b]`
pub(super) fn run(mut parser: lexopt::Parser) -> Result<(), Failure> {
    let (mut file, mut servers) = (None::<PathBuf>, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("config") => file = Some(parser.value()?.into()),
            Long("servers") => servers = Some(parser.value()?.string()?),
            Long("help") | Short('h') => {
                output::result(help::STANDALONE);
                return Ok(());
            }
            Value(mount) if mount == "gmail" || mount == "onepassword" => {
                let mount = mount.to_string_lossy();
                return Err(Failure::Usage(format!("this build has no {mount} mount")));
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let config = check::load(file.as_deref())?;
    logging::start(config.log.level, config.log.format);
    for notice in &config.notices {
        log::warn!("{notice}");
    }
    let runtime = Runtime::real();
    let world = runtime.world().clone();
    let signals = serve::signals()?;
    let (_, reloadable) = parts::gateway(&world, &config)?;
    let gateway = reloadable.gateway().clone();
    let here = gateway.at_hand(servers.as_deref()).ok_or_else(|| {
        Failure::Usage(format!(
            "{}: not every server of --servers is in it",
            config.file
        ))
    })?;
    runtime.block_on(async move {
        let (input, output) = (std::io::stdin(), std::io::stdout());
        let serving = async {
            serve_stdio(
                &world,
                gateway,
                here,
                Unblock::new(input),
                Unblock::new(output),
            )
            .await
            .map_err(|error| Failure::Failed(format!("standard output: {error}")))
        };
        let signalled = async {
            let mut signals = signals;
            serve::ended(&mut signals, &mut serve::Served::default()).await
        };
        smol::future::or(signalled, serving).await
    })
}
