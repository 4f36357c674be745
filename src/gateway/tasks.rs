//! Ids of the tasks that servers run for callers (extension `io.modelcontextprotocol/tasks`).
//!
//! To a server all callers are this gateway, so that its own ids would be good for everybody. Callers get them sealed: with
//! the server that has the task, for the caller that has begun it ("auth check on each call").

use crate::secret::{Sealer, Use, base64url, parse_base64url};

/// The longest id of a caller's that is looked at, in bytes.
const ID_BYTES: usize = 4096;

/// The id by which a caller knows the task `id` of the server `slug`.
pub(super) fn seal(sealer: &Sealer, caller: &str, slug: &str, id: &str) -> String {
    let mac = sealer.mac(Use::Task, &sealed(caller, slug, id));
    format!("{}.{slug}.{id}", base64url(&mac))
}

/// The server and its task that an id means; `None` for one that is not this caller's.
pub(super) fn open<'t>(sealer: &Sealer, caller: &str, text: &'t str) -> Option<(&'t str, &'t str)> {
    let mut parts = Some(text)
        .filter(|text| text.len() <= ID_BYTES)?
        .splitn(3, '.');
    let (mac, slug, id) = (parts.next()?, parts.next()?, parts.next()?);
    let mac = parse_base64url(mac)?;
    let is_ours = sealer.verify(Use::Task, &sealed(caller, slug, id), &mac);
    is_ours.then_some((slug, id))
}

/// What is sealed. A slug has no dot and no NUL in it, and a caller's name no NUL.
fn sealed(caller: &str, slug: &str, id: &str) -> Vec<u8> {
    [caller, slug, id].join("\0").into_bytes()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    #[test]
    fn an_id_is_good_for_its_caller_and_server_only() {
        let sealer = Sealer::new(&[Secret::new("k".repeat(64))]).unwrap();
        let text = seal(&sealer, "ann", "far", "t.1");
        assert_eq!(open(&sealer, "ann", &text), Some(("far", "t.1")));
        assert_eq!(open(&sealer, "bob", &text), None);
        for other in [
            text.replace("far", "fra"),
            text.replace("t.1", "t.2"),
            text.replace(".far.", "."),
            text[1..].to_owned(),
            "t.1".to_owned(),
            String::new(),
            format!("{text}{}", "x".repeat(ID_BYTES)),
        ] {
            assert_eq!(open(&sealer, "ann", &other), None, "{other}");
        }
    }
}
