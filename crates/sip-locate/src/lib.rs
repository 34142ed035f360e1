#![doc = include_str!("../README.md")]
//!
//! 1. [`locate_uri`], or [`locate`] for what is no URI, decides what needs no
//!    question: it gives a [`Hop`] for an address, a [`Query`] for a name, or a
//!    [`Refusal`]. It runs for each request, and allocates nothing for an address
//!    that needs no certificate.
//! 2. [`Resolution`] takes a query through NAPTR, SRV and addresses: each
//!    [`Resolution::step`] says what to ask, until it has the hops.
//! 3. [`order`] is the lot of RFC 2782, for SRV records and for whatever else has
//!    priorities and weights.
#![forbid(unsafe_code)]

mod locate;
mod order;
mod reach;
mod resolution;

pub use locate::{Destination, Hop, Located, Query, Refusal, locate, locate_uri};
pub use order::{Rank, order};
pub use reach::Reach;
pub use resolution::{Answer, Kind, LocateError, Options, Question, Record, Resolution, Step};
