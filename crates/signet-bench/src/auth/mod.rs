//! What authentication costs whose users are kept elsewhere: `make bench-auth`. Dacosta 2009's
//! grid of processes and batches, the tuner beside it, and what a look-up costs at home.

mod cost;
mod grid;
mod load;
mod model;
mod outage;
mod page;
mod paper;
mod peak;
mod record;
mod scene;
mod server;
mod settle;
mod stores;
mod timing;
mod tuner;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use signet_bed::users::DOMAIN;
use signet_bed::{database, distance as relay, users};

use record::Record;
use scene::Cores;

/// The round trip of the paper.
const RTT_MS: u64 = 30;
/// The paper's subscribers.
const USERS: usize = 10_000;
/// Those of the case of scale.
const USERS_MANY: usize = 1_000_000;

#[derive(clap::Args)]
pub(crate) struct AuthArguments {
    /// The server, the load and the relay.
    #[arg(long, default_value = "target/release/signet")]
    signet: PathBuf,
    /// Where results and logs go.
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
    /// These cases alone.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<CaseName>,
    /// Few points and short stretches: shows that all works, and no figure.
    #[arg(long)]
    quick: bool,
    /// Repeats of each peak that is held against an aim, and of each cost.
    #[arg(long, default_value_t = 5)]
    repeats: usize,
    /// The pair that the tuner is held against where no grid is measured: that which was the best
    /// of one, or else the paper's.
    #[arg(long, value_name = "PROCESSES,BATCH", default_value = "32,16", value_parser = pair)]
    pair: (u32, u32),
    /// The first of 20 ports on 127.0.0.1.
    #[arg(long, default_value_t = 16_060)]
    port: u16,
    /// Another build, whose stores are measured in the same run, embedded and MariaDB.
    #[arg(long, value_name = "PATH")]
    before: Option<PathBuf>,
    #[command(flatten)]
    cores: Cores,
    /// Make the page anew from results that are there, and measure nothing.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// A case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CaseName {
    /// Processes that wait, one look-up or a batch at a time: the paper's grid.
    Grid,
    /// The tuner's peak, delay and bytes.
    Tuner,
    /// Changes of the round trip and of the load.
    Steps,
    /// The database killed and started again, over and over.
    Outage,
    /// PostgreSQL and Redis, and a million users.
    Stores,
    /// CPU that authentication adds to a call.
    Cost,
    /// Predicted capacity and delay beside measured.
    Model,
    /// Whether a refusal's time tells who exists, or whom the cache has.
    Timing,
}

impl CaseName {
    const ALL: [Self; 8] = [
        Self::Grid,
        Self::Tuner,
        Self::Steps,
        Self::Outage,
        Self::Stores,
        Self::Cost,
        Self::Model,
        Self::Timing,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Grid => "grid",
            Self::Tuner => "tuner",
            Self::Steps => "steps",
            Self::Outage => "outage",
            Self::Stores => "stores",
            Self::Cost => "cost",
            Self::Model => "model",
            Self::Timing => "timing",
        }
    }
}

/// `8,64`: processes, and the look-ups that each sends at once.
fn pair(text: &str) -> Result<(u32, u32), String> {
    let both = text.split_once(',').and_then(|(processes, batch)| {
        let numbers = (processes.parse().ok()?, batch.parse().ok()?);
        (numbers.0 > 0 && numbers.1 > 0).then_some(numbers)
    });
    both.ok_or_else(|| format!("{text:?} is not PROCESSES,BATCH, as in 32,16"))
}

/// What all cases have at hand.
struct Bench<'a> {
    arguments: &'a AuthArguments,
    /// The folder for logs, configurations and the server's data.
    folder: PathBuf,
    /// The folder for the databases: short, and one that their users may enter.
    databases: TemporaryFolder,
    record: Record,
}

impl Bench<'_> {
    fn port(&self, offset: u16) -> u16 {
        self.arguments.port + offset
    }

    const fn is_quick(&self) -> bool {
        self.arguments.quick
    }

    /// The smaller number where it is to be quick.
    fn sized<T>(&self, whole: T, quick: T) -> T {
        if self.is_quick() { quick } else { whole }
    }

    fn repeats(&self) -> usize {
        self.sized(self.arguments.repeats.max(1), 1)
    }
}

/// Offsets of the ports.
mod ports {
    /// The server.
    pub(super) const SERVER: u16 = 0;
    /// The called side.
    pub(super) const CALLED: u16 = 1;
    /// The server's figures.
    pub(super) const METRICS: u16 = 2;
    /// The relay.
    pub(super) const RELAY: u16 = 3;
    /// The databases.
    pub(super) const MARIADB: u16 = 4;
    pub(super) const POSTGRES: u16 = 5;
    pub(super) const REDIS: u16 = 6;
}

/// A folder that goes with this value.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("signet-auth-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self(path))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the wanted cases, and writes the results and their page.
pub(crate) fn run(arguments: &AuthArguments) -> Result<(), String> {
    if let Some(results) = &arguments.html {
        let page = page::from_file(results, &arguments.out)?;
        eprintln!("{}", page.display());
        return Ok(());
    }
    let folder = arguments.out.join("auth");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let folder = folder
        .canonicalize()
        .map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut bench = Bench {
        arguments,
        folder,
        databases: TemporaryFolder::new()?,
        record: Record::new(arguments.quick, &arguments.cores),
    };
    // A part, or a run that shows no figures, does not take the place of a whole one.
    let parts: Vec<&str> = arguments.only.iter().map(|case| case.name()).collect();
    let mut name = "auth".to_owned();
    if !parts.is_empty() {
        name += &format!("-{}", parts.join("-"));
    }
    if arguments.quick {
        name += "-quick";
    }
    let path = arguments.out.join(format!("{name}.json"));
    let mut failed = Vec::new();
    for case in CaseName::ALL {
        if !arguments.only.is_empty() && !arguments.only.contains(&case) {
            continue;
        }
        let outcome = match case {
            CaseName::Grid => grid::measure(&mut bench),
            CaseName::Tuner => tuner::measure(&mut bench),
            CaseName::Steps => settle::measure(&mut bench),
            CaseName::Outage => outage::measure(&mut bench),
            CaseName::Stores => stores::measure(&mut bench),
            CaseName::Cost => cost::measure(&mut bench),
            CaseName::Model => model::measure(&mut bench),
            CaseName::Timing => timing::measure(&mut bench),
        };
        if let Err(error) = outcome {
            eprintln!("{}: {error}", case.name());
            bench.record.aims.fail(case.name(), &error);
            failed.push(case.name());
        }
        // What there is survives an end before the last case.
        bench.record.write(&path)?;
    }
    let page = page::from_file(&path, &arguments.out)?;
    bench.record.aims.print();
    eprintln!("\n{}\n{}", path.display(), page.display());
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("not measured to the end: {}", failed.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::pair;

    #[test]
    fn a_pair_is_two_numbers() {
        assert_eq!(pair("8,64"), Ok((8, 64)));
        for wrong in ["8", "8,", "0,4", "8,0", "8,64,1", "a,b"] {
            assert!(pair(wrong).is_err(), "{wrong}");
        }
    }
}
