//! Somebody speaks in another's name: a user's, or a server's.

use crate::phone::authorize;
use crate::scenario::{Scale, Scenario, Tally};
use crate::wire::{Draft, MARK, Text, word};
use crate::world::{World, send_fresh};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "impersonation.user",
        tries: "Requests of every method in a user's name, in many writings of it, without credentials or with another user's, to a user and to a number.",
        through: "a request that reaches the user or the gateway.",
        setup: |_| {},
        not_kamailio: None,
        run: user,
    },
    Scenario {
        name: "impersonation.asserted",
        tries: "A user calls a number and a user with identities that he writes himself: P-Asserted-Identity, Remote-Party-ID, P-Charge-Info and the like.",
        through: "a header of these that arrives with the false identity.",
        setup: |_| {},
        not_kamailio: None,
        run: asserted,
    },
];

const METHODS: [&str; 12] = [
    "INVITE",
    "MESSAGE",
    "SUBSCRIBE",
    "NOTIFY",
    "OPTIONS",
    "REFER",
    "PUBLISH",
    "INFO",
    "UPDATE",
    "PRACK",
    "BYE",
    "FOO",
];

fn user(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let mark = word("spoof");
    let (ceo, domain) = (world.ceo_account().user.clone(), world.domain.clone());
    let froms = [
        format!("sip:{ceo}@{domain}"),
        format!("sips:{ceo}@{domain}"),
        format!("sip:{ceo}@{}", domain.to_uppercase()),
        format!("sip:%63{}@{domain}", ceo.get(1..).unwrap_or("")),
        format!("sip:{ceo}@{domain}."),
        format!("sip:{ceo}@{}", world.server.place()),
    ];
    let targets = [world.bob_aor(), world.number()];
    for _ in 0..scale.of(1, 5) {
        for from in &froms {
            for to in &targets {
                for method in METHODS {
                    for tag in [None, Some("made-up")] {
                        let mut draft = Draft::new(method, from, to).mark(&mark);
                        draft.to_tag = tag.map(str::to_owned);
                        draft = draft.contact(&world.mallory.contact());
                        send_fresh(world.to(), &draft)?;
                        tally.try_many(1);
                    }
                }
            }
            world.settle_briefly();
        }
    }
    // With good credentials of another user: a challenge is asked for first.
    for from in &froms {
        for method in ["INVITE", "MESSAGE", "SUBSCRIBE", "FOO"] {
            let draft = Draft::new(method, from, &world.bob_aor())
                .mark(&mark)
                .contact(&world.mallory.contact());
            let patience = std::time::Duration::from_millis(1_500);
            let first = world.mallory.ask_for(patience, world.to(), &draft);
            let next = first.and_then(|first| authorize(&draft, &first, world.mallory_account()));
            if let Some(next) = next {
                let _ = world.mallory.ask_for(patience, world.to(), &next);
            }
            tally.try_many(1);
        }
    }
    world.settle();
    let reached = world.reached(&mark);
    tally.break_in(reached, || format!("{reached} in another's name arrived"));
    Ok(tally)
}

fn asserted(world: &mut World, _: &Scale) -> Result<Tally, String> {
    const NAMES: [&str; 6] = [
        "P-Asserted-Identity",
        "Remote-Party-ID",
        "P-Charge-Info",
        "P-Asserted-Service",
        "P-Charging-Vector",
        "P-Preferred-Identity",
    ];
    let mut tally = Tally::default();
    plain_ones_arrive(world)?;
    for (name, to) in NAMES
        .iter()
        .flat_map(|n| [(n, world.number()), (n, world.bob_aor())])
    {
        let mark = word("asserted");
        let value = match *name {
            "P-Asserted-Service" => "urn:urn-7:3gpp-service.false-ceo".to_owned(),
            "P-Charging-Vector" => "icid-value=false-ceo".to_owned(),
            _ => "<sip:false-ceo@example.test>".to_owned(),
        };
        let draft = Draft::new("MESSAGE", &world.mallory_aor(), &to)
            .mark(&mark)
            .with(name, &value);
        let answer = by_mallory(world, &draft)?;
        let seen = arrived(world, &mark);
        if seen.is_empty() && answer.status() < Some(300) {
            return Err(format!(
                "a MESSAGE with {name} to {to} got {} and arrived nowhere",
                answer.start
            ));
        }
        let with = seen
            .iter()
            .any(|r| r.all(name).any(|v| v.contains("false-ceo")));
        tally.judge(with, || format!("{name} arrived at {to}"));
    }
    plain_ones_arrive(world)?;
    Ok(tally)
}

/// Mallory's request with his own credentials, and what it got.
fn by_mallory(world: &World, draft: &Draft) -> Result<Text, String> {
    let (_, answer) = world
        .mallory
        .ask_as(world.to(), draft, world.mallory_account())?;
    world.settle_briefly();
    Ok(answer)
}

/// What came of it to a user or to the gateway.
fn arrived(world: &World, mark: &str) -> Vec<Text> {
    let marked = |r: &Text| r.header(MARK) == Some(mark);
    [&world.gateway, &world.bob]
        .iter()
        .flat_map(|phone| phone.seen(marked))
        .collect()
}

/// That mallory reaches a number and a user where he says nothing false.
fn plain_ones_arrive(world: &World) -> Result<(), String> {
    for to in [world.number(), world.bob_aor()] {
        let mark = word("plain");
        let draft = Draft::new("MESSAGE", &world.mallory_aor(), &to).mark(&mark);
        let answer = by_mallory(world, &draft)?;
        if arrived(world, &mark).is_empty() {
            return Err(format!(
                "a MESSAGE to {to} without any of them got {} and arrived nowhere",
                answer.start
            ));
        }
    }
    Ok(())
}
