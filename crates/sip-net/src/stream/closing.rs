//! How a connection ends.

use super::{Conn, State};
use crate::event::CloseReason;
use crate::shared::Shared;

impl Conn {
    /// Begins to close: what is queued is written first, then the notice that
    /// nothing more comes.
    pub(crate) fn begin_to_close(
        &mut self,
        reason: CloseReason,
        shared: &mut Shared,
    ) -> Result<(), CloseReason> {
        match self.state {
            State::Connecting | State::Handshaking => {
                self.close_when_open = true;
                return Ok(());
            }
            State::Open | State::Upgrading => self.reason = reason,
            State::Deaf => {}
            State::Closing | State::Lingering => return Ok(()),
        }
        self.deadline_ms = shared.now_ms.saturating_add(shared.config.linger_ms);
        self.queue_close(shared)?;
        self.seal(shared)?;
        if let Some(session) = &mut self.session {
            let (before, unread) = (self.wire.len(), self.sealed.len());
            // Without it the peer sees a cut, which is all that is lost.
            let _ = session.send_close(&mut self.sealed, &mut self.wire);
            shared.kept_bytes -= unread - self.sealed.len();
            shared.queued_bytes += self.wire.len() - before;
        }
        self.forget_input(shared);
        self.state = State::Closing;
        self.arm(shared);
        self.flush(shared)
    }

    /// Says goodbye as far as the socket takes it at once: the connection is
    /// dropped right after.
    pub(crate) fn say_goodbye(&mut self, shared: &mut Shared) {
        if self.state == State::Open
            && let Some(session) = &mut self.session
        {
            let (before, unread) = (self.wire.len(), self.sealed.len());
            let _ = session.send_close(&mut self.sealed, &mut self.wire);
            shared.kept_bytes -= unread - self.sealed.len();
            shared.queued_bytes += self.wire.len() - before;
            let _ = self.write(shared);
        }
    }

    /// No message is read any more; unless the owner closes first, the
    /// deadline does.
    pub(super) fn turn_deaf(&mut self, reason: CloseReason, deadline_ms: u64) {
        self.state = State::Deaf;
        self.reason = reason;
        self.begun_ms = None;
        self.deadline_ms = deadline_ms;
    }

    /// Everything was written: tells the peer so, and goes on reading until it
    /// closes too, because a socket that is closed with unread bytes in it
    /// resets the connection, and the last answer may be lost with it.
    pub(super) fn begin_to_linger(&mut self, shared: &mut Shared) {
        self.state = State::Lingering;
        if let Some(socket) = &self.socket
            && socket.shutdown(std::net::Shutdown::Write).is_err()
        {
            self.deadline_ms = shared.now_ms;
        }
        self.arm(shared);
    }
}
