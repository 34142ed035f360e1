//! From a checked configuration to what the engine and the sockets are told.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

use sip_auth::AuthConfig;
use sip_engine::Settings;
use sip_engine::records::RecordSettings;
use sip_engine::routes::{Gateway, GatewayGroup, NextHop, RouteOption, Routes};
use sip_engine::settings::{AuthSettings, Listener, MediaUse, Nat, TrustedPeer};
use sip_msg::Transport;
use sip_net::{DnsConfig, PeerNames, WebSocketRules};

use crate::config::{
    Advertised, Config, Domain, Listen, ListenAt, ListenSecurity, ListenWebSocket, LogLevel, Mode,
};

mod net;

pub(crate) use net::{bound_sockets, connections_room, handshake_config, net_config};

/// Where a server listens, and from where it only opens connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedListener {
    pub(crate) at: ListenAt,
    pub(crate) advertise: Option<Advertised>,
    pub(crate) nat: Nat,
    pub(crate) media: MediaUse,
    pub(crate) security: ListenSecurity,
    pub(crate) websocket: ListenWebSocket,
    /// Whether it accepts; one that does not lends its address to connections
    /// that are opened.
    pub(crate) accept: bool,
}

/// All listeners: those that were asked for or, without any, the usual ones;
/// and for each address family one for each stream transport, so that a
/// server that listens on UDP alone still reaches a gateway over TCP or TLS.
pub(crate) fn listeners(config: &Config) -> Vec<PlannedListener> {
    let mut planned: Vec<PlannedListener> = if config.listen.is_empty() {
        usual_listeners()
            .into_iter()
            .map(PlannedListener::at)
            .collect()
    } else {
        config
            .listen
            .iter()
            .map(PlannedListener::asked_for)
            .collect()
    };
    for is_ipv4 in [true, false] {
        let Some(first) = planned
            .iter()
            .find(|listener| listener.at.addr.is_ipv4() == is_ipv4)
            .cloned()
        else {
            continue;
        };
        for transport in [Transport::Tcp, Transport::Tls] {
            let is_there = |listener: &PlannedListener| {
                listener.at.transport == transport && listener.at.addr.is_ipv4() == is_ipv4
            };
            if !planned.iter().any(is_there) {
                let addr = SocketAddr::new(first.at.addr.ip(), 0);
                planned.push(PlannedListener {
                    at: ListenAt { transport, addr },
                    advertise: first.advertise.clone(),
                    nat: first.nat,
                    media: first.media,
                    security: ListenSecurity::default(),
                    websocket: ListenWebSocket::default(),
                    accept: false,
                });
            }
        }
    }
    planned
}

/// The peers that are counted each for itself: gateways, the next hop, and
/// whoever is trusted.
pub(crate) fn peer_names(config: &Config) -> PeerNames {
    let mut names = PeerNames::default();
    let gateways = config
        .gateway_group
        .iter()
        .flat_map(|group| &group.gateways);
    for gateway in gateways {
        names.add_host(&gateway.uri.0.host);
    }
    if let Some(forward) = &config.forward {
        names.add_host(&forward.0.host);
    }
    for peer in &config.trusted {
        if let Some(identity) = &peer.identity {
            names.add_host(&identity.0);
        }
        if let Some(network) = &peer.network {
            names.add_network(network.0);
        }
    }
    names
}

/// What the protocol is told. `bound` are the listeners' real addresses, in order.
pub(crate) fn settings(
    config: &Config,
    domains: &[Domain],
    planned: &[PlannedListener],
    bound: &[SocketAddr],
) -> Settings {
    Settings {
        domains: domains.iter().map(|domain| domain.0.clone()).collect(),
        listeners: engine_listeners(planned, bound),
        mode: config.mode,
        authenticate: config.authentication.required.then(|| AuthSettings {
            realm: config
                .authentication
                .realm
                .as_ref()
                .map(|realm| realm.0.clone()),
            lookup_timeout_ms: config.authentication.lookup_timeout_ms,
            lookups_max: config.authentication.lookups_max,
            ..AuthSettings::default()
        }),
        trusted: config
            .trusted
            .iter()
            .map(|peer| TrustedPeer {
                network: peer.network.map(|network| network.0),
                identity: peer.identity.as_ref().map(|domain| domain.0.clone()),
                speaks_for: peer
                    .speaks_for
                    .as_ref()
                    .map(|names| names.iter().map(|name| name.0.clone()).collect()),
                may_relay: peer.may_relay,
                secure_only: peer.security.tls,
                calls_per_s: peer.calls_per_s,
                trunk: None,
            })
            .collect(),
        inbound: config.inbound,
        routes: routes(config),
        forward: config.forward.as_ref().map(|hop| NextHop {
            connections: config.forward_reached_over(),
            ..hop.0.clone()
        }),
        registrar: (&config.registrar).into(),
        nat: config.nat.settings(planned.iter().map(|of| of.nat)),
        proxy: (&config.proxy).into(),
        timers: (&config.timers).into(),
        limits: (&config.limits).into(),
        bounds: (&config.bounds).into(),
        rates: config.rates.limits(),
        server_header: config.server_header.clone(),
        tells_all_refusals: config.log.level == LogLevel::Debug,
        records: record_settings(config),
        hook: config.hook.settings(),
        numbers: config.number_rules(),
        // They are in the data folder: see people.rs.
        people: Arc::default(),
        media: config
            .media
            .settings(config.mode, planned.iter().map(|of| of.media)),
    }
}

/// Whether calls are recorded: only a stateful server follows them.
fn record_settings(config: &Config) -> RecordSettings {
    match config.mode {
        Mode::Stateful => RecordSettings {
            is_on: config.records.is_on(),
            session_expires_s: config.records.session_expires_s,
        },
        Mode::Stateless | Mode::Redirect => RecordSettings::default(),
    }
}

pub(crate) fn auth_config(config: &Config) -> AuthConfig {
    let given = &config.authentication;
    AuthConfig {
        algorithms: given
            .algorithms
            .iter()
            .map(|algorithm| algorithm.0)
            .collect(),
        md5_only_agents: given.md5_only_agents.clone(),
        lenient: given.lenient.iter().map(Into::into).collect(),
        offer_auth_int: given.offer_auth_int,
        authentication_info: given.authentication_info,
        nonce_lifetime_ms: given.nonce_lifetime_s.saturating_mul(1_000),
        replay_entries_max: given.replay_entries_max,
        ..AuthConfig::default()
    }
}

/// What strangers and guessers are put up with.
pub(crate) fn guard_limits(config: &Config) -> sip_limit::Limits {
    sip_limit::Limits {
        refusals_per_s: config.sources.refusals_per_s,
        refusals_max: config.sources.refusals_max,
        silence_ms: config.sources.silence_s.saturating_mul(1_000),
        failures_max: config.authentication.failures_max,
        delay_ms_max: config.authentication.failure_delay_max_ms,
    }
}

/// The resolver chooses among what the listeners can reach.
pub(crate) fn dns_config(config: &Config, planned: &[PlannedListener], seed: u64) -> DnsConfig {
    let listeners = planned
        .iter()
        .map(|listener| (listener.at.transport, listener.at.addr.ip()));
    let options = sip_locate::Options {
        reach: listeners.collect(),
        hops_max: config.dns.hops_max,
    };
    DnsConfig {
        options,
        seed,
        ..(&config.dns).into()
    }
}

/// What the upgrades of a listener must have.
pub(crate) fn websocket_rules(listener: &PlannedListener, domains: &[Domain]) -> WebSocketRules {
    let advertised = listener.advertise.iter().map(|given| given.host.clone());
    WebSocketRules {
        path: listener.websocket.path.0.clone(),
        origins: listener.websocket.origins(),
        own_hosts: (domains.iter().map(|domain| domain.0.clone()))
            .chain(advertised)
            .collect(),
    }
}

/// How many workers there are.
pub(crate) fn worker_count(config: &Config) -> usize {
    if config.workers > 0 {
        return config.workers;
    }
    // A connection's name has 8 bits for its worker.
    std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(255)
}

impl PlannedListener {
    fn at(at: ListenAt) -> Self {
        Self {
            at,
            advertise: None,
            nat: Nat::default(),
            media: MediaUse::default(),
            security: ListenSecurity::default(),
            websocket: ListenWebSocket::default(),
            accept: true,
        }
    }

    fn asked_for(listen: &Listen) -> Self {
        Self {
            at: listen.on,
            advertise: listen.advertise.clone(),
            nat: listen.nat,
            media: listen.media,
            security: listen.security.clone(),
            websocket: listen.websocket.clone(),
            accept: true,
        }
    }
}

fn usual_listeners() -> Vec<ListenAt> {
    let mut ips = vec![IpAddr::from([0, 0, 0, 0])];
    // A machine without IPv6 is no error.
    if UdpSocket::bind("[::]:0").is_ok() {
        ips.push(IpAddr::from([0u16; 8]));
    }
    ips.into_iter()
        .flat_map(|ip| {
            [Transport::Udp, Transport::Tcp, Transport::Tls].map(|transport| ListenAt {
                transport,
                addr: SocketAddr::new(ip, transport.default_port()),
            })
        })
        .collect()
}

fn engine_listeners(planned: &[PlannedListener], bound: &[SocketAddr]) -> Vec<Listener> {
    let port_of = |is_ipv4: bool| {
        planned
            .iter()
            .zip(bound)
            .find(|(listener, bound)| listener.accept && bound.is_ipv4() == is_ipv4)
            .map_or(0, |(_, bound)| bound.port())
    };
    planned
        .iter()
        .zip(bound)
        .map(|(listener, bound)| {
            // One that does not accept is reached where its neighbour is.
            let own_port = if listener.accept {
                bound.port()
            } else {
                port_of(bound.is_ipv4())
            };
            Listener {
                transport: listener.at.transport,
                bound: *bound,
                advertised_host: listener
                    .advertise
                    .as_ref()
                    .map(|advertise| advertise.host.clone()),
                advertised_port: listener
                    .advertise
                    .as_ref()
                    .and_then(|advertise| advertise.port)
                    .unwrap_or(own_port),
                certificates_authenticate: listener.security.client_certificates_authenticate,
            }
        })
        .collect()
}

fn routes(config: &Config) -> Routes {
    let groups: Vec<GatewayGroup> = config
        .gateway_group
        .iter()
        .map(|group| GatewayGroup {
            name: group.name.as_str().into(),
            gateways: group
                .gateways
                .iter()
                .map(|gateway| {
                    let mut next_hop = gateway.uri.0.clone();
                    next_hop.connections = gateway.reached_over(group);
                    if group.security.tls {
                        next_hop.transport = Some(Transport::Tls);
                    }
                    Gateway {
                        next_hop,
                        priority: gateway.priority,
                        weight: gateway.weight,
                    }
                })
                .collect(),
            strip: group.strip,
            prepend: group
                .prepend
                .as_ref()
                .map_or_else(|| "".into(), |prepend| prepend.0.clone()),
            care: group.care(),
            trunk: (config.trunk_of(group)).map(|trunk| Arc::new(trunk.told(group, config))),
            calls_max: group.calls_max,
        })
        .collect();
    let index: BTreeMap<&str, usize> = groups
        .iter()
        .enumerate()
        .map(|(nth, group)| (group.name.as_ref(), nth))
        .collect();
    let mut domain_options: BTreeMap<Arc<str>, Vec<RouteOption>> = BTreeMap::new();
    let mut prefix_options: BTreeMap<Arc<str>, Vec<RouteOption>> = BTreeMap::new();
    for route in &config.route {
        let Some(group) = index.get(route.group.as_str()) else {
            continue;
        };
        let option = RouteOption {
            group: *group,
            cost: route.cost,
            when: route.when.as_ref().map(|when| when.0.clone()),
        };
        if let Some(domain) = &route.domain {
            let options = domain_options.entry(domain.0.clone()).or_default();
            options.push(option.clone());
        }
        if let Some(prefix) = &route.prefix {
            prefix_options
                .entry(prefix.0.clone())
                .or_default()
                .push(option);
        }
    }
    drop(index);
    Routes {
        groups,
        domains: single_options(&mut domain_options),
        prefixes: single_options(&mut prefix_options),
        domain_options,
        prefix_options,
        zone: config.zone(),
    }
}

/// Takes those out that have one way, which is always there; the others become ordered by what
/// they cost.
fn single_options(options: &mut BTreeMap<Arc<str>, Vec<RouteOption>>) -> BTreeMap<Arc<str>, usize> {
    let mut single = BTreeMap::new();
    options.retain(|name, options| {
        // Those of one cost stay in the order of the file.
        options.sort_by_key(|option| option.cost);
        match options.as_slice() {
            [option] if option.when.is_none() && option.cost == 0 => {
                single.insert(name.clone(), option.group);
                false
            }
            _ => true,
        }
    });
    single
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_engine::settings;
    use std::path::Path;

    fn config(text: &str) -> Config {
        Config::from_text(Path::new("test.toml"), text).unwrap()
    }

    #[test]
    fn a_server_on_udp_alone_still_opens_connections() {
        let planned = listeners(&config(
            "version = 1\n[[listen]]\non = \"udp:127.0.0.1:0\"\n",
        ));
        let seen: Vec<_> = planned
            .iter()
            .map(|listener| (listener.at.transport, listener.accept))
            .collect();
        assert_eq!(
            seen,
            [
                (Transport::Udp, true),
                (Transport::Tcp, false),
                (Transport::Tls, false)
            ]
        );
        let bound: Vec<SocketAddr> = ["127.0.0.1:5070", "127.0.0.1:0", "127.0.0.1:0"]
            .map(|addr| addr.parse().unwrap())
            .into();
        let listeners = engine_listeners(&planned, &bound);
        assert!(
            listeners
                .iter()
                .all(|listener| listener.advertised_port == 5070),
            "{listeners:?}"
        );
    }

    #[test]
    fn what_was_written_reaches_the_engine() {
        let config = config(
            "version = 1\nmode = \"redirect\"\ninbound = \"anyone\"\nserver_header = \"\"\nforward = \"sip:h:1;transport=tcp\"\n\
             [authentication]\nrequired = false\n\
             [[trusted]]\nnetwork = \"192.0.2.0/24\"\nsecurity = { tls = true }\n\
             [[gateway_group]]\nname = \"g\"\nstrip = 1\nprepend = \"+49\"\nsecurity = { tls = true }\ngateways = [{ uri = \"sip:a\", priority = 3, weight = 7 }]\n\
             [[route]]\nprefix = \"0\"\ngroup = \"g\"\n[[route]]\ndomain = \"Other.example\"\ngroup = \"g\"\n\
             [timers]\nt1_ms = 250\n[limits]\nuri_bytes = 100\n[bounds]\ncontexts_max = 9\n[registrar]\ncontacts_max = 2\n[proxy]\nrecord_route = false\n",
        );
        let settings = settings(&config, &["example.com".parse().unwrap()], &[], &[]);
        assert_eq!(settings.mode, settings::Mode::Redirect);
        assert_eq!(settings.inbound, settings::Inbound::Anyone);
        assert!(settings.authenticate.is_none());
        assert_eq!(settings.domains, ["example.com".into()]);
        let forward = settings.forward.unwrap();
        assert_eq!(
            (forward.host.as_ref(), forward.port, forward.transport),
            ("h", Some(1), Some(Transport::Tcp))
        );
        let [peer] = settings.trusted.as_slice() else {
            panic!()
        };
        assert_eq!(
            (
                peer.network.map(|network| network.prefix_len()),
                peer.secure_only
            ),
            (Some(24), true)
        );
        let [group] = settings.routes.groups.as_slice() else {
            panic!()
        };
        assert_eq!((group.strip, group.prepend.as_ref()), (1, "+49"));
        let [gateway] = group.gateways.as_slice() else {
            panic!()
        };
        assert_eq!(
            (gateway.priority, gateway.weight, gateway.next_hop.transport),
            (3, 7, Some(Transport::Tls))
        );
        assert_eq!(settings.routes.prefixes.get("0"), Some(&0));
        assert_eq!(settings.routes.domains.get("other.example"), Some(&0));
        assert_eq!(
            (
                settings.timers.t1_ms,
                settings.limits.uri_bytes,
                settings.bounds.contexts_max
            ),
            (250, 100, 9)
        );
        assert_eq!(
            (settings.registrar.contacts_max, settings.proxy.record_route),
            (2, false)
        );
        assert_eq!(settings.server_header, "");
    }
}
