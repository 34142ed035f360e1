#![doc = include_str!("../README.md")]
//!
//! # The parts
//!
//! - [`Question`] and [`Answer`] are what is asked and what was answered; an answer that exists
//!   is one that was checked.
//! - [`Queue`] joins questions into requests and keeps several in flight; [`queue`] says what is
//!   promised of failure.
//! - [`Cache`] has answers that may be given again, for as long as each of them said.
#![forbid(unsafe_code)]

mod answer;
mod cache;
mod figures;
mod headers;
mod json;
mod question;
pub mod queue;

pub use answer::{Action, Answer};
pub use cache::{Cache, CacheConfig};
pub use figures::{HookCacheFigures, HookFigures};
pub use headers::{Headers, may_be_set};
pub use json::read as read_answers;
pub use question::{Field, Kind, Question};
pub use queue::{Batch, Failure, Outcome, Queue, QueueConfig};
