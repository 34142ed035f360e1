//! Who is trusted because calls go there, and to whom a password may be shown
//! (`docs/decisions/0215-who-is-trusted-because-calls-go-there.md`).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sip_msg::network::IpNet;
use sip_msg::{Target, Transport};

use super::Trunk;
use crate::Settings;
use crate::gateways::ports_beside;
use crate::routes::GatewayGroup;
use crate::settings::TrustedPeer;

/// The addresses of members' names, as this shard knows them.
#[derive(Debug, Default)]
pub(super) struct Named(Vec<(Arc<str>, Vec<IpAddr>)>);

impl Named {
    /// Takes over what is known of all members that are written as names.
    pub(super) fn read(settings: &Settings, addresses: impl Fn(&str) -> Vec<IpAddr>) -> Self {
        let mut names: Vec<&Arc<str>> = hosts(settings).collect();
        names.sort_unstable();
        names.dedup();
        Self(
            names
                .into_iter()
                .map(|name| (Arc::clone(name), addresses(name)))
                .collect(),
        )
    }

    /// Whether any member is written as a name.
    pub(super) fn is_any(&self) -> bool {
        !self.0.is_empty()
    }

    fn of(&self, host: &str) -> &[IpAddr] {
        let found = self.0.iter().find(|(name, _)| **name == *host);
        found.map_or(&[], |(_, addresses)| addresses)
    }
}

/// The members of trunks that are written as names.
fn hosts(settings: &Settings) -> impl Iterator<Item = &Arc<str>> {
    let groups = settings.routes.groups.iter();
    let trunks = groups.filter(|group| group.trunk.is_some());
    let hosts = trunks.flat_map(|group| group.gateways.iter().map(|of| &of.next_hop.host));
    hosts.filter(|host| host.parse::<IpAddr>().is_err())
}

/// The entries of the list of peers that trunks bring.
pub(super) fn entries(settings: &Settings, named: &Named) -> Vec<TrustedPeer> {
    let mut entries = Vec::new();
    for group in &settings.routes.groups {
        let Some(trunk) = &group.trunk else { continue };
        let entry = |network: Option<IpNet>, identity: Option<Arc<str>>| TrustedPeer {
            network,
            identity,
            speaks_for: Some(vec!["*".into()]),
            may_relay: false,
            secure_only: trunk.trust.secure_only,
            calls_per_s: None,
            trunk: Some(Arc::clone(&trunk.name)),
        };
        let networks = trunk.trust.networks.iter().copied();
        let members = addresses(group, trunk, named).into_iter().map(IpNet::from);
        entries.extend(networks.chain(members).map(|net| entry(Some(net), None)));
        let identities = trunk.trust.identities.iter();
        entries.extend(identities.map(|of| entry(None, Some(Arc::clone(of)))));
    }
    entries
}

/// The addresses of a trunk's members, where those are what is trusted.
fn addresses(group: &GatewayGroup, trunk: &Trunk, named: &Named) -> Vec<IpAddr> {
    let mut all = Vec::new();
    if !trunk.trust.by_address {
        return all;
    }
    for gateway in &group.gateways {
        let host = &gateway.next_hop.host;
        match host.parse::<IpAddr>() {
            Ok(ip) => all.push(ip.to_canonical()),
            Err(_) => all.extend_from_slice(named.of(host)),
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Whether a place is one of a group's members: there the trunk's password may be used.
pub(super) fn is_member(group: &GatewayGroup, named: &Named, to: &Target) -> bool {
    let remote = SocketAddr::new(to.remote.ip().to_canonical(), to.remote.port());
    group.gateways.iter().any(|gateway| {
        let hop = &gateway.next_hop;
        // A digest that is to go under TLS does not go in the clear.
        if hop.transport.is_some_and(Transport::is_secure) && !to.transport.is_secure() {
            return false;
        }
        match hop.host.parse::<IpAddr>() {
            // A connection that the member opened has a port of its own.
            Ok(ip) => {
                let is_at_port =
                    to.conn.is_some() || ports_beside(hop.port).contains(&remote.port());
                ip.to_canonical() == remote.ip() && is_at_port
            }
            Err(_) => named.of(&hop.host).contains(&remote.ip()),
        }
    })
}

#[cfg(test)]
mod tests {
    use sip_msg::{ConnId, Lane, ListenerId};

    use super::*;
    use crate::routes::{Gateway, NextHop};
    use crate::trunk::{Trust, of_tests};

    fn settings(hosts: &[&str], trust: Trust) -> Settings {
        let gateways = hosts.iter().map(|host| Gateway {
            next_hop: NextHop {
                host: (*host).into(),
                port: None,
                transport: None,
                connections: Default::default(),
            },
            priority: 0,
            weight: 1,
        });
        let mut settings = Settings::default();
        settings.routes.groups.push(GatewayGroup {
            name: "provider".into(),
            gateways: gateways.collect(),
            trunk: Some(Arc::new(Trunk {
                trust,
                ..of_tests()
            })),
            ..GatewayGroup::default()
        });
        settings
    }

    fn by_address() -> Trust {
        Trust {
            by_address: true,
            ..Trust::default()
        }
    }

    fn named(settings: &Settings) -> Named {
        Named::read(settings, |name| match name {
            "sip.example" => vec!["203.0.113.8".parse().unwrap()],
            _ => Vec::new(),
        })
    }

    #[test]
    fn members_reach_our_users_in_nobodys_name_of_ours() {
        let settings = settings(&["192.0.2.9", "sip.example", "not.known"], by_address());
        let named = named(&settings);
        assert!(named.is_any());
        let entries = entries(&settings, &named);
        let networks: Vec<String> = entries
            .iter()
            .map(|entry| entry.network.unwrap().to_string())
            .collect();
        assert_eq!(networks, ["192.0.2.9/32", "203.0.113.8/32"]);
        for entry in &entries {
            assert!(!entry.may_relay && entry.identity.is_none());
            assert_eq!(entry.speaks_for.as_deref(), Some(&["*".into()][..]));
            assert_eq!(entry.trunk.as_deref(), Some("provider"));
        }
    }

    #[test]
    fn a_certificate_takes_the_place_of_addresses() {
        let trust = Trust {
            identities: vec!["sip.example".into()],
            networks: vec!["198.51.100.0/24".parse().unwrap()],
            secure_only: true,
            ..Trust::default()
        };
        let settings = settings(&["192.0.2.9", "sip.example"], trust);
        let entries = entries(&settings, &named(&settings));
        let told: Vec<_> = entries
            .iter()
            .map(|entry| {
                (
                    entry.network.is_some(),
                    entry.identity.as_deref(),
                    entry.secure_only,
                )
            })
            .collect();
        assert_eq!(
            told,
            [(true, None, true), (false, Some("sip.example"), true)]
        );
        let nobody = settings_of_nobody();
        assert!(super::entries(&nobody, &named(&nobody)).is_empty());
    }

    fn settings_of_nobody() -> Settings {
        settings(&["192.0.2.9", "sip.example"], Trust::default())
    }

    #[test]
    fn a_password_is_for_members_alone() {
        let settings = settings(&["192.0.2.9", "sip.example"], Trust::default());
        let (group, named) = (&settings.routes.groups[0], named(&settings));
        let to = |remote: &str, conn: u64| Target {
            transport: Transport::Tcp,
            listener: ListenerId(0),
            remote: remote.parse().unwrap(),
            conn: ConnId(conn),
            may_open: true,
            tls_name: None,
            lane: Lane::Shared,
            local: None,
        };
        for (remote, conn, is_its) in [
            ("192.0.2.9:5060", 0, true),
            ("192.0.2.9:5061", 0, true),
            ("192.0.2.9:5070", 0, false),
            ("192.0.2.9:40000", 7, true),
            ("[::ffff:192.0.2.9]:5060", 0, true),
            ("192.0.2.8:5060", 0, false),
            ("203.0.113.8:5099", 0, true),
            ("203.0.113.9:5060", 0, false),
        ] {
            assert_eq!(
                is_member(group, &named, &to(remote, conn)),
                is_its,
                "{remote}"
            );
        }
        let mut secure = settings.routes.groups[0].clone();
        secure.gateways[0].next_hop.transport = Some(Transport::Tls);
        for (transport, is_its) in [(Transport::Tcp, false), (Transport::Tls, true)] {
            let to = Target {
                transport,
                ..to("192.0.2.9:5061", 0)
            };
            assert_eq!(is_member(&secure, &named, &to), is_its);
        }
    }
}
