use super::*;
use crate::{client_invite, client_non_invite, server_invite, server_non_invite};
use std::fmt::{Debug, Write as _};

/// Every transition that changes or does anything, in the order of the tables
/// below. A pair of state and event that is not listed does nothing.
const TRANSITIONS: &str = include_str!("transitions.txt");

fn client_events() -> Vec<ClientEvent> {
    use ClientEvent::{Failure, Provisional, Request, Success, TransportError};
    let mut events = vec![Request, Provisional, Success, Failure, TransportError];
    events.extend(Timer::ALL.map(ClientEvent::Timer));
    events
}

fn server_events() -> Vec<ServerEvent> {
    use ServerEvent::{Ack, Failure, Provisional, Request, Success, TransportError};
    let mut events = vec![Request, Ack, Provisional, Success, Failure, TransportError];
    events.extend(Timer::ALL.map(ServerEvent::Timer));
    events
}

fn walk<S: Copy + Debug + PartialEq, E: Copy + Debug>(
    text: &mut String,
    name: &str,
    states: &[S],
    events: &[E],
    step: impl Fn(S, E) -> (S, &'static [Action]),
) {
    writeln!(text, "{name}").unwrap();
    for state in states {
        for event in events {
            let (next, actions) = step(*state, *event);
            if next != *state || !actions.is_empty() {
                let actions: Vec<String> =
                    actions.iter().map(|action| format!("{action:?}")).collect();
                let (state, event, next) = (
                    format!("{state:?}"),
                    format!("{event:?}"),
                    format!("{next:?}"),
                );
                writeln!(
                    text,
                    "  {state:<10} {event:<17} -> {next:<10} {}",
                    actions.join(", ")
                )
                .unwrap();
            }
        }
    }
}

#[test]
fn every_transition_is_as_written_down() {
    let mut text = String::new();
    {
        use client_invite::State::{Accepted, Calling, Completed, Initial, Proceeding, Terminated};
        let states = [
            Initial, Calling, Proceeding, Completed, Accepted, Terminated,
        ];
        walk(
            &mut text,
            "client INVITE",
            &states,
            &client_events(),
            client_invite::step,
        );
    }
    {
        use client_non_invite::State::{Completed, Initial, Proceeding, Terminated, Trying};
        let states = [Initial, Trying, Proceeding, Completed, Terminated];
        walk(
            &mut text,
            "client non-INVITE",
            &states,
            &client_events(),
            client_non_invite::step,
        );
    }
    {
        use server_invite::State::{Accepted, Completed, Confirmed, Proceeding, Terminated};
        let states = [Proceeding, Completed, Confirmed, Accepted, Terminated];
        walk(
            &mut text,
            "server INVITE",
            &states,
            &server_events(),
            server_invite::step,
        );
    }
    {
        use server_non_invite::State::{Completed, Proceeding, Terminated, Trying};
        let states = [Trying, Proceeding, Completed, Terminated];
        walk(
            &mut text,
            "server non-INVITE",
            &states,
            &server_events(),
            server_non_invite::step,
        );
    }
    for (written, found) in TRANSITIONS.lines().zip(text.lines()) {
        assert_eq!(written.trim_end(), found.trim_end());
    }
    assert_eq!(TRANSITIONS.lines().count(), text.lines().count(), "{text}");
}

#[test]
fn every_way_into_the_end_tells_the_core_and_stops_the_timers() {
    // Which timers may run in a state follows from the walk itself.
    fn check<S: Copy + Debug + PartialEq, E: Copy + Debug>(
        initial: S,
        end: S,
        first: &'static [Action],
        events: &[E],
        step: impl Fn(S, E) -> (S, &'static [Action]),
        fires: impl Fn(E) -> Option<Timer>,
    ) {
        let mut seen: Vec<(S, Vec<u8>)> = Vec::new();
        let mut open = vec![(initial, run(&[], first))];
        while let Some((state, timers)) = open.pop() {
            if state == end {
                assert!(timers.is_empty(), "{timers:?} still run in the end");
                continue;
            }
            if seen.contains(&(state, timers.clone())) {
                continue;
            }
            seen.push((state, timers.clone()));
            for event in events {
                let mut timers = timers.clone();
                if let Some(timer) = fires(*event) {
                    let Some(at) = timers.iter().position(|running| *running == timer as u8) else {
                        continue;
                    };
                    timers.remove(at);
                }
                let (next, actions) = step(state, *event);
                let informs = actions
                    .iter()
                    .filter(|action| matches!(action, Action::Inform(_)))
                    .count();
                if next == end && state != end {
                    assert_eq!(informs, 1, "{state:?} {event:?}");
                }
                open.push((next, run(&timers, actions)));
            }
        }
        assert!(seen.len() >= 3, "{seen:?}");
    }
    fn run(timers: &[u8], actions: &[Action]) -> Vec<u8> {
        let mut timers = timers.to_vec();
        for action in actions {
            match action {
                Action::Start(timer) | Action::StartAtT2(timer) => {
                    assert!(!timers.contains(&(*timer as u8)), "{timer:?} runs already");
                    timers.push(*timer as u8);
                }
                Action::Stop(timer) => timers.retain(|running| running != &(*timer as u8)),
                _ => {}
            }
        }
        let plain = timers
            .iter()
            .filter(|timer| !Timer::from_number(**timer).is_some_and(Timer::repeats))
            .count();
        assert!(plain <= 1, "two timers share one place: {timers:?}");
        timers.sort_unstable();
        timers
    }
    let client_fires = |event| match event {
        ClientEvent::Timer(timer) => Some(timer),
        _ => None,
    };
    let server_fires = |event| match event {
        ServerEvent::Timer(timer) => Some(timer),
        _ => None,
    };
    let (initial, end) = (
        client_invite::State::Initial,
        client_invite::State::Terminated,
    );
    check(
        initial,
        end,
        &[],
        &client_events(),
        client_invite::step,
        client_fires,
    );
    let (initial, end) = (
        client_non_invite::State::Initial,
        client_non_invite::State::Terminated,
    );
    check(
        initial,
        end,
        &[],
        &client_events(),
        client_non_invite::step,
        client_fires,
    );
    let (initial, first) = server_invite::INITIAL;
    let end = server_invite::State::Terminated;
    check(
        initial,
        end,
        first,
        &server_events(),
        server_invite::step,
        server_fires,
    );
    let (initial, first) = server_non_invite::INITIAL;
    let end = server_non_invite::State::Terminated;
    check(
        initial,
        end,
        first,
        &server_events(),
        server_non_invite::step,
        server_fires,
    );
}

/// The intervals of a timer that repeats.
fn intervals(timers: &Timers, timer: Timer, count: usize) -> Vec<u64> {
    let mut interval_ms = 0;
    (0..count)
        .map(|_| {
            interval_ms = timers.duration_ms(timer, false, interval_ms).unwrap();
            interval_ms
        })
        .collect()
}

#[test]
fn durations_of_table_4() {
    let timers = Timers::default();
    assert_eq!(
        intervals(&timers, Timer::A, 7),
        [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000]
    );
    // RFC 3261 17.1.2.2: "For the default values of T1 and T2, this results in intervals of 500 ms, 1 s,
    // 2 s, 4 s, 4 s, 4 s, etc."
    for timer in [Timer::E, Timer::G] {
        assert_eq!(
            intervals(&timers, timer, 6),
            [500, 1_000, 2_000, 4_000, 4_000, 4_000]
        );
    }
    for (timer, unreliable, reliable) in [
        (Timer::B, 32_000, Some(32_000)),
        (Timer::D, 32_000, Some(0)),
        (Timer::F, 32_000, Some(32_000)),
        (Timer::H, 32_000, Some(32_000)),
        (Timer::I, 5_000, Some(0)),
        (Timer::J, 32_000, Some(0)),
        (Timer::K, 5_000, Some(0)),
        (Timer::L, 32_000, Some(32_000)),
        (Timer::M, 32_000, Some(32_000)),
        (Timer::A, 500, None),
        (Timer::E, 500, None),
        (Timer::G, 500, None),
        (Timer::Trying, 200, Some(200)),
        (Timer::TryingLate, 3_500, Some(3_500)),
        (Timer::Expiry, 28_500, Some(28_500)),
    ] {
        assert_eq!(
            timers.duration_ms(timer, false, 0),
            Some(unreliable),
            "{timer:?}"
        );
        assert_eq!(timers.duration_ms(timer, true, 0), reliable, "{timer:?}");
    }
}

#[test]
fn the_backoff_follows_t1_and_t2() {
    // RFC 3261 17.1.1.2: "Whatever the value of T1, the exponential backoffs on retransmissions described
    // in this section MUST be used."
    let timers = Timers {
        t1_ms: 30,
        t2_ms: 100,
        ..Timers::default()
    };
    assert_eq!(intervals(&timers, Timer::A, 4), [30, 60, 120, 240]);
    assert_eq!(intervals(&timers, Timer::E, 4), [30, 60, 100, 100]);
    assert_eq!(timers.duration_ms(Timer::B, false, 0), Some(1_920));
    // 30, 60 more, and then timer E is set to 100.
    assert_eq!(timers.duration_ms(Timer::TryingLate, false, 0), Some(90));
}

#[test]
fn odd_settings_neither_spin_nor_overflow() {
    for timers in [
        Timers {
            t1_ms: 0,
            t2_ms: 0,
            t4_ms: 0,
            d_ms: 0,
            trying_ms: 0,
        },
        Timers {
            t1_ms: u64::MAX,
            t2_ms: u64::MAX,
            t4_ms: 1,
            d_ms: 1,
            trying_ms: 1,
        },
        Timers {
            t1_ms: 0,
            ..Timers::default()
        },
    ] {
        for timer in Timer::ALL {
            timers.duration_ms(timer, false, 0);
            timers.duration_ms(timer, false, u64::MAX);
        }
    }
}
