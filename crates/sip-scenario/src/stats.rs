//! What was counted, in SIPp's terms.

/// A counter; the order is that of SIPp's statistics file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Calls that another side began.
    IncomingCalls,
    /// Calls that were begun here.
    OutgoingCalls,
    /// Calls that went through the scenario.
    Successful,
    /// Calls that did not.
    Failed,
    /// A message could not be sent.
    CannotSend,
    /// Nobody answered a message that was sent again and again.
    MaxUdpRetransmissions,
    /// A connection could not be opened.
    TcpConnect,
    /// A connection was closed under a call.
    TcpClosed,
    /// A message came that nobody expected.
    UnexpectedMessage,
    /// The scenario itself failed: an action, or too many calls.
    Rejected,
    /// A command to another instance could not be sent.
    CommandNotSent,
    /// An expression that must match did not.
    RegexpDoesntMatch,
    /// An expression that must not match did.
    RegexpShouldntMatch,
    /// A header to be searched was not there.
    RegexpHeaderNotFound,
    /// The way out was full.
    OutboundCongestion,
    /// An expected message did not come in time.
    TimeoutOnRecv,
    /// A message could not be sent in time.
    TimeoutOnSend,
    /// A test that must be true was not.
    TestDoesntMatch,
    /// A test that must not be true was.
    TestShouldntMatch,
    /// Texts that must be equal were not.
    StrcmpDoesntMatch,
    /// Texts that must not be equal were.
    StrcmpShouldntMatch,
    /// Messages of no call.
    OutOfCallMessages,
    /// Messages of ended calls.
    DeadCallMessages,
    /// Messages sent again.
    Retransmissions,
    /// Messages answered without the scenario.
    AutoAnswered,
    /// Warnings.
    Warnings,
    /// Errors that ended the run.
    FatalErrors,
    /// Late turns of the main loop.
    WatchdogMajor,
    /// Slightly late turns of the main loop.
    WatchdogMinor,
}

impl Counter {
    /// How many there are.
    pub const COUNT: usize = Self::WatchdogMinor as usize + 1;
}

/// Values of one kind: how many, their sum and the sum of their squares.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// Their sum, in milliseconds.
    pub sum_ms: f64,
    /// The sum of their squares.
    pub sum_ms2: f64,
}

impl Spread {
    /// Adds a value.
    pub fn add(&mut self, ms: f64) {
        self.count += 1;
        self.sum_ms += ms;
        self.sum_ms2 += ms * ms;
    }

    /// What came since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            count: self.count - earlier.count.min(self.count),
            sum_ms: self.sum_ms - earlier.sum_ms,
            sum_ms2: self.sum_ms2 - earlier.sum_ms2,
        }
    }

    /// The mean; 0 of nothing.
    pub fn mean_ms(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum_ms / self.count as f64
        }
    }

    /// The standard deviation; 0 of less than two.
    pub fn deviation_ms(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let mean = self.mean_ms();
        let square = self.sum_ms2 / self.count as f64 - mean * mean;
        square.max(0.0).sqrt()
    }
}

/// Values by classes: how many are below each bound, and how many are not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classes {
    /// The classes' upper ends.
    pub below_ms: Vec<u32>,
    /// How many are in each, and in the one above the last end.
    pub counts: Vec<u64>,
}

impl Classes {
    /// No values yet.
    pub fn new(below_ms: &[u32]) -> Self {
        Self {
            below_ms: below_ms.to_vec(),
            counts: vec![0; below_ms.len() + 1],
        }
    }

    /// Adds a value.
    pub fn add(&mut self, ms: f64) {
        let class = self
            .below_ms
            .iter()
            .take_while(|end| ms >= f64::from(**end))
            .count();
        if let Some(count) = self.counts.get_mut(class) {
            *count += 1;
        }
    }
}

/// What was counted of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepCounts {
    /// Messages sent, or received; pauses and nops executed.
    pub done: u64,
    /// Messages sent again, or received again.
    pub retransmitted: u64,
    /// Messages that nobody answered, or that did not come in time.
    pub timeouts: u64,
    /// Messages that came instead of this one.
    pub unexpected: u64,
    /// Messages lost on purpose.
    pub lost: u64,
    /// Calls that wait in this step.
    pub sessions: u64,
}

/// All that was counted since the start.
#[derive(Clone, Debug)]
pub struct Stats {
    counters: [u64; Counter::COUNT],
    /// The response times, by number.
    pub response_times: Vec<Spread>,
    /// Their classes.
    pub response_classes: Vec<Classes>,
    /// The lengths of calls.
    pub call_lengths: Spread,
    /// Their classes.
    pub call_classes: Classes,
    /// The scenario's own counters.
    pub own: Vec<u64>,
    /// The steps.
    pub steps: Vec<StepCounts>,
}

impl Stats {
    pub(crate) fn new(program: &crate::Program) -> Self {
        let classes = Classes::new(&program.response_time_ms);
        Self {
            counters: [0; Counter::COUNT],
            response_times: vec![Spread::default(); program.rtds.len()],
            response_classes: vec![classes; program.rtds.len()],
            call_lengths: Spread::default(),
            call_classes: Classes::new(&program.call_length_ms),
            own: vec![0; program.counters.len()],
            steps: vec![StepCounts::default(); program.steps.len()],
        }
    }

    /// The value of a counter.
    pub fn get(&self, counter: Counter) -> u64 {
        self.counters.get(counter as usize).copied().unwrap_or(0)
    }

    /// Counts one.
    pub fn count(&mut self, counter: Counter) {
        if let Some(value) = self.counters.get_mut(counter as usize) {
            *value += 1;
        }
    }

    pub(crate) fn step(&mut self, index: u32) -> &mut StepCounts {
        let index = (index as usize).min(self.steps.len().saturating_sub(1));
        if self.steps.is_empty() {
            self.steps.push(StepCounts::default());
        }
        // Not empty, and the index is within.
        &mut self.steps[index]
    }
}
