//! The load: the project's own generator on a core of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use super::{Bench, Kind, ports};
use crate::process::LOAD_CORE;
use crate::process::Process;

/// The phones' domain.
pub(super) const DOMAIN: &str = "bench.test";

/// Calls through the server to a called side in the generator's process.
pub(super) struct Calls {
    /// The transport to the server.
    pub(super) transport: &'static str,
    /// The server's port.
    pub(super) port: u16,
    /// The transport on which the called side listens.
    pub(super) answers: &'static str,
    /// `one`, `per-call` or `per-agent`.
    pub(super) connection: &'static str,
    /// Calls a second.
    pub(super) rate: u64,
    /// For how long.
    pub(super) seconds: u64,
    /// Further options.
    pub(super) more: Vec<String>,
}

/// Phones that register and stay.
pub(super) struct Phones {
    /// The beginning of their names, different in each process.
    pub(super) name: &'static str,
    /// The second byte of their addresses, different in each process.
    pub(super) net: u8,
    pub(super) count: usize,
    /// The server's port.
    pub(super) port: u16,
    /// Connections opened a second.
    pub(super) setup_per_s: usize,
    /// Further options.
    pub(super) more: Vec<String>,
}

/// A run of the generator.
pub(super) struct Load {
    process: Process,
    json: PathBuf,
    log: PathBuf,
    begun: Instant,
    limit: Duration,
}

/// What a run told of itself.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Told {
    /// Calls that ran to their end.
    pub(super) completed: u64,
    /// Calls that did not.
    pub(super) failed: u64,
    /// Why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) causes: BTreeMap<String, u64>,
    /// Messages sent again.
    pub(super) retransmissions: u64,
    /// Why the generator itself could have made the result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) doubts: Vec<String>,
    /// Full handshakes of the callers.
    pub(super) handshakes_full: u64,
    /// Resumed ones.
    pub(super) handshakes_resumed: u64,
    /// Failed ones.
    pub(super) handshakes_failed: u64,
    /// The set-up delay of 99% of the calls, from the intended time.
    pub(super) setup_p99_us: u64,
    /// The longest.
    pub(super) setup_max_us: u64,
    /// Everything.
    #[serde(skip)]
    pub(super) whole: Value,
}

impl Bench<'_> {
    /// Options with which the generator believes the bench's servers. All
    /// exchange keys on X25519; P-256 is named because OpenSSL shows a client of
    /// TLS 1.2 no certificate on a curve that is not.
    pub(super) fn trusting(&self) -> Vec<String> {
        ["--ca", &self.certificates.root(), "--group", "X25519,P-256"]
            .map(str::to_owned)
            .to_vec()
    }

    /// Begins calls.
    pub(super) fn call(&self, calls: &Calls) -> Result<Load, String> {
        let mut words = vec![
            "load".to_owned(),
            "call".to_owned(),
            "--to".to_owned(),
            format!("sip:service@127.0.0.1:{}", calls.port),
            "--transport".to_owned(),
            calls.transport.to_owned(),
            "--answer-here".to_owned(),
            format!("{}:127.0.0.1:{}", calls.answers, self.port(ports::CALLED)),
            "--rate".to_owned(),
            calls.rate.to_string(),
            "--duration".to_owned(),
            format!("{}s", calls.seconds),
        ];
        if calls.transport != "udp" {
            words.extend(["--connection".to_owned(), calls.connection.to_owned()]);
            if calls.connection != "one" {
                // A port is free again a minute after its use: many addresses have enough.
                words.extend(["--local", "127.1.0.0/24"].map(str::to_owned));
            }
        }
        if calls.transport == "tls" {
            words.extend(self.trusting());
        }
        if calls.answers == "tls" {
            words.extend([
                "--cert".to_owned(),
                self.certificates.chain(Kind::P256),
                "--key".to_owned(),
                self.certificates.key(Kind::P256),
            ]);
        }
        words.extend(calls.more.iter().cloned());
        self.start_load("calls", words, calls.seconds, false)
    }

    /// Begins to bring phones up. They leave the core to a load of calls where
    /// both want it: what a call waits for is to be the server.
    pub(super) fn phones(&self, phones: &Phones) -> Result<Load, String> {
        let mut words = vec![
            "load".to_owned(),
            "register".to_owned(),
            "--again".to_owned(),
            "--to".to_owned(),
            format!("sip:127.0.0.1:{}", phones.port),
            "--transport".to_owned(),
            "tls".to_owned(),
            "--connection".to_owned(),
            "per-agent".to_owned(),
            "--agents".to_owned(),
            phones.count.to_string(),
            "--user".to_owned(),
            format!("{}{{n}}", phones.name),
            "--domain".to_owned(),
            DOMAIN.to_owned(),
            "--local".to_owned(),
            format!("127.{}.0.0/16", phones.net),
            "--setup-rate".to_owned(),
            phones.setup_per_s.to_string(),
            // One of them renews its registration in ten seconds: they are idle.
            "--rate".to_owned(),
            "0.1".to_owned(),
            "--duration".to_owned(),
            "1h".to_owned(),
        ];
        words.extend(self.trusting());
        words.extend(phones.more.iter().cloned());
        self.start_load(&format!("phones-{}", phones.name), words, 0, true)
    }

    fn start_load(
        &self,
        name: &str,
        mut words: Vec<String>,
        seconds: u64,
        is_nice: bool,
    ) -> Result<Load, String> {
        let json = self.folder.join(format!("{name}.json"));
        let log = self.folder.join(format!("{name}.log"));
        let _ = std::fs::remove_file(&json);
        words.extend(["--no-check-self".to_owned(), "--quiet".to_owned()]);
        words.extend(["--json".to_owned(), json.display().to_string()]);
        let arguments = &self.arguments;
        let signet = arguments.load.as_ref().unwrap_or(&arguments.signet);
        let signet = signet.display().to_string();
        let process = if is_nice {
            Process::start_nice(LOAD_CORE, &signet, &words, &log)?
        } else {
            Process::start(LOAD_CORE, &signet, &words, &log)?
        };
        Ok(Load {
            process,
            json,
            log,
            begun: Instant::now(),
            limit: Duration::from_secs(seconds + 90),
        })
    }
}

impl Load {
    /// Sleeps until that many seconds after the start.
    pub(super) fn wait_until(&mut self, seconds: u64) -> Result<(), String> {
        let until = self.begun + Duration::from_secs(seconds);
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        self.must_run()
    }

    /// Whether it still runs; with what it said where it does not.
    pub(super) fn must_run(&mut self) -> Result<(), String> {
        if self.process.is_running() {
            return Ok(());
        }
        Err(self.said("the generator ended early"))
    }

    /// Asks it to end and reads what it told.
    pub(super) fn stop(self) -> Result<Told, String> {
        self.process.interrupt();
        self.end()
    }

    /// Waits for the end and reads what it told.
    pub(super) fn end(mut self) -> Result<Told, String> {
        if self.process.wait(self.limit).is_none() {
            return Err(self.said("the generator did not end"));
        }
        let text = std::fs::read_to_string(&self.json)
            .map_err(|_| self.said("the generator wrote no result"))?;
        let whole: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        Ok(Told::new(whole))
    }

    fn said(&self, what: &str) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(4).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        format!("{what}: {}", tail.join(" | "))
    }
}

impl Told {
    fn new(whole: Value) -> Self {
        let number = |path: &str| whole.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        let mut causes = BTreeMap::new();
        if let Some(told) = whole.pointer("/causes").and_then(Value::as_object) {
            for (name, count) in told {
                causes.insert(name.clone(), count.as_u64().unwrap_or(0));
            }
        }
        let doubts = whole.pointer("/doubts").and_then(Value::as_array);
        let doubts = doubts.into_iter().flatten().filter_map(|doubt| {
            let text = |name: &str| doubt.get(name).and_then(Value::as_str);
            let figure = doubt.get("figure").and_then(Value::as_f64);
            let bound = doubt.get("bound").and_then(Value::as_f64);
            Some(format!("{}: {figure:?}, bound {bound:?}", text("name")?))
        });
        Self {
            completed: number("/figures/completed"),
            failed: causes.values().sum(),
            causes,
            retransmissions: ["ours", "lost", "late"]
                .iter()
                .map(|kind| number(&format!("/retransmissions/{kind}")))
                .sum(),
            // A run of phones is interrupted when it has served.
            doubts: doubts
                .filter(|doubt| !doubt.starts_with("interrupted"))
                .collect(),
            handshakes_full: number("/handshakes/full"),
            handshakes_resumed: number("/handshakes/resumed"),
            handshakes_failed: number("/handshakes/failed"),
            setup_p99_us: number("/figures/setup/intended/p99_us"),
            setup_max_us: number("/figures/setup/intended/max_us"),
            whole,
        }
    }

    /// Of the arrivals that ended, the share that ended well.
    pub(super) fn share_ok(&self) -> f64 {
        self.completed as f64 / (self.completed + self.failed).max(1) as f64
    }

    /// A counter of the result.
    pub(super) fn counter(&self, name: &str) -> u64 {
        let counter = self.whole.get("counters").and_then(|all| all.get(name));
        counter.and_then(Value::as_u64).unwrap_or(0)
    }

    /// Why a figure that rests on this run is to be doubted.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = self.doubts.clone();
        if self.failed > 0 {
            remarks.push(format!("{} calls failed: {:?}", self.failed, self.causes));
        }
        if self.retransmissions > 0 {
            remarks.push(format!("{} messages sent again", self.retransmissions));
        }
        if self.handshakes_failed > 0 {
            remarks.push(format!("{} handshakes failed", self.handshakes_failed));
        }
        remarks
    }
}
