//! A distance between a server and its database: `signet bed delay` in a process of its own.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::Process;

/// How often it tells what passed.
const INTERVAL_MS: u64 = 100;

/// A relay that runs in a process of its own, between a server and its database.
#[derive(Debug)]
pub struct RelayProcess {
    /// Its process.
    pub process: Process,
    input: ChildStdin,
    report: PathBuf,
}

/// What passed so far, both directions together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Passed {
    /// When, by the relay's clock.
    pub at_ns: u64,
    /// Payload.
    pub bytes: u64,
    /// With headers.
    pub wire_bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Round trips that somebody waited for.
    pub round_trips: u64,
    /// How late one in a hundred left, over the whole run of the relay.
    pub late_p99_us: f64,
}

impl RelayProcess {
    /// Starts a relay with this round trip between `from` and the port `to` on 127.0.0.1.
    ///
    /// # Errors
    /// A relay that does not run, with what it said.
    pub fn start(
        signet: &Path,
        (from, to): (SocketAddr, u16),
        rtt_ms: u64,
        core: &str,
        folder: &Path,
    ) -> Result<Self, String> {
        let report = folder.join("relay.json");
        let _ = std::fs::remove_file(&report);
        let words = [
            "bed".to_owned(),
            "delay".to_owned(),
            "--listen".to_owned(),
            from.to_string(),
            "--to".to_owned(),
            format!("127.0.0.1:{to}"),
            "--rtt".to_owned(),
            format!("{rtt_ms}ms"),
            "--report".to_owned(),
            report.display().to_string(),
            "--interval".to_owned(),
            format!("{INTERVAL_MS}ms"),
        ];
        let is_open = (!from.ip().is_loopback()).then(|| "--open".to_owned());
        let words: Vec<String> = words.into_iter().chain(is_open).collect();
        let log = folder.join("relay.log");
        let program = signet.display().to_string();
        let (process, input) = Process::start_with_input(core, &program, &words, &log)?;
        let mut relay = Self {
            process,
            input,
            report,
        };
        let until = Instant::now() + Duration::from_secs(10);
        while relay.passed().is_none() {
            if !relay.process.is_running() || Instant::now() > until {
                let told = std::fs::read_to_string(&log).unwrap_or_default();
                return Err(format!("the relay does not run: {}", told.trim_end()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(relay)
    }

    /// Changes the round trip of what is sent from now on.
    ///
    /// # Errors
    /// That the relay is gone.
    pub fn set_rtt(&mut self, rtt_ms: u64) -> Result<(), String> {
        writeln!(self.input, "rtt {rtt_ms}ms").map_err(|e| format!("the relay is gone: {e}"))
    }

    /// What passed until a moment ago.
    fn passed(&self) -> Option<Passed> {
        passed(&self.report)
    }

    /// The same for another thread.
    pub fn glance(&self) -> impl Fn() -> Option<Passed> + Send + 'static {
        let report = self.report.clone();
        move || passed(&report)
    }
}

/// What a relay's report says.
fn passed(report: &Path) -> Option<Passed> {
    let text = std::fs::read_to_string(report).ok()?;
    let value: Value = serde_json::from_str(&text).ok()?;
    Some(Passed::read(&value))
}

impl Passed {
    fn read(report: &Value) -> Self {
        let number = |path: &str| report.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        let both =
            |name: &str| number(&format!("/there/{name}")) + number(&format!("/back/{name}"));
        let late = report.pointer("/late/p99_us").and_then(Value::as_f64);
        Self {
            at_ns: number("/elapsed_ns"),
            bytes: both("bytes"),
            wire_bytes: both("wire_bytes"),
            packets: both("packets"),
            round_trips: number("/round_trips"),
            late_p99_us: late.unwrap_or(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_are_added() {
        let report = serde_json::json!({
            "elapsed_ns": 5, "round_trips": 2,
            "there": { "bytes": 10, "wire_bytes": 76, "packets": 1 },
            "back": { "bytes": 20, "wire_bytes": 86, "packets": 1 },
            "late": { "p99_us": 31.5 },
        });
        let expected = Passed {
            at_ns: 5,
            bytes: 30,
            wire_bytes: 162,
            packets: 2,
            round_trips: 2,
            late_p99_us: 31.5,
        };
        assert_eq!(Passed::read(&report), expected);
    }
}
