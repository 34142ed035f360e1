//! The runner as a program of its own: what `signet load sipp` runs.

fn main() -> std::process::ExitCode {
    std::process::ExitCode::from(signet_sipp::run(std::env::args_os().skip(1)))
}
