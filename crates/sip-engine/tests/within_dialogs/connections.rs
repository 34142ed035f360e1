//! Phones on connections: one that registers again, one that is gone, two on one.

use super::*;
use sip_engine::refusal::Reason;
use sip_msg::ListenerId;

/// Bob over a connection, registered with an instance, or known by his contact.
fn connected(bed: &mut Bed, port: u16, instance: Option<&str>) -> Flow {
    let bob = flow(Transport::Tcp, &format!("203.0.113.9:{port}"));
    let contact = format!("sip:bob@203.0.113.9:{port};transport=tcp");
    bed.register_with("sip:bob@example.org", &contact, Some(bob), |binding| {
        binding.instance = instance.map(|instance| instance.as_bytes().into());
    });
    bob
}

/// Alice's request to bob after his connection has ended.
fn to_connected(method: &str, routes: &[String]) -> Request {
    let bobs = "sip:bob@203.0.113.9:40000;transport=tcp";
    of(method, bobs, ALICE, BOB, ALICES, routes)
}

#[test]
fn a_phone_that_has_registered_again_is_found_by_the_requests_of_its_calls() {
    for instance in [None, Some("\"<urn:uuid:1>\"")] {
        for is_restarted in [false, true] {
            let keys = |epoch| Arc::new(TokenKeys::of([9; 32], epoch));
            let mut bed = Bed::with_keys(trusting(), keys(1));
            let bob = connected(&mut bed, 40_000, instance);
            let mut invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
            invite.from = ALICE.into();
            let copy = bed
                .receive(&alice(Transport::Udp), &invite.text())
                .remove(1);
            let line = contact("sip:bob@203.0.113.9:40000;transport=tcp");
            let ok = only(bed.receive(&bob, &response(&copy, 200, "b", &line)));
            let routes = turned(&ok);
            distrust(&mut bed);
            if is_restarted {
                bed = Bed::with_keys(secured(), keys(2));
            } else {
                bed = again(bed);
            }
            let bob = connected(&mut bed, 40_777, instance);
            // Another of his phones is not it.
            bed.register_with("sip:bob@example.org", "sip:bob@203.0.113.50", None, |b| {
                b.instance = instance.map(|_| b"\"<urn:uuid:2>\"".as_slice().into());
            });
            if !is_restarted {
                // The connection's end is not known before something is sent along it.
                let sent = only(anywhere(&mut bed, &to_connected("INFO", &routes)));
                assert_eq!(sent.to.remote.to_string(), "203.0.113.9:40000");
                let next = bed.act(|shard, now, out| {
                    shard.handle_send_failed(now, sent.cookie, out);
                });
                assert_eq!(only(next).to.conn, bob.conn);
            }
            for method in ["BYE", "ACK", "INVITE"] {
                let sent = anywhere(&mut bed, &to_connected(method, &routes));
                let copy = sent.iter().find(|sent| sent.status() == 0).unwrap();
                assert_eq!((copy.to.conn, copy.to.remote), (bob.conn, bob.remote));
            }
            assert!(bed.shard.counters().flows_followed >= 3);
        }
    }
}

#[test]
fn a_phone_behind_a_nat_is_sent_to_from_the_address_that_it_knows_wherever_its_listener_stands() {
    let keys = |epoch| Arc::new(TokenKeys::of([9; 32], epoch));
    let at_home = "sip:bob@192.168.1.5";
    let bob = flow(Transport::Udp, "203.0.113.9:40000");
    let mut bed = Bed::with_keys(trusting(), keys(1));
    bed.register("sip:bob@example.org", at_home, Some(bob));
    let mut invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
    invite.from = ALICE.into();
    let mut sent = bed.receive(&alice(Transport::Udp), &invite.text());
    let copy = sent.remove(1);
    let ok = only(bed.receive(&bob, &response(&copy, 200, "b", &contact(at_home))));
    let routes = turned(&ok);
    // Another listener stands before it since the restart.
    let mut settings = secured();
    let mut another = settings.listeners[0].clone();
    another.bound = "192.0.2.2:5060".parse().unwrap();
    settings.listeners.insert(0, another);
    let mut bed = Bed::with_keys(settings, keys(2));
    let listener = ListenerId(1);
    bed.register(
        "sip:bob@example.org",
        at_home,
        Some(Flow { listener, ..bob }),
    );
    for method in ["INVITE", "BYE"] {
        let request = of(method, at_home, ALICE, BOB, ALICES, &routes);
        let sent = anywhere(&mut bed, &request);
        let copy = sent.iter().find(|sent| sent.status() == 0).unwrap();
        assert_eq!(
            (copy.to.listener, copy.to.remote),
            (listener, bob.remote),
            "{method}"
        );
    }
}

/// The server with a table in which nobody is registered.
fn again(mut bed: Bed) -> Bed {
    bed.now.unix_ms += 3_600_001;
    bed
}

#[test]
fn a_phone_that_is_gone_is_480_and_not_500() {
    let mut bed = Bed::new(trusting());
    // Behind a translation, so that its address leads nowhere.
    let bob = flow(Transport::Tcp, "203.0.113.9:40000");
    let bobs = "sip:bob@10.1.1.1:5060;transport=tcp";
    bed.register("sip:bob@example.org", bobs, Some(bob));
    let mut invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
    invite.from = ALICE.into();
    let copy = bed
        .receive(&alice(Transport::Udp), &invite.text())
        .remove(1);
    let ok = only(bed.receive(&bob, &response(&copy, 200, "b", &contact(bobs))));
    let routes = turned(&ok);
    let mut bed = again(bed);
    distrust(&mut bed);
    let bye = of("BYE", bobs, ALICE, BOB, ALICES, &routes);
    let sent = only(anywhere(&mut bed, &bye));
    let answer = bed.act(|shard, now, out| shard.handle_send_failed(now, sent.cookie, out));
    assert_eq!(only(answer).status(), 480);
    // By now it is known.
    let bye = of("BYE", bobs, ALICE, BOB, ALICES, &routes);
    assert_eq!(outcome(&mut bed, &bye), "480");
}

#[test]
fn two_users_on_one_connection_call_each_other() {
    for (mode, is_open) in [
        (Mode::Stateful, false),
        (Mode::Stateful, true),
        (Mode::Stateless, true),
    ] {
        let pbx = flow(Transport::Tcp, "198.51.100.1:40000");
        let mut settings = trusting();
        settings.mode = mode;
        if is_open {
            settings.authenticate = None;
        }
        let mut bed = Bed::new(settings);
        let bobs = "sip:bob@198.51.100.1:5060;transport=tcp";
        bed.register("sip:bob@example.org", bobs, Some(pbx));
        let mut invite = request("INVITE", "sip:bob@example.org", Transport::Tcp);
        invite.from = ALICE.into();
        let sent = bed.receive(&pbx, &invite.text());
        let copy = sent.into_iter().find(|sent| sent.status() == 0).unwrap();
        assert_eq!(copy.to.conn, pbx.conn);
        let ok = only(bed.receive(&pbx, &response(&copy, 200, "b", &contact(bobs))));
        if !is_open {
            distrust(&mut bed);
        }
        let over_tcp = |mut request: Request| {
            request.via = request.via.replace("UDP", "TCP");
            request.text()
        };
        for method in ["ACK", "INFO", "BYE"] {
            let alices = of(method, bobs, ALICE, BOB, ALICES, &turned(&ok));
            let got = only(bed.receive(&pbx, &over_tcp(alices)));
            assert_eq!((got.to.conn, got.uri()), (pbx.conn, bobs), "{method}");
        }
        let bye = of("BYE", ALICES, BOB, ALICE, bobs, &as_they_came(&copy));
        let got = only(bed.receive(&pbx, &over_tcp(bye)));
        assert_eq!((got.to.conn, got.uri()), (pbx.conn, ALICES));
    }
}

/// Bob's phone behind a translation, so that its address leads nowhere, and how alice reaches it
/// within a call that he has answered.
fn behind_a_translation(bed: &mut Bed, transport: Transport) -> (Flow, String, Vec<String>) {
    let bob = flow(transport, "203.0.113.9:40000");
    let bobs = format!("sip:bob@10.1.1.1:5060;transport={}", transport.uri_name());
    bed.register("sip:bob@example.org", &bobs, Some(bob));
    let mut invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
    invite.from = ALICE.into();
    let copy = bed
        .receive(&alice(Transport::Udp), &invite.text())
        .remove(1);
    let ok = only(bed.receive(&bob, &response(&copy, 200, "b", &contact(&bobs))));
    distrust(bed);
    (bob, bobs, turned(&ok))
}

/// Requests of the call, and of others over that connection, go along it.
#[track_caller]
fn goes_on(bed: &mut Bed, bob: &Flow, bobs: &str, routes: &[String]) {
    for method in ["ACK", "INFO", "BYE"] {
        let within = of(method, bobs, ALICE, BOB, ALICES, routes);
        let sent = only(anywhere(bed, &within));
        let came_to = (sent.to.conn, sent.to.remote);
        assert_eq!(came_to, (bob.conn, bob.remote), "{method}");
    }
    let counters = bed.shard.counters();
    assert_eq!((counters.flows_failed, counters.flows_followed), (0, 0));
}

#[test]
fn whoever_answers_503_within_a_call_is_there() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(trusting());
        let (bob, bobs, routes) = behind_a_translation(&mut bed, transport);
        let mut again = of("INVITE", &bobs, ALICE, BOB, ALICES, &routes);
        again.cseq = 2;
        let sent = anywhere(&mut bed, &again);
        assert_eq!(kinds(&sent), ["100", "INVITE"]);
        let busy = response(&sent[1], 503, "b", "Retry-After: 5\r\n");
        // RFC 3261 16.7: "If the only response that was received is a 503, the proxy SHOULD
        // generate a 500 response and forward that upstream."
        assert_eq!(kinds(&bed.receive(&bob, &busy)), ["ACK", "500"]);
        goes_on(&mut bed, &bob, &bobs, &routes);
    }
}

#[test]
fn what_this_machine_does_not_send_ends_no_connection() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(trusting());
        let (bob, bobs, routes) = behind_a_translation(&mut bed, transport);
        let info = of("INFO", &bobs, ALICE, BOB, ALICES, &routes);
        let sent = only(anywhere(&mut bed, &info));
        let answer = bed.act(|shard, now, out| shard.handle_unsent(now, sent.cookie, out));
        assert_eq!(only(answer).status(), 480);
        let counts = bed.shard.refusal_counts();
        assert_eq!(counts.of(Reason::PhoneFlowGone), 0, "{transport:?}");
        goes_on(&mut bed, &bob, &bobs, &routes);
    }
}

#[test]
fn what_finds_no_room_here_ends_no_connection() {
    let mut settings = trusting();
    settings.bounds.client_transactions_max = 1;
    let mut bed = Bed::new(settings);
    let (bob, bobs, routes) = behind_a_translation(&mut bed, Transport::Tcp);
    bed.wait(40_000);
    let first = of("INFO", &bobs, ALICE, BOB, ALICES, &routes);
    let first = only(anywhere(&mut bed, &first));
    let second = of("INFO", &bobs, ALICE, BOB, ALICES, &routes);
    assert_eq!(only(anywhere(&mut bed, &second)).status(), 503);
    let ok = response(&first, 200, "b", "");
    assert_eq!(only(bed.receive(&bob, &ok)).status(), 200);
    let bye = of("BYE", &bobs, ALICE, BOB, ALICES, &routes);
    assert_eq!(only(anywhere(&mut bed, &bye)).to.conn, bob.conn);
}

/// A call to bob's phone, which has registered that contact under TLS, and alice's routes.
fn under_tls(bed: &mut Bed, bobs: &str) -> (Flow, Vec<String>) {
    let bob = flow(Transport::Tls, "203.0.113.9:40000");
    bed.register("sip:bob@example.org", bobs, Some(bob));
    let mut invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
    invite.from = ALICE.into();
    let copy = bed
        .receive(&alice(Transport::Udp), &invite.text())
        .remove(1);
    assert_eq!(copy.to.conn, bob.conn);
    let ok = only(bed.receive(&bob, &response(&copy, 200, "b", &contact(bobs))));
    distrust(bed);
    (bob, turned(&ok))
}

#[test]
fn who_was_called_under_tls_is_not_looked_for_in_the_clear() {
    // Anybody on the way can end a connection, and would read the rest.
    const BARE: &str = "sip:bob@203.0.113.9:40000";
    const NAMED: &str = "sip:bob@203.0.113.9:40000;transport=tls";
    for (bobs, expected) in [(BARE, "480"), (NAMED, "203.0.113.9:40000")] {
        for is_known in [false, true] {
            let mut bed = Bed::new(trusting());
            let (bob, routes) = under_tls(&mut bed, bobs);
            let mut bed = again(bed);
            let info = of("INFO", bobs, ALICE, BOB, ALICES, &routes);
            let sent = match is_known {
                true => {
                    bed.act(|shard, now, out| shard.handle_closed(now, bob.conn, out));
                    anywhere(&mut bed, &info)
                }
                false => {
                    let sent = only(anywhere(&mut bed, &info));
                    bed.act(|shard, now, out| shard.handle_send_failed(now, sent.cookie, out))
                }
            };
            let sent = only(sent);
            match sent.status() {
                0 => assert_eq!(
                    (sent.to.transport, sent.to.remote.to_string().as_str()),
                    (Transport::Tls, expected)
                ),
                status => assert_eq!(status.to_string(), expected, "{bobs}"),
            }
        }
    }
    // Nor at a contact that it has registered in the clear; under TLS it is.
    for (transport, is_found) in [(Transport::Tcp, false), (Transport::Tls, true)] {
        let mut bed = Bed::new(trusting());
        let (bob, routes) = under_tls(&mut bed, BARE);
        let mut bed = again(bed);
        let flow = flow(transport, "203.0.113.9:40777");
        let contact = "sip:bob@203.0.113.9:40777";
        bed.register("sip:bob@example.org", contact, Some(flow));
        bed.act(|shard, now, out| shard.handle_closed(now, bob.conn, out));
        let info = of("INFO", BARE, ALICE, BOB, ALICES, &routes);
        let sent = only(anywhere(&mut bed, &info));
        match is_found {
            true => assert_eq!(sent.to.conn, flow.conn),
            false => assert_eq!(sent.status(), 480),
        }
    }
}
