//! Messages that were not sent, or were lost, and connections that ended.

use super::foreign::ForeignSends;
use super::{Core, Parcel};

impl Core {
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
