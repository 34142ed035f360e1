//! Levels of performance, by a rule.

use crate::level::Level;

/// The level of something that takes `cost_ns` where `reference_ns` is worth ten.
///
/// Three levels less for each doubling of the time: `10 - 3 log2(cost / reference)`, rounded,
/// from 0 to 10. So a level is a quarter more time, at any speed, and 10 is for what keeps up
/// with the reference: a packet on a line of a given rate ([`line_ns`]), a handshake of those
/// that a core is asked for ([`HANDSHAKE_NS`]).
pub fn level(cost_ns: f64, reference_ns: f64) -> Level {
    if cost_ns <= 0.0 || reference_ns <= 0.0 {
        // Nothing was measured.
        return Level::ZERO;
    }
    Level::nearest(10.0 - 3.0 * (cost_ns / reference_ns).log2())
}

/// How long a packet of this size is on a line of this rate.
pub fn line_ns(size_bytes: u32, bits_per_s: f64) -> f64 {
    f64::from(size_bytes) * 8e9 / bits_per_s
}

/// The handshake that is worth ten: 10,000 in a second and core.
pub const HANDSHAKE_NS: f64 = 100_000.0;

/// A row of Table 14 of Niedermayer 2006 with the throughput that it was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table14 {
    /// The algorithm's name there.
    pub published_as: &'static str,
    /// Its name in the table of levels.
    pub name: &'static str,
    /// Whether it encrypts; else it authenticates.
    pub is_cipher: bool,
    /// The level of protection, of confidentiality or of authentication.
    pub protection: u8,
    /// The level of performance.
    pub performance: u8,
    /// Table 6 or 8, transport mode, kernel 2.6.13.
    pub mbit_per_s: u32,
}

/// Throughput of plain IP beside it (Tables 6 and 8, kernel 2.6.13).
pub const TABLE_14_PLAIN_MBIT_PER_S: u32 = 817;

/// Table 14.
pub const TABLE_14: [Table14; 9] = [
    row("AES-128", "AES-128-CBC", true, 8, 8, 456),
    row("AES-192", "AES-192-CBC", true, 9, 7, 419),
    row("DES", "DES-CBC", true, 2, 4, 212),
    row("3DES", "3DES-CBC", true, 8, 2, 97),
    row("Blowfish-128", "Blowfish-128-CBC", true, 9, 6, 336),
    row("Blowfish-192", "Blowfish-192-CBC", true, 10, 6, 337),
    row("HMAC-MD5", "HMAC-MD5-96", false, 2, 9, 599),
    row("HMAC-SHA-1", "HMAC-SHA1-96", false, 5, 6, 349),
    row("HMAC-SHA-2-256", "HMAC-SHA-256-128", false, 8, 3, 189),
];

const fn row(
    published_as: &'static str,
    name: &'static str,
    is_cipher: bool,
    protection: u8,
    performance: u8,
    mbit_per_s: u32,
) -> Table14 {
    Table14 {
        published_as,
        name,
        is_cipher,
        protection,
        performance,
        mbit_per_s,
    }
}

impl Table14 {
    /// What the rule makes of the paper's own throughput, with its plain IP for the line.
    pub fn by_rule(&self) -> Level {
        let ns = |mbit_per_s: u32| line_ns(1_400, f64::from(mbit_per_s) * 1e6);
        level(ns(self.mbit_per_s), ns(TABLE_14_PLAIN_MBIT_PER_S))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Levels;

    #[test]
    fn the_rule_gives_the_papers_levels_from_the_papers_throughput() {
        let mut same = 0;
        for row in TABLE_14 {
            let ours = row.by_rule().number();
            assert!(ours.abs_diff(row.performance) <= 1, "{row:?}: {ours}");
            same += u32::from(ours == row.performance);
        }
        assert!(same >= 6, "only {same} of {} agree", TABLE_14.len());
    }

    #[test]
    fn every_row_has_a_level_of_today() {
        let levels = Levels::shipped();
        for row in TABLE_14 {
            let protection = levels.get(row.name).unwrap().protection();
            let level = if row.is_cipher {
                protection.confidentiality
            } else {
                protection.authentication
            };
            assert!(level.is_some(), "{}", row.name);
        }
    }

    #[test]
    fn a_doubling_costs_three_levels_and_nothing_measured_is_worth_nothing() {
        assert_eq!(level(100.0, 100.0), Level::TEN);
        assert_eq!(level(1.0, 100.0), Level::TEN);
        assert_eq!(level(200.0, 100.0).number(), 7);
        assert_eq!(level(400.0, 100.0).number(), 4);
        assert_eq!(level(1e12, 100.0), Level::ZERO);
        for (cost, reference) in [(0.0, 1.0), (f64::NAN, 1.0), (1.0, 0.0), (-1.0, 1.0)] {
            assert_eq!(level(cost, reference), Level::ZERO);
        }
        assert!((line_ns(1_250, 1e9) - 10_000.0).abs() < 1e-6);
    }
}
