//! A WebSocket connection: the upgrade, then a SIP message in each of its
//! messages (RFC 7118).

use super::{Conn, Stage};
use crate::event::{CloseReason, NetEvent};
use crate::shared::{Shared, traffic};
use crate::ws::{
    Item, Opcode, Prefix, Taken, UpgradeRefusal, Upgraded, WebSocket, WebSocketFault,
    message_opcode, upgrade, write_close, write_frame,
};
use invariant::broken;

/// Line ends that keep a connection alive (RFC 5626 3.5.1), and their answer.
const PING: &[u8] = b"\r\n\r\n";
const PONG: &[u8] = b"\r\n";
/// The code of a Close frame of an owner who has had enough (RFC 6455 7.4.1).
const NORMAL: u16 = 1000;

impl Conn {
    /// The connection is up: its upgrade is awaited from now on.
    pub(crate) fn await_upgrade(&mut self, shared: &mut Shared) {
        self.stage = Stage::Upgrading {
            deadline_ms: shared
                .now_ms
                .saturating_add(shared.config.upgrade_timeout_ms),
            scanned: 0,
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
        if self.ws.is_some() {
            // RFC 7118 5.1: each SIP message is one WebSocket message.
            let prefix = Prefix::new(message_opcode(bytes), bytes.len());
            self.queue(prefix.bytes(), 0, shared)?;
        }
        self.queue(bytes, cookie, shared)
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
        self.message_begun_ms = is_amid.then(|| self.message_begun_ms.unwrap_or(shared.now_ms));
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
            match self.take_upgrade(ws, input, payload, shared) {
                Ok(Some(len)) => at = len,
                Ok(None) => return 0,
                Err(()) => return input.len(),
            }
            on_event(NetEvent::Accepted { flow: self.flow });
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
                self.message_begun_ms = None;
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
    ) -> Result<Option<usize>, ()> {
        answer.clear();
        let Stage::Upgrading { scanned, .. } = &mut self.stage else {
            return broken!("an upgrade is read in its stage alone", Ok(Some(0)));
        };
        let (rules, local) = (ws.listener.rules(), self.flow.local.ip());
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
                let mut frame = Vec::new();
                write_frame(Opcode::Text, PONG, None, &mut frame);
                self.queue(&frame, 0, shared)?;
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
                let mut frame = Vec::new();
                write_frame(Opcode::Pong, payload, None, &mut frame);
                self.queue(&frame, 0, shared)?;
            }
            Item::Close(code) => {
                // RFC 6455 5.5.1: "If an endpoint receives a Close frame and did
                // not previously send a Close frame, the endpoint MUST send a
                // Close frame in response." and "it typically echos the status
                // code it received."
                let mut frame = Vec::new();
                match code {
                    Some(code) => write_close(code, "", None, &mut frame),
                    None => write_frame(Opcode::Close, b"", None, &mut frame),
                }
                ws.is_closed = true;
                self.queue(&frame, 0, shared)?;
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
        let mut frame = Vec::new();
        write_close(fault.code(), fault.reason(), None, &mut frame);
        ws.is_closed = true;
        match self.queue(&frame, 0, shared) {
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
        let mut frame = Vec::new();
        write_close(NORMAL, "", None, &mut frame);
        self.queue(&frame, 0, shared)
    }

    /// The peer was silent: pings it, or gives it up where it was pinged before.
    pub(super) fn ping(&mut self, shared: &mut Shared) -> Option<CloseReason> {
        let ws = self.ws.as_mut()?;
        if !ws.ping(shared.now_ms) {
            return Some(CloseReason::Idle);
        }
        shared.counters.websocket.pings_out += 1;
        let mut frame = Vec::new();
        write_frame(Opcode::Ping, b"", None, &mut frame);
        let queued = self.queue(&frame, 0, shared);
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
