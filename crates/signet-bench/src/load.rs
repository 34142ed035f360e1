//! A load under way against a server, whatever makes it.

/// What a run of a load came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Calls (or registrations) that ran to their end.
    pub(crate) completed: u64,
    /// Those that did not.
    pub(crate) failed: u64,
    /// What the load sent again.
    pub(crate) retransmissions: u64,
    /// What the counts of [`Load::mark`] are to be multiplied with to be calls that succeeded.
    pub(crate) scale: f64,
    /// Whether the load says that it may itself have made the result.
    pub(crate) is_doubted: bool,
}

impl Totals {
    /// The share that failed.
    pub(crate) fn failed_share(&self) -> f64 {
        self.failed as f64 / (self.completed + self.failed).max(1) as f64
    }
}

/// A load under way.
pub(crate) trait Load {
    /// Waits until the load has run for so long.
    fn warm_up(&mut self, seconds: u64) -> Result<(), String>;

    /// Waits so many seconds, to a moment at which the count is exact, and gives it.
    fn mark(&mut self, ahead_s: u64) -> Result<f64, String>;

    /// Ends it and tells what it came to.
    fn end(self: Box<Self>) -> Result<Totals, String>;
}
