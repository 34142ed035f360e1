//! Messages that were not sent, or were lost, and connections that ended.

use std::net::SocketAddr;

use crate::foreign::ForeignSends;
use crate::{Environment, Parcel, Worker};

impl<E: Environment> Worker<E> {
    /// Asks the other workers for the sender of a datagram that came back. An
    /// answer that came back is nobody's concern: strangers who do not wait for
    /// their answers shall cause no letters.
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
            batch.push(Parcel::Unreachable {
                remote,
                quoted: quoted.into(),
            });
        }
    }

    /// Bad news is told after the messages that came before it.
    pub(super) fn take_bad_news(&mut self) {
        for cookie in self.failed.drain(..) {
            if !ForeignSends::is_foreign(cookie) {
                self.parts
                    .shard
                    .handle_send_failed(self.now, cookie, &mut self.outputs);
            } else if let Some((worker, cookie)) = self.foreign.origin(cookie)
                && let Some(batch) = self.batches.get_mut(worker)
            {
                let was_written = false;
                batch.push(Parcel::SendFailed {
                    cookie,
                    was_written,
                });
            }
        }
        for cookie in self.lost.drain(..) {
            if !ForeignSends::is_foreign(cookie) {
                self.parts
                    .shard
                    .handle_send_lost(self.now, cookie, &mut self.outputs);
            } else if let Some((worker, cookie)) = self.foreign.origin(cookie)
                && let Some(batch) = self.batches.get_mut(worker)
            {
                let was_written = true;
                batch.push(Parcel::SendFailed {
                    cookie,
                    was_written,
                });
            }
        }
        for conn in self.ended.drain(..) {
            self.parts
                .shard
                .handle_closed(self.now, conn, &mut self.outputs);
        }
    }
}
