//! What a worker counted: plain numbers, cheap to copy.

use sip_tls::{HandshakeFailure, HandshakeTally};

use crate::ws::WebSocketCounters;
use crate::{CloseReason, ConnectionFigures};

/// One transport's traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportCounters {
    /// Messages received.
    pub messages_in: u64,
    /// Messages sent, or queued to be.
    pub messages_out: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
}

/// What one worker's sockets counted since they were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// UDP.
    pub udp: TransportCounters,
    /// TCP.
    pub tcp: TransportCounters,
    /// TLS.
    pub tls: TransportCounters,
    /// WebSocket.
    pub ws: TransportCounters,
    /// WebSocket over TLS.
    pub wss: TransportCounters,
    /// WebSocket connections of both kinds.
    pub websocket: WebSocketCounters,
    /// Datagrams that the kernel dropped because the socket's buffer was full.
    pub udp_kernel_drops: u64,
    /// Datagrams dropped because the queue behind a full socket was full.
    pub udp_queue_drops: u64,
    /// Datagrams that the kernel refused to send.
    pub udp_unsendable: u64,
    /// Datagrams of line ends only: phones keep their way through a NAT open.
    pub udp_keep_alives: u64,
    /// ICMP errors received for datagrams of ours.
    pub udp_unreachable: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections accepted and closed at once, because there are too many.
    pub refused_total: u64,
    /// Connections accepted and closed at once, because their source has too many.
    pub refused_source: u64,
    /// Connections accepted and closed at once, because their source opens them too fast.
    pub refused_rate: u64,
    /// Connections accepted and closed at once, because too many handshakes wait.
    pub refused_handshakes: u64,
    /// Times that accepting failed, for want of file descriptors or memory.
    pub accept_errors: u64,
    /// Connections opened.
    pub opened: u64,
    /// Connections that could not be opened.
    pub open_failed: u64,
    /// Messages not sent because opening a connection to their peer failed
    /// shortly before.
    pub open_backoffs: u64,
    /// Connections not opened because no local port was left.
    pub no_local_port: u64,
    /// Connections closed to make room: they had never carried a message.
    pub evicted_unused: u64,
    /// The same, of those that were idle.
    pub evicted_idle: u64,
    /// The same, of those that a registered contact or a call relied on.
    pub evicted_bound: u64,
    /// Messages that were written to a connection which ended soon after; some
    /// were answered before.
    pub lost: u64,
    /// Messages written and not remembered so long, because one connection had
    /// too many of them.
    pub lost_forgotten: u64,
    /// Connections noted as ways to the peers that opened them (RFC 5923).
    pub aliases_granted: u64,
    /// Not noted, because the peer has proved no identity.
    pub aliases_unproven: u64,
    /// Not noted, because the Via has a name that the peer has not proved.
    pub aliases_other_name: u64,
    /// Not noted, because there are too many.
    pub aliases_full: u64,
    /// Connections opened for one call each.
    pub opened_for_calls: u64,
    /// Calls that got no connection of their own, because there are too many.
    pub calls_shared: u64,
    /// Connections now.
    pub connections: u64,
    /// Connections closed, in the order of [`CloseReason::ALL`].
    pub closed: [u64; CloseReason::ALL.len()],
    /// Connections closed because a stranger sent too many wrong messages.
    pub odd_closed: u64,
    /// Times that a peer was not read from, because it did not read.
    pub reads_paused: u64,
    /// Keep-alive pings answered (RFC 5626 3.5.1).
    pub pings: u64,
    /// TLS handshakes completed on connections that were accepted.
    pub handshakes_in: u64,
    /// Of these, resumed ones.
    pub handshakes_in_resumed: u64,
    /// TLS handshakes completed on connections that were opened.
    pub handshakes_out: u64,
    /// Of these, resumed ones.
    pub handshakes_out_resumed: u64,
    /// TLS handshakes that failed.
    pub handshakes_failed: u64,
    /// Times that `poll` was called.
    pub polls: u64,
}

impl Counters {
    /// Messages received over all transports.
    pub const fn messages_in(&self) -> u64 {
        self.udp.messages_in
            + self.tcp.messages_in
            + self.tls.messages_in
            + self.ws.messages_in
            + self.wss.messages_in
    }
}

/// What one listener counted on one worker: of connections that it accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenerCounters {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections closed at once, because there are too many.
    pub refused_total: u64,
    /// Connections closed at once, because their source has too many.
    pub refused_source: u64,
    /// Connections closed at once, because their source opens them too fast.
    pub refused_rate: u64,
    /// Connections now.
    pub connections: ConnectionFigures,
    /// TLS handshakes completed, resumed ones included.
    pub handshakes: u64,
    /// TLS handshakes that were spared most of their cost by an earlier one.
    pub resumed: u64,
    /// TLS handshakes that failed, in the order of [`HandshakeFailure::ALL`].
    pub failed: [u64; HandshakeFailure::ALL.len()],
    /// TLS handshakes in every detail.
    pub tls: HandshakeTally,
}

impl ListenerCounters {
    /// Adds another's figures: the same listener's on another worker.
    pub fn add(&mut self, other: &Self) {
        self.accepted += other.accepted;
        self.refused_total += other.refused_total;
        self.refused_source += other.refused_source;
        self.refused_rate += other.refused_rate;
        self.connections.add(&other.connections);
        self.handshakes += other.handshakes;
        self.resumed += other.resumed;
        for (mine, theirs) in self.failed.iter_mut().zip(other.failed) {
            *mine += theirs;
        }
        self.tls.add(&other.tls);
    }
}
