//! The drawings that an experiment asks for, from what a run found.

mod bars;
mod heat;
mod lines;
mod notes;

use signet_page::chart::{Datum, Figure};
use signet_page::number;

use super::figures::{heading, kind_of, unit};
use crate::experiment::{Drawing, DrawingKind, Experiment, Found, Load, Published, RATE, found};
use crate::names::{self, Names, varied};
use crate::record::{CaseResult, Record};

/// A drawing, and what is said below it.
pub(super) struct Drawn {
    pub(super) figure: Figure,
    pub(super) notes: Vec<String>,
}

/// All drawings of a run, in the order of the experiment; one without any figure is left out.
pub(super) fn figures(experiment: &Experiment, record: &Record, names: &Names<'_>) -> Vec<Drawn> {
    experiment
        .drawings
        .iter()
        .filter_map(|drawing| {
            let mut sheet = Sheet {
                experiment,
                drawing,
                names,
                results: picked(drawing, record),
                tells_picked: false,
            };
            sheet.tells_picked = sheet.has_namesakes();
            // One rate makes no line: its figures stand beside each other.
            let is_of_one_rate =
                drawing.kind == DrawingKind::Lines && drawing.x == RATE && sheet.rates() == 1;
            if is_of_one_rate {
                let is_rate = |result: &&CaseResult| matches!(result.load, Load::Rate { .. });
                sheet.results.retain(is_rate);
            }
            let figure = match drawing.kind {
                _ if sheet.results.is_empty() => None,
                DrawingKind::Bars => Some(bars::bars(&sheet)),
                DrawingKind::Stacked => bars::stacked(&sheet),
                DrawingKind::Lines if is_of_one_rate => Some(bars::bars(&sheet)),
                DrawingKind::Lines => Some(lines::lines(&sheet)),
                DrawingKind::Heat => heat::heat(&sheet),
            };
            let notes = match drawing.kind {
                DrawingKind::Stacked => notes::sources(&sheet.results),
                DrawingKind::Bars | DrawingKind::Lines | DrawingKind::Heat => {
                    notes::least(&sheet).into_iter().collect()
                }
            };
            figure.map(|figure| Drawn { figure, notes })
        })
        .collect()
}

fn picked<'a>(drawing: &Drawing, record: &'a Record) -> Vec<&'a CaseResult> {
    let is_picked = |result: &&CaseResult| {
        drawing.pick.fits(&result.case.labels) && drawing.at.fits(&result.load)
    };
    record.results.iter().filter(is_picked).collect()
}

/// A drawing and what goes onto it.
struct Sheet<'a> {
    experiment: &'a Experiment,
    drawing: &'a Drawing,
    names: &'a Names<'a>,
    results: Vec<&'a CaseResult>,
    /// Whether cases are told apart by axes of which its pick names places too; its title
    /// says what is picked.
    tells_picked: bool,
}

impl Sheet<'_> {
    fn figure(&self) -> &str {
        self.drawing.figure.as_deref().unwrap_or_default()
    }

    fn found(&self, result: &CaseResult) -> Found {
        found(self.experiment, result, self.figure())
    }

    /// A figure in the drawing's unit, or why there is none.
    fn datum(&self, result: &CaseResult) -> Datum {
        match self.found(result) {
            Found::Settled(found) | Found::AtLeast(found) => {
                let scale = self.drawing.scale;
                let value = found.median * scale;
                if found.repeats > 1 {
                    Datum::between(value, found.low * scale, found.high * scale)
                } else {
                    Datum::exact(value)
                }
            }
            other => Datum::Missing(other.instead().to_owned()),
        }
    }

    /// What the paper has of this case in the drawing's unit.
    fn published(&self, result: &CaseResult) -> Option<&Published> {
        self.experiment.published.iter().find(|published| {
            published.than.is_none()
                && published.figure == self.figure()
                && published.unit == self.drawing.unit
                && published.at.fits(&result.load)
                && published.of.fits(&result.case.labels)
        })
    }

    /// What the value's axis says.
    fn value_title(&self) -> String {
        let title = kind_of(self.figure()).map(|kind| kind.title);
        heading(
            title.unwrap_or("CPU time for each by component"),
            unit(&self.drawing.unit),
        )
    }

    /// What hollow marks are.
    fn reference(&self) -> String {
        self.experiment.paper.as_ref().map_or_else(
            || "published".to_owned(),
            |paper| match paper.authors.first() {
                Some(author) if paper.authors.len() > 1 => {
                    format!("{author} and others {}", paper.year)
                }
                Some(author) => format!("{author} {}", paper.year),
                None => paper.year.to_string(),
            },
        )
    }

    /// What a case is called beside others with the same place on the drawing's axes: by all
    /// else in which the drawing's cases differ.
    fn rest(&self, result: &CaseResult, told: &[&str]) -> String {
        let varied = varied(self.results.iter().copied());
        let rest = self.names.places(&result.case.labels, |axis| {
            let is_picked = self.drawing.pick.names(axis) && !self.tells_picked;
            varied.contains(axis) && !told.contains(&axis) && !is_picked
        });
        let rates = self.rates();
        let is_told = told.contains(&RATE);
        match &result.load {
            Load::Rate { per_s, .. } if rates > 1 && !is_told => {
                joined(&rest, &format!("at {}/s", number::figure(*per_s)))
            }
            Load::Rate { .. } | Load::Peak { .. } => rest,
        }
    }

    /// Whether two cases of a system have the same place and the same name.
    fn has_namesakes(&self) -> bool {
        let series = self.drawing.series.as_deref();
        let told: Vec<&str> = [Some(self.drawing.x.as_str()), series]
            .into_iter()
            .flatten()
            .collect();
        let mut known = std::collections::BTreeSet::new();
        !self.results.iter().all(|result| {
            let places: Vec<usize> = told.iter().map(|axis| self.place(axis, result).0).collect();
            known.insert((
                places,
                Self::rate(result),
                self.rest(result, &told),
                &result.system,
            ))
        })
    }

    /// What brings the rates of a case into their order.
    fn rate(result: &CaseResult) -> usize {
        match result.load {
            Load::Rate { per_s, .. } => in_order(per_s),
            Load::Peak { .. } => usize::MAX,
        }
    }

    /// How many rates the drawing has.
    fn rates(&self) -> usize {
        let mut rates: Vec<f64> = self
            .results
            .iter()
            .filter_map(|result| match result.load {
                Load::Rate { per_s, .. } => Some(per_s),
                Load::Peak { .. } => None,
            })
            .collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        rates.len()
    }

    /// The place of a case on an axis, and what it is called.
    fn place(&self, axis: &str, result: &CaseResult) -> (usize, String) {
        if axis == RATE {
            return match &result.load {
                Load::Rate { per_s, .. } => {
                    (in_order(*per_s), format!("{}/s", number::figure(*per_s)))
                }
                Load::Peak { .. } => (usize::MAX, "peak".to_owned()),
            };
        }
        result.case.labels.get(axis).map_or_else(
            || (usize::MAX, "other".to_owned()),
            |label| {
                (
                    self.names.position(axis, label),
                    self.names.place(axis, label),
                )
            },
        )
    }

    /// The same where the axis is not named beside it.
    fn spelt(&self, axis: &str, result: &CaseResult) -> (usize, String) {
        let (position, name) = self.place(axis, result);
        match result.case.labels.get(axis) {
            Some(label) => (position, self.names.spelt(axis, label)),
            None => (position, name),
        }
    }

    /// The ends of all that is drawn, in words.
    fn description(&self) -> String {
        let mut found: Vec<(f64, &CaseResult)> = self
            .results
            .iter()
            .filter_map(|result| Some((self.found(result).known()?.median, *result)))
            .collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        let told = |(value, result): &(f64, &CaseResult)| {
            format!(
                "{} {} with {}",
                number::figure(value * self.drawing.scale),
                unit(&self.drawing.unit),
                joined(&names::system(&result.system), &self.names.case(result))
            )
        };
        match (found.first(), found.last()) {
            (Some(first), Some(last)) if found.len() > 1 => format!(
                "{} figures; the lowest is {}, the highest {}.",
                found.len(),
                told(first),
                told(last)
            ),
            (Some(only), _) => format!("{}.", told(only)),
            _ => "No figure that counts.".to_owned(),
        }
    }
}

/// The place of a rate among others, by millionths: those below one a second are not all one.
fn in_order(per_s: f64) -> usize {
    (per_s * 1e6).round() as usize
}

/// Two names, of which either may be empty.
fn joined(a: &str, b: &str) -> String {
    match (a, b) {
        ("", only) | (only, "") => only.to_owned(),
        (a, b) => format!("{a}, {b}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_that_differ_have_places_of_their_own() {
        let places = [0.004, 0.0045, 0.25, 0.5, 1.2, 1.7, 2_000.0].map(in_order);
        assert!(places.is_sorted_by(|a, b| a < b), "{places:?}");
    }
}
