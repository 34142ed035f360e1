//! Whether peaks are what calls cost below them lets expect.

use serde::Serialize;

use super::case::Load;
use super::file::Experiment;
use super::finding::CrossCheck;
use super::found::{FULL, Found, counted, ended_early, found, has_full_load, median};
use crate::record::{Bound, CaseResult, Record, Repeat, Tried, figure};

/// What a system's peaks are held against.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// The system.
    pub system: String,
    /// Case by case, those that have both a peak and a cost.
    pub rows: Vec<CheckedRow>,
    /// The cases that are asked for and that the system can do, with those that have no row.
    pub of_all: usize,
    /// Whether the run did not start the server, so that nobody knows how many cores it may use:
    /// then nothing is expected of any peak.
    pub is_foreign: bool,
    /// The mean of the errors of those that count, as a share; `None` where none does.
    pub error_mean: Option<f64>,
    /// The same of what two rates let expect; `None` where no row that counts has two.
    pub drawn_out_error_mean: Option<f64>,
}

/// A case's peak, expected and found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckedRow {
    /// The case.
    pub case_id: String,
    /// The rate of the cost, a second.
    pub common_per_s: f64,
    /// CPU time of the server for a call at that rate, in microseconds.
    pub cost_us: f64,
    /// Whether its repeats agree; where not, nothing is learnt of what it lets expect.
    pub is_settled: bool,
    /// The cores that the server may have.
    pub cores: f64,
    /// The peak that these let expect, a second.
    pub expected_per_s: f64,
    /// The peak that was found.
    pub found_per_s: f64,
    /// The cores that the server took there.
    pub cores_found: f64,
    /// How far the expected is from the found, as a share of the found.
    pub error: f64,
    /// What two rates and more below the peak let expect; `None` where fewer were measured.
    pub drawn_out: Option<DrawnOut>,
    /// Why the found peak does not count, where it does not: then nothing is to be learnt of the
    /// expected, and the row is no part of the mean.
    pub outside: Option<Outside>,
}

/// Why a peak does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outside {
    /// The server had room left: the load was full.
    Load,
    /// The server had room left: neither was full.
    Neither,
    /// The search ended far below the rate that was not held.
    EndedEarly,
    /// Each repeat doubts itself.
    InDoubt,
    /// The repeats are too far apart.
    NotSettled,
}

impl Outside {
    /// Whether the server's own peak is at least what was found.
    pub fn is_least(self) -> bool {
        match self {
            Self::Load | Self::Neither | Self::EndedEarly => true,
            Self::InDoubt | Self::NotSettled => false,
        }
    }
}

/// A peak on the line through the cores that rates below it took. A server that is idle between two
/// messages pays for each wake-up, so that a call costs less the more there are: the line has
/// that in its height and not in its slope.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DrawnOut {
    /// The lowest of them, a second.
    pub low_per_s: f64,
    /// The highest of them, a second.
    pub high_per_s: f64,
    /// The peak that they let expect, a second.
    pub expected_per_s: f64,
    /// How far that is from the found, as a share of the found.
    pub error: f64,
}

/// A share of a peak is held where so much of it ended well: the last second misses what is
/// under way.
const HELD_MIN: f64 = 0.97;

impl CrossCheck {
    /// Holds peaks against costs, for each system of the record.
    ///
    /// A peak is expected where the cores that the server may have are used up by calls that
    /// cost what they cost at the common rate. Nothing that was measured at a peak is part of
    /// what is expected of it, so that a search that ended too early or too late shows. One that
    /// does not repeat has its row as well, and no part of the mean.
    pub fn check(&self, experiment: &Experiment, record: &Record) -> Vec<Checked> {
        let mut systems: Vec<&str> = Vec::new();
        for result in &record.results {
            if !systems.contains(&result.system.as_str()) {
                systems.push(&result.system);
            }
        }
        let of_system = |system: &str| {
            let results = record.results.iter();
            let is_asked = |result: &&CaseResult| {
                result.system == system && self.pick.fits(&result.case.labels)
            };
            let results: Vec<&CaseResult> = results.filter(is_asked).collect();
            let mut repeats = results.iter().flat_map(|result| &result.repeats);
            let is_foreign = repeats.any(|repeat| repeat.is_foreign);
            let rows = match is_foreign {
                true => Vec::new(),
                false => self.rows(experiment, &results),
            };
            let can = |result: &&&CaseResult| {
                is_peak(result) && experiment.reason_against(system, &result.case).is_none()
            };
            let counting = || rows.iter().filter(|row| row.outside.is_none());
            Checked {
                system: system.to_owned(),
                error_mean: mean(counting().filter(|row| row.is_settled).map(|row| row.error)),
                drawn_out_error_mean: mean(counting().filter_map(|row| Some(row.drawn_out?.error))),
                of_all: results.iter().filter(can).count(),
                is_foreign,
                rows,
            }
        };
        systems.into_iter().map(of_system).collect()
    }

    fn rows(&self, experiment: &Experiment, results: &[&CaseResult]) -> Vec<CheckedRow> {
        let peaks = results.iter().filter(|result| is_peak(result));
        peaks
            .filter_map(|peak| {
                let of_case: Vec<&CaseResult> = results
                    .iter()
                    .copied()
                    .filter(|result| result.case.id == peak.case.id)
                    .collect();
                row(experiment, peak, self.common(&of_case)?, &of_case)
            })
            .collect()
    }

    /// The result at the first of the common rates that a case has.
    fn common<'a>(&self, of_case: &[&'a CaseResult]) -> Option<&'a CaseResult> {
        self.rate_per_s.0.iter().find_map(|rate| {
            let mut results = of_case.iter().copied();
            results.find(|result| is_rate(&result.load, *rate))
        })
    }

    pub(super) fn is_common(&self, load: &Load) -> bool {
        self.rate_per_s.0.iter().any(|rate| is_rate(load, *rate))
    }
}

fn is_peak(result: &CaseResult) -> bool {
    matches!(result.load, Load::Peak { .. })
}

fn is_rate(load: &Load, rate: f64) -> bool {
    matches!(load, Load::Rate { per_s, .. } if *per_s == rate)
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn row(
    experiment: &Experiment,
    peak: &CaseResult,
    common: &CaseResult,
    of_case: &[&CaseResult],
) -> Option<CheckedRow> {
    let of = |result: &CaseResult, name: &str| {
        found(experiment, result, name)
            .known()
            .map(|interval| interval.median)
    };
    // However far apart the repeats are: what does not settle is shown and does not count.
    let cost_us = middle(
        counted(common, figure::SERVER_CPU_US),
        figure::SERVER_CPU_US,
    )?;
    let of_peak = |name: &'static str| {
        middle(counted(peak, name), name).or_else(|| middle(peak.repeats.iter(), name))
    };
    let found_per_s = of_peak(figure::RATE_PER_S)?;
    let cores_found = of_peak(figure::SERVER_CORES)?;
    if cost_us <= 0.0 || found_per_s <= 0.0 {
        return None;
    }
    let cores = cores_max(peak)?;
    let points: Vec<(f64, f64)> = of_case
        .iter()
        .filter(|result| matches!(result.load, Load::Rate { .. }))
        .filter_map(|result| {
            // Where more is asked for than is done, the cores are full and say nothing.
            of(result, figure::SERVER_CPU_US)?;
            let per_s = of(result, figure::RATE_PER_S)?;
            Some((per_s, of(result, figure::SERVER_CORES)?))
        })
        .collect();
    // Shares that were measured and not held leave the far rates no better than they are.
    let has_shares = peak.repeats.iter().any(|repeat| !repeat.below.is_empty());
    let expected = match has_shares {
        true => below(peak, cores),
        false => rates(points, cores),
    };
    let error = |expected_per_s: f64| (expected_per_s - found_per_s).abs() / found_per_s;
    let expected_per_s = cores * 1e6 / cost_us;
    Some(CheckedRow {
        case_id: peak.case.id.clone(),
        common_per_s: match common.load {
            Load::Rate { per_s, .. } => per_s,
            Load::Peak { .. } => return None,
        },
        cost_us,
        is_settled: of(common, figure::SERVER_CPU_US).is_some(),
        cores,
        expected_per_s,
        found_per_s,
        cores_found,
        error: error(expected_per_s),
        drawn_out: expected.map(|drawn_out| DrawnOut {
            error: error(drawn_out.expected_per_s),
            ..drawn_out
        }),
        outside: outside(experiment, peak),
    })
}

/// The cores that the server may have at its peak: the share that it is held to in all repeats.
/// Where some had another, as on two machines, nothing is expected of their middle.
fn cores_max(peak: &CaseResult) -> Option<f64> {
    let mut all = peak.repeats.iter().map(Repeat::server_cores_max);
    let first = all.next()?;
    all.all(|cores| cores == first).then_some(first)
}

/// The median of a figure of these repeats.
fn middle<'a>(repeats: impl Iterator<Item = &'a Repeat>, name: &str) -> Option<f64> {
    let values = repeats.filter_map(|repeat| repeat.figures.get(name).copied());
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    (!values.is_empty()).then(|| median(&values))
}

/// Why a peak does not count.
fn outside(experiment: &Experiment, peak: &CaseResult) -> Option<Outside> {
    let Load::Peak { failures_max, .. } = peak.load else {
        return None;
    };
    let not_full = |repeat: &Repeat| {
        let cores = repeat.figures.get(figure::SERVER_CORES);
        let has_room = cores.is_some_and(|cores| *cores < FULL * repeat.server_cores_max());
        match repeat.bound {
            Some(Bound::Server) => None,
            Some(Bound::Load) => Some(Outside::Load),
            Some(Bound::Neither) | None if !has_room => None,
            Some(Bound::Neither) | None if has_full_load(repeat) => Some(Outside::Load),
            Some(Bound::Neither) | None => Some(Outside::Neither),
        }
    };
    let repeats = || counted(peak, figure::RATE_PER_S);
    let found = found(experiment, peak, figure::RATE_PER_S);
    if found == Found::InDoubt {
        Some(Outside::InDoubt)
    } else if let Some(not_full) = repeats().find_map(not_full) {
        Some(not_full)
    } else if repeats().any(|repeat| ended_early(repeat, failures_max)) {
        Some(Outside::EndedEarly)
    } else {
        (found == Found::NotSettled).then_some(Outside::NotSettled)
    }
}

/// What the shares of a peak let expect that were held once it was found: the middle of its
/// repeats, each by its own, since the machine's speed moves less within one than between two.
fn below(peak: &CaseResult, cores: f64) -> Option<DrawnOut> {
    // One that is held lets cores be told, however full they are.
    let point = |tried: &Tried| {
        let of = |name: &str| tried.figures.get(name).copied();
        let per_s = of(figure::RATE_PER_S).filter(|per_s| *per_s >= HELD_MIN * tried.per_s)?;
        Some((per_s, of(figure::SERVER_CORES)?))
    };
    let of_repeat = |repeat: &Repeat| {
        let held = || repeat.below.iter().filter(|tried| point(tried).is_some());
        // What ended of one rate differs a little each time, and that is no line.
        let first_per_s = held().next()?.per_s;
        let are_two = held().any(|tried| tried.per_s != first_per_s);
        let points: Vec<(f64, f64)> = held().filter_map(point).collect();
        drawn_out(&points, cores).filter(|_| are_two)
    };
    let all: Vec<DrawnOut> = counted(peak, figure::RATE_PER_S)
        .filter_map(of_repeat)
        .collect();
    let middle = |of: fn(&DrawnOut) -> f64| {
        let mut values: Vec<f64> = all.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        median(&values)
    };
    (!all.is_empty()).then(|| DrawnOut {
        low_per_s: middle(|one| one.low_per_s),
        high_per_s: middle(|one| one.high_per_s),
        expected_per_s: middle(|one| one.expected_per_s),
        error: 0.0,
    })
}

/// What the two highest rates at which the server was not full let expect.
fn rates(mut points: Vec<(f64, f64)>, cores: f64) -> Option<DrawnOut> {
    points.retain(|(_, taken)| *taken < FULL * cores);
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    let two_highest = points.len().saturating_sub(2);
    drawn_out(&points[two_highest..], cores)
}

/// The line through these rates and the cores that they took, by least squares, at the cores that
/// the server may have.
fn drawn_out(points: &[(f64, f64)], cores: f64) -> Option<DrawnOut> {
    let all = || points.iter().copied();
    let low_per_s = all().map(|(per_s, _)| per_s).min_by(f64::total_cmp)?;
    let high_per_s = all().map(|(per_s, _)| per_s).max_by(f64::total_cmp)?;
    let count = points.len() as f64;
    let middle_per_s = all().map(|(per_s, _)| per_s).sum::<f64>() / count;
    let middle_taken = all().map(|(_, taken)| taken).sum::<f64>() / count;
    let both = all().map(|(per_s, taken)| (per_s - middle_per_s) * (taken - middle_taken));
    let square = all().map(|(per_s, _)| (per_s - middle_per_s).powi(2));
    let slope = both.sum::<f64>() / square.sum::<f64>();
    (slope.is_finite() && slope > 0.0).then(|| DrawnOut {
        low_per_s,
        high_per_s,
        expected_per_s: middle_per_s + (cores - middle_taken) / slope,
        error: 0.0,
    })
}
