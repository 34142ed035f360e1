//! Tables: the paper's in its own layout, and ours of everything.

use serde_json::{Value, json};
use signet_page::number;

use super::standing;
use crate::paper::{Paper, Table};
use crate::record::{Item, Point, PriceRecord};

/// The tables of packets; 13 is of tunnels, and 14 of ratings.
const TABLES: std::ops::RangeInclusive<u32> = 1..=12;

/// The paper's a and b, in cycles a byte and cycles (5.5).
const PUBLISHED_LINE: (f64, f64) = (79.5, 19_700.0);
const PUBLISHED_NAME: &str = "esp+ah/transport/ipv4/aes-128-cbc/hmac-sha1-96";

pub(crate) fn tables(record: &PriceRecord, paper: &Paper) -> Vec<Value> {
    let tables = paper
        .tables
        .iter()
        .filter(|table| TABLES.contains(&table.number));
    tables.map(|table| shown(record, table)).collect()
}

fn shown(record: &PriceRecord, table: &Table) -> Value {
    let columns = table.columns.iter().map(|column| {
        let unit = table.unit(column);
        json!({ "title": column.title, "unit": unit_name(unit) })
    });
    let rows = table.rows.iter().map(|row| {
        let cells = table
            .columns
            .iter()
            .zip(&row.values)
            .map(|(column, value)| {
                let what = table.what(row, column);
                let item = what.item_name().and_then(|name| standing(record, &name));
                let point = item
                    .zip(what.size_bytes)
                    .and_then(|(item, size)| item.at(size));
                let here = point.and_then(|point| figure_of(point, table.unit(column)));
                json!({
                    "paper": number::figure(*value),
                    "here": here.map_or_else(|| "–".to_owned(), number::figure),
                })
            });
        json!({ "labels": row.labels, "cells": cells.collect::<Vec<_>>() })
    });
    json!({
        "number": table.number,
        "caption": table.caption,
        "labels": table.labels,
        "columns": columns.collect::<Vec<_>>(),
        "rows": rows.collect::<Vec<_>>(),
    })
}

fn figure_of(point: &Point, unit: &str) -> Option<f64> {
    match unit {
        "cycles" => point.cycles,
        "us" => Some(point.median_ns / 1_000.0),
        "mbit_per_s" => Some(point.mbit_per_s()),
        _ => None,
    }
}

fn unit_name(unit: &str) -> &str {
    match unit {
        "us" => "µs",
        "mbit_per_s" => "Mbit/s",
        other => other,
    }
}

/// The paper's line beside ours, in a sentence; `None` where ours was not measured in cycles.
pub(crate) fn regression(record: &PriceRecord) -> Option<String> {
    let line = standing(record, PUBLISHED_NAME)?.line?;
    if record.clock.hz <= 0.0 {
        return None;
    }
    let cycles = |ns: f64| ns * record.clock.hz / 1e9;
    let (a, b) = PUBLISHED_LINE;
    Some(format!(
        "With AES-128 and SHA-1 in transport mode the paper has a = {a} cycles a byte and b = {} \
         cycles; here a = {} and b = {}, and the line misses no point by more than {}.",
        number::figure(b),
        number::figure(cycles(line.a_ns_per_byte)),
        number::figure(cycles(line.b_ns)),
        number::percent(line.error)
    ))
}

/// The sizes of packets, from the smallest.
pub(super) fn sizes(record: &PriceRecord) -> Vec<u64> {
    let packets = record
        .items
        .iter()
        .filter(|item| item.family != "primitive" && !crate::sip::is_sip(item));
    let mut sizes: Vec<u64> = packets
        .flat_map(|item| item.points.iter().map(|point| point.size_bytes))
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Everything that was measured, a row for each item.
pub(super) fn items(record: &PriceRecord) -> Vec<Value> {
    let sizes = sizes(record);
    let packets = record.items.iter().filter(|item| !crate::sip::is_sip(item));
    packets.map(|item| row(item, &sizes)).collect()
}

fn row(item: &Item, sizes: &[u64]) -> Value {
    let medians: Vec<String> = sizes
        .iter()
        .map(|size| {
            // Bare ciphers work on whole blocks: the point that is no smaller.
            let point = item.points.iter().find(|point| point.size_bytes >= *size);
            point.map_or_else(|| "–".to_owned(), |point| number::figure(point.median_ns))
        })
        .collect();
    let last = item.points.last();
    let told = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), number::figure);
    json!({
        "name": item.name,
        "provider": item.provider,
        "operation": item.operation,
        "medians": medians,
        "a": item.line.map_or_else(|| "–".to_owned(), |line| format!("{:.3}", line.a_ns_per_byte)),
        "b": told(item.line.map(|line| line.b_ns)),
        "error": item.line.map_or_else(|| "–".to_owned(), |line| number::percent(line.error)),
        "cycles": told(last.and_then(|point| point.cycles)),
        "per_byte": told(last.and_then(Point::ns_per_byte)),
        "mbit_per_s": told(last.map(Point::mbit_per_s)),
        "spread": last.map_or_else(|| "–".to_owned(), |point| number::percent(point.spread)),
    })
}
