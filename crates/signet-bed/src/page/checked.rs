//! Whether peaks are what calls cost below them lets expect.

use serde::Serialize;
use signet_page::number;

use crate::experiment::{Checked, CheckedRow, CommonRates, Experiment, Outside};
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
    /// Whether the server's own peak is at least what was found.
    is_least: bool,
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
        .map(|of_system| sentence(of_system, check.error_max))
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
                Some(Outside::EndedEarly) => "the search ended early",
                Some(Outside::InDoubt) => "the peak is in doubt",
                Some(Outside::NotSettled) => "the peak is not settled",
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
                is_least: row.outside.is_some_and(Outside::is_least),
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

/// How far a system's peaks are from what is expected, over how many of its cases, and why it is
/// not more of them.
fn sentence(checked: &Checked, error_max: f64) -> String {
    let system = names::system(&checked.system);
    if checked.is_foreign {
        return format!(
            "{system}: it is not known how many cores it may use, so nothing is expected of its peaks."
        );
    }
    let counting = || checked.rows.iter().filter(|row| row.outside.is_none());
    let settled = counting().filter(|row| row.is_settled).count();
    let drawn_out = counting().filter(|row| row.drawn_out.is_some()).count();
    let by = |what: &str, count: usize, error: Option<f64>| {
        let error = error?;
        let side = if error < error_max { "within" } else { "above" };
        Some(format!(
            "by {what}, over {count} of {}, {}, {side} what is aimed at",
            cases(checked.of_all),
            number::percent(error)
        ))
    };
    let told: Vec<String> = [
        by("the cost", settled, checked.error_mean),
        by("two rates", drawn_out, checked.drawn_out_error_mean),
    ]
    .into_iter()
    .flatten()
    .collect();
    let left_out = left_out(checked);
    if told.is_empty() {
        return format!("{system}: no case has both a peak and a cost that count{left_out}.");
    }
    format!(
        "{system}: the mean error is, {}{left_out}.",
        told.join("; ")
    )
}

/// What does not count for the mean, and why.
fn left_out(checked: &Checked) -> String {
    let peaks = |is_it: &dyn Fn(Outside) -> bool| {
        let rows = checked.rows.iter();
        rows.filter(|row| row.outside.is_some_and(is_it)).count()
    };
    let costs = checked.rows.iter();
    let costs = costs.filter(|row| row.outside.is_none() && !row.is_settled);
    let without = checked.of_all.saturating_sub(checked.rows.len());
    let all = [
        (
            peaks(&|why| matches!(why, Outside::Load | Outside::Neither)),
            [
                "peak at which the server was not full does",
                "peaks at which the server was not full do",
            ],
        ),
        (
            peaks(&|why| why == Outside::EndedEarly),
            [
                "peak whose search ended early does",
                "peaks whose searches ended early do",
            ],
        ),
        (
            peaks(&|why| why == Outside::InDoubt),
            ["peak that is in doubt does", "peaks that are in doubt do"],
        ),
        (
            peaks(&|why| why == Outside::NotSettled),
            [
                "peak that is not settled does",
                "peaks that are not settled do",
            ],
        ),
        (
            costs.count(),
            [
                "cost that is not settled does",
                "costs that are not settled do",
            ],
        ),
        (
            without,
            [
                "case without a peak or a cost does",
                "cases without a peak or a cost do",
            ],
        ),
    ];
    let told = all.into_iter().filter(|(count, _)| *count > 0);
    told.map(|(count, [one, several])| {
        let what = if count == 1 { one } else { several };
        format!("; {count} {what} not count")
    })
    .collect()
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
