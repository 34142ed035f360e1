//! Lines over the rate or over an axis.

use std::collections::BTreeMap;

use signet_page::chart::{Axis, Chart, Datum, Figure, Line, Lines, Point, REFERENCE};

use super::{Sheet, joined};
use crate::experiment::{Load, RATE};
use crate::names;
use crate::record::CaseResult;

/// A line's place in the legend: the place of its series, then of its system.
type Key = (usize, String, usize);

/// A line for each system and series: the colour tells the system, mark and dashes the series.
pub(super) fn lines(sheet: &Sheet<'_>) -> Figure {
    let series = sheet.drawing.series.as_deref();
    let told: Vec<&str> = [Some(sheet.drawing.x.as_str()), series]
        .into_iter()
        .flatten()
        .collect();
    let x = x_axis(sheet);
    let mut lines: BTreeMap<Key, Line> = BTreeMap::new();
    let mut papers: BTreeMap<(usize, String), Vec<Point>> = BTreeMap::new();
    for result in &sheet.results {
        let Some(at) = x.at(sheet, result) else {
            continue;
        };
        let (nth, name) = series.map_or((0, String::new()), |axis| sheet.spelt(axis, result));
        let name = joined(&name, &sheet.rest(result, &told));
        let place = sheet
            .names
            .systems()
            .iter()
            .position(|known| *known == result.system);
        let line = lines
            .entry((nth, name.clone(), place.unwrap_or(0)))
            .or_insert_with(|| Line {
                name: joined(&names::system(&result.system), &name),
                colour: sheet.names.colour(&result.system),
                ..Line::default()
            });
        line.points.push(Point {
            x: at,
            y: sheet.datum(result),
        });
        if let Some(published) = sheet.published(result) {
            let points = papers.entry((nth, name)).or_default();
            if points.iter().all(|point| point.x != at) {
                points.push(Point {
                    x: at,
                    y: Datum::exact(published.value),
                });
            }
        }
    }
    let mut marks: Vec<(usize, String)> = lines
        .keys()
        .map(|(nth, name, _)| (*nth, name.clone()))
        .collect();
    marks.dedup();
    let mark_of = |nth: usize, name: &str| {
        marks
            .iter()
            .position(|mark| mark.0 == nth && mark.1 == name)
    };
    for ((nth, name, _), line) in &mut lines {
        line.nth = mark_of(*nth, name).unwrap_or(0);
    }
    let papers = papers.iter().map(|((nth, name), points)| Line {
        name: joined(&sheet.reference(), name),
        colour: REFERENCE,
        nth: mark_of(*nth, name).unwrap_or(0),
        is_hollow: true,
        points: points.clone(),
    });
    let papers: Vec<Line> = papers.collect();
    let mut lines: Vec<Line> = lines.into_values().chain(papers).collect();
    for line in &mut lines {
        line.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    Figure {
        title: sheet.drawing.title.clone(),
        description: sheet.description(),
        chart: Chart::Lines(Lines {
            x: x.axis,
            y: if sheet.drawing.log {
                Axis::log(sheet.value_title())
            } else {
                Axis::linear(sheet.value_title())
            },
            lines,
        }),
    }
}

/// What goes to the right.
struct Right {
    axis: Axis,
    /// The places of an axis whose names are no numbers.
    named: Option<Vec<usize>>,
}

fn x_axis(sheet: &Sheet<'_>) -> Right {
    let x = &sheet.drawing.x;
    if x == RATE {
        return Right {
            axis: Axis::linear("offered, a second"),
            named: None,
        };
    }
    let mut places: Vec<(usize, String)> = sheet
        .results
        .iter()
        .map(|result| sheet.place(x, result))
        .collect();
    places.sort();
    places.dedup();
    let title = sheet.names.axis(x);
    if sheet
        .results
        .iter()
        .all(|result| number_of(x, result).is_some())
    {
        return Right {
            axis: Axis::linear(title),
            named: None,
        };
    }
    let (at, names): (Vec<usize>, Vec<String>) = places.into_iter().unzip();
    Right {
        axis: Axis::of_names(title, names),
        named: Some(at),
    }
}

/// A place that is a number by its name: `4`, `0.5`.
fn number_of(axis: &str, result: &CaseResult) -> Option<f64> {
    let label = result.case.labels.get(axis)?;
    label.parse().ok().filter(|number: &f64| number.is_finite())
}

impl Right {
    fn at(&self, sheet: &Sheet<'_>, result: &CaseResult) -> Option<f64> {
        let x = &sheet.drawing.x;
        if x == RATE {
            return match result.load {
                Load::Rate { per_s, .. } => Some(per_s),
                Load::Peak { .. } => None,
            };
        }
        let Some(named) = &self.named else {
            return number_of(x, result);
        };
        let (place, _) = sheet.place(x, result);
        named.iter().position(|at| *at == place).map(|at| at as f64)
    }
}
