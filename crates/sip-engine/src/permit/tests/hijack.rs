//! A user with good credentials of her own, who heard a registration of
//! another's, tries 100,000 times to change his contacts.

use sip_auth::{Attempt, ClientAuth, RequestParts};
use sip_msg::{Message, Transport};

use super::{Gate, Permit, udp};
use crate::registrar::{Registrar, RegistrarContext, Registration};
use crate::sender::Sender;
use crate::testing::{World, flow, parse, with_lines};
use crate::{Binding, Outputs};

const ATTEMPTS: u32 = 100_000;

/// A small generator, so that a failure repeats.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())]
    }
}

#[test]
fn a_hundred_thousand_hijack_attempts_bind_nothing() {
    let mut world = World::new();
    let mut registrar = Registrar::new([1; 16]);
    let bobs = "REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.7:5060;branch=z9hG4bKb\r\n\
                Max-Forwards: 70\r\nFrom: <sip:bob@example.org>;tag=b\r\nTo: <sip:bob@example.org>\r\n\
                Call-ID: bobs\r\nCSeq: 50 REGISTER\r\nContact: <sip:bob@192.0.2.7>\r\nContent-Length: 0\r\n\r\n";
    let heard = world.sign_as(&udp(), bobs, "bob", "example.org");
    assert_eq!(give(&world, &mut registrar, &heard), 200, "bob himself");
    let before = bound(&world, b"sip:bob@example.org");
    assert_eq!(before.len(), 1);
    // A token of a call between just these two, with the tags that are tried.
    let (from, to) = ("<sip:bob@example.org>;tag=e", "<sip:bob@example.org>;tag=b");
    let token = super::route_of(&world, from, to, None);

    let mut eve = eavesdropper(&world);
    let mut dice = Dice(2026);
    let mut statuses = std::collections::BTreeMap::<u16, u32>::new();
    for attempt in 0..ATTEMPTS {
        let text = attack(&mut dice, &mut eve, &heard, &token, attempt);
        let status = give(&world, &mut registrar, &text);
        *statuses.entry(status).or_default() += 1;
        if attempt % 1_000 == 0 {
            assert_eq!(bound(&world, b"sip:bob@example.org"), before, "{text}");
        }
    }
    assert_eq!(bound(&world, b"sip:bob@example.org"), before);
    assert!(bound(&world, b"sip:carol@example.org").is_empty());
    // The attempts were no mere noise: each kind of answer was met often.
    for status in [401, 403] {
        assert!(
            statuses.get(&status).is_some_and(|count| *count > 5_000),
            "{statuses:?}"
        );
    }
    assert!(
        statuses.get(&200).is_some_and(|count| *count > 500),
        "some are her own: {statuses:?}"
    );
    // Only what is hers has changed.
    world.shared.location.for_each(world.now.unix_ms, |aor, _| {
        assert!(
            matches!(&**aor, b"sip:bob@example.org" | b"sip:alice@example.org"),
            "{}",
            aor.escape_ascii()
        );
    });
}

/// Alice's client, with a nonce.
fn eavesdropper(world: &World) -> ClientAuth {
    let register = super::of("REGISTER", "", super::ALICE, "<sip:alice@example.org>", "");
    let message = parse(register.as_bytes());
    let Gate::Refuse(refusal) = world.judge(&udp(), &message) else {
        panic!("not challenged")
    };
    let mut client = ClientAuth::new();
    client.add(
        "example.org",
        "alice",
        &world.users[&("alice".to_owned(), "example.org".to_owned())],
    );
    client
        .handle_challenge(&mut Attempt::default(), &world.response(&refusal, &message))
        .unwrap();
    client
}

fn attack(dice: &mut Dice, eve: &mut ClientAuth, heard: &str, token: &str, attempt: u32) -> String {
    let victims = [
        "<sip:bob@example.org>",
        "<sip:carol@example.org>",
        "<sips:bob@example.org>",
        "<sip:%62ob@example.org>",
        "<sip:bob@192.0.2.1>",
        "<sip:bob@EXAMPLE.ORG.:5060>",
        "\"alice\" <sip:bob@example.org>",
        "<sip:bob:alice@example.org>",
        "<sip:bob@example.org;user=alice>",
        "<sip:bob%40example.org@example.org>",
        "<sip:alice@example.net>",
    ];
    let alice = "<sip:alice@example.org>";
    let froms = [
        alice,
        alice,
        "<sip:bob@example.org>",
        "<sip:bob@elsewhere.example>",
        "sip:alice@example.org",
    ];
    let mut to = dice.pick(&victims);
    if dice.roll(20) == 0 {
        to = alice;
    }
    let from = dice.pick(&froms);
    let uri = dice.pick(&[
        "sip:example.org",
        "sip:192.0.2.1",
        "sips:example.org",
        "sip:example.net",
        "sip:bob@example.org",
    ]);
    let contact = dice.pick(&[
        "Contact: *\r\nExpires: 0\r\n",
        "Contact: <sip:eve@203.0.113.66>\r\n",
        "Contact: <sip:bob@192.0.2.7>;expires=0\r\n",
        "Contact: <sip:bob@192.0.2.7>, <sip:eve@203.0.113.66>;q=1.0\r\n",
        "Contact: <sip:bob@192.0.2.7>;+sip.instance=\"<urn:x>\";reg-id=1\r\n",
        "",
    ]);
    let extra = match dice.roll(6) {
        0 => "P-Asserted-Identity: <sip:bob@example.org>\r\n".to_owned(),
        1 => format!("Route: {token}\r\n"),
        2 => "Authorization: Digest username=\"bob\", realm=\"example.org\"\r\n".to_owned(),
        _ => String::new(),
    };
    let (call_id, cseq) = (
        dice.pick(&["bobs", "eves"]),
        dice.pick(&[1, 49, 50, 51, 4_000 + attempt]),
    );
    let to_tag = dice.pick(&["", "", ";tag=b"]);
    let text = format!(
        "REGISTER {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.9:5060;branch=z9hG4bK{attempt}\r\nMax-Forwards: 70\r\n\
         From: {from};tag=e\r\nTo: {to}{to_tag}\r\nCall-ID: {call_id}\r\nCSeq: {cseq} REGISTER\r\n{contact}{extra}\
         Content-Length: 0\r\n\r\n"
    );
    match dice.roll(10) {
        // What was heard, again, whole.
        0 => heard.to_owned(),
        // With other contacts under the heard credentials.
        1 => heard
            .replace("<sip:bob@192.0.2.7>", "<sip:eve@203.0.113.66>")
            .replace("CSeq: 50", "CSeq: 60"),
        // With the next nonce count, or without what guards against replay.
        2 => heard.replace("nc=00000001", &format!("nc={:08x}", 2 + attempt)),
        3 => heard.replace("qop=auth", "x=y"),
        // The heard credentials on another request.
        4 => {
            let line = heard
                .lines()
                .find(|line| line.starts_with("Authorization"))
                .unwrap();
            with_lines(&text, &format!("{line}\r\n"))
        }
        5 => text,
        // Her own credentials, good ones.
        _ => {
            let message = parse(text.as_bytes());
            let parts = RequestParts {
                method: b"REGISTER",
                uri: message.request_uri(),
                body: b"",
            };
            let mut line = Vec::new();
            eve.write_credentials(
                &mut Attempt::default(),
                parts,
                u64::from(attempt),
                &mut line,
            );
            with_lines(&text, std::str::from_utf8(&line).unwrap())
        }
    }
}

/// The status that a request ends with, gate and registrar taken together.
fn give(world: &World, registrar: &mut Registrar, text: &str) -> u16 {
    let flow = flow(Transport::Udp, "192.0.2.9:5060");
    let request: Box<Message> = Box::new(parse(text.as_bytes()));
    let permit = match world.judge(&flow, &request) {
        Gate::Pass(permit) => permit,
        Gate::Refuse(refusal) => return refusal.status(),
        other => panic!("{other:?}"),
    };
    assert!(matches!(permit, Permit::Authenticated(_)), "{permit:?}");
    let cx = RegistrarContext {
        now: world.now,
        settings: &world.settings,
        location: &world.shared.location,
        own: &world.own,
        gateways: &world.gateways,
    };
    let registration = Registration {
        request,
        sender: Sender::unproved(flow),
        server: None,
        permit,
    };
    let answered = registrar.handle_register(&cx, registration, &mut Outputs::default());
    answered.expect("nothing waits in memory").line.status()
}

fn bound(world: &World, aor: &[u8]) -> Vec<Binding> {
    let mut found = Vec::new();
    world
        .shared
        .location
        .find(aor, world.now.unix_ms, &mut found);
    found
        .iter()
        .map(|binding| Binding::clone(binding))
        .collect()
}
