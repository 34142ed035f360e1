//! More calls at a time than a user may have.

use std::time::Duration;

use super::led::{Caller, NO_HOUSE, marked};
use crate::house::{asks, limited, proofs};
use crate::phone::{Dialog, Manner, PATIENCE, Phone, authorize};
use crate::scenario::{Scale, Scenario, Tally};
use crate::target::Setup;
use crate::wire::{Draft, Text, word};
use crate::world::World;

pub(super) const SCENARIOS: &[Scenario] = &[Scenario {
    name: "limit.calls",
    tries: "Users who may have one call at a time begin several: at once, by other names and tags, with Replaces, after a CANCEL that the called side does not heed, and after a BYE that does not reach it.",
    through: "a second call that goes on beside the first.",
    setup: one_at_a_time,
    not_kamailio: NO_HOUSE,
    run: calls,
}];

/// Ways to have more than one, each tried by a user of its own.
const WAYS: [(&str, Attempt); 8] = [
    ("at once", at_once),
    ("by other names and tags", by_other_names),
    (
        "after a CANCEL that is not heeded",
        |world, caller, mark| after_cancel(world, caller, mark, true),
    ),
    (
        "after a CANCEL before anything rings",
        |world, caller, mark| after_cancel(world, caller, mark, false),
    ),
    ("after a BYE to somebody else", |world, caller, mark| {
        after_bye(world, caller, mark, bye_to_another)
    }),
    ("after a BYE with altered tags", |world, caller, mark| {
        after_bye(world, caller, mark, bye_with_other_tags)
    }),
    ("after a BYE past the server", |world, caller, mark| {
        after_bye(world, caller, mark, bye_without_routes)
    }),
    ("after a BYE of another user", |world, caller, mark| {
        after_bye(world, caller, mark, bye_of_mallory)
    }),
];

type Attempt = fn(&World, &Caller, &str) -> Result<u64, String>;
type Bye = fn(&World, &Caller, &mut Dialog);

fn one_at_a_time(setup: &mut Setup) {
    setup.own_configuration = true;
    for n in 0..WAYS.len() {
        let command = format!("user set {} --calls-max 1", limited(n));
        let words = command.split(' ').map(str::to_owned).collect();
        setup.commands.push(words);
    }
}

fn calls(world: &mut World, _: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for (n, (name, way)) in WAYS.into_iter().enumerate() {
        let last = u8::try_from(60 + n).unwrap_or(60);
        let caller = Caller::named(world, &limited(n), last)?;
        let mark = word("place");
        usual(world);
        tally.try_many(way(world, &caller, &mark)?);
        world.settle();
        let go_on = going_on(world, &mark);
        if go_on.is_empty() {
            return Err(format!("{name}: no call goes on, so nothing is shown"));
        }
        let more = go_on.len() as u64 - 1;
        tally.break_in(more, || format!("{name}: {go_on:?} go on"));
    }
    usual(world);
    Ok(tally)
}

/// The provider answers, the gateway and bob ring.
fn usual(world: &World) {
    let provider = &world.house.provider;
    provider.manner(Manner::Scripted(asks(&provider.contact())));
    world.gateway.manner(Manner::Rings);
    world.bob.manner(Manner::Rings);
}

/// The calls that were let in at those who are called, and have not ended there.
fn going_on(world: &World, mark: &str) -> Vec<String> {
    let callees = [&world.house.provider, &world.gateway, &world.bob];
    let mut go_on = Vec::new();
    for phone in callees {
        let is_provider = std::ptr::eq(phone, &world.house.provider);
        let seen = marked(phone, mark);
        let begun = |r: &&Text| r.method() == "INVITE" && (!is_provider || !proofs(r).is_empty());
        let id = |r: &Text| r.header("Call-ID").unwrap_or("").to_owned();
        for invite in seen.iter().filter(begun) {
            let has_ended = phone
                .seen(|r| r.method() == "BYE" && id(r) == id(invite))
                .iter()
                .any(|bye| !is_provider || !proofs(bye).is_empty());
            if !has_ended {
                let from = invite.header("From").unwrap_or("");
                go_on.push(format!("{} {from} {}", invite.start, id(invite)));
            }
        }
    }
    // A branch for each: what forks is one call.
    go_on.sort_unstable();
    go_on.dedup();
    go_on
}

/// A call with credentials, ready to be sent.
fn ready(world: &World, caller: &Caller, draft: &Draft) -> Result<Draft, String> {
    let first = caller.phone.ask(world.to(), draft)?;
    authorize(draft, &first, &caller.account).ok_or("a call is not challenged".to_owned())
}

fn to(world: &World, caller: &Caller, uri: &str, mark: &str) -> Draft {
    let uri = if uri.contains(':') {
        uri.to_owned()
    } else {
        format!("sip:{uri}@{}", world.domain)
    };
    caller.phone.invite(&caller.aor, &uri).mark(mark)
}

fn at_once(world: &World, caller: &Caller, mark: &str) -> Result<u64, String> {
    let uris = [
        "doctor",
        "bob",
        "+1900555",
        "abroad",
        "0301234567",
        "sales",
        "doctor",
        "+4966123",
    ];
    let ready: Result<Vec<Draft>, String> = uris
        .iter()
        .map(|uri| ready(world, caller, &to(world, caller, uri, mark)))
        .collect();
    let ready = ready?;
    for draft in &ready {
        caller.phone.send(world.to(), draft);
    }
    Ok(ready.len() as u64)
}

fn by_other_names(world: &World, caller: &Caller, mark: &str) -> Result<u64, String> {
    let first = ready(world, caller, &to(world, caller, "bob", mark))?;
    caller.phone.send(world.to(), &first);
    caller
        .phone
        .response(PATIENCE, &first, |status| status == 180)
        .ok_or("bob does not ring")?;
    let (domain, place) = (&world.domain, world.server.place());
    let name = &caller.account.user;
    let new = |uri: &str| to(world, caller, uri, mark);
    let mut drafts = vec![new("doctor"), new("+1900555"), new("tel:+1900555")];
    for from in [
        format!("sip:{}@{domain}", name.to_uppercase()),
        format!("sip:%6Cena{}@{domain}", name.trim_start_matches("lena")),
        format!("sip:{name}@{place}"),
        format!("sip:{name}@{}", domain.to_uppercase()),
        "sip:anonymous@anonymous.invalid".to_owned(),
    ] {
        let mut draft = new("doctor");
        draft.from = from;
        drafts.push(draft);
    }
    let id = &first.call_id;
    let own_tag = first.from_tag.clone().unwrap_or_default();
    drafts.push(new("doctor").with(
        "Replaces",
        &format!("{id};to-tag=ringing;from-tag={own_tag}"),
    ));
    drafts.push(new("doctor").with("Join", &format!("{id};to-tag=ringing;from-tag={own_tag}")));
    // As part of the call that there is, by its Call-ID and its tags.
    for (tag, from_tag) in [
        (None, None),
        (Some("ringing"), None),
        (Some("made-up"), Some(&own_tag)),
    ] {
        let mut draft = new("+1900555");
        draft.call_id.clone_from(id);
        draft.to_tag = tag.map(str::to_owned);
        draft.cseq = 20;
        if let Some(from_tag) = from_tag {
            draft.from_tag = Some(from_tag.clone());
        }
        drafts.push(draft);
    }
    let many = drafts.len() as u64;
    for draft in drafts {
        let _ = ask_briefly(world, caller, &draft);
    }
    Ok(many + 1)
}

/// Asks, with the password, without waiting for what rings.
fn ask_briefly(world: &World, caller: &Caller, draft: &Draft) -> Option<Text> {
    let patience = Duration::from_millis(300);
    let first = caller.phone.ask_for(patience, world.to(), draft)?;
    match authorize(draft, &first, &caller.account) {
        Some(next) => caller.phone.ask_for(patience, world.to(), &next),
        None => Some(first),
    }
}

fn after_cancel(world: &World, caller: &Caller, mark: &str, rings: bool) -> Result<u64, String> {
    const TIMES: u64 = 4;
    let gateway = &world.gateway;
    // It says that it heeds the CANCEL, and rings on.
    gateway.script(move |request| match request.method() {
        "INVITE" if !rings => Vec::new(),
        "INVITE" => vec![request.answer("180 Ringing", Some("deaf"), None)],
        _ => vec![request.answer("200 OK", Some("deaf"), None)],
    });
    for n in 0..TIMES {
        let Ok(draft) = ready(world, caller, &to(world, caller, "+1900555", mark)) else {
            break;
        };
        caller.phone.send(world.to(), &draft);
        // The third is cancelled before it can have left.
        let patience = Duration::from_millis(500);
        if rings {
            let _ = caller
                .phone
                .response(patience, &draft, |status| status >= 180);
        } else if n != 2 {
            let is_it = |r: &Text| r.header("Call-ID") == Some(draft.call_id.as_str());
            let _ = gateway.wait_for(patience, is_it);
        }
        caller
            .phone
            .send(world.to(), &draft.hop_by_hop("CANCEL", None));
        world.settle_briefly();
    }
    // Then it answers whatever it has.
    world.settle();
    let contact = gateway.contact();
    for invite in begun(gateway, mark) {
        gateway.send_bytes(
            world.to(),
            &invite.answer("200 OK", Some("deaf"), Some(&contact)),
        );
    }
    Ok(TIMES)
}

/// The INVITEs that came to somebody, each once.
fn begun(phone: &Phone, mark: &str) -> Vec<Text> {
    let mut all = marked(phone, mark);
    all.retain(|request| request.method() == "INVITE");
    all
}

fn after_bye(world: &World, caller: &Caller, mark: &str, bye: Bye) -> Result<u64, String> {
    let draft = to(world, caller, "doctor", mark);
    let mut dialog = caller.phone.call(world.to(), &draft, &caller.account)?;
    bye(world, caller, &mut dialog);
    world.settle_briefly();
    for uri in ["doctor", "+1900555", "bob"] {
        let _ = ask_briefly(world, caller, &to(world, caller, uri, mark));
    }
    Ok(4)
}

/// Somebody else says that the call is over: an accomplice, with its tags and its Call-ID.
fn bye_to_another(world: &World, caller: &Caller, dialog: &mut Dialog) {
    let _ = world
        .mallory
        .register(world.to(), &world.domain, world.mallory_account());
    let places = [
        world.mallory_aor(),
        format!("sip:x@{}", world.foreign.local),
        caller.aor.clone(),
    ];
    for uri in places {
        for routes in [Vec::new(), dialog.routes.clone()] {
            let mut draft = dialog.request("BYE").uri(&uri);
            draft.routes = routes;
            let _ = ask_briefly(world, caller, &draft);
        }
    }
}

fn bye_with_other_tags(world: &World, caller: &Caller, dialog: &mut Dialog) {
    let own = dialog.invite.from_tag.clone();
    for (from, to) in [
        (Some(dialog.to_tag.clone()), own.clone()),
        (own.clone(), Some("wrong".to_owned())),
        (Some("wrong".to_owned()), Some(dialog.to_tag.clone())),
        (own, None),
    ] {
        let mut draft = dialog.request("BYE");
        draft.from_tag = from;
        draft.to_tag = to;
        let _ = ask_briefly(world, caller, &draft);
    }
}

/// With the call's names, at the server's own name or without any route.
fn bye_without_routes(world: &World, caller: &Caller, dialog: &mut Dialog) {
    let place = world.server.place();
    for (uri, routes) in [
        (format!("sip:{place}"), Vec::new()),
        (format!("sip:{place}"), dialog.routes.clone()),
        (dialog.invite.to.clone(), vec![format!("<sip:{place};lr>")]),
    ] {
        let mut draft = dialog.request("BYE").uri(&uri);
        draft.routes = routes;
        draft = draft.with("Max-Forwards", "0");
        let _ = ask_briefly(world, caller, &draft);
    }
}

fn bye_of_mallory(world: &World, _: &Caller, dialog: &mut Dialog) {
    for keeps_routes in [true, false] {
        let mut draft = dialog.request("BYE");
        draft.from = world.mallory_aor();
        if !keeps_routes {
            draft.routes.clear();
            draft.uri = world.mallory_aor();
        }
        let _ = world
            .mallory
            .ask_as(world.to(), &draft, world.mallory_account());
    }
}
