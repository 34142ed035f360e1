//! The matrix of method, From, source, credentials and token; then one test
//! for each claim of the module's argument.

mod certificates;
mod dialogs;
mod hijack;
mod listed;
mod users;

use sip_msg::{Flow, HeaderName, Message, Transport};

use sip_msg::Uri;

use super::*;
use crate::settings::{AuthSettings, TrustedPeer};
use crate::testing::{World, flow, parse, request, with_lines};
use crate::token::{Grant, Holder, Sides, TokenKeys};

/// Every method that has a name, and one that nobody knows. CANCEL never comes
/// to the gate.
const METHODS: [&str; 14] = [
    "INVITE",
    "ACK",
    "BYE",
    "REGISTER",
    "OPTIONS",
    "INFO",
    "PRACK",
    "UPDATE",
    "MESSAGE",
    "SUBSCRIBE",
    "NOTIFY",
    "REFER",
    "PUBLISH",
    "DANCE",
];

const ALICE: &str = "<sip:alice@example.org>;tag=1";
const BOB: &str = "<sip:bob@example.org>";
const BOB_TAGGED: &str = "<sip:bob@example.org>;tag=2";
const STRANGER: &str = "<sip:eve@elsewhere.example>;tag=1";

fn udp() -> Flow {
    flow(Transport::Udp, "192.0.2.9:5060")
}

/// What the gate says, in a word.
fn word(gate: &Gate) -> String {
    match gate {
        Gate::Pass(Permit::Open(_)) => "open".into(),
        Gate::Pass(Permit::Peer(_)) => "peer".into(),
        Gate::Pass(Permit::Dialog(_)) => "dialog".into(),
        Gate::Pass(Permit::Authenticated(user)) => {
            String::from_utf8_lossy(user.user()).into_owned()
        }
        Gate::Pass(Permit::Inbound(_)) => "inbound".into(),
        Gate::Pass(Permit::Directed(_)) => "directed".into(),
        Gate::Pass(Permit::Trunk(_)) => "trunk".into(),
        Gate::Pass(Permit::Forwarder(_)) => "forwarder".into(),
        Gate::Pass(Permit::Emergency(_)) => "emergency".into(),
        Gate::Lookup(_) => "lookup".into(),
        Gate::Refuse(refusal) => refusal.status().to_string(),
        Gate::Drop => "drop".into(),
    }
}

fn judged(world: &World, flow: &Flow, text: &str) -> String {
    word(&world.judge(flow, &parse(text.as_bytes())))
}

/// REGISTER is for the domain, anything else for `uri`.
fn of(method: &str, uri: &str, from: &str, to: &str, lines: &str) -> String {
    let uri = if method == "REGISTER" {
        "sip:example.org"
    } else {
        uri
    };
    request(method, uri, from, to, lines)
}

fn refusal_header(method: &str) -> HeaderName {
    if method == "REGISTER" {
        HeaderName::WwwAuthenticate
    } else {
        HeaderName::ProxyAuthenticate
    }
}

/// Where bob is.
const BOBS_CONTACT: &str = "sip:bob@203.0.113.9";

/// A Route of this server's for requests from `from` to `to`, in the dialog of
/// the Call-ID of [`request`], to bob's contact; with `next` behind it.
fn route_of(world: &World, from: &str, to: &str, next: Option<&str>) -> String {
    route_by(&world.tokens, from, to, next)
}

fn route_by(tokens: &Tokens, from: &str, to: &str, next: Option<&str>) -> String {
    let message = parse(request("BYE", BOBS_CONTACT, from, to, "").as_bytes());
    let target = Uri::parse(BOBS_CONTACT.as_bytes());
    let next = next.and_then(|next| Uri::parse(next.as_bytes()));
    let grant = Grant {
        unix_ms: crate::testing::NOW.unix_ms,
        behind: next.as_slice(),
        target: target.as_ref(),
        ..Grant::default()
    };
    let mut user = Vec::new();
    tokens.write_grant(
        &Sides::of(&message).unwrap(),
        Holder::Sender,
        &grant,
        &mut user,
    );
    let user = String::from_utf8(user).unwrap();
    format!("<sip:{user}@192.0.2.1;lr>")
}

#[test]
fn what_each_permit_opens() {
    let mut world = World::new();
    let line = format!("Route: {}\r\n", route_of(&world, ALICE, BOB_TAGGED, None));
    let dialog = permit(
        &world,
        &request("BYE", BOBS_CONTACT, ALICE, BOB_TAGGED, &line),
    );
    let invite = of("INVITE", "sip:bob@example.org", ALICE, BOB, "");
    let signed = world.sign_as(&udp(), &invite, "alice", "example.org");
    let user = permit(&world, &signed);
    let register = of("REGISTER", "", ALICE, "<sip:alice@example.org>", "");
    let signed = world.sign_as(&udp(), &register, "alice", "example.org");
    let registering = permit(&world, &signed);
    world.settings.inbound = Inbound::Anyone;
    let inbound = permit(
        &world,
        &of("INVITE", "sip:bob@example.org", STRANGER, BOB, ""),
    );
    world.settings.trusted = vec![TrustedPeer {
        may_relay: false,
        trunk: Some("provider".into()),
        ..peer("192.0.2.9", 32, false)
    }];
    let trunk = permit(
        &world,
        &of("INVITE", "sip:bob@example.org", STRANGER, BOB, ""),
    );
    world.settings.trusted = vec![peer("192.0.2.9", 32, false)];
    let peer = permit(&world, &invite);
    world.settings.authenticate = None;
    let open = permit(&world, &invite);
    let alice: &[u8] = b"sip:alice@example.org";
    for (permit, relays, routes, binds, asserts) in [
        (&open, true, true, true, true),
        (&peer, true, true, false, true),
        (&user, true, true, false, false),
        (&registering, true, true, true, false),
        (&dialog, true, false, false, false),
        (&inbound, false, false, false, false),
        (&trunk, false, false, false, true),
    ] {
        let opens = (
            permit.may_relay(),
            permit.may_use_routes(),
            permit.may_bind(alice),
            permit.may_assert(),
        );
        assert_eq!(opens, (relays, routes, binds, asserts), "{permit:?}");
    }
    // RFC 3261 10.3: "If the authenticated user is not authorized to modify bindings, the registrar MUST
    // return a 403 (Forbidden) and skip the remaining steps."
    for other in [
        &b"sip:bob@example.org"[..],
        b"sip:alice@example.net",
        b"sip:alice@example.or",
        b"",
        b"sip:Alice@example.org",
    ] {
        assert!(!registering.may_bind(other));
    }
}

fn permit(world: &World, text: &str) -> Permit {
    match world.judge(&udp(), &parse(text.as_bytes())) {
        Gate::Pass(permit) => permit,
        other => panic!("{other:?}"),
    }
}

// Peers.

fn peer(addr: &str, prefix_len: u8, secure_only: bool) -> TrustedPeer {
    TrustedPeer {
        secure_only,
        ..TrustedPeer::at(addr.parse().unwrap(), prefix_len)
    }
}

#[test]
fn without_authentication_everything_is_open() {
    let world = World::open();
    for method in METHODS {
        for from in [ALICE, STRANGER] {
            assert_eq!(
                judged(
                    &world,
                    &udp(),
                    &of(method, "sip:bob@elsewhere.example", from, BOB, "")
                ),
                "open"
            );
        }
    }
}

// What is forwarded.

fn stripped(world: &World, permit: &Permit, message: &Message) -> Vec<String> {
    let mut spans = Vec::new();
    permit.strip(&world.context(), message, &mut spans);
    assert!(
        spans.is_sorted_by(|a, b| a.end <= b.start),
        "in order and apart"
    );
    let name = |line: &str| line.split_once(':').unwrap().0.to_owned();
    spans
        .into_iter()
        .map(|span| name(std::str::from_utf8(message.slice(span)).unwrap()))
        .collect()
}

#[test]
fn our_credentials_go_no_further_and_others_pass() {
    // RFC 3261 22.3: "Proxies MUST NOT add values to the Proxy-Authorization header field."
    // RFC 3261 22.3: "When multiple proxies are used in a chain, a Proxy-Authorization header field value
    // MUST NOT be consumed by any proxy whose realm does not match the "realm" parameter specified in that
    // value."
    let mut world = World::new();
    let lines = "P-Preferred-Identity: <sip:alice@example.org>\r\n\
                 Proxy-Authorization: Digest realm=\"elsewhere\", username=\"a\"\r\n\
                 Authorization: Digest realm=\"elsewhere\", username=\"a\"\r\n\
                 X-Between: 1\r\n\
                 authorization: Digest realm=\"example.net\", username=\"a\"\r\n\
                 P-Asserted-Identity: <sip:alice@example.org>\r\n";
    let text = of("INVITE", "sip:bob@example.org", ALICE, BOB, lines);
    let signed = world.sign_as(&udp(), &text, "alice", "example.org");
    let user = permit(&world, &signed);
    let message = parse(signed.as_bytes());
    let cut = stripped(&world, &user, &message);
    assert_eq!(
        cut,
        [
            "Proxy-Authorization",
            "P-Preferred-Identity",
            "authorization",
            "P-Asserted-Identity"
        ]
    );
    world.settings.trusted = vec![peer("192.0.2.9", 32, false)];
    let peer = permit(&world, &signed);
    assert_eq!(
        stripped(&world, &peer, &message),
        ["Proxy-Authorization", "authorization"]
    );
    world.settings.authenticate = None;
    let open = permit(&world, &signed);
    assert_eq!(stripped(&world, &open, &message), [""; 0]);
}

#[test]
fn the_document_of_the_hook_has_every_class_that_it_is_asked_about() {
    // Nobody is asked about what is part of a dialog.
    let seal = || Seal(());
    let mut classes = [
        Permit::Open(seal()),
        Permit::Peer(seal()),
        Permit::Inbound(seal()),
        Permit::Directed(seal()),
        Permit::Trunk(seal()),
        Permit::Emergency(seal()),
    ]
    .map(|permit| permit.class(false))
    .to_vec();
    classes.sort_unstable();
    classes.dedup();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/HOOK.md");
    let text = std::fs::read_to_string(path).unwrap();
    let row = text
        .lines()
        .find_map(|line| line.strip_prefix("| `class` |"));
    let words = row.unwrap().split('`').skip(1).step_by(2);
    let mut told: Vec<&str> = words.filter(|word| !word.starts_with('[')).collect();
    told.sort_unstable();
    assert_eq!(told, classes);
}
