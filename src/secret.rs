//! What must not leak, and what is made of it: credentials, digests, seals.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::{digest, hkdf, hmac};

/// The least length of a sealing secret, in bytes: that of the HMAC-SHA256 keys made of it. A
/// shorter one could be guessed more easily than a seal.
pub const MIN_SECRET_BYTES: usize = 32;

/// The salt of our key derivation (RFC 5869 section 3.1). It need not be secret; it keeps our keys
/// apart from those that another program derives from the same secret.
const DERIVATION_SALT: &[u8] = b"countersign keys 1";

/// The key by which [`same`] spreads its two sides. Not a secret; see there.
const COMPARISON_KEY: &[u8] = b"countersign comparison";

/// A credential. It is never printed: there is no `Display`, and `Debug` shows nothing of it. Nor
/// can two be compared with `==`, which would tell by its time how far they agree: see [`same`].
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Takes a credential out of sight.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The credential itself, for the one place that sends or checks it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether it is empty, which is no credential at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// What a seal is for. Each use has keys of its own, so a value of one is refused by every other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The browser cookie of a person who answers.
    Cookie,
    /// The token against forged posts of the answering page.
    Csrf,
    /// The session id of the older MCP transport.
    LegacySession,
    /// The desk's URL that an agent's questions go to.
    SessionUrl,
    /// The `requestState` of a question asked by MRTR.
    State,
    /// Rows of answers in a shared store.
    StoredAnswer,
    /// The id of a task that a server runs for a caller.
    Task,
}

impl Use {
    /// The `info` of HKDF-Expand (RFC 5869 section 3.2). Changed with the meaning of what is sealed.
    fn label(self) -> &'static [u8] {
        match self {
            Self::Cookie => b"countersign cookie 1",
            Self::Csrf => b"countersign csrf 1",
            Self::LegacySession => b"countersign legacy session 1",
            Self::SessionUrl => b"countersign session url 1",
            Self::State => b"countersign request state 1",
            Self::StoredAnswer => b"countersign stored answer 1",
            Self::Task => b"countersign task 1",
        }
    }
}

/// Seals and checks values with keys derived from the configured secrets.
#[derive(Clone)]
pub struct Sealer {
    /// The keys that mint.
    first: Keys,
    /// Older keys, which only check.
    others: Vec<Keys>,
}

impl Sealer {
    /// Derives the keys. The first secret mints; all of them check, so that a new secret can be put
    /// before an old one without ending what the old one sealed.
    pub fn new(secrets: &[Secret]) -> Result<Self, TooShort> {
        for (position, secret) in secrets.iter().enumerate() {
            let bytes = secret.expose().len();
            if bytes < MIN_SECRET_BYTES {
                return Err(TooShort { position, bytes });
            }
        }
        let Some((first, others)) = secrets.split_first() else {
            return Err(TooShort {
                position: 0,
                bytes: 0,
            });
        };
        Ok(Self {
            first: Keys::derive(first),
            others: others.iter().map(Keys::derive).collect(),
        })
    }

    /// HMAC-SHA256 of `message` by the first secret's key for this use.
    pub fn mac(&self, purpose: Use, message: &[u8]) -> [u8; 32] {
        let mut mac = [0; 32];
        mac.copy_from_slice(hmac::sign(self.first.of(purpose), message).as_ref());
        mac
    }

    /// Whether `mac` is that of `message` by any secret's key for this use. How long it takes does
    /// not depend on which key it was, nor on where a wrong one differs.
    pub fn verify(&self, purpose: Use, message: &[u8], mac: &[u8]) -> bool {
        let by_first = hmac::verify(self.first.of(purpose), message, mac).is_ok();
        self.others.iter().fold(by_first, |found, keys| {
            hmac::verify(keys.of(purpose), message, mac).is_ok() | found
        })
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer({} secrets)", 1 + self.others.len())
    }
}

/// The keys of one secret, one for each use.
#[derive(Clone)]
struct Keys {
    cookie: hmac::Key,
    csrf: hmac::Key,
    legacy_session: hmac::Key,
    session_url: hmac::Key,
    state: hmac::Key,
    stored_answer: hmac::Key,
    task: hmac::Key,
}

impl Keys {
    fn derive(secret: &Secret) -> Self {
        let source =
            hkdf::Salt::new(hkdf::HKDF_SHA256, DERIVATION_SALT).extract(secret.expose().as_bytes());
        let key = |purpose: Use| {
            let label = [purpose.label()];
            // RFC 5869 section 2.3: L <= 255*HashLen. Ours is one HashLen, whatever the input.
            let derived = source
                .expand(&label, hmac::HMAC_SHA256)
                .expect("32 bytes are less than 255 blocks of 32");
            hmac::Key::from(derived)
        };
        Self {
            cookie: key(Use::Cookie),
            csrf: key(Use::Csrf),
            legacy_session: key(Use::LegacySession),
            session_url: key(Use::SessionUrl),
            state: key(Use::State),
            stored_answer: key(Use::StoredAnswer),
            task: key(Use::Task),
        }
    }

    fn of(&self, purpose: Use) -> &hmac::Key {
        match purpose {
            Use::Cookie => &self.cookie,
            Use::Csrf => &self.csrf,
            Use::LegacySession => &self.legacy_session,
            Use::SessionUrl => &self.session_url,
            Use::State => &self.state,
            Use::StoredAnswer => &self.stored_answer,
            Use::Task => &self.task,
        }
    }
}

/// A configured secret is shorter than [`MIN_SECRET_BYTES`], or there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooShort {
    /// Which one, counted from 0.
    pub position: usize,
    /// How many bytes it has.
    pub bytes: usize,
}

impl fmt::Display for TooShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "configuration: secret {} has {} bytes, at least {MIN_SECRET_BYTES} are needed",
            self.position + 1,
            self.bytes
        )
    }
}

impl std::error::Error for TooShort {}

/// The SHA-256 of some bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    hash
}

/// Whether two values are equal, in a time that tells nothing of where they differ. (It does depend
/// on their lengths.)
///
/// ring compares in constant time only by `hmac::verify`. The key has no need to be secret or new:
/// the comparison of the two tags is constant in time whatever is known of them, and equal tags
/// mean equal values.
pub fn same(a: &[u8], b: &[u8]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, COMPARISON_KEY);
    hmac::verify(&key, a, hmac::sign(&key, b).as_ref()).is_ok()
}

/// Bytes as lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        for digit in [byte >> 4, byte & 0xf] {
            out.extend(char::from_digit(u32::from(digit), 16));
        }
    }
    out
}

/// Reads exactly 64 hex digits of either case.
pub fn parse_hex_32(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 {
        return None;
    }
    let mut out = [0; 32];
    for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        for digit in pair {
            let value = char::from(*digit).to_digit(16)?;
            *byte = (*byte << 4) | u8::try_from(value).ok()?;
        }
    }
    Some(out)
}

/// Bytes as base64url without padding (RFC 4648 section 5).
pub fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Reads base64url. Only the one text that [`base64url`] writes for these bytes is taken: no
/// padding, no whitespace, and the bits that no byte uses are zero (RFC 4648 section 3.5). So two
/// different tokens are never the same value.
pub fn parse_base64url(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const USES: [Use; 7] = [
        Use::Cookie,
        Use::Csrf,
        Use::LegacySession,
        Use::SessionUrl,
        Use::State,
        Use::StoredAnswer,
        Use::Task,
    ];

    fn secret(letter: char) -> Secret {
        Secret::new(String::from(letter).repeat(MIN_SECRET_BYTES))
    }

    fn sealer(letters: &str) -> Sealer {
        let secrets: Vec<Secret> = letters.chars().map(secret).collect();
        Sealer::new(&secrets).unwrap()
    }

    #[test]
    fn nothing_prints_a_secret() {
        let credential = Secret::new("hunter2".repeat(5));
        let sealer = Sealer::new(std::slice::from_ref(&credential)).unwrap();
        let printed = format!("{credential:?} {:#?} {sealer:?}", Some(&credential));
        assert_eq!(
            printed,
            "Secret(..) Some(\n    Secret(..),\n) Sealer(1 secrets)"
        );
        assert_eq!(credential.expose(), "hunter2".repeat(5));
        assert!(!credential.is_empty() && Secret::new(String::new()).is_empty());
    }

    #[test]
    fn a_value_sealed_for_one_use_is_refused_by_every_other() {
        let sealer = sealer("ab");
        for sealed_for in USES {
            let mac = sealer.mac(sealed_for, b"value");
            for asked in USES {
                assert_eq!(
                    sealer.verify(asked, b"value", &mac),
                    asked == sealed_for,
                    "{sealed_for:?} {asked:?}"
                );
            }
        }
    }

    #[test]
    fn every_flipped_bit_of_a_mac_or_message_is_refused() {
        let sealer = sealer("ab");
        let message = b"state 1";
        for purpose in USES {
            let mac = sealer.mac(purpose, message);
            assert!(sealer.verify(purpose, message, &mac));
            for bit in 0..mac.len() * 8 {
                let mut flipped = mac;
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(!sealer.verify(purpose, message, &flipped), "{bit}");
            }
            for bit in 0..message.len() * 8 {
                let mut flipped = *message;
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(!sealer.verify(purpose, &flipped, &mac), "{bit}");
            }
            for length in 0..mac.len() {
                assert!(!sealer.verify(purpose, message, &mac[..length]));
            }
            assert!(!sealer.verify(purpose, message, &[&mac[..], &[0]].concat()));
        }
    }

    #[test]
    fn the_first_secret_mints_and_all_check() {
        let [old, turning, new] = ["a", "ba", "b"].map(sealer);
        let three = sealer("cba");
        let [by_old, by_turning] = [&old, &turning].map(|sealer| sealer.mac(Use::State, b"m"));
        assert_ne!(by_old, by_turning);
        assert_eq!(by_turning, new.mac(Use::State, b"m"));
        for (checks, mac, expected) in [
            (&old, by_old, true),
            (&turning, by_old, true),
            (&three, by_old, true),
            (&new, by_old, false),
            (&old, by_turning, false),
            (&turning, by_turning, true),
            (&three, by_turning, true),
        ] {
            assert_eq!(checks.verify(Use::State, b"m", &mac), expected);
        }
    }

    #[test]
    fn short_secrets_and_none_are_refused() {
        let short = Secret::new("hunter2".to_owned());
        for (secrets, position, bytes) in [
            (vec![], 0, 0),
            (vec![short.clone()], 0, 7),
            (vec![secret('a'), short], 1, 7),
            (vec![secret('a'), Secret::new(String::new())], 1, 0),
            (vec![Secret::new("x".repeat(MIN_SECRET_BYTES - 1))], 0, 31),
        ] {
            let fault = Sealer::new(&secrets).unwrap_err();
            assert_eq!(fault, TooShort { position, bytes });
            assert!(!fault.to_string().contains("hunter2"));
        }
        assert_eq!(
            TooShort {
                position: 1,
                bytes: 7
            }
            .to_string(),
            "configuration: secret 2 has 7 bytes, at least 32 are needed"
        );
    }

    /// Values sealed by one version are checked by the next: fixed values, computed apart from
    /// this program.
    #[test]
    fn the_derivation_stays_as_it_is() {
        let sealer = sealer("k");
        for (purpose, expected) in [
            (
                Use::Cookie,
                "3c67b01f806f1adc509805b56680594f98e5b65a55a86039255cb2bcf3339146",
            ),
            (
                Use::Csrf,
                "ffc5d3c104602b53c7549204fc9cb34f73f074f67c39ec96832061cd4c56d465",
            ),
            (
                Use::LegacySession,
                "53902a61d49c2361f5d1501344549d6c81cf174f91a3b0b270de38691dada4a5",
            ),
            (
                Use::SessionUrl,
                "d1b19bac52057c44b19d8f4d8e5c43b7a34c69af27c841dc5d68067f67fe4601",
            ),
            (
                Use::State,
                "8fc2c90d727baf802a62958f97f6610f29c0b7e4720c0a80409643fd15cdb2a7",
            ),
            (
                Use::StoredAnswer,
                "de42ee430655e36e932b0e3b1eb6fc81d825f580824ad6db7e1f184385027ced",
            ),
            (
                Use::Task,
                "d4e54c08b6f24f41d81f319f61dba680e4318beb4d0c7154561e95bf4e285493",
            ),
        ] {
            assert_eq!(
                hex(&sealer.mac(purpose, b"message")),
                expected,
                "{purpose:?}"
            );
        }
    }

    /// FIPS 180-4 examples.
    #[test]
    fn sha256_vectors() {
        for (bytes, expected) in [
            (
                &b""[..],
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            ),
            (
                b"abc",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
        ] {
            assert_eq!(hex(&sha256(bytes)), expected);
            assert_eq!(parse_hex_32(expected), Some(sha256(bytes)));
            assert_eq!(parse_hex_32(&expected.to_uppercase()), Some(sha256(bytes)));
        }
    }

    #[test]
    fn only_64_hex_digits_are_read() {
        let good = "0123456789abcdef".repeat(4);
        assert_eq!(hex(&parse_hex_32(&good).unwrap()), good);
        for bad in [
            String::new(),
            good[1..].to_owned(),
            format!("{good}0"),
            format!("{}g", &good[1..]),
            format!(" {}", &good[1..]),
            format!("+{}", &good[1..]),
            format!("0x{}", &good[2..]),
            format!("é{}", &good[2..]),
        ] {
            assert_eq!(parse_hex_32(&bad), None, "{bad}");
        }
    }

    #[test]
    fn each_value_has_one_base64url_text() {
        for bytes in [&b""[..], b"f", b"fo", b"foo", b"\xfb\xff\xfe"] {
            assert_eq!(parse_base64url(&base64url(bytes)).as_deref(), Some(bytes));
        }
        assert_eq!(base64url(b"\xfb\xff\xfe"), "-__-");
        for bad in [
            "Zg==", "Zh", "Zm9", "Zm9=", "+//+", "Z", "Zg\n", " Zg", "Zm 8", "Zm8.", "é",
        ] {
            assert_eq!(parse_base64url(bad), None, "{bad:?}");
        }
        // Every change of one character gives another value or none.
        let alphabet: Vec<char> = ('\0'..='\u{7f}').collect();
        for bytes in [&b"ab"[..], b"abc", b"abcd"] {
            let text = base64url(bytes);
            for at in 0..text.len() {
                for character in &alphabet {
                    let other = format!("{}{character}{}", &text[..at], &text[at + 1..]);
                    if other != text {
                        assert_ne!(parse_base64url(&other).as_deref(), Some(bytes), "{other:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn same_is_equality() {
        for (a, b, expected) in [
            (&b""[..], &b""[..], true),
            (b"a", b"a", true),
            (b"a", b"b", false),
            (b"a", b"a\0", false),
            (b"a", b"", false),
            (b"", b"\0", false),
        ] {
            assert_eq!(same(a, b), expected);
            assert_eq!(same(b, a), expected);
        }
        let long = [7; 100];
        for bit in 0..long.len() * 8 {
            let mut flipped = long;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!same(&long, &flipped), "{bit}");
        }
    }
}
