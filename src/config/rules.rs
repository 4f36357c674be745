//! The rules between servers: what two of them may not both say.

use super::fault::{Report, named};
use super::names::variable_prefix;
use std::collections::HashMap;

use super::draft::Draft;

/// Checks each server against those before it.
pub(super) fn check(drafts: &[Draft<'_>], report: &mut Report) {
    for (index, draft) in drafts.iter().enumerate() {
        let before = drafts.iter().take(index);
        for other in before {
            check_slugs(draft, other, report);
            check_mounts(draft, other, report);
            check_waiver(draft, other, report);
        }
    }
    check_env(drafts, report);
}

/// Slugs differ, and so do the prefixes of their variables.
fn check_slugs(draft: &Draft<'_>, other: &Draft<'_>, report: &mut Report) {
    if draft.slug.is_empty() || other.slug.is_empty() {
        return;
    }
    let line = other.place.at().line;
    if draft.slug == other.slug {
        let text = format!(
            "found {} again, as on line {line}, allowed: once",
            named(draft.slug)
        );
        draft.fault("slug", report, text);
    } else if variable_prefix(draft.slug) == variable_prefix(other.slug) {
        let text = format!(
            "found {}, whose variables start like those of {} on line {line}, allowed: another prefix",
            named(draft.slug),
            named(other.slug)
        );
        draft.fault("slug", report, text);
    }
}

/// What stands on one path of one bundle is one mount, and command tools are one slug's.
fn check_mounts(draft: &Draft<'_>, other: &Draft<'_>, report: &mut Report) {
    if !same_place(draft, other) || draft.slug == other.slug {
        return;
    }
    let both = !draft.mount.is_empty() && !other.mount.is_empty();
    let differ = both && draft.mount != other.mount;
    if differ || draft.mount == "command" {
        let text = format!(
            "found the bundle and path of {}, allowed: its own",
            named(other.slug)
        );
        draft.fault("path", report, text);
    }
}

/// The spec: "two slugs on one mount are one mailbox, and the waiver would be an ungated door beside a gated
/// one". So would one with the same credentials.
fn check_waiver(draft: &Draft<'_>, other: &Draft<'_>, report: &mut Report) {
    let (waived, confirmed) = match (draft, other) {
        (waived, confirmed) if waived.skip_confirmations && confirmed.confirmations => {
            (waived, confirmed)
        }
        (confirmed, waived) if waived.skip_confirmations && confirmed.confirmations => {
            (waived, confirmed)
        }
        _ => return,
    };
    if same_place(waived, confirmed) {
        let text = format!(
            "found a waiver on the bundle and path of {}, which confirms, allowed: a path of its own",
            named(confirmed.slug)
        );
        waived.fault("skipConfirmations", report, text);
    }
    let (ours, theirs) = (mailbox(waived), mailbox(confirmed));
    if !ours.is_empty() && ours == theirs {
        let text = format!(
            "found a waiver with the credentials of {}, which confirms, allowed: its own",
            named(confirmed.slug)
        );
        waived.fault("skipConfirmations", report, text);
    }
}

/// The variables that say whose mailbox a slug reads, with their values as written. A slug on its own path has
/// only those under its own prefix; on a shared one, the bare ones.
fn mailbox<'d>(draft: &'d Draft<'_>) -> Vec<(&'d str, &'d str)> {
    let prefix = variable_prefix(draft.slug);
    let own_path = draft.path == draft.own_path();
    let mut found = Vec::new();
    for (name, value) in &draft.env {
        let bare = match name.name.strip_prefix(prefix.as_str()) {
            Some(rest) => rest,
            None if !own_path => name.name,
            None => continue,
        };
        // Which tools are served says nothing about whose mailbox it is.
        if bare.starts_with("GMAIL_") && bare != "GMAIL_ENABLED_TOOLGROUPS" {
            found.push((bare, *value));
        }
    }
    found.sort_unstable();
    found
}

/// One process holds one value of a variable. The spec: "the config schema refuses two slugs on one bundle
/// declaring one bare name with different values, own path or not".
fn check_env(drafts: &[Draft<'_>], report: &mut Report) {
    let mut seen = HashMap::new();
    for draft in drafts
        .iter()
        .filter(|draft| draft.kind == "supplementary-image")
    {
        for (name, value) in &draft.env {
            let first = seen
                .entry((draft.bundle, name.name))
                .or_insert((*value, draft));
            if first.0 != *value {
                let text = format!(
                    "found another value than that of {} on the same bundle, allowed: the same, or {}{}",
                    named(first.1.slug),
                    variable_prefix(draft.slug),
                    name.name
                );
                report.fault(&name.at, text);
            }
        }
    }
}

/// Whether two servers stand on one path of one bundle.
fn same_place(one: &Draft<'_>, other: &Draft<'_>) -> bool {
    let images = one.kind == "supplementary-image" && other.kind == "supplementary-image";
    images && one.bundle == other.bundle && one.path == other.path
}
