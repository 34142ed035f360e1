//! What an operator types, reads and writes.
//! One program, so that what they share is built once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod admin;
mod broken_configurations;
mod cli;
mod log;
mod monitoring;
mod restart;
mod root;
mod serving;
mod standard_output;
#[path = "../support/mod.rs"]
mod support;
mod why;
