//! Registration hijacking: calls to somebody else come to the attacker.

use crate::digest::Account;
use crate::phone::{Phone, authorize};
use crate::scenario::{Scale, Scenario, Tally};
use crate::stream::Stream;
use crate::wire::{Draft, word};
use crate::world::World;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "hijack.contact",
        tries: "REGISTER for another user, by no credentials, by one's own, by a wrong password, under other writings of the name, from a trusted peer, over UDP and TCP.",
        through: "a 200, or a call to that user that reaches the attacker or not him.",
        setup: |_| {},
        not_kamailio: None,
        run: contact,
    },
    Scenario {
        name: "hijack.removal",
        tries: "Removing another user's contacts: Contact: *, Expires: 0, a copied Call-ID with another CSeq.",
        through: "a 200, or a call that does not reach the user.",
        setup: |_| {},
        not_kamailio: None,
        run: removal,
    },
];

/// Writings of an address-of-record.
fn writings(world: &World, user: &str) -> Vec<String> {
    let (domain, place) = (&world.domain, world.server.place());
    let hex: String = user.bytes().map(|b| format!("%{b:02x}")).collect();
    vec![
        format!("sip:{user}@{domain}"),
        format!("sips:{user}@{domain}"),
        format!("sip:{user}@{}", domain.to_uppercase()),
        format!("sip:{hex}@{domain}"),
        format!("sip:{user}@{domain}:5060"),
        format!("sip:{user}@{domain};transport=tcp"),
        format!("sip:{user}:secret@{domain}"),
        format!("sip:{user}@{place}"),
        format!("sip:{user};x=y@{domain}"),
    ]
}

fn contact(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let ceo = world.ceo_account().user.clone();
    let wrong = Account::new(&ceo, "guess");
    let mallory = world.mallory_account().clone();
    let contact = world.mallory.contact();
    for round in 0..scale.of(1, 20) {
        for aor in writings(world, &ceo) {
            for from in [&aor, &world.mallory_aor()] {
                let draft = Draft::new("REGISTER", from, &aor)
                    .uri(&format!("sip:{}", world.domain))
                    .contact(&contact)
                    .with("Expires", "600");
                for (who, account) in [
                    ("nobody", None),
                    ("mallory", Some(&mallory)),
                    ("a guess", Some(&wrong)),
                ] {
                    let source = if round % 2 == 0 {
                        &world.mallory
                    } else {
                        &world.peer
                    };
                    let got = attempt(world, source, &draft, account);
                    tally.judge(got == Some(200), || {
                        format!("{who} registered {aor} as {from}")
                    });
                }
            }
        }
    }
    over_tcp(world, &mut tally)?;
    let mark = word("hijacked");
    let invite = world
        .alice
        .invite(&world.alice_aor(), &world.ceo_aor())
        .mark(&mark);
    let called = world.alice.call(world.to(), &invite, world.alice_account());
    let stolen = world.mallory.marked(&mark);
    tally.break_in(stolen, || "a call to ceo came to mallory".to_owned());
    let there = world.ceo.marked(&mark) > 0;
    tally.judge(!there, || {
        format!("a call to ceo did not reach him: {:?}", called.err())
    });
    Ok(tally)
}

/// A request, and again with credentials; the last status.
fn attempt(world: &World, source: &Phone, draft: &Draft, account: Option<&Account>) -> Option<u16> {
    let patience = std::time::Duration::from_millis(1_200);
    let mut draft = draft.clone();
    draft.call_id = word("h");
    draft.branch = word("z9hG4bK");
    let first = source.ask_for(patience, world.to(), &draft)?;
    let next = account.and_then(|account| authorize(&draft, &first, account));
    match next {
        Some(next) => source.ask_for(patience, world.to(), &next)?.status(),
        None => first.status(),
    }
}

fn over_tcp(world: &World, tally: &mut Tally) -> Result<(), String> {
    let Some(tcp) = world.server.tcp else {
        return Ok(());
    };
    let mut stream = Stream::tcp(tcp)?;
    let draft = Draft::new("REGISTER", &world.ceo_aor(), &world.ceo_aor())
        .uri(&format!("sip:{}", world.domain))
        .contact(&world.mallory.contact());
    let first = stream
        .ask(crate::phone::PATIENCE, &draft)
        .ok_or("no answer to a REGISTER over TCP")?;
    tally.judge(first.status() == Some(200), || {
        "nobody registered ceo over TCP".to_owned()
    });
    if let Some(next) = authorize(&draft, &first, world.mallory_account()) {
        let answer = stream.ask(crate::phone::PATIENCE, &next);
        let got = answer.and_then(|a| a.status());
        tally.judge(got == Some(200), || {
            "mallory registered ceo over TCP".to_owned()
        });
    }
    Ok(())
}

fn removal(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let mallory = world.mallory_account().clone();
    let contact = world.ceo.contact();
    for _ in 0..scale.of(1, 50) {
        for (what, contact, expires) in [
            ("*", "*", "0"),
            ("expires 0", contact.as_str(), "0"),
            ("expires 1", contact.as_str(), "1"),
        ] {
            for cseq in [1, 2, 4_000_000_000] {
                let mut draft = Draft::new("REGISTER", &world.ceo_aor(), &world.ceo_aor())
                    .uri(&format!("sip:{}", world.domain))
                    .contact(contact)
                    .with("Expires", expires);
                draft.cseq = cseq;
                for account in [None, Some(&mallory)] {
                    let got = attempt(world, &world.mallory, &draft, account);
                    tally.judge(got == Some(200), || format!("{what} was taken"));
                }
            }
        }
    }
    let invite = world.alice.invite(&world.alice_aor(), &world.ceo_aor());
    let called = world.alice.call(world.to(), &invite, world.alice_account());
    tally.judge(called.is_err(), || {
        format!("afterwards: {:?}", called.err())
    });
    Ok(tally)
}
