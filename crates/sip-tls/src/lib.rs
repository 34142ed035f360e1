//! TLS for SIP without sockets: who we are, whom we believe, what may be
//! negotiated, what resumes, and the handshakes themselves.
//!
//! [`ServerTlsConfig`] makes what a listener shows and asks for,
//! [`ClientTlsConfig`] what connections offer that this side opens. Both are
//! values that a reload replaces; what was negotiated already stays.
//!
//! Whoever has the sockets drives a [`Handshake`]: bytes that came are appended
//! to its input, [`Handshake::short_step`] goes as far as they reach, and its
//! output is written. A step that costs more than a message may be given to a
//! [`HandshakePool`], which hands it back by a callback. [`Handshake::finish`]
//! gives the [`Session`], which opens and makes records, and a [`TlsInfo`].
//!
//! Where sessions resume is a matter of what is shared: a [`SessionCache`]
//! among those who have it, [`TicketKeys`] from one secret among processes,
//! restarts and nodes. A session is bound to the certificate that the client
//! proved: at every resumption it is verified anew, by the policy of the day.
#![cfg_attr(not(feature = "legacy-tls"), forbid(unsafe_code))]

mod algorithms;
mod certificates;
mod client;
mod client_sessions;
mod config;
mod constraints;
mod context;
mod engine;
mod error;
mod fault;
mod handshake;
mod hello;
mod identity;
mod info;
mod key_pair;
mod legacy;
mod peers;
mod pem;
mod pool;
mod proven;
mod records;
mod resumption;
mod server;
mod server_sessions;
mod session;
mod sides;
mod signing;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tickets;
mod verify;

pub use algorithms::{GROUP_NAMES, SUITE_NAMES, TlsVersion};
pub use client::{ClientOnly, ClientTls, ClientTlsConfig};
pub use config::TlsConfig;
pub use engine::{LEGACY_SUITE_NAMES, LEGACY_WARNING, TlsEngine};
pub use error::TlsError;
pub use fault::{CertificateFault, HandshakeError, HandshakeFailure, TlsAlert};
pub use handshake::{Class, Handshake, Side, Weight};
pub use identity::PeerIdentity;
pub use info::{HandshakeTally, TlsInfo};
pub use peers::{PeerEntry, PeerTls};
pub use pool::{
    HandshakeConfig, HandshakeCounters, HandshakePool, HandshakeSlot, Handshaken, PoolMember,
    QueuedStep, Reply, Step,
};
pub use proven::{Proven, host_address};
pub use resumption::{ClientResumption, Resumption};
pub use server::{ClientAuth, ServerOnly, ServerTls, ServerTlsConfig};
pub use server_sessions::SessionCache;
pub use session::{Progress, Session};
pub use tickets::{TicketKeys, TicketSecret};
pub use verify::{KeyUsagePolicy, RevocationPolicy};
