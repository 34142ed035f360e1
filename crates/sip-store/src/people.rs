//! What the operator has written down of names and people: where aliases lead, and what each
//! user may do. It belongs to the data folder, wherever the users themselves are kept.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior};
use sip_engine::Directory;
use sip_engine::people::RETARGETS_MAX;

use crate::{Database, StoreError, StoreErrorKind};

/// Targets of one alias.
const TARGETS_MAX: usize = 32;
/// The longest name or URI.
const TEXT_MAX: usize = 255;
/// Names that are looked at to see where one leads.
const STEPS_MAX: usize = 1_024;

/// One target of an alias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AliasRow {
    /// The name or number, without its domain.
    pub name: String,
    /// The domain.
    pub domain: String,
    /// Where it leads: a URI.
    pub target: String,
    /// Preference in thousandths.
    pub q: u16,
}

/// What is written of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersonRow {
    /// His name.
    pub user: String,
    /// His realm.
    pub realm: String,
    /// How far he may call.
    pub permissions: Option<String>,
    /// The group that he is in.
    pub group: Option<String>,
    /// The number that he shows.
    pub caller_id: Option<String>,
    /// How many outgoing calls he may have at once.
    pub calls_max: Option<u32>,
    /// Where all his calls go: a URI.
    pub forward_always: Option<String>,
    /// Where calls go while he is busy.
    pub forward_busy: Option<String>,
    /// Where those go that he does not take.
    pub forward_no_answer: Option<String>,
    /// After how many seconds.
    pub no_answer_s: Option<u32>,
}

impl PersonRow {
    /// Whether nothing is written of him.
    pub fn is_empty(&self) -> bool {
        *self
            == Self {
                user: self.user.clone(),
                realm: self.realm.clone(),
                ..Self::default()
            }
    }

    fn texts(&self) -> impl Iterator<Item = &String> {
        let optional = [
            &self.permissions,
            &self.group,
            &self.caller_id,
            &self.forward_always,
            &self.forward_busy,
            &self.forward_no_answer,
        ];
        [&self.user, &self.realm]
            .into_iter()
            .chain(optional.into_iter().flatten())
    }
}

impl Database {
    /// Adds targets to an alias, all or none, or changes how they are preferred. An error where it
    /// would lead back to itself, or through too many others.
    pub fn add_alias(&mut self, rows: &[AliasRow]) -> Result<(), StoreError> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        for row in rows {
            for text in [&row.name, &row.domain, &row.target] {
                check_text(text)?;
            }
            transaction
                .prepare_cached(
                    "INSERT INTO aliases VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT (domain, name, target) DO UPDATE SET q = ?4",
                )?
                .execute((&row.domain, &row.name, &row.target, row.q))?;
            let targets = count(
                &transaction,
                "SELECT count(*) FROM aliases WHERE domain = ?1 AND name = ?2",
                &[&row.domain, &row.name],
            )?;
            if targets > TARGETS_MAX {
                return Err(input(&format!(
                    "an alias has {TARGETS_MAX} targets at most: let it lead to another alias"
                )));
            }
        }
        check_room(&transaction, "SELECT count(*) FROM aliases")?;
        for row in rows {
            check_way(&transaction, &row.name, &row.domain)?;
        }
        Ok(transaction.commit()?)
    }

    /// Removes an alias, or one target of it; how many targets there were.
    pub fn remove_alias(
        &mut self,
        name: &str,
        domain: &str,
        target: Option<&str>,
    ) -> Result<usize, StoreError> {
        Ok(self.connection.execute(
            "DELETE FROM aliases WHERE domain = ?1 AND name = ?2 AND (?3 IS NULL OR target = ?3)",
            (domain, name, target),
        )?)
    }

    /// Whether there is such an alias.
    pub fn has_alias(&mut self, name: &str, domain: &str) -> Result<bool, StoreError> {
        let question = "SELECT count(*) FROM aliases WHERE domain = ?1 AND name = ?2";
        Ok(count(&self.connection, question, &[&domain, &name])? > 0)
    }

    /// All aliases with their targets, in order, the most preferred target first.
    pub fn aliases(&mut self) -> Result<Vec<AliasRow>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT name, domain, target, q FROM aliases ORDER BY domain, name, q DESC, target",
        )?;
        let rows = statement.query_map((), |row| {
            Ok(AliasRow {
                name: row.get(0)?,
                domain: row.get(1)?,
                target: row.get(2)?,
                q: row.get(3)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Writes down what there is to say of a user, in the place of what was there.
    pub fn put_person(&mut self, person: &PersonRow) -> Result<(), StoreError> {
        for text in person.texts() {
            check_text(text)?;
        }
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute(
            &format!("DELETE FROM people WHERE {OF_ONE}"),
            (&person.realm, &person.user),
        )?;
        if !person.is_empty() {
            transaction.execute(
                "INSERT INTO people VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                (
                    &person.realm,
                    &person.user,
                    &person.permissions,
                    &person.group,
                    &person.caller_id,
                    person.calls_max,
                    &person.forward_always,
                    &person.forward_busy,
                    &person.forward_no_answer,
                    person.no_answer_s,
                ),
            )?;
        }
        check_room(&transaction, "SELECT count(*) FROM people")?;
        check_way(&transaction, &person.user, &person.realm)?;
        Ok(transaction.commit()?)
    }

    /// What is written of a user.
    pub fn person(&mut self, realm: &str, user: &str) -> Result<Option<PersonRow>, StoreError> {
        let mut statement = self
            .connection
            .prepare_cached(&format!("{SELECT_PEOPLE} WHERE {OF_ONE}"))?;
        Ok(statement.query_row((realm, user), read_person).optional()?)
    }

    /// All of whom anything is written, in order.
    pub fn people(&mut self) -> Result<Vec<PersonRow>, StoreError> {
        let mut statement = self
            .connection
            .prepare_cached(&format!("{SELECT_PEOPLE} ORDER BY realm, user"))?;
        let rows = statement.query_map((), read_person)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Forgets what is written of a user; whether there was anything.
    pub fn remove_person(&mut self, realm: &str, user: &str) -> Result<bool, StoreError> {
        Ok(self
            .connection
            .execute(&format!("DELETE FROM people WHERE {OF_ONE}"), (realm, user))?
            > 0)
    }
}

/// A user, whatever the case of his name: as the engine finds him.
const OF_ONE: &str = "realm = ?1 AND user = ?2 COLLATE NOCASE";
const SELECT_PEOPLE: &str = "SELECT user, realm, permissions, user_group, caller_id, calls_max,
    forward_always, forward_busy, forward_no_answer, no_answer_s FROM people";

fn read_person(row: &Row<'_>) -> rusqlite::Result<PersonRow> {
    Ok(PersonRow {
        user: row.get(0)?,
        realm: row.get(1)?,
        permissions: row.get(2)?,
        group: row.get(3)?,
        caller_id: row.get(4)?,
        calls_max: row.get(5)?,
        forward_always: row.get(6)?,
        forward_busy: row.get(7)?,
        forward_no_answer: row.get(8)?,
        no_answer_s: row.get(9)?,
    })
}

/// Whether a name leads anywhere, and not in a circle: by aliases, and by users who forward all
/// their calls. Those who do so when they are busy may do it to each other: that ends when both
/// are.
fn check_way(connection: &Connection, name: &str, domain: &str) -> Result<(), StoreError> {
    let start = (name.to_owned(), domain.to_owned());
    let mut seen = BTreeSet::from([start.clone()]);
    let mut front = vec![start.clone()];
    for depth in 0.. {
        let mut next = Vec::new();
        for (name, domain) in &front {
            for to in led_to(connection, name, domain)? {
                if to == start {
                    return Err(input(&format!(
                        "{}@{} would lead back to itself",
                        start.0, start.1
                    )));
                }
                if seen.insert(to.clone()) {
                    next.push(to);
                }
            }
        }
        if next.is_empty() {
            return Ok(());
        }
        if depth >= usize::from(RETARGETS_MAX) || seen.len() > STEPS_MAX {
            return Err(input(&format!(
                "{}@{} would lead through more than {RETARGETS_MAX} names",
                start.0, start.1
            )));
        }
        front = next;
    }
    Ok(())
}

/// Where one step leads from a name: names of our own kind, whether there are such or not.
fn led_to(
    connection: &Connection,
    name: &str,
    domain: &str,
) -> Result<Vec<(String, String)>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT target FROM aliases WHERE domain = ?1 AND name = ?2
         UNION SELECT forward_always FROM people
         WHERE realm = ?1 AND user = ?2 AND forward_always IS NOT NULL",
    )?;
    let targets = statement.query_map((domain, name), |row| row.get::<_, String>(0))?;
    let mut found = Vec::new();
    for target in targets {
        let target = target?;
        let bare = target.strip_prefix("sip:").unwrap_or(&target);
        if let Some((user, host)) = bare.rsplit_once('@') {
            found.push((user.to_owned(), host.to_owned()));
        }
    }
    Ok(found)
}

fn check_room(connection: &Connection, question: &str) -> Result<(), StoreError> {
    match count(connection, question, &[])? > Directory::ENTRIES_MAX {
        true => Err(input("there is no room for more")),
        false => Ok(()),
    }
}

fn count(
    connection: &Connection,
    question: &str,
    of: &[&dyn rusqlite::ToSql],
) -> Result<usize, StoreError> {
    let mut statement = connection.prepare_cached(question)?;
    let count: i64 = statement.query_row(of, |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or(0))
}

fn check_text(text: &str) -> Result<(), StoreError> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte);
    match (1..=TEXT_MAX).contains(&text.len()) && text.bytes().all(is_plain) {
        true => Ok(()),
        false => Err(input(&format!(
            "`{}` is no name, number or URI of 1 to {TEXT_MAX} printable characters",
            text.escape_debug()
        ))),
    }
}

fn input(text: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Input, text)
}

#[cfg(test)]
mod tests;
