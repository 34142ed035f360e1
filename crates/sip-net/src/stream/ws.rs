//! A WebSocket connection: the upgrade, then a SIP message in each of its
//! messages (RFC 7118).

use super::{Begun, Conn, Stage};
use crate::event::{CloseReason, NetEvent};
use crate::shared::{Shared, traffic};
use crate::ws::{
    Answered, Item, Opcode, OpeningKey, Prefix, Taken, UpgradeFault, UpgradeRefusal, Upgraded,
    WebSocket, WebSocketFault, WebSocketRequest, message_opcode, upgrade, write_close, write_frame,
    write_message,
};
use invariant::broken;

/// Line ends that keep a connection alive (RFC 5626 3.5.1), and their answer.
const PING: &[u8] = b"\r\n\r\n";
const PONG: &[u8] = b"\r\n";
/// The code of a Close frame of an owner who has had enough (RFC 6455 7.4.1).
const NORMAL: u16 = 1000;

impl Conn {
    /// The connection is being opened and is to become a WebSocket: the request comes
    /// before all else that is queued on it.
    pub(crate) fn ask(
        &mut self,
        request: &WebSocketRequest,
        shared: &mut Shared,
    ) -> Result<(), CloseReason> {
        let key = OpeningKey::new(shared.masks.key());
        let mut bytes = Vec::new();
        request.write(&key, &mut bytes);
        let ws = WebSocket::of_client(key, bytes.len(), shared.now_ms);
        self.ws = Some(Box::new(ws));
        self.queue(&bytes, 0, shared)
    }

    /// Whether this side asked for a WebSocket, which is not granted.
    pub(crate) fn is_asking(&self) -> bool {
        self.ws.as_ref().is_some_and(|ws| ws.opening.is_some())
    }

    /// The connection is up: its upgrade is awaited from now on.
    pub(crate) fn await_upgrade(&mut self, shared: &mut Shared) {
        self.stage = Stage::Upgrading {
            deadline_ms: shared
                .now_ms
                .saturating_add(shared.config.upgrade_timeout_ms),
            is_prolonged: false,
            scanned: 0,
            closes: self.opened.is_some() && self.stage.closes_when_open(),
        };
        self.arm(shared);
    }

    /// Appends a message to what is to be written, framed as the connection wants it.
    pub(crate) fn queue_message(
        &mut self,
        bytes: &[u8],
        cookie: u64,
        shared: &mut Shared,
    ) -> Result<(), CloseReason> {
        self.usefulness.carried(bytes, shared.now_ms);
        if self.ws.is_none() {
            return self.queue(bytes, cookie, shared);
        }
        // RFC 7118 5.1: each SIP message is one WebSocket message.
        let Some(mask) = self.mask(shared) else {
            let prefix = Prefix::new(message_opcode(bytes), bytes.len());
            self.queue(prefix.bytes(), 0, shared)?;
            return self.queue(bytes, cookie, shared);
        };
        let mut frame = shared.buffers.take();
        write_message(bytes, Some(mask), &mut frame);
        let queued = self.queue(&frame, cookie, shared);
        shared.buffers.give_back(&mut frame);
        queued
    }

    /// The mask of the next frame: those of a client have one (RFC 6455 5.1).
    fn mask(&self, shared: &mut Shared) -> Option<[u8; 4]> {
        self.opened.is_some().then(|| shared.masks.next())
    }

    /// Queues a frame that is no message of the owner's.
    fn queue_frame(
        &mut self,
        opcode: Opcode,
        payload: &[u8],
        shared: &mut Shared,
    ) -> Result<(), CloseReason> {
        let mut frame = Vec::new();
        write_frame(opcode, payload, self.mask(shared), &mut frame);
        self.queue(&frame, 0, shared)
    }

    /// Queues a Close frame.
    fn queue_code(
        &mut self,
        code: u16,
        reason: &str,
        shared: &mut Shared,
    ) -> Result<(), CloseReason> {
        let mut frame = Vec::new();
        write_close(code, reason, self.mask(shared), &mut frame);
        self.queue(&frame, 0, shared)
    }

    /// Takes what the peer sent; gives how many bytes of it are done with.
    pub(super) fn take_websocket(
        &mut self,
        input: &[u8],
        shared: &mut Shared,
        on_event: &mut impl FnMut(NetEvent<'_>),
    ) -> usize {
        let Some(mut ws) = self.ws.take() else {
            return input.len();
        };
        let kept = ws.reader.kept_bytes();
        let mut payload = shared.buffers.take();
        let consumed = self.take_frames(&mut ws, input, &mut payload, shared, on_event);
        shared.buffers.give_back(&mut payload);
        shared.kept_bytes = shared.kept_bytes - kept + ws.reader.kept_bytes();
        let is_amid = self.stage.is_open() && (consumed < input.len() || ws.reader.is_amid());
        let begun = self.message_begun.unwrap_or(Begun::at(shared.now_ms));
        self.message_begun = is_amid.then_some(begun);
        self.ws = Some(ws);
        consumed
    }

    fn take_frames(
        &mut self,
        ws: &mut WebSocket,
        input: &[u8],
        payload: &mut Vec<u8>,
        shared: &mut Shared,
        on_event: &mut impl FnMut(NetEvent<'_>),
    ) -> usize {
        let mut at = 0;
        if matches!(self.stage, Stage::Upgrading { .. }) {
            let upgraded = if self.opened.is_some() {
                self.take_answer(ws, input, shared, on_event)
            } else {
                self.take_upgrade(ws, input, payload, shared, on_event)
            };
            match upgraded {
                Ok(Some(len)) => at = len,
                Ok(None) => return 0,
                Err(()) => return input.len(),
            }
        }
        while self.stage.is_open()
            && let Some(rest) = input.get(at..)
            && !rest.is_empty()
        {
            let taken = ws
                .reader
                .next(rest, shared.config.limits.message_bytes, payload);
            let (len, item) = match taken {
                Ok(Taken::More) => return at,
                Ok(Taken::Frame { len, item }) => (len, item),
                Err(fault) => {
                    self.fail(ws, fault, shared);
                    break;
                }
            };
            at += len;
            if !ws.reader.is_amid() {
                // The next frame has all its time.
                self.message_begun = None;
            }
            if let Err(reason) = self.take_item(ws, item, payload, shared, on_event) {
                self.stop_reading(reason, shared.now_ms);
            }
        }
        input.len()
    }

    /// The length of the request, once it is there and granted.
    fn take_upgrade(
        &mut self,
        ws: &mut WebSocket,
        input: &[u8],
        answer: &mut Vec<u8>,
        shared: &mut Shared,
        on_event: &mut impl FnMut(NetEvent<'_>),
    ) -> Result<Option<usize>, ()> {
        answer.clear();
        let (Stage::Upgrading { scanned, .. }, Some(listener)) = (&mut self.stage, &ws.listener)
        else {
            return broken!(
                "a listener reads an upgrade in its stage alone",
                Ok(Some(0))
            );
        };
        let (rules, local) = (listener.rules(), self.flow.local.ip());
        let is_secure = self.flow.transport.is_secure();
        let upgraded = upgrade(input, scanned, &rules, is_secure, local, answer);
        if self.queue(answer, 0, shared).is_err() {
            self.stop_reading(CloseReason::SlowReader, shared.now_ms);
            return Err(());
        }
        match upgraded {
            Upgraded::More => Ok(None),
            Upgraded::Done { len } => {
                shared.counters.websocket.upgraded += 1;
                self.open(shared);
                on_event(NetEvent::Accepted { flow: self.flow });
                Ok(Some(len))
            }
            Upgraded::Refused(refusal) => {
                count_refusal(shared, refusal);
                // No frame may go where no WebSocket is.
                ws.is_closed = true;
                self.part(CloseReason::Upgrade, shared);
                Err(())
            }
        }
    }

    /// The length of the answer to our request, once it is there and grants it.
    fn take_answer(
        &mut self,
        ws: &mut WebSocket,
        input: &[u8],
        shared: &mut Shared,
        on_event: &mut impl FnMut(NetEvent<'_>),
    ) -> Result<Option<usize>, ()> {
        let (
            Stage::Upgrading {
                scanned, closes, ..
            },
            Some(opening),
        ) = (&mut self.stage, &ws.opening)
        else {
            return broken!("an answer is read in the stage of its request", Ok(Some(0)));
        };
        let closes = *closes;
        let answered = if opening.request_left > 0 {
            // It cannot know what it was asked.
            Answered::Failed(UpgradeFault::Malformed)
        } else {
            opening.key.read_answer(input, scanned)
        };
        match answered {
            Answered::More => Ok(None),
            Answered::Done { len } => {
                ws.opening = None;
                shared.counters.websocket.upgraded += 1;
                shared.counters.opened += 1;
                self.open(shared);
                on_event(NetEvent::Opened { flow: self.flow });
                if closes {
                    self.part(CloseReason::Asked, shared);
                }
                Ok(Some(len))
            }
            Answered::Failed(fault) => {
                let conn = self.flow.conn;
                on_event(NetEvent::UpgradeFailed { conn, fault });
                self.part(CloseReason::Upgrade, shared);
                Err(())
            }
        }
    }

    fn take_item(
        &mut self,
        ws: &mut WebSocket,
        item: Item,
        payload: &[u8],
        shared: &mut Shared,
        on_event: &mut impl FnMut(NetEvent<'_>),
    ) -> Result<(), CloseReason> {
        let flow = self.flow;
        match item {
            Item::Part | Item::Pong => {}
            // RFC 7118 6: "The indication and use of the CRLF NAT keep-alive
            // mechanism defined for SIP connection-oriented transports in
            // [RFC5626], Section 3.5.1 or [RFC6223] are, of course, usable over
            // the transport defined in this specification."
            Item::Message if payload == PING => {
                shared.counters.pings += 1;
                self.queue_frame(Opcode::Text, PONG, shared)?;
            }
            Item::Message if payload.iter().all(|byte| b"\r\n".contains(byte)) => {}
            Item::Message => {
                self.usefulness.carried(payload, shared.now_ms);
                traffic(&mut shared.counters, flow.transport).messages_in += 1;
                on_event(NetEvent::Message {
                    flow,
                    bytes: payload,
                });
            }
            Item::Ping => {
                shared.counters.websocket.pings_in += 1;
                // RFC 6455 5.5.3: "A Pong frame sent in response to a Ping frame
                // must have identical "Application data" as found in the message
                // body of the Ping frame being replied to."
                self.queue_frame(Opcode::Pong, payload, shared)?;
            }
            Item::Close(code) => {
                // RFC 6455 5.5.1: "If an endpoint receives a Close frame and did
                // not previously send a Close frame, the endpoint MUST send a
                // Close frame in response." and "it typically echos the status
                // code it received."
                ws.is_closed = true;
                match code {
                    Some(code) => self.queue_code(code, "", shared)?,
                    None => self.queue_frame(Opcode::Close, b"", shared)?,
                }
                self.part(CloseReason::Peer, shared);
            }
        }
        Ok(())
    }

    /// What the peer sent makes no sense: tells it so and reads no more.
    fn fail(&mut self, ws: &mut WebSocket, fault: WebSocketFault, shared: &mut Shared) {
        if let Some(count) = shared.counters.websocket.faults.get_mut(fault as usize) {
            *count += 1;
        }
        ws.is_closed = true;
        match self.queue_code(fault.code(), fault.reason(), shared) {
            Ok(()) => self.part(CloseReason::Malformed, shared),
            Err(reason) => self.stop_reading(reason, shared.now_ms),
        }
    }

    /// Queues the Close frame with which this side ends a WebSocket.
    pub(super) fn queue_close(&mut self, shared: &mut Shared) -> Result<(), CloseReason> {
        let Some(ws) = &mut self.ws else {
            return Ok(());
        };
        if std::mem::replace(&mut ws.is_closed, true)
            || matches!(self.stage, Stage::Upgrading { .. })
        {
            return Ok(());
        }
        self.queue_code(NORMAL, "", shared)
    }

    /// The peer was silent: pings it, or gives it up where it was pinged before. Not while
    /// something of it waits for its turn to be read: that may be the answer.
    pub(super) fn ping(&mut self, shared: &mut Shared) -> Option<CloseReason> {
        let ws = self.ws.as_mut()?;
        if self.has_unfinished_read {
            ws.heard(shared.now_ms);
            self.arm(shared);
            return None;
        }
        if !ws.ping(shared.now_ms) {
            return Some(CloseReason::Idle);
        }
        shared.counters.websocket.pings_out += 1;
        let queued = self.queue_frame(Opcode::Ping, b"", shared);
        self.arm(shared);
        queued.err()
    }
}

fn count_refusal(shared: &mut Shared, refusal: UpgradeRefusal) {
    let refused = &mut shared.counters.websocket.refused;
    if let Some(count) = refused.get_mut(refusal as usize) {
        *count += 1;
    }
}
