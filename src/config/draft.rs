//! A server as it stands in the file, and the rules that it must keep by itself.
//!
//! A [`Draft`] is checked on the way in; `rules` then compares the drafts with each other; and only a file
//! without faults makes [`Server`]s of them.

use std::path::PathBuf;

use url::Url;

use super::fault::{Notice, Placed, Report, named};
use super::headers::{self, Sent};
use super::keys::{self, Then};
use super::names::{self, NAME_GRAMMAR, SLUG_GRAMMAR, Slug};
use super::reader::{Named, Place};
use super::servers::{Ask, Kind, Mount, Server, ttl_ms};
use super::template::Template;
use super::tools::{self, CommandTool};
use super::values;

/// Shortest time that a person can be given to answer.
const MIN_TTL_MS: u64 = 1_000;

/// Keys that belong to a kind, and mean nothing for the others.
const KIND_KEYS: &[(&str, &str)] = &[
    ("image", "supplementary-image"),
    ("bundle", "supplementary-image"),
    ("path", "supplementary-image"),
    ("mount", "supplementary-image"),
    ("url", "remote-http"),
    ("headers", "remote-http"),
    ("command", "stdio"),
    ("cwd", "stdio"),
];

/// A server as it stands in the file.
pub(super) struct Draft<'t> {
    pub(super) place: Place<'t>,
    /// The slug's text, sound or not; empty when there is none.
    pub(super) slug: &'t str,
    /// The kind; empty when there is none or it was refused.
    pub(super) kind: &'t str,
    /// The bundle, for a supplementary image.
    pub(super) bundle: &'t str,
    /// The path in the bundle, for a supplementary image.
    pub(super) path: String,
    /// The mount, for a supplementary image; empty when none could be told.
    pub(super) mount: &'static str,
    pub(super) confirmations: bool,
    pub(super) skip_confirmations: bool,
    /// Variables: name, and value as written.
    pub(super) env: Vec<(Named<'t>, &'t str)>,
    pub(super) tools: Vec<CommandTool>,
    /// Where it is reached, for a remote server; `None` when that was refused.
    url: Option<Url>,
    /// The program and its arguments, for a stdio server.
    command: Vec<String>,
    /// Where the program starts, for a stdio server.
    cwd: Option<PathBuf>,
}

impl<'t> Draft<'t> {
    /// Reads one server, with the rules that it must keep by itself.
    pub(super) fn read(place: Place<'t>, report: &mut Report) -> Draft<'t> {
        let slug = place.get("slug").filter(|place| place.text().is_some());
        let text = slug.as_ref().and_then(|place| place.text()).unwrap_or("");
        if let Some(place) = slug.filter(|_| Slug::parse(text).is_none()) {
            place.fault(
                report,
                format!("found {}, allowed: {SLUG_GRAMMAR}", named(text)),
            );
        }
        let kind = place.word("kind");
        let mut draft = Draft {
            slug: text,
            kind,
            bundle: "",
            path: String::new(),
            mount: "",
            confirmations: place.flag("confirmations"),
            skip_confirmations: place.flag("skipConfirmations"),
            env: Vec::new(),
            tools: CommandTool::read_all(&place, report),
            url: None,
            command: Vec::new(),
            cwd: None,
            place,
        };
        draft.check_kind_keys(report);
        match kind {
            "remote-http" => draft.read_remote(report),
            "stdio" => draft.read_child(report),
            "supplementary-image" => draft.read_image(report),
            _ => {}
        }
        draft.read_env(report);
        draft.check_names(report);
        if !kind.is_empty() {
            draft.check_tools(report);
            draft.check_waiver(report);
            draft.check_ask(report);
            draft.check_gates(report);
        }
        draft.check_confirmation_headers(report);
        draft
    }

    /// The path that a slug's own mount has.
    pub(super) fn own_path(&self) -> String {
        format!("/{}", self.slug)
    }

    /// Whether it is a supplementary image with that mount.
    pub(super) fn is_mount(&self, mount: &str) -> bool {
        self.kind == "supplementary-image" && self.mount == mount
    }

    /// Notes a fault at a key of this server, or at the server when the key is not there.
    pub(super) fn fault(&self, key: &str, report: &mut Report, text: impl Into<String>) {
        self.place
            .get(key)
            .as_ref()
            .unwrap_or(&self.place)
            .fault(report, text);
    }

    fn check_kind_keys(&self, report: &mut Report) {
        for (key, kind) in KIND_KEYS {
            if !self.kind.is_empty() && self.kind != *kind && self.place.has(key) {
                let text = format!(
                    "found a key of kind {kind}, allowed: leave it out for {}",
                    self.kind
                );
                self.fault(key, report, text);
            }
        }
    }

    /// Reads where a remote server is, and checks the headers that go there.
    fn read_remote(&mut self, report: &mut Report) {
        match self.place.get("url") {
            Some(place) => self.url = remote_url(&place, report),
            None => self.place.missing("url", report),
        }
        if let Some(section) = self.place.get("headers") {
            headers::check(&section, Sent::WithRequests, report);
        }
        if self.place.has("env") {
            let text =
                "found variables, which nothing would see, allowed: leave it out for remote-http";
            self.fault("env", report, text);
        }
    }

    /// Reads the program of a stdio server.
    fn read_child(&mut self, report: &mut Report) {
        if !self.place.has("command") {
            self.place.missing("command", report);
        }
        self.command = tools::argv(&self.place, "command", report);
        self.cwd = values::directory(&self.place, "cwd", report);
    }

    /// Reads bundle, path and mount.
    fn read_image(&mut self, report: &mut Report) {
        let told = |key| self.place.get(key).filter(|place| place.text().is_some());
        self.bundle = match told("bundle") {
            Some(place) => place.text().unwrap_or(""),
            None => self.place.default_of("bundle"),
        };
        if let Some(place) = told("bundle").filter(|_| !names::is_name(self.bundle)) {
            let text = format!("found {}, allowed: {NAME_GRAMMAR}", named(self.bundle));
            place.fault(report, text);
        }
        self.path = match told("path") {
            Some(place) => place.text().unwrap_or("").to_owned(),
            None => self.own_path(),
        };
        let sound = self.path.strip_prefix('/').and_then(Slug::parse).is_some();
        if let Some(place) = told("path").filter(|_| !sound) {
            let text = format!("found {}, allowed: / and {SLUG_GRAMMAR}", named(&self.path));
            place.fault(report, text);
        }
        self.mount = self.read_mount(report);
        if keys::not_yet("servers[].mount", Some(self.mount)) == Some(&Then::Notice) {
            report.notice(Notice::MountAbsent {
                slug: self.slug.to_owned(),
                mount: self.mount,
            });
        }
    }

    /// Tells the mount. The interface: "default by the first word of the path, then of the slug; a conflict is
    /// an error".
    fn read_mount(&self, report: &mut Report) -> &'static str {
        let told = self.place.word("mount");
        if self.place.has("mount") && told.is_empty() {
            return "";
        }
        let by_path = self.path.strip_prefix('/').unwrap_or(&self.path);
        let said = [
            ("mount", told),
            ("path", first_word(by_path)),
            ("slug", first_word(self.slug)),
        ];
        let mut mounts = said
            .iter()
            .filter_map(|(key, word)| Some((*key, mount_of(word)?)));
        let Some((first_key, mount)) = mounts.next() else {
            let text = "found none by mount, path or slug, allowed: gmail, onepassword, command";
            let mut at = self.place.at();
            super::yaml::join(&mut at.path, "mount");
            if !self.slug.is_empty() {
                report.fault(&at, text);
            }
            return "";
        };
        for (key, other) in mounts {
            if other != mount {
                let text =
                    format!("found {other}, while {first_key} says {mount}, allowed: one of them");
                self.fault(key, report, text);
            }
        }
        mount
    }

    fn read_env(&mut self, report: &mut Report) {
        let entries = self
            .place
            .get("env")
            .map(|place| place.by_name())
            .unwrap_or_default();
        for (name, place) in entries {
            if !names::is_variable(name.name) {
                let text = "found no name of a variable, allowed: [A-Za-z_][A-Za-z0-9_]*";
                report.fault(&name.at, text);
            }
            let Some(text) = place.text() else { continue };
            if text.contains('\0') {
                place.fault(report, "found a NUL character, allowed: text without");
            }
            values::template(&place, report);
            self.env.push((name, text));
        }
        // The spec: "a slug with a token of its own sits on path: /<its own slug>".
        let own_token = format!(
            "{}OP_SERVICE_ACCOUNT_TOKEN",
            names::variable_prefix(self.slug)
        );
        if self.is_mount("onepassword") && self.path != self.own_path() {
            for (name, _) in self.env.iter().filter(|(name, _)| name.name == own_token) {
                let text = format!(
                    "found a token of its own on a shared path, allowed: on path /{}",
                    self.slug
                );
                report.fault(&name.at, text);
            }
        }
    }

    /// Checks roles, and what may be unseeded.
    fn check_names(&self, report: &mut Report) {
        values::names(&self.place, "entitlements", report);
        let unseeded = self
            .place
            .get("mayBeUnseeded")
            .map(|place| place.items())
            .unwrap_or_default();
        for item in unseeded {
            let Some(text) = item.text() else { continue };
            if !names::is_variable(text) && !text.starts_with("file:/") {
                let text = format!(
                    "found {}, allowed: a variable's name, or file:/PATH",
                    named(text)
                );
                item.fault(report, text);
            }
        }
    }

    fn check_tools(&self, report: &mut Report) {
        let takes_tools = self.kind == "command" || self.is_mount("command");
        if self.place.has("tools") && !takes_tools {
            let text = "found command tools, allowed: for kind command, or mount command";
            self.fault("tools", report, text);
        }
        let none = self
            .place
            .get("tools")
            .is_none_or(|place| place.is_list() && place.items().is_empty());
        if takes_tools && none {
            self.fault(
                "tools",
                report,
                "found no command tools, allowed: at least one",
            );
        }
        let asks = self.confirmations || self.gated_tool().is_some();
        let timeout_ms = self.place.whole("timeoutMs");
        if asks && ttl_ms(timeout_ms) < MIN_TTL_MS {
            let text = format!(
                "found {timeout_ms}, which leaves {} ms to answer, allowed: what leaves {MIN_TTL_MS}",
                ttl_ms(timeout_ms)
            );
            self.fault("timeoutMs", report, text);
        }
    }

    /// The waiver: "The interface: `skipConfirmations` exists for `supplementary-image` with a gmail mount only."
    fn check_waiver(&self, report: &mut Report) {
        if !self.skip_confirmations {
            return;
        }
        let told = self.kind != "supplementary-image" || !self.mount.is_empty();
        if told && !self.is_mount("gmail") {
            let text = "found true, allowed: for a supplementary-image with a gmail mount";
            self.fault("skipConfirmations", report, text);
        }
        if self.confirmations {
            let text = "found true beside confirmations: true, allowed: one of them";
            self.fault("skipConfirmations", report, text);
        }
        // "A gmail slug on `/<slug>` uses only `<SLUG>__GMAIL_*`, never the bare ones; a waived slug must sit
        // there."
        if self.is_mount("gmail") && self.path != self.own_path() {
            let text = format!(
                "found a waived slug on a shared path, allowed: /{}",
                self.slug
            );
            self.fault("path", report, text);
        }
    }

    fn check_ask(&self, report: &mut Report) {
        let ask = self.place.word("ask");
        let vendored = self.is_mount("gmail") || self.is_mount("onepassword");
        if vendored && matches!(ask, "mrtr" | "desk") {
            let text = format!(
                "found {}, allowed: channel for gmail and onepassword",
                named(ask)
            );
            self.fault("ask", report, text);
        } else if ask == "mrtr" && keys::not_yet("servers[].ask", Some(ask)) == Some(&Then::Notice)
        {
            report.notice(Notice::AskAbsent {
                slug: self.slug.to_owned(),
                ask: "mrtr",
            });
        }
        if ask == "channel"
            && !self.confirmations
            && let Some(gate) = self.gated_tool()
        {
            let text = "found a gate that asks over the channel, allowed: with confirmations: true";
            gate.fault(report, text);
        }
        if vendored && !self.confirmations && !self.skip_confirmations {
            let text = "declares no confirmations, so each of its confirmed tools refuses";
            report.warning(&self.place.at(), text);
        }
    }

    /// Refuses what only gates would read, where there can be none.
    fn check_gates(&self, report: &mut Report) {
        let Some(what) = self.absent_gates() else {
            return;
        };
        let told = [
            ("confirmations", self.confirmations),
            ("confirmationHeaders", self.place.has("confirmationHeaders")),
            // A word that was refused before is not refused again.
            (
                "ask",
                self.place.has("ask") && !self.place.word("ask").is_empty(),
            ),
        ];
        for (key, _) in told.into_iter().filter(|(_, told)| *told) {
            let text = format!(
                "found what this build does not have yet ({what}), allowed: leave it out for {}",
                self.kind
            );
            self.fault(key, report, text);
        }
    }

    /// What is absent when this server's kind is gated by `confirm` alone, and this build does not have that.
    fn absent_gates(&self) -> Option<&'static str> {
        match (self.kind, keys::not_yet("servers[].confirm", None)) {
            ("remote-http" | "stdio", Some(Then::Refuse(what))) => Some(what),
            _ => None,
        }
    }

    fn check_confirmation_headers(&self, report: &mut Report) {
        let Some(section) = self.place.get("confirmationHeaders") else {
            return;
        };
        if self.absent_gates().is_none() && !self.confirmations {
            // The spec: "because nothing would ever send them".
            let text = "found headers without confirmations: true, which nothing would send";
            section.fault(report, text);
        }
        headers::check(&section, Sent::WithQuestions, report);
    }

    /// The `gate` of its first gated tool.
    fn gated_tool(&self) -> Option<Place<'t>> {
        let tools = self
            .place
            .get("tools")
            .map(|place| place.items())
            .unwrap_or_default();
        tools.iter().find_map(|tool| tool.get("gate"))
    }

    /// Makes the server of it. `None` when something was refused: the file has faults then.
    pub(super) fn finish(self) -> Option<Server> {
        // Each fault in what follows was noted when the draft was read.
        let mut noted = Report::new("");
        let kind = match (self.kind, self.mount) {
            ("command", _) => Kind::Command { tools: self.tools },
            ("remote-http", _) => Kind::RemoteHttp {
                url: self.url?,
                headers: templates(&self.place, "headers", &mut noted),
            },
            ("stdio", _) => Kind::Stdio {
                command: self.command,
                cwd: self.cwd,
            },
            ("supplementary-image", mount) => Kind::SupplementaryImage {
                image: self
                    .place
                    .get("image")
                    .and_then(|place| place.text().map(str::to_owned)),
                bundle: self.bundle.to_owned(),
                path: self.path,
                mount: match mount {
                    "command" => Mount::Command { tools: self.tools },
                    "gmail" => Mount::Gmail,
                    "onepassword" => Mount::Onepassword,
                    _ => return None,
                },
            },
            _ => return None,
        };
        let unseeded = self
            .place
            .get("mayBeUnseeded")
            .map(|place| place.items())
            .unwrap_or_default();
        Some(Server {
            slug: Slug::parse(self.slug)?,
            kind,
            entitlements: values::names(&self.place, "entitlements", &mut noted),
            env: templates(&self.place, "env", &mut noted),
            timeout_ms: self.place.whole("timeoutMs"),
            confirmations: self.confirmations,
            skip_confirmations: self.skip_confirmations,
            confirmation_headers: templates(&self.place, "confirmationHeaders", &mut noted),
            may_be_unseeded: unseeded
                .iter()
                .filter_map(|item| Some(item.text()?.to_owned()))
                .collect(),
            ask: match self.place.word("ask") {
                "channel" => Ask::Channel,
                "desk" => Ask::Desk,
                "mrtr" => Ask::Mrtr,
                _ => return None,
            },
            required: self.place.flag("required"),
            fingerprint: self.place.fingerprint(),
        })
    }
}

/// Reads where a remote server is.
fn remote_url(place: &Place<'_>, report: &mut Report) -> Option<Url> {
    let text = place.text()?;
    if text.contains("${") {
        // What is checked here is what is connected to, and an address ends up in logs.
        let text = "found a reference, allowed: fixed text; secrets go into headers";
        place.fault(report, text);
        return None;
    }
    let url = values::parse_their_address(text).filter(values::is_private);
    if url.is_none() {
        let allowed =
            "https, or http to a loopback host, in normal form, without user and fragment";
        place.fault(report, format!("found another address, allowed: {allowed}"));
    }
    url
}

/// Reads a map of names to values that may hold references.
fn templates(place: &Place<'_>, key: &str, report: &mut Report) -> Vec<(String, Placed<Template>)> {
    let entries = place
        .get(key)
        .map(|place| place.by_name())
        .unwrap_or_default();
    let read = |(name, place): (Named<'_>, Place<'_>)| {
        Some((name.name.to_owned(), values::template(&place, report)?))
    };
    entries.into_iter().filter_map(read).collect()
}

/// The first word of a slug or path.
fn first_word(text: &str) -> &str {
    text.split('-').next().unwrap_or("")
}

/// The mount of that name.
fn mount_of(word: &str) -> Option<&'static str> {
    ["gmail", "onepassword", "command"]
        .into_iter()
        .find(|mount| *mount == word)
}
