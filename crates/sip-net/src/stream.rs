//! One stream connection: its state, its deadlines and what it writes.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use ledger::{Component, within};
use mio::net::TcpStream;
use sip_msg::{ConnId, Flow, Framer, VerifiedPeer};
use sip_tls::{ClientTls, Proven, Session, TlsInfo};
use wheel::TimerId;

use crate::config::{Framing, NetConfig};
use crate::event::CloseReason;
use crate::meter::Metered;
use crate::ranks::{Class, Usefulness};
use crate::shared::{Shared, traffic};
use crate::ws::WebSocket;

mod backlog;
mod closing;
mod cookies;
mod deadlines;
mod input;
mod stage;
mod ws;

use backlog::Backlog;
use cookies::Cookies;
use deadlines::Begun;
pub(crate) use stage::{Ending, Pending, Stage};

/// Written bytes before a gap at the front of a queue is closed.
const GAP_BYTES: usize = 65_536;
/// Bytes that are sealed before they are written: what waits beyond is sealed once it can be.
const SEALED_BYTES_MAX: usize = 262_144;
/// How long a peer with much waiting for it may take nothing: as long as the longest pause
/// between retransmissions (T2, RFC 3261 17.1.2.2), and far longer than a server is busy with
/// something else.
const STUCK_MS: u64 = 4_000;

/// How long what may wait is held back, so that it can go out with something
/// else: an answer mostly comes sooner.
const HOLD_MS: u64 = 100;

/// What belongs to a connection that this side opened.
pub(crate) struct Opened {
    /// Whether the owner asked for this very connection: nothing but he closes
    /// it to make room.
    pub(crate) asked_for: bool,
    /// Whether it has ever carried messages.
    pub(crate) was_open: bool,
    /// The name under which it was opened.
    pub(crate) tls_name: Option<Arc<str>>,
    /// Whether who answered has not proved it, or does not know it.
    pub(crate) is_name_unproved: bool,
    /// Which of several to its peer it is; 0 is the one that all share.
    pub(crate) lane: u8,
    /// The call that it belongs to, where it is one call's own and that goes on.
    pub(crate) call: Option<u64>,
    /// Whether it was opened for one call.
    pub(crate) was_for_call: bool,
    /// Who we are on it, where that is not whoever we are on all.
    pub(crate) client_tls: Option<Arc<ClientTls>>,
}

/// One connection.
pub(crate) struct Conn {
    pub(crate) flow: Flow,
    pub(crate) stage: Stage,
    /// Where this side opened it.
    pub(crate) opened: Option<Box<Opened>>,
    /// `None` until it is registered.
    pub(crate) socket: Option<TcpStream>,
    pub(crate) session: Option<Session>,
    pub(crate) framing: Framing,
    framer: Framer,
    /// Where it is, or is to become, a WebSocket.
    pub(crate) ws: Option<Box<WebSocket>>,
    /// Where its peer is reached by it, and whether the peer has ever asked for that.
    pub(crate) alias: Option<Box<SocketAddr>>,
    pub(crate) has_asked_alias: bool,
    /// Whose it is: a place in the table of peers that are counted.
    pub(crate) peer: u16,
    /// When it began.
    pub(crate) begun_at_ms: u64,
    /// What came of its handshake.
    pub(crate) tls: Option<Box<TlsInfo>>,
    /// The unfinished message.
    partial_message: Vec<u8>,
    /// The unfinished TLS record.
    partial_record: Vec<u8>,
    /// What is to be written: messages, and for TLS the records made of them.
    unsent_plain: Vec<u8>,
    unsent_wire: Vec<u8>,
    /// How much of the messages is in records, and how much of what goes to the socket was written.
    sealed: usize,
    written: usize,
    /// Bytes ever queued, ever written, and how many of them had been made into records when
    /// all of these were written.
    queued_total: u64,
    written_total: u64,
    emptied_total: u64,
    /// Until when nothing that is queued need be written; `u64::MAX` when
    /// something must.
    held_until_ms: u64,
    cookies: Cookies,
    pub(crate) usefulness: Usefulness,
    /// When the socket last took something, or the first of what waits was queued.
    taken_ms: u64,
    /// Whether the socket was full when last written to.
    blocked: bool,
    /// The bytes that waited on it when it was last weighed.
    pub(crate) counted_unsent: usize,
    /// Whether it is among those of its source that have carried nothing yet.
    pub(crate) is_counted_unused: bool,
    /// Bytes of its handshake that wait for more of them, as they were last weighed.
    counted_handshake: usize,
    /// Whether it waits in the list of connections to be flushed.
    pub(crate) is_marked_to_flush: bool,
    /// Whether it waits in a list of sockets with more to read, and its place where those of
    /// others wait for their turns.
    pub(crate) has_unfinished_read: bool,
    pub(crate) waits_at: Option<u32>,
    /// How long that takes, while it is so.
    backlog: Option<Box<Backlog>>,
    /// Whether there is something to read that is left until the peer reads.
    pub(crate) is_unread: bool,
    /// Wrong messages of a stranger, and until when they are counted together.
    pub(crate) odd: u16,
    pub(crate) odd_until_ms: u64,
    /// Whether the peer's end was seen, so that reading goes on to it.
    pub(crate) peer_ended: bool,
    /// When it last carried anything, and when the unfinished message began.
    active_ms: u64,
    message_begun: Option<Begun>,
    /// When the certificate ends that the peer proved itself by.
    ends_ms: u64,
    timer: TimerId,
    timer_ms: u64,
}

impl Conn {
    pub(crate) fn new(flow: Flow, stage: Stage, framing: Framing, now_ms: u64) -> Self {
        Self {
            flow,
            stage,
            opened: None,
            socket: None,
            session: None,
            framing,
            framer: match framing {
                Framing::SipOrLengthless => Framer::lenient(),
                Framing::Sip | Framing::Raw => Framer::default(),
            },
            ws: None,
            alias: None,
            has_asked_alias: false,
            peer: 0,
            begun_at_ms: now_ms,
            tls: None,
            partial_message: Vec::new(),
            partial_record: Vec::new(),
            unsent_plain: Vec::new(),
            unsent_wire: Vec::new(),
            sealed: 0,
            written: 0,
            queued_total: 0,
            written_total: 0,
            emptied_total: 0,
            held_until_ms: u64::MAX,
            cookies: Cookies::default(),
            usefulness: Usefulness::default(),
            taken_ms: now_ms,
            blocked: false,
            counted_unsent: 0,
            is_counted_unused: false,
            counted_handshake: 0,
            is_marked_to_flush: false,
            has_unfinished_read: false,
            waits_at: None,
            backlog: None,
            is_unread: false,
            odd: 0,
            odd_until_ms: 0,
            peer_ended: false,
            active_ms: now_ms,
            message_begun: None,
            ends_ms: u64::MAX,
            timer: TimerId::NONE,
            timer_ms: u64::MAX,
        }
    }

    /// It carries messages from now on.
    pub(crate) fn open(&mut self, shared: &mut Shared) {
        self.stage = Stage::Open;
        if let Some(opened) = &mut self.opened {
            opened.was_open = true;
        }
        self.active_ms = shared.now_ms;
        self.arm(shared);
    }

    /// Whether the certificate that the peer proved bears `name` too. The name
    /// that the connection was opened under is not asked for here.
    pub(crate) fn peer_bears(&self, name: Option<&str>) -> bool {
        let proven = self.session.as_ref().and_then(Proven::by);
        proven.is_some_and(|proven| name.is_some_and(|name| proven.bears(name)))
    }

    /// What is counted of it.
    pub(crate) fn metered(&self) -> Metered {
        let mut bytes = size_of::<Self>();
        if self.flow.transport.is_secure() {
            bytes += size_of::<TlsInfo>() + Session::bytes(self.opened.is_some());
        }
        Metered {
            opened: self.opened.is_some(),
            listener: self.flow.listener.0,
            peer: self.peer,
            begun_at_ms: self.begun_at_ms,
            bytes: bytes as u64,
        }
    }

    /// What it is good for.
    pub(crate) fn class(&self) -> Class {
        self.usefulness.class(self.call().is_some())
    }

    /// The call that it belongs to, where it is one call's own.
    pub(crate) fn call(&self) -> Option<u64> {
        self.opened.as_ref()?.call
    }

    /// The name under which this side opened it.
    pub(crate) fn tls_name(&self) -> Option<&Arc<str>> {
        self.opened.as_ref()?.tls_name.as_ref()
    }

    /// Puts it in the list of connections to be flushed.
    pub(crate) fn mark_to_flush(&mut self, to_flush: &mut Vec<ConnId>) {
        if !std::mem::replace(&mut self.is_marked_to_flush, true) {
            to_flush.push(self.flow.conn);
        }
    }

    /// Whether messages may be queued on it.
    pub(crate) fn takes_messages(&self) -> bool {
        let takes = match self.stage {
            Stage::Connecting { closes, .. } | Stage::Handshaking { closes, .. } => !closes,
            Stage::Upgrading { closes, .. } => self.opened.is_some() && !closes,
            Stage::Open => true,
            Stage::Closing { ending, .. } => !matches!(ending, Ending::Writing | Ending::Lingering),
        };
        takes && self.ws.as_ref().is_none_or(|ws| !ws.is_closed)
    }

    /// Why it is closed, now that it cannot be read.
    pub(crate) fn closed_for(&self, reason: CloseReason) -> CloseReason {
        match self.stage {
            Stage::Closing { reason, .. } => reason,
            _ => reason,
        }
    }

    /// It ends when what its peer proved itself by does: RFC 5280 4.1.2.5 has a
    /// certificate valid up to notAfter, inclusive.
    pub(crate) fn ends_with(&mut self, peer: &VerifiedPeer, now_ms: u64, unix_ms: u64) {
        let end_ms = peer
            .not_after_unix_s()
            .saturating_add(1)
            .saturating_mul(1_000);
        self.ends_ms = now_ms.saturating_add(end_ms.saturating_sub(unix_ms));
    }

    /// Takes over what the handshake made: a session, the beginning of a
    /// record, and what the socket had no room for.
    pub(crate) fn secure(
        &mut self,
        session: Session,
        info: TlsInfo,
        partial_record: Vec<u8>,
        unsent: Vec<u8>,
        shared: &mut Shared,
    ) {
        self.session = Some(session);
        self.tls = Some(Box::new(info));
        shared.queued_bytes += unsent.len();
        self.unsent_wire = unsent;
        self.keep_whole(partial_record, true, shared);
    }

    /// What is queued may wait a while for something to be written with it.
    pub(crate) fn hold(&mut self, shared: &Shared) {
        if self.unsent_bytes() > 0 {
            self.held_until_ms = shared.now_ms.saturating_add(HOLD_MS);
        }
    }

    /// Whether anything that is queued is to be written now.
    pub(crate) fn is_to_be_flushed(&self) -> bool {
        self.unsent_bytes() > 0 && self.held_until_ms == u64::MAX
    }

    /// Appends a message to what is to be written.
    pub(crate) fn queue(
        &mut self,
        bytes: &[u8],
        cookie: u64,
        shared: &mut Shared,
    ) -> Result<(), CloseReason> {
        let waiting = self.unsent_bytes();
        if waiting == 0 {
            self.taken_ms = shared.now_ms;
        }
        let has_much = waiting + bytes.len() > shared.config.write_queue_bytes_max;
        let is_stuck = shared.now_ms.saturating_sub(self.taken_ms) >= STUCK_MS;
        let all = shared.queued_bytes + bytes.len();
        if (has_much && is_stuck) || all > shared.config.write_queues_bytes_max {
            return Err(CloseReason::SlowReader);
        }
        if self.unsent_plain.capacity() == 0 {
            self.unsent_plain = shared.buffers.take();
        }
        self.held_until_ms = u64::MAX;
        self.unsent_plain.extend_from_slice(bytes);
        shared.queued_bytes = all;
        self.queued_total += bytes.len() as u64;
        if cookie != 0 {
            let written = self.whole_total();
            let forgotten = self.cookies.push(
                (self.queued_total, cookie),
                written,
                shared.now_ms,
                shared.config.answer_timeout_ms,
            );
            shared.counters.lost_forgotten += forgotten;
        }
        Ok(())
    }

    /// Writes what is queued, until the socket is full.
    pub(crate) fn flush(&mut self, shared: &mut Shared) -> Result<(), CloseReason> {
        let is_up = !matches!(
            self.stage,
            Stage::Connecting { .. } | Stage::Handshaking { .. }
        );
        if !is_up || self.blocked {
            return Ok(());
        }
        self.held_until_ms = u64::MAX;
        loop {
            self.seal(SEALED_BYTES_MAX, shared)?;
            self.write(shared)?;
            let is_done = self.unsent_plain.is_empty() || self.session.is_none();
            if is_done || self.blocked || self.waits_for_upgrade() {
                return Ok(());
            }
        }
    }

    fn write(&mut self, shared: &mut Shared) -> Result<(), CloseReason> {
        let Some(socket) = &mut self.socket else {
            return Ok(());
        };
        let is_sealed = self.session.is_some();
        let queue = if is_sealed {
            &mut self.unsent_wire
        } else {
            &mut self.unsent_plain
        };
        let request_left = self.ws.as_ref().and_then(|ws| ws.request_left());
        let end = match request_left.filter(|_| !is_sealed) {
            Some(left) => self.written + left,
            None => queue.len(),
        };
        while let Some(rest) = queue.get(self.written..end)
            && !rest.is_empty()
        {
            match within(Component::Kernel, || socket.write(rest)) {
                Ok(0) => return Err(CloseReason::Broken),
                Ok(len) => {
                    if let Some(ws) = self.ws.as_mut().filter(|_| !is_sealed) {
                        ws.wrote(len);
                    }
                    self.written += len;
                    self.written_total += len as u64;
                    shared.queued_bytes -= len;
                    traffic(&mut shared.counters, self.flow.transport).bytes_out += len as u64;
                    self.active_ms = shared.now_ms;
                    self.taken_ms = shared.now_ms;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked = true;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(CloseReason::Broken),
            }
        }
        if self.written == queue.len() {
            shared.buffers.give_back(queue);
            self.written = 0;
            if is_sealed {
                let unsealed = self.unsent_plain.len() - self.sealed;
                self.emptied_total = self.queued_total - unsealed as u64;
            }
            if self.unsent_bytes() == 0 {
                if shared.config.answer_timeout_ms == 0 {
                    self.cookies.clear();
                }
                match self.stage.ending() {
                    Some(Ending::Writing) => self.begin_to_linger(shared),
                    Some(Ending::Answering) if self.usefulness.unanswered == 0 => {
                        return self.begin_to_close(CloseReason::Malformed, shared);
                    }
                    _ => {}
                }
            }
        } else if self.written >= GAP_BYTES.max(queue.len() / 2) {
            forget_front(queue, self.written);
            self.written = 0;
        }
        Ok(())
    }

    /// Writes `bytes` past the queue, and removes what was written.
    pub(crate) fn write_out(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let Some(socket) = &mut self.socket else {
            return Ok(());
        };
        let mut written = 0;
        while !self.blocked
            && let Some(rest) = bytes.get(written..)
            && !rest.is_empty()
        {
            match within(Component::Kernel, || socket.write(rest)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => written += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.blocked = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.drain(..written);
        Ok(())
    }

    /// The socket may have room again: gives whether it had none.
    pub(crate) fn unblock(&mut self) -> bool {
        std::mem::replace(&mut self.blocked, false)
    }

    /// Whether the peer does not read what it has asked for: then nothing more
    /// is read from it. Not on a connection that this side opened: two servers
    /// that each wait for the other to read would wait for ever.
    pub(crate) fn is_backed_up(&self, config: &NetConfig) -> bool {
        self.blocked
            && self.opened.is_none()
            && self.unsent_bytes() >= config.write_queue_bytes_max / 4
    }

    /// A turn has read so much, and left the rest.
    pub(crate) fn leave_unread(&mut self, read: usize, now_ms: u64) {
        let Some(socket) = self.socket.as_ref().filter(|_| self.stage.is_read()) else {
            return;
        };
        let fd = socket.as_raw_fd();
        match &mut self.backlog {
            Some(backlog) => backlog.read(read, fd, now_ms),
            None => self.backlog = Some(Box::new(Backlog::new(fd, now_ms))),
        }
    }

    /// What is unread waits for its peer from now on, and not for a turn.
    pub(crate) fn forget_backlog(&mut self) {
        self.backlog = None;
    }

    /// How long what it leaves unread has waited.
    pub(crate) fn waiting_ms(&self, now_ms: u64) -> u64 {
        self.backlog
            .as_ref()
            .map_or(0, |backlog| backlog.waiting_ms(now_ms))
    }

    /// Bytes of messages that were begun and not finished, those of a handshake too.
    pub(crate) fn kept_bytes(&self) -> usize {
        let frames = self.ws.as_ref().map_or(0, |ws| ws.reader.kept_bytes());
        self.partial_message.len() + self.partial_record.len() + frames + self.counted_handshake
    }

    /// So many bytes of its handshake wait for more of them.
    pub(crate) fn count_handshake(&mut self, waiting: usize, shared: &mut Shared) {
        let before = std::mem::replace(&mut self.counted_handshake, waiting);
        shared.kept_bytes = shared.kept_bytes - before + waiting;
    }

    /// Bytes that wait to be written.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.unsent_plain.len() - self.sealed + self.unsent_wire.len() - self.written
    }

    /// The cookies of the messages that were not wholly written and, with true,
    /// of those that were and have no answer yet, as far as is known.
    pub(crate) fn open_cookies(
        &mut self,
        shared: &Shared,
    ) -> impl Iterator<Item = (u64, bool)> + '_ {
        let written = self.whole_total();
        let remember_ms = shared.config.answer_timeout_ms;
        self.cookies.drain(written, shared.now_ms, remember_ms)
    }

    /// How many of the bytes that were queued are surely written.
    fn whole_total(&self) -> u64 {
        // Records do not tell where in them a message ends: while one of them
        // is unwritten, so are all messages of the flush.
        if self.session.is_some() {
            self.emptied_total
        } else {
            self.written_total
        }
    }

    /// Gives back what it held of the shared things.
    pub(crate) fn release(&mut self, shared: &mut Shared) {
        shared.queued_bytes -= self.unsent_bytes();
        self.forget_input(shared);
        shared.buffers.give_back(&mut self.unsent_plain);
        shared.buffers.give_back(&mut self.unsent_wire);
        shared.wheel.cancel(self.timer);
    }

    /// Whether nothing but its request may be written on a WebSocket, and that is.
    ///
    /// RFC 6455 4.1: "Once the client's opening handshake has been sent, the client
    /// MUST wait for a response from the server before sending any further data."
    fn waits_for_upgrade(&self) -> bool {
        self.ws.as_ref().and_then(|ws| ws.request_left()) == Some(0)
    }

    /// Makes records of the messages that are queued, of so many bytes at most.
    fn seal(&mut self, bytes_max: usize, shared: &mut Shared) -> Result<(), CloseReason> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        let request_left = self.ws.as_ref().and_then(|ws| ws.request_left());
        let rest = self.unsent_plain.get(self.sealed..).unwrap_or_default();
        let len = request_left.unwrap_or(rest.len()).min(bytes_max);
        let Some(plain) = rest.get(..len).filter(|plain| !plain.is_empty()) else {
            return Ok(());
        };
        if self.unsent_wire.capacity() == 0 {
            self.unsent_wire = shared.buffers.take();
        }
        let (before, unread) = (self.unsent_wire.len(), self.partial_record.len());
        let result = within(Component::TlsRecords, || {
            session.send(plain, &mut self.partial_record, &mut self.unsent_wire)
        });
        shared.kept_bytes -= unread - self.partial_record.len();
        shared.queued_bytes += self.unsent_wire.len() - before;
        result.map_err(|_| CloseReason::Tls)?;
        shared.queued_bytes -= len;
        if let Some(ws) = &mut self.ws {
            ws.wrote(len);
        }
        self.sealed += len;
        if self.sealed == self.unsent_plain.len() {
            shared.buffers.give_back(&mut self.unsent_plain);
            self.sealed = 0;
        } else if self.sealed >= self.unsent_plain.len() / 2 {
            forget_front(&mut self.unsent_plain, self.sealed);
            self.sealed = 0;
        }
        Ok(())
    }

    fn idle_due_ms(&self, config: &NetConfig) -> u64 {
        let silence_ms = if self
            .opened
            .as_ref()
            .is_some_and(|opened| opened.was_for_call)
        {
            config.call_idle_timeout_ms
        } else {
            config.idle_timeout_ms
        };
        self.active_ms.saturating_add(silence_ms)
    }
}

/// Takes from a queue what is done with, and the room that it no longer needs.
fn forget_front(queue: &mut Vec<u8>, len: usize) {
    queue.drain(..len);
    if queue.capacity() > GAP_BYTES.max(4 * queue.len()) {
        queue.shrink_to(2 * queue.len());
    }
}
