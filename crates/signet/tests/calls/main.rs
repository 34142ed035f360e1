//! Calls through the real program, by other people's software and by our own.
//! One program, so that what they share is built once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod browser;
mod gateways;
mod hook;
mod neighbour_connections;
mod numbers;
mod phones;
mod smime;
#[path = "../support/mod.rs"]
mod support;
mod websocket;
