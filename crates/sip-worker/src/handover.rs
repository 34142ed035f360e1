//! What goes from one worker to another: messages to the shard that they
//! belong to, and messages to send to the worker that owns the connection.

use invariant::broken;

use crate::mailbox::ENDING_MAX;
use crate::{Environment, Handover, Mailbox, SendFailure, Sockets, Worker};

impl<E: Environment> Worker<E> {
    /// Takes what other workers have given.
    pub(super) fn take_mail(&mut self, sockets: &mut E::Sockets) {
        if self.batches.len() == 1 {
            return;
        }
        let mut mail = std::mem::take(&mut self.mail);
        self.own_mailbox(|mailbox| mailbox.take(&mut mail));
        for handover in mail.drain(..) {
            self.is_dirty = true;
            match handover {
                Handover::Message { sender, message } => {
                    let bytes = message.held_bytes();
                    self.memory.posted -= bytes as i64;
                    self.take_bytes(bytes);
                    self.give(&sender, message);
                }
                Handover::Send {
                    to,
                    bytes,
                    from,
                    cookie,
                } => {
                    sockets.send(&to, &bytes, self.sent_for.cookie(from, cookie));
                    self.trace_out(sockets, &to, &bytes);
                    self.memory.posted -= bytes.capacity() as i64;
                    self.buffers.recycle_buffer(bytes);
                }
                Handover::SendFailed { cookie, failure } => {
                    self.tell_failure(cookie, failure);
                }
                Handover::Closed(conn) => {
                    let (shard, out) = (&mut self.parts.shard, &mut self.outputs);
                    shard.handle_closed(self.now, conn, out);
                }
                Handover::Unreachable { remote, quoted } => {
                    sockets.find_unreachable(remote, &quoted)
                }
                Handover::Connection(conn, act) => act.carry_out(conn, sockets),
            }
        }
        self.mail = mail;
    }

    /// Sends what the shard wants sent, or gives it to the worker that can.
    pub(super) fn send(&mut self, sockets: &mut E::Sockets) {
        let mut outbox = std::mem::take(&mut self.outputs.outbox);
        self.figures.aliases_used += sockets.name_aliases(&mut outbox, self.now.unix_ms / 1_000);
        if self.batches.len() == 1 {
            sockets.send_outbox(&outbox);
            for send in outbox.sends.iter().filter(|_| self.is_traced) {
                if let Some(bytes) = outbox.bytes.get(send.start..send.end) {
                    self.trace_out(sockets, &send.to, bytes);
                }
            }
        } else {
            for send in &outbox.sends {
                let Some(bytes) = outbox.bytes.get(send.start..send.end) else {
                    continue;
                };
                let owner = send.to.conn.worker();
                let is_others = send.to.conn.is_some() && owner != self.parts.index;
                match self.batches.get_mut(owner) {
                    Some(batch) if is_others => {
                        let mut copy = self.buffers.buffer();
                        copy.extend_from_slice(bytes);
                        self.memory.posted += copy.capacity() as i64;
                        batch.push(Handover::Send {
                            to: send.to.clone(),
                            bytes: copy,
                            from: self.parts.index,
                            cookie: send.cookie,
                        });
                    }
                    _ => {
                        sockets.send(&send.to, bytes, send.cookie);
                        self.trace_out(sockets, &send.to, bytes);
                    }
                }
            }
        }
        outbox.clear();
        self.outputs.outbox = outbox;
    }

    /// Gives the batches to their workers. For what finds no room: a message
    /// over UDP is dropped, it comes again; a request over a stream is
    /// answered 503; a final response by a stream waits for the next turn; another message to
    /// send has failed.
    pub(super) fn hand_over(&mut self, sockets: &mut E::Sockets) {
        if self.batches.len() == 1 {
            return;
        }
        for worker in 0..self.batches.len() {
            let (Some(batch), Some(mailbox)) = (
                self.batches.get_mut(worker),
                self.parts.mailboxes.get(worker),
            ) else {
                broken!("each worker has a batch and a mailbox");
                continue;
            };
            self.figures.handed_over += batch.len() as u64;
            mailbox.put(batch);
            if batch.is_empty() {
                continue;
            }
            let mut left = std::mem::take(batch);
            self.figures.handed_over -= left.len() as u64;
            let mut kept = 0;
            let has_no_place = |handover: &mut Handover| {
                let is_kept = kept < ENDING_MAX && handover.is_awaited();
                kept += usize::from(is_kept);
                !is_kept
            };
            let refused: Vec<_> = left.extract_if(.., has_no_place).collect();
            *batch = left;
            for handover in refused {
                self.refuse(handover);
            }
        }
        if !self.outputs.outbox.sends.is_empty() {
            self.keep_refusals();
            self.send(sockets);
        }
    }

    /// What becomes of what another worker has no room for.
    fn refuse(&mut self, handover: Handover) {
        self.figures.handover_refused += 1;
        match handover {
            Handover::Message { sender, message } => {
                self.memory.posted -= message.held_bytes() as i64;
                if message.is_request() {
                    let (now, out) = (self.now, &mut self.outputs);
                    let shard = &mut self.parts.shard;
                    shard.refuse_for_another(now, &sender, message, out);
                }
            }
            Handover::Send { cookie, bytes, .. } => {
                self.memory.posted -= bytes.capacity() as i64;
                self.buffers.recycle_buffer(bytes);
                if cookie != 0 {
                    self.failed.push((cookie, SendFailure::Here));
                }
            }
            // Timers end what these were to end sooner.
            Handover::SendFailed { .. }
            | Handover::Unreachable { .. }
            | Handover::Closed(_)
            | Handover::Connection(..) => {}
        }
    }

    /// Whether something waits here for a worker that has no room for it.
    pub(super) fn waits_for_room(&self) -> bool {
        self.batches.iter().any(|batch| !batch.is_empty())
    }

    /// What is on its way between workers: what waits here for another, and there for this one.
    pub(super) fn handed_over(&self) -> usize {
        let batches = self.batches.iter().map(Vec::len).sum::<usize>();
        let mut waiting = 0;
        self.own_mailbox(|mailbox| waiting = mailbox.waiting());
        batches + waiting
    }

    fn own_mailbox(&self, act: impl FnOnce(&Mailbox<E::Waker>)) {
        if let Some(mailbox) = self.parts.mailboxes.get(self.parts.index) {
            act(mailbox);
        }
    }
}
