//! Users and strangers, by their credentials.

use super::*;

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
        // Who hides may call, and not register.
        (
            "REGISTER",
            "<sip:anonymous@anonymous.invalid>;tag=1",
            alice,
            String::new(),
            "403",
        ),
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
fn each_line_of_credentials_is_looked_at_as_often_whatever_the_number_of_domains() {
    let hidden = "<sip:anonymous@anonymous.invalid>;tag=1";
    let line = |realm: &str| {
        format!("Proxy-Authorization: Digest realm=\"{realm}\", username=\"a\", x=y\r\n")
    };
    let text = |lines: &str| of("MESSAGE", "sip:bob@example.org", hidden, BOB, lines);
    let mut asked = Vec::new();
    for count in [2, 2_000] {
        let mut world = World::new();
        let more = (2..count).map(|n| format!("d{n}.example").into());
        world.settings.domains.extend(more);
        world.own = Own::new(&world.settings);
        assert_eq!(
            judged(&world, &udp(), &text(&line("zz").repeat(200))),
            "407"
        );
        asked.push(world.own.realms_asked());
        // What is cut from an ordinary request of a user is found as soon.
        let last = world.settings.domains.last().unwrap().clone();
        let request = parse(text(&(line("zz") + &line(&last))).as_bytes());
        let mut spans = Vec::new();
        let permit = Permit::Peer(Seal(()));
        permit.strip(&world.context(), &request, &mut spans);
        assert_eq!(spans.len(), 1);
        assert_eq!(request.slice(spans[0]), line(&last).as_bytes());
        assert_eq!(world.own.realms_asked(), 2);
    }
    assert_eq!(asked[0], asked[1], "each line, twice at most");
    assert!((200..=400).contains(&asked[0]), "{asked:?}");
}

#[test]
fn who_hides_is_asked_in_the_realm_that_his_credentials_are_for() {
    let mut world = World::new();
    let more = (0..2_000).map(|n| format!("d{n}.example").into());
    world.settings.domains.extend(more);
    world.own = Own::new(&world.settings);
    let user = ("alice".to_owned(), "d1999.example".to_owned());
    world.users.insert(user, "x".to_owned());
    let hidden = "<sip:anonymous@anonymous.invalid>;tag=1";
    let preferred = "P-Preferred-Identity: <sip:alice@D1999.example>\r\n";
    let text = of("INVITE", "sip:bob@example.org", hidden, BOB, preferred);
    let signed = world.sign_as(&udp(), &text, "alice", "d1999.example");
    let bare = signed.replace(preferred, "");
    assert_eq!(judged(&world, &udp(), &bare), "alice");
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
        // When to come again, as the queue of the store has it, or else the configuration.
        for (retry_after_s, told) in [(None, &b"5"[..]), (Some(17), &b"17"[..])] {
            let Gate::Lookup(pending) = world.gate(&udp(), &signed) else {
                panic!("no look-up")
            };
            let subject = pending.question().subject;
            assert_eq!(
                (subject.user(), &**subject.realm()),
                (&b"alice"[..], "example.org")
            );
            let failed = Err(Unavailable { retry_after_s });
            let Gate::Refuse(refusal) = gate_finish(&cx, pending, &signed, failed) else {
                panic!("let in")
            };
            let response = world.response(&refusal, &signed);
            assert_eq!(response.status(), status);
            // RFC 3261 20.33: "The Retry-After header field can be used with a 500 (Server
            // Internal Error) or 503 (Service Unavailable) response to indicate how long the
            // service is expected to be unavailable to the requesting client"
            assert_eq!(
                response.first(HeaderName::RetryAfter).map(|f| f.value),
                Some(told)
            );
        }
    }
}

#[test]
fn until_all_domains_are_known_nobody_is_told_that_he_is_foreign() {
    let mut world = World::new();
    let from = "<sip:alice@later.example>;tag=1";
    let own = "<sip:alice@later.example>";
    let register = request("REGISTER", "sip:later.example", from, own, "");
    let call = request("INVITE", "sip:bob@later.example", from, own, "");
    let ack = request("ACK", "sip:bob@later.example", from, own, "");
    let ours = of("REGISTER", "", ALICE, "<sip:alice@example.org>", "");
    for (knows_all_domains, of_register, of_call) in [(false, "500", "503"), (true, "403", "403")] {
        world.settings.authenticate = Some(AuthSettings {
            knows_all_domains,
            ..AuthSettings::default()
        });
        for inbound in [Inbound::Trusted, Inbound::Anyone] {
            world.settings.inbound = inbound;
            assert_eq!(judged(&world, &udp(), &register), of_register);
            assert_eq!(judged(&world, &udp(), &call), of_call);
            assert_eq!(judged(&world, &udp(), &ack), "drop");
            assert_eq!(judged(&world, &udp(), &ours), "401");
        }
        // Nor does a peer learn so that it may call our users alone.
        world.settings.inbound = Inbound::Trusted;
        world.settings.trusted = vec![TrustedPeer {
            may_relay: false,
            ..peer("192.0.2.9", 32, false)
        }];
        assert_eq!(judged(&world, &udp(), &call), of_call);
        world.settings.trusted.clear();
    }
    world.settings.authenticate = Some(AuthSettings {
        knows_all_domains: false,
        ..AuthSettings::default()
    });
    let message = parse(register.as_bytes());
    let Gate::Refuse(refusal) = world.judge(&udp(), &message) else {
        panic!("she is let in");
    };
    assert!(
        world
            .response(&refusal, &message)
            .has(HeaderName::RetryAfter)
    );
}
