//! Locating SIP servers (RFC 3263): where a request for a URI goes, over which
//! transport, and in which order the places are tried.
//!
//! No I/O, no clock: what this server can send by is a [`Reach`], DNS is questions
//! and answers, and chance is numbers that the caller draws.
//!
//! 1. [`locate_uri`], or [`locate`] for what is no URI, decides what needs no
//!    question: it gives a [`Hop`] for an address, a [`Query`] for a name, or a
//!    [`Refusal`]. It runs for each request, and allocates nothing for an address
//!    that needs no certificate.
//! 2. [`Resolution`] takes a query through NAPTR, SRV and addresses: each
//!    [`Resolution::step`] says what to ask, until it has the hops.
//! 3. [`order`] is the lot of RFC 2782, for SRV records and for whatever else has
//!    priorities and weights.
//!
//! ```
//! use sip_locate::{Answer, Located, Options, Reach, Record, Resolution, Step, locate_uri};
//! use sip_msg::{Transport, Uri};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A server with a listener of UDP and one of TCP.
//! let here = "192.0.2.1".parse()?;
//! let reach: Reach = [(Transport::Udp, here), (Transport::Tcp, here)].into_iter().collect();
//!
//! let uri = Uri::parse(b"sip:bob@203.0.113.9").ok_or("no URI")?;
//! let Located::Hop { hop, .. } = locate_uri(&uri, false, reach) else {
//!     return Err("an address needs no question".into());
//! };
//! assert_eq!((hop.transport, hop.addr), (Transport::Udp, "203.0.113.9:5060".parse()?));
//!
//! let uri = Uri::parse(b"sip:bob@example.com;transport=tcp").ok_or("no URI")?;
//! let Located::Ask(query) = locate_uri(&uri, false, reach) else {
//!     return Err("a name needs one".into());
//! };
//! let options = Options { reach, ..Options::default() };
//! let mut resolution = Resolution::new(query, options);
//! let mut answers = Vec::new();
//! let hops = loop {
//!     match resolution.step(answers, &mut |_most| 0) {
//!         Step::Done(result) => break result?,
//!         // First `SRV _sip._tcp.example.com`, then `A example.com`.
//!         Step::Ask(questions) => {
//!             let ask = |name: &str| match name {
//!                 "example.com" => Answer::Records(vec![Record::Addr([203, 0, 113, 7].into())]),
//!                 _ => Answer::Nothing,
//!             };
//!             answers = questions.iter().map(|question| ask(&question.name)).collect();
//!         }
//!     }
//! };
//! assert_eq!(hops.len(), 1);
//! assert_eq!(hops[0].addr, "203.0.113.7:5060".parse()?);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod locate;
mod order;
mod reach;
mod resolution;

pub use locate::{Destination, Hop, Located, Query, Refusal, locate, locate_uri};
pub use order::{Rank, order};
pub use reach::Reach;
pub use resolution::{Answer, Kind, LocateError, Options, Question, Record, Resolution, Step};
