//! What the operator does, and what befalls his server.

use super::{Due, World};
use crate::network::End;
use sip_worker::Phase;
use std::collections::HashSet;

/// What the operator does, or what befalls his server.
pub(super) enum Order {
    Kill,
    Start,
    Reload(u64),
    /// All workers go by these settings by now, unless there are newer ones.
    TakenOver(u64),
    Drain,
    Stop,
}

/// After how long in fair weather all gateways are known to be there.
const GATEWAYS_BACK_MS: u64 = 200_000;
/// How long the workers have to take a reload over.
const TAKEN_OVER_MS: u64 = 100;

impl World {
    pub(super) fn operate(&mut self, order: Order) {
        match order {
            Order::Kill if self.is_over || !self.server.is_up() => {}
            Order::Kill => {
                self.look_at_acknowledged(&HashSet::new());
                self.audit.report.killed += u64::from(self.server.is_busy());
                let unsure = self.server.kill();
                self.audit.server_died(self.network.addr(End::Server(0)));
                let deliveries = self.network.server_dies(self.now_ms);
                self.agenda.retain(|_, due| match due {
                    Due::Network(delivery) => !delivery.is_to_server(),
                    Due::Answer(_) => false,
                    _ => true,
                });
                self.plan_deliveries(deliveries);
                self.unsure = unsure;
                let down_ms = self.dice.between(10, 3_000);
                self.plan_for(self.now_ms + down_ms, Due::Operator(Order::Start));
            }
            Order::Start => {
                self.server.start(self.now_ms);
                self.network.is_up = true;
                let unsure = std::mem::take(&mut self.unsure);
                self.look_at_acknowledged(&unsure);
            }
            Order::Reload(generation) => {
                self.reloaded = generation;
                self.audit.report.reloads += u64::from(self.server.is_busy());
                self.server.reload(generation);
                let at_ms = self.now_ms + TAKEN_OVER_MS;
                self.plan_for(at_ms, Due::Operator(Order::TakenOver(generation)));
            }
            Order::TakenOver(generation)
                if generation == self.reloaded && !self.server.is_taken_over() =>
            {
                self.audit
                    .fault("a worker does not take a reload over".to_owned());
            }
            Order::TakenOver(_) => {}
            Order::Drain if !self.server.is_up() => {
                self.plan_for(self.now_ms + 1_000, Due::Operator(Order::Drain));
            }
            Order::Drain => {
                self.look_at_gateways();
                self.audit.report.drains += u64::from(self.server.is_busy());
                self.server.order(Phase::Draining);
            }
            Order::Stop => {
                self.look_at_bindings();
                self.look_at_acknowledged(&HashSet::new());
                for left in self.server.finish(self.now_ms) {
                    self.audit.fault(left);
                }
                if self.server.accepts() {
                    self.audit.fault("a drained server listens".to_owned());
                }
                self.server.order(Phase::Stop);
            }
        }
    }

    /// Gateways that are probed and have been there for long are in use, where the weather
    /// loses no probe and lets none take too long.
    fn look_at_gateways(&mut self) {
        let is_late = self.now_ms > self.over_ms + GATEWAYS_BACK_MS;
        let weather = self.plan.weather;
        let is_fair = weather.loss == 0 && weather.refusal == 0 && weather.delay_max_ms < 400;
        if self.plan.probes && is_late && is_fair {
            for out in self.server.gateways_out(self.now_ms) {
                self.audit
                    .fault(format!("a gateway that is there is passed over: {out}"));
            }
        }
    }

    /// What users were told is bound is bound. Not looked at are those whose changes
    /// were under way when the server died: they may be done, or not.
    fn look_at_acknowledged(&mut self, unsure: &HashSet<Vec<u8>>) {
        let (_, bindings) = self.server.bindings(self.now_ms);
        self.audit.look_at(self.now_ms, &bindings, unsure);
    }
}
