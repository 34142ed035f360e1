//! Statements with places for users and realms.

use super::Dialect;
use crate::Error;

/// A statement in which `{users}` and `{realms}` stand for lists of parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Users,
    Realms,
}

/// A statement for some number of users of one realm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Select {
    /// As the database reads it.
    pub(crate) sql: String,
    /// What its parameters are, in order. In PostgreSQL each is an array.
    pub(crate) parameters: Vec<Parameter>,
}

/// What one parameter of a [`Select`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parameter {
    /// The name in this place of the group; in PostgreSQL all names.
    User(usize),
    /// The realm.
    Realm,
}

impl Template {
    /// Takes a statement apart.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let remedy = "write a SELECT with {users} in it, and {realms} where realms count";
        let mut parts = Vec::new();
        let mut rest = text.trim().trim_end_matches(';');
        while let Some(at) = rest.find('{') {
            let (before, place) = rest.split_at(at);
            parts.push(Part::Text(before.to_owned()));
            rest = if let Some(rest) = place.strip_prefix("{users}") {
                parts.push(Part::Users);
                rest
            } else if let Some(rest) = place.strip_prefix("{realms}") {
                parts.push(Part::Realms);
                rest
            } else {
                let word: String = place.chars().take(16).collect();
                return Err(Error::new(
                    format!("the statement for users has no such place: {word}"),
                    remedy,
                ));
            };
        }
        parts.push(Part::Text(rest.to_owned()));
        if !parts.contains(&Part::Users) {
            return Err(Error::new(
                "the statement for users does not say {users}",
                remedy,
            ));
        }
        Ok(Self(parts))
    }

    /// The statement for `users` users, in the database's own words.
    pub(crate) fn select(&self, dialect: Dialect, users: usize) -> Select {
        match dialect {
            Dialect::Mysql => self.spelled_out(users),
            Dialect::Postgres => self.with_arrays(),
        }
    }

    fn spelled_out(&self, users: usize) -> Select {
        let mut sql = String::new();
        let mut parameters = Vec::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => sql.push_str(text),
                Part::Users => {
                    for user in 0..users {
                        sql.push_str(if user == 0 { "?" } else { ",?" });
                        parameters.push(Parameter::User(user));
                    }
                }
                Part::Realms => {
                    sql.push('?');
                    parameters.push(Parameter::Realm);
                }
            }
        }
        Select { sql, parameters }
    }

    fn with_arrays(&self) -> Select {
        let mut sql = String::new();
        let mut parameters: Vec<Parameter> = Vec::new();
        for part in &self.0 {
            let parameter = match part {
                Part::Text(text) => {
                    sql.push_str(text);
                    continue;
                }
                Part::Users => Parameter::User(0),
                Part::Realms => Parameter::Realm,
            };
            let number = parameters
                .iter()
                .position(|known| *known == parameter)
                .unwrap_or_else(|| {
                    parameters.push(parameter);
                    parameters.len() - 1
                });
            sql.push_str(&format!("${}", number + 1));
        }
        Select { sql, parameters }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn lists_are_spelled_out_or_arrays() {
        let template = Template::parse(
            "SELECT u FROM t WHERE u IN ({users}) AND r IN ({realms}) OR v IN ({users});",
        )
        .unwrap();
        let select = template.select(Dialect::Mysql, 2);
        assert_eq!(
            select.sql,
            "SELECT u FROM t WHERE u IN (?,?) AND r IN (?) OR v IN (?,?)"
        );
        let user = Parameter::User;
        assert_eq!(
            select.parameters,
            [user(0), user(1), Parameter::Realm, user(0), user(1)]
        );
        let select = template.select(Dialect::Postgres, 2);
        assert_eq!(
            select.sql,
            "SELECT u FROM t WHERE u IN ($1) AND r IN ($2) OR v IN ($1)"
        );
        assert_eq!(select.parameters, [user(0), Parameter::Realm]);
    }

    #[test]
    fn a_statement_must_have_a_place_for_users() {
        for text in [
            "SELECT 1",
            "SELECT {realms}",
            "SELECT {users",
            "SELECT {names}",
            "{",
        ] {
            let error = Template::parse(text).unwrap_err();
            assert!(error.remedy().contains("{users}"), "{text}");
        }
    }
}
