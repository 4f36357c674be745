//! Who may answer, and what shows that it is they: a key, a cookie made after a key, a token against forged posts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::DeskFault;
use super::session::SessionName;
use crate::secret::{Sealer, Use, base64url, parse_base64url, same, sha256};

/// How long a sign-in lasts: a working day.
pub(super) const SIGN_IN_TIME: Duration = Duration::from_secs(12 * 60 * 60);

/// Most characters of a person's id, which stands in the history.
const ID_CHARACTERS: usize = 64;

/// A person as the configuration names them.
#[derive(Clone)]
pub struct Person {
    /// Their name in the record: 1 to 64 characters, none of them a control.
    pub id: String,
    /// SHA-256 of their key.
    pub key_sha256: [u8; 32],
    /// The sessions that they see and answer: names, where a trailing `*` stands for any rest.
    pub answers_for: Vec<String>,
}

impl fmt::Debug for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Person")
            .field("id", &self.id)
            .field("answers_for", &self.answers_for)
            .finish_non_exhaustive()
    }
}

/// Everybody who may answer.
pub(super) struct People {
    known: Vec<Arc<Known>>,
    sealer: Sealer,
}

/// One person.
pub(super) struct Known {
    /// Their name in the record.
    pub(super) id: String,
    /// What they see and answer.
    pub(super) sees: AnswersFor,
    key_sha256: [u8; 32],
}

/// A person whose cookie held, and until when it does.
pub(super) struct SignedIn {
    pub(super) person: Arc<Known>,
    pub(super) until_wall_ms: u64,
}

impl People {
    /// # Errors
    /// [`DeskFault`] for an id that is malformed or taken, a key that two people share, a pattern that is none.
    pub(super) fn new(people: &[Person], sealer: Sealer) -> Result<Self, DeskFault> {
        let mut known: Vec<Arc<Known>> = Vec::with_capacity(people.len());
        for (position, person) in people.iter().enumerate() {
            let characters = person.id.chars().count();
            if !(1..=ID_CHARACTERS).contains(&characters) || person.id.chars().any(char::is_control)
            {
                return Err(DeskFault::PersonId { position });
            }
            for earlier in &known {
                if earlier.id == person.id {
                    return Err(DeskFault::PersonTwice { position });
                }
                // One key could not tell who answered.
                if same(&earlier.key_sha256, &person.key_sha256) {
                    return Err(DeskFault::KeyTwice { position });
                }
            }
            let sees =
                AnswersFor::parse(&person.answers_for).ok_or(DeskFault::AnswersFor { position })?;
            known.push(Arc::new(Known {
                id: person.id.clone(),
                sees,
                key_sha256: person.key_sha256,
            }));
        }
        Ok(Self { known, sealer })
    }

    /// The person with this key. How long it takes tells neither whose key nearly fits nor whose fits.
    pub(super) fn by_key(&self, key: &str) -> Option<Arc<Known>> {
        let digest = sha256(key.as_bytes());
        let mut found = None;
        for person in &self.known {
            if same(&person.key_sha256, &digest) {
                found = Some(person);
            }
        }
        found.cloned()
    }

    /// The value of a cookie that stands for `person` until the given time.
    pub(super) fn cookie(&self, person: &Known, until_wall_ms: u64) -> String {
        let mac = self.sealer.mac(Use::Cookie, &sealed(person, until_wall_ms));
        let id = base64url(person.id.as_bytes());
        format!("{id}.{until_wall_ms}.{}", base64url(&mac))
    }

    /// The person for whom `cookie` stands. It ends with its time, with the secret that sealed it, and with the
    /// person's key.
    pub(super) fn by_cookie(&self, cookie: &str, now_wall_ms: u64) -> Option<SignedIn> {
        let mut parts = cookie.split('.');
        let [id, until, mac] = [parts.next()?, parts.next()?, parts.next()?];
        let until_wall_ms: u64 = until.parse().ok()?;
        let (id, mac) = (parse_base64url(id)?, parse_base64url(mac)?);
        // One text for one value: `+7` and `07` are not what was minted.
        if parts.next().is_some() || until_wall_ms.to_string() != until {
            return None;
        }
        let mut people = self.known.iter();
        let person = people.find(|person| person.id.as_bytes() == id)?;
        let sealed = sealed(person, until_wall_ms);
        let holds = self.sealer.verify(Use::Cookie, &sealed, &mac);
        (holds && now_wall_ms < until_wall_ms).then(|| SignedIn {
            person: person.clone(),
            until_wall_ms,
        })
    }

    /// The token that a post must carry beside this cookie: a page of a stranger can cause a post, but cannot read it.
    pub(super) fn csrf_token(&self, cookie: &str) -> String {
        base64url(&self.sealer.mac(Use::Csrf, cookie.as_bytes()))
    }

    /// Whether `token` is that of this cookie.
    pub(super) fn is_csrf_token(&self, cookie: &str, token: &str) -> bool {
        parse_base64url(token)
            .is_some_and(|mac| self.sealer.verify(Use::Csrf, cookie.as_bytes(), &mac))
    }
}

/// What a cookie's seal covers. The digest of the key is among it, so that a new key ends the old one's cookies. Both
/// fixed lengths stand first, so no two sets of values are the same bytes.
fn sealed(person: &Known, until_wall_ms: u64) -> Vec<u8> {
    let mut bytes = until_wall_ms.to_be_bytes().to_vec();
    bytes.extend_from_slice(&person.key_sha256);
    bytes.extend_from_slice(person.id.as_bytes());
    bytes
}

/// Whose questions a person sees and answers. Cloning shares the patterns.
#[derive(Clone)]
pub(super) struct AnswersFor(Arc<[Pattern]>);

enum Pattern {
    Exactly(String),
    StartsWith(String),
}

impl AnswersFor {
    /// `None` for no pattern at all, an empty one, or a `*` that is not the last character: what it was meant to
    /// cover is a guess.
    fn parse(patterns: &[String]) -> Option<Self> {
        let parse = |text: &String| match text.strip_suffix('*') {
            Some(start) if !start.contains('*') => Some(Pattern::StartsWith(start.to_owned())),
            None if !text.is_empty() && !text.contains('*') => Some(Pattern::Exactly(text.clone())),
            _ => None,
        };
        let parsed: Arc<[Pattern]> = patterns.iter().map(parse).collect::<Option<_>>()?;
        (!parsed.is_empty()).then_some(Self(parsed))
    }

    /// Whether the session is one of theirs.
    pub(super) fn covers(&self, session: &SessionName) -> bool {
        self.0.iter().any(|pattern| match pattern {
            Pattern::Exactly(name) => name == session.as_str(),
            Pattern::StartsWith(start) => session.as_str().starts_with(start.as_str()),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::*;
    use crate::secret::Secret;

    /// What a person with these patterns sees.
    pub(in crate::desk) fn answers_for(patterns: &[&str]) -> AnswersFor {
        let patterns: Vec<String> = patterns.iter().map(|&text| text.to_owned()).collect();
        AnswersFor::parse(&patterns).unwrap()
    }

    fn sealer(letters: &str) -> Sealer {
        let secrets: Vec<Secret> = letters
            .chars()
            .map(|letter| Secret::new(letter.to_string().repeat(32)))
            .collect();
        Sealer::new(&secrets).unwrap()
    }

    fn person(id: &str, key: &str, patterns: &[&str]) -> Person {
        Person {
            id: id.to_owned(),
            key_sha256: sha256(key.as_bytes()),
            answers_for: patterns.iter().map(|&text| text.to_owned()).collect(),
        }
    }

    fn people(secrets: &str) -> People {
        let list = [
            person("ana", "key a", &["*"]),
            person("b.o", "key b", &["demo-*"]),
        ];
        People::new(&list, sealer(secrets)).unwrap()
    }

    #[test]
    fn patterns() {
        let session = |text: &str| SessionName::parse(text).unwrap();
        for (patterns, name, expected) in [
            (&["*"][..], "any", true),
            (&["demo"], "demo", true),
            (&["demo"], "demo2", false),
            (&["demo"], "Demo", false),
            (&["demo*"], "demo", true),
            (&["demo*"], "demo-2", true),
            (&["demo*"], "dem", false),
            (&["a", "b*"], "bc", true),
            (&["a", "b*"], "ac", false),
        ] {
            assert_eq!(
                answers_for(patterns).covers(&session(name)),
                expected,
                "{patterns:?} {name}"
            );
        }
        for bad in [
            &[][..],
            &[""],
            &["a", ""],
            &["*a"],
            &["a*b"],
            &["a**"],
            &["**"],
        ] {
            let bad: Vec<String> = bad.iter().map(|&text| text.to_owned()).collect();
            assert!(AnswersFor::parse(&bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn a_configuration_that_leaves_doubt_is_refused() {
        let ana = || person("ana", "key a", &["*"]);
        let fault = |second: Person| People::new(&[ana(), second], sealer("k")).err();
        for id in ["", "a\nb", "a\u{7f}", &"i".repeat(65)] {
            assert_eq!(
                fault(person(id, "x", &["*"])),
                Some(DeskFault::PersonId { position: 1 })
            );
        }
        assert_eq!(
            fault(person("ana", "x", &["*"])),
            Some(DeskFault::PersonTwice { position: 1 })
        );
        assert_eq!(
            fault(person("bo", "key a", &["*"])),
            Some(DeskFault::KeyTwice { position: 1 })
        );
        assert_eq!(
            fault(person("bo", "x", &[])),
            Some(DeskFault::AnswersFor { position: 1 })
        );
        assert_eq!(fault(person("Bo ü", "x", &["*"])), None);
    }

    #[test]
    fn a_key_is_its_person() {
        let people = people("k");
        assert_eq!(people.by_key("key a").unwrap().id, "ana");
        assert_eq!(people.by_key("key b").unwrap().id, "b.o");
        for wrong in ["", "key", "key a ", "KEY A"] {
            assert!(people.by_key(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_cookie_lasts_until_its_time() {
        let people = people("k");
        let bo = people.by_key("key b").unwrap();
        let cookie = people.cookie(&bo, 1_000);
        let signed_in = people.by_cookie(&cookie, 999).unwrap();
        assert_eq!(
            (signed_in.person.id.as_str(), signed_in.until_wall_ms),
            ("b.o", 1_000)
        );
        assert!(people.by_cookie(&cookie, 1_000).is_none());
        assert!(people.by_cookie(&cookie, 1_001).is_none());
    }

    #[test]
    fn every_changed_character_of_a_cookie_is_refused() {
        let people = people("k");
        let ana = people.by_key("key a").unwrap();
        let cookie = people.cookie(&ana, 1_000);
        for at in 0..cookie.len() {
            for other in ('\0'..='\u{7f}').filter(|other| !cookie[at..].starts_with(*other)) {
                let changed = format!("{}{other}{}", &cookie[..at], &cookie[at + 1..]);
                assert!(people.by_cookie(&changed, 0).is_none(), "{changed:?}");
            }
            assert!(people.by_cookie(&cookie[..at], 0).is_none());
        }
        let more = [
            format!("{cookie}."),
            format!("{cookie}.x"),
            cookie.replace("1000", "+1000"),
        ];
        for changed in more {
            assert!(people.by_cookie(&changed, 0).is_none(), "{changed:?}");
        }
    }

    #[test]
    fn a_cookie_ends_with_its_secret_and_with_its_key() {
        let [old, turning, new] = ["a", "ba", "b"].map(people);
        let cookie = old.cookie(&old.by_key("key a").unwrap(), 1_000);
        assert!(turning.by_cookie(&cookie, 0).is_some());
        assert!(new.by_cookie(&cookie, 0).is_none());
        let rekeyed = People::new(&[person("ana", "key 2", &["*"])], sealer("a")).unwrap();
        assert!(rekeyed.by_cookie(&cookie, 0).is_none());
    }

    #[test]
    fn a_csrf_token_fits_one_cookie() {
        let people = people("k");
        let ana = people.by_key("key a").unwrap();
        let [first, second] = [1_000, 2_000].map(|until| people.cookie(&ana, until));
        let token = people.csrf_token(&first);
        assert!(people.is_csrf_token(&first, &token));
        assert!(!people.is_csrf_token(&second, &token));
        for wrong in ["", &token[1..], &first, &format!("{token}A")] {
            assert!(!people.is_csrf_token(&first, wrong));
        }
    }

    #[test]
    fn debug_shows_no_key() {
        let printed = format!("{:?}", person("ana", "key a", &["*"]));
        assert_eq!(printed, "Person { id: \"ana\", answers_for: [\"*\"], .. }");
    }
}
