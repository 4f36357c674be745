//! Writing to the two outputs. A reader that went away is no error of ours.

use std::io::{IsTerminal, Write};

/// A line of the result, to standard output.
pub(super) fn result(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// A line for the person, to standard error.
pub(super) fn note(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Rewrites the last line of a terminal; nothing elsewhere.
pub(super) fn rewrite(line: &str) {
    if is_terminal() {
        let _ = write!(std::io::stderr().lock(), "\r\x1b[K{line}");
        let _ = std::io::stderr().flush();
    }
}

/// Whether a person reads standard error.
pub(super) fn is_terminal() -> bool {
    std::io::stderr().is_terminal()
}
