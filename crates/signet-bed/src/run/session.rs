//! A run under way: its systems, its database, its record.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::estimate::{Remaining, said};
use super::file::RecordFile;
use super::hold::{Apart, Rate, Stretch, hold, must_have_ended, overloaded};
use super::order::{Step, steps};
use super::peak::{Wanted, peak};
use super::scene::{Bed, Cores};
use super::stop::Stop;
use super::{Ended, Options, RECORD, Task, checks, leftover, machine, say};
use crate::certificates::Certificates;
use crate::database::{Database, Kind};
use crate::experiment::{Authentication, Case, Load};
use crate::process::{SERVER_CORE, load_core};
use crate::record::{Calibration, CaseResult, FORMAT, Record, Repeat, VERSION, figure};
use crate::share::Share;
use crate::system::{Address, Driver, Network, Ports, driver};
use crate::watch::unix_s;
use crate::{Error, Summary, calibrate};

/// What leads this program to the loops of a calibration.
const CALIBRATE: [&str; 2] = ["bed", "calibrate"];

/// A run under way.
#[derive(Debug)]
pub(super) struct Session<'a> {
    task: &'a Task,
    options: &'a Options,
    drivers: Vec<Box<dyn Driver>>,
    bed: Bed,
    file: RecordFile,
    /// Goes when the database is gone.
    _databases: TemporaryFolder,
}

impl<'a> Session<'a> {
    /// Checks what is there, opens the record, and starts the database.
    pub(super) fn open(task: &'a Task, options: &'a Options) -> Result<Self, Error> {
        let drivers = drivers(task, options)?;
        let is_started = drivers.iter().any(|driver| driver.is_started());
        let users = users(&task.cases).filter(|_| is_started);
        let (ports, versions) = check(options, &drivers, users.is_some())?;
        let defect = |error: String| Error::new(error, "see the folder of the run");
        let stop = Stop::by_signals().map_err(defect)?;
        leftover::remove();
        let cores = Cores {
            server: SERVER_CORE.to_owned(),
            load: load_core().to_owned(),
        };
        let network = if options.has_namespaces {
            Network::namespaces()?
        } else {
            Network::loopback()
        };
        let has_shares = is_started.then(|| has_shares(&task.cases)).flatten();
        let record = Record {
            machine: machine::machine(&cores, &network, has_shares),
            address: options.to.as_ref().map(|(_, address)| address.to_string()),
            versions,
            ..fresh(task, options, &drivers)
        };
        let path = options.out.join(RECORD);
        let file = if options.is_resumed {
            RecordFile::resume(&path, record)?
        } else {
            RecordFile::new(&path, record)?
        };
        let folder = work_folder(&options.out)?;
        let addresses = [network.server, network.load];
        let certificates = Certificates::make_for(&folder, &addresses).map_err(defect)?;
        let databases = TemporaryFolder::new()?;
        let database = users
            .map(|users| {
                let (port, core) = (ports.database(), &cores.load);
                Database::start(Kind::MariaDb, &databases.0, port, core, users as usize)
            })
            .transpose()
            .map_err(|error| Error::new(error, "see that MariaDB starts on this machine"))?;
        let bed = Bed {
            signet: options.signet.clone(),
            folder,
            ports,
            cores,
            certificates,
            database,
            network,
            has_shares: has_shares == Some(true),
            stop,
        };
        Ok(Self {
            task,
            options,
            drivers,
            bed,
            file,
            _databases: databases,
        })
    }

    /// Ends what it started; the record is left.
    pub(super) fn close(self) -> RecordFile {
        self.file
    }

    /// Measures what is not yet measured, in the order of the seed.
    pub(super) fn measure_all(&mut self) -> Result<Ended, Error> {
        self.rule_out()?;
        let order = steps(
            &self.task.cases,
            self.drivers.len(),
            self.task.repeats,
            self.options.seed,
        );
        let left: Vec<Step> = order
            .into_iter()
            .filter(|step| self.is_left(*step))
            .collect();
        let task = self.task;
        let mut remaining = Remaining::new(left.iter().map(|step| task.step_s(step)).sum());
        say(&format!(
            "{} {}: {} measurements, about {}",
            self.task.experiment,
            self.task.form,
            left.len(),
            said(remaining.to_go_s())
        ));
        if left.is_empty() {
            return self.whole();
        }
        self.file.record.ended_unix_s = None;
        let mut before = self.calibrate()?;
        for (at, step) in left.iter().enumerate() {
            let step_s = task.step_s(step);
            if self.bed.stop.is_asked() {
                return Ok(Ended::Interrupted);
            }
            if !self.is_left(*step) {
                remaining.falls_away(step_s);
                continue;
            }
            let begun = Instant::now();
            let outcome = self.measure(*step);
            if self.bed.stop.is_asked() && outcome.is_err() {
                return Ok(Ended::Interrupted);
            }
            let after = self.calibrate()?;
            let told = self.keep(*step, outcome, (before, after))?;
            before = after;
            remaining.took(step_s, begun.elapsed().as_secs_f64());
            say(&format!(
                "{}/{} {told}; {} to go",
                at + 1,
                left.len(),
                said(remaining.to_go_s())
            ));
        }
        self.file.record.ended_unix_s = Some(unix_s() as u64);
        self.whole()
    }

    /// Writes the record of a run with nothing left to measure.
    fn whole(&mut self) -> Result<Ended, Error> {
        let ended = &mut self.file.record.ended_unix_s;
        ended.get_or_insert(unix_s() as u64);
        self.file.write()?;
        let results = self.file.record.results.iter();
        Ok(Ended::Whole {
            missed: results.filter(|result| result.missed.is_some()).count(),
        })
    }

    /// What systems cannot do is kept with its reason before anything is measured.
    fn rule_out(&mut self) -> Result<(), Error> {
        for system in &self.drivers {
            for case in &self.task.cases {
                let by_file = self
                    .task
                    .not_for
                    .iter()
                    .find(|(name, id, _)| name == system.name() && *id == case.id);
                let why = match by_file {
                    Some((_, _, why)) => why.clone(),
                    None => {
                        match system.configuration(&self.bed.stage(&case.setting), &case.setting) {
                            Ok(_) => continue,
                            Err(unable) => unable.to_string(),
                        }
                    }
                };
                say(&format!("{} {}: {why}", case.id, system.name()));
                for load in &case.loads {
                    if let Some(result) = self.file.result(case, system.name(), load) {
                        result.missed = Some(why.clone());
                    }
                }
            }
        }
        self.file.write()
    }

    fn place(&self, step: Step) -> Option<(&'a Case, &dyn Driver, &'a Load)> {
        let case = self.task.cases.get(step.case)?;
        let driver = self.drivers.get(step.system)?;
        Some((case, driver.as_ref(), case.loads.get(step.load)?))
    }

    /// Whether it is still to be measured.
    fn is_left(&self, step: Step) -> bool {
        self.place(step).is_some_and(|(case, driver, load)| {
            let results = self.file.record.results.iter();
            let mut results = results.filter(|result| {
                result.case.id == case.id && result.system == driver.name() && result.load == *load
            });
            results
                .next()
                .is_some_and(|result| result.missed.is_none() && step.is_left(result.repeats.len()))
        })
    }

    fn measure(&self, step: Step) -> Result<Repeat, String> {
        let (case, driver, load) = self.place(step).ok_or("no such step")?;
        let stretch = Stretch {
            warm_up_s: u64::from(self.task.lengths.warm_up_s),
            measure_s: u64::from(self.task.lengths.measure_s),
        };
        // The same for all systems in a round: they meet the same load.
        let seed = self.options.seed.wrapping_add(u64::from(step.round)) & u64::from(u32::MAX);
        match load {
            Load::Rate { per_s, .. } => {
                let is_taken_apart = self.task.repeats.is_taken_apart(load, step.round);
                let rate = Rate {
                    per_s: *per_s,
                    stretch,
                    seed,
                    apart: is_taken_apart.then(|| self.apart(case, driver, *per_s)),
                };
                let held = hold(&self.bed, driver, &case.setting, rate);
                let mut repeat = held.and_then(must_have_ended)?;
                repeat.overloaded = overloaded(&repeat, *per_s);
                Ok(repeat)
            }
            Load::Peak {
                failures_max,
                guess_per_s,
            } => {
                let wanted = Wanted {
                    failures_max: *failures_max,
                    guess_per_s: *guess_per_s,
                    known_per_s: self.found(step),
                    stretch,
                    seed,
                    below: &case.below,
                };
                peak(&self.bed, driver, &case.setting, wanted)
            }
        }
    }

    /// How CPU time is taken apart; stacks are drawn where that is wanted.
    fn apart(&self, case: &Case, driver: &dyn Driver, per_s: f64) -> Apart {
        let name = format!(
            "{}.{}.{}.svg",
            case.id,
            driver.name(),
            super::hold::plain(per_s)
        );
        let flame = self.options.out.join("flame").join(name);
        Apart {
            flame: self.options.has_flame.then_some(flame),
        }
    }

    /// The peak that earlier rounds found.
    fn found(&self, step: Step) -> Option<f64> {
        let (case, driver, load) = self.place(step)?;
        let mut results = self.file.record.results.iter();
        let result = results.find(|result| {
            result.case.id == case.id && result.system == driver.name() && result.load == *load
        })?;
        let rates = result.repeats.iter();
        let rates = rates.filter_map(|repeat| repeat.figures.get(figure::RATE_PER_S).copied());
        Summary::of(rates.collect()).map(|rates| rates.median)
    }

    /// Runs the loops that tell of the machine; its index in the record.
    fn calibrate(&mut self) -> Result<usize, Error> {
        let found = calibrate::measure_whole(&self.bed.cores.server, &CALIBRATE);
        let (speed, stolen) = found
            .map_err(|error| Error::new(error, "run it by the program itself: signet bed run"))?;
        self.file.record.calibrations.push(Calibration {
            at_unix_s: unix_s() as u64,
            compute_us: speed.compute_us,
            kernel_us: speed.kernel_us,
            stolen,
        });
        Ok(self.file.record.calibrations.len() - 1)
    }

    /// Puts an outcome into the record and writes it; what is said of it.
    fn keep(
        &mut self,
        step: Step,
        outcome: Result<Repeat, String>,
        (before, after): (usize, usize),
    ) -> Result<String, Error> {
        let Some((case, driver, load)) = self.place(step) else {
            return Ok(String::new());
        };
        let name = driver.name().to_owned();
        let head = format!("{} {name} {}", case.id, shown(load));
        let Some(result) = self.file.result(case, &name, load) else {
            return Ok(head);
        };
        let told = match outcome {
            Ok(mut repeat) => {
                repeat.calibration_before = Some(before);
                repeat.calibration_after = Some(after);
                let told = format!("{head}: {}", in_a_line(&repeat));
                result.repeats.push(repeat);
                told
            }
            Err(why) => {
                let told = format!("{head}: missed: {why}");
                result.missed = Some(why);
                told
            }
        };
        self.file.write()?;
        Ok(told)
    }
}

/// What must be there before anything starts: the ports, and the versions of what is installed.
fn check(
    options: &Options,
    drivers: &[Box<dyn Driver>],
    has_database: bool,
) -> Result<(Ports, BTreeMap<String, String>), Error> {
    let ports = Ports::from(options.port).ok_or_else(|| {
        Error::new(
            format!(
                "--port {} leaves no room for {}",
                options.port,
                Ports::COUNT
            ),
            "choose a lower one",
        )
    })?;
    checks::tools(has_database)?;
    let versions = machine::versions(drivers, has_database, &options.signet)
        .map_err(|unable| Error::new(unable.why, unable.remedy))?;
    let is_started = drivers.iter().any(|driver| driver.is_started());
    checks::ports(ports, |port| {
        let is_of_database = port == ports.relay() || port == ports.database();
        port == ports.called() || (is_started && (has_database || !is_of_database))
    })?;
    checks::folder(&options.out)?;
    Ok((ports, versions))
}

/// The systems under test.
fn drivers(task: &Task, options: &Options) -> Result<Vec<Box<dyn Driver>>, Error> {
    if let Some((name, to)) = &options.to {
        return Ok(vec![Box::new(Address::new(name, *to, &options.watched))]);
    }
    if !options.watched.is_empty() {
        return Err(Error::new(
            "--watch is for a server that is given by its address",
            "write --to ADDRESS:PORT, or drop it: what the bed starts it watches by itself",
        ));
    }
    if task.systems.is_empty() {
        return Err(Error::new(
            "no system is to be measured",
            "name one by --systems",
        ));
    }
    let systems = task.systems.iter();
    systems.map(|name| driver(name, &options.signet)).collect()
}

/// Users that the database is to have; `None` where no case has one.
fn users(cases: &[Case]) -> Option<u32> {
    let with_database = cases
        .iter()
        .filter(|case| case.setting.authentication == Authentication::Mariadb);
    with_database.map(|case| case.setting.agents.users).max()
}

/// Whether servers can be held to a share of their core, where a case wants it. Where not, they
/// have all of it, and a peak that is not theirs is told as the least that they can do. `None`
/// where no case wants it.
fn has_shares(cases: &[Case]) -> Option<bool> {
    let shares = cases.iter().filter_map(|case| case.setting.server_share);
    let share = shares.filter(|share| *share < 1.0).min_by(f64::total_cmp)?;
    Some(match Share::try_out(share) {
        Ok(()) => true,
        Err(why) => {
            say(&format!(
                "the servers have a whole core and not {share} of it: {why}"
            ));
            false
        }
    })
}

/// A record with a place for every result.
fn fresh(task: &Task, options: &Options, drivers: &[Box<dyn Driver>]) -> Record {
    let mut results = Vec::new();
    for case in &task.cases {
        for driver in drivers {
            for load in &case.loads {
                results.push(CaseResult {
                    case: case.clone(),
                    system: driver.name().to_owned(),
                    load: load.clone(),
                    repeats: Vec::new(),
                    missed: None,
                });
            }
        }
    }
    Record {
        format: FORMAT.to_owned(),
        version: VERSION,
        experiment: task.experiment.clone(),
        experiment_toml: task.toml.clone(),
        form: task.form.clone(),
        command: options.command.clone(),
        seed: options.seed,
        started_unix_s: unix_s() as u64,
        results,
        ..Record::default()
    }
}

fn shown(load: &Load) -> String {
    match load {
        Load::Peak { failures_max, .. } => format!("peak at {:.0} %", failures_max * 100.0),
        Load::Rate { per_s, .. } => format!("{}/s", super::hold::plain(*per_s)),
    }
}

/// The figures that matter most.
fn in_a_line(repeat: &Repeat) -> String {
    let of = |name: &str| repeat.figures.get(name).copied();
    let mut parts = Vec::new();
    let mut add = |name: &str, show: &dyn Fn(f64) -> String| parts.extend(of(name).map(show));
    add(figure::RATE_PER_S, &|rate| match rate < 10.0 {
        true => format!("{}/s", super::hold::plain(rate)),
        false => format!("{rate:.0}/s"),
    });
    add(figure::SERVER_CPU_US, &|us| format!("{us:.1} us each"));
    add(figure::SERVER_CORES, &|cores| {
        format!("{:.0} % of a core", cores * 100.0)
    });
    add(figure::FAILED_SHARE, &|share| {
        format!("{:.2} % failed", share * 100.0)
    });
    let reservations: Vec<String> = repeat.reservations().collect();
    if !reservations.is_empty() {
        parts.push(format!("doubted: {}", reservations.join(" ")));
    }
    parts.join(", ")
}

/// Marks a folder that a run made, and that the next one may make anew.
const MADE_HERE: &str = "made-by-signet-bed";

/// The folder for configurations and logs, which is made anew.
fn work_folder(out: &Path) -> Result<PathBuf, Error> {
    let folder = out.join("work");
    if folder.exists() && !folder.join(MADE_HERE).exists() {
        return Err(Error::new(
            format!("{} is there, and no run made it", folder.display()),
            "choose another --out, or move it away",
        ));
    }
    let failed = |error: std::io::Error| {
        Error::new(
            format!("cannot make {}: {error}", folder.display()),
            "choose another --out",
        )
    };
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(failed)?;
    std::fs::write(folder.join(MADE_HERE), "").map_err(failed)?;
    folder.canonicalize().map_err(failed)
}

/// A folder for the database that goes with this value: short, since the path of a socket is
/// in it.
#[derive(Debug)]
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new() -> Result<Self, Error> {
        let name = format!("{}{}", leftover::DATABASE, std::process::id());
        Self::make(std::env::temp_dir().join(name))
    }

    /// Makes it, for this user alone. Its name can be guessed, and whatever has it already is a run's
    /// that was killed, or was laid there by somebody else to have the database in it.
    fn make(path: PathBuf) -> Result<Self, Error> {
        let _ = std::fs::remove_dir_all(&path);
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| {
            Error::new(
                format!("cannot make {}: {error}", path.display()),
                "remove what has that name, make room there, or name another place by TMPDIR",
            )
        })?;
        Ok(Self(path))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_rate_is_told_as_more_than_none() {
        let told = |rate_per_s: f64| {
            in_a_line(&Repeat {
                figures: [(figure::RATE_PER_S.to_owned(), rate_per_s)].into(),
                ..Repeat::default()
            })
        };
        assert_eq!(told(0.004), "0.004/s");
        assert_eq!(told(2.5), "2.5/s");
        assert_eq!(told(1_234.4), "1234/s");
    }

    #[test]
    fn only_a_folder_that_a_run_made_is_made_anew() {
        let out = std::env::temp_dir().join(format!("signet-bed-work-{}", std::process::id()));
        let theirs = out.join("work").join("thesis.txt");
        std::fs::create_dir_all(out.join("work")).unwrap();
        std::fs::write(&theirs, "years").unwrap();
        let error = work_folder(&out).unwrap_err().to_string();
        assert!(error.contains("no run made it"), "{error}");
        assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "years");

        std::fs::remove_dir_all(out.join("work")).unwrap();
        let folder = work_folder(&out).unwrap();
        std::fs::write(folder.join("server.log"), "of the last run").unwrap();
        let again = work_folder(&out).unwrap();
        assert_eq!(again, folder);
        assert!(!folder.join("server.log").exists());
        std::fs::remove_dir_all(&out).unwrap();
    }

    #[test]
    fn the_folder_of_the_database_is_this_runs_alone() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let within = std::env::temp_dir().join(format!("signet-bed-own-{}", std::process::id()));
        let (theirs, path) = (within.join("theirs"), within.join("ours"));
        std::fs::create_dir_all(&theirs).unwrap();
        let letter = theirs.join("letter.txt");
        std::fs::write(&letter, "dear").unwrap();
        symlink(&theirs, &path).unwrap();
        let folder = TemporaryFolder::make(path.clone()).unwrap();
        let made = std::fs::symlink_metadata(&path).unwrap();
        assert!(made.is_dir(), "not where the link led");
        assert_eq!(made.permissions().mode() & 0o777, 0o700);
        drop(folder);
        assert!(!path.exists());
        assert_eq!(std::fs::read_to_string(&letter).unwrap(), "dear");
        // What is left of a run of the same id is in nobody's way.
        std::fs::create_dir_all(path.join("MariaDB")).unwrap();
        let again = TemporaryFolder::make(path).unwrap();
        assert!(!again.0.join("MariaDB").exists());
        std::fs::remove_dir_all(&within).unwrap();
    }
}
