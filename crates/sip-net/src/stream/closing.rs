//! How a connection ends.

use std::net::Shutdown;

use ledger::{Component, within};

use super::{Conn, Ending, Stage};
use crate::event::CloseReason;
use crate::shared::Shared;

impl Conn {
    /// Begins to close: what is queued is written first, then the notice that
    /// nothing more comes. Where reading has stopped, requests that came before
    /// are answered first, until the deadline.
    pub(crate) fn begin_to_close(
        &mut self,
        reason: CloseReason,
        shared: &mut Shared,
    ) -> Result<(), CloseReason> {
        let reason = match &mut self.stage {
            Stage::Connecting { closes, .. } | Stage::Handshaking { closes, .. } => {
                *closes = true;
                return Ok(());
            }
            // What waits for the answer to our request is written when it has come.
            Stage::Upgrading { closes, .. } if self.opened.is_some() => {
                *closes = true;
                return Ok(());
            }
            Stage::Open | Stage::Upgrading { .. } => reason,
            Stage::Closing { reason, ending, .. } => match ending {
                Ending::ReadStopped if self.usefulness.unanswered > 0 => {
                    *ending = Ending::Answering;
                    return Ok(());
                }
                Ending::ReadStopped | Ending::Answering | Ending::LastWord => *reason,
                Ending::Writing | Ending::Lingering => return Ok(()),
            },
        };
        self.queue_close(shared)?;
        self.seal(usize::MAX, shared)?;
        if let Some(session) = &mut self.session {
            let (before, unread) = (self.unsent_wire.len(), self.partial_record.len());
            // Without it the peer sees a cut, which is all that is lost.
            let _ = within(Component::TlsRecords, || {
                session.send_close(&mut self.partial_record, &mut self.unsent_wire)
            });
            shared.kept_bytes -= unread - self.partial_record.len();
            shared.queued_bytes += self.unsent_wire.len() - before;
        }
        self.forget_input(shared);
        self.stage = Stage::Closing {
            deadline_ms: shared.now_ms.saturating_add(shared.config.linger_ms),
            reason,
            ending: Ending::Writing,
        };
        self.arm(shared);
        self.flush(shared)
    }

    /// Says goodbye as far as the socket takes it at once: the connection is
    /// dropped right after.
    pub(crate) fn say_goodbye(&mut self, shared: &mut Shared) {
        if self.stage.is_open()
            && let Some(session) = &mut self.session
        {
            let (before, unread) = (self.unsent_wire.len(), self.partial_record.len());
            let _ = session.send_close(&mut self.partial_record, &mut self.unsent_wire);
            shared.kept_bytes -= unread - self.partial_record.len();
            shared.queued_bytes += self.unsent_wire.len() - before;
            let _ = self.write(shared);
        }
    }

    /// No message is read any more; unless the owner closes first, the
    /// deadline does.
    pub(super) fn stop_reading(&mut self, reason: CloseReason, deadline_ms: u64) {
        self.message_begun = None;
        self.stage = Stage::Closing {
            deadline_ms,
            reason,
            ending: Ending::ReadStopped,
        };
    }

    /// The last word is queued: the connection is closed behind it.
    pub(super) fn part(&mut self, reason: CloseReason, shared: &Shared) {
        self.message_begun = None;
        self.stage = Stage::Closing {
            deadline_ms: shared.now_ms.saturating_add(shared.config.linger_ms),
            reason,
            ending: Ending::LastWord,
        };
    }

    /// Everything was written: tells the peer so, and goes on reading until it
    /// closes too, because a socket that is closed with unread bytes in it
    /// resets the connection, and the last answer may be lost with it.
    pub(super) fn begin_to_linger(&mut self, shared: &mut Shared) {
        let socket = self.socket.as_ref();
        let is_over = socket.is_some_and(|socket| {
            within(Component::Kernel, || socket.shutdown(Shutdown::Write)).is_err()
        });
        if let Stage::Closing {
            deadline_ms,
            ending,
            ..
        } = &mut self.stage
        {
            *ending = Ending::Lingering;
            if is_over {
                *deadline_ms = shared.now_ms;
            }
        }
        self.arm(shared);
    }
}
