//! Guessing, limits for each source and each user, and more calls than can be
//! served.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::digest::{Account, Challenge};
use crate::phone::{PATIENCE, Phone};
use crate::scenario::{Flood, Scale, Scenario, Tally, beside};
use crate::stream::Stream;
use crate::target::Setup;
use crate::wire::{Draft, Text, word};
use crate::world::{World, fresh_phone};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "limit.guessing",
        tries: "Passwords are guessed, with a new challenge for each third guess: one user's from one address, one user's from many, those of many users from one, and the right one after each of these. Then users whose phones were there before register from where they are.",
        through: "the right guess after the wrong ones; a user who is kept out.",
        setup: |_| {},
        not_kamailio: None,
        run: guessing,
    },
    Scenario {
        name: "limit.one-source",
        tries: "One stranger's address asks 30,000 times a second, for REGISTER, OPTIONS and new connections, beside users whose phones are at the same address.",
        through: "one of them who is kept out; other callers' calls that are lost.",
        setup: |_| {},
        not_kamailio: None,
        run: one_source,
    },
    Scenario {
        name: "limit.user-rate",
        tries: "Somebody with a user's password calls as fast as he can, where a user may begin five calls a second; the user's own call goes on, and another user calls.",
        through: "more calls than ten seconds' worth and then five a second; a request within the call, or another's call, that is refused.",
        setup: |setup: &mut Setup| {
            setup.own_configuration = true;
            setup.tables.push_str("[rates]\nuser_calls_per_s = 5\n");
        },
        not_kamailio: Some("its common configuration limits sources, and no users"),
        run: user_rate,
    },
    Scenario {
        name: "limit.overload",
        tries: "A trusted peer makes more new calls than can be served, while calls that are up are ended.",
        through: "a request within a call that gets no good answer.",
        setup: |setup: &mut Setup| setup.own_configuration = true,
        not_kamailio: None,
        run: overload,
    },
];

fn guessing(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let neighbours = Neighbours::come(world)?;
    of_one_user(world, scale, &mut tally)?;
    from_many_addresses(world, scale, &mut tally)?;
    of_many_users(world, &mut tally)?;
    neighbours.come_again(world, &mut tally);
    let kept_out = world
        .ceo
        .register(world.to(), &world.domain, world.ceo_account());
    tally.judge(kept_out.is_err(), || {
        format!("ceo is kept out where he is: {:?}", kept_out.err())
    });
    Ok(tally)
}

/// Guesses for which a challenge is good: one that failed more often is no reason to refuse what
/// comes after.
const GUESSES_PER_CHALLENGE: u64 = 3;
/// Guessing takes no longer: bounds forget, and what is judged here is that they hold meanwhile.
const GUESSING_MAX: Duration = Duration::from_secs(15);
/// How often the right guess comes after wrong ones. A bound forgets one now and then, and the
/// right one may be what comes just then: so where it got in each time, there is no bound.
const RIGHT_ONES: u64 = 3;

/// Who guesses passwords from one place, and asks for a new challenge when one is spent.
struct Guesser<'a> {
    world: &'a World,
    phone: &'a Phone,
    challenge: Option<Challenge>,
    guesses: u64,
    was_challenged: bool,
}

impl<'a> Guesser<'a> {
    fn new(world: &'a World, phone: &'a Phone) -> Self {
        Self {
            world,
            phone,
            challenge: None,
            guesses: 0,
            was_challenged: false,
        }
    }

    /// A REGISTER with this name and password; its status, where one comes in time.
    fn guess(&mut self, account: &Account, patience: Duration) -> Result<Option<u16>, String> {
        let Some(draft) = self.next(account)? else {
            return Ok(None);
        };
        self.phone.send(self.world.to(), &draft);
        let got = self.phone.response(patience, &draft, |s| s >= 200);
        Ok(got.and_then(|got| got.status()))
    }

    /// Whether the right password is taken, to a challenge that nobody has answered.
    fn right(&mut self, account: &Account) -> Result<bool, String> {
        self.challenge = None;
        self.guesses = 0;
        let Some(draft) = self.next(account)? else {
            return Ok(false);
        };
        let patience = Duration::from_secs(2);
        let got = self.phone.ask_for(patience, self.world.to(), &draft);
        Ok(got.and_then(|got| got.status()) == Some(200))
    }

    /// The next guess; `None` for who gets no challenge any more.
    fn next(&mut self, account: &Account) -> Result<Option<Draft>, String> {
        let aor = self.world.aor(account);
        let mut base = Draft::new("REGISTER", &aor, &aor)
            .uri(&format!("sip:{}", self.world.domain))
            .contact(&self.world.mallory.contact());
        let nth = self.guesses % GUESSES_PER_CHALLENGE;
        self.guesses += 1;
        let challenge = match self.challenge.take().filter(|_| nth > 0) {
            Some(challenge) => challenge,
            None => {
                let first = self
                    .phone
                    .ask_for(Duration::from_secs(1), self.world.to(), &base);
                base = base.again();
                let asked = |first: Text| first.all("WWW-Authenticate").find_map(Challenge::read);
                match first.and_then(asked) {
                    Some(challenge) => challenge,
                    None if self.was_challenged => return Ok(None),
                    None => return Err("a REGISTER is not challenged".to_owned()),
                }
            }
        };
        self.was_challenged = true;
        let count = u32::try_from(nth + 1).unwrap_or(1);
        let value = challenge.answer(account, "REGISTER", &base.uri, count);
        self.challenge = Some(challenge);
        Ok(Some(base.with("Authorization", &value)))
    }
}

fn wrong(user: &str, n: u64) -> Account {
    Account::new(user, &format!("guess {n}"))
}

/// One user's password, from one address at which he is as well.
fn of_one_user(world: &World, scale: &Scale, tally: &mut Tally) -> Result<(), String> {
    let victim = world.alice_account();
    let mut guesser = Guesser::new(world, &world.mallory);
    let begun = Instant::now();
    let (mut guesses, mut answered) = (0, 0_u64);
    while guesses < scale.of(60, 5_000) && begun.elapsed() < GUESSING_MAX {
        guesses += 1;
        // A guesser does not wait for an answer that is held back.
        let got = guesser.guess(&wrong(&victim.user, guesses), Duration::from_millis(20))?;
        answered += u64::from(got.is_some());
        tally.judge(got == Some(200), || "a guess was right".to_owned());
    }
    if !scale.quick {
        tally.note(format!(
            "{:.0} guesses a second got an answer, looked up or not",
            answered as f64 / begun.elapsed().as_secs_f64()
        ));
    }
    let is_taken = guesser.right(victim)?;
    tally.judge(is_taken, || {
        format!("the right guess after {guesses} wrong ones was taken")
    });
    Ok(())
}

/// One user's password, each guess from an address of its own.
fn from_many_addresses(world: &World, scale: &Scale, tally: &mut Tally) -> Result<(), String> {
    let victim = world.ceo_account();
    let at_once = Duration::from_secs(1);
    let mut guesses = 0;
    let mut guess_wrong = |times: u64, tally: &mut Tally| -> Result<(), String> {
        for _ in 0..times {
            guesses += 1;
            let phone = fresh_phone()?;
            let account = wrong(&victim.user, guesses);
            let got = Guesser::new(world, &phone).guess(&account, at_once)?;
            tally.judge(got == Some(200), || "a guess was right".to_owned());
        }
        Ok(())
    };
    guess_wrong(scale.of(30, 100), tally)?;
    let mut taken = 0;
    for _ in 0..RIGHT_ONES {
        guess_wrong(2, tally)?;
        let phone = fresh_phone()?;
        taken += u64::from(Guesser::new(world, &phone).right(victim)?);
    }
    tally.judge(taken == RIGHT_ONES, || {
        format!("the right guess after wrong ones from {guesses} addresses was taken")
    });
    Ok(())
}

/// The passwords of many, from one address.
fn of_many_users(world: &World, tally: &mut Tally) -> Result<(), String> {
    const GUESSES: u64 = 120;
    let at_once = Duration::from_secs(1);
    let phone = fresh_phone()?;
    let mut guesser = Guesser::new(world, &phone);
    let mut guesses = 0;
    let mut guess_wrong = |guesser: &mut Guesser<'_>, times: u64, tally: &mut Tally| {
        for _ in 0..times {
            guesses += 1;
            let got = guesser.guess(&wrong(&format!("user{guesses}"), guesses), at_once)?;
            tally.judge(got == Some(200), || "a guess was right".to_owned());
        }
        Ok::<(), String>(())
    };
    guess_wrong(&mut guesser, GUESSES, tally)?;
    let users = world.callers();
    let mut taken = 0;
    for account in users.iter().cycle().take(RIGHT_ONES as usize) {
        guess_wrong(&mut guesser, GUESSES_PER_CHALLENGE, tally)?;
        taken += u64::from(guesser.right(account)?);
    }
    tally.judge(taken == RIGHT_ONES, || {
        format!("right guesses after wrong ones for {guesses} users were taken")
    });
    Ok(())
}

/// Users whose phones are behind the attacker's address, as behind one NAT,
/// and who were there before him: each registers from where he is, before and
/// after.
struct Neighbours(Vec<(Phone, Account)>);

impl Neighbours {
    fn come(world: &World) -> Result<Self, String> {
        let accounts = [world.bob_account(), world.alice_account()];
        let mut phones = Vec::new();
        for account in accounts {
            let phone = Phone::at([127, 0, 1, 1])?;
            phone.register(world.to(), &world.domain, account)?;
            phones.push((phone, account.clone()));
        }
        Ok(Self(phones))
    }

    fn come_again(&self, world: &World, tally: &mut Tally) {
        for (phone, account) in &self.0 {
            let until = Instant::now() + Duration::from_secs(10);
            let mut done = phone.register(world.to(), &world.domain, account);
            // A delayed answer is no refusal.
            while done.is_err() && Instant::now() < until {
                done = phone.register(world.to(), &world.domain, account);
            }
            tally.judge(done.is_err(), || {
                format!("{} is kept out: {:?}", account.user, done.err())
            });
        }
    }
}

fn one_source(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let source = UdpSocket::bind("127.0.1.1:0").map_err(|e| e.to_string())?;
    let neighbours = Neighbours::come(world)?;
    let flood = Flood::of(scale, 300_000);
    let world = &*world;
    let connections = scale.of(20, 2_000);
    beside(world, scale, &mut tally, || {
        let sent = flood.send_from(world, std::slice::from_ref(&source), |n, local| {
            let method = ["REGISTER", "OPTIONS", "INVITE"]
                .get(usize::try_from(n % 3).unwrap_or(0))
                .unwrap_or(&"FOO");
            Draft::new(method, &world.ceo_aor(), &world.ceo_aor()).render(local, "UDP")
        })?;
        if let Some(tcp) = world.server.tcp {
            for _ in 0..connections {
                let _ = Stream::tcp(tcp)?;
            }
        }
        Ok(sent)
    })?;
    neighbours.come_again(world, &mut tally);
    Ok(tally)
}

fn user_rate(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let account = world.alice_account();
    let begun = Instant::now();
    let invite = world.alice.invite(&world.alice_aor(), &world.bob_aor());
    let mut own = world.alice.call(world.to(), &invite, account)?;
    let mark = word("rate");
    let stolen = world.mallory.invite(&world.alice_aor(), &world.bob_aor());
    let stolen = stolen.mark(&mark);
    let first = world.mallory.ask(world.to(), &stolen)?;
    let challenge = first
        .all("Proxy-Authenticate")
        .find_map(Challenge::read)
        .ok_or("a call is not challenged")?;
    for n in 1..=scale.of(200, 5_000) {
        let count = u32::try_from(n).unwrap_or(1);
        let value = challenge.answer(account, "INVITE", &stolen.uri, count);
        let mut draft = stolen.again().with("Proxy-Authorization", &value);
        draft.call_id = word("r");
        world.mallory.send(world.to(), &draft);
        tally.try_many(1);
        if n % 20 == 0 {
            world.settle_briefly();
        }
    }
    world.settle();
    let n = world.reached(&mark);
    let allowed = 50 + 5 * (begun.elapsed().as_secs() + 1);
    tally.break_in(n.saturating_sub(allowed), || {
        format!("{n} calls where {allowed} are allowed")
    });
    tally.judge(n == 0, || "the password opens nothing at all".to_owned());
    for method in ["INFO", "BYE"] {
        let within = own.request(method);
        let answer = world.alice.ask(world.to(), &within)?;
        tally.judge(answer.status() != Some(200), || {
            format!("{method} within her call got {}", answer.start)
        });
    }
    let other = world.ceo.invite(&world.ceo_aor(), &world.bob_aor());
    let called = world.ceo.call(world.to(), &other, world.ceo_account());
    tally.judge(called.is_err(), || {
        format!("another user: {:?}", called.err())
    });
    Ok(tally)
}

fn overload(world: &mut World, scale: &Scale) -> Result<Tally, String> {
    let mut tally = Tally::default();
    // Calls of somebody who is not in the flood, up before it.
    let mut calls = Vec::new();
    for _ in 0..scale.of(5, 100) {
        let invite = world.alice.invite(&world.alice_aor(), &world.ceo_aor());
        calls.push(
            world
                .alice
                .call(world.to(), &invite, world.alice_account())?,
        );
    }
    let peer = UdpSocket::bind("127.0.0.4:0").map_err(|e| e.to_string())?;
    let flood = Flood {
        packets: scale.of(200, 200_000),
        sources: 1,
        per_s: 20_000,
    };
    let to = world.bob_aor();
    let world = &*world;
    let every = (flood.packets / 20_000).max(1);
    let (ended, kept) = std::thread::scope(|scope| {
        let hang_up = scope.spawn(|| {
            let mut ended = 0_u64;
            let kept = calls.len() as u64;
            for dialog in &mut calls {
                let bye = dialog.request("BYE");
                let answer = world.alice.ask_for(PATIENCE, world.to(), &bye);
                ended += u64::from(answer.and_then(|a: Text| a.status()) == Some(200));
                std::thread::sleep(Duration::from_millis(5 * every));
            }
            (ended, kept)
        });
        let mut flooded = Tally::default();
        // The flood's calls are not acknowledged: who floods does not care.
        let done = flood.send_from(world, std::slice::from_ref(&peer), |_, local| {
            Draft::new("INVITE", "sip:x@trunk.test", &to)
                .contact(&format!("<sip:x@{local}>"))
                .render(local, "UDP")
        });
        flooded.try_many(done.unwrap_or(0));
        tally.try_many(flooded.tried);
        hang_up.join().unwrap_or((0, 1))
    });
    tally.try_many(kept);
    tally.break_in(kept - ended, || {
        format!("{ended} of {kept} calls could be ended")
    });
    let answered = world.server.answers(PATIENCE);
    tally.judge(!answered, || {
        "the server does not answer afterwards".to_owned()
    });
    let mut works = world.call_works();
    let until = Instant::now() + Duration::from_secs(20);
    while works.is_err() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(500));
        works = world.call_works();
    }
    tally.judge(works.is_err(), || format!("afterwards: {:?}", works.err()));
    Ok(tally)
}
