//! What a person reads before a command runs.

use super::run::Gated;
use crate::approval::wire::rfc3339_utc_ms;
use crate::config::CommandTool;
use crate::text::{quoted, shown};

/// The label of the box to tick.
pub(super) fn title(tool: &CommandTool) -> String {
    format!("Run {}?", shown(&tool.argv.join(" ")))
}

/// The question: slug and tool first, in our words; the consequence; then the arguments and the very argv. Each line can
/// stand without its line break, since some pages collapse them. `lapses` is in milliseconds since the Unix epoch.
pub(super) fn message(slug: &str, tool: &CommandTool, call: &Gated, lapses: u64) -> String {
    let mut lines = vec![
        format!("[{slug}] {} asks to run.", tool.name),
        format!("Really run {}?", shown(&tool.argv.join(" "))),
        call.consequence.clone(),
    ];
    lines.extend(
        call.arguments
            .iter()
            .map(|(name, value)| format!("| {name}: {}", quoted(value))),
    );
    if call.arguments.is_empty() {
        lines.push("| No arguments.".to_owned());
    }
    let argv: Vec<String> = call
        .argv()
        .iter()
        .map(|argument| quoted(argument))
        .collect();
    lines.push(format!("| Runs: {}", argv.join(" ")));
    lines.push(format!(
        "| Lapses at {}; an answer after that does nothing.",
        rfc3339_utc_ms(lapses)
    ));
    lines.join("\n")
}
