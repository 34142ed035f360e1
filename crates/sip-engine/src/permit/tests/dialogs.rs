//! Requests within a dialog: by their token, and by nothing else.

use super::*;

#[test]
fn every_method_within_a_dialog_passes_by_its_token() {
    let world = World::new();
    let line = format!("Route: {}\r\n", route(&world, Origin::Trusted, ""));
    for method in METHODS {
        for from in [ALICE, STRANGER] {
            let text = of(method, "sip:bob@203.0.113.9", from, BOB_TAGGED, &line);
            // A REGISTER is part of no dialog.
            let expected = if method == "REGISTER" {
                "401"
            } else {
                "dialog"
            };
            assert_eq!(judged(&world, &udp(), &text), expected, "{method} {from}");
            let untagged = of(method, "sip:bob@203.0.113.9", from, BOB, &line);
            assert_ne!(
                judged(&world, &udp(), &untagged),
                "dialog",
                "a new request is part of no dialog"
            );
        }
    }
}

#[test]
fn a_token_counts_where_this_servers_routes_stand() {
    let world = World::new();
    let ours = route(&world, Origin::Trusted, "");
    let bye = |uri: &str, lines: &str| {
        judged(
            &world,
            &udp(),
            &request("BYE", uri, ALICE, BOB_TAGGED, lines),
        )
    };
    let uri = "sip:bob@203.0.113.9";
    assert_eq!(
        bye(uri, &format!("Route: {ours}, <sip:next.example;lr>\r\n")),
        "dialog"
    );
    assert_eq!(
        bye(uri, &format!("Route: <sip:192.0.2.1;lr>, {ours}\r\n")),
        "dialog"
    );
    assert_eq!(
        bye(
            uri,
            &format!("Route: <sip:a.example;lr>, <sip:b.example;lr>, {ours}\r\n")
        ),
        "407"
    );
    assert_eq!(
        bye(uri, &format!("Route: {ours}x\r\n")),
        "407",
        "not a Route at all"
    );
    // A strict router puts the Route into the Request-URI.
    let strict = ours.trim_start_matches('<').trim_end_matches('>');
    assert_eq!(bye(strict, "Route: <sip:bob@203.0.113.9>\r\n"), "dialog");
    assert_eq!(bye(strict.trim_end_matches(";lr"), ""), "407");
}

#[test]
fn a_token_of_one_call_reaches_no_other_user_and_no_number() {
    let world = World::new();
    let ours = route(&world, Origin::Trusted, "");
    let strict = ours.trim_start_matches('<').trim_end_matches('>');
    for target in [
        "sip:carol@example.org",
        "sips:carol@EXAMPLE.ORG.;transport=tls",
        "sip:carol@192.0.2.1",
        "sip:+4912345@example.org;user=phone",
        "tel:+4912345",
    ] {
        for method in ["INVITE", "MESSAGE", "NOTIFY", "REFER"] {
            for (uri, routes) in [(target, ours.clone()), (strict, format!("<{target}>"))] {
                for (from, expected) in [(ALICE, "407"), (STRANGER, "403")] {
                    let line = format!("Route: {routes}\r\n");
                    let said = judged(
                        &world,
                        &udp(),
                        &request(method, uri, from, BOB_TAGGED, &line),
                    );
                    assert_eq!(said, expected, "{method} {uri} {routes} {from}");
                }
            }
        }
    }
}

#[test]
fn forged_bye_and_reinvite_are_challenged() {
    let world = World::new();
    let ours = route(&world, Origin::Trusted, "");
    let token_at = "<sip:".len();
    let token_len = ours.find('@').unwrap() - token_at;
    for method in ["BYE", "INVITE", "UPDATE", "INFO", "ACK"] {
        let expected = if method == "ACK" { "drop" } else { "407" };
        let judge = |route: &str, call_id: &str| {
            let text = of(
                method,
                "sip:bob@203.0.113.9",
                ALICE,
                BOB_TAGGED,
                &format!("Route: {route}\r\n"),
            );
            judged(&world, &udp(), &text.replace("call-1", call_id))
        };
        assert_eq!(judge(&ours, "call-1"), "dialog");
        assert_eq!(judge(&ours, "call-2"), expected, "another call's token");
        assert_eq!(judge("<sip:192.0.2.1;lr>", "call-1"), expected, "no token");
        for at in 0..token_len {
            let mut forged = ours.clone().into_bytes();
            let place = &mut forged[token_at + at];
            *place = if *place == b'A' { b'B' } else { b'A' };
            assert_eq!(
                judge(std::str::from_utf8(&forged).unwrap(), "call-1"),
                expected,
                "changed at {at}"
            );
        }
        let other = Tokens::new(&[9; 32]);
        let mut user = Vec::new();
        other.write_route(b"call-1", Origin::Trusted, None, &mut user);
        let forged = format!("<sip:{}@192.0.2.1;lr>", String::from_utf8(user).unwrap());
        assert_eq!(judge(&forged, "call-1"), expected, "another server's key");
    }
}
