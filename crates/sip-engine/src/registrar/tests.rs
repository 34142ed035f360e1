//! One test for each rule, by way of whole requests and responses.

mod durable;
mod flows;

use std::fmt::Write;
use std::sync::Arc;

use sip_msg::{Flow, HeaderName, Message, Transport};

use super::saves::{LINE_MAX, SAVES_MAX};
use super::*;
use crate::Binding;
use crate::permit::Gate;
use crate::settings::ContactsFull;
use crate::testing::{NOW, World, flow, parse};

struct Registers {
    world: World,
    registrar: Registrar,
    out: Outputs,
    flow: Flow,
    has_transactions: bool,
}

/// A REGISTER of alice's.
#[derive(Clone)]
struct Ask {
    uri: &'static str,
    to: &'static str,
    call_id: String,
    cseq: u32,
    vias: &'static str,
    lines: String,
}

const VIA: &str = "Via: SIP/2.0/UDP 192.0.2.9:5060;branch=z9hG4bK1\r\n";

impl Default for Ask {
    fn default() -> Self {
        Self {
            uri: "sip:example.org",
            to: "<sip:alice@example.org>",
            call_id: "call-1".into(),
            cseq: 1,
            vias: VIA,
            lines: String::new(),
        }
    }
}

fn ask(cseq: u32, lines: &str) -> Ask {
    Ask {
        cseq,
        lines: lines.to_owned(),
        ..Ask::default()
    }
}

impl Ask {
    fn call_id(mut self, call_id: &str) -> Self {
        self.call_id = call_id.to_owned();
        self
    }

    fn message(&self) -> Box<Message> {
        let Self {
            uri,
            to,
            call_id,
            cseq,
            vias,
            lines,
        } = self;
        let text = format!(
            "REGISTER {uri} SIP/2.0\r\n{vias}Max-Forwards: 70\r\nFrom: {to};tag=1\r\nTo: {to}\r\n\
             Call-ID: {call_id}\r\nCSeq: {cseq} REGISTER\r\n{lines}Content-Length: 0\r\n\r\n"
        );
        Box::new(parse(text.as_bytes()))
    }
}

impl Registers {
    fn new() -> Self {
        Self {
            world: World::open(),
            registrar: Registrar::new([1; 16]),
            out: Outputs::default(),
            flow: flow(Transport::Udp, "192.0.2.9:5060"),
            has_transactions: true,
        }
    }

    fn durable() -> Self {
        let mut registers = Self::new();
        registers.world.settings.registrar.durable = true;
        registers
    }

    fn give(&mut self, ask: &Ask) -> Option<Message> {
        let request = ask.message();
        let Gate::Pass(permit) = self.world.judge(&self.flow, &request) else {
            panic!("the gate is open");
        };
        let registration = Registration {
            request,
            sender: Sender::unproved(self.flow),
            server: None,
            permit,
        };
        self.register(registration)
    }

    fn register(&mut self, registration: Registration) -> Option<Message> {
        let server = self.has_transactions.then(a_transaction).flatten();
        let registration = Registration {
            server,
            ..registration
        };
        self.out.clear();
        let cx = context(&self.world);
        let answered = self
            .registrar
            .handle_register(&cx, registration, &mut self.out);
        answered.map(|answered| parse(&self.out.outbox.bytes[answered.start..]))
    }

    /// A REGISTER that is answered at once: status and contacts.
    fn ask(&mut self, ask: &Ask) -> (u16, Vec<String>) {
        let response = self.give(ask).expect("answered at once");
        (response.status(), contacts(&response))
    }

    fn ok(&mut self, ask: &Ask) -> Vec<String> {
        let (status, contacts) = self.ask(ask);
        assert_eq!(status, 200);
        contacts
    }

    fn status(&mut self, ask: &Ask) -> u16 {
        self.ask(ask).0
    }

    fn saved(&mut self, park: ParkId, answer: Result<(), ()>) -> Vec<u16> {
        let cx = context(&self.world);
        self.registrar.handle_saved(&cx, park, answer);
        self.poll()
    }

    fn wait(&mut self, ms: u64) -> Vec<u16> {
        self.world.now.mono_ms += ms;
        self.world.now.unix_ms += ms;
        self.registrar.handle_timers(self.world.now);
        self.poll()
    }

    fn poll(&mut self) -> Vec<u16> {
        let mut statuses = Vec::new();
        let cx = context(&self.world);
        self.out.clear();
        while let Some(answered) = self.registrar.poll(&cx, &mut self.out) {
            let response = parse(&self.out.outbox.bytes[answered.start..]);
            assert_eq!(response.status(), answered.status);
            statuses.push(answered.status);
        }
        statuses
    }

    /// What the store was asked to save since the last input.
    fn save(&mut self) -> (ParkId, Vec<BindingChange>) {
        let mut effects = self.out.effects.drain(..);
        let Some(Effect::SaveBindings { park, changes }) = effects.next() else {
            panic!("no change for the store");
        };
        assert!(effects.next().is_none());
        (park, changes)
    }

    fn bound(&self) -> Vec<Arc<Binding>> {
        let mut found = Vec::new();
        self.world.shared.location.find(
            b"sip:alice@example.org",
            self.world.now.unix_ms,
            &mut found,
        );
        found
    }
}

fn context(world: &World) -> RegistrarContext<'_> {
    RegistrarContext {
        now: world.now,
        settings: &world.settings,
        location: &world.shared.location,
        own: &world.own,
        gateways: &world.gateways,
    }
}

/// A name of a transaction; which one does not matter here.
fn a_transaction() -> Option<ServerId> {
    let config = sip_txn::Config::new([0; 16], [0; 16]);
    let mut transactions = sip_txn::Transactions::new(config, 0);
    let request = ask(1, "").message();
    let mut out = sip_msg::Outbox::default();
    match transactions.handle_request(
        0,
        &flow(Transport::Udp, "192.0.2.9:5060"),
        &request,
        &mut out,
    ) {
        sip_txn::Incoming::New(server) => Some(server),
        other => panic!("{other:?}"),
    }
}

fn contacts(response: &Message) -> Vec<String> {
    let values = response
        .fields_of(HeaderName::Contact)
        .map(|field| String::from_utf8_lossy(field.value).into_owned());
    values.collect()
}

fn header(response: &Message, name: &str) -> Option<String> {
    let field = response
        .fields()
        .find(|field| field.raw_name.eq_ignore_ascii_case(name.as_bytes()))?;
    Some(String::from_utf8_lossy(field.value).into_owned())
}

const CONTACT: &str = "Contact: <sip:alice@192.0.2.9>\r\n";

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
fn record_route_is_ignored_and_not_answered() {
    // RFC 3261 10.3: "Registrars MUST ignore the Record-Route header field if it is included in a REGISTER
    // request.  Registrars MUST NOT include a Record-Route header field in any response to a REGISTER
    // request."
    let mut registers = Registers::new();
    let response = registers
        .give(&ask(
            1,
            &format!("{CONTACT}Record-Route: <sip:192.0.2.8;lr>\r\n"),
        ))
        .unwrap();
    assert_eq!(response.status(), 200);
    assert!(!response.has(HeaderName::RecordRoute));
    assert!(registers.bound()[0].path.is_empty());
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
fn without_contact_it_is_a_question() {
    // RFC 3261 10.3: "The registrar checks whether the request contains the Contact header field.  If not,
    // it skips to the last step."
    let mut registers = Registers::new();
    registers.ok(&ask(1, "Contact: <sip:a@h>;q=0.7\r\n"));
    // Its CSeq is of no account, as nothing is changed.
    assert_eq!(
        registers.ok(&ask(1, "")),
        ["<sip:a@h>;q=0.700;expires=3600"]
    );
}

#[test]
fn several_contacts_with_q_are_all_listed() {
    let mut registers = Registers::new();
    let lines =
        "Contact: <sip:a@h1>;q=0.5, \"A\" <sip:a@h2>;q=1.0;expires=100\r\nm: sip:a@h3;q=0.25\r\n";
    let mut contacts = registers.ok(&ask(1, lines));
    contacts.sort();
    assert_eq!(
        contacts,
        [
            "<sip:a@h1>;q=0.500;expires=3600",
            "<sip:a@h2>;expires=100",
            "<sip:a@h3>;q=0.250;expires=3600"
        ]
    );
    let uris: Vec<_> = registers
        .bound()
        .iter()
        .map(|b| String::from_utf8_lossy(&b.uri).into_owned())
        .collect();
    assert_eq!(uris, ["sip:a@h2", "sip:a@h1", "sip:a@h3"]);
}

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
fn user_agents_are_cut_and_cleaned() {
    let mut registers = Registers::new();
    registers.ok(&ask(
        1,
        &format!("{CONTACT}User-Agent: A\r\n B {}\r\n", "x".repeat(100)),
    ));
    let user_agent = &registers.bound()[0].user_agent;
    assert_eq!(user_agent.len(), 64);
    assert!(user_agent.iter().all(|b| !b.is_ascii_control()));
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
        assert_eq!(answer.write_refusal(refused, &mut bytes), expected);
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

#[test]
fn random_asks_agree_with_a_plain_model() {
    use std::collections::BTreeMap;
    let mut registers = Registers::new();
    registers.world.settings.registrar.contacts_max = 3;
    registers.world.settings.registrar.contacts_full = ContactsFull::Refuse;
    let mut model: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
    let mut seed = 7_u64;
    let mut random = |below: u32| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((seed >> 33) % u64::from(below)) as u32
    };
    for _ in 0..5_000 {
        let (call, cseq) = (random(3), random(40));
        let mut lines = String::new();
        let mut after = model.clone();
        let mut status = 200;
        for _ in 0..1 + random(2) {
            let (contact, expires) = (random(4), random(3) * 100);
            write!(lines, "Contact: <sip:a@h{contact}>;expires={expires}\r\n").unwrap();
            if model
                .get(&contact)
                .is_some_and(|&(its, last)| its == call && cseq <= last)
            {
                status = 500;
            }
            if expires == 0 {
                after.remove(&contact);
            } else {
                after.insert(contact, (call, cseq));
            }
        }
        if status == 200 && after.len() > 3 && after.len() > model.len() {
            status = 403;
        }
        assert_eq!(
            registers.status(&ask(cseq, &lines).call_id(&format!("c{call}"))),
            status,
            "{lines}"
        );
        if status == 200 {
            model = after;
        }
        let bound = registers.bound();
        let mut uris: Vec<_> = bound
            .iter()
            .map(|b| String::from_utf8_lossy(&b.uri).into_owned())
            .collect();
        uris.sort();
        assert_eq!(
            uris,
            model
                .keys()
                .map(|n| format!("sip:a@h{n}"))
                .collect::<Vec<_>>()
        );
    }
}
