use super::*;
use proptest::prelude::*;

const S: u64 = 1_000_000_000;

fn times_ns(schedule: &Schedule) -> Vec<u64> {
    shared_ns(schedule, 0, 1)
}

fn shared_ns(schedule: &Schedule, index: u64, of: u64) -> Vec<u64> {
    let mut pacer = Pacer::share(schedule, index, of);
    let mut times = Vec::new();
    while let Some(due_ns) = pacer.next_due_ns() {
        times.push(due_ns);
        pacer.take();
        assert_eq!(pacer.taken(), times.len() as u64);
    }
    pacer.take();
    assert_eq!(pacer.next_due_ns(), None, "taking from nothing is nothing");
    assert_eq!(pacer.taken(), times.len() as u64);
    times
}

#[test]
fn arrivals_are_due_when_the_table_says() {
    const MS: u64 = S / 1_000;
    // Times in ms.
    let table: &[(&str, &[u64])] = &[
        (
            "10/s for 1s",
            &[0, 100, 200, 300, 400, 500, 600, 700, 800, 900],
        ),
        ("1/s for 1s", &[0]),
        ("2/s for 1200ms", &[0, 500, 1_000]),
        ("0.5/s for 5s", &[0, 2_000, 4_000]),
        ("120/min for 2s", &[0, 500, 1_000, 1_500]),
        // A phase without calls keeps the first one back.
        ("pause 2s; 1/s for 2s", &[2_000, 3_000]),
        (
            "1/s for 2s; pause 3s; 1/s for 2s",
            &[0, 1_000, 5_000, 6_000],
        ),
        (
            "steps 1,2,4/s each 2s",
            &[
                0, 1_000, 2_000, 2_500, 3_000, 3_500, 4_000, 4_250, 4_500, 4_750, 5_000, 5_250,
                5_500, 5_750,
            ],
        ),
        // What a phase leaves over counts in the next: half an arrival here.
        ("1/s for 1500ms, 1/s for 1s", &[0, 1_000, 2_000]),
        // 0.3 arrivals in each: the fourth phase brings the sum to 1.2.
        (
            "1/s for 300ms, 1/s for 300ms, 1/s for 300ms, 2/s for 300ms",
            &[0, 950],
        ),
        // N(t) = t^2/2 and N(t) = 2t - t^2/2.
        ("ramp 0..2/s over 2s", &[0, 1_414]),
        ("ramp 2..0/s over 2s", &[0, 586]),
    ];
    for (text, expected_ms) in table {
        let schedule = Schedule::parse(text).unwrap();
        let times_ms: Vec<u64> = times_ns(&schedule)
            .iter()
            .map(|ns| (ns + MS / 2) / MS)
            .collect();
        assert_eq!(times_ms, *expected_ms, "{text}");
        assert_eq!(schedule.expected(), expected_ms.len() as u64, "{text}");
    }
}

#[test]
fn a_ramp_is_exact_to_the_nanosecond_where_its_root_is_whole() {
    let up = times_ns(&Schedule::parse("ramp 0..10/s over 10s").unwrap());
    assert_eq!(up.len(), 50);
    // N(t) = t^2/2.
    for (number, at_s) in [(0, 0), (2, 2), (8, 4), (18, 6), (32, 8)] {
        assert_eq!(up[number], at_s * S, "arrival {number} up");
    }
    let down = times_ns(&Schedule::parse("ramp 10..0/s over 10s").unwrap());
    assert_eq!(down.len(), 50);
    // N(t) = 10t - t^2/2.
    for (number, at_s) in [(0, 0), (18, 2), (32, 4), (42, 6), (48, 8)] {
        assert_eq!(down[number], at_s * S, "arrival {number} down");
    }
    // N(t) = 100t + 50t^2 at 100..200/s over 1 s: N(0.2) = 22, N(0.4) = 48.
    let fast = times_ns(&Schedule::parse("ramp 100..200/s over 1s").unwrap());
    assert_eq!((fast.len(), fast[22], fast[48]), (150, S / 5, 2 * S / 5));
}

#[test]
fn sums_of_decimal_rates_bring_no_arrival_too_many() {
    // In binary these sums are a little more than the whole number.
    for (phase, times, arrivals) in [
        ("1/s for 100ms", 20, 2),
        ("1/s for 300ms", 40, 12),
        ("3/s for 200ms", 5, 3),
        ("7/s for 900ms", 30, 189),
        ("0.1/s for 10s", 30, 30),
    ] {
        let schedule = Schedule::parse(&vec![phase; times].join("; ")).unwrap();
        assert_eq!(times_ns(&schedule).len(), arrivals, "{times} times {phase}");
        assert_eq!(
            schedule.expected(),
            arrivals as u64,
            "{times} times {phase}"
        );
    }
    let long = Schedule::constant(0.7, 1_000 * S);
    assert_eq!(times_ns(&long).len(), 700);
    let day = Schedule::constant(1_000.0, 86_400 * S);
    assert_eq!(day.expected(), 86_400_000);
}

#[test]
fn no_drift_after_ten_million_arrivals() {
    let schedule = Schedule::constant(3_000.0, 3_600 * S);
    // Every millionth arrival, as one of a million threads would take.
    for (i, due_ns) in shared_ns(&schedule, 0, 1_000_000).into_iter().enumerate() {
        let exact_ns = (i as u128 * 1_000_000 * u128::from(S) + 1_500) / 3_000;
        assert!(
            u128::from(due_ns).abs_diff(exact_ns) <= 1,
            "arrival {i} million"
        );
    }
}

#[test]
fn the_limit_ends_it_for_all_threads_together() {
    let schedule = Schedule::constant(10.0, 10 * S).limit(7);
    assert_eq!(schedule.expected(), 7);
    assert_eq!(times_ns(&schedule).len(), 7);
    let parts: usize = (0..3).map(|i| shared_ns(&schedule, i, 3).len()).sum();
    assert_eq!(parts, 7);
    assert!(times_ns(&schedule.clone().limit(0)).is_empty());
    assert_eq!(
        times_ns(&schedule.limit(1_000_000)).len(),
        100,
        "the phases end first"
    );
}

#[test]
fn poisson_arrivals_have_the_rate_and_the_spread_of_poisson() {
    let schedule = Schedule::constant(1_000.0, 100 * S).poisson(42);
    let times = times_ns(&schedule);
    // Mean 100,000, deviation 316.
    assert!((98_700..=101_300).contains(&times.len()), "{}", times.len());
    let gaps_ns: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // Half of all exponential gaps are below ln 2 of the mean; 1/e^3 above three.
    let share = |below_ns: u64| {
        gaps_ns.iter().filter(|&&gap| gap < below_ns).count() as f64 / gaps_ns.len() as f64
    };
    assert!((share(693_147) - 0.5).abs() < 0.01);
    assert!((share(3_000_000) - (1.0 - 0.0498)).abs() < 0.005);
    // Counts in a tenth of a second have a variance equal to their mean.
    let mut counts = vec![0.0f64; 1_000];
    for &at in &times {
        counts[(at / (S / 10)) as usize] += 1.0;
    }
    let mean = counts.iter().sum::<f64>() / 1_000.0;
    let variance = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / 999.0;
    assert!(
        (0.85..1.15).contains(&(variance / mean)),
        "{}",
        variance / mean
    );
}

#[test]
fn poisson_follows_a_ramp_and_its_seed() {
    let schedule = Schedule::parse("ramp 0..1000/s over 10s; pause 5s; 100/s for 5s").unwrap();
    let times = times_ns(&schedule.clone().poisson(7));
    assert_eq!(times, times_ns(&schedule.clone().poisson(7)));
    assert_ne!(times, times_ns(&schedule.clone().poisson(8)));
    let within = |from_s: u64, to_s: u64| {
        times
            .iter()
            .filter(|&&t| (from_s * S..to_s * S).contains(&t))
            .count()
    };
    // N = 50 t^2: 1,250 in the first half, 3,750 in the second, 500 at the end.
    assert!((1_100..1_400).contains(&within(0, 5)), "{}", within(0, 5));
    assert!((3_500..4_000).contains(&within(5, 10)), "{}", within(5, 10));
    assert_eq!(within(10, 15), 0, "a pause has no arrivals");
    assert!((400..600).contains(&within(15, 20)), "{}", within(15, 20));
}

#[test]
fn what_is_due_is_taken_in_order() {
    let mut pacer = Pacer::new(&Schedule::constant(10.0, S));
    assert_eq!(pacer.take_due(0), Some(0));
    assert_eq!(pacer.take_due(0), None);
    assert_eq!(pacer.take_due(99_999_999), None);
    // After a stall everything that was due in it comes, with its own time.
    let late: Vec<u64> = std::iter::from_fn(|| pacer.take_due(350_000_000)).collect();
    assert_eq!(late, [100_000_000, 200_000_000, 300_000_000]);
    assert_eq!(pacer.next_due_ns(), Some(400_000_000));
}

#[test]
fn the_rate_at_any_time() {
    let schedule = Schedule::parse("100/s for 10s; ramp 100..300/s over 10s; pause 1s").unwrap();
    for (at_s, rate) in [
        (0, 100.0),
        (9, 100.0),
        (10, 100.0),
        (15, 200.0),
        (20, 0.0),
        (21, 0.0),
        (99, 0.0),
    ] {
        assert_eq!(schedule.rate_at(at_s * S), rate, "at {at_s} s");
    }
    assert_eq!(schedule.duration_ns(), 21 * S);
    assert_eq!(schedule.rate_max_per_s(), 300.0);
}

#[test]
fn texts_that_mean_the_same() {
    let same: &[(&str, &str)] = &[
        ("2000/s for 30s", "  2k/s   for 0.5min "),
        ("ramp 100..2000/s over 60s", "ramp 100 .. 2000 /s over 1m"),
        ("ramp 0.5..1.5/s over 60s", "ramp 30..90/min over 60s"),
        (
            "steps 100,200,400/s each 10s",
            "100/s for 10s; 200/s for 10s, 400/s for 10s",
        ),
        ("1/s for 90s", "60/min for 1m30s;"),
        ("1/s for 1h", "3600/h for 3600s"),
    ];
    for (a, b) in same {
        assert_eq!(Schedule::parse(a), Schedule::parse(b), "{a} and {b}");
    }
}

#[test]
fn mistakes_are_told_with_their_column_and_the_remedy() {
    let table = [
        ("", 1, "expected \"2000/s for 30s\""),
        ("fast", 1, "expected \"2000/s for 30s\""),
        ("2000 for 30s", 6, "\"/s\""),
        ("2000/d for 30s", 6, "\"s\", \"min\" or \"h\""),
        ("2000/s", 7, "\"for\""),
        ("2000/s over 30s", 8, "\"for\""),
        ("2000/s for 30", 14, "30s, 30ms, 30min or 30h"),
        ("2000/s for 30 s", 14, "needs a unit"),
        ("2000/s for 0s", 12, "at least 1ms"),
        ("2000/s for 9999999h", 12, "hundred days"),
        ("100000000/s for 1s", 1, "highest rate"),
        ("-5/s for 1s", 1, "expected"),
        ("ramp 100-200/s over 1s", 9, "\"..\""),
        ("ramp 100../s over 1s", 11, "the last rate"),
        ("ramp 1..2/s for 1s", 13, "\"over\""),
        ("steps 1,,2/s each 1s", 9, "the next step's rate"),
        ("steps 1,2/s 1s", 13, "\"each\""),
        ("1/s for 1s 2/s for 1s", 12, "expected \";\""),
        ("1/s for 1s; x", 13, "expected"),
        ("\u{e9}1/s for 1s", 1, "expected"),
        ("1/s for 1s; \u{e9}", 13, "expected"),
    ];
    for (text, column, part) in table {
        let error = Schedule::parse(text).unwrap_err();
        assert_eq!(error.column, column, "{text}: {error}");
        assert!(error.message.contains(part), "{text}: {error}");
    }
}

#[test]
fn phases_are_bounded() {
    let steps = |n: usize| format!("steps {}/s each 1s", vec!["1"; n].join(","));
    let joined = |n: usize| vec!["1/s for 1s"; n].join(";");
    for text in [steps(PHASES_MAX), joined(PHASES_MAX)] {
        assert_eq!(
            Schedule::parse(&text).unwrap().as_phases().len(),
            PHASES_MAX
        );
    }
    for text in [steps(PHASES_MAX + 1), joined(PHASES_MAX + 1)] {
        let error = Schedule::parse(&text).unwrap_err();
        assert!(error.message.contains("use a ramp"), "{error}");
    }
}

#[test]
fn rates_and_durations_alone() {
    assert_eq!(parse_rate_per_s("2000"), Ok(2_000.0));
    assert_eq!(parse_rate_per_s("1.5k/s"), Ok(1_500.0));
    assert_eq!(parse_rate_per_s("600/min"), Ok(10.0));
    assert_eq!(parse_rate_per_s("0"), Ok(0.0));
    for wrong in ["", "x", "5/", "5/s x", "1e9/s", "99999999/s", "."] {
        assert!(parse_rate_per_s(wrong).is_err(), "{wrong:?}");
    }
    assert_eq!(parse_duration_ns("250us"), Ok(250_000));
    assert_eq!(parse_duration_ns("1h1m1s"), Ok(3_661 * S));
    for wrong in ["", "5", "s", "5d", "1s x", "0ms"] {
        assert!(parse_duration_ns(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn rates_out_of_bounds_are_bounded() {
    assert!(times_ns(&Schedule::constant(f64::NAN, S)).is_empty());
    assert!(times_ns(&Schedule::constant(-1.0, S)).is_empty());
    assert!(times_ns(&Schedule::constant(1.0, 0)).is_empty());
    assert_eq!(
        Schedule::constant(f64::INFINITY, S).rate_at(0),
        RATE_MAX_PER_S
    );
    assert_eq!(
        Schedule::constant(1.0, u64::MAX).duration_ns(),
        DURATION_MAX_NS
    );
    assert_eq!(Schedule::constant(f64::INFINITY, S).expected(), 10_000_000);
}

prop_compose! {
    fn phases()(list in prop::collection::vec((1u64..3_000, 0u32..200, 0u32..200, any::<bool>()), 1..6)) -> Schedule {
        Schedule::phases(list.into_iter().map(|(ms, from, to, flat)| Phase {
            duration_ns: ms * 1_000_000,
            from_per_s: f64::from(from) / 2.0,
            to_per_s: f64::from(if flat { from } else { to }) / 2.0,
        }))
    }
}

proptest! {
    #[test]
    fn shares_are_together_the_whole(schedule in phases(), seed in any::<u64>(), of in 1u64..5, poisson in any::<bool>()) {
        let schedule = if poisson { schedule.poisson(seed) } else { schedule };
        let mut parts: Vec<u64> = (0..of).flat_map(|i| shared_ns(&schedule, i, of)).collect();
        parts.sort_unstable();
        let whole = times_ns(&schedule);
        prop_assert!(whole.is_sorted());
        prop_assert!(whole.iter().all(|&t| t <= schedule.duration_ns()));
        prop_assert_eq!(parts, whole);
    }

    #[test]
    fn as_many_arrivals_as_the_integral(schedule in phases()) {
        prop_assert_eq!(times_ns(&schedule).len() as u64, schedule.expected());
    }

    #[test]
    fn no_text_panics(text in ".{0,40}") {
        let _ = (Schedule::parse(&text), parse_rate_per_s(&text), parse_duration_ns(&text));
    }

    #[test]
    fn no_text_of_its_words_panics(words in prop::collection::vec(
        prop::sample::select(vec!["ramp", "steps", "pause", "for", "each", "over", "..", ",", ";", "/s", "/", "1", "99", "0.5", "k", "s", "ms", " ", "1s"]), 0..14)) {
        let _ = Schedule::parse(&words.concat());
        let _ = Schedule::parse(&words.join(" "));
    }
}

/// What is taken and what is given up are together the schedule, wherever it is cut.
#[test]
fn what_is_given_up_is_counted() {
    let ramp = Schedule::parse("ramp 100..2000/s over 3s; pause 1s; 333.3/s for 1.7s").unwrap();
    for schedule in [
        ramp.clone(),
        ramp.clone().limit(1_234),
        ramp.clone().poisson(7),
        ramp.poisson(7).limit(1_234),
    ] {
        for of in [1, 3] {
            for cut_ns in [0, 1_000_000_000, 3_500_000_000, 6_000_000_000] {
                for index in 0..of {
                    let walk = |until_ns: u64| {
                        let mut pacer = Pacer::share(&schedule, index, of);
                        while pacer.take_due(until_ns).is_some() {}
                        pacer
                    };
                    let all = walk(u64::MAX).taken();
                    let mut cut = walk(cut_ns);
                    let taken = cut.taken();
                    assert_eq!(
                        taken + cut.give_up(),
                        all,
                        "{schedule:?}, share {index} of {of}, at {cut_ns}"
                    );
                    assert_eq!((cut.next_due_ns(), cut.give_up()), (None, 0));
                }
            }
        }
    }
}

#[test]
fn what_is_given_up_of_millions_is_counted_without_walking_them() {
    // A hundred days: nobody could walk these in a test.
    let endless = Schedule::constant(1_000_000.0, DURATION_MAX_NS);
    let mut pacer = Pacer::new(&endless);
    pacer.take();
    assert_eq!(pacer.give_up(), 100 * 24 * 3_600 * 1_000_000 - 1);
    let mut pacer = Pacer::share(&endless.poisson(3), 1, 2);
    let expected = 100.0 * 24.0 * 3_600.0 * 500_000.0;
    assert!((pacer.give_up() as f64 / expected - 1.0).abs() < 1e-4);
}

#[test]
fn a_schedule_is_over_with_its_time_or_with_its_arrivals() {
    let whole = Schedule::parse("20/s for 10s").unwrap();
    assert_eq!(whole.ends_ns(), 10 * S);
    for (limit, ends_ns) in [(0, 0), (20, S), (199, 9_950_000_000), (1_000, 10 * S)] {
        assert_eq!(whole.clone().limit(limit).ends_ns(), ends_ns, "{limit}");
    }
    let endless = whole.clone().poisson(3).limit(u64::MAX);
    assert_eq!(endless.ends_ns(), 10 * S);
    let of_poisson = whole.poisson(3).limit(40).ends_ns();
    assert!((0..10 * S).contains(&of_poisson), "{of_poisson}");
}
