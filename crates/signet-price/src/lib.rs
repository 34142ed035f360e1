#![doc = include_str!("../README.md")]

pub mod choose;
pub mod crypto;
pub mod cycles;
pub mod experiment;
pub mod line;
pub mod live;
pub mod merge;
pub mod page;
pub mod paper;
pub mod rate;
pub mod record;
pub mod run;
pub mod sip;
pub mod timing;
pub mod tunnel;

pub use line::Line;
pub use merge::merge;
pub use record::{Check, Clock, FORMAT, Item, Missed, Point, PriceRecord, VERSION, read, write};
pub use run::{Task, run};
pub use signet_bed::Error;
pub use timing::{Job, Timing, Work};
