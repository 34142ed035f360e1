//! One test for each rule, by way of whole requests and responses.

mod durable;
mod expiry;
mod flows;
mod order;
mod refusals;

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
            assert_eq!(response.status(), answered.line.status());
            statuses.push(answered.line.status());
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
