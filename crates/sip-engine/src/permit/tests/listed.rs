//! Listed peers, and who may assert an identity.

use super::*;

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
