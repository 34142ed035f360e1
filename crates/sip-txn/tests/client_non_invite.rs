//! The non-INVITE client transaction (RFC 3261 17.1.2).

use crate::support::{Bed, TCP, UDP, target};
use sip_msg::Method;
use sip_txn::{ClientState, Event, Response};

#[test]
fn over_udp_the_request_is_repeated_up_to_t2_until_timer_f() {
    let mut bed = Bed::new();
    // RFC 3261 17.1.2.2: "The request MUST be passed to the transport layer for transmission. If an unreliable
    // transport is in use, the client transaction MUST set timer E to fire in T1 seconds."
    let (id, request) = bed.start(UDP, Method::Register);
    assert_eq!(bed.txn.client_state(id), Some(ClientState::Trying));
    let first = bed.sent();
    assert_eq!(
        (first.len(), &first[0].text, &first[0].to),
        (1, &request, &target(UDP))
    );
    assert_eq!(
        bed.pass_times(31_990),
        [
            500, 1_500, 3_500, 7_500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500
        ]
    );
    assert_eq!(bed.events(), []);
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

#[test]
fn over_tcp_the_request_is_sent_once_and_timer_f_runs() {
    let mut bed = Bed::new();
    let (id, _) = bed.start(TCP, Method::Bye);
    assert_eq!(bed.sent_whats(), ["BYE"]);
    assert_eq!(bed.pass(31_990), []);
    assert_eq!(bed.events(), []);
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

#[test]
fn after_a_provisional_response_the_request_is_repeated_every_t2() {
    let mut bed = Bed::new();
    let (id, request) = bed.start(UDP, Method::Options);
    bed.pass(700);
    // RFC 3261 17.1.2.2: "If a provisional response is received while in the "Trying" state, the response MUST
    // be passed to the TU, and then the client transaction SHOULD move to the "Proceeding" state."
    assert_eq!(
        bed.answer(&request, 100),
        Response::Pass {
            client: id,
            context: 7
        }
    );
    assert_eq!(bed.txn.client_state(id), Some(ClientState::Proceeding));
    assert_eq!(
        bed.answer(&request, 100),
        Response::Pass {
            client: id,
            context: 7
        }
    );
    // RFC 3261 17.1.2.2: "If Timer E fires while in the "Proceeding" state, the request MUST be passed to the
    // transport layer for retransmission, and Timer E MUST be reset with a value of T2 seconds."
    assert_eq!(
        bed.pass_times(31_290),
        [800, 4_800, 8_800, 12_800, 16_800, 20_800, 24_800, 28_800]
    );
    // RFC 3261 17.1.2.2: "If timer F fires while in the "Proceeding" state, the TU MUST be informed of a
    // timeout, and the client transaction MUST transition to the terminated state."
    assert_eq!(bed.events(), []);
    bed.pass(10);
    assert_eq!(
        bed.events(),
        [Event::ClientTimeout {
            client: id,
            context: 7
        }]
    );
    // RFC 3261 17.1.2.2: "Once the transaction is in the terminated state, it MUST be destroyed immediately."
    assert!(bed.is_idle());
    assert_eq!(bed.answer(&request, 200), Response::Unknown);
}

#[test]
fn one_final_response_is_passed_up_and_the_rest_absorbed_for_t4() {
    for status in [200, 302, 401, 503, 603] {
        for provisional in [false, true] {
            let mut bed = Bed::new();
            let (id, request) = bed.start(UDP, Method::Bye);
            if provisional {
                bed.answer(&request, 100);
            }
            bed.sent();
            // RFC 3261 17.1.2.2: "If a final response (status codes 200-699) is received while in the "Trying"
            // state, the response MUST be passed to the TU, and the client transaction MUST transition to the
            // "Completed" state."
            // RFC 3261 17.1.2.2: "If a final response (status codes 200-699) is received while in the
            // "Proceeding" state, the response MUST be passed to the TU, and the client transaction MUST
            // transition to the "Completed" state."
            assert_eq!(
                bed.answer(&request, status),
                Response::Pass {
                    client: id,
                    context: 7
                }
            );
            assert_eq!(bed.txn.client_state(id), Some(ClientState::Completed));
            assert_eq!(bed.pass(4_990), [], "nothing is repeated or acknowledged");
            assert_eq!(bed.answer(&request, status), Response::Absorbed);
            assert_eq!(bed.answer(&request, 100), Response::Absorbed);
            assert_eq!(bed.events(), []);
            // RFC 3261 17.1.2.2: "Once the client transaction enters the "Completed" state, it MUST set Timer
            // K to fire in T4 seconds for unreliable transports, and zero seconds for reliable transports."
            // RFC 3261 17.1.2.2: "If Timer K fires while in this state, the client transaction MUST transition
            // to the "Terminated" state."
            bed.pass(10);
            assert_eq!(
                bed.events(),
                [Event::ClientTerminated {
                    client: id,
                    context: 7
                }]
            );
            assert!(bed.is_idle());
        }
    }
}

#[test]
fn over_tcp_a_final_response_ends_the_transaction_at_once() {
    let mut bed = Bed::new();
    let (id, request) = bed.start(TCP, Method::Bye);
    assert_eq!(
        bed.answer(&request, 200),
        Response::Pass {
            client: id,
            context: 7
        }
    );
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

#[test]
fn a_transport_failure_ends_the_transaction() {
    // RFC 3261 17.1.4: "The client transaction SHOULD inform the TU that a transport failure has occurred, and
    // the client transaction SHOULD transition directly to the "Terminated" state."
    for provisional in [false, true] {
        let mut bed = Bed::new();
        let (id, request) = bed.start(UDP, Method::Bye);
        if provisional {
            bed.answer(&request, 100);
        }
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
    }
}

#[test]
fn a_failure_after_the_final_response_is_no_news() {
    let mut bed = Bed::new();
    let (id, request) = bed.start(UDP, Method::Bye);
    let cookie = bed.sent()[0].cookie;
    bed.answer(&request, 200);
    bed.txn.handle_send_failed(bed.now_ms, cookie, &mut bed.out);
    assert_eq!(
        (bed.events(), bed.txn.client_state(id)),
        (vec![], Some(ClientState::Completed))
    );
}
