//! Which transaction a message belongs to (RFC 3261 17.1.3, 17.2.3).

use crate::support::{Bed, UDP, parse, request, request_to, response_to};
use sip_msg::Method;
use sip_txn::{Incoming, Responded, Response, ServerState};

fn is_new(incoming: Incoming) -> bool {
    matches!(incoming, Incoming::New(_))
}

#[test]
fn branch_sent_by_and_method_make_a_transaction() {
    // RFC 3261 17.2.3: "1. the branch parameter in the request is equal to the one in the top Via header field of
    // the request that created the transaction, and 2. the sent-by value in the top Via of the request is equal
    // to the one in the request that created the transaction, and 3. the method of the request matches the one
    // that created the transaction, except for ACK, where the method of the request that created the
    // transaction is INVITE."
    let options = request("OPTIONS", "z9hG4bKa", "");
    let mut bed = Bed::new();
    assert!(is_new(bed.receive(UDP, &options)));
    for (same, what) in [
        (options.clone(), "the same bytes"),
        (
            options.replace("callee@example.com SIP", "other@example.com SIP"),
            "another Request-URI",
        ),
        (
            options.replace("Call-ID: call", "Call-ID: other"),
            "another Call-ID",
        ),
        (
            options.replace("caller-tag", "other-tag"),
            "another From tag",
        ),
        (
            options.replace("Max-Forwards: 70\r\n", "Max-Forwards: 70\r\nX: y\r\n"),
            "another header",
        ),
    ] {
        assert_eq!(bed.receive(UDP, &same), Incoming::Absorbed, "{what}");
    }
    for (other, what) in [
        (options.replace("z9hG4bKa", "z9hG4bKb"), "another branch"),
        (options.replace("z9hG4bKa", "z9hG4bKaa"), "a longer branch"),
        (
            options.replace("UDP 192.0.2.1:5060", "UDP 192.0.2.7:5060"),
            "another host",
        ),
        (
            options.replace("UDP 192.0.2.1:5060", "UDP 192.0.2.1:5061"),
            "another port",
        ),
        (
            options.replace("UDP 192.0.2.1:5060", "UDP 192.0.2.1"),
            "no port",
        ),
        (options.replace("OPTIONS", "REGISTER"), "another method"),
        (options.replace("OPTIONS", "FOO"), "an unknown method"),
        (options.replace("OPTIONS", "BAR"), "another unknown method"),
    ] {
        assert!(is_new(bed.receive(UDP, &other)), "{what}");
        assert_eq!(
            bed.receive(UDP, &other),
            Incoming::Absorbed,
            "{what}, again"
        );
    }
}

#[test]
fn what_stands_in_the_branch_is_not_taken_for_the_host() {
    let mut bed = Bed::new();
    let with = |branch: &str, host: &str| {
        request("OPTIONS", branch, "").replace("UDP 192.0.2.1:5060", &format!("UDP {host}"))
    };
    assert!(is_new(bed.receive(UDP, &with("z9hG4bKa", "bc.com"))));
    assert!(is_new(bed.receive(UDP, &with("z9hG4bKab", "c.com"))));
}

#[test]
fn hosts_are_compared_without_regard_to_case() {
    let mut bed = Bed::new();
    let long = "a".repeat(100);
    let options = request("OPTIONS", "z9hG4bKa", "")
        .replace("UDP 192.0.2.1", &format!("UDP Phone.{long}.com"));
    assert!(is_new(bed.receive(UDP, &options)));
    let again = options.replace(
        &format!("Phone.{long}"),
        &format!("pHONE.{}", long.to_uppercase()),
    );
    assert_eq!(bed.receive(UDP, &again), Incoming::Absorbed);
}

#[test]
fn an_ack_finds_its_invite_and_no_other() {
    let mut bed = Bed::new();
    let invite = request("INVITE", "z9hG4bKa", "");
    let id = bed.receive_new(UDP, &invite);
    let ack = request("ACK", "z9hG4bKa", "");
    assert_eq!(bed.receive(UDP, &ack), Incoming::Absorbed, "too early");
    assert_eq!(bed.txn.server_state(id), Some(ServerState::Proceeding));
    bed.respond(id, &invite, 486);
    let other = request("ACK", "z9hG4bKb", "");
    assert_eq!(bed.receive(UDP, &other), Incoming::Ack { invite: None });
    assert_eq!(bed.txn.server_state(id), Some(ServerState::Completed));
    let options = request("OPTIONS", "z9hG4bKc", "");
    bed.receive_new(UDP, &options);
    assert_eq!(
        bed.receive(UDP, &request("ACK", "z9hG4bKc", "")),
        Incoming::Ack { invite: None }
    );
    assert_eq!(bed.receive(UDP, &ack), Incoming::Absorbed);
    assert_eq!(bed.txn.server_state(id), Some(ServerState::Confirmed));
}

/// Branches that identify nothing: the rules of RFC 2543 apply.
const LEGACY: [&str; 3] = ["", ";branch=1", ";branch=z9hG4bK"];

fn legacy(method: &str, branch: &str) -> String {
    request(method, "cut", "").replace(";branch=cut", branch)
}

#[test]
fn without_the_magic_cookie_the_whole_request_identifies_it() {
    // RFC 3261 17.2.3: "The INVITE request matches a transaction if the Request-URI, To tag, From tag, Call-ID,
    // CSeq, and top Via header field match those of the INVITE request which created the transaction."
    // RFC 3261 17.2.3: "For all other request methods, a request is matched to a transaction if the Request-URI,
    // To tag, From tag, Call-ID, CSeq (including the method), and top Via header field match those of the
    // request that created the transaction."
    for branch in LEGACY {
        for method in ["INVITE", "BYE"] {
            let mut bed = Bed::new();
            let first = legacy(method, branch);
            assert!(is_new(bed.receive(UDP, &first)));
            let again = first.replace("Max-Forwards: 70\r\n", "Max-Forwards: 70\r\nX: y\r\n");
            assert_eq!(bed.receive(UDP, &again), Incoming::Absorbed);
            for other in [
                first.replace("callee@example.com SIP", "other@example.com SIP"),
                first.replace(
                    "To: <sip:callee@example.com>",
                    "To: <sip:callee@example.com>;tag=x",
                ),
                first.replace("caller-tag", "other-tag"),
                // What ends one part does not begin the next.
                first
                    .replace("callee@example.com SIP", "callee@example.comc SIP")
                    .replace("caller-tag", "aller-tag"),
                first.replace("Call-ID: call", "Call-ID: other"),
                first.replace("CSeq: 1 ", "CSeq: 2 "),
                first.replace("UDP 192.0.2.1:5060", "UDP 192.0.2.1:5062"),
                legacy("OPTIONS", branch),
            ] {
                assert!(is_new(bed.receive(UDP, &other)), "{other}");
            }
        }
    }
}

#[test]
fn without_the_magic_cookie_an_ack_is_told_by_the_to_tag_of_the_response() {
    // RFC 3261 17.2.3: "The ACK request matches a transaction if the Request-URI, From tag, Call-ID, CSeq number
    // (not the method), and top Via header field match those of the INVITE request which created the
    // transaction, and the To tag of the ACK matches the To tag of the response sent by the server
    // transaction."
    for branch in LEGACY {
        let mut bed = Bed::new();
        let invite = legacy("INVITE", branch);
        let id = bed.receive_new(UDP, &invite);
        let ack = |tag: &str| {
            legacy("ACK", branch).replace(
                "To: <sip:callee@example.com>",
                &format!("To: <sip:callee@example.com>{tag}"),
            )
        };
        assert_eq!(
            bed.receive(UDP, &ack(";tag=uas-tag")),
            Incoming::Ack { invite: None },
            "too early"
        );
        bed.respond(id, &invite, 180);
        assert_eq!(
            bed.receive(UDP, &ack(";tag=uas-tag")),
            Incoming::Ack { invite: None },
            "a provisional response is not acknowledged"
        );
        bed.respond(id, &invite, 486);
        for tag in ["", ";tag=other"] {
            assert_eq!(bed.receive(UDP, &ack(tag)), Incoming::Ack { invite: None });
        }
        assert_eq!(bed.txn.server_state(id), Some(ServerState::Completed));
        assert_eq!(bed.receive(UDP, &ack(";tag=uas-tag")), Incoming::Absorbed);
        assert_eq!(bed.txn.server_state(id), Some(ServerState::Confirmed));
        // "An ACK request that matches an INVITE transaction matched by a previous ACK is considered a
        // retransmission of that previous ACK."
        assert_eq!(bed.receive(UDP, &ack(";tag=uas-tag")), Incoming::Absorbed);
    }
}

#[test]
fn a_response_finds_its_request_by_branch_and_method() {
    let mut bed = Bed::new();
    let (invite_id, invite) = bed.start(UDP, Method::Invite);
    let (bye_id, bye) = bed.start(UDP, Method::Bye);
    // RFC 3261 17.1.3: "1. If the response has the same value of the branch parameter in the top Via header field
    // as the branch parameter in the top Via header field of the request that created the transaction."
    // RFC 3261 17.1.3: "2. If the method parameter in the CSeq header field matches the method of the request that
    // created the transaction."
    // RFC 3261 18.1.2: "If there is a match, the response MUST be passed to that transaction."
    let wrong_method = response_to(&invite, 200).replace("CSeq: 1 INVITE", "CSeq: 1 BYE");
    assert_eq!(bed.answer_bytes(&wrong_method), Response::Unknown);
    let no_cancel = response_to(&invite, 200).replace("CSeq: 1 INVITE", "CSeq: 1 CANCEL");
    assert_eq!(bed.answer_bytes(&no_cancel), Response::Unknown);
    assert_eq!(
        bed.answer(&bye, 200),
        Response::Pass {
            client: bye_id,
            context: 7
        }
    );
    assert_eq!(
        bed.answer(&invite, 180),
        Response::Pass {
            client: invite_id,
            context: 7
        }
    );
    assert_eq!(bed.txn.counters().response_stray, 2);
}

#[test]
fn a_response_with_a_guessed_branch_hits_nothing() {
    let mut bed = Bed::new();
    let (id, request) = bed.start(UDP, Method::Invite);
    let mut branch = Vec::new();
    bed.txn.write_branch(id, &mut branch);
    let with_branch = |branch: &[u8]| {
        let branch = String::from_utf8(branch.to_vec()).unwrap();
        response_to(&request_to("sip:x", "INVITE", &branch, ""), 200)
    };
    // All of it is guessed right but one character.
    for at in 0..branch.len() {
        let mut guess = branch.clone();
        guess[at] = if guess[at] == b'0' { b'1' } else { b'0' };
        assert_eq!(
            bed.answer_bytes(&with_branch(&guess)),
            Response::Unknown,
            "{at}"
        );
    }
    let cut = &branch[..branch.len() - 1];
    assert_eq!(bed.answer_bytes(&with_branch(cut)), Response::Unknown);
    assert_eq!(
        bed.answer(&request, 180),
        Response::Pass {
            client: id,
            context: 7
        }
    );
}

#[test]
fn the_callers_own_part_may_follow_the_branch() {
    let mut bed = Bed::new();
    let id = bed.txn.reserve_client().unwrap();
    let mut branch = Vec::new();
    bed.txn.write_branch(id, &mut branch);
    branch.extend_from_slice(b".0123456789abcdef");
    let text = request_to("sip:x", "OPTIONS", &String::from_utf8(branch).unwrap(), "");
    let start = bed.out.bytes.len();
    bed.out.bytes.extend_from_slice(text.as_bytes());
    bed.txn.start_client(
        bed.now_ms,
        id,
        Method::Options,
        crate::support::target(UDP),
        3,
        start,
        &mut bed.out,
    );
    assert_eq!(
        bed.answer(&text, 200),
        Response::Pass {
            client: id,
            context: 3
        }
    );
}

#[test]
fn methods_without_a_name_of_their_own_are_matched_by_their_token() {
    let mut bed = Bed::new();
    let id = bed.txn.reserve_client().unwrap();
    let mut branch = Vec::new();
    bed.txn.write_branch(id, &mut branch);
    let text = request_to("sip:x", "FOO", &String::from_utf8(branch).unwrap(), "");
    bed.out.bytes.extend_from_slice(text.as_bytes());
    bed.txn.start_client(
        bed.now_ms,
        id,
        Method::Other,
        crate::support::target(UDP),
        3,
        0,
        &mut bed.out,
    );
    assert_eq!(
        bed.answer_bytes(&response_to(&text, 200).replace("1 FOO", "1 BAR")),
        Response::Unknown
    );
    assert_eq!(
        bed.answer(&text, 200),
        Response::Pass {
            client: id,
            context: 3
        }
    );
}

#[test]
fn a_request_without_a_via_is_not_taken() {
    let mut bed = Bed::new();
    let text = request("OPTIONS", "z9hG4bKa", "");
    let via = text.lines().nth(1).unwrap();
    assert_eq!(
        bed.receive(UDP, &text.replace(&format!("{via}\r\n"), "")),
        Incoming::NoVia
    );
    assert!(bed.is_idle());
}

#[test]
fn a_new_request_may_be_given_back() {
    let mut bed = Bed::new();
    let invite = request("INVITE", "z9hG4bKa", "");
    let answered = bed.receive_new(UDP, &invite);
    bed.respond(answered, &invite, 486);
    bed.sent();
    bed.txn.release_server(answered);
    assert!(bed.is_idle(), "timers G and H run no more");
    let id = bed.receive_new(UDP, &invite);
    bed.txn.release_server(id);
    assert!(bed.is_idle());
    assert_eq!(bed.respond(id, &invite, 200), Responded::Unknown);
    let trying = bed
        .txn
        .respond_trying(bed.now_ms, id, &parse(&invite), &mut bed.out);
    assert_eq!(trying, Responded::Unknown);
    assert!(bed.out.bytes.is_empty());
    assert!(is_new(bed.receive(UDP, &invite)));
}
