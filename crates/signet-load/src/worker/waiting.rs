//! Messages whose connection is being opened. They count as sent when it is up.

use std::collections::HashMap;

use sip_msg::ConnId;

use super::{Unsent, Worker};
use crate::settings::Lifetime;

/// By the connection that they wait for. Each is of a job under way, and each connection that is
/// opened comes up or ends.
#[derive(Default)]
pub(super) struct Waiting(HashMap<u64, Vec<Unsent>>);

impl Waiting {
    pub(super) fn add(&mut self, conn: ConnId, what: Unsent) {
        self.0.entry(conn.0).or_default().push(what);
    }

    /// The connection is up, or gone.
    pub(super) fn take(&mut self, conn: ConnId) -> Vec<Unsent> {
        self.0.remove(&conn.0).unwrap_or_default()
    }
}

impl Worker {
    /// Notes when a message was written; gives whose it is.
    pub(super) fn mark_sent(&mut self, what: Unsent, at_ns: u64) -> Option<u32> {
        match what {
            Unsent::Invite(call) => {
                let slot = self.jobs.call(call)?;
                if slot.answered_ns == 0 {
                    slot.sent_ns = at_ns;
                }
                Some(slot.seat)
            }
            Unsent::Bye(call) => {
                let slot = self.jobs.call(call)?;
                slot.bye_sent_ns = at_ns;
                Some(slot.seat)
            }
            Unsent::Request(request) => {
                let slot = self.jobs.request(request)?;
                slot.sent_ns = at_ns;
                Some(slot.seat)
            }
        }
    }

    /// The connection of a seat, while it is being opened.
    pub(super) fn opening(&self, number: u32) -> Option<ConnId> {
        if self.shared.settings.lifetime == Lifetime::One {
            return (self.shared_since_ns > 0).then_some(self.shared_conn);
        }
        let seat = self.seats.at(number)?;
        (seat.opening_since_ns > 0).then_some(seat.conn)
    }
}
