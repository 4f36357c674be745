//! Bounds how often wrong keys are tried from one address.
//!
//! Only wrong keys count. Where people type keys, none from an address that has used up its tries is looked at, right or
//! wrong: looking would tell which. Behind a proxy all callers share one address; whoever is signed in there goes on,
//! since a cookie is no try. A caller's token is no key that could be guessed: a valid one is always taken.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::time::{Clock, Instant};

/// Wrong keys in a row before the first wait: a person who mistypes comes nowhere near.
const TRIES: u32 = 10;

/// Each wrong key is forgotten after this long: 14,400 tries a day and address, against keys of 32 random bytes.
const FORGET_TIME: Duration = Duration::from_secs(6);

/// Addresses remembered at once, some 64 bytes each. The ones beyond share one count.
const ADDRESSES: usize = 4096;

/// Who tried what lately.
pub(crate) struct Throttle {
    clock: Clock,
    /// When the last wrong key of each address will be forgotten.
    forgotten_at: Mutex<HashMap<Caller, Instant>>,
}

/// Whose tries are counted together.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Caller {
    Address(IpAddr),
    /// Everybody for whom there was no room.
    Rest,
}

impl Throttle {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            forgotten_at: Mutex::default(),
        }
    }

    /// How long this address has to wait before a key from it is looked at; `None`: not at all.
    pub(crate) fn wait(&self, address: IpAddr) -> Option<Duration> {
        let wrong = self.forgotten_at();
        let (caller, now) = (caller(&wrong, address), self.clock.now());
        let owed = wrong.get(&caller)?.since(now);
        let wait = owed.checked_sub(FORGET_TIME * (TRIES - 1))?;
        (!wait.is_zero()).then_some(wait)
    }

    /// Counts a wrong key.
    pub(crate) fn count_wrong(&self, address: IpAddr) {
        let now = self.clock.now();
        let mut wrong = self.forgotten_at();
        if wrong.len() >= ADDRESSES {
            wrong.retain(|_, forgotten_at| *forgotten_at > now);
        }
        let caller = caller(&wrong, address);
        let forgotten_at = wrong.entry(caller).or_insert(now);
        *forgotten_at = (*forgotten_at).max(now).after(FORGET_TIME);
    }

    fn forgotten_at(&self) -> MutexGuard<'_, HashMap<Caller, Instant>> {
        self.forgotten_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who counts for `address`. An IPv6 subscriber has a whole /64 to try from, so it counts as one.
fn caller(known: &HashMap<Caller, Instant>, address: IpAddr) -> Caller {
    let address = match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        v4 => v4,
    };
    let caller = Caller::Address(address);
    if known.contains_key(&caller) || known.len() < ADDRESSES {
        caller
    } else {
        Caller::Rest
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn ten_wrong_keys_and_then_one_each_six_seconds() {
        let clock = Clock::hand_driven(0);
        let throttle = Throttle::new(clock.clone());
        let [one, other] = ["192.0.2.1", "192.0.2.2"].map(address);
        for _ in 0..TRIES {
            assert_eq!(throttle.wait(one), None);
            throttle.count_wrong(one);
        }
        assert_eq!(throttle.wait(one), Some(FORGET_TIME));
        assert_eq!(throttle.wait(other), None);
        clock.advance(FORGET_TIME - Duration::from_millis(1));
        assert_eq!(throttle.wait(one), Some(Duration::from_millis(1)));
        clock.advance(Duration::from_millis(1));
        assert_eq!(throttle.wait(one), None);
        throttle.count_wrong(one);
        assert_eq!(throttle.wait(one), Some(FORGET_TIME));
        clock.advance(FORGET_TIME * TRIES);
        for _ in 0..TRIES {
            assert_eq!(throttle.wait(one), None);
            throttle.count_wrong(one);
        }
        assert!(throttle.wait(one).is_some());
    }

    #[test]
    fn a_network_of_one_subscriber_is_one_caller() {
        let throttle = Throttle::new(Clock::hand_driven(0));
        for at in 0..TRIES {
            throttle.count_wrong(address(&format!("2001:db8::{at}")));
        }
        assert!(throttle.wait(address("2001:db8::ffff:1")).is_some());
        assert!(throttle.wait(address("2001:db8:0:1::1")).is_none());
        for _ in 0..TRIES {
            throttle.count_wrong(address("::ffff:192.0.2.1"));
        }
        assert!(throttle.wait(address("192.0.2.1")).is_some());
        assert!(throttle.wait(address("::ffff:192.0.2.2")).is_none());
    }

    #[test]
    fn a_flood_of_addresses_is_bounded_and_forgotten() {
        let clock = Clock::hand_driven(0);
        let throttle = Throttle::new(clock.clone());
        for at in 0..u32::try_from(ADDRESSES).unwrap() + TRIES {
            throttle.count_wrong(IpAddr::V4(std::net::Ipv4Addr::from_bits(at)));
        }
        assert_eq!(throttle.forgotten_at().len(), ADDRESSES + 1);
        assert!(
            throttle.wait(address("192.0.2.1")).is_some(),
            "the rest is one caller"
        );
        clock.advance(FORGET_TIME * (TRIES + 1));
        assert!(throttle.wait(address("192.0.2.1")).is_none());
        throttle.count_wrong(address("192.0.2.1"));
        assert_eq!(throttle.forgotten_at().len(), 1);
    }
}
