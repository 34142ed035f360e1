//! Fields of cells: one for each system, and the paper's beside them.

use signet_page::chart::{Cell, Chart, Field, Figure, Heat};

use super::Sheet;
use crate::names;
use crate::record::CaseResult;

/// A field for each system that has a figure, then the paper's where it printed any; `None`
/// where there is none.
pub(super) fn heat(sheet: &Sheet<'_>) -> Option<Figure> {
    let up = sheet.drawing.series.as_deref().unwrap_or_default();
    let columns = places(sheet, &sheet.drawing.x);
    let rows = places(sheet, up);
    let place = |result: &CaseResult| {
        let column = sheet.place(&sheet.drawing.x, result);
        let row = sheet.place(up, result);
        let column = columns.iter().position(|known| *known == column)?;
        Some((column, rows.iter().position(|known| *known == row)?))
    };
    let mut fields = Vec::new();
    for system in sheet.names.systems() {
        let own = sheet.results.iter();
        let own = own.filter(|result| result.system == *system);
        let cells = cells(own.filter_map(|result| {
            let found = sheet.found(result);
            let known = found.known();
            let value = known.map(|found| found.median * sheet.drawing.scale);
            Some((place(result)?, value, found.instead()))
        }));
        if cells.iter().any(|cell| cell.value.is_some()) {
            let title = names::system(system);
            fields.push(Field { title, cells });
        }
    }
    let published = cells(sheet.results.iter().filter_map(|result| {
        let printed = sheet.published(result)?;
        Some((place(result)?, Some(printed.value), ""))
    }));
    if !published.is_empty() {
        fields.push(Field {
            title: sheet.reference(),
            cells: published,
        });
    }
    let named = |places: Vec<(usize, String)>| -> Vec<String> {
        places.into_iter().map(|(_, name)| name).collect()
    };
    (!fields.is_empty()).then(|| Figure {
        title: sheet.drawing.title.clone(),
        description: sheet.description(),
        chart: Chart::Heat(Heat {
            unit: sheet.value_title(),
            columns_title: sheet.names.axis(&sheet.drawing.x),
            columns: named(columns),
            rows_title: sheet.names.axis(up),
            rows: named(rows),
            fields,
        }),
    })
}

/// The first that has a place stays there.
fn cells<'a>(found: impl Iterator<Item = ((usize, usize), Option<f64>, &'a str)>) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for ((column, row), value, missing) in found {
        if cells
            .iter()
            .all(|cell| (cell.column, cell.row) != (column, row))
        {
            cells.push(Cell {
                column,
                row,
                value,
                missing: missing.to_owned(),
                is_computed: false,
            });
        }
    }
    cells
}

fn places(sheet: &Sheet<'_>, axis: &str) -> Vec<(usize, String)> {
    let mut places: Vec<(usize, String)> = sheet
        .results
        .iter()
        .map(|result| sheet.place(axis, result))
        .collect();
    places.sort();
    places.dedup();
    places
}
