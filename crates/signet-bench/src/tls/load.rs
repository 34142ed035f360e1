//! The load: the project's own generator on a core of its own.

use std::time::Duration;

use signet_bed::generator::{Desk, Generator};

use super::{Bench, Kind, ports};
use crate::process::LOAD_CORE;
use crate::told::Told;

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
    generator: Generator,
    limit: Duration,
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
        Ok(Load {
            generator: self.desk().start("calls", &words)?,
            limit: limit(calls.seconds),
        })
    }

    /// Begins to bring phones up. They leave the core to a load of calls where
    /// both want it: what a call waits for is to be the server.
    pub(super) fn phones(&self, phones: &Phones) -> Result<Load, String> {
        let mut words = vec![
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
        let name = format!("phones-{}", phones.name);
        Ok(Load {
            generator: self.desk().start_nice(&name, &words)?,
            limit: limit(0),
        })
    }

    fn desk(&self) -> Desk<'_> {
        let arguments = self.arguments;
        Desk {
            signet: arguments.load.as_ref().unwrap_or(&arguments.signet),
            core: LOAD_CORE,
            folder: &self.folder,
        }
    }
}

/// How long the end of a load of so many seconds may be waited for.
const fn limit(seconds: u64) -> Duration {
    Duration::from_secs(seconds + 90)
}

impl Load {
    /// Sleeps until that many seconds after the start.
    pub(super) fn wait_until(&mut self, seconds: u64) -> Result<(), String> {
        self.generator.wait_until(seconds)
    }

    /// Whether it still runs; with what it said where it does not.
    pub(super) fn must_run(&mut self) -> Result<(), String> {
        self.generator.must_run()
    }

    /// Asks it to end and reads what it told.
    pub(super) fn stop(self) -> Result<Told, String> {
        self.generator.stop(self.limit).map(Told::new)
    }

    /// Waits for the end and reads what it told.
    pub(super) fn end(self) -> Result<Told, String> {
        self.generator.end(self.limit).map(Told::new)
    }
}
