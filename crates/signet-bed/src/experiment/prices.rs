//! Experiments that price packets and tunnels in the place of servers: `kind = "prices"`.

use std::path::Path;

use diagnose::{ConfigError, Fault};
use serde::Deserialize;

use super::file::{Form, Paper};
use super::library::{EXAMPLE, read};

/// Those that this program brings, by name, as their files' texts.
pub const SHIPPED_PRICES: [(&str, &str); 1] = [(
    "niedermayer-2006",
    include_str!("../../../../experiments/niedermayer-2006.toml"),
)];

/// The version of the format that this program reads.
const VERSION: u32 = 1;
/// Sizes, algorithms, tunnels and findings.
const LIST_MAX: usize = 1_000;
/// Calls a second through a tunnel.
const CALLS_PER_S_MAX: u32 = 10_000;

/// An experiment: what is priced, how long, and what its paper found.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PricesExperiment {
    /// The version of the format.
    pub version: u32,
    /// `prices`.
    pub kind: PricesKind,
    /// What it is run by: `niedermayer-2006`.
    pub name: String,
    /// A line for lists and the head of the page.
    pub title: String,
    /// The question asked, a sentence or two.
    pub question: String,
    /// What differs from the paper's way, in sentences for the page.
    #[serde(default)]
    pub differs: Vec<String>,
    /// Where it was first done.
    pub paper: Paper,
    /// The short form, which is reckoned to end within a quarter of an hour.
    pub short: PricesPlan,
    /// The long form.
    pub long: PricesPlan,
    /// What is priced packet by packet.
    pub packets: Packets,
    /// Whole tunnels; none where nothing is said.
    pub tunnels: Option<Tunnels>,
    /// What the paper found.
    #[serde(default, rename = "finding")]
    pub findings: Vec<PriceFinding>,
}

/// The kind of such an experiment. There is only one: the key tells its file from those of the
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PricesKind {
    /// Of packets and tunnels.
    Prices,
}

/// How long a form measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PricesPlan {
    /// Batches of each packet.
    pub rounds: u32,
    /// How often each tunnel is measured.
    pub tunnel_repeats: u32,
    /// Seconds of each measurement of a tunnel.
    pub tunnel_seconds: u32,
}

/// What is priced packet by packet, in the words of `signet price crypto`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Packets {
    /// Bytes of payload.
    pub sizes_bytes: Vec<u64>,
    /// Algorithms, as `--only` takes them.
    pub only: Vec<String>,
    /// Whose code, as `--provider` takes it.
    pub providers: Vec<String>,
}

/// Which tunnels are measured, in the words of `signet price tunnel`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tunnels {
    /// Tunnels, as `--only` takes them.
    pub only: Vec<String>,
    /// Calls a second.
    pub calls_per_s: u32,
}

/// A statement and the value that it stands or falls by.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceFinding {
    /// In plain English.
    pub statement: String,
    /// Where the paper says so.
    pub place: String,
    /// The figure that decides it.
    pub figure: PriceFigure,
    /// Above the line: an item of `signet price crypto`, or a tunnel.
    pub of: PricePick,
    /// Below the line; without it the figure itself is held against the bounds.
    pub than: Option<PricePick>,
    /// From which value on the answer is yes.
    pub yes_at: f64,
    /// From which on the other side it is no; between the two it is "differently".
    pub no_at: f64,
    /// The value in the paper, where it has one.
    pub published: Option<f64>,
}

/// What a finding looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PriceFigure {
    /// The time of a packet, sending.
    Time,
    /// The same for each byte of payload.
    TimePerByte,
    /// The largest error of the line through its sizes.
    LineError,
    /// What TCP carries through a tunnel.
    Throughput,
}

/// What a figure is of.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PricePick {
    /// `esp/transport/ipv4/aes-128-cbc`, or a tunnel: `openvpn/none`.
    pub name: String,
    /// Bytes of payload, where the figure is of a size.
    pub size_bytes: Option<u64>,
}

/// What says that a file is of this kind, whatever else is in it.
#[derive(Deserialize)]
struct Head {
    kind: Option<toml::Value>,
}

impl PricesExperiment {
    /// The experiment of this name that the program brings, or else in this file, and its text;
    /// `None` where it is not of this kind. Whether there are algorithms, providers and tunnels of
    /// its names is for whoever has them.
    ///
    /// # Errors
    /// Where its file cannot be used: each fault with its line and remedy.
    pub fn open(name: &str) -> Result<Option<(Self, String)>, ConfigError> {
        let shipped = SHIPPED_PRICES.iter().find(|(known, _)| *known == name);
        let (path, text) = match shipped {
            Some((known, text)) => (format!("experiments/{known}.toml"), (*text).to_owned()),
            None if super::SHIPPED.iter().any(|(known, _)| *known == name) => return Ok(None),
            None => (name.to_owned(), read(Path::new(name))?),
        };
        if !Self::is_of_kind(&text) {
            return Ok(None);
        }
        Self::from_text(Path::new(&path), &text).map(|experiment| Some((experiment, text)))
    }

    /// Whether a text says `kind` at its top, as those of the other kind do not.
    fn is_of_kind(text: &str) -> bool {
        toml::from_str::<Head>(text).is_ok_and(|head| head.kind.is_some())
    }

    /// Reads and checks a text; `path` is only for the errors.
    ///
    /// # Errors
    /// Each fault with its line and remedy.
    pub fn from_text(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let experiment: Self = toml::from_str(text)
            .map_err(|error| ConfigError::unparsable(path, text, &error, EXAMPLE))?;
        let faults = experiment.faults();
        if faults.is_empty() {
            Ok(experiment)
        } else {
            Err(ConfigError::faulty(path, text, faults))
        }
    }

    /// How long a form measures.
    pub const fn plan(&self, form: Form) -> &PricesPlan {
        match form {
            Form::Short => &self.short,
            Form::Long => &self.long,
        }
    }

    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut fault = |at: String, what: String, remedy: &str| {
            faults.push(Fault {
                at,
                what,
                remedy: remedy.to_owned(),
            });
        };
        if self.version != VERSION {
            let what = format!("this program reads version {VERSION}");
            fault("version".to_owned(), what, "write version = 1");
        }
        let is_letter = |it: char| it.is_ascii_alphanumeric() || it == '-';
        if self.name.is_empty() || !self.name.chars().all(is_letter) {
            fault(
                "name".to_owned(),
                format!("`{}` names no folder", self.name),
                "write letters, digits and `-`",
            );
        }
        for (key, plan) in [("short", &self.short), ("long", &self.long)] {
            for (name, value, least, most) in [
                ("rounds", plan.rounds, 5, 10_000),
                ("tunnel_repeats", plan.tunnel_repeats, 1, 100),
                ("tunnel_seconds", plan.tunnel_seconds, 1, 600),
            ] {
                if value < least || value > most {
                    let what = format!("{value} is out of bounds");
                    let remedy = format!("write a number from {least} to {most}");
                    fault(format!("{key}.{name}"), what, &remedy);
                }
            }
        }
        let tunnels = self.tunnels.as_ref();
        for (key, len) in [
            ("finding", self.findings.len()),
            ("packets.sizes_bytes", self.packets.sizes_bytes.len()),
            ("packets.only", self.packets.only.len()),
            ("packets.providers", self.packets.providers.len()),
            ("tunnels.only", tunnels.map_or(0, |it| it.only.len())),
        ] {
            if len > LIST_MAX {
                let remedy = format!("keep to {LIST_MAX}");
                fault(key.to_owned(), format!("{len} of them"), &remedy);
            }
        }
        let calls_per_s = tunnels.map_or(1, |it| it.calls_per_s);
        if calls_per_s == 0 || calls_per_s > CALLS_PER_S_MAX {
            let what = format!("{calls_per_s} is out of bounds");
            let remedy = format!("write a number from 1 to {CALLS_PER_S_MAX}");
            fault("tunnels.calls_per_s".to_owned(), what, &remedy);
        }
        for (nth, finding) in self.findings.iter().enumerate() {
            self.check(nth, finding, &mut fault);
        }
        faults
    }

    fn check(
        &self,
        nth: usize,
        finding: &PriceFinding,
        fault: &mut impl FnMut(String, String, &str),
    ) {
        let at = format!("finding.{nth}");
        for (key, value) in [
            ("yes_at", Some(finding.yes_at)),
            ("no_at", Some(finding.no_at)),
            ("published", finding.published),
        ] {
            if let Some(value) = value.filter(|value| !value.is_finite()) {
                let what = format!("{value} is out of bounds");
                fault(format!("{at}.{key}"), what, "write a number, such as 1.1");
            }
        }
        if (finding.yes_at - finding.no_at).abs() <= f64::EPSILON {
            fault(
                format!("{at}.yes_at"),
                "yes and no begin at the same value".to_owned(),
                "write yes_at above no_at, or below it for a statement about less",
            );
        }
        let has_size = matches!(finding.figure, PriceFigure::Time | PriceFigure::TimePerByte);
        let picks = [("of", Some(&finding.of)), ("than", finding.than.as_ref())];
        for (key, pick) in picks {
            let Some(pick) = pick else { continue };
            match pick.size_bytes {
                Some(size) if has_size && !self.packets.sizes_bytes.contains(&size) => fault(
                    format!("{at}.{key}.size_bytes"),
                    format!("packets of {size} bytes are not priced"),
                    "write a size of [packets], or add it there",
                ),
                None if has_size => fault(
                    format!("{at}.{key}"),
                    "the time of a packet is of a size".to_owned(),
                    "add size_bytes",
                ),
                Some(_) if !has_size => fault(
                    format!("{at}.{key}.size_bytes"),
                    "this figure has no size".to_owned(),
                    "leave size_bytes out",
                ),
                _ => {}
            }
        }
        if finding.figure == PriceFigure::Throughput && self.tunnels.is_none() {
            fault(
                format!("{at}.figure"),
                "no tunnel is measured".to_owned(),
                "add [tunnels]",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> String {
        SHIPPED_PRICES[0].1.to_owned()
    }

    fn told(text: &str) -> String {
        PricesExperiment::from_text(Path::new("mine.toml"), text)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn the_shipped_one_is_sound_and_the_others_are_of_the_other_kind() {
        let (experiment, _) = PricesExperiment::open("niedermayer-2006").unwrap().unwrap();
        assert_eq!(experiment.name, "niedermayer-2006");
        assert!(!experiment.findings.is_empty());
        assert!(PricesExperiment::open("shen-2010").unwrap().is_none());
        assert!(PricesExperiment::open("shen-2011").is_err());
    }

    #[test]
    fn a_mistake_is_told_with_its_line() {
        let wrong = |from: &str, to: &str| {
            let text = text();
            assert!(text.contains(from), "{from}");
            told(&text.replacen(from, to, 1))
        };
        let error = wrong("tunnel_seconds", "tunnel_secs");
        assert!(error.contains("did you mean `tunnel_seconds`?"), "{error}");
        let error = wrong("kind = \"prices\"", "kind = \"price\"");
        assert!(error.contains("prices"), "{error}");
        let error = wrong("size_bytes = 1400", "size_bytes = 1401");
        assert!(error.contains("1401 bytes are not priced"), "{error}");
        let error = wrong("figure = \"throughput\"", "figure = \"output\"");
        assert!(error.contains("output"), "{error}");
        let error = wrong("version = 1", "version = 2");
        assert!(error.contains("write version = 1"), "{error}");
    }

    #[test]
    fn a_number_that_cannot_be_is_told_with_its_line() {
        for (from, to, what, remedy) in [
            (
                "calls_per_s = 100",
                "calls_per_s = 0",
                "0 is out of bounds",
                "write a number from 1 to 10000",
            ),
            (
                "calls_per_s = 100",
                "calls_per_s = 10001",
                "10001 is out of bounds",
                "write a number from 1 to 10000",
            ),
            (
                "yes_at = 1.1",
                "yes_at = nan",
                "NaN is out of bounds",
                "write a number, such as 1.1",
            ),
            (
                "no_at = 1.0",
                "no_at = inf",
                "inf is out of bounds",
                "write a number, such as 1.1",
            ),
            (
                "published = 2.69",
                "published = nan",
                "NaN is out of bounds",
                "write a number, such as 1.1",
            ),
            (
                "no_at = 1.0",
                "no_at = 1.1",
                "yes and no begin at the same value",
                "write yes_at above no_at",
            ),
        ] {
            let text = text();
            let line = 1 + text.lines().position(|line| line == from).unwrap();
            let error = told(&text.replacen(from, to, 1));
            // Two values that are one are told at the first of them.
            let line = line - usize::from(what.starts_with("yes"));
            assert!(error.contains(&format!("mine.toml:{line}:")), "{error}");
            assert!(error.contains(what), "{what}: {error}");
            assert!(error.contains(remedy), "{remedy}: {error}");
        }
    }

    #[test]
    fn too_long_a_list_is_refused() {
        let many = vec!["\"openvpn\""; 1_001].join(", ");
        let from = "only = [\"ipsec\", \"strongswan\", \"stunnel\", \"openvpn\"]";
        let text = text();
        assert!(text.contains(from));
        let error = told(&text.replacen(from, &format!("only = [{many}]"), 1));
        assert!(error.contains("1001 of them"), "{error}");
        assert!(error.contains("keep to 1000"), "{error}");
    }
}
