//! Users whom the server does not register, or not again: the load is of fewer than it says.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::{Reply, calls_to, drive, is, never, of_users, response, serve, tcp, udp};
use measure::{Schedule, Threshold};
use signet_load::app::{Circumstances, result_of};
use signet_load::{Control, Flow, Leaked, Lifetime, Mix, Settings, run};
use sip_msg::Transport;

const CALLS: u64 = 25;
/// Of `of_users`.
const USERS: u64 = 10;

/// The number of the user who sends it.
fn user_of(request: &str) -> u64 {
    let from = request.lines().find(|line| line.starts_with("From:"));
    let name = from.unwrap().split("sip:u").nth(1).unwrap();
    name.split('@').next().unwrap().parse().unwrap()
}

/// A server that knows half of the users serves the other half well. That is not the load that
/// was asked for.
#[test]
fn users_whom_nobody_registers_are_missed() {
    let peer = udp(
        |request, _| {
            if is(request, "ACK") {
                return Vec::new();
            }
            let is_refused = is(request, "REGISTER") && user_of(request).is_multiple_of(2);
            let status = if is_refused {
                "403 Forbidden"
            } else {
                "200 OK"
            };
            vec![(Duration::ZERO, response(request, status))]
        },
        never,
    );
    let settings = of_users(peer.addr, CALLS);
    let described = settings.clone();
    let ran = drive(settings);
    assert_eq!((ran.ended, ran.failed), (CALLS, 0), "{:?}", ran.causes);
    assert_eq!((ran.upkeep.ready, ran.upkeep.failed), (5, 5));
    let mut result = result_of(ran, &described, Circumstances::default());
    result.conclude(&[]);
    let names: Vec<&str> = result.doubts.iter().map(|d| d.name.as_str()).collect();
    assert!(names.contains(&"agents missing"), "{names:?}");
    assert!(!result.valid);
    let table = measure::terminal::table(&result);
    assert!(
        table.contains("5 of 10 agents did not come up or lost their registration: status 403 (5)"),
        "{table}"
    );
}

/// A response that grants a registration for no time.
fn for_no_time(request: &str) -> Vec<u8> {
    let text = String::from_utf8(response(request, "200 OK")).unwrap();
    text.replace("\r\nContact: ", "\r\nExpires: 0\r\nContact: ")
        .into_bytes()
}

#[test]
fn users_who_are_registered_for_no_time_are_missed() {
    let peer = udp(
        |request, _| {
            if is(request, "ACK") {
                return Vec::new();
            }
            let is_brief = is(request, "REGISTER") && user_of(request).is_multiple_of(2);
            let answer = match is_brief {
                true => for_no_time(request),
                false => response(request, "200 OK"),
            };
            vec![(Duration::ZERO, answer)]
        },
        never,
    );
    let ran = drive(of_users(peer.addr, CALLS));
    assert_eq!((ran.ended, ran.failed), (CALLS, 0), "{:?}", ran.causes);
    assert_eq!((ran.upkeep.ready, ran.upkeep.failed), (5, 5));
    // Each is tried three times.
    assert_eq!(ran.upkeep.causes.named("granted for 0 s"), 15);
}

#[test]
fn users_whose_registration_is_not_renewed_are_missed() {
    for is_refused in [true, false] {
        are_missed_if(is_refused);
    }
}

/// Their registration is not renewed: it is refused, or granted for no time.
fn are_missed_if(is_refused: bool) {
    let mut known: HashMap<u64, u64> = HashMap::new();
    let peer = udp(
        move |request, _| {
            if is(request, "ACK") {
                return Vec::new();
            }
            let mut answer = response(request, "200 OK");
            if is(request, "REGISTER") {
                let times = known.entry(user_of(request)).or_default();
                *times += 1;
                match is_refused {
                    _ if *times == 1 => {}
                    true => answer = response(request, "403 Forbidden"),
                    false => answer = for_no_time(request),
                }
            }
            vec![(Duration::ZERO, answer)]
        },
        never,
    );
    let mut settings = of_users(peer.addr, 1_000_000);
    settings.expires_s = 1;
    let described = settings.clone();
    let control = Control::new();
    let mut asked = false;
    let ran = run(settings, &control, &mut |progress| {
        let mut causes = progress.causes.iter();
        let are_gone = causes.any(|(why, _)| why == "no free agent");
        if are_gone && !std::mem::replace(&mut asked, true) {
            control.interrupt();
        }
    })
    .unwrap();
    assert_eq!((ran.upkeep.ready, ran.upkeep.lost), (10, 10));
    assert!(ran.upkeep.not_refreshed >= 10);
    let mut result = result_of(ran, &described, Circumstances::default());
    result.conclude(&[]);
    let names: Vec<&str> = result.doubts.iter().map(|d| d.name.as_str()).collect();
    assert!(names.contains(&"agents missing"), "{names:?}");
    let verdict = Threshold::parse("refreshes_failed > 0")
        .unwrap()
        .evaluate(&result);
    assert!(verdict.crossed);
}

/// Users over TCP, each on a connection of his own.
fn on_connections(addr: SocketAddr) -> Settings {
    Settings {
        server: calls_to(addr, Transport::Tcp, 0).server,
        mix: Mix::only(Flow::Options),
        lifetime: Lifetime::Agent,
        ..of_users(addr, CALLS)
    }
}

/// Whoever is cut off while he registers does it again from where he is then.
#[test]
fn users_whose_connection_ends_before_they_are_registered_open_another() {
    let connections = AtomicU64::new(0);
    let peer = tcp(move |mut stream, ends| {
        let is_cut = connections.fetch_add(1, Ordering::Relaxed) < USERS;
        let from = stream.peer_addr().unwrap();
        serve(&mut stream, ends, |request| {
            let contact = format!("@{from};transport=tcp>");
            let is_his = !is(request, "REGISTER") || request.contains(&contact);
            match (is_cut, is_his) {
                (true, _) => Reply::Last(Vec::new()),
                (false, true) => Reply::Answer(response(request, "200 OK")),
                (false, false) => Reply::Answer(response(request, "403 Forbidden")),
            }
        });
    });
    let ran = drive(on_connections(peer.addr));
    let causes = ran.upkeep.causes.ranked();
    assert_eq!(causes, [("closed".to_owned(), USERS)]);
    assert_eq!((ran.upkeep.ready, ran.upkeep.failed), (USERS, 0));
    assert_eq!((ran.ended, ran.failed), (CALLS, 0), "{:?}", ran.causes);
    assert_eq!(ran.leaked, Leaked::default());
}

#[test]
fn users_who_are_refused_for_now_register_again_on_the_same_connection() {
    let peer = tcp(|mut stream, ends| {
        let mut is_first = true;
        serve(&mut stream, ends, |request| {
            let status = match std::mem::take(&mut is_first) {
                true => "503 Service Unavailable",
                false => "200 OK",
            };
            Reply::Answer(response(request, status))
        });
    });
    let ran = drive(on_connections(peer.addr));
    assert_eq!((ran.upkeep.ready, ran.upkeep.failed), (USERS, 0));
    assert_eq!((ran.ended, ran.failed), (CALLS, 0), "{:?}", ran.causes);
    assert_eq!(peer.seen.load(Ordering::Relaxed), USERS);
    assert_eq!(ran.leaked, Leaked::default());
}

/// Before the run begins too, and whoever is not back when its schedule ends is missed.
#[test]
fn users_whose_connection_ends_open_another_until_the_schedule_is_over() {
    // The second, whom nobody needs.
    let connections = AtomicU64::new(0);
    let peer = tcp(move |mut stream, ends| {
        let is_cut = connections.fetch_add(1, Ordering::Relaxed) == 1;
        serve(&mut stream, ends, |request| {
            let answer = response(request, "200 OK");
            match is_cut {
                true => Reply::Last(answer),
                false => Reply::Answer(answer),
            }
        });
    });
    let mut settings = on_connections(peer.addr);
    // Longer than it takes until a connection is opened again.
    settings.setup_rate_per_s = 4.0;
    settings.schedule = Some(Schedule::constant(100.0, 10_000_000));
    let ran = drive(settings);
    assert_eq!((ran.upkeep.reopened, ran.upkeep.lost), (1, 0));

    let is_first = AtomicBool::new(true);
    let connections = AtomicU64::new(0);
    let peer = tcp(move |mut stream, ends| {
        let is_anew = connections.fetch_add(1, Ordering::Relaxed) >= USERS;
        serve(&mut stream, ends, |request| {
            if is_anew && is(request, "REGISTER") {
                return Reply::Nothing;
            }
            let answer = response(request, "200 OK");
            match is(request, "OPTIONS") && is_first.swap(false, Ordering::Relaxed) {
                true => Reply::Last(answer),
                false => Reply::Answer(answer),
            }
        });
    });
    let mut settings = on_connections(peer.addr);
    settings.schedule = Some(Schedule::constant(1.0, 3_000_000_000));
    let ran = drive(settings);
    assert_eq!((ran.ended, ran.upkeep.lost), (3, 1));
}
