//! What a whole run of a form has, and a record of some of its cases has not.

use super::file::{Experiment, Form};
use crate::record::{CaseResult, Record};

/// The cases and loads of a record's form that were left out of its run (`--cases`), each as one
/// that was not measured. None where the record is of no form that there is.
pub(super) fn left_out(experiment: &Experiment, record: &Record, system: &str) -> Vec<CaseResult> {
    let Ok(form) = record.form.parse::<Form>() else {
        return Vec::new();
    };
    let mut left_out = Vec::new();
    for case in experiment.cases(form) {
        for load in &case.loads {
            let is_it = |result: &CaseResult| {
                result.system == system && result.case.id == case.id && result.load.is_like(load)
            };
            if !record.results.iter().any(is_it) {
                left_out.push(CaseResult {
                    case: case.clone(),
                    system: system.to_owned(),
                    load: load.clone(),
                    repeats: Vec::new(),
                    missed: Some("it was left out of this run (--cases)".to_owned()),
                });
            }
        }
    }
    left_out
}
