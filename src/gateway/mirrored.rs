//! Which arguments of a server's tools its calls also carry in headers (`x-mcp-header`), as far as that is known.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;

use crate::json::{Members, string};
use crate::mcp::{Announcer, Change, Changes, ParamHeaders, Request, RpcError};

/// The tools of one server, by their names there, as of the last list of them. They are the same for every caller.
pub(super) struct Mirrored {
    tools: Mutex<HashMap<String, ParamHeaders>>,
    /// What the server says of changes.
    changes: Option<Changes>,
}

impl Mirrored {
    pub(super) fn new(announcer: Option<&Announcer>) -> Self {
        Self {
            tools: Mutex::default(),
            changes: announcer.map(Announcer::listen),
        }
    }

    /// Takes what a list of the server's tools says, in place of what was known.
    pub(super) fn learn(&self, tools: &[Box<RawValue>]) {
        let found = tools.iter().filter_map(|tool| {
            let headers = ParamHeaders::of_tool(tool).ok()?;
            let name = Members::parse(tool.get())
                .ok()?
                .get("name")
                .and_then(string)?;
            Some((name.into_owned(), headers))
        });
        *self.lock() = found.collect();
    }

    /// Whether a list has named that tool, and has not changed since.
    pub(super) fn knows(&self, tool: &str) -> bool {
        let changes = self.changes.as_ref();
        if changes.is_some_and(|changes| changes.has_come(&Change::Tools)) {
            self.forget();
        }
        self.lock().contains_key(tool)
    }

    /// Forgets all: what was known is not so any more.
    pub(super) fn forget(&self) {
        self.lock().clear();
    }

    /// What a call of `tool` says in its headers. Its own, which came with it, must say the same.
    ///
    /// # Errors
    /// -32020, the caller's fault.
    pub(super) fn of_call(
        &self,
        tool: &str,
        request: &Request<'_>,
    ) -> Result<Vec<(String, String)>, RpcError> {
        let Some(headers) = self.lock().get(tool).cloned() else {
            return Ok(Vec::new());
        };
        request.check_param_headers(&headers)?;
        Ok(headers.values(request.arguments()?))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, ParamHeaders>> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
