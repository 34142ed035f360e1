//! An account is registered, kept so, and taken back.

use sip_engine::routes::Care;
use sip_engine::shard::shard_of;
use sip_engine::trunk::{Change, Failure, Registering, Shown, State};
use sip_locate::{Hop, LocateError};

use super::*;

/// The longest wait after the first time that came to nothing (RFC 5626 4.5).
const FIRST_WAIT_MS: u64 = 60_000;

fn registered() -> Trunk {
    Trunk {
        registering: Some(Registering {
            expires_s: 3_600,
            contact: None,
        }),
        ..trunk()
    }
}

fn by_members(members: &[&str]) -> Settings {
    with_members(UDP, registered(), members)
}

/// The REGISTERs among what was sent, without repetitions.
fn registers(sent: Vec<Sent>) -> Vec<Sent> {
    let mut found: Vec<Sent> = Vec::new();
    for sent in sent {
        let is_new = found.iter().all(|of| of.branch() != sent.branch());
        if sent.method() == "REGISTER" && is_new {
            found.push(sent);
        }
    }
    found
}

/// The REGISTER that goes out within that time.
#[track_caller]
fn register(bed: &mut Bed, within_ms: u64) -> Sent {
    register_beside(bed, None, within_ms)
}

/// The same while another waits for its answer.
#[track_caller]
fn register_beside(bed: &mut Bed, other: Option<&Sent>, within_ms: u64) -> Sent {
    let other = other.map(Sent::branch);
    // A wheel turns by steps.
    let end_ms = bed.now.mono_ms + within_ms + 100;
    while bed.now.mono_ms < end_ms {
        let step_ms = (end_ms - bed.now.mono_ms).min(500);
        let mut sent = registers(bed.wait(step_ms));
        sent.retain(|of| Some(of.branch()) != other);
        if !sent.is_empty() {
            return only(sent);
        }
    }
    panic!("nothing was registered");
}

/// The provider answers a REGISTER.
fn tell(bed: &mut Bed, sent: &Sent, status: u16, more: &str) -> Vec<Sent> {
    let text = response(sent, status, "p", more);
    registers(bed.receive(&answering(sent), &text))
}

fn ask(bed: &mut Bed, sent: &Sent, nonce: &str) -> Vec<Sent> {
    tell(bed, sent, 401, &challenge_line(401, REALM, nonce, ""))
}

/// The provider binds the contact for so long.
fn grant(bed: &mut Bed, sent: &Sent, expires_s: u32) {
    let contact = sent.header(HeaderName::Contact).unwrap();
    let (contact, _) = contact.split_once(";expires=").unwrap();
    let more = format!(
        "Contact: <sip:other@192.0.2.99>;expires=7\r\nContact: {contact};expires={expires_s}\r\n"
    );
    assert!(tell(bed, sent, 200, &more).is_empty());
}

/// What is left of the registration of a trunk, as all know it.
fn shown(bed: &Bed) -> Shown {
    bed.gateways.trunks.shown("provider", bed.now.mono_ms)
}

fn changes(bed: &mut Bed) -> Vec<Change> {
    let told = events(bed).into_iter().map(|event| match event {
        TrunkEvent::Registration(change) => change,
        other => panic!("{other:?}"),
    });
    told.collect()
}

fn failed(why: Failure) -> impl Fn(&Change) -> bool {
    move |change| matches!(change, Change::Failed { why: of, .. } if *of == why)
}

#[test]
fn an_account_is_registered_and_kept_so() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(open(transport, registered()));
        let first = register(&mut bed, 1);
        assert_eq!(shown(&bed).state, Some(State::Asking));
        // RFC 3261 10.2: 'The "userinfo" and "@" components of the SIP URI MUST NOT be present.'
        assert_eq!(first.uri(), "sip:provider.example");
        assert_eq!(
            (first.to.transport, &*first.to.remote.to_string()),
            (transport, PROVIDER)
        );
        assert_eq!(cseq(&first), "1 REGISTER");
        let address = "<sip:4930100@provider.example>";
        let from = first.header(HeaderName::From).unwrap();
        assert!(from.starts_with(&format!("{address};tag=")), "{from}");
        assert_eq!(first.header(HeaderName::To).as_deref(), Some(address));
        assert!(first.header(HeaderName::Via).unwrap().contains(";rport;"));
        let contact = match transport {
            Transport::Udp => "<sip:4930100@192.0.2.1:5060>;expires=3600",
            Transport::Tcp => "<sip:4930100@192.0.2.1:5060;transport=tcp>;expires=3600",
            _ => "<sip:4930100@192.0.2.1:5061;transport=tls>;expires=3600",
        };
        assert_eq!(first.header(HeaderName::Contact).as_deref(), Some(contact));
        assert_eq!(first.header(HeaderName::Expires).as_deref(), Some("3600"));
        assert_eq!(credentials(&first), None);

        let second = only(ask(&mut bed, &first, "n1"));
        assert_eq!(cseq(&second), "2 REGISTER");
        assert_ne!(second.branch(), first.branch());
        for name in [
            HeaderName::CallId,
            HeaderName::From,
            HeaderName::To,
            HeaderName::Contact,
        ] {
            assert_eq!(second.header(name), first.header(name));
        }
        let line = credentials(&second).unwrap();
        for part in [
            "username=\"p4930100\"",
            "uri=\"sip:provider.example\"",
            "nc=00000001",
        ] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
        grant(&mut bed, &second, 600);
        assert_eq!(changes(&mut bed), [Change::Registered { expires_s: 600 }]);
        let seen = shown(&bed);
        assert_eq!(
            (seen.state, seen.left_ms),
            (Some(State::Registered), 600_000)
        );
        assert_eq!(
            (seen.member, seen.last_status),
            (Some(first.to.remote), Some(200))
        );

        // At four fifths of its time, or somewhat before, with the nonce that is known.
        assert!(registers(bed.wait(430_000)).is_empty());
        let again = register(&mut bed, 51_000);
        assert_eq!(cseq(&again), "3 REGISTER");
        assert_eq!(
            again.header(HeaderName::CallId),
            first.header(HeaderName::CallId)
        );
        assert!(credentials(&again).unwrap().contains("nc=00000002"));
        grant(&mut bed, &again, 600);
        assert!(changes(&mut bed).is_empty(), "that is no news");
        assert_eq!(shown(&bed).registered_total, 2);
        assert_eq!(bed.shard.counters().trunk_registers, 3);
    }
}

#[test]
fn a_nonce_that_has_gone_stale_is_replaced() {
    let mut bed = Bed::new(open(UDP, registered()));
    let sent = register(&mut bed, 1);
    let sent = only(ask(&mut bed, &sent, "n1"));
    grant(&mut bed, &sent, 60);
    let again = register(&mut bed, 60_000);
    assert!(credentials(&again).unwrap().contains("nonce=\"n1\""));
    // With `stale` or without: the nonce was from before.
    let renewed = only(ask(&mut bed, &again, "n2"));
    assert!(credentials(&renewed).unwrap().contains("nonce=\"n2\", "));
    grant(&mut bed, &renewed, 60);
    assert_eq!(changes(&mut bed), [Change::Registered { expires_s: 60 }]);
}

#[test]
fn who_asks_for_a_longer_time_is_asked_for_it() {
    let mut bed = Bed::new(open(UDP, registered()));
    let sent = register(&mut bed, 1);
    let longer = only(tell(&mut bed, &sent, 423, "Min-Expires: 7200\r\n"));
    assert_eq!(longer.header(HeaderName::Expires).as_deref(), Some("7200"));
    let contact = longer.header(HeaderName::Contact).unwrap();
    assert!(contact.ends_with(";expires=7200"), "{contact}");
    assert_eq!(cseq(&longer), "2 REGISTER");
    grant(&mut bed, &longer, 7_200);
    assert_eq!(changes(&mut bed), [Change::Registered { expires_s: 7_200 }]);
}

#[test]
fn the_next_member_is_asked_where_one_does_not_answer() {
    // Silence, an answer that says it cannot, and a connection that is refused.
    for (transport, answer) in [(UDP, 0), (UDP, 500), (UDP, 503), (Transport::Tcp, 1)] {
        let mut bed = Bed::new(with_members(transport, registered(), &[PROVIDER, SECOND]));
        let first = register(&mut bed, 1);
        assert_eq!(first.to.remote.to_string(), PROVIDER);
        let next = match answer {
            0 => register_beside(&mut bed, Some(&first), Care::USUAL.timeout_ms),
            1 => only(registers(bed.act(|shard, now, out| {
                shard.handle_send_failed(now, first.cookie, out);
            }))),
            status => only(tell(&mut bed, &first, status, "")),
        };
        assert_eq!(next.to.remote.to_string(), SECOND, "{answer}");
        assert_eq!(cseq(&next), "2 REGISTER");
        grant(&mut bed, &next, 600);
        assert_eq!(changes(&mut bed), [Change::Registered { expires_s: 600 }]);
        // RFC 3261 10.2.4: "Registration refreshes SHOULD be sent to the same network address as
        // the original registration, unless redirected."
        let again = register(&mut bed, 600_000);
        assert_eq!(again.to.remote, next.to.remote);
    }
}

#[test]
fn the_next_member_is_asked_where_one_challenges_and_does_not_answer_then() {
    for answer in [0, 500, 503] {
        let mut bed = Bed::new(by_members(&[PROVIDER, SECOND]));
        let first = register(&mut bed, 1);
        let answered = only(ask(&mut bed, &first, "n1"));
        let next = match answer {
            0 => register_beside(&mut bed, Some(&answered), Care::USUAL.timeout_ms),
            status => only(tell(&mut bed, &answered, status, "")),
        };
        assert_eq!(next.to.remote.to_string(), SECOND, "{answer}");
        // Its nonce is another, and the password was not refused.
        let last = only(ask(&mut bed, &next, "n2"));
        assert_eq!(last.to.remote.to_string(), SECOND);
        grant(&mut bed, &last, 600);
        assert_eq!(changes(&mut bed), [Change::Registered { expires_s: 600 }]);
    }
}

#[test]
fn calls_keep_away_from_a_member_that_did_not_answer() {
    let mut bed = Bed::new(by_members(&[PROVIDER, SECOND]));
    let first = register(&mut bed, 1);
    let next = register_beside(&mut bed, Some(&first), Care::USUAL.timeout_ms);
    grant(&mut bed, &next, 600);
    let call = the(bed.receive(&alice(UDP), &invite(UDP).text()), "INVITE");
    assert_eq!(call.to.remote.to_string(), SECOND);
}

#[test]
fn a_password_that_is_refused_is_not_sent_again_at_once() {
    let mut bed = Bed::new(by_members(&[PROVIDER, SECOND]));
    let first = register(&mut bed, 1);
    let second = only(ask(&mut bed, &first, "n1"));
    // RFC 3261 22.1: "A UAC MUST NOT re-attempt requests with the credentials that have just been
    // rejected (though the request may be retried if the nonce was stale)."
    assert!(ask(&mut bed, &second, "n2").is_empty());
    let told = changes(&mut bed);
    assert!(
        matches!(&*told, [one] if failed(Failure::WrongPassword)(one)),
        "{told:?}"
    );
    let seen = shown(&bed);
    assert_eq!(seen.state, Some(State::Failing(Failure::WrongPassword)));
    assert!(
        (30_000..=FIRST_WAIT_MS).contains(&seen.left_ms),
        "{}",
        seen.left_ms
    );
    let wait_ms = seen.left_ms - 1_000;
    assert!(registers(bed.wait(wait_ms)).is_empty());
    // It is asked for again without a word of the password, and longer after that.
    let third = register(&mut bed, 2_000);
    assert_eq!(credentials(&third), None);
    let fourth = only(ask(&mut bed, &third, "n3"));
    assert!(ask(&mut bed, &fourth, "n4").is_empty());
    assert!(changes(&mut bed).is_empty(), "that is no news");
    assert!(shown(&bed).left_ms >= 60_000);
    assert_eq!(shown(&bed).failures_in_a_row, 2);
}

#[test]
fn another_realm_is_told_and_shown_no_password() {
    let mut bed = Bed::new(open(UDP, registered()));
    let sent = register(&mut bed, 1);
    let line = challenge_line(401, "other.example", "n", "");
    assert!(tell(&mut bed, &sent, 401, &line).is_empty());
    let told = changes(&mut bed);
    let [Change::Failed { why, realm, .. }] = &*told else {
        panic!("{told:?}");
    };
    assert_eq!((*why, &**realm), (Failure::ForeignRealm, "other.example"));
}

#[test]
fn what_no_other_member_would_say_is_asked_of_none() {
    for status in [403, 404, 486, 603] {
        let mut bed = Bed::new(by_members(&[PROVIDER, SECOND]));
        let sent = register(&mut bed, 1);
        assert!(tell(&mut bed, &sent, status, "").is_empty());
        let told = changes(&mut bed);
        let refused = failed(Failure::Refused(status));
        assert!(matches!(&*told, [one] if refused(one)), "{told:?}");
    }
}

#[test]
fn a_pause_that_is_asked_for_is_kept() {
    let mut bed = Bed::new(open(UDP, registered()));
    let sent = register(&mut bed, 1);
    assert!(tell(&mut bed, &sent, 503, "Retry-After: 250\r\n").is_empty());
    assert_eq!(shown(&bed).left_ms, 250_000);
    assert!(registers(bed.wait(249_000)).is_empty());
    register(&mut bed, 2_000);
}

#[test]
fn who_refuses_all_is_asked_less_and_less_often() {
    let mut bed = Bed::new(open(UDP, registered()));
    let mut waits = Vec::new();
    let mut sent = register(&mut bed, 1);
    for _ in 0..9 {
        assert!(tell(&mut bed, &sent, 503, "").is_empty());
        waits.push(shown(&bed).left_ms);
        sent = register(&mut bed, 1_801_000);
    }
    for (wait_ms, most_s) in waits.iter().zip([60, 120, 240, 480, 960, 1_800, 1_800]) {
        let most_ms = most_s * 1_000;
        assert!((most_ms / 2..=most_ms).contains(wait_ms), "{waits:?}");
    }
}

#[test]
fn a_server_that_ends_takes_its_registration_back() {
    for transport in TRANSPORTS {
        let mut bed = Bed::new(open(transport, registered()));
        let sent = register(&mut bed, 1);
        let sent = only(ask(&mut bed, &sent, "n1"));
        grant(&mut bed, &sent, 600);
        changes(&mut bed);
        bed.act(|shard, _, _| shard.refuse_new_calls());
        assert_eq!(bed.shard.unanswered(bed.now), 1, "the process waits for it");
        // RFC 3261 10.2.2: "A UA requests the immediate removal of a binding by specifying an
        // expiration interval of "0" for that contact address in a REGISTER request."
        let last = register(&mut bed, 1);
        assert!(
            last.header(HeaderName::Contact)
                .unwrap()
                .ends_with(";expires=0")
        );
        assert_eq!(last.header(HeaderName::Expires).as_deref(), Some("0"));
        let last = only(ask(&mut bed, &last, "n2"));
        assert!(credentials(&last).is_some());
        assert_eq!(bed.shard.unanswered(bed.now), 1);
        assert!(tell(&mut bed, &last, 200, "").is_empty());
        assert_eq!(bed.shard.unanswered(bed.now), 0);
        assert_eq!(changes(&mut bed), [Change::Ended]);
        assert_eq!(shown(&bed).state, Some(State::Ended));
        assert!(registers(bed.wait(1_000_000)).is_empty());
        assert_eq!(bed.shard.in_flight(), 0);
    }
}

#[test]
fn a_server_that_ends_waits_for_nothing_that_was_never_bound() {
    let mut bed = Bed::new(open(UDP, registered()));
    let sent = register(&mut bed, 1);
    assert!(tell(&mut bed, &sent, 403, "").is_empty());
    bed.act(|shard, _, _| shard.refuse_new_calls());
    assert!(registers(bed.wait(1_000)).is_empty());
    assert_eq!(bed.shard.unanswered(bed.now), 0);
    // Nor for ever for a provider that does not answer.
    let mut bed = Bed::new(open(UDP, registered()));
    let sent = register(&mut bed, 1);
    grant(&mut bed, &sent, 600);
    bed.act(|shard, _, _| shard.refuse_new_calls());
    register(&mut bed, 1);
    bed.wait(33_000);
    assert_eq!(bed.shard.unanswered(bed.now), 0);
}

#[test]
fn a_reload_changes_what_has_changed() {
    let mut bed = Bed::new(open(UDP, registered()));
    let sent = register(&mut bed, 1);
    grant(&mut bed, &sent, 600);
    let reload = |bed: &mut Bed, settings: Settings| {
        bed.act(|shard, _, _| shard.reload(Arc::new(settings)));
        registers(bed.wait(1_000))
    };
    // Nothing.
    assert!(reload(&mut bed, open(UDP, registered())).is_empty());
    // Where the contact is: what was bound is taken back, the other is asked for.
    let mut other = registered();
    other.registering.as_mut().unwrap().contact = Some("sip.example.org:5066".into());
    let sent = reload(&mut bed, open(UDP, other.clone()));
    let contacts = sent
        .iter()
        .map(|of| of.header(HeaderName::Contact).unwrap());
    let contacts: Vec<String> = contacts.collect();
    assert!(
        contacts.contains(&"<sip:4930100@192.0.2.1:5060>;expires=0".to_owned()),
        "{contacts:?}"
    );
    let asked = "<sip:4930100@sip.example.org:5066>;expires=3600".to_owned();
    assert!(contacts.contains(&asked), "{contacts:?}");
    assert_eq!(contacts.len(), 2);
    for sent in &sent {
        let expires = sent.header(HeaderName::Expires).unwrap();
        match &*expires {
            "0" => assert!(tell(&mut bed, sent, 200, "").is_empty()),
            _ => grant(&mut bed, sent, 600),
        }
    }
    assert_eq!(shown(&bed).state, Some(State::Registered));
    // The trunk is no more.
    let sent = only(reload(&mut bed, settings()));
    assert_eq!(sent.header(HeaderName::Expires).as_deref(), Some("0"));
    assert!(tell(&mut bed, &sent, 200, "").is_empty());
    assert!(registers(bed.wait(1_000_000)).is_empty());
}

/// The server reads other settings; the REGISTERs that go out at once.
fn reload(bed: &mut Bed, settings: Settings) -> Vec<Sent> {
    bed.act(|shard, _, _| shard.reload(Arc::new(settings)));
    registers(bed.wait(10))
}

fn with_password(realm: &str, password: &str) -> Trunk {
    let mut trunk = registered();
    let credentials = trunk.credentials.as_mut().unwrap();
    credentials.realm = realm.into();
    credentials.password = Password::new(password.to_owned());
    trunk
}

#[test]
fn other_credentials_are_tried_at_once_and_what_comes_of_them_is_told() {
    for transport in TRANSPORTS {
        let foreign = with_password("other.example", "swordfish");
        let mut bed = Bed::new(open(transport, foreign));
        let sent = register(&mut bed, 1);
        assert!(ask(&mut bed, &sent, "n1").is_empty());
        let told = changes(&mut bed);
        assert!(
            matches!(&*told, [one] if failed(Failure::ForeignRealm)(one)),
            "{told:?}"
        );
        // The realm is right now, and the password is not: the operator is told so, twice where he
        // writes two of them.
        for wrong in ["herring", "haddock"] {
            let sent = only(reload(
                &mut bed,
                open(transport, with_password(REALM, wrong)),
            ));
            assert_eq!(credentials(&sent), None);
            let sent = only(ask(&mut bed, &sent, "n2"));
            assert!(credentials(&sent).is_some());
            assert!(ask(&mut bed, &sent, "n3").is_empty());
            let told = changes(&mut bed);
            assert!(
                matches!(&*told, [one] if failed(Failure::WrongPassword)(one)),
                "{told:?}"
            );
            // Nothing more of the same goes out, and no reload that changes nothing makes it.
            let same = open(transport, with_password(REALM, wrong));
            assert!(reload(&mut bed, same).is_empty());
        }
        let sent = only(reload(&mut bed, open(transport, registered())));
        let sent = only(ask(&mut bed, &sent, "n4"));
        grant(&mut bed, &sent, 600);
        assert_eq!(changes(&mut bed), [Change::Registered { expires_s: 600 }]);
    }
}

#[test]
fn a_member_of_before_gets_nothing_that_fits_to_the_password_of_now() {
    let mut bed = Bed::new(by_members(&[PROVIDER, SECOND]));
    let first = register(&mut bed, 1);
    assert_eq!(first.to.remote.to_string(), PROVIDER);
    // RFC 3261 10.2: "UAs MUST NOT send a new registration (that is, containing new Contact header
    // field values, as opposed to a retransmission) until they have received a final response from
    // the registrar for the previous one or the previous REGISTER request has timed out."
    let elsewhere = with_members(UDP, with_password(REALM, "herring"), &[SECOND]);
    assert!(reload(&mut bed, elsewhere).is_empty());
    let mut sent = ask(&mut bed, &first, "n1");
    sent.extend(registers(bed.wait(10)));
    let second = only(sent);
    assert_eq!(second.to.remote.to_string(), SECOND);
    assert_eq!(
        second.header(HeaderName::CallId),
        first.header(HeaderName::CallId)
    );
    let second = only(ask(&mut bed, &second, "n2"));
    assert!(credentials(&second).is_some());
    grant(&mut bed, &second, 600);
    assert_eq!(changes(&mut bed), [Change::Registered { expires_s: 600 }]);
    // One that grants it late is not where the next one goes either.
    let again = register(&mut bed, 600_000);
    assert!(reload(&mut bed, by_members(&[PROVIDER])).is_empty());
    grant(&mut bed, &again, 600);
    let next = register(&mut bed, 10);
    assert_eq!(next.to.remote.to_string(), PROVIDER);
}

#[test]
fn what_is_wanted_again_while_it_is_taken_back_is_asked_for_again() {
    let mut bed = Bed::new(open(UDP, registered()));
    let sent = register(&mut bed, 1);
    grant(&mut bed, &sent, 600);
    for is_answered_before in [false, true] {
        changes(&mut bed);
        let last = only(reload(&mut bed, settings()));
        assert_eq!(last.header(HeaderName::Expires).as_deref(), Some("0"));
        let sent = match is_answered_before {
            true => {
                assert!(tell(&mut bed, &last, 200, "").is_empty());
                only(reload(&mut bed, open(UDP, registered())))
            }
            false => {
                assert!(reload(&mut bed, open(UDP, registered())).is_empty());
                let mut sent = tell(&mut bed, &last, 200, "");
                sent.extend(registers(bed.wait(10)));
                only(sent)
            }
        };
        let expires = sent.header(HeaderName::Expires).unwrap();
        assert_eq!(expires, "3600", "{is_answered_before}");
        assert_eq!(shown(&bed).state, Some(State::Asking));
        grant(&mut bed, &sent, 600);
        let told = changes(&mut bed);
        assert_eq!(told, [Change::Ended, Change::Registered { expires_s: 600 }]);
    }
}

#[test]
fn an_account_is_one_shards_and_its_answers_come_there() {
    let (shared, key) = (Arc::new(SharedGateways::default()), [7; 16]);
    for account in ["4930100", "4930200", "4930300"] {
        let of_it = Trunk {
            account: account.into(),
            ..registered()
        };
        let mut owners = 0;
        for index in 0..4 {
            let mut bed = Bed::with_gateways(open(UDP, of_it.clone()), &shared);
            bed.act(|shard, _, _| shard.set_home(index, 4, key));
            let mut sent = registers(bed.wait(1_000));
            let Some(first) = sent.pop() else { continue };
            owners += 1;
            assert_eq!(shard_of(&first.message, 4, &key), index);
            let text = response(&first, 200, "p", "");
            let answer = sip_msg::Message::parse(text.as_bytes(), &Default::default()).unwrap();
            assert_eq!(shard_of(&answer, 4, &key), index);
        }
        assert_eq!(owners, 1, "{account}");
    }
}

#[test]
fn a_member_that_is_a_name_is_resolved_and_its_addresses_are_tried() {
    let mut settings = open(UDP, registered());
    let hop = &mut settings.routes.groups[0].gateways[0].next_hop;
    (hop.host, hop.port) = ("sip.provider.example".into(), None);
    let mut bed = Bed::new(settings);
    bed.wait(1);
    let parks = |bed: &mut Bed| -> Vec<_> {
        let asked = bed.effects.drain(..).filter_map(|effect| match effect {
            Effect::Resolve { park, .. } => Some(park),
            _ => None,
        });
        asked.collect()
    };
    // One to register, and one to know who the members are.
    let asked = parks(&mut bed);
    assert_eq!(asked.len(), 2);
    let hops = [PROVIDER, SECOND].map(|addr| Hop {
        transport: UDP,
        addr: addr.parse().unwrap(),
        tls_name: None,
    });
    let mut sent = Vec::new();
    for park in asked {
        sent.extend(bed.act(|shard, now, out| {
            shard.handle_resolved(now, park, Ok(hops.to_vec()), out);
        }));
    }
    let first = only(registers(sent));
    assert_eq!(first.to.remote.to_string(), PROVIDER);
    let next = register_beside(&mut bed, Some(&first), Care::USUAL.timeout_ms);
    assert_eq!(next.to.remote.to_string(), SECOND);
    grant(&mut bed, &next, 3_600);
    parks(&mut bed);
    // Who they are is asked anew.
    bed.wait(300_000);
    let asked = parks(&mut bed);
    assert_eq!(asked.len(), 1);
    let none = bed.act(|shard, now, out| {
        shard.handle_resolved(now, asked[0], Err(LocateError::NotFound), out);
    });
    assert!(registers(none).is_empty());
    assert_eq!(shown(&bed).state, Some(State::Registered));
}

#[test]
fn a_name_that_dns_does_not_have_is_asked_for_again() {
    let mut settings = open(UDP, registered());
    settings.routes.groups[0].gateways[0].next_hop.host = "sip.provider.example".into();
    settings.routes.groups[0].gateways[0].next_hop.port = None;
    let mut bed = Bed::new(settings);
    bed.wait(1);
    let asked: Vec<_> = bed
        .effects
        .drain(..)
        .filter_map(|effect| match effect {
            Effect::Resolve { park, .. } => Some(park),
            _ => None,
        })
        .collect();
    for park in asked {
        bed.act(|shard, now, out| {
            shard.handle_resolved(now, park, Err(LocateError::NotFound), out);
        });
    }
    let told = changes(&mut bed);
    assert!(
        matches!(&*told, [one] if failed(Failure::NotResolved)(one)),
        "{told:?}"
    );
    bed.wait(FIRST_WAIT_MS + 1_000);
    let is_asked = |effect: &Effect| matches!(effect, Effect::Resolve { .. });
    assert!(bed.effects.iter().any(is_asked));
}

#[test]
fn a_server_that_does_not_know_its_own_address_asks_for_it_first() {
    let mut settings = open(UDP, registered());
    settings.listeners[0].bound = "0.0.0.0:5060".parse().unwrap();
    let mut bed = Bed::new(settings);
    let first = register(&mut bed, 1);
    assert_eq!(first.header(HeaderName::Contact), None);
    let first = only(ask(&mut bed, &first, "n1"));
    // The answer has come to 192.0.2.1.
    let contact = match first.header(HeaderName::Contact) {
        Some(_) => first,
        None => only(tell(&mut bed, &first, 200, "")),
    };
    let value = contact.header(HeaderName::Contact).unwrap();
    assert_eq!(value, "<sip:4930100@192.0.2.1:5060>;expires=3600");
    grant(&mut bed, &contact, 600);
    assert_eq!(shown(&bed).state, Some(State::Registered));
}

#[test]
fn a_contact_that_was_mended_on_the_way_counts() {
    let mut bed = Bed::new(open(UDP, registered()));
    let sent = register(&mut bed, 1);
    let more = "Contact: <sip:4930100@198.18.0.1:40000>;expires=120\r\n";
    assert!(tell(&mut bed, &sent, 200, more).is_empty());
    assert_eq!(changes(&mut bed), [Change::Registered { expires_s: 120 }]);
}

#[test]
fn a_trunk_without_registration_is_never_registered() {
    let mut bed = Bed::new(open(UDP, trunk()));
    assert!(registers(bed.wait(100_000)).is_empty());
    assert_eq!(shown(&bed).state, None);
}
