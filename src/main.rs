//! The `countersign` binary: everything it does is in the library's `cli` module.

fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
