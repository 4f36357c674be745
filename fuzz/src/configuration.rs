//! Configuration files.

use countersign::config::{Config, Fault, Lookup, MAX_FAULTS, Warning};
use countersign::secret::Secret;

use crate::choice::is_one_in;

/// The file's name in messages.
const FILE: &str = "fuzz.yaml";

/// One in so many inputs is read twice: reading is all that costs time here, and what would differ is the order of
/// something, which many inputs show.
const READ_TWICE: usize = 8;

/// A process in which nothing is set.
struct Nothing;

impl Lookup for Nothing {
    fn variable(&self, _: &str) -> Option<Secret> {
        None
    }

    fn file(&self, _: &std::path::Path) -> Option<Secret> {
        None
    }
}

/// Any text as a configuration file:
///
/// - it is read, or refused with at least one fault, and not with more than are allowed;
/// - each fault names the file and a place that exists, in their order, on one line without control characters;
/// - read twice, it says the same;
/// - of what was read, each server is found by its slug, and what is unset is told without a look outside.
pub fn configuration(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let read = Config::parse(FILE, text);
    if is_one_in(READ_TWICE, input) {
        reads_the_same(&read, &Config::parse(FILE, text));
    }
    let faults = match read {
        Ok((config, warnings)) => {
            for server in &config.servers {
                let found = config.server(server.slug.as_str()).expect("the server");
                assert!(std::ptr::eq(found, server), "two servers of one slug");
            }
            for warning in warnings.into_iter().chain(config.unset(&Nothing)) {
                on_one_line(&warning.to_string());
            }
            for notice in &config.notices {
                on_one_line(&notice.to_string());
            }
            for fault in config.start_faults() {
                on_one_line(&fault.to_string());
            }
            return;
        }
        Err(faults) => faults,
    };
    assert!(!faults.is_empty(), "refused without a word");
    assert!(faults.len() <= MAX_FAULTS + 1, "{} faults", faults.len());
    // The last one may count those that are not shown.
    let shown = &faults[..faults.len().min(MAX_FAULTS)];
    assert!(
        shown.is_sorted_by_key(|fault| (fault.at.line, fault.at.column)),
        "out of order"
    );
    // YAML ends a line with LF, CR or CRLF.
    let lines = text
        .bytes()
        .filter(|byte| matches!(byte, b'\r' | b'\n'))
        .count()
        + 1;
    for fault in &faults {
        in_place(fault, lines);
    }
}

/// What a text is read as.
type Reading = Result<(Config, Vec<Warning>), Vec<Fault>>;

fn reads_the_same(once: &Reading, again: &Reading) {
    match (once, again) {
        (Err(faults), Err(again)) => assert_eq!(faults, again),
        (Ok((config, warnings)), Ok((again, same_warnings))) => {
            assert_eq!(format!("{config:?}"), format!("{again:?}"));
            assert_eq!(warnings, same_warnings);
        }
        _ => panic!("read and refused"),
    }
}

/// A fault names the file, what is wrong, and a place in it; one of the file as a whole has none.
fn in_place(fault: &Fault, lines: usize) {
    assert_eq!(fault.file, FILE);
    assert!(!fault.text.is_empty());
    let said = fault.to_string();
    on_one_line(&said);
    let at = &fault.at;
    if at.line == 0 {
        assert_eq!(at.column, 0, "{said}");
        return;
    }
    assert!(at.line <= lines, "{said}: there are {lines} lines");
    assert!(at.column > 0, "{said}");
    assert!(said.starts_with(&format!("{FILE}:{}:{}:", at.line, at.column)));
}

fn on_one_line(said: &str) {
    assert!(!said.contains(char::is_control), "{said:?}");
    assert!(said.len() < 2_000, "{} bytes: {said:?}", said.len());
}
