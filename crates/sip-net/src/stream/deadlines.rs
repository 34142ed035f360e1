//! How long a connection may stay as it is.

use wheel::TimerId;

use super::{Conn, Stage};
use crate::config::NetConfig;
use crate::event::CloseReason;
use crate::shared::{Due, Shared};

/// A message that is not whole yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    at_ms: u64,
    /// Whether its time has begun anew.
    is_prolonged: bool,
}

impl Begun {
    pub(super) const fn at(now_ms: u64) -> Self {
        Self {
            at_ms: now_ms,
            is_prolonged: false,
        }
    }

    fn due_ms(self, config: &NetConfig) -> u64 {
        self.at_ms.saturating_add(config.message_timeout_ms)
    }
}

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
        if self.has_unfinished_read && self.wait_for_turn(shared) {
            self.arm(shared);
            return None;
        }
        Some(match self.stage {
            Stage::Open if self.ends_ms <= shared.now_ms => CloseReason::Certificate,
            Stage::Connecting { .. } => CloseReason::ConnectTimeout,
            Stage::Handshaking { .. } => CloseReason::Handshake,
            Stage::Upgrading { .. } => CloseReason::Upgrade,
            Stage::Open if self.message_due_ms(&shared.config) <= shared.now_ms => {
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
        idle.min(self.message_due_ms(config))
            .min(ping)
            .min(self.ends_ms)
            .min(self.held_until_ms)
    }
    fn message_due_ms(&self, config: &NetConfig) -> u64 {
        let begun = self.message_begun;
        begun.map_or(u64::MAX, |begun| begun.due_ms(config))
    }

    /// The time of an upgrade or of a message may be over, and more has come that has not had its
    /// turn: then it begins anew, once. Else whoever has said all in time is closed because this
    /// side is busy with others.
    fn wait_for_turn(&mut self, shared: &Shared) -> bool {
        let (now_ms, config) = (shared.now_ms, &shared.config);
        match (&mut self.stage, &mut self.message_begun) {
            (
                Stage::Upgrading {
                    deadline_ms,
                    is_prolonged: is_prolonged @ false,
                    ..
                },
                _,
            ) => {
                *deadline_ms = now_ms.saturating_add(config.upgrade_timeout_ms);
                *is_prolonged = true;
                true
            }
            (Stage::Open, Some(begun)) if begun.due_ms(config) <= now_ms && !begun.is_prolonged => {
                *begun = Begun {
                    at_ms: now_ms,
                    is_prolonged: true,
                };
                true
            }
            _ => false,
        }
    }
}
