#![doc = include_str!("../README.md")]
//!
//! # How workers ask
//!
//! Each worker leaves its questions in a bounded queue, and two threads answer them in
//! batches:
//!
//! ```text
//! workers --Lookup--> [queue] --> serve_lookups --> deliver(batch) --> workers
//! workers --Save----> [queue] --> serve_saves ----> deliver(group) --> workers
//! ```
//!
//! A batch is what has come while the batch before was worked on, up to a
//! bound: nothing waits for company. [`serve_saves`] commits a whole group in
//! one transaction and answers only after that has reached the disk, so an
//! acknowledged binding survives `kill -9` and the loss of power, and the
//! price of reaching the disk is shared by the group. When a commit fails,
//! every member of its group is told so.
//!
//! A third thread, [`serve_ticket_secrets`], keeps what opens TLS session
//! tickets the same on all nodes that share a store.
//!
//! The protocol knows [`CredentialStore`] and [`BindingStore`], which take
//! many keys at once; [`Database`] is the one of SQLite.
#![forbid(unsafe_code)]

mod admin;
mod bindings;
mod credentials;
mod csv;
mod database;
mod error;
mod flow_text;
mod people;
mod service;
#[cfg(test)]
mod testing;
mod tickets;

pub use admin::{Imported, ListedUser, Subscriber, read_users};
pub use bindings::{BindingStore, Bindings, Swept};
pub use credentials::{CredentialStore, Credentials};
pub use database::Database;
pub use error::{StoreError, StoreErrorKind};
pub use people::{AliasRow, PersonRow};
pub use service::{
    Answers, CommitNews, Lookup, Save, ServiceConfig, ServiceCounters, ServiceFigures,
    TicketServiceConfig, TicketServiceCounters, Unavailable, queue, read_ticket_secrets,
    serve_lookups, serve_saves, serve_ticket_secrets,
};
pub use tickets::{Renewal, TicketSecretRow, TicketSecretStore};
