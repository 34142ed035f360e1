//! Fields of cells beside each other: a figure for each pair of places, ours and those of others.

use super::is_narrow;
use crate::number;
use crate::svg::{Anchor, Area, SIZE, SIZE_SMALL, Svg, clip, width_of, wrap};

/// Cells in columns and rows, in one field or several: ours, and a paper's beside it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heat {
    /// What is counted, with its unit.
    pub unit: String,
    /// What columns are.
    pub columns_title: String,
    /// Their names, from the left.
    pub columns: Vec<String>,
    /// What rows are.
    pub rows_title: String,
    /// Their names, from above.
    pub rows: Vec<String>,
    /// The fields, two beside each other where there is room.
    pub fields: Vec<Field>,
}

/// A field: cells that are held against each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Field {
    /// Whose figures these are: "Signet", "Dacosta and others 2009".
    pub title: String,
    /// The cells, in any order; a place may have none.
    pub cells: Vec<Cell>,
}

/// A cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// Its column, from 0.
    pub column: usize,
    /// Its row, from 0.
    pub row: usize,
    /// Its figure; `None` shows [`Cell::missing`].
    pub value: Option<f64>,
    /// Why there is none, in a word.
    pub missing: String,
    /// Whether it is from a formula and not from a run.
    pub is_computed: bool,
}

/// How many steps the heat has.
const HEATS: f64 = 8.0;
const CELL_HEIGHT: f64 = 36.0;
const CELL_WIDTH_MAX: f64 = 72.0;
/// Between two fields.
const GAP: f64 = 24.0;
/// Of names in several lines.
const LINE_HEIGHT: f64 = 13.0;
/// Lines that the name of a column may take.
const COLUMN_LINES_MAX: usize = 4;

/// What the figures of all cells have in common.
struct Span {
    /// The coldest and the hottest, in logarithms.
    low: f64,
    high: f64,
    /// The highest that was measured.
    best: f64,
}

impl Span {
    fn of(cells: &[Cell]) -> Self {
        let values = || {
            let finite = |cell: &&Cell| cell.value.is_some_and(f64::is_finite);
            cells.iter().filter(finite)
        };
        let logs = || {
            values()
                .filter_map(|cell| cell.value)
                .filter(|value| *value > 0.0)
                .map(f64::ln)
        };
        Self {
            low: logs().fold(f64::INFINITY, f64::min),
            high: logs().fold(f64::NEG_INFINITY, f64::max),
            best: values()
                .filter(|cell| !cell.is_computed)
                .filter_map(|cell| cell.value)
                .fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// From 0, the coldest, on a scale of orders of magnitude.
    fn heat(&self, value: f64) -> usize {
        if value <= 0.0 || self.high <= self.low {
            return 0;
        }
        let share = (value.ln() - self.low) / (self.high - self.low);
        (share.clamp(0.0, 1.0) * (HEATS - 1.0)).round() as usize
    }
}

impl Heat {
    pub(super) fn draw(&self, width: f64) -> (Svg, f64) {
        let mut svg = Svg::new(width);
        let mut top = 4.0;
        for line in wrap(&self.unit, SIZE_SMALL, width, 2) {
            svg.text("faint", (0.0, top + 10.0), Anchor::Start, SIZE_SMALL, &line);
            top += 15.0;
        }
        let in_a_row = if is_narrow(width) || self.fields.len() < 2 {
            1
        } else {
            2
        };
        let gaps = GAP * (in_a_row - 1) as f64;
        let each = (width - gaps) / in_a_row as f64;
        for fields in self.fields.chunks(in_a_row) {
            let mut foot = top;
            for (nth, field) in fields.iter().enumerate() {
                let left = nth as f64 * (each + GAP);
                foot = f64::max(foot, self.draw_field(&mut svg, field, (left, top), each));
            }
            top = foot + 12.0;
        }
        (svg, top)
    }

    /// Draws a field; gives where it ends below.
    fn draw_field(&self, svg: &mut Svg, field: &Field, at: (f64, f64), width: f64) -> f64 {
        let (start, mut top) = at;
        let row_names: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| wrap(row, SIZE_SMALL, width * 0.25, 2))
            .collect();
        let names = row_names
            .iter()
            .flatten()
            .map(|line| width_of(line, SIZE_SMALL))
            .fold(0.0, f64::max);
        let left = start + 20.0 + names + 6.0;
        let columns = self.columns.len().max(1) as f64;
        let cell_width = ((start + width - left) / columns).min(CELL_WIDTH_MAX);
        let middle = left + cell_width * columns / 2.0;
        let heads = [
            ("ink strong", field.title.as_str()),
            ("ink", self.columns_title.as_str()),
        ];
        for (class, text) in heads {
            if !text.is_empty() {
                // Bold letters are wider.
                let text = clip(text, SIZE * 1.13, width);
                let half = width_of(&text, SIZE) * 1.13 / 2.0;
                let last = (start + width - half).max(start + half);
                let x = middle.clamp(start + half, last);
                svg.text(class, (x, top + 13.0), Anchor::Middle, SIZE, &text);
                top += 18.0;
            }
        }
        let column_names: Vec<(f64, Vec<String>)> = self
            .columns
            .iter()
            .map(|column| in_column(column, cell_width - 2.0))
            .collect();
        let lines = column_names.iter().map(|(_, lines)| lines.len()).max();
        let lines = lines.unwrap_or(1).max(1);
        for (nth, (size, name)) in column_names.iter().enumerate() {
            let x = left + (nth as f64 + 0.5) * cell_width;
            // What has fewer lines stands at the cells.
            let above = lines - name.len();
            for (nth, line) in name.iter().enumerate() {
                let y = top + 12.0 + (above + nth) as f64 * LINE_HEIGHT;
                svg.text("faint", (x, y), Anchor::Middle, *size, line);
            }
        }
        top += 18.0 + (lines - 1) as f64 * LINE_HEIGHT;
        let height = self.rows.len().max(1) as f64 * CELL_HEIGHT;
        let up = (start + 11.0, top + height / 2.0);
        svg.text_up("ink", up, height, &self.rows_title);
        for (nth, name) in row_names.iter().enumerate() {
            let middle = top + (nth as f64 + 0.5) * CELL_HEIGHT + 4.0;
            let first = middle - (name.len().saturating_sub(1)) as f64 * LINE_HEIGHT / 2.0;
            for (nth, line) in name.iter().enumerate() {
                let y = first + nth as f64 * LINE_HEIGHT;
                svg.text("faint", (left - 6.0, y), Anchor::End, SIZE_SMALL, line);
            }
        }
        let span = Span::of(&field.cells);
        for cell in &field.cells {
            if cell.column < self.columns.len() && cell.row < self.rows.len() {
                let area = Area {
                    x: left + cell.column as f64 * cell_width + 1.0,
                    y: top + cell.row as f64 * CELL_HEIGHT + 1.0,
                    width: cell_width - 2.0,
                    height: CELL_HEIGHT - 2.0,
                    round: 3.0,
                };
                self.draw_cell(svg, &span, (field.title.as_str(), cell), area);
            }
        }
        top + height + 4.0
    }

    fn draw_cell(&self, svg: &mut Svg, span: &Span, (whose, cell): (&str, &Cell), area: Area) {
        let middle = (area.x + area.width / 2.0, area.y + area.height / 2.0 + 4.0);
        let column = self.columns.get(cell.column).map_or("", String::as_str);
        let row = self.rows.get(cell.row).map_or("", String::as_str);
        let place = format!("{column} {}, {row} {}", self.columns_title, self.rows_title);
        let place = match whose {
            "" => place,
            whose => format!("{whose}, {place}"),
        };
        let Some(value) = cell.value.filter(|value| value.is_finite()) else {
            svg.rect("cell", area, &format!("{place}: {}", cell.missing));
            // Where the words have no room, whoever points at the cell reads them.
            let size = fitting(&cell.missing, area.width - 2.0);
            let has_room = width_of(&cell.missing, size) <= area.width;
            let text = if has_room {
                cell.missing.as_str()
            } else {
                number::NONE
            };
            svg.text("faint", middle, Anchor::Middle, size, text);
            return;
        };
        let hint = format!("{place}: {}", number::figure(value));
        let text = number::short(value);
        let size = fitting(&text, area.width - 2.0);
        if cell.is_computed {
            svg.rect("cell", area, &hint);
            svg.text("faint", middle, Anchor::Middle, size, &text);
            return;
        }
        let heat = span.heat(value);
        let best = if value >= span.best { " best" } else { "" };
        svg.rect(&format!("h{heat}{best}"), area, &hint);
        svg.text(
            &format!("on-h{heat} strong"),
            middle,
            Anchor::Middle,
            size,
            &text,
        );
    }
}

/// The name of a column in lines, at the size at which its longest word has room.
fn in_column(name: &str, width: f64) -> (f64, Vec<String>) {
    let longest = name
        .split_whitespace()
        .max_by(|a, b| width_of(a, SIZE_SMALL).total_cmp(&width_of(b, SIZE_SMALL)));
    let size = fitting(longest.unwrap_or_default(), width);
    (size, wrap(name, size, width, COLUMN_LINES_MAX))
}

/// The size at which a text is no wider than this, but one that can be read.
fn fitting(text: &str, width: f64) -> f64 {
    let share = width / width_of(text, SIZE).max(1.0);
    (SIZE * share).clamp(8.0, SIZE)
}
