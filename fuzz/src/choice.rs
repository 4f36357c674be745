//! What one execution tries where there is more to try than it has time for.
//!
//! The fuzzer makes millions of inputs, so a few chosen by each input's own bytes are soon all there are. The replay of
//! the corpus has few inputs and time enough: there everything is tried, and so whatever the fuzzer found is found again.

use std::hash::{DefaultHasher, Hasher};

/// Longest input of which the replay tries every cut; of longer ones, this many.
const CUTS: usize = 256;

/// Cuts of each input that the fuzzer tries.
const CHOSEN_CUTS: usize = 2;

/// Places in which to cut `input`, each before its end.
pub fn cuts(input: &[u8]) -> impl Iterator<Item = usize> {
    let length = input.len();
    let every = if cfg!(fuzzing) { 0 } else { length };
    let chosen = if length == 0 { 0 } else { CHOSEN_CUTS };
    (0..every)
        .step_by(length / CUTS + 1)
        .chain((0..chosen).map(move |which| number(which, input, length)))
}

/// Whether this is one of the inputs that an expensive check is made for: one of so many, and in the replay each.
pub fn is_one_in(many: usize, input: &[u8]) -> bool {
    !cfg!(fuzzing) || number(CHOSEN_CUTS, input, many) == 0
}

/// A number below `end` that the input decides, the same whenever it comes, and another for each choice.
fn number(choice: usize, input: &[u8], end: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    hasher.write_usize(choice);
    hasher.write(input);
    usize::try_from(hasher.finish() % end as u64).expect("less than a usize")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_replay_tries_everything() {
        assert_eq!(cuts(b"").count(), 0);
        let mut seen = [false; 200];
        for cut in cuts(&[b'a'; 200]) {
            seen[cut] = true;
        }
        assert!(seen.iter().all(|&seen| seen));
        assert!(cuts(&[b'a'; 4096]).count() > 200);
        assert!((0..=255).all(|byte| is_one_in(8, &[byte])));
    }

    #[test]
    fn what_is_chosen_is_spread() {
        let numbers = |choice| (0..=255).filter(move |&byte| number(choice, &[byte], 8) == 0);
        for choice in 0..=CHOSEN_CUTS {
            assert!((16..=48).contains(&numbers(choice).count()));
        }
        assert!(numbers(0).ne(numbers(1)));
    }
}
