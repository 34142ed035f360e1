//! WebSocket (RFC 6455) as SIP uses it (RFC 7118), without sockets: the
//! upgrade of an HTTP request, and frames in both directions.
//!
//! [`upgrade`] reads the request that opens a connection and writes the answer;
//! [`WebSocketRequest`] writes one and [`OpeningKey`] reads its answer.
//! [`Reader`] takes frames from the bytes that follow; [`write_message`] and its
//! likes make frames. Each is driven with bytes and keeps no more than the
//! message that is begun.

mod frame;
mod masks;
mod opening;
mod origin;
mod reader;
mod upgrade;

pub use frame::{Opcode, write_close, write_frame, write_message};
pub(crate) use frame::{Prefix, message_opcode};
pub(crate) use masks::Masks;
pub use opening::{Answered, OpeningKey, UpgradeFault, WebSocketRequest};
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
    /// Whom it was accepted by; `None` where this side opened it.
    pub(crate) listener: Option<std::sync::Arc<WebSocketListener>>,
    /// What this side asked for, until the answer grants it.
    pub(crate) opening: Option<Box<Opening>>,
    pub(crate) reader: Reader,
    /// Whether a Close frame was sent: nothing may follow it.
    pub(crate) is_closed: bool,
    /// When anything came from the peer.
    heard_ms: u64,
    /// When it was pinged since.
    pinged_ms: Option<u64>,
}

/// A request that is not answered yet.
pub(crate) struct Opening {
    pub(crate) key: OpeningKey,
    /// Bytes of the request that are not written, or under TLS not sealed. They
    /// stand at the front of what is queued, and what is behind them waits for
    /// the answer.
    pub(crate) request_left: usize,
}

impl WebSocket {
    /// One that was accepted.
    pub(crate) fn of_server(listener: std::sync::Arc<WebSocketListener>, now_ms: u64) -> Self {
        Self::new(Some(listener), None, now_ms)
    }

    /// One that this side opens by a request of so many bytes.
    pub(crate) fn of_client(key: OpeningKey, request_left: usize, now_ms: u64) -> Self {
        let opening = Opening { key, request_left };
        Self::new(None, Some(Box::new(opening)), now_ms)
    }

    fn new(
        listener: Option<std::sync::Arc<WebSocketListener>>,
        opening: Option<Box<Opening>>,
        now_ms: u64,
    ) -> Self {
        Self {
            reader: reader(listener.is_some()),
            listener,
            opening,
            is_closed: false,
            heard_ms: now_ms,
            pinged_ms: None,
        }
    }

    /// Forgets the message that was begun.
    pub(crate) fn forget_parts(&mut self) {
        self.reader = reader(self.listener.is_some());
    }

    /// Of a request that is not granted yet, the bytes that are not written.
    pub(crate) fn request_left(&self) -> Option<usize> {
        self.opening.as_ref().map(|opening| opening.request_left)
    }

    /// So many bytes from the front of what is queued were written, or sealed.
    pub(crate) fn wrote(&mut self, len: usize) {
        if let Some(opening) = &mut self.opening {
            opening.request_left = opening.request_left.saturating_sub(len);
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

const fn reader(is_server: bool) -> Reader {
    if is_server {
        Reader::of_server()
    } else {
        Reader::of_client()
    }
}
