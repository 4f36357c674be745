//! The whole configuration, valid: what the other modules are given.

use std::collections::HashSet;
use std::io::Read;
use std::path::Path;

use super::desk::{Desk, GateKeys};
use super::draft::Draft;
use super::fault::{At, Fault, Notice, Placed, Report, Warning, named};
use super::gateway::{self, Bundle, Gateway};
use super::reader::{self, Place};
use super::rules;
use super::sameness::{self, Fingerprint};
use super::servers::Server;
use super::settings::{Limits, Log, Timing, Trust};
use super::template::{Lookup, ProcessLookup, SlugLookup, Template};
use super::yaml;
use crate::secret::MIN_SECRET_BYTES;

/// Most servers of one file. Each is compared with each; a large installation has a few dozen.
const MAX_SERVERS: usize = 1_000;

/// A valid configuration. It holds no secret that a reference stands for: those are looked up anew whenever
/// they are needed.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file's name, as it was given.
    pub file: String,
    /// The gateway; its defaults when the file has no such section.
    pub gateway: Gateway,
    /// Where bundles run. One that is not listed runs inside this process.
    pub bundles: Vec<Bundle>,
    /// What callers may use, in the order of the file.
    pub servers: Vec<Server>,
    /// The approval service, when the file has one.
    pub desk: Option<Desk>,
    /// What seals the gate's states.
    pub gate: GateKeys,
    /// Whom calls over https trust.
    pub tls: Trust,
    /// What is logged.
    pub log: Log,
    /// How much is taken.
    pub limits: Limits,
    /// How long things take.
    pub timing: Timing,
    /// What this build cannot do, of what the file says.
    pub notices: Vec<Notice>,
    /// What the file says of each of [`AT_START`], in their order.
    at_start: Vec<Fingerprint>,
}

/// Keys that are read at start only. Everything else may change while the gateway runs.
const AT_START: [&str; 14] = [
    "gateway.listen",
    "gateway.adminListen",
    "gateway.tls",
    "gateway.allowedHosts",
    "gateway.allowedOrigins",
    "gateway.roster",
    "bundles",
    "desk",
    "gate",
    "tls",
    "log",
    "limits",
    "timing",
    "audit",
];

impl Config {
    /// Reads a file, and warns of references that stand for nothing in this process.
    pub fn load(path: &Path) -> Result<(Config, Vec<Warning>), Vec<Fault>> {
        let file = path.display().to_string();
        let text = read_file(path, &file).map_err(|fault| vec![fault])?;
        let (config, mut warnings) = Config::parse(&file, &text)?;
        warnings.extend(config.unset(&ProcessLookup));
        Ok((config, warnings))
    }

    /// Reads a text; `file` is its name in messages. It looks at nothing outside the text.
    pub fn parse(file: &str, text: &str) -> Result<(Config, Vec<Warning>), Vec<Fault>> {
        let mut report = Report::new(file);
        let tree = yaml::parse(text, &mut report);
        let config = tree.and_then(|tree| Config::read(file, &tree, &mut report));
        let (warnings, notices) = report.finish()?;
        match config {
            Some(config) => Ok((Config { notices, ..config }, warnings)),
            // Nothing comes here: what makes no configuration has noted why. It is a refusal all the same.
            None => Err(vec![Fault {
                file: file.to_owned(),
                at: At::default(),
                text: "found no configuration, allowed: one".to_owned(),
            }]),
        }
    }

    /// The secrets that are set, and too short to seal anything: what a reference names has a length only now.
    #[must_use]
    pub fn short_secrets(&self, lookup: &dyn Lookup) -> Vec<Fault> {
        let desk = self.desk.iter().flat_map(|desk| &desk.secret);
        let short = desk.chain(&self.gate.key).filter_map(|secret| {
            let length = secret.value.resolve(lookup).ok()?.expose().len();
            (length < MIN_SECRET_BYTES).then(|| Fault {
                file: self.file.clone(),
                at: secret.at.clone(),
                text: format!("found {length} bytes, allowed: at least {MIN_SECRET_BYTES}"),
            })
        });
        short.collect()
    }

    /// The keys in which `other` differs and that are read at start only: what says something else there cannot be put in
    /// this one's place while it runs.
    #[must_use]
    pub fn needs_restart(&self, other: &Self) -> Vec<&'static str> {
        let pairs = self.at_start.iter().zip(&other.at_start);
        let keys = AT_START.into_iter().zip(pairs);
        keys.filter(|(_, (one, other))| one != other)
            .map(|(key, _)| key)
            .collect()
    }

    /// What stops a start and only a start, so that `check` can tell it apart: a listener that is not on
    /// loopback while there is no token.
    pub fn start_faults(&self) -> Vec<Fault> {
        self.gateway.start_faults(&self.file)
    }

    /// A warning for each reference that stands for nothing there, by name. `mayBeUnseeded` silences it.
    pub fn unset(&self, lookup: &dyn Lookup) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut warn = |value: &Placed<Template>, lookup: &dyn Lookup, silenced: &[String]| {
            let mut seen = HashSet::new();
            for reference in value.value.references() {
                let name = reference.to_string();
                let set = reference.is_set(lookup) || silenced.contains(&name);
                if !set && seen.insert(name.clone()) {
                    let text = format!("{name} is not set; what needs it refuses until it is");
                    warnings.push(Warning {
                        file: self.file.clone(),
                        at: value.at.clone(),
                        text,
                    });
                }
            }
        };
        for bundle in &self.bundles {
            bundle.key.iter().for_each(|key| warn(key, lookup, &[]));
        }
        for server in &self.servers {
            let own = SlugLookup {
                slug: &server.slug,
                shared: lookup,
            };
            for value in server.templates() {
                warn(value, &own, &server.may_be_unseeded);
            }
        }
        self.desk
            .iter()
            .flat_map(|desk| &desk.secret)
            .for_each(|key| warn(key, lookup, &[]));
        self.gate.key.iter().for_each(|key| warn(key, lookup, &[]));
        warnings
    }

    /// The server of that slug.
    pub fn server(&self, slug: &str) -> Option<&Server> {
        self.servers
            .iter()
            .find(|server| server.slug.as_str() == slug)
    }

    /// The bundle of that name, when the file lists it.
    pub fn bundle(&self, name: &str) -> Option<&Bundle> {
        self.bundles.iter().find(|bundle| bundle.name == name)
    }

    /// The second stage: what the tree means. `None` when a fault left nothing to make a part of.
    fn read(file: &str, tree: &yaml::Node, report: &mut Report) -> Option<Config> {
        let root = reader::check(tree, report)?;
        let section = root.section("gateway")?;
        let gateway = Gateway::read(&section, report);
        let bundles = Bundle::read_all(&root, report);
        let desk = root.get("desk").map(|place| Desk::read(&place, report));
        let gate = GateKeys::read(&root.section("gate")?, report);
        let tls = Trust::read(&root.section("tls")?, report);
        let log = Log::read(&root.section("log")?);
        let limits = Limits::read(&root.section("limits")?, report);
        let timing = Timing::read(&root.section("timing")?);

        let drafts = read_drafts(&root, report);
        rules::check(&drafts, report);
        let slugs: HashSet<&str> = drafts.iter().map(|draft| draft.slug).collect();
        gateway::check_grants(&section, &slugs, report);
        check_bundles(&drafts, &bundles, report);
        let servers = drafts
            .into_iter()
            .map(Draft::finish)
            .collect::<Option<Vec<_>>>()?;

        let at_start = |key: &str| {
            let mut names = key.split('.');
            let first = names.next().and_then(|name| root.get(name));
            let found = names.fold(first, |place, name| place?.get(name));
            found.map_or(sameness::NOTHING, |place| place.fingerprint())
        };
        let at_start = AT_START.into_iter().map(at_start).collect();
        let file = file.to_owned();
        let notices = Vec::new();
        Some(Config {
            file,
            gateway,
            bundles,
            servers,
            desk,
            gate,
            tls,
            log,
            limits,
            timing,
            notices,
            at_start,
        })
    }
}

fn read_drafts<'t>(root: &Place<'t>, report: &mut Report) -> Vec<Draft<'t>> {
    let Some(place) = root.get("servers") else {
        return Vec::new();
    };
    let items = place.items();
    if items.len() > MAX_SERVERS {
        place.fault(
            report,
            format!(
                "found {} servers, allowed: at most {MAX_SERVERS}",
                items.len()
            ),
        );
        return Vec::new();
    }
    items
        .into_iter()
        .map(|item| Draft::read(item, report))
        .collect()
}

/// Warns of a bundle that is not among the listed ones: where some are, it may be misspelt.
fn check_bundles(drafts: &[Draft<'_>], bundles: &[Bundle], report: &mut Report) {
    for draft in drafts
        .iter()
        .filter(|draft| draft.kind == "supplementary-image")
    {
        let listed = bundles.is_empty() || bundles.iter().any(|bundle| bundle.name == draft.bundle);
        if !listed {
            let place = draft.place.get("bundle");
            let text = format!(
                "{} is not under bundles, so it runs inside this process",
                named(draft.bundle)
            );
            report.warning(&place.as_ref().unwrap_or(&draft.place).at(), text);
        }
    }
}

/// Reads the file, at most a byte more than is allowed.
fn read_file(path: &Path, file: &str) -> Result<String, Fault> {
    let fault = |at: At, text: String| Fault {
        file: file.to_owned(),
        at,
        text,
    };
    let limit = u64::try_from(yaml::MAX_BYTES).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    let read =
        std::fs::File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        return Err(fault(At::default(), format!("cannot be read: {error}")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let sound = error
            .as_bytes()
            .get(..error.utf8_error().valid_up_to())
            .unwrap_or_default();
        let sound = String::from_utf8_lossy(sound);
        let line = sound.matches('\n').count() + 1;
        let column = sound
            .rsplit('\n')
            .next()
            .map_or(0, |last| last.chars().count())
            + 1;
        let at = At {
            line,
            column,
            path: String::new(),
        };
        fault(
            at,
            "found bytes that are no text, allowed: UTF-8".to_owned(),
        )
    })
}
