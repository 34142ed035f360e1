//! Everything of a run, and the file that it goes to.

use std::collections::BTreeMap;
use std::path::Path;

use measure::file::write_json;
use serde::{Deserialize, Serialize};

use super::database::Kind;
use super::peak::Peak;
use super::scene::Cores;
use super::server::Lookups;
use crate::aims::{Aims, Relation};
use crate::report::Circumstances;

/// The form of the file; it changes when a reader would have to.
const VERSION: u32 = 1;
const FORMAT: &str = "signet-bench-auth";

/// How look-ups were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum How {
    /// As the tuner found.
    Tuned,
    /// By processes that wait, a batch each.
    Blocking {
        /// Processes.
        processes: u32,
        /// Users in a batch.
        batch: u32,
    },
    /// With fixed values.
    Fixed {
        interval_us: u64,
        batch: u32,
        in_flight: u32,
    },
}

impl How {
    pub(super) const fn lookups(self) -> Lookups {
        match self {
            Self::Tuned => Lookups::Tuned,
            Self::Blocking { processes, batch } => Lookups::Blocking {
                processes,
                batch_max: batch,
            },
            Self::Fixed {
                interval_us,
                batch,
                in_flight,
            } => Lookups::Fixed {
                interval_us,
                batch_max: batch,
                in_flight_max: in_flight,
            },
        }
    }

    /// For tables.
    pub(super) fn name(self) -> String {
        match self {
            Self::Tuned => "tuned".to_owned(),
            Self::Blocking { processes, batch } => {
                format!("{processes} waiting, batches of {batch}")
            }
            Self::Fixed {
                interval_us,
                batch,
                in_flight,
            } => format!("every {interval_us} us, at most {batch}, {in_flight} in flight"),
        }
    }
}

/// A peak of one repeat.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PeakRow {
    pub(super) case: String,
    pub(super) store: String,
    pub(super) users: usize,
    pub(super) how: How,
    /// How, in words.
    pub(super) name: String,
    pub(super) repeat: usize,
    #[serde(flatten)]
    pub(super) peak: Peak,
}

/// What authentication added to the set-up of calls.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DelayRow {
    pub(super) what: String,
    pub(super) rate_per_s: f64,
    /// Set-up without a look-up at a distance, the same load.
    pub(super) base_p50_ms: f64,
    pub(super) setup_p50_ms: f64,
    pub(super) setup_p99_ms: f64,
    /// Median less median.
    pub(super) added_p50_ms: f64,
    /// The 99th percentile less the base's median.
    pub(super) added_p99_ms: f64,
    pub(super) remarks: Vec<String>,
}

/// A change, and how long it took to be settled.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StepRow {
    pub(super) what: String,
    pub(super) at_s: u64,
    /// The median delay at that round trip and load where nothing changes, ms.
    #[serde(default)]
    pub(super) steady_ms: f64,
    /// `None` where it did not settle before the next change.
    pub(super) settled_s: Option<u64>,
    /// Median set-up delay of each second until the next change, ms.
    pub(super) p50_ms: Vec<f64>,
    /// Calls that ended well in each of these seconds.
    pub(super) succeeded: Vec<u64>,
    pub(super) failed: u64,
}

/// Callers while the database was killed again and again, and what they were told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CallersRow {
    pub(super) who: String,
    pub(super) rate_per_s: f64,
    /// Calls that were answered 200.
    pub(super) served: u64,
    /// Why others failed, by cause.
    pub(super) causes: BTreeMap<String, u64>,
    pub(super) remarks: Vec<String>,
}

impl CallersRow {
    /// Whether not one of their calls came to an end.
    pub(super) fn is_empty(&self) -> bool {
        self.served == 0 && self.causes.values().all(|calls| *calls == 0)
    }
}

/// One kill of the database.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct OutageRow {
    /// When it was killed, in seconds since the beginning.
    pub(super) killed_s: f64,
    /// How long it took until it greeted again.
    pub(super) away_s: f64,
    /// Calls of the probe that were told 503 with Retry-After.
    pub(super) told_later: u64,
    /// From the greeting until all calls were served; `None` where they were not.
    pub(super) recovered_s: Option<f64>,
}

/// A database that was killed again and again.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Outage {
    pub(super) callers: Vec<CallersRow>,
    pub(super) times: Vec<OutageRow>,
    /// The server's own figures at the end.
    pub(super) figures: BTreeMap<String, f64>,
}

/// What a call cost a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CostRow {
    pub(super) server: String,
    pub(super) cpu_us_per_call: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) repeats: usize,
    /// Why the set that this is of would not be recorded by the rule; empty where it is.
    pub(super) objections: Vec<String>,
}

/// A prediction beside what came.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ModelRow {
    pub(super) what: String,
    pub(super) unit: String,
    pub(super) predicted: f64,
    /// The middle of what was measured.
    pub(super) measured: f64,
    /// The lowest and the highest of it; 0 in a file that has only the middle.
    #[serde(default)]
    pub(super) low: f64,
    #[serde(default)]
    pub(super) high: f64,
    /// Predicted over measured, less one.
    pub(super) error: f64,
}

/// Refusals of one sort of names.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TimingRow {
    pub(super) name: String,
    pub(super) requests: usize,
    /// Of these, how many were answered as is due.
    pub(super) refused: usize,
    /// How long half, nine tenths and 99 of 100 of the answers took at most.
    pub(super) quantiles_ms: [f64; 3],
    /// The share of those sent together with another that were answered in the other order.
    pub(super) out_of_order: f64,
}

/// Two sorts of names held against each other.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TimingPair {
    pub(super) a: String,
    pub(super) b: String,
    /// Whether they are to differ.
    pub(super) is_control: bool,
    /// The largest distance of their distributions, and its p (Kolmogorov and Smirnov).
    pub(super) distance: f64,
    pub(super) p_distance: f64,
    /// The p of their ranks (Mann and Whitney), by time and by the order of answers.
    pub(super) p_rank: f64,
    pub(super) p_order: f64,
    /// The probability that `a` takes longer than `b`.
    pub(super) superiority: f64,
    /// By how much `a` takes longer at the quantiles of a [`TimingRow`], in microseconds, with
    /// the ends of an interval that has it in 99 of 100.
    pub(super) differences_us: [[f64; 3]; 3],
}

/// The file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Record {
    pub(super) format: String,
    pub(super) version: u32,
    #[serde(flatten)]
    pub(super) circumstances: Circumstances,
    /// The core of each process.
    pub(super) cores: BTreeMap<String, String>,
    /// What of each database was set otherwise than by default.
    pub(super) databases: BTreeMap<String, String>,
    #[serde(flatten)]
    pub(super) aims: Aims,
    pub(super) peaks: Vec<PeakRow>,
    pub(super) delays: Vec<DelayRow>,
    pub(super) steps: Vec<StepRow>,
    pub(super) outage: Option<Outage>,
    pub(super) costs: Vec<CostRow>,
    pub(super) model: Vec<ModelRow>,
    /// What the model was fitted to.
    pub(super) fit: BTreeMap<String, f64>,
    pub(super) timing: Vec<TimingRow>,
    pub(super) timing_pairs: Vec<TimingPair>,
}

impl Record {
    pub(super) fn new(is_quick: bool, cores: &Cores) -> Self {
        let programs: [(_, _, &[&str]); 4] = [
            ("mariadb", "mariadbd", &["--version"]),
            ("postgresql", "psql", &["--version"]),
            ("redis", "redis-server", &["--version"]),
            ("kamailio", "kamailio", &["-v"]),
        ];
        let databases = [Kind::MariaDb, Kind::Postgres, Kind::Redis];
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            circumstances: Circumstances::now(is_quick, &programs),
            cores: super::scene::WHO
                .iter()
                .zip(cores.all())
                .map(|(who, core)| ((*who).to_owned(), core.to_owned()))
                .collect(),
            databases: databases
                .map(|kind| (kind.name().to_owned(), kind.settings().to_owned()))
                .into(),
            ..Self::default()
        }
    }

    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let record: Self =
            serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        if (record.format.as_str(), record.version) == (FORMAT, VERSION) {
            Ok(record)
        } else {
            Err(format!(
                "{} is {} {}, and this program reads {FORMAT} {VERSION}: measure again with it",
                path.display(),
                record.format,
                record.version
            ))
        }
    }

    /// Writes it.
    pub(super) fn write(&self, path: &Path) -> Result<(), String> {
        write_json(path, self)
    }

    /// Takes in a peak, and prints it.
    pub(super) fn peak(&mut self, row: PeakRow) {
        eprintln!(
            "{} {}, {}: {:.0}/s, set-up {:.1} and {:.1} ms, {:.0} bytes each; {}",
            row.case,
            row.store,
            row.name,
            row.peak.rate_per_s,
            row.peak.setup_p50_ms,
            row.peak.setup_p99_ms,
            row.peak.wire_bytes_each,
            row.peak.bound
        );
        self.peaks.push(row);
    }

    /// The lowest rate of all repeats of a peak: what the server holds in the machine's slower
    /// minutes too.
    pub(super) fn lowest_per_s(&self, of: (&str, &str, usize), how: How) -> Option<f64> {
        self.of_peaks(of, how, |peak| peak.rate_per_s)
            .min_by(f64::total_cmp)
    }

    /// The rate of the last peak that was found.
    pub(super) fn last_per_s(&self) -> Option<f64> {
        self.peaks.last().map(|row| row.peak.rate_per_s)
    }

    /// One figure over another, repeat by repeat: what the machine did meanwhile is in both.
    pub(super) fn ratios(
        &self,
        of: (&str, &str, usize),
        (how, other): (How, How),
        figure: fn(&Peak) -> f64,
    ) -> Vec<f64> {
        let others = self.of_peaks(of, other, figure);
        let pairs = self.of_peaks(of, how, figure).zip(others);
        pairs.map(|(value, other)| value / other).collect()
    }

    fn of_peaks(
        &self,
        (case, store, users): (&str, &str, usize),
        how: How,
        figure: fn(&Peak) -> f64,
    ) -> impl Iterator<Item = f64> {
        let of_case = move |row: &&PeakRow| {
            row.case == case && row.store == store && row.users == users && row.how == how
        };
        self.peaks
            .iter()
            .filter(of_case)
            .map(move |row| figure(&row.peak))
    }

    /// Holds a value against its limit.
    pub(super) fn bar(
        &mut self,
        case: &str,
        what: &str,
        value: Option<f64>,
        held: (Relation, f64),
    ) {
        let quick = self.circumstances.quick;
        self.aims.bar(quick, (case, what), value, held, Vec::new());
    }

    /// The same of several repeats.
    pub(super) fn bar_of_repeats(
        &mut self,
        case: &str,
        what: &str,
        repeats: &[f64],
        held: (Relation, f64),
    ) {
        let quick = self.circumstances.quick;
        self.aims.bar_of_repeats(quick, (case, what), repeats, held);
    }

    /// Prints what refusals showed of names.
    pub(super) fn print_timing(&self) {
        for row in &self.timing {
            let [p50, p90, p99] = row.quantiles_ms;
            eprintln!(
                "{:<28} {} of {}: {p50:.3}, {p90:.3}, {p99:.3} ms; {:.2}% out of order",
                row.name,
                row.refused,
                row.requests,
                row.out_of_order * 100.0
            );
        }
        for pair in &self.timing_pairs {
            let differences = pair.differences_us.map(|[difference, low, high]| {
                format!("{difference:+.0} us ({low:+.0} to {high:+.0})")
            });
            eprintln!(
                "{} and {}: D {:.4} p {:.2e}, ranks p {:.2e}, order p {:.2e}, longer in {:.2}%; {}",
                pair.a,
                pair.b,
                pair.distance,
                pair.p_distance,
                pair.p_rank,
                pair.p_order,
                pair.superiority * 100.0,
                differences.join(", ")
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_held_against_each_other_in_their_order_and_of_one_case_alone() {
        let mut record = Record::default();
        let one = How::Blocking {
            processes: 4,
            batch: 1,
        };
        let peaks = [
            ("a", How::Tuned, 3.0),
            ("a", one, 2.0),
            ("b", one, 9.0),
            ("a", How::Tuned, 4.0),
            ("a", one, 8.0),
        ];
        for (case, how, rate_per_s) in peaks {
            record.peaks.push(PeakRow {
                case: case.to_owned(),
                store: "MariaDB".to_owned(),
                users: 1,
                how,
                name: how.name(),
                repeat: 0,
                peak: Peak {
                    rate_per_s,
                    ..Peak::default()
                },
            });
        }
        let of = |case| {
            let case = (case, "MariaDB", 1);
            record.ratios(case, (How::Tuned, one), |peak| peak.rate_per_s)
        };
        assert_eq!(of("a"), [1.5, 0.5]);
        assert!(of("b").is_empty());
        assert_eq!(record.last_per_s(), Some(8.0));
    }
}
