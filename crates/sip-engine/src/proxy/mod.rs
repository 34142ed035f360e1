//! The proxy (RFC 3261 16), a file for each step.

pub(crate) mod branches;
pub(crate) mod cancel;
pub(crate) mod context;
mod diverted;
pub(crate) mod egress;
pub(crate) mod failover;
pub(crate) mod forward;
pub(crate) mod groups;
mod hooked;
pub(crate) mod loops;
mod neighbours;
mod next;
pub(crate) mod outcome;
pub(crate) mod privacy;
pub(crate) mod record_route;
pub(crate) mod redirect;
mod referred;
mod resolved;
pub(crate) mod responses;
pub(crate) mod retarget;
pub(crate) mod route;
pub(crate) mod stateless;
pub(crate) mod targets;
pub(crate) mod timers;
pub(crate) mod validate;
pub(crate) mod within;
