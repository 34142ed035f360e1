//! WebSocket (RFC 6455) as SIP uses it (RFC 7118), without sockets: the
//! upgrade of an HTTP request, and frames in both directions.
//!
//! [`upgrade`] reads the request that opens a connection and writes the answer;
//! [`Reader`] takes frames from the bytes that follow; [`write_message`] and its
//! likes make frames. Each is driven with bytes and keeps no more than the
//! message that is begun.

mod frame;
mod origin;
mod reader;
mod upgrade;

pub use frame::{Opcode, write_close, write_frame, write_message};
pub(crate) use frame::{Prefix, message_opcode};
pub use origin::{Origin, Origins, WebSocketListener, WebSocketRules};
pub use reader::{Item, Reader, Taken, WebSocketFault};
pub use upgrade::{HEAD_BYTES_MAX, UpgradeRefusal, Upgraded, upgrade};

counters::counters! {
    /// What a worker counted of WebSocket connections.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct WebSocketCounters {
        /// Connections that became WebSockets.
        pub upgraded: u64 = counter("signet_websocket_upgraded_total"),
        /// Requests to open a WebSocket that were refused, by the reason.
        pub refused: [u64; UpgradeRefusal::ALL.len()] = counter("signet_websocket_refused_total", reason: UpgradeRefusal::ALL.map(UpgradeRefusal::name)),
        /// WebSockets closed for what came on them, by the fault.
        pub faults: [u64; WebSocketFault::ALL.len()] = counter("signet_websocket_faults_total", fault: WebSocketFault::ALL.map(WebSocketFault::name)),
        /// Pings of WebSockets answered.
        pub pings_in: u64 = counter("signet_websocket_pings_received_total"),
        /// WebSockets pinged because they were silent.
        pub pings_out: u64 = counter("signet_websocket_pings_sent_total"),
    }
}

/// A connection that is, or is to become, a WebSocket.
pub(crate) struct WebSocket {
    pub(crate) listener: std::sync::Arc<WebSocketListener>,
    pub(crate) reader: Reader,
    /// Whether a Close frame was sent: nothing may follow it.
    pub(crate) is_closed: bool,
    /// When anything came from the peer.
    heard_ms: u64,
    /// When it was pinged since.
    pinged_ms: Option<u64>,
}

impl WebSocket {
    pub(crate) fn new(listener: std::sync::Arc<WebSocketListener>, now_ms: u64) -> Self {
        Self {
            listener,
            reader: Reader::of_server(),
            is_closed: false,
            heard_ms: now_ms,
            pinged_ms: None,
        }
    }

    /// Something came from the peer.
    pub(crate) fn heard(&mut self, now_ms: u64) {
        self.heard_ms = now_ms;
        self.pinged_ms = None;
    }

    /// When the peer is to be pinged or, where it was, given up.
    pub(crate) fn ping_due_ms(&self, interval_ms: u64) -> u64 {
        if interval_ms == 0 {
            return u64::MAX;
        }
        let since = self.pinged_ms.unwrap_or(self.heard_ms);
        since.saturating_add(interval_ms)
    }

    /// Takes note of a ping; `false` where the last one has no answer yet.
    pub(crate) fn ping(&mut self, now_ms: u64) -> bool {
        let is_first = self.pinged_ms.is_none();
        self.pinged_ms = Some(now_ms);
        is_first
    }
}
