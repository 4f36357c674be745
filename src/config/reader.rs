//! The first stage: a tree checked against the list of keys, and typed access to what passed.
//!
//! [`check`] finds everything that the list alone can tell: unknown and missing keys, wrong types, words
//! and numbers out of bounds, features that this build does not have. The second stage then reads through
//! [`Place`], which answers `None` for what is absent *or* was refused, so that it complains of nothing
//! twice and both stages' faults come out of one run.

use super::fault::{At, Report, named};
use super::keys::{self, Key, Presence, Shape, Then};
use super::sameness::{self, Fingerprint};
use super::scalar::{is_boolean, is_nothing, is_number, is_string};
use super::yaml::{Entry, Kind, Node, join};

/// Most edits between an unknown key and one that is offered for it.
const MAX_EDITS: usize = 2;

/// What stands in for a section that is left out.
static NO_SECTION: Node = Node {
    line: 0,
    column: 0,
    kind: Kind::Map(Vec::new()),
};

/// Checks a whole tree against the list of keys, and gives access to it.
pub(crate) fn check<'t>(root: &'t Node, report: &mut Report) -> Option<Place<'t>> {
    let place = Place {
        node: root,
        key: keys::root()?,
        path: String::new(),
    };
    place.check(report);
    Some(place)
}

/// A node of the tree, the key that it stands under, and its dotted path.
#[derive(Clone)]
pub(crate) struct Place<'t> {
    node: &'t Node,
    key: &'static Key,
    path: String,
}

impl<'t> Place<'t> {
    /// Where it stands.
    pub(crate) fn at(&self) -> At {
        At {
            line: self.node.line,
            column: self.node.column,
            path: self.path.clone(),
        }
    }

    /// What it says, wherever it stands.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        sameness::of(self.node)
    }

    /// The value of a key of this section.
    pub(crate) fn get(&self, name: &str) -> Option<Place<'t>> {
        let key = keys::child(self.key, name);
        debug_assert!(
            key.is_some(),
            "{}.{name} is not in the list of keys",
            self.key.path
        );
        let key = key?;
        let entry = self.entries().iter().find(|entry| entry.name == name)?;
        Some(self.under(entry, key))
    }

    /// A section of this section; an absent one reads as an empty one, so that its defaults count.
    pub(crate) fn section(&self, name: &str) -> Option<Place<'t>> {
        let found = self.get(name);
        found.or_else(|| {
            let key = keys::child(self.key, name)?;
            Some(Place {
                node: &NO_SECTION,
                key,
                path: name.to_owned(),
            })
        })
    }

    /// What a key of this section is when it is left out.
    pub(crate) fn default_of(&self, name: &str) -> &'static str {
        default(keys::child(self.key, name))
    }

    /// Whether the key is there, whatever it holds.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.entries().iter().any(|entry| entry.name == name)
    }

    /// The keys of a map whose names the author chose.
    pub(crate) fn by_name(&self) -> Vec<(Named<'t>, Place<'t>)> {
        let Some(inner) = keys::inner(self.key) else {
            return Vec::new();
        };
        let entries = self.entries().iter();
        let named = |entry: &'t Entry| {
            let place = self.under(entry, inner);
            let at = At {
                line: entry.line,
                column: entry.column,
                path: place.path.clone(),
            };
            (
                Named {
                    name: &entry.name,
                    at,
                },
                place,
            )
        };
        entries.map(named).collect()
    }

    /// The items of a list; of one item without a list around it, that one.
    pub(crate) fn items(&self) -> Vec<Place<'t>> {
        let Some(inner) = keys::inner(self.key) else {
            return Vec::new();
        };
        match &self.node.kind {
            Kind::List(items) => {
                let item = |(index, node)| Place {
                    node,
                    key: inner,
                    path: format!("{}[{index}]", self.path),
                };
                items.iter().enumerate().map(item).collect()
            }
            Kind::Scalar { .. } if self.key.shape == Shape::OneOrList => {
                vec![Place {
                    node: self.node,
                    key: inner,
                    path: self.path.clone(),
                }]
            }
            _ => Vec::new(),
        }
    }

    /// Whether it is a list.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self.node.kind, Kind::List(_))
    }

    /// The string that it holds.
    pub(crate) fn text(&self) -> Option<&'t str> {
        match &self.node.kind {
            Kind::Scalar { text, quoted } if *quoted || is_string(text) => Some(text),
            _ => None,
        }
    }

    /// The scalar's characters, whether or not they would make a number.
    pub(crate) fn scalar(&self) -> Option<&'t str> {
        match &self.node.kind {
            Kind::Scalar { text, quoted } if *quoted || !is_nothing(text) => Some(text),
            _ => None,
        }
    }

    /// The boolean that it holds.
    fn flag_here(&self) -> Option<bool> {
        match &self.node.kind {
            Kind::Scalar {
                text,
                quoted: false,
            } => match text.as_str() {
                "true" => Some(true),
                "false" => Some(false),
                _ => None,
            },
            _ => None,
        }
    }

    /// The whole number that it holds: decimal digits, without sign or leading zero.
    fn whole_here(&self) -> Option<u64> {
        match &self.node.kind {
            Kind::Scalar {
                text,
                quoted: false,
            } => {
                let digits = text.bytes().all(|byte| byte.is_ascii_digit());
                let plain = digits && (text == "0" || !text.starts_with('0'));
                if plain { text.parse().ok() } else { None }
            }
            _ => None,
        }
    }

    /// A key of this section that is `true` or `false`, or its default.
    pub(crate) fn flag(&self, name: &str) -> bool {
        match self.get(name) {
            Some(place) => place.flag_here().unwrap_or(false),
            None => default(keys::child(self.key, name)) == "true",
        }
    }

    /// A key of this section that is a whole number, or its default.
    pub(crate) fn whole(&self, name: &str) -> u64 {
        let found = self.get(name).and_then(|place| place.whole_here());
        found.unwrap_or_else(|| default_whole(keys::child(self.key, name)))
    }

    /// A key of this section that is one of a few words, or its default. Empty when it was refused, or is
    /// absent and has no default.
    pub(crate) fn word(&self, name: &str) -> &'t str {
        match self.get(name) {
            Some(place) if place.is_sound() => place.text().unwrap_or(""),
            Some(_) => "",
            None => default(keys::child(self.key, name)),
        }
    }

    /// Notes a fault at this place.
    pub(crate) fn fault(&self, report: &mut Report, text: impl Into<String>) {
        report.fault(&self.at(), text);
    }

    /// Notes that a key of this section is missing.
    pub(crate) fn missing(&self, name: &str, report: &mut Report) {
        let allowed = keys::child(self.key, name).map(allowed).unwrap_or_default();
        let mut at = self.at();
        join(&mut at.path, name);
        report.fault(&at, format!("missing, allowed: {allowed}"));
    }

    /// The entries of a map; of anything else none.
    fn entries(&self) -> &'t [Entry] {
        match &self.node.kind {
            Kind::Map(entries) => entries,
            _ => &[],
        }
    }

    fn under(&self, entry: &'t Entry, key: &'static Key) -> Place<'t> {
        let mut path = self.path.clone();
        join(&mut path, &entry.name);
        Place {
            node: &entry.value,
            key,
            path,
        }
    }

    /// Whether the first stage took this scalar.
    fn is_sound(&self) -> bool {
        self.wrong().is_none() && !matches!(self.absent(), Some(Then::Refuse(_)))
    }

    /// Checks this node and everything under it. The tree is at most [`super::yaml::MAX_DEPTH`] deep.
    fn check(&self, report: &mut Report) {
        if let Some(Then::Refuse(what)) = self.absent() {
            let text = format!(
                "found what this build does not have yet ({what}), allowed: {}",
                { allowed_now(self.key) }
            );
            return self.fault(report, text);
        }
        if let Some(text) = self.wrong() {
            return self.fault(report, text);
        }
        match self.key.shape {
            Shape::Section => self.check_section(report),
            Shape::ByName => {
                for (_, place) in self.by_name() {
                    place.check(report);
                }
            }
            Shape::List | Shape::OneOrList => {
                for place in self.items() {
                    place.check(report);
                }
            }
            _ => {}
        }
    }

    /// Checks the keys of a section: each known, and each that must be there there.
    fn check_section(&self, report: &mut Report) {
        for entry in self.entries() {
            let Some(key) = keys::child(self.key, &entry.name) else {
                if report.is_full() {
                    report.count();
                    continue;
                }
                let mut path = self.path.clone();
                join(&mut path, &entry.name);
                let at = At {
                    line: entry.line,
                    column: entry.column,
                    path,
                };
                report.fault(&at, unknown(self.key, &entry.name));
                continue;
            };
            self.under(entry, key).check(report);
        }
        for (name, key) in keys::children(self.key) {
            if key.presence == Presence::Required && !self.has(name) {
                self.missing(name, report);
            }
        }
    }

    /// What is wrong with this node's own type or bounds. What was refused before is not wrong again.
    fn wrong(&self) -> Option<String> {
        let scalar = matches!(self.node.kind, Kind::Scalar { .. });
        let right = match (self.key.shape, &self.node.kind) {
            (_, Kind::Broken) | (Shape::Later, _) => true,
            (Shape::Section | Shape::ByName, kind) => matches!(kind, Kind::Map(_)),
            (Shape::List, kind) => matches!(kind, Kind::List(_)),
            (Shape::OneOrList, Kind::List(_)) => true,
            (Shape::OneOrList, Kind::Scalar { .. }) => self.scalar().is_some(),
            (Shape::Text | Shape::Template, _) => self.text().is_some(),
            (Shape::Digest, _) => self.scalar().is_some(),
            (Shape::Flag, _) => self.flag_here().is_some(),
            (Shape::Whole { min, max }, _) => self
                .whole_here()
                .is_some_and(|number| (min..=max).contains(&number)),
            (Shape::Words(words), _) => self.text().is_some_and(|text| words.contains(&text)),
            (Shape::OneOrList, _) => false,
        };
        if right {
            return None;
        }
        let found = match (self.key.shape, self.text()) {
            // A word out of a list, and a number, are no credentials.
            (Shape::Words(_), Some(text)) => named(text),
            (Shape::Whole { .. }, _) if scalar => match self.whole_here() {
                Some(number) => number.to_string(),
                None => self.found().to_owned(),
            },
            _ => self.found().to_owned(),
        };
        let quote = match self.key.shape {
            Shape::Text | Shape::Template if matches!(self.found(), "a number" | "a boolean") => {
                " in quotes"
            }
            _ => "",
        };
        Some(format!(
            "found {found}, allowed: {}{quote}",
            allowed(self.key)
        ))
    }

    /// What becomes of this value, when this build does not have it.
    fn absent(&self) -> Option<&'static Then> {
        keys::not_yet(self.key.path, self.scalar())
    }

    /// The kind of this node, in a word.
    fn found(&self) -> &'static str {
        match &self.node.kind {
            Kind::List(_) => "a list",
            Kind::Map(_) => "a map",
            Kind::Broken => "what was refused",
            Kind::Scalar { quoted: true, .. } => "a string",
            Kind::Scalar { text, .. } if is_nothing(text) => "nothing",
            Kind::Scalar { text, .. } if is_boolean(text) => "a boolean",
            Kind::Scalar { text, .. } if is_number(text) => "a number",
            Kind::Scalar { .. } => "a string",
        }
    }
}

/// A key that the author chose.
pub(crate) struct Named<'t> {
    /// The key.
    pub(crate) name: &'t str,
    /// Where it stands.
    pub(crate) at: At,
}

/// What a key that no row has could have been.
fn unknown(section: &Key, name: &str) -> String {
    let names = || keys::children(section).map(|(name, _)| name);
    let close = names().map(|known| (edits(name, known), known)).min();
    match close {
        Some((distance, known)) if distance <= MAX_EDITS => {
            format!("found an unknown key, allowed: {known}, which is closest")
        }
        _ => format!(
            "found an unknown key, allowed: {}",
            names().collect::<Vec<_>>().join(", ")
        ),
    }
}

/// What a key may hold, in words.
fn allowed(key: &Key) -> String {
    let inner = || keys::inner(key).map(allowed).unwrap_or_default();
    match key.shape {
        Shape::Section | Shape::ByName => "a map".to_owned(),
        Shape::List => "a list".to_owned(),
        Shape::OneOrList => format!("{} or a list", inner()),
        Shape::Text | Shape::Template => "a string".to_owned(),
        Shape::Digest => "64 hexadecimal digits".to_owned(),
        Shape::Flag => "true or false".to_owned(),
        Shape::Whole { min, max } => format!("a whole number from {min} to {max}"),
        Shape::Words(words) => words.join(", "),
        Shape::Later => "leave it out".to_owned(),
    }
}

/// What a key may hold in this build.
fn allowed_now(key: &Key) -> String {
    match (key.shape, key.presence) {
        (Shape::Words(words), _) => {
            let here = |word: &&&str| {
                !matches!(keys::not_yet(key.path, Some(word)), Some(Then::Refuse(_)))
            };
            words
                .iter()
                .filter(here)
                .copied()
                .collect::<Vec<_>>()
                .join(", ")
        }
        (_, Presence::Default(text)) => text.to_owned(),
        _ => "leave it out".to_owned(),
    }
}

fn default(key: Option<&'static Key>) -> &'static str {
    match key.map(|key| key.presence) {
        Some(Presence::Default(text)) => text,
        _ => "",
    }
}

/// The default of a whole number. A test holds each such row to a default that parses.
fn default_whole(key: Option<&'static Key>) -> u64 {
    default(key).parse().unwrap_or(0)
}

/// Insertions, deletions, replacements and swaps of neighbours between two words. Words that differ by more
/// than a few characters in length are not compared.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > MAX_EDITS || a.is_empty() {
        return usize::MAX;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let cell = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX - 1);
            let replace = cell(&last, j) + usize::from(x != y);
            let mut least = replace.min(cell(&last, j + 1) + 1).min(cell(&row, j) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if swapped {
                least = least.min(cell(&before, j - 1) + 1);
            }
            row.push(least);
        }
        before = last;
        last = row;
    }
    last.last().copied().unwrap_or(usize::MAX)
}
