//! What was not measured, or does not count, and why.

use serde::Serialize;
use signet_page::number;

use crate::experiment::{Experiment, Found, Least, Load, counted, found, least};
use crate::names::{self, Names};
use crate::record::{CaseResult, Record, Repeat, figure};

/// Cases that have no figure, or not all repeats, for the same reason.
#[derive(Debug, Serialize)]
pub(super) struct Missed {
    /// Systems, cases and loads.
    what: Vec<String>,
    /// What is missing.
    how: String,
    /// Why, and what would help.
    why: Vec<String>,
}

/// All of them, in the order of the record.
pub(super) fn missed(experiment: &Experiment, record: &Record, names: &Names<'_>) -> Vec<Missed> {
    let mut all: Vec<Missed> = Vec::new();
    let drawn = experiment.drawings.iter().map(|drawing| &drawing.figure);
    let draws_delays = drawn.flatten().any(|name| figure::is_delay(name));
    let one_by_one = record.results.iter().filter_map(|result| {
        let repeats = result.repeats.len();
        let main = match result.load {
            Load::Peak { .. } => figure::RATE_PER_S,
            Load::Rate { .. } => figure::SERVER_CPU_US,
        };
        let doubted = repeats - counted(result, main).count();
        let late = match draws_delays {
            true => result
                .repeats
                .iter()
                .filter(|repeat| repeat.late.is_some())
                .count(),
            false => 0,
        };
        let found = found(experiment, result, main);
        let mut why: Vec<String> = result.missed.iter().cloned().collect();
        let how = match (&result.missed, doubted, &found) {
            (Some(_), _, _) if repeats == 0 => "not measured".to_owned(),
            (Some(_), _, _) => format!("{repeats} repeats, then no more"),
            (None, 0, Found::NotSettled) => {
                why.push(
                    "the repeats are too far apart; a quieter machine or more repeats settle it"
                        .to_owned(),
                );
                "not settled".to_owned()
            }
            (None, 0, Found::AtLeast(_)) => {
                why.extend(why_least(result));
                "the server's own peak is at least that".to_owned()
            }
            (None, 0, _) if late > 0 => {
                format!("{late} of {repeats} repeats count without their delays")
            }
            (None, 0, _) => return None,
            (None, doubted, _) => format!("{doubted} of {repeats} repeats do not count"),
        };
        for doubt in result.repeats.iter().flat_map(Repeat::reservations) {
            if !why.contains(&doubt) {
                why.push(doubt);
            }
        }
        let what = format!(
            "{}, {}, {}",
            names::system(&result.system),
            names.case(result),
            names::load(&result.load)
        );
        Some((what, how, why))
    });
    for (what, how, why) in one_by_one {
        match all
            .iter_mut()
            .find(|known| known.how == how && known.why == why)
        {
            Some(known) => known.what.push(what),
            None => all.push(Missed {
                what: vec![what],
                how,
                why,
            }),
        }
    }
    all
}

/// Why the server may do more than was found: of a core that was not full, what it and the load
/// took.
fn why_least(result: &CaseResult) -> Option<String> {
    let (repeat, why) = least(result)?;
    let of = |name: &str| repeat.figures.get(name).copied().unwrap_or(0.0);
    let load = of(figure::LOAD_CORES) + of(figure::DATABASE_CORES);
    Some(match why {
        Least::Room => format!(
            "the server took {} of its {}core, load and database {} of theirs",
            number::percent(of(figure::SERVER_CORES) / repeat.server_cores_max()),
            repeat.server_share.map_or("", |_| "share of a "),
            number::percent(load)
        ),
        Least::CoresUnknown => {
            "it is not known how many cores the server may use, nor so whether it was full"
                .to_owned()
        }
        Least::EndedEarly => {
            let above = repeat.not_held.as_ref().map_or(0.0, |tried| tried.per_s);
            format!(
                "the search ended with {}/s held and {}/s not, and tried nothing in between",
                number::figure(repeat.held_per_s.unwrap_or(of(figure::RATE_PER_S))),
                number::figure(above)
            )
        }
    })
}
