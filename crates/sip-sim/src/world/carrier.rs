//! The carrier's gateways, and a server of somebody else: they answer, die and return.

use std::net::SocketAddr;

use sip_msg::{ConnId, Flow, Target};

use super::{Due, World};
use crate::gateway::{Gateway, Saying};
use crate::network::{Delivery, End, Health};
use crate::plan::Plan;
use crate::server::{CARRIERS, DOMAIN, carrier, foreign};

/// Their numbers in the network follow those of the hosts.
pub(super) struct Carrier {
    gateways: Vec<Gateway>,
    /// How often each was dead: what it meant to say before is forgotten.
    deaths: Vec<u64>,
}

/// What is due for one of them.
pub(super) enum Act {
    /// It says this, if it has not died since, the way that it was spoken to.
    Say(u64, Flow, String),
    /// It dies or returns.
    Become(Health),
}

/// Where they are; nowhere in a world of the hostile, which has others.
pub(super) fn addrs(plan: &Plan) -> Vec<SocketAddr> {
    match plan.hostility {
        Some(_) => Vec::new(),
        None => (0..CARRIERS).map(carrier).chain([foreign()]).collect(),
    }
}

/// Whom people call out there. In fair weather it is somebody who answers.
pub(super) fn strangers(is_dutiful: bool) -> Vec<String> {
    let mut strangers = vec![
        format!("sip:+4930123@{DOMAIN}"),
        format!("sip:+1900555@{DOMAIN}"),
        "sip:x@far.test".to_owned(),
    ];
    if !is_dutiful {
        let odd = ["mute", "broken", "void", "tls", "no_name"];
        strangers.extend(odd.map(|name| format!("sip:x@{name}.test")));
        strangers.push("sip:x@10.0.5.9".to_owned());
        strangers.push("sip:x@far.test;transport=tcp".to_owned());
    }
    strangers
}

impl Carrier {
    pub(super) fn new(plan: &Plan) -> Self {
        let addrs = addrs(plan);
        Self {
            deaths: vec![0; addrs.len()],
            gateways: addrs
                .into_iter()
                .map(|addr| Gateway::new(plan.seed, addr))
                .collect(),
        }
    }
}

impl World {
    /// Has the gateways listen, and plans their deaths.
    pub(super) fn begin_carrier(&mut self, from_ms: u64, span_ms: u64) {
        for who in 0..self.carrier.gateways.len() {
            let up = Act::Become(Health::Listens);
            self.plan_for(0, Due::Carrier(who, up));
            for _ in 0..self.plan.deaths {
                let at_ms = from_ms + self.dice.below(span_ms);
                let how = match self.dice.below(2) {
                    0 => Health::Refuses,
                    _ => Health::Silent,
                };
                self.plan_for(at_ms, Due::Carrier(who, Act::Become(how)));
                let back_ms = at_ms + self.dice.between(500, 40_000);
                let up = Act::Become(Health::Listens);
                self.plan_for(back_ms, Due::Carrier(who, up));
            }
        }
    }

    /// Something arrives at one of them.
    pub(super) fn carrier_receives(&mut self, who: usize, flow: Flow, bytes: &[u8]) {
        let Some(gateway) = self.carrier.gateways.get_mut(who) else {
            return;
        };
        let life = self.carrier.deaths.get(who).copied().unwrap_or(0);
        let sayings: Vec<Saying> = gateway.handle_message(bytes);
        for (after_ms, text) in sayings {
            let say = Act::Say(life, flow, text);
            self.plan_for(self.now_ms + after_ms, Due::Carrier(who, say));
        }
    }

    pub(super) fn carrier_acts(&mut self, who: usize, act: Act) {
        let at = self.hosts.len() + who;
        match act {
            Act::Become(health) => {
                if health != Health::Listens
                    && let Some(deaths) = self.carrier.deaths.get_mut(who)
                {
                    *deaths += 1;
                    self.audit.report.deaths += 1;
                }
                let deliveries = self.network.set_health(self.now_ms, at, health);
                self.plan_deliveries(deliveries);
            }
            Act::Say(life, flow, text) => {
                if self.carrier.deaths.get(who) != Some(&life) {
                    return;
                }
                let from = End::Host(at);
                let to = Target::back(&flow);
                let addr = self.network.addr(from);
                self.audit
                    .sent(self.now_ms, addr, to.remote, text.as_bytes());
                let sent = self
                    .network
                    .send(self.now_ms, from, &to, 0, text.as_bytes());
                self.plan_sent(sent);
            }
        }
    }

    /// Ends a stream that the server has told to end, or that ended with the call.
    pub(super) fn close(&mut self, conn: ConnId) {
        let deliveries = self.network.break_stream(self.now_ms, conn);
        self.plan_deliveries(deliveries);
    }

    pub(super) fn plan_deliveries(&mut self, deliveries: Vec<(u64, Delivery)>) {
        for (at_ms, delivery) in deliveries {
            self.plan_for(at_ms, Due::Network(delivery));
        }
    }
}
