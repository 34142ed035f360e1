//! The result as a table.

use std::fmt::Write;

use super::{COLUMNS, clip, delay, known, lateness, wrap};
use crate::answered::Answered;
use crate::latency::Latency;
use crate::result::RunResult;
use crate::threshold::ThresholdVerdict;
use crate::watch::Sample;

/// The result as text of at most 80 columns. What makes it invalid comes last,
/// where the operator looks.
pub fn table(result: &RunResult) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_all(&mut text, result);
    text
}

fn write_all(text: &mut String, result: &RunResult) -> std::fmt::Result {
    let f = &result.figures;
    let seconds = result.duration_ns as f64 / 1e9;
    writeln!(text, "{}", clip(&result.command, COLUMNS))?;
    // Who was only called began nothing that could have ended.
    let was_only_called = result.answered.is_some() && f.ended() == 0 && result.health.due == 0;
    if was_only_called {
        writeln!(text, "{seconds:.1} s")?;
    } else {
        let redirected = match f.invites_redirected {
            0 => String::new(),
            n => format!(", {n} redirected"),
        };
        writeln!(
            text,
            "{seconds:.1} s, {} ended well ({:.1}/s), {} failed{redirected}",
            f.succeeded(),
            result.rate_per_s(),
            f.failed()
        )?;
    }
    if result.health.unsent > 0 {
        writeln!(
            text,
            "{} of {} arrivals were not sent: the schedule ended first",
            result.health.unsent, result.health.due
        )?;
    }
    agents(text, result);
    for line in result.answered.iter().flat_map(Answered::lines) {
        writeln!(text, "{}", clip(&line, COLUMNS))?;
    }
    delays(text, result)?;
    ratios(text, result)?;
    causes(text, result)?;
    let r = &result.retransmissions;
    if r.sent() + r.received > 0 {
        writeln!(
            text,
            "sent again {}: lost {}, answered late {}, our own fault {}; received again {}",
            r.sent(),
            r.lost,
            r.late,
            r.ours,
            r.received
        )?;
    }
    let h = &result.handshakes;
    if h.full + h.resumed + h.failed > 0 {
        writeln!(
            text,
            "TLS handshakes: {} full, {} resumed, {} failed, {} resumptions refused",
            h.full, h.resumed, h.failed, h.resumption_refused
        )?;
    }
    watched(text, result);
    health(text, result)?;
    for verdict in &result.thresholds {
        text.push_str(&wrap(&verdict.to_string(), COLUMNS, "        "));
    }
    for doubt in &result.doubts {
        text.push_str(&wrap(
            &format!("! {}: {}", doubt.name, doubt.sentence),
            COLUMNS,
            "  ",
        ));
    }
    if !result.doubts.is_empty() {
        text.push_str("NOT VALID: the generator itself could have made this result.\n");
    }
    // Crossed it was, whoever made it so.
    if result.thresholds.iter().any(ThresholdVerdict::failed) {
        text.push_str("FAILED: a threshold was crossed.\n");
    }
    Ok(())
}

/// How many agents are missing, and why.
fn agents(text: &mut String, result: &RunResult) {
    let health = &result.health;
    if health.agents_missing == 0 {
        return;
    }
    let causes: Vec<String> = result
        .counters
        .iter()
        .filter_map(|(name, n)| Some(format!("{} ({n})", name.strip_prefix("upkeep: ")?)))
        .collect();
    let line = format!(
        "{} of {} agents did not come up or lost their registration: {}",
        health.agents_missing,
        health.agents,
        causes.join(", ")
    );
    text.push_str(&wrap(&line, COLUMNS, "  "));
}

/// A line for each watched process, and one for all together where they are several.
fn watched(text: &mut String, result: &RunResult) {
    let calls = result.figures.succeeded();
    let mut line = |who: &str, cpu_ns: u64, peak: &Sample| {
        let each = if calls > 0 {
            format!(", {:.1} us of CPU each", cpu_ns as f64 / 1e3 / calls as f64)
        } else {
            String::new()
        };
        let line = format!(
            "{who}: {:.1}% of a core{each}, {:.1} MiB, {} threads",
            cpu_ns as f64 * 100.0 / result.duration_ns.max(1) as f64,
            peak.memory_bytes() as f64 / (1 << 20) as f64,
            peak.threads
        );
        text.push_str(&wrap(&line, COLUMNS, "  "));
    };
    for process in &result.processes {
        let who = format!("process {} {}", process.pid, process.name);
        line(&who, process.cpu_ns, &process.peak);
    }
    for watched in &result.watched {
        let who = match result.processes.len() {
            // An older file has them together only.
            0 => format!("process {} {}", watched.pid, watched.name),
            1 => continue,
            several => format!("all {several} processes"),
        };
        line(&who, watched.cpu_ns, &watched.peak);
    }
}

fn delays(text: &mut String, result: &RunResult) -> std::fmt::Result {
    let f = &result.figures;
    let mut rows: Vec<(&str, &Latency)> = vec![
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
    rows.extend(f.requests.iter().map(|(name, r)| (name.as_ref(), &r.delay)));
    rows.retain(|(_, latency)| latency.count() > 0);
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(
        text,
        "{:<18}{:>9}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "delay", "count", "mean", "p50", "p99", "p99.9", "max"
    )?;
    for (name, latency) in rows {
        let summary = latency.summary();
        for (start, q) in [("", summary.intended), ("  from the send", summary.actual)] {
            // A second line only where the two tell different stories.
            if !start.is_empty() && q.p99_us.abs_diff(summary.intended.p99_us) * 20 <= q.p99_us {
                continue;
            }
            let (name, count) = if start.is_empty() {
                (clip(name, 17), summary.count.to_string())
            } else {
                (start.to_owned(), String::new())
            };
            writeln!(
                text,
                "{name:<18}{count:>9}{:>10}{:>10}{:>10}{:>10}{:>10}",
                delay(q.mean_us.round() as u64),
                delay(q.p50_us),
                delay(q.p99_us),
                delay(q.p999_us),
                delay(q.max_us)
            )?;
        }
    }
    Ok(())
}

fn ratios(text: &mut String, result: &RunResult) -> std::fmt::Result {
    let ratios = result.figures.ratios();
    let known: Vec<String> = [
        ("IRA", ratios.ira_percent),
        ("SER", ratios.ser_percent),
        ("SEER", ratios.seer_percent),
        ("ISA", ratios.isa_percent),
        ("SCR", ratios.scr_percent),
    ]
    .iter()
    .filter_map(|(name, value)| value.map(|value| format!("{name} {value:.2}%")))
    .collect();
    if known.is_empty() {
        return Ok(());
    }
    writeln!(text, "{}", known.join("   "))
}

fn causes(text: &mut String, result: &RunResult) -> std::fmt::Result {
    let ranked = result.causes.ranked();
    if ranked.is_empty() {
        return Ok(());
    }
    writeln!(text, "failures by cause")?;
    for (name, count) in ranked {
        writeln!(text, "{count:>12}  {}", clip(&name, COLUMNS - 14))?;
    }
    Ok(())
}

fn health(text: &mut String, result: &RunResult) -> std::fmt::Result {
    let health = &result.health;
    let late = lateness(health);
    let busiest = health.busiest_thread().map_or_else(
        || "unknown".to_owned(),
        |(_, share)| format!("{:.0}% of a core", share * 100.0),
    );
    let line = format!(
        "generator: behind p99 {}, max {}; busiest thread {busiest}; drops {} kernel, {} send \
         queue; self-peak {}",
        known(late, |(p99_us, _)| delay(p99_us)),
        known(late, |(_, max_us)| delay(max_us)),
        health.kernel_drops,
        health.send_queue_drops,
        health.self_peak_note()
    );
    text.push_str(&wrap(&line, COLUMNS, "  "));
    Ok(())
}
