//! A load, cut into parts that are sent.
//!
//! The parts are together the load and nothing twice: every worker has the whole
//! schedule and takes each so many-th arrival of it; the agents are dealt out in ranges.
//! A job names no file: what the controller's files say stands in it. So a worker reads
//! nothing of its own machine, and writes nothing.

mod tls;

use std::net::SocketAddr;
use std::time::Duration;

use measure::{Arrivals, Bounds, Phase, Schedule};
use serde::{Deserialize, Serialize};
use sip_msg::Transport;

use super::Allowed;
use crate::settings::{Called, Close, Lifetime, Settings, Share, WebSocketSettings};
use crate::users::{Users, UsersForm};
use crate::{Local, Server};
use tls::TlsForm;

/// The most workers of one load.
pub(super) const WORKERS_MAX: usize = 256;

/// One worker's part of a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Job {
    index: u64,
    of: u64,
    mix: String,
    schedule: ScheduleForm,
    transport: String,
    addr: String,
    host: String,
    called: CalledForm,
    domain: String,
    realm: String,
    users: UsersForm,
    register_first: bool,
    setup_rate_per_s: f64,
    expires_s: u32,
    follow_routes: bool,
    hold: String,
    threads: usize,
    /// Where the load comes from; the worker chooses where nothing is said.
    local: Option<String>,
    own_ports: bool,
    lifetime: LifetimeForm,
    is_abrupt: bool,
    tls: TlsForm,
    ws_path: String,
    ws_origin: Option<String>,
    credentials_first: bool,
    t1_ms: u64,
    answer_timeout_ms: u64,
    connect_timeout_ms: u64,
    handshake_threads: usize,
    handshake_timeout_ms: u64,
    drain_timeout_ms: Option<u64>,
    udp_buffer_bytes: usize,
    storm_at_ms: Option<u64>,
    seed: u64,
    /// Whether the worker first looks what it reaches without a server.
    pub(super) checks_self: bool,
    /// The bounds of doubt.
    pub(super) bounds: Bounds,
}

/// How parts are driven, besides what the settings say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct How {
    /// Where the load comes from, where that was said.
    pub(crate) local: Option<Local>,
    /// Whether each worker first looks what it reaches without a server.
    pub(crate) checks_self: bool,
    /// The bounds of doubt.
    pub(crate) bounds: Bounds,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct ScheduleForm {
    /// How long, and from which rate to which.
    phases: Vec<(u64, f64, f64)>,
    is_poisson: bool,
    seed: u64,
    arrivals_max: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CalledForm {
    Uri(String),
    Ring,
    Random,
}

impl Default for CalledForm {
    fn default() -> Self {
        Self::Uri(String::new())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LifetimeForm {
    #[default]
    One,
    Calls(u32),
    Agent,
}

/// What a worker takes.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    /// Whom it may load; `None` for anybody, where it was started by who asks.
    pub(super) allowed: Option<Vec<Allowed>>,
    /// The highest rate.
    pub(super) rate_max_per_s: Option<f64>,
}

/// The parts of a load for so many workers.
///
/// # Errors
/// What cannot be driven by workers, with the remedy; a file that cannot be read.
pub(crate) fn cut(settings: &Settings, how: How, workers: usize) -> Result<Vec<Job>, String> {
    settings.check()?;
    if !(1..=WORKERS_MAX).contains(&workers) {
        return Err(format!("{workers} workers; name 1 to {WORKERS_MAX}"));
    }
    let agents = settings.users.count();
    let of_pair = if settings.called.is_pairs() { 2 } else { 1 };
    // Each thread of each worker has agents of its own.
    let least = settings.threads.max(of_pair);
    if agents > 0 && agents < least * workers {
        return Err(format!(
            "{agents} agents are too few for {workers} workers with --threads {}; write \
             --agents {} or more",
            settings.threads,
            least * workers
        ));
    }
    (0..workers)
        .map(|index| Job::of(settings, how, (index, workers)))
        .collect()
}

impl Job {
    fn of(settings: &Settings, how: How, (index, of): (usize, usize)) -> Result<Self, String> {
        let (Some(server), Some(schedule)) = (&settings.server, &settings.schedule) else {
            return Err("workers load a server; write --to and leave out --self".to_owned());
        };
        if !settings.answering.listen.is_empty() {
            return Err("the called side does not run on workers; leave out --answer-here and start signet load answer where the server looks for it".to_owned());
        }
        if settings.smime.is_some() {
            return Err("keys for S/MIME are not sent to workers; leave out --smime, or load without --workers".to_owned());
        }
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Ok(Self {
            index: index as u64,
            of: of as u64,
            mix: settings.mix.to_string(),
            schedule: ScheduleForm::of(schedule),
            transport: server.transport.uri_name().to_owned(),
            addr: server.addr.to_string(),
            host: server.host.clone(),
            called: match &settings.called {
                Called::Uri(uri) => CalledForm::Uri(uri.clone()),
                Called::Ring => CalledForm::Ring,
                Called::Random => CalledForm::Random,
            },
            domain: settings.domain.clone(),
            realm: settings.realm.clone(),
            users: settings.users.part(index, of).form(),
            register_first: settings.register_first,
            setup_rate_per_s: settings.setup_rate_per_s / of as f64,
            expires_s: settings.expires_s,
            follow_routes: settings.follow_routes,
            hold: settings.hold.to_string(),
            threads: settings.threads,
            local: how.local.map(|local| local.to_string()),
            own_ports: settings.own_ports,
            lifetime: match settings.lifetime {
                Lifetime::One => LifetimeForm::One,
                Lifetime::Calls(calls) => LifetimeForm::Calls(calls),
                Lifetime::Agent => LifetimeForm::Agent,
            },
            is_abrupt: settings.close == Close::Abrupt,
            tls: TlsForm::of(&settings.tls)?,
            ws_path: settings.websocket.path.clone(),
            ws_origin: settings.websocket.origin.clone(),
            credentials_first: settings.credentials_first,
            t1_ms: settings.timers.t1_ms,
            answer_timeout_ms: ms(settings.answer_timeout),
            connect_timeout_ms: ms(settings.connect_timeout),
            handshake_threads: settings.handshake_threads,
            handshake_timeout_ms: ms(settings.handshake_timeout),
            drain_timeout_ms: settings.drain_timeout.map(ms),
            udp_buffer_bytes: settings.udp_buffer_bytes,
            storm_at_ms: settings.storm_at.map(ms),
            seed: settings.seed,
            checks_self: how.checks_self,
            bounds: how.bounds,
        })
    }

    /// The settings of the run that it asks for.
    ///
    /// # Errors
    /// What the rules forbid, or what makes no sense.
    pub(super) fn settings(self, rules: &Rules) -> Result<Settings, String> {
        let addr = self.target(rules)?;
        let schedule = self.schedule.schedule();
        let whole_per_s = schedule.rate_max_per_s();
        if self.of == 0 || self.index >= self.of || self.of > WORKERS_MAX as u64 {
            return Err(format!(
                "there is no part {} of {}: parts are numbered from 0, and {WORKERS_MAX} at most",
                self.index, self.of
            ));
        }
        let rate_per_s = whole_per_s / self.of as f64;
        if let Some(max) = rules.rate_max_per_s.filter(|max| rate_per_s > *max) {
            return Err(format!(
                "{rate_per_s:.0}/s are more than this worker takes, {max:.0}/s; see its --rate-max"
            ));
        }
        let transport = Transport::from_token(self.transport.as_bytes())
            .ok_or_else(|| format!("there is no transport '{}'", self.transport))?;
        let called = match self.called {
            CalledForm::Uri(uri) => Called::Uri(uri),
            CalledForm::Ring => Called::Ring,
            CalledForm::Random => Called::Random,
        };
        let ms = Duration::from_millis;
        let mut settings = Settings {
            schedule: Some(schedule),
            share: Share {
                index: self.index,
                of: self.of,
            },
            server: Some(Server {
                transport,
                addr,
                host: self.host,
                user: None,
            }),
            called,
            domain: self.domain,
            realm: self.realm,
            users: Users::from_form(self.users)?,
            register_first: self.register_first,
            setup_rate_per_s: self.setup_rate_per_s,
            expires_s: self.expires_s,
            follow_routes: self.follow_routes,
            hold: self.hold.parse()?,
            threads: self.threads,
            own_ports: self.own_ports,
            lifetime: match self.lifetime {
                LifetimeForm::One => Lifetime::One,
                LifetimeForm::Calls(calls) => Lifetime::Calls(calls),
                LifetimeForm::Agent => Lifetime::Agent,
            },
            close: if self.is_abrupt {
                Close::Abrupt
            } else {
                Close::Clean
            },
            tls: self.tls.settings()?,
            websocket: WebSocketSettings {
                path: self.ws_path,
                origin: self.ws_origin,
            },
            credentials_first: self.credentials_first,
            answer_timeout: ms(self.answer_timeout_ms),
            connect_timeout: ms(self.connect_timeout_ms),
            handshake_threads: self.handshake_threads.min(64),
            handshake_timeout: ms(self.handshake_timeout_ms),
            drain_timeout: self.drain_timeout_ms.map(ms),
            udp_buffer_bytes: self.udp_buffer_bytes,
            storm_at: self.storm_at_ms.map(ms),
            seed: self.seed,
            ..Settings::new(self.mix.parse()?)
        };
        settings.timers.t1_ms = self.t1_ms.clamp(1, 60_000);
        settings.local = match self.local {
            Some(local) => local.parse()?,
            None => Local::towards(&settings),
        };
        settings.check()?;
        Ok(settings)
    }

    /// Whom it loads, if that is allowed.
    fn target(&self, rules: &Rules) -> Result<SocketAddr, String> {
        let addr: SocketAddr =
            (self.addr.parse()).map_err(|_| format!("'{}' is no address to load", self.addr))?;
        let Some(allowed) = &rules.allowed else {
            return Ok(addr);
        };
        if !allowed.iter().any(|allowed| allowed.has(addr)) {
            let all: Vec<String> = allowed.iter().map(ToString::to_string).collect();
            return Err(format!(
                "this worker may not load {addr}; it may load {}, and its --allow says whom else",
                all.join(", ")
            ));
        }
        if self.follow_routes {
            // Then who is loaded would be decided by what the server answers.
            return Err(
                "this worker sends to the server alone; leave out --follow-routes".to_owned(),
            );
        }
        Ok(addr)
    }
}

impl ScheduleForm {
    fn of(schedule: &Schedule) -> Self {
        let phases = schedule.as_phases().iter();
        Self {
            phases: phases
                .map(|phase| (phase.duration_ns, phase.from_per_s, phase.to_per_s))
                .collect(),
            is_poisson: schedule.arrivals() == Arrivals::Poisson,
            seed: schedule.seed(),
            arrivals_max: schedule.arrivals_max(),
        }
    }

    fn schedule(&self) -> Schedule {
        let phase = |&(duration_ns, from_per_s, to_per_s)| Phase {
            duration_ns,
            from_per_s,
            to_per_s,
        };
        let mut schedule = Schedule::phases(self.phases.iter().map(phase));
        if self.is_poisson {
            schedule = schedule.poisson(self.seed);
        }
        match self.arrivals_max {
            Some(most) => schedule.limit(most),
            None => schedule,
        }
    }
}

#[cfg(test)]
mod tests;
