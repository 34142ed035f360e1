//! Messages that were not sent, or were lost, and connections that ended.

use std::net::SocketAddr;

use crate::sent_for::SentFor;
use crate::{Environment, Handover, SendFailure, Worker, worker_bit};

impl<E: Environment> Worker<E> {
    /// Asks the other workers for the sender of a datagram that came back. An
    /// answer that came back is nobody's concern: strangers who do not wait for
    /// their answers shall cause no mail.
    pub(super) fn pass_on_unreachable(&mut self, remote: SocketAddr, quoted: &[u8]) {
        if quoted.starts_with(b"SIP/2.0 ") {
            return;
        }
        let own = self.parts.index;
        for (_, batch) in self
            .batches
            .iter_mut()
            .enumerate()
            .filter(|(n, _)| *n != own)
        {
            batch.push(Handover::Unreachable {
                remote,
                quoted: quoted.into(),
            });
        }
    }

    /// Failures are told after the messages that came before them.
    pub(super) fn tell_failures(&mut self) {
        let mut failed = std::mem::take(&mut self.failed);
        for (cookie, failure) in failed.drain(..) {
            if !SentFor::is_one(cookie) {
                self.tell_failure(cookie, failure);
            } else if let Some((worker, cookie)) = self.sent_for.origin(cookie)
                && let Some(batch) = self.batches.get_mut(worker)
            {
                batch.push(Handover::SendFailed { cookie, failure });
            }
        }
        self.failed = failed;
        // Datagrams are sent by the worker whose shard wants it: none has a cookie of another.
        for cookie in std::mem::take(&mut self.returned) {
            let (now, out) = (self.now, &mut self.outputs);
            self.parts.shard.handle_returned(now, cookie, out);
        }
        for conn in self.ended.drain(..) {
            // A dialog of another shard may name it.
            let users = self.conn_users.remove(&conn).unwrap_or(0);
            let batches = self.batches.iter_mut().enumerate();
            for (_, batch) in batches.filter(|(n, _)| users & worker_bit(*n) != 0) {
                batch.push(Handover::Closed(conn));
            }
            self.parts
                .shard
                .handle_closed(self.now, conn, &mut self.outputs);
        }
    }
    /// A message that this worker's shard had sent has failed.
    pub(super) fn tell_failure(&mut self, cookie: u64, failure: SendFailure) {
        let (shard, out) = (&mut self.parts.shard, &mut self.outputs);
        match failure {
            SendFailure::Here => shard.handle_unsent(self.now, cookie, out),
            SendFailure::There => shard.handle_send_failed(self.now, cookie, out),
            SendFailure::Lost => shard.handle_send_lost(self.now, cookie, out),
        }
    }
}
