//! The peers that are counted by name.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use sip_msg::network::{IpNet, is_in};

/// Peers with a name of their own; those past it are among [`OTHER_PEERS`].
pub const PEERS_MAX: usize = 64;
/// All that are in no list: phones, mostly.
pub const OTHER_PEERS: &str = "other";

/// The names of the peers that are counted each for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerNames {
    /// Their names; the first is in the place after [`OTHER_PEERS`].
    names: Vec<Arc<str>>,
    by_host: HashMap<Box<str>, u16>,
    by_ip: HashMap<IpAddr, u16>,
    networks: Vec<(IpNet, u16)>,
}

impl PeerNames {
    /// A peer by its host: a name, which it is opened by or proves, or an
    /// address.
    pub fn add_host(&mut self, host: &str) {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let bare = bare.strip_suffix('.').unwrap_or(bare).to_ascii_lowercase();
        let Some(place) = self.add(&bare) else { return };
        match bare.parse::<IpAddr>() {
            Ok(ip) => {
                self.by_ip.entry(ip).or_insert(place);
            }
            Err(_) => {
                self.by_host.entry(bare.into()).or_insert(place);
            }
        }
    }

    /// A peer by the network from which it opens connections.
    pub fn add_network(&mut self, network: IpNet) {
        if network.prefix_len() == network.max_prefix_len() {
            self.add_host(&network.addr().to_string());
        } else if let Some(place) = self.add(&network.to_string()) {
            self.networks.push((network, place));
        }
    }

    /// The name in a place.
    pub(super) fn name(&self, place: usize) -> Arc<str> {
        place
            .checked_sub(1)
            .and_then(|place| self.names.get(place))
            .map_or_else(|| OTHER_PEERS.into(), Arc::clone)
    }

    /// The place of a name.
    pub(super) fn index_of(&self, name: &str) -> u16 {
        let found = self.names.iter().position(|known| &**known == name);
        found
            .and_then(|place| u16::try_from(place + 1).ok())
            .unwrap_or(0)
    }

    pub(super) fn has_names(&self) -> bool {
        !self.by_host.is_empty()
    }

    /// Whom a connection was opened to.
    pub(super) fn of_opened(&self, name: Option<&str>, ip: IpAddr) -> u16 {
        let by_name = name.and_then(|name| {
            let name = name.strip_suffix('.').unwrap_or(name);
            self.by_host
                .get(name)
                .or_else(|| self.by_host.get(name.to_ascii_lowercase().as_str()))
        });
        by_name
            .or_else(|| self.by_ip.get(&ip))
            .copied()
            .unwrap_or(0)
    }

    /// Who opened a connection, as far as its address tells.
    pub(super) fn of_accepted(&self, ip: IpAddr) -> u16 {
        if let Some(place) = self.by_ip.get(&ip.to_canonical()) {
            return *place;
        }
        let mut networks = self.networks.iter();
        networks
            .find(|(network, _)| is_in(*network, ip))
            .map_or(0, |(_, place)| *place)
    }

    /// Who it is by the names that it proved.
    pub(super) fn of_proven(&self, domains: &[Box<str>]) -> Option<u16> {
        domains
            .iter()
            .find_map(|domain| self.by_host.get(domain).copied())
    }

    /// The place of a name, new or not; none past the bound.
    fn add(&mut self, name: &str) -> Option<u16> {
        let known = self.index_of(name);
        if known > 0 {
            return Some(known);
        }
        if self.names.len() >= PEERS_MAX {
            return None;
        }
        self.names.push(name.into());
        u16::try_from(self.names.len()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_peer_is_known_by_name_address_network_and_proof() {
        let mut names = PeerNames::default();
        names.add_host("GW.example.net.");
        names.add_host("192.0.2.7");
        names.add_network("198.51.100.0/24".parse().unwrap());
        names.add_host("gw.example.net");
        let (gateway, address, network) = (1, 2, 3);
        assert_eq!(names.names.len(), 3);
        let of_opened = |name, at: &str| names.of_opened(name, ip(at));
        assert_eq!(of_opened(Some("gw.example.net"), "203.0.113.1"), gateway);
        assert_eq!(of_opened(Some("Gw.Example.net"), "203.0.113.1"), gateway);
        assert_eq!(of_opened(None, "192.0.2.7"), address);
        assert_eq!(of_opened(Some("phone.example"), "203.0.113.1"), 0);
        assert_eq!(names.of_accepted(ip("198.51.100.9")), network);
        assert_eq!(names.of_accepted(ip("192.0.2.7")), address);
        assert_eq!(names.of_accepted(ip("192.0.2.8")), 0);
        // As a listener on [::] names them.
        assert_eq!(names.of_accepted(ip("::ffff:198.51.100.9")), network);
        assert_eq!(names.of_accepted(ip("::ffff:192.0.2.7")), address);
        assert_eq!(names.of_proven(&["gw.example.net".into()]), Some(gateway));
        assert_eq!(names.of_proven(&["else.example".into()]), None);
        assert_eq!(&*names.name(3), "198.51.100.0/24");
        assert_eq!(&*names.name(0), OTHER_PEERS);
        assert_eq!(&*names.name(99), OTHER_PEERS);
    }

    #[test]
    fn names_are_bounded() {
        let mut names = PeerNames::default();
        for number in 0..200 {
            names.add_host(&format!("h{number}.example"));
        }
        assert_eq!(names.names.len(), PEERS_MAX);
        assert_eq!(names.index_of("h63.example"), 64);
        assert_eq!(names.index_of("h64.example"), 0);
    }
}
