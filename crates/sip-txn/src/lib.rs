#![doc = include_str!("../README.md")]
//!
//! # How it is driven
//!
//! ```text
//! loop:
//!   request  -> handle_request  -> Incoming   -> the core -> respond / respond_trying
//!   response -> handle_response -> Response   -> the core
//!   core     -> reserve_client, write_branch, start_client, cancel
//!   a send failed -> handle_send_failed
//!   now >= next_deadline_ms() -> handle_timers
//!   after each of these: poll_event until None, and send what is in the outbox
//! ```
//!
//! # How it is made
//!
//! A machine is a table, `step(state, event) -> (state, actions)`, one file
//! each; [`Transactions`] carries the actions out. A request finds its
//! transaction by a keyed 128-bit hash of branch, sent-by and method; a response
//! by the branch itself, which names the slot and carries 64 bits that nobody
//! can guess. A transaction holds a message only while it may have to repeat,
//! acknowledge or cancel it. In the steady state nothing is allocated.
//!
//! # Where it differs from RFC 3261, and why
//!
//! - A 2xx to INVITE leads to "Accepted" instead of "Terminated", on both sides,
//!   and a transport failure does not end an INVITE server transaction: RFC 6026.
//! - To a non-INVITE no 408 is sent, no provisional response but 100, and over
//!   UDP no early 100: RFC 4320. A response that comes after its server
//!   transaction's end is not sent at all.
//! - A non-INVITE server transaction that its core never answers ends after
//!   64*T1, when its client has given up: everything is bounded.
//! - The 100 to an INVITE is the core's to ask for ([`Event::TryingDue`] is the
//!   reminder after 200 ms): a request that is refused at once, unauthenticated
//!   ones above all, costs its sender one response and not two.
//! - `maddr` is honoured only where [`Config::honour_maddr`] says so: it lets a
//!   sender direct responses at a third party.
//! - A response over TLS or WebSocket whose connection is gone is not sent over a
//!   new one: nothing says which name the certificate there would have to bear.
//! - A CANCEL cancels only what came from its own address: an onlooker who read a
//!   branch cannot end the call from elsewhere.
//! - By the rules of RFC 2543 headers are compared byte by byte: a retransmission
//!   is a copy.
//! - A 2xx that follows another final response on one branch is absorbed
//!   without an ACK.
#![forbid(unsafe_code)]

mod branch;
mod buffers;
mod client;
mod client_invite;
mod client_non_invite;
mod client_side;
mod config;
mod counters;
mod hop;
mod id;
mod key;
mod machine;
mod outcome;
mod server;
mod server_invite;
mod server_non_invite;
mod server_side;
mod transactions;
mod via;

pub use config::{Config, Timers};
pub use counters::{Counters, Live};
pub use id::{ClientId, ServerId};
pub use outcome::{Cancelled, ClientState, Event, Incoming, Responded, Response, ServerState};
pub use transactions::Transactions;
pub use via::response_target;
