//! What records say of findings.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod small;

use std::path::Path;

use signet_bed::experiment::{Answer, Experiment, Finding, Form, Verdict};
use signet_bed::profile::Source;
use signet_bed::record::{Bound, CaseResult, Record, Tried, figure};
use small::{HEAD, cpu, experiment, near, peak, record};

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

fn finding(text: &str) -> Finding {
    experiment(text).findings.remove(0)
}

fn only(finding: &Finding, results: Vec<CaseResult>) -> Answer {
    let mut answers = finding.answer(&experiment(""), &record(results));
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers.remove(0)
}

#[test]
fn a_ratio_far_on_one_side_is_yes_or_no() {
    let finding = finding(TLS_COSTS);
    let tcp = || cpu("chain.tcp", &[40.0, 41.0, 39.0]);
    let yes = only(&finding, vec![tcp(), cpu("chain.tls", &[80.0, 82.0, 84.0])]);
    assert_eq!(yes.verdict, Verdict::Yes);
    let ratio = yes.ratio.unwrap();
    near(ratio.median, 82.0 / 40.0);
    // Three repeats that are 1 and 2 apart: 4.303 / sqrt(3) of that on either side.
    let half = 4.303 / 3.0_f64.sqrt();
    near(ratio.low, (82.0 - 2.0 * half) / (40.0 + half));
    near(ratio.high, (82.0 + 2.0 * half) / (40.0 - half));
    assert_eq!(ratio.repeats, 3);
    for told in [
        "82.0 us for \"TLS\" at 100/s",
        "40.0 us",
        "2.05 times",
        "1.81 to 2.32",
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
    let with_tcp = |values: &[f64]| {
        only(
            &finding,
            vec![cpu("chain.tcp", values), cpu("chain.tls", &[60.0, 60.5])],
        )
    };
    // What the page calls not settled answers nothing.
    let answer = with_tcp(&[40.0, 90.0, 39.0]);
    assert_eq!((answer.verdict, answer.ratio), (Verdict::NotMeasured, None));
    assert!(
        answer.sentence.contains("not settled"),
        "{}",
        answer.sentence
    );
    // Settled, and still so far apart that both a yes and a no are among what may be.
    let loose = TLS_COSTS.replace("no_at = 1.1", "no_at = 1.49");
    let experiment = experiment(&loose);
    let results = vec![
        cpu("chain.tcp", &[37.5, 42.0]),
        cpu("chain.tls", &[60.0, 60.5]),
    ];
    let answers = experiment.findings[0].answer(&experiment, &record(results));
    near(answers[0].ratio.unwrap().median, 60.25 / 39.75);
    assert_eq!(answers[0].verdict, Verdict::NotMeasured);
    let told = &answers[0].sentence;
    assert!(told.contains("reaches from a yes to a no"), "{told}");
}

#[test]
fn what_all_repeats_of_a_run_differ_by_decides_what_two_cannot() {
    let experiment = experiment(TLS_COSTS);
    let answer = |noise: f64, tls_us: f64| {
        let around = |id: &str, us: f64| cpu(id, &[us / noise, us * noise]);
        let mut results = vec![around("chain.tcp", 40.0), around("chain.tls", tls_us)];
        // Ten more pairs, of a server that the finding is not asked of.
        results.extend((0..10).map(|_| CaseResult {
            system: "kamailio".to_owned(),
            ..around("outbound.tcp", 70.0)
        }));
        experiment.findings[0]
            .answer(&experiment, &record(results))
            .remove(0)
    };
    // Neither of the two is settled, and yet four times as much is no chance.
    let clear = answer(1.15, 160.0);
    assert_eq!(clear.verdict, Verdict::Yes, "{}", clear.sentence);
    let ratio = clear.ratio.unwrap();
    near(ratio.median, 4.0);
    // The deviation of a pair's logarithm, over the root of two repeats, for both sides.
    let reach = 2.179 * 2.0_f64.sqrt() * 1.15_f64.ln();
    near(ratio.high, 4.0 * reach.exp());
    near(ratio.low, 4.0 * (-reach).exp());
    // A little more may be chance.
    let open = answer(1.15, 60.0);
    assert_eq!(open.verdict, Verdict::NotMeasured, "{}", open.sentence);
    assert_eq!(answer(1.01, 62.0).verdict, Verdict::Yes);
}

#[test]
fn a_statement_with_a_size_is_answered_on_both_sides() {
    for (yes_at, no_at, until, answers) in [
        (
            1.5,
            1.1,
            6.0,
            [(60.0, Verdict::Yes), (400.0, Verdict::Differently)],
        ),
        (
            0.6,
            0.9,
            0.2,
            [(16.0, Verdict::Yes), (2.0, Verdict::Differently)],
        ),
    ] {
        let text = TLS_COSTS
            .replace(
                "yes_at = 1.5",
                &format!("yes_at = {yes_at}\nyes_until = {until}"),
            )
            .replace("no_at = 1.1", &format!("no_at = {no_at}"));
        let finding = finding(&text);
        for (us, verdict) in answers {
            let results = vec![cpu("chain.tcp", &[40.0]), cpu("chain.tls", &[us])];
            assert_eq!(only(&finding, results).verdict, verdict, "{us}");
        }
    }
    let wrong = TLS_COSTS.replace("yes_at = 1.5", "yes_at = 1.5\nyes_until = 1.2");
    let wrong = Experiment::from_text(Path::new("small.toml"), &format!("{HEAD}{wrong}"));
    assert!(wrong.unwrap_err().to_string().contains("yes_until"));
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
    let none = finding.answer(&experiment(""), &record(Vec::new()));
    assert!(none.is_empty());
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

    // A pair without a figure is not passed over.
    let answer = only(
        &finding,
        vec![
            cpu("chain.tcp", &[40.0]),
            cpu("outbound.tcp", &[100.0]),
            cpu("chain.tls", &[80.0]),
            cpu("outbound.tls", &[]),
        ],
    );
    assert_eq!((answer.verdict, answer.ratio), (Verdict::NotMeasured, None));
    assert!(
        answer
            .sentence
            .contains("\"outbound, TLS\" was not measured"),
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
    // Nor does it above the line, where a mean of several would have nothing to be of.
    let answer = only(
        &finding,
        vec![
            cpu("chain.tcp", &[40.0]),
            cpu("outbound.tcp", &[810.0]),
            cpu("chain.tls", &[80.0]),
            cpu("outbound.tls", &[800.0]),
        ],
    );
    near(answer.ratio.unwrap().median, 8.0 / 40.0);
    assert_eq!(answer.verdict, Verdict::No);
}

const OUTBOUND_BEST: &str = r#"
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

/// Peaks of full servers.
fn peaks(all: [(&str, f64); 4]) -> Vec<CaseResult> {
    all.map(|(id, rate)| peak(id, rate, 1.0, 0.5)).into()
}

#[test]
fn the_best_of_each_side() {
    let mut results = peaks([
        ("chain.tcp", 100.0),
        ("chain.tls", 1_000.0),
        ("outbound.tcp", 1_500.0),
        ("outbound.tls", 10.0),
    ]);
    // Rates are none of a peak's business.
    results.push(cpu("chain.tcp", &[1.0]));
    let answer = only(&finding(OUTBOUND_BEST), results);
    near(answer.ratio.unwrap().median, 1.5);
    for told in [
        "\"outbound, TCP\" at its peak",
        "\"chain, TLS\" at its peak",
        "2 of 2 cases",
    ] {
        assert!(answer.sentence.contains(told), "{}", answer.sentence);
    }
}

#[test]
fn a_best_of_which_one_is_missing_is_only_the_least() {
    let all = |than: f64| {
        peaks([
            ("chain.tcp", 100.0),
            ("chain.tls", than),
            ("outbound.tcp", 1_500.0),
            ("outbound.tls", 10.0),
        ])
    };
    // The missing one may be the highest of those below the line.
    let finding = finding(OUTBOUND_BEST);
    let mut missing = all(1_000.0);
    missing[0].repeats.clear();
    let answer = only(&finding, missing);
    assert_eq!(answer.verdict, Verdict::NotMeasured, "{}", answer.sentence);
    assert!(
        answer.sentence.contains("1 of 2 cases"),
        "{}",
        answer.sentence
    );
    // And above the line it can only add to a yes.
    let mut missing = all(1_000.0);
    missing[3].repeats.clear();
    assert_eq!(only(&finding, missing).verdict, Verdict::Yes);
    // What a system cannot do is missed by nobody.
    let text = r#"
[[not_for]]
system = "signet"
where = { mode = "chain", transport = "tcp" }
why = "It cannot."
"#;
    let experiment = experiment(&format!("{text}{OUTBOUND_BEST}"));
    let mut cannot = all(1_000.0);
    cannot[0].repeats.clear();
    let answers = experiment.findings[0].answer(&experiment, &record(cannot));
    assert_eq!(answers[0].verdict, Verdict::Yes, "{}", answers[0].sentence);
    assert!(
        answers[0].sentence.contains("over 1 of 1 cases"),
        "{}",
        answers[0].sentence
    );
}

#[test]
fn what_was_left_out_of_a_run_is_missing() {
    let finding = finding(OUTBOUND_BEST);
    let of_run = |is_in: &dyn Fn(&str) -> bool| {
        let mut results = peaks([
            ("chain.tcp", 100.0),
            ("chain.tls", 1_000.0),
            ("outbound.tcp", 1_500.0),
            ("outbound.tls", 10.0),
        ]);
        results.retain(|result| is_in(&result.case.id));
        let record = Record {
            form: Form::Long.name().to_owned(),
            ..record(results)
        };
        finding.answer(&experiment(""), &record).remove(0)
    };
    assert_eq!(of_run(&|_| true).verdict, Verdict::Yes);
    // The one that `--cases` left out may be the highest of those below the line.
    let answer = of_run(&|id| id != "chain.tcp");
    assert_eq!(answer.verdict, Verdict::NotMeasured, "{}", answer.sentence);
    for told in ["2 of 2 cases over 1 of 2 cases", "\"at most\""] {
        assert!(answer.sentence.contains(told), "{}", answer.sentence);
    }
    // Of pairs as of the best.
    let pairs = experiment(TLS_COSTS).findings.remove(0);
    let some = Record {
        form: Form::Long.name().to_owned(),
        ..record(vec![cpu("chain.tcp", &[40.0]), cpu("chain.tls", &[80.0])])
    };
    let answer = pairs.answer(&experiment(""), &some).remove(0);
    assert_eq!(answer.verdict, Verdict::NotMeasured);
    let told = "\"outbound, TLS\" was not measured: it was left out of this run (--cases)";
    assert!(answer.sentence.contains(told), "{}", answer.sentence);
}

#[test]
fn the_best_of_several_is_no_better_known_than_all_of_them() {
    let text = OUTBOUND_BEST.replace("yes_at = 1.1", "yes_at = 1.05");
    let answer = |text: &str, chain_tls: [f64; 2]| {
        let twice = |id: &str, rates: [f64; 2]| {
            let mut result = peak(id, rates[0], 1.0, 0.5);
            let mut again = result.repeats[0].clone();
            again
                .figures
                .insert(figure::RATE_PER_S.to_owned(), rates[1]);
            result.repeats.push(again);
            result
        };
        let results = vec![
            twice("outbound.tcp", [1_055.0, 1_056.0]),
            twice("chain.tcp", [1_000.0, 1_000.0]),
            twice("chain.tls", chain_tls),
        ];
        only(&finding(text), results)
    };
    // By its repeats the second may be better than all others, by its median it is not.
    let open = answer(&text, [930.0, 1_065.0]);
    assert_eq!(open.verdict, Verdict::NotMeasured, "{}", open.sentence);
    let ratio = open.ratio.unwrap();
    near(ratio.median, 1_055.5 / 1_000.0);
    near(ratio.low, 1_055.0 / 1_065.0);
    near(ratio.high, 1_056.0 / 1_000.0);
    assert_eq!(answer(&text, [900.0, 901.0]).verdict, Verdict::Yes);
    // The lowest as the highest.
    let lowest = text.replace("\"highest\"", "\"lowest\"");
    let ratio = answer(&lowest, [990.0, 1_120.0]).ratio.unwrap();
    near(ratio.high, 1_056.0 / 990.0);
}

#[test]
fn a_peak_is_at_least_what_was_found_where_more_was_not_ruled_out() {
    let rate_of = |peaks: CaseResult| {
        let finding = finding(
            &OUTBOUND_BEST
                .replace("by = \"highest\"\n", "")
                .replace(
                    "{ mode = \"chain\" }",
                    "{ mode = \"chain\", transport = \"tcp\" }",
                )
                .replace(
                    "{ mode = \"outbound\" }",
                    "{ mode = \"outbound\", transport = \"tcp\" }",
                ),
        );
        only(
            &finding,
            vec![peak("outbound.tcp", 1_500.0, 1.0, 0.5), peaks],
        )
        .sentence
    };
    let between = |ended: f64, held: Option<f64>, not_held: f64| {
        let mut full = peak("chain.tcp", ended, 1.0, 0.5);
        full.repeats[0].held_per_s = held;
        full.repeats[0].not_held = Some(Tried {
            per_s: not_held,
            ..Tried::default()
        });
        rate_of(full)
    };
    assert!(!between(1_000.0, Some(1_000.0), 1_070.0).contains("at least 1,000 /s"));
    // The search ran out of tries.
    let told = between(1_000.0, Some(1_000.0), 1_400.0);
    assert!(told.contains("at least 1,000 /s"), "{told}");
    // A record that does not say what was held: so much could have ended of 1,030.
    assert!(!between(1_000.0, None, 1_100.0).contains("at least 1,000 /s"));
    let told = between(1_000.0, None, 1_167.0);
    assert!(told.contains("at least 1,000 /s"), "{told}");
    // As much as was not held is no peak.
    let told = between(1_000.0, None, 992.0);
    assert!(told.contains("992 a second were not held"), "{told}");
    // And a server that the run did not start may have more cores than it took.
    let mut foreign = peak("chain.tcp", 1_000.0, 1.6, 0.7);
    foreign.repeats[0].is_foreign = true;
    let told = rate_of(foreign);
    assert!(told.contains("at least 1,000 /s"), "{told}");
}

#[test]
fn a_peak_of_the_load_is_no_evidence_that_a_server_can_do_no_more() {
    let finding = finding(
        &OUTBOUND_BEST
            .replace("by = \"highest\"\n", "")
            .replace(
                "of = { mode = \"outbound\" }",
                "of = { transport = \"tcp\" }",
            )
            .replace(
                "than = { mode = \"chain\" }",
                "than = { transport = \"tls\" }",
            ),
    );
    let asked = |tcp: CaseResult, tls: CaseResult| only(&finding, vec![tcp, tls]);
    let full = |id: &str, rate: f64| peak(id, rate, 0.95, 0.8);
    let room = |id: &str, rate: f64| peak(id, rate, 0.6, 0.85);
    let answer = asked(full("chain.tcp", 900.0), full("chain.tls", 500.0));
    assert_eq!(answer.verdict, Verdict::Yes);
    // TLS may do more than was found, and so be no slower.
    let answer = asked(full("chain.tcp", 900.0), room("chain.tls", 500.0));
    assert_eq!(answer.verdict, Verdict::NotMeasured);
    for told in [
        "at least 500 /s",
        "at most 1.80 times",
        "does not decide it",
    ] {
        assert!(answer.sentence.contains(told), "{}", answer.sentence);
    }
    // Where TCP may do more, the yes stands.
    let answer = asked(room("chain.tcp", 900.0), full("chain.tls", 500.0));
    assert_eq!(answer.verdict, Verdict::Yes);
    assert!(
        answer.sentence.contains("at least 1.80 times"),
        "{}",
        answer.sentence
    );
    // A repeat that the run marked as the load's has that as its only doubt.
    let mut marked = room("chain.tls", 500.0);
    marked.repeats[0].bound = Some(Bound::Load);
    marked.repeats[0]
        .doubts
        .push("the load was full".to_owned());
    let answer = asked(full("chain.tcp", 900.0), marked);
    assert!(
        answer.sentence.contains("at least 500 /s"),
        "{}",
        answer.sentence
    );
}

#[test]
fn components_by_threads_answer_nothing() {
    let text = TLS_COSTS
        .replace("server_cpu_us", "server/public_key")
        .replace("yes_at = 1.5", "yes_at = 0.25")
        .replace("no_at = 1.1", "no_at = 0.6");
    let head = HEAD.replace("rates_per_s = [100]", "rates_per_s = [100]\nprofile = true");
    let experiment =
        Experiment::from_text(Path::new("small.toml"), &format!("{head}{text}")).unwrap();
    let with = |source: Option<Source>| {
        let one = |id: &str, component: &str| {
            let mut result = cpu(id, &[100.0]);
            let repeat = &mut result.repeats[0];
            repeat.profile.insert(format!("server/{component}"), 50.0);
            repeat.profile_source = source;
            result
        };
        let results = vec![one("chain.tcp", "public_key"), one("chain.tls", "sip_core")];
        experiment.findings[0]
            .answer(&experiment, &record(results))
            .remove(0)
    };
    assert_eq!(with(Some(Source::Perf)).verdict, Verdict::Yes);
    // Without perf no component is told apart, and one that has no name took not nothing.
    let answer = with(Some(Source::Accounting));
    assert_eq!(answer.verdict, Verdict::NotMeasured);
    assert!(
        answer.sentence.contains("by threads alone"),
        "{}",
        answer.sentence
    );
    // Records from before the source was kept are read as they were.
    assert_eq!(with(None).verdict, Verdict::Yes);
}

#[test]
fn components_of_a_profile_that_does_not_count_answer_nothing() {
    let text = TLS_COSTS.replace("server_cpu_us", "server/public_key");
    let head = HEAD.replace("rates_per_s = [100]", "rates_per_s = [100]\nprofile = true");
    let experiment =
        Experiment::from_text(Path::new("small.toml"), &format!("{head}{text}")).unwrap();
    let with = |void: Option<&str>| {
        let one = |id: &str, us: f64| {
            let mut result = cpu(id, &[100.0]);
            let repeat = &mut result.repeats[0];
            repeat.profile.insert("server/public_key".to_owned(), us);
            repeat.profile_source = Some(Source::Perf);
            repeat.profile_void = void.map(str::to_owned);
            result
        };
        let results = vec![one("chain.tcp", 10.0), one("chain.tls", 90.0)];
        experiment.findings[0]
            .answer(&experiment, &record(results))
            .remove(0)
    };
    assert_eq!(with(None).verdict, Verdict::Yes);
    let answer = with(Some("perf has no samples of server"));
    assert_eq!(answer.verdict, Verdict::NotMeasured);
    assert!(
        answer.sentence.contains("perf has no samples of server"),
        "{}",
        answer.sentence
    );
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
    let small = experiment("");
    assert_eq!(finding(TLS_COSTS).answer(&small, &both()).len(), 2);
    let answers = finding(&of_signet).answer(&small, &both());
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].system, "signet");
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
        let record = Record {
            form: Form::Short.name().to_owned(),
            ..record(results)
        };
        for finding in &experiment.findings {
            if !finding.is_for(Form::Short) {
                assert!(finding.answer(&experiment, &record).is_empty(), "{name}");
                continue;
            }
            let answers = finding.answer(&experiment, &record);
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
