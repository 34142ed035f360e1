//! What is refused, and with which status.

use super::*;

#[test]
fn a_limit_of_contacts() {
    let mut registers = Registers::new();
    registers.world.settings.registrar.contacts_max = 3;
    registers.world.settings.registrar.contacts_full = ContactsFull::Refuse;
    let list = |count: u32, tail: &str| {
        let contacts: Vec<_> = (0..count).map(|n| format!("<sip:a@h{n}>{tail}")).collect();
        format!("Contact: {}\r\n", contacts.join(", "))
    };
    let response = registers.give(&ask(1, &list(4, ""))).unwrap();
    assert_eq!(response.status(), 403);
    assert!(
        response
            .bytes()
            .starts_with(b"SIP/2.0 403 Too Many Contacts\r\n")
    );
    assert_eq!(registers.registrar.counters().contacts_full, 1);
    assert_eq!(registers.bound().len(), 0);
    assert_eq!(registers.ok(&ask(2, &list(3, ""))).len(), 3);
    assert_eq!(registers.status(&ask(3, "Contact: <sip:a@more>\r\n")), 403);
    // In exchange, and to refresh, there is room.
    assert_eq!(
        registers.status(&ask(4, "Contact: <sip:a@more>, <sip:a@h0>;expires=0\r\n")),
        200
    );
    assert_eq!(registers.status(&ask(5, "Contact: <sip:a@more>\r\n")), 200);
    // Where the limit was lowered, what is there may be refreshed and removed.
    registers.world.settings.registrar.contacts_max = 2;
    assert_eq!(registers.status(&ask(6, "Contact: <sip:a@more>\r\n")), 200);
    assert_eq!(
        registers
            .ok(&ask(7, "Contact: <sip:a@more>;expires=0\r\n"))
            .len(),
        2
    );
    // What a request may ask to be compared is bounded as well.
    assert_eq!(registers.status(&ask(8, &list(5, ";expires=0"))), 403);
}

#[test]
fn contacts_that_equal_some_and_not_others_are_counted_too() {
    // RFC 3261 19.1.4: "Any uri-parameter appearing in both URIs must match", and one that is in
    // neither table is ignored where only one has it: <sip:a@h> equals each of these, which are
    // not equal to each other.
    for refuses in [true, false] {
        let mut registers = Registers::new();
        let rules = &mut registers.world.settings.registrar;
        rules.contacts_max = 3;
        rules.contacts_full = match refuses {
            true => ContactsFull::Refuse,
            false => ContactsFull::ReplaceOldest,
        };
        assert_eq!(registers.status(&ask(1, "Contact: <sip:a@h;x=0>\r\n")), 200);
        for n in 1..20 {
            let lines = format!("Contact: <sip:a@h>, <sip:a@h;x={n}>\r\n");
            let status = registers.status(&ask(n + 1, &lines));
            assert!(status == 200 || (refuses && status == 403), "{status}");
            assert!(registers.bound().len() <= 3, "{:?}", registers.bound());
        }
    }
    let mut registers = Registers::new();
    assert_eq!(registers.status(&ask(1, "Contact: <sip:a@h;x=0>\r\n")), 200);
    let lines =
        "Contact: <sip:a@h>, <sip:a@h;x=1>;expires=0, <sip:a@h>, <sip:a@h;x=1>;expires=0\r\n";
    assert_eq!(registers.status(&ask(2, lines)), 200);
    assert_eq!(registers.bound().len(), 1);
}

#[test]
fn a_full_table_is_503_for_newcomers() {
    let mut registers = Registers::new();
    registers.world.shared.location = Arc::new(Location::new(1, [0; 16]));
    registers.ok(&ask(1, CONTACT));
    let bob = Ask {
        to: "<sip:bob@example.org>",
        ..ask(1, CONTACT)
    };
    let response = registers.give(&bob).unwrap();
    assert_eq!(
        (
            response.status(),
            header(&response, "Retry-After").as_deref()
        ),
        (503, Some("5"))
    );
    assert_eq!(registers.registrar.counters().table_full, 1);
    assert_eq!(registers.status(&ask(2, CONTACT)), 200);
    registers.ok(&ask(3, "Contact: *\r\nExpires: 0\r\n"));
    assert_eq!(registers.status(&bob), 200);
    // Who has expired makes place, though nobody has swept.
    registers.world.now.unix_ms += 3_601_000;
    assert_eq!(registers.status(&ask(4, CONTACT)), 200);
    assert_eq!(registers.world.shared.location.aors(), 1);
}

#[test]
fn another_domain_is_404() {
    // RFC 3261 10.3: "If the address-of-record is not valid for the domain in the Request-URI, the
    // registrar MUST send a 404 (Not Found) response and skip the remaining steps."
    let mut registers = Registers::new();
    for (uri, to, status) in [
        ("sip:example.org", "<sip:alice@example.com>", 404),
        ("sip:example.org", "<sip:alice@example.net>", 404),
        ("sip:example.org", "<sip:example.org>", 404),
        ("sip:example.org", "<tel:+4912345>", 404),
        ("sip:192.0.2.1", "<sip:alice@example.com>", 404),
        ("sip:192.0.2.1", "<sip:alice@example.net>", 200),
        ("sip:example.net", "<sip:alice@example.net>", 200),
        ("sip:example.org", "<sip:alice@192.0.2.1>", 200),
        ("sip:example.org", "<sips:alice@EXAMPLE.ORG:5061;x=y>", 200),
    ] {
        let ask = Ask {
            uri,
            to,
            ..ask(1, CONTACT)
        };
        assert_eq!(
            registers.status(&ask.call_id(&format!("{uri}{to}").replace(['<', '>'], ""))),
            status,
            "{uri} {to}"
        );
    }
    // The last two are alice@example.org, in two spellings.
    assert_eq!(registers.world.shared.location.aors(), 2);
    assert_eq!(registers.bound().len(), 1);
}

#[test]
fn what_is_required_must_be_known() {
    // RFC 3261 10.3: "To guarantee that the registrar supports any necessary extensions, the registrar MUST
    // process the Require header field values as described for UASs in Section 8.2.2."
    // RFC 3261 8.2.2.3: "The UAS MUST add an Unsupported header field, and list in it those options it does
    // not understand amongst those in the Require header field of the request."
    let mut registers = Registers::new();
    let lines = format!("{CONTACT}Require: path, gruu, Outbound\r\nRequire: x-y\r\n");
    let response = registers.give(&ask(1, &lines)).unwrap();
    assert_eq!(response.status(), 420);
    let unsupported: Vec<_> = response
        .values(HeaderName::Unsupported)
        .map(|(tag, _)| tag.to_vec())
        .collect();
    assert_eq!(unsupported, [b"gruu".to_vec(), b"x-y".to_vec()]);
    assert!(registers.bound().is_empty());
    assert_eq!(
        registers.status(&ask(1, &format!("{CONTACT}Require: path, outbound\r\n"))),
        200
    );
}

#[test]
fn what_is_too_long_or_makes_no_sense_is_400() {
    let long = "x".repeat(600);
    for lines in [
        format!("Contact: <sip:{long}@h>\r\n"),
        format!("Contact: <sip:a@h>;+sip.instance=\"<{long}>\";reg-id=1\r\n"),
        "Contact: <sip:a@h\r\n".to_owned(),
        "Contact: ,\r\n".to_owned(),
        "Contact: \r\n".to_owned(),
    ] {
        let mut registers = Registers::new();
        let status = registers.status(&ask(1, &lines));
        // An empty Contact is one without values.
        assert!(
            status == 400 || (status == 200 && lines == "Contact: \r\n"),
            "{lines}"
        );
        assert!(registers.bound().is_empty());
    }
    let mut registers = Registers::new();
    assert_eq!(registers.status(&ask(1, CONTACT).call_id(&long)), 400);
}

#[test]
fn no_refusal_is_final_for_everybody() {
    // RFC 3261 10.3: "A registrar MUST not generate 6xx responses."
    let world = World::open();
    let (request, flow) = (
        ask(1, CONTACT).message(),
        flow(Transport::Udp, "192.0.2.9:5060"),
    );
    let Gate::Pass(permit) = world.judge(&flow, &request) else {
        panic!("the gate is open");
    };
    let registration = Registration {
        request,
        sender: Sender::unproved(flow),
        server: None,
        permit,
    };
    for (refused, expected) in [
        (Refused::Malformed("Why"), 400),
        (Refused::Forbidden, 403),
        (Refused::TooManyContacts, 403),
        (Refused::NotFound, 404),
        (Refused::BadExtension, 420),
        (Refused::TooBrief, 423),
        (Refused::NoOutbound, 439),
        (Refused::OutOfOrder, 500),
        (Refused::Unsaved, 500),
        (Refused::Busy, 503),
        (Refused::TableFull, 503),
    ] {
        let answer = answer::Answer {
            cx: &context(&world),
            registration: &registration,
            to_tag: [b'x'; 16],
        };
        let mut bytes = Vec::new();
        answer.write_refusal(refused, &mut bytes);
        assert_eq!(refused.line().status(), expected);
        let response = parse(&bytes);
        assert_eq!(response.status(), expected);
        // Where it may go better later, it says when.
        let is_later = matches!(
            refused,
            Refused::Unsaved | Refused::Busy | Refused::TableFull
        );
        assert_eq!(
            response.has(HeaderName::RetryAfter),
            is_later,
            "{refused:?}"
        );
    }
}
