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
//!
//! In a run with the hostile in it ([`Plan::hostile`]) a neighbour and a user
//! keep all that passes them and send it again in every combination. A warden,
//! who knows nothing of the server's code, keeps books on who said what:
//!
//! - nobody's contacts change but by his own registration;
//! - what reaches a phone or the gateway was said by him in whose name it is,
//!   and by somebody with a right to reach it;
//! - nothing is sent to where none is relayed, or to who had no part in the call;
//! - no request has more branches than Max-Breadth allows;
//! - calls between honest users succeed all the same.
#![forbid(unsafe_code)]

mod audit;
mod dice;
mod dns;
mod environment;
mod gateway;
mod host;
mod hostile;
mod network;
mod plan;
mod server;
mod text;
mod warden;
mod world;

pub use audit::Report;
pub use dice::Dice;
pub use plan::{Dns, Hostility, Plan, Standing, Store, Weather};
pub use world::{Failure, run};
