//! A result as a page: one file, readable without anything else.

mod drawn;
mod terms;

use std::path::Path;

use measure::{Latency, LatencySummary, RunResult, Sample};
use serde_json::{Value, json};
use signet_page::{PageError, Pages, number};

/// The page of a result.
///
/// # Errors
/// Where the template is wrong, which a test would find.
pub fn render(result: &RunResult) -> Result<String, PageError> {
    let pages = Pages::new(&[("load.html", include_str!("load.html"))])?;
    let delays = delays(result);
    let charts: Vec<String> = drawn::figures(result)
        .iter()
        .map(signet_page::chart::Figure::html)
        .collect();
    let values = json!({
        "result": Head::of(result),
        "lead": lead(result),
        "doubts": result.doubts.iter().map(|doubt| &doubt.sentence).collect::<Vec<_>>(),
        "thresholds": result.thresholds.iter().map(|verdict| json!({
            "text": verdict.to_string(),
            "failed": verdict.failed(),
        })).collect::<Vec<_>>(),
        "charts": charts,
        "delays": delays,
        "ratios": ratios(result),
        "causes": causes(result),
        "retransmissions": result.retransmissions,
        "sent_again": result.retransmissions.sent(),
        "handshakes": {
            "full": result.handshakes.full,
            "resumed": result.handshakes.resumed,
            "failed": result.handshakes.failed,
            "refused": result.handshakes.resumption_refused,
        },
        "watched": watched(result),
        "generator": generator(result),
        "settings": flat("", &result.settings),
        "counters": result.counters,
    });
    pages.render("load.html", values)
}

/// Writes the page of a result.
///
/// # Errors
/// Names the file.
pub fn write(result: &RunResult, path: &Path) -> Result<(), String> {
    let page = render(result).map_err(|error| error.to_string())?;
    measure::file::write_text(path, &page)
}

/// What head and foot of the page say.
#[derive(serde::Serialize)]
struct Head<'a> {
    command: &'a str,
    program_version: &'a str,
    started_unix_s: u64,
    host: &'a measure::Host,
    valid: bool,
    interrupted: bool,
    /// The server, or how the load went without one.
    to: String,
}

impl<'a> Head<'a> {
    fn of(result: &'a RunResult) -> Self {
        let server = result.settings.get("server").and_then(Value::as_str);
        let is_straight = result.settings.get("straight_to_itself") == Some(&Value::Bool(true));
        let to = match server {
            Some(server) => format!("to {server}"),
            None if is_straight => "straight to itself".to_owned(),
            None => String::new(),
        };
        Self {
            command: &result.command,
            program_version: &result.program_version,
            started_unix_s: result.started_unix_ms / 1_000,
            host: &result.host,
            valid: result.valid,
            interrupted: result.interrupted,
            to,
        }
    }
}

/// The run in a sentence or two.
fn lead(result: &RunResult) -> String {
    let figures = &result.figures;
    let seconds = result.duration_ns as f64 / 1e9;
    let (ended, well) = (figures.ended(), figures.succeeded());
    let failed = result.causes.total();
    let mut text = format!(
        "In {} s {} {} well, {} a second",
        number::figure(seconds),
        number::count(well),
        if well == 1 {
            "attempt ended"
        } else {
            "attempts ended"
        },
        number::figure(result.rate_per_s())
    );
    if failed == 0 {
        text.push_str(", and none failed.");
    } else {
        let share = failed as f64 / ended.max(1) as f64;
        text.push_str(&format!(
            "; {} failed, {}.",
            number::count(failed),
            number::percent(share)
        ));
    }
    if let Some((term, latency)) = main_delay(result) {
        let delay = latency.summary().intended;
        text.push_str(&format!(
            " Of the {}, half took at most {}, 99% at most {}.",
            terms::spelt(term),
            number::microseconds(delay.p50_us as f64),
            number::microseconds(delay.p99_us as f64)
        ));
    }
    text
}

/// All delays of a result by their names in [`terms`], in the order of a call.
fn latencies(result: &RunResult) -> Vec<(&str, &Latency)> {
    let f = &result.figures;
    let mut all: Vec<(&str, &Latency)> = vec![
        ("RRD", &f.rrd),
        ("SRD", &f.srd),
        ("SRD of failures", &f.srd_failed),
        ("set-up", &f.setup),
        ("SDD", &f.sdd),
        ("SDD of failures", &f.sdd_failed),
        ("SDT", &f.sdt),
        ("SDT of failures", &f.sdt_failed),
        ("full handshake", &result.handshakes.full_delay),
        ("resumed handshake", &result.handshakes.resumed_delay),
    ];
    all.extend(f.requests.iter().map(|(name, r)| (name.as_ref(), &r.delay)));
    all.retain(|(_, latency)| latency.count() > 0);
    all
}

/// The delay that the run was about: of calls, else of registrations, else the first.
fn main_delay(result: &RunResult) -> Option<(&str, &Latency)> {
    let all = latencies(result);
    ["SRD", "RRD"]
        .iter()
        .find_map(|wanted| all.iter().find(|(name, _)| name == wanted))
        .or(all.first())
        .copied()
}

fn delays(result: &RunResult) -> Vec<Value> {
    latencies(result)
        .into_iter()
        .map(|(name, latency)| {
            let LatencySummary {
                count,
                intended,
                actual,
            } = latency.summary();
            // From the send only where that tells another story.
            let is_other = actual.p99_us.abs_diff(intended.p99_us) * 20 > actual.p99_us;
            json!({
                "name": name,
                "term": terms::meaning(name),
                "count": count,
                "intended": intended,
                "actual": is_other.then_some(actual),
            })
        })
        .collect()
}

fn ratios(result: &RunResult) -> Vec<Value> {
    let ratios = &result.ratios;
    [
        ("IRA", ratios.ira_percent),
        ("SER", ratios.ser_percent),
        ("SEER", ratios.seer_percent),
        ("ISA", ratios.isa_percent),
        ("SCR", ratios.scr_percent),
    ]
    .into_iter()
    .filter_map(|(name, percent)| {
        Some(json!({ "name": name, "term": terms::meaning(name), "share": percent? / 100.0 }))
    })
    .collect()
}

fn causes(result: &RunResult) -> Vec<Value> {
    let total = result.causes.total().max(1) as f64;
    result
        .causes
        .ranked()
        .into_iter()
        .map(|(name, count)| json!({ "name": name, "count": count, "share": count as f64 / total }))
        .collect()
}

/// Each watched process for itself, and all together where there are several.
fn watched(result: &RunResult) -> Vec<Value> {
    let wall_ns = result.duration_ns.max(1) as f64;
    let calls = result.figures.succeeded();
    let row = |name: String, cpu_ns: u64, peak: &Sample| {
        json!({
            "name": name,
            "cores": cpu_ns as f64 / wall_ns,
            "us_each": (calls > 0).then(|| cpu_ns as f64 / 1e3 / calls as f64),
            "bytes": peak.memory_bytes(),
            "threads": peak.threads,
        })
    };
    let each = result.processes.iter();
    let each = each.map(|p| row(format!("{} ({})", p.name, p.pid), p.cpu_ns, &p.peak));
    let all = result
        .watched
        .iter()
        .map(|all| match result.processes.len() {
            0 => row(format!("{} ({})", all.name, all.pid), all.cpu_ns, &all.peak),
            _ => row("together".to_owned(), all.cpu_ns, &all.peak),
        });
    // One alone is all.
    let all = all.filter(|_| result.processes.len() != 1);
    each.chain(all).collect()
}

/// What the generator says of itself, in lines.
fn generator(result: &RunResult) -> Vec<(&'static str, String)> {
    let health = &result.health;
    let wall_ns = health.wall_ns.max(1) as f64;
    let late = |us: f64| number::microseconds(us);
    let mut lines = vec![
        (
            "arrivals",
            format!(
                "{} due, {} sent",
                number::count(health.due),
                number::count(health.sent)
            ),
        ),
        (
            "left late by",
            format!(
                "{} (median), {} (99%), {} at most",
                late(health.behind_schedule.p50_us as f64),
                late(health.behind_schedule.p99_us as f64),
                late(health.behind_max_ns as f64 / 1e3)
            ),
        ),
        (
            "CPU",
            format!(
                "{} cores of {}",
                number::figure(health.own_cpu_ns as f64 / wall_ns),
                health.cores
            ),
        ),
    ];
    if let Some((name, share)) = health.busiest_thread() {
        lines.push((
            "busiest thread",
            format!("{name}, {} of a core", number::percent(share)),
        ));
    }
    lines.push((
        "dropped",
        format!(
            "{} datagrams by the kernel at its sockets, {} messages at its own queue",
            number::count(health.kernel_drops),
            number::count(health.send_queue_drops)
        ),
    ));
    lines.push(("reaches without a server", health.self_peak_note()));
    lines
}

/// Settings as lines of a name and a value; what is not set is left out.
fn flat(name: &str, value: &Value) -> Vec<(String, String)> {
    let joined = |key: &str| match name {
        "" => key.to_owned(),
        name => format!("{name}.{key}"),
    };
    match value {
        Value::Null => Vec::new(),
        Value::Object(map) => map
            .iter()
            .flat_map(|(key, value)| flat(&joined(key), value))
            .collect(),
        Value::Array(list) if list.is_empty() => Vec::new(),
        Value::String(text) => vec![(name.to_owned(), text.clone())],
        other => vec![(name.to_owned(), other.to_string())],
    }
}

#[cfg(test)]
mod tests;
