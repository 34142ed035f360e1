use measure::{Failure, Health, ProcessSecond, Second, Setup, Threshold, Watched, WatchedProcess};
use roxmltree::{Document, ParsingOptions};
use signet_page::chart::{Chart, Datum, Point};

use super::*;

fn parsed(page: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(page, options).unwrap_or_else(|e| panic!("{e}"))
}

fn result() -> RunResult {
    let mut result = RunResult {
        command: "signet load call --to sip:<bob>@127.0.0.1".to_owned(),
        duration_ns: 20_500_000_000,
        settings: json!({"server": "sip:127.0.0.1:5060 & more", "tls": {"versions": ["1.3"], "groups": []}}),
        ..RunResult::default()
    };
    for n in 0..20_000u64 {
        result.figures.invite_sent();
        let times = Setup {
            intended_ns: 0,
            sent_ns: 20_000,
            first_status_ns: None,
            done_ns: 500_000 + n * 100,
        };
        result.figures.invite_answered(200, &times);
        result.figures.bye_sent();
        result.figures.bye_ok(0, 10, 20, 400_000);
    }
    result.figures.invite_sent();
    result.figures.invite_failed(Failure::Timeout);
    result.causes.add(Failure::Timeout);
    result.causes.add(Failure::Status(503));
    result.series = (0..21)
        .map(|at_s| Second {
            at_s,
            due: 1_000,
            succeeded: 990 + at_s,
            failed: at_s % 2,
            p50_us: 900,
            p99_us: 2_400,
            max_us: 2_500 + at_s * 100,
            own_cpu_ns: Some(300_000_000),
            watched_cpu_ns: Some(200_000_000),
            ..Second::default()
        })
        .collect();
    result.watched = vec![Watched {
        pid: 7,
        name: "signet".to_owned(),
        cpu_ns: 4_000_000_000,
        ..Watched::default()
    }];
    result.conclude(&[Threshold::parse("srd_p99 > 200ms").unwrap()]);
    result
}

#[test]
fn the_page_says_all_that_was_measured_and_needs_nothing() {
    let page = render(&result()).unwrap();
    parsed(&page);
    for shown in [
        "In 20.5 s 20,000 attempts ended well, 976 a second; 2 failed, 0.01%.",
        "Session Request Delay (RFC 6076 4.3.1)",
        "Session Completion Ratio (RFC 6076 4.9)",
        "status 503",
        "signet (7)",
        "200 µs",
        "sip:&lt;bob&gt;@127.0.0.1",
        "sip:127.0.0.1:5060 &amp; more",
        "passed srd_p99 &gt; 200ms",
        "tls.versions",
    ] {
        assert!(page.contains(shown), "{shown}");
    }
    assert!(!page.contains("tls.groups"), "what is not set is left out");
    assert!(!page.contains("These figures may be"));
    // Rates, delays, CPU, percentiles, causes; each for wide and for narrow pages.
    assert_eq!(page.matches("<svg").count(), 10);
    for outside in ["https:", "src=", "<script", "@import", "url("] {
        assert!(!page.contains(outside), "the page needs {outside}");
    }
}

#[test]
fn each_watched_process_is_drawn_for_itself_second_by_second() {
    let mut watched = result();
    let process = |name: &str, pid, mib: u64, from_s: u64| WatchedProcess {
        name: name.to_owned(),
        pid,
        cpu_ns: 4_000_000_000,
        peak: Sample {
            rss_bytes: mib << 20,
            ..Sample::default()
        },
        seconds: (from_s..20)
            .map(|at_s| ProcessSecond {
                at_s,
                cpu_ns: 200_000_000,
                memory_bytes: (mib << 20) - 1_000 * (20 - at_s),
            })
            .collect(),
        ..WatchedProcess::default()
    };
    watched.processes = vec![
        process("server", 7, 96, 0),
        process("database <2>", 8, 512, 3),
        WatchedProcess::default(),
    ];
    let page = render(&watched).unwrap();
    parsed(&page);
    // One picture more: memory.
    assert_eq!(page.matches("<svg").count(), 12);
    assert!(!page.contains("watched processes, "), "it is told of each");
    for shown in [
        "server, 0: 0.200",
        "database &lt;2&gt;, 3.00: 0.200",
        "this generator, 0: 0.300",
        "database &lt;2&gt;, 3.00: 512",
        "at most 512 MiB",
        "server (7)",
        "database &lt;2&gt; (8)",
        "<td>together</td>",
    ] {
        let near: Vec<&str> = page.lines().filter(|l| l.contains("database")).collect();
        assert!(page.contains(shown), "{shown}: {near:?}");
    }
    assert!(
        !page.contains("database &lt;2&gt;, 2.00: "),
        "it was not there yet"
    );
    let alone = RunResult {
        processes: vec![process("server", 7, 96, 0)],
        ..result()
    };
    assert!(!render(&alone).unwrap().contains("<td>together</td>"));
}

#[test]
fn a_result_from_before_makes_a_page() {
    let text = include_str!("../../../measure/tests/data/result-v1.json");
    let page = render(&RunResult::from_json(text).unwrap()).unwrap();
    parsed(&page);
    assert!(page.contains("<svg"));
}

#[test]
fn doubts_come_before_every_figure() {
    let mut result = result();
    result.health = Health {
        kernel_drops: 3,
        wall_ns: 1,
        ..Health::default()
    };
    result.conclude(&[]);
    let page = render(&result).unwrap();
    let doubt = page.find("The kernel dropped 3 datagrams").unwrap();
    let lead = page.find("attempts ended well").unwrap();
    assert!(doubt < lead);
}

#[test]
fn a_run_without_anything_makes_a_page_too() {
    let page = render(&RunResult::default()).unwrap();
    parsed(&page);
    assert!(page.contains("In 0 s 0 attempts ended well"));
    assert_eq!(page.matches("<svg").count(), 0);
}

#[test]
fn a_week_is_drawn_with_as_many_points_as_can_be_seen() {
    let mut result = result();
    result.series = (0..100_000)
        .map(|at_s| Second {
            at_s,
            due: 10,
            succeeded: 10,
            p50_us: 900,
            max_us: if at_s == 77_777 { 9_000_000 } else { 1_000 },
            ..Second::default()
        })
        .collect();
    result.duration_ns = 100_000_000_000_000;
    let page = render(&result).unwrap();
    assert!(page.len() < 300_000, "{} bytes", page.len());
    assert!(page.contains("each point is 334 s"));
    assert!(page.contains("the longest was 9.00 s"), "no second is lost");
}

#[test]
fn delays_are_of_the_seconds_in_which_they_were_known() {
    // Calls are held for longer than this: none has ended, and their delays are known.
    let mut result = result();
    for second in &mut result.series {
        (second.succeeded, second.failed) = (0, 0);
    }
    let figures = drawn::figures(&result);
    let is_known = |point: &Point| !matches!(point.y, Datum::Missing(_));
    let medians = figures.iter().find_map(|figure| match &figure.chart {
        Chart::Lines(lines) => lines.lines.iter().find(|line| line.name == "median"),
        _ => None,
    });
    let medians = medians.unwrap();
    assert!(medians.points.iter().all(is_known), "{medians:?}");
}

#[test]
fn every_term_that_is_shown_has_its_meaning() {
    for (name, _) in latencies(&result()) {
        assert!(
            terms::meaning(name).contains("RFC 6076") || name.contains("set-up"),
            "{name}"
        );
    }
    for row in ratios(&result()) {
        assert!(
            row["term"].as_str().unwrap().contains("RFC 6076 4."),
            "{row}"
        );
    }
}

#[test]
fn few_calls_tell_few_percentiles() {
    let of = |count| {
        let mut result = RunResult::default();
        for n in 0..count {
            result.figures.srd.record(0, 0, n * 1_000);
        }
        drawn::figures(&result).len()
    };
    assert_eq!((of(3), of(1_000)), (0, 1));
}
