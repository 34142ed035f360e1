//! What a worker counted: plain numbers, cheap to copy.

use sip_tls::HandshakeTally;

use crate::ws::WebSocketCounters;

use crate::{CloseReason, ConnectionFigures};

counters::counters! {
    /// One transport's traffic.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct TransportCounters {
        /// Messages received.
        pub messages_in: u64 = counter("signet_messages_received_total"),
        /// Messages sent, or queued to be.
        pub messages_out: u64 = counter("signet_messages_sent_total"),
        /// Bytes received.
        pub bytes_in: u64 = counter("signet_received_bytes_total"),
        /// Bytes sent.
        pub bytes_out: u64 = counter("signet_sent_bytes_total"),
    }
}

counters::counters! {
    /// What one worker's sockets counted since they were made.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Counters {
        parts {
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
        }
        /// Datagrams that the kernel dropped because the socket's buffer was full.
        pub udp_kernel_drops: u64 = counter("signet_udp_kernel_drops_total"),
        /// Datagrams dropped because the queue behind a full socket was full.
        pub udp_queue_drops: u64 = counter("signet_udp_queue_drops_total"),
        /// Datagrams that the kernel refused to send.
        pub udp_unsendable: u64 = counter("signet_udp_unsendable_total"),
        /// Datagrams of line ends only.
        pub udp_keep_alives: u64 = counter("signet_udp_keep_alives_total"),
        /// STUN requests that were answered.
        pub stun_answers: u64 = counter("signet_stun_answers_total"),
        /// STUN datagrams not answered: no request, or too many of them.
        pub stun_drops: u64 = counter("signet_stun_drops_total"),
        /// Datagrams to servers other than SIP that were not sent: too long, or an error of this
        /// machine.
        pub beside_drops: u64 = counter("signet_beside_drops_total"),
        /// ICMP errors received for datagrams sent.
        pub udp_unreachable: u64 = counter("signet_udp_unreachable_total"),
        /// Connections accepted.
        pub accepted: u64 = counter("signet_connections_accepted_total"),
        /// Connections closed at once, because there are too many.
        pub refused_total: u64 = counter("signet_connections_refused_total"),
        /// Connections closed at once, because their source has too many.
        pub refused_source: u64 = counter("signet_connections_refused_source_total"),
        /// Connections closed at once, because their source opens them too fast.
        pub refused_rate: u64 = counter("signet_connections_refused_rate_total"),
        /// Connections closed, because too many handshakes are under way or wait, or hold too much.
        pub refused_handshakes: u64 = counter("signet_connections_refused_handshakes_total"),
        /// Of these, those whose handshake only waited for the client, closed for a newcomer.
        pub displaced_handshakes: u64 = counter("signet_connections_displaced_handshakes_total"),
        /// Times that accepting failed, for want of file descriptors or memory.
        pub accept_errors: u64 = counter("signet_accept_errors_total"),
        /// Connections opened.
        pub opened: u64 = counter("signet_connections_opened_total"),
        /// Connections that could not be opened.
        pub open_failed: u64 = counter("signet_connections_open_failed_total"),
        /// Messages not sent because no connection could be opened to their peer shortly
        /// before.
        pub open_backoffs: u64 = counter("signet_connections_backoffs_total"),
        /// Connections not opened because all local ports to that peer are taken.
        pub no_local_port: u64 = counter("signet_connections_no_local_port_total"),
        /// Connections that never carried a message, closed to make room.
        pub evicted_unused: u64 = counter("signet_connections_evicted_unused_total"),
        /// Idle connections closed to make room.
        pub evicted_idle: u64 = counter("signet_connections_evicted_idle_total"),
        /// Connections closed to make room that a registered contact or a call relied on.
        pub evicted_bound: u64 = counter("signet_connections_evicted_bound_total"),
        /// Messages written to a connection that ended soon after, answered ones included.
        pub lost: u64 = counter("signet_connections_lost_messages_total"),
        /// Messages written and not remembered until their answer, because there were too many.
        pub lost_forgotten: u64 = counter("signet_connections_lost_forgotten_total"),
        /// Connections taken as aliases of those that opened them (RFC 5923).
        pub aliases_granted: u64 = counter("signet_aliases_granted_total"),
        /// Aliases refused: the peer had proved no identity.
        pub aliases_unproven: u64 = counter("signet_aliases_refused_unproven_total"),
        /// Aliases refused: the peer had not proved that name.
        pub aliases_other_name: u64 = counter("signet_aliases_refused_name_total"),
        /// Aliases refused: no more room.
        pub aliases_full: u64 = counter("signet_aliases_full_total"),
        /// Connections opened for one call each.
        pub opened_for_calls: u64 = counter("signet_call_connections_opened_total"),
        /// Calls that got no connection of their own, because there are too many.
        pub calls_shared: u64 = counter("signet_call_connections_full_total"),
        /// Connections now.
        pub connections: u64 = gauge("signet_connections"),
        /// Connections closed, by the reason.
        pub closed: [u64; CloseReason::ALL.len()] = counter("signet_connections_closed_total", reason: CloseReason::ALL.map(CloseReason::name)),
        /// Connections closed because a stranger sent too many wrong messages.
        pub odd_closed: u64 = counter("signet_odd_closed_total"),
        /// Times that a peer was not read from, because it did not read.
        pub reads_paused: u64 = counter("signet_reads_paused_total"),
        /// Keep-alive pings answered.
        pub pings: u64 = counter("signet_pings_total"),
        /// TLS handshakes completed on connections that were accepted.
        pub handshakes_in: u64 = counter("signet_tls_accepted_total"),
        /// Of these, resumed ones.
        pub handshakes_in_resumed: u64 = counter("signet_tls_accepted_resumed_total"),
        /// TLS handshakes completed on connections that were opened.
        pub handshakes_out: u64 = counter("signet_tls_opened_total"),
        /// Of these, resumed ones.
        pub handshakes_out_resumed: u64 = counter("signet_tls_opened_resumed_total"),
        /// TLS handshakes that failed.
        pub handshakes_failed: u64 = counter("signet_tls_failed_total"),
        /// Turns of the workers' loops.
        pub polls: u64 = counter("signet_polls_total"),
    }
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
    /// TLS handshakes.
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
        self.tls.add(&other.tls);
    }
}
