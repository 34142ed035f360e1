use super::*;
use crate::answered::Answered;
use crate::result::{RunResult, Watched};
use crate::sip::{Failure, Setup};
use crate::threshold::Threshold;
use crate::watch::WatchedProcess;
use proptest::prelude::*;

const S: u64 = 1_000_000_000;

fn live() -> Live {
    Live {
        title: "call to sip:192.0.2.1:5060 over tls".to_owned(),
        elapsed_ns: 12 * S,
        duration_ns: 30 * S,
        target_per_s: 2_000.0,
        recent: (0..12)
            .map(|at_s| Second {
                at_s,
                started: 160 * (at_s + 1),
                succeeded: 150 * (at_s + 1),
                p50_us: 900,
                p99_us: 12_500,
                max_us: 2_000_000,
                ..Second::default()
            })
            .collect(),
        succeeded: 23_000,
        failed: 12,
        in_flight: 41,
        delay: Some(Quantiles {
            p50_us: 950,
            p90_us: 2_000,
            p99_us: 12_000,
            p999_us: 1_900_000,
            max_us: 2_001_000,
            ..Quantiles::default()
        }),
        causes: vec![("timeout".to_owned(), 7), ("status 503".to_owned(), 5)],
        retransmissions: 3,
        health: Health {
            sent: 23_053,
            ..Health::default()
        },
    }
}

#[test]
fn the_picture_shows_what_matters() {
    let picture = picture(&live());
    for part in [
        "call to sip:192.0.2.1:5060 over tls",
        "[================                        ] 12 of 30 s",
        "1920/s   asked for 2000/s   ended well 1800/s",
        "in flight           41     succeeded 23000   failed 12   sent again 3",
        "  whole run     950 us   2000 us   12.0 ms    1.90 s    2.00 s",
        "           7  timeout",
        "           5  status 503",
        "generator   behind p99 0 us",
        "\u{2588}",
    ] {
        assert!(picture.contains(part), "{part:?} in\n{picture}");
    }
    assert!(!picture.contains("IN DOUBT"));
    let mut doubtful = live();
    doubtful.health.kernel_drops = 9;
    assert!(super::picture(&doubtful).contains("IN DOUBT    kernel drops"));
}

/// Before the first second has ended, and in one in which nothing was answered.
#[test]
fn what_is_not_known_is_no_zero() {
    let mut first = Live {
        target_per_s: 2_000.0,
        ..Live::default()
    };
    let picture_of = |live: &Live| {
        let picture = picture(live);
        let line = line(live);
        assert!(
            !picture.contains("0 us") && !line.contains("0 us"),
            "{picture}{line}"
        );
        (picture, line)
    };
    let (picture, line) = picture_of(&first);
    for part in [
        "rate                 -/s   asked for 2000/s   ended well -/s",
        "  whole run          -         -         -         -         -",
        "  last s             -                   -                   -",
        "generator   behind p99 -, max -; busiest thread -; drops 0",
    ] {
        assert!(picture.contains(part), "{part:?} in\n{picture}");
    }
    assert!(
        line.starts_with("    0 s         -/s of     2000/s  ended well        -/s"),
        "{line}"
    );
    assert!(line.ends_with("p50        -  p99        -"), "{line}");
    // What is known to be nothing is told as that.
    first.recent = vec![Second::default()];
    let (picture, line) = picture_of(&first);
    assert!(
        picture.contains("0/s   asked for 2000/s   ended well 0/s"),
        "{picture}"
    );
    assert!(line.ends_with("p50        -  p99        -"), "{line}");
}

#[test]
fn many_causes_are_summed_up() {
    let mut many = live();
    many.causes = (1..=20)
        .rev()
        .map(|n| (format!("status {}", 500 + n), n))
        .collect();
    let picture = picture(&many);
    // 20 to 16 are shown; 15 + 14 + ... + 1 = 120.
    assert!(
        picture.contains("         120  15 other causes"),
        "{picture}"
    );
    many.causes.truncate(6);
    assert!(!super::picture(&many).contains("other causes"));
}

#[test]
fn drawing_again_goes_back_to_the_first_line() {
    let mut screen = Screen::new();
    let first = screen.draw(&picture(&live()), None);
    assert!(!first.contains("F\x1b"), "nothing to go back over");
    let lines = picture(&live()).lines().count();
    let mut shorter = live();
    shorter.causes.clear();
    let second = screen.draw(&picture(&shorter), None);
    assert!(
        second.starts_with(&format!("\x1b[{lines}F\x1b[2K")),
        "{second:?}"
    );
    assert!(
        second.ends_with("\x1b[J"),
        "what the longer picture left is cleared"
    );
    let third = screen.draw(&picture(&live()), None);
    assert!(
        third.starts_with(&format!("\x1b[{}F", lines - 2)),
        "{third:?}"
    );
}

#[test]
fn a_picture_stays_within_a_small_terminal() {
    let mut screen = Screen::new();
    let small = Some((40, 10));
    let first = screen.draw(&picture(&live()), small);
    let lines: Vec<&str> = first.split("\x1b[2K").skip(1).collect();
    assert_eq!(lines.len(), 9, "one is the cursor's: {first:?}");
    for line in lines {
        let line = line.trim_end_matches("\x1b[J");
        assert!(line.trim_end().chars().count() <= 40, "{line:?}");
    }
    let second = screen.draw(&picture(&live()), small);
    assert!(second.starts_with("\x1b[9F"), "{second:?}");
}

#[test]
fn plain_lines_have_no_control_sequences() {
    let text = line(&live());
    assert!(
        text.starts_with(
            "   12 s      1920/s of     2000/s  ended well     1800/s  in flight     41  failed     12"
        ),
        "{text}"
    );
    assert!(text.ends_with("(timeout: 7)"), "{text}");
    let mut odd = live();
    odd.causes = vec![("a\nb\x1b[2J".to_owned(), 1)];
    assert!(!line(&odd).contains(['\n', '\x1b']));
    assert!(!picture(&odd).contains('\x1b'));
}

#[test]
fn delays_and_figures_are_short() {
    for (us, text) in [
        (0, "0 us"),
        (9_999, "9999 us"),
        (10_000, "10.0 ms"),
        (999_999, "1000.0 ms"),
        (1_234_567, "1.23 s"),
        (3_600_000_000, "3600 s"),
    ] {
        assert_eq!(delay(us), text);
    }
    for (value, text) in [
        (0.0, "0"),
        (0.123, "0.12"),
        (12.34, "12.3"),
        (123_456.7, "123457"),
        (f64::NAN, "-"),
        (1e12, "1.00e12"),
    ] {
        assert_eq!(figure(value), text);
    }
}

#[test]
fn sentences_are_wrapped_at_spaces() {
    assert_eq!(
        wrap("one two three four", 9, "  "),
        "one two\n  three\n  four\n"
    );
    assert_eq!(wrap("word", 80, "  "), "word\n");
    assert!(
        wrap(&"x".repeat(200), 80, "")
            .lines()
            .all(|l| l.len() <= 80)
    );
}

fn result() -> RunResult {
    let mut result = RunResult {
        command: "signet load call --to sip:192.0.2.1:5060".to_owned(),
        duration_ns: 10 * S,
        ..RunResult::default()
    };
    for i in 0..1_000u64 {
        let intended_ns = i * 10_000_000;
        // A stall holds back the last two hundred.
        let sent_ns = if i >= 800 { 10 * S } else { intended_ns };
        result.figures.invite_sent();
        result.figures.invite_answered(
            200,
            &Setup {
                intended_ns,
                sent_ns,
                first_status_ns: None,
                done_ns: sent_ns + 2_000_000,
            },
        );
    }
    result.figures.invite_sent();
    result.figures.invite_failed(Failure::Timeout);
    result.causes.add(Failure::Timeout);
    result.retransmissions.lost = 4;
    result.handshakes.done(true, 0, 0, 1_500_000);
    result.watched.push(Watched {
        pid: 4_711,
        name: "kamailio".to_owned(),
        cpu_ns: S,
        ..Watched::default()
    });
    result.health.self_peak_per_s = Some(5_000.0);
    result.health.rate_per_s = 100.0;
    result
}

#[test]
fn the_table_has_both_starts_where_they_differ() {
    let mut result = result();
    result.conclude(&[Threshold::parse("srd_p99 > 5s").unwrap()]);
    let text = table(&result);
    for part in [
        "10.0 s, 1000 ended well (100.0/s), 1 failed",
        "SRD                    1000",
        "  from the send",
        "resumed handshake",
        "SER 99.90%   SEER 99.90%   ISA 0.10%   SCR 0.00%",
        "           1  timeout",
        "sent again 4: lost 4",
        "TLS handshakes: 0 full, 1 resumed",
        "process 4711 kamailio: 10.0% of a core, 1000.0 us of CPU each",
        "self-peak 5000/s",
        "passed srd_p99 > 5s (it is 1.903s)",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    assert!(
        !text.contains("NOT VALID") && !text.contains("FAILED"),
        "{text}"
    );
    let handshake_lines = text
        .lines()
        .skip_while(|l| !l.starts_with("resumed"))
        .nth(1);
    assert!(
        !handshake_lines.unwrap().contains("from the send"),
        "both agree:\n{text}"
    );
}

#[test]
fn what_makes_it_invalid_comes_last() {
    let mut crossed = result();
    crossed.conclude(&[Threshold::parse("failed > 0").unwrap()]);
    assert!(
        table(&crossed).ends_with("FAILED: a threshold was crossed.\n"),
        "{}",
        table(&crossed)
    );
    let mut doubtful = result();
    doubtful.health.kernel_drops = 3;
    doubtful.conclude(&[]);
    let text = table(&doubtful);
    assert!(text.ends_with("could have made this result.\n"), "{text}");
    assert!(
        text.contains("! kernel drops: The kernel dropped 3 datagrams"),
        "{text}"
    );
    // A doubt hides no threshold.
    doubtful.conclude(&[Threshold::parse("failed > 0").unwrap()]);
    let text = table(&doubtful);
    assert!(
        text.contains("NOT VALID") && text.ends_with("FAILED: a threshold was crossed.\n"),
        "{text}"
    );
}

#[test]
fn each_watched_process_has_its_line_and_several_a_sum() {
    let process = |name: &str, pid: u32, cpu_ns: u64| WatchedProcess {
        name: name.to_owned(),
        pid,
        cpu_ns,
        ..WatchedProcess::default()
    };
    let mut result = result();
    result.processes = vec![process("server", 4_711, S)];
    let text = table(&result);
    assert!(
        text.contains("process 4711 server: 10.0% of a core, 1000.0 us of CPU each"),
        "{text}"
    );
    assert!(
        !text.contains("kamailio") && !text.contains("processes:"),
        "{text}"
    );
    result.processes.push(process("database", 4_712, 2 * S));
    result.watched[0].cpu_ns = 3 * S;
    let text = table(&result);
    for part in [
        "process 4711 server: 10.0% of a core",
        "process 4712 database: 20.0% of a core",
        "all 2 processes: 30.0% of a core",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
}

#[test]
fn a_called_side_alone_is_told_by_what_it_answered() {
    let mut answered = Answered::default();
    (answered.calls, answered.established) = (7, 7);
    answered.add("INVITE", 200, 7);
    let mut only_called = RunResult {
        duration_ns: 2 * S,
        answered: Some(answered),
        ..RunResult::default()
    };
    only_called.conclude(&[]);
    let text = table(&only_called);
    for part in [
        "\n2.0 s\n",
        "called side: 7 calls came, 7 acknowledged",
        "           7  INVITE answered 200",
        "behind p99 -, max -",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    assert!(!text.contains("ended well"), "{text}");
    // Beside a caller it is told as well, and so is what was not sent.
    let mut both = RunResult {
        answered: only_called.answered.clone(),
        ..result()
    };
    (both.health.due, both.health.unsent) = (1_010, 9);
    let text = table(&both);
    for part in [
        "1000 ended well",
        "9 of 1010 arrivals were not sent",
        "called side: 7 calls",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
}

proptest! {
    #[test]
    fn everything_fits(title in ".{0,200}", name in ".{0,200}", n in any::<u64>(), rate in any::<f64>(), seconds in 0usize..200, causes in 0usize..30) {
        let mut live = Live {
            title,
            elapsed_ns: n,
            duration_ns: n / 2,
            target_per_s: rate,
            recent: vec![Second { started: n, succeeded: n, p50_us: n, p99_us: n, max_us: n, ..Second::default() }; seconds],
            succeeded: n,
            failed: n,
            in_flight: n,
            delay: Some(Quantiles { p50_us: n, p999_us: n, ..Quantiles::default() }),
            retransmissions: n,
            causes: vec![(name.clone(), n / 32); causes],
            ..Live::default()
        };
        live.health.behind_max_ns = n;
        live.health.kernel_drops = n / 2;
        live.health.send_queue_drops = n / 2;
        let picture = picture(&live);
        prop_assert!(picture.lines().count() <= LINES);
        prop_assert!(picture.lines().all(|line| line.chars().count() <= COLUMNS));
        prop_assert_eq!(line(&live).lines().count(), 1);
        let result = RunResult { command: name, ..result() };
        prop_assert!(table(&result).lines().all(|line| line.chars().count() <= COLUMNS));
    }
}

#[test]
fn agents_that_are_missing_are_told_with_their_causes() {
    let mut result = result();
    assert!(!table(&result).contains("agents"));
    (result.health.agents, result.health.agents_missing) = (1_000, 500);
    result.counters.insert("upkeep: status 403".to_owned(), 500);
    result.conclude(&[]);
    let text = table(&result);
    for part in [
        "500 of 1000 agents did not come up or lost their registration: status 403 (500)",
        "! agents missing: 500 of 1000 agents",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
}
