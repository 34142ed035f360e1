//! What records say of findings, and of peaks beside costs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use signet_bed::experiment::{Answer, Experiment, Finding, Form, Load, Verdict};
use signet_bed::record::{CaseResult, Record, Repeat, figure};

const HEAD: &str = r#"version = 1
name = "small"
title = "small"
question = "small?"
systems = ["signet", "kamailio"]

[short]
repeats = 3
warm_up_s = 1
measure_s = 1

[long]
repeats = 3
warm_up_s = 1
measure_s = 1

[[axis]]
name = "mode"
title = "mode"
[[axis.value]]
name = "chain"
title = "chain"
[[axis.value]]
name = "outbound"
title = "outbound"
set = { caller_connection = "per-call" }

[[axis]]
name = "transport"
title = "transport"
[[axis.value]]
name = "tcp"
title = "TCP"
set = { transport = "tcp" }
[[axis.value]]
name = "tls"
title = "TLS"
set = { transport = "tls" }

[[load]]
rates_per_s = [100]
[[load]]
peak = { failures_max = 0.01, guess_per_s = 100 }

[cross_check]
rate_per_s = 100
error_max = 0.1
place = "here"
"#;

const TLS_COSTS: &str = r#"
[[finding]]
statement = "TLS costs."
place = "here"
figure = "server_cpu_us"
of = { transport = "tls" }
than = { transport = "tcp" }
yes_at = 1.5
no_at = 1.1
published = 2.0
"#;

fn experiment(findings: &str) -> Experiment {
    match Experiment::from_text(Path::new("small.toml"), &format!("{HEAD}{findings}")) {
        Ok(experiment) => experiment,
        Err(error) => panic!("{error}"),
    }
}

fn finding(text: &str) -> Finding {
    experiment(text).findings.remove(0)
}

fn repeat(figures: &[(&str, f64)]) -> Repeat {
    Repeat {
        figures: figures
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect(),
        ..Repeat::default()
    }
}

/// What was measured of a case at its rate, or at its peak.
fn result(id: &str, is_peak: bool, repeats: Vec<Repeat>) -> CaseResult {
    let cases = experiment("").cases(Form::Long);
    let case = cases.into_iter().find(|case| case.id == id).unwrap();
    let load = case
        .loads
        .iter()
        .find(|load| matches!(load, Load::Peak { .. }) == is_peak)
        .unwrap()
        .clone();
    CaseResult {
        case,
        system: "signet".to_owned(),
        load,
        repeats,
        missed: None,
    }
}

/// CPU times of a case at its rate.
fn cpu(id: &str, values_us: &[f64]) -> CaseResult {
    let repeats = values_us
        .iter()
        .map(|value| repeat(&[(figure::SERVER_CPU_US, *value)]));
    result(id, false, repeats.collect())
}

fn record(results: Vec<CaseResult>) -> Record {
    Record {
        results,
        ..Record::default()
    }
}

fn only(finding: &Finding, results: Vec<CaseResult>) -> Answer {
    let mut answers = finding.answer(&record(results));
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers.remove(0)
}

fn near(value: f64, wanted: f64) {
    assert!(
        (value - wanted).abs() < 1e-9 * wanted.abs(),
        "{value}, not {wanted}"
    );
}

#[test]
fn a_ratio_far_on_one_side_is_yes_or_no() {
    let finding = finding(TLS_COSTS);
    let tcp = || cpu("chain.tcp", &[40.0, 41.0, 39.0]);
    let yes = only(&finding, vec![tcp(), cpu("chain.tls", &[80.0, 82.0, 84.0])]);
    assert_eq!(yes.verdict, Verdict::Yes);
    let ratio = yes.ratio.unwrap();
    near(ratio.median, 82.0 / 40.0);
    near(ratio.low, 80.0 / 41.0);
    near(ratio.high, 84.0 / 39.0);
    assert_eq!(ratio.repeats, 3);
    for told in [
        "82.0 us",
        "40.0 us",
        "2.05 times",
        "1.95 to 2.15",
        "the paper has 2.00",
    ] {
        assert!(yes.sentence.contains(told), "{told}: {}", yes.sentence);
    }

    let no = only(&finding, vec![tcp(), cpu("chain.tls", &[40.0, 42.0, 41.0])]);
    assert_eq!(no.verdict, Verdict::No);
    let between = only(&finding, vec![tcp(), cpu("chain.tls", &[50.0, 51.0, 52.0])]);
    assert_eq!(between.verdict, Verdict::Differently);
}

#[test]
fn repeats_that_disagree_are_no_yes() {
    let finding = finding(TLS_COSTS);
    let answer = only(
        &finding,
        vec![
            cpu("chain.tcp", &[40.0, 90.0, 39.0]),
            cpu("chain.tls", &[80.0, 82.0, 84.0]),
        ],
    );
    near(answer.ratio.unwrap().median, 82.0 / 40.0);
    assert_eq!(answer.verdict, Verdict::Differently);
}

#[test]
fn less_is_more_where_the_bounds_are_turned() {
    let pays = TLS_COSTS
        .replace("yes_at = 1.5", "yes_at = 0.9")
        .replace("no_at = 1.1", "no_at = 1.0");
    let finding = finding(&pays);
    for (tls_us, verdict) in [
        (20.0, Verdict::Yes),
        (38.0, Verdict::Differently),
        (44.0, Verdict::No),
    ] {
        let answer = only(
            &finding,
            vec![cpu("chain.tcp", &[40.0]), cpu("chain.tls", &[tls_us])],
        );
        assert_eq!(answer.verdict, verdict, "{tls_us}");
        assert!(
            answer.sentence.contains("measured once"),
            "{}",
            answer.sentence
        );
    }
}

#[test]
fn what_was_not_measured_says_why() {
    let finding = finding(TLS_COSTS);
    let mut missed = cpu("chain.tls", &[]);
    missed.missed = Some("port 5061 is in use; end what listens there".to_owned());
    let answer = only(&finding, vec![cpu("chain.tcp", &[40.0]), missed]);
    assert_eq!(answer.verdict, Verdict::NotMeasured);
    assert_eq!(answer.ratio, None);
    assert!(
        answer.sentence.contains("port 5061 is in use"),
        "{}",
        answer.sentence
    );

    let mut doubted = cpu("chain.tls", &[80.0]);
    doubted.repeats[0].doubts.push("late".to_owned());
    let answer = only(&finding, vec![cpu("chain.tcp", &[40.0]), doubted]);
    assert_eq!(answer.verdict, Verdict::NotMeasured);

    let nothing = only(&finding, vec![cpu("chain.tcp", &[40.0])]);
    assert_eq!(nothing.verdict, Verdict::NotMeasured);
    assert!(finding.answer(&record(Vec::new())).is_empty());
}

#[test]
fn each_case_is_held_against_the_one_that_it_agrees_with() {
    let finding = finding(TLS_COSTS);
    let answer = only(
        &finding,
        vec![
            cpu("chain.tcp", &[40.0]),
            cpu("outbound.tcp", &[100.0]),
            cpu("chain.tls", &[80.0]),
            cpu("outbound.tls", &[800.0]),
        ],
    );
    near(answer.ratio.unwrap().median, 4.0);
    assert!(
        answer.sentence.contains("2 of 2 pairs"),
        "{}",
        answer.sentence
    );

    // Where that one is missing no other stands in for it.
    let answer = only(
        &finding,
        vec![cpu("chain.tcp", &[40.0]), cpu("outbound.tls", &[800.0])],
    );
    assert_eq!(answer.verdict, Verdict::NotMeasured);
}

#[test]
fn what_tls_adds_is_tls_less_tcp() {
    let text = r#"
[[finding]]
statement = "Connections make TLS dear."
place = "here"
figure = "server_cpu_us"
of = { mode = "outbound", transport = "tls" }
of_less = { mode = "outbound", transport = "tcp" }
than = { mode = "chain", transport = "tls" }
than_less = { mode = "chain", transport = "tcp" }
yes_at = 2.0
no_at = 1.0
"#;
    let finding = finding(text);
    let with_chain_tls = |tls_us: f64| {
        only(
            &finding,
            vec![
                cpu("chain.tcp", &[40.0]),
                cpu("outbound.tcp", &[100.0]),
                cpu("chain.tls", &[tls_us]),
                cpu("outbound.tls", &[800.0]),
            ],
        )
    };
    near(with_chain_tls(80.0).ratio.unwrap().median, 700.0 / 40.0);
    // TLS that seems cheaper than TCP adds next to nothing, not less.
    let answer = with_chain_tls(39.0);
    near(answer.ratio.unwrap().median, 700.0 / 0.39);
    assert_eq!(answer.verdict, Verdict::Yes);
}

#[test]
fn the_best_of_each_side() {
    let text = r#"
[[finding]]
statement = "Outbound is best."
place = "here"
figure = "rate_per_s"
at = "peak"
by = "highest"
of = { mode = "outbound" }
than = { mode = "chain" }
yes_at = 1.1
no_at = 1.0
"#;
    let peak = |id: &str, rate: f64| result(id, true, vec![repeat(&[(figure::RATE_PER_S, rate)])]);
    let answer = only(
        &finding(text),
        vec![
            peak("chain.tcp", 100.0),
            peak("chain.tls", 1_000.0),
            peak("outbound.tcp", 1_500.0),
            peak("outbound.tls", 10.0),
            // Rates are none of a peak's business.
            cpu("chain.tcp", &[1.0]),
        ],
    );
    near(answer.ratio.unwrap().median, 1.5);
    assert!(
        answer.sentence.contains("outbound.tcp"),
        "{}",
        answer.sentence
    );
    assert!(answer.sentence.contains("chain.tls"), "{}", answer.sentence);
}

#[test]
fn each_system_is_answered_for_where_it_is_asked() {
    let of_signet = format!("{TLS_COSTS}systems = [\"signet\"]\n");
    let both = || {
        let mut results = vec![cpu("chain.tcp", &[40.0]), cpu("chain.tls", &[80.0])];
        let mut others = results.clone();
        for other in &mut others {
            other.system = "kamailio".to_owned();
        }
        results.extend(others);
        record(results)
    };
    assert_eq!(finding(TLS_COSTS).answer(&both()).len(), 2);
    let answers = finding(&of_signet).answer(&both());
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].system, "signet");
}

#[test]
fn peaks_are_held_against_costs_at_the_common_rate() {
    let check = experiment("").cross_check.unwrap();
    let peak = |id: &str, rate: f64, cores: f64| {
        let figures = [(figure::RATE_PER_S, rate), (figure::SERVER_CORES, cores)];
        result(id, true, vec![repeat(&figures)])
    };
    let checked = check.check(&record(vec![
        cpu("chain.tcp", &[50.0]),
        peak("chain.tcp", 16_000.0, 0.88),
        cpu("chain.tls", &[100.0]),
        peak("chain.tls", 10_000.0, 0.9),
        // Only one of the two: no row.
        cpu("outbound.tcp", &[100.0]),
    ]));
    assert_eq!(checked.len(), 1);
    let [tcp, tls] = &checked[0].rows[..] else {
        panic!("{checked:?}");
    };
    near(tcp.expected_per_s, 17_600.0);
    near(tcp.error, 0.1);
    near(tls.error, 0.1);
    near(checked[0].error_mean.unwrap(), 0.1);
    assert_eq!(checked[0].drawn_out_error_mean, None, "one rate is no line");
    assert_eq!(check.check(&Record::default()), Vec::new());
}

#[test]
fn two_rates_let_a_peak_be_expected_where_wake_ups_make_few_calls_dear() {
    let check = experiment("").cross_check.unwrap();
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
    // A rate above the peak is none that it could be expected from.
    let above = at(20_000.0, false);
    let results = rates.into_iter().chain([above, at(16_000.0, true)]);
    let checked = check.check(&record(results.collect()));
    let row = &checked[0].rows[0];
    let drawn_out = row.drawn_out.unwrap();
    assert_eq!(
        (drawn_out.low_per_s, drawn_out.high_per_s),
        (4_000.0, 9_000.0)
    );
    near(drawn_out.expected_per_s, 16_000.0);
    assert!(drawn_out.error < 1e-9, "{drawn_out:?}");
    assert!(row.error > 0.9, "the cost at 100/s is mostly of wake-ups");
    assert!(
        checked[0]
            .drawn_out_error_mean
            .is_some_and(|error| error < 1e-9)
    );
}

/// Findings come from a record's copy of the file, so answers need the shipped files to
/// stay readable: each finding of each is answered, if only by what is missing.
#[test]
fn every_shipped_finding_answers_a_record_without_figures() {
    for (name, _) in signet_bed::experiment::SHIPPED {
        let (experiment, _) = Experiment::open(name).unwrap();
        let mut results = Vec::new();
        for case in experiment.cases(Form::Short) {
            for load in case.loads.clone() {
                results.push(CaseResult {
                    case: case.clone(),
                    system: "signet".to_owned(),
                    load,
                    repeats: Vec::new(),
                    missed: None,
                });
            }
        }
        let record = record(results);
        for finding in &experiment.findings {
            let answers = finding.answer(&record);
            assert_eq!(answers.len(), 1, "{name}: {}", finding.statement);
            assert_eq!(answers[0].verdict, Verdict::NotMeasured);
            assert!(
                answers[0].sentence.contains("no repeat counts")
                    || answers[0].sentence.contains("was measured"),
                "{}",
                answers[0].sentence
            );
        }
    }
}
