//! Command tools: a program, its fixed arguments, and those that the caller may give.

use std::collections::HashSet;

use super::fault::{Report, named};
use super::names::{NAME_GRAMMAR, is_name};
use super::reader::Place;
use super::values;

/// Longest `gate` text in bytes. It is shown whole to the person who is asked, above the arguments.
const MAX_GATE_BYTES: usize = 2_000;

/// A tool that runs a program, without a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandTool {
    /// Its name.
    pub name: String,
    /// What it does, for the model.
    pub description: Option<String>,
    /// The program and its fixed arguments; never empty.
    pub argv: Vec<String>,
    /// The consequence that the person who is asked reads; `None`: nobody is asked.
    pub gate: Option<String>,
    /// Boolean arguments: name and flag, `("dry_run", "--dry-run")`.
    pub flags: Vec<(String, String)>,
    /// String arguments: name and flag, given as `FLAG=VALUE`.
    pub options: Vec<(String, String)>,
    /// String arguments that follow `--`, in this order.
    pub positionals: Vec<String>,
    /// How long the act may take, from the moment that the permit is spent.
    pub timeout_ms: u64,
}

impl CommandTool {
    /// Reads the tools of a server. Their names are checked to differ.
    pub(super) fn read_all(server: &Place<'_>, report: &mut Report) -> Vec<CommandTool> {
        let items = server
            .get("tools")
            .map(|place| place.items())
            .unwrap_or_default();
        let (mut tools, mut seen) = (Vec::new(), HashSet::new());
        for item in &items {
            let Some(tool) = CommandTool::read(item, report) else {
                continue;
            };
            if !seen.insert(tool.name.clone()) {
                let place = item.get("name");
                let text = format!("found {} a second time, allowed: once", named(&tool.name));
                place.as_ref().unwrap_or(item).fault(report, text);
            }
            tools.push(tool);
        }
        tools
    }

    /// Reads one tool. Everything is looked at before anything is given up.
    fn read(item: &Place<'_>, report: &mut Report) -> Option<CommandTool> {
        let name = item
            .get("name")
            .and_then(|place| values::name(&place, report));
        let argv = argv(item, "argv", report);
        let gate = item.get("gate").and_then(|place| gate(&place, report));
        let mut seen = HashSet::new();
        let flags = flags(item, "flags", &mut seen, report);
        let options = flags_with_values(item, &mut seen, report);
        let positionals = positionals(item, &mut seen, report);
        let description = item.get("description");
        Some(CommandTool {
            name: name?,
            description: description.and_then(|place| place.text().map(str::to_owned)),
            argv,
            gate,
            flags,
            options,
            positionals,
            timeout_ms: item.whole("timeoutMs"),
        })
    }
}

/// Reads a program and its fixed arguments, which stand as they are.
pub(super) fn argv(section: &Place<'_>, key: &str, report: &mut Report) -> Vec<String> {
    let Some(place) = section.get(key) else {
        return Vec::new();
    };
    let items = place.items();
    if place.is_list() && items.is_empty() {
        place.fault(report, "found an empty list, allowed: at least the program");
    }
    let mut argv = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Some(text) = item.text() else { continue };
        if text.contains("${") {
            // Everyone on the machine reads the arguments of a process; `env` is where a secret goes.
            item.fault(
                report,
                "found a reference, allowed: fixed text; secrets go into env",
            );
        } else if text.contains('\0') {
            item.fault(report, "found a NUL character, allowed: text without");
        } else if index == 0 && text.trim().is_empty() {
            item.fault(report, "found an empty string, allowed: a program");
        }
        argv.push(text.to_owned());
    }
    argv
}

fn gate(place: &Place<'_>, report: &mut Report) -> Option<String> {
    let text = place.text()?;
    if text.trim().is_empty() {
        place.fault(
            report,
            "found an empty string, allowed: the consequence, in words",
        );
    } else if text.len() > MAX_GATE_BYTES {
        let text = format!(
            "found {} bytes, allowed: at most {MAX_GATE_BYTES}",
            text.len()
        );
        place.fault(report, text);
    }
    Some(text.to_owned())
}

/// Reads a map of argument names to flags.
fn flags<'t>(
    item: &Place<'t>,
    key: &str,
    seen: &mut HashSet<&'t str>,
    report: &mut Report,
) -> Vec<(String, String)> {
    let entries = item
        .get(key)
        .map(|place| place.by_name())
        .unwrap_or_default();
    let mut flags = Vec::new();
    for (argument, place) in entries {
        if let Some(text) = misnamed(argument.name, seen) {
            report.fault(&argument.at, text);
        }
        seen.insert(argument.name);
        let Some(flag) = place.text() else { continue };
        if !is_flag(flag) {
            let text = format!(
                "found {}, allowed: a flag, such as -n or --name",
                named(flag)
            );
            place.fault(report, text);
        }
        flags.push((argument.name.to_owned(), flag.to_owned()));
    }
    flags
}

/// Reads the options, which are long flags: only those take `=VALUE` everywhere.
fn flags_with_values<'t>(
    item: &Place<'t>,
    seen: &mut HashSet<&'t str>,
    report: &mut Report,
) -> Vec<(String, String)> {
    let options = flags(item, "options", seen, report);
    let entries = item
        .get("options")
        .map(|place| place.by_name())
        .unwrap_or_default();
    for (_, place) in entries {
        let Some(flag) = place.text().filter(|flag| is_flag(flag)) else {
            continue;
        };
        if !flag.starts_with("--") {
            let text = format!(
                "found {}, allowed: a flag that takes =VALUE, such as --name",
                named(flag)
            );
            place.fault(report, text);
        }
    }
    options
}

fn positionals<'t>(
    item: &Place<'t>,
    seen: &mut HashSet<&'t str>,
    report: &mut Report,
) -> Vec<String> {
    let items = item
        .get("positionals")
        .map(|place| place.items())
        .unwrap_or_default();
    let mut positionals = Vec::new();
    for item in items {
        let Some(argument) = item.text() else {
            continue;
        };
        if let Some(text) = misnamed(argument, seen) {
            item.fault(report, text);
        }
        seen.insert(argument);
        positionals.push(argument.to_owned());
    }
    positionals
}

/// What is wrong with an argument's name.
fn misnamed(argument: &str, seen: &HashSet<&str>) -> Option<String> {
    if !is_name(argument) {
        return Some(format!(
            "found the argument {}, allowed: {NAME_GRAMMAR}",
            named(argument)
        ));
    }
    let again = seen.contains(argument);
    again.then(|| {
        format!(
            "found the argument {} a second time, allowed: once",
            named(argument)
        )
    })
}

/// Whether the text is a flag: a dash or two, then something that is neither dash, `=`, space nor control.
/// A lone `--` would end the flags.
fn is_flag(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("--").or_else(|| text.strip_prefix('-')) else {
        return false;
    };
    let fits = |c: char| c.is_ascii_graphic() && c != '=';
    !rest.is_empty() && !rest.starts_with('-') && rest.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::is_flag;

    #[test]
    fn flags() {
        for good in ["-n", "--name", "--dry-run", "-no", "--a.b_c"] {
            assert!(is_flag(good), "{good}");
        }
        for bad in [
            "", "-", "--", "---", "---a", "name", "--a=b", "--a b", "--ä", "--a\n", "-=",
        ] {
            assert!(!is_flag(bad), "{bad}");
        }
    }
}
