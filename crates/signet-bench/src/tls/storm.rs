//! Ten thousand phones with standing connections break them off and come back
//! at once, while calls go over connections that stand; then the server is
//! started anew, and they come back again.

use std::time::{Duration, Instant};

use super::idle::{SETUP_PER_S, wait_for_connections};
use super::load::{Calls, Phones};
use super::record::Figure;
use super::servers::{Listen, Plan, metric, metrics};
use super::{Bench, Kind, Server, ports};
use crate::aims::Relation;
use crate::told::Told;

const RATE: u64 = 500;
/// Connections on which the calls go.
const CALLERS: usize = 50;
/// Seconds from the beginning of the phones' run, when all are up, to the storm.
const STORM_AT_S: u64 = 6;

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), String> {
    if !bench.wants(Server::Signet) {
        return Ok(());
    }
    storm(bench, "storm-resumed", true)?;
    storm(bench, "storm-full", false)?;
    let get = |bench: &Bench<'_>, what| bench.record.median("storm-resumed", "signet", what);
    let failed = get(bench, "calls_failed");
    let p99 = get(bench, "setup_p99_ms");
    let share = get(bench, "resumed_after_restart_percent");
    let rests_on = ["storm-resumed"];
    let relation = (Relation::AtMost, 0.0);
    bench.record.bar(
        (
            "storm",
            "calls that failed while phones that resume come back",
        ),
        failed,
        relation,
        &rests_on,
    );
    bench.record.bar(
        (
            "storm",
            "set-up delay of 99% of the calls from their intended time meanwhile, ms",
        ),
        p99,
        (Relation::LessThan, 50.0),
        &rests_on,
    );
    bench.record.bar(
        ("storm", "phones that resume after a restart, percent"),
        share,
        (Relation::AtLeast, 95.0),
        &rests_on,
    );
    Ok(())
}

fn storm(bench: &mut Bench<'_>, case: &str, resumes: bool) -> Result<(), String> {
    let plan = Plan {
        listens: vec![Listen::Tls(Kind::Rsa2048), Listen::Tls(Kind::P256)],
        next: "tcp",
    };
    let count = bench.sized(10_000, 300);
    let process = bench.start(Server::Signet, &plan, false)?;
    let before = process.open_files();
    let at = format!("{STORM_AT_S}s");
    let resume = if resumes { "all" } else { "none" };
    let mut phones = bench.phones(&Phones {
        name: "phone",
        net: 10,
        count,
        port: bench.tls_port(Kind::Rsa2048),
        setup_per_s: SETUP_PER_S,
        more: ["--resume", resume, "--abrupt", "--storm-at", &at]
            .map(str::to_owned)
            .to_vec(),
    })?;
    wait_for_connections(&process, before + count, &mut phones)?;
    let storm_at = Instant::now() + Duration::from_secs(STORM_AT_S);
    let seconds = if bench.arguments.quick { 10 } else { 24 };
    let calls = bench.call(&Calls {
        transport: "tls",
        port: bench.tls_port(Kind::P256),
        answers: "tcp",
        connection: "per-agent",
        rate: RATE,
        seconds,
        more: vec![
            "--agents".to_owned(),
            CALLERS.to_string(),
            "--user".to_owned(),
            "caller{n}".to_owned(),
        ],
    })?;
    // The calls have begun well before it, and are warm.
    let calls_begun = Instant::now();
    let calls_told = calls.end()?;
    // Once to come up, and once to come back.
    wait_for_handshakes(bench, 2 * count as u64, &mut phones)?;
    std::thread::sleep(Duration::from_secs(1));
    let storm_second = storm_at.saturating_duration_since(calls_begun).as_secs();
    let page = metrics(bench.port(ports::METRICS))?;
    let refused = metric(
        &page,
        "signet_tls_listener_failed_total",
        "reason=\"refused\"",
    );

    let restarted = if resumes {
        drop(process);
        Some(restart(bench, &plan, count, &mut phones)?)
    } else {
        None
    };
    let outcome = Outcome {
        calls: calls_told,
        storm_second,
        phones: phones.stop()?,
        refused,
        restarted,
    };
    record(bench, case, count, &outcome)
}

/// What came of a storm.
struct Outcome {
    calls: Told,
    /// The second of the calls' run in which the phones broke off.
    storm_second: u64,
    phones: Told,
    /// Handshakes that the server refused.
    refused: u64,
    /// What [`restart`] gave, where the server was started anew.
    restarted: Option<(u64, u64, f64)>,
}

/// Records its figures. It fails if not all the phones came back.
fn record(
    bench: &mut Bench<'_>,
    case: &str,
    count: usize,
    outcome: &Outcome,
) -> Result<(), String> {
    let Outcome { calls, phones, .. } = outcome;
    let add = |bench: &mut Bench<'_>, what, value: f64, load: Option<Told>| {
        bench.record.add(Figure {
            case: case.to_owned(),
            server: Server::Signet.name(),
            what,
            value,
            repeat: 0,
            load,
        });
    };
    let back_ms = phones.counter("storm_connected_last_ms");
    let (p99_ms, of_seconds) = p99_of_storm(calls, outcome.storm_second, back_ms);
    add(bench, "calls_failed", calls.failed as f64, None);
    add(bench, "setup_p99_ms", p99_ms, Some(calls.clone()));
    add(bench, "setup_p99_of_seconds", of_seconds as f64, None);
    let whole_ms = calls.setup_p99_us as f64 / 1e3;
    add(bench, "setup_p99_of_whole_run_ms", whole_ms, None);
    let max_ms = calls.setup_max_us as f64 / 1e3;
    add(bench, "setup_max_ms", max_ms, None);
    add(bench, "handshakes_refused", outcome.refused as f64, None);
    for (what, name) in [
        ("phones_dropped", "storm_dropped"),
        ("phones_resumed", "storm_resumed"),
        ("phones_full", "storm_full"),
        ("phones_tries_failed", "storm_tries_failed"),
        ("phones_registered", "storm_registered"),
        ("last_connected_ms", "storm_connected_last_ms"),
        ("last_registered_ms", "storm_registered_last_ms"),
    ] {
        add(bench, what, phones.counter(name) as f64, None);
    }
    let back = phones.counter("storm_resumed") + phones.counter("storm_full");
    if back < count as u64 {
        return Err(format!("only {back} of {count} phones came back"));
    }
    if let Some((full, resumed, seconds)) = outcome.restarted {
        let share = resumed as f64 * 100.0 / (full + resumed).max(1) as f64;
        add(bench, "resumed_after_restart_percent", share, None);
        add(bench, "all_back_after_restart_s", seconds, None);
        let before = phones.counter("storm_resumed");
        let by_phones = phones.handshakes_resumed.saturating_sub(before);
        add(
            bench,
            "resumed_after_restart_phones",
            by_phones as f64,
            None,
        );
    }
    Ok(())
}

/// Starts the server anew with the same data, and waits until all phones are
/// back. Gives the server's count of full and resumed handshakes, and how long
/// it took.
fn restart(
    bench: &Bench<'_>,
    plan: &Plan,
    count: usize,
    phones: &mut super::Load,
) -> Result<(u64, u64, f64), String> {
    let begun = Instant::now();
    let process = bench.start(Server::Signet, plan, true)?;
    let (full, resumed) = wait_for_handshakes(bench, count as u64, phones)?;
    let seconds = begun.elapsed().as_secs_f64();
    drop(process);
    Ok((full, resumed, seconds))
}

/// Waits until the server has done so many handshakes with phones; gives how
/// many were full and how many resumed.
fn wait_for_handshakes(
    bench: &Bench<'_>,
    count: u64,
    phones: &mut super::Load,
) -> Result<(u64, u64), String> {
    let name = "signet_tls_listener_handshakes_total";
    let listener = format!("127.0.0.1:{}\"", bench.tls_port(Kind::Rsa2048));
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let page = metrics(bench.port(ports::METRICS))?;
        let of = |kind: &str| metric(&page, name, &format!("{listener},kind=\"{kind}\""));
        let (full, resumed) = (of("full"), of("resumed"));
        if full + resumed >= count {
            return Ok((full, resumed));
        }
        phones.must_run()?;
        if Instant::now() > until {
            return Err(format!(
                "only {full} full and {resumed} resumed handshakes of {count}: phones do not come back"
            ));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The worst 99th percentile of a second in which phones came back, in
/// milliseconds, and how many such seconds there were.
fn p99_of_storm(told: &Told, storm_second: u64, back_ms: u64) -> (f64, usize) {
    let until = storm_second + back_ms / 1_000 + 2;
    let seconds = told.between(storm_second.saturating_sub(1), until + 1);
    let p99: Vec<u64> = seconds.map(|second| second.p99_us).collect();
    let worst = p99.iter().max().copied().unwrap_or(u64::MAX);
    (worst as f64 / 1e3, p99.len())
}
