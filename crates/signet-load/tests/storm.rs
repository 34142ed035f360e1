//! A storm: all agents lose their connections at once and come back, each by
//! its own session.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use measure::Schedule;
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
