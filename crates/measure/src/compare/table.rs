//! The comparison as a table.

use std::fmt::Write;

use super::{Comparison, Row};
use crate::terminal::{clip, figure, wrap};

/// At most 80 columns wide.
pub(super) fn table(comparison: &Comparison) -> String {
    let mut text = String::new();
    for warning in &comparison.warnings {
        text.push_str(&wrap(&format!("! {warning}"), 80, "  "));
    }
    if comparison.rows.is_empty() {
        text.push_str("There is no figure that both results have.\n");
        return text;
    }
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{:<22}{:>9}{:>9} {:<2}{:>9} {:<9} verdict",
        "", "A", "B", "", "B to A", "+- noise"
    );
    for row in &comparison.rows {
        let _ = writeln!(
            text,
            "{:<22}{:>9}{:>9} {:<2}{:>9} {:<9} {}",
            clip(&row.name, 21),
            figure(row.a),
            figure(row.b),
            row.unit,
            signed(row),
            noise(row),
            row.verdict.words()
        );
    }
    text
}

fn signed(row: &Row) -> String {
    if row.points {
        let points = row.difference.clamp(-99_999.0, 99_999.0);
        let digits = if points.abs() < 100.0 { 2 } else { 0 };
        format!("{points:+.digits$} pp")
    } else if row.difference.is_finite() {
        let percent = (row.difference * 100.0).clamp(-99_999.0, 99_999.0);
        format!("{percent:+.1}%")
    } else {
        "from 0".to_owned()
    }
}

fn noise(row: &Row) -> String {
    let half = (row.high - row.low) / 2.0;
    match (half.is_finite(), row.points) {
        (false, _) => "unknown".to_owned(),
        (true, true) if half < 10.0 => format!("+-{half:.2} pp"),
        (true, true) => format!("+-{:.1} pp", half.min(99.9)),
        (true, false) => format!("+-{:.1}%", (half * 100.0).min(9_999.9)),
    }
}
