//! Which names are tried, and in which order.

use measure::random::Random;

/// Users in the database.
pub(super) const USERS: usize = 30_000;
/// Users who are in the cache, and names that are known not to exist. They are tried again
/// and again, by one method and by the other: primes have no common divisor with two.
pub(super) const HELD: usize = 499;
pub(super) const KNOWN: usize = 499;
/// Letters that end a name which nobody has: it stands between those of users.
const LETTERS: usize = 26;

/// What is known of a name, and what is sent in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sort {
    /// A user in the cache, with a wrong password.
    Held,
    /// A user who was never asked for, with a wrong password.
    NotHeld,
    /// A name that nobody has, and that was asked for before.
    KnownGhost,
    /// A name that nobody has, and that was never asked for.
    NewGhost,
    /// The same, to whose times the client adds [`super::ADDED_MS`].
    Later,
    /// A user in the cache, with the right password.
    Right,
}

impl Sort {
    /// Those that must be alike.
    pub(super) const ALIKE: [Self; 4] =
        [Self::Held, Self::NotHeld, Self::KnownGhost, Self::NewGhost];
    /// With those that show that a difference would be seen.
    pub(super) const ALL: [Self; 6] = [
        Self::Held,
        Self::NotHeld,
        Self::KnownGhost,
        Self::NewGhost,
        Self::Later,
        Self::Right,
    ];

    /// For tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Held => "a user in the cache",
            Self::NotHeld => "a user never asked for",
            Self::KnownGhost => "nobody, asked for before",
            Self::NewGhost => "nobody, never asked for",
            Self::Later => "nobody, 0.2 ms added",
            Self::Right => "a user in the cache, right",
        }
    }
}

/// One request of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) sort: Sort,
    /// Which one of its sort.
    pub(super) nth: usize,
}

/// The names of each sort, none of them in two.
pub(super) struct Names {
    held: Vec<usize>,
    asleep: Vec<usize>,
    known: Vec<usize>,
    new: Vec<usize>,
}

impl Names {
    /// Names for so many requests of each sort.
    pub(super) fn new(each: usize, random: &mut Random) -> Self {
        let mut users: Vec<usize> = (1..=USERS).collect();
        let mut ghosts: Vec<usize> = (0..USERS / 10 * LETTERS).collect();
        shuffle(&mut users, random);
        shuffle(&mut ghosts, random);
        let asleep = users.iter().skip(HELD).take(each).copied().collect();
        let new = ghosts.iter().skip(KNOWN).take(2 * each).copied().collect();
        users.truncate(HELD);
        ghosts.truncate(KNOWN);
        Self {
            held: users,
            asleep,
            known: ghosts,
            new,
        }
    }

    /// The number of the user in the cache whose turn it is.
    pub(super) fn held(&self, nth: usize) -> usize {
        pick(&self.held, nth)
    }

    /// The name of the known ghost whose turn it is.
    pub(super) fn known(&self, nth: usize) -> String {
        ghost(pick(&self.known, nth))
    }

    /// Whose name a request bears.
    pub(super) fn of(&self, turn: Turn) -> String {
        let Turn { sort, nth } = turn;
        match sort {
            Sort::Held | Sort::Right => user(self.held(nth)),
            Sort::NotHeld => user(pick(&self.asleep, nth)),
            Sort::KnownGhost => self.known(nth),
            Sort::NewGhost => ghost(pick(&self.new, 2 * nth)),
            Sort::Later => ghost(pick(&self.new, 2 * nth + 1)),
        }
    }
}

fn pick(numbers: &[usize], nth: usize) -> usize {
    numbers
        .get(nth % numbers.len().max(1))
        .copied()
        .unwrap_or(0)
}

/// A user's name, as [`crate::auth::users`] has it.
pub(super) fn user(number: usize) -> String {
    format!("user{number:07}")
}

/// A user's password.
pub(super) fn password(number: usize) -> String {
    format!("pw{number:07}")
}

/// A name that nobody has, as long as a user's, and in the database between those of users.
fn ghost(number: usize) -> String {
    let letter = char::from(b'a' + (number % LETTERS) as u8);
    format!("user{:06}{letter}", number / LETTERS)
}

/// So many requests of each sort, in an order by chance.
pub(super) fn turns(each: usize, random: &mut Random) -> Vec<Turn> {
    let of = |sort| (0..each).map(move |nth| Turn { sort, nth });
    let mut turns: Vec<Turn> = Sort::ALL.into_iter().flat_map(of).collect();
    shuffle(&mut turns, random);
    turns
}

/// Fisher and Yates.
fn shuffle<T>(values: &mut [T], random: &mut Random) {
    for at in (1..values.len()).rev() {
        values.swap(at, random.below(at + 1));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn every_sort_has_names_of_its_own_and_all_are_of_one_length() {
        const EACH: usize = 20_000;
        let names = Names::new(EACH, &mut Random::new(1));
        let mut of_sort: BTreeMap<Sort, BTreeSet<String>> = BTreeMap::new();
        for sort in Sort::ALL {
            let all = (0..EACH).map(|nth| names.of(Turn { sort, nth }));
            of_sort.insert(sort, all.collect());
        }
        assert!(of_sort.values().flatten().all(|name| name.len() == 11));
        let counts: Vec<usize> = of_sort.values().map(BTreeSet::len).collect();
        assert_eq!(counts, [HELD, EACH, KNOWN, EACH, EACH, HELD]);
        assert_eq!(of_sort[&Sort::Held], of_sort[&Sort::Right]);
        of_sort.remove(&Sort::Right);
        let all: BTreeSet<&String> = of_sort.values().flatten().collect();
        assert_eq!(all.len(), HELD + KNOWN + 3 * EACH);
        let is_user = |name: &&&String| name[4..].parse::<usize>().is_ok();
        assert_eq!(all.iter().filter(is_user).count(), HELD + EACH);
    }

    #[test]
    fn the_order_is_by_chance_and_can_be_had_again() {
        let turns = turns(1_000, &mut Random::new(7));
        assert_eq!(turns, super::turns(1_000, &mut Random::new(7)));
        assert_ne!(turns, super::turns(1_000, &mut Random::new(8)));
        for sort in Sort::ALL {
            let first = turns.iter().take(3_000).filter(|turn| turn.sort == sort);
            assert!((400..600).contains(&first.count()));
        }
    }
}
