//! The largest rate that a server holds, as pure state machines: they say what
//! to try, the caller tries it and gives the outcome.
//!
//! ```
//! # fn run(rate_per_s: f64, attempts: u64) -> measure::Outcome {
//! #     let failures = if rate_per_s > 1_000.0 { attempts } else { 0 };
//! #     let delay_ns = Some(1_000_000);
//! #     measure::Outcome { attempts, failures, slow: 0, delay_ns, doubtful: false, interrupted: false }
//! # }
//! # fn rest(ns: u64) {}
//! use measure::{PeakSearch, SearchConfig, Step};
//! let mut search = PeakSearch::new(SearchConfig::default());
//! let peak = loop {
//!     match search.next() {
//!         Step::Rest { duration_ns } => rest(duration_ns),
//!         Step::Try { rate_per_s, attempts } => search.give(run(rate_per_s, attempts)),
//!         Step::Done(peak) => break peak,
//!     }
//! };
//! # assert!(peak.peak_cps > 900.0 && peak.peak_cps <= 1_000.0);
//! ```

mod peak;
mod ramp;
mod rfc7502;

use serde::{Deserialize, Serialize};

pub use peak::{Ending, Peak, PeakSearch, SearchConfig};
pub use ramp::{Highest, Ramp, RampConfig, RampStep};
pub use rfc7502::{Rfc7502, Rfc7502Config, Rfc7502Peak, Rfc7502Report};

/// What the caller is to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step<D = Peak> {
    /// Offers no load for so long, so that the server recovers from an overload.
    Rest {
        /// How long.
        duration_ns: u64,
    },
    /// Offers so many attempts at this rate, and gives the [`Outcome`].
    Try {
        /// Attempts a second.
        rate_per_s: f64,
        /// How many.
        attempts: u64,
    },
    /// The search is over.
    Done(D),
}

/// How one try went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outcome {
    /// Attempts made.
    pub attempts: u64,
    /// Those that failed.
    pub failures: u64,
    /// Those that ended well and were set up later than the search allows: RFC 7502's search
    /// takes them for failures.
    pub slow: u64,
    /// The delay that the limit is held against (the caller's choice of
    /// percentile, from the intended time). `None` when nothing succeeded.
    pub delay_ns: Option<u64>,
    /// The generator had a doubt about itself: the try says nothing about the server.
    pub doubtful: bool,
    /// The operator stopped the run.
    pub interrupted: bool,
}

/// One try with its verdict, as kept in the result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Try {
    /// Attempts a second.
    pub rate_per_s: f64,
    /// How it went.
    pub outcome: Outcome,
    /// Whether the server kept up with the rate.
    pub held: bool,
    /// Which repeat of the search it belongs to, from 0.
    pub repeat: u32,
}
