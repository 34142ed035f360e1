//! Memory: what messages hold, and whether it comes back.

use std::net::UdpSocket;

use crate::phone::Manner;
use crate::scenario::{Flood, Scale, Scenario, Tally, beside};
use crate::wire::{Draft, word};
use crate::world::World;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "memory.large-messages",
        tries: "MESSAGEs of 59 kB without credentials under ever other Call-IDs: ten thousand.",
        through: "one that reaches a user; memory that is not back after a minute; callers that lose calls.",
        setup: |_| {},
        not_kamailio: None,
        run: large_messages,
    },
    Scenario {
        name: "memory.large-forwards",
        tries: "MESSAGEs of 59 kB from a trusted peer to a user who takes them.",
        through: "memory that is not back after a minute; callers that lose calls.",
        setup: |_| {},
        not_kamailio: None,
        run: |world, scale| forwards(world, scale, Manner::Answers),
    },
    Scenario {
        name: "memory.unanswered",
        tries: "MESSAGEs of 59 kB from a trusted peer to a user who never answers, so that each is held as a transaction.",
        through: "memory that is not back after a minute; callers that lose calls.",
        setup: |_| {},
        not_kamailio: None,
        run: |world, scale| forwards(world, scale, Manner::Silent),
    },
];

const LARGE_BYTES: usize = 59_000;

fn large_messages(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let mark = word("large");
    let flood = Flood {
        packets: scale.of(200, 10_000),
        sources: 8,
        per_s: 1_500,
    };
    beside(world, scale, &mut tally, || {
        flood.send(world, |_, local| {
            Draft::new("MESSAGE", &world.alice_aor(), &world.bob_aor())
                .mark(&mark)
                .body_bytes(LARGE_BYTES)
                .render(local, "UDP")
        })
    })?;
    world.settle();
    let n = world.reached(&mark);
    tally.break_in(n, || format!("{n} reached a user"));
    Ok(tally)
}

fn forwards(world: &mut World, scale: &Scale, manner: Manner) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let flood = Flood {
        packets: scale.of(100, 10_000),
        sources: 1,
        // Where tests run beside it, a phone's socket does not hold many of these.
        per_s: scale.of(100, 1_000),
    };
    let peer = UdpSocket::bind("127.0.0.3:0").map_err(|e| e.to_string())?;
    let to = world.ceo_aor();
    one_arrives(world, &to)?;
    world.ceo.manner(manner);
    let before = world.ceo.received().0;
    let world = &*world;
    beside(world, scale, &mut tally, || {
        flood.send_from(world, std::slice::from_ref(&peer), |_, local| {
            Draft::new("MESSAGE", "sip:x@trunk.test", &to)
                .body_bytes(LARGE_BYTES)
                .render(local, "UDP")
        })
    })?;
    let n = world.ceo.received().0 - before;
    // What is repeated counts more than once; what comes at all is still most of it.
    if n < tally.tried / 2 {
        return Err(format!("{n} of {} came to the user", tally.tried));
    }
    tally.note(format!("{n} packets came to the user"));
    Ok(tally)
}

/// That a trusted peer's large MESSAGE gets to the user, and its answer back.
fn one_arrives(world: &World, to: &str) -> Result<(), String> {
    let mark = word("one");
    let draft = Draft::new("MESSAGE", "sip:x@trunk.test", to)
        .mark(&mark)
        .body_bytes(LARGE_BYTES);
    let answer = world.peer.ask(world.to(), &draft)?;
    if answer.status() != Some(200) || world.ceo.marked(&mark) == 0 {
        return Err(format!("a large MESSAGE of a peer got {}", answer.start));
    }
    Ok(())
}
