//! `signet price`: the command line, turned into what the libraries are told.

mod choose;
pub(crate) mod crypto;
mod live;
mod rate;
pub(crate) mod tunnel;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use protection::{ConfigError, Levels, Prices};

use choose::ChooseOptions;
use crypto::{CryptoOptions, ReportOptions};
use live::LiveOptions;
use rate::RateOptions;
use tunnel::{EchoOptions, ProbeOptions, TunnelOptions};

#[derive(Debug, Subcommand)]
pub(crate) enum PriceCommand {
    /// Measure what AH and ESP cost a packet, bare primitives beside, and what TLS, digest and
    /// S/MIME cost SIP
    ///
    /// Each packet is built, protected, checked and opened in user space, on one core. The table
    /// shows sending in transport mode over IPv4; --all, --json and --html have everything.
    /// Measure where nothing else runs.
    Crypto(CryptoOptions),
    /// Measure what whole tunnels between two network namespaces carry, what they add to a round
    /// trip, and what they cost SIP
    ///
    /// Namespaces need root. What cannot run on this machine is named with the reason, and the
    /// rest runs. Whatever it starts ends with it. Measure where nothing else runs. It exits
    /// with 130 when it was interrupted.
    Tunnel(TunnelOptions),
    /// Send back what comes, for probes
    #[command(hide = true)]
    Echo(EchoOptions),
    /// Take the time of round trips to an echo, printed as JSON
    #[command(hide = true)]
    Probe(ProbeOptions),
    /// Draw the page of prices anew
    Report(ReportOptions),
    /// Rate algorithms from 0 to 10: what they are worth and how fast they are, beside
    /// Table 14 of Niedermayer 2006
    Rate(RateOptions),
    /// Choose the cheapest protection that is good enough, and tell why the others are not
    Choose(ChooseOptions),
    /// Tell where a running server's CPU time goes, and what that comes to for a million calls
    ///
    /// It looks at the server's figures twice: at the administrative socket in its data folder,
    /// or at its address for figures. The server accounts by component and not by request:
    /// where there are calls and registrations, they are not told apart.
    Live(LiveOptions),
}

/// What ratings and choices are made from, and where they go.
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
    /// Keep it as JSON in this file, - for the standard output alone
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the page in this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Sources {
    fn levels(&self) -> Result<Levels, String> {
        let shipped = Levels::shipped();
        let Some(path) = &self.levels else {
            return Ok(shipped);
        };
        let text = measure::file::read_text(path, LEVELS_BYTES_MAX).map_err(|error| {
            let if_missing = "name a file that is there; crates/protection/levels.toml shows how";
            ConfigError::unreadable(path, &error, if_missing).to_string()
        })?;
        let theirs = Levels::read(path, &text).map_err(|error| error.to_string())?;
        let mut rows = theirs.rows();
        if let Some(row) = rows.find(|row| shipped.get(&row.name).is_none()) {
            let known: Vec<&str> = shipped.rows().map(|row| row.name.as_str()).collect();
            let meant = diagnose::nearest(&row.name, &known);
            return Err(format!(
                "{}: there is no algorithm called {:?}: {}",
                path.display(),
                row.name,
                match meant {
                    Some(meant) => format!("did you mean {meant:?}?"),
                    None => "crates/protection/levels.toml has the names".to_owned(),
                }
            ));
        }
        drop(rows);
        Ok(shipped.overlaid(theirs))
    }

    fn prices(&self) -> Result<Prices, String> {
        match &self.from {
            None => Ok(Prices::shipped()),
            Some(path) => Prices::from_file(path).map_err(|error| error.to_string()),
        }
    }

    /// Writes the page, where one is asked for.
    fn draw(
        &self,
        page: impl FnOnce() -> Result<String, signet_price::Error>,
    ) -> Result<(), String> {
        let Some(path) = &self.html else {
            return Ok(());
        };
        let page = page().map_err(|error| error.to_string())?;
        measure::file::write(path, page.as_bytes()).map_err(|error| unwritable(path, &error))
    }
}

/// What was asked for could not be printed.
const EXIT_UNTOLD: u8 = 2;
/// Stands for the standard output where a file is named.
const STDOUT: &str = "-";
/// Of larger tables of levels no more is read, and they are refused.
const LEVELS_BYTES_MAX: u64 = 1 << 20;

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// What is printed of something that is also kept as JSON, where that is asked for.
fn told(
    file: Option<&Path>,
    text: impl FnOnce() -> String,
    json: impl FnOnce() -> Result<String, String>,
) -> Result<String, String> {
    match file {
        None => Ok(text()),
        Some(path) if path == Path::new(STDOUT) => Ok(json()? + "\n"),
        Some(path) => {
            let json = json()? + "\n";
            measure::file::write(path, json.as_bytes())
                .map_err(|error| unwritable(path, &error))?;
            Ok(text())
        }
    }
}

/// Whether files can be written, before anything is measured that would be lost with them.
pub(crate) fn try_files(files: &[Option<&PathBuf>]) -> Result<(), String> {
    for path in files.iter().copied().flatten() {
        if path == Path::new(STDOUT) {
            continue;
        }
        measure::file::try_write(path)?;
    }
    Ok(())
}

fn unwritable(path: &Path, error: &std::io::Error) -> String {
    format!(
        "cannot write {}: {error}: name a file in a folder that this user may write",
        path.display()
    )
}

/// What is printed, and the exit code.
struct Told {
    text: String,
    code: u8,
}

impl Told {
    fn whole(text: String) -> Self {
        Self { text, code: 0 }
    }
}

/// Runs it; gives the exit code.
pub(crate) fn run(command: PriceCommand) -> u8 {
    let whole = |text: Result<String, String>| text.map(Told::whole);
    let tried = match &command {
        PriceCommand::Crypto(options) => try_files(&options.files()),
        PriceCommand::Tunnel(options) => try_files(&options.files()),
        PriceCommand::Live(options) => try_files(&options.files()),
        _ => Ok(()),
    };
    if let Err(error) = tried {
        let _ = writeln!(std::io::stderr(), "signet price: {error}");
        return 1;
    }
    let (verb, done) = match command {
        PriceCommand::Crypto(options) => ("crypto", whole(options.run())),
        PriceCommand::Tunnel(options) => ("tunnel", options.run()),
        PriceCommand::Echo(options) => ("echo", options.run().map_err(said)),
        PriceCommand::Probe(options) => ("probe", options.run().map_err(said)),
        PriceCommand::Report(options) => ("report", whole(options.run())),
        PriceCommand::Rate(options) => ("rate", whole(options.run())),
        PriceCommand::Choose(options) => ("choose", whole(options.run())),
        PriceCommand::Live(options) => ("live", whole(options.run())),
    };
    let told = done.map(|told| (measure::stdout::print(told.text), told.code));
    let (code, error) = match told {
        Ok((Ok(()), code)) => return code,
        Ok((Err(error), _)) => (EXIT_UNTOLD, error),
        Err(error) => (1, error),
    };
    let _ = writeln!(std::io::stderr(), "signet price {verb}: {error}");
    code
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn trying_files_changes_none() {
        let folder =
            std::env::temp_dir().join(format!("signet-price-files-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (kept, new) = (folder.join("kept.json"), folder.join("new.html"));
        let missing = folder.join("nowhere").join("new.json");
        fs::write(&kept, "of an earlier run").unwrap();
        let content = || fs::read_to_string(&kept).unwrap();

        try_files(&[Some(&kept), None, Some(&new), Some(&PathBuf::from(STDOUT))]).unwrap();
        assert_eq!(content(), "of an earlier run");
        assert!(!new.exists() && !Path::new(STDOUT).exists());

        let error = try_files(&[Some(&kept), Some(&missing)]).unwrap_err();
        assert!(error.contains("nowhere/new.json"), "{error}");
        assert!(
            error.ends_with("in a folder that this user may write"),
            "{error}"
        );
        assert_eq!(content(), "of an earlier run");
        fs::remove_dir_all(&folder).unwrap();
    }
}
