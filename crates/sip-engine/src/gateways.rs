//! The operator's next hops as all workers see them: their addresses, from the configuration
//! and as DNS gave them; the health of each address; and which hops are drained.

mod health;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::{HashMap, HashSet};
use sip_locate::Hop;
use sip_msg::{HostPort, Transport};

use crate::Settings;
use crate::routes::NextHop;
use crate::trunk::SharedTrunks;

pub use health::{Change, Health, Shown, Why};

/// Addresses of gateways that DNS gave, at most so many.
const LEARNED_MAX: usize = 1_024;
/// How long such an address is taken for the gateway's after it was last given.
const LEARNED_MS: u64 = 86_400_000;
/// Addresses whose health is known, at most so many.
const HEALTH_MAX: usize = 1_024;

/// An address, and the transport by which it is reached.
pub(crate) type GatewayAddress = (Transport, SocketAddr);
/// A next hop as it is written: host, port and transport.
type Written = (Arc<str>, Option<u16>, Option<Transport>);

/// What all shards know of the operator's next hops. They keep copies of the tables, and take
/// them over anew when something was added; the health of an address is read by all where it
/// is. All of it outlives a reload.
///
/// The addresses that DNS gave are shared for another reason too: a user chooses the shard of
/// his call by its Call-ID, and could choose one that has resolved no name yet.
#[derive(Debug, Default)]
pub struct SharedGateways {
    /// Grows whenever a table below has changed.
    version: AtomicU64,
    /// Addresses that DNS gave: until when, by name and address.
    learned: Mutex<BTreeMap<(Box<str>, SocketAddr), u64>>,
    health: Mutex<HashMap<GatewayAddress, Arc<Health>>>,
    drained: Mutex<Vec<Written>>,
    /// What is known of those that are trunks.
    pub trunks: SharedTrunks,
}

impl SharedGateways {
    fn learn(&self, name: &str, addr: SocketAddr, now_ms: u64) {
        let mut known = lock(&self.learned);
        if known.len() >= LEARNED_MAX {
            known.retain(|_, until_ms| *until_ms > now_ms);
        }
        let key = (Box::from(name), addr);
        if known.len() < LEARNED_MAX || known.contains_key(&key) {
            known.insert(key, now_ms.saturating_add(LEARNED_MS));
            self.has_changed();
        }
    }

    /// The addresses that DNS gave lately for a next hop of that name.
    pub fn addresses(&self, name: &str, now_ms: u64) -> Vec<SocketAddr> {
        let known = lock(&self.learned);
        let of_name = known
            .iter()
            .filter(|((own, _), until_ms)| **own == *name && **until_ms > now_ms);
        of_name.map(|((_, addr), _)| *addr).collect()
    }

    /// The health of an address; a new one where nothing is known of it yet, `None` where
    /// there is no room.
    fn health_at(&self, place: GatewayAddress, name: &str, now_ms: u64) -> Option<Arc<Health>> {
        let mut known = lock(&self.health);
        if let Some(health) = known.get(&place) {
            return Some(Arc::clone(health));
        }
        if known.len() >= HEALTH_MAX {
            known.retain(|_, health| health.is_worth_keeping(now_ms));
        }
        if known.len() >= HEALTH_MAX {
            return None;
        }
        let health = Arc::new(Health::new(name, now_ms));
        known.insert(place, Arc::clone(&health));
        self.has_changed();
        Some(health)
    }

    /// The health of all addresses of which anything is known, in order.
    pub fn health(&self, now_ms: u64) -> Vec<(Transport, SocketAddr, Shown)> {
        let known = lock(&self.health);
        let all = known.iter();
        let all = all.map(|((transport, addr), health)| (*transport, *addr, health.shown(now_ms)));
        let mut all: Vec<_> = all.collect();
        drop(known);
        all.sort_by_key(|(transport, addr, _)| (*addr, transport.uri_name()));
        all
    }

    /// Drains a next hop, or ends that; whether it was otherwise before. A hop that is drained
    /// gets no request that begins something; those within dialogs go on.
    pub fn drain(&self, hop: &NextHop, is_drained: bool) -> bool {
        let mut drained = lock(&self.drained);
        let at = drained.iter().position(|of| is_written_so(of, hop));
        match (at, is_drained) {
            (None, true) => {
                drained.push((Arc::clone(&hop.host), hop.port, hop.transport));
            }
            (Some(at), false) => {
                drained.swap_remove(at);
            }
            _ => return false,
        }
        self.has_changed();
        true
    }

    /// Whether a next hop is drained.
    pub fn is_drained(&self, hop: &NextHop) -> bool {
        let drained = lock(&self.drained);
        drained.iter().any(|of| is_written_so(of, hop))
    }

    /// What is configured no more is drained no more, should it come back one day, and
    /// nothing is held against it.
    fn forget_others(&self, settings: &Settings) {
        let mut drained = lock(&self.drained);
        let mut before = drained.len();
        drained.retain(|of| next_hops(settings).any(|hop| is_written_so(of, hop)));
        let mut after = drained.len();
        drop(drained);
        let is_name = |name: &str| next_hops(settings).any(|hop| *hop.host == *name);
        let written = next_hops(settings).filter_map(|hop| hop.host.parse().ok());
        let mut addresses: HashSet<IpAddr> = written.collect();
        let learned = lock(&self.learned);
        let named = learned.keys().filter(|(name, _)| is_name(name));
        addresses.extend(named.map(|(_, addr)| addr.ip()));
        drop(learned);
        let mut known = lock(&self.health);
        before += known.len();
        known.retain(|(_, addr), health| is_name(health.name()) || addresses.contains(&addr.ip()));
        after += known.len();
        drop(known);
        if after != before {
            self.has_changed();
        }
    }

    fn has_changed(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }
}

/// All configured next hops.
fn next_hops(settings: &Settings) -> impl Iterator<Item = &NextHop> {
    let groups = settings.routes.groups.iter();
    let hops = groups.flat_map(|group| group.gateways.iter().map(|of| &of.next_hop));
    hops.chain(&settings.forward)
}

fn is_written_so((host, port, transport): &Written, hop: &NextHop) -> bool {
    *host == hop.host && *port == hop.port && *transport == hop.transport
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A table is whole whenever its lock is free.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same for one shard, with the addresses in the configuration.
pub(crate) struct Gateways {
    written: HashSet<SocketAddr>,
    names: Vec<(Box<str>, Option<u16>)>,
    learned: HashMap<SocketAddr, u64>,
    health: HashMap<GatewayAddress, Arc<Health>>,
    drained: Vec<Written>,
    shared: Arc<SharedGateways>,
    /// Of what is shared; `None` before it was looked at.
    version: Option<u64>,
}

impl Gateways {
    pub(crate) fn new(settings: &Settings, shared: Arc<SharedGateways>) -> Self {
        shared.forget_others(settings);
        let mut gateways = Self {
            written: HashSet::new(),
            names: Vec::new(),
            learned: HashMap::new(),
            health: HashMap::new(),
            drained: Vec::new(),
            shared,
            version: None,
        };
        for hop in next_hops(settings) {
            gateways.add(hop);
        }
        gateways.refresh();
        gateways
    }

    /// Takes over what other shards have learned.
    pub(crate) fn refresh(&mut self) {
        let version = Some(self.shared.version.load(Ordering::Acquire));
        if self.version == version {
            return;
        }
        self.version = version;
        self.learned.clear();
        self.health.clone_from(&lock(&self.shared.health));
        self.drained.clone_from(&lock(&self.shared.drained));
        for ((name, addr), until_ms) in lock(&self.shared.learned).iter() {
            // Of a name that is configured no more, nothing is known.
            if self.names.iter().any(|(own, _)| own == name) {
                for port in ports_beside(Some(addr.port())) {
                    let addr = SocketAddr::new(addr.ip(), port);
                    let latest = self.learned.entry(addr).or_default();
                    *latest = (*until_ms).max(*latest);
                }
            }
        }
    }

    /// Takes note of where a next hop of that name is, as DNS has it.
    pub(crate) fn learn(&mut self, name: &str, addr: SocketAddr, now_ms: u64) {
        let addr = canonical(addr);
        // Known for most of the time to come: all others are left alone.
        let is_fresh = |until_ms: &u64| *until_ms > now_ms.saturating_add(LEARNED_MS / 2);
        if !self.learned.get(&addr).is_some_and(is_fresh) {
            self.shared.learn(name, addr, now_ms);
            self.refresh();
        }
    }

    /// Whether that address is passed over.
    pub(crate) fn is_out(&self, transport: Transport, addr: SocketAddr, now_ms: u64) -> bool {
        let health = self.health_of(transport, addr);
        health.is_some_and(|health| health.is_out(now_ms))
    }

    /// Moves addresses that are passed over behind the others, and keeps the order within
    /// both.
    pub(crate) fn sort(&self, hops: &mut [Hop], now_ms: u64) {
        if !self.health.is_empty() {
            hops.sort_by_key(|hop| self.is_out(hop.transport, hop.addr, now_ms));
        }
    }

    /// What is known of the health of an address, if anything is.
    pub(crate) fn health_of(&self, transport: Transport, addr: SocketAddr) -> Option<&Health> {
        if self.health.is_empty() {
            return None;
        }
        let health = self.health.get(&(transport, canonical(addr)));
        health.map(|health| &**health)
    }

    /// The same where something is to be noted of it; `None` where there is no room.
    pub(crate) fn health_at(
        &mut self,
        transport: Transport,
        addr: SocketAddr,
        name: &str,
        now_ms: u64,
    ) -> Option<Arc<Health>> {
        let place = (transport, canonical(addr));
        if let Some(health) = self.health.get(&place) {
            return Some(Arc::clone(health));
        }
        let health = self.shared.health_at(place, name, now_ms)?;
        self.refresh();
        Some(health)
    }

    /// Whether any next hop is drained.
    pub(crate) fn has_drained(&self) -> bool {
        !self.drained.is_empty()
    }

    /// Whether a next hop is drained.
    pub(crate) fn is_drained(&self, hop: &NextHop) -> bool {
        self.drained.iter().any(|of| is_written_so(of, hop))
    }

    fn add(&mut self, hop: &NextHop) {
        let Ok(ip) = hop.host.parse::<IpAddr>() else {
            self.names.push((Box::from(&*hop.host), hop.port));
            return;
        };
        for port in ports_beside(hop.port) {
            self.written.insert(canonical(SocketAddr::new(ip, port)));
        }
    }

    /// Whether one of them is there.
    pub(crate) fn is_at(&self, addr: SocketAddr, now_ms: u64) -> bool {
        if self.written.is_empty() && self.learned.is_empty() {
            return false;
        }
        let addr = canonical(addr);
        self.written.contains(&addr) || self.learned.get(&addr).is_some_and(|until| *until > now_ms)
    }

    /// Whether one of them is on that host, whatever the port.
    pub(crate) fn has_host(&self, ip: IpAddr, now_ms: u64) -> bool {
        let ip = ip.to_canonical();
        let learned = self.learned.iter();
        let learned = learned.filter(|(_, until_ms)| **until_ms > now_ms);
        let mut addrs = self.written.iter().chain(learned.map(|(addr, _)| addr));
        addrs.any(|known| known.ip() == ip)
    }

    /// Whether that is the name of one of them.
    pub(crate) fn is_name(&self, named: HostPort<'_>) -> bool {
        let bare = named.host.strip_suffix(b".").unwrap_or(named.host);
        self.names.iter().any(|(name, port)| {
            name.as_bytes().eq_ignore_ascii_case(bare) && is_same_port(*port, named.port)
        })
    }
}

fn is_same_port(configured: Option<u16>, named: Option<u16>) -> bool {
    let is_usual = |port: Option<u16>| matches!(port, None | Some(5_060 | 5_061));
    configured == named || (is_usual(configured) && is_usual(named))
}

/// The ports at which a gateway is that is written with this one: over another
/// transport it is at the other usual port.
pub(crate) fn ports_beside(port: Option<u16>) -> [u16; 2] {
    let usual = [Transport::Udp, Transport::Tls].map(Transport::default_port);
    match port {
        Some(port) if !usual.contains(&port) => [port; 2],
        _ => usual,
    }
}

fn canonical(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip().to_canonical(), addr.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(host: &str) -> Settings {
        Settings {
            forward: Some(NextHop {
                host: host.into(),
                port: None,
                transport: None,
                connections: Default::default(),
            }),
            ..Settings::default()
        }
    }

    #[test]
    fn what_one_shard_has_learned_of_a_gateway_all_know() {
        let shared = Arc::new(SharedGateways::default());
        let shard = || Gateways::new(&settings("gw.example"), Arc::clone(&shared));
        let (mut one, mut other) = (shard(), shard());
        let addr: SocketAddr = "203.0.113.7:5060".parse().unwrap();
        one.learn("gw.example", addr, 1_000);
        other.refresh();
        for gateways in [&one, &other, &shard()] {
            assert!(gateways.is_at(addr, 1_001) && gateways.has_host(addr.ip(), 1_001));
            // Whoever has the address a day later is somebody else.
            let later_ms = 1_000 + LEARNED_MS;
            assert!(gateways.has_host(addr.ip(), later_ms - 1));
            assert!(!gateways.is_at(addr, later_ms) && !gateways.has_host(addr.ip(), later_ms));
        }
        // Nobody's any more, once it is configured no more.
        let without = Gateways::new(&settings("other.example"), Arc::clone(&shared));
        assert!(!without.is_at(addr, 1_001));
    }

    #[test]
    fn what_is_learned_is_bounded() {
        let shared = Arc::new(SharedGateways::default());
        let mut gateways = Gateways::new(&settings("gw.example"), Arc::clone(&shared));
        for n in 0..2 * LEARNED_MAX as u16 {
            gateways.learn("gw.example", SocketAddr::new([203, 0, 113, 7].into(), n), 1);
        }
        assert_eq!(lock(&shared.learned).len(), LEARNED_MAX);
        // A day later there is room.
        gateways.learn(
            "gw.example",
            "203.0.113.8:1".parse().unwrap(),
            2 * LEARNED_MS,
        );
        assert_eq!(lock(&shared.learned).len(), 1);
    }

    #[test]
    fn what_one_shard_finds_out_of_an_address_all_know() {
        let shared = Arc::new(SharedGateways::default());
        let shard = || Gateways::new(&settings("192.0.2.9"), Arc::clone(&shared));
        let (mut one, mut other) = (shard(), shard());
        let addr: SocketAddr = "192.0.2.9:5060".parse().unwrap();
        assert!(one.health_of(Transport::Udp, addr).is_none());
        let health = one
            .health_at(Transport::Udp, addr, "192.0.2.9", 1_000)
            .unwrap();
        health.failed(1_000, Why::Silent, 500);
        other.refresh();
        for gateways in [&one, &other, &shard()] {
            assert!(gateways.is_out(Transport::Udp, addr, 1_499));
            assert!(!gateways.is_out(Transport::Udp, addr, 1_500));
            assert!(!gateways.is_out(Transport::Tcp, addr, 1_001));
        }
        // From then on it is one table: nothing has to be taken over.
        health.answered(1_100, 200, true, true);
        assert!(!other.is_out(Transport::Udp, addr, 1_101));
    }

    #[test]
    fn addresses_in_health_make_room_for_others() {
        let shared = Arc::new(SharedGateways::default());
        let mut gateways = Gateways::new(&settings("gw.example"), Arc::clone(&shared));
        let place = |n: u16| SocketAddr::new([203, 0, 113, 7].into(), n);
        let mut at = |transport, n, now_ms| gateways.health_at(transport, place(n), "gw", now_ms);
        let kept = at(Transport::Udp, 0, 1).unwrap();
        kept.failed(1, Why::Silent, 1_000);
        for n in 1..2 * HEALTH_MAX as u16 {
            assert!(at(Transport::Udp, n, 1).is_some());
        }
        assert!(lock(&shared.health).len() <= HEALTH_MAX);
        assert!(lock(&shared.health).contains_key(&(Transport::Udp, place(0))));
        // Where all are wanted there is no room, and the call fails over by itself.
        for n in 0..2 * HEALTH_MAX as u16 {
            if let Some(health) = at(Transport::Tcp, n, 1) {
                health.failed(1, Why::Silent, 1_000);
            }
        }
        assert!(lock(&shared.health).len() <= HEALTH_MAX);
        assert!(at(Transport::Tls, 0, 2).is_none());
        // Of those that DNS gives no more nothing is heard, and others have their place.
        assert!(at(Transport::Tls, 0, 3_600_001).is_some());
    }

    #[test]
    fn nothing_is_held_against_who_is_configured_no_more() {
        let shared = Arc::new(SharedGateways::default());
        let here = settings("gw.example");
        let mut gateways = Gateways::new(&here, Arc::clone(&shared));
        let addr = |n: u8| SocketAddr::from(([203, 0, 113, n], 5_060));
        gateways.learn("gw.example", addr(1), 1);
        // By its name, and by an address that DNS gave for it.
        for (n, name) in [(1, "gw.example"), (1, "203.0.113.1"), (2, "gw.example")] {
            let port = 5_060 + u16::try_from(name.len()).unwrap();
            let at = SocketAddr::new(addr(n).ip(), port);
            let health = gateways.health_at(Transport::Udp, at, name, 1);
            health.unwrap().failed(1, Why::Silent, 1_000);
        }
        let other = gateways.health_at(Transport::Udp, addr(9), "203.0.113.9", 1);
        other.unwrap().failed(1, Why::Silent, 1_000);
        assert_eq!(shared.health(2).len(), 4);
        let again = Gateways::new(&here, Arc::clone(&shared));
        assert_eq!(shared.health(2).len(), 3);
        assert!(!again.is_out(Transport::Udp, addr(9), 2));
        Gateways::new(&settings("203.0.113.1"), Arc::clone(&shared));
        assert_eq!(shared.health(2).len(), 2, "it is where it was");
        Gateways::new(&settings("other.example"), Arc::clone(&shared));
        assert!(shared.health(2).is_empty());
    }

    #[test]
    fn a_hop_is_drained_as_it_is_written_and_while_it_is_configured() {
        let shared = Arc::new(SharedGateways::default());
        let (here, elsewhere) = (settings("gw.example"), settings("other.example"));
        let hop = here.forward.clone().unwrap();
        let mut gateways = Gateways::new(&here, Arc::clone(&shared));
        assert!(shared.drain(&hop, true) && !shared.drain(&hop, true));
        gateways.refresh();
        let beside = NextHop {
            port: Some(5_070),
            ..hop.clone()
        };
        assert!(gateways.has_drained() && gateways.is_drained(&hop));
        assert!(!gateways.is_drained(&beside));
        // A reload that keeps it keeps it drained.
        assert!(Gateways::new(&here, Arc::clone(&shared)).is_drained(&hop));
        assert!(!Gateways::new(&elsewhere, Arc::clone(&shared)).has_drained());
        assert!(!Gateways::new(&here, Arc::clone(&shared)).is_drained(&hop));
        assert!(!shared.drain(&hop, false));
    }
}
