//! What happened in worlds, summed up.

/// What happened, to see that it does happen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Report {
    pub(crate) asked: u64,
    pub(crate) refused: u64,
    pub(crate) answered: u64,
    pub(crate) failed: u64,
    pub(crate) hits: u64,
    pub(crate) joined: u64,
    pub(crate) overtaken: u64,
    pub(crate) retried: u64,
    pub(crate) passengers: u64,
    pub(crate) refreshes: u64,
    pub(crate) expired: u64,
    pub(crate) breaks: u64,
    pub(crate) stale: u64,
    pub(crate) unasked: u64,
    pub(crate) muted: u64,
    pub(crate) broken_off: u64,
    pub(crate) ended: u64,
    /// Statements refused by who refuses whoever exists.
    pub(crate) turned_away: u64,
}

impl Report {
    pub(crate) fn add(&mut self, other: &Self) {
        let sum = |a: &mut u64, b: u64| *a += b;
        sum(&mut self.asked, other.asked);
        sum(&mut self.refused, other.refused);
        sum(&mut self.answered, other.answered);
        sum(&mut self.failed, other.failed);
        sum(&mut self.hits, other.hits);
        sum(&mut self.joined, other.joined);
        sum(&mut self.overtaken, other.overtaken);
        sum(&mut self.retried, other.retried);
        sum(&mut self.passengers, other.passengers);
        sum(&mut self.refreshes, other.refreshes);
        sum(&mut self.expired, other.expired);
        sum(&mut self.breaks, other.breaks);
        sum(&mut self.stale, other.stale);
        sum(&mut self.unasked, other.unasked);
        sum(&mut self.muted, other.muted);
        sum(&mut self.broken_off, other.broken_off);
        sum(&mut self.ended, other.ended);
        sum(&mut self.turned_away, other.turned_away);
    }
}
