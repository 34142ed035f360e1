//! TLS by the real program, with other software at the other end.
//! One program, so that what they share is built once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod algorithms;
mod alias;
mod audit;
mod client_certificates;
mod identity;
mod kamailio;
mod matrix;
mod neighbour;
mod policy;
mod reload;
mod resumption;
mod resumption_client;
#[path = "../support/mod.rs"]
mod support;
