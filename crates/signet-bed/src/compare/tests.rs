use super::*;
use crate::experiment::{Case, Setting};
use crate::record::{Bound, Repeat};

fn record(values: &[f64]) -> Record {
    let repeat = |value: &f64| Repeat {
        figures: [(figure::SERVER_CPU_US.to_owned(), *value)].into(),
        ..Repeat::default()
    };
    Record {
        experiment: "shen-2010".to_owned(),
        ended_unix_s: Some(1),
        results: vec![CaseResult {
            case: Case {
                id: "udp".to_owned(),
                labels: [].into(),
                setting: Setting::default(),
                loads: Vec::new(),
                below: Vec::new(),
            },
            system: "signet".to_owned(),
            load: Load::Rate {
                per_s: 1_000.0,
                profile: false,
                for_check: false,
            },
            repeats: values.iter().map(repeat).collect(),
            missed: None,
        }],
        ..Record::default()
    }
}

fn agrees(a: &[f64], b: &[f64]) -> Option<bool> {
    compare(&record(a), &record(b)).unwrap().rows[0].agrees
}

#[test]
fn figures_agree_within_their_intervals() {
    assert_eq!(agrees(&[47.0, 50.0, 53.0], &[52.0, 55.0, 58.0]), Some(true));
    assert_eq!(
        agrees(&[49.9, 50.0, 50.1], &[60.0, 60.1, 60.2]),
        Some(false)
    );
    // Repeats that happen to be alike make no difference of half a percent.
    assert_eq!(agrees(&[50.0, 50.0, 50.0], &[50.3, 50.3, 50.3]), Some(true));
    assert_eq!(agrees(&[50.0], &[90.0, 91.0]), None);
}

#[test]
fn an_interval_of_two_repeats_allows_no_more_than_the_experiment() {
    // Student's t of two repeats is 12.7: by their intervals these could be alike.
    assert_eq!(agrees(&[48.0, 52.0], &[68.0, 72.0]), Some(false));
    assert_eq!(agrees(&[48.0, 52.0], &[54.0, 58.0]), Some(true));
    let comparison = compare(&record(&[48.0, 52.0]), &record(&[54.0, 58.0])).unwrap();
    let half = comparison.half_median_share().unwrap();
    assert!(half > 0.4 && half < 0.6, "{half}");
    let table = comparison.table(false);
    assert!(table.contains("more than 15% is held to differ"), "{table}");
    let once = compare(&record(&[50.0]), &record(&[50.0])).unwrap();
    assert!(once.table(false).contains("1 more were measured once"));
    assert_eq!(once.half_median_share(), None);
}

#[test]
fn repeats_of_all_cases_say_how_far_figures_may_be_apart() {
    let of = |apart: f64, more: f64| {
        let mut record = record(&[]);
        let like = record.results.remove(0);
        for nth in 1..=8_u32 {
            let middle = f64::from(nth) * 100.0 * more;
            let values = [middle / apart, middle * apart];
            let mut result = self::record(&values).results.remove(0);
            result.case.id = format!("{nth}");
            result.load = like.load.clone();
            record.results.push(result);
        }
        record
    };
    // Repeats that differ by a fifth allow a fifth, and no half.
    let (steady, noisy) = (of(1.005, 1.0), of(1.1, 1.0));
    let fifth = compare(&noisy, &of(1.1, 1.18)).unwrap();
    assert_eq!((fifth.agreeing(), fifth.close()), ((8, 8), 0));
    assert_eq!(compare(&noisy, &of(1.1, 1.5)).unwrap().agreeing(), (0, 8));
    assert_eq!(
        compare(&steady, &of(1.005, 1.05)).unwrap().agreeing(),
        (0, 8)
    );
    assert_eq!(compare(&steady, &noisy).unwrap().agreeing(), (8, 8));
}

#[test]
fn a_repeat_that_doubts_itself_is_left_out() {
    let mut doubted = record(&[50.0, 50.1, 500.0]);
    doubted.results[0].repeats[2].doubts.push("late".to_owned());
    let comparison = compare(&record(&[50.0, 50.1]), &doubted).unwrap();
    assert_eq!(comparison.agreeing(), (1, 1));
    assert!(comparison.holds());
}

/// Records of these cases, each twice in alike repeats.
fn of_cases(ids: &[&str]) -> Record {
    let mut whole = record(&[]);
    whole.results = ids
        .iter()
        .map(|id| {
            let mut result = record(&[50.0, 50.1]).results.remove(0);
            (*id).clone_into(&mut result.case.id);
            result
        })
        .collect();
    whole
}

#[test]
fn a_figure_that_one_record_has_lost_does_not_agree() {
    let whole = of_cases(&["udp", "tls"]);
    let mut without = whole.clone();
    without.results[1].repeats.clear();
    without.results[1].missed = Some("nothing ended well".to_owned());
    for (a, b, told) in [
        (&whole, &without, " and none"),
        (&without, &whole, ": none and "),
    ] {
        let comparison = compare(a, b).unwrap();
        assert_eq!((comparison.agreeing(), comparison.lost()), ((1, 1), 1));
        assert!(!comparison.holds());
        let table = comparison.table(false);
        let named = "LOST          signet tls 1000/s CPU time of the server for each: ";
        assert!(table.contains(named), "{table}");
        assert!(table.contains(told), "{table}");
        assert!(table.contains("1 more count in one of the records alone, 50.0% of all"));
        assert_eq!(comparison.json()["lost"], 1);
    }
    // One in twenty may be.
    let many: Vec<String> = (0..20).map(|nth| format!("case-{nth}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let whole = of_cases(&many);
    let mut without = whole.clone();
    without.results[7].repeats.clear();
    assert!(compare(&whole, &without).unwrap().holds());
    without.results[8].repeats.clear();
    assert!(!compare(&whole, &without).unwrap().holds());
}

#[test]
fn what_only_one_record_was_asked_for_is_counted_and_not_judged() {
    let (whole, part) = (of_cases(&["udp", "tls"]), of_cases(&["udp"]));
    for (a, b) in [(&whole, &part), (&part, &whole)] {
        let comparison = compare(a, b).unwrap();
        assert_eq!((comparison.not_asked, comparison.lost()), (1, 0));
        assert!(comparison.holds());
        assert!(
            comparison
                .table(false)
                .contains("1 more are of what only one")
        );
    }
    // A figure that one of them measures nowhere.
    let mut more = whole.clone();
    for repeat in &mut more.results[0].repeats {
        repeat.figures.insert(figure::SERVER_CORES.to_owned(), 0.5);
    }
    let comparison = compare(&whole, &more).unwrap();
    assert_eq!((comparison.not_asked, comparison.lost()), (1, 0));
}

#[test]
fn a_peak_of_the_load_is_compared_as_pages_show_it() {
    let with = |bound: Bound| {
        let mut whole = of_cases(&["udp"]);
        whole.results[0].load = Load::Peak {
            failures_max: 0.0,
            guess_per_s: 100.0,
        };
        for repeat in &mut whole.results[0].repeats {
            repeat.bound = Some(bound);
            repeat.doubts.push("the load was full".to_owned());
        }
        whole
    };
    let of_load = with(Bound::Load);
    assert_eq!(compare(&of_load, &of_load).unwrap().agreeing(), (1, 1));
    let in_doubt = with(Bound::Server);
    assert_eq!(compare(&in_doubt, &in_doubt).unwrap().agreeing(), (0, 0));
}

#[test]
fn what_differs_is_named_and_what_cannot_be_compared_refused() {
    let comparison = compare(&record(&[49.9, 50.0]), &record(&[80.0, 80.1])).unwrap();
    assert!(!comparison.holds());
    let table = comparison.table(false);
    assert!(
        table.contains("DIFFERS       signet udp 1000/s CPU time of the server for each: 50.0 µs"),
        "{table}"
    );
    assert!(table.contains("0 of 1 figures agree"), "{table}");
    let other = Record {
        experiment: "kulin-2012".to_owned(),
        ..record(&[1.0])
    };
    assert!(
        compare(&record(&[1.0]), &other)
            .unwrap_err()
            .contains("kulin-2012")
    );
    let none = compare(&record(&[]), &record(&[])).unwrap();
    assert!(!none.holds() && none.table(true).contains("No figure"));
}

#[test]
fn other_machines_and_versions_are_told() {
    let mut other = record(&[50.0]);
    other.machine.cores = 8;
    other.machine.has_shares = Some(true);
    other
        .versions
        .insert("kamailio".to_owned(), "5.8".to_owned());
    other.ended_unix_s = None;
    other.form = "long".to_owned();
    assert_eq!(compare(&record(&[50.0]), &other).unwrap().warnings.len(), 5);
}
