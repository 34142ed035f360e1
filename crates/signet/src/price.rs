//! `signet price`: the command line, turned into what the libraries are told.

mod choose;
mod rate;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use protection::{ConfigError, Levels, Prices};

use choose::ChooseOptions;
use rate::RateOptions;

#[derive(Debug, Subcommand)]
pub(crate) enum PriceCommand {
    /// Rate algorithms from 0 to 10: what they are worth and how fast they are, beside
    /// Table 14 of Niedermayer 2006
    Rate(RateOptions),
    /// Choose the cheapest protection that is good enough, and tell why the others are not
    Choose(ChooseOptions),
}

/// What ratings and choices are made from.
#[derive(Debug, Args)]
struct Sources {
    /// Prices: what `signet price crypto --json FILE` wrote; those of another machine, which
    /// come with this program, if left out
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Another opinion on the levels of protection, for the algorithms that it names; what is
    /// broken stays so
    #[arg(long, value_name = "FILE")]
    levels: Option<PathBuf>,
}

impl Sources {
    fn levels(&self) -> Result<Levels, String> {
        let shipped = Levels::shipped();
        let Some(path) = &self.levels else {
            return Ok(shipped);
        };
        let text = read(path)?;
        let theirs = Levels::read(path, &text).map_err(|error| error.to_string())?;
        Ok(shipped.overlaid(theirs))
    }

    fn prices(&self) -> Result<Prices, String> {
        match &self.from {
            None => Ok(Prices::shipped()),
            Some(path) => Prices::from_file(path).map_err(|error| error.to_string()),
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| {
        let if_missing = "name a file that is there; crates/protection/levels.toml shows how";
        ConfigError::unreadable(path, &error, if_missing).to_string()
    })
}

/// Runs it; gives the exit code.
pub(crate) fn run(command: &PriceCommand) -> u8 {
    let (verb, done) = match command {
        PriceCommand::Rate(options) => ("rate", options.run()),
        PriceCommand::Choose(options) => ("choose", options.run()),
    };
    // A reader who has gone, as `head` does, needs no more of it.
    match done {
        Ok(told) => {
            let _ = std::io::stdout().write_all(told.as_bytes());
            0
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "signet price {verb}: {error}");
            1
        }
    }
}
