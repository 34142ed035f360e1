use super::*;
use crate::series::Second;

/// A run of `seconds` with delays around `delay_us`, each second off by `noise`
/// (a share), of which `memory` stays from second to second.
fn run(seed: u64, seconds: u64, delay_us: f64, noise: f64, memory: f64) -> RunResult {
    let mut random = Random::new(seed.wrapping_mul(0x1234_5678_9abc_def1));
    let mut level = 0.0;
    let series: Vec<Second> = (0..seconds)
        .map(|at_s| {
            level = memory * level + (1.0 - memory * memory).sqrt() * random.normal();
            let factor = (1.0 + noise * level).max(0.05);
            Second {
                at_s,
                due: 1_000,
                started: 1_000,
                succeeded: 1_000,
                mean_us: delay_us * factor,
                p50_us: (delay_us * factor) as u64,
                p99_us: (3.0 * delay_us * factor) as u64,
                watched_cpu_ns: Some((40_000_000.0 * factor) as u64),
                ..Second::default()
            }
        })
        .collect();
    RunResult {
        series,
        ..RunResult::default()
    }
}

fn verdict(a: &RunResult, b: &RunResult, name: &str) -> Verdict {
    let config = CompareConfig {
        resamples: 500,
        ..CompareConfig::default()
    };
    compare(a, b, &config).row(name).unwrap().verdict
}

/// How many of `trials` pairs get this verdict.
fn count(trials: u64, expected: Verdict, pair: impl Fn(u64) -> (RunResult, RunResult)) -> u64 {
    (0..trials)
        .filter(|&trial| {
            let (a, b) = pair(trial);
            verdict(&a, &b, "delay p50") == expected
        })
        .count() as u64
}

#[test]
fn two_draws_of_one_distribution_are_the_same() {
    for (seconds, noise, memory) in [
        (12, 0.03, 0.0),
        (30, 0.05, 0.0),
        (30, 0.03, 0.5),
        (120, 0.10, 0.3),
        (600, 0.10, 0.7),
    ] {
        let same = count(200, Verdict::Same, |trial| {
            (
                run(2 * trial, seconds, 20_000.0, noise, memory),
                run(2 * trial + 1, seconds, 20_000.0, noise, memory),
            )
        });
        assert!(
            same >= 190,
            "{seconds} s, noise {noise}, memory {memory}: {same} of 200"
        );
    }
}

#[test]
fn no_figure_of_two_draws_changes_by_chance() {
    // All rows together, over many pairs: each may err in 1% of the pairs.
    let config = CompareConfig {
        resamples: 500,
        ..CompareConfig::default()
    };
    let changed = (0..200u64)
        .filter(|&trial| {
            let a = run(1_000 + 2 * trial, 60, 5_000.0, 0.08, 0.4);
            let b = run(1_001 + 2 * trial, 60, 5_000.0, 0.08, 0.4);
            compare(&a, &b, &config).any_change()
        })
        .count();
    assert!(changed <= 6, "{changed} of 200");
}

#[test]
fn a_shift_of_five_percent_with_little_noise_is_a_change() {
    for (seconds, noise, memory) in [
        (12, 0.01, 0.0),
        (30, 0.02, 0.0),
        (60, 0.02, 0.5),
        (300, 0.05, 0.3),
    ] {
        let slower = |trial| {
            (
                run(2 * trial, seconds, 20_000.0, noise, memory),
                run(2 * trial + 1, seconds, 21_000.0, noise, memory),
            )
        };
        let worse = count(100, Verdict::Worse, slower);
        assert!(
            worse >= 95,
            "{seconds} s, noise {noise}, memory {memory}: {worse} of 100"
        );
        let better = count(100, Verdict::Better, |trial| {
            let (a, b) = slower(trial);
            (b, a)
        });
        assert!(
            better >= 95,
            "{seconds} s, noise {noise}, memory {memory}: {better} of 100"
        );
    }
}

#[test]
fn heavy_noise_is_told_as_such() {
    for shift in [1.0, 1.05] {
        let noisy = count(100, Verdict::TooNoisy, |trial| {
            (
                run(2 * trial, 30, 20_000.0, 0.5, 0.3),
                run(2 * trial + 1, 30, 20_000.0 * shift, 0.5, 0.3),
            )
        });
        assert!(noisy >= 95, "shift {shift}: {noisy} of 100");
    }
}

#[test]
fn a_large_change_shows_through_noise() {
    let worse = count(100, Verdict::Worse, |trial| {
        (
            run(2 * trial, 60, 20_000.0, 0.3, 0.0),
            run(2 * trial + 1, 60, 40_000.0, 0.3, 0.0),
        )
    });
    assert!(worse >= 95, "{worse} of 100");
}

#[test]
fn a_difference_that_does_not_matter_is_no_change() {
    // 1% and no noise to speak of.
    let (a, b) = (
        run(1, 60, 20_000.0, 0.001, 0.0),
        run(2, 60, 20_200.0, 0.001, 0.0),
    );
    assert_eq!(verdict(&a, &b, "delay p50"), Verdict::Same);
}

#[test]
fn the_rule_of_the_verdict_is_a_table() {
    let config = CompareConfig::default();
    let noise = Noise {
        a: Vec::new(),
        b: Vec::new(),
        config: &config,
    };
    let what = |wish, points| Compared {
        name: "x",
        unit: "",
        wish,
        points,
    };
    use Verdict::{Better, Same, TooNoisy, Worse};
    // Difference, its interval, whether the ranks differ, and the verdict where
    // less is better.
    let table = [
        (0.05, 0.01, 0.09, true, Worse),
        (-0.05, -0.09, -0.01, true, Better),
        // The ranks do not agree with the interval.
        (0.05, 0.01, 0.09, false, TooNoisy),
        // The interval has 0 in it.
        (0.05, -0.01, 0.09, true, Same),
        (0.05, -0.01, 0.11, true, TooNoisy),
        (0.05, -0.11, 0.09, true, TooNoisy),
        // Certain, and too small to matter.
        (0.01, 0.009, 0.011, true, Same),
        (0.00, f64::NEG_INFINITY, f64::INFINITY, false, TooNoisy),
    ];
    for (difference, low, high, differ, expected) in table {
        let less = noise.verdict(&what(Wish::Less, false), difference, low, high, differ);
        assert_eq!(less, expected, "{difference} {low} {high} {differ}");
        let more = noise.verdict(&what(Wish::More, false), difference, low, high, differ);
        let turned = match expected {
            Worse => Better,
            Better => Worse,
            other => other,
        };
        assert_eq!(more, turned, "{difference} {low} {high} {differ}");
        // Ten times as many percentage points: 0.1 matter, within 1 is the same.
        let points = noise.verdict(
            &what(Wish::Less, true),
            difference * 10.0,
            low * 10.0,
            high * 10.0,
            differ,
        );
        let expected = if difference == 0.01 { Worse } else { expected };
        assert_eq!(
            points, expected,
            "{difference} {low} {high} {differ} in points"
        );
    }
}

#[test]
fn a_short_run_says_nothing() {
    let (a, b) = (
        run(1, 6, 20_000.0, 0.001, 0.0),
        run(2, 6, 40_000.0, 0.001, 0.0),
    );
    let comparison = compare(&a, &b, &CompareConfig::default());
    assert_eq!(
        comparison.row("delay p50").unwrap().verdict,
        Verdict::TooNoisy
    );
    assert!(
        comparison.warnings[0].contains("run it for at least 10 s"),
        "{:?}",
        comparison.warnings
    );
    let none = compare(&RunResult::default(), &a, &CompareConfig::default());
    assert!(none.row("delay p50").is_none());
}

#[test]
fn a_result_is_the_same_as_itself_and_the_seed_repeats() {
    let a = run(1, 30, 20_000.0, 0.2, 0.0);
    let b = run(2, 30, 20_000.0, 0.2, 0.0);
    let config = CompareConfig::default();
    assert!(!compare(&a, &a, &config).any_change());
    assert_eq!(compare(&a, &b, &config), compare(&a, &b, &config));
}

#[test]
fn more_of_a_rate_is_better_and_more_cpu_is_worse() {
    let a = run(1, 30, 20_000.0, 0.01, 0.0);
    let mut b = run(2, 30, 20_000.0, 0.01, 0.0);
    for second in &mut b.series {
        second.succeeded = 1_200;
        second.watched_cpu_ns = second.watched_cpu_ns.map(|ns| ns * 2);
    }
    assert_eq!(verdict(&a, &b, "rate"), Verdict::Better);
    assert_eq!(verdict(&b, &a, "rate"), Verdict::Worse);
    assert_eq!(verdict(&a, &b, "watched cpu per call"), Verdict::Worse);
    assert!(
        compare(&a, &b, &CompareConfig::default())
            .row("own cpu per call")
            .is_none()
    );
}

/// Failures in every second, drawn with probability `share`.
fn failing(seed: u64, share: f64, burst: bool) -> RunResult {
    let mut result = run(seed, 60, 20_000.0, 0.02, 0.0);
    let mut random = Random::new(seed ^ 0xf00d);
    for second in &mut result.series {
        // In bursts: one second in five fails five times as much.
        let share = match (burst, random.unit() < 0.2) {
            (false, _) => share,
            (true, true) => 5.0 * share,
            (true, false) => 0.0,
        };
        second.failed = (0..1_000).filter(|_| random.unit() <= share).count() as u64;
        second.succeeded = 1_000 - second.failed;
        result.figures.invites += 1_000;
        result.figures.invites_failed += second.failed;
        result.figures.invites_ok += second.succeeded;
    }
    result
}

#[test]
fn ratios_are_compared_in_points() {
    let config = CompareConfig::default();
    for trial in 0..20 {
        let comparison = compare(
            &failing(2 * trial, 0.01, false),
            &failing(2 * trial + 1, 0.03, false),
            &config,
        );
        for name in ["failed", "ser"] {
            let row = comparison.row(name).unwrap();
            assert_eq!(row.verdict, Verdict::Worse, "{row:?}");
            assert!((row.difference.abs() - 2.0).abs() < 0.4, "{row:?}");
        }
    }
    let perfect = failing(1, 0.0, false);
    let row = compare(&perfect, &failing(2, 0.0, false), &config);
    assert_eq!(row.row("ser").unwrap().verdict, Verdict::Same);
    assert_eq!(row.row("failed").unwrap().verdict, Verdict::Same);
}

#[test]
fn failures_in_bursts_are_noisier_than_failures_by_chance() {
    let changed = |burst: bool| {
        (0..50u64)
            .filter(|&trial| {
                let comparison = compare(
                    &failing(2 * trial, 0.01, burst),
                    &failing(2 * trial + 1, 0.01, burst),
                    &CompareConfig::default(),
                );
                ["ser", "failed"].iter().any(|name| {
                    matches!(
                        comparison.row(name).unwrap().verdict,
                        Verdict::Worse | Verdict::Better
                    )
                })
            })
            .count()
    };
    assert!(changed(false) <= 3, "{}", changed(false));
    assert!(changed(true) <= 3, "{}", changed(true));
}

#[test]
fn percentiles_of_the_run_borrow_the_noise_of_the_seconds() {
    let filled = |seed: u64, noise: f64, us: u64| {
        let mut result = run(seed, 60, us as f64, noise, 0.0);
        for i in 0..1_000 {
            result.figures.srd.record(0, 0, (us + i % 10) * 1_000);
        }
        result
    };
    let config = CompareConfig::default();
    let steady = compare(&filled(1, 0.01, 20_000), &filled(2, 0.01, 22_000), &config);
    assert_eq!(steady.row("srd_p50").unwrap().verdict, Verdict::Worse);
    let noisy = compare(&filled(1, 0.5, 20_000), &filled(2, 0.5, 22_000), &config);
    assert_eq!(noisy.row("srd_p50").unwrap().verdict, Verdict::TooNoisy);
    assert!(noisy.row("rrd_p50").is_none(), "nothing was registered");
}

#[test]
fn warnings_name_what_differs() {
    let mut a = run(1, 30, 20_000.0, 0.01, 0.0);
    let mut b = run(2, 30, 20_000.0, 0.01, 0.0);
    a.settings =
        serde_json::json!({"rate": 2000, "tls": {"version": "1.3", "resume": true}, "to": "x"});
    b.settings = serde_json::json!({"rate": 3000, "tls": {"version": "1.2", "resume": true}});
    b.host.cores = 8;
    b.health.kernel_drops = 3;
    b.conclude(&[]);
    let comparison = compare(&a, &b, &CompareConfig::default());
    let all = comparison.warnings.join("\n");
    for part in [
        "rate is 2000 in A, 3000 in B",
        "tls.version is \"1.3\" in A, \"1.2\" in B",
        "to is \"x\" in A, null in B",
        "B is in doubt (kernel drops)",
        "The machines differ",
    ] {
        assert!(all.contains(part), "{part} in {all}");
    }
    assert!(!all.contains("resume"), "{all}");
    assert!(
        compare(&a, &a, &CompareConfig::default())
            .warnings
            .is_empty()
    );
}

#[test]
fn a_run_that_drifts_is_called_unsteady() {
    let mut a = run(1, 60, 20_000.0, 0.01, 0.0);
    for second in &mut a.series {
        second.p50_us += second.at_s * 500;
    }
    let comparison = compare(&a, &a, &CompareConfig::default());
    assert!(
        comparison.warnings[0].contains("A is not steady"),
        "{:?}",
        comparison.warnings
    );
}

#[test]
fn the_table_fits_and_has_every_row() {
    let mut a = failing(1, 0.01, false);
    let mut b = failing(2, 0.03, true);
    b.series
        .iter_mut()
        .for_each(|s| s.p50_us = s.p50_us * 3_000_000 + 1);
    a.series.iter_mut().for_each(|s| s.retransmissions = 0);
    b.series
        .iter_mut()
        .for_each(|s| s.retransmissions = 100_000);
    let mut short = compare(&a, &b, &CompareConfig::default());
    short.warnings.push("a word ".repeat(40));
    let zero = run(5, 5, 0.0, 0.0, 0.0);
    for comparison in [short, compare(&zero, &a, &CompareConfig::default())] {
        let table = comparison.table();
        for row in &comparison.rows {
            let found = table
                .lines()
                .any(|line| line.starts_with(&row.name) && line.ends_with(row.verdict.words()));
            assert!(found, "{} in\n{table}", row.name);
        }
        assert!(
            table.lines().all(|line| line.chars().count() <= 80),
            "{table}"
        );
    }
    let nothing = compare(
        &RunResult::default(),
        &RunResult::default(),
        &CompareConfig::default(),
    );
    assert!(
        nothing.table().contains("no figure that both"),
        "{}",
        nothing.table()
    );
}

/// The same load, and then `seconds` in which nothing is due and one call fails in some.
fn waited_for(seed: u64, seconds: u64) -> RunResult {
    let mut result = run(seed, 20, 20_000.0, 0.01, 0.0);
    result.health.sending_ns = 20_000_000_000;
    result.figures.invites = 20_000;
    for at_s in 20..20 + seconds {
        let failed = u64::from(at_s % 5 == 0);
        result.figures.invites_failed += failed;
        result.series.push(Second {
            at_s,
            failed,
            ..Second::default()
        });
    }
    result.figures.invites_ok = result.figures.invites - result.figures.invites_failed;
    result
}

#[test]
fn the_seconds_after_the_last_arrival_are_no_load() {
    let (a, b) = (waited_for(1, 0), waited_for(2, 30));
    let comparison = compare(&a, &b, &CompareConfig::default());
    for name in ["rate", "failed", "failed of all", "delay p50"] {
        let row = comparison.row(name).unwrap();
        assert_eq!(row.verdict, Verdict::Same, "{row:?}");
    }
    assert_eq!(comparison.row("rate").unwrap().b, 1_000.0);
    assert_eq!(comparison.row("failed").unwrap().b, 0.0);
    assert!(comparison.row("failed of all").unwrap().b > 0.0);
}

/// Whether or not one failed before the others ended.
#[test]
fn calls_that_end_after_the_last_arrival_alone_are_compared_by_when_they_end() {
    let held = |seed: u64, failed: u64| {
        let mut result = run(seed, 30, 20_000.0, 0.01, 0.0);
        result.health.sending_ns = 30_000_000_000;
        for second in &mut result.series {
            second.at_s += 60;
        }
        for at_s in (0..60).rev() {
            let second = Second {
                at_s,
                failed: if at_s == 5 { failed } else { 0 },
                ..Second::default()
            };
            result.series.insert(0, second);
        }
        result
    };
    for (of_a, of_b) in [(0, 0), (1, 0), (1, 1)] {
        let (a, b) = (held(1, of_a), held(2, of_b));
        let comparison = compare(&a, &b, &CompareConfig::default());
        for name in ["rate", "failed"] {
            let row = comparison.row(name).unwrap();
            assert_ne!(row.verdict, Verdict::Worse, "{of_a} {of_b} {row:?}");
        }
        let rate = comparison.row("rate").unwrap();
        assert!(rate.a > 0.0 && rate.b > 0.0, "{rate:?}");
    }
}

#[test]
fn a_run_in_which_nothing_ended_well_is_worse_beside_one_with_a_late_end() {
    let (a, mut b) = (waited_for(1, 30), waited_for(2, 0));
    for second in &mut b.series {
        (second.failed, second.succeeded) = (second.succeeded, 0);
    }
    let comparison = compare(&a, &b, &CompareConfig::default());
    let row = comparison.row("rate").unwrap();
    assert_eq!((row.a, row.b), (1_000.0, 0.0), "{row:?}");
    assert_eq!(row.verdict, Verdict::Worse, "{row:?}");
}

/// A timer that runs out after the last arrival is in no second that counts.
#[test]
fn what_failed_after_the_last_arrival_is_in_a_figure_of_the_whole_run() {
    let (a, mut b) = (waited_for(1, 0), waited_for(2, 30));
    b.figures.invites_failed += 400;
    b.figures.invites_ok -= 400;
    b.series.last_mut().unwrap().failed += 400;
    let comparison = compare(&a, &b, &CompareConfig::default());
    assert_eq!(comparison.row("failed").unwrap().verdict, Verdict::Same);
    let row = comparison.row("failed of all").unwrap();
    assert_eq!(row.verdict, Verdict::Worse, "{row:?}");
    assert!(comparison.any_worse());
}

#[test]
fn a_second_with_little_in_it_weighs_little() {
    let a = run(1, 30, 20_000.0, 0.01, 0.0);
    let mut b = run(2, 30, 20_000.0, 0.01, 0.0);
    for second in b.series.iter_mut().filter(|second| second.at_s % 10 == 5) {
        (second.started, second.succeeded, second.failed) = (1, 0, 1);
        second.retransmissions = 6;
    }
    let comparison = compare(&a, &b, &CompareConfig::default());
    for name in ["failed", "retransmissions"] {
        let row = comparison.row(name).unwrap();
        assert!(row.b < 0.1, "{row:?}");
        assert_eq!(row.verdict, Verdict::Same, "{row:?}");
    }
}
