//! When calls are due: a pure function of the time, so that a late turn of the
//! loop makes up for what it missed.

/// A rate of calls, from a moment on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pacing {
    calls_per_period: f64,
    period_ns: f64,
    since_ns: u64,
    /// Calls due before that moment.
    before: u64,
    /// Calls that fell due since and are never made.
    dropped: u64,
    /// Whether there is room for no more calls: what falls due meanwhile is dropped.
    is_full: bool,
    paused: bool,
}

impl Pacing {
    pub(crate) fn new(calls_per_period: f64, period_ms: u64, now_ns: u64) -> Self {
        Self {
            calls_per_period,
            period_ns: period_ms as f64 * 1e6,
            since_ns: now_ns,
            before: 0,
            dropped: 0,
            is_full: false,
            paused: false,
        }
    }

    /// How many calls are due since the beginning, without those that were dropped.
    pub(crate) fn due(&self, now_ns: u64) -> u64 {
        if self.paused {
            return self.before;
        }
        let elapsed = now_ns.saturating_sub(self.since_ns) as f64;
        // A billionth of a call is rounding, not lateness.
        let since = (elapsed * self.calls_per_period / self.period_ns + 1e-9) as u64;
        self.before + since.saturating_sub(self.dropped)
    }

    /// When the `n`-th call is due, counted from 1; `None` is never.
    pub(crate) fn due_at_ns(&self, n: u64) -> Option<u64> {
        if self.paused || self.calls_per_period <= 0.0 {
            return None;
        }
        let calls = (n.saturating_sub(self.before) + self.dropped) as f64;
        let wait = calls * self.period_ns / self.calls_per_period;
        Some(self.since_ns.saturating_add(wait.ceil() as u64))
    }

    pub(crate) fn rate(&self) -> f64 {
        self.calls_per_period
    }

    /// How many calls to begin now: those that are due and for which there is room.
    pub(crate) fn take(&mut self, begun: u64, room: u64, now_ns: u64) -> u64 {
        if self.is_full {
            self.drop_behind(begun, now_ns);
        }
        self.drop_behind(begun.saturating_add(room), now_ns);
        self.due(now_ns).saturating_sub(begun)
    }

    /// Whether there is room for no more calls from now on.
    pub(crate) fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// Calls that are due and not among the first so many are never made.
    fn drop_behind(&mut self, calls: u64, now_ns: u64) {
        self.dropped += self.due(now_ns).saturating_sub(calls);
    }

    /// Changes the rate from now on. What is due and was not begun is dropped.
    pub(crate) fn set_rate(&mut self, calls_per_period: f64, begun: u64, now_ns: u64) {
        self.begin_anew(begun, now_ns);
        self.calls_per_period = calls_per_period.max(0.0);
    }

    /// Stops, or goes on; nothing falls due meanwhile, and what is due and was not begun
    /// is dropped.
    pub(crate) fn set_paused(&mut self, paused: bool, begun: u64, now_ns: u64) {
        self.begin_anew(begun, now_ns);
        self.paused = paused;
    }

    /// Calls fall due from now on; what is due and was not begun is dropped.
    pub(crate) fn begin_anew(&mut self, begun: u64, now_ns: u64) {
        self.before = begun;
        self.dropped = 0;
        self.since_ns = now_ns;
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn calls_fall_due_by_the_clock() {
        // Calls, period in ms, time in ns, due.
        for (rate, period_ms, at_ns, due) in [
            (10.0, 1_000, 0, 0),
            (10.0, 1_000, S / 10 - 1, 0),
            (10.0, 1_000, S / 10, 1),
            (10.0, 1_000, S, 10),
            (7.0, 2_000, 2 * S, 7),
            (2.5, 1_000, 4 * S, 10),
            (0.0, 1_000, 9 * S, 0),
            (20_000.0, 1_000, S / 1_000, 20),
            (1.0, 1_000, 100_000 * S, 100_000),
        ] {
            let pacing = Pacing::new(rate, period_ms, 0);
            assert_eq!(
                pacing.due(at_ns),
                due,
                "{rate} per {period_ms} ms at {at_ns}"
            );
        }
    }

    #[test]
    fn the_time_of_a_call_is_when_it_is_due() {
        for rate in [0.3, 1.0, 7.0, 333.0, 12_345.0] {
            let pacing = Pacing::new(rate, 1_000, 5 * S);
            for n in [1, 2, 3, 1_000, 99_999] {
                let at = pacing.due_at_ns(n).unwrap();
                assert_eq!(pacing.due(at), n, "{rate}, call {n}");
                assert_eq!(pacing.due(at - 1_000), n - 1, "{rate}, call {n}");
            }
        }
        assert_eq!(Pacing::new(0.0, 1_000, 0).due_at_ns(1), None);
    }

    #[test]
    fn a_new_rate_counts_from_its_beginning() {
        let mut pacing = Pacing::new(10.0, 1_000, 0);
        pacing.set_rate(100.0, 20, 2 * S);
        assert_eq!(pacing.due(2 * S), 20);
        assert_eq!(pacing.due(3 * S), 120);
        pacing.set_paused(true, 120, 3 * S);
        assert_eq!(pacing.due(9 * S), 120);
        assert_eq!(pacing.due_at_ns(121), None);
        pacing.set_paused(false, 120, 10 * S);
        assert_eq!(pacing.due(11 * S), 220);
    }

    #[test]
    fn what_could_not_be_begun_is_not_made_up_for() {
        let mut pacing = Pacing::new(100.0, 1_000, 0);
        // Room for 50, and then for none until the tenth second is over.
        assert_eq!(pacing.take(0, 50, S), 50);
        pacing.set_full(true);
        assert_eq!(pacing.take(50, 0, 2 * S), 0);
        assert_eq!(pacing.take(50, 50, 10 * S), 0);
        pacing.set_full(false);
        assert_eq!(pacing.due(10 * S), 50);
        assert_eq!(pacing.due_at_ns(51), Some(10 * S + S / 100));
        // A late turn is made up for as long as there is room.
        assert_eq!(pacing.take(50, 200, 11 * S), 100);
        assert_eq!(pacing.take(50, u64::MAX, 11 * S), 100);
        // A new rate, and a pause, begin with what was begun.
        pacing.set_rate(10.0, 70, 12 * S);
        assert_eq!((pacing.due(12 * S), pacing.due(13 * S)), (70, 80));
        pacing.set_paused(true, 75, 13 * S);
        assert_eq!(pacing.due(20 * S), 75);
        pacing.set_paused(false, 75, 20 * S);
        assert_eq!((pacing.due(20 * S), pacing.due(21 * S)), (75, 85));
    }
}
