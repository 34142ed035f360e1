//! What a terminal shows of a record.

use std::fmt::Write as _;

use super::page::{HEAD, row_cells};
use super::record::TunnelRecord;
use crate::crypto::columns;

/// The lines of a table, with what was doubted and missed below.
pub fn told(record: &TunnelRecord) -> String {
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    rows.extend(
        record
            .tunnels
            .iter()
            .map(|tunnel| row_cells(record, tunnel).to_vec()),
    );
    let mut text = columns(&rows);
    for missed in &record.missed {
        let _ = writeln!(text, "not measured: {}: {}", missed.name, missed.why);
    }
    for doubt in &record.doubts {
        let _ = writeln!(text, "doubt: {doubt}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::page::tests::record;
    use super::*;

    #[test]
    fn a_table_has_every_tunnel_and_what_is_missing() {
        let told = told(&record());
        for part in [
            "none",
            "stunnel/aes-128-gcm",
            "not measured: wireguard: no device",
            "doubt: it was loud",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }
}
