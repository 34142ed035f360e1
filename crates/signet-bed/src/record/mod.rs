//! What a run of an experiment found: the file from which pages and comparisons are made.
//!
//! JSON with `"format": "signet-bed"` and `"version": 1`. Within a version fields are only
//! added, each with a default.

mod read;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::experiment::{Case, Load};
use crate::profile::Source;

pub use read::{is_record, read};

/// The name in every file.
pub const FORMAT: &str = "signet-bed";
/// The version that this crate writes and reads.
pub const VERSION: u32 = 1;

/// A run, whole or so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The experiment's name.
    pub experiment: String,
    /// The experiment's file as it was, so that a page can be drawn without it.
    pub experiment_toml: String,
    /// `short` or `long`.
    pub form: String,
    /// The command line of the run; after a resumption, of the last part.
    pub command: String,
    /// What the order of cases was drawn from.
    pub seed: u64,
    /// When it began, seconds since 1970.
    pub started_unix_s: u64,
    /// When it ended; `None` while it is not whole.
    pub ended_unix_s: Option<u64>,
    /// Where it ran.
    pub machine: Machine,
    /// Where the server was that the run did not start; `None` where it started all of them.
    pub address: Option<String>,
    /// Programs and their versions: `signet`, `kamailio`, `mariadb`; `signet-program` tells two
    /// builds of one version apart by what is in the file.
    pub versions: BTreeMap<String, String>,
    /// What was measured, in the order of the experiment's cases.
    pub results: Vec<CaseResult>,
    /// What the machine did between measurements.
    pub calibrations: Vec<Calibration>,
}

/// The machine of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// The processor's model.
    pub cpu_model: String,
    /// Its cores.
    pub cores: u32,
    /// The kernel's version.
    pub kernel: String,
    /// `loopback`, or `namespaces` where each had one of its own and veth between them.
    pub network: String,
    /// What idle cores did: `awake` or `asleep` ([`crate::awake`]).
    #[serde(default = "asleep")]
    pub idle: String,
    /// The core of `server`, `database`, `relay`, `load`.
    pub pinned: BTreeMap<String, String>,
    /// Whether servers were held to the share of their core that a case asks for; `None` where
    /// none asks or the run started none, and in records from before this was kept.
    pub has_shares: Option<bool>,
}

/// Of records from before cores could be kept awake.
fn asleep() -> String {
    "asleep".to_owned()
}

/// A case, a server and a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseResult {
    /// The case.
    pub case: Case,
    /// The server: `signet`, `kamailio`, or the name that an address was given.
    pub system: String,
    /// The load.
    pub load: Load,
    /// Each time that it was measured.
    pub repeats: Vec<Repeat>,
    /// Why it was not measured, or not to its end, with the remedy.
    #[serde(default)]
    pub missed: Option<String>,
}

/// One measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Repeat {
    /// When it began, seconds since 1970.
    pub at_unix_s: u64,
    /// Figures by the names of [`figure`].
    pub figures: BTreeMap<String, f64>,
    /// Failures by cause.
    pub causes: BTreeMap<String, u64>,
    /// Why the load doubts itself; a repeat that is doubted is shown and does not count.
    pub doubts: Vec<String>,
    /// That the load was late, by so little that its delays suffer and nothing else does.
    pub late: Option<String>,
    /// That the server did less than it was asked for, so that what it took for each is not
    /// what each costs at this rate.
    pub overloaded: Option<String>,
    /// CPU time in microseconds for each call, by process and component, where it was taken
    /// apart: `server/kernel`, `database/libc`.
    pub profile: BTreeMap<String, f64>,
    /// Where that is from; `None` where it was not taken apart, and in records from before this
    /// was kept.
    pub profile_source: Option<Source>,
    /// What speaks against it, and why it is not there where it was wanted.
    pub profile_doubts: Vec<String>,
    /// Why its components are shown and do not count: samples that are missing, or that stand
    /// for other CPU time than was used.
    pub profile_void: Option<String>,
    /// The share of its core that the server was held to; `None` where it had all of it.
    pub server_share: Option<f64>,
    /// Of a peak: whose core was full. Where that is [`Bound::Load`], the server's own peak is
    /// at least this rate; [`Repeat::doubts`] says so too.
    pub bound: Option<Bound>,
    /// Of a peak: the rate that was asked for and held, of which no more than that ended; `None`
    /// in records from before this was kept.
    pub held_per_s: Option<f64>,
    /// Of a peak: the lowest rate above it that was tried.
    pub not_held: Option<Tried>,
    /// Whether the run did not start the server, so that nobody knows how many cores it may use.
    pub is_foreign: bool,
    /// Of a peak: rates below it, held after it was found, from which it may be expected.
    pub below: Vec<Tried>,
    /// The share of the time in which the cores of `server` and `load` were busy with whatever
    /// was on them, by the kernel's account of each core.
    pub core_busy: BTreeMap<String, f64>,
    /// Index in [`Record::calibrations`] of the loop before it.
    pub calibration_before: Option<usize>,
    /// And after it.
    pub calibration_after: Option<usize>,
}

impl Repeat {
    /// Cores that a server can fill that the bed has started: its own, or its share of it,
    /// whatever its workers are.
    pub fn server_cores_max(&self) -> f64 {
        self.server_share.unwrap_or(1.0)
    }

    /// Whether this repeat counts for a figure: the name of a [`figure`], or CPU time by
    /// component, `server/kernel`.
    pub fn counts_for(&self, name: &str) -> bool {
        self.reservations_of(name).next().is_none()
    }

    /// All that is held against a figure of it.
    pub fn reservations_of(&self, name: &str) -> impl Iterator<Item = String> {
        let late = self.late.iter().filter(|_| figure::is_delay(name));
        let overloaded = self.overloaded.iter().filter(|_| figure::is_cost(name));
        let backlog = self.backlog().filter(|_| figure::is_most(name));
        let own = self.doubts.iter().chain(late).chain(overloaded);
        own.cloned().chain(backlog)
    }

    /// All that is held against it.
    pub fn reservations(&self) -> impl Iterator<Item = String> {
        let own = self.doubts.iter().chain(&self.late).chain(&self.overloaded);
        own.cloned().chain(self.backlog())
    }

    /// That the figure of a peak is no rate that was held: as much as was not held above it. What
    /// had waited since before the measuring ended in it. Not so where what was asked for is
    /// known ([`Repeat::held_per_s`]), which no peak is above.
    fn backlog(&self) -> Option<String> {
        let ended_per_s = *self.figures.get(figure::RATE_PER_S)?;
        let not_held = self.not_held.as_ref()?;
        (self.held_per_s.is_none() && ended_per_s >= not_held.per_s).then(|| {
            format!(
                "{ended_per_s:.0} a second ended at the peak, and {:.0} a second were not held: \
                 calls that had waited since before the measuring are among them, and the record \
                 does not say which rate was held.",
                not_held.per_s
            )
        })
    }
}

/// Who had filled a core at a peak, or at the rate above it that was not held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The server its own, by itself.
    Server,
    /// That of the load, its called side and the database, and not the server's.
    Load,
    /// Neither: what bounds is a wait, as for a database at a distance, or what else is on the
    /// server's core.
    Neither,
}

/// A rate above a peak, which was not held, or one below it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tried {
    /// What was asked for, a second.
    pub per_s: f64,
    /// What came of it, by the names of [`figure`]; nothing where the measuring failed.
    pub figures: BTreeMap<String, f64>,
    /// As [`Repeat::core_busy`].
    pub core_busy: BTreeMap<String, f64>,
}

/// Two fixed loops on the server's core, as the machine ran them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Calibration {
    /// When, seconds since 1970.
    pub at_unix_s: u64,
    /// CPU time of pure work, in microseconds.
    pub compute_us: f64,
    /// CPU time of system calls.
    pub kernel_us: f64,
    /// Wall-clock time over CPU time of both: above 1 where neighbours took the core.
    pub stolen: f64,
}

/// Names of figures.
pub mod figure {
    /// Calls or registrations that ended well, a second; of a peak, the peak.
    pub const RATE_PER_S: &str = "rate_per_s";
    /// CPU time of all of the server's threads for each of them, in microseconds.
    pub const SERVER_CPU_US: &str = "server_cpu_us";
    /// The same of the database.
    pub const DATABASE_CPU_US: &str = "database_cpu_us";
    /// Cores that the server took.
    pub const SERVER_CORES: &str = "server_cores";
    /// Cores that the database took.
    pub const DATABASE_CORES: &str = "database_cores";
    /// Cores that the load and its called side took.
    pub const LOAD_CORES: &str = "load_cores";
    /// The most memory of the server under load, shared pages in parts, in bytes.
    pub const SERVER_MEMORY_BYTES: &str = "server_memory_bytes";
    /// Registration request delay (RFC 6076 4.1), median, in milliseconds.
    pub const RRD_P50_MS: &str = "rrd_p50_ms";
    /// The same, mean.
    pub const RRD_MEAN_MS: &str = "rrd_mean_ms";
    /// The same, 99th percentile.
    pub const RRD_P99_MS: &str = "rrd_p99_ms";
    /// Session request delay (RFC 6076 4.3), median, in milliseconds.
    pub const SRD_P50_MS: &str = "srd_p50_ms";
    /// The same, mean.
    pub const SRD_MEAN_MS: &str = "srd_mean_ms";
    /// The same, 99th percentile.
    pub const SRD_P99_MS: &str = "srd_p99_ms";
    /// The share of arrivals that failed.
    pub const FAILED_SHARE: &str = "failed_share";
    /// Messages sent again by the load, for each arrival.
    pub const RETRANSMISSIONS: &str = "retransmissions";
    /// The most calls at once.
    pub const CONCURRENT_MAX: &str = "concurrent_max";
    /// Bits a second between server and database, both ways, headers included.
    pub const DATABASE_BITS_PER_S: &str = "database_bits_per_s";

    /// Whether it is a delay, which is longer where the load is late.
    pub fn is_delay(name: &str) -> bool {
        matches!(
            name,
            RRD_P50_MS | RRD_MEAN_MS | RRD_P99_MS | SRD_P50_MS | SRD_MEAN_MS | SRD_P99_MS
        )
    }

    /// Whether it is, of a peak, the most that was done.
    pub fn is_most(name: &str) -> bool {
        matches!(name, RATE_PER_S | CONCURRENT_MAX | DATABASE_BITS_PER_S)
    }

    /// Whether it is what one call or registration takes, whole or by component.
    pub fn is_cost(name: &str) -> bool {
        matches!(name, SERVER_CPU_US | DATABASE_CPU_US) || name.contains('/')
    }

    /// All of them.
    pub const ALL: [&str; 17] = [
        RATE_PER_S,
        SERVER_CPU_US,
        DATABASE_CPU_US,
        SERVER_CORES,
        DATABASE_CORES,
        LOAD_CORES,
        SERVER_MEMORY_BYTES,
        RRD_P50_MS,
        RRD_MEAN_MS,
        RRD_P99_MS,
        SRD_P50_MS,
        SRD_MEAN_MS,
        SRD_P99_MS,
        FAILED_SHARE,
        RETRANSMISSIONS,
        CONCURRENT_MAX,
        DATABASE_BITS_PER_S,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_older_records_do_not_have_is_not_known() {
        let text = r#"{"at_unix_s": 7, "profile": {"server/kernel": 4.5}}"#;
        let older: Repeat = serde_json::from_str(text).unwrap();
        assert_eq!((older.profile_source, older.bound), (None, None));
        assert!(
            older.profile_doubts.is_empty() && older.not_held.is_none() && older.below.is_empty()
        );
        assert_eq!((older.held_per_s, older.is_foreign), (None, false));
        assert_eq!(older.profile.get("server/kernel"), Some(&4.5));
    }

    /// Records from before the rate that was held was kept have what ended in its place.
    #[test]
    fn more_than_was_not_held_is_no_peak() {
        let older = |ended_per_s: f64, held_per_s: Option<f64>| Repeat {
            figures: [
                (figure::RATE_PER_S.to_owned(), ended_per_s),
                (figure::SERVER_CPU_US.to_owned(), 80.0),
            ]
            .into(),
            held_per_s,
            not_held: Some(Tried {
                per_s: 2_956.5,
                ..Tried::default()
            }),
            ..Repeat::default()
        };
        let above = older(3_156.0, None);
        assert!(!above.counts_for(figure::RATE_PER_S));
        assert!(above.counts_for(figure::SERVER_CPU_US));
        let told: Vec<String> = above.reservations().collect();
        assert!(told.len() == 1 && told[0].contains("2956 a second were not held"));
        let late = Repeat {
            late: Some("1% of messages left late".to_owned()),
            ..above
        };
        let of_rate: Vec<String> = late.reservations_of(figure::RATE_PER_S).collect();
        assert_eq!(of_rate, told);
        assert_eq!(late.reservations().count(), 2);
        for of_peak in [older(2_800.0, None), older(2_800.0, Some(2_810.0))] {
            assert!(of_peak.counts_for(figure::RATE_PER_S));
            assert_eq!(of_peak.reservations().count(), 0);
        }
    }

    #[test]
    fn what_bounds_a_peak_and_where_parts_are_from_are_kept() {
        let repeat = Repeat {
            profile_source: Some(Source::Accounting),
            profile_doubts: vec!["perf is not installed".to_owned()],
            bound: Some(Bound::Load),
            not_held: Some(Tried {
                per_s: 110.0,
                figures: [(figure::SERVER_CORES.to_owned(), 0.6)].into(),
                core_busy: [("load".to_owned(), 0.99)].into(),
            }),
            held_per_s: Some(100.0),
            is_foreign: true,
            ..Repeat::default()
        };
        let text = serde_json::to_string(&repeat).unwrap();
        assert!(text.contains(r#""bound":"load""#), "{text}");
        assert_eq!(serde_json::from_str::<Repeat>(&text).unwrap(), repeat);
    }
}
