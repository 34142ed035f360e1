//! When a request is sent again (RFC 5080 2.2.1).

/// The longest pause between two transmissions, in ms (MRT).
const PAUSE_MAX_MS: u64 = 16_000;

/// After how many transmissions no more are made (MRC).
const TRANSMISSIONS_MAX: u32 = 5;

/// After how long a request is given up, in ms (MRD).
pub(super) const LIFE_MAX_MS: u64 = 30_000;

/// The pauses after each transmission of one request.
pub(super) struct Retry {
    pause_ms: u64,
    made: u32,
}

impl Retry {
    /// The first pause is about `initial_ms` (IRT).
    pub(super) fn new(initial_ms: u64) -> Self {
        Self {
            pause_ms: initial_ms,
            made: 0,
        }
    }

    /// The pause before the next transmission, in ms; `None` where there is to be none.
    /// `random` makes it up to a tenth shorter or longer, so that what was lost together
    /// is not sent together again.
    ///
    /// RFC 5080 2.2.1: "RT = 2*RTprev + RAND*RTprev".
    pub(super) fn next(&mut self, random: u32) -> Option<u64> {
        self.made += 1;
        if self.made >= TRANSMISSIONS_MAX {
            return None;
        }
        if self.made > 1 {
            self.pause_ms *= 2;
        }
        self.pause_ms = self.pause_ms.clamp(1, PAUSE_MAX_MS);
        // RAND, between -0.1 and 0.1, in parts of a thousand.
        let part = i64::from(random % 201) - 100;
        let moved = i64::try_from(self.pause_ms).unwrap_or(i64::MAX) * part / 1000;
        self.pause_ms = self.pause_ms.saturating_add_signed(moved).max(1);
        Some(self.pause_ms)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn pauses_double_and_end() {
        let mut retry = Retry::new(1_000);
        let middle = 100;
        let pauses: Vec<_> = std::iter::from_fn(|| retry.next(middle)).collect();
        assert_eq!(pauses, [1_000, 2_000, 4_000, 8_000]);
        let mut retry = Retry::new(10_000);
        let pauses: Vec<_> = std::iter::from_fn(|| retry.next(middle)).collect();
        assert_eq!(pauses, [10_000, 16_000, 16_000, 16_000]);
    }

    #[test]
    fn pauses_vary_by_a_tenth() {
        for random in 0..1_000 {
            let pause = Retry::new(1_000).next(random).unwrap();
            assert!((900..=1_100).contains(&pause), "{pause}");
        }
        assert_eq!(Retry::new(1_000).next(0), Some(900));
        assert_eq!(Retry::new(1_000).next(200), Some(1_100));
        assert_eq!(Retry::new(0).next(0), Some(1), "never at once");
    }
}
