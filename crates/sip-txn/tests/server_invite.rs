//! The INVITE server transaction (RFC 3261 17.2.1, RFC 6026).

use crate::support::{Bed, TCP, UDP, flow, parse, request};
use sip_msg::Target;
use sip_txn::{Event, Incoming, Responded, ServerState};

#[test]
fn the_core_is_reminded_of_the_100_after_200_ms() {
    let mut bed = Bed::new();
    let invite = request("INVITE", "z9hG4bKa", "");
    // RFC 3261 17.2.1: "The server transaction MUST generate a 100 (Trying) response unless it knows that the
    // TU will generate a provisional or final response within 200 ms, in which case it MAY generate a 100
    // (Trying) response."
    // RFC 3261 17.2.1: "The request MUST be passed to the TU."
    let id = bed.receive_new(UDP, &invite);
    bed.txn.set_context(id, 9);
    assert_eq!(bed.txn.server_state(id), Some(ServerState::Proceeding));
    bed.pass(190);
    assert_eq!(bed.events(), []);
    bed.pass(10);
    assert_eq!(
        bed.events(),
        [Event::TryingDue {
            server: id,
            context: 9
        }]
    );
    let trying = bed
        .txn
        .respond_trying(bed.now_ms, id, &parse(&invite), &mut bed.out);
    assert_eq!(trying, Responded::Sent);
    let sent = bed.sent();
    assert_eq!((sent.len(), sent[0].what()), (1, "100"));
    assert!(
        sent[0]
            .text
            .contains("\r\nTo: <sip:callee@example.com>\r\n"),
        "no tag: {}",
        sent[0].text
    );
    bed.pass(1_000_000);
    assert_eq!(bed.events(), []);
}

#[test]
fn a_core_that_answers_in_time_is_not_reminded() {
    for status in [100, 180, 200, 486] {
        let mut bed = Bed::new();
        let invite = request("INVITE", "z9hG4bKa", "");
        let id = bed.receive_new(UDP, &invite);
        bed.pass(190);
        bed.respond(id, &invite, status);
        bed.pass(400);
        assert_eq!(bed.events(), []);
    }
}

#[test]
fn a_100_shows_where_the_request_came_from() {
    let mut bed = Bed::new();
    let invite =
        request("INVITE", "z9hG4bKa;rport", "").replace("UDP 192.0.2.1:5060", "UDP 10.0.0.1:5060");
    let id = bed.receive_new(UDP, &invite);
    let mut stamped = parse(&invite);
    stamped.stamp_received(flow(UDP).remote);
    bed.txn
        .respond_trying(bed.now_ms, id, &stamped, &mut bed.out);
    let via = "Via: SIP/2.0/UDP 10.0.0.1:5060;branch=z9hG4bKa;rport=5060;received=192.0.2.1";
    assert_eq!(bed.sent()[0].text.lines().nth(1), Some(via));
}

#[test]
fn a_retransmission_repeats_the_last_provisional_response() {
    for transport in [UDP, TCP] {
        let mut bed = Bed::new();
        let invite = request("INVITE", "z9hG4bKa", "");
        let id = bed.receive_new(transport, &invite);
        assert_eq!(bed.receive(transport, &invite), Incoming::Absorbed);
        assert_eq!(bed.sent(), [], "nothing was said yet");
        // RFC 3261 17.2.1: "So long as the server transaction is in the "Proceeding" state, each of these MUST
        // be passed to the transport layer for transmission."
        for status in [100, 180, 183] {
            assert_eq!(bed.respond(id, &invite, status), Responded::Sent);
            let sent = bed.sent();
            assert_eq!((sent.len(), sent[0].what()), (1, &*status.to_string()));
            // RFC 3261 17.2.1: "If a request retransmission is received while in the "Proceeding" state, the
            // most recent provisional response that was received from the TU MUST be passed to the
            // transport layer for retransmission."
            assert_eq!(bed.receive(transport, &invite), Incoming::Absorbed);
            let again = bed.sent();
            assert_eq!((again.len(), &again[0].text), (1, &sent[0].text));
            assert_eq!(again[0].to, *bed.txn.server_target(id).unwrap());
        }
        assert_eq!(bed.txn.server_state(id), Some(ServerState::Proceeding));
        assert_eq!(
            bed.pass(600_000),
            [],
            "the layer repeats no provisional response by itself"
        );
        assert_eq!(bed.txn.counters().request_absorbed, 4);
    }
}

#[test]
fn over_udp_a_failure_is_repeated_until_it_is_acknowledged() {
    let mut bed = Bed::new();
    let invite = request("INVITE", "z9hG4bKa", "");
    let id = bed.receive_new(UDP, &invite);
    bed.txn.set_context(id, 9);
    // RFC 3261 17.2.1: "While in the "Proceeding" state, if the TU passes a response with status code from 300
    // to 699 to the server transaction, the response MUST be passed to the transport layer for transmission,
    // and the state machine MUST enter the "Completed" state."
    assert_eq!(bed.respond(id, &invite, 486), Responded::Sent);
    assert_eq!(bed.sent_whats(), ["486"]);
    assert_eq!(bed.txn.server_state(id), Some(ServerState::Completed));
    // "timer G is set to fire in T1 seconds", then doubled up to T2.
    assert_eq!(bed.pass_times(12_000), [500, 1_500, 3_500, 7_500, 11_500]);
    assert_eq!(bed.receive(UDP, &invite), Incoming::Absorbed);
    assert_eq!(bed.sent_whats(), ["486"]);
    // RFC 3261 17.2.1: "If an ACK is received while the server transaction is in the "Completed" state, the
    // server transaction MUST transition to the "Confirmed" state."
    let ack = request("ACK", "z9hG4bKa", "");
    assert_eq!(bed.receive(UDP, &ack), Incoming::Absorbed);
    assert_eq!(bed.txn.server_state(id), Some(ServerState::Confirmed));
    for late in [&ack, &invite] {
        assert_eq!(bed.receive(UDP, late), Incoming::Absorbed);
    }
    assert_eq!(bed.pass(4_990), []);
    assert_eq!(bed.events(), []);
    // RFC 3261 17.2.1: "Once timer I fires, the server MUST transition to the "Terminated" state."
    // RFC 3261 17.2.1: "Once the transaction is in the "Terminated" state, it MUST be destroyed immediately."
    bed.pass(10);
    assert_eq!(
        bed.events(),
        [Event::ServerTerminated {
            server: id,
            context: 9
        }]
    );
    assert!(bed.is_idle());
    assert_eq!(bed.txn.counters().ack_absorbed, 2);
    assert_eq!(bed.txn.counters().response_retransmitted, 5);
}

#[test]
fn a_failure_that_is_never_acknowledged_is_reported() {
    for transport in [UDP, TCP] {
        let mut bed = Bed::new();
        let invite = request("INVITE", "z9hG4bKa", "");
        let id = bed.receive_new(transport, &invite);
        bed.respond(id, &invite, 603);
        bed.sent();
        // RFC 3261 17.2.1: "When the "Completed" state is entered, timer H MUST be set to fire in 64*T1 seconds
        // for all transports."
        // Timer G "is not set to fire for reliable transports".
        assert_eq!(bed.pass(31_990).is_empty(), transport == TCP);
        assert_eq!(bed.events(), []);
        // RFC 3261 17.2.1: "In this case, the server transaction MUST transition to the "Terminated" state, and
        // MUST indicate to the TU that a transaction failure has occurred."
        bed.pass(10);
        assert_eq!(
            bed.events(),
            [Event::ServerAckTimeout {
                server: id,
                context: 0
            }]
        );
        assert!(bed.is_idle());
    }
}

#[test]
fn over_tcp_an_ack_ends_the_transaction_at_once() {
    let mut bed = Bed::new();
    let invite = request("INVITE", "z9hG4bKa", "");
    let id = bed.receive_new(TCP, &invite);
    bed.respond(id, &invite, 486);
    assert_eq!(
        bed.receive(TCP, &request("ACK", "z9hG4bKa", "")),
        Incoming::Absorbed
    );
    assert!(bed.is_idle());
}

#[test]
fn after_a_2xx_the_invite_is_absorbed_and_acks_are_the_cores() {
    for transport in [UDP, TCP] {
        let mut bed = Bed::new();
        let invite = request("INVITE", "z9hG4bKa", "");
        let id = bed.receive_new(transport, &invite);
        bed.txn.set_context(id, 9);
        bed.respond(id, &invite, 180);
        bed.sent();
        // RFC 6026 replaces "Terminated" by "Accepted".
        // RFC 3261 17.2.1: "If, while in the "Proceeding" state, the TU passes a 2xx response to the server
        // transaction, the server transaction MUST pass this response to the transport layer for
        // transmission. It is not retransmitted by the server transaction; retransmissions of 2xx responses
        // are handled by the TU. The server transaction MUST then transition to the "Terminated" state."
        assert_eq!(bed.respond(id, &invite, 200), Responded::Sent);
        assert_eq!(bed.sent_whats(), ["200"]);
        assert_eq!(bed.txn.server_state(id), Some(ServerState::Accepted));
        assert_eq!(bed.receive(transport, &invite), Incoming::Absorbed);
        assert_eq!(bed.pass(10_000), []);
        // RFC 6026 8.7: "Any retransmission of the 2xx response passed from the TU to the transaction while in
        // the "Accepted" state MUST be passed to the transport layer for transmission."
        assert_eq!(bed.respond(id, &invite, 200), Responded::Sent);
        assert_eq!(bed.sent_whats(), ["200"]);
        for status in [180, 486] {
            assert_eq!(bed.respond(id, &invite, status), Responded::Refused);
        }
        assert_eq!(bed.sent(), []);
        assert!(bed.out.bytes.is_empty(), "what is refused leaves nothing");
        // RFC 6026 8.7: "Any ACKs received from the network while in the "Accepted" state MUST be passed
        // directly to the TU and not absorbed."
        let ack = request("ACK", "z9hG4bKa", "");
        assert_eq!(
            bed.receive(transport, &ack),
            Incoming::Ack { invite: Some(id) }
        );
        // RFC 6026 8.7: "When Timer L fires and the state machine is in the "Accepted" state, the machine MUST
        // transition to the "Terminated" state."
        bed.pass(21_990);
        assert_eq!(bed.txn.server_state(id), Some(ServerState::Accepted));
        bed.pass(10);
        assert_eq!(
            bed.events(),
            [Event::ServerTerminated {
                server: id,
                context: 9
            }]
        );
        assert!(bed.is_idle());
        assert_eq!(bed.respond(id, &invite, 200), Responded::Unknown);
        assert_eq!(bed.receive(transport, &ack), Incoming::Ack { invite: None });
    }
}

#[test]
fn a_transport_failure_is_told_and_the_transaction_stays() {
    // RFC 6026 7.1: "A server transaction MUST NOT discard transaction state based only on encountering a
    // non-recoverable transport error when sending a response. Instead, the associated INVITE server
    // transaction state machine MUST remain in its current state."
    for (status, state) in [
        (180, ServerState::Proceeding),
        (486, ServerState::Completed),
        (200, ServerState::Accepted),
    ] {
        let mut bed = Bed::new();
        let invite = request("INVITE", "z9hG4bKa", "");
        let id = bed.receive_new(UDP, &invite);
        bed.respond(id, &invite, status);
        let cookie = bed.sent()[0].cookie;
        bed.txn.handle_send_failed(bed.now_ms, cookie, &mut bed.out);
        assert_eq!(
            bed.events(),
            [Event::ServerFailed {
                server: id,
                context: 0
            }]
        );
        assert_eq!(bed.txn.server_state(id), Some(state));
        assert_eq!(bed.receive(UDP, &invite), Incoming::Absorbed);
    }
}

#[test]
fn responses_go_back_on_the_flow_of_the_request() {
    for transport in [UDP, TCP] {
        let mut bed = Bed::new();
        let invite = request("INVITE", "z9hG4bKa", "");
        let id = bed.receive_new(transport, &invite);
        bed.respond(id, &invite, 180);
        let expected = Target {
            may_open: transport == TCP,
            ..Target::back(&flow(transport))
        };
        assert_eq!(bed.sent()[0].to, expected);
    }
}
