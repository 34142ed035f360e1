//! A batch as statements, and rows as its answers.

use std::collections::HashMap;

use sip_auth::{Secrets, Subject};
use sip_lookup::{BadRow, Row, part_rows};

use super::columns::Read;

/// A name that nobody has. It is asked for in the place of one that cannot be sent, so that
/// such a question takes as long as any other.
const NOBODY: &str = "\u{1}";

/// What one statement asks: users of one realm.
///
/// Names in ASCII and others stand in different statements. A table whose character set
/// lacks a letter makes the database refuse the statement, and that must not touch the
/// users whose names any table can have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// The realm, as a parameter.
    pub(crate) realm: String,
    /// The names, as parameters.
    pub(crate) names: Vec<String>,
    /// Whether all are ASCII.
    pub(crate) is_ascii: bool,
    /// Which subject of the batch each name is; nobody where a name could not be sent.
    places: HashMap<String, usize>,
}

/// Sorts the subjects of a batch into statements of at most `names_max` names. `sent` says
/// how a user's name is sent in a realm; `None` where it cannot be.
pub(crate) fn groups(
    subjects: &[Subject],
    names_max: usize,
    sent: impl Fn(&Subject) -> Option<String>,
) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut open: HashMap<(String, bool), usize> = HashMap::new();
    for (place, subject) in subjects.iter().enumerate() {
        let realm = Some(&**subject.realm()).filter(|realm| is_sendable(realm));
        let name = realm.and_then(|_| sent(subject)).filter(|n| is_sendable(n));
        let realm = realm.unwrap_or(NOBODY).to_owned();
        let is_ascii = realm.is_ascii() && name.as_ref().is_none_or(|name| name.is_ascii());
        let key = (realm, is_ascii);
        let group = match open.get(&key) {
            Some(&at) if groups.get(at).is_some_and(|g| g.names.len() < names_max) => at,
            _ => {
                groups.push(Group {
                    realm: key.0.clone(),
                    names: Vec::new(),
                    is_ascii,
                    places: HashMap::new(),
                });
                groups.len() - 1
            }
        };
        open.insert(key, group);
        if let Some(group) = groups.get_mut(group) {
            group
                .names
                .push(name.clone().unwrap_or_else(|| NOBODY.to_owned()));
            if let Some(name) = name {
                group.places.insert(name, place);
            }
        }
    }
    groups
}

/// Whether every database takes it: no NUL (PostgreSQL has none in text), and not longer
/// than any column.
fn is_sendable(text: &str) -> bool {
    text.len() <= super::NAME_MAX && !text.contains('\0')
}

impl Group {
    /// A question about nobody, in no letters that a table may lack.
    pub(crate) fn nobody() -> Self {
        Self {
            realm: NOBODY.to_owned(),
            names: vec![NOBODY.to_owned()],
            is_ascii: true,
            places: HashMap::new(),
        }
    }

    /// Whether a row with that name and realm answers another question than this: no database
    /// holds them equal to any that were asked for. Of letters beyond ASCII nobody can say what a
    /// collation makes of them.
    pub(crate) fn is_of_another(&self, user: &[u8], realm: Option<&[u8]>) -> bool {
        let is_unlike =
            |one: &str, other: &[u8]| other.is_ascii() && !is_alike(one.as_bytes(), other);
        let is_of_another_user = || self.names.iter().all(|name| is_unlike(name, user));
        let is_of_another_realm = || realm.is_some_and(|realm| is_unlike(&self.realm, realm));
        self.is_ascii && (is_of_another_realm() || is_of_another_user())
    }

    /// The group in parts: of one name each where it is small.
    pub(crate) fn parts(mut self) -> impl Iterator<Item = Self> {
        let rows = part_rows(self.names.len());
        let mut names = std::mem::take(&mut self.names).into_iter();
        std::iter::from_fn(move || {
            let part: Vec<String> = names.by_ref().take(rows).collect();
            (!part.is_empty()).then(|| self.take(part))
        })
    }

    /// The group without some names, and groups of one of these each.
    pub(crate) fn without(mut self, is_alone: impl Fn(&str) -> bool) -> Vec<Self> {
        let names = std::mem::take(&mut self.names).into_iter();
        let (alone, others): (Vec<_>, Vec<_>) = names.partition(|name| is_alone(name));
        let groups = std::iter::once(others).chain(alone.into_iter().map(|name| vec![name]));
        let groups = groups.filter(|names| !names.is_empty());
        groups.map(|names| self.take(names)).collect()
    }

    /// A group of some of its names.
    fn take(&mut self, names: Vec<String>) -> Self {
        let places = names.iter();
        let places = places.filter_map(|name| self.places.remove_entry(name));
        Self {
            realm: self.realm.clone(),
            is_ascii: self.is_ascii,
            places: places.collect(),
            names,
        }
    }
}

/// What is to be done with groups that were refused: those of one name are to blame, with the
/// reason, and of the others parts are to be asked.
pub(crate) fn apart(refused: Vec<(Group, String)>) -> (Vec<(Group, String)>, Vec<Group>) {
    let is_single = |(group, _): &(Group, String)| group.names.len() == 1;
    let (singles, others): (Vec<_>, Vec<_>) = refused.into_iter().partition(is_single);
    let parts = others.into_iter().flat_map(|(group, _)| group.parts());
    (singles, parts.collect())
}

/// Whether a collation may hold two names equal: they have the same digits in order, and the same
/// letters, without the case, in any order and number. Some languages take `i`, `j` and `y`, or
/// `u`, `v` and `w`, for one letter, and some write a doubled one in two ways; what is neither
/// letter nor digit may not count at all, or may end a number, and a number may be compared by what
/// it is worth.
fn is_alike(one: &[u8], other: &[u8]) -> bool {
    let has_same_digits = |ends_numbers| digits(one, ends_numbers) == digits(other, ends_numbers);
    letters(one) == letters(other) && [false, true].into_iter().any(has_same_digits)
}

/// The digits of a name, without the zeros that numbers begin with. A letter ends a number, and so
/// does, where `ends_numbers`, what is neither letter nor digit.
fn digits(name: &[u8], ends_numbers: bool) -> Vec<u8> {
    let mut digits = Vec::new();
    let mut has_begun = false;
    for &byte in name {
        match byte {
            b'0' if !has_begun => {}
            b'0'..=b'9' => {
                has_begun = true;
                digits.push(byte);
            }
            _ => has_begun &= !(ends_numbers || byte.is_ascii_alphabetic()),
        }
    }
    digits
}

/// Which letters a name has.
fn letters(name: &[u8]) -> u32 {
    let letters = name.iter().map(u8::to_ascii_lowercase);
    let letters = letters
        .filter(u8::is_ascii_lowercase)
        .map(|letter| match letter {
            b'j' | b'y' => b'i',
            b'v' | b'w' => b'u',
            other => other,
        });
    letters.fold(0, |all, letter| all | 1 << (letter - b'a'))
}

/// The answers to a batch, while they come in.
pub(crate) struct Sheet(Vec<Row>);

impl Sheet {
    /// Nobody is known yet.
    pub(crate) fn new(subjects: usize) -> Self {
        Self(vec![Ok(None); subjects])
    }

    /// Takes one row of what a group was answered. It counts for whoever's name and realm it
    /// bears byte by byte: what a database holds to be equal besides (letters of the other
    /// case, spaces at the end, accents) is somebody else. A second row for one subject makes
    /// both useless, for nobody can say which is right. Whether it counts for anybody.
    pub(crate) fn row(&mut self, group: &Group, read: Read<'_>) -> bool {
        if read.realm.is_some_and(|r| r != group.realm.as_bytes()) {
            return false;
        }
        let place = str::from_utf8(read.user).ok();
        let Some(&place) = place.and_then(|name| group.places.get(name)) else {
            return false;
        };
        self.put(place, read.secrets);
        true
    }

    fn put(&mut self, place: usize, secrets: Result<Secrets, BadRow>) {
        let Some(answer) = self.0.get_mut(place) else {
            return invariant::broken!("a group's places are within its batch");
        };
        *answer = match answer {
            Ok(None) => secrets.map(Some),
            _ => Err(BadRow::Bad(
                "there is more than one row for this user".to_owned(),
            )),
        };
    }

    /// The whole group was refused: each of its users is told so.
    pub(crate) fn refused(&mut self, group: &Group, why: &str) {
        for &place in group.places.values() {
            if let Some(answer) = self.0.get_mut(place) {
                *answer = Err(BadRow::Untold(format!(
                    "the store refused the name ({why})"
                )));
            }
        }
    }

    /// All answers, in the order of the subjects.
    pub(crate) fn finish(self) -> Vec<Row> {
        self.0
    }
}

#[cfg(test)]
mod tests;
