//! How users are kept in a database, and so how they are asked for.

use sip_auth::{Algorithm, Subject};

use super::{BATCH_MAX, Columns, Dialect, Kind, Select, Template};
use crate::url::Url;
use crate::{Capabilities, Error, Layout, Options};

/// What one configuration says of its tables.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(super) dialect: Dialect,
    pub(super) tables: Tables,
    template: Template,
    algorithms: Vec<Algorithm>,
}

/// Which tables there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tables {
    Signet,
    Subscriber(Subscriber),
    Query,
}

/// Kamailio's and OpenSIPS' table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subscriber {
    /// Its name, quoted.
    pub(super) table: String,
    /// Users give `user@domain`, and `ha1b` is their digest.
    pub(super) user_with_domain: bool,
    /// The column `domain` says the realm; otherwise it is not looked at.
    pub(super) has_domain: bool,
}

/// The column of `signet_users` for an algorithm.
const fn column(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Md5 => "ha1_md5",
        Algorithm::Sha256 => "ha1_sha256",
        Algorithm::Sha512_256 => "ha1_sha512_256",
    }
}

impl Plan {
    /// Reads the layout. An error says what is wrong with it.
    pub(crate) fn new(dialect: Dialect, url: &Url, options: &Options) -> Result<Self, Error> {
        // A list of one is one range of the index, in either database.
        let (users, realms) = match dialect {
            Dialect::Mysql => ("IN ({users})", "IN ({realms})"),
            Dialect::Postgres => ("= ANY({users})", "= ANY({realms})"),
        };
        let domain = switch(url, "domain")?;
        let (tables, text, algorithms) = match &options.layout {
            Layout::Signet => {
                let is_wanted = |algorithm: &Algorithm| {
                    let wanted = options.wanted.as_ref();
                    wanted.is_none_or(|wanted| wanted.contains(algorithm))
                };
                let algorithms: Vec<_> = Algorithm::ALL.into_iter().filter(is_wanted).collect();
                let columns: Vec<_> = algorithms.iter().copied().map(column).collect();
                let text = format!(
                    "SELECT username, realm, {} FROM signet_users \
                     WHERE realm {realms} AND username {users}",
                    columns.join(", ")
                );
                (Tables::Signet, text, algorithms)
            }
            Layout::Subscriber {
                table,
                user_with_domain,
            } => {
                let subscriber =
                    Subscriber::new(dialect, table, *user_with_domain, domain.unwrap_or(true))?;
                let text = subscriber.select(users, realms);
                (Tables::Subscriber(subscriber), text, vec![Algorithm::Md5])
            }
            Layout::Query(text) => {
                let algorithms = options.algorithms.clone().unwrap_or_default();
                let algorithms = match algorithms.is_empty() {
                    true => vec![Algorithm::Md5],
                    false => algorithms,
                };
                (Tables::Query, text.clone(), algorithms)
            }
        };
        if domain.is_some() && !matches!(tables, Tables::Subscriber(_)) {
            return Err(Error::new(
                "the URL of a store says domain=, which only the layout subscriber has",
                "take it out of the URL",
            ));
        }
        Ok(Self {
            dialect,
            tables,
            template: Template::parse(&text)?,
            algorithms,
        })
    }

    /// What a database with these tables can do.
    pub(crate) fn capabilities(
        &self,
        announces_changes: bool,
        in_flight_max: usize,
    ) -> Capabilities {
        Capabilities {
            algorithms: self.algorithms.clone(),
            verifies: false,
            tells_unknown_users: true,
            is_writable: self.tables != Tables::Query,
            announces_changes,
            batch_max: BATCH_MAX,
            in_flight_max,
        }
    }

    /// Whether its rows are those of the names that were asked for, and of no others: what an
    /// operator's own statement selects is his business.
    pub(crate) fn selects_by_name(&self) -> bool {
        self.tables != Tables::Query
    }

    /// The statement for `users` users of one realm.
    pub(crate) fn select(&self, users: usize) -> Select {
        self.template.select(self.dialect, users)
    }

    /// Where what is needed stands in the rows that it gives.
    pub(crate) fn columns<'a>(
        &self,
        columns: impl Iterator<Item = (&'a str, Kind)>,
    ) -> Result<Columns, String> {
        Columns::find(columns, &self.algorithms)
    }

    /// How a user's name stands in the tables of his realm; `None` where it cannot be there.
    pub(crate) fn sent(&self, subject: &Subject) -> Option<String> {
        let name = str::from_utf8(subject.user()).ok()?;
        let name = match &self.tables {
            Tables::Subscriber(subscriber) if subscriber.user_with_domain => {
                let (user, domain) = name.rsplit_once('@')?;
                (domain == &**subject.realm()).then_some(user)?
            }
            _ => name,
        };
        Some(name.to_owned())
    }

    /// What lists the domains, one column; `None` where nothing does.
    pub(crate) fn domains(&self) -> Option<&'static str> {
        match (&self.tables, self.dialect) {
            (Tables::Signet, _) => Some("SELECT domain FROM signet_domains ORDER BY domain"),
            (Tables::Subscriber(_), Dialect::Mysql) => {
                Some("SELECT `domain` FROM `domain` ORDER BY `domain`")
            }
            (Tables::Subscriber(_), Dialect::Postgres) => {
                Some("SELECT \"domain\" FROM \"domain\" ORDER BY \"domain\"")
            }
            (Tables::Query, _) => None,
        }
    }

    /// What makes Signet's own tables; an error for tables of others.
    pub(crate) fn schema(&self) -> Result<&'static str, Error> {
        match (&self.tables, self.dialect) {
            (Tables::Signet, Dialect::Mysql) => {
                Ok(include_str!("../../../../etc/userdb/mysql.sql"))
            }
            (Tables::Signet, Dialect::Postgres) => {
                Ok(include_str!("../../../../etc/userdb/postgresql.sql"))
            }
            _ => Err(Error::new(
                "the tables of this layout are not ours to make",
                "make them with the tools of the server that they belong to",
            )),
        }
    }
}

impl Subscriber {
    fn new(
        dialect: Dialect,
        table: &str,
        user_with_domain: bool,
        has_domain: bool,
    ) -> Result<Self, Error> {
        let is_name = |part: &str| {
            let mut bytes = part.bytes();
            !part.is_empty() && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        if !table.split('.').all(is_name) {
            return Err(Error::new(
                format!("{} is not the name of a table", table.escape_default()),
                "take letters, digits and underscores, and a full stop after a schema",
            ));
        }
        if user_with_domain && !has_domain {
            return Err(Error::new(
                "user_with_domain needs the column that domain=no leaves out",
                "take away one of the two",
            ));
        }
        Ok(Self {
            table: dialect.quoted(table),
            user_with_domain,
            has_domain,
        })
    }

    fn select(&self, users: &str, realms: &str) -> String {
        let table = &self.table;
        let digest = match self.user_with_domain {
            true => "ha1b AS ha1",
            false => "ha1",
        };
        match self.has_domain {
            true => format!(
                "SELECT username, domain, {digest} FROM {table} \
                 WHERE username {users} AND domain {realms}"
            ),
            false => format!("SELECT username, {digest} FROM {table} WHERE username {users}"),
        }
    }
}

/// A `yes` or `no` in the URL.
pub(crate) fn switch(url: &Url, name: &str) -> Result<Option<bool>, Error> {
    let mut said = url.query.iter().filter(|(known, _)| known == name);
    match said.next().map(|(_, value)| value.as_str()) {
        None => Ok(None),
        Some("yes") => Ok(Some(true)),
        Some("no") => Ok(Some(false)),
        Some(_) => Err(Error::new(
            format!("the URL of a store says {name}= and neither yes nor no"),
            format!("write {name}=yes or {name}=no"),
        )),
    }
}

/// Refuses what the URL says and nobody reads: a slip of the pen must not go unheard.
pub(crate) fn only(url: &Url, names: &[&str]) -> Result<(), Error> {
    match url
        .query
        .iter()
        .find(|(name, _)| !names.contains(&name.as_str()))
    {
        None => Ok(()),
        Some((name, _)) => Err(Error::new(
            format!(
                "the URL of a store says {}=, which it does not have",
                name.escape_default()
            ),
            format!("it has {}", names.join(", ")),
        )),
    }
}

#[cfg(test)]
mod tests;
