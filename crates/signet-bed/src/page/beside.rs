//! Signet beside the others, for every case.

use serde::Serialize;
use signet_page::number;

use super::figures::{Kind, kind_of};
use crate::experiment::{Experiment, Found, Load, found, geometric_mean};
use crate::names::{self, Names};
use crate::record::{CaseResult, Record, figure};

/// The system that ratios are of.
const OURS: &str = "signet";

/// The table of a record.
#[derive(Debug, Serialize)]
pub(super) struct Beside {
    /// The systems, ours first.
    pub(super) systems: Vec<String>,
    /// Those that ours is set in a ratio to.
    pub(super) others: Vec<String>,
    /// Its cases.
    pub(super) cases: Vec<BesideCase>,
    /// The mean ratio of each figure.
    pub(super) means: Vec<Mean>,
}

/// A case.
#[derive(Debug, Serialize)]
pub(super) struct BesideCase {
    pub(super) name: String,
    pub(super) rows: Vec<BesideRow>,
}

/// A figure of a case.
#[derive(Debug, Serialize)]
pub(super) struct BesideRow {
    /// Load and figure: "at 1,000/s: CPU of the server for each, µs".
    pub(super) what: String,
    /// A figure for each system.
    pub(super) cells: Vec<Told>,
    /// Ours over each other system's.
    pub(super) ratios: Vec<Option<String>>,
}

/// A figure for readers.
#[derive(Debug, Default, Serialize)]
pub(super) struct Told {
    /// The median; empty where there is none that counts.
    pub(super) median: String,
    /// Its interval, where there are several repeats.
    pub(super) interval: String,
    /// What stands in its place.
    pub(super) instead: String,
}

/// Ours over another system's, over all cases.
#[derive(Debug, Serialize)]
pub(super) struct Mean {
    /// The figure, and at which loads.
    pub(super) what: String,
    /// The other system.
    pub(super) other: String,
    /// The geometric mean.
    pub(super) mean: String,
    /// The least and the greatest.
    pub(super) low: String,
    pub(super) high: String,
    /// Of how many cases.
    pub(super) cases: usize,
    /// Whether the figure is one that should be low: CPU, and not a rate.
    pub(super) is_cost: bool,
}

/// The results of a case and load, one for each system that was measured.
struct Together<'a> {
    first: &'a CaseResult,
    results: Vec<&'a CaseResult>,
}

fn together(record: &Record) -> Vec<Together<'_>> {
    let mut all: Vec<Together<'_>> = Vec::new();
    for result in &record.results {
        let same = all
            .iter_mut()
            .find(|known| known.first.case.id == result.case.id && known.first.load == result.load);
        match same {
            Some(known) => known.results.push(result),
            None => all.push(Together {
                first: result,
                results: vec![result],
            }),
        }
    }
    all
}

/// What is told of a peak: the rate, and what server, load and database took of their cores.
const OF_A_PEAK: [&str; 4] = [
    figure::RATE_PER_S,
    figure::SERVER_CORES,
    figure::LOAD_CORES,
    figure::DATABASE_CORES,
];

/// What is told of a case at a load: its main figures, and what drawings and findings use.
fn told_figures(experiment: &Experiment, together: &Together<'_>) -> Vec<Kind> {
    let result = together.first;
    let main: &[&str] = match result.load {
        Load::Peak { .. } => &OF_A_PEAK,
        Load::Rate { .. } => &[figure::SERVER_CPU_US],
    };
    // Not every case has a database.
    let is_there = |name: &&str| {
        !matches!(
            *name,
            figure::SERVER_CORES | figure::LOAD_CORES | figure::DATABASE_CORES
        ) || together.results.iter().any(|result| {
            let mut repeats = result.repeats.iter();
            repeats.any(|repeat| repeat.figures.contains_key(*name))
        })
    };
    let main = main.iter().copied().filter(is_there);
    let drawn = experiment
        .drawings
        .iter()
        .filter(|drawing| drawing.pick.fits(&result.case.labels) && drawing.at.fits(&result.load))
        .filter_map(|drawing| drawing.figure.as_deref());
    let found = experiment
        .findings
        .iter()
        .filter(|finding| {
            let labels = &result.case.labels;
            finding.at.fits(&result.load) && (finding.of.fits(labels) || finding.than.fits(labels))
        })
        .map(|finding| finding.figure.as_str());
    let mut kinds: Vec<Kind> = Vec::new();
    for name in main.chain(drawn).chain(found) {
        if let Some(kind) = kind_of(name)
            && !kinds.contains(&kind)
        {
            kinds.push(kind);
        }
    }
    kinds
}

fn told(kind: &Kind, found: Option<Found>) -> Told {
    let least = match found {
        Some(Found::AtLeast(_)) => "at least ",
        _ => "",
    };
    match found {
        Some(Found::Settled(interval) | Found::AtLeast(interval)) => Told {
            median: format!("{least}{}", kind.bare(interval.median)),
            interval: if interval.repeats > 1 {
                format!(
                    "{} to {}",
                    kind.bare(interval.low),
                    kind.bare(interval.high)
                )
            } else {
                "once".to_owned()
            },
            instead: String::new(),
        },
        other => Told {
            instead: other
                .as_ref()
                .map_or("not measured", Found::instead)
                .to_owned(),
            ..Told::default()
        },
    }
}

/// A ratio that both ends allow.
fn ratio(ours: Option<&Found>, theirs: Option<&Found>) -> Option<f64> {
    let (ours, theirs) = (ours?.settled()?.median, theirs?.settled()?.median);
    let ratio = ours / theirs;
    (ratio.is_finite() && ratio > 0.0).then_some(ratio)
}

/// Ratios of a figure at a kind of load, as they are gathered over all cases.
struct Gathered<'a> {
    kind: Kind,
    is_peak: bool,
    other: &'a str,
    ratios: Vec<f64>,
}

impl Gathered<'_> {
    fn mean(self) -> Option<Mean> {
        let mean = geometric_mean(&self.ratios)?;
        let low = self.ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let high = self.ratios.iter().copied().fold(0.0, f64::max);
        Some(Mean {
            what: match (self.kind.name, self.is_peak) {
                (figure::RATE_PER_S, true) => "peak rate".to_owned(),
                (_, true) => format!("{} at the peak", self.kind.title),
                (_, false) => self.kind.title.to_owned(),
            },
            other: names::system(self.other),
            mean: number::figure(mean),
            low: number::figure(low),
            high: number::figure(high),
            cases: self.ratios.len(),
            is_cost: !matches!(self.kind.name, figure::RATE_PER_S | figure::CONCURRENT_MAX),
        })
    }
}

/// Every case of a record, with a ratio to ours where both have a figure that counts.
pub(super) fn beside(experiment: &Experiment, record: &Record, names: &Names<'_>) -> Beside {
    let mut systems: Vec<&str> = names.systems().to_vec();
    systems.sort_by_key(|system| *system != OURS);
    let has_ours = systems.first() == Some(&OURS);
    let others: Vec<&str> = systems
        .iter()
        .copied()
        .skip(1)
        .filter(|_| has_ours)
        .collect();
    let mut gathered: Vec<Gathered<'_>> = Vec::new();
    let mut cases: Vec<BesideCase> = Vec::new();
    for together in together(record) {
        let mut rows = Vec::new();
        for kind in told_figures(experiment, &together) {
            let found_of = |system: &str| {
                let result = together
                    .results
                    .iter()
                    .find(|result| result.system == system)?;
                Some(found(experiment, result, kind.name))
            };
            let ours = found_of(OURS);
            let is_peak = matches!(together.first.load, Load::Peak { .. });
            let mut ratios = Vec::new();
            for other in &others {
                // A server at its peak has its core full, and the others' cores are no cost of it.
                let is_core = matches!(
                    kind.name,
                    figure::SERVER_CORES | figure::LOAD_CORES | figure::DATABASE_CORES
                );
                let ratio = ratio(ours.as_ref(), found_of(other).as_ref())
                    .filter(|_| !(is_peak && is_core));
                ratios.push(ratio.map(number::figure));
                let Some(ratio) = ratio else { continue };
                let same = gathered.iter_mut().find(|known| {
                    (known.kind.name, known.is_peak, known.other) == (kind.name, is_peak, *other)
                });
                match same {
                    Some(known) => known.ratios.push(ratio),
                    None => gathered.push(Gathered {
                        kind,
                        is_peak,
                        other,
                        ratios: vec![ratio],
                    }),
                }
            }
            rows.push(BesideRow {
                what: format!("{}: {}", names::load(&together.first.load), kind.heading()),
                cells: systems
                    .iter()
                    .map(|system| told(&kind, found_of(system)))
                    .collect(),
                ratios,
            });
        }
        let name = names.case(together.first);
        match cases.iter_mut().find(|case| case.name == name) {
            Some(case) => case.rows.extend(rows),
            None => cases.push(BesideCase { name, rows }),
        }
    }
    Beside {
        systems: systems.iter().map(|system| names::system(system)).collect(),
        others: others.iter().map(|system| names::system(system)).collect(),
        cases,
        means: gathered.into_iter().filter_map(Gathered::mean).collect(),
    }
}
