//! A load generator for SIP that says when it was itself the limit.
//!
//! Arrivals are open-loop: a schedule says when each is due, and none is put
//! off because a server is slow. Every delay is counted from the time at which
//! its arrival was due and from the time at which it was sent. What could not
//! be begun is a failure with a cause.
//!
//! A run is a few threads ([`worker`]), each with its own sockets, agents,
//! share of the schedule and figures, and the caller's thread, which prepares,
//! draws and writes. They share two atomic words: when to begin and whether to
//! end. Several processes drive one load by [`workers`].
#![forbid(unsafe_code)]

pub mod app;
mod cause;
mod clock;
mod crew;
mod local;
mod mix;
pub mod page;
mod server;
mod settings;
mod smime;
mod span;
mod tls;
mod users;
mod worker;
pub mod workers;

pub use crew::{Control, Failed, Leaked, Progress, Ran, run};
pub use local::Local;
pub use mix::{Flow, Mix};
pub use server::{Server, listen_at, transport};
pub use settings::{Answering, Called, Close, Lifetime, Settings, Share, WebSocketSettings};
pub use smime::SmimeSettings;
pub use span::{Span, duration, show};
pub use tls::{CalledTls, KeyKind, TlsPems, TlsSettings};
pub use users::{Pattern, Users};
pub use worker::{CalledCounts, StormCounts, Upkeep};
