//! What a mount is given with each call.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::approval::Forwarded;
use crate::gate::Policy;

/// One call of a mount's tool, from the gateway.
pub struct MountCall<'a> {
    /// The tool's name within the mount.
    pub tool: &'a str,
    /// One JSON object, scanned.
    pub arguments: &'a RawValue,
    /// Who calls: a token's id, or the gateway for a mount in another process.
    pub principal: &'a str,
    /// What the gateway says about asking; `None`: nothing.
    pub forwarded: Option<Forwarded>,
    /// What is re-checked when a permit is spent.
    pub policy: Arc<dyn Policy>,
}
