//! What `signet load sipp` runs, as a program of its own: for the tests, and
//! for who wants no more than this.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    std::process::ExitCode::from(signet_sipp::run(std::env::args_os().skip(1)))
}
