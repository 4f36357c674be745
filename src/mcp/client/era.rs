//! Which era a server over HTTP is of, and the opening of a session in the legacy one.

use serde_json::value::RawValue;

use super::post::{Post, Session};
use super::{CallFault, INITIALIZED, Ids, Listener, Outgoing, agreed};
use crate::http::Connection;
use crate::json::{Members, elements, string};
use crate::mcp::message::Id;
use crate::mcp::version::Version;
use crate::secret::Secret;
use crate::time::Instant;

/// What a server said to `server/discover`.
pub(super) enum Era {
    /// Its result.
    Modern(Box<RawValue>),
    /// What tells that it is a legacy one.
    Legacy(CallFault),
}

impl Post {
    /// Agrees with the server on a revision: `wanted`, or the newest that both speak.
    pub(super) async fn open(
        &self,
        wanted: Option<Version>,
        deadline: Instant,
        ids: &Ids,
    ) -> Result<(Session, Box<RawValue>), CallFault> {
        if wanted.is_none_or(Version::is_modern) {
            match self.discover(deadline, &ids.next()).await? {
                Era::Modern(said) => return Ok((Session::MODERN, said)),
                Era::Legacy(why) if wanted.is_some() => return Err(why),
                Era::Legacy(_) => {}
            }
        }
        let wanted = wanted.unwrap_or(Version::NEWEST_LEGACY);
        self.initialize(wanted, deadline, &ids.next()).await
    }

    /// Finds out which era the server is of.
    ///
    /// # Errors
    /// What says neither.
    pub(super) async fn discover(&self, deadline: Instant, id: &Id) -> Result<Era, CallFault> {
        let request = Outgoing::new("server/discover");
        let mut nobody = Listener {
            news: &mut |_| {},
            questions: None,
        };
        let discovered = self
            .exchange(&Session::MODERN, id, &request, deadline, &mut nobody)
            .await;
        match discovered.and_then(super::post::Read::whole) {
            Ok(said) if is_of_modern(&said) => Ok(Era::Modern(said)),
            // Some legacy servers answer every method.
            Ok(_) => Ok(Era::Legacy(CallFault::Protocol(
                "it does not list the revision that is wanted",
            ))),
            Err(fault) if means_legacy(&fault) => Ok(Era::Legacy(fault)),
            Err(fault) => Err(fault),
        }
    }

    async fn initialize(
        &self,
        wanted: Version,
        deadline: Instant,
        id: &Id,
    ) -> Result<(Session, Box<RawValue>), CallFault> {
        let body = super::initialize(id, wanted);
        let opening = Session {
            version: wanted,
            id: None,
        };
        let request = self.head(&opening)?.body(body.into_bytes());
        let reply = self
            .http
            .send(request, deadline, Connection::Pooled)
            .await?;
        let id_of_session = match reply.headers.only("mcp-session-id") {
            Ok(session) => session.map(|session| Secret::new(session.to_owned())),
            Err(_) => return Err(CallFault::Protocol("several session ids")),
        };
        let mut nobody = Listener {
            news: &mut |_| {},
            questions: None,
        };
        let said = self.read(reply, &opening, id, deadline, &mut nobody, false);
        let said = said.await?.whole()?;
        let version =
            agreed(&said).ok_or(CallFault::Protocol("no protocol version that both speak"))?;
        let session = Session {
            version,
            id: id_of_session,
        };
        self.note(&session, INITIALIZED.to_owned(), deadline)
            .await?;
        Ok((session, said))
    }
}

/// Whether a failed `server/discover` tells of a legacy server: a client error without one of the modern errors in it.
/// "401/403 and 5xx are not era evidence".
fn means_legacy(fault: &CallFault) -> bool {
    match fault {
        CallFault::Status(status) => {
            (400..500).contains(status) && !matches!(status, 401 | 403 | 429)
        }
        // A modern server has the method, whatever else it lacks; one that lists only legacy revisions is dual.
        CallFault::Rpc(error) if error.code == -32022 => lists_only_legacy(error.data.as_deref()),
        CallFault::Rpc(error) => !matches!(error.code, -32_021..=-32_020),
        CallFault::Connection(_)
        | CallFault::Ended { .. }
        | CallFault::Protocol(_)
        | CallFault::Header
        | CallFault::NotStarted(_)
        | CallFault::Unset(_) => false,
    }
}

/// Whether a `server/discover` result is one: of a server of the modern era.
fn is_of_modern(said: &RawValue) -> bool {
    let listed = versions(said.get(), "supportedVersions");
    listed.into_iter().any(Version::is_modern)
}

fn lists_only_legacy(data: Option<&str>) -> bool {
    let listed = versions(data.unwrap_or_default(), "supported");
    !listed.is_empty() && !listed.into_iter().any(Version::is_modern)
}

/// The revisions of ours in a list of names, the member `name` of an object.
fn versions(object: &str, name: &str) -> Vec<Version> {
    let names = Members::parse(object)
        .ok()
        .and_then(|object| object.get(name))
        .and_then(|names| elements(names.get()).ok());
    let names = names.into_iter().flatten();
    names
        .filter_map(|name| Version::parse(&string(name)?))
        .collect()
}
