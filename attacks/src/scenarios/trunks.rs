//! A trunk's password, its member's address, and the tokens of calls that go over it.

use std::time::Duration;

use super::led::{NO_HOUSE, marked, own};
use crate::house::{FREDS_FORWARD, NINAS_FORWARD, OWN_NONCE, REALM, asks, challenge, proofs};
use crate::phone::{Dialog, Manner, PATIENCE, Phone};
use crate::scenario::{Scale, Scenario, Tally};
use crate::target::Setup;
use crate::wire::{Draft, MARK, Text, uri_of, word};
use crate::world::{World, fresh_source};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "trunk.password",
        tries: "Who is called, a gateway, another port of the provider's address, whom the provider names and who answers in his place challenge in the trunk's realm; the provider challenges for other realms, by the other status, and when it has rung.",
        through: "anything computed from the trunk's password that is shown to somebody else, or to the provider for what it has not asked for itself.",
        setup: own,
        not_kamailio: NO_HOUSE,
        run: |world, _| password(world, true),
    },
    Scenario {
        name: "trunk.password-either",
        tries: "The same where the operator has not written down by which status the provider asks.",
        through: "the same, but for a 401 of the provider's before anything rings.",
        setup: |setup: &mut Setup| {
            own(setup);
            setup.trunk.clear();
        },
        not_kamailio: NO_HOUSE,
        run: |world, _| password(world, false),
    },
    Scenario {
        name: "trunk.registration",
        tries: "The server is started again, and its REGISTER is challenged for other realms, led elsewhere, and challenged from elsewhere.",
        through: "anything computed from the trunk's password that is shown to somebody else, or for another realm.",
        setup: own,
        not_kamailio: NO_HOUSE,
        run: registration,
    },
    Scenario {
        name: "trunk.member",
        tries: "The provider calls numbers of gateways, aliases of numbers, foreign hosts and itself, by Request-URI and Route, and users in the name of users of ours, in From and in identities.",
        through: "a request that reaches the outside other than by a user's forward; one that reaches a user in the name of another.",
        setup: own,
        not_kamailio: NO_HOUSE,
        run: member,
    },
    Scenario {
        name: "trunk.past-tables",
        tries: "A user's requests to the provider's own address: by Request-URI, Route, maddr, Path and registered contacts.",
        through: "a request that arrives there past the routing tables.",
        setup: own,
        not_kamailio: NO_HOUSE,
        run: |world, _| {
            let mut tally = Tally::default();
            provider_works(world)?;
            super::relay::past_tables(world, &world.house.provider, &mut tally)?;
            Ok(tally)
        },
    },
    Scenario {
        name: "trunk.caller",
        tries: "A user without a number calls by the trunk with another user's name and number in From, and in headers by which providers know who calls and who pays, with Privacy and without.",
        through: "a call that shows the provider any of that.",
        setup: own,
        not_kamailio: NO_HOUSE,
        run: caller,
    },
    Scenario {
        name: "token.trunk",
        tries: "BYE, re-INVITE, MESSAGE and REFER with the tokens of a call over the trunk, altered in each part, exchanged and toward others, from strangers, the provider and the caller.",
        through: "a request of a stranger that reaches anybody; one that reaches the gateway, a host inside or elsewhere; anything computed from the trunk's password that is shown to others.",
        setup: own,
        not_kamailio: NO_HOUSE,
        run: token,
    },
];

/// Alice asks for this, with her own password where she is challenged.
fn alice_asks(world: &World, draft: &Draft) -> Option<Text> {
    let asked = world.alice.ask_as(world.to(), draft, world.alice_account());
    asked.ok().map(|(_, answer)| answer)
}

/// A call or message of alice's.
fn of_alice(world: &World, method: &str, uri: &str) -> Draft {
    Draft::new(method, &world.alice_aor(), uri).contact(&world.alice.contact())
}

/// That the provider is called, and shown the password: else nothing is shown here.
fn provider_works(world: &World) -> Result<(), String> {
    let provider = &world.house.provider;
    provider.manner(Manner::Scripted(asks(&provider.contact())));
    let mark = word("good");
    let uri = format!("sip:doctor@{}", world.domain);
    let answer = alice_asks(world, &of_alice(world, "INVITE", &uri).mark(&mark));
    let is_shown = |r: &Text| r.header(MARK) == Some(&mark) && !proofs(r).is_empty();
    match (provider.seen(is_shown).is_empty(), answer) {
        (false, Some(answer)) if answer.status() == Some(200) => Ok(()),
        (_, answer) => {
            let got = answer.map(|answer| answer.start);
            Err(format!("a call by the provider got {got:?}"))
        }
    }
}

/// Header lines by name and value.
type Lines = Vec<(&'static str, String)>;

/// The challenges of who is not the provider, or asks for what is not his.
fn challenges_in(realm: &str, nonce: &str) -> Vec<(&'static str, Lines)> {
    let value = challenge(realm, nonce);
    let (www, proxy) = ("WWW-Authenticate", "Proxy-Authenticate");
    let (needs_user, needs_proxy) = ("401 Unauthorized", "407 Proxy Authentication Required");
    vec![
        (needs_proxy, vec![(proxy, value.clone())]),
        (needs_user, vec![(www, value.clone())]),
        (needs_proxy, vec![(www, value.clone())]),
        (needs_user, vec![(proxy, value.clone())]),
        (
            needs_proxy,
            vec![(www, value.clone()), (proxy, value.clone())],
        ),
        (
            needs_user,
            vec![(www, value.clone()), (proxy, value.clone())],
        ),
        (
            needs_proxy,
            vec![(proxy, value.replace(", qop=\"auth\"", ""))],
        ),
        (
            needs_proxy,
            vec![(
                proxy,
                value.replace(", qop=\"auth\", algorithm=MD5", ", stale=true"),
            )],
        ),
        (
            needs_proxy,
            vec![(proxy, value.replace("algorithm=MD5", "algorithm=MD5-sess"))],
        ),
        (
            needs_proxy,
            vec![(proxy, challenge("example.test", "fake")), (proxy, value)],
        ),
    ]
}

/// Has somebody answer everything so, after 180 or without.
fn answers(phone: &Phone, status: &str, headers: &[(&'static str, String)], rings: bool) {
    let (status, headers) = (status.to_owned(), headers.to_vec());
    phone.script(move |request| {
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
        let mut all = Vec::new();
        if rings && request.method() == "INVITE" {
            all.push(request.answer("180 Ringing", Some("asks"), Some("<sip:x@x.invalid>")));
        }
        let status = if request.method() == "CANCEL" {
            "200 OK"
        } else {
            status.as_str()
        };
        all.push(request.answer_with(status, Some("asks"), &headers));
        all
    });
}

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

fn password(world: &mut World, has_status: bool) -> Result<Tally, String> {
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

fn registration(world: &mut World, scale: &Scale) -> Result<Tally, String> {
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

fn member(world: &mut World, _: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let world = &*world;
    let prefix = word("member");
    let (domain, place) = (&world.domain, world.server.place());
    let (gateway, foreign, inside) = (world.gateway.local, world.foreign.local, world.inside.local);
    let uris = [
        ("bob", world.bob_aor()),
        ("bob", "sip:+4930102@provider.test".to_owned()),
        ("bob", format!("sip:+4930555100@{place}")),
        ("out", world.number()),
        ("out", format!("sip:+1900555@{place}")),
        ("out", "tel:+1900555".to_owned()),
        ("out", format!("sip:doctor@{domain}")),
        ("out", format!("sip:abroad@{domain}")),
        ("out", format!("sip:led@{domain}")),
        ("out", format!("sip:+4966123@{domain}")),
        ("out", format!("sip:+4930888001@{domain}")),
        ("out", "sip:+1900555@partner.test".to_owned()),
        ("out", format!("sip:x@{gateway}")),
        ("out", format!("sip:x@{foreign}")),
        ("out", format!("sip:x@{inside}")),
        ("out", format!("sip:nora@{domain}")),
        ("out", format!("sip:igor@{domain}")),
        ("fred", format!("sip:fred@{domain}")),
        ("nina", format!("sip:nina@{domain}")),
    ];
    let froms = [
        ("theirs", "sip:+49301234@provider.test".to_owned()),
        ("ours", world.alice_aor()),
        ("ours", world.alice_aor().replacen("sip:", "sips:", 1)),
        ("ours", format!("sip:alice@{}", domain.to_uppercase())),
        ("ours", format!("sip:%61lice@{domain}.")),
        ("ours", format!("sip:alice@{domain}:5060;user=phone")),
        ("ours", format!("sip:alice@{place}")),
    ];
    let alice = world.alice_aor();
    let identities: Vec<Vec<(&str, String)>> = vec![
        vec![],
        vec![("P-Asserted-Identity", format!("<{alice}>"))],
        vec![(
            "P-Asserted-Identity",
            format!("<sip:+49301@provider.test>, \"x\" <sip:alice@{place}>"),
        )],
        vec![(
            "Remote-Party-ID",
            format!("\"CEO\" <{alice}>;party=calling;screen=yes"),
        )],
        vec![
            ("P-Charge-Info", format!("<{alice}>")),
            ("Referred-By", format!("<{alice}>")),
        ],
        vec![("Diversion", format!("<sip:fred@{domain}>;counter=1"))],
        vec![
            ("Route", format!("<sip:{place};lr>")),
            ("Route", format!("<sip:{gateway};lr>")),
        ],
        vec![
            ("Route", format!("<sip:{place};lr>")),
            ("Route", format!("<{};lr>", world.number())),
        ],
    ];
    let mut number = 0_u32;
    for (to, uri) in &uris {
        for (from_kind, from) in &froms {
            for (n, headers) in identities.iter().enumerate() {
                for method in ["INVITE", "MESSAGE", "REFER"] {
                    number += 1;
                    let kind = match (*from_kind, n) {
                        ("theirs", 0 | 4..) => "theirs",
                        _ => "ours",
                    };
                    let mut draft = Draft::new(method, from, uri)
                        .mark(&format!("{prefix}.{to}.{kind}.{number}"))
                        .contact(&world.house.provider.contact());
                    for (name, value) in headers {
                        draft = draft.with(name, value);
                    }
                    if number.is_multiple_of(4) {
                        draft.to_tag = Some("made-up".to_owned());
                    }
                    if method == "REFER" {
                        draft = draft.with("Refer-To", &format!("<{}>", world.number()));
                    }
                    let by = if number.is_multiple_of(5) {
                        &world.house.beside
                    } else {
                        &world.house.provider
                    };
                    by.send(world.to(), &draft);
                    tally.try_many(1);
                }
            }
        }
        world.settle_briefly();
    }
    world.settle();
    let mut arrived = 0;
    for (who, phone) in [
        ("alice", &world.alice),
        ("bob", &world.bob),
        ("ceo", &world.ceo),
    ] {
        for request in marked(phone, &prefix) {
            arrived += 1;
            let ours = says_ours(world, &request);
            tally.break_in(u64::from(ours.is_some()), || {
                format!(
                    "{who} was called in the name of one of ours: {}",
                    ours.unwrap_or_default()
                )
            });
        }
    }
    for (who, phone) in [
        ("the gateway", &world.gateway),
        ("the provider", &world.house.provider),
        ("its other port", &world.house.beside),
        ("a foreign host", &world.foreign),
        ("a host inside", &world.inside),
    ] {
        for request in marked(phone, &prefix) {
            let mark = request.header(MARK).unwrap_or("");
            let by_forward = mark.contains(".fred.") && request.start.contains(FREDS_FORWARD)
                || mark.contains(".nina.") && request.start.contains(NINAS_FORWARD);
            tally.break_in(u64::from(!by_forward), || {
                format!("{who} was reached: {} ({mark})", request.start)
            });
        }
    }
    if arrived == 0 {
        return Err("the provider reached nobody, so nothing is shown".to_owned());
    }
    Ok(tally)
}

/// What in a request of the provider's names one of our users as who calls.
fn says_ours(world: &World, request: &Text) -> Option<String> {
    let (domain, place) = (world.domain.to_lowercase(), world.server.place());
    [
        "From",
        "P-Asserted-Identity",
        "Remote-Party-ID",
        "P-Charge-Info",
    ]
    .iter()
    .flat_map(|name| {
        request
            .all(name)
            .map(move |line| (name, line.to_lowercase()))
    })
    .find(|(_, line)| line.contains(&format!("@{domain}")) || line.contains(&format!("@{place}")))
    .map(|(name, line)| format!("{name}: {line} ({})", request.header(MARK).unwrap_or("")))
}

/// Headers by which providers know who calls, or who pays. Diversion and History-Info are the
/// user agent's to say (docs/decisions/0080): they pass.
const NAMES_A_CALLER: [&str; 7] = [
    "From",
    "P-Asserted-Identity",
    "P-Preferred-Identity",
    "Remote-Party-ID",
    "P-Charge-Info",
    "P-Served-User",
    "P-Charging-Vector",
];

fn caller(world: &mut World, _: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let world = &*world;
    provider_works(world)?;
    let provider = &world.house.provider;
    let prefix = word("shown");
    let (alice, own) = (world.alice_aor(), world.mallory_aor());
    let names = [
        alice.clone(),
        "tel:+4930101".to_owned(),
        "sip:+4930101@provider.test".to_owned(),
        format!("sip:+4930101@{};user=phone", world.domain),
        format!("sip:030101@{}", world.server.place()),
    ];
    let mut drafts = Vec::new();
    for to in ["doctor", "+4930888001", "0301234567"] {
        let uri = format!("sip:{to}@{}", world.domain);
        for method in ["INVITE", "MESSAGE"] {
            let new = |from: &str| Draft::new(method, from, &uri).contact(&world.mallory.contact());
            for name in &names {
                drafts.push(new(name));
                for header in NAMES_A_CALLER.iter().skip(1) {
                    let value = match *header {
                        "Remote-Party-ID" => format!("<{name}>;party=calling;screen=yes"),
                        "P-Charging-Vector" => format!("icid-value=\"{name}\""),
                        _ => format!("\"4930101\" <{name}>"),
                    };
                    drafts.push(new(&own).with(header, &value));
                    drafts.push(new(&own).with(header, &value).with("Privacy", "id"));
                    let hidden = new("sip:anonymous@anonymous.invalid");
                    drafts.push(hidden.with(header, &value).with("Privacy", "id"));
                }
            }
        }
    }
    for (n, draft) in drafts.into_iter().enumerate() {
        let draft = draft.mark(&format!("{prefix}.{n}"));
        let _ = world
            .mallory
            .ask_as(world.to(), &draft, world.mallory_account())?;
        tally.try_many(1);
    }
    world.settle();
    let arrived = marked(provider, &prefix);
    if arrived.is_empty() {
        return Err("nothing reached the provider, so nothing is shown".to_owned());
    }
    for request in arrived {
        let shown = NAMES_A_CALLER.iter().find_map(|name| {
            let mut lines = request.all(name);
            let line =
                lines.find(|line| ["alice@", "30101"].iter().any(|other| line.contains(other)))?;
            Some(format!("{} shows {name}: {line}", request.start))
        });
        tally.break_in(u64::from(shown.is_some()), || shown.unwrap_or_default());
    }
    Ok(tally)
}

/// A call of alice's over the trunk, as the provider has it.
fn trunk_call(world: &World) -> Result<(Dialog, Text), String> {
    let mark = word("call");
    let uri = format!("sip:doctor@{}", world.domain);
    let invite = of_alice(world, "INVITE", &uri).mark(&mark);
    let dialog = world
        .alice
        .call(world.to(), &invite, world.alice_account())?;
    let is_it = |r: &Text| r.header(MARK) == Some(&mark) && !proofs(r).is_empty();
    let received = world
        .house
        .provider
        .wait_for(PATIENCE, is_it)
        .ok_or("the call did not reach the provider")?;
    if received.addresses("Record-Route").is_empty() {
        return Err("the route of a call over a trunk is not recorded".to_owned());
    }
    Ok((dialog, received))
}

/// Other writings of a route with a token: each part of it altered, and without it.
fn altered(route: &str, step: usize) -> Vec<String> {
    let uri = uri_of(route).to_owned();
    let Some((token, host)) = uri
        .strip_prefix("sip:")
        .and_then(|rest| rest.split_once('@'))
    else {
        return vec![route.to_owned()];
    };
    let at_host = |token: &str| format!("<sip:{token}@{host}>");
    let mut all: Vec<String> = Vec::new();
    for place in (0..token.len()).step_by(step.max(1)) {
        let mut bytes = token.as_bytes().to_vec();
        if let Some(byte) = bytes.get_mut(place) {
            *byte = match *byte {
                b'a'..=b'z' => byte.to_ascii_uppercase(),
                b'A'..=b'Z' => byte.to_ascii_lowercase(),
                b'0'..=b'8' => *byte + 1,
                _ => b'0',
            };
        }
        all.push(at_host(&String::from_utf8_lossy(&bytes)));
        all.push(at_host(token.get(place..).unwrap_or("")));
        all.push(at_host(token.get(..place).unwrap_or("")));
    }
    all.push(at_host(&format!("{token}{token}")));
    all.push(at_host(&format!("{token}A")));
    all.push(at_host(&token.to_lowercase()));
    all.push(format!("<sip:{host}>"));
    all.retain(|other| uri_of(other) != uri);
    all
}

fn token(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let world = &*world;
    provider_works(world)?;
    let (mut dialog, received) = trunk_call(world)?;
    let theirs = received.addresses("Record-Route");
    let (Some(their_first), Some(our_first)) = (theirs.first(), dialog.routes.first()) else {
        return Err("the call has no routes".to_owned());
    };
    let step = usize::try_from(scale.of(5, 1)).unwrap_or(5);
    let mut lists: Vec<Vec<String>> = altered(their_first, step)
        .into_iter()
        .map(|route| {
            let mut routes = theirs.clone();
            if let Some(first) = routes.first_mut() {
                *first = route;
            }
            routes
        })
        .collect();
    let exchanged = vec![our_first.clone()];
    lists.extend([Vec::new(), exchanged, dialog.routes.clone()]);
    let prefix = word("token");
    // As the called side: from strangers and from the provider.
    let base = dialog.callees_request(&received);
    let gateway = format!("sip:+1900555@{}", world.gateway.local);
    let uris = [
        base.uri.clone(),
        world.number(),
        world.bob_aor(),
        gateway.clone(),
        format!("sip:x@{}", world.foreign.local),
    ];
    let mut number = 0_u32;
    let mut source = fresh_source()?;
    for routes in &lists {
        for uri in &uris {
            for method in ["BYE", "INVITE", "MESSAGE", "REFER"] {
                number += 1;
                let mut draft = base.clone().contact(&world.foreign.contact());
                method.clone_into(&mut draft.method);
                draft.branch = word("z9hG4bK");
                draft.cseq += number;
                draft.uri.clone_from(uri);
                draft.routes.clone_from(routes);
                if number.is_multiple_of(8) {
                    source = fresh_source()?;
                    world.settle_briefly();
                }
                let local = source.local_addr().map_err(|e| e.to_string())?;
                let stranger = draft.clone().mark(&format!("{prefix}.stranger.{number}"));
                let _ = source.send_to(&stranger.render(local, "UDP"), world.to());
                draft.branch = word("z9hG4bK");
                let member = draft.mark(&format!("{prefix}.member.{number}"));
                if number.is_multiple_of(3) {
                    world.house.provider.send(world.to(), &member);
                    tally.try_many(1);
                }
                tally.try_many(1);
            }
        }
    }
    world.settle();
    as_the_caller(world, &mut dialog, &prefix, step, &mut tally);
    world.settle();
    let inside_the_house = [&world.alice, &world.bob, &world.ceo];
    for phone in inside_the_house {
        for request in marked(phone, &format!("{prefix}.stranger.")) {
            let mark = request.header(MARK).unwrap_or("").to_owned();
            tally.break_in(1, || {
                format!("a stranger reached a user: {} ({mark})", request.start)
            });
        }
    }
    for (who, phone) in [
        ("the gateway", &world.gateway),
        ("a host inside", &world.inside),
        ("a foreign host", &world.foreign),
    ] {
        for request in marked(phone, &prefix) {
            let mark = request.header(MARK).unwrap_or("").to_owned();
            tally.break_in(1, || {
                format!("{who} was reached: {} ({mark})", request.start)
            });
        }
    }
    // The call itself goes on, and ends as calls do.
    let bye = dialog.request("BYE");
    let answer = world.alice.ask(world.to(), &bye)?;
    tally.judge(answer.status() != Some(200), || {
        format!("the call's own BYE got {}", answer.start)
    });
    Ok(tally)
}

/// The caller, who has the trunk's mark in her own routes, toward places that ask for the
/// trunk's password. Without credentials of her own she reaches nobody but her peer.
fn as_the_caller(world: &World, dialog: &mut Dialog, prefix: &str, step: usize, tally: &mut Tally) {
    let asked = [("Proxy-Authenticate", challenge(REALM, "fake"))];
    let others = [
        &world.foreign,
        &world.gateway,
        &world.house.beside,
        &world.inside,
    ];
    for other in others {
        answers(other, "407 Proxy Authentication Required", &asked, false);
    }
    let mut lists = vec![dialog.routes.clone()];
    if let Some(first) = dialog.routes.first() {
        lists.extend(
            altered(first, step * 4)
                .into_iter()
                .map(|route| vec![route]),
        );
    }
    let with_password = word("own");
    for (n, routes) in lists.into_iter().enumerate() {
        let is_whole = n < 4;
        for other in others {
            let place = other.local;
            for (uri, more) in [
                (format!("sip:x@{place}"), None),
                (dialog.target.clone(), Some(format!("<sip:{place};lr>"))),
                (
                    format!("sip:{REALM}:{};maddr={}", place.port(), place.ip()),
                    None,
                ),
            ] {
                for method in ["BYE", "INVITE", "INFO"] {
                    let mut draft = dialog
                        .request(method)
                        .mark(&format!("{prefix}.caller.{uri}"));
                    draft.uri.clone_from(&uri);
                    draft.routes.clone_from(&routes);
                    draft.routes.extend(more.clone());
                    draft = draft.contact(&world.alice.contact());
                    world.alice.send(world.to(), &draft);
                    tally.try_many(1);
                    // With her own password she may go elsewhere, but the trunk's stays.
                    if is_whole && method == "INFO" {
                        draft.headers.clear();
                        let _ = alice_asks(world, &draft.again().mark(&with_password));
                        dialog.request("INFO");
                        tally.try_many(1);
                    }
                }
            }
        }
        world.settle_briefly();
    }
    let past = marked(&world.gateway, &with_password);
    for request in past {
        tally.break_in(1, || {
            format!("the gateway was reached past the tables: {}", request.start)
        });
    }
    for other in others {
        other.manner(Manner::Answers);
    }
}
