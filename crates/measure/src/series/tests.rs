use super::*;

const MS: u64 = 1_000_000;

#[test]
fn a_second_is_handed_over_once_and_whole() {
    let mut recorder = SecondRecorder::new();
    for ms in 1..=100 {
        recorder.due();
        recorder.started();
        recorder.answered(0, ms * MS);
        recorder.succeeded();
    }
    recorder.failed();
    recorder.redirected();
    recorder.retransmitted();
    assert_eq!(
        recorder.turn(999_999_999, 5),
        None,
        "second 0 has not ended"
    );
    let part = recorder.turn(1_000 * MS, 7).unwrap();
    assert_eq!(
        (part.at_s, part.due, part.started, part.succeeded),
        (0, 100, 100, 100)
    );
    assert_eq!(
        (part.failed, part.retransmissions, part.in_flight),
        (1, 1, 7)
    );
    assert_eq!(part.redirected, 1);
    assert_eq!(recorder.turn(1_500 * MS, 7), None);
    // A thread that stood still hands over the second it was in, and goes on in
    // the second it is.
    recorder.started();
    let part = recorder.turn(4_200 * MS, 0).unwrap();
    assert_eq!((part.at_s, part.started, part.delays.len()), (1, 1, 0));
    assert_eq!(recorder.finish(0).at_s, 4);
}

#[test]
fn threads_are_added_up_before_percentiles_are_taken() {
    let (mut fast, mut slow) = (SecondRecorder::new(), SecondRecorder::new());
    for _ in 0..98 {
        fast.answered(0, MS);
        fast.succeeded();
    }
    for ms in [50, 90] {
        slow.answered(0, ms * MS);
        slow.succeeded();
    }
    slow.failed();
    slow.redirected();
    fast.redirected();
    let mut series = Series::new();
    series.add(&slow.finish(3));
    series.add(&fast.finish(4));
    let second = series.second(0).unwrap();
    assert_eq!(
        (second.succeeded, second.failed, second.in_flight),
        (100, 1, 7)
    );
    assert_eq!(second.redirected, 2);
    let near = |us: u64, ms: u64| us.abs_diff(ms * 1_000) * 100 <= ms * 1_000;
    assert!(near(second.p50_us, 1), "{second:?}");
    assert!(near(second.p99_us, 50), "{second:?}");
    assert!(near(second.max_us, 90), "{second:?}");
    assert!((second.mean_us - 2_380.0).abs() < 25.0, "{second:?}");
}

#[test]
fn seconds_come_in_order_and_gaps_stay_gaps() {
    let mut series = Series::new();
    for at_s in [3, 0, 1] {
        series.add(&SecondPart {
            at_s,
            started: at_s + 1,
            ..SecondPart::default()
        });
    }
    series.cpu(1, Some(5), None);
    let seconds = series.seconds();
    let at: Vec<(u64, u64)> = seconds.iter().map(|s| (s.at_s, s.started)).collect();
    assert_eq!(at, [(0, 1), (1, 2), (3, 4)]);
    assert_eq!(
        (seconds[1].watched_cpu_ns, seconds[1].own_cpu_ns),
        (Some(5), None)
    );
    assert_eq!((series.last_s(), series.second(2)), (Some(3), None));
}

#[test]
fn the_series_is_bounded() {
    let mut series = Series::new();
    for at_s in 0..SECONDS_MAX as u64 + 5 {
        series.add(&SecondPart {
            at_s,
            ..SecondPart::default()
        });
    }
    assert_eq!((series.seconds().len(), series.dropped()), (SECONDS_MAX, 5));
    series.add(&SecondPart::default());
    assert_eq!(
        series.dropped(),
        5,
        "a second that is there still takes parts"
    );
}

#[test]
fn old_seconds_are_settled_and_keep_their_percentiles() {
    let part = |at_s: u64, us: u64| SecondPart {
        at_s,
        succeeded: 10,
        delays: vec![(us, 10)],
        ..SecondPart::default()
    };
    let mut series = Series::new();
    series.add(&part(0, 1_000));
    series.add(&part(0, 3_000));
    let before = series.second(0).unwrap();
    for at_s in 1..=OPEN_S + 1 {
        series.add(&part(at_s, 500));
    }
    assert_eq!(series.second(0).unwrap(), before);
    assert_eq!(
        (before.p50_us, before.p99_us, before.mean_us),
        (1_000, 3_000, 2_000.0)
    );
    assert_eq!(
        series.open.len() as u64,
        OPEN_S + 1,
        "the first is settled, the rest is open"
    );
    // A part that comes too late counts, and is told.
    series.add(&part(0, 9_000));
    let after = series.second(0).unwrap();
    assert_eq!(
        (after.succeeded, after.p99_us, series.late()),
        (30, 3_000, 1)
    );
    assert_eq!(
        series.overall().map(|all| all.max_us),
        Some(9_000),
        "overall nothing is left out"
    );
}

#[test]
fn all_seconds_together() {
    assert_eq!(Series::new().overall(), None);
    let mut series = Series::new();
    for at_s in 0..1_000 {
        series.add(&SecondPart {
            at_s,
            delays: vec![((at_s + 1) * 1_000, 1)],
            ..SecondPart::default()
        });
    }
    let all = series.overall().unwrap();
    assert_eq!(
        (all.min_us, all.p50_us, all.p90_us),
        (1_000, 500_000, 900_000)
    );
    assert_eq!(
        (all.p99_us, all.p999_us, all.max_us),
        (990_000, 999_000, 1_000_000)
    );
    assert_eq!(all.mean_us, 500_500.0);
}

#[test]
fn a_call_answered_in_one_second_may_end_in_another() {
    let mut recorder = SecondRecorder::new();
    recorder.answered(0, 0);
    let first = recorder.turn(1_000 * MS, 1).unwrap();
    recorder.succeeded();
    let second = recorder.finish(0);
    let mut series = Series::new();
    series.add(&first);
    series.add(&second);
    let seconds = series.seconds();
    let delays: Vec<bool> = seconds.iter().map(Second::has_delays).collect();
    let ended: Vec<u64> = seconds.iter().map(|second| second.succeeded).collect();
    assert_eq!((delays, ended), (vec![true, false], vec![0, 1]));
}
