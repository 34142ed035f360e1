//! To whom the trunk's password is shown: by calls, and by the registration.

use std::time::Duration;

use super::{Lines, alice_asks, answers, challenges_in, of_alice, provider_works};
use crate::house::{OWN_NONCE, REALM, asks, challenge, proofs};
use crate::phone::{Manner, PATIENCE};
use crate::scenario::{Scale, Tally};
use crate::wire::{MARK, Text, word};
use crate::world::World;

/// Values of a challenge that are for another realm, or for none.
fn other_realms() -> Vec<String> {
    let rest = "nonce=\"fake\", qop=\"auth\", algorithm=MD5";
    [
        "\"PROVIDER.TEST\"",
        "\"Provider.test\"",
        "\"provider.test \"",
        "\" provider.test\"",
        "\"provider.test.\"",
        "\"provider\"",
        "\"\"",
        "\"example.test\"",
        "\"sip.provider.test\"",
        "\"provider.test\\\"\"",
        "\"provider.test@evil.test\"",
        "\"provider.test,evil.test\"",
        "evil.test",
        "\"evil.test\", realm2=\"provider.test\"",
        "\"evil.test\", realm=\"provider.test\"",
        "\"provider.test\", realm=\"evil.test\"",
        "\"evil.test\", domain=\"sip:provider.test\"",
        "\"provider\u{2024}test\"",
        "\"provider.test\t\"",
    ]
    .iter()
    .map(|realm| format!("Digest realm={realm}, {rest}"))
    .chain([
        format!("Digest {rest}"),
        format!("Digest opaque=\"realm=\\\"{REALM}\\\"\", realm=\"evil.test\", {rest}"),
        format!("Digest xrealm=\"{REALM}\", {rest}"),
        format!("Basic realm=\"{REALM}\""),
        format!("DigestX realm=\"{REALM}\", {rest}"),
        format!("Digest realm=\"evil.test\", {rest}, Digest realm=\"evil.example\", {rest}"),
    ])
    .collect()
}

pub(super) fn password(world: &mut World, has_status: bool) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let world = &*world;
    provider_works(world)?;
    by_others_than_the_provider(world, &mut tally)?;
    provider_works(world)?;
    by_the_provider(world, has_status, &mut tally)?;
    provider_works(world)?;
    beyond_the_provider(world, &mut tally)?;
    provider_works(world)?;
    own_credentials(world, &mut tally);
    provider_works(world)?;
    world.settle();
    Ok(tally)
}

/// Who is called elsewhere asks in the trunk's realm.
fn by_others_than_the_provider(world: &World, tally: &mut Tally) -> Result<(), String> {
    let foreign = format!("sip:x@{}", world.foreign.local);
    let beside = format!("sip:x@{}", world.house.beside.local);
    let hooked = format!("sip:{}@{}", crate::house::HOOKED, world.domain);
    for (phone, uri) in [
        (&world.foreign, foreign),
        (&world.bob, world.bob_aor()),
        (&world.gateway, world.number()),
        (&world.gateway, hooked),
        (&world.house.beside, beside),
    ] {
        for (n, (status, headers)) in challenges_in(REALM, "fake").iter().enumerate() {
            answers(phone, status, headers, n % 2 == 1);
            for method in ["INVITE", "MESSAGE"] {
                let _ = alice_asks(world, &of_alice(world, method, &uri));
                tally.try_many(1);
            }
        }
        phone.manner(Manner::Answers);
    }
    world.call_works()
}

/// The provider asks for what is not its own, or at another time.
fn by_the_provider(world: &World, has_status: bool, tally: &mut Tally) -> Result<(), String> {
    let provider = &world.house.provider;
    let uri = format!("sip:doctor@{}", world.domain);
    let mut ways: Vec<(String, Lines, bool)> = Vec::new();
    for value in other_realms() {
        for header in ["Proxy-Authenticate", "WWW-Authenticate"] {
            for status in ["407 Proxy Authentication Required", "401 Unauthorized"] {
                ways.push((status.to_owned(), vec![(header, value.clone())], false));
            }
        }
    }
    for (status, headers) in challenges_in(REALM, "fake") {
        // By 401, or in WWW-Authenticate alone, it does not ask; nor when it has rung.
        let has = |name: &str| headers.iter().any(|(n, _)| *n == name);
        let by_its_own = status.starts_with("407") && has("Proxy-Authenticate")
            || !has_status && status.starts_with("401") && has("WWW-Authenticate");
        ways.push((status.to_owned(), headers.clone(), true));
        if !by_its_own {
            ways.push((status.to_owned(), headers, false));
        }
    }
    for (status, headers, rings) in ways {
        answers(provider, &status, &headers, rings);
        for method in ["INVITE", "MESSAGE"] {
            if rings && method == "MESSAGE" {
                continue;
            }
            let _ = alice_asks(world, &of_alice(world, method, &uri));
            tally.try_many(1);
        }
    }
    Ok(())
}

/// Whom the provider names, or who answers in its place, asks in its realm.
fn beyond_the_provider(world: &World, tally: &mut Tally) -> Result<(), String> {
    let provider = &world.house.provider;
    let uri = format!("sip:doctor@{}", world.domain);
    let others = [
        &world.foreign,
        &world.house.beside,
        &world.gateway,
        &world.mallory,
    ];
    let (status, headers) = (
        "407 Proxy Authentication Required",
        [("Proxy-Authenticate", challenge(REALM, "fake"))],
    );
    for other in others {
        answers(other, status, &headers, false);
        let place = other.local;
        // As the contact of the call, and as a route of it.
        for (contact, route, is_first) in [
            (other.contact(), None, false),
            (provider.contact(), Some(format!("<sip:{place};lr>")), true),
            (provider.contact(), Some(format!("<sip:{place};lr>")), false),
            (
                format!("<sip:{REALM}:{};maddr={}>", place.port(), place.ip()),
                None,
                false,
            ),
        ] {
            let usual = asks(&contact);
            provider.script(move |request| {
                let mut all = usual(request);
                if let (Some(route), Some(last)) = (&route, all.last_mut()) {
                    *last = with_record_route(last, route, is_first);
                }
                all
            });
            let invite = of_alice(world, "INVITE", &uri);
            let called = world.alice.call(world.to(), &invite, world.alice_account());
            let Ok(mut dialog) = called else {
                tally.try_many(1);
                continue;
            };
            for method in ["INFO", "INVITE", "UPDATE", "BYE"] {
                let draft = dialog.request(method).contact(&world.alice.contact());
                let _ = world
                    .alice
                    .ask_for(Duration::from_millis(1_500), world.to(), &draft);
                tally.try_many(1);
            }
        }
        // By a 3xx.
        for status in ["302 Moved Temporarily", "305 Use Proxy"] {
            let contact = format!(
                "<sip:+4930888001@{place}>, <sip:+4930888001@{place}?Route=%3Csip:{place};lr%3E>"
            );
            provider.script(move |request| {
                vec![request.answer_with(status, Some("moved"), &[("Contact", &contact)])]
            });
            let _ = alice_asks(world, &of_alice(world, "INVITE", &uri));
            tally.try_many(1);
        }
        // In its place, with the branch that it was sent.
        provider.manner(Manner::Silent);
        for method in ["INVITE", "MESSAGE"] {
            let mark = word("silent");
            let draft = of_alice(world, method, &uri).mark(&mark);
            let first = world.alice.ask(world.to(), &draft)?;
            let next = crate::phone::authorize(&draft, &first, world.alice_account())
                .ok_or("a call is not challenged")?;
            world.alice.send(world.to(), &next);
            let came = provider.wait_for(PATIENCE, |r| r.header(MARK) == Some(&mark));
            let came = came.ok_or("the provider was not called")?;
            let asked = challenge(REALM, &word(OWN_NONCE));
            let bytes = came.answer_with(status, Some("asks"), &[("Proxy-Authenticate", &asked)]);
            other.send_bytes(world.to(), &bytes);
            // Then the provider itself, that nothing is left open.
            provider.send_bytes(world.to(), &came.answer("486 Busy Here", Some("x"), None));
            world.settle_briefly();
            for again in provider.seen(|r| r.header(MARK) == Some(&mark) && r.method() == method) {
                provider.send_bytes(world.to(), &again.answer("486 Busy Here", Some("x"), None));
            }
            tally.try_many(1);
        }
        other.manner(Manner::Answers);
    }
    Ok(())
}

/// A response with a Record-Route more, before those that there are or behind them.
fn with_record_route(bytes: &[u8], route: &str, is_first: bool) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let line = format!("Record-Route: {route}\r\n");
    let end = "Content-Length: 0\r\n\r\n";
    match (is_first, text.split_once("\r\n")) {
        (true, Some((start, rest))) => format!("{start}\r\n{line}{rest}").into_bytes(),
        _ => text.replace(end, &format!("{line}{end}")).into_bytes(),
    }
}

/// What phones have for the trunk's realm, and for ours, goes no further.
fn own_credentials(world: &World, tally: &mut Tally) {
    let provider = &world.house.provider;
    provider.manner(Manner::Scripted(asks(&provider.contact())));
    let value = |realm: &str| {
        format!(
            "Digest username=\"alice\", realm=\"{realm}\", nonce=\"mine\", uri=\"sip:x\", response=\"00\""
        )
    };
    for name in ["Proxy-Authorization", "Authorization"] {
        for to in ["doctor", "+4930888001", "fred"] {
            let uri = format!("sip:{to}@{}", world.domain);
            let draft = of_alice(world, "MESSAGE", &uri).with(name, &value(REALM));
            let _ = alice_asks(world, &draft);
            tally.try_many(1);
        }
    }
    world.settle_briefly();
    let shown = provider.seen(|request| {
        ["Proxy-Authorization", "Authorization"]
            .iter()
            .flat_map(|name| request.all(name))
            .any(|line| line.contains("\"alice\""))
    });
    tally.break_in(shown.len() as u64, || {
        "what alice had for the trunk's realm or for ours reached the provider".to_owned()
    });
}

pub(super) fn registration(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let is_register = |r: &Text| r.method() == "REGISTER";
    let good = |r: &Text| is_register(r) && !proofs(r).is_empty();
    world
        .house
        .provider
        .wait_for(PATIENCE, good)
        .ok_or("the trunk is not registered")?;
    let evil = challenge("evil.test", "fake");
    let both = format!("{evil}, {}", challenge("PROVIDER.TEST", "fake"));
    let place = world.foreign.local;
    let ways = [
        ("401 Unauthorized", vec![("WWW-Authenticate", evil.clone())]),
        (
            "407 Proxy Authentication Required",
            vec![("Proxy-Authenticate", evil)],
        ),
        ("401 Unauthorized", vec![("WWW-Authenticate", both)]),
        (
            "302 Moved Temporarily",
            vec![("Contact", format!("<sip:{place}>"))],
        ),
        ("305 Use Proxy", vec![("Contact", format!("<sip:{place}>"))]),
        (
            "423 Interval Too Brief",
            vec![
                ("Min-Expires", "1".to_owned()),
                ("Contact", format!("<sip:{place}>")),
            ],
        ),
    ];
    let asked = [("WWW-Authenticate", challenge(REALM, "fake"))];
    answers(&world.foreign, "401 Unauthorized", &asked, false);
    let many = usize::try_from(scale.of(3, 6)).unwrap_or(3);
    for (status, headers) in ways.into_iter().take(many) {
        answers(&world.house.provider, status, &headers, false);
        let before = world.house.provider.seen(is_register).len();
        world.server.restart()?;
        let until = std::time::Instant::now() + PATIENCE;
        while world.house.provider.seen(is_register).len() == before {
            if std::time::Instant::now() > until {
                return Err("no REGISTER came after a start".to_owned());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        // In the provider's place, too, with the branch that it was sent.
        for came in world.house.provider.seen(is_register).split_off(before) {
            let (name, value) = (asked[0].0, asked[0].1.as_str());
            let bytes = came.answer_with("401 Unauthorized", Some("x"), &[(name, value)]);
            world.foreign.send_bytes(world.to(), &bytes);
        }
        world.settle();
        tally.try_many(1);
    }
    Ok(tally)
}
