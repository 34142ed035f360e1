//! What was seen once is sent again, as it was or altered.

use crate::digest::Account;
use crate::phone::{PATIENCE, Phone, authorize};
use crate::scenario::{Scale, Scenario, Tally};
use crate::wire::{Draft, word};
use crate::world::{World, fresh_phone, fresh_source};

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
        tries: "Each to a challenge of its own: a user's credentials with one digit of the response, the nonce, the count, the user, the realm, the URI or the method altered, and with qop cut out. Before and after, unaltered ones, which must get through.",
        through: "an altered request that reaches a user or the gateway, or gets a good answer.",
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

/// What is done to good credentials, or to the request that they are in; `None` where there is
/// nothing to alter.
type Alteration = Box<dyn Fn(&Draft) -> Option<Draft>>;

fn altered(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let users = world.callers();
    let who = |n: usize| {
        users
            .get(n % users.len().max(1))
            .ok_or("there are no users")
    };
    unaltered(world, who(0)?)?;
    let alterations = alterations(world, scale);
    let wanted = alterations.len() as u64;
    // Each has a user and a source whose failures are few, and a nonce with none: what was wrong
    // before is no reason to refuse it.
    for (n, (what, alter)) in alterations.iter().enumerate() {
        let account = who(n)?;
        let mark = format!("{}.", word("altered"));
        let phone = fresh_phone()?;
        let good = answer_to_challenge(world, &phone, account, "INVITE", &world.bob_aor(), &mark)?;
        let Some(next) = alter(&good) else {
            continue;
        };
        let got = phone.ask_for(PATIENCE, world.to(), &next);
        let status = got.and_then(|answer| answer.status());
        world.settle_briefly();
        let reached = world.reached(&mark);
        // What got through is through, answered or not.
        if status.is_none() && reached == 0 {
            tally.note(format!("{what}: no answer"));
            continue;
        }
        let answer = status.map_or("no answer".to_owned(), |status| status.to_string());
        tally.judge(
            reached > 0 || status.is_some_and(|status| status < 300),
            || format!("{what}: {answer}, and {reached} arrived"),
        );
    }
    world.settle();
    if tally.tried * 2 < wanted {
        return Err(format!(
            "only {} of {wanted} altered requests were answered",
            tally.tried
        ));
    }
    unaltered(world, who(0)?)
        .map_err(|why| format!("after {} altered requests: {why}", tally.tried))?;
    Ok(tally)
}

/// Requests with good credentials as they are: those that are altered must differ from ones that
/// get through.
fn unaltered(world: &World, account: &Account) -> Result<(), String> {
    for (method, to) in [
        ("INVITE", world.bob_aor()),
        ("MESSAGE", world.bob_aor()),
        ("INVITE", world.number()),
    ] {
        let mark = format!("{}.", word("unaltered"));
        let phone = fresh_phone()?;
        let good = answer_to_challenge(world, &phone, account, method, &to, &mark)?;
        let answer = phone.ask(world.to(), &good)?;
        if answer.status() != Some(200) || world.reached(&mark) == 0 {
            return Err(format!(
                "{method} to {to} with good credentials got {}, so altered ones show nothing (limits \
                 on guesses need more users than four)",
                answer.start
            ));
        }
    }
    Ok(())
}

/// A user's request with good credentials, to a challenge that nobody has answered.
fn answer_to_challenge(
    world: &World,
    phone: &Phone,
    account: &Account,
    method: &str,
    to: &str,
    mark: &str,
) -> Result<Draft, String> {
    let draft = Draft::new(method, &world.aor(account), to)
        .contact(&phone.contact())
        .mark(mark);
    let first = phone.ask(world.to(), &draft)?;
    authorize(&draft, &first, account)
        .ok_or_else(|| format!("{method} to {to} is not challenged: {}", first.start))
}

fn alterations(world: &World, scale: &Scale) -> Vec<(String, Alteration)> {
    let mut all: Vec<(String, Alteration)> = Vec::new();
    for (from, to) in [
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
    ] {
        let alter = move |good: &Draft| in_credentials(good, |value| value.replacen(from, to, 1));
        all.push((format!("{to} for {from}"), Box::new(alter)));
    }
    // Of 64 digits, or 32, from the first to the last.
    let digits = scale.of(4, 64);
    for nth in 0..digits {
        let share = nth as f64 / (digits - 1) as f64;
        let alter = move |good: &Draft| in_credentials(good, |value| flip(value, share));
        all.push((format!("digit {nth} of {digits}"), Box::new(alter)));
    }
    let (number, ceo) = (world.number(), world.ceo_aor());
    let method = |good: &Draft| {
        let mut next = good.clone();
        "MESSAGE".clone_into(&mut next.method);
        Some(next)
    };
    all.push(("another method".to_owned(), Box::new(method)));
    let uri = move |good: &Draft| Some(good.clone().uri(&number));
    all.push(("another Request-URI".to_owned(), Box::new(uri)));
    let from = move |good: &Draft| {
        let mut next = good.clone();
        next.from.clone_from(&ceo);
        Some(next)
    };
    all.push(("another From".to_owned(), Box::new(from)));
    all
}

/// The request with its credentials changed.
fn in_credentials(good: &Draft, change: impl Fn(&str) -> String) -> Option<Draft> {
    let mut next = good.clone();
    for (name, value) in &mut next.headers {
        if name.ends_with("Authorization") {
            *value = change(value);
        }
    }
    (next.headers != good.headers).then_some(next)
}

/// Another digit in the place of one of the response: of the first for a share of 0, of the last
/// for 1.
fn flip(value: &str, share: f64) -> String {
    let Some((head, tail)) = value.split_once(" response=\"") else {
        return value.to_owned();
    };
    let digits = tail.find('"').unwrap_or(tail.len());
    let nth = (digits.saturating_sub(1) as f64 * share).round() as usize;
    let changed: String = tail
        .chars()
        .enumerate()
        .map(|(at, c)| match (at == nth, c) {
            (true, 'f') => '0',
            (true, _) => 'f',
            _ => c,
        })
        .collect();
    format!("{head} response=\"{changed}")
}
