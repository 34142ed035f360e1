//! A load: `signet load` in a process of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use measure::RunResult;
use signet_bed::certificates::{Certificates, Kind};
use signet_bed::process::Process;
use signet_bed::users::{DOMAIN, NAME_PATTERN, PASSWORD_PATTERN};

use super::mixture::{Connection, Flow, PasswordStore, Stream};
use super::server::{Ports, here, number};
use crate::demand::{Key, Transport};

/// How often a user of a load calls, registers or resumes a session of his own, a second. He does
/// one thing at a time, which may take a tenth of a second where the machine is busy; and all
/// are to have a session and a nonce when the measuring begins.
const OF_EACH_PER_S: f64 = 2.0;
/// Users of a load, at least and at most.
const AGENTS: (f64, f64) = (8.0, 1_000.0);
/// Agents that register before a load begins, a second.
const SETUP_PER_S: u32 = 500;
/// Where agents have nothing to do before, the load begins at once.
const AT_ONCE_PER_S: u32 = 1_000_000;
/// How long the last calls have.
const DRAIN: &str = "2s";
/// How long the program may take beyond what it was asked for.
const PATIENCE: Duration = Duration::from_secs(20);

/// A load under way.
#[derive(Debug)]
pub(super) struct Load {
    process: Process,
    json: PathBuf,
    log: PathBuf,
    limit: Duration,
}

/// What surrounds loads.
#[derive(Debug)]
pub(super) struct Around<'a> {
    pub(super) signet: &'a Path,
    pub(super) folder: &'a Path,
    pub(super) core: &'a str,
    pub(super) ports: Ports,
    pub(super) certificates: &'a Certificates,
}

impl Around<'_> {
    /// Starts the gateways, for all transports at once.
    pub(super) fn answer(&self) -> Result<Process, String> {
        let (plain, secure) = (here(self.ports.gateway()), here(self.ports.gateway_tls()));
        let (udp, tcp, tls) = (
            format!("udp:{plain}"),
            format!("tcp:{plain}"),
            format!("tls:{secure}"),
        );
        let (chain, key) = (
            self.certificates.chain(Kind::P256),
            self.certificates.key(Kind::P256),
        );
        let words = [
            "load", "answer", "--listen", &udp, "--listen", &tcp, "--listen", &tls, "--cert",
            &chain, "--key", &key, "--quiet",
        ];
        let log = self.folder.join("gateways.log");
        let words = words.map(str::to_owned);
        let program = self.signet.display().to_string();
        let process = Process::start(self.core, &program, &words, &log)?;
        // They listen within a few milliseconds.
        std::thread::sleep(Duration::from_millis(200));
        Ok(process)
    }

    /// Starts a load that lasts so long; `nth` tells it from others of the same run.
    pub(super) fn load(
        &self,
        (nth, stream): (usize, &Stream),
        users: PasswordStore,
        length: Duration,
    ) -> Result<Load, String> {
        let json = self.folder.join(format!("load-{nth}.json"));
        let _ = std::fs::remove_file(&json);
        let log = self.folder.join(format!("load-{nth}.log"));
        let mut words = self.words((nth, stream), users, length);
        words.extend(["--json".to_owned(), json.display().to_string()]);
        let program = self.signet.display().to_string();
        let process = Process::start(self.core, &program, &words, &log)?;
        Ok(Load {
            process,
            json,
            log,
            limit: length + PATIENCE,
        })
    }

    /// Starts so many agents who register and then stay, each over a connection of his own
    /// where the transport has one.
    pub(super) fn idle(
        &self,
        name: &str,
        transport: Transport,
        agents: u32,
        per_s: u32,
    ) -> Result<Process, String> {
        let mut words = Words(["load", "register", "--again"].map(str::to_owned).into());
        self.to(&mut words, transport, self.ports.p256());
        words.with("--agents", agents.to_string());
        words.with("--user", format!("{name}{{n:07}}"));
        words.with("--setup-rate", per_s.to_string());
        words.with("--rate", "1");
        words.with("--duration", "300s");
        if transport != Transport::Udp {
            words.with("--connection", "per-agent");
        }
        self.quietly(&mut words);
        let log = self.folder.join(format!("idle-{name}.log"));
        Process::start(
            self.core,
            &self.signet.display().to_string(),
            &words.0,
            &log,
        )
    }

    /// Starts calls that stand for longer than anybody looks.
    pub(super) fn standing(&self, per_s: f64, length: Duration) -> Result<Process, String> {
        let stream = Stream::new(Flow::Calls(Transport::Udp), Transport::Udp, per_s);
        let mut words = self.words((9, &stream), PasswordStore::None, length);
        words.extend(["--hold", "300s"].map(str::to_owned));
        let log = self.folder.join("standing.log");
        Process::start(self.core, &self.signet.display().to_string(), &words, &log)
    }

    fn to(&self, words: &mut Words, transport: Transport, secure: u16) {
        let to: SocketAddr = match transport {
            Transport::Udp | Transport::Tcp => here(self.ports.plain()),
            Transport::Tls => here(secure),
        };
        words.with("--to", format!("sip:{to}"));
        words.with("--transport", transport.name());
        words.with("--domain", DOMAIN);
        if transport == Transport::Tls {
            words.with("--ca", self.certificates.root());
            words.with("--tls", "1.3");
            words.with("--group", "X25519");
        }
    }

    /// What is measured is the server: a load that is late by milliseconds, or whose calls
    /// fail, says so in its result.
    fn quietly(&self, words: &mut Words) {
        words.with("--drain-timeout", DRAIN);
        words.with("--failures-max", "99%");
        words.say("--no-check-self");
        words.say("--quiet");
    }

    fn words(
        &self,
        (nth, stream): (usize, &Stream),
        users: PasswordStore,
        length: Duration,
    ) -> Vec<String> {
        let mut words = Words(vec!["load".to_owned()]);
        words.say(match stream.flow {
            Flow::Registrations => "register",
            Flow::Calls(_) | Flow::Local => "call",
        });
        self.to(&mut words, stream.transport, self.secure(stream));
        words.with("--rate", schedule(stream.per_s, length));
        words.with("--seed", (nth + 1).to_string());
        // As requests of many users come, and not evenly.
        words.say("--poisson");
        match stream.flow {
            Flow::Calls(onward) => {
                words.with("--called", format!("sip:{}@{DOMAIN}", number(onward)));
            }
            Flow::Local => words.with("--pairs", "ring"),
            Flow::Registrations => {}
        }
        agents(&mut words, nth, stream, users);
        connections(&mut words, stream);
        if let Connection::PerCall {
            is_mutual: true, ..
        } = stream.connection
        {
            words.with("--cert", self.certificates.chain(Kind::P256));
            words.with("--key", self.certificates.key(Kind::P256));
        }
        self.quietly(&mut words);
        words.0
    }

    /// The server's port for TLS as a load has it.
    fn secure(&self, stream: &Stream) -> u16 {
        match stream.connection {
            Connection::PerCall {
                is_mutual: true, ..
            } => self.ports.mutual(),
            Connection::PerCall {
                key: Key::Rsa2048, ..
            } => self.ports.rsa2048(),
            Connection::PerCall { .. } | Connection::Kept => self.ports.p256(),
        }
    }
}

/// A rate for `signet load`, exact however low: a trunk's share may be a call in minutes.
fn schedule(per_s: f64, length: Duration) -> String {
    format!("{per_s}/s for {}ms", length.as_millis())
}

/// Who calls or registers. Users of a store have its names; others have names of their load,
/// so that nobody is reached at another load's contact.
fn agents(words: &mut Words, nth: usize, stream: &Stream, users: PasswordStore) {
    let agents = (stream.per_s / OF_EACH_PER_S).clamp(AGENTS.0, AGENTS.1);
    words.with("--agents", format!("{agents:.0}"));
    let setup_per_s = match stream.flow {
        Flow::Local => SETUP_PER_S,
        Flow::Calls(_) | Flow::Registrations => AT_ONCE_PER_S,
    };
    words.with("--setup-rate", setup_per_s.to_string());
    if users == PasswordStore::None {
        words.with("--user", format!("load{nth}x{{n:05}}"));
    } else {
        words.with("--user", NAME_PATTERN);
        words.with("--password", PASSWORD_PATTERN);
        if stream.is_challenged {
            words.say("--first-unauthenticated");
        }
    }
    if stream.flow == Flow::Local {
        words.say("--register-first");
    }
}

fn connections(words: &mut Words, stream: &Stream) {
    let Connection::PerCall { resumed, .. } = stream.connection else {
        return;
    };
    if stream.transport == Transport::Udp {
        return;
    }
    words.with("--connection", "per-call");
    if stream.transport == Transport::Tls && resumed > 0.0 {
        words.with("--resume", format!("{resumed:.3}"));
    }
}

impl Load {
    /// Waits for its end and reads what it told.
    pub(super) fn end(mut self) -> Result<RunResult, String> {
        if self.process.wait(self.limit).is_none() {
            return Err(format!("a load did not end: see {}", self.log.display()));
        }
        RunResult::read(&self.json).map_err(|error| {
            let said = std::fs::read_to_string(&self.log).unwrap_or_default();
            format!("a load told nothing ({error}): {}", said.trim_end())
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_asked_for_just_the_rate_that_is_planned() {
        for per_s in [1.0 / 3.0, 0.004, 0.000_3, 2_000.0, 123.456] {
            let text = schedule(per_s, Duration::from_millis(1_500));
            let read = measure::Schedule::parse(&text).expect("a schedule");
            assert!(
                (read.rate_max_per_s() - per_s).abs() <= f64::EPSILON * per_s,
                "{text}"
            );
            assert_eq!(read.duration_ns(), 1_500_000_000, "{text}");
        }
    }
}
