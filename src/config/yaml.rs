//! YAML text into a tree that knows where each node stands.
//!
//! `saphyr-parser` does the grammar and hands out events one by one; this file builds the tree without
//! recursion and refuses what a configuration has no need of: anchors, aliases, tags, several documents,
//! equal keys, keys that are not plain words, and depth. So no input of [`MAX_BYTES`] costs more than
//! time and memory in proportion to its length.

use std::collections::HashSet;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};

use super::fault::{At, Report, escaped, named};

/// Longest file that is read: a hundred times a large configuration.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;

/// Deepest nesting; the deepest key of ours stands at 7.
pub(crate) const MAX_DEPTH: usize = 32;

/// One node of the tree.
#[derive(Debug)]
pub(crate) struct Node {
    /// Line of its first character, from 1; of its key when it is empty.
    pub(crate) line: usize,
    /// Column of its first character, from 1.
    pub(crate) column: usize,
    /// What it is.
    pub(crate) kind: Kind,
}

/// What a node is.
#[derive(Debug)]
pub(crate) enum Kind {
    /// A scalar. A quoted one is always a string; a plain one may be a number, a boolean or nothing.
    Scalar {
        /// Its text.
        text: String,
        /// Whether it was in quotes, or a block.
        quoted: bool,
    },
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order of the file.
    Map(Vec<Entry>),
    /// Something that was refused already: nobody complains of it again.
    Broken,
}

/// One key of a mapping with its value.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The key.
    pub(crate) name: String,
    /// Line of the key.
    pub(crate) line: usize,
    /// Column of the key.
    pub(crate) column: usize,
    /// The value.
    pub(crate) value: Node,
}

/// A mapping or sequence that is still open.
enum Open {
    List {
        line: usize,
        column: usize,
        items: Vec<Node>,
    },
    Map {
        line: usize,
        column: usize,
        entries: Vec<Entry>,
        names: HashSet<String>,
        key: Option<Key>,
    },
}

/// A key whose value is still to come. A refused key has no name; its value is read and dropped.
struct Key {
    name: Option<String>,
    line: usize,
    column: usize,
}

/// Reads the text. `None` when there is no tree to look at; an empty file is an empty mapping.
pub(crate) fn parse(text: &str, report: &mut Report) -> Option<Node> {
    if text.len() > MAX_BYTES {
        let text = format!("found {} bytes, allowed: at most {MAX_BYTES}", text.len());
        report.fault(&At::default(), text);
        return None;
    }
    let mut builder = Builder {
        open: Vec::new(),
        root: None,
        end: end(text),
        report,
    };
    let mut parser = Parser::new_from_str(text);
    let mut documents = 0;
    while let Some(event) = parser.next_event() {
        let (event, span) = match event {
            Ok(event) => event,
            Err(fault) => {
                // The parser's texts are fixed sentences about grammar and repeat one character at most.
                let (line, column) = builder.place(fault.marker());
                let at = At {
                    line,
                    column,
                    path: builder.path(),
                };
                builder
                    .report
                    .fault(&at, format!("not YAML: {}", escaped(fault.info())));
                return None;
            }
        };
        let at = span.start;
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag) => (*anchor, tag.is_some()),
            Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) => {
                (*anchor, tag.is_some())
            }
            _ => (0, false),
        };
        if anchor != 0 {
            builder.fault(&at, "found an anchor, allowed: plain values only");
        }
        if tag {
            builder.fault(&at, "found a tag, allowed: plain values only");
        }
        let (line, column) = builder.place(&at);
        match event {
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    builder.fault(&at, "found a second document, allowed: one");
                    return None;
                }
            }
            Event::Alias(_) => {
                builder.fault(&at, "found an alias, allowed: plain values only");
                builder.node(Node {
                    line,
                    column,
                    kind: Kind::Broken,
                });
            }
            Event::Scalar(text, style, ..) => {
                let quoted = style != ScalarStyle::Plain;
                let kind = Kind::Scalar {
                    text: text.into_owned(),
                    quoted,
                };
                builder.node(Node { line, column, kind });
            }
            Event::SequenceStart(..) | Event::MappingStart(..)
                if builder.open.len() >= MAX_DEPTH =>
            {
                let text = format!("nested too deeply, allowed: {MAX_DEPTH} levels");
                builder.fault(&at, text);
                return None;
            }
            Event::SequenceStart(..) => {
                builder.open.push(Open::List {
                    line,
                    column,
                    items: Vec::new(),
                });
            }
            Event::MappingStart(..) => builder.open.push(Open::Map {
                line,
                column,
                entries: Vec::new(),
                names: HashSet::new(),
                key: None,
            }),
            Event::SequenceEnd | Event::MappingEnd => builder.close(),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
    }
    Some(builder.root.unwrap_or(Node {
        line: 1,
        column: 1,
        kind: Kind::Map(Vec::new()),
    }))
}

/// The tree while it grows.
struct Builder<'r> {
    open: Vec<Open>,
    root: Option<Node>,
    /// The last place of the text.
    end: (usize, usize),
    report: &'r mut Report,
}

impl Builder<'_> {
    /// Puts a whole node where it belongs: the root, an item, a key or a value.
    fn node(&mut self, mut node: Node) {
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { key: None, .. }) => self.key(node),
            Some(Open::Map { entries, key, .. }) => {
                let Some(Key { name, line, column }) = key.take() else {
                    return;
                };
                let Some(name) = name else { return };
                if is_nothing(&node) {
                    (node.line, node.column) = (line, column);
                }
                entries.push(Entry {
                    name,
                    line,
                    column,
                    value: node,
                });
            }
        }
    }

    /// Takes a node as the next key of the innermost mapping.
    fn key(&mut self, node: Node) {
        let (line, column) = (node.line, node.column);
        let refused = match node.kind {
            Kind::Scalar { text, quoted } if quoted || !text.is_empty() => {
                let Some(Open::Map { names, key, .. }) = self.open.last_mut() else {
                    return;
                };
                if names.insert(text.clone()) {
                    *key = Some(Key {
                        name: Some(text),
                        line,
                        column,
                    });
                    return;
                }
                let text = format!(
                    "found the key {} a second time, allowed: once",
                    named(&text)
                );
                Some(text)
            }
            Kind::Broken => None,
            _ => Some("found a key that is no word, allowed: words".to_owned()),
        };
        if let Some(text) = refused {
            let at = At {
                line,
                column,
                path: self.path(),
            };
            self.report.fault(&at, text);
        }
        if let Some(Open::Map { key, .. }) = self.open.last_mut() {
            *key = Some(Key {
                name: None,
                line,
                column,
            });
        }
    }

    /// Closes the innermost mapping or sequence.
    fn close(&mut self) {
        let node = match self.open.pop() {
            None => return,
            Some(Open::List {
                line,
                column,
                items,
            }) => Node {
                line,
                column,
                kind: Kind::List(items),
            },
            Some(Open::Map {
                line,
                column,
                entries,
                ..
            }) => Node {
                line,
                column,
                kind: Kind::Map(entries),
            },
        };
        self.node(node);
    }

    /// Line and column, both from 1. At the end of the text the parser counts lines that are not there.
    fn place(&self, marker: &Marker) -> (usize, usize) {
        (marker.line(), marker.col() + 1).min(self.end)
    }

    /// Notes a fault at the place that the parser is at.
    fn fault(&mut self, marker: &Marker, text: impl Into<String>) {
        let (line, column) = self.place(marker);
        let at = At {
            line,
            column,
            path: self.path(),
        };
        self.report.fault(&at, text);
    }

    /// The dotted path of what comes next.
    fn path(&self) -> String {
        if self.report.is_full() {
            return String::new();
        }
        let mut path = String::new();
        for open in &self.open {
            match open {
                Open::List { items, .. } => path.push_str(&format!("[{}]", items.len())),
                Open::Map {
                    key:
                        Some(Key {
                            name: Some(name), ..
                        }),
                    ..
                } => join(&mut path, name),
                Open::Map { .. } => {}
            }
        }
        path
    }
}

/// Appends a key to a dotted path. A key that is no plain word is quoted, so that it forges no path.
pub(crate) fn join(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.len() <= 64 && name.chars().all(plain) {
        path.push_str(name);
    } else {
        path.push_str(&named(name));
    }
}

/// Whether the node is an empty plain scalar.
fn is_nothing(node: &Node) -> bool {
    matches!(&node.kind, Kind::Scalar { text, quoted: false } if text.is_empty())
}

/// The place behind the last character, a line end at the very end not counted. Lines end as YAML has it
/// (YAML 1.2, section 5.4): with CR LF, LF or CR.
fn end(text: &str) -> (usize, usize) {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    let (mut line, mut column, mut before) = (1, 1, ' ');
    for c in text.chars() {
        match c {
            '\n' if before == '\r' => {}
            '\n' | '\r' => (line, column) = (line + 1, 1),
            _ => column += 1,
        }
        before = c;
    }
    (line, column)
}
