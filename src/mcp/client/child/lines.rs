//! Lines of a child: cut out of its bytes, and those for people put into the log.

use std::collections::VecDeque;
use std::time::Duration;

use log::Level;

use crate::text;
use crate::time::Instant;

/// Characters of one line that are logged: a person reads no more, and a log is read by the line.
const SHOWN_CHARACTERS: usize = 1_000;

/// Bytes that hold so many characters, whatever they are.
pub(super) const SHOWN_BYTES: usize = 4 * SHOWN_CHARACTERS;

/// Lines logged in a second: beyond that a child floods the log of everyone else.
const LINES_A_SECOND: u32 = 20;

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) bytes: Vec<u8>,
    /// Whether that is all of it: of one that is too long only the beginning is here, and the rest never comes.
    pub(super) whole: bool,
}

/// Cuts bytes into lines of at most `limit` bytes. Empty lines are left out.
pub(super) struct Lines {
    limit: usize,
    begun: Vec<u8>,
    /// Within the rest of a line that was too long.
    skipping: bool,
    ready: VecDeque<Line>,
}

impl Lines {
    pub(super) const fn new(limit: usize) -> Self {
        Self {
            limit,
            begun: Vec::new(),
            skipping: false,
            ready: VecDeque::new(),
        }
    }

    /// Takes the next bytes, cut wherever the pipe cut them.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (piece, ends) = match piece.strip_suffix(b"\n") {
                Some(piece) => (piece, true),
                None => (piece, false),
            };
            if !self.skipping {
                self.add(piece);
            }
            if ends {
                self.end();
            }
        }
    }

    fn add(&mut self, piece: &[u8]) {
        let room = self.limit - self.begun.len();
        let taken = piece.get(..room).unwrap_or(piece);
        self.begun.extend_from_slice(taken);
        if taken.len() < piece.len() {
            self.skipping = true;
            let bytes = std::mem::take(&mut self.begun);
            self.ready.push_back(Line {
                bytes,
                whole: false,
            });
        }
    }

    /// Ends the line at hand, as the end of the pipe does.
    pub(super) fn end(&mut self) {
        let bytes = std::mem::take(&mut self.begun);
        let skipped = std::mem::take(&mut self.skipping);
        if !skipped && !bytes.trim_ascii().is_empty() {
            self.ready.push_back(Line { bytes, whole: true });
        }
    }

    /// The oldest line that was not taken yet.
    pub(super) fn next(&mut self) -> Option<Line> {
        self.ready.pop_front()
    }
}

/// Puts lines into the log under a server's name, no more of them than a person could follow.
pub(super) struct Journal {
    label: String,
    /// The second that is counted.
    since: Instant,
    told: u32,
    left_out: u64,
}

impl Journal {
    pub(super) fn new(label: &str) -> Self {
        Self {
            label: label.to_owned(),
            since: Instant::from_ms(0),
            told: 0,
            left_out: 0,
        }
    }

    /// Logs one line, or counts it.
    pub(super) fn note(&mut self, now: Instant, level: Level, bytes: &[u8]) {
        if now.since(self.since) >= Duration::from_secs(1) {
            self.close();
            self.since = now;
        }
        if self.told == LINES_A_SECOND {
            self.left_out += 1;
            return;
        }
        self.told += 1;
        log::log!(level, "[{}] {}", self.label, shown(bytes));
    }

    /// When it has to be said how many lines were left out, though no other comes.
    pub(super) fn due(&self) -> Option<Instant> {
        (self.left_out > 0).then(|| self.since.after(Duration::from_secs(1)))
    }

    /// Says how many lines were left out, and begins anew.
    pub(super) fn close(&mut self) {
        if self.left_out > 0 {
            log::info!(
                "[{}] {} lines more were left out",
                self.label,
                self.left_out
            );
        }
        self.told = 0;
        self.left_out = 0;
    }
}

/// A line as it may stand in the log.
fn shown(bytes: &[u8]) -> String {
    let line = String::from_utf8_lossy(bytes);
    let line = line.trim_end();
    match line.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => text::printable(line.get(..end).unwrap_or_default()) + " …",
        None => text::printable(line),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn cut(limit: usize, pieces: &[&[u8]]) -> Vec<(String, bool)> {
        let mut lines = Lines::new(limit);
        let mut got = Vec::new();
        let mut take = |lines: &mut Lines| {
            while let Some(line) = lines.next() {
                got.push((
                    String::from_utf8_lossy(&line.bytes).into_owned(),
                    line.whole,
                ));
            }
        };
        for piece in pieces {
            lines.feed(piece);
            take(&mut lines);
        }
        lines.end();
        take(&mut lines);
        got
    }

    fn whole(lines: &[&str]) -> Vec<(String, bool)> {
        lines
            .iter()
            .map(|line| ((*line).to_owned(), true))
            .collect()
    }

    #[test]
    fn lines_are_the_same_wherever_the_pipe_cuts() {
        let text = "{\"a\":\"ü€😀\"}\n\n \r\nb\n\nlast".as_bytes();
        let expected = whole(&["{\"a\":\"ü€😀\"}", "b", "last"]);
        for at in 0..text.len() {
            let (one, two) = text.split_at(at);
            assert_eq!(cut(100, &[one, two]), expected, "{at}");
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(cut(100, &bytes), expected);
    }

    #[test]
    fn the_limit_is_exact_and_what_follows_is_whole_again() {
        for (text, expected) in [
            ("1234\nx\n", vec![("1234", true), ("x", true)]),
            ("12345\nx\n", vec![("1234", false), ("x", true)]),
            ("123456789012\n\nx", vec![("1234", false), ("x", true)]),
            ("12345", vec![("1234", false)]),
        ] {
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(line, whole)| (line.to_owned(), whole))
                .collect();
            assert_eq!(cut(4, &[text.as_bytes()]), expected, "{text}");
            let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            assert_eq!(cut(4, &bytes), expected, "{text}");
        }
    }

    #[test]
    fn an_endless_line_holds_no_more_than_its_limit() {
        let mut lines = Lines::new(1000);
        for _ in 0..1000 {
            lines.feed(&[b'x'; 700]);
        }
        assert_eq!(lines.next().unwrap().bytes.len(), 1000);
        assert!(lines.next().is_none() && lines.begun.capacity() <= 2000);
    }

    #[test]
    fn a_line_for_the_log_is_one_line_of_bounded_length() {
        assert_eq!(shown(b"plain \"text\"\r"), "plain \"text\"");
        assert_eq!(shown(b"a\x1b[31m\xff"), "a\u{fffd}[31m\u{fffd}");
        let long = "😀".repeat(SHOWN_CHARACTERS + 1);
        let cut = shown(long.as_bytes().get(..SHOWN_BYTES + 2).unwrap());
        assert_eq!(cut.chars().count(), SHOWN_CHARACTERS + 2);
        assert_eq!(shown("€".repeat(1000).as_bytes()).chars().count(), 1000);
    }

    #[test]
    fn a_flood_is_counted_and_the_count_is_due_in_a_second() {
        let mut journal = Journal::new("one");
        let at = Instant::from_ms;
        for _ in 0..25 {
            journal.note(at(5_000), Level::Info, b"x");
        }
        assert_eq!((journal.told, journal.left_out), (20, 5));
        assert_eq!(journal.due(), Some(at(6_000)));
        journal.note(at(6_000), Level::Info, b"x");
        assert_eq!((journal.told, journal.left_out), (1, 0));
        assert_eq!(journal.due(), None);
    }
}
