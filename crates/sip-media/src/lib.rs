#![doc = include_str!("../README.md")]
//!
//! - [`bencode`]: the reader, strict and bounded, and the writer.
//! - [`Ask`]: a command, and how a session description is to be changed.
//! - [`Client`]: cookies, repetition, deadlines, failover.
//! - [`SharedEngines`]: how each engine is, for all workers of a process.
#![forbid(unsafe_code)]

mod ask;
pub mod bencode;
mod client;
mod engines;
mod pings;
mod reply;

pub use ask::{Ask, Command, Shape, Side};
pub use client::{
    Answered, Change, Client, ClientNumber, Config, Counters, Failure, Given, Transmit,
};
pub use engines::{EngineId, SharedEngines, Shown, Why};
