//! What the command line says, as settings of a load.

use std::net::{IpAddr, SocketAddr};

use measure::Schedule;
use signet_load::{Called, Close, Lifetime, Local, Mix, Server, Settings, TlsSettings, Users};
use sip_msg::Transport;

use super::values::{nanoseconds, offered};
use super::{Pairs, PathArgs, Ports, When, Who};

/// What all loads have in common.
pub(super) fn settings(mix: Mix, path: PathArgs, who: Who) -> Result<Settings, String> {
    let direct = path
        .straight
        .then_some(path.transport.unwrap_or(Transport::Udp));
    let server = match &path.to {
        Some(to) => Some(Server::parse(to, path.transport)?),
        None => None,
    };
    let host = server
        .as_ref()
        .map_or("load.test", |server| server.host.as_str());
    let domain = who.domain.clone().unwrap_or_else(|| host.to_owned());
    let called = match (path.called, path.pairs) {
        (Some(called), _) => Called::Uri(called),
        (None, Some(Pairs::Ring)) => Called::Ring,
        (None, Some(Pairs::Random)) => Called::Random,
        (None, None) => {
            let user = server.as_ref().and_then(|server| server.user.clone());
            Called::Uri(format!(
                "sip:{}@{domain}",
                user.unwrap_or_else(|| "service".to_owned())
            ))
        }
    };
    let pairs = called.is_pairs();
    let mut settings = Settings::new(mix);
    settings.users = who.users()?;
    settings.realm = who.realm.unwrap_or_else(|| domain.clone());
    settings.domain = domain;
    settings.register_first = who.register_first || pairs;
    settings.setup_rate_per_s = who.setup_rate;
    settings.expires_s = who.expires;
    settings.credentials_first = !who.first_unauthenticated;
    settings.server = server;
    settings.direct = direct;
    settings.called = called;
    settings.answering.listen = path.answer_here;
    settings.answering.is_registrar = direct.is_some();
    settings.follow_routes = path.follow_routes;
    settings.own_ports = path.ports == Ports::Own;
    settings.lifetime = path.connection;
    settings.close = if path.abrupt {
        Close::Abrupt
    } else {
        Close::Clean
    };
    settings.threads = usize::from(path.threads);
    settings.handshake_threads = usize::from(path.handshake_threads);
    let (versions, engine) = offered(&path.tls.tls)?;
    settings.tls = TlsSettings {
        roots: path.tls.ca,
        trust_anyone: path.tls.trust_anyone,
        identity: path.tls.cert.zip(path.tls.key),
        agent_identity: path.tls.agent_cert.zip(path.tls.agent_key),
        key: path.tls.key_type,
        engine,
        versions,
        suites: path.tls.suite,
        groups: path.tls.group,
        resume_share: path.tls.resume,
        resume_by: path.tls.resume_by,
        ..TlsSettings::default()
    };
    settings.timers.t1_ms = path.timing.t1_ms;
    settings.answer_timeout = path.timing.answer_timeout;
    settings.connect_timeout = path.timing.connect_timeout;
    settings.handshake_timeout = path.timing.handshake_timeout;
    settings.drain_timeout = path.timing.drain_timeout;
    settings.udp_buffer_bytes = path.timing.udp_buffer;
    settings.local = path.local.unwrap_or_else(|| local_for(&settings));
    Ok(settings)
}

/// Where a load comes from that says nothing of it.
fn local_for(settings: &Settings) -> Local {
    let loopback = Local::one(IpAddr::from([127, 0, 0, 1]));
    let Some(server) = settings.server.as_ref().map(|server| server.addr) else {
        return many_connections(settings).unwrap_or(loopback);
    };
    match (server.ip().is_loopback(), server.is_ipv4()) {
        (true, true) => many_connections(settings).unwrap_or(loopback),
        (true, false) => Local::one(std::net::Ipv6Addr::LOCALHOST.into()),
        (false, _) => Local::one(route_to(server).unwrap_or(server.ip())),
    }
}

/// One address has 28,000 ports, and each is kept for a minute after its use:
/// a connection per call needs more.
fn many_connections(settings: &Settings) -> Option<Local> {
    let is_stream = settings.transport() != Some(Transport::Udp);
    (is_stream && settings.lifetime != Lifetime::One)
        .then(|| "127.1.0.0/16".parse().ok())
        .flatten()
}

/// The address that this machine has towards a server elsewhere.
fn route_to(remote: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr = if remote.is_ipv4() {
        ([0, 0, 0, 0], 0).into()
    } else {
        (std::net::Ipv6Addr::UNSPECIFIED, 0).into()
    };
    // Connecting a datagram socket sends nothing.
    let socket = std::net::UdpSocket::bind(any).ok()?;
    socket.connect(remote).ok()?;
    socket.local_addr().ok().map(|local| local.ip())
}

impl Who {
    fn users(&self) -> Result<Users, String> {
        if let Some(file) = &self.users {
            let mut users = Users::from_file(file)?;
            if let Some(agents) = self.agents {
                if agents > users.count() {
                    return Err(format!(
                        "{} has {} users, fewer than --agents {agents}",
                        file.display(),
                        users.count()
                    ));
                }
                users.truncate(agents);
            }
            return Ok(users);
        }
        match (&self.user, self.agents) {
            (None, None) => Ok(Users::default()),
            (user, agents) => Users::from_pattern(
                user.as_deref().unwrap_or("user{n}"),
                self.password.as_deref(),
                agents.unwrap_or(1),
            ),
        }
    }
}

impl When {
    pub(super) fn schedule(&self) -> Result<Schedule, String> {
        let bare = self.rate.trim().trim_end_matches("/s").trim();
        let mut schedule = match bare.parse::<f64>() {
            Ok(rate) if rate > 0.0 && rate.is_finite() => {
                Schedule::constant(rate, nanoseconds(self.duration))
            }
            Ok(_) => return Err(format!("--rate {}: write a rate above 0", self.rate)),
            Err(_) => Schedule::parse(&self.rate).map_err(|error| format!("--rate: {error}"))?,
        };
        if self.poisson {
            schedule = schedule.poisson(self.seed);
        }
        if let Some(count) = self.count {
            schedule = schedule.limit(count);
        }
        Ok(schedule)
    }
}
