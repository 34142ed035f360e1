//! Bars for cases: whole ones, and of components.

use std::collections::BTreeMap;

use signet_page::chart::{Axis, Chart, Content, Datum, Figure, Group, REFERENCE, Row, Rows};

use super::{Sheet, joined};
use crate::experiment::{Found, counted, found, median};
use crate::names;
use crate::profile::Component;
use crate::record::{CaseResult, Repeat, figure};

/// Results with the same place on every axis, one for each system.
struct Together<'a> {
    label: String,
    results: Vec<&'a CaseResult>,
}

fn together<'a>(sheet: &Sheet<'a>) -> Vec<Together<'a>> {
    let series = sheet.drawing.series.as_deref();
    let told: Vec<&str> = [Some(sheet.drawing.x.as_str()), series]
        .into_iter()
        .flatten()
        .collect();
    let mut groups: BTreeMap<(usize, usize, usize, String), Together<'a>> = BTreeMap::new();
    for &result in &sheet.results {
        let (x, x_name) = sheet.spelt(&sheet.drawing.x, result);
        let (nth, series_name) =
            series.map_or((0, String::new()), |axis| sheet.spelt(axis, result));
        let rest = sheet.rest(result, &told);
        let label = joined(&joined(&x_name, &series_name), &rest);
        groups
            .entry((x, nth, Sheet::rate(result), rest))
            .or_insert_with(|| Together {
                label,
                results: Vec::new(),
            })
            .results
            .push(result);
    }
    groups.into_values().collect()
}

fn row(sheet: &Sheet<'_>, result: &CaseResult, content: Content) -> Row {
    let system = names::system(&result.system);
    let is_bar = matches!(content, Content::Bar(_));
    Row {
        name: match is_bar && matches!(sheet.found(result), Found::AtLeast(_)) {
            true => format!("{system}, at least"),
            false => system,
        },
        colour: sheet.names.colour(&result.system),
        content,
    }
}

fn axis(sheet: &Sheet<'_>) -> Axis {
    if sheet.drawing.log {
        Axis::log(sheet.value_title())
    } else {
        Axis::linear(sheet.value_title())
    }
}

/// A bar for each case and system, and the paper's mark below them.
pub(super) fn bars(sheet: &Sheet<'_>) -> Figure {
    let groups = together(sheet).into_iter().map(|together| {
        let mut rows: Vec<Row> = together
            .results
            .iter()
            .map(|result| row(sheet, result, Content::Bar(sheet.datum(result))))
            .collect();
        let published = together
            .results
            .iter()
            .find_map(|result| sheet.published(result));
        rows.extend(published.map(|published| Row {
            name: "paper".to_owned(),
            colour: REFERENCE,
            content: Content::Reference(published.value),
        }));
        Group {
            label: together.label,
            rows,
        }
    });
    Figure {
        title: sheet.drawing.title.clone(),
        description: sheet.description(),
        chart: Chart::Rows(Rows {
            axis: axis(sheet),
            groups: groups.collect(),
            parts: Vec::new(),
            interval: "lowest and highest of two repeats, 95% interval of more".to_owned(),
            reference: sheet.reference(),
        }),
    }
}

/// The median of each component over the repeats that count.
fn components(result: &CaseResult) -> BTreeMap<&str, f64> {
    let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut repeats = 0;
    let is_of_use = |repeat: &&Repeat| !repeat.profile.is_empty() && repeat.profile_void.is_none();
    for repeat in counted(result, figure::SERVER_CPU_US).filter(is_of_use) {
        repeats += 1;
        for (component, us) in &repeat.profile {
            values.entry(component).or_default().push(*us);
        }
    }
    values
        .into_iter()
        .map(|(component, mut us)| {
            // A component that a repeat did not meet took nothing in it.
            us.resize(repeats, 0.0);
            us.sort_by(f64::total_cmp);
            (component, median(&us))
        })
        .collect()
}

/// A component for readers: `database/libc` is "libc of the database".
fn component_name(component: &str) -> String {
    let (process, part) = component.split_once('/').unwrap_or(("server", component));
    let known = Component::ALL.iter().find(|known| known.key() == part);
    let part = known.map_or(part, |known| known.name()).to_owned();
    match process {
        "server" => part,
        process if process == part => part,
        process => format!("{part} of the {process}"),
    }
}

/// Those of the server first, in the order of [`Component::ALL`].
fn component_order(component: &str) -> (bool, usize, &str) {
    let (process, part) = component.split_once('/').unwrap_or(("server", component));
    let place = Component::ALL.iter().position(|known| known.key() == part);
    (
        process != "server",
        place.unwrap_or(Component::ALL.len()),
        component,
    )
}

/// The components of a case, where its CPU time as a whole counts.
fn stack(sheet: &Sheet<'_>, result: &CaseResult, all: &[&str]) -> Content {
    let whole = found(sheet.experiment, result, figure::SERVER_CPU_US);
    let found = components(result);
    if whole.settled().is_none() || found.is_empty() {
        let instead = match whole.instead() {
            "" => "not taken apart",
            instead => instead,
        };
        return Content::Bar(Datum::Missing(instead.to_owned()));
    }
    let us = |component: &&str| found.get(component).copied().unwrap_or(0.0);
    let parts = all
        .iter()
        .map(|component| us(component) * sheet.drawing.scale);
    Content::Stack(parts.collect())
}

/// A bar of components for each case and system; `None` where none was taken apart.
pub(super) fn stacked(sheet: &Sheet<'_>) -> Option<Figure> {
    let mut all: Vec<&str> = sheet
        .results
        .iter()
        .flat_map(|result| components(result).into_keys())
        .collect();
    all.sort_by_key(|component| component_order(component));
    all.dedup();
    if all.is_empty() {
        return None;
    }
    let groups = together(sheet).into_iter().map(|together| Group {
        label: together.label,
        rows: together
            .results
            .iter()
            .map(|result| row(sheet, result, stack(sheet, result, &all)))
            .collect(),
    });
    Some(Figure {
        title: sheet.drawing.title.clone(),
        description: format!("CPU time of each in {} components.", all.len()),
        chart: Chart::Rows(Rows {
            axis: axis(sheet),
            groups: groups.collect(),
            parts: all
                .iter()
                .map(|component| component_name(component))
                .collect(),
            interval: String::new(),
            reference: String::new(),
        }),
    })
}
