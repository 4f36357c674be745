//! Server-sent events (WHATWG HTML, section 9.2), both ways, sans-I/O.
//!
//! Two departures from the standard when reading, both towards refusing: bytes that are not UTF-8 are a fault, where
//! the standard replaces them (our data is JSON, and a replaced byte would be passed on as if it had been sent); and
//! an event has a greatest size.

use std::fmt;

/// Writes one event. `data` may hold anything: each of its lines goes out as a line of its own, so no line break in
/// it, CR and CRLF included, can end the event or begin a field. They are read back as LF. `name` is one of ours;
/// line breaks are left out of it, and no name, or an empty one, is the default, `message`.
pub fn event(out: &mut Vec<u8>, name: Option<&str>, data: &str) {
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        out.extend_from_slice(b"event: ");
        out.extend(name.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')));
        out.push(b'\n');
    }
    lines(out, b"data: ", data);
    out.push(b'\n');
}

/// Writes a comment, which readers skip. It keeps a quiet stream alive (section 9.2.7).
pub fn comment(out: &mut Vec<u8>, text: &str) {
    lines(out, b": ", text);
    out.push(b'\n');
}

/// Writes each line of `text` behind `prefix`. The blank at the prefix's end is the one that a reader takes off, so
/// that a line may begin with one.
fn lines(out: &mut Vec<u8>, prefix: &[u8], text: &str) {
    let mut rest = text;
    loop {
        let (line, behind) = match rest.find(['\r', '\n']) {
            Some(end) => {
                let (line, behind) = rest.split_at(end);
                let behind = behind
                    .strip_prefix("\r\n")
                    .or_else(|| behind.strip_prefix(['\r', '\n']));
                (line, behind)
            }
            None => (rest, None),
        };
        out.extend_from_slice(prefix);
        out.extend_from_slice(line.as_bytes());
        out.push(b'\n');
        match behind {
            Some(behind) => rest = behind,
            None => return,
        }
    }
}

/// One event as it was read. Debug shows sizes only.
#[derive(Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// The name; `None` is the default, `message`.
    pub name: Option<String>,
    /// The data; its lines are joined by LF.
    pub data: String,
    /// The last event id of the stream as of this event, wherever it was set; `None` while it is empty.
    pub id: Option<String>,
    /// The reconnection time in milliseconds, if a line since the event before set it.
    pub retry: Option<u64>,
}

impl fmt::Debug for SseEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SseEvent")
            .field("data_bytes", &self.data.len())
            .finish_non_exhaustive()
    }
}

/// Why a stream was refused: the fault of the peer that sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SseFault {
    /// A line is not UTF-8.
    NotUtf8,
    /// An event or a line is larger than allowed.
    TooLarge,
}

impl fmt::Display for SseFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotUtf8 => "the peer sent an event stream that is not utf-8",
            Self::TooLarge => "the peer sent an event that is too large",
        })
    }
}

impl std::error::Error for SseFault {}

/// Reads a stream of events. An event that no empty line ends is no event (section 9.2.6): just drop the reader.
pub struct SseReader {
    /// Most bytes of the line at hand and the data before it.
    event_bytes: usize,
    /// The line at hand, as far as it came.
    line: Vec<u8>,
    /// The last byte was a CR: an LF right behind it is the same line end.
    after_cr: bool,
    /// No line was read yet: the first one may begin with a byte order mark.
    first: bool,
    name: String,
    /// Each data line and an LF behind it.
    data: String,
    id: String,
    retry: Option<u64>,
    /// The line at hand is one of data whose beginning was taken out.
    taken: bool,
    refused: Option<SseFault>,
}

impl fmt::Debug for SseReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SseReader")
            .field("refused", &self.refused)
            .finish_non_exhaustive()
    }
}

impl SseReader {
    /// A reader at the start of a stream, of events of at most `event_bytes` bytes: the data, and the line being
    /// read with its field name.
    #[must_use]
    pub const fn new(event_bytes: usize) -> Self {
        Self {
            event_bytes,
            line: Vec::new(),
            after_cr: false,
            first: true,
            name: String::new(),
            data: String::new(),
            id: String::new(),
            retry: None,
            taken: false,
            refused: None,
        }
    }

    /// Bytes of data of the event at hand, as far as they came.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.data.len() + self.line.len()
    }

    /// Takes out what has come of the data of the event at hand, for an event that is too large to be held. What is
    /// left of it comes later, as a smaller event.
    ///
    /// # Errors
    /// [`SseFault::NotUtf8`], and the same one ever after.
    pub fn take_data(&mut self) -> Result<String, SseFault> {
        const MARK: &[u8] = "\u{feff}".as_bytes();
        let mut taken = std::mem::take(&mut self.data);
        // The LF behind the last line belongs to the data only when another line follows.
        let line_end = taken.pop();
        // Section 9.2.5: one byte order mark may stand before everything.
        if self.first && self.line.len() >= MARK.len() {
            self.first = false;
            if self.line.starts_with(MARK) {
                self.line.drain(..MARK.len());
            }
        }
        let begins = [&b"data: "[..], b"data:"]
            .into_iter()
            .find(|field| self.line.starts_with(field));
        let field = match (self.taken, begins) {
            (true, _) => 0,
            // A blank may still follow the colon.
            (false, Some(field)) if self.line.len() > b"data:".len() => field.len(),
            (false, _) => {
                self.data.extend(line_end);
                return Ok(taken);
            }
        };
        taken.extend(line_end);
        let value = self.line.get(field..).unwrap_or_default();
        let whole = match std::str::from_utf8(value) {
            Ok(value) => value,
            Err(error) if error.error_len().is_some() => {
                self.refused = Some(SseFault::NotUtf8);
                return Err(SseFault::NotUtf8);
            }
            Err(error) => {
                let (sound, _) = value.split_at(error.valid_up_to());
                std::str::from_utf8(sound).unwrap_or_default()
            }
        };
        taken.push_str(whole);
        let end = field + whole.len();
        self.line.drain(..end);
        self.taken = true;
        Ok(taken)
    }

    /// The last event id of the stream (section 9.2.6); it stays set for all later events. `None` while it is empty.
    #[must_use]
    pub fn last_event_id(&self) -> Option<&str> {
        Some(self.id.as_str()).filter(|id| !id.is_empty())
    }

    /// Reads `bytes`, which follow those of the call before, and gives each event that they complete to `sink`. The
    /// same bytes give the same events, however they are split.
    ///
    /// # Errors
    /// [`SseFault`], and the same one ever after. The events before the fault were given.
    pub fn feed(&mut self, bytes: &[u8], mut sink: impl FnMut(SseEvent)) -> Result<(), SseFault> {
        if let Some(fault) = self.refused {
            return Err(fault);
        }
        let read = self.read(bytes, &mut sink);
        self.refused = read.err();
        read
    }

    fn read(&mut self, bytes: &[u8], sink: &mut impl FnMut(SseEvent)) -> Result<(), SseFault> {
        let mut rest = bytes;
        while let Some(&next) = rest.first() {
            // Section 9.2.5: a line ends with CRLF, LF or CR.
            if std::mem::take(&mut self.after_cr) && next == b'\n' {
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let (part, behind) = rest.split_at(end.unwrap_or(rest.len()));
            if self.data.len() + self.line.len() + part.len() > self.event_bytes {
                return Err(SseFault::TooLarge);
            }
            let Some((&line_end, behind)) = behind.split_first() else {
                self.line.extend_from_slice(part);
                return Ok(());
            };
            self.after_cr = line_end == b'\r';
            rest = behind;
            if self.taken {
                self.taken = false;
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(part);
                let line = String::from_utf8(line).map_err(|_| SseFault::NotUtf8)?;
                self.data.push_str(&line);
                self.data.push('\n');
            } else if self.line.is_empty() {
                self.line(part, sink)?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(part);
                self.line(&line, sink)?;
            }
        }
        Ok(())
    }

    /// Reads one whole line (section 9.2.6).
    fn line(&mut self, line: &[u8], sink: &mut impl FnMut(SseEvent)) -> Result<(), SseFault> {
        let line = std::str::from_utf8(line).map_err(|_| SseFault::NotUtf8)?;
        // Section 9.2.5: one byte order mark may stand before everything.
        let line = if std::mem::take(&mut self.first) {
            line.strip_prefix('\u{feff}').unwrap_or(line)
        } else {
            line
        };
        if line.is_empty() {
            self.dispatch(sink);
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                self.data.push_str(value);
                self.data.push('\n');
            }
            "event" => value.clone_into(&mut self.name),
            // An id with a NUL is ignored.
            "id" if !value.contains('\0') => value.clone_into(&mut self.id),
            // Digits only; a number past 64 bits is no time to wait.
            "retry" if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.retry = value.parse().ok().or(self.retry);
            }
            // A comment, whose field is empty, or a field that does not exist.
            _ => {}
        }
        Ok(())
    }

    /// Gives the event, unless it has no data line: then its name is dropped with it.
    fn dispatch(&mut self, sink: &mut impl FnMut(SseEvent)) {
        let name = std::mem::take(&mut self.name);
        let mut data = std::mem::take(&mut self.data);
        // Each data line left an LF, so this is the case only without one.
        if data.pop().is_none() {
            return;
        }
        let name = Some(name).filter(|name| !name.is_empty());
        sink(SseEvent {
            name,
            data,
            id: self.last_event_id().map(str::to_owned),
            retry: self.retry.take(),
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const EVENT_BYTES: usize = 64;

    /// Reads at once, byte by byte and in two pieces, and insists on one answer.
    fn read(bytes: &[u8]) -> (Vec<SseEvent>, Result<(), SseFault>) {
        let feed = |pieces: &mut dyn Iterator<Item = &[u8]>| {
            let mut reader = SseReader::new(EVENT_BYTES);
            let mut events = Vec::new();
            let mut all = Ok(());
            for piece in pieces {
                all = reader.feed(piece, |event| events.push(event));
            }
            if all.is_err() {
                assert_eq!(
                    reader.feed(b"data: x\n\n", |_| panic!("read on")),
                    all,
                    "a fault stays"
                );
            }
            (events, all)
        };
        let whole = feed(&mut [bytes].into_iter());
        assert_eq!(
            feed(&mut bytes.chunks(1)),
            whole,
            "{:?}",
            String::from_utf8_lossy(bytes)
        );
        for at in 0..=bytes.len() {
            let (a, b) = bytes.split_at(at);
            assert_eq!(
                feed(&mut [a, b].into_iter()),
                whole,
                "{:?}",
                String::from_utf8_lossy(bytes)
            );
            // Cut short: no event that the whole does not have in the same place.
            let (events, _) = feed(&mut [a].into_iter());
            assert!(whole.0.starts_with(&events));
        }
        whole
    }

    #[test]
    fn a_large_event_can_be_taken_out_piece_by_piece() {
        let data = "é{\"a\": 1,\u{1f600}}".repeat(3);
        for line_end in ["\n", "\r\n", "\r"] {
            for (blank, lines) in [(" ", 1), ("", 1), (" ", 3)] {
                let line = format!("data:{blank}{data}{line_end}").repeat(lines);
                let expected = vec![data.as_str(); lines].join("\n");
                for begin in [": x\n", "", "\u{feff}", "event: e\n", "\n"] {
                    let begin = begin.replace('\n', line_end);
                    let bytes = format!("{begin}{line}{line_end}data: next{line_end}{line_end}");
                    for every in 1..bytes.len() {
                        let mut reader = SseReader::new(usize::MAX);
                        let mut taken = String::new();
                        let mut events = Vec::new();
                        for piece in bytes.as_bytes().chunks(every) {
                            reader.feed(piece, |event| events.push(event)).unwrap();
                            if events.is_empty() {
                                taken += &reader.take_data().unwrap();
                            }
                        }
                        assert_eq!(taken + &events[0].data, expected, "{bytes} by {every}");
                        assert_eq!(events[1].data, "next");
                    }
                }
            }
        }
        let mut reader = SseReader::new(100);
        reader.feed(b"\n\ndata: \xff", |_| {}).unwrap();
        assert_eq!(reader.take_data(), Err(SseFault::NotUtf8));
        assert_eq!(reader.feed(b"x", |_| {}), Err(SseFault::NotUtf8));
    }

    fn plain(data: &str) -> SseEvent {
        SseEvent {
            name: None,
            data: data.into(),
            id: None,
            retry: None,
        }
    }

    #[test]
    fn streams() {
        let named = |name: &str, data: &str| SseEvent {
            name: Some(name.into()),
            ..plain(data)
        };
        let with_id = |id: &str, data: &str| SseEvent {
            id: Some(id.into()),
            ..plain(data)
        };
        let retry = |retry: u64, data: &str| SseEvent {
            retry: Some(retry),
            ..plain(data)
        };
        let rows: &[(&[u8], Vec<SseEvent>)] = &[
            (b"", vec![]),
            (b"data: a\n\n", vec![plain("a")]),
            (b"data: a\n", vec![]),
            (b"data: a", vec![]),
            (b"data: a\r\n\r\n", vec![plain("a")]),
            (b"data: a\r\r", vec![plain("a")]),
            (b"data: a\r\n\r", vec![plain("a")]),
            (b"data: a\r\n\n", vec![plain("a")]),
            (b"data: a\n\r\n", vec![plain("a")]),
            (
                b"data: a\r\rdata: b\r\n\r\ndata: c\n\n",
                vec![plain("a"), plain("b"), plain("c")],
            ),
            (b"data: a\ndata: b\ndata\n\n", vec![plain("a\nb\n")]),
            (b"data:a\n\n", vec![plain("a")]),
            (b"data:  a\n\n", vec![plain(" a")]),
            (b"data:\ta\n\n", vec![plain("\ta")]),
            (b"data: a: b\n\n", vec![plain("a: b")]),
            // The examples of section 9.2.6.
            (b"data\n\ndata\ndata\n\ndata:", vec![plain(""), plain("\n")]),
            (
                b"data:test\n\ndata: test\n\n",
                vec![plain("test"), plain("test")],
            ),
            (b"\n\n\n", vec![]),
            (b": comment\n\n", vec![]),
            (b":\n:data: a\ndata: b\n:\n\n", vec![plain("b")]),
            (
                b"event: x\ndata: a\n\ndata: b\n\n",
                vec![named("x", "a"), plain("b")],
            ),
            (b"event: x\n\ndata: b\n\n", vec![plain("b")]),
            (b"event: x\nevent\ndata: b\n\n", vec![plain("b")]),
            (b"Data: a\nDATA: a\ndata : a\n data: a\n\n", vec![]),
            (b"unknown: a\ndata: b\n\n", vec![plain("b")]),
            (
                b"id: 1\ndata: a\n\ndata: b\n\n",
                vec![with_id("1", "a"), with_id("1", "b")],
            ),
            (b"id: 1\n\ndata: b\n\n", vec![with_id("1", "b")]),
            (
                b"id: 1\ndata: a\n\nid\ndata: b\n\n",
                vec![with_id("1", "a"), plain("b")],
            ),
            (b"id: 1\nid: 2\0\ndata: a\n\n", vec![with_id("1", "a")]),
            (
                b"retry: 10\ndata: a\n\ndata: b\n\n",
                vec![retry(10, "a"), plain("b")],
            ),
            (b"retry: 10\n\ndata: a\n\n", vec![retry(10, "a")]),
            (b"retry: +10\ndata: a\n\n", vec![plain("a")]),
            (b"retry: 1s\ndata: a\n\n", vec![plain("a")]),
            (
                b"retry: -1\nretry:\nretry:  1\ndata: a\n\n",
                vec![plain("a")],
            ),
            (
                b"retry: 5\nretry: 99999999999999999999\ndata: a\n\n",
                vec![retry(5, "a")],
            ),
            (b"\xef\xbb\xbfdata: a\n\n", vec![plain("a")]),
            (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", vec![]),
            (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", vec![plain("a")]),
            (b"\xef\xbb\xbf\ndata: a\n\n", vec![plain("a")]),
            (
                "data: \u{e9}\u{2028}\u{85}\n\n".as_bytes(),
                vec![plain("\u{e9}\u{2028}\u{85}")],
            ),
            (b"data: a\0\x0b\x0c\n\n", vec![plain("a\0\x0b\x0c")]),
        ];
        for (bytes, events) in rows {
            assert_eq!(
                read(bytes),
                (events.clone(), Ok(())),
                "{:?}",
                String::from_utf8_lossy(bytes)
            );
        }
    }

    #[test]
    fn refusals_keep_the_events_before_them() {
        let long = [b"data: a\n\ndata: ".to_vec(), b"b".repeat(EVENT_BYTES)].concat();
        let comment = [b"data: a\n\n:".to_vec(), b"b".repeat(EVENT_BYTES)].concat();
        let many = [b"data: a\n\n".to_vec(), b"data: b\n".repeat(30)].concat();
        let empty = [b"data: a\n\n".to_vec(), b"data\n".repeat(EVENT_BYTES)].concat();
        let rows: &[(&[u8], SseFault)] = &[
            (b"data: a\n\ndata: \xff\n\ndata: b\n\n", SseFault::NotUtf8),
            (b"data: a\n\n: \xc3\n", SseFault::NotUtf8),
            (&long, SseFault::TooLarge),
            (&comment, SseFault::TooLarge),
            (&many, SseFault::TooLarge),
            (&empty, SseFault::TooLarge),
        ];
        for (bytes, fault) in rows {
            assert_eq!(
                read(bytes),
                (vec![plain("a")], Err(*fault)),
                "{:?}",
                String::from_utf8_lossy(bytes)
            );
        }
        let exact = [
            b"data: ".to_vec(),
            b"b".repeat(EVENT_BYTES - 6),
            b"\n\n".to_vec(),
        ]
        .concat();
        assert_eq!(
            read(&exact),
            (vec![plain(&"b".repeat(EVENT_BYTES - 6))], Ok(()))
        );
    }

    #[test]
    fn no_data_breaks_the_framing() {
        let rows = [
            ("", "data: \n\n"),
            ("a", "data: a\n\n"),
            (" a", "data:  a\n\n"),
            ("a\nb", "data: a\ndata: b\n\n"),
            ("a\rb", "data: a\ndata: b\n\n"),
            ("a\r\nb", "data: a\ndata: b\n\n"),
            ("a\n\rb", "data: a\ndata: \ndata: b\n\n"),
            ("a\r\r\nb", "data: a\ndata: \ndata: b\n\n"),
            (
                "a\n\nevent: x\ndata: b\n\n",
                "data: a\ndata: \ndata: event: x\ndata: data: b\ndata: \ndata: \n\n",
            ),
            ("\r\n", "data: \ndata: \n\n"),
            ("\u{feff}a\u{2028}b", "data: \u{feff}a\u{2028}b\n\n"),
        ];
        for (data, expected) in rows {
            let mut wire = Vec::new();
            event(&mut wire, None, data);
            assert_eq!(
                String::from_utf8(wire.clone()).unwrap(),
                expected,
                "{data:?}"
            );
            let back = data.replace("\r\n", "\n").replace('\r', "\n");
            assert_eq!(read(&wire), (vec![plain(&back)], Ok(())), "{data:?}");
        }
    }

    #[test]
    fn names_and_comments_do_not_break_it_either() {
        let mut wire = Vec::new();
        comment(&mut wire, "a\ndata: b\r\n\r\ndata: c");
        event(&mut wire, Some("x\r\ndata: y\n"), "d");
        event(&mut wire, Some(""), "e");
        comment(&mut wire, "");
        let text = ": a\n: data: b\n: \n: data: c\n\nevent: xdata: y\ndata: d\n\ndata: e\n\n: \n\n";
        assert_eq!(String::from_utf8(wire.clone()).unwrap(), text);
        let named = SseEvent {
            name: Some("xdata: y".into()),
            ..plain("d")
        };
        let mut events = Vec::new();
        SseReader::new(EVENT_BYTES)
            .feed(&wire, |event| events.push(event))
            .unwrap();
        assert_eq!(events, [named, plain("e")]);
    }

    #[test]
    fn the_last_event_id_outlives_events_without_data() {
        let mut reader = SseReader::new(EVENT_BYTES);
        reader.feed(b"id: 7\n\n", |_| panic!("no data")).unwrap();
        assert_eq!(reader.last_event_id(), Some("7"));
    }
}
