//! Measurements, what is recorded of them and what is not, and the files they go to.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use measure::file::write_json;
use serde::{Deserialize, Serialize};

use crate::calibrate::Speed;
use crate::rule;

/// One measurement of one server in one case: a repeat.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measurement {
    /// The case's name.
    pub(crate) case: String,
    /// `floor`, `kamailio`, `signet` or the name of another build.
    pub(crate) server: String,
    /// CPU time of all of the server's threads, for each call that succeeded.
    pub(crate) cpu_us_per_call: f64,
    /// Calls (or registrations) that succeeded.
    pub(crate) calls: u64,
    /// Those that did not, in the run of the load that this stretch is of.
    pub(crate) failed: u64,
    /// The same as a share of that run.
    pub(crate) failed_share: f64,
    /// What the load sent again.
    pub(crate) retransmissions: u64,
    /// Calls (or registrations) offered a second; what a search found, where it is one.
    pub(crate) rate: u64,
    /// The share of what was to be done in this stretch that was done.
    pub(crate) held_share: f64,
    /// How long the measurement took.
    pub(crate) elapsed_s: f64,
    /// Whether the load doubts itself.
    pub(crate) is_doubted: bool,
    /// The machine's speed before it.
    pub(crate) before: Speed,
    /// And after it.
    pub(crate) after: Speed,
}

impl Measurement {
    /// Shows it.
    pub(crate) fn print(&self) {
        eprintln!(
            "{} {}: {:.1} us of CPU each, {:.0} a second, {} failed, {} retransmissions; calibration {:.1} and {:.1} ms, then {:.1} and {:.1}{}",
            self.case,
            self.server,
            self.cpu_us_per_call,
            self.calls as f64 / self.elapsed_s,
            self.failed,
            self.retransmissions,
            self.before.compute_us / 1_000.0,
            self.before.kernel_us / 1_000.0,
            self.after.compute_us / 1_000.0,
            self.after.kernel_us / 1_000.0,
            if rule::is_steady(self) {
                ""
            } else {
                ": the machine's speed moved, it does not count"
            }
        );
    }
}

/// What is recorded of one server in one case.
#[derive(Clone, Debug, Serialize)]
struct Figure {
    case: String,
    server: String,
    /// The median.
    cpu_us_per_call: f64,
    low: f64,
    high: f64,
    /// (max - min) / median.
    spread: f64,
    /// The rate, or the median of those that a search found.
    rate: u64,
    repeats: usize,
    /// Which set of repeats it is of: 1, unless sets before it disagreed.
    set: usize,
}

/// What one server costs over what another does.
#[derive(Clone, Debug, Serialize)]
struct Ratio {
    case: String,
    server: String,
    over: String,
    /// Whether the floor's cost is taken from both.
    above_floor: bool,
    /// Of the medians.
    value: f64,
    /// The lowest and the highest of single repeats.
    low: f64,
    high: f64,
}

/// A set of repeats of which nothing is recorded.
#[derive(Clone, Debug, Serialize)]
struct Refused {
    case: String,
    set: usize,
    why: Vec<String>,
    spreads: BTreeMap<String, f64>,
    measurements: Vec<Measurement>,
}

/// What could not be measured, and why.
#[derive(Clone, Debug, Serialize)]
struct Missed {
    case: String,
    server: String,
    error: String,
    /// What of the set there was.
    measurements: Vec<Measurement>,
}

/// Everything of a run, in order.
#[derive(Default)]
pub(crate) struct Results {
    is_quick: bool,
    measurements: Vec<Measurement>,
    figures: Vec<Figure>,
    ratios: Vec<Ratio>,
    refused: Vec<Refused>,
    missed: Vec<Missed>,
}

#[derive(Serialize)]
struct Limits {
    repeats_min: usize,
    spread_max: f64,
    moved_max: f64,
    failed_max: f64,
    held_min: f64,
}

/// What a record says besides its figures.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Circumstances {
    pub(crate) command: String,
    /// Whether it only shows that all works.
    pub(crate) quick: bool,
    pub(crate) date_unix_s: u64,
    pub(crate) machine: String,
    pub(crate) kernel: String,
    /// Programs and the first line of what they print of their version.
    pub(crate) versions: BTreeMap<String, String>,
}

impl Circumstances {
    /// Those of this moment; of each program its name, and what makes it print its version.
    pub(crate) fn now(is_quick: bool, programs: &[(&str, &str, &[&str])]) -> Self {
        let host = measure::Host::this();
        let own = [
            ("signet", "git", &["describe", "--always", "--dirty"][..]),
            ("rustc", "rustc", &["--version"]),
        ];
        Self {
            command: measure::command_line().join(" "),
            quick: is_quick,
            date_unix_s: std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |d| d.as_secs()),
            machine: format!(
                "{} cores, {}; idle cores {}",
                host.cores,
                host.cpu_model,
                signet_bed::awake::idle()
            ),
            kernel: host.kernel,
            versions: own
                .iter()
                .chain(programs)
                .map(|(name, program, words)| ((*name).to_owned(), first_line(program, words)))
                .collect(),
        }
    }
}

#[derive(Serialize)]
struct File<'a> {
    schema: u32,
    #[serde(flatten)]
    circumstances: Circumstances,
    limits: Limits,
    figures: &'a [Figure],
    ratios: &'a [Ratio],
    not_measured: &'a [Missed],
    not_recorded: &'a [Refused],
    measurements: &'a [Measurement],
}

impl Results {
    pub(crate) fn new(is_quick: bool) -> Self {
        Self {
            is_quick,
            ..Self::default()
        }
    }

    /// Takes in a set of repeats: records it, or keeps it apart with what speaks against it.
    pub(crate) fn take(
        &mut self,
        case: &str,
        number: usize,
        mut set: Vec<Measurement>,
        servers: &[&str],
    ) -> bool {
        for one in &mut set {
            one.case = case.to_owned();
        }
        let mut why = rule::objections(&set, servers);
        if self.is_quick {
            why.insert(0, "a quick run shows no figures".to_owned());
        }
        if why.is_empty() {
            self.record_set(case, number, set, servers);
            return true;
        }
        let spreads: BTreeMap<String, f64> = servers
            .iter()
            .filter_map(|server| Some(((*server).to_owned(), rule::spread(&set, server)?)))
            .collect();
        eprintln!("{case}: set {number} not recorded: {}", why.join("; "));
        self.refused.push(Refused {
            case: case.to_owned(),
            set: number,
            why,
            spreads,
            measurements: set,
        });
        false
    }

    fn record_set(&mut self, case: &str, number: usize, set: Vec<Measurement>, servers: &[&str]) {
        for &server in servers {
            let rates = rule::steady(&set, server).map(|m| m.rate as f64).collect();
            if let (Some(cost), Some(rate)) = (rule::cost(&set, server), rule::Summary::of(rates)) {
                self.figures.push(Figure {
                    case: case.to_owned(),
                    server: server.to_owned(),
                    cpu_us_per_call: cost.median,
                    low: cost.low,
                    high: cost.high,
                    spread: cost.spread(),
                    rate: rate.median as u64,
                    repeats: cost.count,
                    set: number,
                });
            }
        }
        for (at, server) in servers.iter().enumerate() {
            for over in servers.iter().take(at) {
                if *server == "floor" || *over == "floor" {
                    continue;
                }
                // The one under test stands above, whatever it is held against.
                let (server, over) = if *over == "signet" {
                    (*over, *server)
                } else {
                    (*server, *over)
                };
                let floor = servers.contains(&"floor").then_some("floor");
                for floor in floor.into_iter().map(Some).chain([None]) {
                    if let Some(found) = rule::ratio(&set, server, over, floor) {
                        self.ratios.push(Ratio {
                            case: case.to_owned(),
                            server: server.to_owned(),
                            over: over.to_owned(),
                            above_floor: floor.is_some(),
                            value: found.value,
                            low: found.low,
                            high: found.high,
                        });
                    }
                }
            }
        }
        self.measurements.extend(set);
    }

    /// Notes what could not be measured.
    pub(crate) fn miss(&mut self, case: &str, server: &str, error: &str, set: Vec<Measurement>) {
        self.missed.push(Missed {
            case: case.to_owned(),
            server: server.to_owned(),
            error: error.to_owned(),
            measurements: set,
        });
    }

    /// Writes all of it with its circumstances.
    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        let programs: [(_, _, &[&str]); 2] = [
            ("kamailio", "kamailio", &["-v"]),
            ("sipp", "sh", &["-c", "sipp -v | grep -m1 SIPp"]),
        ];
        let file = File {
            schema: 2,
            circumstances: Circumstances::now(self.is_quick, &programs),
            limits: Limits {
                repeats_min: rule::REPEATS_MIN,
                spread_max: rule::SPREAD_MAX,
                moved_max: rule::MOVED_MAX,
                failed_max: rule::FAILED_MAX,
                held_min: rule::HELD_MIN,
            },
            figures: &self.figures,
            ratios: &self.ratios,
            not_measured: &self.missed,
            not_recorded: &self.refused,
            measurements: &self.measurements,
        };
        write_json(path, &file)
    }

    /// Prints medians, ratios and their spreads, and what has none.
    pub(crate) fn print(&self) {
        eprintln!();
        for figure in &self.figures {
            eprintln!(
                "{:<28} {:<10} {:>7.1} us of CPU ({:.1} to {:.1}, spread {:.0}%, {} repeats{}) at {}/s",
                figure.case,
                figure.server,
                figure.cpu_us_per_call,
                figure.low,
                figure.high,
                figure.spread * 100.0,
                figure.repeats,
                match figure.set {
                    1 => String::new(),
                    set => format!(", set {set}"),
                },
                figure.rate
            );
        }
        for ratio in &self.ratios {
            eprintln!(
                "{:<28} {}/{}{}: {:.2} ({:.2} to {:.2})",
                ratio.case,
                ratio.server,
                ratio.over,
                if ratio.above_floor {
                    " above the floor"
                } else {
                    ""
                },
                ratio.value,
                ratio.low,
                ratio.high
            );
        }
        for refused in &self.refused {
            let spreads: Vec<String> = refused
                .spreads
                .iter()
                .map(|(server, spread)| format!("{server} {:.0}%", spread * 100.0))
                .collect();
            eprintln!(
                "{:<28} set {} not recorded: {} (spreads: {})",
                refused.case,
                refused.set,
                refused.why.join("; "),
                spreads.join(", ")
            );
        }
        for missed in &self.missed {
            eprintln!(
                "{:<28} not measured: {}: {}",
                missed.case, missed.server, missed.error
            );
        }
    }

    /// Cases that were not measured.
    pub(crate) fn missed(&self) -> Vec<&str> {
        self.missed
            .iter()
            .map(|missed| missed.case.as_str())
            .collect()
    }
}

pub(crate) fn first_line(program: &str, arguments: &[&str]) -> String {
    Command::new(program)
        .args(arguments)
        .output()
        .ok()
        .and_then(|o| {
            String::from_utf8_lossy(&o.stdout)
                .lines()
                .next()
                .map(str::to_owned)
        })
        .unwrap_or_else(|| "not there".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEED: Speed = Speed {
        compute_us: 100.0,
        kernel_us: 100.0,
    };

    fn set(server: &str, values: &[f64]) -> Vec<Measurement> {
        let repeat = |value: &f64| Measurement {
            case: "c".to_owned(),
            server: server.to_owned(),
            cpu_us_per_call: *value,
            calls: 1_000,
            failed: 0,
            failed_share: 0.0,
            retransmissions: 0,
            rate: 100,
            held_share: 1.0,
            elapsed_s: 4.0,
            is_doubted: false,
            before: SPEED,
            after: SPEED,
        };
        values.iter().map(repeat).collect()
    }

    fn both(signet: &[f64]) -> Vec<Measurement> {
        let mut both = set("kamailio", &[60.0; 5]);
        both.extend(set("signet", signet));
        both
    }

    const SERVERS: [&str; 2] = ["kamailio", "signet"];

    #[test]
    fn a_set_that_agrees_gives_figures_and_a_ratio() {
        let mut results = Results::new(false);
        assert!(results.take("c-1", 1, both(&[30.0; 5]), &SERVERS));
        assert_eq!(results.figures.len(), 2);
        let ratio = results.ratios.first().unwrap();
        assert_eq!(
            (ratio.server.as_str(), ratio.over.as_str()),
            ("signet", "kamailio")
        );
        assert_eq!(ratio.value, 0.5);
        assert!(results.measurements.iter().all(|m| m.case == "c-1"));
    }

    #[test]
    fn a_set_that_disagrees_is_kept_apart_and_gives_no_ratio() {
        let mut results = Results::new(false);
        assert!(!results.take("c", 1, both(&[30.0, 30.0, 30.0, 30.0, 40.0]), &SERVERS));
        assert!(results.figures.is_empty() && results.ratios.is_empty());
        assert!(results.measurements.is_empty());
        let refused = results.refused.first().unwrap();
        assert_eq!(refused.measurements.len(), 10);
        assert!(refused.spreads.get("signet").unwrap() > &0.3);
        assert!(results.take("c", 2, both(&[30.0; 5]), &SERVERS));
        assert!(results.figures.iter().all(|figure| figure.set == 2));
    }

    #[test]
    fn a_quick_run_records_nothing() {
        let mut results = Results::new(true);
        assert!(!results.take("c", 1, both(&[30.0; 5]), &SERVERS));
        assert!(results.figures.is_empty() && results.ratios.is_empty());
    }

    #[test]
    fn what_is_under_test_stands_above_whatever_it_is_held_against() {
        let mut results = Results::new(false);
        let mut all = both(&[30.0; 5]);
        all.extend(set("before", &[20.0; 5]));
        all.extend(set("floor", &[10.0; 5]));
        let servers = ["floor", "kamailio", "signet", "before"];
        assert!(results.take("c", 1, all, &servers));
        let pairs: Vec<(&str, &str, bool, f64)> = results
            .ratios
            .iter()
            .map(|r| (r.server.as_str(), r.over.as_str(), r.above_floor, r.value))
            .collect();
        assert!(
            pairs.contains(&("signet", "before", true, 2.0)),
            "{pairs:?}"
        );
        assert!(
            pairs.contains(&("signet", "before", false, 1.5)),
            "{pairs:?}"
        );
        assert!(
            pairs.contains(&("before", "kamailio", true, 0.2)),
            "{pairs:?}"
        );
    }
}
