//! Led calls that go by a trunk: the provider knows their parties by other names, and challenges
//! are answered before an engine hears of anything.

use std::sync::Arc;

use sip_auth::Password;
use sip_engine::routes::{Gateway, GatewayGroup};
use sip_engine::settings::{MediaUse, Settings};
use sip_engine::trunk::{Credentials, Identity, NumberPlan, Numbers, Trunk, Trust};
use sip_media::Command;
use sip_msg::HeaderName;

use super::bed::*;
use crate::common::*;

const NUMBER: &str = "sip:+4930123@example.org";
const REALM: &str = "provider.example";

/// All numbers go by a trunk, and all media by an engine.
fn led_by_a_trunk(credentials: Option<Credentials>) -> Settings {
    let mut settings = settings();
    settings.media = Some(Arc::new(media(MediaUse::Always)));
    settings.routes.groups.push(GatewayGroup {
        name: "provider".into(),
        gateways: vec![Gateway {
            next_hop: next_hop(UDP, NEXT),
            priority: 0,
            weight: 1,
        }],
        trunk: Some(Arc::new(Trunk {
            name: "provider".into(),
            domain: "provider.example".into(),
            account: "4930100".into(),
            credentials,
            registering: None,
            identity: Identity::From,
            rewrites_to: true,
            numbers: Numbers {
                plan: NumberPlan::default(),
                main: None,
                users: vec![("+4930101".into(), "alice".into())],
                to: None,
            },
            trust: Trust::default(),
        })),
        ..GatewayGroup::default()
    });
    settings.routes.prefixes.insert("+".into(), 0);
    settings
}

/// Alice calls the number.
fn invite_of_alice() -> Request {
    let mut invite = request("INVITE", NUMBER, UDP);
    invite.from = "<sip:alice@example.org>;tag=a".into();
    invite.to = format!("<{NUMBER}>");
    invite
}

/// A request within the call, by that route.
fn within(method: &str, uri: &str, of: &Sent, from: &str, to: &str) -> Request {
    let routes = of.all(HeaderName::RecordRoute);
    let route: String = routes
        .iter()
        .map(|value| format!("Route: {value}\r\n"))
        .collect();
    let mut within = request(method, uri, UDP).with(&route);
    (within.from, within.to) = (from.into(), to.into());
    within.cseq = 2;
    within
}

#[test]
fn both_sides_of_a_leg_to_a_provider_are_one_call_to_the_engine() {
    let mut bed = Bed::new(led_by_a_trunk(None));
    bed.receive(
        &alice(UDP),
        &with_sdp(&invite_of_alice().text(), &sdp("alice")),
    );
    let first = asked(&mut bed);
    let name = first.ask.call_id.clone();
    let copy = only(give(&mut bed, first, &led("alice")));
    let (own, other) = (
        "<sip:+4930101@provider.example>;tag=a",
        "<sip:+4930123@provider.example>",
    );
    assert_eq!(copy.header(HeaderName::From).as_deref(), Some(own));
    assert_eq!(copy.header(HeaderName::To).as_deref(), Some(other));
    assert_says(&copy, &led("alice"));
    respond(&mut bed, &copy, 200, &sdp("bob"));
    let second = asked(&mut bed);
    assert_eq!(
        (second.command(), &second.ask.call_id),
        (Command::Answer, &name)
    );
    let ok = only(give(&mut bed, second, &led("bob")));
    let from = "<sip:alice@example.org>;tag=a";
    assert_eq!(ok.header(HeaderName::From).as_deref(), Some(from));
    assert_says(&ok, &led("bob"));
    // Whoever asks for a change, and by whatever names.
    let to = format!("<{NUMBER}>;tag=b");
    let uri = "sip:bob@203.0.113.9:5070";
    let of_alice = within("UPDATE", uri, &ok, from, &to);
    bed.receive(&alice(UDP), &with_sdp(&of_alice.text(), &sdp("new")));
    let changed = asked(&mut bed);
    assert_eq!(
        (&changed.ask.call_id, changed.ask.engine),
        (&name, Some(ENGINE))
    );
    let uri = "sip:alice@198.51.100.1:5060";
    let mut of_provider = within("UPDATE", uri, &copy, &format!("{other};tag=b"), own);
    of_provider.via = of_provider.via.replace("198.51.100.1:5060", NEXT);
    bed.receive(
        &answering(&copy),
        &with_sdp(&of_provider.text(), &sdp("new")),
    );
    let changed = asked(&mut bed);
    assert_eq!(
        (&changed.ask.call_id, changed.ask.engine),
        (&name, Some(ENGINE))
    );
    assert_eq!(changed.tags(), ("b", "a"));
}

#[test]
fn a_challenge_is_answered_with_the_offer_that_the_engine_has_made() {
    let mut bed = Bed::new(led_by_a_trunk(Some(Credentials {
        realm: REALM.into(),
        user: "p4930100".into(),
        password: Password::new("swordfish".to_owned()),
        weakest: None,
        asked_by: None,
    })));
    bed.receive(
        &alice(UDP),
        &with_sdp(&invite_of_alice().text(), &sdp("alice")),
    );
    let first = asked(&mut bed);
    let copy = only(give(&mut bed, first, &led("alice")));
    let line = format!(
        "Proxy-Authenticate: Digest realm=\"{REALM}\", nonce=\"n1\", qop=\"auth\", algorithm=SHA-256\r\n"
    );
    let sent = bed.receive(&answering(&copy), &response(&copy, 407, "c", &line));
    assert!(all_asked(&mut bed).is_empty());
    let again = sent.iter().find(|of| of.method() == "INVITE").unwrap();
    assert!(again.header(HeaderName::ProxyAuthorization).is_some());
    assert_says(again, &led("alice"));
    // And what answers it is the engine's to know.
    assert!(respond(&mut bed, again, 200, &sdp("bob")).is_empty());
    let second = asked(&mut bed);
    assert_eq!(second.command(), Command::Answer);
    assert_says(&only(give(&mut bed, second, &led("bob"))), &led("bob"));
}
