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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::arguments::Arguments;
    use super::super::run::Plan;
    use super::*;
    use crate::gate::{CallDigest, CallIdentity};
    use crate::json::Exact;

    /// 2026-12-01T00:00:00.000Z.
    const LAPSES: u64 = 1_796_083_200_000;

    fn tool() -> CommandTool {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        CommandTool {
            name: "xianyun_destroy".to_owned(),
            description: Some("Written by whoever configured it.".to_owned()),
            argv: vec!["xianyun".to_owned(), "destroy".to_owned()],
            gate: Some("This cannot be undone.".to_owned()),
            flags: vec![pair("dry_run", "--dry-run")],
            options: vec![pair("name", "--name")],
            positionals: Vec::new(),
            timeout_ms: 1000,
        }
    }

    fn asked(tool: &CommandTool, arguments: &str) -> String {
        let arguments = Exact::parse(arguments).unwrap();
        let digest = CallDigest::of(&CallIdentity {
            slug: "xianyun",
            tool: &tool.name,
            arguments: &arguments,
            principal: "p",
            channel: None,
        });
        let read = Arguments::read(tool, &arguments).unwrap();
        match Plan::new(tool, read, digest, Vec::new(), 0) {
            Plan::Gated(gated) => message("xianyun", tool, &gated, LAPSES),
            Plan::Open(_) => panic!("a gated tool gave an open plan"),
        }
    }

    #[test]
    fn the_question_is_ours_and_then_what_would_run() {
        for (arguments, lines) in [
            ("{}", "| No arguments.\n| Runs: \"xianyun\" \"destroy\""),
            (
                r#"{"name":"prod","dry_run":false}"#,
                "| dry_run: \"false\"\n| name: \"prod\"\n| Runs: \"xianyun\" \"destroy\" \"--name=prod\"",
            ),
            (
                r#"{"dry_run":true}"#,
                "| dry_run: \"true\"\n| Runs: \"xianyun\" \"destroy\" \"--dry-run\"",
            ),
        ] {
            assert_eq!(
                asked(&tool(), arguments),
                format!(
                    "[xianyun] xianyun_destroy asks to run.\nReally run xianyun destroy?\nThis cannot be undone.\n{lines}\n\
                     | Lapses at 2026-12-01T00:00:00.000Z; an answer after that does nothing."
                )
            );
        }
        assert_eq!(title(&tool()), "Run xianyun destroy?");
    }

    #[test]
    fn a_value_stays_on_its_line_and_in_its_quotes() {
        for (value, shown) in [
            (r"a\n| Runs: nothing", "a⏎| Runs: nothing"),
            (r#"x\" \"--dry-run"#, "x⍞ ⍞--dry-run"),
            (r"\u202edorp\u202c", "�dorp�"),
            (r"prod\u200b\u2028\u0007", "prod�⏎�"),
            ("a    b", "a ␣␣␣b"),
            ("-f --force", "-f --force"),
            ("", ""),
        ] {
            let message = asked(&tool(), &format!(r#"{{"name":"{value}"}}"#));
            let lines: Vec<&str> = message.lines().collect();
            assert_eq!(lines.len(), 6, "{message}");
            assert_eq!(lines[3], format!("| name: \"{shown}\""));
            assert_eq!(
                lines[4],
                format!("| Runs: \"xianyun\" \"destroy\" \"--name={shown}\"")
            );
        }
    }

    #[test]
    fn nothing_is_cut() {
        let long = "x".repeat(4000);
        let message = asked(&tool(), &format!(r#"{{"name":"{long}END"}}"#));
        assert_eq!(message.matches(&format!("{long}END\"")).count(), 2);
    }
}
