//! The load: `signet load` on a core of its own, as a case's setting wants it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use measure::{RunResult, Second};

use super::stop::Stop;
use crate::experiment::{Authentication, Connection, Flow, Resumption, Setting, Suite, Transport};
use crate::generator::{Desk, Generator};
use crate::process::Process;
use crate::system::{NUMBER, Stage};
use crate::users::{DOMAIN, NAME_PATTERN, PASSWORD_PATTERN};

/// Seconds that the last calls have, beyond the time that they are held.
const DRAIN_S: u64 = 3;
/// Agents that come up a second, whatever the rate of calls: at that of the slowest cases a
/// thousand pairs would take longer to register than all that is measured. So delays of
/// registrations that come before calls are those at this rate, from when each was sent.
const SETUP_PER_S: u32 = 500;
/// A rate at which all of them come up at once.
const AT_ONCE_PER_S: u32 = 1_000_000;
/// How long the program may take beyond what it was asked for.
const PATIENCE: Duration = Duration::from_secs(60);

/// When calls or registrations come.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct When {
    /// As `--rate` takes it: `200/s for 10s`.
    pub(super) schedule: String,
    /// How long that is.
    pub(super) seconds: u64,
    /// What every choice is drawn from.
    pub(super) seed: u64,
}

/// A load under way.
#[derive(Debug)]
pub(super) struct RunningLoad {
    generator: Generator,
    /// The called side, where it is a process of its own.
    called: Option<Process>,
    limit: Instant,
}

/// What a load that has ended reported.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// The result file of `signet load`.
    pub(super) result: RunResult,
    /// When its first second began, seconds since 1970.
    pub(super) begun_unix_s: f64,
}

impl RunningLoad {
    /// Begins to load the server at `to`.
    pub(super) fn start(
        stage: &Stage<'_>,
        setting: &Setting,
        to: SocketAddr,
        when: &When,
        core: &str,
    ) -> Result<Self, String> {
        let program = stage.signet.display().to_string();
        let called = answering(stage, setting)
            .map(|words| Process::start(core, &program, &words, &stage.path("called.log")))
            .transpose()?;
        if called.is_some() {
            // It listens within a few milliseconds.
            std::thread::sleep(Duration::from_millis(200));
        }
        let desk = Desk {
            signet: stage.signet,
            core,
            folder: stage.folder,
        };
        let generator = desk.start("load", &words(stage, setting, to, when))?;
        let seconds = when.seconds + setting.hold_ms / 1_000 + DRAIN_S + setup_s(setting);
        Ok(Self {
            limit: generator.begun() + Duration::from_secs(seconds) + PATIENCE,
            generator,
            called,
        })
    }

    /// Its process, and that of the called side.
    pub(super) fn ids(&self) -> (u32, Option<u32>) {
        let called = self.called.as_ref().map(Process::id);
        (self.generator.process.id(), called)
    }

    /// Waits for its end, while `lives` finds nothing wrong, and reads what it told; an
    /// error also where the end of the run is asked for.
    pub(super) fn end(
        mut self,
        stop: &Stop,
        mut lives: impl FnMut() -> Result<(), String>,
    ) -> Result<Told, String> {
        while self.generator.process.is_running() {
            if stop.is_asked() {
                return Err("interrupted".to_owned());
            }
            lives()?;
            if Instant::now() > self.limit {
                return Err(self.generator.said("the load did not end"));
            }
            stop.sleep_until(Instant::now() + Duration::from_millis(200));
        }
        lives()?;
        self.generator.result().map(Told::new)
    }
}

impl Told {
    fn new(result: RunResult) -> Self {
        let setup_ms = result.counters.get("setup_ms").copied().unwrap_or(0);
        Self {
            begun_unix_s: (result.started_unix_ms + setup_ms) as f64 / 1_000.0,
            result,
        }
    }

    /// The seconds from `from_s` to before `to_s`.
    pub(super) fn between(&self, from_s: u64, to_s: u64) -> impl Iterator<Item = &Second> {
        let series = self.result.series.iter();
        series.filter(move |second| second.at_s >= from_s && second.at_s < to_s)
    }

    /// Failures by cause.
    pub(super) fn causes(&self) -> BTreeMap<String, u64> {
        let causes = serde_json::to_value(&self.result.causes).unwrap_or_default();
        let causes = causes.as_object().into_iter().flatten();
        causes
            .map(|(name, count)| (name.clone(), count.as_u64().unwrap_or(0)))
            .collect()
    }
}

/// Agents that register before the run begins.
fn registering(setting: &Setting) -> u32 {
    match setting.flow {
        Flow::CallsToRegistered => setting.agents.callers.saturating_add(setting.agents.called),
        Flow::Calls | Flow::Registrations => 0,
    }
}

/// Whether agents register or connect before the first call or registration is due.
fn come_up_first(setting: &Setting) -> bool {
    registering(setting) > 0 || setting.caller_connection == Connection::PerAgent
}

/// Those who take part.
fn taking_part(setting: &Setting) -> u32 {
    registering(setting).max(setting.agents.callers).max(1)
}

/// Seconds until the first call or registration is due, where nothing is late.
pub(super) fn setup_s(setting: &Setting) -> u64 {
    if come_up_first(setting) {
        u64::from(taking_part(setting).div_ceil(SETUP_PER_S))
    } else {
        0
    }
}

/// The called side with TLS: a process of its own, since in one process with the calling side
/// it would have that one's suites and certificate.
fn answering(stage: &Stage<'_>, setting: &Setting) -> Option<Vec<String>> {
    (setting.flow == Flow::Calls && setting.transport == Transport::Tls).then(|| {
        let key = setting.key();
        let refuses = setting.security.resumption == Resumption::None;
        let mut words = vec![
            "load".to_owned(),
            "answer".to_owned(),
            "--listen".to_owned(),
            format!("tls:{}", stage.called()),
            "--cert".to_owned(),
            stage.certificates.chain(key),
            "--key".to_owned(),
            stage.certificates.key(key),
            "--quiet".to_owned(),
        ];
        if refuses {
            words.extend(["--resume-by", "none"].map(str::to_owned));
        }
        words
    })
}

/// The command line of the calling side.
fn words(stage: &Stage<'_>, setting: &Setting, to: SocketAddr, when: &When) -> Vec<String> {
    let mut words = Words(Vec::new());
    words.say(match setting.flow {
        Flow::Registrations => "register",
        Flow::Calls | Flow::CallsToRegistered => "call",
    });
    words.with("--to", format!("sip:{to}"));
    words.with("--transport", setting.transport.name());
    words.with("--domain", DOMAIN);
    words.with("--rate", &when.schedule);
    words.with("--seed", when.seed.to_string());
    match setting.flow {
        Flow::Calls => {
            words.with("--called", format!("sip:{NUMBER}@{DOMAIN}"));
            if setting.transport != Transport::Tls {
                let transport = setting.transport.name();
                words.with("--answer-here", format!("{transport}:{}", stage.called()));
            }
        }
        Flow::CallsToRegistered => words.with("--pairs", "ring"),
        Flow::Registrations => {}
    }
    if setting.flow != Flow::Registrations {
        words.with("--hold", format!("{}ms", setting.hold_ms));
    }
    agents(&mut words, setting);
    if setting.transport != Transport::Udp {
        words.with(
            "--connection",
            match setting.caller_connection {
                Connection::One => "one",
                Connection::PerCall => "per-call",
                Connection::PerAgent => "per-agent",
            },
        );
        if let Some(callers) = stage.network.callers
            && setting.caller_connection != Connection::One
        {
            words.with("--local", callers);
        }
    }
    if setting.transport == Transport::Tls {
        security(&mut words, stage, setting);
    }
    let drain_ms = DRAIN_S * 1_000 + setting.hold_ms;
    words.with("--drain-timeout", format!("{drain_ms}ms"));
    // Whether it failed is for the record to say.
    words.with("--failures-max", "99%");
    words.0
}

/// Who calls or registers. Where nobody has to prove who he is, calls come from one nameless user.
fn agents(words: &mut Words, setting: &Setting) {
    let security = &setting.security;
    // A ticket of TLS 1.3 serves once, so that each caller needs his own.
    let has_tickets = setting.transport == Transport::Tls
        && security.suite == Suite::Tls13
        && security.resumption != Resumption::None;
    let is_asked = setting.authentication != Authentication::None;
    let are_known = is_asked
        || has_tickets
        || setting.flow != Flow::Calls
        || setting.caller_connection == Connection::PerAgent;
    if !are_known {
        return;
    }
    words.with("--agents", taking_part(setting).to_string());
    words.with("--user", NAME_PATTERN);
    // Where nobody has anything to do before, the schedule begins when the load does.
    let setup_per_s = if come_up_first(setting) {
        SETUP_PER_S
    } else {
        AT_ONCE_PER_S
    };
    words.with("--setup-rate", setup_per_s.to_string());
    if is_asked {
        words.with("--password", PASSWORD_PATTERN);
        // With a database at a distance it is look-ups that are measured, and each request
        // is one; else each request is challenged, as by the papers' loads.
        if setting.database_rtt_ms == 0 && setting.lookups.is_none() {
            words.say("--first-unauthenticated");
        }
    }
}

fn security(words: &mut Words, stage: &Stage<'_>, setting: &Setting) {
    let security = &setting.security;
    words.with("--ca", stage.certificates.root());
    match security.suite {
        Suite::Tls13 => words.with("--tls", "1.3"),
        Suite::Tls12 => words.with("--tls", "1.2"),
        Suite::RsaAes => words.with("--suite", "TLS_RSA_WITH_AES_128_CBC_SHA"),
        Suite::RsaTripleDes => words.with("--suite", "TLS_RSA_WITH_3DES_EDE_CBC_SHA"),
    }
    if !setting.is_legacy() {
        // OpenSSL shows a client of TLS 1.2 no certificate on a curve that it does not name.
        let groups = match setting.group() {
            None | Some("X25519") => "X25519,P-256",
            Some(group) => group,
        };
        words.with("--group", groups);
    }
    if security.mutual {
        words.with("--cert", stage.certificates.chain(setting.key()));
        words.with("--key", stage.certificates.key(setting.key()));
    }
    if security.resumption != Resumption::None {
        words.with("--resume", "all");
        words.with(
            "--resume-by",
            match security.resumption {
                Resumption::Ids => "ids",
                Resumption::Tickets | Resumption::None => "tickets",
            },
        );
    }
}

/// A command line.
struct Words(Vec<String>);

impl Words {
    fn say(&mut self, word: &str) {
        self.0.push(word.to_owned());
    }

    fn with(&mut self, option: &str, value: impl AsRef<str>) {
        self.say(option);
        self.say(value.as_ref());
    }
}
