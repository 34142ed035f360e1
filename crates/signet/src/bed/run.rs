//! `signet bed run`.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use signet_bed::Error;
use signet_bed::experiment::{Experiment, Form};
use signet_bed::report;
use signet_bed::run::{self, Choice, Ended, Options, Task};
use signet_bed::system::Watched;

use super::prices;

/// The seed where none is given.
const SEED: u64 = 1;
/// The first port where none is given.
const PORT: u16 = 17_060;

/// What `signet bed run` is told.
#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// An experiment by its name (`signet bed list` shows them), or a file
    #[arg(value_name = "NAME|FILE")]
    experiment: String,
    /// short: within a quarter of an hour; long: all of it
    #[arg(long, value_name = "FORM", default_value = "short")]
    form: Form,
    /// Systems under test: signet, kamailio, opensips, asterisk; those of the experiment if left out
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        conflicts_with = "to"
    )]
    systems: Vec<String>,
    /// Only cases whose names match this pattern: 'local.*'
    #[arg(long, value_name = "GLOB")]
    cases: Option<String>,
    /// How often each load is measured; as the form says if left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    repeats: Option<u32>,
    /// Seed of the order of cases and all else random [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The folder for record, page and logs [default: bed/NAME-FORM]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on with the record in that folder
    #[arg(long)]
    resume: bool,
    /// The first of six ports on 127.0.0.1 [default: 17060]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Draw the stacks where CPU time is taken apart, in the folder flame
    #[arg(long)]
    flame: bool,
    /// loopback, or namespaces: the server behind a pair of virtual interfaces, which needs root
    /// [default: loopback]
    #[arg(long, value_name = "NETWORK", conflicts_with = "to")]
    network: Option<NetworkName>,
    /// The build that is called signet, and that makes the load [default: this one]
    #[arg(long, value_name = "PATH")]
    signet: Option<PathBuf>,
    /// A server that runs, set up for the cases by hand; the called side is at the third port
    #[arg(long, value_name = "ADDR:PORT")]
    to: Option<SocketAddr>,
    /// What its results are listed under
    #[arg(long, value_name = "NAME", default_value = "server", requires = "to")]
    name: String,
    /// Its processes on this machine: server=PID, database=PID
    #[arg(long, value_name = "PART=PID")]
    watch: Vec<Watched>,
}

/// What is between server and load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum NetworkName {
    Loopback,
    Namespaces,
}

impl RunOptions {
    /// Runs it; gives the exit code.
    pub(super) fn run(&self) -> u8 {
        match self.run_prices() {
            Ok(None) => {}
            Ok(Some(code)) => return code,
            Err(error) => return complain(&error),
        }
        match self.try_run() {
            Ok(Ended::Whole { missed: 0 }) => 0,
            Ok(Ended::Whole { .. }) => 1,
            Ok(Ended::Interrupted) => 130,
            Err(error) => complain(&error),
        }
    }

    /// Runs an experiment that prices packets; `None` where it is of the other kind.
    fn run_prices(&self) -> Result<Option<u8>, String> {
        let Some((experiment, toml)) = prices::opened(&self.experiment)? else {
            return Ok(None);
        };
        let given = [
            (!self.systems.is_empty(), "--systems"),
            (self.cases.is_some(), "--cases"),
            (self.repeats.is_some(), "--repeats"),
            (self.resume, "--resume"),
            (self.flame, "--flame"),
            (self.seed.is_some(), "--seed"),
            (self.port.is_some(), "--port"),
            (self.network.is_some(), "--network"),
            (self.signet.is_some(), "--signet"),
            (self.to.is_some(), "--to"),
            (!self.watch.is_empty(), "--watch"),
        ];
        if let Some((_, option)) = given.iter().find(|(is_given, _)| *is_given) {
            return Err(format!(
                "{} prices packets and tunnels, and no server: leave {option} out",
                experiment.name
            ));
        }
        let out = self.out(&experiment.name);
        prices::run((experiment, toml), self.form, &out).map(Some)
    }

    fn out(&self, name: &str) -> PathBuf {
        let default = || PathBuf::from("bed").join(format!("{name}-{}", self.form));
        self.out.clone().unwrap_or_else(default)
    }

    fn try_run(&self) -> Result<Ended, String> {
        let (experiment, toml) =
            Experiment::open(&self.experiment).map_err(|error| error.to_string())?;
        let said = |error: Error| error.to_string();
        let choice = Choice {
            form: self.form,
            cases: self.cases.clone(),
            systems: self.systems.clone(),
            repeats: self.repeats,
        };
        let task = Task::of(&experiment, toml, &choice).map_err(said)?;
        let options = self.options(&experiment.name)?;
        let ended = run::run(&task, &options).map_err(said)?;
        for page in report::report(&options.out.join(run::RECORD))? {
            measure::stdout::print(format!("the page is {}\n", page.display()))?;
        }
        Ok(ended)
    }

    fn options(&self, name: &str) -> Result<Options, String> {
        let signet = match &self.signet {
            Some(signet) => signet.clone(),
            None => std::env::current_exe().map_err(|error| {
                format!("which program this is cannot be told ({error}): write --signet PATH")
            })?,
        };
        let command = measure::command_line();
        Ok(Options {
            signet,
            seed: self.seed.unwrap_or(SEED),
            out: self.out(name),
            is_resumed: self.resume,
            port: self.port.unwrap_or(PORT),
            to: self.to.map(|to| (self.name.clone(), to)),
            watched: self.watch.clone(),
            has_flame: self.flame,
            has_namespaces: self.network == Some(NetworkName::Namespaces),
            command: command.join(" "),
        })
    }
}

/// Says what is wrong; gives the exit code.
fn complain(error: &str) -> u8 {
    let _ = writeln!(std::io::stderr(), "signet bed run: {error}");
    2
}
