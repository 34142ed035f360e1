//! How long what comes has to wait.

use super::Signals;

/// The queue before a worker, as far as it stands.
#[derive(Debug)]
pub(super) struct Queue {
    /// The shortest wait in this interval and in the last one. A quota may let a worker run
    /// once in an interval, so that one of them has no end of a run.
    least_ms: [Option<u64>; 2],
    /// The same of waits that were told alone.
    least_told_ms: [Option<u64>; 2],
    /// Since when the sockets were not seen empty, while that is all that is known.
    behind_since_ms: Option<u64>,
    /// How long it was at the end of the last interval.
    stood_ms: u64,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            least_ms: [Some(0), None],
            least_told_ms: [Some(0), None],
            behind_since_ms: None,
            stood_ms: 0,
        }
    }
}

impl Queue {
    /// A turn is over. For how long the sockets were not empty counts as `most_untold_ms` at
    /// most.
    pub(super) fn seen(&mut self, now_ms: u64, signals: &Signals, most_untold_ms: u64) {
        let told_ms = signals.waiting_ms.filter(|_| !signals.is_drained);
        let is_all_told = signals.is_drained || (told_ms.is_some() && !signals.may_more_wait);
        let behind_ms = if is_all_told {
            self.behind_since_ms = None;
            0
        } else {
            let since_ms = *self.behind_since_ms.get_or_insert(now_ms);
            now_ms.saturating_sub(since_ms).min(most_untold_ms)
        };
        let told_ms = told_ms.unwrap_or(0);
        for (least_ms, waited_ms) in [
            (&mut self.least_ms, told_ms.max(behind_ms)),
            (&mut self.least_told_ms, told_ms),
        ] {
            let [least_ms, _] = least_ms;
            *least_ms = Some(least_ms.map_or(waited_ms, |least| least.min(waited_ms)));
        }
    }

    /// How long what was read in this interval and in the last one had to wait at least, in
    /// milliseconds; 0 where that is not known.
    pub(super) fn waits_ms(&self) -> u64 {
        let least_ms = self.least_told_ms.iter().flatten().min();
        least_ms.copied().unwrap_or(0)
    }

    /// For how long the sockets have not been empty.
    pub(super) fn behind_ms(&self, now_ms: u64) -> u64 {
        self.behind_since_ms
            .map_or(0, |since_ms| now_ms.saturating_sub(since_ms))
    }

    /// An interval is over: how long what came in it had to wait at least, and whether
    /// that is less than it was.
    pub(super) fn stands_ms(&mut self) -> (u64, bool) {
        let [least_ms, before_ms] = self.least_ms;
        self.least_ms = [None, least_ms];
        let [least_told_ms, _] = self.least_told_ms;
        self.least_told_ms = [None, least_told_ms];
        let least_ms = least_ms.unwrap_or(0);
        let stands_ms = before_ms.map_or(least_ms, |before| before.min(least_ms));
        let is_falling = stands_ms < self.stood_ms - self.stood_ms / 20;
        self.stood_ms = stands_ms;
        (stands_ms, is_falling)
    }
}
