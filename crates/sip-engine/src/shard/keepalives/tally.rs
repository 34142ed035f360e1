//! How many keep-alives were lost lately, of how many.

/// Fewer than so many are what happens every day.
const LOST_MIN: u32 = 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    sent: u32,
    lost: u32,
}

/// What was counted in this interval and in the one before.
#[derive(Debug, Default)]
pub(super) struct Tally {
    until_ms: u64,
    now: Counts,
    before: Counts,
}

impl Tally {
    /// One has left.
    pub(super) const fn sent(&mut self, now_ms: u64, interval_ms: u64) {
        self.turn(now_ms, interval_ms);
        self.now.sent = self.now.sent.saturating_add(1);
    }

    /// One came back, or was not answered.
    pub(super) const fn lost(&mut self, now_ms: u64, interval_ms: u64) {
        self.turn(now_ms, interval_ms);
        self.now.lost = self.now.lost.saturating_add(1);
    }

    /// Whether half of all are lost, and so many that it is no chance.
    pub(super) const fn is_widespread(&self) -> bool {
        let lost = self.now.lost.saturating_add(self.before.lost);
        let sent = self.now.sent.saturating_add(self.before.sent);
        lost >= LOST_MIN && lost >= sent / 2
    }

    const fn turn(&mut self, now_ms: u64, interval_ms: u64) {
        if now_ms < self.until_ms {
            return;
        }
        let is_next = now_ms - self.until_ms < interval_ms;
        self.before = match is_next {
            true => self.now,
            false => Counts { sent: 0, lost: 0 },
        };
        self.now = Counts { sent: 0, lost: 0 };
        self.until_ms = now_ms + interval_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(sent: u32, lost: u32) -> Tally {
        let mut tally = Tally::default();
        (0..sent).for_each(|_| tally.sent(1_000, 25_000));
        (0..lost).for_each(|_| tally.lost(1_000, 25_000));
        tally
    }

    #[test]
    fn it_is_widespread_where_half_of_many_are_lost() {
        for (sent, lost, is) in [
            (0, 0, false),
            (3, 3, false),
            (15, 15, false),
            (16, 16, true),
            (32, 16, true),
            (40, 16, false),
            (1_000, 499, false),
            (1_000, 500, true),
        ] {
            assert_eq!(after(sent, lost).is_widespread(), is, "{sent} {lost}");
        }
    }

    #[test]
    fn it_ends_by_itself() {
        let mut tally = after(20, 20);
        tally.sent(26_500, 25_000);
        assert!(tally.is_widespread(), "the interval before counts");
        tally.sent(52_000, 25_000);
        assert!(!tally.is_widespread());
        let mut tally = after(20, 20);
        tally.sent(1_000_000, 25_000);
        assert!(!tally.is_widespread(), "nothing was sent for long");
    }
}
