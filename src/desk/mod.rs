//! The desk: an approval service that speaks the elicitation protocol, and the page where people answer.
//!
//! An asker holds a session URL. With it a question can be asked and polled, and nothing else: not answered, not
//! listed. A person holds a key. With it the questions of the sessions that the configuration gives them can be seen
//! and answered: on the page, after signing in, or from a terminal.

mod answer;
mod asked;
mod expiry;
mod http;
pub mod page;
mod people;
mod poll;
mod questions;
mod reply;
mod session;
mod sign_in;
mod site;
pub mod terminal;

pub use people::Person;
pub use session::{SessionName, SessionUrls};
pub(crate) use site::is_loopback;

use std::fmt;
use std::sync::Arc;

use url::Url;

use self::people::People;
use self::questions::Questions;
use self::site::Site;
use crate::http::throttle::Throttle;
use crate::secret::{Sealer, Secret, TooShort};
use crate::world::World;

/// What a desk is made of.
#[derive(Clone)]
pub struct DeskSettings {
    /// Where askers and people reach it: scheme, host and port.
    pub public_url: Url,
    /// What session URLs, cookies and tokens are sealed with, at least 32 bytes each; the first one mints, all check.
    pub secrets: Vec<Secret>,
    /// Who answers.
    pub people: Vec<Person>,
    /// SHA-256 of the secrets by which askers prove themselves; empty: none has to, and the page says so.
    pub asker_keys: Vec<[u8; 32]>,
    /// Hosts besides loopback ones and that of the public URL, each with a port where that has to fit too.
    pub allowed_hosts: Vec<String>,
}

impl fmt::Debug for DeskSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeskSettings")
            .field("people", &self.people)
            .field("allowed_hosts", &self.allowed_hosts)
            .finish_non_exhaustive()
    }
}

/// Why there is no desk of these settings. The configuration's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeskFault {
    /// This one of the allowed hosts is no host.
    AllowedHost {
        /// Its place in the list, from 0.
        position: usize,
    },
    /// This person's list of sessions is empty, or holds something that is neither a name nor a name's start and `*`.
    AnswersFor {
        /// Their place in the list, from 0.
        position: usize,
    },
    /// This person has an earlier one's key, so that nobody could say who answered.
    KeyTwice {
        /// Their place in the list, from 0.
        position: usize,
    },
    /// This person's id is empty, longer than 64 characters, or holds a control character.
    PersonId {
        /// Their place in the list, from 0.
        position: usize,
    },
    /// This person has an earlier one's id.
    PersonTwice {
        /// Their place in the list, from 0.
        position: usize,
    },
    /// The public URL is not just `http` or `https`, host and port.
    PublicUrl,
    /// There is no secret, or one is too short.
    Secret(TooShort),
}

impl From<TooShort> for DeskFault {
    fn from(fault: TooShort) -> Self {
        Self::Secret(fault)
    }
}

impl fmt::Display for DeskFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_person = |f: &mut fmt::Formatter<'_>, position: usize, what: &str| {
            write!(f, "configuration: person {} {what}", position + 1)
        };
        match *self {
            Self::AllowedHost { position } => write!(
                f,
                "configuration: allowed host {} is no host with an optional port",
                position + 1
            ),
            Self::AnswersFor { position } => of_person(
                f,
                position,
                "must answer for at least one session, each a name or a name's start and *",
            ),
            Self::KeyTwice { position } => of_person(f, position, "has the key of an earlier one"),
            Self::PersonId { position } => of_person(
                f,
                position,
                "must have an id of 1 to 64 characters, none of them a control",
            ),
            Self::PersonTwice { position } => of_person(f, position, "has the id of an earlier one"),
            Self::PublicUrl => f.write_str(
                "configuration: the desk's public url must be http or https, a host and a port, and nothing more",
            ),
            // It says itself whose fault it is.
            Self::Secret(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for DeskFault {}

/// A desk. It answers requests as an [`http::Handler`](crate::http::Handler); its questions live as long as it does.
pub struct Desk {
    world: World,
    site: Site,
    sessions: SessionUrls,
    people: People,
    throttle: Throttle,
    asker_keys: Vec<[u8; 32]>,
    questions: Arc<Questions>,
}

impl Desk {
    /// A desk without questions.
    ///
    /// # Errors
    /// [`DeskFault`].
    pub fn new(world: World, settings: DeskSettings) -> Result<Arc<Self>, DeskFault> {
        let sealer = Sealer::new(&settings.secrets)?;
        let site = Site::new(&settings.public_url, &settings.allowed_hosts)?;
        if site.is_exposed() {
            log::warn!(
                "the desk's public url is plain http: people's keys cross the network in the clear"
            );
        }
        if settings.people.is_empty() {
            log::warn!("the desk knows no people: nobody can answer its questions");
        }
        Ok(Arc::new(Self {
            sessions: SessionUrls::of(sealer.clone(), &site),
            people: People::new(&settings.people, sealer)?,
            throttle: Throttle::new(world.clock.clone()),
            asker_keys: settings.asker_keys,
            questions: Questions::new(world.clock.clone()),
            site,
            world,
        }))
    }

    /// The URL by which the session's asker asks and polls. It is a credential.
    #[must_use]
    pub fn session_url(&self, name: &SessionName) -> Secret {
        self.sessions.url(name)
    }
}
