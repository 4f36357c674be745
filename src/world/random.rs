//! Unpredictable bytes: the system's, or a seed's.

use std::sync::{Arc, Mutex, PoisonError};

use ring::rand::{SecureRandom, SystemRandom};

/// A source of random bytes. Cloning gives a handle to the same source.
#[derive(Clone)]
pub struct Random(Source);

#[derive(Clone)]
enum Source {
    System(Arc<SystemRandom>),
    /// The state of a SplitMix64 generator. For simulation only: its output is predictable.
    Seeded(Arc<Mutex<u64>>),
}

impl Random {
    /// The operating system's generator.
    #[must_use]
    pub fn system() -> Self {
        Self(Source::System(Arc::new(SystemRandom::new())))
    }

    /// A repeatable stream for tests and simulation. It mints nothing that anyone should trust.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Source::Seeded(Arc::new(Mutex::new(seed))))
    }

    /// Fills `bytes`.
    ///
    /// # Panics
    /// When the operating system has no randomness to give: everything that is minted from here would be guessable,
    /// so nothing can go on safely.
    pub fn fill(&self, bytes: &mut [u8]) {
        match &self.0 {
            Source::System(system) => {
                assert!(
                    system.fill(bytes).is_ok(),
                    "the operating system gave no random bytes"
                );
            }
            Source::Seeded(state) => {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                for chunk in bytes.chunks_mut(8) {
                    let word = split_mix_64(&mut state).to_le_bytes();
                    chunk.copy_from_slice(&word[..chunk.len()]);
                }
            }
        }
    }

    /// A uniformly distributed number.
    #[must_use]
    pub fn u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// A number in `0..bound`, or 0 when `bound` is 0. The bias of at most `bound` / 2^64 is of no consequence here.
    #[must_use]
    pub fn below(&self, bound: u64) -> u64 {
        ((u128::from(self.u64()) * u128::from(bound)) >> 64) as u64
    }
}

fn split_mix_64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_the_system_does_not() {
        assert_eq!(Random::seeded(7).u64(), Random::seeded(7).u64());
        assert_ne!(Random::system().u64(), Random::system().u64());
    }

    #[test]
    fn below_stays_below() {
        let random = Random::seeded(1);
        assert!((0..10_000).all(|_| random.below(3) < 3));
        assert_eq!(random.below(0), 0);
    }
}
