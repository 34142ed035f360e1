//! What Dacosta 2009 has printed, and what follows from its own formula.

use serde::Serialize;

/// The processes and batches of its hybrid runs (section 5.4).
pub(super) const PAIR_SIDES: [u32; 6] = [2, 4, 8, 16, 32, 64];
/// The processes that it ran without batches (section 5.2, figure 4), from one on.
pub(super) const PROCESSES: [u32; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/// A rate that the paper prints.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Printed {
    pub(super) processes: u32,
    pub(super) batch: u32,
    pub(super) rate_per_s: f64,
    /// Queries and responses, kbit/s, where it prints them.
    pub(super) kbit_per_s: Option<[f64; 2]>,
}

/// All rates that it prints as numbers; the others are bars in figures. Sections 5.1 to 5.4
/// and table 1.
pub(super) const PRINTED: [Printed; 6] = [
    printed(4, 1, 130.0, None),
    printed(8, 1, 265.0, Some([232.0, 482.0])),
    printed(512, 1, 9_000.0, Some([11_780.0, 24_030.0])),
    printed(1, 8, 251.0, Some([64.7, 136.2])),
    printed(1, 64, 1_366.0, Some([279.0, 555.0])),
    printed(32, 16, 12_100.0, Some([2_676.0, 5_625.0])),
];

const fn printed(
    processes: u32,
    batch: u32,
    rate_per_s: f64,
    kbit_per_s: Option<[f64; 2]>,
) -> Printed {
    Printed {
        processes,
        batch,
        rate_per_s,
        kbit_per_s,
    }
}

/// The printed rate of a pair.
pub(super) fn rate(processes: u32, batch: u32) -> Option<f64> {
    PRINTED
        .iter()
        .find(|p| (p.processes, p.batch) == (processes, batch))
        .map(|p| p.rate_per_s)
}

/// What its formula gives: batches of all processes, each a round trip of 30 ms and the
/// query's time; at most what its database did. The query's time is a line through the two
/// points that it prints: 30.2 ms in all for one user, 32.581 ms for 32 (section 5.3).
pub(super) fn formula(processes: u32, batch: u32) -> f64 {
    const DATABASE_PER_S: f64 = 12_100.0;
    let row_ms = (32.581 - 30.2) / 31.0;
    let query_ms = 30.2 + row_ms * (f64::from(batch) - 1.0);
    (f64::from(processes) * f64::from(batch) * 1_000.0 / query_ms).min(DATABASE_PER_S)
}

impl Printed {
    /// Bytes that each authentication took, both ways.
    pub(super) fn bytes_each(&self) -> Option<f64> {
        let [to, from] = self.kbit_per_s?;
        Some((to + from) * 1_000.0 / 8.0 / self.rate_per_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_is_near_what_was_printed() {
        assert!((formula(4, 1) - 132.5).abs() < 0.1, "{}", formula(4, 1));
        assert_eq!(formula(512, 64), 12_100.0);
        for printed in PRINTED.iter().filter(|p| p.processes < 512) {
            let ratio = formula(printed.processes, printed.batch) / printed.rate_per_s;
            assert!((0.95..1.4).contains(&ratio), "{printed:?}: {ratio}");
        }
    }

    #[test]
    fn bandwidth_is_bytes_for_each() {
        let single = PRINTED.iter().find(|p| p.processes == 512).unwrap();
        assert!((single.bytes_each().unwrap() - 497.4).abs() < 0.1);
        assert_eq!(rate(32, 16), Some(12_100.0));
        assert_eq!(rate(2, 2), None);
    }
}
