//! SIPp's scenarios.
#![forbid(unsafe_code)]
pub mod posix;
mod problem;
mod xml;
pub use problem::Problem;
