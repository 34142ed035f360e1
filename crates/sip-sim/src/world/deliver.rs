//! What the network brings, given to whom it is for.

use super::World;
use crate::audit::is_keepalive;
use crate::network::{Delivery, End};
use crate::server::Arrival;
use sip_msg::Limits;

impl World {
    pub(super) fn deliver(&mut self, delivery: Delivery) {
        let now_ms = self.now_ms;
        let (to, arrival) = match delivery {
            Delivery::Message { to, flow, bytes } => (to, Arrival::Message { flow, bytes }),
            Delivery::SendFailed {
                to,
                cookie,
                failure,
            } => (to, Arrival::SendFailed { cookie, failure }),
            Delivery::Closed { to, conn } => (to, Arrival::Closed(conn)),
            Delivery::Unreachable { to, remote, quoted } => {
                (to, Arrival::Unreachable { remote, quoted })
            }
        };
        let at = match to {
            End::Server(worker) => return self.server.arrive(worker, arrival),
            End::Host(at) => at,
        };
        if let Some(who) = at.checked_sub(self.hosts.len()) {
            return match arrival {
                Arrival::Message { flow, bytes } if self.others.is_none() => {
                    self.carrier_receives(who, flow, &bytes);
                }
                Arrival::Message { bytes, .. } => self.other_receives(who, &bytes),
                Arrival::Closed(conn) => self.other_closed(who, conn),
                Arrival::SendFailed { .. }
                | Arrival::Unreachable { .. }
                | Arrival::Engine { .. } => {}
            };
        }
        let Some(host) = self.hosts.get_mut(at) else {
            return;
        };
        match arrival {
            Arrival::Message { bytes, .. } if is_keepalive(&bytes) => {}
            Arrival::Message { flow, bytes } => {
                let mut message = host.agents.spare_message();
                if message.fill(&bytes, &Limits::default()).is_err() {
                    self.audit
                        .fault(format!("a message does not parse at host {at}"));
                    return;
                }
                host.agents
                    .handle_message(now_ms, &flow, message, &mut self.outbox);
            }
            Arrival::SendFailed { cookie, .. } => {
                host.agents
                    .handle_send_failed(now_ms, cookie, &mut self.outbox);
            }
            Arrival::Closed(conn) => host.agents.handle_closed(now_ms, conn, &mut self.outbox),
            Arrival::Unreachable { .. } | Arrival::Engine { .. } => {}
        }
        self.after_host(at);
    }
}
