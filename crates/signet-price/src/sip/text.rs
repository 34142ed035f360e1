//! What a terminal and a page show of SIP's work.

use signet_page::number::figure;

use super::FAMILIES;
use crate::record::{Item, PriceRecord};

/// Whether an item is of one of the families here.
pub fn is_sip(item: &Item) -> bool {
    FAMILIES.contains(&item.family.as_str())
}

/// The lines of a table; nothing where nothing of it was measured.
pub fn told(record: &PriceRecord) -> String {
    crate::crypto::columns(&table(record))
}

/// The rows of a table, its head first: medians in microseconds by bytes of payload. No rows
/// where nothing of it was measured.
pub fn table(record: &PriceRecord) -> Vec<Vec<String>> {
    let items: Vec<&Item> = record.items.iter().filter(|item| is_sip(item)).collect();
    if items.is_empty() {
        return Vec::new();
    }
    let mut sizes: Vec<u64> = items
        .iter()
        .flat_map(|item| item.points.iter().map(|point| point.size_bytes))
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut head = vec!["us each".to_owned(), "by".to_owned(), "what".to_owned()];
    head.extend(sizes.iter().map(|size| match size {
        0 => "once".to_owned(),
        size => format!("{size} B"),
    }));
    let mut rows = vec![head];
    rows.extend(items.into_iter().map(|item| {
        let mut cells = vec![
            item.name.clone(),
            item.provider.clone(),
            item.operation.clone(),
        ];
        cells.extend(sizes.iter().map(|size| {
            let point = item.at(*size);
            point.map_or_else(String::new, |point| figure(point.median_ns / 1_000.0))
        }));
        cells
    }));
    rows
}
