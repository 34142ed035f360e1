#![doc = include_str!("../README.md")]
//!
//! - [`overload`]: one controller for each worker. It is told whether the
//!   worker keeps up and how much memory is taken, and says which share of each
//!   class of requests is let in; [`Gate`] chooses them one by one.
//! - [`guard`]: what is refused to strangers, and wrong passwords.
//! - [`rates`]: how much those begin who are let in.

#![forbid(unsafe_code)]

mod debts;
mod glance;
pub mod guard;
pub mod oc;
pub mod overload;
pub mod rates;
mod striped;

pub use glance::may_go_on;
pub use guard::{
    Attempt, Failure, Guard, GuardCounters, LATER_MS, Limits, LookUp, Place, Reserved, Verdict,
};
pub use overload::{Class, Controller, Gate, Share, Shares, Signals};
pub use rates::{Allowance, Kind, Party, RateLimits, Rates, TooMuch, What, Who};
