//! What records say of peaks beside what calls cost below them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod small;

use std::path::Path;

use signet_bed::experiment::{Checked, Experiment, Load, Outside};
use signet_bed::record::{Bound, CaseResult, Record, Repeat, Tried, figure};
use small::{HEAD, cpu, experiment, near, peak, record, repeat, result};

fn checked(results: Vec<CaseResult>) -> Vec<Checked> {
    let experiment = experiment("");
    let check = experiment.cross_check.as_ref().unwrap();
    check.check(&experiment, &record(results))
}

#[test]
fn peaks_are_held_against_costs_at_the_common_rate() {
    let checked = checked(vec![
        cpu("chain.tcp", &[50.0]),
        peak("chain.tcp", 16_000.0, 1.0, 0.8),
        cpu("chain.tls", &[100.0]),
        peak("chain.tls", 12_500.0, 0.9, 0.8),
        // Only one of the two: no row.
        cpu("outbound.tcp", &[100.0]),
    ]);
    assert_eq!(checked.len(), 1);
    let [tcp, tls] = &checked[0].rows[..] else {
        panic!("{checked:?}");
    };
    // A core over 50 us, whatever the server took at the peak.
    near(tcp.expected_per_s, 20_000.0);
    near(tcp.error, 0.25);
    near(tls.expected_per_s, 10_000.0);
    near(tls.error, 0.2);
    near(checked[0].error_mean.unwrap(), 0.225);
    assert_eq!(checked[0].drawn_out_error_mean, None, "one rate is no line");
    let small = experiment("");
    let check = small.cross_check.as_ref().unwrap();
    assert_eq!(check.check(&small, &Record::default()), Vec::new());
}

/// What is expected does not move with what is found: a search that ends at half of the peak
/// shows, while the server is said to be full there.
#[test]
fn a_wrong_peak_shows() {
    let with_peak = |rate: f64| {
        let results = vec![
            cpu("chain.tcp", &[50.0]),
            peak("chain.tcp", rate, 0.95, 0.5),
        ];
        checked(results).remove(0)
    };
    near(with_peak(20_000.0).rows[0].expected_per_s, 20_000.0);
    near(with_peak(10_000.0).rows[0].expected_per_s, 20_000.0);
    near(with_peak(10_000.0).error_mean.unwrap(), 1.0);
}

/// Held to half of its core a server is full at half a core, and that is what calls use up.
#[test]
fn a_peak_of_a_share_is_held_against_that_share() {
    let held = |cores: f64, shares: &[Option<f64>]| {
        let mut peak = peak("chain.tcp", 9_800.0, cores, 0.5);
        let one = peak.repeats.remove(0);
        peak.repeats.extend(shares.iter().map(|share| Repeat {
            server_share: *share,
            ..one.clone()
        }));
        checked(vec![cpu("chain.tcp", &[50.0]), peak]).remove(0)
    };
    let half = held(0.49, &[Some(0.5)]);
    near(half.rows[0].cores, 0.5);
    near(half.rows[0].expected_per_s, 10_000.0);
    assert_eq!(half.rows[0].outside, None);
    // Of a whole core it is not full, nor is it at less than its share.
    for not_full in [held(0.49, &[None]), held(0.4, &[Some(0.5)])] {
        assert_eq!(not_full.rows[0].outside, Some(Outside::Neither));
    }
    // The middle of two machines is no peak of either.
    let both = held(0.49, &[Some(0.5), None]);
    assert_eq!((both.rows.len(), both.of_all), (0, 1), "{both:?}");
}

#[test]
fn a_peak_at_which_the_server_was_not_full_does_not_count() {
    let with_peak = |peak: CaseResult| checked(vec![cpu("chain.tcp", &[50.0]), peak]).remove(0);
    let of_load = with_peak(peak("chain.tcp", 10_000.0, 0.5, 0.95));
    assert_eq!(of_load.rows[0].outside, Some(Outside::Load));
    assert_eq!(of_load.error_mean, None);
    let of_neither = with_peak(peak("chain.tcp", 10_000.0, 0.5, 0.5));
    assert_eq!(of_neither.rows[0].outside, Some(Outside::Neither));
    let mut marked = peak("chain.tcp", 10_000.0, 0.92, 0.8);
    marked.repeats[0].bound = Some(Bound::Load);
    marked.repeats[0]
        .doubts
        .push("the load was full".to_owned());
    assert_eq!(with_peak(marked).rows[0].outside, Some(Outside::Load));
}

#[test]
fn a_peak_that_does_not_repeat_has_its_row_and_no_part_of_the_mean() {
    let of_peaks = |rates: &[f64], change: &dyn Fn(&mut Repeat)| {
        let mut twice = peak("chain.tcp", rates[0], 1.0, 0.5);
        let one = twice.repeats.remove(0);
        for rate in rates {
            let mut repeat = one.clone();
            repeat.figures.insert(figure::RATE_PER_S.to_owned(), *rate);
            change(&mut repeat);
            twice.repeats.push(repeat);
        }
        let results = vec![
            cpu("chain.tcp", &[1e6 / 1_310.0]),
            twice,
            cpu("chain.tls", &[100.0]),
            peak("chain.tls", 10_000.0, 0.95, 0.5),
            // Asked for, and without a peak.
            cpu("outbound.tcp", &[100.0]),
            result("outbound.tcp", true, Vec::new()),
        ];
        let checked = checked(results).remove(0);
        assert_eq!((checked.rows.len(), checked.of_all), (2, 3), "{checked:?}");
        near(checked.rows[0].expected_per_s, 1_310.0);
        checked
    };
    let nothing = |_: &mut Repeat| {};
    let settled = of_peaks(&[1_250.0, 1_300.0], &nothing);
    assert_eq!(settled.rows[0].outside, None);
    assert!(settled.error_mean.unwrap() > 0.01);
    // One of two searches ended far too early.
    let apart = of_peaks(&[1_000.0, 1_300.0], &nothing);
    assert_eq!(apart.rows[0].outside, Some(Outside::NotSettled));
    near(apart.rows[0].found_per_s, 1_150.0);
    assert!(apart.error_mean.unwrap() < 1e-9);
    let doubted = of_peaks(&[1_250.0, 1_300.0], &|repeat| {
        repeat.doubts.push("No rate above it failed.".to_owned());
    });
    assert_eq!(doubted.rows[0].outside, Some(Outside::InDoubt));
    near(doubted.rows[0].found_per_s, 1_275.0);
    let early = of_peaks(&[1_250.0, 1_300.0], &|repeat| {
        repeat.held_per_s = Some(1_300.0);
        repeat.not_held = Some(Tried {
            per_s: 1_800.0,
            ..Tried::default()
        });
    });
    assert_eq!(early.rows[0].outside, Some(Outside::EndedEarly));
}

#[test]
fn nothing_is_expected_of_a_server_whose_cores_are_not_known() {
    let mut foreign = peak("chain.tcp", 10_000.0, 1.6, 0.7);
    foreign.repeats[0].is_foreign = true;
    let checked = checked(vec![cpu("chain.tcp", &[160.0]), foreign]).remove(0);
    assert!(checked.is_foreign && checked.rows.is_empty());
    assert_eq!(checked.error_mean, None);
}

#[test]
fn each_case_has_the_first_of_the_common_rates_that_it_was_measured_at() {
    let head = HEAD
        .replace("rates_per_s = [100]", "rates_per_s = [100, 20]")
        .replace("rate_per_s = 100\nerror", "rate_per_s = [100, 20]\nerror");
    let experiment = Experiment::from_text(Path::new("small.toml"), &head).unwrap();
    let check = experiment.cross_check.as_ref().unwrap();
    let at_20 = |id: &str, us: f64| {
        let mut result = cpu(id, &[us]);
        if let Load::Rate { per_s, .. } = &mut result.load {
            *per_s = 20.0;
        }
        result
    };
    let results = vec![
        at_20("chain.tcp", 80.0),
        cpu("chain.tcp", &[50.0]),
        peak("chain.tcp", 20_000.0, 1.0, 0.5),
        at_20("outbound.tls", 2_000.0),
        peak("outbound.tls", 400.0, 1.0, 0.5),
    ];
    let rows = check.check(&experiment, &record(results)).remove(0).rows;
    let told: Vec<(f64, f64)> = rows
        .iter()
        .map(|row| (row.common_per_s, row.cost_us))
        .collect();
    assert_eq!(told, [(100.0, 50.0), (20.0, 2_000.0)]);
}

#[test]
fn two_rates_let_a_peak_be_expected_where_wake_ups_make_few_calls_dear() {
    // A tenth of a core for being woken up, and 50 us for each call.
    let cores = |rate: f64| 0.1 + rate * 50e-6;
    let at = |rate: f64, is_peak: bool| {
        let figures = [
            (figure::RATE_PER_S, rate),
            (figure::SERVER_CORES, cores(rate)),
            (figure::SERVER_CPU_US, cores(rate) / rate * 1e6),
        ];
        let mut result = result("chain.tcp", is_peak, vec![repeat(&figures)]);
        if let Load::Rate { per_s, .. } = &mut result.load {
            *per_s = rate;
        }
        result
    };
    let rates = [at(4_000.0, false), at(100.0, false), at(9_000.0, false)];
    // At 17,000 the server is nearly full, and says little of what a call costs.
    let nearly = at(17_000.0, false);
    let results = rates.into_iter().chain([nearly, at(17_500.0, true)]);
    let checked = checked(results.collect());
    let row = &checked[0].rows[0];
    let drawn_out = row.drawn_out.unwrap();
    assert_eq!(
        (drawn_out.low_per_s, drawn_out.high_per_s),
        (4_000.0, 9_000.0)
    );
    near(drawn_out.expected_per_s, 18_000.0);
    near(drawn_out.error, 500.0 / 17_500.0);
    assert!(row.error > 0.9, "the cost at 100/s is mostly of wake-ups");
    near(checked[0].drawn_out_error_mean.unwrap(), 500.0 / 17_500.0);
}

#[test]
fn shares_of_a_peak_let_it_be_expected() {
    let tried = |rate: f64, cores: f64| Tried {
        per_s: rate,
        figures: [
            (figure::RATE_PER_S.to_owned(), rate),
            (figure::SERVER_CORES.to_owned(), cores),
        ]
        .into(),
        ..Tried::default()
    };
    let with = |below: Vec<Tried>| {
        let mut peak = peak("chain.tcp", 10_000.0, 0.95, 0.5);
        peak.repeats[0].below = below;
        checked(vec![cpu("chain.tcp", &[250.0]), peak]).remove(0)
    };
    // A tenth of a core for being woken up, and 80 us for each call: 11,250 a second.
    let found = with(vec![tried(5_000.0, 0.5), tried(7_500.0, 0.7)]);
    let drawn_out = found.rows[0].drawn_out.unwrap();
    near(drawn_out.expected_per_s, 11_250.0);
    near(found.drawn_out_error_mean.unwrap(), 0.125);
    // Of one that was held twice the line goes through the middle.
    let thrice = vec![
        tried(5_000.0, 0.5),
        tried(7_500.0, 0.65),
        tried(7_500.0, 0.75),
    ];
    near(
        with(thrice).rows[0].drawn_out.unwrap().expected_per_s,
        11_250.0,
    );
    // One rate is no line, however little what ended of it differs.
    let mut again = tried(7_500.0, 0.75);
    again.figures.insert(figure::RATE_PER_S.to_owned(), 7_480.0);
    let same = vec![tried(7_500.0, 0.76), again];
    assert_eq!(with(same).rows[0].drawn_out, None);
    // One that was not held says nothing of what a call costs.
    let mut not_held = tried(7_500.0, 0.97);
    not_held
        .figures
        .insert(figure::RATE_PER_S.to_owned(), 6_000.0);
    let found = with(vec![tried(5_000.0, 0.5), not_held]);
    assert_eq!(found.rows[0].drawn_out, None);
}
