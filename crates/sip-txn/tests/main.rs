//! Transactions on a virtual clock. One program, so that what they share is
//! built once.

mod any_order;
mod bounds;
mod cancel;
mod client_invite;
mod client_non_invite;
mod lossy_network;
mod matching;
mod server_invite;
mod server_non_invite;
mod support;
