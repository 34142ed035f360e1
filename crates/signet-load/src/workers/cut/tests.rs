use measure::Pacer;
use sip_tls::{ClientResumption, TlsVersion};

use super::*;
use crate::Mix;

fn load(to: &str) -> Settings {
    let mut settings = Settings::new("call=2,options=1".parse::<Mix>().unwrap());
    settings.server = Some(Server::parse(to, None).unwrap());
    settings.called = Called::Uri("sip:bob@example.test".to_owned());
    settings.schedule = Some(Schedule::constant(301.0, 2_000_000_000));
    settings.users = Users::from_pattern("u{n}", Some("p{n}"), 7).unwrap();
    settings.hold = "uniform:1s..2s".parse().unwrap();
    settings
}

fn taken(settings: &Settings) -> Vec<u64> {
    let share = settings.share;
    let schedule = settings.schedule.as_ref().unwrap();
    let mut all = Vec::new();
    for thread in 0..settings.threads as u64 {
        let index = share.index * settings.threads as u64 + thread;
        let of = share.of * settings.threads as u64;
        let mut pacer = Pacer::share(schedule, index, of);
        while let Some(due_ns) = pacer.next_due_ns() {
            all.push(due_ns);
            pacer.take();
        }
    }
    all
}

#[test]
fn the_parts_are_together_the_load() {
    for (threads, workers, poisson, limit) in [
        (1, 2, false, None),
        (3, 2, true, None),
        (2, 5, false, Some(100)),
        (1, 1, true, None),
    ] {
        let mut whole = load("sip:127.0.0.1:5060");
        whole.threads = threads;
        whole.users = Users::from_pattern("u{n}", Some("p{n}"), 11).unwrap();
        let mut schedule = whole.schedule.take().unwrap();
        if poisson {
            schedule = schedule.poisson(9);
        }
        if let Some(limit) = limit {
            schedule = schedule.limit(limit);
        }
        whole.schedule = Some(schedule);
        let jobs = cut(&whole, How::default(), workers).unwrap();
        let parts: Vec<Settings> = jobs
            .into_iter()
            .map(|job| job.settings(&Rules::default()).unwrap())
            .collect();
        let mut arrivals: Vec<u64> = parts.iter().flat_map(taken).collect();
        arrivals.sort_unstable();
        let mut expected = taken(&whole);
        expected.sort_unstable();
        assert_eq!(arrivals, expected);
        let agents: usize = parts.iter().map(|part| part.users.count()).sum();
        assert_eq!(agents, whole.users.count());
        let rate_per_s: f64 = parts.iter().map(Settings::rate_max_per_s).sum();
        assert!((rate_per_s - 301.0).abs() < 1e-6, "{rate_per_s}");
    }
}

#[test]
fn what_arrives_is_what_was_sent() {
    let mut whole = load("sip:[::1]:5061;transport=tls");
    whole.lifetime = Lifetime::Calls(3);
    whole.close = Close::Abrupt;
    whole.drain_timeout = Some(Duration::from_secs(5));
    whole.tls.trust_anyone = true;
    whole.tls.versions = vec![TlsVersion::V12];
    whole.tls.resume_share = 0.25;
    whole.tls.resume_by = ClientResumption::SessionIds;
    whole.seed = 99;
    let how = How {
        local: "::1".parse().ok(),
        checks_self: true,
        ..How::default()
    };
    let job = cut(&whole, how, 1).unwrap().remove(0);
    let json = serde_json::to_string(&job).unwrap();
    let read: Job = serde_json::from_str(&json).unwrap();
    assert_eq!(read, job);
    assert!(!format!("{read:?}").contains("p{n}"), "{read:?}");
    let got = read.settings(&Rules::default()).unwrap();
    assert_eq!(got.mix, whole.mix);
    assert_eq!(got.server, whole.server);
    assert_eq!((got.schedule, got.hold), (whole.schedule, whole.hold));
    assert_eq!((got.lifetime, got.close), (whole.lifetime, whole.close));
    assert_eq!(
        (got.seed, got.drain_timeout),
        (whole.seed, whole.drain_timeout)
    );
    assert_eq!(got.tls.versions, whole.tls.versions);
    assert_eq!(got.tls.resume_by, whole.tls.resume_by);
    assert_eq!(got.local, "::1".parse().unwrap());
}

#[test]
fn a_worker_loads_nobody_that_it_was_not_told() {
    let whole = load("sip:127.0.0.1:5060");
    let job = || cut(&whole, How::default(), 2).unwrap().remove(0);
    let rules = |allowed: &str| Rules {
        allowed: Some(allowed.split(' ').map(|one| one.parse().unwrap()).collect()),
        rate_max_per_s: None,
    };
    assert!(job().settings(&rules("192.0.2.1 127.0.0.1")).is_ok());
    let error = job().settings(&rules("127.0.0.1:5061")).unwrap_err();
    assert!(error.contains("may not load 127.0.0.1:5060"), "{error}");
    assert!(error.contains("it may load 127.0.0.1:5061"), "{error}");
    let mut job = job();
    job.follow_routes = true;
    let error = job.clone().settings(&rules("127.0.0.1")).unwrap_err();
    assert!(error.contains("--follow-routes"), "{error}");
    assert!(job.clone().settings(&Rules::default()).is_ok());
    job.follow_routes = false;
    let slow = Rules {
        rate_max_per_s: Some(150.0),
        ..rules("127.0.0.1")
    };
    let error = job.settings(&slow).unwrap_err();
    assert!(error.contains("--rate-max"), "{error}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let whole = load("sip:127.0.0.1:5060");
    let good = cut(&whole, How::default(), 1).unwrap().remove(0);
    type Change = fn(&mut Job);
    let changes: [Change; 7] = [
        |job| job.of = 0,
        |job| job.index = 5,
        |job| job.addr = "example.com".to_owned(),
        |job| job.transport = "sctp".to_owned(),
        |job| job.mix = "rm".to_owned(),
        |job| job.threads = 1_000,
        |job| job.ws_path = "x".to_owned(),
    ];
    for (place, change) in changes.into_iter().enumerate() {
        let mut job = good.clone();
        change(&mut job);
        // The path counts where there is a WebSocket.
        let is_refused = job.settings(&Rules::default()).is_err();
        assert_eq!(is_refused, place != 6, "{place}");
    }
    let unknown = serde_json::to_string(&good)
        .unwrap()
        .replacen('{', "{\"shell\":1,", 1);
    assert!(serde_json::from_str::<Job>(&unknown).is_err());
}

#[test]
fn what_workers_cannot_do_is_said_with_its_remedy() {
    type Change = fn(&mut Settings);
    let cases: [(Change, usize, &str); 6] = [
        (|_| {}, 0, "name 1 to"),
        (|_| {}, 8, "--agents 8"),
        (|s| s.threads = 4, 2, "--agents 8"),
        (
            |s| {
                s.called = Called::Ring;
                s.register_first = true;
            },
            4,
            "--agents 8",
        ),
        (|s| s.schedule = None, 2, "--to"),
        (
            |s| s.answering.listen = vec![(Transport::Udp, "127.0.0.1:0".parse().unwrap())],
            2,
            "signet load answer",
        ),
    ];
    for (change, workers, why) in cases {
        let mut settings = load("sip:127.0.0.1:5060");
        change(&mut settings);
        let error = cut(&settings, How::default(), workers).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
