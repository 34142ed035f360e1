//! The histograms tell the truth: a peer delays by known amounts, and a stall
//! shows in full. Only lower bounds are asserted: a machine under load makes
//! delays longer, never shorter.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::{calls_to, drive, is, response, udp};
use signet_load::Leaked;
use sip_msg::Transport;

/// A histogram has three digits.
fn at_least(measured_us: u64, asked_us: u64) -> bool {
    measured_us * 1_000 >= asked_us * 998
}

#[test]
fn known_delays_are_measured_as_such() {
    const CALLS: u64 = 200;
    // Of ten calls five are answered at once, four after 60 ms, one after 200 ms.
    let mut invites = 0u64;
    let peer = udp(
        move |request, _| {
            let after_ms = if is(request, "INVITE") {
                invites += 1;
                match invites % 10 {
                    0 => 200,
                    1..=4 => 60,
                    _ => 0,
                }
            } else {
                25
            };
            if is(request, "ACK") {
                return Vec::new();
            }
            let status = if is(request, "INVITE") {
                "200 OK"
            } else {
                "200 Bye"
            };
            vec![(Duration::from_millis(after_ms), response(request, status))]
        },
        |_| false,
    );
    let mut settings = calls_to(peer.addr, Transport::Udp, CALLS);
    // Nothing is to be sent again: that would be another INVITE to the peer.
    settings.timers.t1_ms = 5_000;
    settings.answer_timeout = Duration::from_secs(60);
    let ran = drive(settings);
    assert_eq!(
        (ran.ended, ran.failed),
        (CALLS, 0),
        "{:?}",
        ran.causes.ranked()
    );
    assert_eq!(ran.leaked, Leaked::default());
    let srd = &ran.figures.srd;
    assert_eq!(srd.count(), CALLS);
    for percent in [51.0, 70.0, 89.0] {
        assert!(
            at_least(srd.actual_us(percent), 60_000),
            "p{percent}: {}",
            srd.actual_us(percent)
        );
    }
    for percent in [91.0, 95.0, 99.0, 100.0] {
        assert!(
            at_least(srd.actual_us(percent), 200_000),
            "p{percent}: {}",
            srd.actual_us(percent)
        );
    }
    assert!(at_least(ran.figures.sdd.actual_us(1.0), 25_000));
    // What is counted from the intended time is never the shorter one.
    for percent in [10.0, 50.0, 90.0, 99.0] {
        assert!(srd.intended_us(percent) >= srd.actual_us(percent));
    }
}

#[test]
fn a_stall_of_two_seconds_shows_in_full() {
    const CALLS: u64 = 300;
    // 100 calls a second for three seconds; from 0.5 s on nothing is read for
    // two seconds. So the calls of one second and more wait for a second or
    // longer: at least a quarter of all.
    let stall = Duration::from_millis(500)..Duration::from_millis(2_500);
    let peer = udp(
        |request, _| {
            if is(request, "ACK") {
                return Vec::new();
            }
            vec![(Duration::ZERO, response(request, "200 OK"))]
        },
        move |elapsed| stall.contains(&elapsed),
    );
    let mut settings = calls_to(peer.addr, Transport::Udp, CALLS);
    settings.timers.t1_ms = 10_000;
    settings.answer_timeout = Duration::from_secs(60);
    let ran = drive(settings);
    assert_eq!(
        (ran.ended, ran.failed),
        (CALLS, 0),
        "{:?}",
        ran.causes.ranked()
    );
    let srd = &ran.figures.srd;
    assert!(
        at_least(srd.intended_us(100.0), 1_950_000),
        "{}",
        srd.intended_us(100.0)
    );
    assert!(
        at_least(srd.intended_us(76.0), 1_000_000),
        "{}",
        srd.intended_us(76.0)
    );
    // Second by second it stands where it was: nothing ended while it lasted.
    let seconds = ran.series.seconds();
    assert!(
        seconds
            .iter()
            .any(|second| second.at_s == 1 && second.started > 50 && second.succeeded == 0),
        "{seconds:?}"
    );
}
