#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod absent;
mod capabilities;
mod client;
mod error;
mod ha1s;
mod http;
mod lane;
mod ldap;
mod mysql;
mod names;
#[expect(dead_code, reason = "the clients of SQL use the rest")]
mod net;
mod options;
mod postgres;
mod radius;
mod redis;
mod tls;
mod url;

pub use capabilities::Capabilities;
pub use client::{Changed, UserDb};
pub use error::Error;
pub use options::{Layout, Options, Secret, Tls};
