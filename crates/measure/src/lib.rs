//! What a load run measures and how it is reported: the pace of arrivals, delays
//! by RFC 6076, the instrument's own health, results in versioned JSON,
//! thresholds, the search for a peak, and the comparison of two results.
//!
//! Nothing here opens a socket or reads a clock: every time is a `u64` of
//! nanoseconds on the caller's monotonic clock, every random draw comes from a
//! seed. Only [`watch`] reads `/proc`, and only [`result`] writes files.
//!
//! # How a run uses it
//! ```
//! use measure::{Pacer, Schedule, Setup, SipFigures};
//!
//! let schedule = Schedule::parse("200/s for 1s")?.limit(3);
//! let (mut pacer, mut figures) = (Pacer::new(&schedule), SipFigures::new());
//! while let Some(intended_ns) = pacer.next_due_ns() {
//!     pacer.take();
//!     // Wait until intended_ns, send, and give the clock's time as sent_ns.
//!     let sent_ns = intended_ns + 20_000;
//!     figures.invite_sent();
//!     figures.invite_answered(200, &Setup {
//!         intended_ns, sent_ns, first_status_ns: None, done_ns: sent_ns + 500_000,
//!     });
//! }
//! let srd = figures.srd.summary();
//! assert_eq!((srd.count, srd.actual.p50_us, srd.intended.p50_us), (3, 500, 520));
//! assert_eq!(figures.ratios().ser_percent, Some(100.0));
//! # Ok::<(), measure::PaceError>(())
//! ```
#![forbid(unsafe_code)]

pub mod compare;
pub mod health;
pub mod latency;
pub mod pace;
pub mod random;
pub mod result;
pub mod retransmissions;
pub mod search;
pub mod series;
pub mod sip;
pub mod statistics;
pub mod terminal;
pub mod threshold;
pub mod watch;

pub use compare::{CompareConfig, Comparison, Verdict, compare};
pub use health::{Bounds, Doubt, Health, ThreadUse};
pub use latency::{Latency, LatencySummary, Quantiles};
pub use pace::{Arrivals, PaceError, Pacer, Phase, Schedule};
pub use result::{Handshakes, Host, ResultError, RunResult, Watched};
pub use retransmissions::Retransmissions;
pub use search::{
    Ending, Outcome, Peak, PeakSearch, Rfc7502, Rfc7502Config, Rfc7502Peak, Rfc7502Report,
    SearchConfig, Step, Try,
};
pub use series::{Second, SecondPart, SecondRecorder, Series};
pub use sip::{Causes, Failure, Ratios, RequestFigures, Setup, SipFigures};
pub use terminal::{Live, Screen};
pub use threshold::{Threshold, ThresholdError, ThresholdVerdict};
pub use watch::{Sample, WatchError, Watcher};
