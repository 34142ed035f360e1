#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod answered;
pub mod compare;
pub mod figures;
pub mod file;
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
pub mod stdout;
pub mod terminal;
pub mod threshold;
pub mod watch;

pub use answered::Answered;
pub use compare::{CompareConfig, Comparison, Verdict, compare};
pub use figures::Figures;
pub use health::{Bounds, Doubt, Health, ThreadUse};
pub use latency::{Latency, LatencySummary, Quantiles};
pub use pace::{Arrivals, PaceError, Pacer, Phase, Schedule};
pub use result::{Handshakes, Host, ResultError, RunResult, Watched, command_line};
pub use retransmissions::Retransmissions;
pub use search::{
    Ending, Highest, Outcome, Peak, PeakSearch, Ramp, RampConfig, RampStep, Rfc7502, Rfc7502Config,
    Rfc7502Peak, Rfc7502Report, SearchConfig, Step, Try,
};
pub use series::{Second, SecondPart, SecondRecorder, Series};
pub use sip::{Causes, Failure, Ratios, RequestFigures, Setup, SipFigures};
pub use terminal::{Live, LiveCalled, Screen};
pub use threshold::{Threshold, ThresholdError, ThresholdVerdict};
pub use watch::{ProcessSecond, Sample, WatchError, WatchedProcess, Watcher};
