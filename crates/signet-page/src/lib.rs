#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod chart;
pub mod number;
mod page;
mod scale;
mod svg;

pub use page::{PageError, Pages};
