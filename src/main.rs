//! The `countersign` binary: everything it does is in the library's `cli` module.

fn main() -> std::process::ExitCode {
    countersign::cli::run(std::env::args_os().skip(1))
}
