#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod absent;
mod capabilities;
mod client;
mod error;
mod fault;
mod http;
mod ldap;
mod mysql;
#[allow(
    dead_code,
    reason = "some protocols use one half of it and some the other"
)]
mod net;
mod options;
mod pool;
mod postgres;
mod radius;
mod redis;
mod sql;
mod tls;
mod url;

pub use capabilities::Capabilities;
pub use client::{Changed, UserDb};
pub use error::Error;
pub use options::{Layout, Options, Secret, Tls};
pub use url::check as check_url;
