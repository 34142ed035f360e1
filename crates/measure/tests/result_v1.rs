//! A file of version 1 that was written once must be read for ever.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use measure::{CompareConfig, RunResult, Verdict, compare, terminal};

fn sample() -> RunResult {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/result-v1.json");
    RunResult::read(&path).unwrap()
}

#[test]
fn every_part_is_read() {
    let result = sample();
    assert_eq!((result.format.as_str(), result.version), ("signet-load", 1));
    assert_eq!(result.started_unix_ms, 1_790_000_000_000);
    assert_eq!(result.host.cores, 2);
    assert_eq!(result.settings["rate"], "50/s");
    assert_eq!(result.duration_ns, 4_000_000_000);
    let f = &result.figures;
    assert_eq!(
        (
            f.invites,
            f.invites_ok,
            f.invites_redirected,
            f.invites_failed
        ),
        (200, 187, 4, 9)
    );
    assert_eq!(
        (
            f.invites_declined,
            f.invites_ineffective,
            f.byes,
            f.completed
        ),
        (4, 5, 187, 187)
    );
    assert_eq!(
        (f.registers, f.registers_ok, f.requests["OPTIONS"].ok),
        (1, 1, 1)
    );
    let srd = f.srd.summary();
    assert_eq!(
        (srd.count, srd.intended.p50_us, srd.intended.max_us),
        (187, 264, 2_425)
    );
    assert_eq!((srd.actual.p50_us, srd.actual.max_us), (196, 2_377));
    assert_eq!(
        (f.sdd.count(), f.sdt.count(), f.srd_failed.count()),
        (187, 187, 8)
    );
    assert_eq!(
        result.ratios,
        f.ratios(),
        "as written, and as worked out again"
    );
    assert_eq!(result.ratios.scr_percent, Some(93.5));
    assert_eq!(
        (
            result.causes.status(503),
            result.causes.status(486),
            result.causes.named("timeout")
        ),
        (4, 4, 1)
    );
    assert_eq!((result.handshakes.full, result.handshakes.resumed), (1, 1));
    assert_eq!(
        (
            result.retransmissions.lost,
            result.retransmissions.late,
            result.retransmissions.received
        ),
        (1, 2, 1)
    );
    assert_eq!(
        (result.health.kernel_drops, result.health.self_peak_per_s),
        (2, Some(20_000.0))
    );
    assert_eq!(result.health.threads[0].name, "load-0");
    assert_eq!(result.doubts, result.health.doubts());
    assert_eq!((result.valid, result.interrupted), (false, false));
    let crossed: Vec<bool> = result.thresholds.iter().map(|t| t.crossed).collect();
    assert_eq!(crossed, [false, true]);
    assert_eq!(
        (result.watched[0].pid, result.watched[0].peak.pss_bytes),
        (4_711, Some(12_000_000))
    );
    assert_eq!(result.counters["calls_refused"], 1);
    assert_eq!(result.series.len(), 4);
    let second = result.series[2];
    assert_eq!(
        (second.at_s, second.succeeded, second.failed, second.p99_us),
        (2, 46, 3, 2_431)
    );
    assert_eq!(second.watched_cpu_ns, Some(2_100_000));
}

#[test]
fn nothing_in_the_file_is_lost_when_it_is_written_again() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/result-v1.json");
    let old: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let new = serde_json::to_value(sample()).unwrap();
    let mut lost = Vec::new();
    walk("", &old, &new, &mut lost);
    assert!(lost.is_empty(), "{lost:?}");
}

/// Everything in `old` is in `new`; `new` may have more.
fn walk(at: &str, old: &serde_json::Value, new: &serde_json::Value, lost: &mut Vec<String>) {
    use serde_json::Value;
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in old {
                walk(
                    &format!("{at}.{key}"),
                    value,
                    new.get(key).unwrap_or(&Value::Null),
                    lost,
                );
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (i, (old, new)) in old.iter().zip(new).enumerate() {
                walk(&format!("{at}[{i}]"), old, new, lost);
            }
        }
        _ if old == new => {}
        _ => lost.push(format!("{at}: {old} became {new}")),
    }
}

#[test]
fn it_can_be_shown_and_compared() {
    let result = sample();
    assert!(terminal::table(&result).contains("SER 95.41%"));
    let comparison = compare(&result, &result, &CompareConfig::default());
    let row = comparison.row("ser").unwrap();
    // Four seconds are too few for any verdict but this.
    assert_eq!((row.a, row.verdict), (row.b, Verdict::TooNoisy));
}
