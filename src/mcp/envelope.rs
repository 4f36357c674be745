//! What every modern request says of itself, in its headers and in `_meta`, and how the two must agree.

use std::borrow::Cow;

use super::message::RpcError;
use super::version::Version;
use super::{META_CAPABILITIES, META_VERSION, header};
use crate::http::Headers;
use crate::json::{self, Members, quote};

/// The header that names the revision, in both eras.
pub(super) const VERSION_HEADER: &str = "mcp-protocol-version";

/// Whether a request is of the modern era: by what its `_meta` says, or by its header where it has headers.
pub(super) fn is_modern(headers: Option<&Headers>, meta: Option<&Members<'_>>) -> bool {
    let said = |key| meta.is_some_and(|meta| meta.get(key).is_some());
    let named = headers
        .and_then(|headers| headers.get(VERSION_HEADER))
        .and_then(|name| std::str::from_utf8(name).ok());
    said(META_VERSION)
        || said(META_CAPABILITIES)
        || named
            .and_then(Version::parse)
            .is_some_and(Version::is_modern)
}

/// Checks a modern request, in the order that the conformance suite pins.
pub(super) fn check_modern(
    headers: Option<&Headers>,
    method: &str,
    params: &Members<'_>,
    meta: Option<&Members<'_>>,
) -> Result<(), RpcError> {
    let missing = |what: &str| RpcError::new(-32602, format!("params._meta lacks {what}"));
    let meta = meta.ok_or_else(|| missing("everything: it is required on every request"))?;
    let version = meta
        .get(META_VERSION)
        .and_then(json::string)
        .ok_or_else(|| missing(META_VERSION))?;
    meta.get(META_CAPABILITIES)
        .filter(|capabilities| capabilities.get().starts_with('{'))
        .ok_or_else(|| missing(META_CAPABILITIES))?;
    same(
        headers,
        "MCP-Protocol-Version",
        Some(&version),
        "_meta's protocolVersion",
    )?;
    if !Version::parse(&version).is_some_and(Version::is_modern) {
        return Err(unsupported(&version));
    }
    same(headers, "Mcp-Method", Some(method), "the method")?;
    let named = match method {
        "tools/call" | "prompts/get" => params.get("name").and_then(json::string),
        "resources/read" => params.get("uri").and_then(json::string),
        "tasks/get" | "tasks/update" | "tasks/cancel" => {
            params.get("taskId").and_then(json::string)
        }
        _ => return Ok(()),
    };
    same(headers, "Mcp-Name", named.as_deref(), "what params names")
}

/// A header that must equal a value of the body: exactly one, decoded, compared byte for byte. Over standard streams "there
/// is no header layer".
fn same(
    headers: Option<&Headers>,
    name: &str,
    value: Option<&str>,
    what: &str,
) -> Result<(), RpcError> {
    let Some(headers) = headers else {
        return Ok(());
    };
    let mismatch = |why: &str| RpcError::new(-32020, format!("header mismatch: {name} {why}"));
    let mut all = headers.all(name);
    let (Some(given), None) = (all.next(), all.next()) else {
        return Err(mismatch("must be sent exactly once"));
    };
    let given = match name {
        "Mcp-Name" => header::decode(given).ok_or_else(|| mismatch("is not validly encoded"))?,
        _ => Cow::Borrowed(std::str::from_utf8(given).map_err(|_| mismatch("is not text"))?),
    };
    match value {
        Some(value) if value == given => Ok(()),
        _ => Err(mismatch(&format!("differs from {what}"))),
    }
}

/// The error for a revision that this server does not speak.
pub(super) fn unsupported(requested: &str) -> RpcError {
    let requested: String = requested.chars().take(64).collect();
    let data = format!(
        r#"{{"supported":{},"requested":{}}}"#,
        Version::all_as_json(),
        quote(&requested)
    );
    RpcError::new(-32022, "Unsupported protocol version").with_data(data)
}
