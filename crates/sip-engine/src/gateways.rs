//! The addresses of the configured next hops: from the configuration, and as DNS gave
//! them for the names there.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::{HashMap, HashSet};
use sip_msg::{HostPort, Transport};

use crate::Settings;
use crate::routes::NextHop;

/// Addresses of gateways that DNS gave, at most so many.
const LEARNED_MAX: usize = 1_024;
/// How long such an address is taken for the gateway's after it was last given.
const LEARNED_MS: u64 = 86_400_000;

/// The addresses that DNS gave for the gateways' names. All shards share them: a user
/// chooses the shard of his call by its Call-ID, and could choose one that has resolved
/// no name yet. They outlive a reload.
#[derive(Debug, Default)]
pub struct LearnedGateways {
    version: AtomicU64,
    /// Until when, by name and address.
    until_ms: Mutex<BTreeMap<(Box<str>, SocketAddr), u64>>,
}

impl LearnedGateways {
    fn learn(&self, name: &str, addr: SocketAddr, now_ms: u64) {
        let mut known = self.lock();
        if known.len() >= LEARNED_MAX {
            known.retain(|_, until_ms| *until_ms > now_ms);
        }
        let key = (Box::from(name), addr);
        if known.len() < LEARNED_MAX || known.contains_key(&key) {
            known.insert(key, now_ms.saturating_add(LEARNED_MS));
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// Those of one name.
    pub(crate) fn addresses(&self, name: &str, now_ms: u64) -> Vec<SocketAddr> {
        let known = self.lock();
        let of_name = known
            .iter()
            .filter(|((own, _), until_ms)| **own == *name && **until_ms > now_ms);
        of_name.map(|((_, addr), _)| *addr).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Box<str>, SocketAddr), u64>> {
        self.until_ms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same for one shard, with those in the configuration.
pub(crate) struct Gateways {
    written: HashSet<SocketAddr>,
    names: Vec<(Box<str>, Option<u16>)>,
    learned: HashMap<SocketAddr, u64>,
    shared: Arc<LearnedGateways>,
    /// Of what is shared; `None` before it was looked at.
    version: Option<u64>,
}

impl Gateways {
    pub(crate) fn new(settings: &Settings, shared: Arc<LearnedGateways>) -> Self {
        let mut gateways = Self {
            written: HashSet::new(),
            names: Vec::new(),
            learned: HashMap::new(),
            shared,
            version: None,
        };
        let groups = settings.routes.groups.iter();
        let hops = groups.flat_map(|group| group.gateways.iter().map(|of| &of.next_hop));
        for hop in hops.chain(&settings.forward) {
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
        for ((name, addr), until_ms) in self.shared.lock().iter() {
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
    pub(crate) fn has_host(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        let mut addrs = self.written.iter().chain(self.learned.keys());
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
fn ports_beside(port: Option<u16>) -> [u16; 2] {
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
        let shared = Arc::new(LearnedGateways::default());
        let shard = || Gateways::new(&settings("gw.example"), Arc::clone(&shared));
        let (mut one, mut other) = (shard(), shard());
        let addr: SocketAddr = "203.0.113.7:5060".parse().unwrap();
        one.learn("gw.example", addr, 1_000);
        other.refresh();
        for gateways in [&one, &other, &shard()] {
            assert!(gateways.is_at(addr, 1_001) && gateways.has_host(addr.ip()));
            assert!(!gateways.is_at(addr, 1_000 + LEARNED_MS));
        }
        // Nobody's any more, once it is configured no more.
        let without = Gateways::new(&settings("other.example"), Arc::clone(&shared));
        assert!(!without.is_at(addr, 1_001));
    }

    #[test]
    fn what_is_learned_is_bounded() {
        let shared = Arc::new(LearnedGateways::default());
        let mut gateways = Gateways::new(&settings("gw.example"), Arc::clone(&shared));
        for n in 0..2 * LEARNED_MAX as u16 {
            gateways.learn("gw.example", SocketAddr::new([203, 0, 113, 7].into(), n), 1);
        }
        assert_eq!(shared.lock().len(), LEARNED_MAX);
        // A day later there is room.
        gateways.learn(
            "gw.example",
            "203.0.113.8:1".parse().unwrap(),
            2 * LEARNED_MS,
        );
        assert_eq!(shared.lock().len(), 1);
    }
}
