//! What an operator says about look-ups.

/// How batches leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// As the [`crate::Tuner`] finds best.
    #[default]
    Tuned,
    /// By fixed values.
    Fixed {
        /// The time from one batch to the next.
        interval_us: u64,
        /// Rows with which a batch leaves before its time.
        batch_max: usize,
        /// Batches in flight.
        in_flight_max: usize,
    },
    /// As in Dacosta 2009, for comparison; what is and what is not as it was there is said
    /// at [`crate::Pipeline`].
    Blocking {
        /// Processes that each ask for one batch and wait for its answer.
        processes: usize,
        /// Questions in a batch.
        batch: usize,
    },
}

/// What the tuner is to hold to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// What a look-up may take beyond the round trip, for 99 of 100.
    pub delay_target_us: u64,
    /// The share of the store's time that may be used, above 0 and at most 1, where it is
    /// known.
    pub load_max: f64,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            delay_target_us: 10_000,
            load_max: 0.9,
        }
    }
}

/// The bounds of a [`crate::Pipeline`]. Zeros count as the least that works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PipelineConfig {
    /// How batches leave.
    pub mode: Mode,
    /// How many stores hold the same users, in the order in which they are preferred.
    pub replicas: usize,
    /// Questions held at once, those in flight included.
    pub questions_max: usize,
    /// Rows of a statement, whatever the tuner says: what the store takes.
    pub batch_max: usize,
    /// Statements in flight at once, whatever the tuner says: what the connections to a store
    /// carry. What a client keeps back itself looks like a queue in the store.
    pub in_flight_max: usize,
    /// How long a statement may take.
    pub timeout_us: u64,
    /// Failures in a row after which a replica is left alone.
    pub failures_max: u32,
    /// How often a replica that is left alone is tried.
    pub probe_interval_us: u64,
    /// What the tuner is to hold to.
    pub tuning: Tuning,
}

impl Default for PipelineConfig {
    fn default() -> Self {
        Self {
            mode: Mode::Tuned,
            replicas: 1,
            questions_max: 65_536,
            batch_max: 256,
            in_flight_max: 256,
            timeout_us: 1_000_000,
            failures_max: 3,
            probe_interval_us: 200_000,
            tuning: Tuning::default(),
        }
    }
}
