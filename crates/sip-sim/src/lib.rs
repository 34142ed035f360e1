//! The whole server in one thread, on a virtual clock, under a network that
//! loses, repeats and reorders, with people around it who call each other.
//!
//! A run is a [`Plan`]; everything that chance decides in it comes from its
//! seed, so that every failure replays. What must be true whatever happens:
//!
//! - every transaction has exactly one final response (an INVITE that several
//!   forks answer has one 2xx from each);
//! - every call and every request ends, exactly once, for each of its sides;
//! - when the last timer has run out, neither the server nor any user agent
//!   holds any state of a call or a transaction;
//! - calls see a binding as soon as the store has it for good, and not before;
//! - everything that is sent is a well-formed message.
#![forbid(unsafe_code)]

mod audit;
mod dice;
mod host;
mod network;
mod plan;
mod server;
mod world;

pub use audit::Report;
pub use dice::Dice;
pub use plan::{Plan, Store, Weather};
pub use world::{Failure, run};
