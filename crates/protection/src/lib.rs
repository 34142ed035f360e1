//! What protections are worth, what they cost, and which to choose: pure functions over data.
//!
//! [`Levels`] says from 0 to 10 what each algorithm protects, by a table with a source and a
//! date for each row. [`Prices`] says what each costs, read from a record of `signet price
//! crypto`. A [`Policy`] asks for levels and sets a bound to the cost; [`choose_tls`] and
//! [`choose_ipsec`] order what satisfies it, the cheapest first, and tell of all the others
//! why they fell out; an [`Unmet`] policy says what to relax, and by how much.
//!
//! Below the floor there is no policy: an algorithm that its table calls broken is chosen by
//! none, and no other table can mend it.
//!
//! ```
//! use protection::{Levels, Policy, Prices, choose_ipsec};
//!
//! // The example of Niedermayer 2006, 7.4: an authentication of 4 or more.
//! let policy = Policy { min_authentication: "4".parse().ok(), ..Policy::default() };
//! let choice = choose_ipsec(&policy, None, 1_400, &Levels::shipped(), &Prices::shipped());
//! let choice = choice.map_err(|unmet| unmet.to_string())?;
//! assert!(!choice.second.iter().any(|name| name == "HMAC-MD5-96"));
//! # Ok::<(), String>(())
//! ```
#![forbid(unsafe_code)]

mod choice;
pub mod ipsec;
mod level;
pub mod performance;
mod policy;
mod price;
mod rating;
pub mod suites;
mod table;
mod tell;
pub mod tls;
mod unmet;

pub use diagnose::ConfigError;

pub use choice::{Choice, Fallen, Member, Miss, Pair, Reason, Side, choose};
pub use ipsec::choose_ipsec;
pub use level::{Aspect, Level, Protection};
pub use policy::Policy;
pub use price::{FILE_BYTES_MAX, Origin, Price, Prices, Use, is_priced, time};
pub use rating::{Published, Rating, Ratings};
pub use table::{Algorithm, BelowTheFloor, Judged, Kind, Levels};
pub use tls::{End, Listed, Offer, TlsChoice, Usage, choose_tls};
pub use unmet::{NoPair, Relaxed, Unmet, Written};
