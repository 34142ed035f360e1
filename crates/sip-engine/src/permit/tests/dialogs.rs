//! Requests within a dialog: by their token, and by nothing else.

use super::*;

#[test]
fn every_method_within_a_dialog_passes_by_its_token() {
    let world = World::new();
    for method in METHODS {
        for from in [ALICE, STRANGER] {
            let line = format!("Route: {}\r\n", route_of(&world, from, BOB_TAGGED, None));
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
    let ours = route_of(&world, ALICE, BOB_TAGGED, None);
    let bye = |uri: &str, lines: &str| {
        judged(
            &world,
            &udp(),
            &request("BYE", uri, ALICE, BOB_TAGGED, lines),
        )
    };
    let uri = "sip:bob@203.0.113.9";
    let before_next = route_of(&world, ALICE, BOB_TAGGED, Some("sip:next.example;lr"));
    assert_eq!(
        bye(
            uri,
            &format!("Route: {before_next}, <sip:x@NEXT.example.;lr>\r\n")
        ),
        "dialog"
    );
    for (routes, what) in [
        (
            format!("{ours}, <sip:next.example;lr>"),
            "a route was added",
        ),
        (before_next.clone(), "the route was taken away"),
        (
            format!("{before_next}, <sip:next.example:5070;lr>"),
            "another port",
        ),
        (
            format!("{before_next}, <sip:next.example;maddr=192.0.2.66;lr>"),
            "another way there",
        ),
        (
            format!("{before_next}, <sip:next.example;lr>, <sip:friend.example;lr>"),
            "a route was added behind the next",
        ),
        (format!("{ours}, <sip:192.0.2.1;lr>"), "not the innermost"),
    ] {
        assert_eq!(bye(uri, &format!("Route: {routes}\r\n")), "407", "{what}");
    }
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
        "400",
        "not a Route at all"
    );
    // A strict router puts the Route into the Request-URI.
    let strict = ours.trim_start_matches('<').trim_end_matches('>');
    assert_eq!(bye(strict, "Route: <sip:bob@203.0.113.9>\r\n"), "dialog");
    assert_eq!(bye(strict.trim_end_matches(";lr"), ""), "407");
    // It has put it there only if that names this server.
    let elsewhere = strict.replace("192.0.2.1", "x.invalid");
    assert_eq!(bye(&elsewhere, "Route: <sip:bob@203.0.113.9>\r\n"), "407");
}

#[test]
fn a_token_of_one_call_reaches_no_other_user_and_no_number() {
    let world = World::new();
    for target in [
        "sip:carol@203.0.113.9",
        "sip:bob@203.0.113.9:5061",
        "sip:bob@203.0.113.9;transport=tcp",
        "sip:bob@203.0.113.9;maddr=192.0.2.66",
        "sips:bob@203.0.113.9",
        "sip:203.0.113.9",
        "sip:carol@example.org",
        "sips:carol@EXAMPLE.ORG.;transport=tls",
        "sip:carol@192.0.2.1",
        "sip:+4912345@example.org;user=phone",
        "tel:+4912345",
    ] {
        for method in ["INVITE", "MESSAGE", "NOTIFY", "REFER"] {
            for (from, expected) in [(ALICE, "407"), (STRANGER, "403")] {
                let ours = route_of(&world, from, BOB_TAGGED, None);
                let strict = ours.trim_start_matches('<').trim_end_matches('>');
                for (uri, routes) in [
                    (target, ours.clone()),
                    (strict, format!("<{target}>")),
                    ("sip:x.invalid;lr", format!("{ours}, <{target}>")),
                ] {
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
    let ours = route_of(&world, ALICE, BOB_TAGGED, None);
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
        let other = Tokens::new(Arc::new(TokenKeys::of([9; 32], 1)));
        let forged = route_by(&other, ALICE, BOB_TAGGED, None);
        assert_eq!(judge(&forged, "call-1"), expected, "another server's key");
    }
}

#[test]
fn a_token_is_good_for_one_side_of_one_dialog() {
    let world = World::new();
    let bob = "<sip:bob@example.org>;tag=2";
    let alices = route_of(&world, ALICE, BOB_TAGGED, None);
    let said = |from: &str, to: &str| {
        let line = format!("Route: {alices}\r\n");
        judged(
            &world,
            &udp(),
            &request("BYE", BOBS_CONTACT, from, to, &line),
        )
    };
    assert_eq!(said(ALICE, BOB_TAGGED), "dialog");
    // Stacks may spell a URI otherwise, and never its user or host.
    for (from, to) in [
        ("\"Alice\" <sips:%61lice@EXAMPLE.org;x=y>;tag=1", BOB_TAGGED),
        (
            "<sip:alice@example.org.>;x;tag=1",
            "<sip:bob@example.org;user=ip>;tag=2",
        ),
    ] {
        assert_eq!(said(from, to), "dialog", "{from} {to}");
    }
    for (from, to) in [
        (bob, ALICE),
        ("<sip:alice@example.org>;tag=9", BOB_TAGGED),
        (ALICE, "<sip:bob@example.org>;tag=9"),
        ("<sip:carol@example.org>;tag=1", BOB_TAGGED),
        (ALICE, "<sip:carol@example.org>;tag=2"),
        ("<sip:alice@example.org:5070>;tag=1", BOB_TAGGED),
        ("<sip:alice@example.org>", BOB_TAGGED),
        (ALICE, BOB),
        ("<sip:ceo@elsewhere.example>;tag=1", BOB_TAGGED),
    ] {
        assert_ne!(said(from, to), "dialog", "{from} {to}");
    }
}

#[test]
fn a_token_ends_with_its_time() {
    let mut world = World::new();
    let line = format!("Route: {}\r\n", route_of(&world, ALICE, BOB_TAGGED, None));
    let bye = request("BYE", BOBS_CONTACT, ALICE, BOB_TAGGED, &line);
    let lifetime_ms = world.settings.proxy.dialog_token_lifetime_s * 1_000;
    for (after_ms, expected) in [
        (0, "dialog"),
        (lifetime_ms / 2, "dialog"),
        (lifetime_ms - 1_000, "dialog"),
        (lifetime_ms + 2_000 * crate::token::UNIT_S, "407"),
        (10 * lifetime_ms, "407"),
    ] {
        world.now.unix_ms = crate::testing::NOW.unix_ms + after_ms;
        assert_eq!(judged(&world, &udp(), &bye), expected, "{after_ms}");
    }
}
