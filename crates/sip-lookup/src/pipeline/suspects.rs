//! Names that a store refused a statement for.

use std::collections::VecDeque;

/// How many are remembered, and for how long.
const SUSPECTS_MAX: usize = 64;
const SUSPECT_US: u64 = 60_000_000;

/// Names that spoiled a statement are asked for alone for a while, so that whoever sends
/// them again spoils nobody else's. The table is small and forgets the oldest.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    /// Hashes, and until when.
    names: VecDeque<(u64, u64)>,
}

impl Suspects {
    pub(super) fn note(&mut self, now_us: u64, hash: u64) {
        self.names.retain(|&(other, _)| other != hash);
        if self.names.len() >= SUSPECTS_MAX {
            self.names.pop_front();
        }
        self.names
            .push_back((hash, now_us.saturating_add(SUSPECT_US)));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(super) fn holds(&mut self, now_us: u64, hash: u64) -> bool {
        while self
            .names
            .front()
            .is_some_and(|&(_, until_us)| until_us <= now_us)
        {
            self.names.pop_front();
        }
        self.names.iter().any(|&(other, _)| other == hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_suspect_for_a_while_and_the_oldest_makes_room() {
        let mut suspects = Suspects::default();
        suspects.note(0, 1);
        assert!(suspects.holds(59_999_999, 1) && !suspects.holds(0, 2));
        assert!(!suspects.holds(60_000_000, 1));
        for hash in 0..100 {
            suspects.note(0, hash);
        }
        assert!(suspects.holds(0, 99) && suspects.holds(0, 36) && !suspects.holds(0, 35));
    }
}
