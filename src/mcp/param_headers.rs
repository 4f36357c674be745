//! Arguments of a tool that its calls also carry in headers (`x-mcp-header`, 2026-07-28).

use std::collections::HashSet;

use serde_json::value::RawValue;

use super::header;
use super::message::RpcError;
use crate::http::Headers;
use crate::http::head::is_token_byte;
use crate::json::{Members, elements, string};

/// The member of a property's schema that names its header.
const ANNOTATION: &str = "x-mcp-header";

/// Keywords of JSON Schema whose value is a schema, or an array of them.
const SCHEMAS: [&str; 15] = [
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords whose value is an object of schemas, besides `properties`.
const NAMED_SCHEMAS: [&str; 4] = [
    "$defs",
    "definitions",
    "dependentSchemas",
    "patternProperties",
];

/// Which arguments of one tool its calls also carry in headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParamHeaders {
    headers: Vec<ParamHeader>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ParamHeader {
    /// What follows `Mcp-Param-`.
    name: String,
    /// The names of the properties that lead to the argument.
    path: Vec<String>,
    /// Compared as a number: "42.0 equals 42".
    is_integer: bool,
}

impl ParamHeaders {
    /// Reads the annotations of a tool, as it stands in a list.
    ///
    /// # Errors
    /// Why the annotations are invalid: a client must drop such a tool from the list, and keep the others.
    pub fn of_tool(tool: &RawValue) -> Result<Self, &'static str> {
        let tool = Members::parse(tool.get()).map_err(|_| "the tool is no object")?;
        tool.get("inputSchema")
            .map_or(Ok(Self::default()), Self::of_schema)
    }

    /// Reads the annotations of a tool's `inputSchema`.
    ///
    /// # Errors
    /// Why they are invalid.
    pub fn of_schema(schema: &RawValue) -> Result<Self, &'static str> {
        let mut found = Self::default();
        found.read(schema, Some(&[]))?;
        let mut names = HashSet::new();
        let mut all = found.headers.iter();
        if !all.all(|header| names.insert(header.name.to_ascii_lowercase())) {
            return Err("two arguments share one header");
        }
        Ok(found)
    }

    /// `path` leads to the argument of that schema; none where it is not reached by `properties` alone.
    fn read(&mut self, schema: &RawValue, path: Option<&[&str]>) -> Result<(), &'static str> {
        // `true` and `false` are schemas too.
        let Ok(members) = Members::parse(schema.get()) else {
            return Ok(());
        };
        if let Some(annotation) = members.get(ANNOTATION) {
            let path = path.filter(|path| !path.is_empty());
            let path = path.ok_or("a header is for a property, reached by properties alone")?;
            let header = ParamHeader::read(annotation, &members, path)?;
            self.headers.push(header);
        }
        for (keyword, value) in members.iter() {
            if keyword == "properties" || NAMED_SCHEMAS.contains(&keyword) {
                let path = path.filter(|_| keyword == "properties");
                let named = Members::parse(value.get());
                for (name, schema) in named.iter().flat_map(Members::iter) {
                    let path = path.map(|path| [path, &[name]].concat());
                    self.read(schema, path.as_deref())?;
                }
            } else if SCHEMAS.contains(&keyword) {
                let listed = elements(value.get()).unwrap_or_else(|_| vec![value]);
                for schema in listed {
                    self.read(schema, None)?;
                }
            }
        }
        Ok(())
    }

    /// What a call with those arguments says: the name behind `Mcp-Param-`, and the value, not yet encoded. "Value null or
    /// absent: MUST omit".
    #[must_use]
    pub fn values(&self, arguments: &RawValue) -> Vec<(String, String)> {
        let headers = self.headers.iter();
        headers
            .filter_map(|header| Some((header.name.clone(), header.value(arguments)?)))
            .collect()
    }

    /// Whether a call's headers say what its arguments say.
    ///
    /// # Errors
    /// -32020, for one that is missing, repeated, badly encoded or different.
    pub(super) fn check(&self, headers: &Headers, arguments: &RawValue) -> Result<(), RpcError> {
        for header in &self.headers {
            let name = format!("Mcp-Param-{}", header.name);
            let mismatch =
                |why: &str| RpcError::new(-32020, format!("header mismatch: {name} {why}"));
            let mut all = headers.all(&name);
            let (given, more) = (all.next(), all.next());
            let given = given
                .map(|given| header::decode(given).ok_or_else(|| mismatch("is badly encoded")))
                .transpose()?;
            match (header.value(arguments), given, more) {
                (None, None, _) => {}
                (Some(value), Some(given), None) if header.are_same(&value, &given) => {}
                (Some(_), None, _) => return Err(mismatch("is missing")),
                (_, _, Some(_)) => return Err(mismatch("is repeated")),
                _ => return Err(mismatch("differs from the argument")),
            }
        }
        Ok(())
    }
}

impl ParamHeader {
    fn read(
        annotation: &RawValue,
        schema: &Members<'_>,
        path: &[&str],
    ) -> Result<Self, &'static str> {
        let name = string(annotation).ok_or("a header's name is no string")?;
        if name.is_empty() || !name.bytes().all(is_token_byte) {
            return Err("a header's name is not made of the characters of a token");
        }
        let kind = schema.get("type").and_then(string);
        let is_integer = match kind.as_deref() {
            Some("integer") => true,
            Some("string" | "boolean") => false,
            _ => return Err("a header is for a string, an integer or a boolean"),
        };
        Ok(Self {
            name: name.into_owned(),
            path: path.iter().map(|name| (*name).to_owned()).collect(),
            is_integer,
        })
    }

    /// The argument as text; `None` where there is none.
    fn value(&self, arguments: &RawValue) -> Option<String> {
        let mut value = arguments;
        for name in &self.path {
            value = Members::parse(value.get()).ok()?.get(name)?;
        }
        match value.get() {
            "null" => None,
            text if text.starts_with('"') => string(value).map(String::from),
            // What is neither is not what the schema says, and is its server's to refuse.
            text if text.starts_with(['{', '[']) => None,
            text => Some(text.to_owned()),
        }
    }

    fn are_same(&self, value: &str, given: &str) -> bool {
        let number = |text: &str| text.parse::<f64>().ok().filter(|_| self.is_integer);
        value == given || number(value).is_some_and(|value| number(given) == Some(value))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::http::head::{HeadLimits, Parsed, RequestHead, parse_request};

    fn raw(text: &str) -> &RawValue {
        serde_json::from_str(text).unwrap()
    }

    fn properties(properties: &str) -> Result<ParamHeaders, &'static str> {
        let schema = format!(r#"{{"type":"object","properties":{{{properties}}}}}"#);
        ParamHeaders::of_schema(raw(&schema))
    }

    #[test]
    fn values_are_read_where_the_annotations_are() {
        let headers = properties(
            r#""region":{"type":"string","x-mcp-header":"Region"},
               "deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}},
               "flag":{"type":"boolean","x-mcp-header":"Flag"},
               "x-mcp-header":{"type":"number"},
               "data":{"default":{"x-mcp-header":"no annotation"}}"#,
        )
        .unwrap();
        for (arguments, values) in [
            (
                r#"{"region":"Wörld","deep":{"n":42},"flag":false}"#,
                vec![("Region", "Wörld"), ("N", "42"), ("Flag", "false")],
            ),
            (r#"{"region":"","flag":null}"#, vec![("Region", "")]),
            (r#"{"region":{},"deep":7}"#, vec![]),
        ] {
            let found = headers.values(raw(arguments));
            let found: Vec<_> = found
                .iter()
                .map(|(n, v)| (n.as_str(), v.as_str()))
                .collect();
            assert_eq!(found, values, "{arguments}");
        }
        assert_eq!(
            ParamHeaders::of_tool(raw("{}")),
            Ok(ParamHeaders::default())
        );
    }

    #[test]
    fn a_bad_annotation_spoils_its_tool() {
        for bad in [
            r#""a":{"type":"string","x-mcp-header":""}"#,
            r#""a":{"type":"string","x-mcp-header":7}"#,
            r#""a":{"type":"string","x-mcp-header":"My Region"}"#,
            r#""a":{"type":"string","x-mcp-header":"Region:Primary"}"#,
            r#""a":{"type":"string","x-mcp-header":"Région"}"#,
            r#""a":{"type":"string","x-mcp-header":"Region\t1"}"#,
            r#""a":{"type":"number","x-mcp-header":"A"}"#,
            r#""a":{"type":"object","x-mcp-header":"A"}"#,
            r#""a":{"type":"array","x-mcp-header":"A"}"#,
            r#""a":{"type":"null","x-mcp-header":"A"}"#,
            r#""a":{"x-mcp-header":"A"}"#,
            r#""a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}"#,
            r#""a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}"#,
            r#""a":{"anyOf":[{"type":"string","x-mcp-header":"A"}]}"#,
            r#""a":{"$defs":{"x":{"properties":{"b":{"type":"string","x-mcp-header":"A"}}}}}"#,
        ] {
            assert!(properties(bad).is_err(), "{bad}");
        }
        let root = r#"{"type":"object","x-mcp-header":"A"}"#;
        assert!(ParamHeaders::of_schema(raw(root)).is_err());
    }

    fn head(lines: &str) -> RequestHead {
        let text = format!("POST /mcp HTTP/1.1\r\nhost: x\r\n{lines}\r\n");
        match parse_request(text.as_bytes(), &HeadLimits::default()) {
            Ok(Parsed::Complete { head, .. }) => head,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_call_says_the_same_in_both_places() {
        let headers = properties(
            r#""region":{"type":"string","x-mcp-header":"Region"},
               "n":{"type":"integer","x-mcp-header":"N"}"#,
        )
        .unwrap();
        for (lines, arguments, accepted) in [
            ("", "{}", true),
            ("", r#"{"region":null}"#, true),
            ("Mcp-Param-Other: x\r\n", "{}", true),
            ("Mcp-Param-Region: eu\r\n", r#"{"region":"eu"}"#, true),
            ("MCP-PARAM-REGION:  eu \r\n", r#"{"region":"eu"}"#, true),
            (
                "Mcp-Param-Region: =?base64?SGVsbG8=?=\r\n",
                r#"{"region":"Hello"}"#,
                true,
            ),
            (
                "Mcp-Param-Region: SGVsbG8=\r\n",
                r#"{"region":"SGVsbG8="}"#,
                true,
            ),
            (
                "Mcp-Param-Region: =?base64?SGVsbG8?=\r\n",
                r#"{"region":"Hello"}"#,
                false,
            ),
            ("Mcp-Param-Region: EU\r\n", r#"{"region":"eu"}"#, false),
            (
                "Mcp-Param-Region: eu\r\nMcp-Param-Region: eu\r\n",
                r#"{"region":"eu"}"#,
                false,
            ),
            ("Mcp-Param-Region: eu\r\n", "{}", false),
            ("", r#"{"region":"eu"}"#, false),
            ("Mcp-Param-N: 42.0\r\n", r#"{"n":42}"#, true),
            ("Mcp-Param-N: 43\r\n", r#"{"n":42}"#, false),
            ("Mcp-Param-N: x\r\n", r#"{"n":42}"#, false),
        ] {
            let checked = headers.check(&head(lines).headers, raw(arguments));
            assert_eq!(checked.is_ok(), accepted, "{lines} {arguments}");
            if let Err(error) = checked {
                assert_eq!((error.code, error.status), (-32020, 400));
            }
        }
    }
}
