//! Probes of the operator's next hops by OPTIONS (RFC 3261 11): each is one shard's to
//! probe, and what comes of it is in the table that all read ([`crate::gateways`]). A probe
//! is a client transaction like any other, by DNS and transport like a call's.

use std::net::SocketAddr;
use std::sync::Arc;

use hashbrown::HashMap;
use invariant::broken;
use sip_locate::{Hop, Located};
use sip_msg::{ConnId, Message, Method, Target};
use sip_txn::ClientId;
use wheel::TimerId;

use super::spread::shard_at;
use crate::effect::Effect;
use crate::gateways::{Change, GatewayAddress, Why};
use crate::hops::of_next_hop;
use crate::park::Parked;
use crate::proxy::context::Owner;
use crate::proxy::egress::write_next_hop;
use crate::proxy::failover::pause_ms;
use crate::routes::{Care, NextHop, Probing};
use crate::timer::Timer;
use crate::{Now, Outputs, Settings, Shard};

/// Probes that one shard has under way, at most so many.
const PROBES_MAX: usize = 1_024;
/// Addresses of one name that are probed.
const ADDRESSES_MAX: usize = 16;
/// How long an answer may take where calls wait for one as long as timer B.
const TIMEOUT_MS: u64 = 4_000;

/// Which of the shards of a process this is.
#[derive(Clone, Copy, Default)]
struct Home {
    index: usize,
    /// How many there are; 0 and 1 mean that there is no other.
    shards: usize,
    hash_key: [u8; 16],
}

impl Home {
    /// Whether the messages of that Call-ID belong to this shard.
    fn has(&self, call_id: &[u8]) -> bool {
        self.shards <= 1 || shard_at(call_id, self.shards, &self.hash_key) == self.index
    }
}

/// A next hop that is probed.
pub(crate) struct Probed {
    hop: NextHop,
    care: Arc<Care>,
    probing: Probing,
}

impl Probed {
    /// How long an answer may take: no longer than until the next probe.
    fn timeout_ms(&self) -> u64 {
        let own_ms = match self.care.timeout_ms {
            0 => TIMEOUT_MS,
            given_ms => given_ms,
        };
        own_ms.min(self.probing.interval_ms)
    }
}

/// When a next hop is probed next; `None` before that was planned.
struct Turn {
    probed: Arc<Probed>,
    due_ms: Option<u64>,
}

struct UnderWay {
    probed: Arc<Probed>,
    place: GatewayAddress,
    client: ClientId,
    timer: TimerId,
}

/// The probes of one shard.
#[derive(Default)]
pub(crate) struct Probes {
    home: Home,
    turns: Vec<Turn>,
    under_way: HashMap<u32, UnderWay>,
    last: u32,
    timer: TimerId,
}

impl Shard {
    /// Says which of a process's shards this is, and by which key messages are theirs: probes
    /// are shared out by it, and their responses come back to who sent them. A shard that was
    /// not told is alone.
    pub fn set_home(&mut self, index: usize, shards: usize, hash_key: [u8; 16]) {
        self.probes.home = Home {
            index,
            shards,
            hash_key,
        };
        self.plan_probes();
        self.keepalives.set_home(index, shards, hash_key);
        self.plan_keepalives();
        self.plan_registrations();
    }

    /// Whether the user of that name, or what is called so, belongs to this shard.
    pub(crate) fn is_home_of(&self, name: &[u8]) -> bool {
        self.probes.home.has(name)
    }

    /// Shares out what the settings have probed. What was planned stays so.
    pub(super) fn plan_probes(&mut self) {
        let Home { index, shards, .. } = self.probes.home;
        let before = std::mem::take(&mut self.probes.turns);
        let due_ms = |hop: &NextHop| {
            let known = before.iter().find(|turn| turn.probed.hop == *hop);
            known.and_then(|turn| turn.due_ms)
        };
        let all = all_probed(&self.settings).into_iter().enumerate();
        let own = all.filter(|(nth, _)| shards <= 1 || nth % shards == index);
        self.probes.turns = own
            .map(|(_, probed)| Turn {
                due_ms: due_ms(&probed.hop),
                probed: Arc::new(probed),
            })
            .collect();
        self.wheel.cancel(std::mem::take(&mut self.probes.timer));
        if !self.probes.turns.is_empty() {
            // With the next timers, which know the time.
            self.probes.timer = self.wheel.start(0, Timer::Probes);
        }
    }

    /// Probes whose turn it is.
    pub(super) fn probes_due(&mut self, now: Now, out: &mut Outputs) {
        self.probes.timer = TimerId::NONE;
        // Who is about to end needs nobody's health.
        if self.refuses_calls {
            return;
        }
        let mut due = Vec::new();
        for turn in &mut self.probes.turns {
            let interval_ms = turn.probed.probing.interval_ms;
            let mut part = |of_ms: u64| {
                let most = u32::try_from(of_ms).unwrap_or(u32::MAX);
                u64::from(self.dice.below(most))
            };
            match turn.due_ms {
                // All begin at once: they are spread over the first interval.
                None => turn.due_ms = Some(now.mono_ms + part(interval_ms)),
                Some(due_ms) if due_ms <= now.mono_ms => {
                    let least_ms = interval_ms - interval_ms / 10;
                    turn.due_ms = Some(now.mono_ms + least_ms + part(interval_ms / 5));
                    due.push(Arc::clone(&turn.probed));
                }
                // A reload may have made the interval shorter.
                Some(due_ms) => {
                    let latest_ms = now.mono_ms + interval_ms + interval_ms / 10;
                    turn.due_ms = Some(due_ms.min(latest_ms));
                }
            }
        }
        let next_ms = self
            .probes
            .turns
            .iter()
            .filter_map(|turn| turn.due_ms)
            .min();
        if let Some(next_ms) = next_ms {
            self.probes.timer = self.wheel.start(next_ms, Timer::Probes);
        }
        for probed in due {
            self.probe(now, &probed, out);
        }
    }

    fn probe(&mut self, now: Now, probed: &Arc<Probed>, out: &mut Outputs) {
        match of_next_hop(&probed.hop, false, self.own.reach()) {
            Located::Hop { hop, .. } => self.probe_address(now, probed, hop, out),
            Located::Ask(query) => {
                let deadline_ms = now.mono_ms + self.settings.proxy.resolve_timeout_ms;
                let parked = Parked::Probe(Arc::clone(probed));
                let park = self.parks.park(parked, deadline_ms, &mut self.wheel);
                out.effects.push(Effect::Resolve { park, query });
            }
            // No listener leads there: calls say so.
            Located::Nowhere(_) => {}
        }
    }

    /// The resolver's answer: each address is probed for itself.
    pub(super) fn probe_resolved(
        &mut self,
        now: Now,
        probed: &Arc<Probed>,
        hops: Vec<Hop>,
        out: &mut Outputs,
    ) {
        for hop in hops.into_iter().take(ADDRESSES_MAX) {
            self.gateways.learn(&probed.hop.host, hop.addr, now.mono_ms);
            self.probe_address(now, probed, hop, out);
        }
    }

    fn probe_address(&mut self, now: Now, probed: &Arc<Probed>, hop: Hop, out: &mut Outputs) {
        let listener = self.own.first_towards(hop.transport, &hop.addr);
        // What leads here would be answered here.
        let Some(listener) = listener.filter(|_| !self.own.is_at(hop.transport, &hop.addr)) else {
            return;
        };
        let is_full = self.probes.under_way.len() >= PROBES_MAX;
        let client = match is_full {
            true => None,
            false => self.txns.reserve_client(),
        };
        let Some(client) = client else {
            self.counters.probes_skipped += 1;
            return;
        };
        let place = (hop.transport, hop.addr);
        let to = Target {
            transport: hop.transport,
            listener,
            remote: hop.addr,
            conn: ConnId::NONE,
            may_open: true,
            tls_name: hop.tls_name,
            lane: sip_msg::Lane::Shared,
            local: None,
        };
        let start = out.outbox.bytes.len();
        self.write_probe(client, &probed.hop, &to, &mut out.outbox.bytes);
        self.probes.last = self.probes.last.wrapping_add(1);
        let number = self.probes.last;
        let timer_ms = now.mono_ms + probed.timeout_ms();
        let under_way = UnderWay {
            probed: Arc::clone(probed),
            place,
            client,
            timer: self.wheel.start(timer_ms, Timer::Probe(number)),
        };
        self.probes.under_way.insert(number, under_way);
        let owner = Owner::Probe(number).encode();
        let (outbox, method) = (&mut out.outbox, Method::Options);
        self.txns
            .start_client(now.mono_ms, client, method, to, owner, start, outbox);
    }

    // RFC 3261 11.1: "An OPTIONS request is constructed using the standard rules for a SIP
    // request as discussed in Section 8.1.1."
    fn write_probe(&mut self, client: ClientId, hop: &NextHop, to: &Target, text: &mut Vec<u8>) {
        let (call_id, tag) = (self.probe_call_id(), self.dice.below(u32::MAX));
        let (mut uri, mut place) = (b"sip:".to_vec(), Vec::new());
        write_next_hop(hop, &mut uri);
        let own = &self.own;
        own.write_host_port(to.listener, &any_local(to), &mut place);
        let (uri, place) = (uri.as_slice(), place.as_slice());
        let from = match self.settings.domains.first() {
            Some(domain) => domain.as_bytes(),
            None => place,
        };
        for part in [
            &b"OPTIONS "[..],
            uri,
            b" SIP/2.0\r\nVia: SIP/2.0/",
            to.transport.via_name().as_bytes(),
            b" ",
            place,
            b";branch=",
        ] {
            text.extend_from_slice(part);
        }
        self.txns.write_branch(client, text);
        let tag = format!(">;tag={tag:08x}\r\nTo: <");
        for part in [
            &b"\r\nMax-Forwards: 70\r\nFrom: <sip:"[..],
            from,
            tag.as_bytes(),
            uri,
            b">\r\nCall-ID: ",
            call_id.as_bytes(),
            // RFC 3261 11.1: "An Accept header field SHOULD be included to indicate the type of
            // message body the UAC wishes to receive in the response."
            b"\r\nCSeq: 1 OPTIONS\r\nAccept: application/sdp\r\nContent-Length: 0\r\n\r\n",
        ] {
            text.extend_from_slice(part);
        }
    }

    /// A Call-ID whose messages come to this shard.
    pub(super) fn probe_call_id(&mut self) -> String {
        let home = self.probes.home;
        let tries = home.shards.max(1).saturating_mul(64);
        let mut call_id = String::new();
        for _ in 0..tries {
            let [one, other] = [u32::MAX; 2].map(|most| self.dice.below(most));
            call_id = format!("probe-{one:08x}{other:08x}");
            if home.has(call_id.as_bytes()) {
                return call_id;
            }
        }
        broken!("of so many Call-IDs one is this shard's", call_id)
    }

    /// A probe has a response.
    pub(super) fn probe_answered(
        &mut self,
        now: Now,
        number: u32,
        response: &Message,
        out: &mut Outputs,
    ) {
        let status = response.status();
        if status < 200 {
            return;
        }
        let Some(probe) = self.take_probe(number) else {
            return;
        };
        let care = Arc::clone(&probe.probed.care);
        let is_good = is_good(status, &care);
        self.probe_over(now, &probe, Some(status), is_good, out);
        if status == 503
            && let Some(pause_ms) = pause_ms(response, care.retry_after_max_s)
        {
            let (transport, addr) = probe.place;
            let health = self.gateways.health_of(transport, addr);
            let change = health.and_then(|of| of.failed(now.mono_ms, Why::RetryAfter, pause_ms));
            self.tell_of_probed(&probe, change, out);
        }
    }

    /// A probe's transaction is over without a final response.
    pub(super) fn probe_failed(&mut self, now: Now, number: u32, out: &mut Outputs) {
        if let Some(probe) = self.take_probe(number)
            && !self.is_our_failure
        {
            self.probe_over(now, &probe, None, false, out);
        }
    }

    /// A probe has had its time.
    pub(super) fn probe_timed_out(&mut self, now: Now, number: u32, out: &mut Outputs) {
        if let Some(probe) = self.take_probe(number) {
            self.txns.release_client(probe.client);
            self.probe_over(now, &probe, None, false, out);
        }
    }

    fn take_probe(&mut self, number: u32) -> Option<UnderWay> {
        let probe = self.probes.under_way.remove(&number)?;
        self.wheel.cancel(probe.timer);
        Some(probe)
    }

    fn probe_over(
        &mut self,
        now: Now,
        probe: &UnderWay,
        status: Option<u16>,
        is_good: bool,
        out: &mut Outputs,
    ) {
        let ((transport, addr), probed) = (probe.place, &probe.probed);
        let health = self
            .gateways
            .health_at(transport, addr, &probed.hop.host, now.mono_ms);
        let change = health.and_then(|of| of.probed(now.mono_ms, status, is_good, &probed.probing));
        self.tell_of_probed(probe, change, out);
    }

    fn tell_of_probed(&mut self, probe: &UnderWay, change: Option<Change>, out: &mut Outputs) {
        if let Some(change) = change {
            let name = (&*probe.probed.hop.host).into();
            self.tell_of_gateway(probe.place, name, change, out);
        }
    }
}

/// An address that stands for whichever of this machine's is shown there.
fn any_local(to: &Target) -> SocketAddr {
    match to.remote.is_ipv4() {
        true => ([0_u8; 4], 0).into(),
        false => ([0_u16; 8], 0).into(),
    }
}

/// Each next hop of the groups that are probed, once: by what the first of them says.
fn all_probed(settings: &Settings) -> Vec<Probed> {
    let mut all: Vec<Probed> = Vec::new();
    for group in &settings.routes.groups {
        let Some(care) = &group.care else { continue };
        let Some(probing) = care.probing else {
            continue;
        };
        for gateway in &group.gateways {
            let hop = &gateway.next_hop;
            if all.iter().all(|of| of.hop != *hop) {
                all.push(Probed {
                    hop: hop.clone(),
                    care: Arc::clone(care),
                    probing,
                });
            }
        }
    }
    all
}

/// Whether an answer to an OPTIONS says that calls are taken. Most refusals do: who refuses
/// that method, or asks who is there, is there. 408 and 503 do not, nor do other failures of
/// a server after which the operator has the next one tried.
fn is_good(status: u16, care: &Care) -> bool {
    match status {
        408 | 503 => false,
        // It has no OPTIONS.
        501 => true,
        500..=599 => !care.failover.has(status),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::Failover;

    #[test]
    fn who_refuses_is_there_and_who_is_overloaded_is_not() {
        let care = Care::USUAL;
        for status in [200, 301, 401, 404, 405, 481, 483, 500, 501, 504, 603] {
            assert!(is_good(status, &care), "{status}");
        }
        assert!(!is_good(408, &care) && !is_good(503, &care));
        let strict = Care {
            failover: (400..600).fold(Failover::NONE, Failover::with),
            ..care
        };
        for status in [404, 405, 480, 501] {
            assert!(is_good(status, &strict), "{status}");
        }
        assert!(!is_good(500, &strict) && !is_good(504, &strict));
    }

    #[test]
    fn every_shard_makes_call_ids_of_its_own() {
        for index in 0..3 {
            let home = Home {
                index,
                shards: 3,
                hash_key: [7; 16],
            };
            let own = (0..300).filter(|n: &u32| home.has(format!("probe-{n}").as_bytes()));
            assert!((50..150).contains(&own.count()));
        }
        assert!(Home::default().has(b"any"));
    }
}
