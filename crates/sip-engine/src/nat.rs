//! Where a phone is reached that may be behind a network address translation
//! (`docs/decisions/0196-where-a-phone-behind-a-nat-is-reached.md`).

use std::net::{IpAddr, SocketAddr};

use sip_msg::network::{IpNet, is_in};
use sip_msg::{Flow, Transport, Uri};

use crate::location::Binding;
use crate::own::uri_port;
use crate::proxy::egress::flow_of;

/// Whether requests to a phone go where its own came from, or where its Contact says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(rename_all = "lowercase")
)]
pub enum Nat {
    /// Where they came from, if Via or Contact shows a translation in between.
    #[default]
    Auto,
    /// Where they came from.
    Always,
    /// Where the Contact says. A connection is used all the same: there may be no
    /// other way.
    Never,
}

/// What this server sends to a phone that is reached by datagrams to where it came from, so
/// that a translation in between does not forget it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(rename_all = "lowercase")
)]
pub enum KeepAlive {
    /// Nothing: phones keep their own way open.
    #[default]
    Off,
    /// Two line ends. They are not answered: for translations that packets from outside keep open.
    Crlf,
    /// OPTIONS. They are answered, which keeps every translation open, and tells who is gone.
    Options,
}

/// The rule of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatRule {
    /// Where the phones' packets come from.
    pub network: IpNet,
    /// Where they are reached.
    pub nat: Nat,
    /// What is sent to them; `None` for what all get.
    pub keepalive: Option<KeepAlive>,
}

/// How phones are reached, by where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatSettings {
    /// Of networks; the first that a phone's packets come from counts.
    pub networks: Vec<NatRule>,
    /// Of listeners, in the order of their numbers, for all others; [`Nat::Auto`] for those
    /// that are not there.
    pub listeners: Vec<Nat>,
    /// Most seconds granted to a contact that is reached by datagrams to where it came from: the
    /// translation forgets it before the registrar does. `None`: as for all.
    pub expires_max_s: Option<u32>,
    /// What is sent to those contacts, where their network does not say.
    pub keepalive: KeepAlive,
    /// The longest time from one to the next.
    pub keepalive_interval_ms: u64,
    /// After so many unanswered OPTIONS in a row, the flow has ended.
    pub keepalive_fail: u32,
}

impl Default for NatSettings {
    fn default() -> Self {
        Self {
            networks: Vec::new(),
            listeners: Vec::new(),
            expires_max_s: None,
            keepalive: KeepAlive::Off,
            // Most translations forget a datagram's way after 30 s.
            keepalive_interval_ms: 25_000,
            keepalive_fail: 3,
        }
    }
}

impl NatSettings {
    /// What holds for a phone at the other end of a flow.
    pub fn of(&self, flow: &Flow) -> Nat {
        match self.rule(flow) {
            Some(rule) => rule.nat,
            None => self
                .listeners
                .get(usize::from(flow.listener.0))
                .copied()
                .unwrap_or_default(),
        }
    }

    /// Whether anything is sent to anybody.
    pub(crate) fn keeps_any(&self) -> bool {
        let mut networks = self.networks.iter();
        self.keepalive != KeepAlive::Off
            || networks.any(|rule| !matches!(rule.keepalive, None | Some(KeepAlive::Off)))
    }

    /// The flow that is kept open for a contact, and by what; `None` where none is.
    pub(crate) fn kept_flow(&self, binding: &Binding) -> Option<(Flow, KeepAlive)> {
        let flow = datagrams_back(self, binding)?;
        let rule = self.rule(&flow).and_then(|rule| rule.keepalive);
        let how = rule.unwrap_or(self.keepalive);
        (how != KeepAlive::Off).then_some((flow, how))
    }

    fn rule(&self, flow: &Flow) -> Option<&NatRule> {
        let remote = flow.remote.ip();
        let mut networks = self.networks.iter();
        networks.find(|rule| is_in(rule.network, remote))
    }
}

/// The flow of a contact that is reached by datagrams to where it came from, and knows
/// nothing of it: who asked for a flow (RFC 5626) keeps it open himself, and behind a proxy
/// the way is the proxy's.
pub(crate) fn datagrams_back(nat: &NatSettings, binding: &Binding) -> Option<Flow> {
    let is_plain = binding.reg_id.is_none() && binding.path.is_empty();
    let flow = binding.flow.filter(|_| is_plain)?;
    match flow.transport {
        Transport::Udp => flow_of(nat, binding),
        _ => None,
    }
}

/// Whether requests cannot be sent where a Contact says, once it is known that a
/// translation stands between: it names an address of the phone's own network or a name
/// of it, or a port that the translation has put another for.
pub(crate) fn is_hidden(contact: &Uri<'_>, remote: SocketAddr) -> bool {
    let source = remote.ip().to_canonical();
    match contact.host_port.ip() {
        // There is no translation within one machine, and in a network of one's own
        // phones may listen elsewhere than they send from.
        Some(ip) if ip == source => {
            !is_private(ip) && !ip.is_loopback() && uri_port(contact) != remote.port()
        }
        Some(ip) => is_private(ip),
        None => names_no_address(contact.host_port.host),
    }
}

/// Whether a Contact is just where its phone's packets come from. Behind a translation a phone
/// knows that from the Via of an answer (RFC 3581), and needs to be kept reachable there as
/// one that does not.
pub(crate) fn names_source(contact: &Uri<'_>, remote: SocketAddr) -> bool {
    let ip = contact.host_port.ip();
    ip == Some(remote.ip().to_canonical()) && uri_port(contact) == remote.port()
}

/// Whether a Contact itself shows a translation, although the address in Via does not: some
/// translations correct the one and not the other. `has_other_port` is whether the port in
/// Via is not the source's, and answers are wanted there (RFC 3581).
pub(crate) fn shows_translation(contact: &Uri<'_>, flow: &Flow, has_other_port: bool) -> bool {
    let source = flow.remote.ip().to_canonical();
    let is_datagram = matches!(contact.transport(), None | Some(Some(Transport::Udp)));
    is_datagram
        && is_hidden(contact, flow.remote)
        && match contact.host_port.ip() {
            // Where Via is right a server listens elsewhere than it sends from.
            Some(ip) if ip == source => has_other_port,
            // One of a network may register a neighbour of his.
            Some(ip) => network_of(ip) != network_of(source),
            // A name may be in this network's DNS.
            None => false,
        }
}

/// Whether a Contact shows that a translation stands before whoever is at the other end of a
/// flow, so that what he writes of his own address into a session description means nothing
/// elsewhere. Who registers a neighbour of his own network is behind none.
pub(crate) fn is_behind(contact: &Uri<'_>, flow: &Flow) -> bool {
    let source = flow.remote.ip().to_canonical();
    match contact.host_port.ip() {
        // A connection has another port in any case.
        Some(ip) if ip == source => {
            flow.transport == Transport::Udp && is_hidden(contact, flow.remote)
        }
        Some(ip) => is_private(ip) && network_of(ip) != network_of(source),
        None => names_no_address(contact.host_port.host),
    }
}

/// Names that no public DNS has (RFC 2606, RFC 6762 and its appendix G, RFC 8375), and
/// names without a domain.
fn names_no_address(host: &[u8]) -> bool {
    const SUFFIXES: [&[u8]; 11] = [
        b".invalid",
        b".local",
        b".localdomain",
        b".lan",
        b".home",
        b".home.arpa",
        b".internal",
        b".intranet",
        b".private",
        b".corp",
        b".localhost",
    ];
    let host = host.strip_suffix(b".").unwrap_or(host);
    let ends_so = |suffix: &&[u8]| {
        let at = host.len().checked_sub(suffix.len());
        at.and_then(|at| host.get(at..))
            .is_some_and(|end| end.eq_ignore_ascii_case(suffix))
    };
    !host.contains(&b'.') || SUFFIXES.iter().any(ends_so)
}

/// Addresses that only their own network can reach.
pub(crate) fn is_private(ip: IpAddr) -> bool {
    network_of(ip) != 0
}

/// Which of the networks that only they themselves can reach an address is in; 0 for none.
fn network_of(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(v4) => match v4.octets() {
            [10, ..] => 1,
            [172, 16..=31, ..] => 2,
            [192, 168, ..] => 3,
            // RFC 6598: between a provider and its customers.
            [100, 64..=127, ..] => 4,
            [169, 254, ..] => 5,
            [0, 0, 0, 0] => 6,
            _ => 0,
        },
        IpAddr::V6(v6) if v6.is_unique_local() => 7,
        IpAddr::V6(v6) if v6.is_unicast_link_local() => 8,
        IpAddr::V6(v6) if v6.is_unspecified() => 9,
        IpAddr::V6(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use sip_msg::{ConnId, ListenerId};

    use super::*;

    fn flow(listener: u16, remote: &str) -> Flow {
        Flow {
            transport: Transport::Udp,
            listener: ListenerId(listener),
            local: "192.0.2.1:5060".parse().unwrap(),
            remote: remote.parse().unwrap(),
            conn: ConnId::NONE,
        }
    }

    #[test]
    fn a_network_counts_before_its_listener() {
        let rule = |network: &str, nat| NatRule {
            network: network.parse().unwrap(),
            nat,
            keepalive: None,
        };
        let nat = NatSettings {
            networks: vec![
                rule("10.1.0.0/16", Nat::Never),
                rule("10.0.0.0/8", Nat::Always),
            ],
            listeners: vec![Nat::Auto, Nat::Always],
            ..NatSettings::default()
        };
        for (listener, remote, is) in [
            (0, "10.1.2.3:5060", Nat::Never),
            (1, "10.1.2.3:5060", Nat::Never),
            (0, "10.2.2.3:5060", Nat::Always),
            (0, "192.0.2.3:5060", Nat::Auto),
            (1, "192.0.2.3:5060", Nat::Always),
            (2, "192.0.2.3:5060", Nat::Auto),
        ] {
            assert_eq!(nat.of(&flow(listener, remote)), is, "{listener} {remote}");
        }
    }

    #[test]
    fn what_a_contact_shows() {
        let there = "203.0.113.7:40007";
        for (contact, remote, has_other_port, shows, hidden) in [
            // Via was corrected on the way, and Contact was not.
            ("sip:a@10.9.9.9", there, false, true, true),
            ("sip:a@10.9.9.9", "127.0.0.36:5060", false, true, true),
            ("sip:a@192.168.1.5", "10.8.0.3:5060", false, true, true),
            ("sip:a@[fd00::9]", "[2001:db8::7]:5060", false, true, true),
            // A neighbour in the same network.
            ("sip:a@10.0.0.8", "10.0.0.7:5060", false, false, true),
            // Another port of the same address.
            ("sip:a@203.0.113.7", there, true, true, true),
            ("sip:a@203.0.113.7", there, false, false, true),
            ("sip:a@203.0.113.7:40007", there, true, false, false),
            ("sip:a@127.0.0.36", "127.0.0.36:40007", true, false, false),
            ("sip:a@10.0.0.7", "10.0.0.7:40007", true, false, false),
            // Elsewhere in public, or by a name.
            ("sip:a@198.51.100.9", there, true, false, false),
            ("sip:a@pc7.lan", there, true, false, true),
            ("sip:a@PC7.Local.", there, true, false, true),
            ("sip:a@pc7", there, true, false, true),
            ("sip:a@pbx.example.net", there, true, false, false),
            ("sip:a@10.9.9.9;transport=tcp", there, false, false, true),
        ] {
            let uri = Uri::parse(contact.as_bytes()).unwrap();
            let flow = flow(0, remote);
            let shown = shows_translation(&uri, &flow, has_other_port);
            assert_eq!(shown, shows, "{contact} {remote}");
            assert_eq!(is_hidden(&uri, flow.remote), hidden, "{contact} {remote}");
        }
    }

    #[test]
    fn who_is_behind_a_translation() {
        let there = "203.0.113.7:40007";
        for (contact, remote, behind, behind_by_tcp) in [
            ("sip:a@10.9.9.9", there, true, true),
            ("sip:a@192.168.1.5", "10.8.0.3:5060", true, true),
            ("sip:a@10.0.0.8", "10.0.0.7:5060", false, false),
            ("sip:a@203.0.113.7", there, true, false),
            ("sip:a@203.0.113.7:40007", there, false, false),
            ("sip:a@198.51.100.9", there, false, false),
            ("sip:a@pc7.lan", there, true, true),
            ("sip:a@pbx.example.net", there, false, false),
            ("sip:a@10.0.0.7:5060", "10.0.0.7:40007", false, false),
        ] {
            let uri = Uri::parse(contact.as_bytes()).unwrap();
            let by = |transport| Flow {
                transport,
                ..flow(0, remote)
            };
            assert_eq!(is_behind(&uri, &by(Transport::Udp)), behind, "{contact}");
            let by_tcp = is_behind(&uri, &by(Transport::Tcp));
            assert_eq!(by_tcp, behind_by_tcp, "{contact}");
        }
    }
}
