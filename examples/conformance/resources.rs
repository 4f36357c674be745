//! What can be read.

use countersign::json::{Members, quote};
use countersign::mcp::{RpcError, RpcResult};

use crate::template::{MEDIA, fill};

/// A resource, or a template of many.
pub(crate) struct Resource {
    uri: &'static str,
    name: &'static str,
    description: &'static str,
    mime_type: &'static str,
    content: Content,
}

/// A template each.
enum Content {
    Text(&'static str),
    /// Of Base64.
    Blob(&'static str),
}

pub(crate) static RESOURCES: &[Resource] = &[
    Resource {
        uri: "test://static-text",
        name: "Static text",
        description: "A text that never changes",
        mime_type: "text/plain",
        content: Content::Text("This is the content of the static text resource."),
    },
    Resource {
        uri: "test://static-binary",
        name: "Static image",
        description: "An image that never changes",
        mime_type: "image/png",
        content: Content::Blob("{png}"),
    },
    Resource {
        uri: "test://watched-resource",
        name: "Watched text",
        description: "A text to subscribe to",
        mime_type: "text/plain",
        content: Content::Text("Nothing has changed."),
    },
];

pub(crate) static TEMPLATES: &[Resource] = &[Resource {
    uri: "test://template/{id}/data",
    name: "Data by ID",
    description: "A text for each ID",
    mime_type: "application/json",
    content: Content::Text(r#"{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}"#),
}];

impl Resource {
    /// As it stands in a list; `member` names its URI there.
    pub(crate) fn to_json(&self, member: &str) -> String {
        let texts = [
            (member, self.uri),
            ("name", self.name),
            ("description", self.description),
            ("mimeType", self.mime_type),
        ];
        let members = texts.map(|(name, text)| format!("{}:{}", quote(name), quote(text)));
        format!("{{{}}}", members.join(","))
    }

    /// What stands in its place in `uri`, as an object; `None` for a URI that it does not describe.
    fn matches(&self, uri: &str) -> Option<String> {
        match self.uri.split_once("{id}") {
            None => (self.uri == uri).then(|| "{}".to_owned()),
            Some((before, behind)) => {
                let id = uri.strip_prefix(before)?.strip_suffix(behind)?;
                Some(format!(r#"{{"id":{}}}"#, quote(id)))
            }
        }
    }

    fn read(&self, uri: &str, values: &str) -> String {
        let values = [values, MEDIA].map(Members::parse);
        let values = values.into_iter().flatten().collect();
        let (member, content) = match self.content {
            Content::Text(text) => ("text", text),
            Content::Blob(blob) => ("blob", blob),
        };
        format!(
            r#"[{{"uri":{},"mimeType":{},"{member}":{}}}]"#,
            quote(uri),
            quote(self.mime_type),
            quote(&fill(content, &values))
        )
    }
}

/// The contents of what is at `uri`.
///
/// # Errors
/// -32602 where nothing is, "SHOULD include the requested `uri`".
pub(crate) fn read(uri: &str) -> Result<RpcResult, RpcError> {
    let mut all = RESOURCES.iter().chain(TEMPLATES);
    let found = all.find_map(|resource| Some(resource.read(uri, &resource.matches(uri)?)));
    let contents = found.ok_or_else(|| {
        let data = format!(r#"{{"uri":{}}}"#, quote(uri));
        RpcError::new(-32602, "there is no such resource").with_data(data)
    })?;
    let mut result = RpcResult::default();
    result.set("contents", contents);
    Ok(result)
}
