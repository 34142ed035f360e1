//! The order of registrations, and what counts as the same one.

use super::*;

#[test]
fn a_refresh_replaces_by_the_rules_of_comparison() {
    // RFC 3261 10.3: "For each address, the registrar then searches the list of current bindings using the
    // URI comparison rules."
    let mut registers = Registers::new();
    registers.ok(&ask(1, "Contact: <sip:%61lice@Host.example;x=1>\r\n"));
    let contacts = registers.ok(&ask(
        2,
        "Contact: <sip:alice@host.example;X=1>;expires=200\r\n",
    ));
    assert_eq!(contacts, ["<sip:alice@host.example;X=1>;expires=200"]);
    assert_eq!(
        registers
            .ok(&ask(3, "Contact: <sip:alice@host.example:5060>\r\n"))
            .len(),
        2
    );
}

#[test]
fn a_lower_or_equal_cseq_of_the_same_call_id_fails() {
    // RFC 3261 10.3: "If they are the same, the registrar compares the CSeq value.  If the value is higher
    // than that of the existing binding, it MUST update or remove the binding as above.  If not, the
    // update MUST be aborted and the request fails."
    let mut registers = Registers::new();
    registers.ok(&ask(5, CONTACT));
    for cseq in [5, 4, 0] {
        for expires in ["", "Expires: 0\r\n"] {
            assert_eq!(
                registers.status(&ask(cseq, &format!("{CONTACT}{expires}"))),
                500
            );
        }
    }
    assert_eq!(registers.bound()[0].cseq, 5);
    assert_eq!(registers.status(&ask(6, CONTACT)), 200);
    // Another Call-ID has an order of its own.
    assert_eq!(registers.status(&ask(1, CONTACT).call_id("restarted")), 200);
    assert_eq!(
        (&*registers.bound()[0].call_id, registers.bound()[0].cseq),
        (&b"restarted"[..], 1)
    );
}

#[test]
fn without_transactions_a_retransmission_is_answered_like_the_first() {
    let mut registers = Registers::new();
    registers.has_transactions = false;
    let first = registers.ok(&ask(5, CONTACT));
    assert_eq!(registers.ok(&ask(5, CONTACT)), first);
    assert_eq!(registers.status(&ask(4, CONTACT)), 500);
}

#[test]
fn all_or_nothing() {
    // RFC 3261 8.2: "If a request is accepted, all state changes associated with it MUST be performed."
    // RFC 3261 8.2: "If it is rejected, all state changes MUST NOT be performed."
    // RFC 3261 10.3: "REGISTER requests MUST also be processed atomically, meaning that a particular
    // REGISTER request is either processed completely or not at all.  Each REGISTER message MUST be
    // processed independently of any other registration or binding changes."
    let mut registers = Registers::new();
    registers.ok(&ask(5, "Contact: <sip:a@old>\r\n"));
    for (lines, status) in [
        ("Contact: <sip:a@new>, <sip:a@old>\r\n", 500),
        ("Contact: <sip:a@new>, <sip:a@brief>;expires=1\r\n", 423),
        ("Contact: <sip:a@new>, <sip:>\r\n", 400),
        ("Contact: <sip:a@new>, <sip:a@old>;expires=0\r\n", 500),
    ] {
        assert_eq!(registers.status(&ask(5, lines)), status, "{lines}");
        let uris: Vec<_> = registers.bound().iter().map(|b| b.uri.clone()).collect();
        assert_eq!(uris, [b"sip:a@old".as_slice().into()], "{lines}");
    }
}

#[test]
fn the_same_contact_twice_in_one_request() {
    let mut registers = Registers::new();
    let twice = "Contact: <sip:a@h>;expires=100, <sip:a@H>;expires=200\r\n";
    assert_eq!(registers.ok(&ask(1, twice)), ["<sip:a@H>;expires=200"]);
    let out_and_in = "Contact: <sip:a@h>;expires=0, <sip:a@h>;expires=300\r\n";
    assert_eq!(registers.ok(&ask(2, out_and_in)), ["<sip:a@h>;expires=300"]);
    let in_and_out = "Contact: <sip:a@h>;expires=300, <sip:a@h>;expires=0\r\n";
    assert_eq!(registers.ok(&ask(3, in_and_out)), [""; 0]);
    let new_and_out = "Contact: <sip:a@h>;expires=300, <sip:a@h>;expires=0\r\n";
    assert_eq!(registers.ok(&ask(4, new_and_out)), [""; 0]);
    assert_eq!(registers.world.shared.location.aors(), 0);
}
