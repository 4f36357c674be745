//! Sealed values that a caller brings back: the session id of the legacy era.

use std::sync::OnceLock;

use countersign::mcp::is_session_id;
use countersign::secret::{Sealer, Secret, Use, base64url, parse_base64url};

/// Bytes that an id says, before its seal.
const SAID: usize = 18;

fn sealer() -> &'static Sealer {
    static SEALER: OnceLock<Sealer> = OnceLock::new();
    SEALER.get_or_init(|| Sealer::new(&[Secret::new("s".repeat(32))]).expect("32 bytes"))
}

fn seal(said: &[u8], caller: &str) -> [u8; 32] {
    sealer().mac(Use::LegacySession, &[said, caller.as_bytes()].concat())
}

/// Nothing but what was sealed, for this caller, is taken: neither the input as it is, nor a sealed value with one bit
/// changed, cut, made longer, brought by another caller or sealed for another use.
pub fn sealed_state(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if is_session_id(&text, sealer(), "ann") {
        let bytes = parse_base64url(&text).expect("only base64url is taken");
        let (said, given) = bytes.split_at(SAID);
        assert_eq!(given, seal(said, "ann"), "taken without its seal");
    }
    let Some((said, rest)) = input.split_at_checked(SAID) else {
        return;
    };
    let sealed = [said, &seal(said, "ann")].concat();
    let sound = said[16] < 4 && said[17] < 128;
    assert_eq!(is_session_id(&base64url(&sealed), sealer(), "ann"), sound);
    assert!(!is_session_id(&base64url(&sealed), sealer(), "bob"));
    let other_use = sealer().mac(Use::State, &[said, b"ann"].concat());
    let other_use = [said, &other_use].concat();
    assert!(!is_session_id(&base64url(&other_use), sealer(), "ann"));
    let choice = rest
        .first_chunk()
        .map_or(0, |two| usize::from(u16::from_le_bytes(*two)));
    let bit = choice % (sealed.len() * 8);
    let mut changed = sealed.clone();
    changed[bit / 8] ^= 1 << (bit % 8);
    assert!(
        !is_session_id(&base64url(&changed), sealer(), "ann"),
        "bit {bit}"
    );
    let cut = &sealed[..choice % sealed.len()];
    assert!(!is_session_id(&base64url(cut), sealer(), "ann"));
    let longer = [&sealed[..], &[0]].concat();
    assert!(!is_session_id(&base64url(&longer), sealer(), "ann"));
}
