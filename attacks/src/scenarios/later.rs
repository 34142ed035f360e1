//! What tokens and credentials open later: once their user is removed, and
//! once the server was started again.

use super::tokens::{Harvest, harvest};
use crate::phone::PATIENCE;
use crate::scenario::{Scale, Scenario, Tally};
use crate::target::Setup;
use crate::wire::{Draft, uri_of, word};
use crate::world::{World, send_fresh};

const OWN: fn(&mut Setup) = |setup| setup.own_configuration = true;
const IN_MEMORY: Option<&str> =
    Some("its configuration keeps registrations in memory, so that nobody is there afterwards");

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "token.user-removed",
        tries: "The caller of a call is removed from the users; the called side uses the call's token toward others, and the caller calls again.",
        through: "a request that reaches anybody by the token; a call of the removed user; a BYE that does not arrive.",
        setup: OWN,
        not_kamailio: Some("its users stand in a file that it reads when it starts"),
        run: user_removed,
    },
    Scenario {
        name: "token.restart",
        tries: "The server is started again during a call; the called side uses the call's token toward others.",
        through: "a request that reaches anybody by the token; a BYE of the call that does not arrive.",
        setup: OWN,
        not_kamailio: IN_MEMORY,
        run: token_restart,
    },
    Scenario {
        name: "replay.restart",
        tries: "A REGISTER and an INVITE with the credentials that were good before the server was started again, sent again from other addresses.",
        through: "a request that reaches a user or the gateway; a call that reaches the attacker.",
        setup: OWN,
        not_kamailio: IN_MEMORY,
        run: replay_restart,
    },
];

/// The token of a call toward everybody but its peer, in names that are the
/// call's and names that are not.
fn toward_others(world: &World, got: &Harvest, tally: &mut Tally) -> Result<(), String> {
    let mark = word("later");
    let bob_contact = world.bob.contact();
    let places = [
        world.number(),
        world.bob_aor(),
        uri_of(&bob_contact).to_owned(),
        format!("sip:+1900555@{}", world.gateway.local),
        format!("sip:x@{}", world.inside.local),
    ];
    for place in &places {
        for method in ["INVITE", "BYE", "MESSAGE", "REFER", "REGISTER"] {
            for from in [&got.own_uri, &world.alice_aor()] {
                let mut draft = got.right(world, method).mark(&mark);
                draft.uri.clone_from(place);
                draft.from.clone_from(from);
                send_fresh(world.to(), &draft.contact(&world.foreign.contact()))?;
                tally.try_many(1);
            }
        }
    }
    world.settle();
    let n = world.reached(&mark);
    tally.break_in(n, || format!("the token led on {n} times"));
    Ok(())
}

/// The call that the token is of ends as calls do.
fn own_bye(world: &World, got: &Harvest, tally: &mut Tally) {
    let bye = got.right(world, "BYE");
    let answer = world.foreign.ask_for(PATIENCE, world.to(), &bye);
    let status = answer.and_then(|answer| answer.status());
    tally.judge(status != Some(200), || {
        format!("the call's own BYE got {status:?}")
    });
}

fn user_removed(world: &mut World, _: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let got = harvest(world)?;
    world.server.remove_user(&world.alice_account().user)?;
    toward_others(world, &got, &mut tally)?;
    let mark = word("removed");
    for to in [world.bob_aor(), world.number(), got.own_uri.clone()] {
        let draft = world.alice.invite(&world.alice_aor(), &to).mark(&mark);
        let _ = world
            .alice
            .ask_as(world.to(), &draft, world.alice_account())?;
        tally.try_many(1);
    }
    let n = world.reached(&mark) + world.foreign.marked(&mark);
    tally.break_in(n, || format!("{n} calls of the removed user went on"));
    own_bye(world, &got, &mut tally);
    Ok(tally)
}

fn token_restart(world: &mut World, _: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let got = harvest(world)?;
    world.server.restart()?;
    toward_others(world, &got, &mut tally)?;
    own_bye(world, &got, &mut tally);
    Ok(tally)
}

fn replay_restart(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let aor = world.ceo_aor();
    let draft = Draft::new("REGISTER", &aor, &aor)
        .uri(&format!("sip:{}", world.domain))
        .contact(&world.ceo.contact());
    let (register, answer) = world.ceo.ask_as(world.to(), &draft, world.ceo_account())?;
    if answer.status() != Some(200) {
        return Err(format!("ceo cannot register: {}", answer.start));
    }
    let invite = world.alice.invite(&world.alice_aor(), &world.bob_aor());
    let call = world
        .alice
        .call(world.to(), &invite, world.alice_account())?;
    world.server.restart()?;
    let mark = word("replay");
    for _ in 0..scale.of(20, 200) {
        for good in [&register, &call.invite] {
            let again = good.again().mark(&mark).contact(&world.mallory.contact());
            send_fresh(world.to(), &again)?;
            tally.try_many(1);
        }
        world.settle_briefly();
    }
    world.settle();
    let n = world.reached(&mark);
    tally.break_in(n, || format!("{n} reached a user or the gateway"));
    let mark = word("after");
    let invite = world.alice.invite(&world.alice_aor(), &aor).mark(&mark);
    let called = world.alice.call(world.to(), &invite, world.alice_account());
    let stolen = world.mallory.marked(&mark);
    tally.break_in(stolen, || "a call to ceo came to mallory".to_owned());
    tally.judge(called.is_err(), || {
        format!("afterwards: {:?}", called.err())
    });
    Ok(tally)
}
