//! Overload: what a worker tells its controller, and whom it tells of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use sip_limit::{Controller, Shares, Signals};

use crate::{Environment, Sockets, Worker};

/// How overloaded each worker is, in thousandths of a step. A message that one worker receives may
/// be another's to handle, so the worst counts for all.
pub type Severities = Arc<[AtomicU32]>;

pub(super) struct Overload {
    controller: Controller,
    severities: Severities,
    index: usize,
    shares: Shares,
    /// What the kernel lets through to the sockets.
    offered: Shares,
    /// Whether datagrams are stamped.
    is_timed: bool,
    /// One line is logged when it begins and one when it is over.
    is_told: bool,
}

impl Overload {
    pub(super) fn new(queue_ms_max: u64, severities: Severities, index: usize) -> Self {
        Self {
            controller: Controller::new(queue_ms_max),
            severities,
            index,
            shares: Shares::ALL,
            offered: Shares::ALL,
            is_timed: false,
            is_told: false,
        }
    }

    /// How overloaded this worker is, in thousandths of a step.
    pub(super) fn severity(&self) -> u32 {
        (self.controller.severity() * 1_000.0) as u32
    }
}

impl<E: Environment> Worker<E> {
    /// A turn is over: less is let in, or more, where the controller says so.
    pub(super) fn control_load(&mut self, sockets: &mut E::Sockets) {
        let transactions = self.parts.shard.transaction_counters();
        let signals = Signals {
            is_drained: sockets.is_drained(),
            waiting_ms: sockets.waiting_ms(),
            may_more_wait: sockets.may_more_wait(),
            handled: sockets.messages_in(),
            begun: transactions.server_created,
            pressure: self.parts.shard.memory_pressure() as f32,
        };
        let overload = &mut self.overload;
        let shares = overload.controller.turn(self.now.mono_ms, &signals);
        self.parts.shard.set_brake(overload.controller.brake());
        let Some(shares) = shares else {
            return;
        };
        let wants_times = overload.controller.wants_times();
        if wants_times != overload.is_timed {
            overload.is_timed = wants_times;
            sockets.time_datagrams(wants_times);
        }
        if let Some(own) = overload.severities.get(overload.index) {
            own.store(overload.severity(), Ordering::Relaxed);
        }
        let worst = overload
            .severities
            .iter()
            .map(|severity| severity.load(Ordering::Relaxed))
            .max()
            .unwrap_or(0);
        let shares = shares.min(&Shares::at(worst as f32 / 1_000.0));
        if shares.is_all() && overload.shares.is_all() {
            return;
        }
        overload.shares = shares;
        let offered = shares.offered();
        // To set a filter is work for the kernel: a small difference is the gate's to level.
        if shares.is_all() || !offered.is_about(&overload.offered) {
            sockets.shed((!shares.is_all()).then_some(&offered));
            overload.offered = offered;
        }
        self.parts
            .shard
            .set_loss_percent(100 - shares.new_work.percent());
        self.parts
            .shard
            .set_shares(shares.within(&overload.offered));
        let is_bad = shares.new_work.percent() < 90;
        if is_bad && !overload.is_told {
            overload.is_told = true;
            tracing::warn!(
                worker = overload.index,
                "more arrives than can be handled: a part of new calls and registrations is refused"
            );
        } else if shares.is_all() && overload.is_told {
            overload.is_told = false;
            tracing::info!(worker = overload.index, "all that arrives is handled again");
        }
    }
}
