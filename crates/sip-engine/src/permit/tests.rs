//! The matrix of method, From, source, credentials and token; then one test
//! for each claim of the module's argument.

mod certificates;
mod dialogs;
mod hijack;

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

#[test]
fn every_method_of_a_user_of_ours_is_challenged() {
    let world = World::new();
    for method in METHODS {
        for to in [BOB, BOB_TAGGED] {
            for uri in [
                "sip:bob@example.org",
                "sip:example.org",
                "sip:x@elsewhere.example",
                "tel:+4912345",
            ] {
                let said = judged(&world, &udp(), &of(method, uri, ALICE, to, ""));
                // RFC 3261 22.1: "Servers MUST NOT attempt to challenge an ACK."
                let expected = match method {
                    "ACK" => "drop",
                    // RFC 3261 22.1: "Additionally, registrars and redirect servers MAY make use of 401
                    // (Unauthorized) responses for authentication, but proxies MUST NOT, and instead
                    // MAY use the 407 (Proxy Authentication Required) response."
                    "REGISTER" => "401",
                    _ => "407",
                };
                assert_eq!(said, expected, "{method} {uri} {to}");
            }
        }
    }
}

#[test]
fn every_method_with_his_credentials_is_his() {
    let mut world = World::new();
    for method in METHODS.into_iter().filter(|method| *method != "ACK") {
        for to in [BOB, BOB_TAGGED] {
            let to = if method == "REGISTER" {
                "<sip:alice@example.org>"
            } else {
                to
            };
            let text = of(method, "sip:bob@example.org", ALICE, to, "");
            let signed = world.sign_as(&udp(), &text, "alice", "example.org");
            assert_eq!(judged(&world, &udp(), &signed), "alice", "{method}");
            // Once only: the nonce count was used.
            assert_eq!(
                judged(&world, &udp(), &signed),
                if method == "REGISTER" { "401" } else { "407" }
            );
        }
    }
}

#[test]
fn strangers_are_refused_unless_the_operator_lets_them_in() {
    let mut world = World::new();
    for inbound in [Inbound::Trusted, Inbound::Anyone] {
        world.settings.inbound = inbound;
        for method in METHODS {
            for (uri, is_for_a_user) in [
                ("sip:bob@example.org", true),
                ("sip:nobody@example.org", true),
                ("sips:bob@192.0.2.1", true),
                ("sip:example.org", false),
                ("sip:bob@elsewhere.example", false),
                ("tel:+4912345", false),
            ] {
                for to in [BOB, BOB_TAGGED] {
                    let said = judged(&world, &udp(), &of(method, uri, STRANGER, to, ""));
                    let expected = match method {
                        "REGISTER" => "401",
                        _ if inbound == Inbound::Anyone && is_for_a_user => "inbound",
                        "ACK" => "drop",
                        _ => "403",
                    };
                    assert_eq!(said, expected, "{method} {uri} {to}");
                }
            }
        }
    }
}

#[test]
fn a_from_that_only_looks_foreign_is_ours() {
    let mut world = World::new();
    world.settings.inbound = Inbound::Anyone;
    for from in [
        "<sip:alice@EXAMPLE.ORG>;tag=1",
        "<sip:alice@example.org.>;tag=1",
        "<sip:alice@example.org:5099>;tag=1",
        "<sips:alice@example.org>;tag=1",
        "<sip:alice@192.0.2.1>;tag=1",
        "<sip:example.org>;tag=1",
        "<sip:%61lice@example.org;user=phone>;tag=1",
    ] {
        assert_eq!(
            judged(
                &world,
                &udp(),
                &of("INVITE", "sip:bob@example.org", from, BOB, "")
            ),
            "407",
            "{from}"
        );
    }
}

#[test]
fn a_user_speaks_for_himself_only() {
    let mut world = World::new();
    let bob = "<sip:bob@example.org>";
    let alice = "<sip:alice@example.org>";
    let pai = |who: &str| format!("P-Asserted-Identity: {who}\r\n");
    for (method, from, to, lines, expected) in [
        ("INVITE", ALICE, BOB, String::new(), "alice"),
        ("INVITE", ALICE, BOB, pai(alice), "alice"),
        (
            "INVITE",
            "<sip:%61lice@EXAMPLE.org:5070;x=y>;tag=1",
            BOB,
            String::new(),
            "alice",
        ),
        (
            "INVITE",
            "<sips:alice@192.0.2.1>;tag=1",
            BOB,
            String::new(),
            "alice",
        ),
        (
            "INVITE",
            "<sip:bob@example.org>;tag=1",
            BOB,
            String::new(),
            "403",
        ),
        (
            "INVITE",
            "<sip:Alice@example.org>;tag=1",
            BOB,
            String::new(),
            "403",
        ),
        (
            "INVITE",
            "<sip:example.org>;tag=1",
            BOB,
            String::new(),
            "403",
        ),
        (
            "INVITE",
            "<sip:alice%00@example.org>;tag=1",
            BOB,
            String::new(),
            "403",
        ),
        ("INVITE", ALICE, BOB, pai(bob), "403"),
        ("INVITE", ALICE, BOB, pai(&format!("{alice}, {bob}")), "403"),
        (
            "INVITE",
            ALICE,
            BOB,
            pai(alice) + &pai("<tel:+4912345>"),
            "403",
        ),
        (
            "INVITE",
            ALICE,
            BOB,
            pai("<sip:alice@elsewhere.example>"),
            "403",
        ),
        (
            "INVITE",
            ALICE,
            BOB,
            pai("\"open <sip:alice@example.org>"),
            "403",
        ),
        (
            "MESSAGE",
            "<sip:bob@example.org>;tag=1",
            BOB_TAGGED,
            String::new(),
            "403",
        ),
        ("REGISTER", ALICE, alice, String::new(), "alice"),
        ("REGISTER", ALICE, bob, String::new(), "403"),
        (
            "REGISTER",
            "<sip:bob@example.org>;tag=1",
            alice,
            String::new(),
            "403",
        ),
        ("REGISTER", STRANGER, alice, String::new(), "403"),
        ("REGISTER", ALICE, alice, pai(bob), "403"),
        (
            "REGISTER",
            ALICE,
            "<sip:alice@elsewhere.example>",
            String::new(),
            "403",
        ),
        (
            "REGISTER",
            ALICE,
            "<sip:%61lice@192.0.2.1>",
            String::new(),
            "alice",
        ),
    ] {
        let text = of(method, "sip:bob@example.org", from, to, &lines);
        let signed = world.sign_as(&udp(), &text, "alice", "example.org");
        assert_eq!(
            judged(&world, &udp(), &signed),
            expected,
            "{method} {from} {to} {lines}"
        );
    }
}

#[test]
fn two_domains_are_two_realms() {
    // RFC 3261 22.1: "Operators of user agents or proxy servers that will authenticate received
    // requests MUST adhere to the following guidelines for creation of a realm string for their
    // server:" and "Realm strings MUST be globally unique."
    let mut world = World::new();
    let net = "<sip:alice@example.net>";
    let text = request(
        "REGISTER",
        "sip:example.net",
        &format!("{net};tag=1"),
        net,
        "",
    );
    let signed = world.sign_as(&udp(), &text, "alice", "example.net");
    assert_eq!(judged(&world, &udp(), &signed), "alice");
    let text = request("REGISTER", "sip:example.net", ALICE, net, "");
    let signed = world.sign_as(&udp(), &text, "alice", "example.net");
    assert_eq!(
        judged(&world, &udp(), &signed),
        "403",
        "From is another domain's alice"
    );
    // With one realm for all domains the user's name alone counts.
    world.settings.authenticate = Some(AuthSettings {
        realm: Some("all".into()),
        ..AuthSettings::default()
    });
    world
        .users
        .insert(("alice".into(), "all".into()), "x".into());
    let signed = world.sign_as(&udp(), &text, "alice", "all");
    assert_eq!(judged(&world, &udp(), &signed), "alice");
}

#[test]
fn unknown_users_and_wrong_passwords_get_the_same_answer() {
    let mut world = World::new();
    for method in ["REGISTER", "INVITE"] {
        let mut shapes = Vec::new();
        for (user, password) in [
            ("alice", "wrong"),
            ("nobody", "wrong"),
            ("nob0dy", "alice of example.org"),
        ] {
            let who = format!("<sip:{user}@example.org>");
            let text = of(
                method,
                "sip:bob@example.org",
                &format!("{who};tag=1"),
                &who,
                "",
            );
            let signed = world.sign(&udp(), &text, user, "example.org", password);
            let signed = parse(signed.as_bytes());
            // The store is asked in every case: nobody is refused sooner.
            assert_eq!(word(&world.gate(&udp(), &signed)), "lookup");
            let Gate::Refuse(refusal) = world.judge(&udp(), &signed) else {
                panic!("{user} got in")
            };
            let response = world.response(&refusal, &signed);
            let names: Vec<_> = response
                .fields()
                .map(|f| (f.name, f.raw_name.to_vec()))
                .collect();
            // RFC 3261 22.2: "The WWW-Authenticate response-header field MUST be included in 401
            // (Unauthorized) response messages."
            // RFC 3261 22.3: "The proxy MUST populate the 407 (Proxy Authentication Required) message
            // with a Proxy-Authenticate header field value applicable to the proxy for the requested
            // resource."
            let challenges = response.fields_of(refusal_header(method));
            let lengths: Vec<_> = challenges.map(|f| f.value.len()).collect();
            assert!(!lengths.is_empty());
            shapes.push((response.status(), names, lengths));
        }
        assert_eq!(shapes[0], shapes[1]);
        assert_eq!(shapes[0], shapes[2]);
    }
}

fn refusal_header(method: &str) -> HeaderName {
    if method == "REGISTER" {
        HeaderName::WwwAuthenticate
    } else {
        HeaderName::ProxyAuthenticate
    }
}

#[test]
fn credentials_that_make_no_sense_are_400() {
    let world = World::new();
    let text = of("INVITE", "sip:bob@example.org", ALICE, BOB, "");
    let bad = with_lines(
        &text,
        "Proxy-Authorization: Digest realm=\"example.org\", nonce=\r\n",
    );
    assert_eq!(judged(&world, &udp(), &bad), "400");
    // Those of another realm are none of ours.
    let foreign = with_lines(
        &text,
        "Proxy-Authorization: Digest realm=\"elsewhere\", nonce=\"x\"\r\n",
    );
    assert_eq!(judged(&world, &udp(), &foreign), "407");
}

#[test]
fn a_store_that_cannot_say_is_503_and_500_for_a_registration() {
    let mut world = World::new();
    for (method, to, status) in [
        ("INVITE", BOB, 503),
        ("REGISTER", "<sip:alice@example.org>", 500),
    ] {
        let text = of(method, "sip:bob@example.org", ALICE, to, "");
        let signed = parse(
            world
                .sign_as(&udp(), &text, "alice", "example.org")
                .as_bytes(),
        );
        let cx = world.context();
        let Gate::Lookup(pending) = world.gate(&udp(), &signed) else {
            panic!("no look-up")
        };
        assert_eq!(
            (pending.key().user(), &**pending.key().realm()),
            (&b"alice"[..], "example.org")
        );
        let Gate::Refuse(refusal) = gate_finish(&cx, pending, &signed, Err(())) else {
            panic!("let in")
        };
        let response = world.response(&refusal, &signed);
        assert_eq!(response.status(), status);
        assert_eq!(
            response.first(HeaderName::RetryAfter).map(|f| f.value),
            Some(&b"5"[..])
        );
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
        next: next.as_ref(),
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
fn peers_are_known_by_address_and_cannot_register() {
    let mut world = World::new();
    for (peer, remote, transport, is_trusted) in [
        (
            peer("192.0.2.0", 24, false),
            "192.0.2.9:1",
            Transport::Udp,
            true,
        ),
        (
            peer("192.0.2.0", 24, false),
            "[::ffff:192.0.2.9]:1",
            Transport::Udp,
            true,
        ),
        (
            peer("192.0.2.0", 24, false),
            "192.0.3.9:1",
            Transport::Udp,
            false,
        ),
        (
            peer("192.0.2.9", 32, false),
            "192.0.2.8:1",
            Transport::Udp,
            false,
        ),
        (
            peer("192.0.2.9", 255, false),
            "192.0.2.9:1",
            Transport::Udp,
            true,
        ),
        (
            peer("0.0.0.0", 0, false),
            "203.0.113.200:1",
            Transport::Udp,
            true,
        ),
        (
            peer("0.0.0.0", 0, false),
            "[2001:db8::1]:1",
            Transport::Udp,
            false,
        ),
        (
            peer("2001:db8::", 32, false),
            "[2001:db8:ffff::1]:1",
            Transport::Tcp,
            true,
        ),
        (
            peer("2001:db8::", 32, false),
            "[2001:db9::1]:1",
            Transport::Tcp,
            false,
        ),
        (
            peer("::", 0, false),
            "[2001:db8::1]:1",
            Transport::Udp,
            true,
        ),
        (
            peer("192.0.2.0", 24, true),
            "192.0.2.9:1",
            Transport::Tls,
            true,
        ),
        (
            peer("192.0.2.0", 24, true),
            "192.0.2.9:1",
            Transport::Udp,
            false,
        ),
        (
            peer("192.0.2.0", 24, true),
            "192.0.2.9:1",
            Transport::Tcp,
            false,
        ),
    ] {
        world.settings.trusted = vec![peer.clone()];
        let flow = flow(transport, remote);
        for method in METHODS {
            for from in [ALICE, STRANGER] {
                let lines = "P-Asserted-Identity: <sip:bob@example.org>\r\n";
                let said = judged(
                    &world,
                    &flow,
                    &of(method, "sip:bob@example.org", from, BOB_TAGGED, lines),
                );
                let expected = match method {
                    "REGISTER" => "401",
                    _ if is_trusted => "peer",
                    "ACK" => "drop",
                    _ if from == ALICE => "407",
                    _ => "403",
                };
                assert_eq!(said, expected, "{peer:?} {remote} {method} {from}");
            }
        }
    }
}

#[test]
fn a_stranger_may_not_assert_a_user_of_ours() {
    let mut world = World::new();
    world.settings.inbound = Inbound::Anyone;
    for (identity, expected) in [
        ("<sip:eve@elsewhere.example>", "inbound"),
        ("<sip:bob@example.org>", "403"),
        ("<sip:eve@elsewhere.example>, <sips:bob@192.0.2.1>", "403"),
        ("\"open", "403"),
    ] {
        let line = format!("P-Asserted-Identity: {identity}\r\n");
        let said = judged(
            &world,
            &udp(),
            &of("INVITE", "sip:bob@example.org", STRANGER, BOB, &line),
        );
        assert_eq!(said, expected, "{identity}");
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
