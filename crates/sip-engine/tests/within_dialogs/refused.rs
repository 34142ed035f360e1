//! Tokens that the gate has refused: whoever proves who he is goes on, and not by them.

use super::*;
use sip_auth::{Attempt, ClientAuth, Ha1, Reply, RequestParts};
use sip_engine::Effect;
use sip_engine::routes::{Gateway, GatewayGroup, Routes};
use sip_engine::token::UNIT_S;

const BOBS_PHONE: &str = "sip:bob@10.1.1.1:5060;transport=tcp";

/// What is answered to such a request that goes nowhere.
fn to_another(bed: &mut Bed, request: Request) -> u16 {
    let sent = answered(bed, request);
    assert!(sent.iter().all(|sent| sent.status() != 0));
    sent.last().unwrap().status()
}

/// A request of alice's after its challenge, with her password; where it goes.
fn signed(bed: &mut Bed, request: Request) -> Vec<Sent> {
    let mut sent = answered(bed, request);
    sent.retain(|sent| sent.status() == 0);
    sent
}

/// All that is sent because of it.
fn answered(bed: &mut Bed, mut request: Request) -> Vec<Sent> {
    let challenge = only(anywhere(bed, &request));
    assert_eq!(challenge.status(), 407, "{}", request.method);
    let (mut auth, mut attempt) = (ClientAuth::new(), Attempt::default());
    auth.add("example.org", "alice", "secret");
    auth.handle_challenge(&mut attempt, &challenge.message)
        .unwrap();
    let parts = RequestParts {
        method: request.method.as_bytes(),
        uri: request.uri.as_bytes(),
        body: b"",
    };
    let mut lines = Vec::new();
    auth.write_credentials(&mut attempt, parts, 7, &mut lines);
    request.more.push_str(std::str::from_utf8(&lines).unwrap());
    request.via.push_str("again");
    request.cseq += 1;
    assert!(anywhere(bed, &request).is_empty());
    let Some(Effect::FindCredential { park, question, .. }) = bed.effects.pop() else {
        panic!("the store was not asked");
    };
    let ha1 = Ha1::compute(question.algorithm, b"alice", b"example.org", b"secret");
    bed.act(|s, now, out| s.handle_credential(now, park, Ok(Reply::Secret(ha1)), out))
}

/// A call to bob's connection, with alice's routes.
fn connected_call(bed: &mut Bed) -> (Flow, Vec<String>) {
    let bob = flow(Transport::Tcp, "203.0.113.9:40000");
    bed.register("sip:bob@example.org", BOBS_PHONE, Some(bob));
    let mut invite = request("INVITE", "sip:bob@example.org", Transport::Udp);
    invite.from = ALICE.into();
    let copy = bed
        .receive(&alice(Transport::Udp), &invite.text())
        .remove(1);
    let ok = response(&copy, 200, "b", &contact(BOBS_PHONE));
    let ok = only(bed.receive(&bob, &ok));
    distrust(bed);
    (bob, turned(&ok))
}

fn to(method: &str, uri: &str, routes: &[String]) -> Request {
    of(method, uri, ALICE, BOB, ALICES, routes)
}

#[test]
fn a_target_that_was_never_shown_is_not_reached_along_the_flow_of_another() {
    const CAROLS: &str = "sip:carol@203.0.113.77:5060";
    for method in ["MESSAGE", "INVITE", "BYE"] {
        let mut bed = Bed::new(trusting());
        let (_, routes) = connected_call(&mut bed);
        let sent = only(signed(&mut bed, to(method, CAROLS, &routes)));
        let came_to = (sent.to.conn, sent.to.remote.to_string());
        assert_eq!(came_to, (ConnId::NONE, "203.0.113.77:5060".to_owned()));
        assert_eq!(sent.uri(), CAROLS, "{method}");
    }
}

#[test]
fn the_token_of_a_call_that_is_over_leads_its_bye_alone() {
    let mut bed = Bed::new(trusting());
    let (bob, routes) = connected_call(&mut bed);
    let bye = only(anywhere(&mut bed, &to("BYE", BOBS_PHONE, &routes)));
    assert_eq!(
        only(bed.receive(&bob, &response(&bye, 200, "b", ""))).status(),
        200
    );
    bed.wait(301_000);
    let sent = only(signed(&mut bed, to("MESSAGE", BOBS_PHONE, &routes)));
    let came_to = (sent.to.conn, sent.to.remote.to_string());
    assert_eq!(came_to, (ConnId::NONE, "10.1.1.1:5060".to_owned()));
    // It ends what may be open there still.
    let sent = only(signed(&mut bed, to("BYE", BOBS_PHONE, &routes)));
    assert_eq!((sent.to.conn, sent.to.remote), (bob.conn, bob.remote));
}

/// Calls with `+` go to that gateway.
fn with_gateway(at: &str, settings: Settings) -> Settings {
    let group = GatewayGroup {
        name: "gateway".into(),
        gateways: vec![Gateway {
            next_hop: next_hop(Transport::Udp, at),
            priority: 0,
            weight: 1,
        }],
        ..GatewayGroup::default()
    };
    let mut settings = Settings {
        routes: Routes {
            groups: vec![group],
            prefixes: [("+".into(), 0)].into(),
            ..Routes::default()
        },
        ..settings
    };
    let private = "10.0.0.0/8".parse().unwrap();
    settings.proxy.relay_denied.push(private);
    settings
}

/// Alice's call with that gateway, which has been answered, where the gateway is in the dialog, and
/// her routes. From then on nobody is trusted.
fn gateway_call(at: &str) -> (Bed, String, Vec<String>) {
    gateway_call_by(at, Arc::new(TokenKeys::of([4; 32], 1)))
}

/// The same, its tokens signed by these keys.
fn gateway_call_by(at: &str, keys: Arc<TokenKeys>) -> (Bed, String, Vec<String>) {
    let mut bed = Bed::with_keys(with_gateway(at, trusting()), keys);
    let mut invite = request("INVITE", "sip:+4930@example.org", Transport::Udp);
    invite.from = ALICE.into();
    let sent = bed.receive(&alice(Transport::Udp), &invite.text());
    let copy = sent.iter().find(|sent| sent.status() == 0).unwrap();
    let place = format!("sip:+4930@{at}");
    let routes = turned(&answer(&mut bed, copy, 200, &place));
    let settings = Arc::new(with_gateway(at, secured()));
    bed.act(|shard: &mut Shard, _, _| shard.reload(settings));
    (bed, place, routes)
}

/// Has a request answered by the gateway that it went to; what its sender gets.
fn answer(bed: &mut Bed, copy: &Sent, status: u16, place: &str) -> Sent {
    let answer = response(copy, status, "b", &contact(place));
    let mut sent = bed.receive(&answering(copy), &answer);
    sent.retain(|sent| sent.status() == status);
    only(sent)
}

/// The copy of a request that needs no password.
fn passed(bed: &mut Bed, request: &Request) -> Sent {
    let mut sent = anywhere(bed, request);
    sent.retain(|sent| sent.status() == 0);
    only(sent)
}

#[test]
fn so_does_a_call_with_a_gateway_that_was_silent_for_a_day() {
    let lifetime_s = secured().proxy.dialog_token_lifetime_s;
    // One of them is in a network to which nobody may send.
    for at in ["203.0.113.50:5060", "10.9.9.9:5060"] {
        for method in ["INVITE", "UPDATE", "BYE"] {
            let (mut bed, place, routes) = gateway_call(at);
            bed.wait((lifetime_s + UNIT_S) * 1_000);
            let copy = only(signed(&mut bed, to(method, &place, &routes)));
            assert_eq!(copy.to.remote.to_string(), at, "{method}");
            if method != "BYE" {
                // What was asked alone shows nobody alive at the other side.
                assert_eq!(outcome(&mut bed, &to("INFO", &place, &routes)), "407");
                answer(&mut bed, &copy, 200, &place);
                assert_eq!(outcome(&mut bed, &to("INFO", &place, &routes)), at);
            }
            // Another number there is another's choice.
            let another = format!("sip:+1900555@{at}");
            let sent = to_another(&mut bed, to("INVITE", &another, &routes));
            assert_eq!(sent, 403, "{method}");
        }
    }
}

#[test]
fn a_call_that_was_silent_for_a_day_goes_on_when_its_user_proves_who_he_is() {
    let lifetime_s = secured().proxy.dialog_token_lifetime_s;
    for method in ["INVITE", "UPDATE"] {
        let mut bed = Bed::new(trusting());
        let (bob, routes) = connected_call(&mut bed);
        bed.wait((lifetime_s + UNIT_S) * 1_000);
        assert_eq!(outcome(&mut bed, &to("ACK", BOBS_PHONE, &routes)), "");
        let copy = only(signed(&mut bed, to(method, BOBS_PHONE, &routes)));
        let came_to = |sent: &Sent| (sent.to.conn, sent.to.remote);
        assert_eq!(came_to(&copy), (bob.conn, bob.remote), "{method}");
        let ok = response(&copy, 200, "b", &contact(BOBS_PHONE));
        assert_eq!(only(bed.receive(&bob, &ok)).status(), 200);
        for within in ["ACK", "INFO", "BYE"] {
            let sent = only(anywhere(&mut bed, &to(within, BOBS_PHONE, &routes)));
            assert_eq!(came_to(&sent), (bob.conn, bob.remote), "{within}");
        }
        // It is alive for its target alone.
        let carols = to("INFO", "sip:carol@203.0.113.77:5060", &routes);
        assert_eq!(outcome(&mut bed, &carols), "407");
    }
}

/// A restart forgets that a call was ended, and a gateway that is asked about it says so.
#[test]
fn the_token_of_a_call_that_is_over_and_forgotten_needs_the_password_each_time() {
    let lifetime_s = secured().proxy.dialog_token_lifetime_s;
    let at = "203.0.113.50:5060";
    for method in ["INVITE", "UPDATE", "INFO"] {
        let (mut bed, place, routes) = gateway_call(at);
        let bye = passed(&mut bed, &to("BYE", &place, &routes));
        answer(&mut bed, &bye, 200, &place);
        let mut bed = Bed::new(with_gateway(at, secured()));
        bed.wait((lifetime_s + UNIT_S) * 1_000);
        let copy = only(signed(&mut bed, to(method, &place, &routes)));
        assert_eq!(copy.to.remote.to_string(), at, "{method}");
        answer(&mut bed, &copy, 481, &place);
        for within in ["INVITE", "UPDATE", "INFO"] {
            let got = outcome(&mut bed, &to(within, &place, &routes));
            assert_eq!(got, "407", "{within} after {method}");
        }
        bed.wait(301_000);
        // RFC 3261 12.2.1.2: "If the response for a request within a dialog is a 481 (Call/Transaction
        // Does Not Exist) or a 408 (Request Timeout), the UAC SHOULD terminate the dialog." One to an
        // INFO may be about less.
        if method != "INFO" {
            let sent = to_another(&mut bed, to("INVITE", &place, &routes));
            assert_eq!(sent, 403, "{method}");
        }
    }
}

#[test]
fn a_token_lives_on_by_what_the_other_side_has_answered_alone() {
    let lifetime_s = secured().proxy.dialog_token_lifetime_s;
    let at = "203.0.113.50:5060";
    for (method, status, expected) in [
        ("INFO", 200, at),
        ("INFO", 481, "407"),
        ("INVITE", 200, at),
        ("UPDATE", 488, "407"),
    ] {
        let (mut bed, place, routes) = gateway_call(at);
        bed.wait(lifetime_s * 2 / 3 * 1_000);
        let copy = passed(&mut bed, &to(method, &place, &routes));
        answer(&mut bed, &copy, status, &place);
        bed.wait(lifetime_s / 2 * 1_000);
        let got = outcome(&mut bed, &to("INFO", &place, &routes));
        assert_eq!(got, expected, "{method} and {status}");
    }
}

/// The user agents have no other token: it is as good as the key that it was signed by.
#[test]
fn a_call_that_lives_on_says_how_long_the_key_of_its_token_is_needed() {
    let lifetime_s = secured().proxy.dialog_token_lifetime_s;
    let keys = Arc::new(TokenKeys::of([4; 32], 1));
    let (mut bed, place, routes) = gateway_call_by("203.0.113.50:5060", Arc::clone(&keys));
    let ask = |bed: &mut Bed, status| {
        let copy = passed(bed, &to("INFO", &place, &routes));
        answer(bed, &copy, status, &place);
    };
    ask(&mut bed, 200);
    assert_eq!(keys.needed_until_s(0), 0, "its token is good for long");
    for _ in 0..4 {
        bed.wait(lifetime_s * 2 / 3 * 1_000);
        let before_s = keys.needed_until_s(0);
        ask(&mut bed, 488);
        assert_eq!(keys.needed_until_s(0), before_s);
        ask(&mut bed, 200);
        assert_eq!(keys.needed_until_s(0), bed.now.unix_ms / 1_000 + lifetime_s);
    }
}

/// A transfer's NOTIFY may be answered so while its call goes on.
#[test]
fn a_481_to_a_notify_ends_no_call() {
    let (mut bed, place, routes) = gateway_call("203.0.113.50:5060");
    let copy = passed(&mut bed, &to("NOTIFY", &place, &routes));
    answer(&mut bed, &copy, 481, &place);
    bed.wait(301_000);
    let bye = passed(&mut bed, &to("BYE", &place, &routes));
    answer(&mut bed, &bye, 200, &place);
}

/// No answer is believed there: the request has to do, while its token is good.
#[test]
fn without_state_a_token_lives_on_by_what_is_asked_until_it_is_old() {
    let lifetime_s = secured().proxy.dialog_token_lifetime_s;
    let mut settings = trusting();
    settings.mode = Mode::Stateless;
    let mut bed = Bed::new(settings.clone());
    bed.register("sip:bob@example.org", BOBS, None);
    let mut subscribe = request("SUBSCRIBE", "sip:bob@example.org", Transport::Udp);
    subscribe.from = ALICE.into();
    let copy = only(bed.receive(&alice(Transport::Udp), &subscribe.text()));
    let ok = response(&copy, 200, "b", &contact(BOBS));
    let routes = turned(&only(bed.receive(&answering(&copy), &ok)));
    settings.trusted.clear();
    bed.act(|shard, _, _| shard.reload(Arc::new(settings)));
    for (waited_s, expected) in [
        (lifetime_s * 2 / 3, "203.0.113.9:5060"),
        (lifetime_s / 2, "203.0.113.9:5060"),
        (lifetime_s + UNIT_S, "407"),
    ] {
        bed.wait(waited_s * 1_000);
        let again = to("SUBSCRIBE", BOBS, &routes);
        assert_eq!(outcome(&mut bed, &again), expected, "{waited_s}");
    }
}
