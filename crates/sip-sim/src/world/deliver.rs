//! What the network brings, given to whom it is for.

use super::World;
use crate::network::{Delivery, End};
use crate::server::now;
use sip_msg::Limits;

impl World {
    pub(super) fn deliver(&mut self, delivery: Delivery) {
        let now_ms = self.now_ms;
        match delivery {
            Delivery::Message {
                to: End::Server(_),
                flow,
                bytes,
            } => {
                match self
                    .server
                    .take_message(now_ms, &flow, &bytes, &mut self.outputs)
                {
                    Some(shard) => self.after_server(shard),
                    None if self.others.is_some() => self.after_server(0),
                    None => self
                        .audit
                        .fault("a message does not parse at the server".to_owned()),
                }
            }
            Delivery::Message {
                to: End::Host(at),
                flow,
                bytes,
            } => {
                if let Some(who) = at.checked_sub(self.hosts.len()) {
                    return self.other_hears(who, &bytes);
                }
                let Some(host) = self.hosts.get_mut(at) else {
                    return;
                };
                let mut message = host.agents.spare_message();
                if message.fill(&bytes, &Limits::default()).is_err() {
                    self.audit
                        .fault(format!("a message does not parse at host {at}"));
                    return;
                }
                host.agents
                    .handle_message(now_ms, &flow, message, &mut self.outbox);
                self.after_host(at);
            }
            Delivery::SendFailed {
                to: End::Server(shard),
                cookie,
            } => {
                if let Some(found) = self.server.shards.get_mut(shard) {
                    found.handle_send_failed(now(now_ms), cookie, &mut self.outputs);
                }
                self.after_server(shard);
            }
            Delivery::SendFailed {
                to: End::Host(at),
                cookie,
            } => {
                if let Some(host) = self.hosts.get_mut(at) {
                    host.agents
                        .handle_send_failed(now_ms, cookie, &mut self.outbox);
                }
                self.after_host(at);
            }
            Delivery::Closed {
                to: End::Server(_),
                conn,
            } => {
                for shard in 0..self.server.shards.len() {
                    if let Some(found) = self.server.shards.get_mut(shard) {
                        found.handle_closed(now(now_ms), conn, &mut self.outputs);
                    }
                    self.after_server(shard);
                }
            }
            Delivery::Closed {
                to: End::Host(at),
                conn,
            } => {
                if let Some(who) = at.checked_sub(self.hosts.len()) {
                    return self.other_closed(who, conn);
                }
                if let Some(host) = self.hosts.get_mut(at) {
                    host.agents.handle_closed(now_ms, conn, &mut self.outbox);
                }
                self.after_host(at);
            }
        }
    }
}
