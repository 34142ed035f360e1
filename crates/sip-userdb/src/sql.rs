//! What MariaDB and PostgreSQL have in common: the tables, the statements, and how rows
//! are joined to the questions that they answer.

mod batch;
mod columns;
mod plan;
mod suspects;
mod template;
mod write;

pub(crate) use batch::{Group, Sheet, apart, groups};
pub(crate) use columns::{Columns, Kind};
pub(crate) use plan::{Plan, only, switch};
pub(crate) use suspects::Suspects;
pub(crate) use template::{Parameter, Select, Template};
pub(crate) use write::{Step, Value};

use crate::Error;

/// The most users in one statement.
pub(crate) const BATCH_MAX: usize = 256;

/// The longest name and realm that are sent, in bytes: no table of ours or of Kamailio's
/// has longer ones.
pub(crate) const NAME_MAX: usize = 255;

/// The most domains that a store may list.
pub(crate) const DOMAINS_MAX: usize = 10_000;

/// An error where there are more: with some of them left out, users of those would be strangers,
/// and nobody would know why.
pub(crate) fn check_domains(count: usize) -> Result<(), Error> {
    if count <= DOMAINS_MAX {
        return Ok(());
    }
    let too_many = Error::new(
        format!("the store lists more than {DOMAINS_MAX} domains, the most that are read"),
        "take those off the list that nobody uses, or divide them among several servers",
    );
    Err(too_many.lasting())
}

/// Which SQL is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// MariaDB and MySQL: parameters are `?`, lists are written out.
    Mysql,
    /// PostgreSQL: parameters are `$1`, lists are arrays.
    Postgres,
}

impl Dialect {
    /// A name of a table or a column; a table may have a schema before it.
    pub(crate) fn quoted(self, name: &str) -> String {
        let quote = match self {
            Self::Mysql => '`',
            Self::Postgres => '"',
        };
        let parts: Vec<String> = name
            .split('.')
            .map(|part| format!("{quote}{part}{quote}"))
            .collect();
        parts.join(".")
    }

    /// A statement with its parameters in order, written as `?`.
    pub(crate) fn numbered(self, sql: &str) -> String {
        match self {
            Self::Mysql => sql.to_owned(),
            Self::Postgres => {
                let mut parts = sql.split('?');
                let mut text = parts.next().unwrap_or_default().to_owned();
                for (at, part) in parts.enumerate() {
                    text.push_str(&format!("${}{part}", at + 1));
                }
                text
            }
        }
    }
}
