//! Time: one wheel, one clock, and the futures that wait on it.
//!
//! Every timer of the process (polls, keepalives, deadlines, idle connections) sits in one [`Wheel`]. The wheel
//! reads no clock: it is told the time by a [`Clock`], which is either real, driven by one `async_io::Timer`, or
//! driven by hand, so that a window of 105 seconds is tested in microseconds.

mod clock;
mod deadline;
mod sleep;
pub mod wheel;

pub use clock::{Clock, Instant};
pub use deadline::Deadline;
pub use sleep::{Elapsed, Interval, Sleep};
pub use wheel::Wheel;
