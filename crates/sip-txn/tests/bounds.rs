//! Bounds, and names that are stale.

use crate::support::{Bed, UDP, request, target};
use sip_msg::Method;
use sip_txn::{Cancelled, Config, Incoming, Response, Transactions};

fn config(server_max: usize, client_max: usize) -> Config {
    Config {
        server_max,
        client_max,
        ..Config::new([1; 16], [2; 16])
    }
}

#[test]
fn past_the_bound_a_request_is_answered_full_and_others_go_on() {
    let mut bed = Bed::with(config(2, 2));
    let requests: Vec<String> = (0..3)
        .map(|n| request("OPTIONS", &format!("z9hG4bK{n}"), ""))
        .collect();
    let first = bed.receive_new(UDP, &requests[0]);
    bed.receive_new(UDP, &requests[1]);
    for _ in 0..3 {
        assert_eq!(bed.receive(UDP, &requests[2]), Incoming::Full);
    }
    assert_eq!(bed.txn.counters().server_full, 3);
    assert_eq!(bed.receive(UDP, &requests[1]), Incoming::Absorbed);
    bed.respond(first, &requests[0], 200);
    bed.pass(32_000);
    bed.receive_new(UDP, &requests[2]);
}

#[test]
fn one_branch_has_few_transactions_whatever_their_methods() {
    // They would stand in one chain, which each request of that branch walks.
    let mut bed = Bed::with(config(1_000, 2));
    let mut taken = Vec::new();
    for n in 0..100 {
        let request = request(&format!("METHOD{n}"), "z9hG4bKsame", "");
        match bed.receive(UDP, &request) {
            Incoming::New(_) => taken.push(request),
            refused => assert_eq!(refused, Incoming::Full),
        }
    }
    assert_eq!(taken.len(), 8);
    assert_eq!(bed.txn.counters().server_twins_full, 92);
    for request in &taken {
        assert_eq!(bed.receive(UDP, request), Incoming::Absorbed);
    }
    bed.receive_new(UDP, &request("OPTIONS", "z9hG4bKother", ""));
}

#[test]
fn past_the_bound_no_client_is_reserved_but_a_cancel_still_goes_out() {
    let mut bed = Bed::with(config(2, 2));
    let (one, invite) = bed.start(UDP, Method::Invite);
    let two = bed.txn.reserve_client().unwrap();
    assert_eq!(bed.txn.reserve_client(), None);
    assert_eq!(bed.txn.counters().client_full, 1);
    bed.answer(&invite, 180);
    assert_eq!(
        bed.txn.cancel(bed.now_ms, one, &mut bed.out),
        Cancelled::Sent
    );
    bed.txn.release_client(two);
    assert_eq!(bed.txn.reserve_client(), None, "the CANCEL counts");
    bed.answer(&invite, 487);
    bed.pass(40_000);
    assert!(bed.is_idle());
    assert!(bed.txn.reserve_client().is_some());
}

#[test]
fn stale_names_do_nothing() {
    let mut bed = Bed::new();
    let client = bed.txn.reserve_client().unwrap();
    bed.txn.release_client(client);
    let options = request("OPTIONS", "z9hG4bKa", "");
    let server = bed.receive_new(UDP, &options);
    bed.txn.release_server(server);
    // Their slots have new tenants.
    let (tenant, _) = bed.start(UDP, Method::Bye);
    let server_tenant = bed.receive_new(UDP, &options);
    bed.sent();
    let before = format!("{:?}", bed.txn.live());

    bed.txn.release_client(client);
    bed.txn.release_server(server);
    bed.txn.set_context(server, 5);
    assert_eq!(bed.txn.context(server), None);
    assert_eq!(
        (bed.txn.server_state(server), bed.txn.server_method(server)),
        (None, None)
    );
    assert_eq!(
        (bed.txn.client_state(client), bed.txn.client_target(client)),
        (None, None)
    );
    assert_eq!(
        bed.txn.cancel(bed.now_ms, client, &mut bed.out),
        Cancelled::TooLate
    );
    let mut branch = Vec::new();
    bed.txn.write_branch(client, &mut branch);
    assert!(branch.is_empty());
    bed.out
        .bytes
        .extend_from_slice(b"BYE sip:x SIP/2.0\r\n\r\n");
    bed.txn.start_client(
        bed.now_ms,
        client,
        Method::Bye,
        target(UDP),
        1,
        0,
        &mut bed.out,
    );
    bed.txn.start_client(
        bed.now_ms,
        tenant,
        Method::Bye,
        target(UDP),
        1,
        0,
        &mut bed.out,
    );
    assert!(bed.out.bytes.is_empty() && bed.out.sends.is_empty());

    assert_eq!(before, format!("{:?}", bed.txn.live()));
    assert_eq!(bed.txn.client_context(tenant), Some(7));
    assert_eq!(bed.txn.context(server_tenant), Some(0));
}

#[test]
fn cookies_of_others_do_nothing() {
    let mut bed = Bed::new();
    bed.start(UDP, Method::Bye);
    let cookie = bed.sent()[0].cookie;
    assert!(Transactions::is_cookie(cookie));
    for other in [0, u64::MAX, 1 << 63 | cookie, 1 << 63] {
        assert!(!Transactions::is_cookie(other));
    }
    for other in [
        0,
        u64::MAX,
        1,
        1 << 63 | cookie,
        cookie + 1,
        cookie ^ 1 << 32,
    ] {
        bed.txn.handle_send_failed(bed.now_ms, other, &mut bed.out);
    }
    assert_eq!(bed.events(), []);
    assert_eq!(bed.txn.live().client_non_invite, 1);
}

#[test]
fn a_reserved_transaction_has_no_responses() {
    let mut bed = Bed::new();
    let id = bed.txn.reserve_client().unwrap();
    let mut branch = Vec::new();
    bed.txn.write_branch(id, &mut branch);
    let text = crate::support::request("BYE", &String::from_utf8(branch).unwrap(), "");
    assert_eq!(bed.answer(&text, 200), Response::Unknown);
    assert_eq!(bed.txn.live().client_reserved, 1);
}

#[test]
#[cfg_attr(debug_assertions, should_panic = "a whole request")]
fn an_invite_that_cannot_be_read_again_is_not_acknowledged_but_ends() {
    let mut bed = Bed::new();
    let id = bed.txn.reserve_client().unwrap();
    let mut branch = Vec::new();
    bed.txn.write_branch(id, &mut branch);
    let text = crate::support::request("INVITE", &String::from_utf8(branch).unwrap(), "");
    bed.out.bytes.extend_from_slice(b"INVITE and nothing else");
    bed.txn.start_client(
        bed.now_ms,
        id,
        Method::Invite,
        target(UDP),
        1,
        0,
        &mut bed.out,
    );
    bed.sent();
    bed.answer(&text, 180);
    assert_eq!(
        bed.txn.cancel(bed.now_ms, id, &mut bed.out),
        Cancelled::Sent
    );
    assert_eq!(
        bed.answer(&text, 486),
        Response::Pass {
            client: id,
            context: 1
        }
    );
    assert_eq!(bed.answer(&text, 486), Response::Absorbed);
    assert_eq!(bed.sent(), []);
    bed.pass(40_000);
    assert!(bed.is_idle());
}
