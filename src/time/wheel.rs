//! A hierarchical timer wheel that does no I/O and reads no clock: it is told the time.
//!
//! Time is a `u64` count of ticks; this crate's tick is 1 ms. There are 6 levels of 64 slots. A slot of level 0 is
//! one tick, and a slot of any other level is as long as the whole level below it. A timer is filed by the highest
//! bit in which its tick differs from the present one, so the slot never has to be searched for, and inserting and
//! cancelling touch a fixed number of words. When time reaches a slot above level 0 its timers are filed again,
//! lower down (a *cascade*), at most 5 times in the life of a timer. One bit a slot says whether it is occupied, so
//! time jumps from one occupied slot to the next and never walks through empty ticks.
//!
//! The levels span 2^36 ticks (2.2 years in ms), called an *era*. A timer in a later era waits in one unsorted list,
//! which is looked at only when time enters another era.
//!
//! **Never early.** A timer fires at the first [`Wheel::advance`] to its tick or later, never before. Ticks are
//! whole numbers, so whoever turns a clock into ticks rounds a deadline up and the present down.
//!
//! **Memory.** 40 bytes a timer on a 64-bit machine (32 for the timer, 8 for its links), in two vectors that grow
//! by doubling to the greatest number of timers that were live at once and do not shrink, and 1.6 KB for the wheel.
//! Links are kept apart from the timers because cancelling reads the neighbours' links and nothing else of them:
//! with a million timers each of those reads is a cache miss, and eight links share a cache line.

use std::fmt;
use std::mem;
use std::num::NonZero;
use std::task::Waker;

/// Levels above one another; with 64 slots each they span an era.
const LEVELS: usize = 6;

/// Slots in a level: one `u64` of occupancy bits.
const SLOTS: usize = 64;

/// Bits of a tick that pick the slot in one level.
const SLOT_BITS: u32 = SLOTS.ilog2();

/// Bits of a tick that the levels cover together. Two ticks that agree above them are of one era.
const ERA_BITS: u32 = SLOT_BITS * LEVELS as u32;

/// The list of timers whose tick had come when they were inserted. Lists before it are the slots, level by level.
const DUE: usize = LEVELS * SLOTS;

/// The list of timers of later eras.
const FAR: usize = DUE + 1;

/// All lists: the slots and the two above.
const LISTS: usize = FAR + 1;

/// The index that stands for no timer.
const NONE: u32 = u32::MAX;

/// Which of a timer's two links leads to the timer before it in its list, and which to the one after it.
const BEFORE: usize = 0;
const AFTER: usize = 1;

/// Names one timer of one [`Wheel`], for as long as that timer is live and never again.
///
/// 8 bytes, as `Option<Key>` too. A key means nothing to another wheel: there it may name a timer of someone else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    index: u32,
    generation: NonZero<u32>,
}

/// The key's timer has fired or was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotLive;

impl fmt::Display for NotLive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the timer has fired or was cancelled")
    }
}

impl std::error::Error for NotLive {}

/// Timers and the wakers to wake when they come due. See the [module](self) for how it works and what it costs.
///
/// No method wakes or drops a [`Waker`] that it was given: all are handed back, so that a wheel behind a lock can be
/// used without running foreign code under that lock. (Dropping the wheel drops the wakers still in it, and
/// [`rewake`](Self::rewake) clones one.)
pub struct Wheel {
    /// The tick up to which time has been told. Every timer filed in a slot is later than this.
    now: u64,
    /// One bit for each list that is not empty, a word a level; the last word holds `DUE` and `FAR`.
    occupied: [u64; LEVELS + 1],
    /// First timer of each list.
    heads: [u32; LISTS],
    /// Neighbours of each timer in its list. A free entry's `AFTER` leads to the next free one.
    links: Vec<[u32; 2]>,
    /// The timers; same index as `links`.
    timers: Vec<Timer>,
    /// First free entry.
    free: u32,
    /// How many timers are live.
    live: usize,
    /// No timer in `FAR` has an earlier tick. Cancelling does not raise it.
    far_earliest: u64,
}

/// One entry: a live timer, or a free entry that waits for the next.
struct Timer {
    at: u64,
    /// `None` when the entry is free.
    waker: Option<Waker>,
    /// Counts the timers that this entry has held, so that an old key does not name the present one.
    generation: NonZero<u32>,
    /// The list it is filed in.
    list: u16,
}

impl Wheel {
    /// An empty wheel at tick `now`. Allocates nothing until the first insert.
    #[must_use]
    pub const fn new(now: u64) -> Self {
        Self {
            now,
            occupied: [0; LEVELS + 1],
            heads: [NONE; LISTS],
            links: Vec::new(),
            timers: Vec::new(),
            free: NONE,
            live: 0,
            far_earliest: u64::MAX,
        }
    }

    /// Adds a timer that fires at the first [`advance`](Self::advance) to tick `at` or later. One whose tick has
    /// come already fires at the next advance, even at one that does not move time.
    ///
    /// O(1), amortised over the growth of the slab.
    ///
    /// # Panics
    /// With 2^32 - 1 entries in use, which takes 160 GiB of memory.
    pub fn insert(&mut self, at: u64, waker: Waker) -> Key {
        let index = self.free;
        let key = if let Some(timer) = self.timers.get_mut(index as usize) {
            self.free = self.links[index as usize][AFTER];
            timer.at = at;
            timer.waker = Some(waker);
            Key {
                index,
                generation: timer.generation,
            }
        } else {
            assert!(
                self.timers.len() < NONE as usize,
                "a wheel holds at most 2^32 - 1 timers"
            );
            let key = Key {
                index: self.timers.len() as u32,
                generation: NonZero::<u32>::MIN,
            };
            self.timers.push(Timer {
                at,
                waker: Some(waker),
                generation: key.generation,
                list: 0,
            });
            self.links.push([NONE, NONE]);
            key
        };
        self.live += 1;
        self.file(key.index);
        key
    }

    /// Changes who is woken by a live timer. Returns the waker that was replaced, to be dropped outside any lock, or
    /// `Ok(None)` when the timer had a waker for the same task, which stays. O(1).
    ///
    /// # Errors
    /// [`NotLive`] when there is no such timer any more; nothing has changed then.
    pub fn rewake(&mut self, key: Key, waker: &Waker) -> Result<Option<Waker>, NotLive> {
        let timer = self.timers.get_mut(key.index as usize).ok_or(NotLive)?;
        if timer.generation != key.generation {
            return Err(NotLive);
        }
        match &mut timer.waker {
            None => Err(NotLive),
            Some(present) if present.will_wake(waker) => Ok(None),
            Some(present) => Ok(Some(mem::replace(present, waker.clone()))),
        }
    }

    /// Takes a timer out. Returns its waker, to be dropped outside any lock, or `None` when it had fired or was
    /// cancelled before. O(1): four cache lines besides the wheel's own, whatever the number of timers.
    pub fn cancel(&mut self, key: Key) -> Option<Waker> {
        let timer = self.timers.get(key.index as usize)?;
        if timer.generation != key.generation || timer.waker.is_none() {
            return None;
        }
        self.unfile(key.index);
        self.release(key.index)
    }

    /// The tick to advance to next, or `None` when no timer is live. O(1).
    ///
    /// No timer comes due before this tick, but none need come due at it either: it may be the tick of a cascade, or
    /// that of a far timer since cancelled. It is exact for a timer in the present block of 64 ticks, and advancing
    /// to it always makes it exact or brings it nearer. A timer adds at most 5 advances in which nothing fires, a far
    /// timer one more. It is never before the tick last told, and equal to it only when a timer is overdue.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        if self.heads[DUE] != NONE {
            return Some(self.now);
        }
        if let Some((_, start)) = self.earliest_slot() {
            return Some(start);
        }
        (self.heads[FAR] != NONE).then_some(self.far_earliest)
    }

    /// Tells the wheel that it is tick `to`, and appends to `due` the wakers of all timers that have come due. They
    /// are no longer live. Wake them after any lock around the wheel is released: a wake can drop a task, and so
    /// cancel a timer.
    ///
    /// Wakers come in the order of their ticks; those of one tick in no particular order. Time does not run
    /// backwards: a `to` before the present tick counts as the present tick.
    ///
    /// O(1) for each timer fired or cascaded, however far the jump. Entering another era also looks once at each
    /// timer of a later era, and sorts those that are due.
    pub fn advance(&mut self, to: u64, due: &mut Vec<Waker>) {
        self.empty(DUE, due);
        while let Some((list, start)) = self.earliest_slot()
            && start <= to
        {
            self.now = start;
            self.empty(list, due);
        }
        if to <= self.now {
            return;
        }
        if era(to) == era(self.now) {
            self.now = to;
        } else {
            self.enter_era(to, due);
        }
    }

    /// How many timers are live. O(1).
    #[must_use]
    pub const fn len(&self) -> usize {
        self.live
    }

    /// Whether no timer is live. O(1).
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// The earliest occupied slot and its first tick, which lies after the present one.
    ///
    /// A level holds only slots after the present one within the present slot of the level above. So the lowest
    /// occupied level comes first, and in it the lowest bit.
    fn earliest_slot(&self) -> Option<(usize, u64)> {
        let level = self.occupied[..LEVELS].iter().position(|&bits| bits != 0)?;
        let slot = self.occupied[level].trailing_zeros() as usize;
        let shift = SLOT_BITS * level as u32;
        let block = self.now >> (shift + SLOT_BITS);
        Some((
            level * SLOTS + slot,
            ((block << SLOT_BITS) | slot as u64) << shift,
        ))
    }

    /// Empties a list whose time has come: fires what is due and files the rest again, lower down.
    fn empty(&mut self, list: usize, due: &mut Vec<Waker>) {
        let mut index = self.detach(list);
        while index != NONE {
            let after = self.links[index as usize][AFTER];
            if self.timers[index as usize].at <= self.now {
                due.extend(self.release(index));
            } else {
                self.file(index);
            }
            index = after;
        }
    }

    /// Moves time into a later era. Every slot is empty by now: its timers were of the era that has ended.
    fn enter_era(&mut self, to: u64, due: &mut Vec<Waker>) {
        self.now = to;
        self.far_earliest = u64::MAX;
        let mut passed = Vec::new();
        let mut index = self.detach(FAR);
        while index != NONE {
            let after = self.links[index as usize][AFTER];
            let at = self.timers[index as usize].at;
            if at <= to {
                passed.push((at, index));
            } else {
                self.file(index);
            }
            index = after;
        }
        passed.sort_unstable();
        for (_, index) in passed {
            due.extend(self.release(index));
        }
    }

    /// Puts a timer at the head of the list where its tick belongs, as seen from the present one.
    fn file(&mut self, index: u32) {
        let timer = &mut self.timers[index as usize];
        let list = list_of(timer.at, self.now);
        if list == FAR {
            self.far_earliest = self.far_earliest.min(timer.at);
        }
        timer.list = list as u16;
        let head = mem::replace(&mut self.heads[list], index);
        self.links[index as usize] = [NONE, head];
        if head != NONE {
            self.links[head as usize][BEFORE] = index;
        }
        self.occupied[list / SLOTS] |= 1 << (list % SLOTS);
    }

    /// Takes a timer out of its list.
    fn unfile(&mut self, index: u32) {
        let [before, after] = self.links[index as usize];
        if after != NONE {
            self.links[after as usize][BEFORE] = before;
        }
        if before != NONE {
            self.links[before as usize][AFTER] = after;
            return;
        }
        let list = self.timers[index as usize].list as usize;
        self.heads[list] = after;
        if after == NONE {
            self.occupied[list / SLOTS] &= !(1 << (list % SLOTS));
        }
    }

    /// Takes a whole list out and returns its first timer. The timers still link to each other.
    fn detach(&mut self, list: usize) -> u32 {
        self.occupied[list / SLOTS] &= !(1 << (list % SLOTS));
        mem::replace(&mut self.heads[list], NONE)
    }

    /// Frees the entry of a timer that is in no list, and returns its waker.
    fn release(&mut self, index: u32) -> Option<Waker> {
        self.live -= 1;
        let timer = &mut self.timers[index as usize];
        // An entry whose generations are used up is given up (40 bytes in 2^32 timers): no key ever names two timers.
        if let Some(generation) = timer.generation.checked_add(1) {
            timer.generation = generation;
            self.links[index as usize][AFTER] = mem::replace(&mut self.free, index);
        }
        timer.waker.take()
    }
}

impl fmt::Debug for Wheel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel")
            .field("now", &self.now)
            .field("live", &self.live)
            .finish_non_exhaustive()
    }
}

/// The era of a tick.
const fn era(tick: u64) -> u64 {
    tick >> ERA_BITS
}

/// Where a timer for tick `at` belongs when it is tick `now`.
const fn list_of(at: u64, now: u64) -> usize {
    if at <= now {
        return DUE;
    }
    let level = (at ^ now).ilog2() / SLOT_BITS;
    if level as usize >= LEVELS {
        return FAR;
    }
    let slot = (at >> (SLOT_BITS * level)) as usize % SLOTS;
    level as usize * SLOTS + slot
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};
    use std::task::Wake;

    use super::*;

    /// Ticks in an era.
    const ERA: u64 = 1 << ERA_BITS;

    /// Xorshift64: a seed gives the same operations for ever.
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

        /// A span with any number of bits, so that every level and the far list are as likely as the next.
        fn span(&mut self) -> u64 {
            let bits = self.below(65) as u32;
            self.next().checked_shr(64 - bits).unwrap_or(0)
        }
    }

    type Woken = Arc<Mutex<Vec<u64>>>;

    /// A waker that writes its number down.
    struct Numbered {
        number: u64,
        woken: Woken,
    }

    impl Wake for Numbered {
        fn wake(self: Arc<Self>) {
            self.woken.lock().unwrap().push(self.number);
        }
    }

    fn numbered(number: u64, woken: &Woken) -> Waker {
        Waker::from(Arc::new(Numbered {
            number,
            woken: woken.clone(),
        }))
    }

    /// Wakes what came due and returns the numbers in their order.
    fn advance(wheel: &mut Wheel, to: u64, woken: &Woken) -> Vec<u64> {
        let mut due = Vec::new();
        wheel.advance(to, &mut due);
        due.into_iter().for_each(Waker::wake);
        mem::take(&mut *woken.lock().unwrap())
    }

    fn fired(wheel: &mut Wheel, to: u64) -> usize {
        let mut due = Vec::new();
        wheel.advance(to, &mut due);
        due.len()
    }

    fn noop() -> Waker {
        Waker::noop().clone()
    }

    /// Every list, link, bit and count agrees with every other.
    fn check_structure(wheel: &Wheel) {
        let mut live = 0;
        for list in 0..LISTS {
            let bit = wheel.occupied[list / SLOTS] >> (list % SLOTS) & 1;
            assert_eq!(
                bit == 1,
                wheel.heads[list] != NONE,
                "occupancy of list {list}"
            );
            let (mut before, mut index) = (NONE, wheel.heads[list]);
            while index != NONE {
                let timer = &wheel.timers[index as usize];
                assert!(timer.waker.is_some());
                assert_eq!(timer.list as usize, list);
                assert!(
                    list == DUE || list_of(timer.at, wheel.now) == list,
                    "filed in the wrong list"
                );
                assert!(list != FAR || timer.at >= wheel.far_earliest);
                assert_eq!(wheel.links[index as usize][BEFORE], before);
                before = index;
                index = wheel.links[index as usize][AFTER];
                live += 1;
            }
        }
        let (mut free, mut index) = (0, wheel.free);
        while index != NONE {
            assert!(wheel.timers[index as usize].waker.is_none());
            index = wheel.links[index as usize][AFTER];
            free += 1;
        }
        assert_eq!(live, wheel.len());
        assert_eq!(live + free, wheel.timers.len());
        assert_eq!(wheel.links.len(), wheel.timers.len());
    }

    /// The wheel beside a sorted map that does the same in the plainest way.
    struct Model {
        random: Random,
        wheel: Wheel,
        now: u64,
        /// By the tick at which it comes due (that of the insert, when it was overdue) and its serial number; with
        /// its key and the number of its waker.
        timers: BTreeMap<(u64, u64), (Key, u64)>,
        /// Keys of timers that have gone.
        gone: Vec<Key>,
        serial: u64,
        woken: Woken,
        /// What the run met, so that a test that tests nothing fails.
        fired: usize,
        cancelled: usize,
        inexact: usize,
        eras: usize,
    }

    impl Model {
        fn new(seed: u64, now: u64) -> Self {
            Self {
                random: Random(seed),
                wheel: Wheel::new(now),
                now,
                timers: BTreeMap::new(),
                gone: Vec::new(),
                serial: 0,
                woken: Woken::default(),
                fired: 0,
                cancelled: 0,
                inexact: 0,
                eras: 0,
            }
        }

        fn earliest(&self) -> Option<u64> {
            self.timers.keys().next().map(|&(at, _)| at)
        }

        fn any_live(&mut self) -> Option<(u64, u64)> {
            let from = (self.now.saturating_add(self.random.span()), 0);
            self.timers
                .range(from..)
                .next()
                .or_else(|| self.timers.iter().next_back())
                .map(|(&at, _)| at)
        }

        fn any_gone(&mut self) -> Option<Key> {
            let count = self.gone.len() as u64;
            (count > 0).then(|| self.gone[self.random.below(count) as usize])
        }

        fn insert(&mut self) {
            let span = self.random.span();
            let at = match self.random.below(16) {
                0 => self.now,
                1 => self.now.saturating_sub(span),
                // On a border of a level, or beside it.
                2 => {
                    let border = 1 << (SLOT_BITS * (1 + self.random.below(7) as u32));
                    let at = (self.now / border).saturating_add(1).saturating_mul(border);
                    at.saturating_add(self.random.below(3)).saturating_sub(1)
                }
                _ => self.now.saturating_add(span),
            };
            self.serial += 1;
            let key = self.wheel.insert(at, numbered(self.serial, &self.woken));
            self.timers
                .insert((at.max(self.now), self.serial), (key, self.serial));
        }

        fn cancel(&mut self) {
            if let Some(id) = self.any_live() {
                let (key, number) = self.timers.remove(&id).unwrap();
                self.wheel.cancel(key).unwrap().wake();
                assert_eq!(mem::take(&mut *self.woken.lock().unwrap()), [number]);
                assert!(self.wheel.cancel(key).is_none());
                self.gone.push(key);
                self.cancelled += 1;
            }
        }

        fn rewake(&mut self) {
            if let Some(id) = self.any_live() {
                self.serial += 1;
                let waker = numbered(self.serial, &self.woken);
                let (key, number) = self.timers.get_mut(&id).unwrap();
                self.wheel.rewake(*key, &waker).unwrap().unwrap().wake();
                assert_eq!(mem::take(&mut *self.woken.lock().unwrap()), [*number]);
                assert!(self.wheel.rewake(*key, &waker).unwrap().is_none());
                *number = self.serial;
            }
        }

        fn use_gone_key(&mut self) {
            if let Some(key) = self.any_gone() {
                assert!(self.wheel.cancel(key).is_none());
                assert_eq!(self.wheel.rewake(key, Waker::noop()).unwrap_err(), NotLive);
            }
        }

        fn advance(&mut self) {
            let to = match self.random.below(8) {
                0 => self.now.saturating_sub(self.random.span()),
                1 | 2 => self.wheel.next().unwrap_or(self.now),
                3 => self.earliest().unwrap_or(self.now).saturating_sub(1),
                4 => self.earliest().unwrap_or(self.now),
                // Far jumps are rare, or the wheel would always be empty.
                5 if self.random.below(64) == 0 => self.now.saturating_add(self.random.span()),
                _ => self.now.saturating_add(self.random.below(200)),
            };
            self.eras += usize::from(era(to) > era(self.now));
            self.now = self.now.max(to);
            // Serial numbers never get that high, so this is just after the last timer of `now`.
            let later = self.timers.split_off(&(self.now, u64::MAX));
            let due = mem::replace(&mut self.timers, later);
            let got = advance(&mut self.wheel, to, &self.woken);

            let ticks: BTreeMap<u64, u64> = due
                .iter()
                .map(|(&(at, _), &(_, number))| (number, at))
                .collect();
            let got_ticks: Vec<u64> = got
                .iter()
                .map(|number| *ticks.get(number).expect("fired early"))
                .collect();
            assert_eq!(got.len(), due.len(), "did not fire");
            assert!(got_ticks.is_sorted(), "fired out of order");
            self.fired += got.len();
            self.gone.extend(due.into_values().map(|(key, _)| key));
        }

        fn check_next(&mut self) {
            let Some(earliest) = self.earliest() else {
                assert_eq!(self.wheel.next(), None);
                return;
            };
            let next = self.wheel.next().unwrap();
            assert!(
                next >= self.now && next <= earliest,
                "{next} for {earliest} at {}",
                self.now
            );
            assert_eq!(next == self.now, earliest == self.now);
            if earliest / 64 == self.now / 64 {
                assert_eq!(next, earliest);
            }
            self.inexact += usize::from(next != earliest);
        }

        fn run(&mut self, operations: u64) {
            for operation in 0..operations {
                match self.random.below(20) {
                    0..8 => self.insert(),
                    8..12 => self.cancel(),
                    12..14 => self.rewake(),
                    14 => self.use_gone_key(),
                    _ => self.advance(),
                }
                assert_eq!(self.wheel.len(), self.timers.len());
                assert_eq!(self.wheel.is_empty(), self.timers.is_empty());
                self.check_next();
                if operation % 512 == 0 {
                    check_structure(&self.wheel);
                }
            }
        }
    }

    #[test]
    fn does_what_a_sorted_map_does() {
        let (mut fired, mut cancelled, mut inexact, mut eras) = (0, 0, 0, 0);
        for seed in 1..=40_u64 {
            // From the start, beside the borders of levels and eras, near the end of time, and anywhere.
            let now = match seed % 5 {
                0 => 0,
                1 => ERA - 3,
                2 => u64::MAX - (ERA << 6),
                3 => 4095,
                _ => seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 2,
            };
            let mut model = Model::new(seed.wrapping_mul(0xD134_2543_DE82_EF95), now);
            model.run(10_000);
            let rest = model.timers.len();
            assert_eq!(
                advance(&mut model.wheel, u64::MAX, &model.woken).len(),
                rest
            );
            check_structure(&model.wheel);
            fired += model.fired;
            cancelled += model.cancelled;
            inexact += model.inexact;
            eras += model.eras;
        }
        assert!(
            fired > 20_000 && cancelled > 40_000 && inexact > 40_000 && eras > 300,
            "too little was tested: {fired} {cancelled} {inexact} {eras}"
        );
    }

    #[test]
    fn fires_at_its_tick_around_every_border() {
        let mut ticks = vec![0, 1, 2, 100, u64::MAX - 1, u64::MAX];
        for level in 1..=10 {
            let border = 1_u64 << (SLOT_BITS * level);
            ticks.extend([
                border - 1,
                border,
                border + 1,
                3 * border - 1,
                3 * border,
                3 * border + 1,
            ]);
        }
        for &now in &ticks {
            for &at in ticks.iter().filter(|&&at| at > now) {
                // In one jump.
                let mut wheel = Wheel::new(now);
                wheel.insert(at, noop());
                assert_eq!(
                    fired(&mut wheel, at - 1),
                    0,
                    "{at} fired early, inserted at {now}"
                );
                assert_eq!(wheel.next(), Some(at), "one tick before {at}");
                assert_eq!(
                    fired(&mut wheel, at),
                    1,
                    "{at} did not fire, inserted at {now}"
                );

                // Step by step, as a driver does it.
                let mut wheel = Wheel::new(now);
                wheel.insert(at, noop());
                let mut steps = 0;
                while let Some(next) = wheel.next() {
                    assert!(next > wheel.now && next <= at);
                    let count = fired(&mut wheel, next);
                    assert_eq!(
                        count == 1,
                        next == at,
                        "at {next}, inserted at {now} for {at}"
                    );
                    steps += 1;
                }
                assert!(steps <= LEVELS, "{steps} steps from {now} to {at}");
                assert!(wheel.is_empty());
            }
        }
    }

    #[test]
    fn cascades_through_every_level() {
        let at = (1 << ERA_BITS) - 1;
        let mut wheel = Wheel::new(0);
        wheel.insert(at, noop());
        let mut stops = Vec::new();
        while let Some(next) = wheel.next() {
            stops.push(next);
            wheel.advance(next, &mut Vec::new());
        }
        let expected: Vec<u64> = (0..6)
            .rev()
            .map(|level| at >> (6 * level) << (6 * level))
            .collect();
        assert_eq!(stops, expected);
    }

    #[test]
    fn timers_of_one_slot_part_at_the_cascade() {
        let woken = Woken::default();
        let mut wheel = Wheel::new(0);
        // All in slot 1 of level 2, which begins at tick 4096.
        for at in [8191, 4096, 4097, 4160, 5000, 4159] {
            wheel.insert(at, numbered(at, &woken));
        }
        assert_eq!(wheel.next(), Some(4096));
        assert_eq!(advance(&mut wheel, 4095, &woken), Vec::<u64>::new());
        assert_eq!(advance(&mut wheel, 4096, &woken), [4096]);
        assert_eq!(wheel.next(), Some(4097));
        assert_eq!(advance(&mut wheel, 4158, &woken), [4097]);
        assert_eq!(advance(&mut wheel, 9000, &woken), [4159, 4160, 5000, 8191]);
    }

    #[test]
    fn far_timers_wait_for_their_era() {
        let woken = Woken::default();
        let mut wheel = Wheel::new(5);
        for at in [
            u64::MAX,
            7 * ERA + 9,
            ERA,
            3 * ERA + 2,
            3 * ERA + 1,
            ERA - 1,
        ] {
            wheel.insert(at, numbered(at, &woken));
        }
        check_structure(&wheel);
        assert_eq!(advance(&mut wheel, ERA - 1, &woken), [ERA - 1]);
        assert_eq!(wheel.next(), Some(ERA), "a far timer's own tick");
        assert_eq!(advance(&mut wheel, ERA, &woken), [ERA]);
        // A jump over an era border that fires nothing, into the era of two timers.
        assert_eq!(advance(&mut wheel, 3 * ERA, &woken), Vec::<u64>::new());
        check_structure(&wheel);
        assert_eq!(wheel.next(), Some(3 * ERA + 1));
        // A jump over several eras fires in order, and leaves what is later.
        assert_eq!(
            advance(&mut wheel, 7 * ERA + 8, &woken),
            [3 * ERA + 1, 3 * ERA + 2]
        );
        assert_eq!(wheel.next(), Some(7 * ERA + 9));
        assert_eq!(advance(&mut wheel, u64::MAX - 1, &woken), [7 * ERA + 9]);
        assert_eq!(wheel.next(), Some(u64::MAX));
        assert_eq!(advance(&mut wheel, u64::MAX, &woken), [u64::MAX]);
        assert_eq!(wheel.next(), None);
    }

    #[test]
    fn several_far_timers_that_pass_in_one_jump_fire_in_order() {
        let woken = Woken::default();
        let mut wheel = Wheel::new(0);
        for at in [9 * ERA, 2 * ERA + 1, 5 * ERA, 2 * ERA, 9 * ERA - 1] {
            wheel.insert(at, numbered(at, &woken));
        }
        let expected = [2 * ERA, 2 * ERA + 1, 5 * ERA, 9 * ERA - 1, 9 * ERA];
        assert_eq!(advance(&mut wheel, 20 * ERA, &woken), expected);
    }

    #[test]
    fn a_cancelled_far_timer_costs_one_empty_advance() {
        let mut wheel = Wheel::new(0);
        let sooner = wheel.insert(2 * ERA, noop());
        wheel.insert(9 * ERA, noop());
        wheel.cancel(sooner).unwrap();
        assert_eq!(wheel.next(), Some(2 * ERA), "never late, maybe early");
        assert_eq!(fired(&mut wheel, 2 * ERA), 0);
        assert_eq!(wheel.next(), Some(9 * ERA));
    }

    #[test]
    fn what_is_overdue_fires_at_the_next_advance() {
        let woken = Woken::default();
        let mut wheel = Wheel::new(100);
        wheel.insert(100, numbered(1, &woken));
        wheel.insert(7, numbered(2, &woken));
        wheel.insert(101, numbered(3, &woken));
        assert_eq!(wheel.next(), Some(100));
        let mut got = advance(&mut wheel, 100, &woken);
        got.sort_unstable();
        assert_eq!(got, [1, 2]);
        // Time does not run backwards, and what is overdue fires even so.
        let overdue = wheel.insert(0, numbered(4, &woken));
        assert_eq!(advance(&mut wheel, 50, &woken), [4]);
        assert!(wheel.cancel(overdue).is_none());
        assert_eq!(wheel.next(), Some(101));
        // An overdue timer can be cancelled like any other.
        let overdue = wheel.insert(100, numbered(5, &woken));
        assert!(wheel.cancel(overdue).is_some());
        assert_eq!(wheel.next(), Some(101));
        assert_eq!(advance(&mut wheel, 101, &woken), [3]);
    }

    #[test]
    fn a_cancel_at_once_leaves_nothing() {
        let mut wheel = Wheel::new(0);
        for at in [0, 1, 63, 64, 4096, ERA - 1, ERA, u64::MAX] {
            let key = wheel.insert(at, noop());
            assert_eq!(wheel.len(), 1);
            assert!(wheel.cancel(key).is_some());
            assert!(wheel.cancel(key).is_none());
            assert_eq!((wheel.len(), wheel.next()), (0, None));
            check_structure(&wheel);
        }
        assert_eq!(wheel.timers.len(), 1, "one entry served them all");
        assert_eq!(fired(&mut wheel, u64::MAX), 0);
    }

    #[test]
    fn cancels_at_the_head_in_the_middle_and_at_the_end() {
        for order in [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ] {
            for at in [0, 10, 1000, 2 * ERA] {
                let woken = Woken::default();
                let mut wheel = Wheel::new(0);
                let keys: Vec<Key> = (0..3)
                    .map(|number| wheel.insert(at, numbered(number, &woken)))
                    .collect();
                for (left, number) in order
                    .into_iter()
                    .enumerate()
                    .map(|(done, number)| (2 - done, number))
                {
                    wheel.cancel(keys[number]).unwrap().wake();
                    assert_eq!(mem::take(&mut *woken.lock().unwrap()), [number as u64]);
                    assert_eq!(wheel.len(), left);
                    check_structure(&wheel);
                }
                assert_eq!(wheel.next(), None);
            }
        }
    }

    #[test]
    fn an_old_key_does_not_name_the_next_timer_in_its_entry() {
        let mut wheel = Wheel::new(0);
        let cancelled = wheel.insert(10, noop());
        wheel.cancel(cancelled).unwrap();
        let fires = wheel.insert(10, noop());
        assert_eq!(fires.index, cancelled.index);
        assert_ne!(fires, cancelled);
        assert!(wheel.cancel(cancelled).is_none());
        assert!(wheel.rewake(cancelled, Waker::noop()).is_err());
        assert_eq!(fired(&mut wheel, 10), 1);
        let present = wheel.insert(20, noop());
        assert_eq!(present.index, fires.index);
        assert!(wheel.cancel(fires).is_none());
        assert!(wheel.rewake(fires, Waker::noop()).is_err());
        assert!(wheel.rewake(present, Waker::noop()).is_ok());
        assert_eq!(wheel.len(), 1);
        // A key of another wheel that has no such entry.
        assert!(Wheel::new(0).cancel(present).is_none());
        assert!(Wheel::new(0).rewake(present, Waker::noop()).is_err());
    }

    #[test]
    fn an_entry_with_no_generation_left_is_given_up() {
        let mut wheel = Wheel::new(0);
        wheel.insert(10, noop());
        wheel.timers[0].generation = NonZero::new(u32::MAX - 1).unwrap();
        assert_eq!(fired(&mut wheel, 10), 1);
        let last = wheel.insert(20, noop());
        assert_eq!((last.index, last.generation.get()), (0, u32::MAX));
        assert!(wheel.cancel(last).is_some());
        let next = wheel.insert(20, noop());
        assert_eq!((next.index, next.generation.get()), (1, 1));
        assert!(wheel.cancel(last).is_none());
        assert_eq!(wheel.rewake(last, Waker::noop()).unwrap_err(), NotLive);
        assert_eq!((wheel.len(), fired(&mut wheel, 20)), (1, 1));
    }

    #[test]
    fn rewake_hands_back_what_it_replaced() {
        let woken = Woken::default();
        let mut wheel = Wheel::new(0);
        let (first, second) = (numbered(1, &woken), numbered(2, &woken));
        let key = wheel.insert(10, first.clone());
        assert!(
            wheel.rewake(key, &first).unwrap().is_none(),
            "the same task"
        );
        assert!(
            wheel
                .rewake(key, &second)
                .unwrap()
                .unwrap()
                .will_wake(&first)
        );
        assert_eq!(advance(&mut wheel, 10, &woken), [2]);
        assert_eq!(wheel.rewake(key, &first).unwrap_err(), NotLive);
        assert_eq!(NotLive.to_string(), "the timer has fired or was cancelled");
    }

    #[test]
    fn every_waker_is_handed_back_or_dropped_with_the_wheel() {
        let token = Arc::new(Numbered {
            number: 0,
            woken: Woken::default(),
        });
        let mut wheel = Wheel::new(0);
        let keys: Vec<Key> = (0..100)
            .map(|at| wheel.insert(at * at * at, Waker::from(token.clone())))
            .collect();
        assert_eq!(Arc::strong_count(&token), 101);
        for &key in &keys[50..60] {
            drop(wheel.cancel(key));
        }
        assert_eq!(Arc::strong_count(&token), 91);
        let mut due = Vec::new();
        wheel.advance(49 * 49 * 49, &mut due);
        assert_eq!((due.len(), wheel.len()), (50, 40));
        drop(due);
        assert_eq!(Arc::strong_count(&token), 41);
        drop(wheel);
        assert_eq!(Arc::strong_count(&token), 1);
    }

    #[test]
    fn advance_appends() {
        let mut wheel = Wheel::new(0);
        let mut due = vec![noop()];
        wheel.insert(1, noop());
        wheel.advance(1, &mut due);
        assert_eq!(due.len(), 2);
    }

    #[test]
    fn a_jump_costs_by_the_timer_and_not_by_the_tick() {
        // 10,000 times the way from 0 to the end of time, with timers in every level and beyond. Walking through the
        // ticks, or even through the eras, of one of these jumps would take longer than the machine will last.
        for round in 0..10_000_u64 {
            let mut wheel = Wheel::new(0);
            for bits in 0..64 {
                wheel.insert((1 << bits) + round, noop());
            }
            assert_eq!(fired(&mut wheel, (1 << 63) + round - 1), 63);
            assert_eq!(fired(&mut wheel, u64::MAX), 1);
        }
        // Nor do many jumps cost anything when nothing is due in them.
        let mut wheel = Wheel::new(0);
        wheel.insert(u64::MAX, noop());
        for jump in 1..1_000_000 {
            assert_eq!(fired(&mut wheel, jump << 43), 0);
        }
        assert_eq!(fired(&mut wheel, u64::MAX), 1);
    }

    #[test]
    fn never_early_whatever_the_steps() {
        let mut random = Random(7);
        for _ in 0..20_000 {
            let now = random.span() >> 1;
            let mut wheel = Wheel::new(now);
            let at = now.saturating_add(random.span()).max(now + 1);
            wheel.insert(at, noop());
            // Each step goes anywhere short of the tick; the last one ends on the tick before.
            for _ in 0..random.below(8) {
                let to = wheel.now + random.span() % (at - wheel.now);
                assert_eq!(fired(&mut wheel, to), 0, "{at} fired at {to}");
            }
            assert_eq!(fired(&mut wheel, at - 1), 0, "{at} fired at {}", wheel.now);
            assert_eq!(fired(&mut wheel, at), 1);
        }
    }

    #[test]
    fn next_is_exact_in_the_present_block_and_never_late() {
        let mut wheel = Wheel::new(64);
        assert_eq!(wheel.next(), None);
        wheel.insert(200, noop());
        assert_eq!(wheel.next(), Some(192), "the cascade that comes before 200");
        let nearer = wheel.insert(127, noop());
        wheel.insert(128, noop());
        assert_eq!(wheel.next(), Some(127));
        wheel.cancel(nearer).unwrap();
        assert_eq!(wheel.next(), Some(128));
        assert_eq!(fired(&mut wheel, 128), 1);
        assert_eq!(wheel.next(), Some(192));
        assert_eq!(fired(&mut wheel, 192), 0);
        assert_eq!(wheel.next(), Some(200));
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn takes_the_memory_that_the_module_says() {
        assert_eq!(size_of::<Timer>() + size_of::<[u32; 2]>(), 40);
        assert_eq!((size_of::<Key>(), size_of::<Option<Key>>()), (8, 8));
        assert!(size_of::<Wheel>() < 1_800, "{}", size_of::<Wheel>());
        let mut wheel = Wheel::new(0);
        assert_eq!((wheel.timers.capacity(), wheel.links.capacity()), (0, 0));
        // Churn does not grow the slab.
        for round in 0..10_000 {
            let keys: Vec<Key> = (0..10).map(|at| wheel.insert(round + at, noop())).collect();
            keys.iter()
                .step_by(2)
                .for_each(|&key| drop(wheel.cancel(key)));
            fired(&mut wheel, round + 10);
        }
        assert_eq!((wheel.len(), wheel.timers.len()), (0, 10));
    }

    #[test]
    fn can_be_shared_between_threads() {
        fn check<T: Send + Sync>() {}
        check::<Wheel>();
        check::<Key>();
    }
}
