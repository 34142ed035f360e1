use roxmltree::{Document, ParsingOptions};

use super::sample::{EXPERIMENT, record};
use super::*;
use crate::experiment::Load;
use crate::record::CaseResult;
use signet_page::chart::Chart;

fn experiment() -> Experiment {
    Experiment::from_text(std::path::Path::new("sample.toml"), EXPERIMENT).unwrap()
}

fn parsed(page: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(page, options).unwrap_or_else(|e| panic!("{e}"))
}

/// All that is written, without tags.
fn text(page: &str) -> String {
    let document = parsed(page);
    let text: Vec<&str> = document
        .descendants()
        .filter(|node| !matches!(node.tag_name().name(), "style"))
        .filter(|node| {
            node.parent()
                .is_none_or(|parent| parent.tag_name().name() != "style")
        })
        .filter(|node| node.is_text())
        .filter_map(|node| node.text())
        .collect();
    text.join(" ")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn the_page_says_everything_and_needs_nothing() {
    let page = render(&experiment(), &record(), "sample.json");
    let text = text(&page);
    for shown in [
        "What <TLS> & authentication cost",
        "How much of a proxy's CPU",
        "C. Author, E. Author",
        "Of the paper's 2 findings, for Signet",
        "CPU time of the server for each is",
        "TCP costs more than UDP",
        "Mutual TLS <halves> the peak & more",
        "the paper has 1.40",
        "Outbound proxy with many users behind it, TLS, AES-128-CBC, mutual",
        "not settled",
        "in doubt",
        "3 of 3 repeats do not count",
        "1% of messages left 3 ms late <or more>",
        "kamailio ended with \"out of mem\"; give it more with -m & run again",
        "It asks its database one question at a time.",
        "table 2",
        "3 of each rate, 2 s of load before and 4 s of measuring",
        "drawn from the seed 7",
        "than 15% of the median",
        "A processor & more, 2 cores",
        "server on 0",
        "kamailio 5.6.3",
        "Between its slowest and its fastest loop",
        "before 5 of 40 measurements",
        "signet bed run sample --out <folder>",
        "signet bed report sample.json",
        "13 min",
        "A server of two cores and 3 GHz",
        "The paper's machines had one core",
    ] {
        assert!(text.contains(shown), "{shown} in {text}");
    }
    assert!(!page.contains("has not ended"));
    for outside in ["https:", "src=", "<script", "@import", "url("] {
        assert!(!page.contains(outside), "the page needs {outside}");
    }
}

/// The kind of the chart of "CPU against the rate" with these rates.
fn has_lines(rates: &[f64]) -> bool {
    let mut record = record();
    record.results.retain(|result| match result.load {
        Load::Rate { per_s, .. } => rates.contains(&per_s),
        Load::Peak { .. } => true,
    });
    let experiment = experiment();
    let drawn = drawn::figures(&experiment, &record, &Names::new(&experiment, &record));
    let title = "CPU against the rate";
    let mut figures = drawn.into_iter().map(|drawn| drawn.figure);
    let figure = figures.find(|figure| figure.title == title).unwrap();
    match figure.chart {
        Chart::Lines(_) => true,
        Chart::Rows(rows) => {
            assert!(
                rows.groups
                    .iter()
                    .all(|group| !group.label.contains("peak"))
            );
            false
        }
        Chart::Heat(_) => panic!("a map of one rate"),
    }
}

#[test]
fn one_rate_makes_no_line() {
    let mut rates: Vec<f64> = record()
        .results
        .iter()
        .filter_map(|result| match result.load {
            Load::Rate { per_s, .. } => Some(per_s),
            Load::Peak { .. } => None,
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    assert!(rates.len() > 1 && has_lines(&rates));
    assert!(!has_lines(&rates[..1]));
}

#[test]
fn every_kind_of_drawing_is_drawn_with_the_papers_figures() {
    let record = record();
    let experiment = experiment();
    let drawn = drawn::figures(&experiment, &record, &Names::new(&experiment, &record));
    let figures: Vec<Figure> = drawn.into_iter().map(|drawn| drawn.figure).collect();
    let titles: Vec<&str> = figures.iter().map(|figure| figure.title.as_str()).collect();
    assert_eq!(
        titles,
        [
            "CPU for a call at 1,000 calls/s (figure 5 of the paper)",
            "Peak throughput (figure 3 of the paper)",
            "CPU against the rate",
            "Peak over batches",
            "Where the CPU time goes (figure 7 of the paper)",
            "Throughput by processes and batches",
        ]
    );
    let drawn: Vec<String> = figures.iter().map(Figure::html).collect();
    for html in &drawn {
        Document::parse(html).unwrap();
    }
    assert!(drawn[0].contains("not settled"));
    assert!(
        drawn[1].contains("4,200") && drawn[1].contains("hollow"),
        "the paper's mark"
    );
    assert!(drawn[1].contains("in doubt") && drawn[1].contains("not measured"));
    assert!(drawn[2].contains("Kamailio, UDP"));
    assert!(drawn[4].contains("public-key crypto"));
    for shown in ["9.0k", "3.1k", ">Signet<", ">C. Author and others 2010<"] {
        assert!(
            drawn[5].contains(shown),
            "{shown}: the paper's field beside ours"
        );
    }
    assert_eq!(drawn[5].matches("<figure>").count(), 1);
    assert!(
        figures[0]
            .description
            .contains("the lowest is 44.0 µs with Signet, Proxy chain, UDP"),
        "{}",
        figures[0].description
    );
}

#[test]
fn signet_stands_beside_kamailio_in_every_case() {
    let (experiment, record) = (experiment(), record());
    let beside = beside::beside(&experiment, &record, &Names::new(&experiment, &record));
    assert_eq!(beside.systems, ["Signet", "Kamailio"]);
    assert_eq!(beside.others, ["Kamailio"]);
    assert_eq!(beside.cases.len(), 6 + 24);
    let case = beside
        .cases
        .iter()
        .find(|case| case.name == "Proxy chain, UDP")
        .unwrap();
    let row = case
        .rows
        .iter()
        .find(|row| row.what == "at 1,000/s: CPU time of the server for each, µs")
        .unwrap();
    assert_eq!(row.cells[0].median, "44.0");
    assert_eq!(row.cells[0].interval, "42.3 to 45.7");
    assert_eq!(row.ratios[0].as_deref(), Some("0.688"));
    let peaks = case
        .rows
        .iter()
        .find(|row| row.what.starts_with("peak"))
        .unwrap();
    assert_eq!(peaks.what, "peak, 4% may fail: rate, /s");
    assert_eq!(peaks.ratios[0].as_deref(), Some("1.50"));
    let mut names = beside.cases.iter().map(|case| case.name.as_str());
    assert!(names.any(|name| name == "processes that wait: 4, look-ups in a batch: 4"));
    let unsettled = beside
        .cases
        .iter()
        .find(|case| case.name.starts_with("Proxy chain, TLS"))
        .unwrap();
    let row = unsettled
        .rows
        .iter()
        .find(|row| row.what.contains("1,000/s: CPU"))
        .unwrap();
    assert_eq!(
        (row.cells[1].instead.as_str(), &row.ratios[0]),
        ("not settled", &None)
    );
    let mean = beside
        .means
        .iter()
        .find(|mean| mean.what == "CPU time of the server for each")
        .unwrap();
    assert_eq!(mean.cases, 5 * 4, "without the one that is not settled");
}

#[test]
fn a_peak_of_the_load_is_told_as_the_least_with_what_both_took() {
    let mut of_load = record();
    let is_peak = |result: &&mut CaseResult| {
        result.case.id == "outbound-udp"
            && result.system == "signet"
            && matches!(result.load, crate::experiment::Load::Peak { .. })
    };
    for repeat in &mut of_load.results.iter_mut().find(is_peak).unwrap().repeats {
        repeat.figures.insert("server_cores".to_owned(), 0.7);
        repeat.figures.insert("load_cores".to_owned(), 0.96);
    }
    let page = text(&render(&experiment(), &of_load, RAW_NAME));
    for shown in [
        "at least 14,286",
        "Signet, at least",
        "At least, since the server was not full there: Signet, Outbound proxy",
        "cores of the server 0.700",
        "cores of the load 0.960",
        "the server took 70% of its core, load and database 96% of theirs",
    ] {
        assert!(page.contains(shown), "{shown} is missing");
    }
}

#[test]
fn where_components_are_from_stands_below_their_drawing() {
    let mut sourced = record();
    for repeat in sourced
        .results
        .iter_mut()
        .flat_map(|result| &mut result.repeats)
    {
        repeat.profile_source = Some(crate::profile::Source::Accounting);
        repeat.profile_doubts = vec!["perf is <absent>".to_owned()];
    }
    let page = text(&render(&experiment(), &sourced, RAW_NAME));
    assert!(page.contains("by the kernel's figures of threads"));
    assert!(page.contains("In doubt: perf is <absent>."));
    let older = text(&render(&experiment(), &record(), RAW_NAME));
    assert!(older.contains("by a way that the record does not name"));
}

#[test]
fn what_the_paper_prints_stands_beside_what_was_found() {
    let page = text(&render(&experiment(), &record(), RAW_NAME));
    assert!(
        page.contains(
            "over Outbound proxy with many users behind it, UDP 2.60 2.87 2.91 section 4.1"
        ),
        "{page}"
    );
}

#[test]
fn a_ratio_of_the_paper_has_ours_of_the_same_load_alone() {
    let mut experiment = experiment();
    experiment.published[1].at = crate::experiment::At::Rates;
    let mut record = record();
    let is_at_500 = |load: &Load| matches!(load, Load::Rate { per_s, .. } if *per_s == 500.0);
    record.results.retain(|result| {
        result.case.id != "outbound-udp" || result.system != "signet" || is_at_500(&result.load)
    });
    let page = text(&render(&experiment, &record, RAW_NAME));
    // UDP has one rate that counts, and TLS four; at that one TLS takes 176 us and UDP 64.
    assert!(
        page.contains("many users behind it, UDP 2.60 2.75 (1 of 4)"),
        "{page}"
    );
}

#[test]
fn peaks_that_do_not_count_are_told_beside_the_mean() {
    let check = "\n[cross_check]\nrate_per_s = 1000\nerror_max = 0.1\nplace = \"section 4.1\"\n";
    let file = format!("{EXPERIMENT}{check}");
    let experiment = Experiment::from_text(std::path::Path::new("sample.toml"), &file).unwrap();
    let mut record = record();
    let is_of_modes = |result: &CaseResult| result.case.labels.contains_key("mode");
    record.results.retain(is_of_modes);
    for result in &mut record.results {
        for repeat in &mut result.repeats {
            repeat.figures.insert("server_cores".to_owned(), 0.95);
        }
        let is_peak = matches!(result.load, Load::Peak { .. });
        match result.case.id.as_str() {
            "chain-udp" if is_peak => {
                for (nth, repeat) in result.repeats.iter_mut().enumerate() {
                    let apart = 1_000.0 * (nth + 1) as f64;
                    repeat.figures.insert("rate_per_s".to_owned(), apart);
                }
            }
            "outbound-udp" if is_peak => {
                for repeat in &mut result.repeats {
                    repeat.held_per_s = Some(10_000.0);
                    repeat.not_held = Some(crate::record::Tried {
                        per_s: 14_000.0,
                        ..Default::default()
                    });
                }
            }
            _ => {}
        }
    }
    let page = text(&render(&experiment, &record, RAW_NAME));
    for shown in [
        "Signet: the mean error is, by the cost, over 3 of 6 cases, ",
        "; 1 peak whose search ended early does not count",
        "; 1 peak that is in doubt does not count",
        "; 1 peak that is not settled does not count",
        "the peak is not settled",
        "Kamailio: the mean error is, by the cost, over 2 of 6 cases, ",
        "; 1 cost that is not settled does not count",
        "; 1 case without a peak or a cost does not count",
        "At least, since the search ended early, far below the rate that was not held: ",
        "the search ended with 10,000/s held and 14,000/s not",
    ] {
        assert!(page.contains(shown), "{shown} in {page}");
    }
}

#[test]
fn a_run_that_has_not_ended_says_so_and_an_empty_one_makes_a_page() {
    let mut unfinished = record();
    unfinished.ended_unix_s = None;
    unfinished.results.truncate(3);
    assert!(
        text(&render(&experiment(), &unfinished, RAW_NAME)).contains("This run has not ended.")
    );
    let page = text(&render(&experiment(), &Record::default(), RAW_NAME));
    assert!(
        page.contains("There is no figure yet that answers it."),
        "{page}"
    );
    assert!(!page.contains("NaN"));
}

#[test]
fn one_system_alone_has_no_ratios() {
    let mut alone = record();
    alone
        .results
        .retain(|result: &CaseResult| result.system == "kamailio");
    let experiment = experiment();
    let names = Names::new(&experiment, &alone);
    let beside = beside::beside(&experiment, &alone, &names);
    assert_eq!(
        (
            beside.systems.len(),
            beside.others.len(),
            beside.means.len()
        ),
        (1, 0, 0)
    );
    parsed(&render(&experiment, &alone, RAW_NAME));
}

#[test]
fn figures_beyond_all_measure_make_a_page_too() {
    let mut odd = record();
    let values = [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300, 1e-300];
    for (nth, result) in odd.results.iter_mut().enumerate() {
        for repeat in &mut result.repeats {
            for value in repeat
                .figures
                .values_mut()
                .chain(repeat.profile.values_mut())
            {
                *value = values[nth % values.len()];
            }
        }
    }
    for (nth, calibration) in odd.calibrations.iter_mut().enumerate() {
        calibration.compute_us = values[nth % values.len()];
        calibration.stolen = 0.0;
    }
    let page = render(&experiment(), &odd, RAW_NAME);
    parsed(&page);
    assert!(!page.contains("NaN") && !page.contains(">inf"));
}

#[test]
fn several_records_make_one_table() {
    let (experiment, record) = (experiment(), record());
    let page = table(&[
        (&experiment, &record, "a.json"),
        (&experiment, &record, "b <2>.json"),
    ]);
    let text = text(&page);
    assert!(text.contains("2 experiments, 60 cases"), "{text}");
    assert!(text.contains("signet bed table a.json b <2>.json"));
    assert!(text.contains("All experiments together"));
}
