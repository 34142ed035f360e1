#![doc = include_str!("../README.md")]
//!
//! # The parts
//!
//! - [`Pipeline`] joins questions into look-ups, look-ups into batches, and keeps batches
//!   in flight; [`pipeline`] says what is promised of order, freshness and failure.
//! - [`Tuner`] finds how often a batch leaves and how many are in flight, and says why, by
//!   rules of its own; [`model`] says what any setting can do and what it costs, and of the
//!   one in force the figures show it, by what the tuner measured.
//! - [`Cache`] answers those who have the password without a round trip, and nobody else
//!   any sooner.
//! - [`Replicas`] says which store is asked, and when one is left alone.
//! - [`Asked`] keeps a thread from overtaking its own questions by way of the cache.
#![forbid(unsafe_code)]

mod asked;
pub mod cache;
mod config;
mod figures;
mod keyed;
pub mod model;
pub mod pipeline;
mod question;
mod replicas;
pub mod tuner;

pub use asked::Asked;
pub use cache::{Cache, CacheConfig};
pub use config::{Mode, PipelineConfig, Tuning};
pub use figures::{CacheFigures, LookupFigures};
pub use model::{Model, Prediction, Setting};
pub use pipeline::{Pipeline, part_rows};
pub use question::{
    ABSENT_USER, BadRow, Batch, BatchAnswer, BatchFailure, BatchId, Outcome, Question, Replica,
    Row, Rows, Unavailable, Why,
};
pub use replicas::{Health, Replicas};
pub use tuner::{Decision, Reason, Sample, Tuner};
