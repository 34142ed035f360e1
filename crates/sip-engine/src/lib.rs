//! The server's decisions: registrar, location, proxy, routing, redirect.
//!
//! A [`Shard`] owns the transactions and the response contexts of the
//! messages that are given to it. It does no I/O: a message and the time go
//! in; messages to send and questions to ask come out in [`Outputs`], and
//! the answers to the questions are inputs again.
//!
//! ```text
//! loop {
//!     shard.handle_message(now, &sender, message, &mut outputs); // or handle_malformed
//!     shard.handle_credential / handle_saved / handle_resolved   // answers
//!     shard.handle_send_failed / handle_send_lost / handle_closed // bad news
//!     shard.handle_timers(now, &mut outputs);
//!     // send outputs.outbox, ask outputs.effects, clear both,
//!     // sleep until shard.next_deadline_ms() at most
//! }
//! ```
#![forbid(unsafe_code)]

mod answers;
mod aor;
pub mod budget;
mod dialogs;
pub mod effect;
mod gateways;
mod hops;
mod lanes;
pub mod location;
mod own;
mod park;
pub mod permit;
mod proxy;
mod random;
pub mod registrar;
mod relay;
pub mod routes;
pub mod sender;
pub mod settings;
pub mod shard;
#[cfg(test)]
mod testing;
mod text;
mod timer;
pub mod token;

pub use budget::Budget;
pub use effect::{Effect, Now, Outputs, ParkId};
pub use gateways::LearnedGateways;
pub use location::{Binding, BindingChange, Location};
pub use settings::Settings;
pub use shard::{Shard, Shared};
