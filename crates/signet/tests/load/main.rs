//! `signet load` against the real server and SIPp.
//! One program, so that what they share is built once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod call;
mod judging;
mod sipp;
#[path = "../support/mod.rs"]
mod support;
mod tls_legs;
mod websocket;
