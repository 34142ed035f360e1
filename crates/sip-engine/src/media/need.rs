//! Which calls need an engine, and how their session descriptions are changed.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sip_media::{Shape, Side};
use sip_msg::network::is_in;
use sip_msg::{Flow, ListenerId, Message, Transport, Uri};

use super::{MediaSettings, MediaUse};
use crate::nat::{Nat, NatSettings, is_behind};
use crate::proxy::context::TargetKind;
use crate::proxy::record_route::first_contact;

/// One end of a call, as this server reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MediaEnd {
    pub(crate) transport: Transport,
    pub(crate) listener: ListenerId,
    pub(crate) addr: SocketAddr,
    /// Whether an address translation was found in front of it.
    pub(crate) is_behind: bool,
}

impl MediaEnd {
    /// Who calls.
    pub(crate) fn caller(nat: &NatSettings, request: &Message, flow: &Flow) -> Self {
        Self {
            transport: flow.transport,
            listener: flow.listener,
            addr: flow.remote,
            is_behind: is_caller_behind(nat, request, flow),
        }
    }

    /// Who is called there.
    pub(crate) fn callee(
        nat: &NatSettings,
        kind: &TargetKind,
        transport: Transport,
        listener: ListenerId,
        addr: SocketAddr,
    ) -> Self {
        Self {
            transport,
            listener,
            addr,
            is_behind: is_callee_behind(nat, kind),
        }
    }
}

/// Whether a translation stands before whoever sends a request, as its topmost Via or its
/// Contact shows it. Of what is behind another proxy nothing is known.
fn is_caller_behind(nat: &NatSettings, request: &Message, flow: &Flow) -> bool {
    let Ok(via) = request.top_via() else {
        return false;
    };
    match nat.of(flow) {
        Nat::Always => true,
        Nat::Never => false,
        Nat::Auto if request.has_several(sip_msg::HeaderName::Via) => false,
        Nat::Auto => {
            let source = flow.remote.ip().to_canonical();
            let is_translated = via.received.is_some() && via.sent_by.ip() != Some(source);
            is_translated || first_contact(request).is_some_and(|uri| is_behind(&uri, flow))
        }
    }
}

/// Whether one stands before a phone, as it has shown when it registered.
fn is_callee_behind(nat: &NatSettings, kind: &TargetKind) -> bool {
    let TargetKind::Contact(binding) = kind else {
        return false;
    };
    let Some(flow) = binding.flow.filter(|_| binding.path.is_empty()) else {
        return false;
    };
    match nat.of(&flow) {
        Nat::Always => true,
        Nat::Never => false,
        Nat::Auto => {
            let is_shown = |uri| is_behind(&uri, &flow);
            binding.is_translated || Uri::parse(&binding.uri).is_some_and(is_shown)
        }
    }
}

impl MediaSettings {
    /// Whether a call between the two needs an engine. `group` is what is written of the
    /// gateways that it goes to: the operator has named them, so that decides alone.
    pub(crate) fn is_needed(
        &self,
        group: Option<MediaUse>,
        caller: &MediaEnd,
        callee: &MediaEnd,
    ) -> bool {
        let wants = |own: &MediaEnd, other: &MediaEnd, uses: MediaUse| match uses {
            MediaUse::Always => true,
            MediaUse::Never => false,
            // Two browsers find each other by themselves, through any translation.
            MediaUse::Auto if own.transport.is_websocket() => !other.transport.is_websocket(),
            MediaUse::Auto => own.is_behind,
        };
        match group {
            Some(MediaUse::Always) => true,
            Some(MediaUse::Never) => false,
            Some(MediaUse::Auto) | None => {
                wants(caller, callee, self.of(caller)) || wants(callee, caller, self.of(callee))
            }
        }
    }

    /// What holds for one end.
    fn of(&self, end: &MediaEnd) -> MediaUse {
        let mut networks = self.networks.iter();
        let of_network = networks.find_map(|of| {
            let uses = of.uses?;
            is_in(of.network, end.addr.ip()).then_some(uses)
        });
        of_network.unwrap_or_else(|| {
            let of_listener = self.listeners.get(usize::from(end.listener.0));
            of_listener.copied().unwrap_or_default()
        })
    }

    /// How a session description is changed on its way from one end to the other.
    pub(crate) fn shape(
        &self,
        from: (Transport, SocketAddr),
        to: (Transport, SocketAddr),
    ) -> Shape {
        let side = |transport: Transport| match transport.is_websocket() {
            true => Side::Browser,
            false => Side::Plain,
        };
        let is_v6 = |addr: SocketAddr| addr.ip().to_canonical().is_ipv6();
        let interfaces = match (self.interface_of(from.1.ip()), self.interface_of(to.1.ip())) {
            (Some(from), Some(to)) => Some([from, to]),
            _ => None,
        };
        Shape {
            from: side(from.0),
            to: side(to.0),
            is_v6: (is_v6(from.1) != is_v6(to.1)).then(|| is_v6(to.1)),
            interfaces,
        }
    }

    /// The engine's interface towards an address.
    fn interface_of(&self, ip: IpAddr) -> Option<Arc<str>> {
        let mut networks = self.networks.iter();
        let of_network = networks.find_map(|of| {
            let interface = of.interface.as_ref()?;
            is_in(of.network, ip).then_some(interface)
        });
        of_network.or(self.interface.as_ref()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::MediaNetwork;
    use super::*;

    fn end(transport: Transport, addr: &str, is_behind: bool) -> MediaEnd {
        MediaEnd {
            transport,
            listener: ListenerId(0),
            addr: addr.parse().unwrap(),
            is_behind,
        }
    }

    fn network(network: &str, uses: Option<MediaUse>, interface: Option<&str>) -> MediaNetwork {
        MediaNetwork {
            network: network.parse().unwrap(),
            uses,
            interface: interface.map(Into::into),
        }
    }

    #[test]
    fn a_call_needs_an_engine_where_the_two_do_not_reach_each_other() {
        let settings = MediaSettings::default();
        let phone = end(Transport::Udp, "192.0.2.7:5060", false);
        let hidden = end(Transport::Udp, "203.0.113.7:40000", true);
        let browser = end(Transport::Wss, "203.0.113.9:50000", false);
        for (caller, callee, is_needed) in [
            (phone, phone, false),
            (phone, hidden, true),
            (hidden, phone, true),
            (hidden, hidden, true),
            (browser, phone, true),
            (phone, browser, true),
            (browser, browser, false),
            (hidden, browser, true),
        ] {
            let needed = settings.is_needed(None, &caller, &callee);
            assert_eq!(needed, is_needed, "{caller:?} {callee:?}");
            for (group, needed) in [
                (MediaUse::Always, true),
                (MediaUse::Never, false),
                (MediaUse::Auto, is_needed),
            ] {
                let by_group = settings.is_needed(Some(group), &caller, &callee);
                assert_eq!(by_group, needed, "{group:?} {caller:?} {callee:?}");
            }
        }
    }

    #[test]
    fn networks_count_before_listeners_and_one_end_is_enough() {
        let settings = MediaSettings {
            networks: vec![
                network("10.1.0.0/16", None, Some("inside")),
                network("10.1.0.0/16", Some(MediaUse::Never), None),
                network("10.0.0.0/8", Some(MediaUse::Always), None),
            ],
            listeners: vec![MediaUse::Auto, MediaUse::Always],
            ..MediaSettings::default()
        };
        let public = end(Transport::Udp, "192.0.2.7:5060", false);
        let never = end(Transport::Udp, "10.1.0.7:5060", true);
        let always = end(Transport::Udp, "10.2.0.7:5060", false);
        assert!(!settings.is_needed(None, &public, &never));
        assert!(!settings.is_needed(None, &never, &public));
        assert!(settings.is_needed(None, &never, &always));
        assert!(settings.is_needed(None, &always, &public));
        let on = |listener, of: MediaEnd| MediaEnd {
            listener: ListenerId(listener),
            ..of
        };
        assert!(settings.is_needed(None, &on(1, public), &public));
        assert!(!settings.is_needed(None, &on(1, never), &public));
        assert!(!settings.is_needed(None, &on(2, public), &public));
    }

    #[test]
    fn a_shape_follows_transports_families_and_networks() {
        let settings = MediaSettings {
            networks: vec![network("10.0.0.0/8", None, Some("inside"))],
            interface: Some("outside".into()),
            ..MediaSettings::default()
        };
        let at = |addr: &str| addr.parse::<SocketAddr>().unwrap();
        let phone = (Transport::Udp, at("10.0.0.7:5060"));
        let browser = (Transport::Ws, at("[2001:db8::7]:50000"));
        let shape = settings.shape(phone, browser);
        assert_eq!((shape.from, shape.to), (Side::Plain, Side::Browser));
        assert_eq!(shape.is_v6, Some(true));
        assert_eq!(shape.interfaces, Some(["inside".into(), "outside".into()]));
        let shape = settings.shape(browser, phone);
        assert_eq!((shape.from, shape.to), (Side::Browser, Side::Plain));
        assert_eq!(shape.is_v6, Some(false));
        let mapped = (Transport::Tls, at("[::ffff:10.0.0.8]:5061"));
        let shape = settings.shape(phone, mapped);
        assert_eq!(shape.is_v6, None, "it is the same family");
        let plain = MediaSettings::default().shape(phone, browser);
        assert_eq!(plain.interfaces, None);
    }
}
