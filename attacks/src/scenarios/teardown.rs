//! Calls of others are ended, cancelled or redirected.

use crate::phone::{Manner, PATIENCE, authorize};
use crate::scenario::{Scale, Scenario, Tally};
use crate::wire::{MARK, Text, uri_of, word};
use crate::world::{World, send_fresh};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "teardown.bye",
        tries: "BYE into a call of others, all its identifiers known but the route: in both directions, without credentials and with another user's.",
        through: "a BYE that reaches either of them.",
        setup: |_| {},
        not_kamailio: None,
        run: |world, scale| forged(world, scale, &["BYE"]),
    },
    Scenario {
        name: "teardown.reinvite",
        tries: "re-INVITE, UPDATE, REFER and INFO into a call of others, likewise.",
        through: "one that reaches either of them.",
        setup: |_| {},
        not_kamailio: None,
        run: |world, scale| {
            forged(
                world,
                scale,
                &["INVITE", "UPDATE", "REFER", "INFO", "NOTIFY"],
            )
        },
    },
    Scenario {
        name: "teardown.cancel",
        tries: "CANCEL of a call that rings, from another address, with its branch and without.",
        through: "a CANCEL that reaches the phone that rings, or a call that ends.",
        setup: |_| {},
        not_kamailio: None,
        run: cancel,
    },
    Scenario {
        name: "teardown.response",
        tries: "Forged responses to a call that rings, with guessed branches.",
        through: "a response that reaches the caller.",
        setup: |_| {},
        not_kamailio: None,
        run: response,
    },
];

fn forged(world: &mut World, scale: &Scale, methods: &[&str]) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let mark = word("call");
    let invite = world
        .alice
        .invite(&world.alice_aor(), &world.bob_aor())
        .mark(&mark);
    let mut dialog = world
        .alice
        .call(world.to(), &invite, world.alice_account())?;
    let marked = |r: &Text| r.header(MARK) == Some(&mark) && r.method() == "INVITE";
    let received = world
        .bob
        .wait_for(PATIENCE, marked)
        .ok_or("bob was not called")?;
    let mark = word("forged");
    let place = world.server.place();
    for _ in 0..scale.of(1, 20) {
        for method in methods {
            let forward = dialog.request(method);
            let mut back = dialog.callees_request(&received);
            (*method).clone_into(&mut back.method);
            for base in [forward, back] {
                for (uri, routes) in [
                    (base.uri.clone(), Vec::new()),
                    (base.uri.clone(), vec![format!("<sip:{place};lr>")]),
                    (
                        base.uri.clone(),
                        vec![format!("<sip:AAAAAAAAAAAAAAAAAAAAAAAAAAAA@{place};lr>")],
                    ),
                    (base.to.clone(), Vec::new()),
                    (base.to.clone(), vec![format!("<sip:{place};lr>")]),
                ] {
                    let mut draft = base.again().uri(&uri).mark(&mark);
                    draft.routes = routes;
                    draft = draft.contact(&world.mallory.contact());
                    send_fresh(world.to(), &draft)?;
                    tally.try_many(1);
                }
                let draft = base.again().uri(&base.to.clone()).mark(&mark);
                let patience = std::time::Duration::from_millis(1_000);
                let mut bare = draft.clone();
                bare.routes.clear();
                let first = world.mallory.ask_for(patience, world.to(), &bare);
                let next = first.and_then(|f| authorize(&bare, &f, world.mallory_account()));
                if let Some(next) = next {
                    let _ = world.mallory.ask_for(patience, world.to(), &next);
                    tally.try_many(1);
                }
            }
        }
        world.settle_briefly();
    }
    world.settle();
    let reached = world.reached(&mark);
    tally.break_in(reached, || format!("{reached} forged requests arrived"));
    let bye = dialog.request("BYE");
    let answer = world.alice.ask(world.to(), &bye)?;
    tally.judge(answer.status() != Some(200), || {
        format!("the call's own BYE got {}", answer.start)
    });
    Ok(tally)
}

fn cancel(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    world.bob.manner(Manner::Rings);
    let invite = world.alice.invite(&world.alice_aor(), &world.bob_aor());
    let first = world.alice.ask(world.to(), &invite)?;
    let invite =
        authorize(&invite, &first, world.alice_account()).ok_or("a call is not challenged")?;
    world.alice.send(world.to(), &invite);
    world
        .alice
        .response(PATIENCE, &invite, |status| status == 180)
        .ok_or("bob does not ring")?;
    let mark = word("cancel");
    let base = invite.hop_by_hop("CANCEL", None).mark(&mark);
    for _ in 0..scale.of(3, 200) {
        // As another has it, in the caller's name, and with other branches.
        let mut copied = base.clone();
        copied.via = Some(format!(
            "SIP/2.0/UDP {};rport;branch={}",
            world.alice.local, invite.branch
        ));
        let mut guessed = base.clone();
        guessed.branch = word("z9hG4bK");
        let mut direct = base.clone();
        direct.uri = uri_of(&world.bob.contact()).to_owned();
        for draft in [copied, guessed, direct, base.clone()] {
            send_fresh(world.to(), &draft)?;
            tally.try_many(1);
        }
        world.settle_briefly();
    }
    world.settle();
    let cancelled = world.bob.seen(|r| r.method() == "CANCEL").len() as u64;
    tally.break_in(cancelled, || "bob got a CANCEL".to_owned());
    let ended = world
        .alice
        .response(std::time::Duration::from_millis(50), &invite, |s| s >= 200);
    tally.break_in(ended.is_some().into(), || "the call has ended".to_owned());
    Ok(tally)
}

fn response(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    world.bob.manner(Manner::Rings);
    let invite = world.alice.invite(&world.alice_aor(), &world.bob_aor());
    let first = world.alice.ask(world.to(), &invite)?;
    let invite =
        authorize(&invite, &first, world.alice_account()).ok_or("a call is not challenged")?;
    world.alice.send(world.to(), &invite);
    world
        .alice
        .response(PATIENCE, &invite, |status| status == 180)
        .ok_or("bob does not ring")?;
    for n in 0..scale.of(50, 5_000) {
        let bytes = format!(
            "SIP/2.0 603 Decline\r\nVia: SIP/2.0/UDP {};branch={}.{n}\r\nVia: SIP/2.0/UDP {};branch={}\r\n\
             From: <{}>;tag={}\r\nTo: <{}>;tag=x\r\nCall-ID: {}\r\nCSeq: {} INVITE\r\nContent-Length: 0\r\n\r\n",
            world.server.place(),
            if n % 2 == 0 {
                &invite.branch
            } else {
                "z9hG4bKguess"
            },
            world.alice.local,
            invite.branch,
            invite.from,
            invite.from_tag.as_deref().unwrap_or(""),
            invite.to,
            invite.call_id,
            invite.cseq,
        );
        let socket = crate::world::fresh_source()?;
        let _ = socket.send_to(bytes.as_bytes(), world.to());
        tally.try_many(1);
    }
    world.settle();
    let ended = world
        .alice
        .response(std::time::Duration::from_millis(50), &invite, |s| s >= 200);
    tally.break_in(ended.is_some().into(), || {
        "a forged response reached the caller".to_owned()
    });
    Ok(tally)
}
