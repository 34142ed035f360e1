#![doc = include_str!("../README.md")]
//!
//! # How it is driven
//!
//! ```text
//! loop:
//!   a message arrived  -> spare_message, fill, handle_message
//!   a send failed      -> handle_send_failed;  a connection ended -> handle_closed
//!   now >= next_deadline_ms() -> handle_timers
//!   the application    -> register, invite, ring, answer, reject, hang_up, ...
//!   after each of these: poll_event until None, send what is in the outbox
//! ```
#![forbid(unsafe_code)]

mod agent;
mod answers;
mod bodies;
mod call;
mod callee;
mod caller;
mod compose;
mod config;
mod directory;
mod end;
mod event;
mod late;
mod moved;
mod outgoing;
mod random;
mod request;
mod server;
mod slots;
mod tag;
mod texts;
mod user_agents;

pub use answers::Answers;
pub use config::{AgentConfig, Config, Credentials};
pub use event::{AgentKey, CallKey, Cause, Event, RequestKey};
pub use user_agents::{Counters, Live, UserAgents};
