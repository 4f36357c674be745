//! The arguments of a call, checked against the tool and made into argv.

use std::fmt;

use crate::config::CommandTool;
use crate::json::{Exact, JsonFault};

/// Checked arguments, in the tool's own order.
#[derive(Debug)]
pub(super) struct Arguments {
    /// Name and value, as a person reads them.
    pub(super) shown: Vec<(String, String)>,
    /// The program and everything it gets.
    pub(super) argv: Vec<String>,
}

/// Why a call cannot run. The caller's fault, told so that a model can mend it; a value is never repeated.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Json(JsonFault),
    /// A variable that the tool's environment needs: the configuration's fault.
    Unset(String),
    Missing(String),
    Nul(String),
    Unknown {
        name: String,
        known: Vec<String>,
    },
    WrongType {
        name: String,
        wanted: &'static str,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(fault) => write!(f, "the arguments cannot be read exactly: {fault}"),
            Self::Unset(name) => write!(f, "{name} is not set, and this tool needs it"),
            Self::Missing(name) => write!(f, "the argument {name} is missing; it is a string"),
            Self::Nul(name) => write!(
                f,
                "the argument {name} holds a NUL, which no program can be given"
            ),
            Self::Unknown { name, known } if known.is_empty() => {
                write!(
                    f,
                    "there is no argument {}; this tool takes none",
                    crate::text::quoted(name)
                )
            }
            Self::Unknown { name, known } => {
                write!(
                    f,
                    "there is no argument {}; known: {}",
                    crate::text::quoted(name),
                    known.join(", ")
                )
            }
            Self::WrongType { name, wanted } => write!(f, "the argument {name} must be a {wanted}"),
        }
    }
}

impl Arguments {
    /// Reads `given`, an object.
    pub(super) fn read(tool: &CommandTool, given: &Exact) -> Result<Self, Fault> {
        let Exact::Object(members) = given else {
            return Err(Fault::Json(JsonFault::WrongKind));
        };
        let flags = tool.flags.iter().map(|(name, _)| name);
        let options = tool.options.iter().map(|(name, _)| name);
        let known: Vec<&String> = flags.chain(options).chain(&tool.positionals).collect();
        if let Some((name, _)) = members.iter().find(|(name, _)| !known.contains(&name)) {
            let name = name.chars().take(64).collect();
            return Err(Fault::Unknown {
                name,
                known: known.into_iter().cloned().collect(),
            });
        }
        let mut shown = Vec::new();
        let mut argv = tool.argv.clone();
        for (name, flag) in &tool.flags {
            let Some(value) = given.get(name) else {
                continue;
            };
            let wanted = "boolean";
            let value = value.as_bool().ok_or_else(|| Fault::WrongType {
                name: name.clone(),
                wanted,
            })?;
            shown.push((name.clone(), value.to_string()));
            if value {
                argv.push(flag.clone());
            }
        }
        for (name, flag) in &tool.options {
            let Some(value) = string(given, name)? else {
                continue;
            };
            shown.push((name.clone(), value.to_owned()));
            // One argument: a value that starts with `-` never becomes a flag.
            argv.push(format!("{flag}={value}"));
        }
        if !tool.positionals.is_empty() {
            argv.push("--".to_owned());
        }
        for name in &tool.positionals {
            let value = string(given, name)?.ok_or_else(|| Fault::Missing(name.clone()))?;
            shown.push((name.clone(), value.to_owned()));
            argv.push(value.to_owned());
        }
        Ok(Self { shown, argv })
    }
}

fn string<'e>(given: &'e Exact, name: &str) -> Result<Option<&'e str>, Fault> {
    let Some(value) = given.get(name) else {
        return Ok(None);
    };
    let wanted = "string";
    let value = value.as_str().ok_or_else(|| Fault::WrongType {
        name: name.to_owned(),
        wanted,
    })?;
    if value.contains('\0') {
        return Err(Fault::Nul(name.to_owned()));
    }
    Ok(Some(value))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn tool() -> CommandTool {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        CommandTool {
            name: "destroy".to_owned(),
            description: None,
            argv: vec!["xianyun".to_owned(), "destroy".to_owned()],
            gate: None,
            flags: vec![pair("dry_run", "--dry-run")],
            options: vec![pair("name", "--name")],
            positionals: vec!["path".to_owned()],
            timeout_ms: 1000,
        }
    }

    fn read(json: &str) -> Result<Vec<String>, Fault> {
        Arguments::read(&tool(), &Exact::parse(json).unwrap()).map(|read| read.argv)
    }

    #[test]
    fn argv_is_what_the_tool_says_in_its_order() {
        for (json, argv) in [
            (r#"{"path":"a"}"#, "xianyun|destroy|--|a"),
            (
                r#"{"path":"a","dry_run":true,"name":"x"}"#,
                "xianyun|destroy|--dry-run|--name=x|--|a",
            ),
            (r#"{"path":"a","dry_run":false}"#, "xianyun|destroy|--|a"),
            (r#"{"path":"--force"}"#, "xianyun|destroy|--|--force"),
            (
                r#"{"path":"a","name":"--dry-run"}"#,
                "xianyun|destroy|--name=--dry-run|--|a",
            ),
            (
                r#"{"path":"a b\nc","name":""}"#,
                "xianyun|destroy|--name=|--|a b\nc",
            ),
            (r#"{"path":"$(id)"}"#, "xianyun|destroy|--|$(id)"),
            // A value is one argument, whatever it holds, and never a flag or the end of the flags.
            (r#"{"path":"--"}"#, "xianyun|destroy|--|--"),
            (r#"{"path":"-"}"#, "xianyun|destroy|--|-"),
            (r#"{"path":""}"#, "xianyun|destroy|--|"),
            (
                r#"{"path":"--name=other --dry-run","name":"-x --dry-run"}"#,
                "xianyun|destroy|--name=-x --dry-run|--|--name=other --dry-run",
            ),
            (
                r#"{"name":"=a=b","path":"\u0001\u202e\ud83d\ude02"}"#,
                "xianyun|destroy|--name==a=b|--|\u{1}\u{202e}\u{1f602}",
            ),
            (
                r#"{"path":"*;`id`&\\'\"~"}"#,
                "xianyun|destroy|--|*;`id`&\\'\"~",
            ),
            // The caller's order means nothing.
            (
                r#"{"name":"x","dry_run":true,"path":"a"}"#,
                "xianyun|destroy|--dry-run|--name=x|--|a",
            ),
        ] {
            let got = read(json).unwrap();
            assert_eq!(got.join("|"), argv, "{json}");
            // Joined they could be fewer or more.
            assert_eq!(got.len(), argv.split('|').count(), "{json}");
        }
    }

    #[test]
    fn what_does_not_fit_says_what_would() {
        for (json, text) in [
            ("{}", "the argument path is missing; it is a string"),
            (r#"{"path":7}"#, "the argument path must be a string"),
            (r#"{"path":null}"#, "the argument path must be a string"),
            (
                r#"{"path":"a","dry_run":"true"}"#,
                "the argument dry_run must be a boolean",
            ),
            (
                r#"{"path":"a","name":["x"]}"#,
                "the argument name must be a string",
            ),
            (
                r#"{"path":"a\u0000b"}"#,
                "the argument path holds a NUL, which no program can be given",
            ),
            (
                r#"{"path":"a","force":true}"#,
                r#"there is no argument "force"; known: dry_run, name, path"#,
            ),
            // An unknown name is told before anything else, and shown as a person may read it.
            (
                r#"{"--force\n\"x":true}"#,
                "there is no argument \"--force⏎⍞x\"; known: dry_run, name, path",
            ),
            (
                r#"{"path":"a","Name":"x"}"#,
                r#"there is no argument "Name"; known: dry_run, name, path"#,
            ),
            (
                r#"{"path":"a","dry_run":1}"#,
                "the argument dry_run must be a boolean",
            ),
            (
                r#"{"path":"a","dry_run":null}"#,
                "the argument dry_run must be a boolean",
            ),
            (
                r#"{"path":"a","name":"\u0000"}"#,
                "the argument name holds a NUL, which no program can be given",
            ),
        ] {
            assert_eq!(read(json).unwrap_err().to_string(), text, "{json}");
        }
    }

    #[test]
    fn without_positionals_there_is_no_end_of_flags() {
        let mut tool = tool();
        tool.positionals.clear();
        let read = |json| Arguments::read(&tool, &Exact::parse(json).unwrap());
        assert_eq!(read("{}").unwrap().argv, ["xianyun", "destroy"]);
        assert_eq!(
            read(r#"{"dry_run":true}"#).unwrap().argv,
            ["xianyun", "destroy", "--dry-run"]
        );
        assert!(read(r#"{"path":"a"}"#).is_err());
        assert!(read("[]").is_err());
        tool.flags.clear();
        tool.options.clear();
        let none = Arguments::read(&tool, &Exact::parse(r#"{"x":1}"#).unwrap());
        assert_eq!(
            none.unwrap_err().to_string(),
            r#"there is no argument "x"; this tool takes none"#
        );
    }

    #[test]
    fn several_positionals_stand_in_the_tools_order() {
        let mut tool = tool();
        tool.positionals = vec!["from".to_owned(), "to".to_owned()];
        let given = Exact::parse(r#"{"to":"-b","from":"-a"}"#).unwrap();
        assert_eq!(
            Arguments::read(&tool, &given).unwrap().argv,
            ["xianyun", "destroy", "--", "-a", "-b"]
        );
    }
}
