//! A UDP listener: datagrams in, datagrams out, and what came of them.

use invariant::broken;
use ledger::{Component, within};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mio::{Interest, Registry, Token};
use sip_msg::{ConnId, Flow, ListenerId, Transport};
use socket2::Socket;

use crate::stun::{Answers, is_stun};
use crate::sys::{self, Icmp, Outgoing, RecvBatch, SendBatch, Shed};
use crate::{Counters, Framing, NetConfig, NetEvent, SendError};

mod recent;

use recent::Recent;

/// What is needed of a datagram that came back, to tell which one it was.
pub const QUOTED_BYTES_MAX: usize = recent::HEAD;

/// Datagrams queued before they are written without being asked to.
const WRITE_AT: usize = 256;
/// Room kept for queued datagrams once they are written.
const ARENA_KEPT_BYTES: usize = 1024 * 1024;
/// The same while there is little to send.
const ARENA_IDLE_BYTES: usize = 64 * 1024;
/// Bytes of datagrams that wait because the socket is full.
const QUEUE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Errors taken from the error queue at a time.
const ERRORS_MAX: usize = 64;

pub(crate) struct UdpPort {
    listener: ListenerId,
    socket: mio::net::UdpSocket,
    local: SocketAddr,
    framing: Framing,
    /// What is to be sent: bytes, and datagrams in them.
    arena: Vec<u8>,
    items: Vec<Outgoing>,
    /// How many of `items` were sent.
    sent: usize,
    /// Whether the socket was full when last written to.
    blocked: bool,
    queue_max: usize,
    /// What answers STUN, where that is answered.
    stun: Option<Answers>,
    /// Drops as the kernel counts them, when last seen.
    drops: u32,
    stamps: Stamps,
    /// How long the datagrams of the last batch had waited.
    waiting_ms: Option<u64>,
    /// Whether it is bound to every address of this host.
    has_all: bool,
    recent: Recent,
}

/// Whether datagrams are stamped. One that came before the kernel was asked bears the time at
/// which it is read, as though it had not waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stamps {
    Off,
    /// What came before may still wait to be read.
    Asked,
    On,
}

impl Stamps {
    /// A wait that nobody has who is stamped when he is read.
    const WAITED_MS: u64 = 5;

    fn are_true(&mut self, waited_ms: u64) -> bool {
        if *self == Self::Asked && waited_ms >= Self::WAITED_MS {
            *self = Self::On;
        }
        *self == Self::On
    }

    fn socket_is_empty(&mut self) {
        if *self == Self::Asked {
            *self = Self::On;
        }
    }
}

impl UdpPort {
    pub(crate) fn new(
        listener: ListenerId,
        socket: Socket,
        local: SocketAddr,
        framing: Framing,
        config: &NetConfig,
    ) -> io::Result<Self> {
        sys::set_udp_options(socket.as_raw_fd(), local.ip())?;
        sys::set_buffer_bytes(socket.as_raw_fd(), config.udp_receive_buffer_bytes);
        Ok(Self {
            listener,
            socket: mio::net::UdpSocket::from_std(socket.into()),
            local,
            framing,
            arena: Vec::new(),
            items: Vec::new(),
            sent: 0,
            blocked: false,
            queue_max: config.udp_queue_max,
            stun: (config.stun && framing != Framing::Raw).then(Answers::new),
            drops: 0,
            stamps: Stamps::Off,
            waiting_ms: None,
            has_all: local.ip().is_unspecified(),
            recent: Recent::default(),
        })
    }

    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(
            &mut self.socket,
            token,
            Interest::READABLE | Interest::WRITABLE,
        )
    }

    /// Receives one batch; gives whether there may be more.
    pub(crate) fn receive(
        &mut self,
        batch: &mut RecvBatch,
        counters: &mut Counters,
        on_event: &mut impl FnMut(NetEvent<'_>),
    ) -> bool {
        let (count, more) = match within(Component::Kernel, || batch.receive(self.fd())) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.stamps.socket_is_empty();
                return false;
            }
            // An error of a datagram sent earlier, which the error queue tells
            // of; the next call goes on.
            Err(_) => return true,
        };
        let waited_ms = batch.get(0).and_then(|first| first.came).map(since_ms);
        self.waiting_ms = waited_ms.filter(|ms| self.stamps.are_true(*ms));
        if !more {
            self.stamps.socket_is_empty();
        }
        for index in 0..count {
            let Some(datagram) = batch.get(index) else {
                broken!("as many datagrams were read as the kernel said");
                break;
            };
            counters.udp.bytes_in += datagram.bytes.len() as u64;
            if let Some(drops) = datagram.drops {
                counters.udp_kernel_drops += u64::from(drops.wrapping_sub(self.drops));
                self.drops = drops;
            }
            // RFC 3261 7.5: "Implementations processing SIP messages over
            // stream-oriented transports MUST ignore any CRLF appearing before
            // the start-line [H4.1]." Phones send such bytes over UDP too, to
            // keep their way through a NAT open; they ask for no answer.
            if self.framing != Framing::Raw && is_keep_alive(datagram.bytes) {
                counters.udp_keep_alives += 1;
                continue;
            }
            if is_stun(datagram.bytes)
                && let Some(stun) = &mut self.stun
            {
                let answer = stun.answer(datagram.bytes, datagram.remote);
                match answer.filter(|answer| self.has_room(answer.bytes())) {
                    Some(answer) => {
                        counters.stun_answers += 1;
                        self.put(datagram.remote, datagram.local, answer.bytes(), 0);
                    }
                    None => counters.stun_drops += 1,
                }
                continue;
            }
            counters.udp.messages_in += 1;
            let mut local = self.local;
            if let Some(ip) = datagram.local.filter(|_| self.has_all) {
                local.set_ip(ip);
            }
            let flow = Flow {
                transport: Transport::Udp,
                listener: self.listener,
                local,
                remote: datagram.remote,
                conn: ConnId::NONE,
            };
            on_event(NetEvent::Datagram {
                flow,
                bytes: datagram.bytes,
            });
        }
        more
    }

    /// Queues a datagram, to leave from `source` where this socket has several
    /// addresses to send from.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn queue(
        &mut self,
        remote: SocketAddr,
        source: Option<IpAddr>,
        bytes: &[u8],
        cookie: u64,
        batch: &mut SendBatch,
        counters: &mut Counters,
        failed: &mut impl FnMut(u64, SendError),
    ) {
        if self.items.len() >= WRITE_AT && !self.blocked {
            self.flush(batch, counters, failed);
        }
        if !self.has_room(bytes) {
            counters.udp_queue_drops += 1;
            failed(cookie, SendError::Full);
            return;
        }
        if remote.is_ipv4() != self.local.is_ipv4() {
            counters.udp_unsendable += 1;
            failed(cookie, SendError::NoRoute);
            return;
        }
        self.recent.remember(remote, bytes, cookie);
        self.put(remote, source, bytes, cookie);
    }

    /// Whether one datagram more may wait.
    fn has_room(&self, bytes: &[u8]) -> bool {
        let has_bytes = self.arena.len() + bytes.len() <= QUEUE_BYTES_MAX;
        has_bytes && self.items.len() - self.sent < self.queue_max
    }

    fn put(&mut self, remote: SocketAddr, source: Option<IpAddr>, bytes: &[u8], cookie: u64) {
        let start = self.arena.len();
        self.arena.extend_from_slice(bytes);
        let is_usable = |ip: &IpAddr| ip.is_ipv4() == remote.is_ipv4() && !ip.is_unspecified();
        let source = source.filter(|ip| self.has_all && is_usable(ip));
        self.items.push(Outgoing {
            start,
            end: self.arena.len(),
            remote,
            source,
            cookie,
        });
    }

    /// Lets the kernel drop a share of what begins something; `None` for no more.
    pub(crate) fn shed(&mut self, shed: Option<&Shed>) {
        // Where it cannot be done, more is read and refused here.
        let _ = match shed {
            Some(shed) if self.framing != Framing::Raw => sys::set_shed(self.fd(), shed),
            _ => sys::clear_shed(self.fd()),
        };
    }

    /// Whether it is to be known how long datagrams wait to be read.
    pub(crate) fn set_stamps(&mut self, is_on: bool) {
        self.waiting_ms = None;
        self.stamps = if is_on { Stamps::Asked } else { Stamps::Off };
        // Where it cannot be done, it stays unknown.
        let _ = sys::set_stamps(self.fd(), is_on);
    }

    /// How long the datagrams of the last batch had waited, where that is known.
    pub(crate) const fn waiting_ms(&self) -> Option<u64> {
        self.waiting_ms
    }

    /// The socket may have room again.
    pub(crate) fn unblock(&mut self) -> bool {
        std::mem::replace(&mut self.blocked, false)
    }

    /// The memory of what is queued.
    pub(crate) fn held_bytes(&self) -> usize {
        self.arena.capacity() + self.items.capacity() * size_of::<Outgoing>()
    }

    /// Gives back what the queue does not need while little is sent.
    pub(crate) fn trim(&mut self) {
        self.arena.shrink_to(ARENA_IDLE_BYTES);
        self.items.shrink_to(WRITE_AT);
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.items.is_empty()
    }

    /// Sends what is queued, until the socket is full.
    pub(crate) fn flush(
        &mut self,
        batch: &mut SendBatch,
        counters: &mut Counters,
        failed: &mut impl FnMut(u64, SendError),
    ) {
        // Whether the first datagram was refused before: the error may have
        // been that of an earlier one, which the kernel reports only now.
        let mut refused = false;
        while let Some(unsent) = self.items.get(self.sent..)
            && let Some(first) = unsent.first()
            && !self.blocked
        {
            let fd = self.socket.as_raw_fd();
            match within(Component::Kernel, || batch.send(fd, &self.arena, unsent)) {
                Ok(count) => {
                    let sent = unsent.iter().take(count);
                    counters.udp.bytes_out +=
                        sent.map(|item| (item.end - item.start) as u64).sum::<u64>();
                    counters.udp.messages_out += count as u64;
                    self.sent += count;
                    refused = false;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.blocked = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if may_be_an_earlier_error(&error) && !refused => refused = true,
                Err(error) => {
                    match cause(&error) {
                        Some(cause) => {
                            counters.udp_unsendable += 1;
                            failed(first.cookie, cause);
                        }
                        None => counters.udp_queue_drops += 1,
                    }
                    self.sent += 1;
                    refused = false;
                }
            }
        }
        self.forget_sent();
    }

    /// Takes the ICMP errors that came back.
    pub(crate) fn take_errors(
        &mut self,
        counters: &mut Counters,
        on_event: &mut impl FnMut(NetEvent<'_>),
        failed: &mut impl FnMut(u64, SendError),
    ) {
        let mut quoted = [0; 1_024];
        for _ in 0..ERRORS_MAX {
            let Ok(Some(error)) = sys::receive_error(self.fd(), &mut quoted) else {
                return;
            };
            let quoted = quoted.get(..error.quoted_len).unwrap_or_default();
            if error.icmp.is_some_and(means_failure) {
                counters.udp_unreachable += 1;
                let sender = self.recent.take(error.remote, quoted);
                if let Some(cookie) = sender {
                    failed(cookie, SendError::Unreachable);
                }
                on_event(NetEvent::Unreachable {
                    listener: self.listener,
                    remote: error.remote,
                    quoted,
                    is_told: sender.is_some(),
                });
            }
        }
    }

    /// The cookie of a datagram that came back to another worker of this port.
    pub(crate) fn take_unreachable(&mut self, remote: SocketAddr, quoted: &[u8]) -> Option<u64> {
        self.recent.take(remote, quoted)
    }

    fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    fn forget_sent(&mut self) {
        if self.sent >= self.items.len() {
            self.items.clear();
            self.arena.clear();
            self.sent = 0;
            self.arena.shrink_to(ARENA_KEPT_BYTES);
        } else if self.sent >= WRITE_AT {
            // The socket is full and the queue has moved on: close the gap.
            let gap = self.items.get(self.sent).map_or(0, |first| first.start);
            self.arena.drain(..gap);
            self.items.drain(..self.sent);
            for item in &mut self.items {
                item.start -= gap;
                item.end -= gap;
            }
            self.sent = 0;
        }
    }
}

/// The milliseconds since a time, by the clock that the kernel stamps with.
fn since_ms(came: Duration) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let passed = now.unwrap_or_default().saturating_sub(came);
    u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
}

/// Whether a datagram says nothing: line ends and zeroes.
fn is_keep_alive(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n' | 0))
}

/// Why a datagram is not sent; nothing where it is lost like others on their way, because the
/// queue of the interface is full (ENOBUFS, which the kernel tells only to who asks for errors):
/// what is sent again mends that.
fn cause(error: &io::Error) -> Option<SendError> {
    match error.raw_os_error() {
        Some(libc::ENOBUFS) => None,
        Some(libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EHOSTDOWN | libc::ENETDOWN) => {
            Some(SendError::NoRoute)
        }
        _ => Some(SendError::Unsendable),
    }
}

/// Errors that a socket keeps from an ICMP message and hands to the next call.
fn may_be_an_earlier_error(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNREFUSED
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::EPROTO
                | libc::EACCES
                | libc::EMSGSIZE
        )
    )
}

/// RFC 3261 18.4: "Host, network, port or protocol unreachable errors, or
/// parameter problem errors SHOULD cause the transport layer to inform the
/// transport user of a failure in sending. Source quench and TTL exceeded ICMP
/// errors SHOULD be ignored."
const fn means_failure(icmp: Icmp) -> bool {
    match icmp {
        // Too big for the path: the kernel has learned it, and the
        // retransmission will be cut in fragments.
        Icmp::V4(3, 4) => false,
        Icmp::V4(kind, _) => matches!(kind, 3 | 12),
        Icmp::V6(kind, _) => matches!(kind, 1 | 4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_icmp_errors_mean_that_a_message_failed() {
        // RFC 3261 18.4: "Host, network, port or protocol unreachable errors,
        // or parameter problem errors SHOULD cause the transport layer to
        // inform the transport user of a failure in sending. Source quench and
        // TTL exceeded ICMP errors SHOULD be ignored."
        for (icmp, fails) in [
            (Icmp::V4(3, 0), true),
            (Icmp::V4(3, 1), true),
            (Icmp::V4(3, 2), true),
            (Icmp::V4(3, 3), true),
            (Icmp::V4(3, 4), false),
            (Icmp::V4(4, 0), false),
            (Icmp::V4(11, 0), false),
            (Icmp::V4(12, 0), true),
            (Icmp::V6(1, 4), true),
            (Icmp::V6(2, 0), false),
            (Icmp::V6(3, 0), false),
            (Icmp::V6(4, 1), true),
        ] {
            assert_eq!(means_failure(icmp), fails, "{icmp:?}");
        }
    }

    #[test]
    fn line_ends_and_zeroes_are_keep_alives() {
        for (bytes, expected) in [
            (&b""[..], true),
            (b"\r\n\r\n", true),
            (b"\0\0", true),
            (b"\r\nx", false),
        ] {
            assert_eq!(is_keep_alive(bytes), expected, "{bytes:?}");
        }
    }
}
