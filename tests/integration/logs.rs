//! Everything that is logged at any level, by us and by every crate below us, while the tests run.

use std::sync::{Mutex, Once};

static LINES: Mutex<String> = Mutex::new(String::new());

struct Capture;

impl log::Log for Capture {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = format!("{} {} {}\n", record.level(), record.target(), record.args());
        LINES
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .push_str(&line);
    }

    fn flush(&self) {}
}

/// Starts capturing, once.
pub fn capture() {
    static START: Once = Once::new();
    START.call_once(|| {
        log::set_logger(&Capture).unwrap();
        log::set_max_level(log::LevelFilter::Trace);
    });
}

/// What was logged so far.
pub fn so_far() -> String {
    LINES
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .clone()
}
