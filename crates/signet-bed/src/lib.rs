#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod awake;
pub mod calibrate;
pub mod certificates;
mod command;
pub mod compare;
mod counts;
pub mod database;
mod direction;
pub mod distance;
mod error;
pub mod experiment;
pub mod generator;
mod line;
mod names;
pub mod page;
pub mod process;
pub mod profile;
mod program;
pub mod record;
mod relay;
pub mod report;
pub mod run;
mod settings;
mod share;
mod stream_line;
mod summary;
pub mod system;
mod units;
pub mod users;
pub mod watch;

pub use command::{Change, RelayCommand};
pub use counts::{Connections, Late, REPORT_FORMAT, REPORT_VERSION, Report, Traffic};
pub use direction::{Conditions, Direction, MSS_BYTES, PACKET_OVERHEAD_BYTES, RTO_MIN_NS};
pub use error::Error;
pub use line::Line;
pub use program::{Output, delay};
pub use relay::{Handle, Occasion, Relay};
pub use settings::{DelaySettings, Transport};
pub use stream_line::{Piece, StreamLine, Taken};
pub use summary::Summary;
pub use units::{bit_rate, duration, share};
