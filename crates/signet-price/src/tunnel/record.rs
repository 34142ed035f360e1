//! What a run of `signet price tunnel` found.
//!
//! JSON with `"format": "signet-price-tunnel"` and `"version": 1`. Within a version fields are
//! only added, each with a default.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use signet_bed::record::{Calibration, Machine, Repeat};
use signet_bed::{Error, Summary};

use crate::record::{Missed, read_as};

/// The name in every file.
pub const FORMAT: &str = "signet-price-tunnel";
/// The version that this crate writes and reads.
pub const VERSION: u32 = 1;

/// A run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TunnelRecord {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The command line of the run.
    pub command: String,
    /// When it began, seconds since 1970.
    pub started_unix_s: u64,
    /// When it ended, seconds since 1970.
    pub ended_unix_s: u64,
    /// Where it ran.
    pub machine: Machine,
    /// Programs and their versions.
    pub versions: BTreeMap<String, String>,
    /// Seconds of each measurement.
    pub seconds: u32,
    /// How often each tunnel was to be measured.
    pub repeats: u32,
    /// Calls a second over SIP.
    pub calls_per_s: u32,
    /// How quiet the machine was, in a sentence for each doubt; empty where it was quiet.
    pub doubts: Vec<String>,
    /// The machine's speed before the first round and after each.
    pub calibrations: Vec<Calibration>,
    /// What was measured.
    pub tunnels: Vec<TunnelResult>,
    /// What was not, and why.
    pub missed: Vec<Missed>,
}

/// A tunnel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TunnelResult {
    /// Its name.
    pub name: String,
    /// In a line, for readers.
    pub title: String,
    /// What protects what passes.
    pub algorithms: Vec<String>,
    /// `packets`, or `streams` where it carries TCP alone.
    pub carries: String,
    /// Each time that it was measured; figures by the names of [`figure`].
    pub repeats: Vec<Repeat>,
}

/// Names of figures.
pub mod figure {
    /// What TCP carried through it, in bits a second.
    pub const THROUGHPUT_BITS_PER_S: &str = "throughput_bits_per_s";
    /// Cores that its programs at both ends took meanwhile.
    pub const CORES: &str = "cores";
    /// CPU time of its programs for each byte that TCP carried, in nanoseconds.
    pub const CPU_NS_PER_BYTE: &str = "cpu_ns_per_byte";
    /// Round trip of a datagram, median, in microseconds.
    pub const UDP_P50_US: &str = "udp_p50_us";
    /// The same, 99th percentile.
    pub const UDP_P99_US: &str = "udp_p99_us";
    /// Round trip of a message on a connection, median, in microseconds.
    pub const TCP_P50_US: &str = "tcp_p50_us";
    /// The same, 99th percentile.
    pub const TCP_P99_US: &str = "tcp_p99_us";
    /// Datagrams that did not come back.
    pub const UDP_LOST: &str = "udp_lost";
    /// Session request delay (RFC 6076 4.3), median, in microseconds.
    pub const SRD_P50_US: &str = "srd_p50_us";
    /// The same, 99th percentile.
    pub const SRD_P99_US: &str = "srd_p99_us";
    /// Calls that went through.
    pub const CALLS: &str = "calls";
    /// The share of calls that failed.
    pub const FAILED_SHARE: &str = "failed_share";
    /// CPU time of its programs for each call, in microseconds.
    pub const CPU_US_PER_CALL: &str = "cpu_us_per_call";
    /// Bytes that the tunnel counted, both ways.
    pub const CARRIED_BYTES: &str = "carried_bytes";
    /// Bytes between the namespaces, both ways.
    pub const WIRE_BYTES: &str = "wire_bytes";
}

impl TunnelResult {
    /// A figure of each repeat that has it.
    pub fn values(&self, figure: &str) -> Vec<f64> {
        let of = |repeat: &Repeat| repeat.figures.get(figure).copied();
        self.repeats.iter().filter_map(of).collect()
    }

    /// What its repeats say of a figure; `None` where none has it.
    pub fn summary(&self, figure: &str) -> Option<Summary> {
        Summary::of(self.values(figure))
    }

    /// The median of a figure.
    pub fn median(&self, figure: &str) -> Option<f64> {
        Some(self.summary(figure)?.median)
    }
}

impl TunnelRecord {
    /// A tunnel by its name.
    pub fn tunnel(&self, name: &str) -> Option<&TunnelResult> {
        self.tunnels.iter().find(|tunnel| tunnel.name == name)
    }

    /// What a tunnel adds to a round trip, in microseconds, over the same without a tunnel.
    pub fn added_us(&self, tunnel: &TunnelResult, figure: &str) -> Option<f64> {
        Some(tunnel.median(figure)? - self.tunnel("none")?.median(figure)?)
    }
}

/// Reads a record.
///
/// # Errors
/// That the file is not there, or what it is in the place of a record of this version.
pub fn read(path: &Path) -> Result<TunnelRecord, Error> {
    read_as(path, FORMAT, VERSION, "signet price tunnel --json FILE")
}

/// Writes a record whole, or leaves the file as it was.
///
/// # Errors
/// A folder that cannot be written.
pub fn write(path: &Path, record: &TunnelRecord) -> Result<(), Error> {
    measure::file::write_json(path, record)
        .map_err(|error| Error::new(error, "name a file in a folder that this user may write"))
}
