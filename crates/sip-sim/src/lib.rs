//! The workers that run in service ([`sip_worker`]), in one thread, on a virtual clock,
//! under a network that loses, repeats and reorders, with people around them who call
//! each other and numbers and names outside. Gateways die and return, streams break,
//! sends fail; name servers and the store fail or answer late; the process is killed
//! and started again with what was durable, takes other settings over, and is drained.
//!
//! A run is a [`Plan`]; everything that chance decides in it comes from its
//! seed, so that every failure replays. What must be true whatever happens:
//!
//! - every transaction has exactly one final response (an INVITE that several
//!   forks answer has one 2xx from each);
//! - every call and every request ends, exactly once, for each of its sides; where
//!   nothing can be lost, none ends by a timeout;
//! - when the last timer has run out, neither the server nor any user agent
//!   holds any state of a call or a transaction, nothing lies in a mailbox, and no
//!   worker holds memory for a message;
//! - calls see a binding as soon as the store has it for good, and not before; what a
//!   user was told is bound is bound, after a restart too;
//! - nobody registers or calls with a password that is not his user's; where the users
//!   are in a database at a distance ([`Plan::distance`]), it is asked in batches that
//!   fail in every way, and each question has one answer, true, and in its turn;
//! - each question to the operator's hook ([`Plan::hook`]) has one answer, whatever the hook
//!   does, and each call about which it was asked goes on, is refused, or goes where it says;
//! - where media engines lead the media ([`Plan::media`]), which lose what they are asked, answer
//!   late, twice or never, die and return, no INVITE leaves and no call is answered with a session
//!   description that has not been through one; where nothing can be lost they keep no call that
//!   is over;
//! - a worker sends only on connections of its own, and takes a reload over at once;
//! - gateways that are probed and have been back for long are in use;
//! - where address translations stand before phones, and nothing else goes wrong, keep-alives
//!   keep them open: every call is answered, and no flow is thought to have ended;
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
mod distant;
mod dns;
mod environment;
mod gateway;
mod hook;
mod host;
mod hostile;
mod media;
mod network;
mod plan;
mod server;
mod text;
mod warden;
mod world;

pub use audit::Report;
pub use dice::Dice;
pub use plan::{
    Distance, Dns, Hooked, Hostility, Media, Plan, Standing, Store, Translation, Weather,
};
pub use world::{Failure, run};
