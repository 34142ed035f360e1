//! What the tuner is told, and what it says.

/// Why a setting is as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing is measured yet.
    Start,
    /// Statements cost next to nothing at this rate: every question leaves at once.
    Idle,
    /// The store verifies digests one by one: there are no batches.
    Single,
    /// The cost of statements weighed against the wait for company.
    Cost,
    /// The longest interval within the latency target.
    Target,
    /// The shortest interval within the bound of the store's load.
    Load,
    /// The shortest interval within the bound of statements in flight.
    Slots,
    /// Statements wait in the store.
    BackOff,
    /// Next to nothing in flight for a moment, to see the round trip without waiting.
    Reprobe,
    /// Set by the operator.
    Fixed,
}

impl Reason {
    /// How many there are.
    pub const COUNT: usize = 10;
    /// Their names for metrics, in their order.
    pub const NAMES: [&'static str; Self::COUNT] = [
        "start", "idle", "single", "cost", "target", "load", "slots", "back_off", "reprobe",
        "fixed",
    ];
}

/// A setting and its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The time from one batch to the next.
    pub interval_us: u64,
    /// Statements in flight.
    pub in_flight_max: usize,
    /// Rows with which a batch leaves before its time.
    pub batch_max: usize,
    /// What decided it.
    pub reason: Reason,
}

/// An answered statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it was sent.
    pub sent_us: u64,
    /// Its rows.
    pub rows: usize,
    /// Whether the store takes one digest a statement.
    pub is_single: bool,
    /// Whether it says that a digest is wrong, which servers hold back for a while.
    pub is_reject: bool,
}
