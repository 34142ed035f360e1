//! Servers that answer rubbish, too late or not at all, that reset, stall or
//! never read: every call ends as a counted failure with a cause, within the
//! deadlines, and nothing is left.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::io::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::Duration;

use common::{PATIENCE, calls_to, drive, is, never, read_some, response, tcp, udp, write_and_stay};
use measure::Threshold;
use signet_load::app::{Circumstances, result_of};
use signet_load::{Control, Failed, Flow, Leaked, Lifetime, Mix, Ran, Settings, run};
use sip_msg::Transport;

const CALLS: u64 = 25;

/// All calls failed, for one of these causes.
fn check(ran: &Ran, causes: &[&str]) {
    let ranked = ran.causes.ranked();
    assert_eq!(
        (ran.started, ran.ended, ran.failed),
        (CALLS, CALLS, CALLS),
        "{ranked:?}"
    );
    assert!(
        ranked.iter().all(|(why, _)| causes.contains(&why.as_str())),
        "{ranked:?}, not {causes:?}"
    );
    assert_eq!(ran.causes.total(), CALLS);
    assert_eq!(ran.figures.invites_failed, CALLS);
    assert_eq!(ran.leaked, Leaked::default());
}

/// The same, and it was the transport: RFC 3261 8.1.3.1 takes that for a 503, so that each of them is
/// ineffective, and a threshold on the transport is crossed by whatever name it has.
fn check_transport(ran: Ran, causes: &[&str]) {
    check(&ran, causes);
    assert_eq!(ran.figures.ratios().isa_percent, Some(100.0), "{causes:?}");
    let settings = Settings::new(Mix::only(Flow::Call));
    let result = result_of(ran, &settings, Circumstances::default());
    let verdict = Threshold::parse("transport > 0").unwrap().evaluate(&result);
    assert_eq!(verdict.value, Some(CALLS as f64), "{causes:?}");
}

fn counter(ran: &Ran, name: &str) -> u64 {
    let found = ran.counters.iter().find(|counter| counter.0 == name);
    found.unwrap_or_else(|| panic!("no {name}")).1
}

#[test]
fn a_server_that_says_nothing_times_out() {
    let peer = udp(|_, _| Vec::new(), never);
    let ran = drive(calls_to(peer.addr, Transport::Udp, CALLS));
    check(&ran, &["timeout"]);
    assert!(ran.retransmissions.sent() > CALLS);
    assert_eq!(ran.retransmissions.late, 0);
}

#[test]
fn rubbish_in_datagrams_is_counted_and_answers_nothing() {
    let peer = udp(
        |_, number| {
            vec![(
                Duration::ZERO,
                vec![number as u8, 0xff, b'\r', b'\n', 0, 1, 2, 3],
            )]
        },
        never,
    );
    let ran = drive(calls_to(peer.addr, Transport::Udp, CALLS));
    check(&ran, &["timeout"]);
    assert!(ran.rubbish >= CALLS, "{}", ran.rubbish);
}

#[test]
fn responses_that_are_none_of_ours_answer_nothing() {
    let peer = udp(
        |request, _| {
            let other = request.replace("branch=z9hG4bK", "branch=z9hG4bKother");
            vec![(Duration::ZERO, response(&other, "200 OK"))]
        },
        never,
    );
    let ran = drive(calls_to(peer.addr, Transport::Udp, CALLS));
    check(&ran, &["timeout"]);
}

#[test]
fn an_answer_that_comes_too_late_is_none() {
    // A call is given up after 64*T1 (RFC 3261 17.1.1.2), and answered when the tenth behind it, a
    // second later, is there: however long the machine stands still, it was given up by then.
    const BEHIND: usize = 10;
    let mut calls: Vec<String> = Vec::new();
    let peer = udp(
        move |request, _| {
            // What is sent again is the same, byte for byte.
            if !is(request, "INVITE") || calls.iter().any(|known| known == request) {
                return Vec::new();
            }
            calls.push(request.to_owned());
            let late = calls.len().checked_sub(BEHIND + 1);
            let late = late.map(|at| (Duration::ZERO, response(&calls[at], "200 OK")));
            late.into_iter().collect()
        },
        never,
    );
    let mut settings = calls_to(peer.addr, Transport::Udp, CALLS);
    settings.schedule = Some(
        measure::Schedule::parse("10/s for 60s")
            .unwrap()
            .limit(CALLS),
    );
    let ran = drive(settings);
    check(&ran, &["timeout"]);
    assert!(counter(&ran, "answers_too_late") > 0);
}

#[test]
fn ringing_for_ever_is_cancelled() {
    let peer = udp(
        |request, _| {
            let now = |status| vec![(Duration::ZERO, response(request, status))];
            match () {
                () if is(request, "INVITE") => now("180 Ringing"),
                () if is(request, "CANCEL") => now("200 OK"),
                () => Vec::new(),
            }
        },
        never,
    );
    let ran = drive(calls_to(peer.addr, Transport::Udp, CALLS));
    check(&ran, &["timeout"]);
    // The peer repeats nothing but its answer to what came to it twice.
    let again = ran.retransmissions;
    assert!(again.received <= again.sent(), "{again:?}");
}

#[test]
fn a_bye_that_nobody_answers_is_a_failure_of_its_own() {
    let peer = udp(
        |request, _| {
            if is(request, "INVITE") {
                vec![(Duration::ZERO, response(request, "200 OK"))]
            } else {
                Vec::new()
            }
        },
        never,
    );
    let ran = drive(calls_to(peer.addr, Transport::Udp, CALLS));
    assert_eq!((ran.started, ran.ended, ran.failed), (CALLS, CALLS, CALLS));
    assert_eq!(
        ran.causes.named("bye timeout"),
        CALLS,
        "{:?}",
        ran.causes.ranked()
    );
    assert_eq!(
        (ran.figures.invites_ok, ran.figures.byes_failed),
        (CALLS, CALLS)
    );
    // Set up they were, but none has ended well: neither in all nor in any second.
    let well: u64 = ran.series.seconds().iter().map(|s| s.succeeded).sum();
    assert_eq!((ran.figures.succeeded(), well), (0, 0));
    assert_eq!(ran.figures.failed(), CALLS);
    assert_eq!(ran.leaked, Leaked::default());
}

#[test]
fn nobody_there_is_told_at_once() {
    // Taken, so that no other test gets it, and open to itself alone.
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap();
    let free = closed.local_addr().unwrap();
    closed.connect(free).unwrap();
    let ran = drive(calls_to(free, Transport::Udp, CALLS));
    check_transport(ran, &["unreachable"]);
    // Taken, and nobody listens.
    let (domain, sort) = (socket2::Domain::IPV4, socket2::Type::STREAM);
    let closed = socket2::Socket::new(domain, sort, None).unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    closed.bind(&any.into()).unwrap();
    let free = closed.local_addr().unwrap().as_socket().unwrap();
    let ran = drive(calls_to(free, Transport::Tcp, CALLS));
    check_transport(ran, &["connect refused"]);
    let mut settings = calls_to(free, Transport::Tcp, CALLS);
    settings.lifetime = Lifetime::One;
    match run(settings, &Control::new(), &mut |_| {}) {
        Err(Failed::Run(error)) => assert!(error.contains("connect refused"), "{error}"),
        other => panic!("{:?}", other.map(|ran| ran.started)),
    }
}

#[test]
fn a_connection_that_is_reset_or_closed() {
    let peer = tcp(|mut stream, ends| {
        read_some(&mut stream, ends);
        socket2::SockRef::from(&stream)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
    });
    let ran = drive(calls_to(peer.addr, Transport::Tcp, CALLS));
    check_transport(ran, &["reset"]);
    let peer = tcp(|mut stream, ends| read_some(&mut stream, ends));
    let ran = drive(calls_to(peer.addr, Transport::Tcp, CALLS));
    check_transport(ran, &["closed"]);
}

/// A request without an answer ends with its connection, whatever it is: a server that resets is
/// not a silent one.
#[test]
fn requests_end_with_their_connection_as_calls_do() {
    let peers = [
        (
            tcp(|mut stream, ends| {
                read_some(&mut stream, ends);
                socket2::SockRef::from(&stream)
                    .set_linger(Some(Duration::ZERO))
                    .unwrap();
            }),
            "reset",
        ),
        (
            tcp(|mut stream, ends| read_some(&mut stream, ends)),
            "closed",
        ),
    ];
    for flow in [Flow::Options, Flow::Message] {
        for (peer, why) in &peers {
            let mut settings = calls_to(peer.addr, Transport::Tcp, CALLS);
            settings.mix = Mix::only(flow);
            let ran = drive(settings);
            let ranked = ran.causes.ranked();
            assert_eq!(ranked, [((*why).to_owned(), CALLS)], "{flow:?}");
            assert_eq!(ran.figures.transport_failed, CALLS);
            assert_eq!(ran.leaked, Leaked::default());
        }
    }
}

#[test]
fn rubbish_on_a_connection() {
    let peer = tcp(|mut stream, ends| {
        read_some(&mut stream, ends);
        write_and_stay(
            &mut stream,
            b"SIP/2.0 200 OK\r\nContent-Length: many\r\n\r\n",
            ends,
        );
    });
    let ran = drive(calls_to(peer.addr, Transport::Tcp, CALLS));
    assert!(ran.rubbish >= CALLS);
    check_transport(ran, &["rubbish"]);
}

#[test]
fn a_connection_that_never_reads_or_never_finishes() {
    let peer = tcp(|mut stream, ends| write_and_stay(&mut stream, b"", ends));
    let ran = drive(calls_to(peer.addr, Transport::Tcp, CALLS));
    check(&ran, &["timeout"]);
    let peer = tcp(|mut stream, ends| {
        read_some(&mut stream, ends);
        write_and_stay(
            &mut stream,
            b"SIP/2.0 200 OK\r\nVia: SIP/2.0/TCP 127.0",
            ends,
        );
    });
    let ran = drive(calls_to(peer.addr, Transport::Tcp, CALLS));
    check(&ran, &["timeout", "half a message"]);
}

fn tls(addr: std::net::SocketAddr) -> Settings {
    let mut settings = calls_to(addr, Transport::Tls, CALLS);
    settings.tls.trust_anyone = true;
    // Handshakes are what fails, however long the machine stands still meanwhile.
    settings.timers.t1_ms = 500;
    settings
}

#[test]
fn handshakes_that_stall_or_are_none() {
    let peer = tcp(|mut stream, ends| write_and_stay(&mut stream, b"", ends));
    let ran = drive(tls(peer.addr));
    assert_eq!(ran.handshakes.failed, CALLS);
    check_transport(ran, &["handshake: timed out"]);
    // Only silence is to time out, however busy the machine is.
    let patient = |addr| Settings {
        handshake_timeout: Duration::from_secs(20),
        ..tls(addr)
    };
    let peer = tcp(|mut stream, ends| {
        read_some(&mut stream, ends);
        write_and_stay(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n", ends);
    });
    let ran = drive(patient(peer.addr));
    check(&ran, &["handshake: no tls"]);
    let peer = tcp(|mut stream, ends| read_some(&mut stream, ends));
    let ran = drive(patient(peer.addr));
    check_transport(ran, &["handshake: cut"]);
    let peer = tcp(|mut stream, ends| {
        read_some(&mut stream, ends);
        // handshake_failure, fatal (RFC 8446 6.2)
        let _ = stream.write_all(&[21, 3, 3, 0, 2, 2, 40]);
    });
    let ran = drive(patient(peer.addr));
    check(&ran, &["handshake: nothing in common"]);
}

#[test]
fn an_interrupted_run_gives_what_it_has() {
    let peer = udp(
        |request, _| vec![(Duration::ZERO, response(request, "200 OK"))],
        never,
    );
    let mut settings = calls_to(peer.addr, Transport::Udp, 1_000_000);
    settings.schedule = Some(measure::Schedule::parse("100/s for 600s").unwrap());
    settings.hold = "600s".parse().unwrap();
    settings.timers.t1_ms = 500;
    settings.answer_timeout = PATIENCE;
    let control = Control::new();
    // Once: a second order would be to stop without hanging up.
    let mut asked = false;
    let ran = run(settings, &control, &mut |progress| {
        if progress.started >= CALLS && !std::mem::replace(&mut asked, true) {
            control.interrupt();
        }
    })
    .unwrap();
    assert!(ran.is_interrupted);
    assert!(ran.started >= CALLS && ran.started < 60_000);
    assert_eq!(ran.ended, ran.started);
    // Held calls are hung up, not cut.
    assert_eq!(
        (ran.failed, ran.figures.completed),
        (0, ran.started),
        "{:?}",
        ran.causes.ranked()
    );
    assert_eq!(ran.leaked, Leaked::default());
    assert!(peer.seen.load(Ordering::Relaxed) >= 3 * CALLS);
}

#[test]
fn whoever_is_redirected_has_not_failed() {
    let peer = udp(
        |request, _| match is(request, "INVITE") {
            true => vec![(Duration::ZERO, response(request, "302 Moved Temporarily"))],
            false => Vec::new(),
        },
        never,
    );
    let mut settings = calls_to(peer.addr, Transport::Udp, CALLS);
    settings.timers.t1_ms = 500;
    settings.answer_timeout = PATIENCE;
    let ran = drive(settings);
    assert_eq!((ran.started, ran.ended, ran.failed), (CALLS, CALLS, 0));
    assert_eq!(ran.causes.total(), 0, "{:?}", ran.causes);
    let figures = &ran.figures;
    assert_eq!((figures.invites_redirected, figures.failed()), (CALLS, 0));
    assert_eq!(figures.redirects.status(302), CALLS);
    let seconds = ran.series.seconds();
    let (redirected, failed) = seconds.iter().fold((0, 0), |sum, second| {
        (sum.0 + second.redirected, sum.1 + second.failed)
    });
    assert_eq!((redirected, failed), (CALLS, 0));
}

/// A fork that answers while the call lasts is acknowledged and ended. One that answers later is
/// not, and is counted.
#[test]
fn a_second_answer_is_ended_or_counted() {
    for (hold, is_late) in [("0", true), ("1s", false)] {
        let peer = udp(
            |request, _| {
                if is(request, "ACK") {
                    return Vec::new();
                }
                let answer = response(request, "200 OK");
                let mut answers = vec![(Duration::ZERO, answer.clone())];
                if is(request, "INVITE") {
                    let other = String::from_utf8(answer).unwrap();
                    let other = other.replace(";tag=peer", ";tag=other");
                    answers.push((Duration::from_millis(50), other.into_bytes()));
                }
                answers
            },
            never,
        );
        let mut settings = calls_to(peer.addr, Transport::Udp, CALLS);
        settings.timers.t1_ms = 500;
        settings.answer_timeout = PATIENCE;
        settings.hold = hold.parse().unwrap();
        let ran = drive(settings);
        assert_eq!((ran.ended, ran.failed), (CALLS, 0), "{:?}", ran.causes);
        let ended = counter(&ran, "forks_ended");
        let too_late = counter(&ran, "answers_too_late");
        if is_late {
            assert!(too_late > 0, "{ended} {too_late}");
        } else {
            assert_eq!((ended, too_late), (CALLS, 0));
        }
    }
}
