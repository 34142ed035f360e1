//! What protections cost: read from a record of `signet price crypto --json`, or from
//! the one that comes with this crate.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use diagnose::{ConfigError, Fault};
use invariant::broken;
use serde::{Deserialize, Serialize};

const FORMAT: &str = "signet-price";
const VERSION: u64 = 1;
const SHIPPED: &str = include_str!("../prices.json");
/// Of larger files no more is read, and they are refused.
pub const FILE_BYTES_MAX: u64 = 1 << 28;
/// The key in the certificates whose handshakes price a group: another key costs as much
/// more with every group.
const HANDSHAKE_KEY: &str = "p-256";

/// Where prices were measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// On another machine: they came with this program.
    Shipped,
    /// In this file, whose owner knows where it was made.
    File(PathBuf),
}

/// What is used: each has a price of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Use {
    /// A TLS record of a message, made once and opened once.
    Record,
    /// A full handshake, of the side that accepts.
    Accept,
    /// A full handshake, of the side that connects.
    Connect,
    /// ESP in transport mode with this cipher alone, sent once and received once.
    Cipher,
    /// AH in transport mode with this authentication, sent once and received once.
    Mac,
}

/// Nanoseconds by size, of one way or of both together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Price {
    ways: Vec<Curve>,
}

/// What one way takes: what was measured, from the smallest size on, and a line for the sizes
/// beyond.
#[derive(Clone, Debug, Default, PartialEq)]
struct Curve {
    points: Vec<Point>,
    line: Line,
}

impl Price {
    /// The same for every size.
    pub fn flat(ns: f64) -> Self {
        Self::line(0.0, ns)
    }

    /// `a * size + b`, for every size.
    pub fn line(a_ns_per_byte: f64, b_ns: f64) -> Self {
        let line = Line {
            a_ns_per_byte,
            b_ns,
        };
        let points = Vec::new();
        Self {
            ways: vec![Curve { points, line }],
        }
    }

    /// For a size: what was measured at that size, or what lies between the sizes next to it. The
    /// line is for sizes that are smaller or larger than all that were measured: it misses a point
    /// by as much as its error. `None` where that is nothing or less, far from what was
    /// measured: it would be the cheapest of all.
    pub fn at(&self, size_bytes: u32) -> Option<f64> {
        let size_bytes = f64::from(size_bytes);
        let ways = self.ways.iter().map(|way| way.at(size_bytes));
        let costs = ways.map(|cost| Some(cost).filter(|cost| cost.is_finite() && *cost > 0.0));
        costs.sum()
    }

    fn plus(&self, other: &Self) -> Self {
        Self {
            ways: [self.ways.as_slice(), &other.ways].concat(),
        }
    }
}

impl Curve {
    fn at(&self, size_bytes: f64) -> f64 {
        let points = &self.points;
        let smaller = points.iter().rfind(|point| point.size_bytes <= size_bytes);
        let larger = points.iter().find(|point| point.size_bytes >= size_bytes);
        let (Some(from), Some(to)) = (smaller, larger) else {
            return self.line.a_ns_per_byte * size_bytes + self.line.b_ns;
        };
        let distance = to.size_bytes - from.size_bytes;
        if distance <= 0.0 {
            return from.median_ns;
        }
        let share = (size_bytes - from.size_bytes) / distance;
        from.median_ns + share * (to.median_ns - from.median_ns)
    }
}

/// What is known of prices.
#[derive(Clone, Debug, PartialEq)]
pub struct Prices {
    origin: Origin,
    machine: String,
    by_use: BTreeMap<(Use, String), Price>,
}

impl Prices {
    /// Those that come with this crate: not of the machine that this runs on.
    pub fn shipped() -> Self {
        match Self::parse(Path::new("prices.json"), SHIPPED) {
            Ok(prices) => Self {
                origin: Origin::Shipped,
                ..prices
            },
            Err(_) => broken!("the shipped prices are sound", Self::none()),
        }
    }

    fn none() -> Self {
        Self {
            origin: Origin::Shipped,
            machine: String::new(),
            by_use: BTreeMap::new(),
        }
    }

    /// Reads a record of `signet price crypto --json FILE`.
    ///
    /// # Errors
    /// That it is not there, or what it is in the place of such a record.
    pub fn from_file(path: &Path) -> Result<Self, ConfigError> {
        let if_missing = "make it: signet price crypto --json FILE";
        let unreadable = |error| ConfigError::unreadable(path, &error, if_missing);
        let mut bytes = Vec::new();
        // A pipe or a device does not say how much there is.
        File::open(path)
            .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
            .map_err(unreadable)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            let why = format!("it has more than {FILE_BYTES_MAX} bytes, more than any");
            return Err(wrong(path, &why));
        }
        let text = String::from_utf8(bytes).map_err(|error| wrong(path, &error.to_string()))?;
        Self::parse(path, &text)
    }

    /// Reads the text of such a record; `path` is its origin.
    ///
    /// # Errors
    /// What it is in the place of one.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let unreadable = |error: serde_json::Error| wrong(path, &error.to_string());
        let head: Head = serde_json::from_str(text).map_err(unreadable)?;
        if head.format != FORMAT || head.version != VERSION {
            let why = format!(
                "its format is {:?} and its version {}; this program reads {FORMAT:?}, version {VERSION}",
                head.format, head.version
            );
            return Err(wrong(path, &why));
        }
        let record: Record = serde_json::from_str(text).map_err(unreadable)?;
        let by_use = by_use(&record.items);
        if by_use.is_empty() {
            return Err(wrong(
                path,
                "no price of a suite, a group or a transform is in it",
            ));
        }
        Ok(Self {
            origin: Origin::File(path.to_owned()),
            machine: record.machine.cpu_model,
            by_use,
        })
    }

    /// Where they were measured.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The processor on which they were measured.
    pub fn machine(&self) -> &str {
        &self.machine
    }

    /// The price of one use, by the algorithm's name in any case.
    pub fn of(&self, what: Use, name: &str) -> Option<Price> {
        self.by_use.get(&(what, name.to_ascii_lowercase())).cloned()
    }

    /// These with one price more, or another: for tests and for what was measured elsewhere.
    pub fn with(mut self, what: Use, name: &str, price: Price) -> Self {
        self.by_use.insert((what, name.to_ascii_lowercase()), price);
        self
    }
}

impl fmt::Display for Prices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = if self.machine.is_empty() {
            "an unnamed processor"
        } else {
            &self.machine
        };
        match &self.origin {
            Origin::Shipped => write!(
                f,
                "shipped prices, measured on {machine}: not on this machine"
            ),
            Origin::File(path) => write!(f, "prices in {}, of {machine}", path.display()),
        }
    }
}

/// What of a record is read here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Head {
    format: String,
    version: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Record {
    machine: Machine,
    items: Vec<Item>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Machine {
    cpu_model: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Item {
    name: String,
    provider: String,
    operation: String,
    points: Vec<Point>,
    line: Option<Line>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Point {
    size_bytes: f64,
    median_ns: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Line {
    a_ns_per_byte: f64,
    b_ns: f64,
}

/// Whether anything is chosen by the price of an item of this name.
pub fn is_priced(name: &str) -> bool {
    ["send", "server"]
        .into_iter()
        .any(|operation| used(name, operation).is_some())
}

/// How much of a price an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// What sending takes.
    There,
    /// What receiving takes.
    Back,
    /// All of it.
    Whole,
}

/// What an item is the price of, and how much of it; `None` where no choice asks for it.
fn used(name: &str, operation: &str) -> Option<((Use, String), Part)> {
    let parts: Vec<&str> = name.split('/').collect();
    let (what, name) = match parts.as_slice() {
        ["tls-record", suite] => (Use::Record, *suite),
        ["handshake", "full", key, group] if *key == HANDSHAKE_KEY => {
            let side = match operation {
                "server" => Use::Accept,
                "client" => Use::Connect,
                _ => return None,
            };
            (side, *group)
        }
        ["esp", "transport", "ipv4", cipher] => (Use::Cipher, *cipher),
        ["ah", "transport", "ipv4", mac] => (Use::Mac, *mac),
        _ => return None,
    };
    // A handshake is whole in itself; what goes there and back has no other operations.
    let part = match (what, operation) {
        (Use::Accept | Use::Connect, _) => Part::Whole,
        (Use::Record | Use::Cipher | Use::Mac, "send") => Part::There,
        (Use::Record | Use::Cipher | Use::Mac, "receive") => Part::Back,
        (Use::Record | Use::Cipher | Use::Mac, _) => return None,
    };
    Some(((what, name.to_ascii_lowercase()), part))
}

impl Item {
    /// Its points, and its line or what they make of one; `None` where nothing was measured.
    fn price(&self) -> Option<Price> {
        let mut points = self.points.clone();
        points.sort_by(|one, other| one.size_bytes.total_cmp(&other.size_bytes));
        let line = match (self.line, points.as_slice()) {
            (Some(line), _) => line,
            (None, [one]) => Line {
                a_ns_per_byte: 0.0,
                b_ns: one.median_ns,
            },
            (None, [first, .., last]) if last.size_bytes > first.size_bytes => {
                let a = (last.median_ns - first.median_ns) / (last.size_bytes - first.size_bytes);
                Line {
                    a_ns_per_byte: a,
                    b_ns: first.median_ns - a * first.size_bytes,
                }
            }
            _ => return None,
        };
        let is_sound = line.a_ns_per_byte.is_finite() && line.b_ns.is_finite();
        let costs = line.a_ns_per_byte > 0.0 || line.b_ns > 0.0;
        let measured = points.iter().all(|point| point.median_ns > 0.0);
        (is_sound && costs && measured).then(|| Price {
            ways: vec![Curve { points, line }],
        })
    }
}

/// One way and back, of one provider; `None` until both are there.
#[derive(Default)]
struct Ways {
    to: Option<Price>,
    from: Option<Price>,
}

/// Sums the two ways of each use. Of several providers the one counts that TLS here works
/// with, or else the first that has both ways.
fn by_use(items: &[Item]) -> BTreeMap<(Use, String), Price> {
    let mut found: BTreeMap<(Use, String), Vec<(&str, Ways)>> = BTreeMap::new();
    for item in items {
        let used = used(&item.name, &item.operation);
        let (Some((used, part)), Some(price)) = (used, item.price()) else {
            continue;
        };
        let providers = found.entry(used).or_default();
        let nth = providers
            .iter()
            .position(|(provider, _)| *provider == item.provider);
        let nth = nth.unwrap_or_else(|| {
            providers.push((item.provider.as_str(), Ways::default()));
            providers.len() - 1
        });
        let Some((_, ways)) = providers.get_mut(nth) else {
            continue;
        };
        match part {
            Part::There => ways.to = Some(price),
            Part::Back => ways.from = Some(price),
            Part::Whole => {
                ways.to = Some(price);
                ways.from = Some(Price::default());
            }
        }
    }
    let mut prices = BTreeMap::new();
    for (used, mut providers) in found {
        providers.sort_by_key(|(provider, _)| *provider != "aws-lc");
        let whole = providers
            .iter()
            .find_map(|(_, ways)| Some(ways.to.as_ref()?.plus(ways.from.as_ref()?)));
        if let Some(price) = whole {
            prices.insert(used, price);
        }
    }
    prices
}

fn wrong(path: &Path, why: &str) -> ConfigError {
    let fault = Fault {
        at: String::new(),
        what: format!("no record of prices: {why}"),
        remedy: "give a file that `signet price crypto --json FILE` of the same program wrote"
            .to_owned(),
    };
    ConfigError::faulty(path, "", vec![fault])
}

/// A time in the unit that reads best: `350 ns`, `12.4 us`.
pub fn time(ns: f64) -> String {
    if ns < 1_000.0 {
        format!("{ns:.0} ns")
    } else if ns < 100_000.0 {
        format!("{:.2} us", ns / 1e3)
    } else {
        format!("{:.0} us", ns / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Prices, String> {
        Prices::parse(Path::new("p.json"), text).map_err(|error| error.to_string())
    }

    fn record(items: &str) -> String {
        format!(
            "{{\"format\":\"signet-price\",\"version\":1,\"machine\":{{\"cpu_model\":\"A CPU\",\"cores\":2}},\"items\":[{items}],\"new\":1}}"
        )
    }

    fn item(name: &str, provider: &str, operation: &str, a: f64, b: f64) -> String {
        format!(
            "{{\"name\":\"{name}\",\"provider\":\"{provider}\",\"operation\":\"{operation}\",\"points\":[],\"line\":{{\"a_ns_per_byte\":{a},\"b_ns\":{b},\"error\":0.01}}}}"
        )
    }

    #[test]
    fn both_ways_of_one_provider_make_a_price() {
        let suite = "tls-record/TLS_AES_128_GCM_SHA256";
        let text = record(
            &[
                item(suite, "openssl", "send", 5.0, 500.0),
                item(suite, "openssl", "receive", 5.0, 500.0),
                item(suite, "aws-lc", "send", 1.0, 100.0),
                item(suite, "aws-lc", "receive", 2.0, 200.0),
                item(
                    "handshake/full/p-256/x25519",
                    "aws-lc",
                    "server",
                    0.0,
                    90_000.0,
                ),
                item(
                    "handshake/full/rsa-2048/p-256",
                    "aws-lc",
                    "server",
                    0.0,
                    400_000.0,
                ),
                item(
                    "esp/transport/ipv4/3des-cbc",
                    "rustcrypto",
                    "send",
                    1.0,
                    0.0,
                ),
                item(
                    "ah/transport/ipv4/hmac-md5-96",
                    "rustcrypto",
                    "send",
                    1.0,
                    1.0,
                ),
                item(
                    "ah/transport/ipv4/hmac-md5-96",
                    "rustcrypto",
                    "receive",
                    1.0,
                    1.0,
                ),
                item("esp/tunnel/ipv4/aes-128-gcm", "aws-lc", "send", 1.0, 0.0),
                item("esp/tunnel/ipv4/aes-128-gcm", "aws-lc", "receive", 1.0, 0.0),
                item(
                    "esp/transport/ipv4/des-cbc/hmac-md5-96",
                    "aws-lc",
                    "receive",
                    1.0,
                    0.0,
                ),
            ]
            .join(","),
        );
        let prices = read(&text).unwrap();
        let price = prices.of(Use::Record, "tls_aes_128_gcm_sha256").unwrap();
        assert_eq!(price.at(700), Some(3.0 * 700.0 + 300.0));
        assert_eq!(
            prices.of(Use::Accept, "X25519").unwrap().at(0),
            Some(90_000.0)
        );
        assert_eq!(prices.of(Use::Connect, "X25519"), None);
        assert_eq!(prices.of(Use::Accept, "P-256"), None, "another key");
        assert_eq!(
            prices.of(Use::Mac, "HMAC-MD5-96").unwrap().at(700),
            Some(1_402.0)
        );
        assert_eq!(prices.of(Use::Cipher, "3DES-CBC"), None, "one way");
        assert_eq!(prices.of(Use::Cipher, "DES-CBC"), None, "another use");
        assert_eq!(prices.of(Use::Cipher, "AES-128-GCM"), None, "a tunnel");
        assert_eq!(prices.to_string(), "prices in p.json, of A CPU");
    }

    #[test]
    fn a_handshake_alone_is_whole_in_itself() {
        let suite = "tls-record/TLS_AES_128_GCM_SHA256";
        let handshake = "handshake/full/p-256/x25519";
        let text = record(
            &[
                item(suite, "aws-lc", "server", 1.0, 100.0),
                item(suite, "aws-lc", "receive", 2.0, 200.0),
                item(
                    "ah/transport/ipv4/hmac-md5-96",
                    "aws-lc",
                    "client",
                    1.0,
                    1.0,
                ),
                item(handshake, "aws-lc", "client", 0.0, 80_000.0),
                item(handshake, "aws-lc", "send", 0.0, 7.0),
            ]
            .join(","),
        );
        let prices = read(&text).unwrap();
        let connect = prices.of(Use::Connect, "X25519").unwrap();
        assert_eq!(connect.at(0), Some(80_000.0));
        assert_eq!(prices.of(Use::Accept, "X25519"), None);
        assert_eq!(prices.of(Use::Record, "TLS_AES_128_GCM_SHA256"), None);
        assert_eq!(prices.of(Use::Mac, "HMAC-MD5-96"), None);
        for (name, is_used) in [
            (suite, true),
            (handshake, true),
            ("esp/transport/ipv4/aes-128-gcm", true),
            ("handshake/resumed/p-256/x25519", false),
            ("esp/tunnel/ipv4/aes-128-gcm", false),
        ] {
            assert_eq!(is_priced(name), is_used, "{name}");
        }
    }

    #[test]
    fn points_do_where_there_is_no_line() {
        let of = |points: &str| {
            let text = format!("{{\"points\":[{points}]}}");
            serde_json::from_str::<Item>(&text).unwrap().price()
        };
        let one = "{\"size_bytes\":0,\"median_ns\":7.0}";
        assert_eq!(of(one).unwrap().at(1_400), Some(7.0));
        let two = "{\"size_bytes\":100,\"median_ns\":20.0},{\"size_bytes\":200,\"median_ns\":30.0}";
        assert!((of(two).unwrap().at(300).unwrap() - 40.0).abs() < 1e-9);
        // The line through them is below nothing at the left of both.
        let steep =
            "{\"size_bytes\":700,\"median_ns\":10.0},{\"size_bytes\":1400,\"median_ns\":90.0}";
        assert_eq!(of(steep).unwrap().at(64), None);
        assert_eq!(of(""), None);
        assert_eq!(of("{\"size_bytes\":5,\"median_ns\":0.0}"), None);
    }

    #[test]
    fn what_was_measured_is_its_own_price_and_the_line_is_for_what_is_beyond() {
        let points = "{\"size_bytes\":300,\"median_ns\":400.0},{\"size_bytes\":100,\"median_ns\":90.0},{\"size_bytes\":700,\"median_ns\":560.0}";
        let text =
            format!("{{\"points\":[{points}],\"line\":{{\"a_ns_per_byte\":1.0,\"b_ns\":10.0}}}}");
        let price = serde_json::from_str::<Item>(&text)
            .unwrap()
            .price()
            .unwrap();
        for (size_bytes, ns) in [
            (99, 109.0),
            (100, 90.0),
            (200, 245.0),
            (300, 400.0),
            (500, 480.0),
            (700, 560.0),
            (701, 711.0),
        ] {
            assert!(
                (price.at(size_bytes).unwrap() - ns).abs() < 1e-9,
                "{size_bytes}"
            );
            let both = price.plus(&Price::flat(5.0)).at(size_bytes).unwrap();
            assert!((both - ns - 5.0).abs() < 1e-9, "{size_bytes}");
        }
    }

    #[test]
    fn a_shipped_price_is_what_was_measured_at_its_size() {
        let record: Record = serde_json::from_str(SHIPPED).unwrap();
        let prices = Prices::shipped();
        let cipher = "chacha20-poly1305";
        let ways = record.items.iter().filter(|item| {
            item.name == format!("esp/transport/ipv4/{cipher}") && item.provider == "aws-lc"
        });
        let (mut measured_ns, mut count) = (0.0, 0);
        for item in ways {
            let point = item.points.iter().find(|point| point.size_bytes == 700.0);
            measured_ns += point.unwrap().median_ns;
            count += 1;
        }
        assert_eq!(count, 2, "there and back");
        let price = prices.of(Use::Cipher, cipher).unwrap();
        assert!((price.at(700).unwrap() / measured_ns - 1.0).abs() < 1e-9);
    }

    #[test]
    fn every_group_that_a_policy_can_choose_has_a_shipped_price() {
        let prices = Prices::shipped();
        for group in crate::suites::GROUPS {
            for usage in [Use::Accept, Use::Connect] {
                let price = prices.of(usage, group.name);
                assert!(price.is_some(), "{usage:?} {}", group.name);
            }
        }
        for suite in ["TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"] {
            assert!(prices.of(Use::Record, suite).is_some(), "{suite}");
        }
    }

    #[test]
    fn what_is_no_record_says_what_to_give() {
        for (text, told) in [
            ("", "no record of prices"),
            ("{}", "its format is \"\""),
            (
                "{\"format\":\"signet-price\",\"version\":2}",
                "its version 2",
            ),
            (
                "{\"format\":\"signet-price\",\"version\":1}",
                "no price of a suite",
            ),
            (
                "{\"format\":\"signet-price\",\"version\":1,\"items\":7}",
                "no record of prices",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(told), "{told:?}: {error}");
            assert!(error.contains("signet price crypto --json FILE"), "{error}");
        }
        let missing = Prices::from_file(Path::new("/nonexistent/p.json")).unwrap_err();
        assert!(missing.to_string().contains("signet price crypto --json"));
    }

    #[test]
    fn shipped_prices_say_that_they_are_of_another_machine() {
        let told = Prices::shipped().to_string();
        assert!(told.contains("not on this machine"), "{told}");
    }
}
