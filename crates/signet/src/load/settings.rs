//! What the command line says, as settings of a load.

use measure::Schedule;
use signet_load::{
    Called, CalledTls, Close, Local, Mix, Server, Settings, TlsSettings, Users, WebSocketSettings,
};
use sip_msg::Transport;

use super::values::{nanoseconds, offered};
use super::{CalledTlsOptions, Pairs, PathArgs, Ports, When, Who};

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
        in_memory: None,
        agent_identity: path.tls.agent_cert.zip(path.tls.agent_key),
        key: path.tls.key_type,
        engine,
        versions,
        suites: path.tls.suite,
        groups: path.tls.group,
        resume_share: path.tls.resume,
        resume_by: path.tls.resume_by,
    };
    settings.answering.tls = path.called_tls.settings()?;
    settings.websocket = WebSocketSettings {
        path: path.websocket.ws_path,
        origin: path.websocket.ws_origin,
    };
    settings.timers.t1_ms = path.timing.t1_ms;
    settings.answer_timeout = path.timing.answer_timeout;
    settings.connect_timeout = path.timing.connect_timeout;
    settings.handshake_timeout = path.timing.handshake_timeout;
    settings.drain_timeout = path.timing.drain_timeout;
    settings.udp_buffer_bytes = path.timing.udp_buffer;
    settings.local = path.local.unwrap_or_else(|| Local::towards(&settings));
    Ok(settings)
}

impl CalledTlsOptions {
    pub(super) fn settings(self) -> Result<CalledTls, String> {
        let (versions, engine) = offered(&self.answer_tls)?;
        Ok(CalledTls {
            identity: self.answer_cert.zip(self.answer_key),
            engine: (!self.answer_tls.is_empty()).then_some(engine),
            versions,
            suites: self.answer_suite,
            groups: self.answer_group,
            client_roots: self.answer_ca,
            resume_by: self.answer_resume_by,
        })
    }
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
        if self.duration.is_zero() {
            return Err("--duration 0: write a time above 0, as 10s".to_owned());
        }
        if self.count == Some(0) {
            return Err("--count 0: write a number above 0, or leave it out".to_owned());
        }
        let bare = self.rate.trim().trim_end_matches("/s").trim();
        let mut schedule = match bare.parse::<f64>() {
            Ok(rate) if rate > 0.0 && rate.is_finite() => {
                Schedule::constant(rate, nanoseconds(self.duration))
            }
            Ok(_) => return Err(format!("--rate {}: write a rate above 0", self.rate)),
            Err(_) => Schedule::parse(&self.rate)
                .map_err(|error| format!("--rate: {error}; or a number alone, as 100"))?,
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
