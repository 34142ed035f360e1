//! CANCEL, on both sides (RFC 3261 9).

use crate::support::{Bed, TCP, UDP, flow, request, response_to, target};
use sip_msg::Method;
use sip_txn::{Cancelled, ClientState, Event, Incoming, Responded, Response};

/// A response to the CANCEL of `invite`.
fn cancel_response(invite: &str, status: u16) -> String {
    response_to(invite, status).replace("CSeq: 1 INVITE", "CSeq: 1 CANCEL")
}

#[test]
fn before_a_provisional_response_the_cancel_waits_for_one() {
    let mut bed = Bed::new();
    let (id, invite) = bed.start(UDP, Method::Invite);
    bed.sent();
    // RFC 3261 9.1: "If no provisional response has been received, the CANCEL request MUST NOT be sent; rather,
    // the client MUST wait for the arrival of a provisional response before sending the request."
    assert_eq!(
        bed.txn.cancel(bed.now_ms, id, &mut bed.out),
        Cancelled::Deferred
    );
    assert_eq!(
        bed.txn.cancel(bed.now_ms, id, &mut bed.out),
        Cancelled::Deferred
    );
    assert!(bed.pass(3_000).iter().all(|sent| sent.what() == "INVITE"));
    assert_eq!(
        bed.answer(&invite, 100),
        Response::Pass {
            client: id,
            context: 7
        }
    );
    let sent = bed.sent();
    assert_eq!((sent.len(), sent[0].what()), (1, "CANCEL"));
    // RFC 3261 9.1: "The destination address, port, and transport for the CANCEL MUST be identical to those used
    // to send the original request."
    assert_eq!(sent[0].to, target(UDP));
    assert_eq!(
        bed.answer(&invite, 180),
        Response::Pass {
            client: id,
            context: 7
        }
    );
    assert_eq!(bed.sent(), [], "one CANCEL is enough");
}

#[test]
fn a_final_response_makes_the_waiting_cancel_needless() {
    for status in [200, 486] {
        let mut bed = Bed::new();
        let (id, invite) = bed.start(UDP, Method::Invite);
        bed.txn.cancel(bed.now_ms, id, &mut bed.out);
        bed.answer(&invite, status);
        assert!(!bed.sent_whats().contains(&"CANCEL".to_owned()));
        // RFC 3261 9.1: "If the original request has generated a final response, the CANCEL SHOULD NOT be sent, as
        // it is an effective no-op"
        assert_eq!(
            bed.txn.cancel(bed.now_ms, id, &mut bed.out),
            Cancelled::TooLate
        );
        // Nor does a provisional response that was overtaken bring it out.
        assert_eq!(bed.answer(&invite, 100), Response::Absorbed);
        assert_eq!(bed.sent(), []);
        bed.pass(40_000);
        assert!(bed.is_idle());
    }
}

#[test]
fn the_cancel_is_a_transaction_of_its_own() {
    let mut bed = Bed::new();
    let (id, invite) = bed.start(UDP, Method::Invite);
    bed.answer(&invite, 180);
    bed.sent();
    assert_eq!(
        bed.txn.cancel(bed.now_ms, id, &mut bed.out),
        Cancelled::Sent
    );
    assert_eq!(
        bed.txn.cancel(bed.now_ms, id, &mut bed.out),
        Cancelled::Sent
    );
    assert_eq!(bed.sent_whats(), ["CANCEL"]);
    assert_eq!(bed.txn.live().client_non_invite, 1);
    // It is repeated like any other request, and its responses are nobody else's business.
    assert_eq!(bed.pass_times(2_000), [500, 1_500]);
    assert_eq!(
        bed.answer_bytes(&cancel_response(&invite, 200)),
        Response::Absorbed
    );
    // The first is no repetition.
    assert_eq!(bed.txn.counters().response_absorbed, 0);
    assert_eq!(bed.pass(2_000), []);
    assert_eq!(
        bed.answer_bytes(&cancel_response(&invite, 200)),
        Response::Absorbed
    );
    assert_eq!(bed.txn.counters().response_absorbed, 1);
    assert_eq!(
        bed.answer(&invite, 487),
        Response::Pass {
            client: id,
            context: 7
        }
    );
    assert_eq!(bed.sent_whats(), ["ACK"]);
    bed.pass(40_000);
    assert_eq!(
        bed.events(),
        [Event::ClientTerminated {
            client: id,
            context: 7
        }]
    );
    assert!(bed.is_idle());
}

#[test]
fn a_cancelled_invite_without_a_final_response_is_given_up_after_64_t1() {
    for answered in [false, true] {
        let mut bed = Bed::new();
        let (id, invite) = bed.start(UDP, Method::Invite);
        bed.answer(&invite, 180);
        bed.pass(100_000);
        bed.txn.cancel(bed.now_ms, id, &mut bed.out);
        if answered {
            bed.answer_bytes(&cancel_response(&invite, 200));
        }
        // RFC 3261 9.1: "If there is no final response for the original request in 64*T1 seconds (T1 is defined in
        // Section 17.1.1.1), the client SHOULD then consider the original transaction cancelled and SHOULD
        // destroy the client transaction handling the original request."
        bed.pass(31_990);
        assert_eq!(
            (bed.events(), bed.txn.client_state(id)),
            (vec![], Some(ClientState::Proceeding))
        );
        bed.pass(10);
        assert_eq!(
            bed.events(),
            [Event::ClientTimeout {
                client: id,
                context: 7
            }]
        );
        assert!(bed.is_idle());
    }
}

#[test]
fn over_tcp_the_response_to_the_cancel_may_come_after_the_invites_end() {
    for cancel_answered in [false, true] {
        let mut bed = Bed::new();
        let (id, invite) = bed.start(TCP, Method::Invite);
        bed.answer(&invite, 180);
        bed.txn.cancel(bed.now_ms, id, &mut bed.out);
        bed.sent();
        assert_eq!(
            bed.answer(&invite, 487),
            Response::Pass {
                client: id,
                context: 7
            }
        );
        assert_eq!(bed.sent_whats(), ["ACK"]);
        assert_eq!(
            bed.events(),
            [Event::ClientTerminated {
                client: id,
                context: 7
            }]
        );
        assert_eq!(bed.txn.client_state(id), None);
        assert_eq!(bed.txn.client_context(id), None);
        assert_eq!(bed.answer(&invite, 487), Response::Unknown);
        if cancel_answered {
            assert_eq!(
                bed.answer_bytes(&cancel_response(&invite, 200)),
                Response::Absorbed
            );
        } else {
            bed.pass(32_000);
        }
        assert_eq!(bed.events(), []);
        assert!(bed.is_idle());
        assert_eq!(
            bed.answer_bytes(&cancel_response(&invite, 200)),
            Response::Unknown
        );
        // The slot is free again, for one tenant.
        let (one, _) = bed.start(TCP, Method::Invite);
        let (other, _) = bed.start(TCP, Method::Invite);
        assert_ne!(one, other);
    }
}

#[test]
fn a_released_invite_leaves_its_cancel_to_end_by_itself() {
    let mut bed = Bed::new();
    let (id, invite) = bed.start(UDP, Method::Invite);
    bed.answer(&invite, 180);
    bed.txn.cancel(bed.now_ms, id, &mut bed.out);
    bed.txn.release_client(id);
    bed.txn.release_client(id);
    assert_eq!(bed.txn.live().client_invite, 0);
    assert_eq!(
        bed.answer_bytes(&cancel_response(&invite, 200)),
        Response::Absorbed
    );
    bed.pass(5_000);
    assert_eq!(bed.events(), []);
    assert!(bed.is_idle());
}

#[test]
fn a_cancel_that_cannot_be_sent_leaves_the_invite_alone() {
    let mut bed = Bed::new();
    let (id, invite) = bed.start(UDP, Method::Invite);
    bed.answer(&invite, 180);
    bed.sent();
    bed.txn.cancel(bed.now_ms, id, &mut bed.out);
    let cookie = bed.sent()[0].cookie;
    bed.txn.handle_send_failed(bed.now_ms, cookie, &mut bed.out);
    assert_eq!(
        (bed.events(), bed.txn.client_state(id)),
        (vec![], Some(ClientState::Proceeding))
    );
    bed.answer(&invite, 200);
    bed.pass(32_000);
    assert!(bed.is_idle());
}

#[test]
fn only_an_invite_is_cancelled() {
    // RFC 3261 9.1: "A CANCEL request SHOULD NOT be sent to cancel a request other than INVITE."
    let mut bed = Bed::new();
    let (id, request) = bed.start(UDP, Method::Options);
    bed.answer(&request, 100);
    bed.sent();
    assert_eq!(
        bed.txn.cancel(bed.now_ms, id, &mut bed.out),
        Cancelled::TooLate
    );
    let reserved = bed.txn.reserve_client().unwrap();
    assert_eq!(
        bed.txn.cancel(bed.now_ms, reserved, &mut bed.out),
        Cancelled::TooLate
    );
    assert_eq!(bed.sent(), []);
}

#[test]
fn a_cancel_that_arrives_is_new_and_names_what_it_cancels() {
    let mut bed = Bed::new();
    let invite = request("INVITE", "z9hG4bKa", "");
    let invite_id = bed.receive_new(UDP, &invite);
    let cancel = request("CANCEL", "z9hG4bKa", "");
    // RFC 3261 9.2: "The TU determines the transaction to be cancelled by taking the CANCEL request, and then
    // assuming that the request method is anything but CANCEL or ACK and applying the transaction matching
    // procedures of Section 17.2.3."
    let Incoming::Cancel {
        cancel: id,
        invite: Some(found),
    } = bed.receive(UDP, &cancel)
    else {
        panic!("not found");
    };
    assert_eq!(
        (found, bed.txn.server_method(found)),
        (invite_id, Some(Method::Invite))
    );
    assert_eq!(bed.txn.server_method(id), Some(Method::Cancel));
    assert_eq!(bed.respond(id, &cancel, 200), Responded::Sent);
    bed.sent();
    assert_eq!(bed.receive(UDP, &cancel), Incoming::Absorbed);
    assert_eq!(bed.sent_whats(), ["200"]);
    assert_eq!(bed.respond(invite_id, &invite, 487), Responded::Sent);
    assert_eq!(
        bed.receive(UDP, &request("ACK", "z9hG4bKa", "")),
        Incoming::Absorbed
    );
    bed.pass(40_000);
    assert!(bed.is_idle());
}

#[test]
fn a_cancel_that_arrives_for_another_method_finds_that() {
    let mut bed = Bed::new();
    let options = request("OPTIONS", "z9hG4bKa", "");
    let options_id = bed.receive_new(UDP, &options);
    let incoming = bed.receive(UDP, &request("CANCEL", "z9hG4bKa", ""));
    assert!(matches!(incoming, Incoming::Cancel { invite: Some(id), .. } if id == options_id));
}

#[test]
fn a_cancel_without_an_invite_names_none() {
    let mut bed = Bed::new();
    let incoming = bed.receive(UDP, &request("CANCEL", "z9hG4bKa", ""));
    assert!(matches!(incoming, Incoming::Cancel { invite: None, .. }));
    let legacy = request("CANCEL", "cut", "").replace(";branch=cut", "");
    let incoming = bed.receive(UDP, &legacy);
    assert!(matches!(incoming, Incoming::Cancel { invite: None, .. }));
}

#[test]
fn without_the_magic_cookie_a_cancel_finds_its_invite_too() {
    let mut bed = Bed::new();
    let legacy = |method| request(method, "cut", "").replace(";branch=cut", "");
    let invite_id = bed.receive_new(UDP, &legacy("INVITE"));
    let tagged = legacy("CANCEL").replace(
        "callee@example.com>\r\nCall",
        "callee@example.com>;tag=x\r\nCall",
    );
    let incoming = bed.receive(UDP, &tagged);
    assert!(matches!(incoming, Incoming::Cancel { invite: None, .. }));
    let incoming = bed.receive(UDP, &legacy("CANCEL"));
    assert!(matches!(incoming, Incoming::Cancel { invite: Some(id), .. } if id == invite_id));
}

#[test]
fn a_cancel_from_another_address_cancels_nothing() {
    let mut bed = Bed::new();
    bed.receive_new(UDP, &request("INVITE", "z9hG4bKa", ""));
    let cancel = request("CANCEL", "z9hG4bKa", "");
    let mut elsewhere = flow(UDP);
    elsewhere.remote = "203.0.113.66:5060".parse().unwrap();
    for _ in 0..2 {
        let incoming = bed.receive_from(&elsewhere, &cancel);
        let Incoming::Cancel { invite: None, .. } = incoming else {
            assert_eq!(incoming, Incoming::Absorbed);
            continue;
        };
    }
    assert_eq!(bed.txn.counters().cancel_wrong_source, 1);
    // Nor does the forger's CANCEL pass for the right one.
    let mut other_port = flow(UDP);
    other_port.remote.set_port(40_000);
    let incoming = bed.receive_from(&other_port, &cancel);
    assert!(matches!(
        incoming,
        Incoming::Cancel {
            invite: Some(_),
            ..
        }
    ));
    assert_eq!(bed.receive(UDP, &cancel), Incoming::Absorbed);
}
