//! The INVITE client transaction (RFC 3261 17.1.1, RFC 6026).

use crate::support::{Bed, TCP, UDP, target};
use sip_msg::Method;
use sip_txn::{ClientState, Event, Response};

#[test]
fn over_udp_the_request_is_repeated_at_doubling_intervals_until_timer_b() {
    let mut bed = Bed::new();
    // RFC 3261 17.1.1.2: "The initial state, "calling", MUST be entered when the TU initiates a new client
    // transaction with an INVITE request. The client transaction MUST pass the request to the transport
    // layer for transmission (see Section 18)."
    let (id, request) = bed.start(UDP, Method::Invite);
    assert_eq!(bed.txn.client_state(id), Some(ClientState::Calling));
    let first = bed.sent();
    assert_eq!(
        (first.len(), &first[0].text, &first[0].to),
        (1, &request, &target(UDP))
    );

    // RFC 3261 17.1.1.2: "If an unreliable transport is being used, the client transaction MUST start timer A
    // with a value of T1."
    // RFC 3261 17.1.1.2: "When timer A fires, the client transaction MUST retransmit the request by passing it
    // to the transport layer, and MUST reset the timer with a value of 2*T1."
    // RFC 3261 17.1.1.2: "When timer A fires 2*T1 seconds later, the request MUST be retransmitted again
    // (assuming the client transaction is still in this state). This process MUST continue so that the
    // request is retransmitted with intervals that double after each transmission."
    let start_ms = bed.now_ms;
    let repeated = bed.pass(31_990);
    let times: Vec<u64> = repeated.iter().map(|sent| sent.at_ms - start_ms).collect();
    assert_eq!(times, [500, 1_500, 3_500, 7_500, 15_500, 31_500]);
    assert!(
        repeated
            .iter()
            .all(|sent| sent.text == request && sent.to == target(UDP))
    );
    assert_eq!(bed.events(), []);

    // RFC 3261 17.1.1.2: "For any transport, the client transaction MUST start timer B with a value of 64*T1
    // seconds (Timer B controls transaction timeouts)."
    // RFC 3261 17.1.1.2: "If the client transaction is still in the "Calling" state when timer B fires, the
    // client transaction SHOULD inform the TU that a timeout has occurred. The client transaction MUST NOT
    // generate an ACK."
    assert_eq!(bed.pass(10), []);
    assert_eq!(
        bed.events(),
        [Event::ClientTimeout {
            client: id,
            context: 7
        }]
    );
    assert!(bed.is_idle());
    assert_eq!(bed.txn.counters().request_retransmitted, 6);
}

#[test]
fn over_tcp_the_request_is_sent_once_and_timer_b_runs() {
    let mut bed = Bed::new();
    let (id, _) = bed.start(TCP, Method::Invite);
    assert_eq!(bed.sent_whats(), ["INVITE"]);
    assert_eq!(bed.pass(31_990), []);
    assert_eq!(bed.events(), []);
    assert_eq!(bed.pass(10), []);
    assert_eq!(
        bed.events(),
        [Event::ClientTimeout {
            client: id,
            context: 7
        }]
    );
    assert!(bed.is_idle());
}

#[test]
fn a_provisional_response_ends_the_repeating_and_waits_without_end() {
    let mut bed = Bed::new();
    let (id, request) = bed.start(UDP, Method::Invite);
    bed.pass(600);
    // RFC 3261 17.1.1.2: "Furthermore, the provisional response MUST be passed to the TU. Any further
    // provisional responses MUST be passed up to the TU while in the "Proceeding" state."
    for status in [100, 180, 180, 183] {
        assert_eq!(
            bed.answer(&request, status),
            Response::Pass {
                client: id,
                context: 7
            }
        );
        assert_eq!(bed.txn.client_state(id), Some(ClientState::Proceeding));
    }
    assert_eq!(bed.pass(600_000), []);
    assert_eq!(bed.events(), []);
    assert_eq!(bed.txn.client_state(id), Some(ClientState::Proceeding));
    bed.txn.release_client(id);
    assert!(bed.is_idle());
    assert_eq!(bed.answer(&request, 200), Response::Unknown);
}

#[test]
fn a_failure_is_passed_up_and_acknowledged() {
    for transport in [UDP, TCP] {
        for provisional in [false, true] {
            let mut bed = Bed::new();
            let (id, request) = bed.start(transport, Method::Invite);
            if provisional {
                bed.answer(&request, 180);
            }
            bed.sent();
            // RFC 3261 17.1.1.2: "When in either the "Calling" or "Proceeding" states, reception of a
            // response with status code from 300-699 MUST cause the client transaction to transition to
            // "Completed". The client transaction MUST pass the received response up to the TU, and the
            // client transaction MUST generate an ACK request, even if the transport is reliable
            // (guidelines for constructing the ACK from the response are given in Section 17.1.1.3) and
            // then pass the ACK to the transport layer for transmission. The ACK MUST be sent to the same
            // address, port, and transport to which the original request was sent."
            assert_eq!(
                bed.answer(&request, 486),
                Response::Pass {
                    client: id,
                    context: 7
                }
            );
            let sent = bed.sent();
            assert_eq!((sent.len(), sent[0].what()), (1, "ACK"));
            assert_eq!(sent[0].to, target(transport));
            assert!(
                sent[0]
                    .text
                    .contains("To: <sip:callee@example.com>;tag=uas-tag\r\n")
            );
            assert!(sent[0].text.contains("CSeq: 1 ACK\r\n"));
            assert_eq!(
                request.lines().nth(1),
                sent[0].text.lines().nth(1),
                "the same Via"
            );
            if transport == TCP {
                // Timer D is zero.
                assert_eq!(
                    bed.events(),
                    [Event::ClientTerminated {
                        client: id,
                        context: 7
                    }]
                );
                assert!(bed.is_idle());
                continue;
            }
            assert_eq!(bed.txn.client_state(id), Some(ClientState::Completed));
        }
    }
}

#[test]
fn a_repeated_failure_is_acknowledged_again_and_not_passed_up() {
    let mut bed = Bed::new();
    let (id, request) = bed.start(UDP, Method::Invite);
    bed.answer(&request, 404);
    let ack = bed.sent().pop().unwrap();
    // RFC 3261 17.1.1.2: "Any retransmissions of the final response that are received while in the
    // "Completed" state MUST cause the ACK to be re-passed to the transport layer for retransmission, but the
    // newly received response MUST NOT be passed up to the TU."
    for _ in 0..3 {
        bed.pass(4_000);
        assert_eq!(bed.answer(&request, 404), Response::Absorbed);
        let again = bed.sent();
        assert_eq!((again.len(), &again[0].text), (1, &ack.text));
    }
    // Neither a late 180 nor a 2xx is acknowledged as if it had failed.
    assert_eq!(bed.answer(&request, 180), Response::Absorbed);
    assert_eq!(bed.answer(&request, 200), Response::Absorbed);
    assert_eq!(bed.sent(), []);
    // RFC 3261 17.1.1.2: "If timer D fires while the client transaction is in the "Completed" state, the
    // client transaction MUST move to the terminated state."
    // RFC 3261 17.1.1.2: "The client transaction MUST be destroyed the instant it enters the "Terminated"
    // state."
    assert_eq!(bed.pass(19_990), []);
    assert_eq!(bed.txn.client_state(id), Some(ClientState::Completed));
    assert_eq!(bed.pass(10), []);
    assert_eq!(
        bed.events(),
        [Event::ClientTerminated {
            client: id,
            context: 7
        }]
    );
    assert!(bed.is_idle());
    assert_eq!(bed.answer(&request, 404), Response::Unknown);
}

#[test]
fn every_2xx_is_passed_up_for_64_t1_and_none_is_acknowledged() {
    for transport in [UDP, TCP] {
        let mut bed = Bed::new();
        let (id, request) = bed.start(transport, Method::Invite);
        bed.sent();
        // RFC 6026 replaces "Terminated" by "Accepted".
        // RFC 3261 17.1.1.2: "When in either the "Calling" or "Proceeding" states, reception of a 2xx response
        // MUST cause the client transaction to enter the "Terminated" state, and the response MUST be passed
        // up to the TU."
        // RFC 6026 8.4: "Any 2xx responses that match this client transaction and that are received while in
        // the "Accepted" state MUST be passed up to the TU. The client transaction MUST NOT generate an ACK
        // to the 2xx response."
        // RFC 3261 17.1.1.3: "A UAC core that generates an ACK for 2xx MUST instead follow the rules
        // described in Section 13."
        for _ in 0..3 {
            assert_eq!(
                bed.answer(&request, 200),
                Response::Pass {
                    client: id,
                    context: 7
                }
            );
            assert_eq!(bed.txn.client_state(id), Some(ClientState::Accepted));
            assert_eq!(bed.pass(10_000), []);
        }
        for status in [180, 486] {
            assert_eq!(bed.answer(&request, status), Response::Absorbed);
        }
        bed.pass(1_990);
        assert_eq!(bed.txn.client_state(id), Some(ClientState::Accepted));
        bed.pass(10);
        assert_eq!(
            bed.events(),
            [Event::ClientTerminated {
                client: id,
                context: 7
            }]
        );
        assert!(bed.is_idle());
        assert_eq!(bed.answer(&request, 200), Response::Unknown);
    }
}

#[test]
fn a_transport_failure_ends_the_transaction() {
    // RFC 3261 17.1.4: "The client transaction SHOULD inform the TU that a transport failure has occurred, and
    // the client transaction SHOULD transition directly to the "Terminated" state."
    for transport in [UDP, TCP] {
        let mut bed = Bed::new();
        let (id, request) = bed.start(transport, Method::Invite);
        let cookie = bed.sent()[0].cookie;
        bed.txn.handle_send_failed(bed.now_ms, cookie, &mut bed.out);
        assert_eq!(
            bed.events(),
            [Event::ClientFailed {
                client: id,
                context: 7,
                answered: false
            }]
        );
        assert!(bed.is_idle());
        // The name is stale by now, and so is the cookie.
        bed.txn.handle_send_failed(bed.now_ms, cookie, &mut bed.out);
        assert_eq!((bed.events(), bed.sent()), (vec![], vec![]));
        assert_eq!(bed.answer(&request, 200), Response::Unknown);
    }
}

#[test]
fn an_ack_that_cannot_be_sent_is_told_after_the_response() {
    let mut bed = Bed::new();
    let (id, request) = bed.start(UDP, Method::Invite);
    bed.answer(&request, 486);
    let cookie = bed.sent().pop().unwrap().cookie;
    bed.txn.handle_send_failed(bed.now_ms, cookie, &mut bed.out);
    assert_eq!(
        bed.events(),
        [Event::ClientFailed {
            client: id,
            context: 7,
            answered: true
        }]
    );
    assert!(bed.is_idle());
}

#[test]
fn a_late_transport_failure_does_not_end_a_call_that_rings() {
    let mut bed = Bed::new();
    let (id, request) = bed.start(UDP, Method::Invite);
    let cookie = bed.sent()[0].cookie;
    bed.answer(&request, 180);
    bed.txn.handle_send_failed(bed.now_ms, cookie, &mut bed.out);
    assert_eq!(
        (bed.events(), bed.txn.client_state(id)),
        (vec![], Some(ClientState::Proceeding))
    );
    bed.answer(&request, 200);
    bed.txn.handle_send_failed(bed.now_ms, cookie, &mut bed.out);
    assert_eq!(
        (bed.events(), bed.txn.client_state(id)),
        (vec![], Some(ClientState::Accepted))
    );
}
