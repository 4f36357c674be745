//! What plain `cargo test` skips, because it needs more than Rust or takes too long. `tests/all` installs what is missing
//! and runs all of it; each of these runs one part with what is there: `cargo test -- --ignored NAME`.

use std::path::Path;
use std::process::Command;

/// Runs a command in a folder of the repository.
fn run(folder: &str, command: &mut Command) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let status = command.current_dir(folder).status().unwrap();
    assert!(status.success(), "{status}");
}

#[test]
#[ignore = "needs node, npm and chromium: tests/all runs it"]
fn the_page_in_a_browser() {
    run(
        "tests/browser",
        Command::new("npm").args(["ci", "--no-audit", "--no-fund"]),
    );
    let mut node = Command::new("node");
    node.args(["--test", "desk.test.mjs"])
        .env("COUNTERSIGN_BIN", env!("CARGO_BIN_EXE_countersign"));
    run("tests/browser", &mut node);
}

#[test]
#[ignore = "a workspace of its own, which needs a C++ compiler: tests/all runs it"]
fn the_corpus_of_the_fuzz_targets() {
    run(
        "fuzz",
        Command::new(env!("CARGO")).args(["test", "--locked"]),
    );
}

#[test]
#[ignore = "needs python3: tests/all runs it"]
fn the_dependencies_are_the_listed_ones() {
    run(".", &mut Command::new("tests/dependencies.py"));
}

#[test]
#[ignore = "needs python3: tests/all runs it"]
fn no_file_imports_from_a_floor_above() {
    run(".", &mut Command::new("tests/floors.py"));
}
