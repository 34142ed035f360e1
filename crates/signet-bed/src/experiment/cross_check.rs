//! Whether peaks agree with what costs at a common rate let expect.

use serde::Serialize;

use super::answer::spread;
use super::case::Load;
use super::finding::CrossCheck;
use crate::record::{CaseResult, Record, figure};

/// What a system's peaks are held against.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// The system.
    pub system: String,
    /// Case by case, those that have both figures.
    pub rows: Vec<CheckedRow>,
    /// The mean of their errors as a share; `None` where there is no row.
    pub error_mean: Option<f64>,
    /// The same of what two rates let expect; `None` where no row has two.
    pub drawn_out_error_mean: Option<f64>,
}

/// A case's peak, expected and found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckedRow {
    /// The case.
    pub case_id: String,
    /// CPU time of the server for a call at the common rate, in microseconds.
    pub cost_us: f64,
    /// Cores that the server took at its peak.
    pub cores: f64,
    /// The peak that these let expect, a second.
    pub expected_per_s: f64,
    /// The peak that was found.
    pub found_per_s: f64,
    /// How far the expected is from the found, as a share of the found.
    pub error: f64,
    /// What two rates below the peak let expect; `None` where fewer were measured.
    pub drawn_out: Option<DrawnOut>,
}

/// A peak on the line through the cores that two rates took. A server that is idle between two
/// messages pays for each wake-up, so that a call costs less the more there are: the line has
/// that in its height and not in its slope.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DrawnOut {
    /// The lower rate, a second.
    pub low_per_s: f64,
    /// The higher rate, a second.
    pub high_per_s: f64,
    /// The peak that they let expect, a second.
    pub expected_per_s: f64,
    /// How far that is from the found, as a share of the found.
    pub error: f64,
}

impl CrossCheck {
    /// Holds peaks against costs, for each system of the record.
    ///
    /// A peak is expected where the cores that the server took there are used up by calls
    /// that cost what they cost at the common rate. The cores are those that were taken and
    /// not all that there were: a peak may be bounded by the load, and the question is
    /// whether a call costs the same at both rates.
    pub fn check(&self, record: &Record) -> Vec<Checked> {
        let mut checked: Vec<Checked> = Vec::new();
        for result in &record.results {
            if !checked.iter().any(|known| known.system == result.system) {
                checked.push(Checked {
                    system: result.system.clone(),
                    rows: Vec::new(),
                    error_mean: None,
                    drawn_out_error_mean: None,
                });
            }
        }
        for known in &mut checked {
            let of_system = |result: &&CaseResult| {
                result.system == known.system && self.pick.fits(&result.case.labels)
            };
            let results: Vec<&CaseResult> = record.results.iter().filter(of_system).collect();
            known.rows = self.rows(&results);
            known.error_mean = mean(known.rows.iter().map(|row| row.error));
            let drawn_out = known.rows.iter().filter_map(|row| row.drawn_out);
            known.drawn_out_error_mean = mean(drawn_out.map(|drawn_out| drawn_out.error));
        }
        checked
    }

    fn rows(&self, results: &[&CaseResult]) -> Vec<CheckedRow> {
        let peaks = results
            .iter()
            .filter(|result| matches!(result.load, Load::Peak { .. }));
        peaks
            .filter_map(|peak| {
                let common = results.iter().find(|result| {
                    result.case.id == peak.case.id && self.is_common(&result.load)
                })?;
                let of_case = results
                    .iter()
                    .filter(|result| result.case.id == peak.case.id);
                row(peak, common, &drawn(of_case.copied()))
            })
            .collect()
    }

    pub(super) fn is_common(&self, load: &Load) -> bool {
        matches!(load, Load::Rate { per_s, .. } if *per_s == self.rate_per_s)
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn median(result: &CaseResult, name: &str) -> Option<f64> {
    spread(result, name).ok().map(|found| found.median)
}

/// Rates of a case and the cores that they took, from the lowest.
fn drawn<'a>(of_case: impl Iterator<Item = &'a CaseResult>) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = of_case
        .filter(|result| matches!(result.load, Load::Rate { .. }))
        .filter_map(|result| {
            // Where more is asked for than is done, the cores are full and say nothing.
            median(result, figure::SERVER_CPU_US)?;
            let per_s = median(result, figure::RATE_PER_S)?;
            Some((per_s, median(result, figure::SERVER_CORES)?))
        })
        .collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
}

fn row(peak: &CaseResult, common: &CaseResult, points: &[(f64, f64)]) -> Option<CheckedRow> {
    let cost_us = median(common, figure::SERVER_CPU_US)?;
    let cores = median(peak, figure::SERVER_CORES)?;
    let found_per_s = median(peak, figure::RATE_PER_S)?;
    if cost_us <= 0.0 || found_per_s <= 0.0 {
        return None;
    }
    let error = |expected_per_s: f64| (expected_per_s - found_per_s).abs() / found_per_s;
    let expected_per_s = cores * 1e6 / cost_us;
    Some(CheckedRow {
        case_id: peak.case.id.clone(),
        cost_us,
        cores,
        expected_per_s,
        found_per_s,
        error: error(expected_per_s),
        drawn_out: drawn_out(points, cores, found_per_s).map(|drawn_out| DrawnOut {
            error: error(drawn_out.expected_per_s),
            ..drawn_out
        }),
    })
}

/// The line through the two highest rates below the peak, at the cores of the peak.
fn drawn_out(points: &[(f64, f64)], cores: f64, found_per_s: f64) -> Option<DrawnOut> {
    let below: Vec<(f64, f64)> = points
        .iter()
        .copied()
        .filter(|(per_s, _)| *per_s < found_per_s)
        .collect();
    let [.., low, high] = below.as_slice() else {
        return None;
    };
    let slope = (high.1 - low.1) / (high.0 - low.0);
    (slope.is_finite() && slope > 0.0).then(|| DrawnOut {
        low_per_s: low.0,
        high_per_s: high.0,
        expected_per_s: high.0 + (cores - high.1) / slope,
        error: 0.0,
    })
}
