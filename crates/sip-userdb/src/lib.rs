#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod absent;
mod capabilities;
mod client;
mod error;
mod http;
mod ldap;
mod mysql;
mod options;
mod postgres;
mod radius;
mod redis;
mod url;

pub use capabilities::Capabilities;
pub use client::{Changed, UserDb};
pub use error::Error;
pub use options::{Layout, Options, Secret, Tls};
pub use url::check as check_url;
