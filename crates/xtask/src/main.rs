//! Tasks of the project's own: `cargo xtask test`, `cargo xtask musts`, `cargo xtask scenarios
//! FOLDER`.
#![forbid(unsafe_code)]

mod musts;
mod scenarios;
mod suite;

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["test", rest @ ..] => suite::report(&root, rest),
        ["musts"] => musts::report(&root),
        ["scenarios", folder] => {
            let ours = root.join("target/debug/signet-sipp");
            scenarios::report(&root, &PathBuf::from(folder), &ours)
        }
        ["scenarios", folder, ours] => {
            scenarios::report(&root, &PathBuf::from(folder), &PathBuf::from(ours))
        }
        _ => Err(format!(
            "usage: {} | cargo xtask musts | cargo xtask scenarios FOLDER [SIGNET-SIPP]",
            suite::USAGE
        )),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::from(2)
        }
    }
}
