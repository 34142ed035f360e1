//! How a run ends: the schedule is over, the last ones have their time, what is left is
//! hung up, and connections are closed.

use std::time::Duration;

use super::orders;
use super::room::CpuTime;
use super::storm::Back;
use super::{NS_PER_MS, Stage, Worker};
use crate::settings::Close;

/// How long a called side waits for the calls that it has to be ended.
const CALLED_DRAIN: Duration = Duration::from_secs(2);
/// How long connections may take to close at the end.
const CLOSING_NS: u64 = 2_000 * NS_PER_MS;
/// How long calls that are hung up at the end may take to be over, in T1: as long as it takes to
/// send a BYE three times, and to answer a challenge to it.
const HANGING_UP_T1: u64 = 4;

/// How long a worker sent, and the CPU time that it took until then.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) elapsed_ns: u64,
    /// How long arrivals were due: until the schedule was over, though the last one may come
    /// long before, or until the run was interrupted.
    pub(crate) due_ns: u64,
    pub(crate) cpu_ns: u64,
}

impl Worker {
    /// The schedule is over, or the run: takes what is to be known of the time until now. What
    /// comes afterwards is waiting for the last ones.
    pub(super) fn end_sending(&mut self, now_ns: u64) {
        let is_running = matches!(self.stage, Stage::Running | Stage::Draining);
        if !is_running || self.sent.is_some() {
            return;
        }
        let [begin, _] = &self.cpu;
        let cpu_ns = CpuTime::of_this_thread().cpu_ns;
        let elapsed_ns = now_ns.saturating_sub(self.start_ns);
        self.sent = Some(Sent {
            elapsed_ns,
            due_ns: match self.order() {
                orders::RUN => elapsed_ns.max(self.ends_ns),
                _ => elapsed_ns,
            },
            cpu_ns: cpu_ns.saturating_sub(begin.cpu_ns),
        });
        // Whoever comes back from the storm has time for it until the end.
        let lost = (self.seats.all())
            .filter(|seat| seat.is_lost && seat.back == Back::Whole)
            .count();
        self.record.upkeep.lost = lost as u64;
    }

    pub(super) fn drain(&mut self, now_ns: u64) {
        self.end_sending(now_ns);
        self.stage = Stage::Draining;
        let settings = &self.shared.settings;
        let is_called_only = self.role.target.is_none();
        let patience = settings.drain_timeout.unwrap_or_else(|| {
            if is_called_only {
                return CALLED_DRAIN;
            }
            // What a call may ring, a transaction for its CANCEL or for the BYE, and what
            // lies between them.
            let transaction = Duration::from_millis(64 * settings.timers.t1_ms);
            settings.hold.longest()
                + settings.answer_timeout.max(transaction)
                + settings.connect_timeout
                + transaction
                + Duration::from_secs(1)
        });
        let patience_ns = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        self.stage_deadline_ns = now_ns.saturating_add(patience_ns);
    }

    /// What is under way now stays unfinished.
    pub(super) fn give_up(&mut self, now_ns: u64) {
        self.end_sending(now_ns);
        // The other side is told: it would ring and talk to nobody.
        self.hang_up_all(now_ns);
        self.give_up_all();
        if self.shared.settings.register_first {
            self.record.upkeep.lost += self.record.storm.missing;
        }
        self.end_ns = now_ns;
        let [_, end] = &mut self.cpu;
        *end = CpuTime::of_this_thread();
        self.stage = Stage::HangingUp;
        let patience_ms = HANGING_UP_T1 * self.shared.settings.timers.t1_ms;
        self.stage_deadline_ns = now_ns.saturating_add(patience_ms * NS_PER_MS);
    }

    /// The same, and nobody is waited for.
    pub(super) fn stop(&mut self, now_ns: u64) {
        self.give_up(now_ns);
        self.close(now_ns);
    }

    /// Connections are closed.
    pub(super) fn close(&mut self, now_ns: u64) {
        self.stage = Stage::Closing;
        self.stage_deadline_ns = now_ns.saturating_add(CLOSING_NS);
        self.send();
        match self.shared.settings.close {
            Close::Clean => self.net.close_all(true),
            Close::Abrupt => {
                for seat in self.seats.all().filter(|seat| seat.conn.is_some()) {
                    self.net.abort(seat.conn);
                }
                self.net.close_all(false);
            }
        }
    }

    /// How long arrivals of this worker were due; 0 for one that calls nobody.
    pub(super) fn sending_ns(&self) -> u64 {
        match (&self.pacer, self.sent) {
            (Some(_), Some(sent)) => sent.due_ns,
            _ => 0,
        }
    }
}
