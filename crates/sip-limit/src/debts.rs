//! Leaky buckets in a table of fixed size. A charge adds to a debt, which drains
//! with time; a debt of zero needs no entry.
//!
//! A keyed hash chooses a set of [`WAYS`] entries. Where the set is full, the
//! smallest debt is forgotten. So an attacker who fills the table from many addresses
//! cannot choose whose entry goes, only helps those whose debt is forgotten, and
//! clears a debt of his own only with [`WAYS`] larger ones in the same set.

use invariant::broken;

/// Entries in a set.
pub(crate) const WAYS: usize = 8;

/// Hash, time of the last change, debt. Numbers only: a table of zeroes takes
/// no memory before it is written to.
type Entry = [u64; 3];

pub(crate) struct Debts {
    entries: Vec<Entry>,
    /// How much drains in a millisecond: where debts are in thousandths, so
    /// many whole ones per second.
    per_s: f64,
}

impl Debts {
    /// A table of `entries_max` debts, which drain by `per_s` a second.
    pub(crate) fn new(entries_max: usize, per_s: f64) -> Self {
        let sets = (entries_max / WAYS).max(1);
        Self {
            entries: vec![[0; 3]; sets * WAYS],
            per_s,
        }
    }

    /// The debt at this time.
    pub(crate) fn debt(&self, hash: u64, now_ms: u64) -> u64 {
        self.set(hash)
            .iter()
            .find(|entry| matches!(entry, [tag, ..] if *tag == hash))
            .map_or(0, |entry| self.rest(entry, now_ms))
    }

    /// Adds to a debt, up to `most`; gives the new one.
    pub(crate) fn charge(&mut self, hash: u64, now_ms: u64, amount: u64, most: u64) -> u64 {
        let before = self.debt(hash, now_ms);
        let debt = (before + amount).min(most.max(before));
        self.put(hash, now_ms, debt);
        debt
    }

    /// Takes an amount off a debt.
    pub(crate) fn forgive(&mut self, hash: u64, now_ms: u64, amount: u64) {
        let before = self.debt(hash, now_ms);
        if before > 0 {
            self.put(hash, now_ms, before.saturating_sub(amount));
        }
    }

    /// Sets a debt.
    pub(crate) fn put(&mut self, hash: u64, now_ms: u64, debt: u64) {
        let found = self
            .set(hash)
            .iter()
            .position(|entry| matches!(entry, [tag, ..] if *tag == hash));
        let place = found.or_else(|| {
            let debts = self.set(hash).iter().enumerate();
            debts
                .min_by_key(|(_, entry)| self.rest(entry, now_ms))
                .map(|(nth, _)| nth)
        });
        let start = self.start(hash);
        match place.and_then(|nth| self.entries.get_mut(start + nth)) {
            Some(entry) => *entry = [hash, now_ms, debt],
            None => broken!("a hash has a set of WAYS entries"),
        }
    }

    fn rest(&self, entry: &Entry, now_ms: u64) -> u64 {
        let [_, at_ms, debt] = *entry;
        let passed_ms = now_ms.saturating_sub(at_ms);
        debt.saturating_sub((passed_ms as f64 * self.per_s) as u64)
    }

    fn start(&self, hash: u64) -> usize {
        let sets = (self.entries.len() / WAYS) as u64;
        (hash % sets) as usize * WAYS
    }

    fn set(&self, hash: u64) -> &[Entry] {
        let start = self.start(hash);
        self.entries.get(start..start + WAYS).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debt_grows_to_its_bound_and_is_worked_off() {
        let mut debts = Debts::new(64, 2.0);
        assert_eq!(debts.debt(7, 0), 0);
        assert_eq!(debts.charge(7, 0, 1_000, 5_000), 1_000);
        assert_eq!(debts.charge(7, 0, 9_000, 5_000), 5_000);
        assert_eq!(debts.debt(7, 1_000), 3_000);
        assert_eq!(debts.debt(8, 1_000), 0);
        debts.forgive(7, 1_000, 2_500);
        assert_eq!(debts.debt(7, 1_000), 500);
        assert_eq!(debts.debt(7, 9_000), 0);
    }

    #[test]
    fn many_addresses_neither_free_a_debtor_nor_harm_a_neighbour() {
        let mut debts = Debts::new(1_024, 0.01);
        for debtor in 1..=50u64 {
            debts.charge(
                debtor.wrapping_mul(0x9e37_79b9_7f4a_7c15),
                0,
                100_000,
                100_000,
            );
        }
        // A million strangers, who owe a little each.
        for stranger in 1..1_000_000u64 {
            let hash = stranger.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ 0x5555;
            debts.charge(hash, 1, 1_000, 100_000);
        }
        for debtor in 1..=50u64 {
            assert!(debts.debt(debtor.wrapping_mul(0x9e37_79b9_7f4a_7c15), 1) > 99_000);
        }
        // Somebody else comes: he owes what he asks for and nothing more.
        assert_eq!(debts.charge(12_345, 2, 1_000, 100_000), 1_000);
    }
}
