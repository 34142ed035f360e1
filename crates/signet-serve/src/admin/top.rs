//! `signet top`: what a running server does, second by second. The program draws
//! [`picture`]; here are the figures and what is said of them.

use std::fmt::Write as _;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use sip_engine::refusal::RefusalCounts;
use sip_net::clock;
use tokio::time::timeout;

use super::ask::{Nothing, ask_running};
use super::socket::{Admin, Answered, Refused};
use super::{Instance, gateways, lasting};
use crate::worker::Phase;
use crate::{Error, system};

/// The version of the answer's form.
const VERSION: u32 = 1;
/// How long a worker may take to say how the gateways are: it is asked each second.
const GATEWAYS_MAX: Duration = Duration::from_millis(500);
/// Columns of the picture.
const COLUMNS: usize = 80;
/// Lines of the picture, with one to spare for the cursor.
const LINES: usize = 23;
/// Workers that are drawn.
const WORKERS: usize = 4;

/// The figures of a server at one moment. Those that only grow are counted since its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    version: u32,
    /// When, by a clock that only goes forward.
    at_ms: u64,
    up_s: u64,
    is_draining: bool,
    counts: Counts,
    /// Refusals by reason.
    refusals: Vec<(String, u64)>,
    calls: u64,
    users: u64,
    bindings: u64,
    connections: u64,
    memory_bytes: u64,
    messages_held_bytes: u64,
    messages_max_bytes: u64,
    /// `None` where a worker did not say it in time: a 0 would be a figure.
    gateways: Option<u64>,
    gateways_passed_over: Option<u64>,
    bans: usize,
    workers: Vec<OfWorker>,
}

/// What only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Counts {
    cpu_us: u64,
    requests: u64,
    calls: u64,
    registrations: u64,
    handshakes: u64,
}

/// A worker's own part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct OfWorker {
    messages: u64,
    in_flight: u64,
    overload_thousandths: u32,
}

/// Two moments, and what happened between them.
#[derive(Serialize)]
pub struct Seen<'a> {
    version: u32,
    now: &'a Figures,
    per_s: Rates,
}

/// What happened a second; `None` before a second moment is known.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Rates {
    /// CPU time, as a share of one core.
    cpu_percent: Option<f64>,
    requests: Option<f64>,
    calls: Option<f64>,
    registrations: Option<f64>,
    handshakes: Option<f64>,
    /// By reason, the most frequent first.
    refusals: Vec<(String, f64)>,
    /// Messages of each worker.
    messages: Vec<f64>,
}

/// Answers `/top`.
pub(super) async fn figures(
    State(admin): State<Admin>,
    Json(Nothing {}): Json<Nothing>,
) -> Answered<Figures> {
    // A worker that cannot say it now says it a second later: the rest is no less known.
    let counted = in_time(gateways::counted(&admin)).await;
    let (gateways, gateways_passed_over) = counted.unzip();
    let sources = &admin.sources;
    let snapshots = sources.control.snapshots();
    let mut refusals = RefusalCounts::default();
    for worker in &snapshots {
        refusals.add(&worker.refusals);
    }
    let mut by_reason: Vec<(String, u64)> = Vec::new();
    for (of, count) in refusals.iter().filter(|(of, _)| of.status.is_some()) {
        match by_reason
            .iter_mut()
            .find(|(name, _)| name == of.reason.name())
        {
            Some((_, sum)) => *sum += count,
            None => by_reason.push((of.reason.name().to_owned(), count)),
        }
    }
    let nets = || snapshots.iter().map(|of| &of.sockets.net);
    let now_ms = clock::now_ms();
    let up_s = (clock::unix_ms() / 1_000).saturating_sub(sources.started_unix_s);
    let counts = Counts {
        cpu_us: system::cpu_us(),
        requests: snapshots.iter().map(|of| of.engine.requests).sum(),
        calls: snapshots.iter().map(|of| of.engine.calls_begun).sum(),
        registrations: snapshots.iter().map(|of| of.registrar.ok).sum(),
        handshakes: nets()
            .map(|net| net.handshakes_in + net.handshakes_out)
            .sum(),
    };
    let workers = snapshots.iter().map(|of| {
        let net = &of.sockets.net;
        let each = [&net.udp, &net.tcp, &net.tls, &net.ws, &net.wss];
        OfWorker {
            messages: each.iter().map(|of| of.messages_in).sum(),
            in_flight: of.in_flight as u64,
            overload_thousandths: of.own.severity,
        }
    });
    Ok(Json(Figures {
        version: VERSION,
        at_ms: now_ms,
        up_s,
        is_draining: sources.control.phase() != Phase::Running,
        counts,
        refusals: by_reason,
        calls: snapshots.iter().map(|of| of.calls as u64).sum(),
        users: sources.location.aors() as u64,
        bindings: sources.location.bindings() as u64,
        connections: nets().map(|net| net.connections).sum(),
        memory_bytes: system::resident_bytes(),
        messages_held_bytes: sources.budget.bytes_held(),
        messages_max_bytes: sources.budget.bytes_max(),
        gateways,
        gateways_passed_over,
        bans: sources.guard.bans(now_ms).len(),
        workers: workers.collect(),
    }))
}

/// What a worker says; `None` where it does not in time.
async fn in_time<T>(said: impl Future<Output = Result<T, Refused>>) -> Option<T> {
    timeout(GATEWAYS_MAX, said).await.ok()?.ok()
}

/// Asks the running server for its figures.
pub fn ask(instance: &Instance) -> Result<Figures, Error> {
    let otherwise = "only a running server has figures";
    ask_running(instance, "/top", &Nothing {}, otherwise)
}

/// What happened from one moment to another. Those of another process are not compared.
pub fn seen<'a>(before: Option<&Figures>, now: &'a Figures) -> Seen<'a> {
    let before = before.filter(|before| before.at_ms < now.at_ms && before.up_s <= now.up_s);
    Seen {
        version: VERSION,
        now,
        per_s: before.map(|before| rates(before, now)).unwrap_or_default(),
    }
}

fn rates(before: &Figures, now: &Figures) -> Rates {
    let elapsed_s = (now.at_ms - before.at_ms) as f64 / 1_000.0;
    let per_s = |before: u64, now: u64| now.saturating_sub(before) as f64 / elapsed_s;
    let of = |get: fn(&Counts) -> u64| Some(per_s(get(&before.counts), get(&now.counts)));
    let mut refusals: Vec<(String, f64)> = Vec::new();
    for (name, count) in &now.refusals {
        let earlier = before.refusals.iter().find(|(known, _)| known == name);
        let rate = per_s(earlier.map_or(0, |(_, count)| *count), *count);
        if rate > 0.0 {
            refusals.push((name.clone(), rate));
        }
    }
    refusals.sort_by(|a, b| b.1.total_cmp(&a.1));
    let messages = before.workers.iter().zip(&now.workers);
    Rates {
        cpu_percent: of(|counts| counts.cpu_us).map(|us_per_s| us_per_s / 10_000.0),
        requests: of(|counts| counts.requests),
        calls: of(|counts| counts.calls),
        registrations: of(|counts| counts.registrations),
        handshakes: of(|counts| counts.handshakes),
        refusals,
        messages: messages
            .map(|(before, now)| per_s(before.messages, now.messages))
            .collect(),
    }
}

impl Seen<'_> {
    /// For programs.
    ///
    /// # Errors
    /// None that comes of the figures.
    pub fn json(&self) -> Result<String, Error> {
        serde_json::to_string_pretty(self).map_err(|error| {
            Error::new(
                format!("the figures cannot be written: {error}"),
                "this is a fault of this program; report it",
            )
        })
    }

    /// For people, at most 80 columns and 23 lines, without control characters. What is not known yet
    /// is a dash.
    pub fn picture(&self, title: &str) -> String {
        let now = self.now;
        let mut text = String::new();
        let state = match now.is_draining {
            true => ", drains: new calls are refused",
            false => "",
        };
        let title: String = title.chars().filter(|c| !c.is_control()).collect();
        let line = format!("signet {title}, up {}{state}", lasting(now.up_s));
        let _ = writeln!(text, "{}\n", cut(&line));
        self.write_rates(&mut text);
        self.write_state(&mut text);
        self.write_workers(&mut text);
        self.write_refusals(&mut text);
        text
    }

    fn write_rates(&self, text: &mut String) {
        let per_s = &self.per_s;
        for [(left, a), (right, b)] in [
            [
                ("calls", per_s.calls),
                ("registrations", per_s.registrations),
            ],
            [
                ("requests", per_s.requests),
                ("TLS handshakes", per_s.handshakes),
            ],
        ] {
            let (a, b) = (rate_or_dash(a), rate_or_dash(b));
            let _ = writeln!(text, "{left:<18}{a:>10}/s     {right:<19}{b:>10}/s");
        }
        let now = self.now;
        let cpu = per_s.cpu_percent.map(|percent| format!("{percent:.0}"));
        let mib = |bytes: u64| bytes >> 20;
        let _ = writeln!(
            text,
            "{:<18}{:>10} %     {:<19}{:>10} MiB",
            "CPU of one core",
            cpu.as_deref().unwrap_or("-"),
            "memory",
            mib(now.memory_bytes)
        );
        let _ = writeln!(
            text,
            "{:<18}{:>10} MiB   {:<19}{:>10} MiB\n",
            "messages hold",
            mib(now.messages_held_bytes),
            "of at most",
            mib(now.messages_max_bytes)
        );
    }

    fn write_state(&self, text: &mut String) {
        let now = self.now;
        for [(left, a), (right, b)] in [
            [
                ("calls in progress", Some(now.calls)),
                ("connections", Some(now.connections)),
            ],
            [
                ("contacts", Some(now.bindings)),
                ("users with contacts", Some(now.users)),
            ],
            [
                ("gateways", now.gateways),
                ("passed over", now.gateways_passed_over),
            ],
        ] {
            let (a, b) = (count_or_dash(a), count_or_dash(b));
            let _ = writeln!(text, "{left:<18}{a:>10}       {right:<19}{b:>10}");
        }
        let _ = writeln!(text, "{:<18}{:>10}\n", "sources banned", now.bans);
    }

    fn write_workers(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "{:<8}{:>14}{:>14}{:>14}",
            "worker", "messages", "in flight", "overload"
        );
        for (nth, worker) in self.now.workers.iter().enumerate().take(WORKERS) {
            let _ = writeln!(
                text,
                "{nth:<8}{:>12}/s{:>14}{:>14.2}",
                rate_or_dash(self.per_s.messages.get(nth).copied()),
                worker.in_flight,
                f64::from(worker.overload_thousandths) / 1_000.0
            );
        }
        if let Some(more) = self.now.workers.len().checked_sub(WORKERS + 1) {
            let _ = writeln!(text, "and {} more", more + 1);
        }
        text.push('\n');
    }

    fn write_refusals(&self, text: &mut String) {
        if self.per_s.refusals.is_empty() {
            text.push_str("refusals        none\n");
            return;
        }
        text.push_str("refusals\n");
        let room = LINES.saturating_sub(text.lines().count());
        let fit = self.per_s.refusals.len() <= room;
        let shown = if fit { room } else { room.saturating_sub(1) };
        for (name, rate) in self.per_s.refusals.iter().take(shown) {
            let _ = writeln!(text, "  {name:<32}{:>10}/s", rate_or_dash(Some(*rate)));
        }
        let rest = self.per_s.refusals.get(shown..).unwrap_or_default();
        if !rest.is_empty() {
            let sum = rest.iter().map(|(_, rate)| rate).sum();
            let name = format!("{} other reasons", rest.len());
            let _ = writeln!(text, "  {name:<32}{:>10}/s", rate_or_dash(Some(sum)));
        }
    }
}

fn count_or_dash(count: Option<u64>) -> String {
    count.map_or_else(|| "-".to_owned(), |count| count.to_string())
}

fn rate_or_dash(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(rate) if rate == 0.0 || rate >= 10.0 => format!("{rate:.0}"),
        Some(rate) => format!("{rate:.1}"),
    }
}

fn cut(line: &str) -> String {
    line.chars().take(COLUMNS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(at_ms: u64, factor: u64) -> Figures {
        Figures {
            version: VERSION,
            at_ms,
            up_s: at_ms / 1_000,
            counts: Counts {
                cpu_us: 500_000 * factor,
                requests: 1_000 * factor,
                calls: 20 * factor,
                registrations: 3 * factor,
                handshakes: 0,
            },
            refusals: vec![
                ("wrong_password".to_owned(), 5 * factor),
                ("not_registered".to_owned(), 7),
                ("no_route".to_owned(), 90 * factor),
                ("loop".to_owned(), factor),
                ("malformed".to_owned(), 2 * factor),
            ],
            workers: vec![
                OfWorker {
                    messages: 400 * factor,
                    ..OfWorker::default()
                };
                10
            ],
            ..Figures::default()
        }
    }

    #[test]
    fn what_happened_is_told_a_second() {
        let (before, now) = (figures(10_000, 1), figures(12_000, 5));
        let rates = rates(&before, &now);
        assert_eq!(rates.cpu_percent, Some(100.0));
        assert_eq!((rates.calls, rates.handshakes), (Some(40.0), Some(0.0)));
        assert_eq!(
            rates.refusals,
            [
                ("no_route".to_owned(), 180.0),
                ("wrong_password".to_owned(), 10.0),
                ("malformed".to_owned(), 4.0),
                ("loop".to_owned(), 2.0),
            ]
        );
        assert_eq!(rates.messages, [800.0; 10]);
        // A server that was started again is not compared with the one before.
        let again = figures(1_000, 0);
        assert_eq!(seen(Some(&now), &again).per_s, Rates::default());
    }

    #[test]
    fn what_a_stuck_worker_does_not_say_is_a_dash_and_no_0() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let said = runtime.block_on(in_time(std::future::ready(Ok(0))));
        let stuck = runtime.block_on(in_time(std::future::pending()));
        let line = |gateways| {
            let now = Figures {
                gateways,
                gateways_passed_over: gateways,
                ..figures(10_000, 1)
            };
            let picture = seen(None, &now).picture("x");
            let mut lines = picture.lines();
            let line = lines.find(|line| line.starts_with("gateways")).unwrap();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line(said), "gateways 0 passed over 0");
        assert_eq!(line(stuck), "gateways - passed over -");
    }

    #[test]
    fn a_picture_fits_a_small_terminal_and_shows_a_dash_for_what_is_not_known() {
        let (before, now) = (figures(10_000, 1), figures(12_000, 5));
        let title = format!("on {}\x1b[2J", "x".repeat(100));
        for before in [None, Some(&before)] {
            let picture = seen(before, &now).picture(&title);
            assert!(
                picture.lines().all(|line| line.chars().count() <= 80),
                "{picture}"
            );
            assert!(!picture.contains('\x1b'), "{picture}");
            assert!(picture.lines().count() <= LINES, "{picture}");
            assert!(picture.contains("and 6 more"), "{picture}");
            assert_eq!(picture.contains("6.0/s"), before.is_some(), "{picture}");
            assert_eq!(picture.contains("-/s"), before.is_none(), "{picture}");
            let others = "2 other reasons";
            assert_eq!(picture.contains(others), before.is_some(), "{picture}");
        }
    }
}
