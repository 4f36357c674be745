//! Names of tools, prompts and resources where several servers stand behind one endpoint.

use serde_json::value::RawValue;

use crate::json::{Members, quote, string};

/// Between a slug and a name.
const BETWEEN: &str = "__";

/// In front of a slug in the URI of a resource, so that it stays a URI with a scheme of its own.
const SCHEME: &str = "mcp+";

/// `slug__name`.
pub(super) fn of_tool(slug: &str, name: &str) -> String {
    format!("{slug}{BETWEEN}{name}")
}

/// "split at the first `__`" (interface).
pub(super) fn split(name: &str) -> Option<(&str, &str)> {
    name.split_once(BETWEEN)
}

/// The URI of a resource of that server: `mcp+slug+URI`. A URI template stays one.
pub(super) fn of_resource(slug: &str, uri: &str) -> String {
    format!("{SCHEME}{slug}+{uri}")
}

/// The server and the URI that a URI means here.
pub(super) fn split_resource(uri: &str) -> Option<(&str, &str)> {
    uri.strip_prefix(SCHEME)?.split_once('+')
}

/// The JSON of a listed thing with one member, a string, changed; `None` where there is no such string.
pub(super) fn renamed(
    listed: &RawValue,
    member: &str,
    rename: impl Fn(&str) -> String,
) -> Option<Box<RawValue>> {
    let members = Members::parse(listed.get()).ok()?;
    let name = rename(&string(members.get(member)?)?);
    let parts = members.iter().map(|(known, value)| {
        let value = match known == member {
            true => quote(&name),
            false => value.get().to_owned(),
        };
        format!("{}:{value}", quote(known))
    });
    let parts: Vec<String> = parts.collect();
    RawValue::from_string(format!("{{{}}}", parts.join(","))).ok()
}

/// The JSON of a listed thing without some of its members.
pub(super) fn without(listed: &RawValue, unwanted: &[&str]) -> Box<RawValue> {
    let Ok(members) = Members::parse(listed.get()) else {
        return listed.to_owned();
    };
    if !members.iter().any(|(name, _)| unwanted.contains(&name)) {
        return listed.to_owned();
    }
    let parts = members.iter().filter(|(name, _)| !unwanted.contains(name));
    let parts: Vec<String> = parts
        .map(|(name, value)| format!("{}:{}", quote(name), value.get()))
        .collect();
    RawValue::from_string(format!("{{{}}}", parts.join(","))).unwrap_or_else(|_| listed.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_apart() {
        for (slug, name) in [("a", "b"), ("a-b", "c__d"), ("a", "_b"), ("1", "")] {
            assert_eq!(split(&of_tool(slug, name)), Some((slug, name)));
            assert_eq!(split_resource(&of_resource(slug, name)), Some((slug, name)));
        }
        assert_eq!(split("a_b"), None);
        assert_eq!(split_resource("test://a+b"), None);
        assert_eq!(of_resource("a", "file:///x/{y}"), "mcp+a+file:///x/{y}");
    }

    #[test]
    fn a_listed_thing_keeps_everything_else() {
        let listed = RawValue::from_string(r#"{"a":1.0,"name":"x\"y","b":[]}"#.to_owned()).unwrap();
        let renamed = renamed(&listed, "name", |name| of_tool("s", name)).unwrap();
        assert_eq!(renamed.get(), r#"{"a":1.0,"name":"s__x\"y","b":[]}"#);
        assert_eq!(
            without(&listed, &["a", "c"]).get(),
            r#"{"name":"x\"y","b":[]}"#
        );
        assert_eq!(without(&listed, &["c"]).get(), listed.get());
    }
}
