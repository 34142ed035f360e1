//! Straight from caller to callee, both in this process: every flow, every
//! transport, every lifetime of a connection.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use measure::Schedule;
use signet_load::{Called, Control, Flow, Leaked, Lifetime, Mix, Ran, Settings, Span, Users, run};
use sip_msg::Transport;

/// Whole rounds of every mix, for two threads.
const CALLS: u64 = 128;

fn settings(mix: Mix, transport: Transport) -> Settings {
    Settings {
        direct: Some(transport),
        called: Called::Uri("sip:bob@load.test".to_owned()),
        schedule: Some(Schedule::parse("300/s for 10s").unwrap().limit(CALLS)),
        ..Settings::new(mix)
    }
}

fn drive(settings: Settings) -> Ran {
    run(settings, &Control::new(), &mut |_| {}).unwrap()
}

/// All that was due was begun and ended, and nothing is left.
fn check(ran: &Ran) {
    assert_eq!(
        (ran.started, ran.ended),
        (CALLS, CALLS),
        "{:?}",
        ran.causes.ranked()
    );
    assert_eq!(ran.failed, 0, "{:?}", ran.causes.ranked());
    assert_eq!(ran.leaked, Leaked::default());
    assert_eq!(ran.rubbish, 0);
}

#[test]
fn a_uri_that_nobody_could_call_is_refused() {
    for (uri, transport, is_good) in [
        ("sip:bob@load.test", Transport::Udp, true),
        ("sips:bob@load.test", Transport::Udp, false),
        ("sips:bob@load.test", Transport::Tcp, false),
        ("sips:bob@load.test", Transport::Tls, true),
        ("sip:bob@load.test;method=BYE", Transport::Udp, false),
        ("tel:+4912345", Transport::Udp, false),
    ] {
        let mut settings = settings(Mix::only(Flow::Call), transport);
        settings.called = Called::Uri(uri.to_owned());
        assert_eq!(settings.check().is_ok(), is_good, "{uri} {transport:?}");
    }
}

/// Of each thread's share of the arrivals none begins without an agent.
#[test]
fn each_thread_has_an_agent_or_there_are_none() {
    for (agents, threads, is_good) in [(0, 4, true), (4, 4, true), (3, 4, false), (1, 1, true)] {
        let mut settings = settings(Mix::only(Flow::Call), Transport::Udp);
        settings.threads = threads;
        if agents > 0 {
            settings.users = Users::from_pattern("user{n}", None, agents).unwrap();
        }
        match settings.check() {
            Ok(()) => assert!(is_good, "{agents} {threads}"),
            Err(error) => assert!(
                !is_good && error.contains("--threads 3, or --agents 4"),
                "{error}"
            ),
        }
    }
}

#[test]
fn calls_over_every_transport_and_lifetime() {
    for transport in [
        Transport::Udp,
        Transport::Tcp,
        Transport::Tls,
        Transport::Ws,
        Transport::Wss,
    ] {
        for lifetime in [Lifetime::One, Lifetime::Calls(1), Lifetime::Calls(5)] {
            let mut settings = settings(Mix::only(Flow::Call), transport);
            settings.lifetime = lifetime;
            let ran = drive(settings);
            check(&ran);
            let figures = &ran.figures;
            assert_eq!(
                (figures.invites, figures.invites_ok, figures.completed),
                (CALLS, CALLS, CALLS)
            );
            assert_eq!(
                (
                    figures.srd.count(),
                    figures.sdd.count(),
                    figures.sdt.count()
                ),
                (CALLS, CALLS, CALLS)
            );
            assert_eq!(
                (
                    ran.called.incoming,
                    ran.called.established,
                    ran.called.ended
                ),
                (CALLS, CALLS, CALLS)
            );
            let answered = |method| ran.answered.responses(method, 200);
            assert_eq!((answered("INVITE"), answered("BYE")), (CALLS, CALLS));
            let opened = ran
                .counters
                .iter()
                .find(|c| c.0 == "connections_opened")
                .unwrap()
                .1;
            match (transport, lifetime) {
                (Transport::Udp, _) => assert_eq!(opened, 0),
                (_, Lifetime::One) => assert_eq!(opened, 1),
                (_, Lifetime::Calls(1)) => assert_eq!(opened, CALLS),
                // More where calls overlapped.
                _ => assert!((CALLS / 5..CALLS).contains(&opened), "{opened}"),
            }
            let handshakes = ran.handshakes.full + ran.handshakes.resumed;
            let secured = if transport.is_secure() { opened } else { 0 };
            assert_eq!(handshakes, secured, "{transport:?} {lifetime:?}");
            // What was negotiated is known of each of them.
            let mut counters = ran.counters.iter();
            let suite = counters.find(|counter| counter.0.starts_with("TLS_"));
            assert_eq!(suite.map_or(0, |suite| suite.1), secured);
        }
    }
}

#[test]
fn held_and_ringing_calls_last_as_long_as_was_asked() {
    let mut settings = settings(Mix::only(Flow::Call), Transport::Udp);
    settings.hold = Span::Constant(Duration::from_millis(150));
    settings.answering.ring = Span::Constant(Duration::from_millis(100));
    let ran = drive(settings);
    check(&ran);
    // Histograms have three digits.
    let summary = |latency: &measure::Latency| latency.summary().actual.min_us;
    assert!(
        summary(&ran.figures.setup) + 200 >= 100_000,
        "rang for less than it should"
    );
    // It is counted to the 180, which comes before the call rings for so long.
    assert!(
        summary(&ran.figures.srd) < summary(&ran.figures.setup),
        "180 comes first"
    );
    assert!(
        summary(&ran.figures.sdt) + 200 >= 150_000,
        "held for less than it should"
    );
}

#[test]
fn a_mix_of_everything_on_agents_of_their_own() {
    for (transport, lifetime, own_ports) in [
        (Transport::Udp, Lifetime::One, true),
        (Transport::Udp, Lifetime::One, false),
        (Transport::Tcp, Lifetime::Agent, false),
        (Transport::Tls, Lifetime::Agent, false),
        (Transport::Ws, Lifetime::Agent, false),
        (Transport::Wss, Lifetime::Agent, false),
        (Transport::Ws, Lifetime::One, false),
    ] {
        let mix: Mix = "call=4,reregister=2,options=1,message=1".parse().unwrap();
        let mut settings = settings(mix, transport);
        settings.users = Users::from_pattern("user{n}", None, 20).unwrap();
        settings.register_first = true;
        settings.answering.is_registrar = true;
        settings.lifetime = lifetime;
        settings.own_ports = own_ports;
        settings.threads = 2;
        settings.local = "127.3.0.0/24".parse().unwrap();
        let ran = drive(settings);
        check(&ran);
        assert_eq!(
            (ran.upkeep.ready, ran.upkeep.failed),
            (20, 0),
            "{:?}",
            ran.upkeep
        );
        let figures = &ran.figures;
        assert_eq!(figures.invites_ok, CALLS / 2);
        for (name, count) in [("reregister", 32), ("options", 16), ("message", 16)] {
            let request = figures.requests.get(name).unwrap();
            assert_eq!(
                (request.sent, request.ok, request.failed),
                (count, count, 0),
                "{name}"
            );
            assert_eq!(request.delay.count(), count);
        }
        assert_eq!(ran.threads.len(), 2);
    }
}

#[test]
fn many_connections_come_up_while_registrations_are_answered() {
    for transport in [Transport::Tcp, Transport::Tls, Transport::Ws] {
        let mut settings = settings(Mix::only(Flow::Call), transport);
        settings.users = Users::from_pattern("user{n}", None, 300).unwrap();
        settings.register_first = true;
        settings.setup_rate_per_s = 100_000.0;
        settings.answering.is_registrar = true;
        settings.lifetime = Lifetime::Agent;
        let ran = drive(settings);
        check(&ran);
        assert_eq!(
            (ran.upkeep.ready, ran.upkeep.failed),
            (300, 0),
            "{:?}",
            ran.upkeep
        );
    }
}

#[test]
fn registrations_and_their_removal() {
    let mut settings = settings(Mix::only(Flow::Register), Transport::Udp);
    settings.users = Users::from_pattern("user{n}", None, usize::try_from(CALLS).unwrap()).unwrap();
    settings.answering.is_registrar = true;
    let ran = drive(settings.clone());
    check(&ran);
    assert_eq!(
        (
            ran.figures.registers,
            ran.figures.registers_ok,
            ran.figures.rrd.count()
        ),
        (CALLS, CALLS, CALLS)
    );

    settings.mix = Mix::only(Flow::Deregister);
    settings.register_first = true;
    let ran = drive(settings);
    check(&ran);
    assert_eq!(ran.figures.requests.get("deregister").unwrap().ok, CALLS);
    // Who registers first has a delay, and is no attempt.
    assert_eq!((ran.figures.registers, ran.figures.rrd.count()), (0, CALLS));
}

#[test]
fn refusals_are_failures_with_their_status() {
    let mut settings = settings(Mix::only(Flow::Call), Transport::Udp);
    settings.answering.reject = Some(486);
    let ran = drive(settings);
    assert_eq!((ran.started, ran.ended, ran.failed), (CALLS, CALLS, CALLS));
    assert_eq!(ran.causes.status(486), CALLS);
    assert_eq!(
        (ran.figures.invites_declined, ran.figures.srd_failed.count()),
        (CALLS, CALLS)
    );
    assert_eq!(ran.answered.responses("INVITE", 486), CALLS);
    assert_eq!(ran.answered.calls, CALLS);
    assert_eq!(ran.leaked, Leaked::default());
}
