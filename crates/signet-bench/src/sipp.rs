//! SIPp as the load: its default caller and called side.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

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
pub(crate) struct Counted {
    /// Calls that ran to their end.
    pub(crate) successful: u64,
    /// Calls that did not.
    pub(crate) failed: u64,
    /// Retransmissions that the caller sent.
    pub(crate) retransmissions: u64,
}

/// Starts the called side on its port.
pub(crate) fn answer(
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

/// A running caller, which writes its counts once a second.
pub(crate) struct Caller {
    process: Process,
    stat: PathBuf,
    begun: Instant,
    limit: Duration,
}

impl Caller {
    /// Starts `calls` calls at `rate` a second against `port`.
    pub(crate) fn start(
        transport: SippTransport,
        port: u16,
        (rate, calls): (u64, u64),
        core: &str,
        folder: &Path,
    ) -> Result<Self, String> {
        let stat = folder.join("sipp-uac.csv");
        // Each caller has an address of its own, and so ports that nobody used.
        static CALLERS: AtomicU8 = AtomicU8::new(0);
        let last = 10 + CALLERS.fetch_add(1, Ordering::Relaxed) % 240;
        let _ = fs::remove_file(&stat);
        let mut arguments = words(&format!(
            "-sn uac -i 127.0.0.{last} -p 5080 -t {} -r {rate} -m {calls} -l 15000 -nostdin -trace_stat -fd 1 -max_socket 17000 -timeout 120 -stf",
            transport.flag()
        ));
        arguments.push(stat.display().to_string());
        arguments.push(format!("127.0.0.1:{port}"));
        let process = Process::start(core, "sipp", &arguments, &folder.join("sipp-uac.log"))?;
        let limit = Duration::from_secs(60 + calls / rate.max(1));
        Ok(Self {
            process,
            stat,
            begun: Instant::now(),
            limit,
        })
    }

    /// Returns as soon as the counts of that many seconds are written, so that
    /// a reading of the server's CPU time then goes with them.
    pub(crate) fn wait_row(&mut self, seconds: u64) -> Result<(), String> {
        let until = Instant::now() + self.limit;
        // Nobody looks before it can be time: a busy watcher would cost the server its cache.
        let expected = self.begun + Duration::from_secs(seconds);
        let early = Duration::from_millis(100);
        std::thread::sleep(expected.saturating_duration_since(Instant::now() + early));
        let wanted = usize::try_from(seconds).unwrap_or(usize::MAX) + 1;
        while Instant::now() < until && self.process.is_running() {
            let rows = fs::read_to_string(&self.stat).map_or(0, |text| text.lines().count());
            if rows > wanted {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Err(format!(
            "the caller ended before {seconds} s were over, or hangs"
        ))
    }

    /// The counts so far.
    pub(crate) fn counted(&self) -> Result<Counted, String> {
        read_counts(&self.stat)
    }

    /// Waits for the end.
    pub(crate) fn end(mut self) -> Result<Counted, String> {
        let limit = self.limit;
        self.process
            .wait(limit)
            .ok_or_else(|| format!("the caller did not end within {limit:?}"))?;
        read_counts(&self.stat)
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
        retransmissions: column("Retransmissions(C)").unwrap_or(0),
    })
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
