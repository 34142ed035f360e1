//! Aliases, rewritten numbers and forwards as a way to the outside: for strangers, and for
//! users who may not call there themselves.

use std::time::Duration;

use crate::digest::Account;
use crate::house::{FREDS_FORWARD, HOOKED, NINAS_FORWARD, limited, people};
use crate::phone::{Manner, Phone, authorize};
use crate::scenario::{Scale, Scenario, Tally};
use crate::target::Setup;
use crate::wire::{Draft, MARK, Text, word};
use crate::world::{World, fresh_source};

/// Why Kamailio is left out of what an office has.
pub(super) const NO_HOUSE: Option<&str> =
    Some("its common configuration has no trunk with a password, no people's rights and no hook");

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "led.strangers",
        tries: "Strangers, who may call users here, call aliases, rewritten numbers and users who forward, in many writings, with Diversion, Referred-By, identities and Routes of their choice.",
        through: "a request that reaches the provider or the gateway other than by the forward of a user who may call that number; one that shows a number of somebody who has no part in it.",
        setup: |setup: &mut Setup| {
            setup.own_configuration = true;
            setup.keys.push_str("inbound = \"anyone\"\n");
        },
        not_kamailio: NO_HOUSE,
        run: |world, scale| strangers(world, scale, true),
    },
    Scenario {
        name: "led.nobody",
        tries: "The same where strangers may call nobody.",
        through: "a request that reaches anybody.",
        setup: own,
        not_kamailio: NO_HOUSE,
        run: |world, scale| strangers(world, scale, false),
    },
    Scenario {
        name: "led.permissions",
        tries: "Users who may call within the house or the country alone call abroad: by every writing of a number, aliases, rewriting, the hook, forwards of their own, REFER, a 3xx of an accomplice, contacts, and from within a call.",
        through: "a request that reaches the gateway or the provider at a number that its sender may not call.",
        setup: own,
        not_kamailio: NO_HOUSE,
        run: permissions,
    },
];

pub(super) fn own(setup: &mut Setup) {
    setup.own_configuration = true;
}

/// Writings of whatever leads somewhere, at this server's names.
pub(super) fn writings(world: &World, name: &str) -> Vec<String> {
    let (domain, place) = (&world.domain, world.server.place());
    let escaped: String = name.bytes().map(|b| format!("%{b:02X}")).collect();
    let mut all = vec![
        format!("sip:{name}@{domain}"),
        format!("sip:{escaped}@{domain}"),
        format!("sip:{name};x=y@{domain}"),
        format!("sip:{name}:password@{domain}"),
        format!("sip:{name}@{place};user=phone"),
        format!(
            "sip:{name}@{};maddr={}",
            domain.to_uppercase(),
            world.to().ip()
        ),
        format!("sip:{name}@{domain};lr"),
        format!("sip:{name}@{domain}?P-Asserted-Identity=sip:alice@{domain}"),
    ];
    let digits = name.trim_start_matches('+');
    if digits.bytes().all(|b| b.is_ascii_digit()) {
        let plus = if name.starts_with('+') { "+" } else { "" };
        let (front, rest) = digits.split_at(3);
        all.extend([
            format!("tel:{name}"),
            format!("tel:{plus}{front}-({rest})"),
            format!("tel:{name};phone-context=+49"),
            format!("tel:{name};phone-context={domain}"),
            format!("tel:{name};ext=1;isub=2"),
            format!("sip:{plus}{front}.{rest}@{domain}"),
            format!("sip:{plus}{front}-{rest}@{domain};user=phone"),
            format!("sip:{plus}({front}){rest};phone-context=+49@{domain};user=phone"),
            format!("sip:{name};tgrp=provider;trunk-context=provider.test@{domain}"),
        ]);
    }
    all
}

/// Headers by which a call might be taken for somebody else's, or for one that was led on.
fn pretences(world: &World) -> Vec<Vec<(&'static str, String)>> {
    let (fred, alice) = (format!("sip:fred@{}", world.domain), world.alice_aor());
    let (place, number) = (world.server.place(), world.number());
    vec![
        vec![],
        vec![(
            "Diversion",
            format!("<{fred}>;reason=unconditional;counter=1"),
        )],
        vec![
            ("Diversion", format!("<{alice}>;reason=user-busy")),
            ("Referred-By", format!("<{alice}>")),
        ],
        vec![
            ("History-Info", format!("<{fred}>;index=1")),
            ("History-Info", format!("<{number};cause=302>;index=1.1")),
        ],
        vec![("P-Asserted-Identity", format!("<{alice}>"))],
        vec![
            ("P-Preferred-Identity", "<tel:+4930101>".to_owned()),
            ("Privacy", "id".to_owned()),
        ],
        vec![(
            "Remote-Party-ID",
            format!("<{alice}>;party=calling;screen=yes;privacy=off"),
        )],
        vec![("Route", format!("<sip:{place};lr>"))],
        vec![
            ("Route", format!("<sip:{place};lr>")),
            ("Route", format!("<{number};lr>")),
        ],
        vec![("Route", format!("<sip:{};lr>", world.house.provider.local))],
        vec![("Route", "<sip:provider.test;lr>".to_owned())],
        vec![
            ("X-Account", "alice@example.test".to_owned()),
            ("P-Charge-Info", format!("<{alice}>")),
        ],
    ]
}

fn strangers(world: &mut World, _: &Scale, may_call: bool) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let names = [
        "doctor",
        "abroad",
        "far",
        "led",
        HOOKED,
        "0301234567",
        "0019005551",
        "+4930888001",
        "+1900888002",
        "fred",
        "nina",
        "nora",
        "igor",
    ];
    let prefix = word("led");
    let mut number = 0_u64;
    for name in names {
        let mut source = fresh_source()?;
        for (n, uri) in writings(world, name).iter().enumerate() {
            let mut given = pretences(world);
            // One writing of each name with all pretences, the others with few.
            if n > 0 && uri.contains("sip:") && !name.contains(|c: char| c.is_ascii_digit()) {
                given.truncate(2);
            }
            for headers in given {
                for method in ["INVITE", "MESSAGE", "REFER", "ACK", "BYE", "OPTIONS"] {
                    number += 1;
                    let from = ["sip:x@x.invalid", "sip:+4930101@x.invalid;user=phone"]
                        .get(usize::try_from(number % 2).unwrap_or(0))
                        .copied()
                        .unwrap_or("");
                    let from = from.replacen("x@", &format!("x{number}@"), 1);
                    let mut draft = Draft::new(method, &from, uri)
                        .mark(&format!("{prefix}.{name}.{number}"))
                        .contact(&world.foreign.contact());
                    for (name, value) in &headers {
                        draft = draft.with(name, value);
                    }
                    if method == "REFER" {
                        draft = draft.with("Refer-To", &format!("<{}>", world.number()));
                    }
                    if number.is_multiple_of(3) {
                        draft.to_tag = Some("made-up".to_owned());
                    }
                    if number.is_multiple_of(8) {
                        source = fresh_source()?;
                    }
                    let local = source.local_addr().map_err(|e| e.to_string())?;
                    let _ = source.send_to(&draft.render(local, "UDP"), world.to());
                    tally.try_many(1);
                }
            }
            world.settle_briefly();
        }
    }
    world.settle();
    // A call by the forward of who may, to the number that was written down for it. An ACK of
    // nothing is no call.
    let is_a_forward = |request: &Text| {
        let mark = request.header(MARK).unwrap_or("");
        let to = |number: &str| request.start.contains(number);
        may_call
            && request.method() == "INVITE"
            && (mark.contains(".fred.") && to(FREDS_FORWARD)
                || mark.contains(".nina.") && to(NINAS_FORWARD))
    };
    let mut forwarded = 0_u64;
    for (who, phone) in outside(world) {
        for request in marked(phone, &prefix) {
            if is_a_forward(&request) {
                forwarded += 1;
                let shown = pretended(&request, &["Diversion", "History-Info"]);
                tally.break_in(u64::from(shown.is_some()), || {
                    format!("{who} is shown {}", shown.unwrap_or_default())
                });
                continue;
            }
            let mark = request.header(MARK).unwrap_or("").to_owned();
            tally.break_in(1, || {
                format!("{who} was reached: {} ({mark})", request.start)
            });
        }
    }
    if !may_call {
        let n = world.reached(&prefix);
        tally.break_in(n, || format!("{n} reached a user"));
    }
    // What is to be held off must have had a chance.
    if may_call && forwarded == 0 {
        return Err("no forward was followed, so nothing is shown".to_owned());
    }
    Ok(tally)
}

/// Who is outside, and charges.
fn outside(world: &World) -> [(&'static str, &Phone); 3] {
    [
        ("the gateway", &world.gateway),
        ("the provider", &world.house.provider),
        ("the provider's other port", &world.house.beside),
    ]
}

/// Requests of attempts, each once.
pub(super) fn marked(phone: &Phone, prefix: &str) -> Vec<Text> {
    let mut found = phone.seen(|r| r.header(MARK).is_some_and(|m| m.starts_with(prefix)));
    found.sort_by(|a, b| a.header("Via").cmp(&b.header("Via")));
    found.dedup_by(|a, b| a.header("Via") == b.header("Via") && a.method() == b.method());
    found
}

/// An identity in a forwarded call that its sender wrote, or that is another user's. By
/// `more` providers charge, too.
fn pretended(request: &Text, more: &[&str]) -> Option<String> {
    const ALICES: [&str; 2] = ["alice@", "+4930101"];
    const IDENTITIES: [&str; 4] = [
        "P-Asserted-Identity",
        "P-Preferred-Identity",
        "Remote-Party-ID",
        "P-Charge-Info",
    ];
    IDENTITIES.iter().chain(more).find_map(|name| {
        let mut lines = request.all(name);
        let line = lines.find(|line| ALICES.iter().any(|a| line.contains(a)))?;
        let mark = request.header(MARK).unwrap_or("");
        Some(format!("{} shows {name}: {line} ({mark})", request.start))
    })
}

/// A user of the office who calls with his own password from his own phone.
pub(super) struct Caller {
    pub(super) phone: Phone,
    pub(super) account: Account,
    pub(super) aor: String,
}

impl Caller {
    pub(super) fn named(world: &World, name: &str, last: u8) -> Result<Self, String> {
        let account = people()
            .into_iter()
            .find(|account| account.user == name)
            .ok_or("there is nobody of that name")?;
        let aor = world.aor(&account);
        let phone = Phone::at([127, 0, 2, last])?;
        phone.register(world.to(), &world.domain, &account)?;
        Ok(Self {
            phone,
            account,
            aor,
        })
    }

    /// Asks as a client does, and with the password where it is challenged.
    pub(super) fn ask(&self, world: &World, draft: &Draft) -> Option<Text> {
        let patience = Duration::from_millis(1_500);
        let first = self.phone.ask_for(patience, world.to(), draft)?;
        match authorize(draft, &first, &self.account) {
            Some(next) => self.phone.ask_for(patience, world.to(), &next),
            None => Some(first),
        }
    }
}

fn permissions(world: &mut World, _: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let prefix = word("may");
    // What nobody may call, by who may call all else.
    let blocked = [
        "+88212",
        "0088212",
        "%2B88212",
        "*31#+88212",
        "#31#0088212",
        "0049+88212",
        "+0088212",
    ];
    let abroad = limited(0);
    for (name, last, rights, numbers) in [
        (
            abroad.as_str(),
            33,
            &["bob", "0301234567", "doctor", "+1900555"][..],
            blocked.to_vec(),
        ),
        (
            "nora",
            31,
            &["bob", "0301234567", "doctor"],
            vec!["+1900555", "001900555", "abroad", "far", "led"],
        ),
        (
            "igor",
            32,
            &["bob", "sales"],
            vec![
                "+1900555",
                "+4930888001",
                "0301234567",
                "doctor",
                "far",
                "led",
                HOOKED,
                "112",
                "112,+1900555",
                "1121900555",
                "112*1900555",
                "112#",
                "+112",
                "00112",
                "112;rn=+1900555",
            ],
        ),
    ] {
        let caller = Caller::named(world, name, last)?;
        let calls_abroad = name == abroad;
        // Within his rights he gets through, or nothing would be shown.
        for to in rights {
            let uri = format!("sip:{to}@{}", world.domain);
            let answer = caller.ask(world, &caller.phone.invite(&caller.aor, &uri));
            if answer.as_ref().and_then(Text::status) != Some(200) {
                let got = answer.map(|answer| answer.start);
                return Err(format!("{name} cannot call {to}: {got:?}"));
            }
        }
        let mut number = 0_u64;
        for (n, to) in numbers.iter().enumerate() {
            for (m, uri) in writings(world, to).iter().enumerate() {
                let mut given = pretences(world);
                if n + m > 0 {
                    given = given.split_off((n + m) % given.len());
                    given.truncate(2);
                }
                for headers in given {
                    let methods = ["INVITE", "MESSAGE", "OPTIONS", "INVITE", "SUBSCRIBE", "FOO"];
                    let turn = usize::try_from(number).unwrap_or(0) % methods.len();
                    let method = methods.get(turn).unwrap_or(&"INVITE");
                    number += 1;
                    let mut draft = Draft::new(method, &caller.aor, uri)
                        .mark(&format!("{prefix}.{name}.{to}.{number}"))
                        .contact(&caller.phone.contact());
                    for (name, value) in &headers {
                        draft = draft.with(name, value);
                    }
                    let _ = caller.ask(world, &draft);
                    tally.try_many(1);
                }
            }
        }
        if !calls_abroad {
            by_others(world, &caller, &prefix, &mut tally)?;
            within_a_call(world, &caller, &prefix, &mut tally)?;
        }
    }
    world.settle();
    for (who, phone) in outside(world) {
        for request in marked(phone, &prefix) {
            let mark = request.header(MARK).unwrap_or("").to_owned();
            // Within the country nora may call, and for help everybody.
            let to = |number: &str| request.start.contains(&format!("sip:{number}"));
            if mark.contains(".nora.") && to("+49") || to("112@") {
                continue;
            }
            tally.break_in(1, || {
                format!("{who} was reached: {} ({mark})", request.start)
            });
        }
    }
    Ok(tally)
}

/// His own forwards, contacts, REFER, and a 3xx of an accomplice.
fn by_others(
    world: &World,
    caller: &Caller,
    prefix: &str,
    tally: &mut Tally,
) -> Result<(), String> {
    let name = &caller.account.user;
    let number = world.number();
    // Others call him, who forwards where he may not call.
    caller.phone.manner(Manner::Answers);
    for method in ["INVITE", "MESSAGE"] {
        let call = Draft::new(method, &world.mallory_aor(), &caller.aor)
            .mark(&format!("{prefix}.{name}.forwards"))
            .contact(&world.mallory.contact());
        let _ = world
            .mallory
            .ask_as(world.to(), &call, world.mallory_account());
        tally.try_many(1);
    }
    for referred in [
        world.bob_aor(),
        number.clone(),
        format!("sip:{}", world.server.place()),
    ] {
        let refer = Draft::new("REFER", &caller.aor, &referred)
            .mark(&format!("{prefix}.{name}.refers"))
            .contact(&caller.phone.contact())
            .with("Refer-To", &format!("<{number}?Replaces=x>"));
        let _ = caller.ask(world, &refer);
        tally.try_many(1);
    }
    let gateway = world.gateway.local;
    for target in [
        format!("<{number}>"),
        "<tel:+1900555>".to_owned(),
        format!("<sip:+1900555@{gateway}>"),
        format!("<sip:abroad@{}>", world.domain),
        format!("<sip:+1900555@{}>", world.server.place()),
        format!(
            "<sip:+1900555@{}>;q=0.5, <{number}?Diversion=%3Csip:fred@x%3E>",
            world.domain
        ),
    ] {
        for status in [
            "302 Moved Temporarily",
            "300 Multiple Choices",
            "305 Use Proxy",
            "380 Alternative Service",
        ] {
            let contact = target.clone();
            world.bob.script(move |request| {
                vec![request.answer_with(status, Some("moved"), &[("Contact", &contact)])]
            });
            let call = Draft::new("INVITE", &caller.aor, &world.bob_aor())
                .mark(&format!("{prefix}.{name}.moved"))
                .contact(&caller.phone.contact());
            let _ = caller.ask(world, &call);
            tally.try_many(1);
        }
        world.bob.manner(Manner::Answers);
        // And as a contact of his own, for whoever calls him.
        let register = Draft::new("REGISTER", &caller.aor, &caller.aor)
            .uri(&format!("sip:{}", world.domain))
            .contact(&target);
        let _ = caller.ask(world, &register);
        let call = Draft::new("INVITE", &caller.aor, &caller.aor)
            .mark(&format!("{prefix}.{name}.contact"))
            .contact(&caller.phone.contact());
        let _ = caller.ask(world, &call);
        tally.try_many(2);
    }
    Ok(())
}

/// Requests of a call of his own, with other places in them.
fn within_a_call(
    world: &World,
    caller: &Caller,
    prefix: &str,
    tally: &mut Tally,
) -> Result<(), String> {
    let name = &caller.account.user;
    let invite = caller.phone.invite(&caller.aor, &world.bob_aor());
    let mut dialog = caller.phone.call(world.to(), &invite, &caller.account)?;
    let number = world.number();
    let places = [
        number.clone(),
        format!("sip:abroad@{}", world.domain),
        format!("sip:+1900555@{}", world.gateway.local),
        "tel:+1900555".to_owned(),
    ];
    for uri in &places {
        for method in ["INVITE", "UPDATE", "REFER", "INFO", "BYE"] {
            let bare = dialog
                .request(method)
                .mark(&format!("{prefix}.{name}.within"))
                .contact(&caller.phone.contact());
            let mut with_route = bare.again();
            with_route.routes.push(format!("<{uri};lr>"));
            let mut instead = bare.again().uri(uri);
            let mut without = instead.again();
            without.routes.clear();
            instead.cseq += 1;
            for draft in [with_route, instead, without] {
                let _ = caller.ask(world, &draft);
                tally.try_many(1);
            }
        }
    }
    Ok(())
}
