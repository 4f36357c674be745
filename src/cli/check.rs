//! `check`: what a configuration means, without the network.

use std::path::{Path, PathBuf};

use lexopt::prelude::{Long, Short};

use super::{Failure, help, output};
use crate::config::{Ask, Config, Fault, Kind, Mount, ProcessLookup, Server};

/// Reads a configuration, its warnings said and its faults told all at once.
pub(super) fn load(file: Option<&Path>) -> Result<Config, Failure> {
    let file = file.ok_or_else(|| Failure::Usage("--config FILE is needed".to_owned()))?;
    let wrong = |faults: Vec<Fault>| {
        let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
        Failure::Usage(format!("the configuration is wrong\n{}", lines.join("\n")))
    };
    let (config, warnings) = Config::load(file).map_err(wrong)?;
    let short = config.short_secrets(&ProcessLookup);
    if !short.is_empty() {
        return Err(wrong(short));
    }
    for warning in &warnings {
        output::note(&format!("warning: {warning}"));
    }
    Ok(config)
}

/// `countersign check --config FILE [--strict]`
pub(super) fn run(mut parser: lexopt::Parser) -> Result<(), Failure> {
    let (mut file, mut strict) = (None::<PathBuf>, false);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("config") => file = Some(parser.value()?.into()),
            Long("strict") => strict = true,
            Long("help") | Short('h') => {
                output::result(help::CHECK);
                return Ok(());
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let config = load(file.as_deref())?;
    let faults = config.start_faults();
    if !faults.is_empty() {
        let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
        return Err(Failure::Usage(lines.join("\n")));
    }
    table(&config);
    for notice in &config.notices {
        output::note(&format!("notice: {notice}"));
    }
    let unset = config.unset(&ProcessLookup);
    if strict && !(unset.is_empty() && config.notices.is_empty()) {
        let count = unset.len() + config.notices.len();
        return Err(Failure::Usage(format!(
            "--strict: {count} warning(s) above"
        )));
    }
    Ok(())
}

fn table(config: &Config) {
    let mut rows = vec![["SERVER", "TOOL", "ASKED", "BY", "WITHIN"].map(str::to_owned)];
    for server in &config.servers {
        rows.extend(rows_of(server));
    }
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..5).map(width).collect();
    for row in &rows {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        output::result(cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

fn rows_of(server: &Server) -> Vec<[String; 5]> {
    let slug = server.slug.to_string();
    let by = match &server.kind {
        Kind::Command { .. } | Kind::RemoteHttp { .. } | Kind::Stdio { .. } => "gateway".to_owned(),
        Kind::SupplementaryImage { bundle, .. } => format!("bundle {bundle}"),
    };
    let within = format!("{} s", server.ttl_ms() as f64 / 1000.0);
    if let Kind::RemoteHttp { .. } | Kind::Stdio { .. } = &server.kind {
        let no = "no".to_owned();
        return vec![[slug, "*".to_owned(), no, by, "-".to_owned()]];
    }
    if let Kind::SupplementaryImage {
        mount: Mount::Gmail | Mount::Onepassword,
        ..
    } = &server.kind
    {
        return vec![[
            slug,
            "*".to_owned(),
            "every call is refused".to_owned(),
            by,
            "-".to_owned(),
        ]];
    }
    let rows = server.tools().iter().map(|tool| {
        let (asked, within) = match (&tool.gate, server.ask) {
            (None, _) => ("no".to_owned(), "-".to_owned()),
            (Some(_), Ask::Channel) if server.confirmations => (
                "a person, over the caller's channel".to_owned(),
                within.clone(),
            ),
            (Some(_), _) => ("every call is refused".to_owned(), "-".to_owned()),
        };
        [slug.clone(), tool.name.clone(), asked, by.clone(), within]
    });
    rows.collect()
}
