//! Where a worker's messages leave from, and where they go.

use std::net::SocketAddr;

use sip_msg::{ConnId, ListenerId, Target, Transport};
use sip_net::ListenerConfig;

use crate::settings::{Lifetime, Settings};
use crate::tls::OWN_NAME;

/// Addresses of one worker that connections are opened from.
const SENDERS_MAX: usize = 1_024;
/// UDP ports of one worker.
const PORTS_MAX: usize = 60_000;

/// Where a worker's messages leave from.
pub(super) fn senders(settings: &Settings, index: usize) -> Result<Vec<ListenerConfig>, String> {
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
