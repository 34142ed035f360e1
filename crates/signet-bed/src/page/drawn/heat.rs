//! A field of cells for each system, and one for the paper.

use signet_page::chart::{Cell, Chart, Figure, Heat};

use super::Sheet;
use crate::page::names;
use crate::record::CaseResult;

/// A field for each system that has a figure, then the paper's where it printed any.
pub(super) fn heats(sheet: &Sheet<'_>) -> Vec<Figure> {
    let up = sheet.drawing.series.as_deref().unwrap_or_default();
    let columns = places(sheet, &sheet.drawing.x);
    let rows = places(sheet, up);
    let field = |title: String, description: String, cells: Vec<Cell>| Figure {
        title,
        description,
        chart: Chart::Heat(Heat {
            unit: sheet.value_title(),
            columns_title: sheet.names.axis(&sheet.drawing.x),
            columns: columns.iter().map(|(_, name)| name.clone()).collect(),
            rows_title: sheet.names.axis(up),
            rows: rows.iter().map(|(_, name)| name.clone()).collect(),
            cells,
        }),
    };
    let place = |result: &CaseResult| {
        let column = sheet.place(&sheet.drawing.x, result);
        let row = sheet.place(up, result);
        let column = columns.iter().position(|known| *known == column)?;
        Some((column, rows.iter().position(|known| *known == row)?))
    };
    let mut figures = Vec::new();
    for system in sheet.names.systems() {
        let mut cells: Vec<Cell> = Vec::new();
        for result in sheet
            .results
            .iter()
            .filter(|result| result.system == *system)
        {
            let Some((column, row)) = place(result).filter(|at| is_free(&cells, *at)) else {
                continue;
            };
            let found = sheet.found(result);
            cells.push(Cell {
                column,
                row,
                value: found
                    .settled()
                    .map(|found| found.median * sheet.drawing.scale),
                missing: found.instead().to_owned(),
                is_computed: false,
            });
        }
        if cells.iter().any(|cell| cell.value.is_some()) {
            let title = format!("{}: {}", sheet.drawing.title, names::system(system));
            figures.push(field(title, sheet.description(), cells));
        }
    }
    let mut published: Vec<Cell> = Vec::new();
    for result in &sheet.results {
        if let (Some((column, row)), Some(printed)) = (place(result), sheet.published(result))
            && is_free(&published, (column, row))
        {
            published.push(Cell {
                column,
                row,
                value: Some(printed.value),
                ..Cell::default()
            });
        }
    }
    if !published.is_empty() {
        let title = format!("{}: {}", sheet.drawing.title, sheet.reference());
        let description = format!("{} values that the paper prints.", published.len());
        figures.push(field(title, description, published));
    }
    figures
}

fn is_free(cells: &[Cell], at: (usize, usize)) -> bool {
    cells.iter().all(|cell| (cell.column, cell.row) != at)
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
