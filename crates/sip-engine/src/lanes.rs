//! Which of several connections to a neighbour a request takes, and when the
//! connections of a single call may be closed.

use std::hash::Hasher;
use std::net::SocketAddr;

use hashbrown::HashMap;
use sip_msg::{Lane, Message, Method, Transport};
use siphasher::sip::SipHasher13;

use crate::routes::{Connections, Routes};
use crate::settings::Settings;

/// Addresses of neighbours that are remembered, at most so many. One that is
/// not is reached over the connection that all share.
const NEIGHBOURS_MAX: usize = 4_096;

/// What was configured for the neighbours, by the addresses at which they were
/// reached: within a dialog a request goes to an address, not to a route.
pub(crate) struct Lanes {
    key: [u8; 16],
    neighbours: HashMap<(Transport, SocketAddr), Known>,
    /// Whether any call has connections of its own, or may have them from before a reload.
    has_per_call: bool,
}

/// What is known of a neighbour.
#[derive(Clone, Copy)]
struct Known {
    connections: Connections,
    /// Whether that is from before the last reload: then it counts only for calls that go on.
    is_of_before: bool,
}

impl Lanes {
    pub(crate) fn new(key: [u8; 16], settings: &Settings) -> Self {
        Self {
            key,
            neighbours: HashMap::new(),
            has_per_call: has_per_call(settings),
        }
    }

    /// Takes new settings over. What was learned stays, so that calls that go on stay on their
    /// connections; a new one overwrites it, or goes by none of it. Only a table that is full
    /// begins anew: addresses that are gone would keep others out of it for ever.
    pub(crate) fn reload(&mut self, settings: &Settings) {
        if self.neighbours.len() >= NEIGHBOURS_MAX {
            self.neighbours.clear();
        }
        for known in self.neighbours.values_mut() {
            known.is_of_before = true;
        }
        let goes_on = |known: &Known| known.connections == Connections::PerCall;
        self.has_per_call = has_per_call(settings) || self.neighbours.values().any(goes_on);
    }

    /// The lane of a request to `addr`. `configured` is what the next hop's
    /// configuration says, where the request takes one.
    pub(crate) fn lane(
        &mut self,
        transport: Transport,
        addr: SocketAddr,
        configured: Option<Connections>,
        request: Option<&Message>,
    ) -> Lane {
        if !transport.is_reliable() {
            return Lane::Shared;
        }
        let connections = match configured {
            Some(connections) => {
                self.learn(transport, addr, connections);
                connections
            }
            None if self.neighbours.is_empty() => return Lane::Shared,
            None => match self.neighbours.get(&(transport, addr)) {
                Some(known) if !known.is_of_before || request.is_some_and(goes_on) => {
                    known.connections
                }
                _ => return Lane::Shared,
            },
        };
        let Some(request) = request else {
            return Lane::Shared;
        };
        match connections {
            Connections::Kept(count) if count.get() == 1 => Lane::Shared,
            Connections::Kept(count) => {
                // Below 256, since the count is.
                Lane::Nth((self.call_of(request) % u64::from(count.get())) as u8)
            }
            Connections::PerCall if request.method() == Method::Invite && begins(request) => {
                Lane::Call(self.call_of(request))
            }
            Connections::PerCall => Lane::OfCall(self.call_of(request)),
        }
    }

    /// The number of the call whose own connections may be closed, where
    /// `status` is the final answer to `request` and no call is left after it.
    pub(crate) fn ended_call(&self, request: &Message, status: u16) -> Option<u64> {
        if !self.has_per_call {
            return None;
        }
        let is_over = match request.method() {
            Method::Invite => status >= 300 && begins(request),
            // After a challenge it comes again.
            Method::Bye => !matches!(status, 401 | 407),
            _ => false,
        };
        is_over.then(|| self.call_of(request))
    }

    fn call_of(&self, message: &Message) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write(message.call_id());
        hasher.finish()
    }

    fn learn(&mut self, transport: Transport, addr: SocketAddr, connections: Connections) {
        let is_usual = connections == Connections::default();
        if is_usual && self.neighbours.is_empty() {
            return;
        }
        let place = (transport, addr);
        if is_usual {
            self.neighbours.remove(&place);
        } else if self.neighbours.len() < NEIGHBOURS_MAX || self.neighbours.contains_key(&place) {
            let known = Known {
                connections,
                is_of_before: false,
            };
            self.neighbours.insert(place, known);
        }
    }
}

/// Whether a request is about one before it.
fn goes_on(request: &Message) -> bool {
    !begins(request) || request.method() == Method::Cancel
}

/// Whether a request is outside of any dialog.
fn begins(request: &Message) -> bool {
    request.to_tag().is_none()
}

fn has_per_call(settings: &Settings) -> bool {
    let Routes { groups, .. } = &settings.routes;
    let hops = groups
        .iter()
        .flat_map(|group| &group.gateways)
        .map(|gateway| &gateway.next_hop)
        .chain(&settings.forward);
    hops.into_iter()
        .any(|hop| hop.connections == Connections::PerCall)
}

#[cfg(test)]
mod tests;
