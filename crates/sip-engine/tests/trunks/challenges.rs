//! Challenges, and the numbers of what follows them.

use super::*;

#[test]
fn a_challenge_is_answered_and_every_later_request_has_its_number() {
    for transport in TRANSPORTS {
        for settings in [open, trusting] {
            let mut bed = Bed::new(settings(transport, trunk()));
            let sent = bed.receive(&alice(transport), &invite(transport).text());
            let first = the(sent, "INVITE");
            assert_eq!(first.uri(), "sip:+4930123@provider.example");
            assert_eq!(
                (cseq(&first).as_str(), credentials(&first)),
                ("28 INVITE", None)
            );

            // RFC 3261 22.2: "When a UAC resubmits a request with its credentials after receiving a 401
            // (Unauthorized) or 407 (Proxy Authentication Required) response, it MUST increment the CSeq
            // header field value as it would normally when sending an updated request."
            let sent = challenge(&mut bed, &first, 407, "n1");
            assert!(statuses(&sent).is_empty(), "alice does not hear of it");
            let sent = out(sent);
            assert_eq!(kinds(&sent), ["ACK", "INVITE"]);
            assert_eq!(
                (cseq(&sent[0]).as_str(), sent[0].branch()),
                ("28 ACK", first.branch())
            );
            let second = &sent[1];
            assert_eq!(cseq(second), "29 INVITE");
            assert_ne!(second.branch(), first.branch());
            let line = credentials(second).unwrap();
            for part in [
                "username=\"p4930100\"",
                "realm=\"provider.example\"",
                "uri=\"sip:+4930123@provider.example\"",
                "nonce=\"n1\"",
                "nc=00000001",
                "algorithm=SHA-256",
            ] {
                assert!(line.contains(part), "{part} is not in {line}");
            }
            assert!(!second.text.contains("swordfish"));
            let ringing = answer(&mut bed, second, 180);
            assert_eq!(cseq(to_alice(&ringing)[0]), "7 INVITE");
            let copy = the_same(second);
            let call = Call::answered(&mut bed, copy);
            distrust_if_secured(&mut bed, transport);

            // RFC 3261 13.2.2.4: "The sequence number of the CSeq header field MUST be the same as the
            // INVITE being acknowledged, but the CSeq method MUST be ACK."
            let ack = call.sent(&mut bed, "ACK", 7);
            assert_eq!((cseq(&ack).as_str(), credentials(&ack)), ("29 ACK", None));
            the_dialog_goes_on(&mut bed, &call);
        }
    }
}

fn distrust_if_secured(bed: &mut Bed, transport: Transport) {
    if bed.shard.settings().authenticate.is_some() {
        distrust(bed, transport, trunk());
    }
}

/// A re-INVITE that is challenged, and a BYE.
fn the_dialog_goes_on(bed: &mut Bed, call: &Call) {
    let again = call.sent(bed, "INVITE", 8);
    assert_eq!(cseq(&again), "32 INVITE");
    let ahead = credentials(&again).unwrap();
    assert!(ahead.contains("nc=00000002"), "{ahead}");
    let more = challenge_line(407, REALM, "n2", ", stale=true");
    let sent = bed.receive(&answering(&again), &response(&again, 407, "c", &more));
    let again = the(sent, "INVITE");
    assert_eq!(cseq(&again), "33 INVITE");
    assert!(credentials(&again).unwrap().contains("nonce=\"n2\""));
    let sent = answer(bed, &again, 200);
    assert_eq!(cseq(to_alice(&sent)[0]), "8 INVITE");
    let ack = call.sent(bed, "ACK", 8);
    assert_eq!(cseq(&ack), "33 ACK");
    // What is repeated, because it was lost, is repeated alike.
    assert_eq!(cseq(&call.sent(bed, "ACK", 8)), "33 ACK");
    assert_eq!(cseq(&call.sent(bed, "ACK", 7)), "29 ACK");

    // Requests of the provider have numbers of their own.
    let info = call.providers("INFO", 3, "");
    let flow = flow(call.transport, PROVIDER);
    let sent = bed.receive(&flow, &info.text());
    let copy = only(sent);
    assert_eq!(
        (copy.method().as_str(), cseq(&copy).as_str()),
        ("INFO", "3 INFO")
    );
    let back = bed.receive(&answering(&copy), &response(&copy, 200, "x", ""));
    assert_eq!(cseq(&only(back)), "3 INFO");

    let bye = call.sent(bed, "BYE", 9);
    assert_eq!(cseq(&bye), "36 BYE");
    let bye = the(challenge(bed, &bye, 401, "n3"), "BYE");
    assert_eq!(cseq(&bye), "37 BYE");
    // Asked by the other header: the first is still good.
    let line = bye.header(HeaderName::Authorization).unwrap();
    assert!(line.contains("nonce=\"n3\""), "{line}");
    let sent = answer(bed, &bye, 200);
    assert_eq!(statuses(&sent), [200]);
    assert_eq!(cseq(to_alice(&sent)[0]), "9 BYE");
    bed.wait(100_000);
    assert_eq!(bed.shard.in_flight(), 0);
    assert_eq!(bed.shard.counters().trunk_challenges_answered, 3);
}

#[test]
fn a_cancel_reaches_the_request_that_went_out_last() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(open(transport, trunk()));
        let request = invite(transport);
        let first = the(bed.receive(&alice(transport), &request.text()), "INVITE");
        let second = the(challenge(&mut bed, &first, 407, "n1"), "INVITE");
        answer(&mut bed, &second, 180);
        let mut cancel = invite(transport);
        (cancel.method, cancel.via) = ("CANCEL".into(), request.via.clone());
        let sent = bed.receive(&alice(transport), &cancel.text());
        let cancel = the(sent, "CANCEL");
        // RFC 3261 9.1: "The Request-URI, Call-ID, To, the numeric part of CSeq, and From header
        // fields in the CANCEL request MUST be identical to those in the request being cancelled,
        // including tags."
        assert_eq!(cseq(&cancel), "29 CANCEL");
        assert_eq!(
            (cancel.branch(), cancel.uri()),
            (second.branch(), second.uri())
        );
        answer(&mut bed, &cancel, 200);
        let over = answer(&mut bed, &second, 487);
        assert_eq!(cseq(&the(over, "ACK")), "29 ACK");
        bed.wait(100_000);
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn who_has_hung_up_is_told_so_and_the_challenge_is_left_alone() {
    let mut bed = Bed::new(open(UDP, trunk()));
    let request = invite(UDP);
    let first = the(bed.receive(&alice(UDP), &request.text()), "INVITE");
    let mut cancel = invite(UDP);
    (cancel.method, cancel.via) = ("CANCEL".into(), request.via.clone());
    bed.receive(&alice(UDP), &cancel.text());
    let sent = challenge(&mut bed, &first, 407, "n1");
    assert_eq!(statuses(&sent), [487]);
    assert_eq!(kinds(&out(sent)), ["ACK"]);
}

#[test]
fn a_challenge_for_another_realm_is_the_callers_and_gets_nobodys_password() {
    for transport in TRANSPORTS {
        for realm in ["other.example", "Provider.example", "provider.example ", ""] {
            let mut bed = Bed::new(open(transport, trunk()));
            let first = the(
                bed.receive(&alice(transport), &invite(transport).text()),
                "INVITE",
            );
            let line = challenge_line(407, realm, "n", "");
            let sent = bed.receive(&answering(&first), &response(&first, 407, "c", &line));
            assert_eq!(statuses(&sent), [407], "{realm}");
            let passed = to_alice(&sent)[0];
            assert!(passed.text.contains(&format!("realm=\"{realm}\"")));
            assert_eq!(cseq(passed), "7 INVITE");
            assert_eq!(kinds(&out(sent)), ["ACK"]);
            assert_eq!(bed.shard.counters().trunk_challenges_passed, 1);
            let is_it = |of: &&sip_engine::RefusalRecord| of.reason == Reason::TrunkForeignRealm;
            let record = bed.refused.iter().find(is_it).unwrap();
            if !realm.is_empty() {
                let detail = format!("gateway 203.0.113.8, realm {}", realm.trim());
                assert!(record.detail.starts_with(&detail), "{}", record.detail);
            }
        }
    }
}

#[test]
fn a_password_that_is_refused_is_sent_once_and_then_left_alone() {
    let shared = Arc::new(SharedGateways::default());
    let mut bed = Bed::with_gateways(open(UDP, trunk()), &shared);
    let mut other = Bed::with_gateways(open(UDP, trunk()), &shared);
    for (round, pause_ms) in [(0, 30_000), (1, 60_000)] {
        let mut request = invite(UDP);
        request.call_id = format!("refused-{round}");
        let first = the(bed.receive(&alice(UDP), &request.text()), "INVITE");
        let second = the(challenge(&mut bed, &first, 407, "n1"), "INVITE");
        // RFC 3261 22.1: "A UAC MUST NOT re-attempt requests with the credentials that have just been
        // rejected (though the request may be retried if the nonce was stale)."
        let sent = challenge(&mut bed, &second, 407, &format!("again-{round}"));
        assert_eq!(statuses(&sent), [503]);
        assert_eq!(kinds(&out(sent)), ["ACK"]);
        let for_ms = pause_ms;
        assert_eq!(events(&mut bed), [TrunkEvent::PasswordRefused { for_ms }]);
        // All workers know it, and send nothing that begins something.
        for (nth, bed) in [&mut bed, &mut other].into_iter().enumerate() {
            let mut next = invite(UDP);
            next.call_id = format!("next-{round}-{nth}");
            let sent = bed.receive(&alice(UDP), &next.text());
            assert_eq!(statuses(&sent).last(), Some(&503));
            assert!(out(sent).is_empty());
            let last = bed.refused.last().unwrap();
            assert_eq!(
                (last.status, last.reason),
                (Some(503), Reason::TrunkRefused)
            );
        }
        bed.wait(pause_ms + 1_000);
        other.wait(pause_ms + 1_000);
    }
    assert_eq!(bed.shard.counters().trunk_credentials_refused, 2);
    // With another password it is tried at once, and what is taken ends the matter.
    let mut renewed = trunk();
    let password = Password::new("herring".to_owned());
    renewed.credentials.as_mut().unwrap().password = password;
    bed.act(|shard, _, _| shard.reload(Arc::new(open(UDP, renewed))));
    let mut request = invite(UDP);
    request.call_id = "renewed".to_owned();
    let first = the(bed.receive(&alice(UDP), &request.text()), "INVITE");
    let second = the(challenge(&mut bed, &first, 407, "n1"), "INVITE");
    assert_eq!(statuses(&answer(&mut bed, &second, 200)), [200]);
    assert!(events(&mut bed).is_empty());
}

#[test]
fn a_stale_nonce_is_answered_once_more_and_not_for_ever() {
    let mut bed = Bed::new(open(UDP, trunk()));
    let mut sent = bed.receive(&alice(UDP), &invite(UDP).text());
    for (nonce, number) in [("n1", 28), ("n2", 29), ("n3", 30)] {
        let copy = the(sent, "INVITE");
        assert_eq!(cseq(&copy), format!("{number} INVITE"));
        let line = challenge_line(407, REALM, nonce, ", stale=true");
        sent = bed.receive(&answering(&copy), &response(&copy, 407, "c", &line));
    }
    let copy = the(sent, "INVITE");
    assert_eq!(cseq(&copy), "31 INVITE");
    let line = challenge_line(407, REALM, "n4", ", stale=true");
    let sent = bed.receive(&answering(&copy), &response(&copy, 407, "c", &line));
    assert_eq!(statuses(&sent), [503]);
    assert_eq!(kinds(&out(sent)), ["ACK"]);
    // That nonces go stale is nothing against the password.
    assert!(events(&mut bed).is_empty());
}

#[test]
fn within_a_dialog_the_password_is_for_members_alone() {
    for (place, is_members) in [
        (PROVIDER, true),
        ("203.0.113.8:5099", false),
        ("203.0.113.77:5070", false),
    ] {
        let mut bed = Bed::new(open(UDP, trunk()));
        let mut call = Call::new(&mut bed, UDP);
        // The provider has said in its Contact that it goes on there.
        call.routes.retain(|route| route.contains("192.0.2.1"));
        let uri = format!("sip:gw@{place}");
        let request = Request {
            uri,
            ..call.request("BYE", 8)
        };
        let sent = call.send(&mut bed, &request);
        let bye = sent.iter().find(|of| of.to.remote.to_string() == place);
        let bye = bye.unwrap();
        assert_eq!(cseq(bye), "32 BYE");
        assert_eq!(credentials(bye).is_some(), is_members, "{place}");
        let line = challenge_line(401, REALM, "n9", "");
        let sent = bed.receive(&answering(bye), &response(bye, 401, "c", &line));
        match is_members {
            true => assert_eq!(cseq(&the(sent, "BYE")), "33 BYE"),
            false => assert_eq!(statuses(&sent), [401]),
        }
    }
}

#[test]
fn a_call_goes_on_after_a_restart_with_numbers_that_were_not_used() {
    let keys = Arc::new(TokenKeys::of([4; 32], 1));
    let mut bed = Bed::with_keys(trusting(UDP, trunk()), Arc::clone(&keys));
    let call = Call::new(&mut bed, UDP);
    let again = call.sent(&mut bed, "INVITE", 8);
    let again = the(challenge(&mut bed, &again, 407, "n2"), "INVITE");
    assert_eq!(cseq(&again), "33 INVITE");
    // Another process, which knows nothing but the keys.
    let mut bed = Bed::with_seed(secured(UDP, trunk()), keys, 77);
    let ack = call.sent(&mut bed, "ACK", 7);
    assert_eq!(cseq(&ack), "29 ACK");
    let bye = call.sent(&mut bed, "BYE", 9);
    assert_eq!((cseq(&bye).as_str(), credentials(&bye)), ("36 BYE", None));
    let bye = the(challenge(&mut bed, &bye, 407, "n3"), "BYE");
    assert_eq!(cseq(&bye), "37 BYE");
    assert_eq!(statuses(&answer(&mut bed, &bye, 200)), [200]);
}

#[test]
fn a_trunk_that_is_configured_no_more_still_counts_for_its_calls() {
    let mut bed = Bed::new(open(UDP, trunk()));
    let call = Call::new(&mut bed, UDP);
    bed.act(|shard, _, _| shard.reload(Arc::new(settings())));
    let bye = call.sent(&mut bed, "BYE", 8);
    assert_eq!((cseq(&bye).as_str(), credentials(&bye)), ("32 BYE", None));
    let sent = challenge(&mut bed, &bye, 401, "n2");
    assert_eq!(statuses(&sent), [401]);
    assert_eq!(cseq(to_alice(&sent)[0]), "8 BYE");
}

#[test]
fn what_names_the_number_of_another_request_names_the_one_that_was_sent() {
    let mut bed = Bed::new(open(UDP, trunk()));
    let first = the(bed.receive(&alice(UDP), &invite(UDP).text()), "INVITE");
    let copy = the(challenge(&mut bed, &first, 407, "n1"), "INVITE");
    let reliable = format!("{}Require: 100rel\r\nRSeq: 5\r\n", contact(UDP));
    let text = response(&copy, 183, "p", &reliable);
    let sent = bed.receive(&answering(&copy), &text);
    let mut early = Call::new_early(&sent, copy);
    // RFC 3262 7.2: the CSeq number in RAck is that of the INVITE.
    let prack = early.request("PRACK", 8).with("RAck: 5 7 INVITE\r\n");
    let prack = the(early.send(&mut bed, &prack), "PRACK");
    assert_eq!(cseq(&prack), "32 PRACK");
    assert!(
        prack.text.contains("RAck: 5 29 INVITE\r\n"),
        "{}",
        prack.text
    );
    let copy = the_same(&early.copy);
    early = Call::answered(&mut bed, copy);
    // RFC 3515 2.4.6: NOTIFYs because of a REFER name it by its number.
    let refer = early.request("REFER", 9).with("Refer-To: <sip:x@y>\r\n");
    let refer = the(early.send(&mut bed, &refer), "REFER");
    assert_eq!(cseq(&refer), "36 REFER");
    let refer = the(challenge(&mut bed, &refer, 407, "n2"), "REFER");
    assert_eq!(cseq(&refer), "37 REFER");
    answer(&mut bed, &refer, 202);
    let event = "Event: refer;id=37\r\nSubscription-State: active\r\n";
    let notify = early.providers("NOTIFY", 1, event);
    let notify = only(bed.receive(&flow(UDP, PROVIDER), &notify.text()));
    assert!(
        notify.text.contains("Event: refer;id=9\r\n"),
        "{}",
        notify.text
    );
    let subscribe = early.request("SUBSCRIBE", 10).with("Event: refer;id=9\r\n");
    let subscribe = the(early.send(&mut bed, &subscribe), "SUBSCRIBE");
    assert!(subscribe.text.contains("Event: refer;id=37\r\n"));
    // The other way round they name a REFER of the provider's, whose number is its own.
    let event = "Event: refer;id=5\r\nSubscription-State: active\r\n";
    let notify = early.request("NOTIFY", 11).with(event);
    let notify = the(early.send(&mut bed, &notify), "NOTIFY");
    assert_eq!(cseq(&notify), "44 NOTIFY");
    assert!(notify.text.contains("Event: refer;id=5\r\n"));
    let subscribe = early.providers("SUBSCRIBE", 2, "Event: refer;id=5\r\n");
    let subscribe = only(bed.receive(&flow(UDP, PROVIDER), &subscribe.text()));
    assert!(subscribe.text.contains("Event: refer;id=5\r\n"));
}

impl Call {
    /// A dialog that is early, by the provisional response that alice was sent.
    fn new_early(sent: &[Sent], copy: Sent) -> Self {
        let ringing = to_alice(sent)[0];
        let mut routes = ringing.all(HeaderName::RecordRoute);
        routes.reverse();
        Self {
            transport: copy.to.transport,
            from: ringing.header(HeaderName::From).unwrap(),
            to: ringing.header(HeaderName::To).unwrap(),
            routes,
            providers_to: format!("{};tag=p", copy.header(HeaderName::To).unwrap()),
            copy,
        }
    }
}

#[test]
fn what_the_phone_has_for_the_trunks_realm_goes_no_further() {
    let mut bed = Bed::new(open(UDP, trunk()));
    let lines = "Proxy-Authorization: Digest username=\"x\", realm=\"provider.example\", nonce=\"n\", uri=\"sip:x\", response=\"0\"\r\n\
                 Authorization: Digest username=\"x\", realm=\"elsewhere.example\", nonce=\"n\", uri=\"sip:x\", response=\"0\"\r\n";
    let request = invite(UDP).with(lines);
    let first = the(bed.receive(&alice(UDP), &request.text()), "INVITE");
    assert!(first.all(HeaderName::ProxyAuthorization).is_empty());
    assert_eq!(first.all(HeaderName::Authorization).len(), 1);
}

#[test]
fn the_next_member_is_asked_anew_and_a_refusal_is_none_of_its_business() {
    let mut bed = Bed::new(with_members(UDP, trunk(), &[PROVIDER, SECOND]));
    let first = the(bed.receive(&alice(UDP), &invite(UDP).text()), "INVITE");
    assert_eq!(first.to.remote.to_string(), PROVIDER);
    let again = the(challenge(&mut bed, &first, 407, "n1"), "INVITE");
    assert_eq!(again.to.remote, first.to.remote);
    let sent = bed.receive(&answering(&again), &response(&again, 503, "x", ""));
    let second = the(sent, "INVITE");
    assert_eq!(second.to.remote.to_string(), SECOND);
    assert_eq!(cseq(&second), "28 INVITE", "it knows nothing of the first");
    // The nonce of the one is tried at the other, which may challenge it once.
    assert!(credentials(&second).is_some());
    let again = the(challenge(&mut bed, &second, 407, "m1"), "INVITE");
    assert_eq!(
        (cseq(&again).as_str(), again.to.remote),
        ("29 INVITE", second.to.remote)
    );
    let sent = answer(&mut bed, &again, 200);
    assert_eq!(statuses(&sent), [200]);
}

#[test]
fn without_credentials_nothing_is_counted_and_challenges_pass() {
    let bare = Trunk {
        credentials: None,
        ..trunk()
    };
    let mut bed = Bed::new(open(UDP, bare));
    let first = the(bed.receive(&alice(UDP), &invite(UDP).text()), "INVITE");
    assert_eq!(cseq(&first), "7 INVITE");
    assert_eq!(statuses(&challenge(&mut bed, &first, 407, "n1")), [407]);
    assert!(bed.refused.is_empty());
}

/// A call with that Call-ID.
fn call_named(bed: &mut Bed, name: &str) -> Call {
    let mut request = invite(UDP);
    request.call_id = name.to_owned();
    let copy = the(bed.receive(&alice(UDP), &request.text()), "INVITE");
    Call::answered(bed, copy)
}

#[test]
fn no_more_is_remembered_of_challenges_than_there_is_room_for() {
    let mut bed = Bed::new(open(UDP, trunk()));
    // In each call an INVITE is challenged, and refused then.
    let mut refused = None;
    for nth in 0..4_200 {
        let call = call_named(&mut bed, &format!("room-{nth}"));
        let sent = call.sent(&mut bed, "INVITE", 8);
        let sent = challenge(&mut bed, &sent, 407, &format!("n{nth}"));
        match out(sent).into_iter().find(|of| of.method() == "INVITE") {
            Some(again) => _ = answer(&mut bed, &again, 488),
            None => {
                refused = Some((nth, call));
                break;
            }
        }
        bed.wait(10);
    }
    let (nth, call) = refused.unwrap();
    assert_eq!(nth, 4_096);
    let last = bed.refused.last().unwrap();
    assert_eq!((last.status, last.reason), (Some(503), Reason::NoRoom));
    // What ends the call is not held up by it.
    let bye = call.sent(&mut bed, "BYE", 5_000);
    let bye = the(challenge(&mut bed, &bye, 407, "last"), "BYE");
    assert_eq!(statuses(&answer(&mut bed, &bye, 200)), [200]);
}

#[test]
fn one_call_takes_no_room_for_challenges_from_others() {
    let mut bed = Bed::new(open(UDP, trunk()));
    let greedy = call_named(&mut bed, "greedy");
    for number in 8..4_200 {
        let sent = greedy.sent(&mut bed, "INVITE", number);
        let again = the(
            challenge(&mut bed, &sent, 407, &format!("n{number}")),
            "INVITE",
        );
        answer(&mut bed, &again, 200);
        bed.wait(10);
    }
    // Its own last ones are acknowledged as they were sent.
    for number in [4_199, 4_196] {
        let ack = greedy.sent(&mut bed, "ACK", number);
        assert_eq!(cseq(&ack), format!("{} ACK", 4 * number + 1));
    }
    let other = call_named(&mut bed, "other");
    let sent = other.sent(&mut bed, "INVITE", 8);
    let again = the(challenge(&mut bed, &sent, 407, "m"), "INVITE");
    assert_eq!(statuses(&answer(&mut bed, &again, 200)), [200]);
    assert_eq!(cseq(&other.sent(&mut bed, "ACK", 8)), "33 ACK");
    assert!(bed.refused.is_empty());
}

#[test]
fn a_dialog_by_a_trunk_stays_on_this_servers_path() {
    for settings in [open, trusting] {
        let mut settings = settings(UDP, trunk());
        settings.proxy.record_route = false;
        settings.routes.groups[0].calls_max = 1;
        let mut bed = Bed::new(settings);
        let call = Call::new(&mut bed, UDP);
        assert_eq!(call.routes.len(), 1);
        // So its end is seen here, and it has its place until then.
        assert_eq!(bed.shard.open_call_records(), 1);
        let mut second = invite(UDP);
        second.call_id = "second".to_owned();
        second.via.push('2');
        let refused = bed.receive(&alice(UDP), &second.text());
        assert!(statuses(&refused).contains(&503));
        assert!(out(refused).is_empty());
        let bye = call.sent(&mut bed, "BYE", 8);
        assert_eq!(cseq(&bye), "32 BYE");
        answer(&mut bed, &bye, 200);
        assert_eq!(bed.shard.open_call_records(), 0);
        second.call_id = "third".to_owned();
        second.via.push('3');
        the(bed.receive(&alice(UDP), &second.text()), "INVITE");
    }
}
