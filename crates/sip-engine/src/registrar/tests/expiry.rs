//! For how long contacts are bound, and how they are removed.

use super::*;

#[test]
fn a_contact_is_bound_for_the_default_time_and_listed() {
    // RFC 3261 10.3: "The registrar returns a 200 (OK) response.  The response MUST contain Contact
    // header field values enumerating all current bindings.  Each Contact value MUST feature an
    // "expires" parameter indicating its expiration interval chosen by the registrar."
    let mut registers = Registers::new();
    let response = registers.give(&ask(1, CONTACT)).unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(contacts(&response), ["<sip:alice@192.0.2.9>;expires=3600"]);
    assert!(response.to().unwrap().tag().is_some());
    // RFC 3261 10.3: "The response SHOULD include a Date header field."
    assert_eq!(
        header(&response, "Date").as_deref(),
        Some("Fri, 15 Jan 2027 08:00:00 GMT")
    );
    let bound = registers.bound();
    assert_eq!(bound.len(), 1);
    // RFC 3261 10.3: "Each binding record records the Call-ID and CSeq values from the request."
    assert_eq!((&*bound[0].call_id, bound[0].cseq), (&b"call-1"[..], 1));
    assert_eq!(bound[0].expires_unix_ms, NOW.unix_ms + 3_600_000);
}

#[test]
fn the_time_asked_for() {
    // RFC 3261 10.3: "If the field value has an "expires" parameter, that value MUST be taken as the
    // requested expiration."
    // RFC 3261 10.3: "If there is no such parameter, but the request has an Expires header field, that
    // value MUST be taken as the requested expiration."
    // RFC 3261 10.3: "If there is neither, a locally-configured default value MUST be taken as the
    // requested expiration."
    // RFC 3261 10.3: "The registrar MAY choose an expiration less than the requested expiration interval."
    for (lines, granted) in [
        ("Contact: <sip:a@h>;expires=120\r\nExpires: 240\r\n", 120),
        ("Contact: <sip:a@h>\r\nExpires: 240\r\n", 240),
        ("Contact: <sip:a@h>\r\n", 3_600),
        ("Contact: <sip:a@h>;expires=90000\r\n", 86_400),
        ("Contact: <sip:a@h>;expires=99999999999\r\n", 86_400),
        ("Contact: <sip:a@h>;expires=soon\r\n", 3_600),
        ("Contact: sip:a@h;expires=60\r\n", 60),
    ] {
        let contacts = Registers::new().ok(&ask(1, lines));
        assert_eq!(
            contacts,
            [format!("<sip:a@h>;expires={granted}")],
            "{lines}"
        );
    }
}

#[test]
fn too_brief_is_423_with_the_least() {
    // RFC 3261 10.3: "If and only if the requested expiration interval is greater than zero AND smaller
    // than one hour AND less than a registrar-configured minimum, the registrar MAY reject the
    // registration with a response of 423 (Interval Too Brief)."
    // RFC 3261 10.3: "This response MUST contain a Min-Expires header field that states the minimum
    // expiration interval the registrar is willing to honor."
    let mut registers = Registers::new();
    let response = registers
        .give(&ask(1, "Contact: <sip:a@h>;expires=59\r\n"))
        .unwrap();
    assert_eq!(
        (
            response.status(),
            header(&response, "Min-Expires").as_deref()
        ),
        (423, Some("60"))
    );
    assert!(registers.bound().is_empty());
    assert_eq!(
        registers.status(&ask(1, "Contact: <sip:a@h>;expires=60\r\n")),
        200
    );
    // One hour is never too brief, whatever the operator wrote.
    registers.world.settings.registrar.expires_min_s = 7_200;
    assert_eq!(
        registers.status(&ask(2, "Contact: <sip:a@h>;expires=3600\r\n")),
        200
    );
    assert_eq!(
        registers.status(&ask(3, "Contact: <sip:a@h>;expires=3599\r\n")),
        423
    );
    assert_eq!(
        registers.status(&ask(4, "Contact: <sip:a@h>;expires=0\r\n")),
        200
    );
}

#[test]
fn removed_by_expires_zero() {
    // RFC 3261 10.3: "If the Call-ID value in the existing binding differs from the Call-ID value in the
    // request, the binding MUST be removed if the expiration time is zero and updated otherwise."
    let mut registers = Registers::new();
    registers.ok(&ask(1, "Contact: <sip:a@h1>, <sip:a@h2>\r\n"));
    assert_eq!(
        registers
            .ok(&ask(2, "Contact: <sip:a@h1>;expires=0\r\n"))
            .len(),
        1
    );
    assert_eq!(
        registers
            .ok(&ask(1, "Contact: <sip:a@h2>\r\nExpires: 0\r\n").call_id("other"))
            .len(),
        0
    );
    // What is not there may be removed too.
    assert_eq!(
        registers
            .ok(&ask(9, "Contact: <sip:a@h2>;expires=0\r\n"))
            .len(),
        0
    );
    assert!(
        !registers
            .world
            .shared
            .location
            .contains(b"sip:alice@example.org")
    );
}

#[test]
fn star_stands_alone_with_expires_zero() {
    // RFC 3261 10.3: "If the request has additional Contact fields or an expiration time other than zero,
    // the request is invalid, and the server MUST return a 400 (Invalid Request) and skip the remaining
    // steps."
    let mut registers = Registers::new();
    registers.ok(&ask(1, CONTACT));
    for bad in [
        "Contact: *\r\n",
        "Contact: *\r\nExpires: 1\r\n",
        "Contact: *\r\nExpires: never\r\n",
        "Contact: *, <sip:a@h>\r\nExpires: 0\r\n",
        "Contact: <sip:a@h>\r\nContact: *\r\nExpires: 0\r\n",
        "Contact: *, *\r\nExpires: 0\r\n",
    ] {
        assert_eq!(registers.status(&ask(2, bad)), 400, "{bad}");
        assert_eq!(registers.bound().len(), 1);
    }
    assert_eq!(
        registers.ok(&ask(2, "Contact: *\r\nExpires: 0\r\n")),
        [""; 0]
    );
    assert!(registers.bound().is_empty());
}

#[test]
fn star_keeps_the_order_of_each_binding() {
    // RFC 3261 10.3: "If not, the registrar checks whether the Call-ID agrees with the value stored for
    // each binding.  If not, it MUST remove the binding.  If it does agree, it MUST remove the binding
    // only if the CSeq in the request is higher than the value stored for that binding.  Otherwise, the
    // update MUST be aborted and the request fails."
    let mut registers = Registers::new();
    registers.ok(&ask(1, "Contact: <sip:a@h1>\r\n").call_id("one"));
    registers.ok(&ask(7, "Contact: <sip:a@h2>\r\n").call_id("two"));
    let star = "Contact: *\r\nExpires: 0\r\n";
    assert_eq!(registers.status(&ask(7, star).call_id("two")), 500);
    assert_eq!(registers.status(&ask(6, star).call_id("two")), 500);
    assert_eq!(registers.bound().len(), 2, "all or nothing");
    assert_eq!(registers.ok(&ask(8, star).call_id("two")), [""; 0]);
}
