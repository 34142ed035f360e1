//! A storm: all agents lose their connections at once and come back, each by
//! its own session.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{Reply, calls_to, is, response, serve, tcp};
use measure::Schedule;
use signet_load::app::{Circumstances, result_of};
use signet_load::{
    Called, Control, Failed, Flow, Leaked, Lifetime, Mix, Ran, Settings, StormCounts, Users, run,
};
use sip_msg::Transport;
use sip_tls::TlsVersion;

const AGENTS: u64 = 40;

fn settings(transport: Transport) -> Settings {
    let mut settings = Settings::new(Mix::only(Flow::Reregister));
    settings.direct = Some(transport);
    settings.called = Called::Uri("sip:bob@load.test".to_owned());
    settings.users = Users::from_pattern("user{n}", None, AGENTS as usize).unwrap();
    settings.answering.is_registrar = true;
    settings.register_first = true;
    settings.lifetime = Lifetime::Agent;
    // It lasts far longer than the storm: the run is ended when all are back.
    settings.schedule = Some(Schedule::parse("40/s for 120s").unwrap());
    settings.storm_at = Some(Duration::from_millis(300));
    settings
}

/// Runs until each agent has had more than one turn after the storm.
fn drive(settings: Settings) -> Ran {
    let control = Control::new();
    run(settings, &control.clone(), &mut |progress| {
        if progress.ended >= 3 * AGENTS {
            control.interrupt();
        }
    })
    .unwrap()
}

fn check(ran: &Ran) -> StormCounts {
    let storm = ran.storm.unwrap();
    assert_eq!(
        (storm.dropped, storm.registered),
        (AGENTS, AGENTS),
        "{storm:?} {:?}",
        ran.upkeep.causes.ranked()
    );
    assert_eq!(storm.resumed + storm.full, AGENTS);
    assert!(storm.registered_last_ms >= storm.connected_last_ms);
    assert_eq!(ran.upkeep.ready, AGENTS);
    assert_eq!(ran.leaked, Leaked::default());
    storm
}

#[test]
fn each_agent_resumes_its_own_session() {
    for version in [TlsVersion::V12, TlsVersion::V13] {
        let mut settings = settings(Transport::Tls);
        settings.tls.versions = vec![version];
        settings.tls.resume_share = 1.0;
        let ran = drive(settings);
        let storm = check(&ran);
        assert_eq!(storm.resumed, AGENTS, "{version:?}");
        // The first time they had nothing to resume: nobody refused them.
        assert_eq!(ran.handshakes.resumption_refused, 0, "{version:?}");
    }
}

#[test]
fn callers_in_a_crowd_resume_their_own_sessions_too() {
    const CALLS: u64 = 200;
    let mut settings = settings(Transport::Tls);
    settings.mix = Mix::only(Flow::Call);
    settings.register_first = false;
    settings.storm_at = None;
    settings.lifetime = Lifetime::Calls(1);
    settings.schedule = Some(Schedule::parse("50/s for 60s").unwrap().limit(CALLS));
    // Held, so that more calls are under way than one peer's tickets are kept for.
    settings.hold = "200ms".parse().unwrap();
    settings.users = Users::from_pattern("user{n}", None, CALLS as usize / 2).unwrap();
    settings.tls.versions = vec![TlsVersion::V13];
    settings.tls.resume_share = 1.0;
    let ran = run(settings, &Control::new(), &mut |_| {}).unwrap();
    assert_eq!(ran.failed, 0, "{:?}", ran.causes.ranked());
    let handshakes = &ran.handshakes;
    assert_eq!(
        (handshakes.full, handshakes.resumed),
        (CALLS / 2, CALLS / 2)
    );
    assert_eq!(handshakes.resumption_refused, 0);
}

#[test]
fn nobody_resumes_who_is_not_to() {
    for transport in [Transport::Tls, Transport::Tcp] {
        let storm = check(&drive(settings(transport)));
        assert_eq!(storm.full, AGENTS);
    }
}

#[test]
fn a_storm_needs_connections_that_last() {
    let mut settings = settings(Transport::Tls);
    settings.lifetime = Lifetime::Calls(1);
    let Failed::Usage(error) = run(settings, &Control::new(), &mut |_| {}).unwrap_err() else {
        panic!()
    };
    assert!(error.contains("--connection per-agent"), "{error}");
}

#[test]
fn a_storm_comes_before_the_end_of_its_load() {
    for schedule in [
        Schedule::parse("40/s for 2s").unwrap(),
        Schedule::parse("1/s for 120s").unwrap().limit(2),
    ] {
        let mut settings = settings(Transport::Tcp);
        settings.schedule = Some(schedule);
        settings.storm_at = Some(Duration::from_secs(2));
        let Failed::Usage(error) = run(settings, &Control::new(), &mut |_| {}).unwrap_err() else {
            panic!()
        };
        assert!(error.contains("ends after 2s"), "{error}");
        assert!(error.contains("--duration"), "{error}");
    }
}

/// The same load over TCP to a peer.
fn to_peer(addr: SocketAddr, flow: Flow) -> Settings {
    Settings {
        server: calls_to(addr, Transport::Tcp, 0).server,
        direct: None,
        called: Called::Uri("sip:peer@load.test".to_owned()),
        mix: Mix::only(flow),
        ..settings(Transport::Tcp)
    }
}

/// Whoever waits for an answer when the storm breaks out waits for it in vain, and registers anew
/// as soon as he is connected again: not when a timer of his has run out.
#[test]
fn whoever_waits_for_an_answer_comes_back_with_the_others() {
    let connections = AtomicU64::new(0);
    let peer = tcp(move |mut stream, ends| {
        let is_before = connections.fetch_add(1, Ordering::Relaxed) < AGENTS;
        let mut registers = 0;
        serve(&mut stream, ends, |request| {
            registers += 1;
            if is_before && registers > 1 {
                return Reply::Nothing;
            }
            Reply::Answer(response(request, "200 OK"))
        });
    });
    let ran = drive(to_peer(peer.addr, Flow::Reregister));
    check(&ran);
    assert!(ran.causes.named("cut by the storm") > 0, "{:?}", ran.causes);
    assert_eq!(ran.causes.named("timeout"), 0, "{:?}", ran.causes);
    // It was not the transport that failed, nor the server that refused.
    assert_eq!(ran.figures.transport_failed, 0);
    assert_eq!(ran.upkeep.not_refreshed, 0);
}

/// The last arrival begins before the storm, and connections are refused until the schedule is
/// over: they are opened again for all that.
#[test]
fn whoever_comes_back_has_time_for_it_when_the_schedule_is_over() {
    let connections = AtomicU64::new(0);
    let peer = tcp(move |mut stream, ends| {
        let number = connections.fetch_add(1, Ordering::Relaxed);
        if (AGENTS..2 * AGENTS).contains(&number) {
            return;
        }
        serve(&mut stream, ends, |request| {
            Reply::Answer(response(request, "200 OK"))
        });
    });
    let mut settings = to_peer(peer.addr, Flow::Options);
    settings.schedule = Some(Schedule::parse("1/s for 2s").unwrap());
    settings.storm_at = Some(Duration::from_millis(1_900));
    let described = settings.clone();
    let ran = run(settings, &Control::new(), &mut |_| {}).unwrap();
    assert_eq!(check(&ran).missing, 0);
    assert!(!doubts(ran, &described).contains(&"storm".to_owned()));
}

#[test]
fn whoever_does_not_come_back_is_missed() {
    let connections = AtomicU64::new(0);
    let peer = tcp(move |mut stream, ends| {
        let is_before = connections.fetch_add(1, Ordering::Relaxed) < AGENTS;
        serve(&mut stream, ends, |request| {
            let is_refused = !is_before && is(request, "REGISTER");
            let status = match is_refused {
                true => "403 Forbidden",
                false => "200 OK",
            };
            Reply::Answer(response(request, status))
        });
    });
    let mut settings = to_peer(peer.addr, Flow::Options);
    settings.schedule = Some(Schedule::parse("40/s for 1s").unwrap());
    settings.drain_timeout = Some(Duration::from_millis(300));
    let described = settings.clone();
    let ran = run(settings, &Control::new(), &mut |_| {}).unwrap();
    let storm = ran.storm.unwrap();
    assert_eq!(
        (storm.dropped, storm.registered, storm.missing),
        (AGENTS, 0, AGENTS)
    );
    assert_eq!(ran.upkeep.lost, AGENTS);
    assert!(doubts(ran, &described).contains(&"storm".to_owned()));
}

/// What the generator doubts of its result, by name.
fn doubts(ran: Ran, settings: &Settings) -> Vec<String> {
    let mut result = result_of(ran, settings, Circumstances::default());
    result.conclude(&[]);
    result.doubts.into_iter().map(|doubt| doubt.name).collect()
}

/// RFC 3261 8.1.1.8: the contact is where the agent is reached, on its new connection too; what was
/// bound before is bound no more.
#[test]
fn whoever_comes_back_is_reached_where_he_is() {
    let connections = AtomicU64::new(0);
    let seen: Arc<Mutex<Vec<(bool, SocketAddr, String)>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let peer = tcp(move |mut stream, ends| {
        let is_before = connections.fetch_add(1, Ordering::Relaxed) < AGENTS;
        let from = stream.peer_addr().unwrap();
        serve(&mut stream, ends, |request| {
            if is(request, "REGISTER") {
                let register = (is_before, from, request.to_owned());
                noted.lock().unwrap().push(register);
            }
            Reply::Answer(response(request, "200 OK"))
        });
    });
    check(&drive(to_peer(peer.addr, Flow::Options)));
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len() as u64, 2 * AGENTS);
    let mut at: HashMap<String, SocketAddr> = HashMap::new();
    for (is_before, from, register) in seen.iter() {
        let lines = |name: &'static str| register.lines().filter(move |l| l.starts_with(name));
        assert!(
            lines("Via: ").all(|via| via.contains(&format!(" {from};"))),
            "{from}: {register}"
        );
        let contacts: Vec<&str> = lines("Contact: ").collect();
        let user = contacts[0].split(['<', '@']).nth(1).unwrap();
        let contact = |at: &SocketAddr| format!("Contact: <{user}@{at};transport=tcp>");
        assert_eq!(contacts[0], contact(from));
        let left = at.insert(user.to_owned(), *from);
        match left {
            None => assert!(*is_before && contacts.len() == 1, "{register}"),
            Some(left) => {
                let removed = format!("{};expires=0", contact(&left));
                assert!(
                    !is_before && contacts[1..] == [removed.as_str()],
                    "{register}"
                );
            }
        }
    }
}

/// Each agent renews its registration in one row of times, however often it was disconnected.
#[test]
fn whoever_comes_back_often_registers_no_more_often() {
    const CLOSED: u32 = 3;
    let lives: Mutex<HashMap<String, u32>> = Mutex::default();
    let stays: Arc<Mutex<Vec<(Duration, u32)>>> = Arc::default();
    let noted = Arc::clone(&stays);
    let peer = tcp(move |mut stream, ends| {
        let (begun, mut registers, mut life) = (Instant::now(), 0, 0);
        serve(&mut stream, ends, |request| {
            let answer = response(request, "200 OK");
            if !is(request, "REGISTER") {
                return Reply::Answer(answer);
            }
            registers += 1;
            if registers == 1 {
                let from = request.lines().find(|line| line.starts_with("To:"));
                let mut lives = lives.lock().unwrap();
                let of_user = lives.entry(from.unwrap().to_owned()).or_default();
                *of_user += 1;
                life = *of_user;
            }
            match life <= CLOSED {
                true => Reply::Last(answer),
                false => Reply::Answer(answer),
            }
        });
        if life > CLOSED {
            noted.lock().unwrap().push((begun.elapsed(), registers));
        }
    });
    let mut settings = to_peer(peer.addr, Flow::Options);
    settings.storm_at = None;
    settings.users = Users::from_pattern("user{n}", None, 4).unwrap();
    settings.expires_s = 1;
    settings.schedule = Some(Schedule::parse("20/s for 6s").unwrap());
    run(settings, &Control::new(), &mut |_| {}).unwrap();
    drop(peer);
    let stays = stays.lock().unwrap();
    assert_eq!(stays.len(), 4, "{stays:?}");
    for (lasted, registers) in stays.iter() {
        // A registration of a second is renewed 400 ms after the last one at the earliest.
        let most = lasted.as_millis() as u32 / 400 + 2;
        assert!(*registers <= most, "{registers} in {lasted:?}");
    }
}
