//! Those in a world who are no honest phones: the gateway, and the hostile.

use super::{Due, World};
use crate::gateway::{Gateway, Saying};
use crate::hostile::Villain;
use crate::network::End;
use crate::plan::Plan;
use crate::server::DOMAIN;
use crate::warden::{EVIL, MALLORY, Places, Warden};
use sip_msg::{ConnId, ListenerId, Target, Transport};
use std::net::SocketAddr;

/// Calls that the gateway makes.
const GATEWAY_CALLS: u64 = 4;

/// Everybody beside the honest hosts. Their numbers in the network follow those of the hosts.
pub(super) struct Others {
    pub(super) warden: Warden,
    gateway: Gateway,
    gateway_calls: u64,
    villains: Vec<Villain>,
    /// The streams of the hostile, where they use them.
    streams: Vec<ConnId>,
    uses_streams: bool,
}

/// What is due for one of them.
pub(super) enum Turn {
    /// He acts by himself.
    Act(usize),
    /// The gateway calls.
    Call,
    /// He says this.
    Say(usize, String),
}

/// Their numbers among the others.
const GATEWAY: usize = 0;
const FIRST_VILLAIN: usize = 1;

/// Where everybody is, in a plan with the hostile in it.
pub(super) fn places(server: SocketAddr, hosts: &[SocketAddr]) -> Places {
    Places {
        server,
        gateway: crate::server::GATEWAY.into(),
        neighbour: crate::server::NEIGHBOUR.into(),
        mallory: SocketAddr::from(([10, 0, 4, 1], 5060)),
        hosts: hosts.to_vec(),
    }
}

/// Whom honest users call besides each other: a number, the neighbour, and the hostile user.
pub(super) fn strangers() -> Vec<String> {
    vec![
        format!("sip:+4930123@{DOMAIN}"),
        format!("sip:x@{EVIL}"),
        format!("sip:{MALLORY}@{DOMAIN}"),
    ]
}

impl Others {
    pub(super) fn new(plan: &Plan, places: Places, users: &[String]) -> Option<Self> {
        let hostility = plan.hostility?;
        let size = (hostility.uses_streams, hostility.messages);
        let villains = [places.neighbour, places.mallory]
            .map(|addr| Villain::new(plan.seed, addr, &places, users, size));
        Some(Self {
            gateway: Gateway::new(plan.seed, places.gateway),
            gateway_calls: GATEWAY_CALLS,
            warden: Warden::new(places, hostility),
            villains: villains.into(),
            streams: vec![ConnId::NONE; villains_count()],
            uses_streams: hostility.uses_streams,
        })
    }

    /// Their addresses, in the order of their numbers.
    pub(super) fn addrs(&self) -> Vec<SocketAddr> {
        let villains = self.villains.iter().map(|villain| villain.addr);
        std::iter::once(crate::server::GATEWAY.into())
            .chain(villains)
            .collect()
    }
}

const fn villains_count() -> usize {
    2
}

impl World {
    /// Has the others begin.
    pub(super) fn begin_others(&mut self, at_ms: u64) {
        let Some(others) = &mut self.others else {
            return;
        };
        for host in &self.hosts {
            for (user, contact) in host.contacts() {
                if let Some(name) = self.users.get(user) {
                    others.warden.add_contact(name, &contact);
                }
            }
        }
        let registrations: Vec<(usize, String)> = others
            .villains
            .iter_mut()
            .enumerate()
            .filter_map(|(at, villain)| Some((at + FIRST_VILLAIN, villain.register()?)))
            .collect();
        for (who, text) in registrations {
            self.plan_for(at_ms / 2, Due::Other(Turn::Say(who, text)));
        }
        for at in 0..villains_count() {
            self.plan_for(at_ms, Due::Other(Turn::Act(at)));
        }
        self.plan_for(at_ms, Due::Other(Turn::Call));
    }

    /// Something arrives at one of them.
    pub(super) fn other_receives(&mut self, who: usize, bytes: &[u8]) {
        let Some(others) = &mut self.others else {
            return;
        };
        let sayings = match who.checked_sub(FIRST_VILLAIN) {
            None => others.gateway.handle_message(bytes),
            Some(at) => match others.villains.get_mut(at) {
                Some(villain) => villain.handle_message(bytes),
                None => return,
            },
        };
        self.plan_sayings(who, sayings);
    }

    /// A stream of one of them has ended.
    pub(super) fn other_closed(&mut self, who: usize, conn: ConnId) {
        let streams = self.others.as_mut().map(|others| &mut others.streams);
        let at = who.checked_sub(FIRST_VILLAIN);
        if let Some(stream) = at.zip(streams).and_then(|(at, all)| all.get_mut(at))
            && *stream == conn
        {
            *stream = ConnId::NONE;
        }
    }

    pub(super) fn take_turn(&mut self, turn: Turn) {
        match turn {
            Turn::Say(who, text) => self.say(who, &text),
            Turn::Act(at) => {
                let villain = self
                    .others
                    .as_mut()
                    .and_then(|all| all.villains.get_mut(at));
                if let Some((sayings, again_ms)) = villain.and_then(Villain::act) {
                    self.plan_sayings(at + FIRST_VILLAIN, sayings);
                    self.plan_for(self.now_ms + again_ms, Due::Other(Turn::Act(at)));
                }
            }
            Turn::Call => {
                let callee = self.dice.below(self.users.len() as u64 + 1) as usize;
                let callee = self
                    .users
                    .get(callee)
                    .map_or(MALLORY, String::as_str)
                    .to_owned();
                let Some(others) = &mut self.others else {
                    return;
                };
                let Some(left) = others.gateway_calls.checked_sub(1) else {
                    return;
                };
                others.gateway_calls = left;
                let text = others.gateway.call(&callee);
                self.say(GATEWAY, &text);
                let wait_ms = self.dice.between(500, 2_500);
                self.plan_for(self.now_ms + wait_ms, Due::Other(Turn::Call));
            }
        }
    }

    fn plan_sayings(&mut self, who: usize, sayings: Vec<Saying>) {
        for (after_ms, text) in sayings {
            self.plan_for(self.now_ms + after_ms, Due::Other(Turn::Say(who, text)));
        }
    }

    /// Sends a message of one of them to the server.
    fn say(&mut self, who: usize, text: &str) {
        let from = End::Host(self.hosts.len() + who);
        let addr = self.network.addr(from);
        let Some(others) = &mut self.others else {
            return;
        };
        others.warden.emitted(addr, text.as_bytes());
        self.audit.overheard(self.now_ms, addr, text.as_bytes());
        let mut conn = ConnId::NONE;
        let stream = who
            .checked_sub(FIRST_VILLAIN)
            .filter(|_| others.uses_streams)
            .and_then(|at| others.streams.get_mut(at));
        let uses_stream = stream.is_some();
        if let Some(stream) = stream {
            if *stream == ConnId::NONE {
                *stream = self.network.open(self.hosts.len() + who);
            }
            conn = *stream;
        }
        let to = Target {
            transport: if uses_stream {
                Transport::Tcp
            } else {
                Transport::Udp
            },
            listener: ListenerId(0),
            remote: self.server_addr(),
            conn,
            may_open: false,
            tls_name: None,
            lane: sip_msg::Lane::Shared,
            local: None,
        };
        let sent = self
            .network
            .send(self.now_ms, from, &to, 0, text.as_bytes());
        self.plan_sent(sent);
    }

    /// Shows the warden what the server's table of contacts holds.
    pub(super) fn look_at_bindings(&mut self) {
        if let Some(others) = &mut self.others {
            let (unix_ms, bindings) = self.server.bindings(self.now_ms);
            others
                .warden
                .look_at(unix_ms, &bindings, self.server.contacts_max());
            self.take_objections();
        }
    }

    /// Makes the warden's objections faults of the run.
    pub(super) fn take_objections(&mut self) {
        if let Some(others) = &mut self.others {
            for fault in others.warden.faults.drain(..) {
                self.audit.fault(fault);
            }
        }
    }
}
