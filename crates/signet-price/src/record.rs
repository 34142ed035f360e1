//! What a run of `signet price` found: the file from which pages, ratings and plans are made.
//!
//! JSON with `"format": "signet-price"` and `"version": 1`. Within a version fields are only
//! added, each with a default.

use std::collections::BTreeMap;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use signet_bed::Error;
use signet_bed::record::Machine;

use crate::line::Line;

/// The name in every file.
pub const FORMAT: &str = "signet-price";
/// The version that this crate writes and reads.
pub const VERSION: u32 = 1;
/// Of larger files no more is read, and they are refused.
const BYTES_MAX: u64 = 1 << 28;

/// A run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PriceRecord {
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
    /// Where it ran; `network` and `pinned` as far as they apply.
    pub machine: Machine,
    /// Libraries and programs, and their versions: `signet`, `aws-lc-rs`, `sha2`, `openssl speed`;
    /// and `signet build`, which tells two builds of one version apart.
    pub versions: BTreeMap<String, String>,
    /// How time became cycles.
    pub clock: Clock,
    /// How quiet the machine was, in a sentence for each doubt; empty where it was quiet.
    pub doubts: Vec<String>,
    /// What was measured.
    pub items: Vec<Item>,
    /// What was not, and why.
    pub missed: Vec<Missed>,
    /// Bare primitives beside what another program says of them.
    pub checks: Vec<Check>,
}

/// A bare primitive here, and by `openssl speed`, in megabits a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Check {
    /// The primitive: `aes-128-gcm`.
    pub primitive: String,
    /// Whose code it is here.
    pub provider: String,
    /// Bytes at once.
    pub size_bytes: u64,
    /// Here.
    pub here_mbit_per_s: f64,
    /// There; `None` where it lacks the primitive.
    pub there_mbit_per_s: Option<f64>,
    /// The other program and its version.
    pub there: String,
}

/// `openssl speed -aead` seals packets in the modes GCM, CCM, OCB and SIV; with this one, whose
/// mode is that of a stream, it encrypts one stream without end.
const STREAMED: &str = "chacha20-poly1305";

impl Check {
    /// Here over there; `None` where it is not there.
    pub fn ratio(&self) -> Option<f64> {
        let there = self.there_mbit_per_s.filter(|there| *there > 0.0)?;
        Some(self.here_mbit_per_s / there)
    }

    /// Both and their ratio.
    pub fn sentence(&self) -> String {
        let ours = format!(
            "{} by {}, {} B: {:.0} Mbit/s",
            self.primitive, self.provider, self.size_bytes, self.here_mbit_per_s
        );
        match (self.there_mbit_per_s, self.ratio()) {
            (Some(there), Some(ratio)) => {
                let but = if self.primitive == STREAMED {
                    ", where it sets neither IV nor tag"
                } else {
                    ""
                };
                format!(
                    "{ours}; {} says {there:.0}{but}: {ratio:.2} times as much here",
                    self.there
                )
            }
            _ => format!("{ours}; {} does not run it", self.there),
        }
    }
}

/// How nanoseconds become cycles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clock {
    /// `tsc` for the time-stamp counter; empty where the processor has none that can be used.
    pub source: String,
    /// Its ticks in a second, as calibrated against the monotonic clock; 0 without one.
    pub hz: f64,
    /// What taking the time of an empty batch shows, in nanoseconds; it is already taken off.
    pub overhead_ns: f64,
}

/// One thing whose price is known, for one provider and one operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Item {
    /// What it is, unique together with provider and operation:
    /// `esp/transport/ipv4/aes-128-cbc/hmac-sha1-96`, `primitive/aes-128-gcm`,
    /// `tls-record/TLS_AES_128_GCM_SHA256`, `handshake/full/p-256/x25519`.
    pub name: String,
    /// The first word of the name: `esp`, `ah`, `esp+ah`, `primitive`, `tls-record`,
    /// `handshake`, `digest`, `smime`.
    pub family: String,
    /// The algorithms in it, each by its own name: `aes-128-cbc`, `hmac-sha1-96`.
    pub algorithms: Vec<String>,
    /// What else tells it apart: `mode` = `tunnel`, `outer` = `ipv6`, `key` = `rsa-2048`.
    pub labels: BTreeMap<String, String>,
    /// Whose code it is: `aws-lc`, `rustcrypto`, `openssl`.
    pub provider: String,
    /// `send` or `receive`; of primitives `encrypt`, `decrypt` or `authenticate`; of handshakes
    /// `client` or `server`; of S/MIME `sign`, `verify`, `encrypt`, `decrypt`.
    pub operation: String,
    /// What it took, by size, from the smallest. A thing without a size has one point of size 0.
    pub points: Vec<Point>,
    /// The line through the points; `None` of fewer than three sizes.
    pub line: Option<Line>,
}

/// What one size took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Point {
    /// Bytes of payload: of a packet what UDP carries, of a primitive what it works on.
    pub size_bytes: u64,
    /// Nanoseconds for each, the median of the batches' means.
    pub median_ns: f64,
    /// Half of the distance between the quartiles of the batches, over the median.
    pub spread: f64,
    /// The ends of the 95% interval of that median; `None` where the record does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ns: Option<[f64; 2]>,
    /// Cycles of the time-stamp counter; `None` without one.
    pub cycles: Option<f64>,
    /// How many batches were timed.
    pub batches: u32,
    /// How many times made a batch; 0 where the record does not say.
    pub times: u32,
}

/// Something that was not measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Missed {
    /// What was not measured: an item's name, or the beginning of the names of several.
    pub name: String,
    /// Whose code it would have been, as in [`Item::provider`].
    pub provider: String,
    /// Why, with the remedy where there is one.
    pub why: String,
}

impl Point {
    /// Payload in megabits a second, where one core does nothing else; 0 without a size.
    pub fn mbit_per_s(&self) -> f64 {
        if self.median_ns > 0.0 {
            self.size_bytes as f64 * 8_000.0 / self.median_ns
        } else {
            0.0
        }
    }

    /// Nanoseconds for each byte of payload; `None` without a size.
    pub fn ns_per_byte(&self) -> Option<f64> {
        (self.size_bytes > 0).then(|| self.median_ns / self.size_bytes as f64)
    }
}

impl Item {
    /// The point of a size.
    pub fn at(&self, size_bytes: u64) -> Option<&Point> {
        self.points
            .iter()
            .find(|point| point.size_bytes == size_bytes)
    }
}

impl PriceRecord {
    /// The item with this name, provider and operation.
    pub fn item(&self, name: &str, provider: &str, operation: &str) -> Option<&Item> {
        self.items.iter().find(|item| {
            item.name == name && item.provider == provider && item.operation == operation
        })
    }
}

/// What says whether the rest can be read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Head {
    format: String,
    version: u64,
}

/// Reads a record.
///
/// # Errors
/// That the file is not there, or what it is in the place of a record of this version.
pub fn read(path: &Path) -> Result<PriceRecord, Error> {
    read_as(path, FORMAT, VERSION, "signet price crypto --json FILE")
}

/// What a record says that it is, whatever that is; empty where it says nothing.
///
/// # Errors
/// That the file cannot be read, or is no JSON.
pub fn format_of(path: &Path) -> Result<String, Error> {
    let text = text_of(path, "signet price crypto --json FILE")?;
    let head: Head = serde_json::from_str(&text).map_err(|error| {
        Error::new(
            format!("{}: no record of prices: {error}", path.display()),
            "give a file that `signet price crypto` or `signet price tunnel` wrote",
        )
    })?;
    Ok(head.format)
}

/// Reads a record of a form that `by` writes.
pub(crate) fn read_as<T: DeserializeOwned>(
    path: &Path,
    format: &str,
    version: u32,
    by: &str,
) -> Result<T, Error> {
    let wrong = |why: &str| {
        Error::new(
            format!("{}: no record of prices: {why}", path.display()),
            format!("give a file that `{by}` of the same program wrote"),
        )
    };
    let text = text_of(path, by)?;
    let head: Head = serde_json::from_str(&text).map_err(|error| wrong(&error.to_string()))?;
    if head.format != format || head.version != u64::from(version) {
        return Err(wrong(&format!(
            "its format is {:?} and its version {}; this program reads {format:?}, version {version}",
            head.format, head.version
        )));
    }
    serde_json::from_str(&text).map_err(|error| wrong(&error.to_string()))
}

fn text_of(path: &Path, by: &str) -> Result<String, Error> {
    let failed = |error: std::io::Error| {
        Error::new(
            format!("cannot read {}: {error}", path.display()),
            format!("give the file that `{by}` wrote"),
        )
    };
    measure::file::read_text(path, BYTES_MAX).map_err(failed)
}

/// Writes a record whole, or leaves the file as it was.
///
/// # Errors
/// A folder that cannot be written.
pub fn write(path: &Path, record: &PriceRecord) -> Result<(), Error> {
    measure::file::write_json(path, record)
        .map_err(|error| Error::new(error, "name a file in a folder that this user may write"))
}
