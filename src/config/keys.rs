//! Every key of the configuration, once: what it holds, what it defaults to, what it means.
//!
//! The reader checks a file against this list, and a reference is printed from it, so the two cannot drift
//! apart. What the contract names and this build does not have stands in [`NOT_YET`].

/// One key.
#[derive(Debug)]
pub struct Key {
    /// Its path. `[]` stands for the items of a list, `NAME` for keys that the file's author chooses.
    pub path: &'static str,
    /// What it may hold.
    pub shape: Shape,
    /// Whether it may be left out.
    pub presence: Presence,
    /// What it means, in a line.
    pub doc: &'static str,
}

/// What a key may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A map with the keys that this list has under it.
    Section,
    /// A map with keys of the author's own; the row `path.NAME` describes the values.
    ByName,
    /// A list; the row `path[]` describes its items.
    List,
    /// A list, or one item without the list around it; the row `path[]` describes an item.
    OneOrList,
    /// A string.
    Text,
    /// A string that may hold `${NAME}` and `${file:/PATH}`.
    Template,
    /// 64 hexadecimal digits.
    Digest,
    /// `true` or `false`.
    Flag,
    /// A whole number within bounds, both included.
    Whole {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// One of these words.
    Words(&'static [&'static str]),
    /// Not looked at: [`NOT_YET`] refuses the key.
    Later,
}

/// Whether a key may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It must be there.
    Required,
    /// It may be left out; the doc says what that means.
    Optional,
    /// Left out, it is this.
    Default(&'static str),
}

use Presence::{Default, Optional, Required};
use Shape::{ByName, Digest, Flag, Later, List, OneOrList, Section, Template, Text, Whole, Words};

/// A day in milliseconds: no wait for a socket is longer.
const DAY_MS: u64 = 86_400_000;

/// A week: the longest that an approval service in use (Zimmer) keeps a question.
const WEEK_MS: u64 = 604_800_000;

/// A gibibyte, the largest body or budget: more than one process should hold.
const GIB: u64 = 1_073_741_824;

const fn key(path: &'static str, shape: Shape, presence: Presence, doc: &'static str) -> Key {
    Key {
        path,
        shape,
        presence,
        doc,
    }
}

/// The list. The root is the row with the empty path.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    key("", Section, Required, "the file"),

    key("gateway", Section, Optional, "the MCP server that callers reach at /mcp"),
    key("gateway.listen", OneOrList, Default("127.0.0.1:8600"), "where it listens; anything but loopback needs at least one token"),
    key("gateway.listen[]", Text, Required, "IP:PORT, or localhost:PORT"),
    key("gateway.allowedHosts", List, Optional, "Host names taken besides the loopback ones; others get 403"),
    key("gateway.allowedHosts[]", Text, Required, "a host name, with :PORT when only that port counts"),
    key("gateway.allowedOrigins", List, Optional, "Origins taken besides the loopback ones; others get 403"),
    key("gateway.allowedOrigins[]", Text, Required, "SCHEME://HOST, with :PORT when it is not the scheme's own"),
    key("gateway.tls", Section, Optional, "the certificate that it serves with; absent: plain HTTP"),
    key("gateway.tls.cert", Text, Required, "PEM file: the certificate, and behind it the chain to its authority"),
    key("gateway.tls.key", Text, Required, "PEM file: its private key, not encrypted"),
    key("gateway.elicitation", Section, Optional, "how people are asked"),
    key("gateway.elicitation.allowedUrlPrefixes", List, Optional, "prefixes under which approval URLs may lie; none: every confirmed tool refuses"),
    key("gateway.elicitation.allowedUrlPrefixes[]", Text, Required, "https in normal form ending in /, or http for a loopback host"),
    key("gateway.tokens", List, Optional, "who may call; none, on loopback only: one principal local with every role"),
    key("gateway.tokens[]", Section, Required, "one token"),
    key("gateway.tokens[].id", Text, Required, "its name in logs, refusals and the audit"),
    key("gateway.tokens[].sha256", Digest, Required, "SHA-256 of the token"),
    key("gateway.tokens[].roles", List, Optional, "what it may use, by the servers' entitlements; admin holds every role; this or grant"),
    key("gateway.tokens[].roles[]", Text, Required, "a role"),
    key("gateway.tokens[].grant", Section, Optional, "a flow-through grant in place of roles; it has nobody to ask"),
    key("gateway.tokens[].grant.servers", List, Required, "the slugs that it reaches"),
    key("gateway.tokens[].grant.servers[]", Text, Required, "a slug"),
    key("gateway.tokens[].grant.expiresAt", Text, Required, "when it ends, RFC 3339"),
    key("gateway.tokens[].expiresAt", Text, Optional, "when the token ends, RFC 3339; absent: never"),
    key("gateway.tokens[].channels", List, Optional, "prefixes that narrow the allowlist for this token"),
    key("gateway.tokens[].channels[]", Text, Required, "a prefix, as in allowedUrlPrefixes"),
    key("gateway.adminListen", OneOrList, Default("127.0.0.1:8602"), "where it is watched: /healthz, /readyz"),
    key("gateway.adminListen[]", Text, Required, "IP:PORT, or localhost:PORT"),
    key("gateway.roster", Later, Optional, "file for servers that are added at run time"),
    key("gateway.oauth", Section, Optional, "where clients get their tokens"),
    key("gateway.oauth.authorizationServers", List, Required, "issuers that the RFC 9728 metadata names"),
    key("gateway.oauth.authorizationServers[]", Text, Required, "an issuer: https, or http for a loopback host"),

    key("bundles", ByName, Optional, "where bundles run, by name; one that is not listed runs inside this process"),
    key("bundles.NAME", Section, Required, "one bundle"),
    key("bundles.NAME.url", Text, Optional, "where the gateway reaches it; absent: inside this process"),
    key("bundles.NAME.listen", OneOrList, Optional, "where it listens when it runs as a process of its own"),
    key("bundles.NAME.listen[]", Text, Required, "IP:PORT, or localhost:PORT"),
    key("bundles.NAME.key", Template, Optional, "the secret by which it knows its gateway; needed with url or listen"),
    key("bundles.NAME.tls", Section, Optional, "the certificate that it serves with; absent: plain HTTP"),
    key("bundles.NAME.tls.cert", Text, Required, "PEM file: the certificate, and behind it the chain to its authority"),
    key("bundles.NAME.tls.key", Text, Required, "PEM file: its private key, not encrypted"),

    key("servers", List, Optional, "what callers may use"),
    key("servers[]", Section, Required, "one server"),
    key("servers[].slug", Text, Required, "its name: [a-z0-9]+(-[a-z0-9]+)*"),
    key("servers[].kind", Words(&["supplementary-image", "command", "stdio", "remote-http", "local-tunnel"]), Required, "how its tools are reached"),
    key("servers[].entitlements", List, Optional, "roles that may use it; absent: admin only"),
    key("servers[].entitlements[]", Text, Required, "a role"),
    key("servers[].env", ByName, Optional, "variables that its mount, its commands or its stdio server see over the process's own"),
    key("servers[].env.NAME", Template, Required, "a value"),
    key("servers[].timeoutMs", Whole { min: 1, max: WEEK_MS }, Default("120000"), "bounds asking, and for a supplementary-image the whole hop; people have it less a quarter, at most 15 s"),
    key("servers[].confirmations", Flag, Default("false"), "forward the caller's channel, so that confirmed tools can ask"),
    key("servers[].skipConfirmations", Flag, Default("false"), "waive the question: for the mailbox of an agent itself only"),
    key("servers[].confirmationHeaders", ByName, Optional, "headers that go with each question, for an edge in front of the approval URL"),
    key("servers[].confirmationHeaders.NAME", Template, Required, "a value"),
    key("servers[].mayBeUnseeded", List, Optional, "references that may be unset without a warning"),
    key("servers[].mayBeUnseeded[]", Text, Required, "a variable's name, or file:/PATH"),
    key("servers[].ask", Words(&["channel", "mrtr", "desk"]), Default("channel"), "whose yes counts; channel needs confirmations"),
    key("servers[].required", Flag, Default("false"), "not ready while it is down"),
    key("servers[].image", Text, Optional, "the container image of its bundle, for render"),
    key("servers[].bundle", Text, Default("bundle"), "the bundle that it is mounted in"),
    key("servers[].path", Text, Optional, "where in the bundle; absent: / and the slug"),
    key("servers[].mount", Words(&["gmail", "onepassword", "command"]), Optional, "what is mounted; absent: the first word of the path, then of the slug"),
    key("servers[].tools", List, Optional, "command tools"),
    key("servers[].tools[]", Section, Required, "one command tool"),
    key("servers[].tools[].name", Text, Required, "its name: [A-Za-z0-9_.-]{1,64}"),
    key("servers[].tools[].description", Text, Optional, "what it does, for the model"),
    key("servers[].tools[].argv", List, Required, "the program and its fixed arguments; no shell"),
    key("servers[].tools[].argv[]", Text, Required, "one argument, as it stands"),
    key("servers[].tools[].gate", Text, Optional, "the consequence, shown to the person who is asked; absent: nobody is asked"),
    key("servers[].tools[].flags", ByName, Optional, "boolean arguments and the flag that each sets"),
    key("servers[].tools[].flags.NAME", Text, Required, "a flag, --dry-run"),
    key("servers[].tools[].options", ByName, Optional, "string arguments and the flag that carries each, as FLAG=VALUE"),
    key("servers[].tools[].options.NAME", Text, Required, "a flag, --name"),
    key("servers[].tools[].positionals", List, Optional, "string arguments that follow --, in this order"),
    key("servers[].tools[].positionals[]", Text, Required, "an argument's name"),
    key("servers[].tools[].timeoutMs", Whole { min: 1, max: WEEK_MS }, Default("600000"), "of the act; starts when the permit is spent"),
    key("servers[].url", Text, Optional, "where a remote-http server is reached, which needs it: https, or http to a loopback host"),
    key("servers[].headers", ByName, Optional, "headers that go with each request to a remote-http server"),
    key("servers[].headers.NAME", Template, Required, "a value"),
    key("servers[].command", List, Optional, "the program of a stdio server, which needs it, and its arguments; no shell"),
    key("servers[].command[]", Text, Required, "one argument, as it stands"),
    key("servers[].cwd", Text, Optional, "the directory that a stdio server starts in, absolute; absent: the gateway's own"),
    key("servers[].offeredBy", Later, Optional, "tokens that may offer a local-tunnel server"),
    key("servers[].confirm", Later, Optional, "tools of any server that are asked about before they are forwarded"),
    key("servers[].unknownTools", Later, Optional, "what becomes of a tool that the lock file does not hold"),

    key("desk", Section, Optional, "the approval service; absent: none runs"),
    key("desk.listen", OneOrList, Default("127.0.0.1:8601"), "where it listens"),
    key("desk.listen[]", Text, Required, "IP:PORT, or localhost:PORT"),
    key("desk.publicUrl", Text, Optional, "its address as callers and people see it; absent: localhost and the port"),
    key("desk.secret", OneOrList, Required, "mints and checks session URLs; a list is [new, old]"),
    key("desk.secret[]", Template, Required, "at least 32 bytes"),
    key("desk.people", List, Optional, "who may answer"),
    key("desk.people[]", Section, Required, "one person"),
    key("desk.people[].id", Text, Required, "the name under which answers are recorded"),
    key("desk.people[].sha256", Digest, Required, "SHA-256 of the person's key"),
    key("desk.people[].answersFor", List, Required, "whose questions this person sees and answers"),
    key("desk.people[].answersFor[]", Text, Required, "a session's name or a token's id; a trailing * stands for any rest"),
    key("desk.people[].passkeys", Later, Optional, "passkeys without which the key alone cannot answer"),
    key("desk.askerKeys", List, Optional, "set: a question without one of them is 401; absent: shown as not verified"),
    key("desk.askerKeys[]", Section, Required, "one secret that a gateway sends by confirmationHeaders"),
    key("desk.askerKeys[].sha256", Digest, Required, "SHA-256 of the secret"),
    key("desk.store", Text, Default("memory"), "where questions are kept"),
    key("desk.tls", Section, Optional, "the certificate that it serves with; absent: plain HTTP"),
    key("desk.tls.cert", Text, Required, "PEM file: the certificate, and behind it the chain to its authority"),
    key("desk.tls.key", Text, Required, "PEM file: its private key, not encrypted"),
    key("desk.notify", Later, Optional, "what is told of a new question"),

    key("gate", Section, Optional, "what decides whether a call may act"),
    key("gate.key", OneOrList, Optional, "seals requestState; a list is [new, old]; absent: random at start"),
    key("gate.key[]", Template, Required, "at least 32 bytes"),
    key("gate.spent", Text, Default("memory"), "where spent states are kept"),

    key("attachments", Later, Optional, "hosts that attachments may come from"),
    key("audit", Later, Optional, "the append-only record"),
    key("tls", Section, Optional, "whom calls over https trust"),
    key("tls.caFile", Text, Optional, "PEM file of authorities that are trusted besides the built-in ones, as those of SSL_CERT_FILE are"),

    key("log", Section, Optional, "what is logged, to stderr"),
    key("log.level", Words(&["error", "warn", "info", "debug", "trace"]), Default("info"), "the least important line that is written"),
    key("log.format", Words(&["json", "text"]), Default("json"), "how a line is written"),

    key("limits", Section, Optional, "how much is taken"),
    key("limits.bodyBytes", Whole { min: 1_024, max: GIB }, Default("33554432"), "one request's body"),
    key("limits.bufferedBytes", Whole { min: 65_536, max: 16 * GIB }, Default("268435456"), "the bodies of all requests together; beyond it 503"),
    key("limits.headBytes", Whole { min: 1_024, max: 1_048_576 }, Default("16384"), "one request's head"),
    key("limits.headers", Whole { min: 8, max: 1_000 }, Default("100"), "headers of one request"),
    key("limits.connections", Whole { min: 1, max: 1_000_000 }, Default("16384"), "connections open at once"),
    key("limits.callsPerToken", Whole { min: 1, max: 1_000_000 }, Default("256"), "calls of one token at once"),
    key("limits.questionsPerChannel", Whole { min: 1, max: 100_000 }, Default("8"), "questions open on one channel"),
    key("limits.questionsPerToken", Whole { min: 1, max: 100_000 }, Default("32"), "questions open of one token"),
    key("limits.declines", Whole { min: 1, max: 1_000 }, Default("3"), "declines of one tool by one token in 10 minutes, after which it is refused unasked for 10 minutes"),
    key("limits.childOutputBytes", Whole { min: 1_024, max: GIB }, Default("1048576"), "output of one child process that is kept"),

    key("timing", Section, Optional, "how long things take"),
    key("timing.pollMs", Whole { min: 100, max: 60_000 }, Default("5000"), "between two polls for an answer"),
    key("timing.keepaliveMs", Whole { min: 100, max: DAY_MS }, Default("30000"), "between two signs of life on a waiting call"),
    key("timing.headMs", Whole { min: 100, max: DAY_MS }, Default("10000"), "for a request's head to arrive"),
    key("timing.bodyMs", Whole { min: 100, max: DAY_MS }, Default("30000"), "for a request's body to arrive"),
    key("timing.idleMs", Whole { min: 100, max: DAY_MS }, Default("60000"), "a connection without a request stays open"),
    key("timing.drainMs", Whole { min: 0, max: DAY_MS }, Default("10000"), "for waiting calls to end once SIGTERM came"),
];

/// One thing that the contract names and this build does not have.
#[derive(Debug)]
pub struct NotYet {
    /// The key.
    pub path: &'static str,
    /// Which of its values.
    pub values: Values,
    /// What becomes of a file that says it.
    pub then: Then,
}

/// Which values of a key are meant.
#[derive(Debug)]
pub enum Values {
    /// Each: the key as a whole.
    Any,
    /// This one.
    Is(&'static str),
    /// Each but this one.
    IsNot(&'static str),
    /// Those that start so.
    Starts(&'static str),
}

/// What becomes of a file that asks for something that is absent.
#[derive(Debug, PartialEq, Eq)]
pub enum Then {
    /// It is a fault; the text says what is missing.
    Refuse(&'static str),
    /// It loads with a notice, and whatever depends on it refuses: the examples of the spec must load as
    /// they stand.
    Notice,
}

const fn refused(path: &'static str, values: Values, what: &'static str) -> NotYet {
    NotYet {
        path,
        values,
        then: Then::Refuse(what),
    }
}

const fn noticed(path: &'static str, values: Values) -> NotYet {
    NotYet {
        path,
        values,
        then: Then::Notice,
    }
}

/// What this build does not have yet. Whoever builds a part deletes its rows.
#[rustfmt::skip]
pub const NOT_YET: &[NotYet] = &[
    #[cfg(not(feature = "tls"))]
    refused("gateway.tls", Values::Any, "TLS listeners"),
    #[cfg(not(feature = "tls"))]
    refused("desk.tls", Values::Any, "TLS listeners"),
    #[cfg(not(feature = "tls"))]
    refused("bundles.NAME.tls", Values::Any, "TLS listeners"),
    #[cfg(not(feature = "tls"))]
    refused("tls", Values::Any, "TLS"),
    #[cfg(not(feature = "tls"))]
    refused("bundles.NAME.url", Values::Starts("https:"), "TLS to a bundle"),
    #[cfg(not(feature = "tls"))]
    refused("servers[].url", Values::Starts("https:"), "TLS to a server"),
    #[cfg(not(feature = "tls"))]
    noticed("gateway.elicitation.allowedUrlPrefixes[]", Values::Starts("https:")),
    refused("limits.questionsPerChannel", Values::Any, "a bound on the questions of a channel"),
    refused("limits.questionsPerToken", Values::Any, "a bound on the questions of a token"),
    refused("limits.declines", Values::Any, "a rest after several declines"),
    refused("gateway.roster", Values::Any, "the runtime roster"),
    refused("audit", Values::Any, "the audit file"),
    refused("attachments", Values::Any, "attachments"),
    refused("desk.store", Values::IsNot("memory"), "any store but memory"),
    refused("desk.notify", Values::Any, "notification"),
    refused("desk.people[].passkeys", Values::Any, "passkeys"),
    refused("gate.spent", Values::IsNot("memory"), "any store but memory"),
    refused("servers[].confirm", Values::Any, "gates in front of other servers"),
    refused("servers[].unknownTools", Values::Any, "pinned tools"),
    refused("servers[].offeredBy", Values::Any, "local-tunnel servers"),
    refused("servers[].kind", Values::Is("local-tunnel"), "local-tunnel servers"),
    noticed("servers[].mount", Values::Is("gmail")),
    noticed("servers[].mount", Values::Is("onepassword")),
    noticed("servers[].ask", Values::Is("mrtr")),
    refused("servers[].ask", Values::Is("desk"), "asking by desk"),
];

/// The row of the whole file.
pub(crate) fn root() -> Option<&'static Key> {
    find("")
}

/// The row with exactly that path.
pub(crate) fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// The keys that a section may hold, each with its name.
pub(crate) fn children(section: &Key) -> impl Iterator<Item = (&'static str, &'static Key)> {
    KEYS.iter()
        .filter_map(|key| Some((name_in(section, key)?, key)))
}

/// What a key is called in that section, if it is there and not deeper.
fn name_in(section: &Key, key: &'static Key) -> Option<&'static str> {
    let rest = key.path.strip_prefix(section.path)?;
    let name = if section.path.is_empty() {
        rest
    } else {
        rest.strip_prefix('.')?
    };
    let direct = !name.is_empty() && !name.contains(['.', '[']);
    direct.then_some(name)
}

/// The row of a section's key of that name.
pub(crate) fn child(section: &Key, name: &str) -> Option<&'static Key> {
    let dot = usize::from(!section.path.is_empty());
    let length = section.path.len() + dot + name.len();
    // Asked more than a hundred times for each file: only what is as long is looked at.
    KEYS.iter()
        .filter(|key| key.path.len() == length)
        .find(|key| name_in(section, key) == Some(name))
}

/// The row that describes the items of a list, or the values of a map with names of the author's own.
pub(crate) fn inner(outer: &Key) -> Option<&'static Key> {
    let suffix = match outer.shape {
        ByName => ".NAME",
        List | OneOrList => "[]",
        _ => return None,
    };
    KEYS.iter()
        .find(|key| key.path.strip_prefix(outer.path) == Some(suffix))
}

/// What becomes of that value of that key, when this build does not have it. `None` as the value is any
/// that is no scalar.
pub(crate) fn not_yet(path: &str, value: Option<&str>) -> Option<&'static Then> {
    let row = NOT_YET.iter().find(|row| {
        row.path == path
            && match (&row.values, value) {
                (Values::Any, _) => true,
                (Values::Is(word), Some(value)) => value == *word,
                (Values::IsNot(word), Some(value)) => value != *word,
                (Values::Starts(start), Some(value)) => value.starts_with(start),
                (_, None) => false,
            }
    })?;
    Some(&row.then)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_whole() {
        for key in KEYS {
            let path = key.path;
            assert!(
                !key.doc.is_empty() && !key.doc.ends_with('.'),
                "{path}: doc"
            );
            assert_eq!(
                KEYS.iter().filter(|other| other.path == path).count(),
                1,
                "{path}: twice"
            );
            match key.shape {
                Section => assert!(children(key).next().is_some(), "{path}: empty section"),
                ByName | List | OneOrList => assert!(inner(key).is_some(), "{path}: no inner row"),
                Later => assert!(
                    matches!(not_yet(path, None), Some(Then::Refuse(_))),
                    "{path}: later, and not refused"
                ),
                _ => {}
            }
            if let Default(text) = key.presence {
                match key.shape {
                    Flag => assert!(matches!(text, "true" | "false"), "{path}"),
                    Whole { min, max } => {
                        assert!((min..=max).contains(&text.parse().unwrap()), "{path}")
                    }
                    Words(words) => assert!(words.contains(&text), "{path}"),
                    Text | OneOrList => {}
                    _ => panic!("{path}: a default for a shape that has none"),
                }
            }
        }
    }

    #[test]
    fn each_row_has_its_parents() {
        for key in KEYS.iter().filter(|key| !key.path.is_empty()) {
            let cut = key.path.strip_suffix("[]").map(str::len);
            let cut = cut.or_else(|| key.path.rfind('.')).unwrap_or(0);
            let parent = find(&key.path[..cut]).unwrap_or_else(|| panic!("{}: orphan", key.path));
            let found = match parent.shape {
                Section => child(parent, key.path[cut..].trim_start_matches('.')),
                _ => inner(parent),
            };
            assert_eq!(found.map(|found| found.path), Some(key.path));
        }
    }

    #[test]
    fn what_is_not_yet_is_a_key() {
        for row in NOT_YET {
            let key = find(row.path).unwrap_or_else(|| panic!("{}: no such key", row.path));
            if let (Values::Is(word), Words(words)) = (&row.values, key.shape) {
                assert!(words.contains(word), "{}: {word}", row.path);
            }
        }
    }
}
