//! The user-agent side of SIP (RFC 3261 8, 9, 10.2, 12, 13, 15): many agents
//! over one transaction layer, for load generators and for tests.
//!
//! Sans-IO: messages, the time and a key go in; messages to send come out in a
//! [`sip_msg::Outbox`], and what happened as [`Event`]s.
//!
//! ```text
//! loop:
//!   a message arrived  -> spare_message, fill, handle_message
//!   a send failed      -> handle_send_failed;  a connection ended -> handle_closed
//!   now >= next_deadline_ms() -> handle_timers
//!   the application    -> register, invite, ring, answer, reject, hang_up, ...
//!   after each of these: poll_event until None, send what is in the outbox
//! ```
//!
//! There is no media: the session description is a constant, and a re-INVITE, which
//! would change it, is answered 488 (RFC 3261 14.2).
#![forbid(unsafe_code)]

mod agent;
mod call;
mod callee;
mod caller;
mod compose;
mod config;
mod directory;
mod end;
mod event;
mod outgoing;
mod random;
mod request;
mod server;
mod slots;
mod tag;
mod texts;
mod user_agents;

pub use config::{AgentConfig, Config, Credentials};
pub use event::{AgentKey, CallKey, Cause, Event, RequestKey};
pub use user_agents::{Counters, Live, UserAgents};
