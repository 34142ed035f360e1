//! `signet bed profile`: the command line, turned into a request.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use signet_bed::Error;
use signet_bed::profile::{self, Calls, Options, RULES_TEXT, Request, Rules, Walk, Wanted};

#[derive(Debug, Args)]
pub(crate) struct ProfileOptions {
    /// A process to look at, with its descendants: server=123, or server:kamailio=123 where its
    /// file has another name; several times if you like
    #[arg(
        long,
        value_name = "NAME[:SYSTEM]=PID",
        required_unless_present = "rules"
    )]
    pid: Vec<String>,
    /// How long to look
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    seconds: u32,
    /// Successful calls per second: times are shown per call
    #[arg(long, value_name = "RATE", value_parser = positive)]
    calls_per_s: Option<f64>,
    /// Successful calls while it samples
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with = "calls_per_s")]
    calls: Option<f64>,
    /// Keep the profile in this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw a flame graph; folded stacks where the name ends in .folded
    #[arg(long, value_name = "FILE", conflicts_with = "no_perf")]
    flame: Option<PathBuf>,
    /// How a flame graph finds callers
    #[arg(long, value_enum, default_value_t = Callers::Tables, requires = "flame")]
    callers: Callers,
    /// Rules in place of this build's; without a file, print those of this build
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    rules: Option<Option<PathBuf>>,
    /// Samples for each second of CPU time; 999 if left out, 199 with --flame
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    frequency: Option<u32>,
    /// Functions to show of each process
    #[arg(long, value_name = "N", default_value_t = 0)]
    symbols: usize,
    /// Use the names of threads, as where perf is not allowed
    #[arg(long, conflicts_with = "frequency")]
    no_perf: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Callers {
    /// By the tables that compilers write: for all programs
    Tables,
    /// By frame pointers: cheaper, for programs that were built with them
    Frames,
}

fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "write a number".to_owned())?;
    if number.is_finite() && number > 0.0 {
        Ok(number)
    } else {
        Err("write a number above 0".to_owned())
    }
}

impl ProfileOptions {
    fn request(&self) -> Result<Request, Error> {
        let rules = match &self.rules {
            Some(Some(path)) => Rules::from_file(path)?,
            _ => Rules::default(),
        };
        let walk = match (&self.flame, self.callers) {
            (None, _) => Walk::None,
            (Some(_), Callers::Tables) => Walk::Tables,
            (Some(_), Callers::Frames) => Walk::FramePointers,
        };
        let calls = self.calls.map(Calls::InAll);
        Ok(Request {
            targets: self.pid.clone(),
            seconds: self.seconds,
            calls: calls.or(self.calls_per_s.map(Calls::PerSecond)),
            json: self.json.clone(),
            flame: self.flame.clone(),
            symbols: self.symbols,
            options: Options {
                rules,
                frequency_hz: self.frequency,
                walk,
                wanted: if self.no_perf {
                    Wanted::Accounting
                } else {
                    Wanted::Best
                },
                ..Options::default()
            },
        })
    }

    /// Gives what is printed.
    pub(super) fn run(&self) -> Result<String, Error> {
        if matches!(self.rules, Some(None)) {
            return Ok(RULES_TEXT.to_owned());
        }
        let request = self.request()?;
        if request.targets.is_empty() {
            return Err(Error::new(
                "the rules can be read, but there is no process to look at",
                "name one: --pid server=123",
            ));
        }
        profile::run(&request)
    }
}

#[cfg(test)]
mod tests {
    use super::super::BedCommand;
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser;

    fn options(line: &str) -> Result<ProfileOptions, clap::Error> {
        let words = format!("signet bed profile {line}");
        let args = Args::try_parse_from(words.split_whitespace())?;
        match args.command {
            Command::Bed {
                command: BedCommand::Profile(options),
            } => Ok(*options),
            _ => panic!("not profile"),
        }
    }

    #[test]
    fn options_reach_the_request() {
        let line = "--pid server=1 --pid database:mysqld=2 --seconds 3 --calls-per-s 2000 --flame f.svg --callers frames --symbols 5";
        let request = options(line).unwrap().request().unwrap();
        assert_eq!(request.targets, ["server=1", "database:mysqld=2"]);
        assert_eq!(request.calls, Some(Calls::PerSecond(2_000.0)));
        assert_eq!((request.seconds, request.symbols), (3, 5));
        assert_eq!(request.options.walk, Walk::FramePointers);
        assert_eq!(request.options.wanted, Wanted::Best);
        let request = options("--pid a=1 --no-perf --calls 7").unwrap().request();
        let request = request.unwrap();
        assert_eq!(request.calls, Some(Calls::InAll(7.0)));
        assert_eq!(request.options.wanted, Wanted::Accounting);
    }

    #[test]
    fn rules_are_printed_or_read() {
        assert_eq!(options("--rules").unwrap().rules, Some(None));
        let error = options("--rules /nowhere --pid a=1").unwrap().request();
        assert!(error.unwrap_err().to_string().contains("/nowhere"));
        for wrong in [
            "",
            "--pid a=1 --calls 0",
            "--pid a=1 --calls 1 --calls-per-s 1",
            "--pid a=1 --no-perf --flame f",
        ] {
            assert!(options(wrong).is_err(), "{wrong}");
        }
    }
}
