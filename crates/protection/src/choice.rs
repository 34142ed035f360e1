//! The cheapest of what is good enough, and why the rest is not taken.
//!
//! What is negotiated has two sides that are agreed on apart: a cipher suite and a
//! key-exchange group, or a cipher and an authentication. So a choice is two lists, and
//! holds for every pair that the other end may make of them.

use std::cmp::Ordering;

use invariant::broken;
use serde::Serialize;

use crate::level::{Aspect, Level, Protection};
use crate::policy::Policy;
use crate::table::{BelowTheFloor, Judged, Levels};
use crate::unmet::{NoPair, Relaxed, Unmet};

/// Something that may be agreed on.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// The algorithms in it, by their names in the table of levels.
    pub parts: Vec<&'static str>,
    /// What it costs, where that is known.
    pub cost_ns: Option<f64>,
    /// Bits: it goes with members of the other side that share one.
    pub fits: u8,
    /// Why it is out of the question.
    pub excluded: Option<Reason>,
}

/// One of the two sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// What its members are: `cipher suite`.
    pub what: &'static str,
    /// The members, in the order that counts where nothing else does.
    pub members: Vec<Member>,
    /// Whether the operator wrote this list himself. Then it is taken as it is, down to
    /// the floor.
    pub is_given: bool,
}

/// Why something is not taken.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// This program does not have it.
    NotHere,
    /// The other end does not offer it.
    NotOffered,
    /// It is of a version that is not allowed.
    Version {
        /// That version.
        version: &'static str,
    },
    /// No policy may choose it.
    BelowTheFloor(BelowTheFloor),
    /// It protects too little.
    Below {
        /// What it protects too little.
        aspect: Aspect,
        /// How much it protects that.
        level: Level,
        /// How much is asked for.
        least: Level,
        /// The algorithm in it that decides.
        by: String,
    },
    /// What it costs is not known, and that is asked for.
    NoPrice,
    /// It costs too much.
    TooDear {
        /// What it costs at least, with `with`.
        cost_ns: f64,
        /// What it may.
        max_ns: f64,
        /// The member of the other side.
        with: String,
    },
    /// Nothing that is left on the other side goes with it.
    NoPartner,
    /// It goes with nothing of the other side that both ends may use, whatever the policy.
    GoesWithNone {
        /// What the members of the other side are: `cipher suite`.
        of: &'static str,
    },
}

/// Something that is not taken.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fallen {
    /// What it is: `cipher suite`.
    pub what: &'static str,
    /// Its name.
    pub name: String,
    /// Why; more than one reason where more than one requirement is missed.
    pub reasons: Vec<Reason>,
}

/// A member of each side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// Of the first side.
    pub first: String,
    /// Of the second side.
    pub second: String,
    /// What both protect together, also where the operator wrote one of them down himself.
    pub protection: Protection,
    /// What both cost together, where that is known.
    pub cost_ns: Option<f64>,
}

/// What is taken, the most preferred first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// Of the first side.
    pub first: Vec<String>,
    /// Of the second side.
    pub second: Vec<String>,
    /// All pairs of these, the best first.
    pub pairs: Vec<Pair>,
    /// The rest.
    pub fallen: Vec<Fallen>,
}

/// A requirement that a pair misses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Miss {
    /// Of this aspect there is less than asked for.
    Below {
        /// Which.
        aspect: Aspect,
        /// How much there is.
        level: Level,
        /// How much is asked for.
        least: Level,
    },
    /// It costs more than it may.
    TooDear {
        /// What it costs.
        cost_ns: f64,
        /// What it may.
        max_ns: f64,
    },
    /// What it costs is not known.
    NoPrice,
}

/// A member that is above the floor.
struct Sound<'m> {
    nth: usize,
    member: &'m Member,
    /// What its pairs are judged by; of what the operator wrote himself a stand-in.
    protection: Protection,
    /// What it is worth.
    judged: Judged<'m>,
    /// See `protection`.
    cost_ns: Option<f64>,
}

/// Two of them that go together.
struct Couple {
    /// Their places among the sound ones of each side.
    places: [usize; 2],
    protection: Protection,
    cost_ns: Option<f64>,
    misses: Vec<Miss>,
}

/// Chooses: of all pairs that satisfy the policy the cheapest is the first of both lists,
/// and every pair of what is left satisfies it.
///
/// A list that the operator wrote himself is left as it is. What is broken is never taken.
///
/// # Errors
/// Where nothing satisfies the policy: what to relax, and by how much.
pub fn choose(
    policy: &Policy,
    levels: &Levels,
    first: &Side,
    second: &Side,
) -> Result<Choice, Unmet> {
    let sides = [first, second];
    let mut fallen = Vec::new();
    let sound = sides.map(|side| above_the_floor(side, levels, &mut fallen));
    let couples = couples(policy, &sound);
    let good = couples.iter().filter(|couple| couple.misses.is_empty());
    // The first of those that cost the same.
    let best = good.reduce(|best, other| {
        if is_dearer(best.cost_ns, other.cost_ns) {
            other
        } else {
            best
        }
    });
    let Some(best) = best else {
        let relaxed = couples.iter().map(|couple| relaxed(couple, &sound));
        let relaxed = relaxed.collect();
        let no_pair = couples
            .is_empty()
            .then(|| why_no_pair(&sides, &sound, &mut fallen));
        return Err(Unmet::new(*policy, relaxed, no_pair, fallen));
    };
    let best_places = best.places;
    let mut taken = Taken::new(&sides, &sound, &couples, best_places);
    taken.keep_only_good_pairs(&mut fallen);
    fallen.extend(taken.fallen(policy));
    let good = taken.couples().filter(|couple| couple.misses.is_empty());
    let mut pairs: Vec<(bool, Pair)> = good
        .map(|couple| (couple.places != best_places, pair(couple, &sound)))
        .collect();
    pairs.sort_by(|(a_is_other, a), (b_is_other, b)| {
        a_is_other
            .cmp(b_is_other)
            .then(by_cost(a.cost_ns, b.cost_ns))
    });
    Ok(Choice {
        first: taken.names(0),
        second: taken.names(1),
        pairs: pairs.into_iter().map(|(_, pair)| pair).collect(),
        fallen,
    })
}

/// The members that may be taken at all.
fn above_the_floor<'m>(
    side: &'m Side,
    levels: &'m Levels,
    fallen: &mut Vec<Fallen>,
) -> Vec<Sound<'m>> {
    let cheapest = (side.members.iter())
        .filter_map(|member| member.cost_ns)
        .min_by(f64::total_cmp);
    let mut sound = Vec::new();
    for (nth, member) in side.members.iter().enumerate() {
        let judged = match (&member.excluded, levels.judge(&member.parts)) {
            // What is broken is told even where it is excluded for another reason.
            (_, Err(floor)) => Err(Reason::BelowTheFloor(floor)),
            (Some(reason), Ok(_)) => Err(reason.clone()),
            (None, Ok(judged)) => Ok(judged),
        };
        match judged {
            Ok(judged) => sound.push(Sound {
                nth,
                member,
                // What the operator wrote himself hinders nothing on the other side.
                protection: if side.is_given {
                    Protection::WHOLE
                } else {
                    judged.protection
                },
                judged,
                cost_ns: if side.is_given {
                    cheapest.or(Some(0.0))
                } else {
                    member.cost_ns
                },
            }),
            Err(reason) => fallen.push(Fallen {
                what: side.what,
                name: member.name.clone(),
                reasons: vec![reason],
            }),
        }
    }
    sound
}

/// Every pair that goes together, with what it misses.
fn couples(policy: &Policy, sound: &[Vec<Sound<'_>>; 2]) -> Vec<Couple> {
    let [firsts, seconds] = sound;
    let mut couples = Vec::new();
    for (i, first) in firsts.iter().enumerate() {
        for (j, second) in seconds.iter().enumerate() {
            if first.member.fits & second.member.fits == 0 {
                continue;
            }
            let protection = first.protection.with(second.protection);
            let cost_ns = first.cost_ns.zip(second.cost_ns).map(|(a, b)| a + b);
            couples.push(Couple {
                places: [i, j],
                protection,
                cost_ns,
                misses: misses(policy, protection, cost_ns),
            });
        }
    }
    couples
}

/// Why nothing goes with anything. What is sound on both sides falls with the others.
fn why_no_pair(
    sides: &[&Side; 2],
    sound: &[Vec<Sound<'_>>; 2],
    fallen: &mut Vec<Fallen>,
) -> NoPair {
    let mut by_side = sides.iter().zip(sound);
    if let Some((empty, _)) = by_side.find(|(_, sound)| sound.is_empty()) {
        let is_below = |it: &Fallen| {
            it.what == empty.what && matches!(it.reasons.as_slice(), [Reason::BelowTheFloor(_)])
        };
        return match fallen.iter().any(is_below) {
            true => NoPair::BelowTheFloor,
            false => NoPair::NothingOf(empty.what),
        };
    }
    let ([first, second], [firsts, seconds]) = (sides, sound);
    for (what, of, members) in [
        (first.what, second.what, firsts),
        (second.what, first.what, seconds),
    ] {
        fallen.extend(members.iter().map(|sound| Fallen {
            what,
            name: sound.member.name.clone(),
            reasons: vec![Reason::GoesWithNone { of }],
        }));
    }
    NoPair::Apart {
        first: first.what,
        second: second.what,
    }
}

/// What of the policy these do not satisfy.
fn misses(policy: &Policy, protection: Protection, cost_ns: Option<f64>) -> Vec<Miss> {
    let below = Aspect::ALL.into_iter().filter_map(|aspect| {
        let least = policy.least(aspect)?;
        // What says nothing of an aspect does not protect it.
        let level = protection.of(aspect).unwrap_or_default();
        (level < least).then_some(Miss::Below {
            aspect,
            level,
            least,
        })
    });
    let cost = match (cost_ns, policy.max_cost_ns) {
        (Some(cost_ns), Some(max_ns)) if cost_ns > max_ns => {
            Some(Miss::TooDear { cost_ns, max_ns })
        }
        (None, Some(_)) => Some(Miss::NoPrice),
        _ => None,
    };
    below.chain(cost).collect()
}

/// The lists as they become.
struct Taken<'a, 'm> {
    sides: &'a [&'m Side; 2],
    sound: &'a [Vec<Sound<'m>>; 2],
    couples: &'a [Couple],
    best: [usize; 2],
    /// By the places among the sound ones.
    is_taken: [Vec<bool>; 2],
    /// The places that went because pairs with others would not do.
    gone: Vec<(usize, usize, Reason)>,
}

impl<'a, 'm> Taken<'a, 'm> {
    fn new(
        sides: &'a [&'m Side; 2],
        sound: &'a [Vec<Sound<'m>>; 2],
        couples: &'a [Couple],
        best: [usize; 2],
    ) -> Self {
        let mut taken = Self {
            sides,
            sound,
            couples,
            best,
            is_taken: [Vec::new(), Vec::new()],
            gone: Vec::new(),
        };
        for side in 0..2 {
            let places = 0..taken.sound_of(side).len();
            let is_taken = places
                .map(|place| taken.is_given(side) || taken.has_good_pair(side, place, |_, _| true))
                .collect();
            if let Some(of_side) = taken.is_taken.get_mut(side) {
                *of_side = is_taken;
            }
        }
        taken
    }

    fn sound_of(&self, side: usize) -> &'a [Sound<'m>] {
        self.sound.get(side).map_or(&[], Vec::as_slice)
    }

    fn is_given(&self, side: usize) -> bool {
        self.sides.get(side).is_some_and(|side| side.is_given)
    }

    fn holds(&self, side: usize, place: usize) -> bool {
        let of_side = self.is_taken.get(side);
        of_side.is_some_and(|places| places.get(place).copied().unwrap_or(false))
    }

    /// Whether a good pair has this place, and a partner that will do.
    fn has_good_pair(
        &self,
        side: usize,
        place: usize,
        will_do: impl Fn(usize, usize) -> bool,
    ) -> bool {
        let other = 1 - side;
        self.couples.iter().any(|couple| {
            couple.misses.is_empty()
                && couple.places.get(side) == Some(&place)
                && couple
                    .places
                    .get(other)
                    .is_some_and(|partner| will_do(other, *partner))
        })
    }

    /// Drops members until every pair of what is left is good. Those of the best pair stay;
    /// of two that may go, the one goes that costs more than its like in the best pair.
    fn keep_only_good_pairs(&mut self, fallen: &mut Vec<Fallen>) {
        loop {
            let lonely = (0..2)
                .flat_map(|side| (0..self.sound_of(side).len()).map(move |place| (side, place)))
                .find(|(side, place)| {
                    self.holds(*side, *place)
                        && !self.is_given(*side)
                        && !self.has_good_pair(*side, *place, |other, partner| {
                            self.holds(other, partner)
                        })
                });
            if let Some((side, place)) = lonely {
                self.let_go(side, place, Reason::NoPartner);
                continue;
            }
            let bad = self
                .couples()
                .filter(|couple| !couple.misses.is_empty())
                .max_by(|a, b| by_cost(a.cost_ns, b.cost_ns));
            let Some((side, place, reason)) = bad.and_then(|couple| self.to_drop(couple)) else {
                break;
            };
            self.let_go(side, place, reason);
        }
        for (side, place, reason) in std::mem::take(&mut self.gone) {
            fallen.extend(self.fall(side, place, vec![reason]));
        }
    }

    fn let_go(&mut self, side: usize, place: usize, reason: Reason) {
        if let Some(held) = self
            .is_taken
            .get_mut(side)
            .and_then(|places| places.get_mut(place))
        {
            *held = false;
            self.gone.push((side, place, reason));
        }
    }

    /// Which of a pair that will not do has to go, and why.
    fn to_drop(&self, couple: &Couple) -> Option<(usize, usize, Reason)> {
        let [i, j] = couple.places;
        let places = [(0, i, j), (1, j, i)];
        let dearest = places
            .into_iter()
            .filter(|(side, place, _)| !self.is_given(*side) && self.best.get(*side) != Some(place))
            .max_by(|a, b| {
                let above = |(side, place, _): &(usize, usize, usize)| {
                    let cost = |place: usize| self.sound_of(*side).get(place)?.cost_ns;
                    let best = self.best.get(*side).copied().and_then(cost);
                    cost(*place).zip(best).map(|(cost, best)| cost - best)
                };
                by_cost(above(a), above(b))
            })?;
        let (side, place, partner) = dearest;
        let with = self.name(1 - side, partner);
        let reason = couple.misses.iter().find_map(|miss| match miss {
            Miss::TooDear { cost_ns, max_ns } => Some(Reason::TooDear {
                cost_ns: *cost_ns,
                max_ns: *max_ns,
                with: with.clone(),
            }),
            Miss::NoPrice => Some(Reason::NoPrice),
            Miss::Below { .. } => None,
        });
        Some((side, place, reason.unwrap_or(Reason::NoPartner)))
    }

    fn name(&self, side: usize, place: usize) -> String {
        let sound = self.sound_of(side).get(place);
        sound.map_or_else(String::new, |sound| sound.member.name.clone())
    }

    fn fall(&self, side: usize, place: usize, reasons: Vec<Reason>) -> Option<Fallen> {
        Some(Fallen {
            what: self.sides.get(side)?.what,
            name: self.name(side, place),
            reasons,
        })
    }

    /// The pairs of what is left.
    fn couples(&self) -> impl Iterator<Item = &'a Couple> {
        self.couples.iter().filter(move |couple| {
            let [i, j] = couple.places;
            self.holds(0, i) && self.holds(1, j)
        })
    }

    /// The names of what is left of a side: as the operator wrote them, or the one of the
    /// best pair and the others by what they cost.
    fn names(&self, side: usize) -> Vec<String> {
        let mut left: Vec<&Sound<'_>> = (self.sound_of(side).iter().enumerate())
            .filter(|(place, _)| self.holds(side, *place))
            .map(|(_, sound)| sound)
            .collect();
        if !self.is_given(side) {
            let best = self.best.get(side).copied();
            let best = best.and_then(|place| self.sound_of(side).get(place));
            let best = best.map(|sound| sound.nth);
            left.sort_by(|a, b| {
                let is_other = |sound: &Sound<'_>| Some(sound.nth) != best;
                is_other(a)
                    .cmp(&is_other(b))
                    .then(by_cost(a.cost_ns, b.cost_ns))
            });
        }
        left.iter().map(|sound| sound.member.name.clone()).collect()
    }

    /// Those that were in no good pair from the beginning, and why.
    fn fallen(&self, policy: &Policy) -> Vec<Fallen> {
        let mut fallen = Vec::new();
        for side in 0..2 {
            for (place, sound) in self.sound_of(side).iter().enumerate() {
                let was_taken = self.is_given(side) || self.has_good_pair(side, place, |_, _| true);
                if !was_taken {
                    let reasons = self.why(side, place, sound, policy);
                    fallen.extend(self.fall(side, place, reasons));
                }
            }
        }
        fallen
    }

    fn why(&self, side: usize, place: usize, sound: &Sound<'_>, policy: &Policy) -> Vec<Reason> {
        let mut own: Vec<Reason> = Aspect::ALL
            .into_iter()
            .filter_map(|aspect| {
                let least = policy.least(aspect)?;
                let level = sound.protection.of(aspect)?;
                let by = sound.judged.weakest(aspect)?.name.clone();
                (level < least).then_some(Reason::Below {
                    aspect,
                    level,
                    least,
                    by,
                })
            })
            .collect();
        let is_in = |couple: &Couple| couple.places.get(side) == Some(&place);
        if !self.couples.iter().any(is_in) {
            let of = (self.sides.get(1 - side)).map_or("", |other| other.what);
            own.push(Reason::GoesWithNone { of });
        }
        if !own.is_empty() {
            return own;
        }
        // Otherwise it would do but for what it costs, or it is alone.
        let only_cost = |couple: &&Couple| {
            let is_cost = |miss: &Miss| !matches!(miss, Miss::Below { .. });
            is_in(couple) && couple.misses.iter().all(is_cost)
        };
        let nearest = self
            .couples
            .iter()
            .filter(only_cost)
            .min_by(|a, b| by_cost(a.cost_ns, b.cost_ns));
        let reason = match nearest.map(|couple| (couple.misses.as_slice(), couple.places)) {
            Some(([Miss::TooDear { cost_ns, max_ns }], places)) => Reason::TooDear {
                cost_ns: *cost_ns,
                max_ns: *max_ns,
                with: (places.get(1 - side)).map_or_else(String::new, |p| self.name(1 - side, *p)),
            },
            Some(([Miss::NoPrice], _)) => Reason::NoPrice,
            _ => Reason::NoPartner,
        };
        vec![reason]
    }
}

/// Cheaper before dearer, and what is not known last.
fn by_cost(a: Option<f64>, b: Option<f64>) -> Ordering {
    let known = |cost: Option<f64>| cost.unwrap_or(f64::INFINITY);
    known(a).total_cmp(&known(b))
}

fn is_dearer(a: Option<f64>, b: Option<f64>) -> bool {
    by_cost(a, b) == Ordering::Greater
}

/// A pair with what it is worth and costs itself, whoever wrote its members down.
fn pair(couple: &Couple, sound: &[Vec<Sound<'_>>; 2]) -> Pair {
    let [firsts, seconds] = sound;
    let [i, j] = couple.places;
    let (Some(first), Some(second)) = (firsts.get(i), seconds.get(j)) else {
        return broken!(
            "a couple is made of what is sound",
            Pair {
                first: String::new(),
                second: String::new(),
                protection: couple.protection,
                cost_ns: couple.cost_ns,
            }
        );
    };
    let costs_ns = first.member.cost_ns.zip(second.member.cost_ns);
    Pair {
        first: first.member.name.clone(),
        second: second.member.name.clone(),
        protection: first.judged.protection.with(second.judged.protection),
        cost_ns: costs_ns.map(|(a, b)| a + b),
    }
}

fn relaxed(couple: &Couple, sound: &[Vec<Sound<'_>>; 2]) -> Relaxed {
    Relaxed {
        pair: pair(couple, sound),
        misses: couple.misses.clone(),
    }
}
