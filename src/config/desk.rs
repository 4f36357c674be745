//! The desk's section, and the gate's: who answers, and what seals what goes out.

use url::Url;

use super::fault::{Placed, Report, named};
use super::names::is_name;
use super::reader::Place;
use super::template::Template;
use super::values::{self, CertificateFiles, Listen};

/// The approval service.
#[derive(Clone, Debug)]
pub struct Desk {
    /// Where it listens.
    pub listen: Vec<Listen>,
    /// The certificate that it serves with; `None`: plain HTTP.
    pub tls: Option<CertificateFiles>,
    /// Its address as callers and people see it, ending in `/`. `None`: `localhost` and the port that it listens on, which is known for certain only once it listens.
    pub public_url: Option<Url>,
    /// Mints (the first) and checks (each) session URLs.
    pub secret: Vec<Placed<Template>>,
    /// Who may answer.
    pub people: Vec<Person>,
    /// SHA-256 of the secrets that gateways send. Empty: no sender is verified.
    pub asker_keys: Vec<[u8; 32]>,
}

/// Someone who may answer.
#[derive(Clone, Debug)]
pub struct Person {
    /// The name under which answers are recorded.
    pub id: String,
    /// SHA-256 of the person's key.
    pub sha256: [u8; 32],
    /// Whose questions this person sees and answers.
    pub answers_for: Vec<Askers>,
}

/// Some sessions or tokens, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Askers {
    /// Each whose name starts so: `zimmer-*`.
    Starting(String),
    /// The one of that name.
    Named(String),
}

/// What decides.
#[derive(Clone, Debug)]
pub struct GateKeys {
    /// Seals (the first) and opens (each) `requestState`. Empty: random at start.
    pub key: Vec<Placed<Template>>,
}

impl Desk {
    pub(super) fn read(section: &Place<'_>, report: &mut Report) -> Desk {
        let asker_keys = section
            .get("askerKeys")
            .map(|place| place.items())
            .unwrap_or_default();
        Desk {
            listen: values::listen(section, "listen", report),
            tls: values::certificate(section, report),
            public_url: section
                .get("publicUrl")
                .and_then(|place| public_url(&place, report)),
            secret: values::seal_keys(section, "secret", report),
            people: people(section, report),
            asker_keys: asker_keys
                .iter()
                .filter_map(|item| values::digest(item, "sha256", report))
                .collect(),
        }
    }
}

impl Askers {
    /// Whether the session or token of that name is among them.
    pub fn hold(&self, name: &str) -> bool {
        match self {
            Askers::Starting(start) => name.starts_with(start.as_str()),
            Askers::Named(one) => name == one,
        }
    }

    fn parse(text: &str) -> Option<Askers> {
        match text.strip_suffix('*') {
            Some("") => Some(Askers::Starting(String::new())),
            Some(start) => is_name(start).then(|| Askers::Starting(start.to_owned())),
            None => is_name(text).then(|| Askers::Named(text.to_owned())),
        }
    }
}

impl GateKeys {
    pub(super) fn read(section: &Place<'_>, report: &mut Report) -> GateKeys {
        GateKeys {
            key: values::seal_keys(section, "key", report),
        }
    }
}

fn people(section: &Place<'_>, report: &mut Report) -> Vec<Person> {
    let items = section
        .get("people")
        .map(|place| place.items())
        .unwrap_or_default();
    let mut people: Vec<Person> = Vec::new();
    for item in &items {
        let id = item
            .get("id")
            .and_then(|place| values::name(&place, report));
        let sha256 = values::digest(item, "sha256", report);
        let answers_for = answers_for(item, report);
        let (Some(id), Some(sha256)) = (id, sha256) else {
            continue;
        };
        if people.iter().any(|other| other.id == id) {
            let place = item.get("id");
            let text = format!("found {} a second time, allowed: once", named(&id));
            place.as_ref().unwrap_or(item).fault(report, text);
        }
        if let Some(other) = people.iter().find(|other| other.sha256 == sha256) {
            let place = item.get("sha256");
            let text = format!(
                "found the key of {}, allowed: one of their own",
                named(&other.id)
            );
            place.as_ref().unwrap_or(item).fault(report, text);
        }
        people.push(Person {
            id,
            sha256,
            answers_for,
        });
    }
    people
}

fn answers_for(person: &Place<'_>, report: &mut Report) -> Vec<Askers> {
    let Some(place) = person.get("answersFor") else {
        return Vec::new();
    };
    let items = place.items();
    if place.is_list() && items.is_empty() {
        place.fault(
            report,
            "found an empty list, allowed: at least one name, or *",
        );
    }
    let mut askers = Vec::new();
    for item in items {
        let Some(text) = item.text() else { continue };
        match Askers::parse(text) {
            Some(found) => askers.push(found),
            None => {
                let text = format!(
                    "found {}, allowed: a name, with * at its end only",
                    named(text)
                );
                item.fault(report, text);
            }
        }
    }
    askers
}

/// Reads the desk's address. Session URLs are made by appending to it, and are callers' credentials.
fn public_url(place: &Place<'_>, report: &mut Report) -> Option<Url> {
    let mut text = place.text()?.to_owned();
    if !text.ends_with('/') {
        text.push('/');
    }
    // The desk's paths are its own: behind a proxy it has a host of its own, not a path.
    let url = values::parse_address(&text)
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.path() == "/");
    if url.is_none() {
        let allowed = "http or https, a host and a port in normal form, and nothing more";
        place.fault(report, format!("found another address, allowed: {allowed}"));
    }
    url
}
