//! The project's own generator as the load, at rates that SIPp does not hold:
//! caller and called side in one process.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::Process;

/// How the generator is to use its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnTransport {
    /// One UDP socket.
    Udp,
    /// One TCP connection.
    TcpOne,
    /// A TCP connection per call.
    TcpPerCall,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OwnCounted {
    /// Calls that ran to their end.
    pub(crate) completed: u64,
    /// Calls that did not.
    pub(crate) failed: u64,
    /// Retransmissions that the generator sent.
    pub(crate) retransmissions: u64,
    /// Whether the generator believes its own figures.
    pub(crate) valid: bool,
}

/// A run of the generator.
pub(crate) struct Own {
    process: Process,
    json: PathBuf,
    begun: Instant,
    limit: Duration,
}

impl Own {
    /// Starts `rate` calls a second for `seconds` against `port`, answered at
    /// `called_port`.
    pub(crate) fn start(
        signet: &Path,
        transport: OwnTransport,
        (port, called_port): (u16, u16),
        (rate, seconds): (u64, u64),
        core: &str,
        folder: &Path,
    ) -> Result<Self, String> {
        let json = folder.join("own-load.json");
        let _ = std::fs::remove_file(&json);
        let mut words = words(transport, "call", port, called_port);
        words.extend([
            "--rate".to_owned(),
            rate.to_string(),
            "--duration".to_owned(),
            format!("{seconds}s"),
            "--json".to_owned(),
            json.display().to_string(),
        ]);
        let log = folder.join("own-load.log");
        let process = Process::start(core, &signet.display().to_string(), &words, &log)?;
        Ok(Self {
            process,
            json,
            begun: Instant::now(),
            limit: Duration::from_secs(seconds + 90),
        })
    }

    /// Sleeps until that many seconds after the start.
    pub(crate) fn wait_until(&mut self, seconds: u64) -> Result<(), String> {
        let until = self.begun + Duration::from_secs(seconds);
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        if self.process.is_running() {
            Ok(())
        } else {
            Err("the generator ended early; see own-load.log".to_owned())
        }
    }

    /// Waits for the end and reads what was counted.
    pub(crate) fn end(mut self) -> Result<OwnCounted, String> {
        let limit = self.limit;
        self.process
            .wait(limit)
            .ok_or_else(|| format!("the generator did not end within {limit:?}"))?;
        let value = read(&self.json)?;
        let number = |path: &str| value.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        let failed = value
            .pointer("/causes")
            .and_then(Value::as_object)
            .map_or(0, |causes| causes.values().filter_map(Value::as_u64).sum());
        Ok(OwnCounted {
            completed: number("/figures/completed"),
            failed,
            retransmissions: number("/retransmissions/ours")
                + number("/retransmissions/lost")
                + number("/retransmissions/late"),
            valid: value.pointer("/valid").and_then(Value::as_bool) == Some(true),
        })
    }
}

/// The largest rate without a failure through the server at `port`, as the
/// generator's own search finds it.
pub(crate) fn peak(
    signet: &Path,
    transport: OwnTransport,
    (port, called_port): (u16, u16),
    core: &str,
    folder: &Path,
) -> Result<u64, String> {
    let json = folder.join("own-peak.json");
    let _ = std::fs::remove_file(&json);
    let mut words = words(transport, "peak", port, called_port);
    words.extend(
        [
            "--start",
            "2000",
            "--repeats",
            "1",
            "--precision",
            "10%",
            "--try-time",
            "5s",
            "--rest",
            "2s",
            "--json",
        ]
        .map(str::to_owned),
    );
    words.push(json.display().to_string());
    let log = folder.join("own-peak.log");
    let mut process = Process::start(core, &signet.display().to_string(), &words, &log)?;
    process
        .wait(Duration::from_secs(300))
        .ok_or("the search for the peak did not end")?;
    let value = read(&json)?;
    let peak = value.pointer("/peak_cps").and_then(Value::as_f64);
    peak.map(|rate| rate as u64)
        .ok_or_else(|| format!("{}: no peak_cps", json.display()))
}

fn words(transport: OwnTransport, command: &str, port: u16, called_port: u16) -> Vec<String> {
    let name = match transport {
        OwnTransport::Udp => "udp",
        OwnTransport::TcpOne | OwnTransport::TcpPerCall => "tcp",
    };
    let mut words = vec![
        "load".to_owned(),
        command.to_owned(),
        "--to".to_owned(),
        format!("sip:service@127.0.0.1:{port}"),
        "--transport".to_owned(),
        name.to_owned(),
        "--answer-here".to_owned(),
        format!("{name}:127.0.0.1:{called_port}"),
        "--no-check-self".to_owned(),
        "--quiet".to_owned(),
    ];
    if transport == OwnTransport::TcpPerCall {
        // Ports are free again after a minute: many addresses have enough of them.
        words.extend(["--connection", "per-call", "--local", "127.1.0.0/24"].map(str::to_owned));
    }
    words
}

fn read(path: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
}
