//! What a worker's sockets tell their owner.

use std::net::SocketAddr;
use std::sync::Arc;

use sip_msg::{ConnId, Flow, FrameError, ListenerId, VerifiedPeer};
use sip_tls::HandshakeError;

use crate::ws::UpgradeFault;

/// Something that happened on a socket. Bytes are borrowed from the receive
/// buffers: copy what is to be kept.
#[derive(Debug)]
pub enum NetEvent<'a> {
    /// A datagram.
    Datagram {
        /// Where it came from.
        flow: Flow,
        /// The whole of it.
        bytes: &'a [u8],
    },
    /// A whole message from a stream.
    Message {
        /// Where it came from.
        flow: Flow,
        /// The message.
        bytes: &'a [u8],
    },
    /// Bytes from a stream of [`crate::Framing::Raw`].
    Data {
        /// Where they came from.
        flow: Flow,
        /// What there was.
        bytes: &'a [u8],
    },
    /// A stream that cannot be framed any further. Nothing more is read from
    /// it; the owner answers, then closes it after the flush. Requests that came
    /// before may still be answered. It is closed when they are, and the owner
    /// has closed it, or after `linger_ms`.
    Malformed {
        /// Where it came from.
        flow: Flow,
        /// The head of the message at fault, as far as it was read.
        head: &'a [u8],
        /// What was wrong.
        error: FrameError,
    },
    /// The peer of a TLS connection proved by its certificate who it is. Comes
    /// before [`NetEvent::Accepted`] or [`NetEvent::Opened`], and so before
    /// anything that the peer sends; it is so until [`NetEvent::Closed`].
    Verified {
        /// The connection's two ends.
        flow: Flow,
        /// The proof.
        peer: Arc<VerifiedPeer>,
    },
    /// A connection was accepted; for TLS its handshake is done, for WebSocket
    /// its upgrade.
    Accepted {
        /// Its two ends.
        flow: Flow,
    },
    /// A connection that this side opened is up; for TLS the peer proved its name,
    /// for WebSocket it granted the upgrade.
    Opened {
        /// Its two ends.
        flow: Flow,
    },
    /// The TLS handshake of a connection failed; its end follows.
    HandshakeFailed {
        /// Which one.
        conn: ConnId,
        /// Why.
        error: HandshakeError,
    },
    /// A connection that this side opened became no WebSocket; its end follows.
    UpgradeFailed {
        /// Which one.
        conn: ConnId,
        /// Why.
        fault: UpgradeFault,
    },
    /// A connection is gone. Comes once for each connection that was accepted
    /// or asked for, those whose opening failed included.
    Closed {
        /// Which one.
        conn: ConnId,
        /// Why.
        reason: CloseReason,
    },
    /// A datagram of a server beside SIP ([`Net::send_beside`](crate::Net::send_beside)).
    Beside {
        /// The server.
        from: SocketAddr,
        /// What it says.
        bytes: &'a [u8],
    },
    /// What was sent to such a server came back: nobody is there, or no way leads there.
    BesideRefused(SocketAddr),
    /// A message with a cookie was not sent.
    SendFailed {
        /// The cookie given with the message.
        cookie: u64,
        /// Why.
        error: SendError,
    },
    /// A datagram found nobody (ICMP unreachable). A hint, not a proof: who
    /// can guess the ports can forge it, unless `quoted` holds what nobody
    /// guesses. Where it does, [`NetEvent::SendFailed`] with
    /// [`SendError::Unreachable`] tells the same with the datagram's cookie.
    Unreachable {
        /// The listener that it was sent from.
        listener: ListenerId,
        /// Where it was sent to.
        remote: SocketAddr,
        /// The beginning of the datagram, as far as the router returned it.
        quoted: &'a [u8],
        /// Whether its sender is told so. Where workers share a port the kernel
        /// gives the error to any of them: the others are asked by
        /// [`Net::find_unreachable`](crate::Net::find_unreachable).
        is_told: bool,
    },
}

/// Why a connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// The peer closed it.
    Peer,
    /// The peer or the network broke it.
    Broken,
    /// The owner asked for it.
    Asked,
    /// It was silent for too long.
    Idle,
    /// A message was begun and not completed in time.
    MessageTimeout,
    /// The peer took nothing while much waited for it, or more waited for its source, or for all,
    /// than may.
    SlowReader,
    /// What came on it was no SIP.
    Malformed,
    /// It could not be opened: refused or unreachable.
    ConnectFailed,
    /// It could not be opened in time.
    ConnectTimeout,
    /// The TLS handshake failed.
    Handshake,
    /// A TLS record was bad.
    Tls,
    /// Too many connections, or too many handshakes.
    Refused,
    /// The request to make a WebSocket of it was refused, or did not come in time;
    /// where this side asked, the answer.
    Upgrade,
    /// The peer's certificate ended while the connection was up, or is not
    /// trusted any more.
    Certificate,
    /// It was the least useful when another needed its place.
    Evicted,
}

impl CloseReason {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Self; 15] = [
        Self::Peer,
        Self::Broken,
        Self::Asked,
        Self::Idle,
        Self::MessageTimeout,
        Self::SlowReader,
        Self::Malformed,
        Self::ConnectFailed,
        Self::ConnectTimeout,
        Self::Handshake,
        Self::Tls,
        Self::Refused,
        Self::Upgrade,
        Self::Certificate,
        Self::Evicted,
    ];

    /// Its name among figures.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Broken => "broken",
            Self::Asked => "asked",
            Self::Idle => "idle",
            Self::MessageTimeout => "message_timeout",
            Self::SlowReader => "slow_reader",
            Self::Malformed => "malformed",
            Self::ConnectFailed => "connect_failed",
            Self::ConnectTimeout => "connect_timeout",
            Self::Handshake => "handshake",
            Self::Tls => "tls",
            Self::Refused => "refused",
            Self::Upgrade => "upgrade",
            Self::Certificate => "certificate",
            Self::Evicted => "evicted",
        }
    }
}

/// Why a message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SendError {
    /// The named connection is gone and no other may be opened.
    Gone,
    /// The connection was closed before the message was written.
    Closed(CloseReason),
    /// The message was written, and then its connection ended: it may have
    /// arrived or not, and an answer comes over another connection or never
    /// ([`crate::NetConfig::answer_timeout_ms`]).
    Lost,
    /// A queue or the table of connections is full.
    Full,
    /// All local ports towards that peer are taken: the limit is on this side.
    NoLocalPort,
    /// The kernel refused to send it: too long, no permission. That says nothing of who would
    /// have got it.
    Unsendable,
    /// There is no way there: no route, or an address of a family that the listener has not.
    NoRoute,
    /// An ICMP message with the beginning of this datagram in it says that
    /// nobody is there.
    Unreachable,
    /// The target has a transport or a listener that this worker has not.
    NoListener,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_place_among_the_counters() {
        for (place, reason) in CloseReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place);
        }
    }
}
