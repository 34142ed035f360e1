#![doc = include_str!("../README.md")]
//!
//! # How it is driven
//!
//! ```text
//! loop {
//!     shard.handle_message(now, &sender, message, &mut outputs); // or handle_malformed
//!     shard.handle_credential / handle_saved / handle_resolved // answers
//!     shard.handle_hook / handle_media // and more of them
//!     shard.handle_send_failed / handle_unsent / handle_returned / handle_send_lost / handle_closed // bad news
//!     shard.handle_timers(now, &mut outputs);
//!     // send outputs.outbox, ask outputs.effects, tell outputs.refused and outputs.records,
//!     // clear all four, sleep until shard.next_deadline_ms() at most
//! }
//! ```
#![forbid(unsafe_code)]

mod answers;
mod aor;
pub mod budget;
pub mod calls;
mod dialog_hash;
mod dialogs;
mod domains;
pub mod effect;
pub mod gateways;
pub mod hook;
mod hops;
pub mod hours;
mod lanes;
pub mod location;
pub mod media;
mod nat;
pub mod numbers;
mod own;
mod park;
pub mod people;
pub mod permit;
mod proxy;
mod random;
pub mod records;
pub mod refusal;
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
pub mod trunk;

pub use budget::Budget;
pub use effect::{Effect, Now, Outputs, ParkId};
pub use gateways::SharedGateways;
pub use location::{Binding, BindingChange, Location};
pub use people::Directory;
pub use records::CallRecord;
pub use refusal::RefusalRecord;
pub use settings::Settings;
pub use shard::{Shard, Shared};
