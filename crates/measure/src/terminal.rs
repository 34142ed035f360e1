//! What the operator sees.

use crate::health::Health;
use crate::latency::Quantiles;
use crate::result::RunResult;
use crate::series::Second;

/// The state of a run, to be drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    /// What runs, such as `call to sip:192.0.2.1:5060 over tls`.
    pub title: String,
    /// Time since the start.
    pub elapsed_ns: u64,
    /// Time that the schedule takes; 0 when unknown.
    pub duration_ns: u64,
    /// The rate that the schedule asks for.
    pub target_per_s: f64,
    /// The last seconds, oldest first.
    pub recent: Vec<Second>,
    /// Attempts that ended well.
    pub succeeded: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Attempts under way.
    pub in_flight: u64,
    /// Set-up delay from the intended time.
    pub delay: Quantiles,
    /// Name and count, most frequent first.
    pub causes: Vec<(String, u64)>,
    /// Messages sent again.
    pub retransmissions: u64,
    /// The generator's own health so far.
    pub health: Health,
}

/// Draws one picture over the last.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    lines: usize,
}

impl Screen {
    /// Nothing drawn yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The text that draws the picture in place of the last one.
    pub fn draw(&mut self, live: &Live) -> String {
        let text = picture(live);
        self.lines = text.lines().count();
        text
    }
}

/// The picture, at most 80 by 24, without control sequences.
pub fn picture(live: &Live) -> String {
    live.title.clone()
}

/// One line for logs.
pub fn line(live: &Live) -> String {
    live.title.clone()
}

/// The result as a table.
pub fn table(result: &RunResult) -> String {
    result.command.clone()
}
