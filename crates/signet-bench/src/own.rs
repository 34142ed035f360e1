//! The project's own generator as the load, at rates that SIPp does not hold:
//! caller and called side in one process.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cases::SEARCH_S_MAX;
use crate::load::{Load, Totals};
use crate::process::Process;
use crate::sipp::SippTransport;

/// A run of the generator.
pub(crate) struct Own {
    process: Process,
    json: PathBuf,
    begun: Instant,
    rate: u64,
}

impl Own {
    /// Starts `rate` calls a second against `port`, answered at `called_port`, until the end is
    /// asked for, at most for `seconds_max`.
    pub(crate) fn start(
        signet: &Path,
        transport: SippTransport,
        (port, called_port): (u16, u16),
        (rate, seconds_max): (u64, u64),
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
            format!("{seconds_max}s"),
            "--json".to_owned(),
            json.display().to_string(),
        ]);
        let log = folder.join("own-load.log");
        let process = Process::start(core, &signet.display().to_string(), &words, &log)?;
        Ok(Self {
            process,
            json,
            begun: Instant::now(),
            rate,
        })
    }

    fn sleep_until(&mut self, until: Instant) -> Result<(), String> {
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        self.process
            .must_run("the generator")
            .map_err(|error| format!("{error}; see own-load.log"))
    }
}

impl Load for Own {
    fn warm_up(&mut self, seconds: u64) -> Result<(), String> {
        self.sleep_until(self.begun + Duration::from_secs(seconds + 1))
    }

    /// By the schedule: the generator tells its counts at the end.
    fn mark(&mut self, ahead_s: u64) -> Result<f64, String> {
        self.sleep_until(Instant::now() + Duration::from_secs(ahead_s))?;
        Ok(self.rate as f64 * self.begun.elapsed().as_secs_f64())
    }

    fn end(mut self: Box<Self>) -> Result<Totals, String> {
        self.process.interrupt();
        self.process
            .wait(Duration::from_secs(60))
            .ok_or("the generator did not end")?;
        let value = read(&self.json)?;
        let number = |path: &str| value.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        let failed = value
            .pointer("/causes")
            .and_then(Value::as_object)
            .map_or(0, |causes| causes.values().filter_map(Value::as_u64).sum());
        let completed = number("/figures/completed");
        let doubts = value.pointer("/doubts").and_then(Value::as_array);
        let mut names = doubts
            .into_iter()
            .flatten()
            .filter_map(|doubt| doubt.get("name").and_then(Value::as_str));
        // What it began of its schedule: a generator without a core of its own falls behind.
        let run_s = number("/duration_ns") as f64 / 1e9;
        let begun_share = number("/health/sent") as f64 / (self.rate as f64 * run_s);
        Ok(Totals {
            completed,
            failed,
            retransmissions: number("/retransmissions/ours")
                + number("/retransmissions/lost")
                + number("/retransmissions/late"),
            // The schedule's calls, less those that did not begin and the share that failed.
            scale: begun_share.min(1.0) * completed as f64 / (completed + failed).max(1) as f64,
            // Its end is asked for when all is measured.
            is_doubted: names.any(|name| name != "interrupted"),
        })
    }
}

/// The largest rate without a failure through the server at `port`, as the
/// generator's own search finds it.
pub(crate) fn peak(
    signet: &Path,
    transport: SippTransport,
    (port, called_port): (u16, u16),
    core: &str,
    folder: &Path,
    is_quick: bool,
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
            if is_quick { "50%" } else { "10%" },
            "--try-time",
            if is_quick { "1s" } else { "5s" },
            "--rest",
            if is_quick { "1s" } else { "2s" },
            "--json",
        ]
        .map(str::to_owned),
    );
    words.push(json.display().to_string());
    let log = folder.join("own-peak.log");
    let mut process = Process::start(core, &signet.display().to_string(), &words, &log)?;
    process
        .wait(Duration::from_secs(SEARCH_S_MAX))
        .ok_or("the search for the peak did not end")?;
    let value = read(&json)?;
    let peak = value.pointer("/peak_cps").and_then(Value::as_f64);
    peak.map(|rate| rate as u64)
        .ok_or_else(|| format!("{}: no peak_cps", json.display()))
}

fn words(transport: SippTransport, command: &str, port: u16, called_port: u16) -> Vec<String> {
    let name = match transport {
        SippTransport::Udp => "udp",
        SippTransport::TcpOne | SippTransport::TcpPerCall => "tcp",
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
    if transport == SippTransport::TcpPerCall {
        // Ports are free again after a minute: many addresses have enough of them.
        words.extend(["--connection", "per-call", "--local", "127.1.0.0/24"].map(str::to_owned));
    }
    words
}

fn read(path: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
}
