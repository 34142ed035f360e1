//! The non-INVITE server transaction (RFC 3261 17.2.2, RFC 4320).

use crate::support::{Bed, TCP, UDP, parse, request};
use sip_txn::{Event, Incoming, Responded, ServerState};

#[test]
fn in_trying_a_retransmission_is_discarded() {
    let mut bed = Bed::new();
    let bye = request("BYE", "z9hG4bKa", "");
    let id = bed.receive_new(UDP, &bye);
    assert_eq!(bed.txn.server_state(id), Some(ServerState::Trying));
    assert_eq!(bed.receive(UDP, &bye), Incoming::Absorbed);
    assert_eq!(bed.sent(), []);
}

#[test]
fn in_proceeding_the_last_provisional_response_is_repeated() {
    let mut bed = Bed::new();
    let bye = request("BYE", "z9hG4bKa", "");
    let id = bed.receive_new(TCP, &bye);
    // RFC 3261 17.2.2: "While in the "Trying" state, if the TU passes a provisional response to the server
    // transaction, the server transaction MUST enter the "Proceeding" state. The response MUST be passed to
    // the transport layer for transmission. Any further provisional responses that are received from the TU
    // while in the "Proceeding" state MUST be passed to the transport layer for transmission."
    for _ in 0..2 {
        assert_eq!(bed.respond(id, &bye, 100), Responded::Sent);
        let sent = bed.sent();
        assert_eq!((sent.len(), sent[0].what()), (1, "100"));
        assert_eq!(bed.txn.server_state(id), Some(ServerState::Proceeding));
        // RFC 3261 17.2.2: "If a retransmission of the request is received while in the "Proceeding" state, the
        // most recently sent provisional response MUST be passed to the transport layer for retransmission."
        assert_eq!(bed.receive(TCP, &bye), Incoming::Absorbed);
        assert_eq!(bed.sent()[0].text, sent[0].text);
    }
    // RFC 3261 17.2.2: "If the TU passes a final response (status codes 200-699) to the server while in the
    // "Proceeding" state, the transaction MUST enter the "Completed" state, and the response MUST be passed to
    // the transport layer for transmission."
    assert_eq!(bed.respond(id, &bye, 481), Responded::Sent);
    assert_eq!(bed.sent_whats(), ["481"]);
    // Timer J is zero.
    assert!(bed.is_idle());
}

#[test]
fn over_udp_the_final_response_is_repeated_when_asked_for_64_t1() {
    for status in [200, 302, 404, 500, 603] {
        let mut bed = Bed::new();
        let bye = request("BYE", "z9hG4bKa", "");
        let id = bed.receive_new(UDP, &bye);
        bed.txn.set_context(id, 9);
        assert_eq!(bed.respond(id, &bye, status), Responded::Sent);
        let sent = bed.sent();
        assert_eq!(bed.txn.server_state(id), Some(ServerState::Completed));
        // RFC 3261 17.2.2: "While in the "Completed" state, the server transaction MUST pass the final response
        // to the transport layer for retransmission whenever a retransmission of the request is received."
        for _ in 0..2 {
            assert_eq!(bed.pass(10_000), [], "not by itself");
            assert_eq!(bed.receive(UDP, &bye), Incoming::Absorbed);
            let again = bed.sent();
            assert_eq!(
                (again.len(), &again[0].text, &again[0].to),
                (1, &sent[0].text, &sent[0].to)
            );
        }
        // RFC 3261 17.2.2: "Any other final responses passed by the TU to the server transaction MUST be
        // discarded while in the "Completed" state."
        for late in [200, 486, 100] {
            assert_eq!(bed.respond(id, &bye, late), Responded::Refused);
        }
        assert_eq!(bed.sent(), []);
        // RFC 3261 17.2.2: "When the server transaction enters the "Completed" state, it MUST set Timer J to
        // fire in 64*T1 seconds for unreliable transports, and zero seconds for reliable transports."
        // RFC 3261 17.2.2: "The server transaction remains in this state until Timer J fires, at which point it
        // MUST transition to the "Terminated" state."
        // RFC 3261 17.2.2: "The server transaction MUST be destroyed the instant it enters the "Terminated"
        // state."
        bed.pass(11_990);
        assert_eq!(bed.txn.server_state(id), Some(ServerState::Completed));
        bed.pass(10);
        assert_eq!(
            bed.events(),
            [Event::ServerTerminated {
                server: id,
                context: 9
            }]
        );
        assert!(bed.is_idle());
    }
}

#[test]
fn no_provisional_response_but_100_is_sent() {
    // RFC 4320 4.1: "A SIP element MUST NOT send any provisional response with a Status-Code other than 100 to a
    // non-INVITE request."
    for transport in [UDP, TCP] {
        let mut bed = Bed::new();
        let options = request("OPTIONS", "z9hG4bKa", "");
        let id = bed.receive_new(transport, &options);
        for status in [101, 180, 199] {
            assert_eq!(bed.respond(id, &options, status), Responded::Refused);
        }
        assert_eq!(
            (bed.sent(), bed.txn.counters().response_refused),
            (vec![], 3)
        );
    }
}

#[test]
fn over_udp_a_100_is_sent_late_or_not_at_all() {
    // RFC 4320 4.1: "A SIP element MUST NOT respond to a non-INVITE request with a Status-Code of 100 over any
    // unreliable transport, such as UDP, before the amount of time it takes a client transaction's Timer E to
    // be reset to T2."
    let mut bed = Bed::new();
    let options = request("OPTIONS", "z9hG4bKa", "");
    let id = bed.receive_new(UDP, &options);
    bed.pass(3_490);
    assert_eq!(bed.respond(id, &options, 100), Responded::Refused);
    assert_eq!(bed.events(), []);
    // RFC 4320 4.1: "Without regard to transport, an SIP element MUST respond to a non-INVITE request with a
    // Status-Code of 100 if it has not otherwise responded after the amount of time it takes a client
    // transaction's Timer E to be reset to T2."
    bed.pass(10);
    assert_eq!(
        bed.events(),
        [Event::TryingDue {
            server: id,
            context: 0
        }]
    );
    let trying = bed
        .txn
        .respond_trying(bed.now_ms, id, &parse(&options), &mut bed.out);
    assert_eq!(
        (trying, bed.sent_whats()),
        (Responded::Sent, vec!["100".to_owned()])
    );
}

#[test]
fn a_408_is_never_sent() {
    // RFC 4320 4.2: "A transaction-stateful SIP element MUST NOT send a response with Status-Code of 408 to a
    // non-INVITE request."
    let mut bed = Bed::new();
    let options = request("OPTIONS", "z9hG4bKa", "");
    let id = bed.receive_new(UDP, &options);
    assert_eq!(bed.respond(id, &options, 408), Responded::Refused);
    assert_eq!(bed.sent(), []);
    let invite = request("INVITE", "z9hG4bKa", "");
    let id = bed.receive_new(UDP, &invite);
    assert_eq!(bed.respond(id, &invite, 408), Responded::Sent);
}

#[test]
fn what_the_core_never_answers_is_forgotten_when_its_client_gave_up() {
    for transport in [UDP, TCP] {
        for with_100 in [false, true] {
            let mut bed = Bed::new();
            let bye = request("BYE", "z9hG4bKa", "");
            let id = bed.receive_new(transport, &bye);
            bed.pass(3_500);
            if with_100 {
                bed.respond(id, &bye, 100);
            }
            bed.events();
            bed.pass(28_490);
            assert_eq!(bed.events(), []);
            bed.pass(10);
            assert_eq!(
                bed.events(),
                [Event::ServerExpired {
                    server: id,
                    context: 0
                }]
            );
            assert!(bed.is_idle());
            assert_eq!(bed.txn.counters().server_expired, 1);
        }
    }
}

#[test]
fn a_transport_failure_ends_the_transaction() {
    // RFC 3261 17.2.4: "the server transaction SHOULD inform the TU that a failure has occurred, and SHOULD
    // transition to the terminated state."
    let mut bed = Bed::new();
    let bye = request("BYE", "z9hG4bKa", "");
    let id = bed.receive_new(UDP, &bye);
    bed.respond(id, &bye, 200);
    let cookie = bed.sent()[0].cookie;
    bed.txn.handle_send_failed(bed.now_ms, cookie, &mut bed.out);
    assert_eq!(
        bed.events(),
        [Event::ServerFailed {
            server: id,
            context: 0
        }]
    );
    assert!(bed.is_idle());
}
