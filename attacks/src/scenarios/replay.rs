//! What was seen once is sent again, as it was or altered.

use crate::scenario::{Scale, Scenario, Tally};
use crate::wire::{Draft, word};
use crate::world::{World, fresh_source};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "replay.register",
        tries: "A user's REGISTER with its credentials, sent again from other addresses under other branches and Call-IDs, with the attacker's contact.",
        through: "a 200, or a call that reaches the attacker.",
        setup: |_| {},
        not_kamailio: None,
        run: register,
    },
    Scenario {
        name: "replay.call",
        tries: "A user's INVITE with its credentials, sent again likewise, to the same user and to a number.",
        through: "one that reaches a user or the gateway.",
        setup: |_| {},
        not_kamailio: None,
        run: call,
    },
    Scenario {
        name: "tampering.credentials",
        tries: "A user's credentials with one digit of the response, the nonce, the count, the user, the realm, the URI or the method altered, and with qop cut out.",
        through: "a request that reaches a user or the gateway.",
        setup: |_| {},
        not_kamailio: None,
        run: altered,
    },
];

fn from_elsewhere(world: &World, draft: &Draft, tally: &mut Tally, n: u64) -> Result<(), String> {
    let socket = fresh_source()?;
    let local = socket.local_addr().map_err(|e| e.to_string())?;
    let _ = socket.send_to(&draft.render(local, "UDP"), world.to());
    tally.try_many(1);
    if n % 50 == 49 {
        world.settle_briefly();
    }
    Ok(())
}

fn register(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let aor = world.ceo_aor();
    let draft = Draft::new("REGISTER", &aor, &aor)
        .uri(&format!("sip:{}", world.domain))
        .contact(&world.ceo.contact());
    let (good, answer) = world.ceo.ask_as(world.to(), &draft, world.ceo_account())?;
    if answer.status() != Some(200) {
        return Err(format!("ceo cannot register: {}", answer.start));
    }
    for n in 0..scale.of(50, 5_000) {
        let mut again = good.again().contact(&world.mallory.contact());
        if n % 2 == 0 {
            again.call_id = word("c");
        }
        from_elsewhere(world, &again, &mut tally, n)?;
    }
    world.settle();
    let mark = word("replayed");
    let invite = world.alice.invite(&world.alice_aor(), &aor).mark(&mark);
    let called = world.alice.call(world.to(), &invite, world.alice_account());
    let stolen = world.mallory.marked(&mark);
    tally.break_in(stolen, || "a call to ceo came to mallory".to_owned());
    tally.judge(called.is_err() && stolen == 0, || {
        format!("afterwards: {:?}", called.err())
    });
    Ok(tally)
}

/// An INVITE of alice that was let in.
fn good_invite(world: &World) -> Result<Draft, String> {
    let draft = world.alice.invite(&world.alice_aor(), &world.bob_aor());
    let dialog = world
        .alice
        .call(world.to(), &draft, world.alice_account())?;
    Ok(dialog.invite)
}

fn call(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let good = good_invite(world)?;
    let mark = word("replay");
    for n in 0..scale.of(60, 5_000) {
        let mut again = good.again().mark(&mark).contact(&world.mallory.contact());
        match n % 3 {
            0 => again.call_id = word("c"),
            1 => again.uri = world.number(),
            _ => {}
        }
        from_elsewhere(world, &again, &mut tally, n)?;
    }
    world.settle();
    let reached = world.reached(&mark);
    tally.break_in(reached, || format!("{reached} repeated calls arrived"));
    Ok(tally)
}

fn altered(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let mark = word("altered");
    // A challenge of alice's that she never answered: only the alterations count.
    let draft = world
        .alice
        .invite(&world.alice_aor(), &world.bob_aor())
        .mark(&mark);
    let first = world.alice.ask(world.to(), &draft)?;
    let good = crate::phone::authorize(&draft, &first, world.alice_account())
        .ok_or("a call is not challenged")?;
    let changes: Vec<(&str, &str)> = vec![
        ("nc=00000001", "nc=00000002"),
        ("qop=auth, ", ""),
        ("qop=auth", "qop=auth-int"),
        ("username=\"", "username=\"x"),
        ("realm=\"", "realm=\"x"),
        ("nonce=\"", "nonce=\"x"),
        ("uri=\"sip:", "uri=\"sips:"),
        ("algorithm=SHA-256", "algorithm=MD5"),
        ("response=\"", "response=\"0"),
        ("cnonce=\"", "cnonce=\"0"),
    ];
    let mut drafts = Vec::new();
    for (from, to) in changes {
        let mut next = good.again();
        for (_, value) in &mut next.headers {
            *value = value.replacen(from, to, 1);
        }
        if next.headers != good.headers {
            drafts.push(next);
        }
    }
    for digit in 0..scale.of(4, 32) {
        let mut next = good.again();
        for (_, value) in &mut next.headers {
            *value = flip(value, usize::try_from(digit).unwrap_or(0));
        }
        drafts.push(next);
    }
    let mut other = good.again();
    "MESSAGE".clone_into(&mut other.method);
    drafts.push(other);
    drafts.push(good.again().uri(&world.number()));
    let mut other = good.again();
    other.from = world.ceo_aor();
    drafts.push(other);
    for (n, mut next) in (0..).zip(drafts) {
        next.call_id = word("c");
        from_elsewhere(world, &next, &mut tally, n)?;
    }
    world.settle();
    let reached = world.reached(&mark);
    tally.break_in(reached, || format!("{reached} altered requests arrived"));
    Ok(tally)
}

/// Another digit in the place of the n-th of the response.
fn flip(value: &str, n: usize) -> String {
    let Some((head, tail)) = value.split_once("response=\"") else {
        return value.to_owned();
    };
    let changed: String = tail
        .chars()
        .enumerate()
        .map(|(at, c)| match (at == n, c) {
            (true, 'f') => '0',
            (true, _) => 'f',
            _ => c,
        })
        .collect();
    format!("{head}response=\"{changed}")
}
