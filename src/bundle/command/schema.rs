//! A command tool as MCP lists it.

use crate::config::CommandTool;
use crate::json::quote;

/// The tool's JSON: name, description, input schema, and for a gated one the hint that it destroys.
pub(super) fn tool(tool: &CommandTool) -> String {
    let flags = tool.flags.iter().map(|(name, flag)| {
        let about = format!("passes {flag}");
        format!(
            r#"{}:{{"type":"boolean","description":{}}}"#,
            quote(name),
            quote(&about)
        )
    });
    let options = tool.options.iter().map(|(name, flag)| {
        let about = format!("passes {flag}=VALUE");
        format!(
            r#"{}:{{"type":"string","description":{}}}"#,
            quote(name),
            quote(&about)
        )
    });
    let positionals = tool
        .positionals
        .iter()
        .map(|name| format!(r#"{}:{{"type":"string"}}"#, quote(name)));
    let properties: Vec<String> = flags.chain(options).chain(positionals).collect();
    let required: Vec<String> = tool.positionals.iter().map(|name| quote(name)).collect();
    let description = match (&tool.description, &tool.gate) {
        (Some(text), Some(_)) => format!("{text} A person is asked before it runs."),
        (Some(text), None) => text.clone(),
        (None, Some(_)) => format!(
            "Runs {}. A person is asked before it runs.",
            tool.argv.join(" ")
        ),
        (None, None) => format!("Runs {}.", tool.argv.join(" ")),
    };
    let annotations = match tool.gate {
        Some(_) => r#","annotations":{"readOnlyHint":false,"destructiveHint":true}"#,
        None => "",
    };
    format!(
        r#"{{"name":{},"description":{},"inputSchema":{{"type":"object","properties":{{{}}},"required":[{}],"additionalProperties":false}}{annotations}}}"#,
        quote(&tool.name),
        quote(&description),
        properties.join(","),
        required.join(","),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn listed(gate: Option<&str>, description: Option<&str>) -> Value {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let listed = tool(&CommandTool {
            name: "act".to_owned(),
            description: description.map(str::to_owned),
            argv: vec!["prog".to_owned(), "act".to_owned()],
            gate: gate.map(str::to_owned),
            flags: vec![pair("dry_run", "--dry-run")],
            options: vec![pair("name", "--name")],
            positionals: vec!["path".to_owned()],
            timeout_ms: 1,
        });
        serde_json::from_str(&listed).unwrap()
    }

    #[test]
    fn a_gated_tool_says_that_it_destroys_and_that_it_asks() {
        assert_eq!(
            listed(Some("It acts."), Some("Say \"act\".\n")),
            json!({
                "name": "act",
                "description": "Say \"act\".\n A person is asked before it runs.",
                "inputSchema": {
                    "type": "object",
                    "properties": {
                        "dry_run": {"type": "boolean", "description": "passes --dry-run"},
                        "name": {"type": "string", "description": "passes --name=VALUE"},
                        "path": {"type": "string"},
                    },
                    "required": ["path"],
                    "additionalProperties": false,
                },
                "annotations": {"readOnlyHint": false, "destructiveHint": true},
            })
        );
        assert_eq!(
            listed(Some("It acts."), None)["description"],
            "Runs prog act. A person is asked before it runs."
        );
    }

    #[test]
    fn an_open_tool_says_neither() {
        let open = listed(None, None);
        assert_eq!(open["description"], "Runs prog act.");
        assert_eq!(open.get("annotations"), None);
        assert_eq!(listed(None, Some("Acts."))["description"], "Acts.");
    }
}
