//! The tokens of a call over the trunk, altered and toward others.

use super::{alice_asks, answers, of_alice, provider_works};
use crate::house::{REALM, challenge, proofs};
use crate::phone::{Dialog, Manner, PATIENCE};
use crate::scenario::{Scale, Tally};
use crate::scenarios::led::marked;
use crate::wire::{MARK, Text, uri_of, word};
use crate::world::{World, fresh_source};

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

pub(super) fn token(world: &mut World, scale: &Scale) -> Result<Tally, String> {
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
