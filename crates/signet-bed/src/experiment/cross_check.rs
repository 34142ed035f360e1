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
                });
            }
        }
        for known in &mut checked {
            let of_system = |result: &&CaseResult| {
                result.system == known.system && self.pick.fits(&result.case.labels)
            };
            let results: Vec<&CaseResult> = record.results.iter().filter(of_system).collect();
            known.rows = self.rows(&results);
            if !known.rows.is_empty() {
                let sum: f64 = known.rows.iter().map(|row| row.error).sum();
                known.error_mean = Some(sum / known.rows.len() as f64);
            }
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
                self.row(peak, common)
            })
            .collect()
    }

    pub(super) fn is_common(&self, load: &Load) -> bool {
        matches!(load, Load::Rate { per_s, .. } if *per_s == self.rate_per_s)
    }

    fn row(&self, peak: &CaseResult, common: &CaseResult) -> Option<CheckedRow> {
        let median = |result, name| spread(result, name).ok().map(|found| found.median);
        let cost_us = median(common, figure::SERVER_CPU_US)?;
        let cores = median(peak, figure::SERVER_CORES)?;
        let found_per_s = median(peak, figure::RATE_PER_S)?;
        if cost_us <= 0.0 || found_per_s <= 0.0 {
            return None;
        }
        let expected_per_s = cores * 1e6 / cost_us;
        Some(CheckedRow {
            case_id: peak.case.id.clone(),
            cost_us,
            cores,
            expected_per_s,
            found_per_s,
            error: (expected_per_s - found_per_s).abs() / found_per_s,
        })
    }
}
