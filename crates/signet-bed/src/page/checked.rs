//! Whether peaks are what calls cost below them lets expect.

use serde::Serialize;
use signet_page::number;

use crate::experiment::{CheckedRow, CommonRates, Experiment, Outside};
use crate::names::{self, Names};
use crate::record::Record;

/// What peaks were held against, for the page.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    /// The common rates.
    rates: String,
    /// What is aimed at, and what the paper reached.
    aim: String,
    /// One for each system.
    sentences: Vec<String>,
    rows: Vec<Row>,
}

/// A case's peak, expected and found.
#[derive(Debug, Serialize)]
struct Row {
    case: String,
    system: String,
    /// What stands in the place of errors, where it does not count.
    instead: &'static str,
    /// What stands in the place of the error of the cost.
    instead_by_cost: &'static str,
    #[serde(flatten)]
    row: CheckedRow,
}

/// `None` where the experiment does not ask.
pub(super) fn checked(
    experiment: &Experiment,
    record: &Record,
    names: &Names<'_>,
) -> Option<Check> {
    let check = experiment.cross_check.as_ref()?;
    let checked = check.check(experiment, record);
    let mut aim = format!(
        "The mean error is to be below {}",
        number::percent(check.error_max)
    );
    match check.published {
        Some(published) => {
            aim.push_str(&format!(
                "; the paper has {} ({}).",
                number::percent(published),
                check.place
            ));
        }
        None => aim.push('.'),
    }
    let sentences = checked
        .iter()
        .map(|of_system| {
            let system = names::system(&of_system.system);
            let judged = |error: f64| {
                let side = if error < check.error_max {
                    "within"
                } else {
                    "above"
                };
                format!("{}, {side} what is aimed at", number::percent(error))
            };
            let rows = || of_system.rows.iter();
            let counting = || rows().filter(|row| row.outside.is_none());
            let rest = match rows().count() - counting().count() {
                0 => String::new(),
                1 => "; 1 peak at which the server was not full does not count".to_owned(),
                several => {
                    format!("; {several} peaks at which the server was not full do not count")
                }
            };
            let settled = counting().filter(|row| row.is_settled).count();
            let drawn_out = counting().filter(|row| row.drawn_out.is_some()).count();
            let by = |what: &str, count: usize, error: Option<f64>| {
                let error = error?;
                Some(format!(
                    "by {what}, over {}, {}",
                    cases(count),
                    judged(error)
                ))
            };
            let told: Vec<String> = [
                by("the cost", settled, of_system.error_mean),
                by("two rates", drawn_out, of_system.drawn_out_error_mean),
            ]
            .into_iter()
            .flatten()
            .collect();
            if told.is_empty() {
                return format!("{system}: no case has both a peak and a cost that count{rest}.");
            }
            format!("{system}: the mean error is, {}{rest}.", told.join("; "))
        })
        .collect();
    let case_of = |id: &str| {
        let result = record.results.iter().find(|result| result.case.id == id);
        result.map_or_else(|| id.to_owned(), |result| names.case(result))
    };
    let rows = checked
        .into_iter()
        .flat_map(|of_system| {
            let system = names::system(&of_system.system);
            of_system
                .rows
                .into_iter()
                .map(move |row| (system.clone(), row))
        })
        .map(|(system, row)| {
            let instead = match row.outside {
                Some(Outside::Load) => "the load was full",
                Some(Outside::Neither) => "neither was full",
                None => "",
            };
            Row {
                case: case_of(&row.case_id),
                system,
                instead,
                instead_by_cost: match instead {
                    "" if !row.is_settled => "not settled",
                    _ => instead,
                },
                row,
            }
        })
        .collect();
    Some(Check {
        rates: rates(&check.rate_per_s),
        aim,
        sentences,
        rows,
    })
}

fn rates(rates: &CommonRates) -> String {
    let told: Vec<String> = rates.0.iter().map(|rate| number::figure(*rate)).collect();
    let told = told.join("/s or ");
    format!("{told}/s")
}

fn cases(count: usize) -> String {
    match count {
        1 => "1 case".to_owned(),
        count => format!("{count} cases"),
    }
}
