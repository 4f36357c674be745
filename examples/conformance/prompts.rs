//! Prompts.

use countersign::json::quote;

use crate::asking::{Asks, Kind, Question};

/// A prompt.
pub(crate) struct Prompt {
    pub(crate) name: &'static str,
    description: &'static str,
    /// As they stand in the list.
    arguments: &'static str,
    /// What is asked first.
    pub(crate) asks: Option<Asks>,
    /// A template of JSON.
    pub(crate) messages: &'static str,
}

pub(crate) static PROMPTS: &[Prompt] = &[
    Prompt {
        name: "test_simple_prompt",
        description: "A prompt without arguments",
        arguments: "[]",
        asks: None,
        messages: r#"[{"role":"user","content":{"type":"text","text":"This is a simple prompt for testing."}}]"#,
    },
    Prompt {
        name: "test_prompt_with_arguments",
        description: "A prompt with two arguments",
        arguments: r#"[{"name":"arg1","description":"The first","required":true},{"name":"arg2","description":"The second","required":true}]"#,
        asks: None,
        messages: r#"[{"role":"user","content":{"type":"text","text":"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"}}]"#,
    },
    Prompt {
        name: "test_prompt_with_embedded_resource",
        description: "A prompt that holds a resource",
        arguments: r#"[{"name":"resourceUri","description":"The URI of the resource","required":true}]"#,
        asks: None,
        messages: r#"[{"role":"user","content":{"type":"resource","resource":{"uri":"{resourceUri}","mimeType":"text/plain","text":"Embedded resource content for testing."}}},{"role":"user","content":{"type":"text","text":"Please process the embedded resource above."}}]"#,
    },
    Prompt {
        name: "test_prompt_with_image",
        description: "A prompt that holds an image",
        arguments: "[]",
        asks: None,
        messages: r#"[{"role":"user","content":{"type":"image","mimeType":"image/png","data":"{png}"}},{"role":"user","content":{"type":"text","text":"Please analyze the image above."}}]"#,
    },
    Prompt {
        name: "test_input_required_result_prompt",
        description: "A prompt that asks for its context first",
        arguments: "[]",
        asks: Some(Asks {
            kind: Kind::Plain,
            rounds: &[&[Question {
                key: "user_context",
                method: "elicitation/create",
                params: r#"{"message":"What context should the prompt use?","requestedSchema":{"type":"object","properties":{"context":{"type":"string"}},"required":["context"]}}"#,
            }]],
        }),
        messages: r#"[{"role":"user","content":{"type":"text","text":"In the context of {user_context.content.context}, say hello."}}]"#,
    },
];

impl Prompt {
    /// As it stands in the list.
    pub(crate) fn to_json(&self) -> String {
        format!(
            r#"{{"name":{},"description":{},"arguments":{}}}"#,
            quote(self.name),
            quote(self.description),
            self.arguments
        )
    }
}
