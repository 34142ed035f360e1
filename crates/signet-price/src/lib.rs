#![doc = include_str!("../README.md")]

pub mod choose;
pub mod cycles;
pub mod line;
pub mod rate;
pub mod record;
pub mod timing;

pub use line::Line;
pub use record::{Clock, FORMAT, Item, Missed, Point, PriceRecord, VERSION, read, write};
pub use signet_bed::Error;
pub use timing::{Job, Timing, Work};
