//! What a certificate opens: for neighbours by their domains, for users by
//! their URIs, and for nobody by anything else.

use sip_msg::VerifiedPeer;

use super::*;
use crate::own::Own;

/// A peer with these names in its certificate; those with a user are URIs only.
#[allow(clippy::disallowed_methods, reason = "the tests make their own proofs")]
fn proved(names: &[&str], is_client: bool) -> Option<Arc<VerifiedPeer>> {
    let (uris, domains): (Vec<&str>, Vec<&str>) = names.iter().partition(|n| n.contains(':'));
    let own = |names: Vec<&str>| names.into_iter().map(Box::from).collect();
    let peer = VerifiedPeer::attest(own(domains), own(uris), u64::MAX, is_client);
    Some(Arc::new(peer))
}

fn tls() -> Flow {
    flow(Transport::Tls, "192.0.2.9:40000")
}

const OUR_BOB: &str = "sip:bob@example.org";
const OUTSIDE: &str = "sip:x@elsewhere.example";

fn from(host: &str) -> String {
    format!("<sip:eve@{host}>;tag=1")
}

#[test]
fn a_neighbour_is_known_by_its_certificate_and_speaks_for_what_is_in_it() {
    let mut world = World::new();
    world.settings.trusted = vec![TrustedPeer::proven("peer.example".into())];
    // What the certificate names, what From does, what the gate says.
    let matrix: &[(&[&str], &str, &str)] = &[
        (&["peer.example"], "peer.example", "peer"),
        (&["peer.example"], "PEER.example.", "peer"),
        (&["peer.example"], "sub.peer.example", "403"),
        (&["peer.example"], "other.example", "403"),
        (&["peer.example", "other.example"], "other.example", "peer"),
        // One of ours is for its user alone, whatever the neighbour is.
        (&["peer.example"], "example.org", "403"),
        (&["peer.example"], "192.0.2.1", "403"),
        // Whoever hides has no other name there.
        (&["peer.example"], "anonymous.invalid", "403"),
        // Another's certificate makes nobody this neighbour.
        (&["other.example"], "other.example", "403"),
        (&["other.example"], "peer.example", "403"),
        (&["sip:peer@peer.example"], "peer.example", "403"),
    ];
    for (names, host, said) in matrix {
        world.peer = proved(names, true);
        for uri in [OUR_BOB, OUTSIDE] {
            for method in METHODS.into_iter().filter(|m| *m != "REGISTER") {
                let text = of(method, uri, &from(host), BOB, "");
                let expected = match (*said, method) {
                    ("403", "ACK") => "drop",
                    (said, _) => said,
                };
                assert_eq!(
                    judged(&world, &tls(), &text),
                    expected,
                    "{method} {names:?} {host}"
                );
            }
        }
    }
    world.peer = proved(&["peer.example"], true);
    for hidden in ["anonymous@anonymous.invalid", "anonymous.invalid"] {
        let hidden = format!("<sip:{hidden}>;tag=1");
        let text = of("INVITE", OUR_BOB, &hidden, BOB, "");
        assert_eq!(judged(&world, &tls(), &text), "peer", "{hidden}");
    }
    // Without a proof it is a stranger, from wherever it comes.
    world.peer = None;
    let text = of("INVITE", OUR_BOB, &from("peer.example"), BOB, "");
    assert_eq!(judged(&world, &tls(), &text), "403");
}

#[test]
fn what_is_refused_says_for_whom_it_did_not_speak() {
    let mut world = World::new();
    world.settings.trusted = vec![TrustedPeer::proven("peer.example".into())];
    world.peer = proved(&["peer.example"], true);
    let refused = |world: &World, from: &str, lines: &str| {
        let text = of("INVITE", OUR_BOB, from, BOB, lines);
        match world.judge(&tls(), &parse(text.as_bytes())) {
            Gate::Refuse(refusal) => refusal.claimed().map(str::to_owned),
            other => panic!("{other:?}"),
        }
    };
    let said = refused(&world, &from("bank.example"), "");
    assert_eq!(said.as_deref(), Some("bank.example"));
    let asserted = "P-Asserted-Identity: <sip:x@bank.example>\r\n";
    let said = refused(&world, &from("peer.example"), asserted);
    assert_eq!(said.as_deref(), Some("bank.example"));
    // A stranger without a certificate is refused for being one.
    world.peer = None;
    assert_eq!(refused(&world, &from("bank.example"), ""), None);
}

#[test]
fn the_operator_writes_down_for_whom_a_neighbour_speaks() {
    let mut world = World::new();
    let entry = |names: &[&str]| TrustedPeer {
        speaks_for: Some(names.iter().map(|name| Arc::from(*name)).collect()),
        ..TrustedPeer::proven("peer.example".into())
    };
    world.peer = proved(&["peer.example"], true);
    for (names, host, said) in [
        (&["a.example", "b.example"][..], "b.example", "peer"),
        (&["a.example"], "peer.example", "403"),
        (&["*"], "anything.example", "peer"),
        (&["*"], "example.org", "403"),
        (&["*"], "192.0.2.1", "403"),
        (&["example.org"], "example.org", "peer"),
        (&[], "peer.example", "403"),
    ] {
        world.settings.trusted = vec![entry(names)];
        let text = of("INVITE", OUTSIDE, &from(host), BOB, "");
        assert_eq!(judged(&world, &tls(), &text), said, "{names:?} {host}");
        let tel = of("INVITE", OUTSIDE, "<tel:+4912345>;tag=1", BOB, "");
        assert_eq!(judged(&world, &tls(), &tel), "peer");
    }
    // In every header that a gateway may show or charge, and not in From alone.
    world.settings.trusted = vec![entry(&["a.example"])];
    for header in [
        "P-Asserted-Identity",
        "P-Preferred-Identity",
        "Remote-Party-ID",
        "P-Charge-Info",
    ] {
        for (host, said) in [("a.example", "peer"), ("example.org", "403")] {
            let line = format!("{header}: <sip:x@{host}>\r\n");
            let text = of("INVITE", OUTSIDE, &from("a.example"), BOB, &line);
            assert_eq!(judged(&world, &tls(), &text), said, "{line}");
        }
    }
    // Who speaks for every domain but ours has none of ours read where nothing is read here, and
    // may write loosely what he likes.
    world.settings.trusted = vec![entry(&["*"])];
    for (identity, said) in [
        ("<sip:x@a.example>, <sip:y@b.example>;z=1", "peer"),
        ("<sip:x@a.example>, <sip:y@example.org>;z=1", "403"),
        ("<sip:x@example.org>;=", "403"),
        ("\"open <sip:x@Example.ORG.>", "403"),
        ("<sip:x y@192.0.2.1>", "403"),
        ("<sip:x y@ex%61mple.org>", "403"),
        ("<sip:x y@[2001:db8::1]>", "403"),
        ("Doe, John <sip:+49301@a.example>", "peer"),
        ("<sip:@a.example>", "peer"),
        ("<tel:anonymous>", "peer"),
    ] {
        for header in ["P-Asserted-Identity", "Remote-Party-ID"] {
            let line = format!("{header}: {identity}\r\n");
            let text = of("INVITE", OUTSIDE, &from("a.example"), BOB, &line);
            assert_eq!(judged(&world, &tls(), &text), said, "{line}");
        }
    }
    // The same for one that is known by its address.
    world.peer = None;
    world.settings.trusted = vec![TrustedPeer {
        speaks_for: Some(vec!["a.example".into()]),
        ..TrustedPeer::at("192.0.2.9".parse().unwrap(), 32)
    }];
    for (host, said) in [("a.example", "peer"), ("b.example", "403")] {
        let text = of("INVITE", OUTSIDE, &from(host), BOB, "");
        assert_eq!(judged(&world, &udp(), &text), said, "{host}");
    }
}

#[test]
fn two_domains_behind_one_address_are_two_neighbours() {
    let mut world = World::new();
    let at = |name: &str| TrustedPeer {
        network: Some("192.0.2.9/32".parse().unwrap()),
        ..TrustedPeer::proven(name.into())
    };
    world.settings.trusted = vec![at("a.example"), at("b.example")];
    for (proven, host, said) in [
        ("a.example", "a.example", "peer"),
        ("a.example", "b.example", "403"),
        ("b.example", "b.example", "peer"),
        ("b.example", "a.example", "403"),
        ("c.example", "a.example", "403"),
    ] {
        world.peer = proved(&[proven], true);
        let text = of("INVITE", OUTSIDE, &from(host), BOB, "");
        assert_eq!(judged(&world, &tls(), &text), said, "{proven} as {host}");
    }
    // Certificate and address are both asked for.
    world.peer = proved(&["a.example"], true);
    let text = of("INVITE", OUTSIDE, &from("a.example"), BOB, "");
    let elsewhere = flow(Transport::Tls, "192.0.2.10:40000");
    assert_eq!(judged(&world, &elsewhere, &text), "403");
}

#[test]
fn an_entry_that_asks_for_nothing_is_nobodys() {
    let mut world = World::new();
    world.settings.trusted = vec![TrustedPeer {
        identity: None,
        ..TrustedPeer::proven("x".into())
    }];
    let text = of("INVITE", OUTSIDE, STRANGER, BOB, "");
    assert_eq!(judged(&world, &tls(), &text), "403");
}

#[test]
fn a_neighbour_that_may_not_relay_reaches_our_users_alone() {
    let mut world = World::new();
    world.settings.trusted = vec![TrustedPeer {
        may_relay: false,
        ..TrustedPeer::proven("peer.example".into())
    }];
    world.peer = proved(&["peer.example"], true);
    let to = |uri: &str| of("INVITE", uri, &from("peer.example"), BOB, "");
    assert_eq!(judged(&world, &tls(), &to(OUR_BOB)), "inbound");
    assert_eq!(judged(&world, &tls(), &to(OUTSIDE)), "403");
    assert_eq!(judged(&world, &tls(), &to("tel:+4912345")), "403");
}

#[test]
fn no_neighbour_registers_by_its_certificate() {
    let mut world = World::new();
    world.settings.trusted = vec![TrustedPeer::proven("example.org".into())];
    world.settings.listeners[2].certificates_authenticate = true;
    for names in [
        &["example.org"][..],
        &["peer.example"],
        &["sip:example.org"],
    ] {
        world.peer = proved(names, true);
        let text = request(
            "REGISTER",
            "sip:example.org",
            ALICE,
            "<sip:alice@example.org>",
            "",
        );
        assert_eq!(judged(&world, &tls(), &text), "401", "{names:?}");
    }
}

#[test]
fn who_proves_a_domain_may_call_in_where_the_operator_says_so() {
    let mut world = World::new();
    // Whom it proved to be, whom it names, and what is said with "trusted",
    // "proven" and "anyone".
    let matrix: &[(&[&str], &str, [&str; 3])] = &[
        (
            &["far.example"],
            "<sip:eve@far.example>;tag=1",
            ["403", "inbound", "inbound"],
        ),
        (
            &["far.example"],
            "<sip:eve@bank.example>;tag=1",
            ["403", "403", "403"],
        ),
        (
            &["sip:eve@far.example"],
            "<sip:eve@far.example>;tag=1",
            ["403", "inbound", "inbound"],
        ),
        (
            &["sip:eve@far.example"],
            "<sip:mallory@far.example>;tag=1",
            ["403", "403", "403"],
        ),
        (&[], "<sip:eve@far.example>;tag=1", ["403", "403", "403"]),
    ];
    let modes = [Inbound::Trusted, Inbound::Proven, Inbound::Anyone];
    for (names, from, said) in matrix {
        world.peer = proved(names, true);
        for (inbound, said) in modes.into_iter().zip(said) {
            world.settings.inbound = inbound;
            let text = of("INVITE", OUR_BOB, from, BOB, "");
            assert_eq!(
                judged(&world, &tls(), &text),
                *said,
                "{inbound:?} {names:?} {from}"
            );
            // It never leaves again for others.
            let text = of("INVITE", OUTSIDE, from, BOB, "");
            assert_eq!(judged(&world, &tls(), &text), "403");
        }
    }
    world.peer = None;
    for (inbound, said) in modes.into_iter().zip(["403", "403", "inbound"]) {
        world.settings.inbound = inbound;
        let text = of("INVITE", OUR_BOB, STRANGER, BOB, "");
        assert_eq!(judged(&world, &tls(), &text), said, "{inbound:?}");
    }
}

#[test]
fn a_users_certificate_is_no_password_unless_the_listener_takes_it() {
    let mut world = World::new();
    let register = |from: &str, to: &str| request("REGISTER", "sip:example.org", from, to, "");
    let alice = "<sip:alice@example.org>";
    for takes in [false, true] {
        world.settings.listeners[2].certificates_authenticate = takes;
        // The certificate, From, To, and what is said where certificates count.
        let matrix: &[(&[&str], &str, &str, &str)] = &[
            (&["sip:alice@example.org"], ALICE, alice, "alice"),
            (
                &["sip:%61lice@EXAMPLE.org;user=ip"],
                ALICE,
                "<sips:alice@example.org.>",
                "alice",
            ),
            // Not his.
            (&["sip:bob@example.org"], ALICE, alice, "401"),
            (
                &["sip:alice@example.org"],
                ALICE,
                "<sip:bob@example.org>",
                "401",
            ),
            (&["sip:Alice@example.org"], ALICE, alice, "401"),
            (&["sip:alice@example.net"], ALICE, alice, "401"),
            (&["sip:alice@192.0.2.1"], ALICE, alice, "401"),
            // A domain is no user, and neither is a name that looks like one.
            (&["example.org"], ALICE, alice, "401"),
            (&["sip:example.org"], ALICE, alice, "401"),
            (&["mailto:alice@example.org"], ALICE, alice, "401"),
            (&["sip:alice@example.org@example.org"], ALICE, alice, "401"),
            // Who was removed is nobody, whatever his certificate says.
            (
                &["sip:dave@example.org"],
                "<sip:dave@example.org>;tag=1",
                "<sip:dave@example.org>",
                "401",
            ),
        ];
        for (names, from, to, said) in matrix {
            world.peer = proved(names, true);
            let said = if takes { *said } else { "401" };
            assert_eq!(
                judged(&world, &tls(), &register(from, to)),
                said,
                "{takes} {names:?} {from} {to}"
            );
        }
    }
    world.peer = proved(&["sip:alice@example.org"], true);
    let register = register(ALICE, alice);
    assert_eq!(judged(&world, &tls(), &register), "alice");
    let call = of("INVITE", OUTSIDE, ALICE, BOB, "");
    assert_eq!(judged(&world, &tls(), &call), "alice");
    let asserting = of(
        "INVITE",
        OUTSIDE,
        ALICE,
        BOB,
        "P-Asserted-Identity: <sip:bob@example.org>\r\n",
    );
    assert_eq!(judged(&world, &tls(), &asserting), "403");
    // The permit is for his own contacts.
    let Gate::Pass(permit) = world.judge(&tls(), &parse(register.as_bytes())) else {
        panic!()
    };
    assert!(permit.may_bind(b"sip:alice@example.org"));
    assert!(!permit.may_bind(b"sip:bob@example.org"));
    // Not over another transport, and not from a server that we called.
    assert_eq!(
        judged(&world, &flow(Transport::Tcp, "192.0.2.9:5060"), &register),
        "401"
    );
    world.peer = proved(&["sip:alice@example.org"], false);
    assert_eq!(judged(&world, &tls(), &register), "401");
    // The address of this server is a domain of ours, and proves no user.
    world.settings.domains.clear();
    world.own = Own::new(&world.settings);
    world.peer = proved(&["sip:alice@192.0.2.1"], true);
    let at_address = request(
        "REGISTER",
        "sip:192.0.2.1:5061;transport=tls",
        "<sip:alice@192.0.2.1>;tag=1",
        "<sip:alice@192.0.2.1>",
        "",
    );
    assert_eq!(judged(&world, &tls(), &at_address), "401");
}

#[test]
fn without_knowing_who_exists_no_certificate_is_a_password() {
    let mut world = World::new();
    world.settings.listeners[2].certificates_authenticate = true;
    world.peer = proved(&["sip:alice@example.org"], true);
    let register = request(
        "REGISTER",
        "sip:example.org",
        ALICE,
        "<sip:alice@example.org>",
        "",
    );
    assert_eq!(judged(&world, &tls(), &register), "alice");
    assert!(
        world
            .settings
            .takes_certificates_of_unknown_users()
            .is_none()
    );
    world.settings.authenticate = Some(AuthSettings {
        tells_unknown_users: false,
        ..AuthSettings::default()
    });
    assert_eq!(judged(&world, &tls(), &register), "401");
    // Such settings are not to be used at all, and it is said because of which listener.
    let listener = world.settings.takes_certificates_of_unknown_users();
    assert_eq!(listener.map(|of| of.transport), Some(Transport::Tls));
    world.settings.listeners[2].certificates_authenticate = false;
    assert!(
        world
            .settings
            .takes_certificates_of_unknown_users()
            .is_none()
    );
}
