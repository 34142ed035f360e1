//! A table to which rows are added, each once: for what is recorded and not looked up.

use crate::fault::Fault;
use crate::sql::{Dialect, Step, Value};
use crate::url::{Scheme, Url};
use crate::{Error, Options, mysql, postgres};

/// What a column holds. Values are given as text; an empty one is NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Text.
    Text,
    /// A whole number, in decimal digits.
    Number,
    /// A time in UTC, as RFC 3339 has it: `2026-01-02T03:04:05.678Z`.
    Time,
}

/// A table in MariaDB, MySQL or PostgreSQL. It lives in one thread, on tokio's current-thread
/// runtime within a `LocalSet`.
pub struct Table {
    name: String,
    columns: Vec<(String, ColumnKind)>,
    writer: Writer,
}

enum Writer {
    Mysql(Box<mysql::Writer>),
    Postgres(Box<postgres::Writer>),
}

impl Table {
    /// Takes the configuration, of which what is about users is not looked at. The first of the
    /// columns tells rows apart, and has a unique index. Nothing is connected yet.
    pub fn new(
        options: &Options,
        name: &str,
        columns: &[(&str, ColumnKind)],
    ) -> Result<Self, Error> {
        let url = Url::parse(&options.url)?;
        let writer = match url.scheme {
            Scheme::Mysql => Writer::Mysql(Box::new(mysql::Writer::new(&url, options)?)),
            Scheme::Postgres => Writer::Postgres(Box::new(postgres::Writer::new(&url, options)?)),
            _ => {
                return Err(Error::new(
                    "rows are added to tables of MariaDB, MySQL and PostgreSQL alone",
                    "write it as mysql://user@db.example.com/database or \
                     postgresql://user@db.example.com/database",
                ));
            }
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
        if name.is_empty() || !name.bytes().all(is_plain) {
            return Err(Error::new(
                format!("`{}` is not the name of a table", name.escape_default()),
                "write letters, digits and underscores, with a schema and a dot before them at \
                 most",
            ));
        }
        let columns = columns
            .iter()
            .map(|(name, kind)| ((*name).to_owned(), *kind));
        Ok(Self {
            name: name.to_owned(),
            columns: columns.collect(),
            writer,
        })
    }

    /// Adds rows, all or none; those that are there already stay as they are. Each has a value
    /// for each column. Dropping the future gives the statement up: whether it was carried out
    /// is not known then, and it may be given again.
    pub async fn add(&mut self, rows: &[Vec<String>]) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        let values = rows.iter().flat_map(|row| row.iter().zip(&self.columns));
        let values = values.map(|(value, (_, kind))| match (&self.writer, kind) {
            // It has no zones; the T and the Z would be no part of a time.
            (Writer::Mysql(_), ColumnKind::Time) => {
                Value::Text(value.replace('T', " ").replace('Z', ""))
            }
            _ => Value::Text(value.clone()),
        });
        let step = Step {
            values: values.collect(),
            sql: self.statement(rows.len()),
        };
        let done = match &mut self.writer {
            Writer::Mysql(writer) => writer.run(&step).await,
            Writer::Postgres(writer) => writer.run(&step).await,
        };
        done.map_err(error_of)
    }

    fn dialect(&self) -> Dialect {
        match self.writer {
            Writer::Mysql(_) => Dialect::Mysql,
            Writer::Postgres(_) => Dialect::Postgres,
        }
    }

    fn statement(&self, rows: usize) -> String {
        let dialect = self.dialect();
        let names: Vec<String> = (self.columns.iter())
            .map(|(name, _)| dialect.quoted(name))
            .collect();
        let places: Vec<&str> = (self.columns.iter())
            .map(|(_, kind)| match (dialect, kind) {
                (Dialect::Mysql, _) => "NULLIF(?, '')",
                (Dialect::Postgres, ColumnKind::Text) => "NULLIF(?::text, '')",
                (Dialect::Postgres, ColumnKind::Number) => "NULLIF(?::text, '')::bigint",
                (Dialect::Postgres, ColumnKind::Time) => "NULLIF(?::text, '')::timestamptz",
            })
            .collect();
        let row = format!("({})", places.join(", "));
        let again = match (dialect, names.first()) {
            // Not INSERT IGNORE: that would cut what does not fit, and say nothing.
            (Dialect::Mysql, Some(id)) => format!("ON DUPLICATE KEY UPDATE {id} = {id}"),
            _ => "ON CONFLICT DO NOTHING".to_owned(),
        };
        let sql = format!(
            "INSERT INTO {} ({}) VALUES {} {again}",
            dialect.quoted(&self.name),
            names.join(", "),
            vec![row; rows].join(", "),
        );
        dialect.numbered(&sql)
    }
}

/// What happened, with what to do about it. A statement that adds rows has nothing of users in it.
fn error_of(fault: Fault) -> Error {
    match fault {
        Fault::Refused(what) | Fault::Unusable(what) => Error::new(
            what,
            "compare the table's columns, and the account's rights on it, with docs/SQL.md",
        ),
        other => other.into_error(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layout, Tls};

    const COLUMNS: [(&str, ColumnKind); 3] = [
        ("id", ColumnKind::Text),
        ("status", ColumnKind::Number),
        ("started", ColumnKind::Time),
    ];

    fn table(url: &str, name: &str) -> Result<Table, Error> {
        let options = Options {
            url: url.to_owned(),
            password: None,
            tls: Tls::Never,
            tls_roots: None,
            layout: Layout::Signet,
            algorithms: None,
            wanted: None,
            connections_max: 1,
            connect_timeout_ms: 1_000,
        };
        Table::new(&options, name, &COLUMNS)
    }

    #[test]
    fn rows_go_in_one_statement_and_never_twice() {
        let mysql = table("mysql://signet@db.example.com/sip", "calls").unwrap();
        assert_eq!(
            mysql.statement(2),
            "INSERT INTO `calls` (`id`, `status`, `started`) VALUES \
             (NULLIF(?, ''), NULLIF(?, ''), NULLIF(?, '')), \
             (NULLIF(?, ''), NULLIF(?, ''), NULLIF(?, '')) \
             ON DUPLICATE KEY UPDATE `id` = `id`"
        );
        let postgres = table("postgresql://signet@db.example.com/sip", "billing.calls").unwrap();
        assert_eq!(
            postgres.statement(1),
            "INSERT INTO \"billing\".\"calls\" (\"id\", \"status\", \"started\") VALUES \
             (NULLIF($1::text, ''), NULLIF($2::text, '')::bigint, \
             NULLIF($3::text, '')::timestamptz) ON CONFLICT DO NOTHING"
        );
    }

    #[test]
    fn what_is_no_table_is_refused() {
        for (url, name) in [
            ("redis://db.example.com/0", "calls"),
            ("mysql://signet@db.example.com/sip", ""),
            ("mysql://signet@db.example.com/sip", "a`; DROP TABLE b"),
            ("mysql://db.example.com/sip", "calls"),
            ("postgresql://signet@db.example.com/", "calls"),
            (
                "postgresql://signet@db.example.com/sip?pipelined=no",
                "calls",
            ),
        ] {
            assert!(table(url, name).is_err(), "{url} {name}");
        }
    }

    #[test]
    fn whoever_made_the_table_is_told_to_look_at_it() {
        let what = "column \"payer_user\" does not exist";
        for fault in [Fault::Refused(what.into()), Fault::Unusable(what.into())] {
            let error = error_of(fault);
            assert_eq!(error.what(), what);
            assert!(error.remedy().contains("docs/SQL.md"), "{error}");
        }
        let error = error_of(Fault::Unreachable("gone".into()));
        assert!(error.remedy().contains("URL"), "{error}");
    }
}
