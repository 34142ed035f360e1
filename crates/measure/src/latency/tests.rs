use super::*;
use crate::pace::{Pacer, Schedule};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

/// Within the resolution of three digits.
fn near(us: u64, expected_us: u64) {
    let off = us.abs_diff(expected_us) as f64 / expected_us as f64;
    assert!(off <= 0.001, "{us} us is not {expected_us} us");
}

#[test]
fn known_delays_have_known_percentiles() {
    let mut latency = Latency::new();
    // 1 ms to 1,000 ms, each once.
    for ms in 1..=1_000 {
        latency.record(0, 0, ms * MS);
    }
    let summary = latency.summary();
    assert_eq!(summary.count, 1_000);
    assert_eq!(summary.intended, summary.actual);
    let q = summary.intended;
    for (us, expected_ms) in [
        (q.min_us, 1),
        (q.p50_us, 500),
        (q.p90_us, 900),
        (q.p95_us, 950),
        (q.p99_us, 990),
        (q.p999_us, 999),
        (q.max_us, 1_000),
    ] {
        near(us, expected_ms * 1_000);
    }
    assert!((q.mean_us - 500_500.0).abs() < 500.0, "{}", q.mean_us);
    near(latency.intended_us(25.0), 250_000);
    near(latency.actual_us(75.0), 750_000);
}

#[test]
fn the_two_starting_points_are_kept_apart() {
    let mut latency = Latency::new();
    latency.record(100 * MS, 130 * MS, 150 * MS);
    let summary = latency.summary();
    near(summary.intended.p50_us, 50_000);
    near(summary.actual.p50_us, 20_000);
}

/// A generator that waits for each answer, and a server that answers in 1 ms
/// and stands still once, for two seconds. Says what was recorded.
fn stalled(stall_at_ns: u64, stall_ns: u64) -> Latency {
    let mut latency = Latency::new();
    let mut pacer = Pacer::new(&Schedule::constant(500.0, 10 * S));
    let mut free_at_ns = 0;
    while let Some(intended_ns) = pacer.next_due_ns() {
        pacer.take();
        let sent_ns = intended_ns.max(free_at_ns);
        let mut done_ns = sent_ns + MS;
        if (stall_at_ns..stall_at_ns + 2 * MS).contains(&sent_ns) && free_at_ns <= stall_at_ns {
            done_ns += stall_ns;
        }
        free_at_ns = done_ns;
        latency.record(intended_ns, sent_ns, done_ns);
    }
    latency
}

#[test]
fn a_stall_of_two_seconds_shows_in_full_from_the_intended_time() {
    let summary = stalled(4 * S, 2 * S).summary();
    assert_eq!(summary.count, 5_000);
    // From the send, one call of 5,000 saw the stall: coordinated omission.
    near(summary.actual.p99_us, 1_000);
    near(summary.actual.p999_us, 1_000);
    near(summary.actual.max_us, 2_001_000);
    // From the intended time everyone who called during the stall waited for
    // its end, and then behind those before him: 2 ms between arrivals and 1 ms
    // to serve one, so the queue is gone after 4 s, in which 2,000 called. The
    // delay of the k-th of them is 2001 ms - k ms.
    near(summary.intended.max_us, 2_001_000);
    near(summary.intended.p999_us, 1_996_000);
    near(summary.intended.p99_us, 1_951_000);
    near(summary.intended.p90_us, 1_501_000);
    near(summary.intended.p50_us, 1_000);
    // 2 s high and 4 s long: the area of the triangle over 5,000 calls.
    assert!(
        (summary.intended.mean_us - 401_400.0).abs() < 1_500.0,
        "{}",
        summary.intended.mean_us
    );
}

#[test]
fn without_a_stall_both_agree() {
    let summary = stalled(100 * S, 2 * S).summary();
    assert_eq!(summary.intended, summary.actual);
    near(summary.intended.max_us, 1_000);
}

#[test]
fn bounds_and_clocks_that_run_backwards() {
    let mut latency = Latency::new();
    latency.record(10, 10, 5);
    latency.record(0, 0, 400);
    latency.record(0, 0, u64::MAX);
    let q = latency.summary().intended;
    assert_eq!((q.min_us, latency.count()), (1, 3));
    near(q.max_us, MAX_US);
    // Rounding is to the nearest microsecond.
    let mut rounded = Latency::new();
    rounded.record(0, 1, 2_500);
    assert_eq!(rounded.summary().intended.min_us, 3);
    assert_eq!(rounded.summary().actual.min_us, 2);
}

#[test]
fn nothing_recorded_is_all_zero() {
    assert_eq!(Latency::new().summary(), LatencySummary::default());
}

#[test]
fn merged_threads_are_one_histogram() {
    let (mut a, mut b, mut all) = (Latency::new(), Latency::new(), Latency::new());
    for i in 0..1_000u64 {
        let (intended, sent, done) = (i * MS, i * MS + 50_000, i * MS + 300_000 + i * i * 1_000);
        if i % 3 == 0 { &mut a } else { &mut b }.record(intended, sent, done);
        all.record(intended, sent, done);
    }
    a.merge(&b);
    assert_eq!(a, all);
    assert_eq!(a.summary(), all.summary());
    a.clear();
    assert_eq!(a, Latency::new());
}

#[test]
fn json_gives_back_every_bucket() {
    let mut latency = Latency::new();
    for i in 0..20_000u64 {
        latency.record(0, i * 7, i * i * 13);
    }
    latency.record(0, 0, u64::MAX);
    let text = serde_json::to_string(&latency).unwrap();
    let back: Latency = serde_json::from_str(&text).unwrap();
    assert_eq!(back, latency);
    assert_eq!(back.summary(), latency.summary());
    assert_eq!(serde_json::to_string(&back).unwrap(), text);
}

#[test]
fn what_is_longer_than_a_bound_is_counted() {
    let mut latency = Latency::new();
    for ms in 1..=100 {
        // From the intended time, whatever the send was.
        latency.record(0, ms * 900_000, ms * 1_000_000);
    }
    for (us, longer) in [
        (0, 100),
        (500, 100),
        (1_000, 99),
        (50_100, 50),
        (99_000, 1),
        (100_000, 0),
        (u64::MAX, 0),
    ] {
        assert_eq!(latency.longer_than(us), longer, "{us}");
    }
    assert_eq!(Latency::new().longer_than(0), 0);
}

#[test]
fn damaged_json_is_refused() {
    let table = [
        (
            r#"{"intended_buckets":[[99999999999,1]],"actual_buckets":[[1,1]]}"#,
            "the longest is",
        ),
        (
            r#"{"intended_buckets":[[5,1]],"actual_buckets":[]}"#,
            "must hold as many",
        ),
        (
            r#"{"intended_buckets":[[5,18446744073709551615],[6,9]],"actual_buckets":[]}"#,
            "2^53",
        ),
        (r#"{"intended_buckets":[[5]]}"#, "length"),
    ];
    for (text, part) in table {
        let error = serde_json::from_str::<Latency>(text)
            .unwrap_err()
            .to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    assert_eq!(
        serde_json::from_str::<Latency>("{}").unwrap(),
        Latency::new()
    );
}
