//! What a stream connection reads: records opened, messages cut.

use invariant::broken;
use ledger::{Component, enter, within};
use std::io::{self, Read};

use mio::net::TcpStream;
use sip_msg::Framed;

use super::{Begun, Conn};
use crate::config::Framing;
use crate::event::{CloseReason, NetEvent};
use crate::shared::{Shared, traffic};

/// An unfinished message up to this long is read on in the shared buffer; a
/// longer one in a buffer of its own, so that bytes which come singly do not
/// cost a copy of all before them.
const CARRY_BYTES: usize = 4_096;

impl Conn {
    /// Reads once and hands on what is whole. Gives whether there may be more.
    pub(crate) fn read(
        &mut self,
        shared: &mut Shared,
        on_event: &mut impl FnMut(NetEvent<'_>),
    ) -> Result<bool, CloseReason> {
        let Some(socket) = &mut self.socket else {
            return Ok(false);
        };
        if !self.stage.is_read() {
            self.backlog = None;
            let len = drain(socket, &mut shared.scratch)?;
            shared.turn_bytes += len.unwrap_or(0);
            return Ok(len.is_some());
        }
        let mut scratch = std::mem::take(&mut shared.scratch);
        let encrypted = self.session.is_some();
        let kept = if encrypted {
            &mut self.partial_record
        } else {
            &mut self.partial_message
        };
        let carried = if kept.len() <= CARRY_BYTES {
            kept.len()
        } else {
            0
        };
        let (front, room) = scratch.split_at_mut(carried);
        let room_len = room.len();
        let mut read = 0;
        let result = match within(Component::Kernel, || socket.read(room)) {
            Ok(0) => Err(CloseReason::Peer),
            Ok(len) => {
                read = len;
                shared.kept_bytes -= kept.len();
                shared.turn_bytes += len;
                traffic(&mut shared.counters, self.flow.transport).bytes_in += len as u64;
                self.active_ms = shared.now_ms;
                self.usefulness.heard(shared.now_ms);
                if let Some(ws) = &mut self.ws {
                    ws.heard(shared.now_ms);
                }
                let more = len == room_len || self.peer_ended;
                if carried == kept.len() {
                    front.copy_from_slice(kept);
                    shared.buffers.give_back(kept);
                    let input = scratch.get_mut(..carried + len).unwrap_or_default();
                    self.take_input(input, encrypted, shared, on_event)
                        .map(|consumed| {
                            self.keep(input.get(consumed..).unwrap_or_default(), encrypted, shared);
                            more
                        })
                } else {
                    let mut input = std::mem::take(kept);
                    input.extend_from_slice(room.get(..len).unwrap_or_default());
                    self.take_input(&mut input, encrypted, shared, on_event)
                        .map(|consumed| {
                            if consumed == 0 {
                                self.keep_whole(input, encrypted, shared);
                            } else {
                                self.keep(
                                    input.get(consumed..).unwrap_or_default(),
                                    encrypted,
                                    shared,
                                );
                            }
                            more
                        })
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(_) => Err(CloseReason::Broken),
        };
        shared.scratch = scratch;
        let more = result?;
        if more {
            self.leave_unread(read, shared.now_ms);
        } else {
            self.backlog = None;
        }
        if encrypted {
            self.note_whole_records();
        }
        self.arm(shared);
        Ok(more)
    }

    /// A record may have come in parts and hold nothing of SIP, like a ticket: once it is whole,
    /// no message is begun.
    fn note_whole_records(&mut self) {
        let is_amid = self.ws.as_ref().is_some_and(|ws| ws.reader.is_amid());
        if self.partial_record.is_empty() && self.partial_message.is_empty() && !is_amid {
            self.message_begun = None;
        }
    }

    /// Takes plaintext that came with the handshake.
    pub(crate) fn take_early(
        &mut self,
        plaintext: &[u8],
        shared: &mut Shared,
        on_event: &mut impl FnMut(NetEvent<'_>),
    ) {
        if !plaintext.is_empty() {
            shared.turn_bytes += plaintext.len();
            self.take_data(plaintext, shared, on_event);
            self.arm(shared);
        }
    }

    /// Takes bytes from the socket; gives how many of them are done with.
    fn take_input(
        &mut self,
        input: &mut [u8],
        encrypted: bool,
        shared: &mut Shared,
        on_event: &mut impl FnMut(NetEvent<'_>),
    ) -> Result<usize, CloseReason> {
        if !encrypted {
            return Ok(self.frame(input, shared, on_event));
        }
        let Some(mut session) = self.session.take() else {
            return broken!("what is encrypted has a session", Ok(input.len()));
        };
        // What it has to say itself; what waits to be written stays where it is counted.
        let mut output = Vec::new();
        let opening = enter(Component::TlsRecords);
        let result = session.receive(input, &mut output, &mut |data| {
            let _core = enter(Component::SipCore);
            self.take_data(data, shared, on_event)
        });
        drop(opening);
        if !output.is_empty() {
            shared.queued_bytes += output.len();
            self.held_until_ms = u64::MAX;
            if self.unsent_wire.capacity() == 0 {
                self.unsent_wire = shared.buffers.take();
            }
            self.unsent_wire.append(&mut output);
        }
        self.session = Some(session);
        match result {
            Ok(progress) if progress.peer_closed => Err(CloseReason::Peer),
            Ok(progress) => Ok(progress.consumed),
            Err(_) => {
                // The alert, as far as the socket takes it.
                let _ = self.write(shared);
                Err(CloseReason::Tls)
            }
        }
    }

    /// Takes plaintext.
    fn take_data(
        &mut self,
        data: &[u8],
        shared: &mut Shared,
        on_event: &mut impl FnMut(NetEvent<'_>),
    ) {
        if self.partial_message.is_empty() {
            let consumed = self.frame(data, shared, on_event);
            self.keep(data.get(consumed..).unwrap_or_default(), false, shared);
        } else {
            let mut input = std::mem::take(&mut self.partial_message);
            shared.kept_bytes -= input.len();
            input.extend_from_slice(data);
            let consumed = self.frame(&input, shared, on_event);
            input.drain(..consumed);
            self.keep_whole(input, false, shared);
        }
    }

    /// Hands on the whole messages at the front; gives their length.
    fn frame(
        &mut self,
        input: &[u8],
        shared: &mut Shared,
        on_event: &mut impl FnMut(NetEvent<'_>),
    ) -> usize {
        if self.ws.is_some() {
            return self.take_websocket(input, shared, on_event);
        }
        if !self.stage.is_open() {
            return input.len();
        }
        let flow = self.flow;
        if self.framing == Framing::Raw {
            if !input.is_empty() {
                traffic(&mut shared.counters, flow.transport).messages_in += 1;
                on_event(NetEvent::Data { flow, bytes: input });
            }
            return input.len();
        }
        let mut at = 0;
        while let Some(rest) = input.get(at..)
            && !rest.is_empty()
        {
            let len = match self.framer.next(rest, &shared.config.limits) {
                Ok(Framed::More) => {
                    let before = self.message_begun.filter(|_| at == 0);
                    self.message_begun = Some(before.unwrap_or(Begun::at(shared.now_ms)));
                    return at;
                }
                Ok(Framed::Message { len }) => {
                    if let Some(bytes) = rest.get(..len) {
                        self.usefulness.carried(bytes, shared.now_ms);
                        traffic(&mut shared.counters, flow.transport).messages_in += 1;
                        on_event(NetEvent::Message { flow, bytes });
                    }
                    len
                }
                Ok(Framed::Ping { len }) => {
                    shared.counters.pings += 1;
                    // RFC 5626 5.4: "When a server receives a double CRLF
                    // sequence between SIP messages on a connection-oriented
                    // transport such as TCP or SCTP, it MUST immediately
                    // respond with a single CRLF over the same connection."
                    if let Err(reason) = self.queue(b"\r\n", 0, shared) {
                        self.stop_reading(reason, shared.now_ms);
                        return input.len();
                    }
                    len
                }
                Ok(Framed::Skip { len }) => len,
                Err(error) => {
                    let deadline_ms = shared.now_ms.saturating_add(shared.config.linger_ms);
                    self.stop_reading(CloseReason::Malformed, deadline_ms);
                    self.usefulness.carried_garbage();
                    let head = rest.get(..error.head_len).unwrap_or(rest);
                    on_event(NetEvent::Malformed { flow, head, error });
                    return input.len();
                }
            };
            // A framer that does not move would be asked for ever.
            at += len.max(1);
        }
        self.message_begun = None;
        input.len()
    }

    /// Keeps the beginning of a message or of a record.
    fn keep(&mut self, rest: &[u8], encrypted: bool, shared: &mut Shared) {
        if rest.is_empty() {
            return;
        }
        let mut buffer = shared.buffers.take();
        buffer.extend_from_slice(rest);
        self.keep_whole(buffer, encrypted, shared);
    }

    pub(super) fn keep_whole(&mut self, mut buffer: Vec<u8>, encrypted: bool, shared: &mut Shared) {
        if buffer.is_empty() {
            shared.buffers.give_back(&mut buffer);
            return;
        }
        shared.kept_bytes += buffer.len();
        if encrypted {
            let begun = self.message_begun;
            self.message_begun = Some(begun.unwrap_or(Begun::at(shared.now_ms)));
            self.partial_record = buffer;
        } else {
            self.partial_message = buffer;
        }
    }

    pub(super) fn forget_input(&mut self, shared: &mut Shared) {
        shared.kept_bytes -= self.partial_message.len() + self.partial_record.len();
        self.count_handshake(0, shared);
        if let Some(ws) = &mut self.ws {
            shared.kept_bytes -= ws.reader.kept_bytes();
            ws.forget_parts();
        }
        shared.buffers.give_back(&mut self.partial_message);
        shared.buffers.give_back(&mut self.partial_record);
    }
}

/// Reads and forgets; gives how much, or `None` where there is nothing more.
fn drain(socket: &mut TcpStream, scratch: &mut [u8]) -> Result<Option<usize>, CloseReason> {
    match socket.read(scratch) {
        Ok(0) => Err(CloseReason::Peer),
        Ok(len) => Ok(Some(len)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Some(0)),
        Err(_) => Err(CloseReason::Broken),
    }
}
