//! What things cost on one machine.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use measure::Host;
use measure::statistics::deviation;
use serde::{Deserialize, Serialize};
use signet_bed::Error;
use signet_bed::calibrate::Speed;

use crate::drive::Mixture;
use crate::event::{Event, KEPT_S, Rates};
use crate::fit::{self, Fit, Sample};

/// The name in every file.
pub const FORMAT: &str = "signet-plan-profile";
/// The version that is written and read. Version 1 had neither the machine's identifier nor the
/// errors of base and wake-ups, version 2 no price of what is mixed.
pub const VERSION: u32 = 3;
/// Of larger files no more is read, and they are refused.
const FILE_BYTES_MAX: u64 = 1 << 26;
/// How a reason in [`Profile::missing`] begins that is about the long run: no price is missing for
/// want of that.
pub(crate) const LONG_RUN: &str = "the long run";

/// Profiles of these names, each with the text of its file in `profiles`.
macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../profiles/", $name, ".json")))),*]
    };
}

/// Profiles of machines that were measured by the authors, by their names.
pub const SHIPPED: &[(&str, &str)] = shipped!["epyc-2c"];

/// What things cost on one machine: what was measured there, and what follows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// What it is called.
    pub name: String,
    /// The command that made it.
    pub command: String,
    /// The version of the server.
    pub program: String,
    /// When, seconds since 1970.
    pub made_unix_s: u64,
    /// The machine.
    pub machine: Host,
    /// Which machine it is among those alike ([`crate::machine::this`]); `None` where it has no
    /// identifier.
    pub machine_id: Option<String>,
    /// Whether it was made in a hurry, to show that it works.
    pub is_quick: bool,
    /// How fast the machine was, in the middle.
    pub speed: Option<Speed>,
    /// What could not be measured, and why.
    pub missing: Vec<String>,
    /// What was measured, one after the other.
    pub runs: Vec<Run>,
    /// What a binding, a connection, a call and a transaction hold in memory.
    pub memory: Memory,
    /// Connections that were held at once.
    pub connections_max: u64,
    /// The long run, where there was one.
    pub later: Option<Later>,
    /// The prices in CPU time.
    pub fit: Fit,
    /// SIP bytes that each thing moves, in and out.
    pub bytes: BTreeMap<Event, f64>,
    /// How far runs are from that, as a share: root of the mean square.
    pub bytes_residual: f64,
    /// The database, where one was measured.
    pub database: Option<DatabasePrice>,
    /// How predictions of mixtures compared.
    pub checked: Option<Checked>,
}

/// A run of the calibration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// What was asked of the server.
    pub mixture: Mixture,
    /// What happened in a second, as the load counted it.
    pub rates: Rates,
    /// CPU time of the server, in cores.
    pub cores: f64,
    /// CPU time of the database, in cores.
    pub database_cores: Option<f64>,
    /// SIP bytes in and out of the server, a second.
    pub bytes_per_s: f64,
    /// What passed between server and database, headers included, in bits a second.
    pub database_bits_per_s: Option<f64>,
    /// How fast the machine was.
    pub speed: Option<Speed>,
    /// Why it does not count; empty where it does.
    pub doubts: Vec<String>,
}

/// What things hold in the memory of a server, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// A server with nothing to do.
    pub base: f64,
    /// A registered contact.
    pub binding: Held,
    /// A TCP connection and the contact registered over it.
    pub tcp: Held,
    /// The same with TLS.
    pub tls: Held,
    /// A call that stands.
    pub call: Held,
    /// A transaction that stays for 64*T1.
    pub transaction: Held,
}

/// What one thing holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// Bytes.
    pub bytes: f64,
    /// Half of what two readings differ by.
    pub error_bytes: f64,
}

/// What comes 64*T1 later: transactions that end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Later {
    /// CPU time of each, in microseconds.
    pub us: f64,
    /// Its standard error.
    pub error_us: f64,
}

impl Later {
    /// Standard errors that a figure has above it, or it may be noise alone.
    const ERRORS: f64 = 2.0;

    /// Whether the long run showed it above its noise.
    pub fn is_seen(&self) -> bool {
        self.us > Self::ERRORS * self.error_us
    }
}

/// What a look-up costs outside of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabasePrice {
    /// CPU time of the database, in microseconds.
    pub us: f64,
    /// Its standard deviation over the runs.
    pub error_us: f64,
    /// Bits between server and database, headers included, where they were counted.
    pub bits: Option<f64>,
    /// The longest round trip with which it was measured, in milliseconds.
    pub rtt_ms_max: f64,
}

/// How predictions of mixtures compared with what was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checked {
    /// Mixtures.
    pub cases: u64,
    /// Mean of the errors without their signs, as a share.
    pub mean: f64,
    /// Root of the mean of their squares.
    pub root_mean_square: f64,
    /// The worst of them.
    pub worst: f64,
    /// The least that one of them took, in cores.
    pub cores_min: f64,
    /// The most that one of them took, in cores.
    pub cores_max: f64,
}

impl Checked {
    /// What predictions were, in a few words: on how many mixtures, and how busy these kept a
    /// core.
    pub fn told(&self) -> String {
        let percent = signet_page::number::percent;
        format!(
            "off by {} on the average of {} mixtures, at {} to {} of a core",
            percent(self.mean),
            self.cases,
            percent(self.cores_min),
            percent(self.cores_max)
        )
    }
}

/// Parts of a profile in which no figure is below 0.
const COUNTED: [&str; 7] = [
    "fit",
    "memory",
    "later",
    "database",
    "bytes",
    "bytes_residual",
    "checked",
];

/// The key of a figure below 0 in this part of a value.
fn below_nothing(value: &serde_json::Value, key: &str) -> Option<String> {
    let part = value.get(key)?;
    if part.as_f64().is_some_and(|figure| figure < 0.0) {
        return Some(key.to_owned());
    }
    let mut inner = part.as_object()?.keys();
    let found = inner.find_map(|key| below_nothing(part, key))?;
    Some(format!("{key}.{found}"))
}

impl Profile {
    /// Reads one by the name of a file, or one that is shipped by its own name.
    ///
    /// # Errors
    /// What is wrong with it, or which there are.
    pub fn open(name: &str) -> Result<Self, Error> {
        if let Some((_, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
            return Self::parse(name, text);
        }
        let path = Path::new(name);
        let text = measure::file::read_text(path, FILE_BYTES_MAX).map_err(|error| {
            if error.kind() == ErrorKind::FileTooLarge {
                return Error::new(
                    format!("{name} is too large to be a profile"),
                    "name a file that `signet plan calibrate` wrote",
                );
            }
            Error::new(
                format!("{name}: {error}"),
                format!(
                    "make one with `signet plan calibrate --out {name}`{}",
                    others()
                ),
            )
        })?;
        Self::parse(name, &text)
    }

    /// Whether it is one that is shipped, and so not of this machine.
    pub fn is_shipped(&self) -> bool {
        Self::is_shipped_as(&self.name)
    }

    /// Whether one of that name is shipped: it would be taken for it.
    pub fn is_shipped_as(name: &str) -> bool {
        SHIPPED.iter().any(|(shipped, _)| *shipped == name)
    }

    /// Whether it was measured on this machine: on the one with this identifier, as it is now.
    /// Machines of one kind differ, so that it is not enough to be alike.
    pub fn is_of(&self, machine: &Host, id: Option<&str>) -> bool {
        let is_same = self.machine_id.is_some() && self.machine_id.as_deref() == id;
        is_same
            && !self.is_shipped()
            && self.machine.cpu_model == machine.cpu_model
            && self.machine.cores == machine.cores
    }

    /// Whether it is known to be of another machine than this. Of two that are alike and have no
    /// identifier nobody can tell.
    pub fn is_of_another(&self, machine: &Host, id: Option<&str>) -> bool {
        self.is_shipped()
            || self.machine_id.as_deref() != id
            || self.machine.cpu_model != machine.cpu_model
            || self.machine.cores != machine.cores
    }

    fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let remedy = "make it anew with `signet plan calibrate`";
        let value: serde_json::Value = serde_json::from_str(text)
            .map_err(|error| Error::new(format!("{name} is no profile ({error})"), remedy))?;
        let format = value.get("format").and_then(serde_json::Value::as_str);
        let version = value.get("version").and_then(serde_json::Value::as_u64);
        if format != Some(FORMAT) || version != Some(u64::from(VERSION)) {
            return Err(Error::new(
                format!("{name} is no profile of version {VERSION}"),
                remedy,
            ));
        }
        if let Some(figure) = COUNTED.iter().find_map(|key| below_nothing(&value, key)) {
            let what = format!("{name}: {figure} is below 0, and nothing costs less than nothing");
            return Err(Error::new(what, remedy));
        }
        serde_json::from_value(value)
            .map_err(|error| Error::new(format!("{name} cannot be read ({error})"), remedy))
    }

    /// Writes it.
    ///
    /// # Errors
    /// The file that cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(self).map_err(|error| {
            Error::new(
                error.to_string(),
                "this is a fault of this program; report it",
            )
        })?;
        measure::file::write(path, (text + "\n").as_bytes()).map_err(|error| {
            Error::new(
                format!("{}: {error}", path.display()),
                "name a file that can be written with --out",
            )
        })
    }

    /// Works prices out of the runs that count.
    pub fn work_out(&mut self) {
        self.speed = middle(self.runs.iter().filter_map(|run| run.speed));
        let counting = || self.runs.iter().filter(|run| run.doubts.is_empty());
        let of = |value: &dyn Fn(&Run) -> f64| -> Vec<Sample> {
            counting()
                .map(|run| Sample {
                    rates: run.rates.clone(),
                    value: value(run),
                })
                .collect()
        };
        let cores = of(&|run| run.cores / self.slowness(run.speed));
        self.fit = Fit::of(&cores, self.noise());
        (self.bytes, self.bytes_residual) = fit::shares(&of(&|run| run.bytes_per_s));
        self.database = database(counting());
    }

    /// How much slower the machine was than in the middle: 1.1 where the same work took a tenth
    /// more CPU time.
    pub fn slowness(&self, speed: Option<Speed>) -> f64 {
        match (speed, self.speed) {
            (Some(now), Some(middle)) => whole_us(now) / whole_us(middle).max(1e-9),
            _ => 1.0,
        }
    }

    /// How many more runs count than there are unknowns in the fit.
    pub fn spare_runs(&self) -> usize {
        let counting = self.runs.iter().filter(|run| run.doubts.is_empty());
        fit::spare(counting.count(), self.fit.prices.len())
    }

    /// By what share a run may be off: by as much as the fit is from the runs, or as repeats
    /// differ, whichever is more.
    pub fn off_by(&self) -> f64 {
        self.fit.residual.max(self.noise())
    }

    /// By what share runs of the same mixture differ.
    fn noise(&self) -> f64 {
        let mut repeats: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for run in self.runs.iter().filter(|run| run.doubts.is_empty()) {
            let cores = run.cores / self.slowness(run.speed);
            repeats
                .entry(run.mixture.name.clone())
                .or_default()
                .push(cores);
        }
        let shares: Vec<f64> = repeats
            .values()
            .filter(|values| values.len() > 1)
            .map(|values| deviation(values) / measure::statistics::mean(values).max(1e-9))
            .collect();
        let squares: f64 = shares.iter().map(|share| share * share).sum();
        (squares / shares.len().max(1) as f64).sqrt()
    }

    /// CPU time with these rates in the long run: what ends 64*T1 later is in it. Microseconds
    /// and their uncertainty, in cores.
    pub fn later_cores(&self, rates: &Rates) -> (f64, f64) {
        let later = self.later.unwrap_or_default();
        let per_s = rates.kept_per_s();
        (per_s * later.us / 1e6, per_s * later.error_us / 1e6)
    }

    /// Transactions that stand with these rates.
    pub fn kept(rates: &Rates) -> f64 {
        rates.kept_per_s() * KEPT_S
    }
}

/// Both loops together: their geometric mean.
fn whole_us(speed: Speed) -> f64 {
    (speed.compute_us * speed.kernel_us).max(0.0).sqrt()
}

fn middle(speeds: impl Iterator<Item = Speed>) -> Option<Speed> {
    let mut speeds: Vec<Speed> = speeds.collect();
    speeds.sort_by(|a, b| whole_us(*a).total_cmp(&whole_us(*b)));
    speeds.get(speeds.len() / 2).copied()
}

/// The mean of what a look-up took in each run.
fn database<'a>(runs: impl Iterator<Item = &'a Run>) -> Option<DatabasePrice> {
    let (mut us, mut bits, mut rtt_ms_max) = (Vec::new(), Vec::new(), 0.0_f64);
    for run in runs {
        let lookups_per_s = run.rates.get(Event::VerifyRemote);
        if lookups_per_s <= 0.0 {
            continue;
        }
        rtt_ms_max = rtt_ms_max.max(run.mixture.rtt_ms as f64);
        us.extend(run.database_cores.map(|cores| cores * 1e6 / lookups_per_s));
        bits.extend(run.database_bits_per_s.map(|all| all / lookups_per_s));
    }
    (!us.is_empty()).then(|| DatabasePrice {
        us: measure::statistics::mean(&us),
        error_us: deviation(&us),
        bits: (!bits.is_empty()).then(|| measure::statistics::mean(&bits)),
        rtt_ms_max,
    })
}

/// The profiles that are shipped, for a remedy.
fn others() -> String {
    let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
    if names.is_empty() {
        String::new()
    } else {
        format!(", or take a shipped one: --profile {}", names.join(" or "))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing;

    #[test]
    fn what_is_written_is_read_again() {
        let path = std::env::temp_dir().join(format!("signet-plan-{}", std::process::id()));
        let profile = testing::profile();
        profile.write(&path).unwrap();
        let name = path.display().to_string();
        assert_eq!(Profile::open(&name).unwrap(), profile);
        std::fs::write(&path, "{\"format\": \"signet-load\", \"version\": 1}").unwrap();
        let error = Profile::open(&name).unwrap_err().to_string();
        assert!(error.contains("no profile of version 3"), "{error}");
        let older = serde_json::to_string(&Profile {
            version: 2,
            ..testing::profile()
        });
        std::fs::write(&path, older.unwrap()).unwrap();
        let error = Profile::open(&name).unwrap_err().to_string();
        assert!(error.contains("no profile of version 3"), "{error}");
        assert!(error.contains("signet plan calibrate"), "{error}");
        std::fs::remove_file(&path).unwrap();
        let error = Profile::open(&name).unwrap_err().to_string();
        assert!(error.contains("signet plan calibrate"), "{error}");
    }

    /// The names of the files in `profiles`.
    fn in_the_folder() -> BTreeSet<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles");
        let paths = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        paths
            .filter(|path| path.extension().is_some_and(|end| end == "json"))
            .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn what_is_in_the_folder_is_shipped_can_be_read_and_is_not_yours() {
        let shipped = SHIPPED.iter().map(|(name, _)| (*name).to_owned());
        assert_eq!(in_the_folder(), shipped.collect::<BTreeSet<String>>());
        for (name, _) in SHIPPED {
            let profile = Profile::open(name).unwrap();
            assert_eq!(profile.name, *name);
            assert!(profile.is_shipped() && !profile.is_quick, "{name}");
            assert!(!profile.fit.prices.is_empty(), "{name}");
            let id = profile.machine_id.as_deref();
            assert!(!profile.is_of(&profile.machine, id), "{name}");
        }
    }

    #[test]
    fn a_shipped_long_run_that_showed_nothing_is_off_by_as_much_as_two_runs() {
        let profile = Profile::open("epyc-2c").unwrap();
        let later = profile.later.unwrap();
        assert!(later.us == 0.0 && !later.is_seen(), "{later:?}");
        // 1,179 calls a second, as docs/PLAN.md reckons.
        let mut rates = Rates::default();
        rates.add(Event::LegUdp, 2.0 * 1_179.0);
        let (cores, _) = profile.fit.cores(&rates);
        let each_us = cores * 1e6 / rates.kept_per_s();
        let error_us = profile.off_by() * each_us.hypot(each_us);
        assert!(
            (later.error_us / error_us - 1.0).abs() < 0.001,
            "{later:?} {error_us}"
        );
        let told = format!("{error_us:.1} us for each of 3,537 transactions");
        let plan = include_str!("../../../docs/PLAN.md").replace('\n', " ");
        assert!(plan.contains(&told), "{told}");
    }

    #[test]
    fn the_documents_say_whether_a_profile_is_shipped() {
        let says_none = |text: &str| text.contains("none is shipped");
        let plan = include_str!("../../../docs/PLAN.md");
        assert_eq!(says_none(plan), SHIPPED.is_empty(), "docs/PLAN.md");
        for (name, _) in SHIPPED {
            assert!(plan.contains(name), "docs/PLAN.md does not name {name}");
        }
    }

    #[test]
    fn nothing_costs_less_than_nothing() {
        let whole = serde_json::to_value(testing::profile()).unwrap();
        assert!(Profile::parse("p.json", &whole.to_string()).is_ok());
        for path in ["/fit/base_cores", "/memory/base", "/bytes_residual"] {
            let mut value = whole.clone();
            *value.pointer_mut(path).unwrap() = (-5.0).into();
            let error = Profile::parse("p.json", &value.to_string()).unwrap_err();
            let key = path.trim_start_matches('/').replace('/', ".");
            assert!(error.to_string().contains(&key), "{error}");
        }
    }

    #[test]
    fn a_machine_that_is_alike_is_another() {
        let profile = testing::profile();
        let machine = profile.machine.clone();
        assert!(profile.is_of(&machine, Some("an id")));
        assert!(!profile.is_of(&machine, Some("another id")));
        assert!(!profile.is_of(&machine, None));
        let mut larger = machine.clone();
        larger.cores *= 2;
        assert!(!profile.is_of(&larger, Some("an id")));
        let nameless = Profile {
            machine_id: None,
            ..profile
        };
        assert!(!nameless.is_of(&machine, None), "nobody can tell");
        assert!(!nameless.is_of_another(&machine, None));
        assert!(nameless.is_of_another(&machine, Some("an id")));
        assert!(nameless.is_of_another(&larger, None));
    }

    fn run(name: &str, per_s: f64, cores: f64, compute_us: f64) -> Run {
        let mut rates = Rates::default();
        rates.add(Event::RegisterUdp, per_s);
        rates.add(Event::VerifyRemote, per_s);
        Run {
            mixture: Mixture {
                name: name.to_owned(),
                ..Mixture::default()
            },
            rates,
            cores,
            database_cores: Some(per_s * 20e-6),
            bytes_per_s: per_s * 1_000.0,
            speed: Some(Speed {
                compute_us,
                kernel_us: compute_us,
            }),
            ..Run::default()
        }
    }

    #[test]
    fn a_machine_that_was_slow_is_no_dearer_server() {
        let mut profile = Profile {
            runs: vec![
                run("a", 1_000.0, 0.010, 100.0),
                run("a", 1_000.0, 0.020, 200.0),
                run("b", 2_000.0, 0.020, 100.0),
            ],
            ..Profile::default()
        };
        profile.work_out();
        assert!(profile.noise() < 1e-9);
        assert!(profile.fit.residual < 0.01, "{:?}", profile.fit);
        let database = profile.database.unwrap();
        assert!((database.us - 20.0).abs() < 1e-6, "{database:?}");
        // Half of the bytes may be either's: their sum counts.
        let bytes: f64 = profile.bytes.values().sum();
        assert!((bytes - 1_000.0).abs() < 1.0, "{:?}", profile.bytes);
    }

    #[test]
    fn a_run_in_doubt_does_not_count() {
        let mut doubted = run("b", 2_000.0, 5.0, 100.0);
        doubted.doubts.push("2% failed".to_owned());
        let mut profile = Profile {
            runs: vec![run("a", 1_000.0, 0.010, 100.0), doubted],
            ..Profile::default()
        };
        profile.work_out();
        assert_eq!(profile.fit.cores_max, 0.010);
    }
}
