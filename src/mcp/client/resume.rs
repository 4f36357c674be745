//! Streams of the legacy era that end before their answer, and go on where they ended.
//!
//! A server may close a stream whose events have ids at any time, and expects its client to come back for the rest by GET
//! (2025-11-25, "Sending Messages to the Server"). The request itself is never sent again.

use std::time::Duration;

use crate::http::sse::{SseEvent, SseReader};

/// How long to stay away where the server does not say.
const PAUSE: Duration = Duration::from_secs(1);

/// The least time to stay away, whatever the server says: it bounds how often we come back before the deadline.
const LEAST_PAUSE: Duration = Duration::from_millis(100);

/// The longest event id that is held and sent back, in bytes.
const ID_BYTES: usize = 1024;

/// How far a stream has come.
#[derive(Clone, Debug, Default)]
pub(super) struct SoFar {
    id: Option<String>,
    pause: Option<Duration>,
}

impl SoFar {
    /// Notes what was read last.
    pub(super) fn note(&mut self, reader: &SseReader, events: &[SseEvent]) {
        if let Some(id) = reader.last_event_id() {
            self.id = Some(id.to_owned());
        }
        if let Some(millis) = events.iter().rev().find_map(|event| event.retry) {
            self.pause = Some(Duration::from_millis(millis));
        }
    }

    /// Behind which event to go on, and after what time; `None` for a stream that cannot go on.
    pub(super) fn next(&self) -> Option<(&str, Duration)> {
        let id = self.id.as_deref().filter(|id| id.len() <= ID_BYTES)?;
        Some((id, self.pause()))
    }

    /// How long to stay away once it has ended.
    pub(super) fn pause(&self) -> Duration {
        self.pause.unwrap_or(PAUSE).max(LEAST_PAUSE)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_goes_on_behind_its_last_id_and_not_too_soon() {
        let long = format!("id: {}\ndata: x\n\n", "x".repeat(ID_BYTES + 1));
        for (text, next) in [
            ("data: x\n\n", None),
            ("id: 1\nid\ndata: x\n\n", None),
            ("id: 1\ndata: x\n\ndata: y\n\n", Some(("1", PAUSE))),
            ("id: 1\nretry: 500\n\n", Some(("1", PAUSE))),
            (
                "id: 1\nretry: 500\ndata:\n\nid: 2\ndata: x\n\n",
                Some(("2", Duration::from_millis(500))),
            ),
            ("id: 1\nretry: 0\ndata: x\n\n", Some(("1", LEAST_PAUSE))),
            (&long, None),
        ] {
            let mut reader = SseReader::new(4096);
            let mut events = Vec::new();
            reader
                .feed(text.as_bytes(), |event| events.push(event))
                .unwrap();
            let mut so_far = SoFar::default();
            so_far.note(&reader, &events);
            assert_eq!(so_far.next(), next, "{text}");
        }
    }
}
