use super::*;

const S: u64 = 1_000_000_000;

fn healthy() -> Health {
    Health {
        behind_schedule: Quantiles {
            p99_us: 400,
            ..Quantiles::default()
        },
        behind_max_ns: 20_000_000,
        due: 60_000,
        sent: 60_000,
        own_cpu_ns: 20 * S,
        wall_ns: 30 * S,
        cores: 2,
        threads: vec![
            ThreadUse {
                name: "load-0".to_owned(),
                cpu_ns: 18 * S,
                ..ThreadUse::default()
            },
            ThreadUse {
                name: "load-1".to_owned(),
                cpu_ns: 2 * S,
                ..ThreadUse::default()
            },
        ],
        self_peak_per_s: Some(8_000.0),
        rate_per_s: 2_000.0,
        claims_limit: true,
        ..Health::default()
    }
}

/// The names of the doubts after a change.
fn doubts(change: impl Fn(&mut Health)) -> Vec<String> {
    let mut health = healthy();
    change(&mut health);
    health
        .doubts()
        .into_iter()
        .map(|doubt| doubt.name)
        .collect()
}

#[test]
fn a_healthy_generator_has_no_doubt() {
    assert!(healthy().doubts().is_empty(), "{:?}", healthy().doubts());
}

#[test]
fn each_limit_raises_its_doubt_and_not_before() {
    type Change = fn(&mut Health);
    let table: &[(&str, Change, Change)] = &[
        (
            "behind schedule",
            |h| h.behind_schedule.p99_us = 1_000,
            |h| h.behind_schedule.p99_us = 1_001,
        ),
        (
            "behind schedule, longest",
            |h| h.behind_max_ns = 100_000_000,
            |h| h.behind_max_ns = 100_000_001,
        ),
        (
            "not sent in time",
            |h| (h.unsent, h.sent) = (60, 59_940),
            |h| (h.unsent, h.sent) = (61, 59_939),
        ),
        ("held back", |h| h.sent = 59_940, |h| h.sent = 59_939),
        (
            "own cpu",
            |h| h.threads[1].cpu_ns = 27 * S,
            |h| h.threads[1].cpu_ns = 27 * S + 1,
        ),
        (
            "own cpu",
            |h| sending(h, 10 * S, 9 * S),
            |h| sending(h, 10 * S, 9 * S + 1),
        ),
        (
            "own cpu",
            |h| sending(h, S / 2 - 1, S / 2 - 1),
            |h| sending(h, S / 2, S / 2),
        ),
        (
            "agents missing",
            |h| (h.agents, h.agents_missing) = (2_000, 2),
            |h| (h.agents, h.agents_missing) = (2_000, 3),
        ),
        (
            "storm",
            |h| h.storm_dropped = 40,
            |h| (h.storm_dropped, h.storm_missing) = (40, 1),
        ),
        (
            "dialogs of other threads",
            |h| h.dialogs_missed = 0,
            |h| h.dialogs_missed = 1,
        ),
        (
            "kernel drops",
            |h| h.kernel_drops = 0,
            |h| h.kernel_drops = 1,
        ),
        (
            "send queue drops",
            |h| h.send_queue_drops = 0,
            |h| h.send_queue_drops = 1,
        ),
        (
            "self-peak",
            |h| h.self_peak_per_s = Some(3_000.0),
            |h| h.self_peak_per_s = Some(2_999.0),
        ),
        (
            "self-peak",
            |h| (h.self_peak_per_s, h.claims_limit) = (None, false),
            |h| h.self_peak_per_s = None,
        ),
        ("self-peak", |_| (), |h| h.self_peak_per_s = Some(f64::NAN)),
        (
            "interrupted",
            |h| h.interrupted = false,
            |h| h.interrupted = true,
        ),
    ];
    for (name, within, beyond) in table {
        assert!(
            doubts(within).is_empty(),
            "{name} within its bound: {:?}",
            doubts(within)
        );
        assert_eq!(doubts(beyond), [*name], "beyond its bound");
    }
}

/// How long a thread sent, of 30 s in all, and the CPU time that it took meanwhile.
fn sending(health: &mut Health, sending_ns: u64, cpu_ns: u64) {
    health.threads[1].sending_ns = sending_ns;
    health.threads[1].sending_cpu_ns = cpu_ns;
}

/// One call that nobody answers is waited for 32 s. Over 42 s a thread that had too much to do for
/// ten looks idle.
#[test]
fn a_thread_is_as_busy_as_it_was_while_it_sent() {
    let mut health = healthy();
    health.wall_ns = 42 * S;
    health.threads[1].cpu_ns = 97 * S / 10;
    assert_eq!(health.busiest_thread().unwrap().0, "load-0");
    sending(&mut health, 10 * S, 97 * S / 10);
    assert_eq!(health.busiest_thread(), Some(("load-1", 0.97)));
    assert_eq!(health.doubts()[0].name, "own cpu");
    // Or afterwards, where that is more.
    sending(&mut health, 10 * S, S);
    health.threads[1].cpu_ns = 39 * S;
    assert!(health.busiest_thread().unwrap().1 > 0.92);
}

#[test]
fn several_doubts_are_all_told() {
    let all = doubts(|h| {
        h.kernel_drops = 5;
        h.behind_schedule.p99_us = 5_000;
        h.interrupted = true;
        h.sent = 10;
    });
    // What an interruption left unsent was not held back.
    assert_eq!(all, ["behind schedule", "kernel drops", "interrupted"]);
}

#[test]
fn sentences_have_the_figure_the_bound_and_the_remedy() {
    let mut health = healthy();
    health.threads[0].cpu_ns = 29 * S;
    health.threads[0].waited_for_cpu_ns = 6 * S;
    health.behind_schedule.p99_us = 12_300;
    health.self_peak_per_s = Some(2_500.0);
    let doubts = health.doubts();
    let all: Vec<&str> = doubts.iter().map(|doubt| doubt.sentence.as_str()).collect();
    let all = all.join("\n");
    for part in [
        "12.3 ms or more after their time (bound 1.0 ms)",
        "waited 20% of the time for a core that something else was using",
        "Thread load-0 of the generator took 97% of a core (bound 90%)",
        "reaches 2500/s; to drive 2000/s it should reach 1.5 times that, 3000/s",
        "lower the rate",
    ] {
        assert!(all.contains(part), "{part:?} in\n{all}");
    }
    assert_eq!((doubts[1].figure * 1_000.0).round(), 967.0);
    assert_eq!(doubts[1].bound, 0.9);
}

#[test]
fn a_self_peak_not_checked_is_told_as_such() {
    assert_eq!(healthy().self_peak_note(), "8000/s");
    assert_eq!(Health::default().self_peak_note(), "not checked");
    let sentence = Health {
        claims_limit: true,
        ..Health::default()
    }
    .doubts()[0]
        .sentence
        .clone();
    assert!(
        sentence.contains("not checked") && sentence.contains("--self"),
        "{sentence}"
    );
}

#[test]
fn lateness_is_weighed_against_the_delay_measured() {
    // Delay, lateness, whether it is a doubt: all in microseconds.
    for (delay_us, late_us, is_doubt) in [
        (Some(400_000), 1_000, false),
        (Some(200), 1_000, true),
        (Some(200), 500, false),
        (Some(200), 501, true),
        (Some(20_000), 2_000, false),
        (Some(20_000), 2_001, true),
        (Some(400_000), 10_000, false),
        (Some(400_000), 10_001, true),
        (None, 1_000, false),
        (None, 1_001, true),
    ] {
        let found = doubts(|h| {
            h.delay_p99_us = delay_us;
            h.behind_schedule.p99_us = late_us;
        });
        assert_eq!(
            found == ["behind schedule"],
            is_doubt,
            "late by {late_us} us beside {delay_us:?}: {found:?}"
        );
    }
    let health = Health {
        delay_p99_us: Some(20_000),
        behind_schedule: Quantiles {
            p99_us: 3_000,
            ..Quantiles::default()
        },
        ..healthy()
    };
    let sentence = health.doubts().remove(0).sentence;
    assert!(
        sentence
            .contains("3.0 ms or more after their time (bound 2.0 ms beside a delay of 20.0 ms)"),
        "{sentence}"
    );
}

#[test]
fn other_bounds_can_be_set() {
    let with = |bounds: Bounds| {
        let health = Health {
            bounds,
            delay_p99_us: Some(400_000),
            unsent: 30,
            due: 60_030,
            ..healthy()
        };
        let doubts = health.doubts();
        doubts
            .into_iter()
            .map(|doubt| doubt.name)
            .collect::<Vec<_>>()
    };
    let plain = Bounds::default();
    assert!(with(plain).is_empty());
    for (bounds, name) in [
        (
            Bounds {
                late_max_us: Some(399),
                ..plain
            },
            "behind schedule",
        ),
        (
            Bounds {
                behind_max_ns: 19_999_999,
                ..plain
            },
            "behind schedule, longest",
        ),
        (
            Bounds {
                thread_cpu_share: 0.5,
                ..plain
            },
            "own cpu",
        ),
        (
            Bounds {
                sent_share: 1.0,
                ..plain
            },
            "not sent in time",
        ),
    ] {
        assert_eq!(with(bounds), [name]);
    }
    // A bound that was given is not weighed.
    let late = doubts(|h| {
        h.bounds.late_max_us = Some(5_000);
        h.delay_p99_us = Some(100);
        h.behind_schedule.p99_us = 5_000;
    });
    assert!(late.is_empty(), "{late:?}");
}
