#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod capabilities;
mod client;
mod error;
mod fault;
mod ha1s;
mod http;
mod lane;
mod ldap;
mod mysql;
mod names;
mod net;
mod options;
mod pool;
mod postgres;
mod radius;
mod redis;
mod resolver;
mod sql;
mod table;
mod tls;
mod url;

pub use capabilities::Capabilities;
pub use client::{Changed, UserDb};
pub use error::Error;
pub use http::Endpoint;
pub use options::{Layout, Options, Secret, Tls};
pub use table::{ColumnKind, Table};
pub use url::{check as check_url, name as store_name};
