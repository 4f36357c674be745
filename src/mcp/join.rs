//! Several futures as one.

use std::future::{Future, poll_fn};
use std::task::Poll;

/// Awaits all of them at once, in one future: a slow one holds up none of the others. Dropping it drops them all.
pub async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut slots: Vec<_> = futures
        .into_iter()
        .map(|future| (Some(Box::pin(future)), None))
        .collect();
    poll_fn(|cx| {
        for (future, output) in &mut slots {
            if let Some(running) = future
                && let Poll::Ready(done) = running.as_mut().poll(cx)
            {
                *output = Some(done);
                *future = None;
            }
        }
        match slots.iter().all(|(future, _)| future.is_none()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    slots.into_iter().filter_map(|(_, output)| output).collect()
}
