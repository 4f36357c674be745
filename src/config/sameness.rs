//! Whether two files say the same, wherever in them it stands.

use super::yaml::{Kind, Node};
use crate::secret::sha256;

/// SHA-256 of what a part of a file says: its keys and values, without their places. Values may be credentials, so that it
/// is compared and never shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl std::fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fingerprint(..)")
    }
}

/// What is the same in every file that does not have it.
pub(super) const NOTHING: Fingerprint = Fingerprint([0; 32]);

/// The fingerprint of one node.
pub(super) fn of(node: &Node) -> Fingerprint {
    let mut text = Vec::new();
    write(node, &mut text);
    Fingerprint(sha256(&text))
}

/// Writes each part behind its length, so that no two trees give the same text.
fn write(node: &Node, into: &mut Vec<u8>) {
    let part = |into: &mut Vec<u8>, kind: u8, bytes: &[u8]| {
        into.push(kind);
        into.extend_from_slice(&bytes.len().to_be_bytes());
        into.extend_from_slice(bytes);
    };
    let count = |into: &mut Vec<u8>, kind: u8, count: usize| {
        into.push(kind);
        into.extend_from_slice(&count.to_be_bytes());
    };
    match &node.kind {
        Kind::Scalar { text, quoted } => part(into, b's' + u8::from(*quoted), text.as_bytes()),
        Kind::List(items) => {
            count(into, b'l', items.len());
            items.iter().for_each(|item| write(item, into));
        }
        Kind::Map(entries) => {
            count(into, b'm', entries.len());
            for entry in entries {
                part(into, b'k', entry.name.as_bytes());
                write(&entry.value, into);
            }
        }
        Kind::Broken => into.push(b'b'),
    }
}
