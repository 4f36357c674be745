//! Session URLs: whoever holds one may ask and poll in its session, and do nothing else.

use std::fmt;

use url::Url;

use super::DeskFault;
use super::site::Site;
use crate::secret::{Sealer, Secret, Use, base64url, parse_base64url};

/// Most characters of a session name.
const NAME_CHARACTERS: usize = 64;

/// A MAC of 32 bytes in base64url, and the dash before it. The MAC may hold dashes too, so a segment is split by
/// this length and never at a dash that was searched for.
const TAIL_CHARACTERS: usize = 44;

/// Where the protocol's routes begin, below the desk's public URL.
pub(super) const ASKERS_PATH: &str = "/api/v1/elicitations/session/";

/// The name of a session: `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`. It is no secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionName(String);

impl SessionName {
    /// Takes a name of the one permitted form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let begins_well = text.starts_with(|first: char| first.is_ascii_alphanumeric());
        let goes_on_well = text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
        (begins_well && goes_on_well && text.len() <= NAME_CHARACTERS)
            .then(|| Self(text.to_owned()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Mints and checks session URLs. The same secret and name give the same URL; a URL ends with the secret that
/// minted it.
#[derive(Clone)]
pub struct SessionUrls {
    sealer: Sealer,
    /// The desk as askers reach it, without a last slash.
    origin: String,
}

impl SessionUrls {
    /// What mints and checks for the desk at `public_url`. The first secret mints, all check.
    ///
    /// # Errors
    /// [`DeskFault`] for a secret that is too short, or a URL that no desk can have.
    pub fn new(secrets: &[Secret], public_url: &Url) -> Result<Self, DeskFault> {
        let site = Site::new(public_url, &[])?;
        Ok(Self::of(Sealer::new(secrets)?, &site))
    }

    pub(super) fn of(sealer: Sealer, site: &Site) -> Self {
        Self {
            sealer,
            origin: site.origin().to_owned(),
        }
    }

    /// The whole URL of a session, to be given to its asker and to nobody else.
    #[must_use]
    pub fn url(&self, name: &SessionName) -> Secret {
        Secret::new(self.question_url(&self.mint(name)))
    }

    /// A session's path segment: `NAME-MAC`.
    #[must_use]
    pub fn mint(&self, name: &SessionName) -> Secret {
        let mac = self.sealer.mac(Use::SessionUrl, name.0.as_bytes());
        Secret::new(format!("{name}-{}", base64url(&mac)))
    }

    /// The session whose segment this is, if one of our secrets minted it.
    #[must_use]
    pub fn verify(&self, segment: &str) -> Option<SessionName> {
        let name_length = segment.len().checked_sub(TAIL_CHARACTERS)?;
        let (name, tail) = segment.split_at_checked(name_length)?;
        let name = SessionName::parse(name)?;
        let mac = parse_base64url(tail.strip_prefix('-')?)?;
        self.sealer
            .verify(Use::SessionUrl, name.0.as_bytes(), &mac)
            .then_some(name)
    }

    /// The address of what lies at `segment` below the session routes.
    fn question_url(&self, segment: &Secret) -> String {
        format!("{}{ASKERS_PATH}{}", self.origin, segment.expose())
    }

    /// Where a question of this session is polled.
    pub(super) fn poll_url(&self, name: &SessionName, request_id: &str) -> Secret {
        let session = self.question_url(&self.mint(name));
        Secret::new(format!("{session}/{request_id}"))
    }
}

impl fmt::Debug for SessionUrls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionUrls")
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn urls(letters: &str) -> SessionUrls {
        let secrets: Vec<Secret> = letters
            .chars()
            .map(|letter| Secret::new(letter.to_string().repeat(32)))
            .collect();
        SessionUrls::new(&secrets, &Url::parse("https://desk.example").unwrap()).unwrap()
    }

    fn name(text: &str) -> SessionName {
        SessionName::parse(text).unwrap()
    }

    #[test]
    fn names() {
        let longest = "n".repeat(64);
        for good in [
            "a",
            "7",
            "a.b",
            "A-b_c.9",
            "a-",
            "a--",
            "4711",
            longest.as_str(),
        ] {
            assert!(SessionName::parse(good).is_some(), "{good}");
        }
        let longer = "n".repeat(65);
        for bad in [
            "",
            "-a",
            ".a",
            "_",
            "a b",
            "a/b",
            "a%2e",
            "\u{e9}",
            "a\n",
            "a*",
            longer.as_str(),
        ] {
            assert!(SessionName::parse(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn a_minted_segment_is_its_session_and_no_other() {
        let urls = urls("k");
        // Names that look like the end of a segment, or whose MAC begins where a dash stands.
        let tail = "-".repeat(43);
        let long = format!("a{tail}");
        for text in ["demo", "4711", "a-b", "a-", long.as_str()] {
            let segment = urls.mint(&name(text));
            assert_eq!(segment.expose().len(), text.len() + TAIL_CHARACTERS);
            assert_eq!(urls.verify(segment.expose()), Some(name(text)));
        }
        let url = urls.url(&name("demo"));
        assert_eq!(
            url.expose(),
            format!(
                "https://desk.example{ASKERS_PATH}{}",
                urls.mint(&name("demo")).expose()
            )
        );
    }

    #[test]
    fn every_changed_character_is_refused() {
        let urls = urls("k");
        let segment = urls.mint(&name("demo-1"));
        let segment = segment.expose();
        for at in 0..segment.len() {
            for other in ('\0'..='\u{7f}').filter(|other| !segment[at..].starts_with(*other)) {
                let changed = format!("{}{other}{}", &segment[..at], &segment[at + 1..]);
                assert_eq!(urls.verify(&changed), None, "{changed:?}");
            }
            assert_eq!(urls.verify(&segment[..at]), None);
            assert_eq!(urls.verify(&segment[at + 1..]), None);
        }
        for changed in [
            format!("{segment}="),
            format!("{segment}A"),
            format!("é{segment}"),
        ] {
            assert_eq!(urls.verify(&changed), None, "{changed:?}");
        }
        assert_eq!(urls.verify("zimmer-reachability-probe"), None);
        assert_eq!(urls.verify(&"é".repeat(40)), None);
    }

    #[test]
    fn an_old_secret_checks_and_the_new_one_mints() {
        let [old, turning, new] = ["a", "ba", "b"].map(urls);
        let segment = old.mint(&name("demo"));
        assert!(turning.verify(segment.expose()).is_some());
        assert!(new.verify(segment.expose()).is_none());
        let segment = turning.mint(&name("demo"));
        assert!(new.verify(segment.expose()).is_some());
    }

    #[test]
    fn debug_shows_no_credential() {
        let urls = urls("k");
        let (segment, url) = (urls.mint(&name("demo")), urls.url(&name("demo")));
        let printed = format!("{urls:?} {segment:?} {url:?}");
        let mac = &segment.expose()["demo-".len()..];
        assert!(!printed.contains(mac) && !printed.contains("kkk"));
    }
}
