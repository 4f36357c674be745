//! How much is taken, how long things take, what is logged, who is trusted.

use std::path::PathBuf;

use super::reader::Place;
use super::values;

/// How much is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one request's body.
    pub body_bytes: usize,
    /// Bytes of the bodies of all requests together; beyond it 503.
    pub buffered_bytes: usize,
    /// Bytes of one request's head.
    pub head_bytes: usize,
    /// Headers of one request.
    pub headers: usize,
    /// Connections open at once.
    pub connections: usize,
    /// Calls of one token at once.
    pub calls_per_token: usize,
    /// Questions open on one channel.
    pub questions_per_channel: usize,
    /// Questions open of one token.
    pub questions_per_token: usize,
    /// Declines of one tool by one token within 10 minutes, after which it is refused unasked.
    pub declines: usize,
    /// Bytes of one child's output that are kept.
    pub child_output_bytes: usize,
}

/// How long things take, in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Between two polls for an answer.
    pub poll_ms: u64,
    /// Between two signs of life on a waiting call.
    pub keepalive_ms: u64,
    /// For a request's head to arrive.
    pub head_ms: u64,
    /// For a request's body to arrive.
    pub body_ms: u64,
    /// That a connection without a request stays open.
    pub idle_ms: u64,
    /// For waiting calls to end once SIGTERM came.
    pub drain_ms: u64,
}

/// Whom calls over https trust.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// PEM file of authorities besides the built-in ones.
    pub ca_file: Option<PathBuf>,
}

/// What is logged, to stderr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// The least important line that is written.
    pub level: log::LevelFilter,
    /// How a line is written.
    pub format: LogFormat,
}

/// How a line of the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// Words.
    Text,
}

impl Limits {
    pub(super) fn read(section: &Place<'_>, report: &mut super::fault::Report) -> Limits {
        // Every bound of a row fits 64 bits; where an address does not have as many, the largest it has.
        let number = |name| usize::try_from(section.whole(name)).unwrap_or(usize::MAX);
        let limits = Limits {
            body_bytes: number("bodyBytes"),
            buffered_bytes: number("bufferedBytes"),
            head_bytes: number("headBytes"),
            headers: number("headers"),
            connections: number("connections"),
            calls_per_token: number("callsPerToken"),
            questions_per_channel: number("questionsPerChannel"),
            questions_per_token: number("questionsPerToken"),
            declines: number("declines"),
            child_output_bytes: number("childOutputBytes"),
        };
        if limits.buffered_bytes < limits.body_bytes {
            let place = section
                .get("bufferedBytes")
                .or_else(|| section.get("bodyBytes"));
            let text = format!(
                "found {} bytes for all bodies and {} for one, allowed: at least one body",
                limits.buffered_bytes, limits.body_bytes
            );
            place.as_ref().unwrap_or(section).fault(report, text);
        }
        limits
    }
}

impl Timing {
    pub(super) fn read(section: &Place<'_>) -> Timing {
        Timing {
            poll_ms: section.whole("pollMs"),
            keepalive_ms: section.whole("keepaliveMs"),
            head_ms: section.whole("headMs"),
            body_ms: section.whole("bodyMs"),
            idle_ms: section.whole("idleMs"),
            drain_ms: section.whole("drainMs"),
        }
    }
}

impl Trust {
    pub(super) fn read(section: &Place<'_>, report: &mut super::fault::Report) -> Trust {
        Trust {
            ca_file: values::file(section, "caFile", report),
        }
    }
}

impl Log {
    pub(super) fn read(section: &Place<'_>) -> Log {
        Log {
            level: match section.word("level") {
                "error" => log::LevelFilter::Error,
                "warn" => log::LevelFilter::Warn,
                "debug" => log::LevelFilter::Debug,
                "trace" => log::LevelFilter::Trace,
                _ => log::LevelFilter::Info,
            },
            format: match section.word("format") {
                "text" => LogFormat::Text,
                _ => LogFormat::Json,
            },
        }
    }
}
