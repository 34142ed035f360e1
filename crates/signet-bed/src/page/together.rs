//! Several records on one page: every case of all of them.

use serde_json::json;

use super::beside::{self, Beside, Mean};
use super::{Head, filled};
use crate::experiment::Experiment;
use crate::names::Names;
use crate::record::Record;

/// An experiment, a record of it, and the name of the record's file.
type Run<'a> = (&'a Experiment, &'a Record, &'a str);

/// The page that sets Signet beside the others in every case of several records.
pub fn table(runs: &[Run<'_>]) -> String {
    let parts: Vec<(&Run<'_>, Beside)> = runs
        .iter()
        .map(|run| {
            let (experiment, record, _) = *run;
            (
                run,
                beside::beside(experiment, record, &Names::new(experiment, record)),
            )
        })
        .collect();
    let means: Vec<serde_json::Value> = parts
        .iter()
        .flat_map(|((experiment, _, _), beside)| {
            beside
                .means
                .iter()
                .map(move |mean| json!({ "experiment": experiment.name, "mean": mean }))
        })
        .collect();
    let values = json!({
        "title": "Signet beside other servers, for every case of the papers",
        "lead": lead(&parts),
        "ours": "Signet",
        "means": means,
        "parts": parts.iter().map(|((experiment, record, raw), beside)| json!({
            "title": experiment.title,
            "raw": raw,
            "record": Head::of(record),
            "share": super::machine::share(record),
            "beside": beside,
        })).collect::<Vec<_>>(),
    });
    filled("together.html", &values)
}

fn lead(parts: &[(&Run<'_>, Beside)]) -> String {
    let cases: usize = parts.iter().map(|(_, beside)| beside.cases.len()).sum();
    let costs: Vec<&Mean> = parts
        .iter()
        .flat_map(|(_, beside)| &beside.means)
        .filter(|mean| mean.is_cost)
        .collect();
    let ratios: usize = costs.iter().map(|mean| mean.cases).sum();
    format!(
        "{} experiments, {cases} cases; {ratios} times both servers have a figure of cost that counts.",
        parts.len()
    )
}
