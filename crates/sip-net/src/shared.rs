//! What the connections of a worker have in common.

use sip_msg::{ConnId, Transport};
use wheel::Wheel;

use crate::config::NetConfig;
use crate::counters::{Counters, TransportCounters};
use crate::ws::Masks;

/// Bytes read at a time.
pub(crate) const READ_BYTES: usize = 65_536;

/// What all connections of a worker share.
pub(crate) struct Shared {
    pub(crate) config: NetConfig,
    pub(crate) counters: Counters,
    pub(crate) now_ms: u64,
    pub(crate) wheel: Wheel<Due>,
    /// Timers that fired, while they are being handled.
    pub(crate) due: Vec<Due>,
    pub(crate) buffers: Buffers,
    /// For the frames of WebSockets that this side opened.
    pub(crate) masks: Masks,
    /// Where streams are read into.
    pub(crate) scratch: Vec<u8>,
    /// Bytes read from streams in this turn.
    pub(crate) turn_bytes: usize,
    /// What the handshakes of this turn cost, in resumptions.
    pub(crate) turn_cost: u32,
    /// Bytes queued to be written, and bytes of unfinished messages.
    pub(crate) queued_bytes: usize,
    pub(crate) kept_bytes: usize,
}

/// What a timer is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Due {
    Conn(ConnId),
    /// Try to accept again.
    Accept(usize),
}

/// Buffers that nobody uses now.
#[derive(Default)]
pub(crate) struct Buffers(Vec<Vec<u8>>);

impl Buffers {
    /// Buffers kept, and the longest of them.
    const KEPT: usize = 256;
    const KEPT_BYTES: usize = 16_384;

    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    /// Leaves `buffer` without memory of its own.
    pub(crate) fn give_back(&mut self, buffer: &mut Vec<u8>) {
        let mut buffer = std::mem::take(buffer);
        if (1..=Self::KEPT_BYTES).contains(&buffer.capacity()) && self.0.len() < Self::KEPT {
            buffer.clear();
            self.0.push(buffer);
        }
    }
}

/// The figures of a transport.
pub(crate) fn traffic(counters: &mut Counters, transport: Transport) -> &mut TransportCounters {
    match transport {
        Transport::Udp => &mut counters.udp,
        Transport::Tcp => &mut counters.tcp,
        Transport::Tls => &mut counters.tls,
        Transport::Ws => &mut counters.ws,
        Transport::Wss => &mut counters.wss,
    }
}
