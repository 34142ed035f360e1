//! From what a run found out to its result.

use measure::{Answered, Bounds, Health, Host, RunResult, Watched, WatchedProcess};
use serde_json::{Value, json};
use sip_msg::Transport;
use sip_tls::TlsVersion;

use crate::cause::HELD_BACK;
use crate::crew::Ran;
use crate::settings::{Called, Close, Lifetime, Settings};

/// What a result says besides what the run found out.
#[derive(Clone, Debug, Default)]
pub struct Circumstances {
    /// The command line.
    pub command: String,
    /// The version of the program.
    pub program_version: String,
    /// When it began.
    pub started_unix_ms: u64,
    /// The rate that the generator reaches without a server.
    pub self_peak_per_s: Option<f64>,
    /// Whether the result is told as a limit of the server.
    pub claims_limit: bool,
    /// Second, CPU time of the watched processes, CPU time of this one.
    pub cpu_by_second: Vec<(u64, Option<u64>, Option<u64>)>,
    /// The most memory that this process held.
    pub own_memory_bytes: u64,
    /// The watched processes, all together.
    pub watched: Vec<Watched>,
    /// The same, each for itself.
    pub processes: Vec<WatchedProcess>,
    /// The bounds of doubt.
    pub bounds: Bounds,
}

/// Puts the result together; [`RunResult::conclude`] is still to be called.
pub fn result_of(mut ran: Ran, settings: &Settings, circumstances: Circumstances) -> RunResult {
    for (at_s, watched_ns, own_ns) in circumstances.cpu_by_second {
        if at_s * 1_000_000_000 < ran.duration_ns {
            ran.series.cpu(at_s, watched_ns, own_ns);
        }
    }
    let held_back = HELD_BACK
        .iter()
        .map(|name| ran.causes.named(name))
        .sum::<u64>();
    let lateness = ran.lateness.summary().actual;
    let health = Health {
        behind_schedule: lateness,
        behind_max_ns: lateness.max_us * 1_000,
        due: ran.started + ran.unsent,
        unsent: ran.unsent,
        sent: ran.started.saturating_sub(held_back),
        own_cpu_ns: ran.own_cpu_ns,
        wall_ns: ran.duration_ns,
        sending_ns: ran.sending_ns,
        agents: settings.users.count() as u64,
        agents_missing: ran.upkeep.failed + ran.upkeep.lost,
        storm_dropped: ran.storm.map_or(0, |storm| storm.dropped),
        storm_missing: ran.storm.map_or(0, |storm| storm.missing),
        dialogs_missed: match has_called_threads(settings) {
            true => ran.unknown_to_called,
            false => 0,
        },
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
        threads: std::mem::take(&mut ran.threads),
        kernel_drops: ran.kernel_drops,
        send_queue_drops: ran.queue_drops,
        self_peak_per_s: circumstances.self_peak_per_s,
        rate_per_s: settings.rate_max_per_s(),
        claims_limit: circumstances.claims_limit,
        interrupted: ran.is_interrupted && settings.schedule.is_some(),
        bounds: circumstances.bounds,
        ..Health::default()
    };
    let was_called = !ran.answering.is_empty() || ran.answered != Answered::default();
    let mut result = RunResult {
        command: circumstances.command,
        program_version: circumstances.program_version,
        started_unix_ms: circumstances.started_unix_ms,
        host: Host::this(),
        settings: describe(settings),
        duration_ns: ran.duration_ns,
        interrupted: health.interrupted,
        figures: ran.figures,
        causes: ran.causes,
        handshakes: ran.handshakes,
        retransmissions: ran.retransmissions,
        health,
        watched: circumstances.watched,
        processes: circumstances.processes,
        answered: was_called.then_some(ran.answered),
        series: ran.series.seconds(),
        ..RunResult::default()
    };
    let counters = [
        ("started", ran.started),
        ("unsent", ran.unsent),
        ("ended", ran.ended),
        ("agents_ready", ran.upkeep.ready),
        ("agents_failed", ran.upkeep.failed),
        ("agents_lost", ran.upkeep.lost),
        ("registrations_refreshed", ran.upkeep.refreshed),
        ("registrations_not_refreshed", ran.upkeep.not_refreshed),
        ("connections_reopened", ran.upkeep.reopened),
        ("setup_ms", ran.setup_ns / 1_000_000),
        ("called_incoming", ran.called.incoming),
        ("called_established", ran.called.established),
        ("called_ended", ran.called.ended),
        ("called_failed", ran.called.failed),
        ("called_received", ran.called.received),
        ("rubbish_received", ran.rubbish),
        ("own_memory_bytes", circumstances.own_memory_bytes),
        ("leaked_calls", ran.leaked.calls),
        ("leaked_requests", ran.leaked.requests),
        ("leaked_connections", ran.leaked.connections),
    ];
    for (name, count) in counters.into_iter().chain(ran.counters) {
        result.counters.insert(name.to_owned(), count);
    }
    for (name, count) in ran.called_tls {
        result.counters.insert(format!("called: {name}"), count);
    }
    for (name, count) in ran.storm.iter().flat_map(|storm| storm.named()) {
        result.counters.insert(name.to_owned(), count);
    }
    for (name, count) in ran.upkeep.causes.ranked() {
        result.counters.insert(format!("upkeep: {name}"), count);
    }
    result
}

/// Whether each connection of the called side is one thread's, and its dialogs nobody else's.
fn has_called_threads(settings: &Settings) -> bool {
    let is_stream = |(transport, _): &(Transport, _)| *transport != Transport::Udp;
    settings.threads > 1
        && settings.direct.is_none()
        && settings.answering.listen.iter().any(is_stream)
}

/// The settings, for the record. Passwords are not in it.
pub fn describe(settings: &Settings) -> Value {
    let lifetime = match settings.lifetime {
        Lifetime::One => "one".to_owned(),
        Lifetime::Calls(1) => "per-call".to_owned(),
        Lifetime::Calls(calls) => format!("per-{calls}-calls"),
        Lifetime::Agent => "per-agent".to_owned(),
    };
    let called = match &settings.called {
        Called::Uri(uri) => uri.clone(),
        Called::Ring => "ring".to_owned(),
        Called::Random => "random".to_owned(),
    };
    let tls = &settings.tls;
    let names = |versions: &[TlsVersion]| -> Vec<&str> {
        versions.iter().map(|version| version.name()).collect()
    };
    let called_tls = &settings.answering.tls;
    json!({
        "mix": settings.mix.to_string(),
        "server": settings.server.as_ref().map(ToString::to_string),
        "straight_to_itself": settings.direct.is_some(),
        "transport": settings.transport().map(|transport| transport.uri_name()),
        "rate_max_per_s": settings.schedule.as_ref().map(measure::Schedule::rate_max_per_s),
        "duration_s": settings.schedule.as_ref().map(|schedule| schedule.duration_ns() as f64 / 1e9),
        "arrivals": settings.schedule.as_ref().map(|schedule| format!("{:?}", schedule.arrivals()).to_lowercase()),
        "called": called,
        "agents": settings.users.count(),
        "domain": settings.domain,
        "register_first": settings.register_first,
        "expires_s": settings.expires_s,
        "follow_routes": settings.follow_routes,
        "hold": settings.hold.to_string(),
        "ring": settings.answering.ring.to_string(),
        "threads": settings.threads,
        "local": settings.local.to_string(),
        "ports": if settings.own_ports { "own" } else { "shared" },
        "connection": lifetime,
        "websocket_path": settings.transport().filter(|t| t.is_websocket()).map(|_| &settings.websocket.path),
        "close": match settings.close { Close::Clean => "clean", Close::Abrupt => "abrupt" },
        "credentials_first": settings.credentials_first,
        "t1_ms": settings.timers.t1_ms,
        "seed": settings.seed,
        "smime": settings.smime.as_ref().map(|smime| json!({
            "protection": smime.protection.name(),
            "key": smime.key.name(),
            "own_key": smime.identity.is_some(),
            "cipher": smime.cipher.name(),
            "transfer": format!("{:?}", smime.transfer).to_lowercase(),
        })),
        "tls": {
            "engine": format!("{:?}", tls.engine()).to_lowercase(),
            "versions": names(&tls.versions),
            "suites": tls.suites,
            "groups": tls.groups,
            "resume_share": tls.resume_share,
            "resume_by": format!("{:?}", tls.resume_by).to_lowercase(),
            "own_certificates": tls.agent_identity.is_some(),
        },
        "called_tls": {
            "engine": format!("{:?}", called_tls.engine(tls)).to_lowercase(),
            "versions": names(&called_tls.versions),
            "suites": called_tls.suites,
            "groups": called_tls.groups,
            "asks_for_certificates": !called_tls.client_roots.is_empty(),
            "resume_by": format!("{:?}", called_tls.resume_by).to_lowercase(),
        },
    })
}
