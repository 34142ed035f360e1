//! SIPp's scenarios with sockets, under SIPp's command line: what
//! `signet load sipp ...` runs. The scenarios themselves are `sip-scenario`'s.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::io::Write;

mod args;
mod background;
mod commands;
mod control;
mod echo;
mod engine;
mod error;
mod help;
mod output;
mod pacing;
mod paths;
mod report;
mod setup;
mod traces;
mod twins;

pub use control::{Keyboard, hold_signals};
pub use error::exit;

use args::Args;
use error::Refusal;

/// Runs a command line (without the program's name), and gives SIPp's exit
/// code. What is wrong is told on stderr.
pub fn run(args: impl IntoIterator<Item = OsString>) -> u8 {
    match try_run(args.into_iter()) {
        Ok(code) => code,
        Err(refusal) => {
            // Where nobody reads, there is nobody to tell.
            let _ = writeln!(std::io::stderr().lock(), "{}", refusal.what);
            refusal.code
        }
    }
}

fn try_run(args: impl Iterator<Item = OsString>) -> Result<u8, Refusal> {
    let args = Args::read(args).map_err(Refusal::mistake)?;
    let mut out = std::io::stdout().lock();
    if args.help {
        let _ = out.write_all(help::TEXT.as_bytes());
        return Ok(exit::NO_CALLS);
    }
    if args.version {
        let _ = writeln!(
            out,
            "signet {}, for scenarios of SIPp 3.6",
            env!("CARGO_PKG_VERSION")
        );
        return Ok(exit::NO_CALLS);
    }
    if let Some(name) = &args.dump {
        let _ = out.write_all(setup::built_in(name)?.as_bytes());
        return Ok(exit::NO_CALLS);
    }
    if args.check {
        let (files, program) = setup::read(&args)?;
        setup::tell(&setup::warnings(&files, &program));
        let steps = match program.step_count() {
            1 => "1 step".to_owned(),
            count => format!("{count} steps"),
        };
        let _ = writeln!(out, "{}: {steps}, can be played", args.scenario_name());
        return Ok(exit::OK);
    }
    drop(out);
    if args.background {
        // Nobody hears the process in the background.
        let (files, program) = setup::read(&args)?;
        setup::tell(&setup::warnings(&files, &program));
        return background::start();
    }
    engine::Engine::new(args)?.run()
}
