use super::*;
use crate::sip::{Failure, Setup};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// 98 calls of 1 to 98 ms, one 503 and one timeout.
fn result() -> RunResult {
    let mut result = RunResult {
        duration_ns: 10_000 * MS,
        ..RunResult::default()
    };
    for ms in 1..=98 {
        result.figures.invite_sent();
        result.figures.invite_answered(
            200,
            &Setup {
                intended_ns: 0,
                sent_ns: MS / 2,
                first_status_ns: None,
                done_ns: ms * MS,
            },
        );
    }
    for failure in [Failure::Status(503), Failure::Timeout] {
        result.figures.invite_sent();
        result.figures.invite_failed(failure);
        result.causes.add(failure);
    }
    result.retransmissions.late = 7;
    result
}

fn crossed(text: &str) -> bool {
    let verdict = Threshold::parse(text).unwrap().evaluate(&result());
    assert!(verdict.value.is_some(), "{text} has a value");
    verdict.crossed
}

#[test]
fn conditions_are_met_or_not() {
    for (text, expected) in [
        ("srd_p50 > 48ms", true),
        ("srd_p50 > 50ms", false),
        ("srd_p50>0.048s", true),
        ("srd_p50 > 48000us", true),
        ("srd_max > 97ms", true),
        ("srd_actual_min > 600us", false),
        ("srd_min > 600us", true),
        ("srd_mean < 50ms", true),
        ("failed > 1%", true),
        ("failed > 2%", false),
        ("failed >= 2%", true),
        ("failed > 1", true),
        ("failed > 2", false),
        ("ser < 99", true),
        ("ser < 98%", false),
        ("ser <= 98%", true),
        ("isa > 1", true),
        ("status_503 > 0", true),
        ("status_404 > 0", false),
        ("timeout > 0.5%", true),
        ("transport > 0", false),
        ("rate < 9.9", true),
        ("rate < 9.7/s", false),
        ("retransmissions > 5%", true),
        ("retransmissions_late > 7", false),
        ("doubts > 0", false),
        ("  failed   >   1  ", true),
    ] {
        assert_eq!(crossed(text), expected, "{text}");
    }
}

/// Why a transport failed is told by many names, and all of them are that it failed.
#[test]
fn a_transport_that_failed_is_one_by_whatever_name() {
    let mut result = result();
    for name in ["reset", "connect refused"] {
        result.causes.add(Failure::Broken(name));
        result.figures.transport_failed += 1;
    }
    result.causes.add(Failure::Other("bye timeout"));
    result.figures.invite_sent();
    result.figures.invite_answered(
        302,
        &Setup {
            intended_ns: 0,
            sent_ns: 0,
            first_status_ns: None,
            done_ns: MS,
        },
    );
    result.figures.redirects.add(Failure::Status(302));
    result.health.agents_missing = 3;
    result
        .counters
        .insert("registrations_not_refreshed".to_owned(), 4);
    for (text, value) in [
        ("transport > 0", 2.0),
        ("timeout > 0", 2.0),
        ("redirected > 0", 1.0),
        ("status_302 > 0", 1.0),
        ("agents_missing > 0", 3.0),
        ("refreshes_failed > 0", 4.0),
    ] {
        let verdict = Threshold::parse(text).unwrap().evaluate(&result);
        assert_eq!(verdict.value, Some(value), "{text}");
        assert!(verdict.crossed, "{text}");
    }
    // In a file that has the causes alone.
    result.figures.transport_failed = 0;
    result.causes.add(Failure::Transport);
    let verdict = Threshold::parse("transport > 0").unwrap().evaluate(&result);
    assert_eq!(verdict.value, Some(1.0));
}

#[test]
fn the_value_is_told_in_the_unit_of_the_condition() {
    let verdict = Threshold::parse("srd_p50 > 20ms")
        .unwrap()
        .evaluate(&result());
    assert!((verdict.value.unwrap() - 49.0).abs() < 0.1);
    assert_eq!(verdict.unit, "ms");
    let verdict = Threshold::parse("failed > 1%").unwrap().evaluate(&result());
    assert_eq!(verdict.to_string(), "FAILED failed > 1% (it is 2%)");
    let verdict = Threshold::parse("failed > 5").unwrap().evaluate(&result());
    assert_eq!(verdict.to_string(), "passed failed > 5 (it is 2)");
}

#[test]
fn other_requests_have_delays_by_the_name_of_their_flow() {
    let mut result = result();
    let options = Threshold::parse("options_p99 > 5ms").unwrap();
    assert!(options.evaluate(&result).failed(), "none was sent");
    result.figures.request("options").delay.record(0, 0, 3 * MS);
    assert!(!options.evaluate(&result).failed());
    result.figures.request("options").delay.record(0, 0, 7 * MS);
    assert!(options.evaluate(&result).crossed);
}

#[test]
fn what_was_not_measured_does_not_pass() {
    let nothing = RunResult::default();
    for text in [
        "srd_p99 > 1s",
        "ser < 1",
        "failed > 1%",
        "resumed < 1",
        "rate < 1",
        "ira > 50",
        "behind_p99 > 1s",
    ] {
        let verdict = Threshold::parse(text).unwrap().evaluate(&nothing);
        assert_eq!(
            (verdict.value, verdict.crossed, verdict.failed()),
            (None, false, true),
            "{text}"
        );
        assert!(
            verdict.to_string().contains("nothing was measured"),
            "{verdict}"
        );
    }
    assert!(
        !Threshold::parse("failed > 0")
            .unwrap()
            .evaluate(&nothing)
            .failed()
    );
}

#[test]
fn every_known_name_is_read_and_described() {
    let names = Threshold::names();
    assert!(names.len() > 150, "{}", names.len());
    for (name, meaning) in names {
        let name = name.replace("NNN", "486");
        let read = ["1", "1ms"]
            .iter()
            .any(|value| Threshold::parse(&format!("{name} > {value}")).is_ok());
        assert!(read && !meaning.is_empty(), "{name}");
    }
}

#[test]
fn mistakes_are_told_with_their_column_and_the_remedy() {
    for (text, column, part) in [
        ("", 1, "no \">\" or \"<\""),
        ("srd_p99 200ms", 14, "no \">\" or \"<\""),
        ("> 1", 1, "a name is missing"),
        (
            "sdr_p99 > 1ms",
            1,
            "\"sdr_p99\" is no figure; known are ira, ser",
        ),
        ("  srd_p98 > 1ms", 3, "srd, srd_failed"),
        ("srd > 1ms", 1, "as DELAY_PERCENTILE (srd_p99)"),
        ("srd_p99 > 200", 11, "write 200ms, 200us or 200s"),
        ("srd_p99 > 200%", 11, "a delay such as 200ms"),
        ("srd_p99 >", 10, "a delay such as 200ms"),
        ("srd_p99 > fast", 11, "a delay such as 200ms"),
        ("srd_p99 > 1.2.3ms", 11, "a delay such as 200ms"),
        ("srd_p99 == 1ms", 15, "no \">\" or \"<\""),
        ("srd_p99 >> 1ms", 10, "a delay such as 200ms"),
        ("failed > 1ms", 10, "\"ms\" is no unit here"),
        ("ser < 99ms", 7, "a percentage such as 99"),
        ("rate < 5%", 8, "a rate such as 2000"),
        ("failed > -1", 10, "a count such as 10"),
        ("status_200 > 0", 1, "status_300 to status_699"),
        ("status_x > 0", 1, "is no figure"),
        ("\u{e9} > 1", 1, "is no figure"),
    ] {
        let error = Threshold::parse(text).unwrap_err();
        assert_eq!(error.column, column, "{text}: {error}");
        assert!(error.message.contains(part), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "([a-z_]{0,8}[<>]=?[0-9.]{0,4}[a-z%/]{0,3}|.{0,20})") {
        let _ = Threshold::parse(&text);
    }
}
