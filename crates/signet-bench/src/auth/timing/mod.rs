//! Whether a refusal tells anything of the name that a password was tried for: whether it
//! is a user's, and whether the cache has it.
//!
//! Passwords are tried over UDP, each sort of name as often as the others and in an order by
//! chance, so that whatever else the machine does meanwhile is the same to all. Two are sent
//! at once, since the order of two answers may tell what their times do not.

mod client;
mod compare;
mod names;
mod requests;

use std::collections::BTreeMap;

use measure::random::Random;
use sip_auth::ClientAuth;
use sip_msg::{Limits, Message};

use self::client::{Client, Heard, TOGETHER};
use self::compare::{Sample, least_p, pairs};
use self::names::{HELD, KNOWN, Names, Sort, Turn, USERS, password, turns, user};
use self::requests::{Method, client_of, credentials, form_of, request};
use super::database::Kind;
use super::server::figures;
use super::{Bench, ports};
use crate::aims::Relation;

/// Requests of each sort.
const EACH: usize = 20_000;
/// How many are sent in a second.
const RATE_PER_S: f64 = 1_000.0;
/// The same while users log in.
const LOGIN_PER_S: f64 = 500.0;
/// What the client adds to the times of one sort, to show that it would be seen.
pub(super) const ADDED_MS: f64 = 0.2;
/// Two sorts differ where chance alone shows less in one of so many measurements.
const P_MIN: f64 = 0.01;
/// The share of requests that may be left without a refusal.
const UNANSWERED_MAX: f64 = 0.01;
/// The share of the cache's users that must have been in it when they were tried.
const HELD_MIN: f64 = 0.95;
/// How often a request is sent that comes before them.
const TRIES: usize = 5;
/// Challenges that are answered again and again.
const CHALLENGES: usize = 64;
const SEED: u64 = 11;

/// The figure that tells how often the cache had what was asked for.
const HITS: &str = "signet_lookups_cache_hits_total";

/// A final answer and the number of its form.
type Answer = Option<Heard<usize>>;

pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), String> {
    let each = bench.sized(EACH, 1_000);
    let database = bench.database(Kind::MariaDb, USERS)?;
    let scene = bench.scene_of_guesses(&database)?;
    let mut random = Random::new(SEED);
    let names = Names::new(each, &mut random);
    let core = bench.arguments.cores.load.parse().ok();
    let mut client = Client::new(bench.port(ports::SERVER), core)?;
    let mut users = log_in(&mut client, &names)?;
    let challenges = challenges(&mut client)?;
    try_ghosts(&mut client, &names, &challenges)?;

    let turns = turns(each, &mut random);
    let metrics = bench.port(ports::METRICS);
    let hits_before = hits(metrics)?;
    let mut forms = Forms::default();
    let answers = guess(
        &mut client,
        (&names, &turns),
        (&mut users, &challenges),
        &mut forms,
    )?;
    let hits = hits(metrics)? - hits_before;
    drop(scene);

    let held = hits / (2 * each) as f64;
    eprintln!("{:.1}% of the cache's users were in it", held * 100.0);
    if held < HELD_MIN {
        return Err(format!(
            "only {:.1}% of the users in the cache were in it when they were tried",
            held * 100.0
        ));
    }
    let samples = samples(&turns, &answers);
    report(bench, &samples, forms.of_sorts(&turns, &answers));
    Ok(())
}

fn hits(metrics: u16) -> Result<f64, String> {
    let figures = figures(metrics)?;
    let found = figures.iter().filter(|(name, _)| name.starts_with(HITS));
    Ok(found.map(|(_, value)| value).sum())
}

/// Has every user who is to be in the cache show his password; each goes on with his nonce.
fn log_in(client: &mut Client, names: &Names) -> Result<Vec<ClientAuth>, String> {
    let name = |nth: usize| user(names.held(nth));
    let ask = |nth: usize, who| Ok(request(Method::Register, &name(nth), who, ""));
    let challenges = whole(client, (HELD, 401), ask)?;
    let mut users = Vec::with_capacity(HELD);
    for (nth, challenge) in challenges.iter().enumerate() {
        let password = password(names.held(nth));
        users.push(client_of(&name(nth), &password, challenge)?);
    }
    let all = &mut users;
    let prove = |nth: usize, who: (usize, u16)| {
        let client = all.get_mut(nth).ok_or("a user has no nonce")?;
        let credentials = credentials(client, Method::Register, who.0);
        Ok(request(Method::Register, &name(nth), who, &credentials))
    };
    whole(client, (HELD, 200), prove)?;
    Ok(users)
}

/// Challenges to requests of each method.
fn challenges(client: &mut Client) -> Result<[Vec<Message>; 2], String> {
    let mut all = Method::ALL.map(|_| Vec::new());
    for (method, challenges) in Method::ALL.into_iter().zip(&mut all) {
        let ask = |_, who| Ok(request(method, &user(1), who, ""));
        *challenges = whole(client, (CHALLENGES, method.refusal()), ask)?;
    }
    Ok(all)
}

/// Tries the names that are to be known not to exist.
fn try_ghosts(
    client: &mut Client,
    names: &Names,
    challenges: &[Vec<Message>; 2],
) -> Result<(), String> {
    let ask = |nth: usize, who| guessed(Method::Register, &names.known(nth), who, challenges);
    whole(client, (KNOWN, 401), ask)?;
    Ok(())
}

/// A request with a wrong password and a good nonce.
fn guessed(
    method: Method,
    name: &str,
    who: (usize, u16),
    [of_register, of_invite]: &[Vec<Message>; 2],
) -> Result<Vec<u8>, String> {
    let challenges = match method {
        Method::Register => of_register,
        Method::Invite => of_invite,
    };
    let challenge = challenges.get(who.0 % challenges.len().max(1));
    let challenge = challenge.ok_or("there is no challenge to answer")?;
    let mut client = client_of(name, "not his password", challenge)?;
    let credentials = credentials(&mut client, method, who.0);
    Ok(request(method, name, who, &credentials))
}

/// By which method a name is tried: both alike often. The right password changes nothing,
/// and is shown to the registrar.
const fn method(turn: Turn) -> Method {
    match (turn.sort, turn.nth % 2) {
        (Sort::Right, _) | (_, 0) => Method::Register,
        _ => Method::Invite,
    }
}

fn guess(
    client: &mut Client,
    (names, turns): (&Names, &[Turn]),
    (users, challenges): (&mut [ClientAuth], &[Vec<Message>; 2]),
    forms: &mut Forms,
) -> Result<Vec<Answer>, String> {
    eprintln!(
        "{} passwords are tried, {RATE_PER_S:.0} a second",
        turns.len()
    );
    let make = |nth: usize, who: (usize, u16)| {
        let turn = *turns.get(nth).ok_or("there is no such turn")?;
        let name = names.of(turn);
        if turn.sort != Sort::Right {
            return guessed(method(turn), &name, who, challenges);
        }
        let client = users.get_mut(turn.nth % HELD);
        let client = client.ok_or("a user has no nonce")?;
        let credentials = credentials(client, Method::Register, who.0);
        Ok(request(Method::Register, &name, who, &credentials))
    };
    client.exchange(turns.len(), RATE_PER_S, make, |answer| forms.note(answer))
}

/// A copy of an answer.
fn copy(answer: &Message) -> Result<Message, String> {
    Message::parse(answer.bytes(), &Limits::default())
        .map_err(|error| format!("an answer cannot be read: {error}"))
}

/// Sends so many requests until each was answered with that status, a few times at most: the
/// machine may have other things to do. All answers.
fn whole(
    client: &mut Client,
    (count, status): (usize, u16),
    mut make: impl FnMut(usize, (usize, u16)) -> Result<Vec<u8>, String> + Send,
) -> Result<Vec<Message>, String> {
    let mut all: Vec<Option<Message>> = (0..count).map(|_| None).collect();
    for _ in 0..TRIES {
        let is_missing = |nth: &usize| all.get(*nth).is_some_and(Option::is_none);
        let missing: Vec<usize> = (0..count).filter(is_missing).collect();
        let of_missing = |nth: usize, who| make(missing.get(nth).copied().unwrap_or(0), who);
        let asked = client.exchange(missing.len(), LOGIN_PER_S, of_missing, copy)?;
        for (nth, heard) in missing.iter().zip(asked) {
            if let Some(heard) = heard.filter(|heard| heard.status == status)
                && let Some(slot) = all.get_mut(*nth)
            {
                *slot = Some(heard.note?);
            }
        }
    }
    let all: Option<Vec<Message>> = all.into_iter().collect();
    all.ok_or_else(|| format!("a request was never answered with {status}"))
}

/// The forms that answers had, numbered as they came.
#[derive(Default)]
struct Forms(BTreeMap<String, usize>);

impl Forms {
    fn note(&mut self, answer: &Message) -> usize {
        let next = self.0.len();
        *self.0.entry(form_of(answer)).or_insert(next)
    }

    /// How many forms the refusals of each method had, the most of both; infinitely many
    /// where a sort of names has one that another has not.
    fn of_sorts(&self, turns: &[Turn], answers: &[Answer]) -> f64 {
        let mut seen: BTreeMap<(bool, usize), Vec<Sort>> = BTreeMap::new();
        for (turn, answer) in turns.iter().zip(answers) {
            let Some(heard) = refusal(*turn, answer) else {
                continue;
            };
            if Sort::ALIKE.contains(&turn.sort) {
                let is_invite = method(*turn) == Method::Invite;
                let sorts = seen.entry((is_invite, heard.note)).or_default();
                if !sorts.contains(&turn.sort) {
                    sorts.push(turn.sort);
                }
            }
        }
        let of_some = seen
            .iter()
            .filter(|(_, sorts)| sorts.len() < Sort::ALIKE.len());
        let of_some: Vec<usize> = of_some.map(|((_, form), _)| *form).collect();
        for (form, _) in self.0.iter().filter(|(_, nth)| of_some.contains(nth)) {
            eprintln!("not every sort of names had this answer:\n{form}");
        }
        if !of_some.is_empty() {
            return f64::INFINITY;
        }
        let of = |invite| {
            seen.keys()
                .filter(move |(is_invite, _)| *is_invite == invite)
        };
        of(true).count().max(of(false).count()) as f64
    }
}

/// The answer, if it is the one that a wrong password gets.
fn refusal(turn: Turn, answer: &Answer) -> Option<Heard<usize>> {
    let heard = (*answer)?;
    let expected = match turn.sort {
        Sort::Right => 200,
        _ => method(turn).refusal(),
    };
    (heard.status == expected).then_some(heard)
}

/// What came, by the sorts of names.
fn samples(turns: &[Turn], answers: &[Answer]) -> Vec<Sample> {
    let mut samples: Vec<Sample> = Sort::ALL.into_iter().map(Sample::new).collect();
    let mut with = |sort: Sort, act: &mut dyn FnMut(&mut Sample)| {
        if let Some(sample) = samples.iter_mut().find(|sample| sample.sort == sort) {
            act(sample);
        }
    };
    for (turn, answer) in turns.iter().zip(answers) {
        with(turn.sort, &mut |sample| {
            sample.requests += 1;
            let Some(heard) = refusal(*turn, answer) else {
                return;
            };
            let added_ms = match turn.sort {
                Sort::Later => ADDED_MS,
                _ => 0.0,
            };
            sample.took_ms.push(heard.took_ns as f64 / 1e6 + added_ms);
        });
    }
    let together = turns.chunks_exact(TOGETHER);
    for (turns, answers) in together.zip(answers.chunks_exact(TOGETHER)) {
        let ([first, second], [one, other]) = (turns, answers) else {
            continue;
        };
        // Who is right is answered first.
        let (Some(one), Some(other)) = (refusal(*first, one), refusal(*second, other)) else {
            continue;
        };
        if [first.sort, second.sort].contains(&Sort::Right) {
            continue;
        }
        let is_reversed = f64::from(u8::from(other.place < one.place));
        with(first.sort, &mut |sample| sample.order.push(is_reversed));
        with(second.sort, &mut |sample| sample.order.push(-is_reversed));
    }
    samples
}

fn report(bench: &mut Bench<'_>, samples: &[Sample], forms: f64) {
    let of = |sort: Sort| samples.iter().find(move |sample| sample.sort == sort);
    let alike: Vec<&Sample> = Sort::ALIKE.into_iter().filter_map(of).collect();
    let compared = pairs(&alike, false);
    let control = |of_interest| -> Vec<&Sample> {
        [of(of_interest), of(Sort::NewGhost)]
            .into_iter()
            .flatten()
            .collect()
    };
    let later = pairs(&control(Sort::Later), true);
    let right = pairs(&control(Sort::Right), true);
    let seen = later.iter().map(|pair| pair.p_distance.min(pair.p_rank));
    let seen = seen.reduce(f64::min);
    let requests: usize = alike.iter().map(|sample| sample.requests).sum();
    let refused: usize = alike.iter().map(|sample| sample.took_ms.len()).sum();
    let unanswered = 1.0 - refused as f64 / requests.max(1) as f64;

    let record = &mut bench.record;
    let many = compared.len() * compare::TESTS;
    record.bar(
        "timing",
        &format!("least p of {many} comparisons of refusals, times {many}"),
        least_p(&compared),
        (Relation::AtLeast, P_MIN),
    );
    record.bar(
        "timing",
        &format!("p of {ADDED_MS} ms that the client adds to one sort"),
        seen,
        (Relation::LessThan, P_MIN),
    );
    record.bar(
        "timing",
        "forms of a refusal of one method",
        Some(forms),
        (Relation::AtMost, 1.0),
    );
    record.bar(
        "timing",
        "share of requests without a refusal",
        Some(unanswered),
        (Relation::AtMost, UNANSWERED_MAX),
    );
    record.timing = samples.iter().map(Sample::row).collect();
    record.timing_pairs = [compared, later, right].concat();
    record.print_timing();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, took_ns: u64, place: usize, note: usize) -> Answer {
        Some(Heard {
            took_ns,
            place,
            status,
            note,
        })
    }

    const fn turn(sort: Sort, nth: usize) -> Turn {
        Turn { sort, nth }
    }

    #[test]
    fn times_and_order_go_to_the_sort_of_each_name() {
        let turns = [
            turn(Sort::Held, 0),
            turn(Sort::NewGhost, 1),
            turn(Sort::Later, 0),
            turn(Sort::NotHeld, 0),
            turn(Sort::Right, 0),
            turn(Sort::Held, 2),
            turn(Sort::Held, 1),
            turn(Sort::NewGhost, 0),
        ];
        let answers = [
            answer(401, 30_000_000, 1, 0),
            answer(407, 31_000_000, 0, 0),
            answer(401, 30_000_000, 2, 0),
            answer(401, 32_000_000, 3, 0),
            answer(200, 300_000, 4, 0),
            answer(401, 33_000_000, 5, 0),
            answer(503, 1_000_000, 6, 0),
            None,
        ];
        let samples = samples(&turns, &answers);
        let of = |sort| samples.iter().find(|sample| sample.sort == sort).unwrap();
        assert_eq!(of(Sort::Held).took_ms, [30.0, 33.0]);
        assert_eq!(of(Sort::Held).order, [1.0], "its answer came second");
        assert_eq!(of(Sort::Held).requests, 3);
        assert_eq!(of(Sort::NewGhost).took_ms, [31.0]);
        assert_eq!(of(Sort::NewGhost).order, [-1.0]);
        assert_eq!(of(Sort::Later).took_ms, [30.2]);
        assert_eq!(of(Sort::NotHeld).order, [0.0]);
        assert_eq!(of(Sort::Right).took_ms, [0.3]);
        assert!(of(Sort::Right).order.is_empty());
    }

    #[test]
    fn a_form_that_one_sort_alone_has_is_found() {
        let forms = Forms::default();
        let turns: Vec<Turn> = Sort::ALIKE
            .into_iter()
            .flat_map(|sort| [turn(sort, 0), turn(sort, 1)])
            .collect();
        let with = |notes: [usize; 8]| -> Vec<Answer> {
            let statuses = [401, 407].into_iter().cycle();
            let all = notes.into_iter().zip(statuses);
            all.map(|(note, status)| answer(status, 1, 0, note))
                .collect()
        };
        let found = forms.of_sorts(&turns, &with([0, 1, 0, 1, 0, 1, 0, 1]));
        assert_eq!(found, 1.0);
        let found = forms.of_sorts(&turns, &with([0, 1, 0, 1, 2, 1, 0, 1]));
        assert!(found.is_infinite());
    }
}
