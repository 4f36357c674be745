//! The suite's tools.

use countersign::json::quote;
use countersign::mcp::Change;

use crate::asking::{Asks, Kind, Question};

/// A tool: what it does first, and what it answers.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    description: &'static str,
    /// `inputSchema`.
    pub(crate) schema: &'static str,
    pub(crate) act: Act,
    /// A template of JSON.
    pub(crate) content: &'static str,
}

/// What a tool does before it answers.
pub(crate) enum Act {
    /// Nothing.
    Answers,
    /// Nothing, and its answer tells of a failure.
    Fails,
    /// Messages of its log.
    Logs(&'static [&'static str]),
    /// Progress, each step of a hundred.
    Progresses(&'static [f64]),
    /// Tells those who listen.
    Announces(Change),
    /// Asks its caller.
    Asks(Asks),
}

impl Tool {
    /// As it stands in the list.
    pub(crate) fn to_json(&self) -> String {
        format!(
            r#"{{"name":{},"description":{},"inputSchema":{}}}"#,
            quote(self.name),
            quote(self.description),
            self.schema
        )
    }
}

const NOTHING: &str = r#"{"type":"object","properties":{}}"#;

const fn tool(
    name: &'static str,
    description: &'static str,
    act: Act,
    content: &'static str,
) -> Tool {
    Tool {
        name,
        description,
        schema: NOTHING,
        act,
        content,
    }
}

const fn asks(kind: Kind, rounds: &'static [&'static [Question]]) -> Act {
    Act::Asks(Asks { rounds, kind })
}

const fn form(key: &'static str, params: &'static str) -> Question {
    Question {
        key,
        method: "elicitation/create",
        params,
    }
}

const fn sample(key: &'static str, params: &'static str) -> Question {
    Question {
        key,
        method: "sampling/createMessage",
        params,
    }
}

const ROOTS: Question = Question {
    key: "client_roots",
    method: "roots/list",
    params: "{}",
};

const NAME: Question = form(
    "user_name",
    r#"{"message":"What is your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}"#,
);

const CONFIRM: Question = form(
    "confirm",
    r#"{"message":"Please confirm","requestedSchema":{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}}"#,
);

const CAPITAL: Question = sample(
    "capital_question",
    r#"{"messages":[{"role":"user","content":{"type":"text","text":"What is the capital of France?"}}],"maxTokens":100}"#,
);

const GREETING: Question = sample(
    "greeting",
    r#"{"messages":[{"role":"user","content":{"type":"text","text":"Generate a greeting"}}],"maxTokens":50}"#,
);

const STEP_1: Question = form(
    "step1",
    r#"{"message":"Step 1: What is your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}"#,
);

const STEP_2: Question = form(
    "step2",
    r#"{"message":"Step 2: What is your favorite color?","requestedSchema":{"type":"object","properties":{"color":{"type":"string"}},"required":["color"]}}"#,
);

const PROMPT: Question = sample(
    "sample",
    r#"{"messages":[{"role":"user","content":{"type":"text","text":"{prompt}"}}],"maxTokens":100}"#,
);

const MESSAGE: Question = form(
    "user",
    r#"{"message":"{message}","requestedSchema":{"type":"object","properties":{"username":{"type":"string","description":"User's response"},"email":{"type":"string","description":"User's email address"}},"required":["username","email"]}}"#,
);

const DEFAULTS: Question = form(
    "form",
    r#"{"message":"Please review the defaults","requestedSchema":{"type":"object","properties":{
        "name":{"type":"string","default":"John Doe"},
        "age":{"type":"integer","default":30},
        "score":{"type":"number","default":95.5},
        "status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},
        "verified":{"type":"boolean","default":true}}}}"#,
);

const ENUMS: Question = form(
    "form",
    r#"{"message":"Please choose","requestedSchema":{"type":"object","properties":{
        "untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
        "titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
        "legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
        "untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
        "titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}}}}"#,
);

const DONE: &str = r#"[{"type":"text","text":"Done."}]"#;
const FORM_COMPLETED: &str = r#"[{"type":"text","text":"Elicitation completed: action={form.action}, content={form.content}"}]"#;
const HELLO: &str = r#"[{"type":"text","text":"Hello, {user_name.content.name}!"}]"#;

pub(crate) static TOOLS: &[Tool] = &[
    // What a tool may answer.
    tool(
        "test_simple_text",
        "Answers with a text",
        Act::Answers,
        r#"[{"type":"text","text":"This is a simple text response for testing."}]"#,
    ),
    tool(
        "test_image_content",
        "Answers with an image",
        Act::Answers,
        r#"[{"type":"image","mimeType":"image/png","data":"{png}"}]"#,
    ),
    tool(
        "test_audio_content",
        "Answers with a sound",
        Act::Answers,
        r#"[{"type":"audio","mimeType":"audio/wav","data":"{wav}"}]"#,
    ),
    tool(
        "test_embedded_resource",
        "Answers with a resource",
        Act::Answers,
        r#"[{"type":"resource","resource":{"uri":"test://embedded-resource","mimeType":"text/plain","text":"This is an embedded resource content."}}]"#,
    ),
    tool(
        "test_multiple_content_types",
        "Answers with a text, an image and a resource",
        Act::Answers,
        r#"[{"type":"text","text":"Multiple content types test:"},{"type":"image","mimeType":"image/png","data":"{png}"},{"type":"resource","resource":{"uri":"test://mixed-content-resource","mimeType":"application/json","text":"{\"test\":\"data\",\"value\":123}"}}]"#,
    ),
    tool(
        "test_error_handling",
        "Fails",
        Act::Fails,
        r#"[{"type":"text","text":"This tool intentionally returns an error for testing"}]"#,
    ),
    // What a tool may tell meanwhile.
    tool(
        "test_tool_with_logging",
        "Logs three messages",
        Act::Logs(&[
            "Tool execution started",
            "Tool processing data",
            "Tool execution completed",
        ]),
        DONE,
    ),
    tool(
        "test_logging_tool",
        "Logs one message",
        Act::Logs(&["A message for those who want messages"]),
        DONE,
    ),
    tool(
        "test_tool_with_progress",
        "Makes progress in three steps",
        Act::Progresses(&[0.0, 50.0, 100.0]),
        DONE,
    ),
    tool(
        "test_trigger_tool_change",
        "Announces that the list of tools has changed",
        Act::Announces(Change::Tools),
        DONE,
    ),
    tool(
        "test_trigger_prompt_change",
        "Announces that the list of prompts has changed",
        Act::Announces(Change::Prompts),
        DONE,
    ),
    // What a tool may be given.
    Tool {
        name: "json_schema_2020_12_tool",
        description: "Has an input schema of many keywords",
        schema: r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
            "$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
            "properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},
            "allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
            "if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},
            "then":{"required":["phone"]},
            "else":{"required":["email"]},
            "additionalProperties":false}"##,
        act: Act::Answers,
        content: DONE,
    },
    Tool {
        name: "test_custom_header",
        description: "Has an argument that its calls carry in a header too",
        schema: r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}},"required":["region"]}"#,
        act: Act::Answers,
        content: r#"[{"type":"text","text":"The region is {region}"}]"#,
    },
    // What a tool may ask, in the words of either era.
    Tool {
        name: "test_sampling",
        description: "Asks a model",
        schema: r#"{"type":"object","properties":{"prompt":{"type":"string"}},"required":["prompt"]}"#,
        act: asks(Kind::Plain, &[&[PROMPT]]),
        content: r#"[{"type":"text","text":"LLM response: {sample.content.text}"}]"#,
    },
    Tool {
        name: "test_elicitation",
        description: "Asks a person",
        schema: r#"{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}"#,
        act: asks(Kind::Plain, &[&[MESSAGE]]),
        content: r#"[{"type":"text","text":"User response: action={user.action}, content={user.content}"}]"#,
    },
    tool(
        "test_elicitation_sep1034_defaults",
        "Asks a person, with values filled in",
        asks(Kind::Plain, &[&[DEFAULTS]]),
        FORM_COMPLETED,
    ),
    tool(
        "test_elicitation_sep1330_enums",
        "Asks a person to choose",
        asks(Kind::Plain, &[&[ENUMS]]),
        FORM_COMPLETED,
    ),
    tool(
        "test_missing_capability",
        "Asks a model, which not every caller has",
        asks(Kind::Plain, &[&[CAPITAL]]),
        DONE,
    ),
    tool(
        "test_streaming_elicitation",
        "Asks a person while its answer may be a stream",
        asks(Kind::Plain, &[&[NAME]]),
        HELLO,
    ),
    tool(
        "test_input_required_result_elicitation",
        "Asks for a name",
        asks(Kind::Plain, &[&[NAME]]),
        HELLO,
    ),
    tool(
        "test_input_required_result_sampling",
        "Asks a model for a capital",
        asks(Kind::Plain, &[&[CAPITAL]]),
        r#"[{"type":"text","text":"{capital_question.content.text}"}]"#,
    ),
    tool(
        "test_input_required_result_list_roots",
        "Asks for roots",
        asks(Kind::Plain, &[&[ROOTS]]),
        r#"[{"type":"text","text":"The roots are {client_roots.roots}"}]"#,
    ),
    tool(
        "test_input_required_result_request_state",
        "Asks with a state",
        asks(Kind::Sealed, &[&[CONFIRM]]),
        r#"[{"type":"text","text":"state-ok, confirmed: {confirm.content.ok}"}]"#,
    ),
    tool(
        "test_input_required_result_multiple_inputs",
        "Asks three things at once",
        asks(Kind::Sealed, &[&[NAME, GREETING, ROOTS]]),
        r#"[{"type":"text","text":"{greeting.content.text} {user_name.content.name}, your roots are {client_roots.roots}"}]"#,
    ),
    tool(
        "test_input_required_result_multi_round",
        "Asks twice",
        asks(Kind::Sealed, &[&[STEP_1], &[STEP_2]]),
        r#"[{"type":"text","text":"Your favorite color is {step2.content.color}"}]"#,
    ),
    tool(
        "test_input_required_result_tampered_state",
        "Asks with a state that must come back unchanged",
        asks(Kind::Sealed, &[&[CONFIRM]]),
        DONE,
    ),
    tool(
        "test_input_required_result_capabilities",
        "Asks only what its caller can answer",
        asks(Kind::AsDeclared, &[&[NAME, CAPITAL, ROOTS]]),
        DONE,
    ),
];
