#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod question;

pub use question::{
    BadRow, Batch, BatchAnswer, BatchFailure, BatchId, Outcome, Question, Replica, Row, Rows,
    Unavailable,
};
