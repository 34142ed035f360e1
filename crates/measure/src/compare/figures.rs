//! Which figures are compared, and where their values and noise come from.

use super::{CompareConfig, Compared, Noise, Row, Verdict, Wish};
use crate::latency::Latency;
use crate::result::RunResult;
use crate::series::Second;
use crate::sip::SipFigures;
use crate::statistics::{Z_99, block_means, mann_whitney, mean};

/// More seconds than this are averaged in groups first.
const VALUES_MAX: usize = 1_000;
/// Fewest calls of which a percentile is compared.
const CALLS_MIN: u64 = 100;

/// The seconds of both runs without warm-up and without the last, which is seldom whole. Where the
/// time in which arrivals were due is known, only its whole seconds: what the last calls take to
/// end is no load. Calls that are held for longer than arrivals were due end well afterwards alone:
/// if one of the runs is so, all seconds of both count.
pub(super) fn steady(
    a: &RunResult,
    b: &RunResult,
    config: &CompareConfig,
) -> (Vec<Second>, Vec<Second>) {
    let until = |result: &RunResult, end_s: u64| -> Vec<Second> {
        let seconds = result.series.iter();
        let is_kept = |second: &&Second| (config.warm_up_s..end_s).contains(&second.at_s);
        seconds.filter(is_kept).copied().collect()
    };
    let last_s = |result: &RunResult| result.series.last().map_or(0, |second| second.at_s);
    let sent = |result: &RunResult| match result.health.sending_ns {
        0 => until(result, last_s(result)),
        sending_ns => until(result, last_s(result).min(sending_ns / 1_000_000_000)),
    };
    let has_ended = |seconds: &[Second]| seconds.iter().any(|second| second.succeeded > 0);
    let both = (sent(a), sent(b));
    let all = (until(a, last_s(a)), until(b, last_s(b)));
    let ends_after = |sent: &[Second], all: &[Second]| !has_ended(sent) && has_ended(all);
    match ends_after(&both.0, &all.0) || ends_after(&both.1, &all.1) {
        true => all,
        false => both,
    }
}

/// What a second says of a figure.
#[derive(Clone, Copy)]
enum OfSecond {
    /// A value of its own.
    Value(fn(&Second) -> Option<f64>),
    /// So much of so much, of which the seconds' sums make the figure.
    Ratio(fn(&Second) -> Option<(f64, f64)>),
}

/// Figures that every second has.
const BY_SECOND: &[(&str, &str, Wish, bool, OfSecond)] = &[
    (
        "rate",
        "/s",
        Wish::More,
        false,
        OfSecond::Value(|s| Some(s.succeeded as f64)),
    ),
    (
        "failed",
        "%",
        Wish::Less,
        true,
        OfSecond::Ratio(|s| Some(percent_of(s.failed, s.succeeded + s.failed))),
    ),
    (
        "delay mean",
        "us",
        Wish::Less,
        false,
        OfSecond::Value(|s| s.has_delays().then_some(s.mean_us)),
    ),
    (
        "delay p50",
        "us",
        Wish::Less,
        false,
        OfSecond::Value(|s| s.has_delays().then_some(s.p50_us as f64)),
    ),
    (
        "delay p99",
        "us",
        Wish::Less,
        false,
        OfSecond::Value(|s| s.has_delays().then_some(s.p99_us as f64)),
    ),
    (
        "retransmissions",
        "%",
        Wish::Less,
        true,
        OfSecond::Ratio(|s| Some(percent_of(s.retransmissions, s.started))),
    ),
    (
        "watched cpu per call",
        "us",
        Wish::Less,
        false,
        OfSecond::Ratio(|s| us_of(s.watched_cpu_ns, s.succeeded)),
    ),
    (
        "own cpu per call",
        "us",
        Wish::Less,
        false,
        OfSecond::Ratio(|s| us_of(s.own_cpu_ns, s.succeeded)),
    ),
];

fn share(part: u64, whole: u64) -> Option<f64> {
    crate::sip::percent(part, whole)
}

fn percent_of(part: u64, whole: u64) -> (f64, f64) {
    (part as f64 * 100.0, whole as f64)
}

fn us_of(cpu_ns: Option<u64>, calls: u64) -> Option<(f64, f64)> {
    cpu_ns.map(|ns| (ns as f64 / 1e3, calls as f64))
}

impl OfSecond {
    /// One value for each second that has the figure.
    fn values(self, seconds: &[Second]) -> Vec<f64> {
        match self {
            Self::Value(of) => seconds.iter().filter_map(of).collect(),
            Self::Ratio(of) => {
                let parts: Vec<(f64, f64)> = seconds.iter().filter_map(of).collect();
                about_ratio(&parts)
            }
        }
    }
}

/// Values whose mean is the ratio of the sums: that ratio, and what each second adds to it or
/// takes from it. A second in which little ended moves it little, whatever its own ratio; means
/// of resampled seconds scatter as the ratio does (its first-order expansion).
fn about_ratio(parts: &[(f64, f64)]) -> Vec<f64> {
    let whole: f64 = parts.iter().map(|(_, whole)| whole).sum();
    if whole <= 0.0 {
        return Vec::new();
    }
    let ratio = parts.iter().map(|(part, _)| part).sum::<f64>() / whole;
    let mean_whole = whole / parts.len() as f64;
    parts
        .iter()
        .map(|(part, whole)| ratio + (part - ratio * whole) / mean_whole)
        .collect()
}

/// Rows of the means and ratios over seconds; figures that either run lacks are left out.
pub(super) fn by_second(noise: &Noise<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for &(name, unit, wish, points, of) in BY_SECOND {
        let values = |seconds: &[Second]| -> Vec<f64> {
            let values = of.values(seconds);
            block_means(&values, values.len().div_ceil(VALUES_MAX))
        };
        let (a, b) = (values(&noise.a), values(&noise.b));
        if a.is_empty() || b.is_empty() {
            continue;
        }
        let what = Compared {
            name,
            unit,
            wish,
            points,
        };
        rows.push(noise.row(&what, &a, &b));
    }
    rows
}

type OfDelay = fn(&RunResult) -> &Latency;

const DELAYS: &[(&str, OfDelay)] = &[
    ("rrd", |r| &r.figures.rrd),
    ("srd", |r| &r.figures.srd),
    ("srd_failed", |r| &r.figures.srd_failed),
    ("setup", |r| &r.figures.setup),
    ("sdd", |r| &r.figures.sdd),
    ("handshake_full", |r| &r.handshakes.full_delay),
    ("handshake_resumed", |r| &r.handshakes.resumed_delay),
];

/// A ratio's parts: how many of how many.
type OfRatio = fn(&SipFigures) -> (u64, u64);

const RATIOS: &[(&str, Wish, OfRatio)] = &[
    ("ira", Wish::Less, |f| (f.registers_failed, f.registers)),
    ("ser", Wish::More, |f| {
        (f.invites_ok, f.invites.saturating_sub(f.invites_redirected))
    }),
    ("seer", Wish::More, |f| {
        let all = f.invites.saturating_sub(f.invites_redirected);
        (f.invites_ok + f.invites_declined, all)
    }),
    ("isa", Wish::Less, |f| (f.invites_ineffective, f.invites)),
    ("scr", Wish::More, |f| (f.completed, f.invites)),
    // With what failed when arrivals were due no more, which no second shows.
    ("failed of all", Wish::Less, |f| {
        (f.failed(), f.succeeded() + f.failed())
    }),
];

/// Rows of figures that only the whole run has. A percentile of one delay
/// borrows the noise that the same percentile has over the seconds; a ratio's
/// noise is that of counting, widened by how much more than that the failures
/// of the seconds scatter.
pub(super) fn by_run(a: &RunResult, b: &RunResult, noise: &Noise<'_>, rows: &[Row]) -> Vec<Row> {
    let mut out = Vec::new();
    let scatter = dispersion(&noise.a).max(dispersion(&noise.b));
    for &(name, wish, of) in RATIOS {
        let ((hits_a, all_a), (hits_b, all_b)) = (of(&a.figures), of(&b.figures));
        let (Some(share_a), Some(share_b)) = (share(hits_a, all_a), share(hits_b, all_b)) else {
            continue;
        };
        let variance = |hits: u64, all: u64| {
            // Two hits and two misses more (Agresti and Coull), so that a ratio
            // of 100% has a noise too.
            let n = all as f64 + 4.0;
            let p = (hits as f64 + 2.0) / n;
            p * (1.0 - p) / n
        };
        let half =
            Z_99 * 100.0 * (scatter * (variance(hits_a, all_a) + variance(hits_b, all_b))).sqrt();
        let what = Compared {
            name,
            unit: "%",
            wish,
            points: true,
        };
        out.push(noise.told(&what, share_a, share_b, half));
    }
    let named = DELAYS
        .iter()
        .map(|&(delay, of)| (delay.to_owned(), of(a), of(b)));
    let requests = a.figures.requests.iter().filter_map(|(name, of_a)| {
        let of_b = b.figures.requests.get(name)?;
        Some((name.to_string(), &of_a.delay, &of_b.delay))
    });
    for (delay, a, b) in named.chain(requests) {
        let (a, b) = (a.summary(), b.summary());
        if a.count.min(b.count) < CALLS_MIN {
            continue;
        }
        for (percentile, like, value_a, value_b) in [
            ("p50", "delay p50", a.intended.p50_us, b.intended.p50_us),
            ("p99", "delay p99", a.intended.p99_us, b.intended.p99_us),
        ] {
            let half = rows
                .iter()
                .find(|row| row.name == like)
                .map_or(f64::INFINITY, |row| (row.high - row.low) / 2.0);
            let what = Compared {
                name: &format!("{delay}_{percentile}"),
                unit: "us",
                wish: Wish::Less,
                points: false,
            };
            out.push(noise.told(&what, value_a as f64, value_b as f64, half));
        }
    }
    out
}

impl Noise<'_> {
    /// A row of two single values with a known noise.
    fn told(&self, what: &Compared<'_>, a: f64, b: f64, half: f64) -> Row {
        let difference = super::difference(a, b, what.points);
        let (low, high) = (difference - half, difference + half);
        Row {
            name: what.name.to_owned(),
            unit: what.unit,
            a,
            b,
            difference,
            low,
            high,
            points: what.points,
            verdict: self.verdict(what, difference, low, high, true),
        }
    }
}

/// How many times more the failures of the seconds scatter than chance alone
/// would have it; at least 1.
fn dispersion(seconds: &[Second]) -> f64 {
    let ended: Vec<(f64, f64)> = seconds
        .iter()
        .filter(|s| s.succeeded + s.failed > 0)
        .map(|s| (s.failed as f64, (s.succeeded + s.failed) as f64))
        .collect();
    let all: f64 = ended.iter().map(|(_, n)| n).sum();
    let share = ended.iter().map(|(failed, _)| failed).sum::<f64>() / all;
    if ended.len() < 2 || share <= 0.0 || share >= 1.0 {
        return 1.0;
    }
    let squares: f64 = ended
        .iter()
        .map(|(failed, n)| (failed - n * share).powi(2) / (n * share * (1.0 - share)))
        .sum();
    (squares / (ended.len() - 1) as f64).max(1.0)
}

/// Why the comparison should not be believed, or only in part.
pub(super) fn warnings(a: &RunResult, b: &RunResult, noise: &Noise<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (which, result, seconds) in [("A", a, &noise.a), ("B", b, &noise.b)] {
        for doubt in &result.doubts {
            warnings.push(format!(
                "{which} is in doubt ({}): {}",
                doubt.name, doubt.sentence
            ));
        }
        if seconds.len() < noise.config.seconds_min {
            warnings.push(format!(
                "{which} has {} whole seconds after the first {} s, too few to know its noise: \
                 run it for at least {} s",
                seconds.len(),
                noise.config.warm_up_s,
                noise.config.seconds_min as u64 + noise.config.warm_up_s + 1
            ));
        }
        let drift = drift(seconds);
        if let Some(drift) = drift {
            warnings.push(format!(
                "{which} is not steady: its median delay changed by {:.0}% from its first half to \
                 its second; run it for longer, or leave out more of its start",
                drift * 100.0
            ));
        }
    }
    if a.host != b.host {
        warnings.push(format!(
            "The machines differ: A ran on {} cores ({}, Linux {}), B on {} ({}, Linux {})",
            a.host.cores,
            a.host.cpu_model,
            a.host.kernel,
            b.host.cores,
            b.host.cpu_model,
            b.host.kernel
        ));
    }
    let mut differing = Vec::new();
    differences("", &a.settings, &b.settings, &mut differing);
    if !differing.is_empty() {
        let more = differing.len().saturating_sub(5);
        differing.truncate(5);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        warnings.push(format!(
            "The settings differ: {}{more}",
            differing.join("; ")
        ));
    }
    warnings
}

/// The change of the median delay from the first half of a run to the second,
/// if it is larger than 20% and no chance.
fn drift(seconds: &[Second]) -> Option<f64> {
    let medians: Vec<f64> = seconds
        .iter()
        .filter(|s| s.has_delays())
        .map(|s| s.p50_us as f64)
        .collect();
    let (first, second) = medians.split_at(medians.len() / 2);
    let drift = super::difference(mean(first), mean(second), false);
    let halves = |half: &[f64]| block_means(half, super::block_len(half.len()));
    let chance = mann_whitney(&halves(first), &halves(second));
    (drift.abs() > 0.2 && chance < 0.01).then_some(drift)
}

/// Names every setting that differs, as `name: A here, B there`.
fn differences(name: &str, a: &serde_json::Value, b: &serde_json::Value, out: &mut Vec<String>) {
    use serde_json::Value;
    if let (Value::Object(map_a), Value::Object(map_b)) = (a, b) {
        let keys: std::collections::BTreeSet<&String> = map_a.keys().chain(map_b.keys()).collect();
        for key in keys {
            let inner = if name.is_empty() {
                key.clone()
            } else {
                format!("{name}.{key}")
            };
            let of =
                |map: &serde_json::Map<String, Value>| map.get(key).cloned().unwrap_or(Value::Null);
            differences(&inner, &of(map_a), &of(map_b), out);
        }
    } else if a != b {
        let name = if name.is_empty() { "settings" } else { name };
        out.push(format!("{name} is {a} in A, {b} in B"));
    }
}

impl Verdict {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Better => "better",
            Self::Worse => "WORSE",
            Self::TooNoisy => "too noisy to tell",
        }
    }
}
