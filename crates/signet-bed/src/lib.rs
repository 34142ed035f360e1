#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod command;
mod counts;
mod error;
mod line;
pub mod profile;
mod program;
mod relay;
mod settings;
mod stream_line;
mod units;
mod way;

pub use command::{Change, Command};
pub use counts::{Connections, Late, REPORT_FORMAT, REPORT_VERSION, Report, Traffic};
pub use error::Error;
pub use line::Line;
pub use program::{Output, run};
pub use relay::{Handle, Occasion, Relay};
pub use settings::{DelaySettings, Transport};
pub use stream_line::{Piece, StreamLine, Taken};
pub use units::{bit_rate, duration, share};
pub use way::{Conditions, MSS_BYTES, PACKET_OVERHEAD_BYTES, RTO_MIN_NS, Way};
