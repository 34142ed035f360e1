//! The project's own generator as the load, at rates that SIPp does not hold:
//! caller and called side in one process.

use std::time::{Duration, Instant};

use serde_json::Value;
use signet_bed::generator::{Desk, Generator};

use crate::cases::SEARCH_S_MAX;
use crate::load::{Load, Totals};
use crate::sipp::SippTransport;
use crate::told::Told;

/// A run of the generator.
pub(crate) struct Own {
    generator: Generator,
    rate: u64,
}

impl Own {
    /// Starts `rate` calls a second against `port`, answered at `called_port`, until the end is
    /// asked for, at most for `seconds_max`.
    pub(crate) fn start(
        desk: &Desk<'_>,
        transport: SippTransport,
        ports: (u16, u16),
        (rate, seconds_max): (u64, u64),
    ) -> Result<Self, String> {
        let mut words = words(transport, "call", ports);
        words.extend(["--rate", &rate.to_string()].map(str::to_owned));
        words.extend(["--duration", &format!("{seconds_max}s")].map(str::to_owned));
        let generator = desk.start("own-load", &words)?;
        Ok(Self { generator, rate })
    }
}

impl Load for Own {
    fn warm_up(&mut self, seconds: u64) -> Result<(), String> {
        self.generator.wait_until(seconds + 1)
    }

    /// By the schedule: the generator tells its counts at the end.
    fn mark(&mut self, ahead_s: u64) -> Result<f64, String> {
        let until = Instant::now() + Duration::from_secs(ahead_s);
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        self.generator.must_run()?;
        Ok(self.rate as f64 * self.generator.begun().elapsed().as_secs_f64())
    }

    fn end(self: Box<Self>) -> Result<Totals, String> {
        let Self { generator, rate } = *self;
        let told = Told::new(generator.stop(Duration::from_secs(60))?);
        // What it began of its schedule: a generator without a core of its own falls behind.
        let run_s = told.result.duration_ns as f64 / 1e9;
        let begun_share = told.result.health.sent as f64 / (rate as f64 * run_s);
        Ok(Totals {
            completed: told.completed,
            failed: told.failed,
            retransmissions: told.retransmissions,
            // The schedule's calls, less those that did not begin and the share that failed.
            scale: begun_share.min(1.0) * told.share_ok(),
            is_doubted: !told.doubts.is_empty(),
        })
    }
}

/// The largest rate without a failure through the server at `port`, as the
/// generator's own search finds it.
pub(crate) fn peak(
    desk: &Desk<'_>,
    transport: SippTransport,
    ports: (u16, u16),
    is_quick: bool,
) -> Result<u64, String> {
    let mut words = words(transport, "peak", ports);
    let (precision, try_time, rest) = match is_quick {
        true => ("50%", "1s", "1s"),
        false => ("10%", "5s", "2s"),
    };
    words.extend(["--start", "2000", "--repeats", "1"].map(str::to_owned));
    words.extend(
        [
            "--precision",
            precision,
            "--try-time",
            try_time,
            "--rest",
            rest,
        ]
        .map(str::to_owned),
    );
    let mut generator = desk.start("own-peak", &words)?;
    generator.wait(Duration::from_secs(SEARCH_S_MAX))?;
    let json = generator.json();
    let text = std::fs::read_to_string(json)
        .map_err(|error| generator.said(&format!("the search told nothing ({error})")))?;
    let value: Value =
        serde_json::from_str(&text).map_err(|e| format!("{}: {e}", json.display()))?;
    let peak = value.pointer("/peak_cps").and_then(Value::as_f64);
    peak.map(|rate| rate as u64)
        .ok_or_else(|| format!("{}: no peak_cps", json.display()))
}

fn words(transport: SippTransport, command: &str, (port, called_port): (u16, u16)) -> Vec<String> {
    let name = transport.plain().name();
    let mut words = vec![
        command.to_owned(),
        "--to".to_owned(),
        format!("sip:service@127.0.0.1:{port}"),
        "--transport".to_owned(),
        name.to_owned(),
        "--answer-here".to_owned(),
        format!("{name}:127.0.0.1:{called_port}"),
    ];
    if transport == SippTransport::TcpPerCall {
        // Ports are free again after a minute: many addresses have enough of them.
        words.extend(["--connection", "per-call", "--local", "127.1.0.0/24"].map(str::to_owned));
    }
    words
}
