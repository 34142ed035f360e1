//! Where a worker's messages leave from, and where they go.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sip_msg::{ConnId, ListenerId, Target, Transport};
use sip_net::{
    BindError, ListenerConfig, NetConfig, Origins, WebSocketListener, WebSocketRules,
    WorkerSockets, bind,
};
use sip_tls::{HandshakeConfig, HandshakePool};

use super::Failed;
use crate::settings::{Lifetime, Settings};
use crate::tls::{OWN_NAME, Tls};

/// TLS handshakes under way.
const HANDSHAKES_MAX: usize = 65_536;

/// Addresses of one worker that connections are opened from.
const SENDERS_MAX: usize = 1_024;
/// UDP ports of one worker.
const PORTS_MAX: usize = 60_000;

/// How many workers do what.
pub(super) struct Shares {
    /// Those that call.
    pub(super) callers: usize,
    /// Those that are called and nothing else.
    pub(super) only_called: usize,
    /// Whether those that call are called too.
    is_both: bool,
}

/// The sockets of a worker, how many of them its calls leave from, and the first at
/// which it is called.
type CrewSockets = (WorkerSockets, u16, Option<ListenerId>);

impl Shares {
    /// One thread does both, and so does each where it calls itself; else those who
    /// answer share their port, which those who call must not.
    pub(super) fn of(settings: &Settings, calls: bool, answers: bool) -> Self {
        let is_alone = settings.direct.is_some() || settings.threads == 1;
        let is_both = answers && calls && is_alone;
        let is_split = answers && !is_both;
        Self {
            callers: if calls { settings.threads } else { 0 },
            only_called: if is_split { settings.threads } else { 0 },
            is_both,
        }
    }

    /// Opens the sockets of all workers, those that call first.
    pub(super) fn bind(&self, settings: &Settings, tls: &Tls) -> Result<Vec<CrewSockets>, Failed> {
        let cannot =
            |error: BindError| Failed::Run(format!("{error}; write another address or port"));
        let rules = WebSocketRules {
            path: settings.websocket.path.clone(),
            origins: Origins::Any,
            ..WebSocketRules::default()
        };
        let websocket = Arc::new(WebSocketListener::new(rules));
        let listener = |(transport, addr): &(Transport, SocketAddr)| {
            let server = tls.server.clone().filter(|_| transport.is_secure());
            match server {
                tls if transport.is_websocket() => {
                    ListenerConfig::websocket(*addr, tls, Arc::clone(&websocket))
                }
                Some(server) => ListenerConfig::tls(*addr, server),
                None => ListenerConfig::new(*transport, *addr),
            }
        };
        let called: Vec<ListenerConfig> = settings.answering.listen.iter().map(listener).collect();
        let mut all = Vec::new();
        for index in 0..self.callers {
            let mut listeners = senders(settings, index).map_err(Failed::Usage)?;
            let count = u16::try_from(listeners.len()).unwrap_or(u16::MAX);
            if self.is_both {
                listeners.extend(called.iter().cloned());
            }
            let sockets = bind(&listeners, 1).map_err(cannot)?.pop();
            let sockets = sockets.ok_or_else(|| Failed::Run("no sockets".to_owned()))?;
            all.push((sockets, count, self.is_both.then_some(ListenerId(count))));
        }
        if self.only_called > 0 {
            for sockets in bind(&called, self.only_called).map_err(cannot)? {
                all.push((sockets, 0, Some(ListenerId(0))));
            }
        }
        Ok(all)
    }
}

/// The bounds of each worker's sockets; the generator has none that matter.
pub(super) fn net_config(
    settings: &Settings,
    tls: &Tls,
    has_tls: bool,
) -> Result<NetConfig, Failed> {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let pool = HandshakeConfig {
        threads: settings.handshake_threads,
        handshakes_max: HANDSHAKES_MAX,
        // All of a load comes from one place, and none of it is to be paced.
        per_source_max: HANDSHAKES_MAX,
        full_queue_max: HANDSHAKES_MAX,
        full_per_s_max: 0,
        hello_timeout_ms: ms(settings.handshake_timeout),
        timeout_ms: ms(settings.handshake_timeout),
    };
    let pool = has_tls.then(|| HandshakePool::start(pool)).transpose();
    Ok(NetConfig {
        client_tls: tls.client.as_ref().map(|client| Arc::clone(&client.full)),
        client_websocket: settings
            .websocket_request()
            .map_err(Failed::Usage)?
            .map(Arc::new),
        upgrade_timeout_ms: ms(settings.handshake_timeout),
        handshakes: pool
            .map_err(|e| Failed::Run(format!("cannot start the handshakes' threads: {e}")))?,
        connections_max: 1_000_000,
        connections_per_source_max: 1_000_000,
        opened_per_source_per_s: 0,
        udp_queue_max: 65_536,
        connect_timeout_ms: ms(settings.connect_timeout),
        udp_receive_buffer_bytes: settings.udp_buffer_bytes,
        ..NetConfig::default()
    })
}

/// Where a worker's messages leave from.
fn senders(settings: &Settings, index: usize) -> Result<Vec<ListenerConfig>, String> {
    let agents = settings.users.count();
    let of_worker = agents / settings.threads + usize::from(agents % settings.threads > index);
    match settings.transport() {
        None => Ok(Vec::new()),
        Some(Transport::Udp) if settings.own_ports => {
            if of_worker > PORTS_MAX {
                return Err(format!(
                    "{of_worker} ports are more than one thread has; write --threads {}",
                    agents.div_ceil(PORTS_MAX)
                ));
            }
            let place = |agent: usize| agent * settings.threads + index;
            Ok((0..of_worker)
                .map(|agent| {
                    ListenerConfig::new(Transport::Udp, settings.local.any_port(place(agent)))
                })
                .collect())
        }
        Some(Transport::Udp) => Ok(vec![ListenerConfig::new(
            Transport::Udp,
            settings.local.any_port(index),
        )]),
        Some(transport) => {
            let wanted = match settings.lifetime {
                Lifetime::One => 1,
                Lifetime::Agent => of_worker,
                Lifetime::Calls(_) => SENDERS_MAX,
            };
            let count = settings.local.count().min(wanted).clamp(1, SENDERS_MAX);
            Ok((0..count)
                .map(|place| {
                    ListenerConfig::outbound(
                        transport,
                        settings.local.any_port(index * count + place),
                    )
                })
                .collect())
        }
    }
}

/// Where a worker's requests go: the server, or its own called side.
pub(super) fn target(settings: &Settings, own: Option<SocketAddr>) -> Option<Target> {
    let transport = settings.transport()?;
    let (remote, name) = match &settings.server {
        Some(server) => (server.addr, server.tls_name()),
        None => (own?, Some(OWN_NAME)),
    };
    Some(Target {
        transport,
        listener: ListenerId(0),
        remote,
        conn: ConnId::NONE,
        may_open: true,
        tls_name: name.filter(|_| transport.is_secure()).map(Into::into),
        lane: sip_msg::Lane::Shared,
        local: None,
    })
}
