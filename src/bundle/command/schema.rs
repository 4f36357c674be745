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
