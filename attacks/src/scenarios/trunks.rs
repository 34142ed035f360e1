//! A trunk's password, its member's address, and the tokens of calls that go over it.

mod password;
mod tokens;

use super::led::{NO_HOUSE, marked, own};
use crate::house::{FREDS_FORWARD, NINAS_FORWARD, asks, challenge, proofs};
use crate::phone::{Manner, Phone};
use crate::scenario::{Scale, Scenario, Tally};
use crate::target::Setup;
use crate::wire::{Draft, MARK, Text, word};
use crate::world::World;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "trunk.password",
        tries: "Who is called, a gateway, another port of the provider's address, whom the provider names and who answers in his place challenge in the trunk's realm; the provider challenges for other realms, by the other status, and when it has rung.",
        through: "anything computed from the trunk's password that is shown to somebody else, or to the provider for what it has not asked for itself.",
        setup: own,
        not_kamailio: NO_HOUSE,
        run: |world, _| password::password(world, true),
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
        run: |world, _| password::password(world, false),
    },
    Scenario {
        name: "trunk.registration",
        tries: "The server is started again, and its REGISTER is challenged for other realms, led elsewhere, and challenged from elsewhere.",
        through: "anything computed from the trunk's password that is shown to somebody else, or for another realm.",
        setup: own,
        not_kamailio: NO_HOUSE,
        run: password::registration,
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
        run: tokens::token,
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
