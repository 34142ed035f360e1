//! A storm: all agents of a worker break their connections off at once and
//! open them anew, as the phones of a site do whose line comes back.

use invariant::broken;

use crate::cause::CUT;
use crate::clock::to_ms;

use super::connections::REOPEN_MS;
use super::{Due, Input, Stage, Worker};

/// How far a seat is back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Back {
    /// It has lost nothing, or is wholly back.
    #[default]
    Whole,
    /// Its connection is missing.
    Unconnected,
    /// Its connection is up, its registration not yet renewed.
    Unregistered,
}

/// What came of a storm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StormCounts {
    /// Connections broken off.
    pub dropped: u64,
    /// Of these, back by a resumed handshake.
    pub resumed: u64,
    /// Back by a full handshake, or without TLS.
    pub full: u64,
    /// Tries to open a connection that failed; each was made again.
    pub tries_failed: u64,
    /// Registered anew.
    pub registered: u64,
    /// Not back: without a connection or, where they are to register, not registered anew.
    pub missing: u64,
    /// From the storm until the last connection was up, in milliseconds.
    pub connected_last_ms: u64,
    /// From the storm until the last agent was registered, in milliseconds.
    pub registered_last_ms: u64,
}

impl StormCounts {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.dropped += other.dropped;
        self.resumed += other.resumed;
        self.full += other.full;
        self.tries_failed += other.tries_failed;
        self.registered += other.registered;
        self.missing += other.missing;
        self.connected_last_ms = self.connected_last_ms.max(other.connected_last_ms);
        self.registered_last_ms = self.registered_last_ms.max(other.registered_last_ms);
    }

    /// The counts by name, for the result.
    pub(crate) const fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("storm_dropped", self.dropped),
            ("storm_resumed", self.resumed),
            ("storm_full", self.full),
            ("storm_tries_failed", self.tries_failed),
            ("storm_registered", self.registered),
            ("storm_missing", self.missing),
            ("storm_connected_last_ms", self.connected_last_ms),
            ("storm_registered_last_ms", self.registered_last_ms),
        ]
    }
}

impl Worker {
    /// The run has begun: when the storm is to come.
    pub(super) fn plan_storm(&mut self) {
        if let Some(at) = self.shared.settings.storm_at {
            let at_ms = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
            let due_ms = to_ms(self.start_ns).saturating_add(at_ms);
            self.agenda.start(due_ms, Due::Storm);
        }
    }

    /// Whether the storm is still to come: the last arrival may begin long before.
    pub(super) fn awaits_storm(&self) -> bool {
        self.shared.settings.storm_at.is_some() && self.storm_ns == 0
    }

    /// Whether a seat's connection is opened again and its registration renewed: until all that
    /// was due has begun and, where the storm has cut it off, until it is back.
    pub(super) fn is_kept_up(&self, number: u32) -> bool {
        match self.stage {
            Stage::SetUp | Stage::Waiting | Stage::Running => true,
            Stage::Draining => self.back(number) != Back::Whole,
            Stage::HangingUp | Stage::Closing => false,
        }
    }

    /// Breaks off every agent's connection, then asks for new ones.
    pub(super) fn storm(&mut self, now_ns: u64) {
        self.storm_ns = now_ns;
        let mut missing = Vec::new();
        for number in 0..u32::try_from(self.seats.len()).unwrap_or(u32::MAX) {
            let Some(conn) = self.seats.at(number).map(|seat| seat.conn) else {
                broken!("seats are never taken away");
                continue;
            };
            // Whoever could not be brought up does not come back either.
            if !conn.is_some() || !self.seats.is_ready(number) {
                continue;
            }
            self.net.abort(conn);
            self.seats.lose_conn(conn);
            self.waiting.take(conn);
            self.mark(number, Back::Unconnected);
            // What waits for an answer on it waits in vain; whoever has another connection by the
            // time at which its end is told would not hear of it.
            self.agents
                .handle_closed(to_ms(now_ns), conn, &mut self.outbox);
            missing.push(number);
        }
        self.record.storm.dropped += missing.len() as u64;
        // Before anything begins: it would take the number of what has ended.
        while let Some(event) = self.agents.poll_event() {
            self.handle(Input::Sip {
                at_ns: now_ns,
                event,
                why: Some(CUT),
            });
        }
        for number in missing {
            if self.connect(number, now_ns).is_err() {
                self.record.storm.tries_failed += 1;
                let due_ms = to_ms(now_ns) + REOPEN_MS;
                self.agenda.start(due_ms, Due::Reopen(number));
            }
        }
    }

    /// A try to open a seat's connection failed.
    pub(super) fn storm_try_failed(&mut self, number: u32) {
        if self.back(number) == Back::Unconnected {
            self.record.storm.tries_failed += 1;
        }
    }

    /// A seat's connection is up.
    pub(super) fn storm_connected(&mut self, number: u32, is_resumed: bool, at_ns: u64) {
        // What is missing has been counted by the time at which calls are hung up.
        let is_counted = matches!(self.stage, Stage::HangingUp | Stage::Closing);
        if is_counted || self.back(number) != Back::Unconnected {
            return;
        }
        let storm = &mut self.record.storm;
        if is_resumed {
            storm.resumed += 1;
        } else {
            storm.full += 1;
        }
        storm.connected_last_ms = to_ms(at_ns.saturating_sub(self.storm_ns));
        let is_to_register = self.shared.settings.register_first;
        self.mark(
            number,
            if is_to_register {
                Back::Unregistered
            } else {
                Back::Whole
            },
        );
    }

    /// A seat's registration was renewed.
    pub(super) fn storm_registered(&mut self, number: u32, at_ns: u64) {
        if self.back(number) == Back::Unregistered {
            self.record.storm.registered += 1;
            self.record.storm.registered_last_ms = to_ms(at_ns.saturating_sub(self.storm_ns));
            self.mark(number, Back::Whole);
        }
    }

    fn back(&self, number: u32) -> Back {
        self.seats.at(number).map_or(Back::Whole, |seat| seat.back)
    }

    fn mark(&mut self, number: u32, back: Back) {
        let Some(seat) = self.seats.at_mut(number) else {
            return broken!("seats are never taken away");
        };
        let before = std::mem::replace(&mut seat.back, back);
        let missing = &mut self.record.storm.missing;
        match (before == Back::Whole, back == Back::Whole) {
            (true, false) => *missing += 1,
            (false, true) => *missing -= 1,
            _ => {}
        }
    }
}
