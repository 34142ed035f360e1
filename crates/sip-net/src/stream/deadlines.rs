//! How long a connection may stay as it is.

use wheel::TimerId;

use super::{Conn, Stage};
use crate::config::NetConfig;
use crate::event::CloseReason;
use crate::shared::{Due, Shared};

impl Conn {
    /// The deadline was reached, or an earlier one that has moved since: gives
    /// the reason to close, or starts the timer anew.
    pub(crate) fn handle_timer(&mut self, shared: &mut Shared) -> Option<CloseReason> {
        self.timer = TimerId::NONE;
        self.timer_ms = u64::MAX;
        if shared.now_ms < self.deadline(&shared.config) {
            self.arm(shared);
            return None;
        }
        if self.held_until_ms <= shared.now_ms {
            self.held_until_ms = u64::MAX;
            self.arm(shared);
            return None;
        }
        Some(match self.stage {
            Stage::Open if self.ends_ms <= shared.now_ms => CloseReason::Certificate,
            Stage::Connecting { .. } => CloseReason::ConnectTimeout,
            Stage::Handshaking { .. } => CloseReason::Handshake,
            Stage::Upgrading { .. } => CloseReason::Upgrade,
            Stage::Open
                if self.message_begun_ms.is_some_and(|begun| {
                    begun.saturating_add(shared.config.message_timeout_ms) <= shared.now_ms
                }) =>
            {
                CloseReason::MessageTimeout
            }
            Stage::Open if self.idle_due_ms(&shared.config) > shared.now_ms => {
                return self.ping(shared);
            }
            Stage::Open => CloseReason::Idle,
            Stage::Closing { reason, .. } => reason,
        })
    }

    /// Starts the timer, unless one runs that ends before the deadline.
    pub(crate) fn arm(&mut self, shared: &mut Shared) {
        // Deadlines move with every message; the timer does not: it finds out
        // when it fires.
        let deadline = self.deadline(&shared.config);
        if deadline < self.timer_ms {
            shared.wheel.cancel(self.timer);
            self.timer = shared.wheel.start(deadline, Due::Conn(self.flow.conn));
            self.timer_ms = deadline;
        }
    }

    pub(super) fn deadline(&self, config: &NetConfig) -> u64 {
        match self.stage {
            Stage::Open => {}
            Stage::Connecting { deadline_ms, .. }
            | Stage::Handshaking { deadline_ms, .. }
            | Stage::Upgrading { deadline_ms, .. }
            | Stage::Closing { deadline_ms, .. } => return deadline_ms,
        }
        let idle = self.idle_due_ms(config);
        let ping = self
            .ws
            .as_ref()
            .map_or(u64::MAX, |ws| ws.ping_due_ms(config.websocket_ping_ms));
        let message = self.message_begun_ms.map_or(u64::MAX, |begun| {
            begun.saturating_add(config.message_timeout_ms)
        });
        idle.min(message)
            .min(ping)
            .min(self.ends_ms)
            .min(self.held_until_ms)
    }
}
