#![doc = include_str!("../README.md")]
//!
//! - [`overload`]: one controller per worker. It is given the worker's delay and
//!   the memory in use, and sets the share of each class of requests that is
//!   admitted; [`Gate`] applies the shares request by request.
//! - [`guard`]: limits refused requests per source, and wrong passwords.
//! - [`rates`]: limits requests per user, per peer, and per source.
//! - [`concurrent`]: limits what goes on at a time: calls per user, calls per group of gateways.
//! - [`oc`]: overload control between servers (RFC 7339).

#![forbid(unsafe_code)]

pub mod concurrent;
mod debts;
mod glance;
pub mod guard;
mod names;
pub mod oc;
pub mod overload;
pub mod rates;
mod striped;
mod told;

pub use concurrent::{Concurrent, CountedCall};
pub use glance::may_go_on;
pub use guard::{
    Attempt, Ban, Claim, Fits, Guard, GuardCounters, LATER_MS, Limits, LookUp, Origin, Reserved,
    Verdict,
};
pub use overload::{Class, Controller, Gate, Share, Shares, Signals};
pub use rates::{Allowance, Kind, Party, PartyKey, Rate, RateExceeded, RateLimits, Rates};
pub use told::{Matter, Note, Table, Tell};
