//! `signet plan`: the command line.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use measure::Host;
use measure::stdout::print;
use signet_plan::calibrate::{self, calibrate};
use signet_plan::check::{self, Check, HEADING};
use signet_plan::fit::SPARE_MIN;
use signet_plan::profile::SHIPPED;
use signet_plan::{Demand, Plan, Profile, machine};

/// There is a plan; what was measured is written.
const EXIT_FINE: u8 = 0;
/// The plan is refused, or no prediction could be held to anything.
const EXIT_REFUSED: u8 = 1;
/// A file or a command is wrong, or something does not run.
const EXIT_WRONG: u8 = 2;
/// Where a profile is written, and looked for.
const PROFILE: &str = "signet-profile.json";

/// What `signet plan` is told.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct PlanOptions {
    #[command(subcommand)]
    command: Option<PlanCommand>,
    /// What is asked of the service, in TOML; etc/plan.toml explains every key
    #[arg(value_name = "FILE", required = true)]
    demand: Option<PathBuf>,
    /// Override a key: calls.busy_hour=50000; several times if you like
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// Prices to use: a file that signet plan calibrate wrote, or a name that signet plan profiles
    /// lists, if any
    #[arg(long, value_name = "FILE|NAME", default_value = PROFILE)]
    profile: String,
    /// Write the plan as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the plan as a page, one file for a browser
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum PlanCommand {
    /// Measure what things cost on this machine; end what else runs there first
    Calibrate(CalibrateOptions),
    /// Compare predictions with mixtures that took no part in the calibration
    Check(CheckOptions),
    /// Name the profiles that this program brings, if it brings any
    Profiles,
}

/// What is started to measure with.
#[derive(Debug, Args)]
struct BenchOptions {
    /// The build that is measured, and that makes the load [default: this one]
    #[arg(long, value_name = "PATH")]
    signet: Option<PathBuf>,
    /// The first of nine ports on 127.0.0.1
    #[arg(long, value_name = "PORT", default_value_t = 17_160)]
    port: u16,
    /// The folder for configurations and logs
    #[arg(long, value_name = "DIR", default_value = "signet-plan-work")]
    work: PathBuf,
    /// Show that it works, in a minute or two; no figure of it is one to plan by
    #[arg(long)]
    quick: bool,
}

#[derive(Debug, Args)]
struct CalibrateOptions {
    #[command(flatten)]
    bench: BenchOptions,
    /// Where the profile is written
    #[arg(long, value_name = "FILE", default_value = PROFILE)]
    out: PathBuf,
    /// What it is called [default: the file's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

#[derive(Debug, Args)]
struct CheckOptions {
    #[command(flatten)]
    bench: BenchOptions,
    /// The profile whose predictions are checked; their error is written into it, but not with
    /// --quick
    #[arg(long, value_name = "FILE", default_value = PROFILE)]
    profile: PathBuf,
    /// How many mixtures; 3 with --quick
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    cases: Option<u32>,
    /// Seed of the random mixtures
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write each mixture, predicted and measured, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs it; gives the exit code.
pub(crate) fn run(options: &PlanOptions) -> u8 {
    let done = match &options.command {
        None => options.plan(),
        Some(PlanCommand::Calibrate(options)) => options.run(),
        Some(PlanCommand::Check(options)) => options.run(),
        Some(PlanCommand::Profiles) => print(profiles()).map(|()| EXIT_FINE),
    };
    done.unwrap_or_else(|error| {
        let _ = writeln!(std::io::stderr(), "signet plan: {error}");
        EXIT_WRONG
    })
}

fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn command() -> String {
    measure::command_line().join(" ")
}

fn profiles() -> String {
    let mut told = String::new();
    for (name, _) in SHIPPED {
        told.push_str(&match Profile::open(name) {
            Ok(profile) => {
                let checked = profile.checked.map(|checked| checked.told());
                format!(
                    "{name}: {}, {} cores, signet {}; predictions from it were {}; not of this machine\n",
                    profile.machine.cpu_model,
                    profile.machine.cores,
                    profile.program.trim_start_matches("signet "),
                    checked.as_deref().unwrap_or("not checked"),
                )
            }
            Err(error) => format!("{name}: {error}\n"),
        });
    }
    if told.is_empty() {
        told.push_str("none is shipped: signet plan calibrate makes one of this machine\n");
    }
    told
}

impl PlanOptions {
    fn plan(&self) -> Result<u8, String> {
        let file = self.demand.as_deref().ok_or("name the demand's file")?;
        let demand = Demand::open(file, &self.set).map_err(said)?;
        let profile = Profile::open(&self.profile).map_err(said)?;
        let is_own = profile.is_of(&Host::this(), machine::this().as_deref());
        let plan = match signet_plan::plan(&profile, &demand, is_own) {
            Ok(plan) => plan,
            Err(refusal) => {
                let _ = writeln!(std::io::stderr(), "signet plan: {refusal}");
                return Ok(EXIT_REFUSED);
            }
        };
        self.keep(&plan)?;
        print(signet_plan::text(&plan))?;
        Ok(EXIT_FINE)
    }

    fn keep(&self, plan: &Plan) -> Result<(), String> {
        if let Some(path) = &self.json {
            let text = serde_json::to_string_pretty(plan).map_err(said)?;
            write(path, &(text + "\n"))?;
        }
        if let Some(path) = &self.html {
            write(path, &signet_plan::page(plan, &command()).map_err(said)?)?;
        }
        Ok(())
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    measure::file::write(path, text.as_bytes()).map_err(|error| {
        format!(
            "{}: {error}: name a file that can be written",
            path.display()
        )
    })
}

impl BenchOptions {
    fn signet(&self) -> Result<PathBuf, String> {
        match &self.signet {
            Some(signet) => Ok(signet.clone()),
            None => std::env::current_exe().map_err(|error| {
                format!("which program this is cannot be told ({error}): write --signet PATH")
            }),
        }
    }

    /// A folder of its own in the one that is named, since it empties what it works in; as a
    /// path that holds wherever a server is started.
    fn work(&self) -> Result<PathBuf, String> {
        std::path::absolute(self.work.join("signet-plan-run"))
            .map_err(|error| format!("{}: {error}: write --work DIR", self.work.display()))
    }
}

impl CalibrateOptions {
    fn run(&self) -> Result<u8, String> {
        let stem = self.out.file_stem().and_then(|stem| stem.to_str());
        let options = calibrate::Options {
            signet: self.bench.signet()?,
            folder: self.bench.work()?,
            port: self.bench.port,
            is_quick: self.bench.quick,
            name: self
                .name
                .clone()
                .unwrap_or_else(|| stem.unwrap_or("profile").to_owned()),
            command: command(),
        };
        crate::price::try_files(&[Some(&self.out)])?;
        if Profile::is_shipped_as(&options.name) {
            return Err(format!(
                "a profile called {} comes with this program: choose another with --name",
                options.name
            ));
        }
        let profile = calibrate(&options, &say).map_err(said)?;
        profile.write(&self.out).map_err(said)?;
        let but = if profile.spare_runs() < SPARE_MIN {
            ", which are hardly more than it has prices"
        } else {
            ""
        };
        print(format!(
            "{}: {} runs, {} of them count; the model is off by {:.1}% on the runs it was made from{but}\n",
            self.out.display(),
            profile.runs.len(),
            profile
                .runs
                .iter()
                .filter(|run| run.doubts.is_empty())
                .count(),
            profile.fit.residual * 100.0
        ))?;
        Ok(EXIT_FINE)
    }
}

impl CheckOptions {
    fn run(&self) -> Result<u8, String> {
        let name = self.profile.display().to_string();
        let mut profile = Profile::open(&name).map_err(said)?;
        if profile.is_shipped() && !self.bench.quick {
            return Err(format!(
                "{name} comes with this program, and its check with it: measure this machine with \
                 `signet plan calibrate`, and check that profile"
            ));
        }
        let is_of_another = profile.is_of_another(&Host::this(), machine::this().as_deref());
        if is_of_another && !self.bench.quick {
            return Err(format!(
                "{name} is of another machine ({}), and what predictions are off by here is nothing \
                 to write into it: measure this machine with `signet plan calibrate`, and check \
                 that profile",
                profile.machine.cpu_model
            ));
        }
        let default_cases = if self.bench.quick { 3 } else { check::CASES };
        let options = check::Options {
            signet: self.bench.signet()?,
            folder: self.bench.work()?,
            port: self.bench.port,
            cases: self.cases.unwrap_or(default_cases),
            seed: self.seed,
            is_quick: self.bench.quick,
        };
        let kept = (!self.bench.quick).then_some(&self.profile);
        crate::price::try_files(&[kept, self.json.as_ref()])?;
        print(format!("{HEADING}\n"))?;
        // What cannot be printed now cannot be printed at the end, which is told then.
        let line = |line: &str| {
            let _ = print(format!("{line}\n"));
        };
        let found: Check = check::check(&profile, &options, &line).map_err(said)?;
        let printed = print(format!("{}\n", found.summary()));
        if let Some(path) = &self.json {
            let text = serde_json::to_string_pretty(&found).map_err(said)?;
            write(path, &(text + "\n"))?;
        }
        if found.checked.is_none() {
            return printed.map(|()| EXIT_REFUSED);
        }
        if options.is_quick {
            printed?;
            print("made in a hurry: not kept in the profile\n")?;
            return Ok(EXIT_FINE);
        }
        profile.checked = found.checked;
        profile.write(&self.profile).map_err(said)?;
        printed.map(|()| EXIT_FINE)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    fn options(line: &str) -> Result<PlanOptions, clap::Error> {
        let words = format!("signet plan {line}");
        match Args::try_parse_from(words.split_whitespace())?.command {
            Command::Plan(options) => Ok(*options),
            _ => panic!("not plan"),
        }
    }

    #[test]
    fn a_file_or_a_verb_is_taken() {
        let plan = options("etc/plan.toml --set calls.hold_s=5 --set tls.resumed=1").unwrap();
        assert_eq!(plan.demand, Some(PathBuf::from("etc/plan.toml")));
        assert_eq!(plan.set.len(), 2);
        assert_eq!(plan.profile, PROFILE);
        let calibrate = options("calibrate --quick --out it.json --port 20000").unwrap();
        let Some(PlanCommand::Calibrate(calibrate)) = calibrate.command else {
            panic!("not calibrate")
        };
        assert!(calibrate.bench.quick);
        assert_eq!(calibrate.bench.port, 20_000);
        let check = options("check --seed 7 --cases 5").unwrap();
        let Some(PlanCommand::Check(check)) = check.command else {
            panic!("not check")
        };
        assert_eq!((check.seed, check.cases), (7, Some(5)));
        for wrong in [
            "",
            "check --cases 0",
            "it.toml calibrate",
            "calibrate --port x",
        ] {
            assert!(options(wrong).is_err(), "{wrong}");
        }
    }
}
