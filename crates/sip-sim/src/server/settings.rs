//! Who is where, and what the server is told of them.

use std::net::SocketAddr;
use std::sync::Arc;

use sip_engine::Settings;
use sip_engine::hook::{HookSettings, OnFailure};
use sip_engine::routes::{Care, Connections, Failover, Gateway, GatewayGroup, NextHop, Probing};
use sip_engine::settings::{Inbound, Listener, MediaSettings, MediaUse, NatSettings, TrustedPeer};
use sip_hook::Kind;
use sip_msg::Transport;

use crate::media::engines;
use crate::plan::{Hooked, Hostility, Media, Plan, Standing};
use crate::warden::EVIL;

/// The domain of all users.
pub(crate) const DOMAIN: &str = "sim.test";

/// The server itself, the gateway behind the numbers of a hostile world, and the
/// neighbour behind a domain.
pub(crate) const SERVER: ([u8; 4], u16) = ([10, 0, 0, 1], 5060);
pub(crate) const GATEWAY: ([u8; 4], u16) = ([10, 0, 2, 1], 5060);
pub(crate) const NEIGHBOUR: ([u8; 4], u16) = ([10, 0, 3, 1], 5060);
/// Gateways behind the numbers of other worlds.
pub(crate) const CARRIERS: u8 = 3;

/// A gateway of the carrier.
pub(crate) fn carrier(nth: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 2, 11 + nth], 5060))
}

/// A server of somebody else.
pub(crate) fn foreign() -> SocketAddr {
    SocketAddr::from(([10, 0, 5, 1], 5060))
}

/// The settings; those of a reload differ in what a reload may change.
pub(super) fn settings(plan: &Plan, generation: u64) -> Settings {
    let addr = SocketAddr::from(SERVER);
    let listener = |transport| Listener {
        transport,
        bound: addr,
        advertised_host: None,
        advertised_port: addr.port(),
        certificates_authenticate: false,
    };
    let mut settings = Settings {
        domains: vec![DOMAIN.into()],
        listeners: vec![listener(Transport::Udp), listener(Transport::Tcp)],
        server_header: format!("Signet/{generation}"),
        ..Settings::default()
    };
    settings.bounds.retry_after_s += generation as u32;
    settings.records.is_on = true;
    if let Some(nat) = plan.nat {
        settings.nat = NatSettings {
            expires_max_s: nat.expires_max_s,
            keepalive: nat.keepalive,
            keepalive_interval_ms: nat.memory_ms * 2 / 3,
            ..NatSettings::default()
        };
    }
    if let Some(auth) = &mut settings.authenticate {
        auth.tells_who_is_proved = plan.distance.is_some_and(|distance| distance.has_cache);
        auth.evens_refusals = plan.distance.is_some();
    }
    settings.hook = plan.hook.map(|hook| HookSettings {
        asks: vec![Kind::Call, Kind::Message, Kind::Registration],
        timeout_ms: Hooked::TIMEOUT_MS,
        waiting_max: 64,
        on_failure: match hook.goes_on {
            true => OnFailure::Continue,
            false => OnFailure::Reject,
        },
        may_relay: generation.is_multiple_of(2),
        headers: vec!["X-Sim".into()],
    });
    settings.media = plan.media.as_ref().map(|media| Arc::new(led_by(media)));
    match &plan.hostility {
        Some(hostility) => add_neighbours(&mut settings, hostility, addr),
        None => add_carrier(&mut settings, plan, generation),
    }
    settings
}

/// Every call has an engine, and none goes without.
fn led_by(media: &Media) -> MediaSettings {
    MediaSettings {
        listeners: vec![MediaUse::Always; 2],
        client: sip_media::Config {
            engines: engines(media),
            ..sip_media::Config::default()
        },
        ..MediaSettings::default()
    }
}

/// The carrier's gateways: by a name with all kinds of records, and by addresses. A
/// reload has them change places.
fn add_carrier(settings: &mut Settings, plan: &Plan, generation: u64) {
    let next_hop = |host: String, transport| NextHop {
        host: host.into(),
        port: None,
        transport,
        connections: match plan.has_lanes {
            true => Connections::PerCall,
            false => Connections::default(),
        },
    };
    let mut gateways = vec![
        next_hop("carrier.test".to_owned(), None),
        next_hop(carrier(1).ip().to_string(), Some(Transport::Tcp)),
        next_hop(carrier(2).ip().to_string(), Some(Transport::Udp)),
    ];
    gateways.rotate_left(generation as usize % 3);
    let gateways = gateways
        .into_iter()
        .zip(1..)
        .map(|(next_hop, priority)| Gateway {
            next_hop,
            priority,
            weight: 1,
        });
    settings.routes.groups.push(GatewayGroup {
        name: "carrier".into(),
        gateways: gateways.collect(),
        care: plan.probes.then(|| Arc::new(care())),
        ..GatewayGroup::default()
    });
    settings.routes.prefixes.insert("+".into(), 0);
    let trusted = (0..CARRIERS).map(|nth| TrustedPeer::at(carrier(nth).ip(), 32));
    settings.trusted.extend(trusted);
}

/// Gateways are probed, left soon, and replaced after whatever may be a reason.
fn care() -> Care {
    Care {
        timeout_ms: 1_500,
        failover: [408, 480]
            .into_iter()
            .chain(500..600)
            .fold(Failover::NONE, Failover::with),
        probing: Some(Probing {
            interval_ms: 5_000,
            fails_max: 2,
            goods_min: 2,
        }),
        ..Care::USUAL
    }
}

/// The gateway, by its table, and the neighbour as the plan has it.
fn add_neighbours(settings: &mut Settings, hostility: &Hostility, own: SocketAddr) {
    let (gateway, neighbour) = (SocketAddr::from(GATEWAY), SocketAddr::from(NEIGHBOUR));
    settings.trusted.push(TrustedPeer::at(gateway.ip(), 32));
    if hostility.neighbour != Standing::Unlisted {
        settings.trusted.push(TrustedPeer {
            speaks_for: Some(vec![EVIL.into()]),
            may_relay: hostility.neighbour == Standing::Relays,
            ..TrustedPeer::at(neighbour.ip(), 32)
        });
    }
    if hostility.trusts_own_network {
        settings.trusted.push(TrustedPeer::at(own.ip(), 24));
    }
    if hostility.is_open_to_strangers {
        settings.inbound = Inbound::Anyone;
    }
    let next_hop = NextHop {
        host: gateway.ip().to_string().into(),
        port: Some(gateway.port()),
        transport: Some(Transport::Udp),
        connections: Connections::default(),
    };
    settings.routes.groups.push(GatewayGroup {
        name: "numbers".into(),
        gateways: vec![Gateway {
            next_hop,
            priority: 1,
            weight: 1,
        }],
        ..GatewayGroup::default()
    });
    settings.routes.prefixes.insert("+".into(), 0);
}
