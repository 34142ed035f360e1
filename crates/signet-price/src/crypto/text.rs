//! What a terminal shows of a record: sending in transport mode over IPv4, and the primitives.

use std::fmt::Write as _;

use signet_page::number::figure;

use crate::record::{Item, PriceRecord};

/// The lines of a table, with what was doubted and missed below. `is_all` shows every item.
pub fn told(record: &PriceRecord, is_all: bool) -> String {
    let mut sizes: Vec<u64> = record
        .items
        .iter()
        .filter(|item| item.family != "primitive")
        .flat_map(|item| item.points.iter().map(|point| point.size_bytes))
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut head = vec!["ns a packet".to_owned(), "by".to_owned(), "way".to_owned()];
    head.extend(sizes.iter().map(|size| format!("{size} B")));
    head.extend(["a, ns/B", "b, ns", "error", "Mbit/s"].map(str::to_owned));
    let mut rows = vec![head];
    let items = record.items.iter().filter(|item| is_all || is_short(item));
    rows.extend(items.map(|item| row(item, &sizes)));
    let mut text = columns(&rows);
    for check in &record.checks {
        let _ = writeln!(text, "{}", check.sentence());
    }
    for missed in &record.missed {
        let _ = writeln!(
            text,
            "not measured: {}, {}: {}",
            missed.name, missed.provider, missed.why
        );
    }
    for doubt in &record.doubts {
        let _ = writeln!(text, "doubt: {doubt}");
    }
    text
}

fn is_short(item: &Item) -> bool {
    let is = |key: &str, value: &str| item.labels.get(key).is_some_and(|it| it == value);
    item.family == "primitive"
        || (item.operation == "send" && is("mode", "transport") && is("outer", "ipv4"))
}

fn row(item: &Item, sizes: &[u64]) -> Vec<String> {
    let mut cells = vec![
        item.name.clone(),
        item.provider.clone(),
        item.operation.clone(),
    ];
    // Bare ciphers work on whole blocks: the point that is no smaller.
    cells.extend(sizes.iter().map(|size| {
        let point = item.points.iter().find(|point| point.size_bytes >= *size);
        point.map_or_else(String::new, |point| figure(point.median_ns))
    }));
    match &item.line {
        Some(line) => cells.extend([
            format!("{:.3}", line.a_ns_per_byte),
            figure(line.b_ns),
            format!("{:.1} %", line.error * 100.0),
        ]),
        None => cells.extend([""; 3].map(str::to_owned)),
    }
    let last = item.points.last();
    cells.push(last.map_or_else(String::new, |point| figure(point.mbit_per_s())));
    cells
}

/// Words to the left, figures to the right.
fn columns(rows: &[Vec<String>]) -> String {
    const WORDS: usize = 3;
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count)
        .map(|nth| {
            let cells = rows.iter().filter_map(|row| row.get(nth));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (nth, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let gap = if nth == 0 { "" } else { "  " };
            let _ = if nth < WORDS {
                write!(line, "{gap}{cell:<width$}")
            } else {
                write!(line, "{gap}{cell:>width$}")
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
