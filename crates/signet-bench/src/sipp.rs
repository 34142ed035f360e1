//! SIPp as the load: its default caller and called side.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use signet_bed::experiment::Transport;

use crate::load::{Load, Totals};
use crate::process::Process;

/// How SIPp is to use its sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SippTransport {
    /// One UDP socket.
    Udp,
    /// One TCP connection.
    TcpOne,
    /// A TCP connection per call.
    TcpPerCall,
}

impl SippTransport {
    /// What SIP goes over.
    pub(crate) const fn plain(self) -> Transport {
        match self {
            Self::Udp => Transport::Udp,
            Self::TcpOne | Self::TcpPerCall => Transport::Tcp,
        }
    }

    fn flag(self) -> &'static str {
        match self {
            Self::Udp => "u1",
            Self::TcpOne => "t1",
            Self::TcpPerCall => "tn",
        }
    }
}

/// What the caller counted.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    /// Calls that ran to their end.
    successful: u64,
    /// Calls that did not.
    failed: u64,
    /// Calls that are under way.
    open: u64,
    /// Retransmissions that the caller sent.
    retransmissions: u64,
}

/// Starts the called side on its port.
fn answer(
    transport: SippTransport,
    port: u16,
    core: &str,
    folder: &Path,
) -> Result<Process, String> {
    let transport = if transport == SippTransport::Udp {
        "u1"
    } else {
        "t1"
    };
    let arguments = words(&format!(
        "-sn uas -i 127.0.0.1 -p {port} -t {transport} -nostdin"
    ));
    let process = Process::start(core, "sipp", &arguments, &folder.join("sipp-uas.log"))?;
    std::thread::sleep(Duration::from_millis(300));
    Ok(process)
}

/// How long calls may go on after the last one began: the scenario's are over in milliseconds.
const PATIENCE: Duration = Duration::from_secs(4);

/// A running caller, which writes its counts once a second.
pub(crate) struct Caller {
    process: Process,
    /// Ends after the caller.
    _called: Process,
    stat: PathBuf,
    begun: Instant,
}

impl Caller {
    /// Starts the called side, and calls at `rate` a second against `port` until the end is asked
    /// for, at most for `seconds_max`.
    pub(crate) fn start(
        transport: SippTransport,
        (port, called_port): (u16, u16),
        (rate, seconds_max): (u64, u64),
        core: &str,
        folder: &Path,
    ) -> Result<Self, String> {
        let called = answer(transport, called_port, core, folder)?;
        let stat = folder.join("sipp-uac.csv");
        // Each caller has an address of its own, and so ports that nobody used.
        static CALLERS: AtomicU8 = AtomicU8::new(0);
        let last = 10 + CALLERS.fetch_add(1, Ordering::Relaxed) % 240;
        let _ = fs::remove_file(&stat);
        let calls = rate * seconds_max;
        let mut arguments = words(&format!(
            "-sn uac -i 127.0.0.{last} -p 5080 -t {} -r {rate} -m {calls} -l 15000 -nostdin -trace_stat -fd 1 -max_socket 17000 -stf",
            transport.flag()
        ));
        arguments.push(stat.display().to_string());
        arguments.push(format!("127.0.0.1:{port}"));
        let process = Process::start(core, "sipp", &arguments, &folder.join("sipp-uac.log"))?;
        Ok(Self {
            process,
            _called: called,
            stat,
            begun: Instant::now(),
        })
    }

    /// How many times the counts were written. The first row comes at once.
    fn rows(&self) -> u64 {
        let lines = fs::read_to_string(&self.stat).map_or(0, |text| text.lines().count());
        (lines as u64).saturating_sub(2)
    }

    /// Returns as soon as the counts were written that often, so that a reading of
    /// the server's CPU time then goes with them.
    fn wait_row(&mut self, row: u64) -> Result<(), String> {
        let expected = self.begun + Duration::from_secs(row);
        // A caller that cannot hold its rate writes its rows late.
        let until = expected.max(Instant::now()) + Duration::from_secs(10);
        // Nobody looks before it can be time: a busy watcher would cost the server its cache.
        let early = Duration::from_millis(100);
        std::thread::sleep(expected.saturating_duration_since(Instant::now() + early));
        while Instant::now() < until && self.process.is_running() {
            if self.rows() >= row {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Err(format!(
            "the caller ended before {row} s were over, or hangs; see sipp-uac.log"
        ))
    }
}

impl Load for Caller {
    fn warm_up(&mut self, seconds: u64) -> Result<(), String> {
        self.wait_row(seconds)
    }

    fn mark(&mut self, ahead_s: u64) -> Result<f64, String> {
        let row = self.rows() + ahead_s;
        self.wait_row(row)?;
        Ok(read_counts(&self.stat)?.successful as f64)
    }

    /// Asks for the end: no call begins any more, and those that are under way have a few
    /// seconds. Over a stream nothing is sent again, so a call that lost a message has no end of
    /// its own: it is counted as failed and does not hold up the measurement.
    fn end(mut self: Box<Self>) -> Result<Totals, String> {
        // The counts of the last second are not yet written.
        self.process.signal("USR1");
        if self.process.wait(PATIENCE).is_none() {
            self.process.signal("USR1");
            let _ = self.process.wait(Duration::from_millis(500));
        }
        let counted = read_counts(&self.stat)?;
        let failed = counted.failed + counted.open;
        Ok(Totals {
            completed: counted.successful,
            failed,
            retransmissions: counted.retransmissions,
            scale: 1.0,
            is_doubted: false,
        })
    }
}

/// The cumulative columns of the last line of SIPp's statistics.
fn read_counts(path: &Path) -> Result<Counted, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or("").split(';').collect();
    let last: Vec<&str> = lines.next_back().unwrap_or("").split(';').collect();
    let column = |name: &str| {
        head.iter()
            .position(|h| *h == name)
            .and_then(|i| last.get(i))
            .and_then(|v| v.parse::<u64>().ok())
            .ok_or_else(|| format!("{}: no column {name}", path.display()))
    };
    Ok(Counted {
        successful: column("SuccessfulCall(C)")?,
        failed: column("FailedCall(C)")?,
        open: column("CurrentCall").unwrap_or(0),
        retransmissions: column("Retransmissions(C)").unwrap_or(0),
    })
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
