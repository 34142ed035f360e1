use super::*;

const MS: u64 = 1_000_000;

fn setup(first_status_ms: Option<u64>, done_ms: u64) -> Setup {
    Setup {
        intended_ns: 0,
        sent_ns: 2 * MS,
        first_status_ns: first_status_ms.map(|ms| ms * MS),
        done_ns: done_ms * MS,
    }
}

fn answered(statuses: &[u16]) -> SipFigures {
    let mut figures = SipFigures::new();
    for &status in statuses {
        figures.invite_sent();
        figures.invite_answered(status, &setup(None, 12));
    }
    figures
}

#[test]
fn the_ratios_are_those_of_the_rfc() {
    // 4 answered, 2 redirected, 2 declined, 2 ineffective, 2 other failures.
    let mut figures = answered(&[200, 200, 200, 202, 302, 301, 486, 603, 503, 408, 404, 488]);
    let ratios = figures.ratios();
    // 4.6: 4 of 12 - 2.
    assert_eq!(ratios.ser_percent, Some(40.0));
    // 4.7: 4 + 2 of 12 - 2.
    assert_eq!(ratios.seer_percent, Some(60.0));
    // 4.8: 2 of 12, redirected ones included.
    assert_eq!(ratios.isa_percent, Some(200.0 / 12.0));
    // 4.9: no session has ended yet.
    assert_eq!(ratios.scr_percent, Some(0.0));
    for _ in 0..3 {
        figures.bye_sent();
        figures.bye_ok(0, 0, 0, MS);
    }
    figures.bye_sent();
    figures.bye_failed(0, 0, 0, 32_000 * MS);
    assert_eq!(figures.ratios().scr_percent, Some(25.0));
    assert_eq!((figures.succeeded(), figures.failed()), (3, 6 + 1));
}

#[test]
fn every_status_is_in_its_class() {
    // (status, SER, SEER, ISA) of one attempt, in percent.
    let table: &[(u16, Option<f64>, Option<f64>, f64)] = &[
        (200, Some(100.0), Some(100.0), 0.0),
        (300, None, None, 0.0),
        (302, None, None, 0.0),
        (380, None, None, 0.0),
        (400, Some(0.0), Some(0.0), 0.0),
        (404, Some(0.0), Some(0.0), 0.0),
        (408, Some(0.0), Some(0.0), 100.0),
        (480, Some(0.0), Some(100.0), 0.0),
        (486, Some(0.0), Some(100.0), 0.0),
        (487, Some(0.0), Some(0.0), 0.0),
        (500, Some(0.0), Some(0.0), 100.0),
        (501, Some(0.0), Some(0.0), 0.0),
        (503, Some(0.0), Some(0.0), 100.0),
        (504, Some(0.0), Some(0.0), 100.0),
        (600, Some(0.0), Some(100.0), 0.0),
        (603, Some(0.0), Some(100.0), 0.0),
        (604, Some(0.0), Some(0.0), 0.0),
    ];
    for &(status, ser, seer, isa) in table {
        let ratios = answered(&[status]).ratios();
        assert_eq!(
            (ratios.ser_percent, ratios.seer_percent, ratios.isa_percent),
            (ser, seer, Some(isa)),
            "{status}"
        );
    }
}

#[test]
fn no_answer_is_a_408_and_a_broken_transport_a_503() {
    // RFC 3261 8.1.3.1.
    for (failure, isa) in [
        (Failure::Timeout, 100.0),
        (Failure::Transport, 100.0),
        (Failure::Broken("reset"), 100.0),
        (Failure::Status(503), 100.0),
        (Failure::Status(404), 0.0),
        (Failure::Other("rubbish"), 0.0),
    ] {
        let mut figures = SipFigures::new();
        figures.invite_sent();
        figures.invite_failed(failure);
        let ratios = figures.ratios();
        assert_eq!(
            (ratios.ser_percent, ratios.isa_percent),
            (Some(0.0), Some(isa)),
            "{failure}"
        );
        assert_eq!(figures.srd_failed.count(), 0, "no response, no delay");
    }
}

#[test]
fn a_redirection_has_its_status_and_is_no_failure() {
    let redirected = |statuses: &[u16]| {
        let mut figures = answered(statuses);
        for status in statuses.iter().filter(|status| **status >= 300) {
            figures.redirects.add(Failure::Status(*status));
        }
        figures
    };
    let mut figures = redirected(&[302, 302, 301, 200]);
    assert_eq!((figures.failed(), figures.succeeded()), (0, 1));
    assert_eq!(figures.redirects.status(302), 2);
    figures.merge(&redirected(&[302]));
    assert_eq!(figures.redirects.total(), figures.invites_redirected);
    let text = serde_json::to_string(&figures).unwrap();
    assert_eq!(serde_json::from_str::<SipFigures>(&text).unwrap(), figures);
}

#[test]
fn nothing_attempted_has_no_ratio() {
    assert_eq!(SipFigures::new().ratios(), Ratios::default());
}

#[test]
fn the_request_delay_ends_at_the_first_response_other_than_100() {
    let mut figures = SipFigures::new();
    figures.invite_answered(200, &setup(Some(7), 52));
    figures.invite_answered(200, &setup(None, 12));
    let srd = figures.srd.summary();
    assert_eq!((srd.count, srd.actual.min_us), (2, 5_000));
    assert_eq!(srd.intended.min_us / 100, 70);
    assert_eq!(srd.actual.max_us / 100, 100);
    assert_eq!(
        figures.setup.summary().actual.max_us / 1_000,
        50,
        "to the 200"
    );
}

#[test]
fn delays_of_failures_are_apart_and_challenges_have_none() {
    let figures = answered(&[486, 503, 401, 402, 407, 302]);
    assert_eq!(figures.srd.count(), 0);
    assert_eq!(figures.srd_failed.count(), 2);
    assert_eq!(figures.srd_failed.summary().actual.max_us / 10, 1_000);
    assert_eq!(
        figures.invites_failed, 5,
        "an attempt that ends with a challenge failed"
    );
}

#[test]
fn registrations() {
    let mut figures = SipFigures::new();
    for _ in 0..8 {
        figures.register_sent();
    }
    for _ in 0..6 {
        figures.register_ok(0, MS, 21 * MS);
    }
    figures.register_failed();
    figures.register_failed();
    assert_eq!(figures.ratios().ira_percent, Some(25.0));
    let rrd = figures.rrd.summary();
    assert_eq!(
        (rrd.count, rrd.actual.p50_us / 100),
        (6, 200),
        "successes only"
    );
}

#[test]
fn who_registers_to_take_part_has_a_delay_and_is_no_attempt() {
    let mut figures = SipFigures::new();
    figures.upkeep_registered(MS, 21 * MS);
    let rrd = figures.rrd.summary();
    assert_eq!((rrd.count, rrd.actual.p50_us / 100), (1, 200));
    assert_eq!(figures.ratios().ira_percent, None);
    assert_eq!((figures.succeeded(), figures.failed()), (0, 0));
    assert_eq!(figures.delay_p99_us(), None, "nothing of it was due");
}

#[test]
fn sessions_last_from_the_200_to_the_bye() {
    let mut figures = SipFigures::new();
    // Answered at 100 ms, to end at 1,100 ms, BYE at 1,103 ms, its 200 at 1,113 ms.
    figures.bye_ok(100 * MS, 1_100 * MS, 1_103 * MS, 1_113 * MS);
    assert_eq!(figures.sdt.summary().actual.p50_us / 1_000, 1_003);
    let sdd = figures.sdd.summary();
    assert_eq!(
        (sdd.intended.p50_us / 100, sdd.actual.p50_us / 100),
        (130, 100)
    );
    // A BYE without an answer: both end with the timer.
    figures.bye_failed(100 * MS, 1_100 * MS, 1_100 * MS, 33_100 * MS);
    assert_eq!(figures.sdt_failed.summary().actual.p50_us / 100_000, 330);
    assert_eq!(figures.sdd_failed.summary().actual.p50_us / 100_000, 320);
    assert_eq!((figures.sdt.count(), figures.sdd.count()), (1, 1));
}

/// A call whose BYE nobody answers was set up and has failed: it is told once.
#[test]
fn a_call_whose_bye_failed_has_not_ended_well() {
    let mut figures = answered(&[200, 200, 302, 486]);
    figures.bye_sent();
    figures.bye_ok(0, MS, MS, 2 * MS);
    figures.bye_sent();
    figures.bye_failed(0, MS, MS, 33 * MS);
    assert_eq!(
        (figures.succeeded(), figures.failed(), figures.ended()),
        (1, 2, 4)
    );
}

#[test]
fn lateness_weighs_the_most_beside_the_shortest_delay() {
    let mut figures = SipFigures::new();
    assert_eq!(figures.delay_p99_us(), None);
    figures.srd.record(0, 0, 40 * MS);
    // From the send: how late it was sent is not the server's.
    figures.register_ok(0, 90 * MS, 100 * MS);
    assert_eq!(figures.delay_p99_us().map(|us| us / 1_000), Some(10));
    figures.request("OPTIONS").delay.record(0, 0, 2 * MS);
    assert_eq!(figures.delay_p99_us().map(|us| us / 1_000), Some(2));
}

#[test]
fn threads_add_up() {
    let mut a = answered(&[200, 302, 486]);
    let mut b = answered(&[200, 503]);
    a.request("OPTIONS").ok += 2;
    b.request("OPTIONS").ok += 3;
    b.request("MESSAGE").failed += 1;
    b.register_sent();
    b.register_ok(0, 0, MS);
    let mut all = answered(&[200, 302, 486, 200, 503]);
    all.request("OPTIONS").ok += 5;
    all.request("MESSAGE").failed += 1;
    all.register_sent();
    all.register_ok(0, 0, MS);
    a.merge(&b);
    assert_eq!(a, all);
    assert_eq!(a.ended(), 5 + 5 + 1 + 1);
}

#[test]
fn causes_are_counted_by_name_and_survive_json() {
    let mut causes = Causes::new();
    for _ in 0..3 {
        causes.add(Failure::Status(503));
    }
    causes.add(Failure::Timeout);
    causes.add(Failure::Timeout);
    causes.add(Failure::Transport);
    causes.add(Failure::Other("tls handshake"));
    assert_eq!(
        (causes.status(503), causes.named("timeout"), causes.total()),
        (3, 2, 7)
    );
    let ranked: Vec<String> = causes
        .ranked()
        .into_iter()
        .map(|(name, n)| format!("{name}: {n}"))
        .collect();
    assert_eq!(
        ranked,
        [
            "status 503: 3",
            "timeout: 2",
            "tls handshake: 1",
            "transport: 1"
        ]
    );
    let text = serde_json::to_string(&causes).unwrap();
    assert_eq!(
        text,
        r#"{"status 503":3,"timeout":2,"tls handshake":1,"transport":1}"#
    );
    let back: Causes = serde_json::from_str(&text).unwrap();
    assert_eq!(back, causes);
    causes.merge(&back);
    assert_eq!(causes.total(), 14);
}

#[test]
fn figures_survive_json() {
    let mut figures = answered(&[200, 302, 486, 503]);
    figures.request("OPTIONS").delay.record(0, 0, MS);
    let text = serde_json::to_string(&figures).unwrap();
    assert_eq!(serde_json::from_str::<SipFigures>(&text).unwrap(), figures);
}
