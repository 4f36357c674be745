//! What a reader of the configuration has to say: faults, warnings and notices, each with its place.
//!
//! A message says what was found and what is allowed. It never repeats a value that could be a
//! credential: strings are named by their kind, and only keys, slugs, tool names and listed words are
//! shown.

use std::fmt;

/// Most faults that one run reports: a megabyte of nonsense must not become a hundred of complaints.
pub const MAX_FAULTS: usize = 100;

/// Most characters of an outside name that a message repeats.
const MAX_SHOWN: usize = 64;

/// A place in the file: where it is, and which key stands there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// Line, from 1; 0 when the fault is the file's as a whole.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Dotted path of the key, `servers[0].slug`; empty at the root.
    pub path: String,
}

/// A value together with the place that it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub at: At,
}

/// Something in the configuration that is wrong: the file is refused as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file's name, as it was given.
    pub file: String,
    /// Where.
    pub at: At,
    /// What was found, and what is allowed.
    pub text: String,
}

/// Something that a person should know, and that does not stop a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The file's name, as it was given.
    pub file: String,
    /// Where.
    pub at: At,
    /// What it is about.
    pub text: String,
}

/// Something valid that this build cannot do: the file loads, and what depends on it refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The slug's `ask` is none of this build's: its gate refuses every confirmed call.
    AskAbsent {
        /// The server.
        slug: String,
        /// The word that `ask` holds.
        ask: &'static str,
    },
    /// The slug's mount is none of this build's: each of its calls gets an error that says so.
    MountAbsent {
        /// The server.
        slug: String,
        /// The mount's name.
        mount: &'static str,
    },
    /// An approval prefix is https, and this build has no TLS: every question there fails.
    TlsAbsent {
        /// The key that holds the prefix.
        path: String,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        line(f, &self.file, &self.at, &self.text)
    }
}

impl std::error::Error for Fault {}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        line(f, &self.file, &self.at, &self.text)
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::AskAbsent { slug, ask } => write!(
                f,
                "{slug}: this build cannot ask by {ask}; its confirmed tools refuse every call"
            ),
            Notice::MountAbsent { slug, mount } => {
                write!(
                    f,
                    "{slug}: this build has no {mount} mount; every call to it is refused"
                )
            }
            Notice::TlsAbsent { path } => {
                write!(
                    f,
                    "{path}: this build has no TLS; every question to an https address fails"
                )
            }
        }
    }
}

/// `FILE:LINE:COLUMN: PATH: TEXT`, without the parts that there are none of.
fn line(f: &mut fmt::Formatter<'_>, file: &str, at: &At, text: &str) -> fmt::Result {
    write!(f, "{file}:")?;
    if at.line > 0 {
        write!(f, "{}:{}:", at.line, at.column)?;
    }
    if !at.path.is_empty() {
        write!(f, " {}:", at.path)?;
    }
    write!(f, " {text}")
}

/// Collects everything that one run finds.
#[derive(Debug)]
pub(crate) struct Report {
    file: String,
    faults: Vec<Fault>,
    warnings: Vec<Warning>,
    notices: Vec<Notice>,
    /// Faults beyond [`MAX_FAULTS`], which are counted only.
    beyond: usize,
}

impl Report {
    /// A report on the file of that name, empty.
    pub(crate) fn new(file: &str) -> Report {
        Report {
            file: file.to_owned(),
            faults: vec![],
            warnings: vec![],
            notices: vec![],
            beyond: 0,
        }
    }

    /// Whether further faults are only counted: then their texts need not be worked out.
    pub(crate) fn is_full(&self) -> bool {
        self.faults.len() >= MAX_FAULTS
    }

    /// Notes a fault.
    pub(crate) fn fault(&mut self, at: &At, text: impl Into<String>) {
        if self.is_full() {
            return self.count();
        }
        self.faults.push(Fault {
            file: self.file.clone(),
            at: at.clone(),
            text: text.into(),
        });
    }

    /// Counts a fault beyond those that are noted.
    pub(crate) fn count(&mut self) {
        self.beyond += 1;
    }

    /// Notes a warning.
    pub(crate) fn warning(&mut self, at: &At, text: impl Into<String>) {
        self.warnings.push(Warning {
            file: self.file.clone(),
            at: at.clone(),
            text: text.into(),
        });
    }

    /// Notes a notice.
    pub(crate) fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// Ends the report: the faults in the order of the file when there are any, else what may pass.
    pub(crate) fn finish(mut self) -> Result<(Vec<Warning>, Vec<Notice>), Vec<Fault>> {
        if self.faults.is_empty() {
            return Ok((self.warnings, self.notices));
        }
        self.faults
            .sort_by_key(|fault| (fault.at.line, fault.at.column));
        if self.beyond > 0 {
            let text = format!("and {} more faults, not shown", self.beyond);
            self.faults.push(Fault {
                file: self.file,
                at: At::default(),
                text,
            });
        }
        Err(self.faults)
    }
}

/// An outside name as a message may repeat it: in quotes, cut at [`MAX_SHOWN`] characters.
pub(crate) fn named(name: &str) -> String {
    let cut: String = name.chars().take(MAX_SHOWN).collect();
    let more = if cut.len() < name.len() { "…" } else { "" };
    format!("\"{}{more}\"", escaped(&cut).replace('"', "\\\""))
}

/// A text with control, invisible and other unprintable characters escaped: what was written into a file must
/// not draw on the terminal of the person who checks it.
pub(crate) fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\'' | '"' => shown.push(c),
            _ => shown.extend(c.escape_debug()),
        }
    }
    shown
}
