//! The TLS handshake of a connection.

use std::time::Instant;

use sip_tls::{Away, Handshake, Place};

/// A connection's handshake while it lasts.
pub(crate) struct Pending {
    pub(crate) place: Place,
    pub(crate) begun: Instant,
    /// `None` while a thread has it.
    pub(crate) handshake: Option<Box<Handshake>>,
    pub(crate) away: Option<Away>,
    /// Whether the socket became readable in the meantime.
    pub(crate) readable: bool,
    /// Whether it waits in the list of those that a turn had no room for.
    pub(crate) ripe: bool,
}
