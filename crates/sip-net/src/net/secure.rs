//! TLS handshakes: read, computed here or by a thread of the pool, written.

use invariant::broken;
use ledger::{Component, enter, within};
use std::io::{self, Read};
use std::net::{IpAddr, Shutdown};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use sip_msg::ConnId;
use sip_tls::{
    Class, Handshake, HandshakeError, HandshakeFailure, QueuedStep, ServerTls, Side, Step, Weight,
};
use socket2::SockRef;

use super::Net;
use super::ready::{self, Ready, register};
use super::turn::TURN_BYTES;
use crate::source::source;
use crate::stream::{Conn, Pending, Stage};
use crate::{CloseReason, NetEvent};

mod end;
mod places;

/// What the handshakes of one turn may cost a worker, in resumptions. What
/// more there is waits for the next turn, or for a thread.
const TURN_COST: u32 = 32;
/// What a full handshake costs, in resumptions, where the worker does it.
const FULL_COST: u32 = 4;
/// Of what has come in one read with the end of a handshake, so much costs as much as a
/// resumption: a turn has room for no more of it than it reads of streams.
const EARLY_BYTES: usize = TURN_BYTES / TURN_COST as usize;
/// Room for what a handshake writes at a time, a chain of usual length in it.
const FLIGHT_BYTES: usize = 4_096;
/// Reads of one socket before the others have their turn.
const READS_MAX: usize = 8;
/// What a step that signs nothing takes at most, mostly. One that takes longer, as for a chain
/// that is verified again, counts as several.
const LIGHT_NS: u64 = 100_000;

/// How a handshake stands after a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StepOutcome {
    /// More must come from the peer.
    Waits,
    /// A thread has it.
    OnThread,
    /// It is over, well or not.
    Over,
}

impl Net {
    /// An accepted socket begins its handshake.
    pub(super) fn begin_server_handshake(
        &mut self,
        id: ConnId,
        mut socket: TcpStream,
        tls: Arc<ServerTls>,
    ) {
        let Some(remote) = self.conns.get(id).map(|conn| conn.flow.remote) else {
            return broken!("a connection whose handshake begins is in the table");
        };
        let source = source(remote.ip());
        self.make_a_place(source);
        if !self.begin_handshake(id, Side::Server(tls), Some(source)) {
            return;
        }
        self.wait_for_client(id);
        if register(self.poll.registry(), &mut socket, id).is_err() {
            self.drop_conn(id, CloseReason::Refused);
        } else if let Some(conn) = self.conns.get_mut(id) {
            conn.socket = Some(socket);
            // What carries messages is kept before it.
            self.conns.used(id, self.shared.now_ms);
        } else {
            broken!("a connection whose handshake has begun is in the table");
        }
    }

    /// A connection that was opened begins its handshake.
    pub(super) fn begin_client_handshake(
        &mut self,
        id: ConnId,
        side: Side,
        on_event: &mut impl FnMut(NetEvent<'_>),
    ) {
        let _handshakes = enter(Component::TlsHandshakes);
        if self.begin_handshake(id, side, None) {
            self.go_on(id, on_event);
        }
    }

    fn begin_handshake(&mut self, id: ConnId, side: Side, source: Option<IpAddr>) -> bool {
        let Some(conn) = self.conns.get_mut(id) else {
            return broken!("a connection whose handshake begins is in the table", false);
        };
        let pool = self.shared.config.handshakes.as_ref();
        let Some((pool, place)) = pool.and_then(|pool| Some((pool, pool.admit(source)?))) else {
            let error = HandshakeError::new(HandshakeFailure::Refused);
            self.handshake_failed(id, error, CloseReason::Refused);
            return false;
        };
        let config = pool.config();
        let wait_ms = match source {
            Some(_) => config.hello_timeout_ms.min(config.timeout_ms),
            None => config.timeout_ms,
        };
        let pending = Pending {
            place,
            begun: Instant::now(),
            handshake: Some(Box::new(Handshake::new(side, conn.flow.remote))),
            queued_step: None,
            is_silent: source.is_some(),
            hello_until_ms: self.shared.now_ms.saturating_add(wait_ms),
            since_ms: None,
            has_said_part: false,
            ends_ms: None,
            thread_since_ms: None,
            readable: false,
            is_deferred: false,
        };
        conn.stage = Stage::Handshaking {
            deadline_ms: pending.hello_until_ms,
            closes: conn.stage.closes_when_open(),
            pending: Some(Box::new(pending)),
        };
        conn.arm(&mut self.shared);
        true
    }

    /// The kernel, or the turn before, says something of a socket whose
    /// handshake is under way.
    pub(super) fn drive_handshake(
        &mut self,
        id: ConnId,
        ready: Ready,
        on_event: &mut impl FnMut(NetEvent<'_>),
    ) {
        let _handshakes = enter(Component::TlsHandshakes);
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        conn.peer_ended |= ready.peer_ended;
        let peer_ended = conn.peer_ended || ready.error;
        let unblocked = ready.writable && conn.unblock();
        let Some(mut pending) = conn.stage.take_pending() else {
            return;
        };
        let mut cut = false;
        match &mut pending.handshake {
            Some(handshake) => {
                cut |= unblocked && conn.write_out(&mut handshake.output).is_err();
                // For a client that went away nothing is computed.
                cut |= peer_ended && !handshake.is_begun();
            }
            None => {
                pending.readable |= ready.readable || peer_ended;
                // Who goes away while waiting gives his place to another.
                cut |= peer_ended
                    && pending
                        .queued_step
                        .as_ref()
                        .is_some_and(QueuedStep::is_waiting);
            }
        }
        let reads = pending.handshake.is_some() && (ready.readable || peer_ended);
        conn.stage.put_pending(pending);
        if cut {
            self.end_handshake(id, HandshakeError::new(HandshakeFailure::Cut));
        } else if reads && self.shared.turn_cost >= TURN_COST {
            self.defer_handshake(id);
        } else if reads {
            self.read_handshake(id, on_event);
        }
    }

    /// Its socket is read as soon as a turn has room for what comes of it.
    fn defer_handshake(&mut self, id: ConnId) {
        if let Some(pending) = self.pending(id)
            && !std::mem::replace(&mut pending.is_deferred, true)
        {
            self.deferred_handshakes.push_back(id);
            if let Some(pool) = &self.shared.config.handshakes {
                pool.count_unread();
            }
        }
    }

    /// Handshakes that the turns before had no room for.
    pub(super) fn drive_deferred_handshakes(&mut self, on_event: &mut impl FnMut(NetEvent<'_>)) {
        while self.shared.turn_cost < TURN_COST
            && let Some(id) = self.deferred_handshakes.pop_front()
        {
            if let Some(pool) = &self.shared.config.handshakes {
                pool.count_read();
            }
            if let Some(pending) = self.pending(id) {
                pending.is_deferred = false;
                self.conns.put_back(id, self.shared.now_ms);
                let _handshakes = enter(Component::TlsHandshakes);
                self.read_handshake(id, on_event);
                self.emit_pending(on_event);
            }
        }
    }

    /// Takes back the handshakes that were with threads.
    pub(super) fn handle_handshakes(&mut self, on_event: &mut impl FnMut(NetEvent<'_>)) {
        while let Ok(handshaken) = self.handshaken.try_recv() {
            let id = handshaken.conn;
            let Some(pending) = self.pending(id) else {
                continue;
            };
            let _handshakes = enter(Component::TlsHandshakes);
            pending.handshake = Some(handshaken.handshake);
            pending.queued_step = None;
            let readable = std::mem::take(&mut pending.readable);
            let has_said_hello = !pending.is_silent;
            self.conns.put_back(id, self.shared.now_ms);
            if has_said_hello && self.conns.get(id).is_some_and(|conn| conn.opened.is_none()) {
                // It had to wait for this side.
                self.conns.used(id, self.shared.now_ms);
            }
            match self.take_step(id, handshaken.result, on_event) {
                StepOutcome::Waits if readable => self.read_handshake(id, on_event),
                StepOutcome::Over if readable => self.read_again(id),
                _ => {}
            }
            self.emit_pending(on_event);
        }
    }

    /// It took too long, unless that is for this side.
    pub(super) fn handshake_timed_out(&mut self, id: ConnId) {
        if !self.waits_to_be_heard(id) {
            self.end_handshake(id, HandshakeError::new(HandshakeFailure::TimedOut));
        }
    }

    fn pending(&mut self, id: ConnId) -> Option<&mut Pending> {
        self.conns.get_mut(id)?.stage.pending()
    }

    /// Reads what came and goes on with it.
    fn read_handshake(&mut self, id: ConnId, on_event: &mut impl FnMut(NetEvent<'_>)) {
        for _ in 0..READS_MAX {
            let Some(conn) = self.conns.get_mut(id) else {
                return;
            };
            let peer_ended = conn.peer_ended;
            let (outcome, waiting) = match (&mut conn.socket, conn.stage.pending()) {
                (Some(socket), Some(pending)) => match &mut pending.handshake {
                    Some(handshake) => {
                        let input = &mut handshake.input;
                        (read(socket, &mut self.shared.scratch, input), input.len())
                    }
                    None => return,
                },
                _ => return,
            };
            conn.count_handshake(waiting, &mut self.shared);
            let more = match outcome {
                ReadOutcome::Bytes { full } => full || peer_ended,
                ReadOutcome::Nothing => return self.wait_for_client(id),
                ReadOutcome::End => {
                    self.end_handshake(id, HandshakeError::new(HandshakeFailure::Cut));
                    return;
                }
            };
            self.relieve_readers();
            match self.go_on(id, on_event) {
                StepOutcome::Waits if more => {}
                StepOutcome::Waits => return,
                StepOutcome::OnThread => {
                    if let Some(pending) = self.pending(id) {
                        pending.readable |= more;
                    }
                    return;
                }
                StepOutcome::Over => {
                    if more {
                        self.read_again(id);
                    }
                    return;
                }
            }
        }
        self.defer_handshake(id);
    }

    /// What has come behind a handshake is read in the next turn, or when its source has its turn.
    fn read_again(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(id)
            && !std::mem::replace(&mut conn.has_unfinished_read, true)
        {
            if conn.opened.is_some() {
                self.unfinished_reads.push(ready::token(id));
            } else {
                conn.leave_unread(0, self.shared.now_ms);
                self.waiting_reads.put(conn);
            }
        }
    }

    /// What the next step of a handshake is, where it needs a turn; or else how it stands.
    fn class_of_step(&mut self, id: ConnId) -> Result<Option<Class>, StepOutcome> {
        let Some(conn) = self.conns.get_mut(id) else {
            return Err(StepOutcome::Over);
        };
        let is_opened = conn.opened.is_some();
        let Some(pending) = conn.stage.pending() else {
            return Err(StepOutcome::Over);
        };
        let Some(handshake) = &mut pending.handshake else {
            return Err(StepOutcome::OnThread);
        };
        let is_begun = handshake.is_begun();
        let class = match is_opened {
            true => None,
            false if is_begun => handshake.class_after_all(),
            false => handshake.class(),
        };
        let has_all = match is_begun {
            true => handshake.has_new_record(),
            false => is_opened || class.is_some(),
        };
        let failure = match &self.shared.config.handshakes {
            None => Some(HandshakeFailure::Refused),
            // Once it is begun a step looks at what it leaves, and here at what makes no step.
            Some(_) if (!is_begun || !has_all) && handshake.says_too_much() => {
                Some(HandshakeFailure::Broken)
            }
            Some(_) => None,
        };
        let is_hello = pending.is_silent && handshake.has_said_hello();
        if let Some(failure) = failure {
            self.end_handshake(id, HandshakeError::new(failure));
            return Err(StepOutcome::Over);
        }
        if !has_all {
            self.wait_for_more(id);
            return Err(StepOutcome::Waits);
        }
        if is_hello {
            self.hear_hello(id);
        }
        Ok(class)
    }

    /// Does the next step of a handshake, or lets a thread do it.
    fn go_on(&mut self, id: ConnId, on_event: &mut impl FnMut(NetEvent<'_>)) -> StepOutcome {
        let now_ms = self.shared.now_ms;
        let mut class = match self.class_of_step(id) {
            Ok(class) => class,
            Err(outcome) => return outcome,
        };
        let Some(conn) = self.conns.get_mut(id) else {
            return broken!("a handshake goes on where it is", StepOutcome::Over);
        };
        let (Some(pending), Some(pool)) = (conn.stage.pending(), &self.shared.config.handshakes)
        else {
            return broken!("a handshake goes on where it is", StepOutcome::Over);
        };
        let Some(mut handshake) = pending.handshake.take() else {
            return broken!("a handshake goes on where it is", StepOutcome::Over);
        };
        loop {
            if let Some(class) = class {
                handshake.begins_as(class);
            }
            let weight = handshake.weight(class);
            let has_room = self.shared.turn_cost < TURN_COST;
            let does_it = match weight {
                Weight::Light => true,
                Weight::Middling => {
                    has_room && !pool.must_wait() && self.handshake_time.is_left(now_ms)
                }
                Weight::Heavy => false,
            };
            if !does_it && !pool.is_without_threads() {
                break;
            }
            if class.is_some() {
                handshake.have_turn();
            }
            if handshake.output.capacity() == 0 {
                handshake.output = self.shared.buffers.take();
                handshake.output.reserve(FLIGHT_BYTES);
            }
            let (result, cpu_ns) = handshake.short_step(class);
            self.shared.turn_cost += if weight == Weight::Light {
                1 + u32::try_from(cpu_ns / LIGHT_NS).unwrap_or(TURN_COST)
            } else {
                self.handshake_time.spend(cpu_ns);
                FULL_COST
            };
            pool.count_cpu(cpu_ns);
            if handshake.is_full_after_all() {
                // Keys were agreed on already.
                self.handshake_time.spend(cpu_ns);
                self.shared.turn_cost += FULL_COST;
                handshake.begin_anew();
                class = Some(Class::Full);
                continue;
            }
            if let Some(class) = class {
                pool.count_begun(class);
            }
            pending.handshake = Some(handshake);
            return self.take_step(id, result, on_event);
        }
        let step = Step {
            conn: id,
            source: source(conn.flow.remote.ip()),
            handshake,
            is_first: class.is_some(),
            reply: Arc::clone(&self.reply),
        };
        match pool.send(step) {
            Ok(away) => {
                pending.queued_step = Some(away);
                conn.stage.wait_for_thread(now_ms, pool.config().timeout_ms);
                StepOutcome::OnThread
            }
            Err(step) => {
                pending.handshake = Some(step.handshake);
                leave_at_once(conn);
                self.end_handshake(id, HandshakeError::new(HandshakeFailure::Refused));
                StepOutcome::Over
            }
        }
    }

    /// Takes what came of a step.
    fn take_step(
        &mut self,
        id: ConnId,
        result: Result<(), HandshakeError>,
        on_event: &mut impl FnMut(NetEvent<'_>),
    ) -> StepOutcome {
        let Some(conn) = self.conns.get_mut(id) else {
            return StepOutcome::Over;
        };
        let is_opened = conn.opened.is_some();
        let Some(mut pending) = conn.stage.take_pending() else {
            return StepOutcome::Over;
        };
        let Some(handshake) = &mut pending.handshake else {
            conn.stage.put_pending(pending);
            return StepOutcome::OnThread;
        };
        // The last flight goes out with the first message, if there is one.
        let written = if result.is_ok() && handshake.established {
            Ok(())
        } else {
            conn.write_out(&mut handshake.output)
        };
        if handshake.output.is_empty() {
            self.shared.buffers.give_back(&mut handshake.output);
        }
        let error = match (result, written) {
            (Err(error), _) if error.failure == HandshakeFailure::Refused => {
                leave_at_once(conn);
                error
            }
            (Err(error), _) => {
                say_farewell(conn, &mut self.shared.scratch);
                error
            }
            (Ok(()), Err(_)) => HandshakeError::new(HandshakeFailure::Cut),
            (Ok(()), Ok(())) if handshake.established => {
                let handshake = pending.handshake.take();
                match handshake.map(|handshake| self.complete(id, &pending, *handshake, on_event)) {
                    Some(Err(error)) => error,
                    _ => return StepOutcome::Over,
                }
            }
            (Ok(()), Ok(())) if handshake.peer_closed => HandshakeError::new(HandshakeFailure::Cut),
            (Ok(()), Ok(())) => {
                conn.count_handshake(handshake.input.len(), &mut self.shared);
                let is_hello = pending.is_silent && handshake.has_said_hello();
                // Until its first hello is heard whole it is silent, too.
                let asks_again =
                    (!pending.is_silent || pending.ends_ms.is_none()) && handshake.asks_again();
                conn.stage.put_pending(pending);
                if is_opened {
                    return StepOutcome::Waits;
                }
                if is_hello || asks_again {
                    self.hear_hello(id);
                }
                if asks_again {
                    self.wait_for_another_hello(id);
                } else {
                    self.wait_for_more(id);
                }
                return StepOutcome::Waits;
            }
        };
        if let Some(conn) = self.conns.get_mut(id) {
            conn.stage.put_pending(pending);
        }
        self.end_handshake(id, error);
        StepOutcome::Over
    }
}

/// What came of a read.
enum ReadOutcome {
    /// As many bytes as there were, or as there was room for.
    Bytes {
        full: bool,
    },
    Nothing,
    End,
}

fn read(socket: &mut TcpStream, scratch: &mut [u8], input: &mut Vec<u8>) -> ReadOutcome {
    loop {
        return match within(Component::Kernel, || socket.read(scratch)) {
            Ok(0) => ReadOutcome::End,
            Ok(len) => {
                input.extend_from_slice(scratch.get(..len).unwrap_or_default());
                ReadOutcome::Bytes {
                    full: len == scratch.len(),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ReadOutcome::Nothing,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => ReadOutcome::End,
        };
    }
}

/// Without a farewell: it is reset.
fn leave_at_once(conn: &Conn) {
    if let Some(socket) = &conn.socket {
        let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
    }
}

/// The alert is written, as far as the socket takes it: a socket that is
/// closed with unread bytes in it resets the connection, and the alert may be
/// lost with it.
fn say_farewell(conn: &mut Conn, scratch: &mut [u8]) {
    let Some(socket) = &mut conn.socket else {
        return;
    };
    let _ = socket.shutdown(Shutdown::Write);
    for _ in 0..READS_MAX {
        if !matches!(socket.read(scratch), Ok(1..)) {
            break;
        }
    }
}

#[cfg(test)]
mod tests;
