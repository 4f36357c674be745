//! "waiting for a person: 42 s of 105 s": what a call shows while it waits.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use super::output;
use crate::mcp::client::News;
use crate::time::{Clock, Instant};

/// Between two lines where nobody watches.
const LINE_EVERY: Duration = Duration::from_secs(15);

/// Shows progress of one call.
pub(super) struct Waiting {
    clock: Clock,
    begun: Instant,
    /// How long there is, if that is known.
    total: Mutex<Option<f64>>,
}

impl Waiting {
    pub(super) fn new(clock: Clock, total: Option<Duration>) -> Self {
        let begun = clock.now();
        Self {
            clock,
            begun,
            total: Mutex::new(total.map(|total| total.as_secs_f64())),
        }
    }

    /// Takes in what the server told.
    pub(super) fn heard(&self, news: &News<'_>) {
        let News::Progress(progress) = news else {
            return;
        };
        if progress.total.is_some() {
            *self.total.lock().unwrap_or_else(PoisonError::into_inner) = progress.total;
        }
    }

    fn line(&self) -> String {
        let waited = self.clock.now().since(self.begun).as_secs();
        match *self.total.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(total) => format!("waiting for a person: {waited} s of {total} s"),
            None => format!("waiting: {waited} s"),
        }
    }

    /// Awaits `call` and says each second, or now and then where nobody watches, that it still waits.
    pub(super) async fn show<T>(&self, call: impl Future<Output = T>) -> T {
        let every = if output::is_terminal() {
            Duration::from_secs(1)
        } else {
            LINE_EVERY
        };
        let mut ticks = self.clock.interval(every);
        let mut call = pin!(call);
        loop {
            let mut tick = pin!(ticks.tick());
            let done = poll_fn(|cx| {
                if let Poll::Ready(done) = call.as_mut().poll(cx) {
                    return Poll::Ready(Some(done));
                }
                tick.as_mut().poll(cx).map(|()| None)
            })
            .await;
            match done {
                Some(done) => {
                    output::rewrite("");
                    return done;
                }
                None if output::is_terminal() => output::rewrite(&self.line()),
                None => output::note(&self.line()),
            }
        }
    }
}
