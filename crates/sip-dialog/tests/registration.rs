//! REGISTER and its answers (RFC 3261 10.2, 22.2), OPTIONS and MESSAGE.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use crate::common::{DELAY_MS, Wire, addr, target};
use sip_dialog::{AgentConfig, Cause, Event};
use sip_msg::{ConnId, HeaderName, Method, Transport};

const CHALLENGE: &str = "WWW-Authenticate: Digest realm=\"example.org\", nonce=\"abc\", qop=\"auth\", algorithm=SHA-256";

#[test]
fn a_challenge_is_answered_and_the_grant_is_read() {
    let mut wire = Wire::new(Transport::Udp, 1, |_| {});
    let alice = wire.add(0, "alice", 5061);
    let request = wire
        .act(0, |agents, now_ms, out| {
            agents.register(now_ms, alice, 3600, out)
        })
        .unwrap();
    assert_eq!(
        wire.act(0, |agents, now_ms, out| agents
            .register(now_ms, alice, 3600, out)),
        None
    );
    let first = wire.expect(Method::Register);
    assert_eq!(first.request_uri(), b"sip:example.org");
    assert!(!first.has(HeaderName::Authorization));
    wire.respond(0, 5061, &first, 401, "r", &[CHALLENGE]);
    let second = wire.expect(Method::Register);
    assert!(second.has(HeaderName::Authorization));
    assert_eq!(second.call_id(), first.call_id());
    assert_eq!(
        second.cseq().unwrap().number,
        // RFC 3261 22.2: "When a UAC resubmits a request with its credentials after receiving a 401
        // (Unauthorized) or 407 (Proxy Authentication Required) response, it MUST increment the CSeq
        // header field value as it would normally when sending an updated request."
        first.cseq().unwrap().number + 1
    );
    let lines = [
        "Contact: <sip:other@192.0.2.1:5070>;expires=7",
        "Contact: <sip:alice@192.0.2.1:5060;transport=udp>;expires=1800",
        "Expires: 9",
        "Service-Route: <sip:192.0.2.1:5061;lr;home>",
    ];
    wire.respond(0, 5061, &second, 200, "r", &lines);
    assert_eq!(
        wire.take_events(0),
        [Event::Registered {
            agent: alice,
            request,
            expires_s: 1800
        }]
    );
    assert_eq!(wire.ends[0].agents.counters().challenges, 1);

    // RFC 3608: what follows goes the way that the registrar said, with the nonce that it gave.
    wire.act(0, |agents, now_ms, out| {
        agents.options(now_ms, alice, "sip:bob@example.org", out)
    })
    .unwrap();
    // RFC 3261 8.1.1.1: "When a pre-existing route set is present, the procedures for populating the
    // Request-URI and Route header field detailed in Section 12.2.1.1 MUST be followed (even though
    // there is no dialog), using the desired Request-URI as the remote target URI."
    let options = wire.expect(Method::Options);
    assert_eq!(
        options.first(HeaderName::Route).unwrap().value,
        b"<sip:192.0.2.1:5061;lr;home>"
    );
    // RFC 3261 22.2: "When a UAC resubmits a request with its credentials after receiving a 401
    // (Unauthorized) or 407 (Proxy Authentication Required) response, it MUST increment the CSeq header
    // field value as it would normally when sending an updated request."
    let stale = CHALLENGE.replace("\"abc\"", "\"def\", stale=true");
    wire.respond(0, 5061, &options, 401, "r", &[&stale]);
    let again = wire.expect(Method::Options);
    assert_eq!(
        again.cseq().unwrap().number,
        options.cseq().unwrap().number + 1
    );
    wire.respond(0, 5061, &again, 200, "r", &[]);

    // RFC 3261 12.1.2: "If no Record-Route header field is present in the response, the route set MUST be
    // set to the empty set."
    let call = wire.act(0, |agents, now_ms, out| {
        agents.invite(now_ms, alice, "sip:bob@example.org", None, out)
    });
    let invite = wire.expect(Method::Invite);
    assert!(invite.has(HeaderName::Route));
    let contact = "Contact: <sip:bob@192.0.2.1:5061>";
    wire.respond(0, 5061, &invite, 200, "b", &[contact]);
    assert!(!wire.expect(Method::Ack).has(HeaderName::Route));
    wire.act(0, |agents, now_ms, out| {
        agents.hang_up(now_ms, call.unwrap(), out)
    });
    let bye = wire.expect(Method::Bye);
    wire.respond(0, 5061, &bye, 200, "b", &[]);

    // RFC 3261 10.2: "All registrations from a UAC SHOULD use the same Call-ID header field value for
    // registrations sent to a particular registrar." and "A UA MUST increment the CSeq value by one for
    // each REGISTER request with the same Call-ID."
    wire.take_events(0);
    let request = wire
        .act(0, |agents, now_ms, out| {
            agents.register(now_ms, alice, 0, out)
        })
        .unwrap();
    let third = wire.expect(Method::Register);
    assert_eq!(third.call_id(), first.call_id());
    assert_eq!(
        third.cseq().unwrap().number,
        first.cseq().unwrap().number + 2
    );
    assert_eq!(third.first(HeaderName::Expires).unwrap().value, b"0");
    assert!(
        third.has(HeaderName::Authorization),
        // RFC 3261 22.3: "These credentials MUST NOT be cached across dialogs; however, if a UA is
        // configured with the realm of its local outbound proxy, when one exists, then the UA MAY cache
        // credentials for that realm across dialogs."
        "the nonce is used again"
    );
    wire.respond(0, 5061, &third, 200, "r", &[]);
    assert_eq!(
        wire.take_events(0),
        [Event::Registered {
            agent: alice,
            request,
            expires_s: 0
        }]
    );
    wire.assert_empty();
    assert!(wire.ends[0].agents.remove_agent(alice));
}

#[test]
fn a_registration_has_what_it_must_and_keeps_no_route() {
    let mut wire = Wire::new(Transport::Udp, 1, |_| {});
    let config = AgentConfig {
        aor: "sip:alice@example.org".to_owned(),
        contact: "sip:alice@192.0.2.1:5060".to_owned(),
        contact_params: ";reg-id=1;+sip.instance=\"<urn:uuid:0>\"".to_owned(),
        sent_by: "192.0.2.1:5060".to_owned(),
        registrar: "sip:example.org;transport=udp".to_owned(),
        credentials: None,
        proxy: target(Transport::Udp, addr(5061)),
    };
    let alice = wire.ends[0].agents.add_agent(&config).unwrap();
    for _ in 0..2 {
        wire.act(0, |agents, now_ms, out| {
            agents.register(now_ms, alice, 60, out).unwrap();
            // RFC 3261 10.2: "UAs MUST NOT send a new registration (that is, containing new Contact header
            // field values, as opposed to a retransmission) until they have received a final response from
            // the registrar for the previous one or the previous REGISTER request has timed out."
            assert_eq!(agents.register(now_ms, alice, 60, out), None);
        });
        let register = wire.expect(Method::Register);
        let value = |name| register.first(name).map(|field| field.value);
        // RFC 3261 10.2: "The following header fields, except Contact, MUST be included in a REGISTER
        // request." They are Request-URI, To, From, Call-ID, CSeq and Contact.
        // RFC 3261 10.2: "This address-of-record MUST be a SIP URI or SIPS URI."
        assert_eq!(value(HeaderName::To), Some(&b"<sip:alice@example.org>"[..]));
        assert!(register.from().is_ok() && register.cseq().is_ok());
        assert!(!register.call_id().is_empty());
        // RFC 3261 10.2: "The "userinfo" and "@" components of the SIP URI MUST NOT be present."
        assert_eq!(register.request_uri(), b"sip:example.org;transport=udp");
        // RFC 3261 8.1.1.9: "The option tags listed MUST only refer to extensions defined in
        // standards-track RFCs."
        // RFC 3261 20.37: "A UA compliant to this specification MUST only include option tags
        // corresponding to standards-track RFCs."
        assert_eq!(value(HeaderName::Supported), Some(&b"outbound, path"[..]));
        // RFC 3261 10.2: "The Record-Route header field has no meaning in REGISTER requests or responses,
        // and MUST be ignored if present." and "In particular, the UAC MUST NOT create a new route set
        // based on the presence or absence of a Record-Route header field in any response to a REGISTER
        // request."
        assert!(!register.has(HeaderName::Route));
        // RFC 3261 20: "Similarly, a header field labeled "not applicable" for a response means that
        // the UAS MUST NOT place the header field in the response, and the UAC MUST ignore the header
        // field in the response."
        // RFC 3261 7.3.2: "If a header field appears in a message not matching its category (such as a
        // request header field in a response), it MUST be ignored."
        let lines = ["Record-Route: <sip:192.0.2.1:5061;lr>"];
        wire.respond(0, 5061, &register, 200, "r", &lines);
    }
    wire.assert_empty();
}

#[test]
fn credentials_wait_for_the_challenge_where_that_is_asked_for() {
    let mut wire = Wire::new(Transport::Udp, 1, |config| config.credentials_first = false);
    let alice = wire.add(0, "alice", 5061);
    for _ in 0..2 {
        wire.act(0, |agents, now_ms, out| {
            agents.register(now_ms, alice, 60, out)
        })
        .unwrap();
        let first = wire.expect(Method::Register);
        assert!(!first.has(HeaderName::Authorization));
        wire.respond(0, 5061, &first, 401, "r", &[CHALLENGE]);
        let second = wire.expect(Method::Register);
        assert!(second.has(HeaderName::Authorization));
        wire.respond(0, 5061, &second, 200, "r", &[]);
    }
}

#[test]
fn credentials_that_are_refused_end_the_attempt() {
    let mut wire = Wire::new(Transport::Udp, 1, |_| {});
    let alice = wire.add(0, "alice", 5061);
    let request = wire
        .act(0, |agents, now_ms, out| {
            agents.register(now_ms, alice, 3600, out)
        })
        .unwrap();
    let first = wire.expect(Method::Register);
    wire.respond(0, 5061, &first, 401, "r", &[CHALLENGE]);
    let second = wire.expect(Method::Register);
    wire.respond(
        0,
        5061,
        &second,
        401,
        "r",
        &[&CHALLENGE.replace("abc", "def")],
    );
    assert_eq!(
        wire.take_events(0),
        [Event::RegisterFailed {
            agent: alice,
            request,
            cause: Cause::Status(401)
        }]
    );
    wire.assert_empty();
}

#[test]
fn a_foreign_realm_is_never_answered() {
    let mut wire = Wire::new(Transport::Udp, 1, |_| {});
    let alice = wire.add(0, "alice", 5061);
    let call = wire
        .act(0, |agents, now_ms, out| {
            agents.invite(now_ms, alice, "sip:bob@example.org", None, out)
        })
        .unwrap();
    let invite = wire.expect(Method::Invite);
    let foreign = CHALLENGE
        .replace("WWW-Authenticate", "Proxy-Authenticate")
        .replace("example.org", "evil.example");
    wire.respond(0, 5061, &invite, 407, "r", &[&foreign]);
    wire.expect(Method::Ack);
    assert_eq!(
        wire.take_events(0),
        [Event::Failed {
            call,
            cause: Cause::Status(407)
        }]
    );
    assert!(wire.unclaimed.is_empty());
    wire.assert_empty();
}

#[test]
fn a_challenged_call_has_its_credentials_in_the_ack_too() {
    // RFC 3261 21.4.8: "This code is similar to 401 (Unauthorized), but indicates that the client MUST
    // first authenticate itself with the proxy."
    let mut wire = Wire::new(Transport::Udp, 1, |_| {});
    let alice = wire.add(0, "alice", 5061);
    let call = wire
        .act(0, |agents, now_ms, out| {
            agents.invite(now_ms, alice, "sip:bob@example.org", None, out)
        })
        .unwrap();
    let first = wire.expect(Method::Invite);
    wire.respond(
        0,
        5061,
        &first,
        407,
        "r",
        &[&CHALLENGE.replace("WWW-Authenticate", "Proxy-Authenticate")],
    );
    wire.expect(Method::Ack);
    let second = wire.expect(Method::Invite);
    assert_eq!(second.call_id(), first.call_id());
    assert_eq!(second.from().unwrap().tag(), first.from().unwrap().tag());
    assert_eq!(
        second.cseq().unwrap().number,
        first.cseq().unwrap().number + 1
    );
    wire.respond(
        0,
        5061,
        &second,
        200,
        "x",
        &["Contact: <sip:bob@192.0.2.1:5062>"],
    );
    let ack = wire.expect(Method::Ack);
    // RFC 3261 13.2.2.4: "The sequence number of the CSeq header field MUST be the same as the INVITE
    // being acknowledged, but the CSeq method MUST be ACK.  The ACK MUST contain the same credentials as
    // the INVITE."
    // RFC 3261 8.2.2.3: "An ACK request for a 2xx response MUST contain only those Require and
    // Proxy-Require values that were present in the initial request."
    assert_eq!(ack.cseq().unwrap().number, second.cseq().unwrap().number);
    let credentials = |m: &sip_msg::Message| {
        m.first(HeaderName::ProxyAuthorization)
            .unwrap()
            .value
            .to_vec()
    };
    assert_eq!(credentials(&ack), credentials(&second));
    assert_eq!(wire.take_events(0), [Event::Answered { call }]);
    // A BYE may be challenged like any other request.
    wire.act(0, |agents, now_ms, out| agents.hang_up(now_ms, call, out));
    let bye = wire.expect(Method::Bye);
    let again = CHALLENGE
        .replace("WWW-Authenticate", "Proxy-Authenticate")
        .replace("\"abc\"", "\"def\", stale=true");
    wire.respond(0, 5061, &bye, 407, "x", &[&again]);
    let second = wire.expect(Method::Bye);
    assert_eq!(
        second.cseq().unwrap().number,
        bye.cseq().unwrap().number + 1
    );
    wire.respond(0, 5061, &second, 200, "x", &[]);
    assert_eq!(
        wire.take_events(0),
        [Event::Ended {
            call,
            cause: Cause::HungUp
        }]
    );
    wire.assert_empty();
}

#[test]
fn too_brief_an_interval_is_made_longer_once() {
    // RFC 3261 10.2.8: "If a UA receives a 423 (Interval Too Brief) response, it MAY retry the
    // registration after making the expiration interval of all contact addresses in the REGISTER request
    // equal to or greater than the expiration interval within the Min-Expires header field of the 423
    // (Interval Too Brief) response."
    let mut wire = Wire::new(Transport::Udp, 1, |_| {});
    let alice = wire.add(0, "alice", 5061);
    let request = wire
        .act(0, |agents, now_ms, out| {
            agents.register(now_ms, alice, 10, out)
        })
        .unwrap();
    let first = wire.expect(Method::Register);
    wire.respond(0, 5061, &first, 423, "r", &["Min-Expires: 60"]);
    let second = wire.expect(Method::Register);
    assert_eq!(second.first(HeaderName::Expires).unwrap().value, b"60");
    wire.respond(0, 5061, &second, 423, "r", &["Min-Expires: 90"]);
    let cause = Cause::Status(423);
    assert_eq!(
        wire.take_events(0),
        [Event::RegisterFailed {
            agent: alice,
            request,
            cause
        }]
    );
    wire.assert_empty();
}

#[test]
fn a_lost_connection_ends_what_waits_on_it() {
    let mut wire = Wire::new(Transport::Tcp, 1, |_| {});
    let alice = wire.add(0, "alice", 5061);
    let carol = wire.add(0, "carol", 5061);
    let request = wire
        .act(0, |agents, now_ms, out| {
            agents.register(now_ms, alice, 60, out)
        })
        .unwrap();
    let call = wire
        .act(0, |agents, now_ms, out| {
            agents.invite(now_ms, carol, "sip:bob@example.org", None, out)
        })
        .unwrap();
    let query = wire
        .act(0, |agents, now_ms, out| {
            agents.options(now_ms, alice, "sip:bob@example.org", out)
        })
        .unwrap();
    let text = wire
        .act(0, |agents, now_ms, out| {
            let to = "sip:bob@example.org";
            agents.message(now_ms, carol, to, b"text/plain", b"hello", out)
        })
        .unwrap();
    wire.run_for(DELAY_MS);
    wire.act(0, |agents, now_ms, out| {
        agents.handle_closed(now_ms, ConnId(8), out)
    });
    assert!(wire.events(0).is_empty());
    wire.act(0, |agents, now_ms, out| {
        agents.handle_closed(now_ms, ConnId(7), out)
    });
    let events = wire.take_events(0);
    let conn = ConnId(7);
    for event in [
        Event::Disconnected { agent: alice, conn },
        Event::Disconnected { agent: carol, conn },
        // RFC 3261 8.1.3.1: "If a fatal transport error is reported by the transport layer (generally,
        // due to fatal ICMP errors in UDP or connection failures in TCP), the condition MUST be treated
        // as a 503 (Service Unavailable) status code."
        Event::RegisterFailed {
            agent: alice,
            request,
            cause: Cause::Transport,
        },
        Event::Failed {
            call,
            cause: Cause::Transport,
        },
        // The answers to these would have come on it too.
        Event::Replied {
            agent: alice,
            request: query,
            cause: Cause::Transport,
        },
        Event::Replied {
            agent: carol,
            request: text,
            cause: Cause::Transport,
        },
    ] {
        assert!(events.contains(&event), "{event:?} is not in {events:?}");
    }
    assert_eq!(events.len(), 6);
    let live = wire.ends[0].agents.live();
    assert_eq!((live.calls, live.requests), (0, 0));
    wire.assert_empty();
    assert!(wire.ends[0].agents.remove_agent(alice));
    assert!(wire.ends[0].agents.remove_agent(carol));
}

/// A list that loses its first, its middle and its last one stays whole.
#[test]
fn requests_end_in_any_order() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
        let mut wire = Wire::new(Transport::Tcp, 1, |_| {});
        let alice = wire.add(0, "alice", 5061);
        let asked: Vec<_> = (0..3)
            .map(|_| {
                wire.act(0, |agents, now_ms, out| {
                    agents.options(now_ms, alice, "sip:bob@example.org", out)
                })
                .unwrap()
            })
            .collect();
        let came: Vec<_> = asked.iter().map(|_| wire.expect(Method::Options)).collect();
        for (n, at) in order.into_iter().enumerate() {
            assert!(!wire.ends[0].agents.remove_agent(alice));
            if n == 2 {
                wire.act(0, |agents, now_ms, out| {
                    agents.handle_closed(now_ms, ConnId(7), out)
                });
            } else {
                wire.respond(0, 5061, &came[at], 200, "r", &[]);
            }
            let told = wire.take_events(0);
            assert!(
                told.iter().any(|event| matches!(event,
                    Event::Replied { request, .. } if *request == asked[at])),
                "{order:?} {told:?}"
            );
        }
        assert_eq!(wire.ends[0].agents.live().requests, 0);
        assert!(wire.ends[0].agents.remove_agent(alice));
    }
}

#[test]
fn who_has_moved_is_bound_where_he_is_and_nowhere_else() {
    let mut wire = Wire::new(Transport::Tcp, 1, |_| {});
    let alice = wire.add(0, "alice", 5061);
    let old = "sip:alice@192.0.2.1:5060;transport=tcp";
    let new = |port: u16| format!("sip:alice@192.0.2.1:{port};transport=tcp");
    let moved = |wire: &mut Wire, contact: &str, sent_by: &str| {
        wire.ends[0].agents.move_agent(alice, contact, sent_by)
    };
    let register = |wire: &mut Wire, status: u16| {
        wire.act(0, |agents, now_ms, out| {
            agents.register(now_ms, alice, 60, out)
        })
        .unwrap();
        let register = wire.expect(Method::Register);
        wire.respond(0, 5061, &register, status, "r", &[]);
        let contacts: Vec<String> = register
            .fields_of(HeaderName::Contact)
            .map(|field| String::from_utf8(field.value.to_vec()).unwrap())
            .collect();
        let via = register.top_via().unwrap();
        (contacts, via.sent_by.port)
    };
    // Nothing is bound yet: nothing is to be removed.
    assert!(moved(&mut wire, &new(6_001), "192.0.2.1:6001"));
    assert_eq!(
        register(&mut wire, 200),
        (vec![format!("<{}>", new(6_001))], Some(6_001))
    );
    // RFC 3261 10.2.2: "A UA requests the immediate removal of a binding by specifying an expiration
    // interval of "0" for that contact address in a REGISTER request."
    assert!(moved(&mut wire, &new(6_002), "192.0.2.1:6002"));
    let left = format!("<{}>;expires=0", new(6_001));
    let both = (vec![format!("<{}>", new(6_002)), left.clone()], Some(6_002));
    assert_eq!(register(&mut wire, 500), both);
    // The registrar has it until it says otherwise, however often he moves meanwhile.
    assert!(moved(&mut wire, &new(6_003), "192.0.2.1:6003"));
    let both = (vec![format!("<{}>", new(6_003)), left], Some(6_003));
    assert_eq!(register(&mut wire, 200), both);
    let one = (vec![format!("<{}>", new(6_003))], Some(6_003));
    assert_eq!(register(&mut wire, 200), one);
    // There and back again.
    assert!(moved(&mut wire, old, "192.0.2.1:5060"));
    assert!(moved(&mut wire, &new(6_003), "192.0.2.1:6003"));
    assert_eq!(register(&mut wire, 200), one);
    assert!(!moved(&mut wire, "tel:1", "192.0.2.1:5060"));
    assert_eq!(register(&mut wire, 200), one);
    // He is found where he is, and no more where he was.
    let options = |port: u16| {
        format!(
            "OPTIONS {} SIP/2.0\r\nVia: SIP/2.0/TCP 192.0.2.1:5099;branch=z9hG4bK{port}\r\n\
             From: <sip:c@d>;tag=1\r\nTo: <sip:alice@example.org>\r\nCall-ID: {port}\r\nCSeq: 1 OPTIONS\r\n\
             Max-Forwards: 70\r\nContent-Length: 0\r\n\r\n",
            new(port)
        )
    };
    for (port, status) in [(6_003, "200"), (6_001, "404")] {
        wire.inject(0, 5099, &options(port));
        assert_eq!(wire.start_lines().last().unwrap(), status);
    }
}

#[test]
fn messages_and_options_between_two() {
    let mut wire = Wire::new(Transport::Udp, 2, |_| {});
    let alice = wire.add(0, "alice", 5061);
    let bob = wire.add(1, "bob", 5060);
    let text = wire.act(0, |agents, now_ms, out| {
        agents.message(
            now_ms,
            alice,
            "sip:bob@example.org",
            b"text/plain",
            b"hello",
            out,
        )
    });
    let query = wire.act(0, |agents, now_ms, out| {
        agents.options(now_ms, alice, "sip:bob@example.org", out)
    });
    assert!(
        !wire.ends[0].agents.remove_agent(alice),
        "it has requests under way"
    );
    wire.run_for(2 * DELAY_MS);
    let cause = Cause::Status(200);
    assert_eq!(
        wire.take_events(0),
        [
            Event::Replied {
                agent: alice,
                request: text.unwrap(),
                cause
            },
            Event::Replied {
                agent: alice,
                request: query.unwrap(),
                cause
            },
        ]
    );
    assert_eq!(
        wire.take_events(1),
        [
            Event::Received {
                agent: bob,
                method: Method::Message
            },
            Event::Received {
                agent: bob,
                method: Method::Options
            },
        ]
    );
    wire.assert_empty();
    assert!(wire.ends[0].agents.remove_agent(alice));
    assert!(!wire.ends[0].agents.remove_agent(alice));
}
