//! Measurements, their medians and ratios, and the files they go to.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Serialize;

/// One measurement of one server in one case.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measurement {
    /// The case's name.
    pub(crate) case: String,
    /// `floor`, `kamailio` or `signet`.
    pub(crate) server: String,
    /// CPU time of all of the server's threads, for each call that succeeded.
    pub(crate) cpu_us_per_call: f64,
    /// Calls (or registrations) that succeeded.
    pub(crate) calls: u64,
    /// Those that did not.
    pub(crate) failed: u64,
    /// What the load sent again.
    pub(crate) retransmissions: u64,
    /// Calls (or registrations) offered a second.
    pub(crate) rate: u64,
    /// How long the measurement took.
    pub(crate) elapsed_s: f64,
}

/// All measurements of a run, in order.
#[derive(Default)]
pub(crate) struct Results {
    rows: Vec<Measurement>,
    missed: Vec<Missed>,
}

/// What could not be measured, and why.
#[derive(Clone, Debug, Serialize)]
struct Missed {
    case: String,
    server: String,
    error: String,
}

#[derive(Serialize)]
struct Record<'a> {
    schema: u32,
    command: String,
    date_unix_s: u64,
    machine: String,
    kernel: String,
    versions: BTreeMap<&'static str, String>,
    ratios: Vec<Ratio>,
    not_measured: &'a [Missed],
    measurements: &'a [Measurement],
}

#[derive(Serialize)]
struct Ratio {
    case: String,
    floor_us: Option<f64>,
    kamailio_us: Option<f64>,
    signet_us: Option<f64>,
    /// Signet's cost above the floor over Kamailio's cost above the floor.
    above_floor_ratio: Option<f64>,
}

impl Results {
    /// Takes in one more.
    pub(crate) fn add(&mut self, row: Measurement) {
        self.rows.push(row);
    }

    /// Notes what could not be measured.
    pub(crate) fn miss(&mut self, case: &str, server: &str, error: &str) {
        self.missed.push(Missed {
            case: case.to_owned(),
            server: server.to_owned(),
            error: error.to_owned(),
        });
    }

    /// Writes the measurements as an array of objects.
    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_string_pretty(&self.rows).map_err(|e| e.to_string())?;
        fs::write(path, text + "\n").map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Writes the measurements with their circumstances.
    pub(crate) fn record(&self, path: &Path) -> Result<(), String> {
        let record = Record {
            schema: 1,
            command: std::env::args().collect::<Vec<_>>().join(" "),
            date_unix_s: std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |d| d.as_secs()),
            machine: machine(),
            kernel: first_line("uname", &["-r"]),
            versions: BTreeMap::from([
                (
                    "signet",
                    first_line("git", &["describe", "--always", "--dirty"]),
                ),
                ("rustc", first_line("rustc", &["--version"])),
                ("kamailio", first_line("kamailio", &["-v"])),
                ("sipp", first_line("sh", &["-c", "sipp -v | grep -m1 SIPp"])),
            ]),
            ratios: self.ratios(),
            not_measured: &self.missed,
            measurements: &self.rows,
        };
        let text = serde_json::to_string_pretty(&record).map_err(|e| e.to_string())?;
        fs::write(path, text + "\n").map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Prints medians and ratios.
    pub(crate) fn print(&self) {
        let figure = |v: Option<f64>| v.map_or_else(|| "-".to_owned(), |v| format!("{v:.1}"));
        eprintln!(
            "\n{:<18} {:>9} {:>9} {:>9} {:>22}",
            "median us of CPU", "floor", "kamailio", "signet", "above floor, s/k"
        );
        for ratio in self.ratios() {
            eprintln!(
                "{:<18} {:>9} {:>9} {:>9} {:>22}",
                ratio.case,
                figure(ratio.floor_us),
                figure(ratio.kamailio_us),
                figure(ratio.signet_us),
                ratio
                    .above_floor_ratio
                    .map_or_else(|| "-".to_owned(), |v| format!("{v:.2}")),
            );
        }
    }

    fn ratios(&self) -> Vec<Ratio> {
        let mut cases: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !cases.contains(&row.case.as_str()) {
                cases.push(&row.case);
            }
        }
        cases
            .into_iter()
            .map(|case| {
                let [floor_us, kamailio_us, signet_us] =
                    ["floor", "kamailio", "signet"].map(|server| self.median_us(case, server));
                let above_floor_ratio = match (floor_us, kamailio_us, signet_us) {
                    (floor, Some(kamailio), Some(signet)) => {
                        let floor = floor.unwrap_or(0.0);
                        Some((signet - floor) / (kamailio - floor))
                    }
                    _ => None,
                };
                Ratio {
                    case: case.to_owned(),
                    floor_us,
                    kamailio_us,
                    signet_us,
                    above_floor_ratio,
                }
            })
            .collect()
    }

    fn median_us(&self, case: &str, server: &str) -> Option<f64> {
        let mut values: Vec<f64> = self
            .rows
            .iter()
            .filter(|r| r.case == case && r.server == server && r.calls > 0)
            .map(|r| r.cpu_us_per_call)
            .collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }
}

pub(crate) fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|l| {
        l.strip_prefix("model name")
            .map(|m| m.trim_start_matches([' ', '\t', ':']))
    });
    let cores = info.lines().filter(|l| l.starts_with("processor")).count();
    format!("{cores} cores, {}", model.unwrap_or("unknown"))
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
