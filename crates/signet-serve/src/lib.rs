//! The server's shell: configuration, workers, users, certificates, figures,
//! logs, reload and drain. What it decides about SIP is decided by
//! [`sip_engine`]; what it sends and receives goes through [`sip_net`].
#![forbid(unsafe_code)]

pub mod admin;
pub mod ca;
pub mod config;
pub mod data_dir;
mod domains;
mod error;
mod hook;
mod log;
mod lookups;
mod memory;
mod metrics;
mod people;
mod places;
mod read_once;
mod records;
mod seats;
mod server;
mod service_manager;
mod setup;
mod store_link;
mod system;
#[cfg(test)]
mod testing;
mod threads;
mod tls_report;
mod token_keys;
pub mod trace;
mod trunks;
mod userdb;
mod worker;

pub use error::Error;
pub use log::say_last;
pub use server::{Overrides, Source, TraceOverrides, serve};

/// Fills `bytes` with randomness from the kernel.
pub(crate) fn random_bytes(bytes: &mut [u8]) -> Result<(), Error> {
    getrandom::fill(bytes).map_err(|error| {
        Error::new(
            format!("the kernel gives no randomness: {error}"),
            "look at the system's log",
        )
    })
}
