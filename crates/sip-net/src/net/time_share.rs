//! How much of its time a worker gives to what others could do.

/// One of so many parts.
const PART: u64 = 5;
/// What is saved up while nothing is asked for, in nanoseconds.
const SAVED_MAX_NS: i64 = 4_000_000;

/// A share of the time that passes.
#[derive(Debug)]
pub(super) struct TimeShare {
    left_ns: i64,
    counted_ms: u64,
}

impl TimeShare {
    pub(super) fn new(now_ms: u64) -> Self {
        Self {
            left_ns: SAVED_MAX_NS,
            counted_ms: now_ms,
        }
    }

    /// Whether some of it is left.
    pub(super) fn is_left(&mut self, now_ms: u64) -> bool {
        let passed_ms = now_ms.saturating_sub(self.counted_ms);
        self.counted_ms = now_ms;
        let more_ns = i64::try_from(passed_ms.saturating_mul(1_000_000 / PART)).unwrap_or(i64::MAX);
        self.left_ns = self.left_ns.saturating_add(more_ns).min(SAVED_MAX_NS);
        self.left_ns > 0
    }

    /// What is spent beyond it is owed.
    pub(super) fn spend(&mut self, ns: u64) {
        let ns = i64::try_from(ns).unwrap_or(i64::MAX);
        self.left_ns = self.left_ns.saturating_sub(ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_the_time_is_given_and_debts_are_paid() {
        let mut share = TimeShare::new(0);
        let mut given_ns = 0;
        // Asks for all there is, 300 us at a time.
        for now_ms in 0..10_000 {
            while share.is_left(now_ms) {
                share.spend(300_000);
                given_ns += 300_000;
            }
        }
        assert!(
            (2_000_000_000..2_005_000_000).contains(&given_ns),
            "{given_ns}"
        );

        // A long one is paid off before the next.
        share.spend(100_000_000);
        assert!(!share.is_left(10_400));
        assert!(share.is_left(10_501));
        // What was not asked for is not saved up, and a clock that stands still gives nothing.
        assert!(share.is_left(1_000_000));
        share.spend(4_000_000);
        assert!(!share.is_left(1_000_000));
        assert!(!share.is_left(999_000));
    }
}
