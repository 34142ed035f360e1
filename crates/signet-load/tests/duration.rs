//! The schedule says how long a run sends: what it could not send until then it never sends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use measure::Schedule;
use signet_load::{Called, Control, Flow, Mix, Ran, Settings, run};
use sip_msg::Transport;

const SECOND_NS: u64 = 1_000_000_000;
/// Arrivals that a thread may begin in the turn in which it sees that the schedule is over.
const LAST_TURN: u64 = 64;

fn drive(schedule: Schedule, threads: usize) -> Ran {
    let settings = Settings {
        direct: Some(Transport::Udp),
        called: Called::Uri("sip:bob@load.test".to_owned()),
        schedule: Some(schedule),
        threads,
        drain_timeout: Some(Duration::from_secs(1)),
        ..Settings::new(Mix::only(Flow::Call))
    };
    run(settings, &Control::new(), &mut |_| {}).unwrap()
}

/// A million calls in a second are more than any machine makes.
#[test]
fn what_cannot_be_sent_in_time_is_counted_and_never_sent() {
    for threads in [1, 2] {
        let ran = drive(Schedule::constant(1e6, SECOND_NS), threads);
        assert!(ran.started > 0 && ran.unsent > 0);
        assert_eq!(ran.started + ran.unsent, 1_000_000);
        let due: u64 = ran.series.seconds().iter().map(|second| second.due).sum();
        assert_eq!(due, 1_000_000);
        assert_eq!(ran.ended, ran.started, "{:?}", ran.causes.ranked());
        let after: u64 = ran
            .series
            .seconds()
            .iter()
            .filter(|second| second.at_s >= 1)
            .map(|second| second.started)
            .sum();
        assert!(
            after <= LAST_TURN * threads as u64,
            "{after} calls were begun after the end of the schedule"
        );
    }
}

/// All of them together fit into the last turn: a machine that stands still loses none.
#[test]
fn a_load_that_is_kept_up_with_leaves_nothing() {
    let ran = drive(Schedule::constant(20.0, SECOND_NS), 1);
    assert_eq!((ran.started, ran.unsent), (20, 0));
    let limited = Schedule::constant(1e6, 10 * SECOND_NS).limit(30);
    let ran = drive(limited, 1);
    assert_eq!((ran.started, ran.unsent), (30, 0));
}
