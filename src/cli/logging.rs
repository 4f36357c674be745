//! The log: one line a record, to standard error.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use log::{LevelFilter, Log, Metadata, Record};

use crate::approval::wire::rfc3339_utc_ms;
use crate::config::LogFormat;
use crate::json::quote;
use crate::text::printable;

struct Sink {
    format: LogFormat,
}

/// Starts logging. A second start changes nothing.
pub(super) fn start(level: LevelFilter, format: LogFormat) {
    if log::set_boxed_logger(Box::new(Sink { format })).is_ok() {
        log::set_max_level(level);
    }
}

impl Log for Sink {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Other crates' records at trace say what they read and write; only ours are known to hold no credential.
        metadata.target().starts_with("countersign")
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |now| now.as_millis());
        let time = rfc3339_utc_ms(u64::try_from(now).unwrap_or(u64::MAX));
        let message = record.args().to_string();
        let line = match self.format {
            LogFormat::Json => format!(
                r#"{{"time":"{time}","level":"{}","target":{},"message":{}}}"#,
                record.level().as_str().to_ascii_lowercase(),
                quote(record.target()),
                quote(&message),
            ),
            LogFormat::Text => format!("{time} {:5} {}", record.level(), printable(&message)),
        };
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    }

    fn flush(&self) {}
}
