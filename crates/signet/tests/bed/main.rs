//! `signet bed` and `signet price` where nothing is measured for long.
//! One program, so that what they share is built once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod experiments;
mod price;
mod price_choose;
mod prices;
#[path = "../support/mod.rs"]
mod support;
mod systems;
