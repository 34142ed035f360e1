//! What the paper prints, beside what was measured here.

use serde::Serialize;
use signet_page::number;

use super::figures::kind_of;
use crate::experiment::{At, Experiment, Form, Pick, Published, found, geometric_mean};
use crate::names::{self, Names};
use crate::record::{CaseResult, Record};

/// A number of the paper.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    /// What it is said of.
    what: String,
    /// The number with its unit.
    paper: String,
    /// Where it stands.
    place: String,
    /// What each system has here; a dash where there is no figure that counts.
    ours: Vec<String>,
}

/// Every number that the file of the experiment gives.
pub(super) fn published(experiment: &Experiment, record: &Record, names: &Names<'_>) -> Vec<Row> {
    experiment
        .published
        .iter()
        .map(|published| {
            let of = |system: &&str| told(experiment, record, published, system);
            Row {
                what: what(published, names),
                paper: paper(published),
                place: published.place.clone(),
                ours: names.systems().iter().map(of).collect(),
            }
        })
        .collect()
}

fn what(published: &Published, names: &Names<'_>) -> String {
    let kind = kind_of(&published.figure);
    let title = kind.map_or(published.figure.as_str(), |kind| kind.title);
    let at = match published.at {
        At::Rates => String::new(),
        At::Peak => " at the peak".to_owned(),
        At::Rate(rate) => format!(" at {}/s", number::figure(rate)),
    };
    let of = names.pick(&published.of);
    match &published.than {
        Some(than) => format!("{title}{at}: {of}, over {}", names.pick(than)),
        None => format!("{title}{at}: {of}"),
    }
}

fn paper(published: &Published) -> String {
    let value = number::figure(published.value);
    match published.unit.as_str() {
        "" | "ratio" => value,
        "%" => format!("{value}%"),
        unit => format!("{value} {}", super::figures::unit(unit)),
    }
}

/// A case, its median, and whether that is the least that it can be.
type Median<'a> = (&'a CaseResult, f64, bool);

/// The medians of picked cases.
fn medians<'a>(
    experiment: &Experiment,
    record: &'a Record,
    published: &Published,
    pick: &Pick,
    system: &str,
) -> Vec<Median<'a>> {
    record
        .results
        .iter()
        .filter(|result| {
            result.system == system
                && pick.fits(&result.case.labels)
                && published.at.fits(&result.load)
        })
        .filter_map(|result| {
            let found = found(experiment, result, &published.figure);
            let is_least = found.settled().is_none();
            Some((result, found.known()?.median, is_least))
        })
        .collect()
}

fn told(experiment: &Experiment, record: &Record, published: &Published, system: &str) -> String {
    let of = medians(experiment, record, published, &published.of, system);
    let Some(than) = &published.than else {
        let low = of
            .iter()
            .map(|(_, value, _)| *value)
            .fold(f64::INFINITY, f64::min);
        let high = of
            .iter()
            .map(|(_, value, _)| *value)
            .fold(f64::NEG_INFINITY, f64::max);
        let least = match of.iter().any(|(_, _, is_least)| *is_least) {
            true => "at least ",
            false => "",
        };
        return match kind_of(&published.figure) {
            Some(kind) if of.len() > 1 => {
                format!("{least}{} to {}", kind.bare(low), kind.told(high))
            }
            Some(kind) if of.len() == 1 => format!("{least}{}", kind.told(low)),
            _ => number::NONE.to_owned(),
        };
    };
    let than_pick = than;
    let than = medians(experiment, record, published, than_pick, system);
    // That there is only one in the record is not enough: others may be missing.
    let cases = experiment.cases(Form::Long);
    let picked = cases
        .iter()
        .filter(|case| than_pick.fits(&case.labels))
        .count();
    // Those that agree on every axis that neither names, or the one that the pick has.
    let is_pair = |a: &CaseResult, b: &CaseResult| {
        let agree = || {
            a.case.labels.iter().all(|(axis, label)| {
                published.of.names(axis)
                    || than_pick.names(axis)
                    || b.case.labels.get(axis) == Some(label)
            })
        };
        a.load.is_like(&b.load) && (picked == 1 || agree())
    };
    let ratios: Vec<f64> = of
        .iter()
        .filter_map(|(result, value, is_least)| {
            let mut partners = than.iter().filter(|(other, ..)| is_pair(result, other));
            let (_, base, is_base_least) = partners.next()?;
            // Of what is only the least that it can be there is no ratio, nor of several.
            let is_one = partners.next().is_none();
            (is_one && !is_least && !is_base_least).then(|| value / base)
        })
        .collect();
    let of_all = asked(experiment, record, published, system);
    match geometric_mean(&ratios).map(number::figure) {
        Some(ratio) if ratios.len() < of_all => format!("{ratio} ({} of {of_all})", ratios.len()),
        Some(ratio) => ratio,
        None => number::NONE.to_owned(),
    }
}

/// How many cases and rates of the record are above the line, with those that have no figure;
/// what the system cannot do is not asked for.
fn asked(experiment: &Experiment, record: &Record, published: &Published, system: &str) -> usize {
    let results = record.results.iter().filter(|result| {
        result.system == system
            && published.of.fits(&result.case.labels)
            && published.at.fits(&result.load)
            && experiment.reason_against(system, &result.case).is_none()
    });
    results.count()
}

/// The systems for the head of the table.
pub(super) fn systems(names: &Names<'_>) -> Vec<String> {
    names
        .systems()
        .iter()
        .map(|system| names::system(system))
        .collect()
}
