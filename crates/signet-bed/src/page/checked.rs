//! Whether peaks agree with what costs at a common rate let expect.

use serde::Serialize;
use signet_page::number;

use super::names::{self, Names};
use crate::experiment::{CheckedRow, Experiment};
use crate::record::Record;

/// What peaks were held against, for the page.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    /// The common rate.
    rate: String,
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
    let checked = check.check(record);
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
            let Some(error) = of_system.error_mean else {
                return format!("{system}: no case has both a peak and a cost that count.");
            };
            let by_cost = format!(
                "{system}: by the cost the mean error over {} is {}",
                cases(of_system.rows.len()),
                judged(error)
            );
            let drawn_out = of_system.rows.iter().filter(|row| row.drawn_out.is_some());
            match of_system.drawn_out_error_mean {
                Some(error) => format!(
                    "{by_cost}; by two rates, over {}, {}.",
                    cases(drawn_out.count()),
                    judged(error)
                ),
                None => format!("{by_cost}."),
            }
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
        .map(|(system, row)| Row {
            case: case_of(&row.case_id),
            system,
            row,
        })
        .collect();
    Some(Check {
        rate: number::figure(check.rate_per_s),
        aim,
        sentences,
        rows,
    })
}

fn cases(count: usize) -> String {
    match count {
        1 => "1 case".to_owned(),
        count => format!("{count} cases"),
    }
}
