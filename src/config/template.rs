//! Values that hold references: `${NAME}` and `${file:/PATH}`.
//!
//! A template is parsed once and resolved anew for every call, so that a secret that was rotated, or seeded
//! late, counts from the next call on. The configuration itself never holds what a reference stands for.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::names::{Slug, is_variable};
use crate::secret::Secret;

/// Largest file that a reference may name. Keys in PEM form have a few KB.
const MAX_FILE_BYTES: u64 = 65_536;

/// A value that may hold references.
#[derive(Clone)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone)]
enum Part {
    /// Text as it was written. It may be a credential, so it is kept as one.
    Literal(Secret),
    Reference(Reference),
}

/// What a reference names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// `${NAME}`: a variable of the environment.
    Variable(String),
    /// `${file:/PATH}`: a file; one line end at its end does not count.
    File(PathBuf),
}

/// A reference that stands for nothing: unset, empty, or a file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unseeded {
    /// The variable's name, or `file:/PATH`.
    pub name: String,
}

/// Why a text is no template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TemplateFault {
    /// `${` without `}`.
    Open,
    /// What stands between the braces is no reference.
    NoReference,
}

/// Where references are looked up.
pub trait Lookup {
    /// The variable's value; `None` when it is unset or is no text.
    fn variable(&self, name: &str) -> Option<Secret>;
    /// The file's content as it is; `None` when it cannot be read, is no text or is too large.
    fn file(&self, path: &Path) -> Option<Secret>;
}

/// The process's own environment and files. Reading a file blocks: secrets are small and local.
#[derive(Clone, Copy, Debug)]
pub struct ProcessLookup;

/// A slug's view: its own namespace first, `<SLUG>__NAME`, then the shared one, `NAME`.
pub struct SlugLookup<'a> {
    /// The slug.
    pub slug: &'a Slug,
    /// The shared namespace, which also holds the slug's own under its prefix.
    pub shared: &'a dyn Lookup,
}

impl Template {
    /// Reads a text. Every `${` opens a reference; there is no escape, for no credential in use holds one.
    pub(crate) fn parse(text: &str) -> Result<Template, TemplateFault> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let (inside, after) = after.split_once('}').ok_or(TemplateFault::Open)?;
            if !before.is_empty() {
                parts.push(Part::Literal(Secret::new(before.to_owned())));
            }
            parts.push(Part::Reference(
                Reference::parse(inside).ok_or(TemplateFault::NoReference)?,
            ));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(Secret::new(rest.to_owned())));
        }
        Ok(Template { parts })
    }

    /// The value as of now. An empty variable or file counts as unset: an empty credential opens nothing
    /// that it should.
    pub fn resolve(&self, lookup: &dyn Lookup) -> Result<Secret, Unseeded> {
        let mut value = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(text) => value.push_str(text.expose()),
                Part::Reference(reference) => {
                    value.push_str(reference.resolve(lookup)?.expose());
                }
            }
        }
        Ok(Secret::new(value))
    }

    /// The whole of it in another form, each part in turn.
    pub(crate) fn written(
        &self,
        literal: impl Fn(&str) -> String,
        mut reference: impl FnMut(&Reference) -> String,
    ) -> String {
        let parts = self.parts.iter();
        parts
            .map(|part| match part {
                Part::Literal(text) => literal(text.expose()),
                Part::Reference(named) => reference(named),
            })
            .collect()
    }

    /// What it refers to, in order.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.parts.iter().filter_map(|part| match part {
            Part::Reference(reference) => Some(reference),
            Part::Literal(_) => None,
        })
    }

    /// What was written literally, in order. It may be a credential.
    pub(crate) fn literals(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Literal(text) => Some(text.expose()),
            Part::Reference(_) => None,
        })
    }

    /// Its length in bytes when nothing in it is a reference.
    pub(crate) fn literal_len(&self) -> Option<usize> {
        let mut length = 0;
        for part in &self.parts {
            match part {
                Part::Literal(text) => length += text.expose().len(),
                Part::Reference(_) => return None,
            }
        }
        Some(length)
    }
}

/// Shows the names of references; what was written literally may be a credential.
impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Template(")?;
        for part in &self.parts {
            match part {
                Part::Literal(_) => f.write_str("..")?,
                Part::Reference(reference) => write!(f, "${{{reference}}}")?,
            }
        }
        f.write_str(")")
    }
}

impl Reference {
    fn parse(inside: &str) -> Option<Reference> {
        if let Some(path) = inside.strip_prefix("file:") {
            let absolute = path.starts_with('/') && !path.contains(char::is_control);
            return absolute.then(|| Reference::File(PathBuf::from(path)));
        }
        is_variable(inside).then(|| Reference::Variable(inside.to_owned()))
    }

    /// Whether it stands for something there.
    pub(crate) fn is_set(&self, lookup: &dyn Lookup) -> bool {
        self.resolve(lookup).is_ok()
    }

    fn resolve(&self, lookup: &dyn Lookup) -> Result<Secret, Unseeded> {
        let found = match self {
            Reference::Variable(name) => lookup.variable(name),
            Reference::File(path) => lookup.file(path).map(without_line_end),
        };
        let found = found.filter(|value| !value.is_empty());
        found.ok_or_else(|| Unseeded {
            name: self.to_string(),
        })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reference::Variable(name) => f.write_str(name),
            Reference::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

impl fmt::Display for Unseeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "configuration: {} is not set", self.name)
    }
}

impl std::error::Error for Unseeded {}

impl fmt::Display for TemplateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TemplateFault::Open => "found ${ without }",
            TemplateFault::NoReference => "found a reference to nothing",
        })?;
        f.write_str(", allowed: ${NAME}, ${file:/PATH}")
    }
}

impl Lookup for ProcessLookup {
    fn variable(&self, name: &str) -> Option<Secret> {
        std::env::var(name).ok().map(Secret::new)
    }

    fn file(&self, path: &Path) -> Option<Secret> {
        // Opening a pipe would wait for its writer.
        if !std::fs::metadata(path).ok()?.is_file() {
            return None;
        }
        let mut text = String::new();
        let mut file = std::fs::File::open(path).ok()?.take(MAX_FILE_BYTES + 1);
        let length = file.read_to_string(&mut text).ok()?;
        let fits = u64::try_from(length).is_ok_and(|length| length <= MAX_FILE_BYTES);
        fits.then(|| Secret::new(text))
    }
}

impl Lookup for SlugLookup<'_> {
    fn variable(&self, name: &str) -> Option<Secret> {
        let own = self
            .shared
            .variable(&format!("{}{name}", self.slug.variable_prefix()));
        own.filter(|value| !value.is_empty())
            .or_else(|| self.shared.variable(name))
    }

    fn file(&self, path: &Path) -> Option<Secret> {
        self.shared.file(path)
    }
}

/// Editors and `echo` end a file with a line end that is no part of the secret.
fn without_line_end(content: Secret) -> Secret {
    let text = content.expose();
    let cut = text
        .strip_suffix('\n')
        .map(|text| text.strip_suffix('\r').unwrap_or(text));
    match cut {
        Some(cut) => Secret::new(cut.to_owned()),
        None => content,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    struct Fixed(HashMap<&'static str, &'static str>);

    impl Lookup for Fixed {
        fn variable(&self, name: &str) -> Option<Secret> {
            self.0
                .get(name)
                .map(|value| Secret::new((*value).to_owned()))
        }

        fn file(&self, path: &Path) -> Option<Secret> {
            self.variable(path.to_str()?)
        }
    }

    fn fixed() -> Fixed {
        Fixed(HashMap::from([
            ("A", "shared"),
            ("B", "b"),
            ("EMPTY", ""),
            ("MY_SLUG__A", "own"),
            ("MY_SLUG__B", ""),
            ("/run/secrets/S", "line\r\n"),
            ("/run/secrets/T", "two\n\n"),
        ]))
    }

    #[test]
    fn resolves() {
        for (text, expected) in [
            ("", Ok("")),
            ("plain $A $$ {A} } text", Ok("plain $A $$ {A} } text")),
            ("${A}", Ok("shared")),
            ("x${A}-${B}y", Ok("xshared-by")),
            ("$${A}", Ok("$shared")),
            ("${file:/run/secrets/S}", Ok("line")),
            ("${file:/run/secrets/T}", Ok("two\n")),
            ("${A}${NONE}", Err("NONE")),
            ("${EMPTY}", Err("EMPTY")),
            ("${file:/none}", Err("file:/none")),
        ] {
            let found = Template::parse(text).unwrap().resolve(&fixed());
            let found = found
                .as_ref()
                .map(Secret::expose)
                .map_err(|unseeded| unseeded.name.as_str());
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn resolves_from_the_slugs_namespace_first() {
        let slug = Slug::parse("my-slug").unwrap();
        let (shared, template) = (fixed(), Template::parse("${A} ${B}").unwrap());
        let found = template
            .resolve(&SlugLookup {
                slug: &slug,
                shared: &shared,
            })
            .unwrap();
        assert_eq!(found.expose(), "own b");
    }

    #[test]
    fn refuses() {
        for (text, expected) in [
            ("${", TemplateFault::Open),
            ("a ${A", TemplateFault::Open),
            ("${}", TemplateFault::NoReference),
            ("${1A}", TemplateFault::NoReference),
            ("${A B}", TemplateFault::NoReference),
            ("${A:-default}", TemplateFault::NoReference),
            ("${${A}}", TemplateFault::NoReference),
            ("${file:relative}", TemplateFault::NoReference),
            ("${file:}", TemplateFault::NoReference),
            ("${file:/a\nb}", TemplateFault::NoReference),
        ] {
            assert_eq!(Template::parse(text).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn debug_shows_names_only() {
        let template = Template::parse("hunter2${A}${file:/b}").unwrap();
        assert_eq!(format!("{template:?}"), "Template(..${A}${file:/b})");
    }

    #[test]
    fn reads_files_anew_and_only_plain_ones() {
        let path =
            std::env::temp_dir().join(format!("countersign-template-{}", std::process::id()));
        let template = Template::parse(&format!("${{file:{}}}", path.display())).unwrap();
        std::fs::write(&path, "one\n").unwrap();
        assert_eq!(template.resolve(&ProcessLookup).unwrap().expose(), "one");
        std::fs::write(&path, "two").unwrap();
        assert_eq!(template.resolve(&ProcessLookup).unwrap().expose(), "two");
        std::fs::write(&path, [0xFF]).unwrap();
        assert!(template.resolve(&ProcessLookup).is_err());
        std::fs::write(&path, vec![b'a'; 65_537]).unwrap();
        assert!(template.resolve(&ProcessLookup).is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(template.resolve(&ProcessLookup).is_err());
        let directory = Template::parse("${file:/}").unwrap();
        assert!(directory.resolve(&ProcessLookup).is_err());
    }
}
