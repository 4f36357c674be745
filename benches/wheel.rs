//! What a timer costs in the wheel and in `async_io::Timer`, measured side by side in one process.
//!
//! `cargo bench --bench wheel` takes about 15 s; `-- --quick` takes a second and leaves out a million timers.
//! `cargo test --benches` runs it as well, quickly.
//!
//! Three things are measured with n other timers live, in ns of wall time:
//! - random: cancel one of the n, picked at random, and insert another for a random time;
//! - at once: insert one and cancel it, a timeout that never fires;
//! - fire: step from one [`Wheel::next`] to the next until all n have fired, cascades included.
//!
//! The wheel is measured by itself. The crate's clock takes an uncontended lock for each operation besides, which made
//! 17.4 ns of the 13.0 of an insert and cancel at once in the same hour. An `async_io::Timer` is made, polled once with the same waker so that it enters the reactor, and dropped. Both get
//! their times ready made, so neither reads a clock. async-io's own thread works off the reactor's queue meanwhile
//! on another core; its time is not counted, which is in async-io's favour, unless it holds the lock.
//!
//! Rounds of the two take turns, and the table shows medians. There is no fire figure for async-io: its timers fire
//! as real time passes, on its own schedule, so the cost cannot be told from the waiting.

#![allow(clippy::print_stdout)] // A bench is there to print.

use std::cell::RefCell;
use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use countersign::time::Wheel;
use countersign::time::wheel::Key;

/// Times lie between these, in ms from the start: so late that none comes due while the bench runs.
const SOONEST: u64 = 600_000;
const LATEST: u64 = 1_800_000;

/// For the fire figure all timers come due within this, in ms: the longest window in which a person may answer.
const FIRE_WITHIN: u64 = 105_000;

/// How many times faster than async-io the wheel is meant to be.
struct Aim {
    live: usize,
    random: f64,
    at_once: f64,
}

/// 100,000 live timers is what 50,000 waiting calls hold: a deadline and a keepalive each.
const AIMS: [Aim; 1] = [Aim {
    live: 100_000,
    random: 7.0,
    at_once: 30.0,
}];

struct Plan {
    sizes: &'static [usize],
    rounds: usize,
    /// Operations in a round.
    operations: u64,
}

const FULL: Plan = Plan {
    sizes: &[1_000, 100_000, 1_000_000],
    rounds: 9,
    operations: 200_000,
};
const QUICK: Plan = Plan {
    sizes: &[1_000, 100_000],
    rounds: 3,
    operations: 20_000,
};

/// Xorshift64: both sides get the same numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn time(&mut self) -> u64 {
        SOONEST + self.below(LATEST - SOONEST)
    }
}

/// One of the two things compared: how to start a timer, where dropping it cancels it.
trait Timers {
    type Timer;
    /// Starts a timer for `at` ms after the start.
    fn start(&self, at: u64) -> Self::Timer;
    fn cancel(&self, timer: Self::Timer);
}

struct InWheel(RefCell<Wheel>);

impl Timers for InWheel {
    type Timer = Key;

    fn start(&self, at: u64) -> Key {
        let waker = Waker::noop().clone();
        self.0.borrow_mut().insert(at, waker)
    }

    fn cancel(&self, timer: Key) {
        let _waker = self.0.borrow_mut().cancel(timer);
    }
}

struct InReactor(Instant);

impl Timers for InReactor {
    type Timer = smol::Timer;

    fn start(&self, at: u64) -> smol::Timer {
        let mut timer = smol::Timer::at(self.0 + Duration::from_millis(at));
        let poll = Pin::new(&mut timer).poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll.is_pending(), "a timer came due while the bench ran");
        timer
    }

    fn cancel(&self, timer: smol::Timer) {
        drop(timer);
    }
}

/// A side with its n live timers and what was measured on it, ns an operation, a figure a round.
struct Side<T: Timers> {
    timers: T,
    live: Vec<T::Timer>,
    random: Vec<f64>,
    at_once: Vec<f64>,
}

impl<T: Timers> Side<T> {
    fn new(timers: T, live: usize) -> Self {
        let mut random = Random(1);
        let live = (0..live).map(|_| timers.start(random.time())).collect();
        Self {
            timers,
            live,
            random: Vec::new(),
            at_once: Vec::new(),
        }
    }

    fn round(&mut self, seed: u64, operations: u64) {
        let mut random = Random(seed);
        let begun = Instant::now();
        for _ in 0..operations {
            let index = random.below(self.live.len() as u64) as usize;
            let started = self.timers.start(random.time());
            self.timers
                .cancel(std::mem::replace(&mut self.live[index], started));
        }
        self.random.push(per_operation(begun, operations));

        let begun = Instant::now();
        for _ in 0..operations {
            let started = self.timers.start(random.time());
            self.timers.cancel(black_box(started));
        }
        self.at_once.push(per_operation(begun, operations));
    }
}

/// Fires `live` timers of a new wheel, tick by tick, and returns ns a timer.
fn fire(seed: u64, live: usize) -> f64 {
    let mut random = Random(seed);
    let mut wheel = Wheel::new(0);
    for _ in 0..live {
        wheel.insert(1 + random.below(FIRE_WITHIN), Waker::noop().clone());
    }
    let mut due = Vec::new();
    let mut fired = 0;
    let begun = Instant::now();
    while let Some(next) = wheel.next() {
        wheel.advance(next, &mut due);
        fired += due.len();
        due.drain(..).for_each(Waker::wake);
    }
    let each = per_operation(begun, live as u64);
    assert_eq!(fired, live);
    each
}

fn per_operation(begun: Instant, operations: u64) -> f64 {
    begun.elapsed().as_nanos() as f64 / operations as f64
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Prints one line of the table, with the least and the greatest round beside each median.
fn print(
    live: usize,
    what: &str,
    wheel: &mut [f64],
    reactor: Option<&mut [f64]>,
    aim: Option<f64>,
) {
    let ours = median(wheel);
    let spread = |figures: &[f64]| format!("{:.0}-{:.0}", figures[0], figures[figures.len() - 1]);
    let (theirs, range, ratio, aim) = match reactor {
        None => ("n/a".into(), String::new(), "n/a".into(), String::new()),
        Some(figures) => {
            let theirs = median(figures);
            let ratio = theirs / ours;
            let aim = aim.map_or(String::new(), |aim| {
                format!(
                    "{aim:.0}x: {}",
                    if ratio >= aim { "reached" } else { "missed" }
                )
            });
            (
                format!("{theirs:.0}"),
                spread(figures),
                format!("{ratio:.1}x"),
                aim,
            )
        }
    };
    println!(
        "{live:>9}  {what:<8} {ours:>7.1} {:>11} {theirs:>9} {range:>12} {ratio:>7}  {aim}",
        spread(wheel)
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    // cargo bench passes --bench; cargo test --benches does not.
    let given = |name: &str| arguments.iter().any(|argument| argument == name);
    let plan = if given("--bench") && !given("--quick") {
        &FULL
    } else {
        &QUICK
    };

    println!(
        "ns an operation, median of {} rounds of {} operations (least-greatest)",
        plan.rounds, plan.operations
    );
    println!("     live  what       wheel                async-io                ratio  aim");
    for &live in plan.sizes {
        let mut wheel = Side::new(InWheel(RefCell::new(Wheel::new(0))), live);
        let mut reactor = Side::new(InReactor(Instant::now()), live);
        let mut fired = Vec::new();
        for round in 0..plan.rounds as u64 {
            let seed = 1 + round;
            // Who goes first changes, so that neither always finds the caches as the other left them.
            if round % 2 == 0 {
                wheel.round(seed, plan.operations);
                reactor.round(seed, plan.operations);
            } else {
                reactor.round(seed, plan.operations);
                wheel.round(seed, plan.operations);
            }
            fired.push(fire(seed, live));
        }
        let aim = AIMS.iter().find(|aim| aim.live == live);
        print(
            live,
            "random",
            &mut wheel.random,
            Some(&mut reactor.random),
            aim.map(|aim| aim.random),
        );
        print(
            live,
            "at once",
            &mut wheel.at_once,
            Some(&mut reactor.at_once),
            aim.map(|aim| aim.at_once),
        );
        print(live, "fire", &mut fired, None, None);
    }
    println!("async-io fires as real time passes, on its own schedule: no comparable fire figure");
}
