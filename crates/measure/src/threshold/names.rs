//! The names of figures, and where each is found in a result.

use crate::latency::{Latency, Quantiles};
use crate::result::RunResult;

/// A figure that a condition may name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Figure {
    /// Of which delay, from which start, and which percentile.
    Delay {
        of: usize,
        actual: bool,
        quantile: usize,
    },
    /// A plain figure of [`PLAIN`].
    Plain(usize),
    /// Failures and redirections with this status.
    Status(u16),
}

/// What kind of number a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Delay,
    Percent,
    Count,
    Rate,
}

impl Kind {
    pub(super) fn example(self) -> &'static str {
        match self {
            Self::Delay => "a delay such as 200ms",
            Self::Percent => "a percentage such as 99 or 99%",
            Self::Count => "a count such as 10, or a share of all attempts such as 1%",
            Self::Rate => "a rate such as 2000 or 2000/s",
        }
    }
}

type OfDelay = (
    &'static str,
    &'static str,
    fn(&RunResult) -> Option<&Latency>,
);
type OfQuantile = (&'static str, fn(&Quantiles) -> f64);
type OfPlain = (
    &'static str,
    Kind,
    &'static str,
    fn(&RunResult) -> Option<f64>,
);

const DELAYS: &[OfDelay] = &[
    ("rrd", "Registration Request Delay (RFC 6076 4.1)", |r| {
        Some(&r.figures.rrd)
    }),
    ("srd", "Session Request Delay (4.3.1)", |r| {
        Some(&r.figures.srd)
    }),
    (
        "srd_failed",
        "Session Request Delay of failures (4.3.2)",
        |r| Some(&r.figures.srd_failed),
    ),
    ("setup", "INVITE to its final 2xx", |r| {
        Some(&r.figures.setup)
    }),
    ("sdd", "Session Disconnect Delay (4.4.1)", |r| {
        Some(&r.figures.sdd)
    }),
    (
        "sdd_failed",
        "Session Disconnect Delay of failures (4.4.2)",
        |r| Some(&r.figures.sdd_failed),
    ),
    ("sdt", "Session Duration Time (4.5.1)", |r| {
        Some(&r.figures.sdt)
    }),
    (
        "sdt_failed",
        "Session Duration Time of failures (4.5.2)",
        |r| Some(&r.figures.sdt_failed),
    ),
    ("reregister", "REGISTER that renews, to its 2xx", |r| {
        request(r, "reregister")
    }),
    ("deregister", "REGISTER that removes, to its 2xx", |r| {
        request(r, "deregister")
    }),
    ("options", "OPTIONS to its 2xx", |r| request(r, "options")),
    ("message", "MESSAGE to its 2xx", |r| request(r, "message")),
    ("handshake_full", "full TLS handshake", |r| {
        Some(&r.handshakes.full_delay)
    }),
    ("handshake_resumed", "resumed TLS handshake", |r| {
        Some(&r.handshakes.resumed_delay)
    }),
];

/// Other requests are kept by the name of their flow.
fn request<'a>(result: &'a RunResult, name: &str) -> Option<&'a Latency> {
    result
        .figures
        .requests
        .get(name)
        .map(|request| &request.delay)
}

const QUANTILES: &[OfQuantile] = &[
    ("mean", |q| q.mean_us),
    ("min", |q| q.min_us as f64),
    ("p50", |q| q.p50_us as f64),
    ("p90", |q| q.p90_us as f64),
    ("p95", |q| q.p95_us as f64),
    ("p99", |q| q.p99_us as f64),
    ("p999", |q| q.p999_us as f64),
    ("max", |q| q.max_us as f64),
];

const PLAIN: &[OfPlain] = &[
    (
        "ira",
        Kind::Percent,
        "Ineffective Registration Attempts (4.2)",
        |r| r.figures.ratios().ira_percent,
    ),
    (
        "ser",
        Kind::Percent,
        "Session Establishment Ratio (4.6)",
        |r| r.figures.ratios().ser_percent,
    ),
    (
        "seer",
        Kind::Percent,
        "Session Establishment Effectiveness Ratio (4.7)",
        |r| r.figures.ratios().seer_percent,
    ),
    (
        "isa",
        Kind::Percent,
        "Ineffective Session Attempts (4.8)",
        |r| r.figures.ratios().isa_percent,
    ),
    (
        "scr",
        Kind::Percent,
        "Session Completion Ratio (4.9)",
        |r| r.figures.ratios().scr_percent,
    ),
    ("failed", Kind::Count, "attempts that failed", |r| {
        Some(r.figures.failed() as f64)
    }),
    ("succeeded", Kind::Count, "attempts that ended well", |r| {
        Some(r.figures.succeeded() as f64)
    }),
    (
        "redirected",
        Kind::Count,
        "calls that were answered 3xx",
        |r| Some(r.figures.invites_redirected as f64),
    ),
    (
        "agents_missing",
        Kind::Count,
        "agents that did not come up or lost their registration",
        |r| Some(r.health.agents_missing as f64),
    ),
    (
        "refreshes_failed",
        Kind::Count,
        "registrations that keep agents up and failed",
        |r| {
            let failed = r.counters.get("registrations_not_refreshed");
            Some(failed.copied().unwrap_or(0) as f64)
        },
    ),
    (
        "unsent",
        Kind::Count,
        "arrivals not sent when the schedule ended",
        |r| Some(r.health.unsent as f64),
    ),
    (
        "timeout",
        Kind::Count,
        "attempts without an answer in time, to the INVITE or to the BYE",
        |r| Some((r.causes.named("timeout") + r.causes.named("bye timeout")) as f64),
    ),
    (
        "transport",
        Kind::Count,
        "attempts whose transport failed: refused, reset, closed, handshake, ...",
        |r| {
            // A file without that figure has the name alone.
            let named = r.causes.named("transport");
            Some(r.figures.transport_failed.max(named) as f64)
        },
    ),
    (
        "rate",
        Kind::Rate,
        "attempts that ended well, each second of the schedule",
        |r| (r.duration_ns > 0).then(|| r.rate_per_s()),
    ),
    ("retransmissions", Kind::Count, "messages sent again", |r| {
        Some(r.retransmissions.sent() as f64)
    }),
    (
        "retransmissions_ours",
        Kind::Count,
        "those because the generator was late",
        |r| Some(r.retransmissions.ours as f64),
    ),
    (
        "retransmissions_lost",
        Kind::Count,
        "those because a message was lost",
        |r| Some(r.retransmissions.lost as f64),
    ),
    (
        "retransmissions_late",
        Kind::Count,
        "those because the answer was late",
        |r| Some(r.retransmissions.late as f64),
    ),
    (
        "retransmissions_received",
        Kind::Count,
        "messages that the other side sent again",
        |r| Some(r.retransmissions.received as f64),
    ),
    (
        "handshakes_failed",
        Kind::Count,
        "TLS handshakes that failed",
        |r| Some(r.handshakes.failed as f64),
    ),
    (
        "resumed",
        Kind::Percent,
        "share of TLS handshakes that were resumed",
        |r| {
            crate::sip::percent(
                r.handshakes.resumed,
                r.handshakes.resumed + r.handshakes.full,
            )
        },
    ),
    (
        "behind_p99",
        Kind::Delay,
        "how late the generator sent, 99%",
        |r| (r.health.sent > 0).then_some(r.health.behind_schedule.p99_us as f64),
    ),
    (
        "behind_max",
        Kind::Delay,
        "how late the generator sent at most",
        |r| (r.health.sent > 0).then_some(r.health.behind_max_ns as f64 / 1e3),
    ),
    (
        "kernel_drops",
        Kind::Count,
        "datagrams dropped at the generator's sockets",
        |r| Some(r.health.kernel_drops as f64),
    ),
    (
        "doubts",
        Kind::Count,
        "doubts of the generator about itself",
        |r| Some(r.health.doubts().len() as f64),
    ),
    (
        "in_flight_max",
        Kind::Count,
        "most attempts under way at the end of a second",
        |r| {
            r.series
                .iter()
                .map(|second| second.in_flight as f64)
                .reduce(f64::max)
        },
    ),
];

impl Figure {
    /// # Errors
    /// A sentence with the names that are known.
    pub(super) fn parse(name: &str) -> Result<Self, String> {
        if let Some(at) = PLAIN.iter().position(|(known, ..)| *known == name) {
            return Ok(Self::Plain(at));
        }
        if let Some(status) = name.strip_prefix("status_").and_then(|s| s.parse().ok()) {
            if (300..700).contains(&status) {
                return Ok(Self::Status(status));
            }
            return Err(format!(
                "status {status} is none of a failure: write status_300 to status_699"
            ));
        }
        let delay = name.rsplit_once('_').and_then(|(delay, quantile)| {
            let (delay, actual) = match delay.strip_suffix("_actual") {
                Some(delay) => (delay, true),
                None => (delay, false),
            };
            Some(Self::Delay {
                of: DELAYS.iter().position(|(known, ..)| *known == delay)?,
                actual,
                quantile: QUANTILES.iter().position(|(known, _)| *known == quantile)?,
            })
        });
        delay.ok_or_else(|| unknown(name))
    }

    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Delay { .. } => Kind::Delay,
            Self::Plain(at) => PLAIN.get(at).map_or(Kind::Count, |(_, kind, ..)| *kind),
            Self::Status(_) => Kind::Count,
        }
    }

    /// In microseconds, percent, or as a number; `None` when nothing was measured.
    pub(super) fn value(self, result: &RunResult) -> Option<f64> {
        match self {
            Self::Delay {
                of,
                actual,
                quantile,
            } => {
                let summary = DELAYS.get(of)?.2(result)?.summary();
                let quantiles = if actual {
                    &summary.actual
                } else {
                    &summary.intended
                };
                (summary.count > 0).then_some(QUANTILES.get(quantile)?.1(quantiles))
            }
            Self::Plain(at) => PLAIN.get(at)?.3(result),
            Self::Status(status) => {
                let redirected = result.figures.redirects.status(status);
                Some((result.causes.status(status) + redirected) as f64)
            }
        }
    }
}

fn unknown(name: &str) -> String {
    let list = |names: Vec<&str>| names.join(", ");
    let plain = list(PLAIN.iter().map(|(known, ..)| *known).collect());
    let delays = list(DELAYS.iter().map(|(known, ..)| *known).collect());
    let quantiles = list(QUANTILES.iter().map(|(known, _)| *known).collect());
    let what = if name.is_empty() {
        "a name is missing".to_owned()
    } else {
        format!("{name:?} is no figure")
    };
    format!(
        "{what}; known are {plain}, status_NNN; and as DELAY_PERCENTILE (srd_p99), or \
         DELAY_actual_PERCENTILE from the actual send, the delays {delays} with {quantiles}"
    )
}

/// Every name with its meaning.
pub(super) fn all() -> Vec<(String, &'static str)> {
    let plain = PLAIN
        .iter()
        .map(|(name, _, meaning, _)| ((*name).to_owned(), *meaning));
    let delays = DELAYS.iter().flat_map(|(delay, meaning, _)| {
        ["", "_actual"].into_iter().flat_map(move |start| {
            QUANTILES
                .iter()
                .map(move |(quantile, _)| (format!("{delay}{start}_{quantile}"), *meaning))
        })
    });
    plain
        .chain(std::iter::once((
            "status_NNN".to_owned(),
            "attempts that failed or were redirected with this status",
        )))
        .chain(delays)
        .collect()
}
