//! The session id of the legacy era: a sealed name, and nothing that a server would have to remember.
//!
//! Clients of that era cancel by a message that names a request and not a caller, and are asked in the middle of a call
//! over a stream that another message answers. Both find their call by the session. It says what `initialize` agreed
//! on, is bound to the caller, and authenticates nobody: "MUST NOT be used for authentication".

use super::capabilities::ClientCapabilities;
use super::version::Version;
use crate::secret::{Sealer, Use, base64url, parse_base64url};
use crate::world::Random;

/// Whether a text is the id of a legacy session that a server with this sealer gave to that caller.
#[must_use]
pub fn is_session_id(text: &str, sealer: &Sealer, caller: &str) -> bool {
    SessionId::parse(text, sealer, caller).is_some()
}

/// Tells sessions of one caller apart.
pub(super) type Nonce = [u8; 16];

/// What `initialize` agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SessionId {
    pub(super) nonce: Nonce,
    pub(super) version: Version,
    pub(super) capabilities: ClientCapabilities,
}

impl SessionId {
    pub(super) fn new(random: &Random, version: Version, capabilities: ClientCapabilities) -> Self {
        let mut nonce = Nonce::default();
        random.fill(&mut nonce);
        Self {
            nonce,
            version,
            capabilities,
        }
    }

    /// What an id says, and what its seal covers.
    fn sealed(&self, caller: &str) -> (Vec<u8>, Vec<u8>) {
        let position = Version::ALL
            .iter()
            .position(|known| *known == self.version)
            .unwrap_or_default();
        let mut bytes = self.nonce.to_vec();
        bytes.push(u8::try_from(position).unwrap_or_default());
        bytes.push(self.capabilities.bits());
        let message = [&bytes[..], caller.as_bytes()].concat();
        (bytes, message)
    }

    /// The id for that caller: "visible ASCII 0x21–0x7E, unguessable".
    pub(super) fn to_text(self, sealer: &Sealer, caller: &str) -> String {
        let (mut bytes, message) = self.sealed(caller);
        let seal = sealer.mac(Use::LegacySession, &message);
        bytes.extend_from_slice(&seal);
        base64url(&bytes)
    }

    /// Reads an id of that caller; `None` for any other.
    pub(super) fn parse(text: &str, sealer: &Sealer, caller: &str) -> Option<Self> {
        let bytes = parse_base64url(text)?;
        let (nonce, rest) = bytes.split_first_chunk()?;
        let &[version, capabilities, ref seal @ ..] = rest else {
            return None;
        };
        let id = Self {
            nonce: *nonce,
            version: *Version::ALL.get(usize::from(version))?,
            capabilities: ClientCapabilities::from_bits(capabilities)?,
        };
        let (_, message) = id.sealed(caller);
        sealer
            .verify(Use::LegacySession, &message, seal)
            .then_some(id)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::mcp::capabilities::Ability;
    use crate::secret::Secret;

    fn sealer(secret: &str) -> Sealer {
        Sealer::new(&[Secret::new(secret.repeat(32))]).unwrap()
    }

    #[test]
    fn an_id_is_of_one_caller_and_of_one_server() {
        let sealer = sealer("a");
        let capabilities = ClientCapabilities::NONE.with(Ability::Form, true);
        let id = SessionId::new(&Random::seeded(1), Version::V2025_06_18, capabilities);
        let text = id.to_text(&sealer, "alice");
        assert!(text.bytes().all(|byte| (0x21..=0x7e).contains(&byte)));
        assert_eq!(SessionId::parse(&text, &sealer, "alice"), Some(id));
        assert_eq!(SessionId::parse(&text, &sealer, "bob"), None);
        assert_eq!(SessionId::parse(&text, &self::sealer("b"), "alice"), None);
        for bad in ["", "x", "AAAA", &text[1..], &format!("{text}AA")] {
            assert_eq!(SessionId::parse(bad, &sealer, "alice"), None, "{bad}");
        }
        let bytes = parse_base64url(&text).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let changed = base64url(&changed);
            assert_eq!(
                SessionId::parse(&changed, &sealer, "alice"),
                None,
                "bit {bit}"
            );
        }
        let other = SessionId::new(&Random::seeded(2), Version::V2025_06_18, capabilities);
        assert_ne!(other.nonce, id.nonce);
    }
}
