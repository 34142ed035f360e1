//! The only crate with sockets: UDP in batches, TCP, TLS (by [`sip_tls`]) and
//! DNS, for protocols that do no I/O themselves.
//!
//! Each worker thread owns one [`Net`]. Its loop is
//!
//! ```no_run
//! use sip_msg::{Outbox, Transport};
//! use sip_net::{ListenerConfig, Net, NetConfig, NetEvent, bind};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let udp = ListenerConfig::new(Transport::Udp, "127.0.0.1:5060".parse()?);
//! let mut sockets = bind(&[udp], 1)?;
//! let mut net = Net::new(0, NetConfig::default(), sockets.remove(0))?;
//! let mut outbox = Outbox::default();
//! loop {
//!     // 1. What arrived goes to the protocol, which fills the outbox.
//!     net.poll(None, |event| match event {
//!         NetEvent::Datagram { flow, bytes } | NetEvent::Message { flow, bytes } => {
//!             outbox.send_copy(bytes, sip_msg::Target::back(&flow), 0);
//!         }
//!         _ => {}
//!     })?;
//!     // 2. What it wants sent is queued, then written with few system calls.
//!     net.send_outbox(&outbox);
//!     net.flush();
//!     outbox.clear();
//! #   break;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Nothing here blocks: a connection that is being opened keeps its messages,
//! the expensive part of a TLS handshake is computed by the [`HandshakePool`](sip_tls::HandshakePool), a name is
//! resolved in the [`DnsThread`] as [`sip_locate`] says, and a reader that does not read is closed when its queue is
//! full. Every bound is in [`NetConfig`] and has a counter in [`Counters`].
//!
//! # TLS
//!
//! A worker has one [`ClientTls`](sip_tls::ClientTls) for all connections that it
//! opens ([`NetConfig::client_tls`]); one under an identity of its own is opened by
//! [`Net::open_as`] and then used by its number alone. [`Net::tls_info`] tells what
//! was negotiated and whether it resumed, [`NetEvent::Verified`] whom the peer speaks
//! for (RFC 5922), and [`NetEvent::HandshakeFailed`] why a handshake failed.

mod alias;
mod awaited;
pub mod clock;
mod config;
mod conns;
mod counters;
pub mod dns;
mod event;
mod meter;
mod net;
mod ranks;
mod shared;
mod source;
mod stream;
mod stun;
pub mod sys;
#[cfg(feature = "testing")]
pub mod testing;
mod udp;
mod waker;
pub mod ws;

pub use alias::{AliasRefused, Aliases};
pub use config::{BindError, Framing, ListenerConfig, NetConfig, WorkerSockets, bind};
pub use counters::{Counters, ListenerCounters, TransportCounters};
pub use dns::{DnsClient, DnsConfig, DnsError, DnsThread, SystemFiles};
pub use event::{CloseReason, NetEvent, SendError};
pub use meter::{
    AGE_BOUNDS_S, ConnectionFigures, OTHER_PEERS, PEERS_MAX, PeerCounters, PeerNames, SideCounters,
};
pub use net::{Gather, Net};
pub use sys::Shed;
pub use udp::QUOTED_BYTES_MAX;
pub use waker::Waker;
pub use ws::{
    Origin, Origins, UpgradeFault, UpgradeRefusal, WebSocketCounters, WebSocketFault,
    WebSocketListener, WebSocketRequest, WebSocketRules,
};
