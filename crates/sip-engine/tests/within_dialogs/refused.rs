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

#[test]
fn so_does_a_call_with_a_gateway_that_was_silent_for_a_day() {
    let lifetime_s = secured().proxy.dialog_token_lifetime_s;
    // One of them is in a network to which nobody may send.
    for at in ["203.0.113.50:5060", "10.9.9.9:5060"] {
        for method in ["INVITE", "UPDATE", "BYE"] {
            let mut bed = Bed::new(with_gateway(at, trusting()));
            let mut invite = request("INVITE", "sip:+4930@example.org", Transport::Udp);
            invite.from = ALICE.into();
            let sent = bed.receive(&alice(Transport::Udp), &invite.text());
            let copy = sent.iter().find(|sent| sent.status() == 0).unwrap();
            let place = format!("sip:+4930@{at}");
            let ok = response(copy, 200, "b", &contact(&place));
            let ok = only(bed.receive(&answering(copy), &ok));
            let routes = turned(&ok);
            let settings = Arc::new(with_gateway(at, secured()));
            bed.act(|shard: &mut Shard, _, _| shard.reload(settings));
            bed.wait((lifetime_s + UNIT_S) * 1_000);
            let copy = only(signed(&mut bed, to(method, &place, &routes)));
            assert_eq!(copy.to.remote.to_string(), at, "{method}");
            if method != "BYE" {
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
