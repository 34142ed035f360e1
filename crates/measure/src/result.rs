//! A run's result, as a file that later programs can read.
//!
//! The file is JSON with `"format": "signet-load"` and `"version": 1`. Within a
//! version fields are only added, each with a default, so a program reads files
//! of its version written before and after it; another version is refused.

mod layout;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::answered::Answered;
use crate::file;
use crate::health::{Doubt, Health};
use crate::latency::Latency;
use crate::retransmissions::Retransmissions;
use crate::series::Second;
use crate::sip::{Causes, Ratios, SipFigures};
use crate::threshold::ThresholdVerdict;
use crate::watch::{Sample, WatchedProcess};

/// The name in every file.
pub const FORMAT: &str = "signet-load";
/// The version that this crate writes and reads.
pub const VERSION: u32 = 1;
/// Of larger files no more is read, and they are refused.
pub const FILE_BYTES_MAX: u64 = 1 << 30;

/// Everything about one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunResult {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The command line that made the run.
    pub command: String,
    /// The version of the program.
    pub program_version: String,
    /// When it started, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Where it ran.
    pub host: Host,
    /// The settings of the run, as the program that ran it writes them.
    pub settings: serde_json::Value,
    /// How long it ran.
    pub duration_ns: u64,
    /// No doubt, and no threshold crossed.
    pub valid: bool,
    /// It was stopped before its schedule ended.
    pub interrupted: bool,
    /// Why the generator itself could have made the result.
    pub doubts: Vec<Doubt>,
    /// Every threshold and how it went.
    pub thresholds: Vec<ThresholdVerdict>,
    /// Counters and delays.
    pub figures: SipFigures,
    /// The ratios of RFC 6076.
    pub ratios: Ratios,
    /// Failures by cause.
    pub causes: Causes,
    /// TLS handshakes.
    pub handshakes: Handshakes,
    /// Messages sent again, by cause.
    pub retransmissions: Retransmissions,
    /// The generator's own limits.
    pub health: Health,
    /// The processes watched, all together in one entry; none without any.
    pub watched: Vec<Watched>,
    /// The same processes, each for itself and second by second.
    pub processes: Vec<WatchedProcess>,
    /// What the called side in this process answered, where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<Answered>,
    /// Other counters, by name.
    pub counters: BTreeMap<String, u64>,
    /// The run second by second.
    pub series: Vec<Second>,
}

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Its cores.
    pub cores: u64,
    /// The kernel's version.
    pub kernel: String,
    /// The processor's model.
    pub cpu_model: String,
}

/// The command of this process as anybody would give it, wherever the program lies.
pub fn command_line() -> Vec<String> {
    let mut command: Vec<String> = std::env::args().collect();
    if let Some(program) = command.first_mut() {
        let name = std::path::Path::new(program.as_str()).file_name();
        *program = name.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    }
    command
}

impl Host {
    /// This machine, as far as `/proc` tells.
    pub fn this() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
            kernel: kernel.trim_end().to_owned(),
            cpu_model: model.map_or_else(String::new, |(_, model)| model.trim().to_owned()),
        }
    }
}

/// TLS handshakes of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Handshakes {
    /// Full ones that succeeded.
    pub full: u64,
    /// Resumed ones, as the TLS library reported them after the handshake.
    pub resumed: u64,
    /// Those that failed.
    pub failed: u64,
    /// Resumptions that were offered and became full handshakes.
    pub resumption_refused: u64,
    /// Delay of full ones, from connect to finished.
    pub full_delay: Latency,
    /// Delay of resumed ones.
    pub resumed_delay: Latency,
    /// CPU time that this side spent in handshakes.
    pub cpu_ns: u64,
}

impl Handshakes {
    /// Empty; allocates what the hot path needs.
    pub fn new() -> Self {
        Self::default()
    }

    /// One succeeded.
    pub fn done(&mut self, resumed: bool, intended_ns: u64, began_ns: u64, done_ns: u64) {
        if resumed {
            self.resumed += 1;
            self.resumed_delay.record(intended_ns, began_ns, done_ns);
        } else {
            self.full += 1;
            self.full_delay.record(intended_ns, began_ns, done_ns);
        }
    }

    /// Adds another thread's handshakes to these.
    pub fn merge(&mut self, other: &Self) {
        self.full += other.full;
        self.resumed += other.resumed;
        self.failed += other.failed;
        self.resumption_refused += other.resumption_refused;
        self.full_delay.merge(&other.full_delay);
        self.resumed_delay.merge(&other.resumed_delay);
        self.cpu_ns += other.cpu_ns;
    }
}

/// The watched processes and their descendants, all together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Watched {
    /// The id of the first that was named.
    pub pid: u32,
    /// The names of their programs.
    pub name: String,
    /// CPU time they took during the run.
    pub cpu_ns: u64,
    /// The most memory that they held, in bytes.
    pub peak: Sample,
}

/// A result that cannot be read or written.
#[derive(Debug)]
pub enum ResultError {
    /// The file cannot be read or written.
    File {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is no JSON of this form.
    Json {
        /// Which file; empty for text.
        path: String,
        /// Where and why.
        source: serde_json::Error,
    },
    /// It is JSON of something else, or of another version.
    Form {
        /// Which file; empty for text.
        path: String,
        /// What it says it is.
        found: String,
    },
}

impl fmt::Display for ResultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |path: &str| {
            if path.is_empty() {
                String::new()
            } else {
                format!("{path}: ")
            }
        };
        match self {
            Self::File { path, source } => write!(f, "{path}: {source}"),
            Self::Json { path, source } => {
                write!(f, "{}no result of a load run: {source}", named(path))
            }
            Self::Form { path, found } => write!(
                f,
                "{}{found}, and this program reads \"format\": \"{FORMAT}\", \"version\": {VERSION}: \
                 make the file with `--json FILE` of the same program",
                named(path)
            ),
        }
    }
}

impl std::error::Error for ResultError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. } => Some(source),
            Self::Json { source, .. } => Some(source),
            Self::Form { .. } => None,
        }
    }
}

impl Default for RunResult {
    fn default() -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            command: String::new(),
            program_version: String::new(),
            started_unix_ms: 0,
            host: Host::default(),
            settings: serde_json::Value::Null,
            duration_ns: 0,
            valid: false,
            interrupted: false,
            doubts: Vec::new(),
            thresholds: Vec::new(),
            figures: SipFigures::default(),
            ratios: Ratios::default(),
            causes: Causes::default(),
            handshakes: Handshakes::default(),
            retransmissions: Retransmissions::default(),
            health: Health::default(),
            watched: Vec::new(),
            processes: Vec::new(),
            answered: None,
            counters: BTreeMap::new(),
            series: Vec::new(),
        }
    }
}

/// Only what says whether the rest can be read.
#[derive(Deserialize)]
struct Head {
    format: Option<String>,
    version: Option<u64>,
}

impl RunResult {
    /// Works out what follows from the rest: ratios, doubts, thresholds,
    /// validity. Call it once, when all figures are in.
    pub fn conclude(&mut self, thresholds: &[crate::threshold::Threshold]) {
        self.health.interrupted |= self.interrupted;
        self.interrupted = self.health.interrupted;
        self.ratios = self.figures.ratios();
        self.health.delay_p99_us = self.figures.delay_p99_us();
        self.doubts = self.health.doubts();
        self.thresholds = thresholds.iter().map(|t| t.evaluate(self)).collect();
        self.valid = self.doubts.is_empty() && !self.thresholds.iter().any(|t| t.failed());
    }

    /// Attempts that ended well, each second in which arrivals were due: one call that is
    /// waited for at the end makes the rate no lower. Where that time is not known, each second
    /// of the run.
    pub fn rate_per_s(&self) -> f64 {
        let over_ns = match self.health.sending_ns {
            0 => self.duration_ns,
            sending_ns => sending_ns,
        };
        if over_ns == 0 {
            return 0.0;
        }
        self.figures.succeeded() as f64 * 1e9 / over_ns as f64
    }

    /// The share of a core that a watched process took: of the whole seconds in which arrivals
    /// were due, or of the run where there is none.
    pub fn core_share(&self, process: &WatchedProcess) -> f64 {
        let whole_s = self.health.sending_ns / 1_000_000_000;
        let sending = process
            .seconds
            .iter()
            .filter(|second| second.at_s < whole_s);
        let (mut seconds, mut cpu_ns) = (0u64, 0u64);
        for second in sending {
            seconds += 1;
            cpu_ns += second.cpu_ns;
        }
        if seconds == 0 {
            return process.cpu_ns as f64 / self.duration_ns.max(1) as f64;
        }
        cpu_ns as f64 / (seconds as f64 * 1e9)
    }

    /// As JSON text.
    ///
    /// # Errors
    /// None that a result of this crate can cause.
    pub fn to_json(&self) -> Result<String, ResultError> {
        let mut bytes = Vec::new();
        let mut serializer =
            serde_json::Serializer::with_formatter(&mut bytes, layout::Layout::default());
        self.serialize(&mut serializer)
            .map_err(|source| ResultError::Json {
                path: String::new(),
                source,
            })?;
        bytes.push(b'\n');
        // The serializer writes nothing but UTF-8.
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads JSON text.
    ///
    /// # Errors
    /// Says where the text is wrong, or which format and version it is of.
    pub fn from_json(text: &str) -> Result<Self, ResultError> {
        let json = |source| ResultError::Json {
            path: String::new(),
            source,
        };
        let head: Head = serde_json::from_str(text).map_err(json)?;
        if head.format.as_deref() != Some(FORMAT) || head.version != Some(u64::from(VERSION)) {
            let quoted = |format: Option<String>| {
                format.map_or_else(
                    || "no \"format\"".to_owned(),
                    |f| format!("\"format\": {f:?}"),
                )
            };
            let version = head.version.map_or_else(
                || "no \"version\"".to_owned(),
                |v| format!("\"version\": {v}"),
            );
            return Err(ResultError::Form {
                path: String::new(),
                found: format!("it has {}, {version}", quoted(head.format)),
            });
        }
        serde_json::from_str(text).map_err(json)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// As [`RunResult::from_json`], with the file's name.
    pub fn read(path: &Path) -> Result<Self, ResultError> {
        let name = path.display().to_string();
        let text = match file::read_text(path, FILE_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::FileTooLarge => {
                return Err(ResultError::Form {
                    path: name,
                    found: format!("{error}, more than any result"),
                });
            }
            Err(source) => return Err(ResultError::File { path: name, source }),
        };
        Self::from_json(&text).map_err(|error| match error {
            ResultError::Json { source, .. } => ResultError::Json { path: name, source },
            ResultError::Form { found, .. } => ResultError::Form { path: name, found },
            file @ ResultError::File { .. } => file,
        })
    }

    /// Writes the result: to a temporary name beside it first, then renamed, so
    /// that nobody reads half a file.
    ///
    /// # Errors
    /// Names the file.
    pub fn write(&self, path: &Path) -> Result<(), ResultError> {
        write_whole(path, self.to_json()?.as_bytes())
    }

    /// The series as CSV with a header line (RFC 4180), and for each watched process its
    /// CPU time and memory. Unknown figures are empty, and so are the delays of a
    /// second without one.
    pub fn series_csv(&self) -> String {
        let mut text = String::from(
            "at_s,due,started,succeeded,failed,in_flight,retransmissions,mean_us,p50_us,p99_us,max_us,watched_cpu_ns,own_cpu_ns,redirected",
        );
        for process in &self.processes {
            let name = &process.name;
            text.push_str(&format!(",{name}_cpu_ns,{name}_memory_bytes"));
        }
        text.push_str("\r\n");
        let optional = |n: Option<u64>| n.map_or_else(String::new, |n| n.to_string());
        for s in &self.series {
            let delays = if s.has_delays() {
                format!("{:.1},{},{},{}", s.mean_us, s.p50_us, s.p99_us, s.max_us)
            } else {
                ",,,".to_owned()
            };
            text.push_str(&format!(
                "{},{},{},{},{},{},{},{delays},{},{},{}",
                s.at_s,
                s.due,
                s.started,
                s.succeeded,
                s.failed,
                s.in_flight,
                s.retransmissions,
                optional(s.watched_cpu_ns),
                optional(s.own_cpu_ns),
                s.redirected
            ));
            for process in &self.processes {
                let second = process.second(s.at_s);
                text.push_str(&format!(
                    ",{},{}",
                    optional(second.map(|second| second.cpu_ns)),
                    optional(second.map(|second| second.memory_bytes))
                ));
            }
            text.push_str("\r\n");
        }
        text
    }

    /// Writes the series as CSV, as [`RunResult::write`] does.
    ///
    /// # Errors
    /// Names the file.
    pub fn write_csv(&self, path: &Path) -> Result<(), ResultError> {
        write_whole(path, self.series_csv().as_bytes())
    }
}

fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), ResultError> {
    file::write(path, bytes).map_err(|source| ResultError::File {
        path: path.display().to_string(),
        source,
    })
}

#[cfg(test)]
mod tests;
