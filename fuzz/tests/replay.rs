//! Replays the committed corpus of every target, and what a broken connection would make of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use countersign_fuzz::TARGETS;

fn names(folder: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let name = |entry: fs::DirEntry| {
        let path = entry.path();
        path.file_stem()
            .and_then(|stem| stem.to_str())
            .expect("a name in UTF-8")
            .to_owned()
    };
    fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| name(entry.expect("an entry")))
        .collect()
}

#[test]
fn every_target_has_a_check_and_a_corpus() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(targets, names("fuzz_targets"));
    assert_eq!(targets, names("corpus"));
}

#[test]
fn the_corpus_holds() {
    for (name, check) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(name);
        let mut seeds = 0;
        for entry in fs::read_dir(folder).expect("a corpus") {
            let input = fs::read(entry.expect("an entry").path()).expect("a seed");
            seeds += 1;
            for end in 0..=input.len() {
                check(&input[..end]);
            }
            // One wrong byte, in each place.
            for at in 0..input.len() {
                for byte in [0, b'\r', b'\n', b' ', 0xFF] {
                    let mut input = input.clone();
                    input[at] = byte;
                    check(&input);
                }
            }
        }
        assert!(seeds > 0, "{name} has no seed");
    }
}
