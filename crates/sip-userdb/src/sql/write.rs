//! Statements that add, remove and list users.

use std::sync::Arc;

use sip_auth::{Algorithm, Ha1, Secrets, Subject};

use super::plan::{Plan, Subscriber, Tables};
use super::{Dialect, NAME_MAX};
use crate::Error;

/// One statement and its parameters.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// As the database reads it.
    pub(crate) sql: String,
    /// What is bound, in order.
    pub(crate) values: Vec<Value>,
}

/// A parameter.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl Plan {
    /// What adds a user or gives him other secrets: the first step, and the second where the
    /// first has touched no row.
    pub(crate) fn put(
        &self,
        subject: &Subject,
        secrets: &Secrets,
    ) -> Result<(Step, Option<Step>), Error> {
        let name = self.writable(subject)?;
        let realm = subject.realm().to_string();
        match &self.tables {
            Tables::Query => Err(read_only()),
            Tables::Signet => Ok((self.put_own(realm, name, secrets), None)),
            Tables::Subscriber(subscriber) => {
                let ha1 = secrets.get(Algorithm::Md5).ok_or_else(|| {
                    Error::new(
                        "this table has HA1s for MD5 alone, and the user has none",
                        "give his password, or an HA1 for MD5",
                    )
                })?;
                let (update, insert) = self.put_subscriber(subscriber, realm, name, ha1)?;
                Ok((update, Some(insert)))
            }
        }
    }

    fn put_own(&self, realm: String, name: String, secrets: &Secrets) -> Step {
        let update = |source: fn(&str) -> String| {
            ["ha1_md5", "ha1_sha256", "ha1_sha512_256"]
                .map(|column| format!("{column} = {}", source(column)))
                .join(", ")
        };
        let otherwise = match self.dialect {
            Dialect::Mysql => {
                let columns = update(|column| format!("VALUES({column})"));
                format!("ON DUPLICATE KEY UPDATE {columns}")
            }
            Dialect::Postgres => {
                let columns = update(|column| format!("EXCLUDED.{column}"));
                format!("ON CONFLICT (realm, username) DO UPDATE SET {columns}")
            }
        };
        let sql = format!(
            "INSERT INTO signet_users (realm, username, ha1_md5, ha1_sha256, ha1_sha512_256) \
             VALUES (?, ?, ?, ?, ?) {otherwise}"
        );
        // An algorithm without an HA1 has no bytes.
        let digest = |algorithm| {
            let ha1 = secrets.get(algorithm);
            Value::Bytes(ha1.map_or(Vec::new(), |ha1| ha1.expose().to_vec()))
        };
        self.step(
            &sql,
            vec![
                Value::Text(realm),
                Value::Text(name),
                digest(Algorithm::Md5),
                digest(Algorithm::Sha256),
                digest(Algorithm::Sha512_256),
            ],
        )
    }

    /// An update and, for a user who is not there yet, an insert. An upsert would not do:
    /// its key is equal by the collation, so that `Alice` would get the secret of `alice`.
    fn put_subscriber(
        &self,
        subscriber: &Subscriber,
        realm: String,
        name: String,
        ha1: &Ha1,
    ) -> Result<(Step, Step), Error> {
        let known = hex(ha1.expose());
        // The other digest cannot be computed without the password. Kamailio would take an
        // empty one for the digest of anyone who says so; this one is nobody's.
        let other = random_hex()?;
        let (ha1, ha1b) = match subscriber.user_with_domain {
            true => (other, known),
            false => (known, other),
        };
        let table = &subscriber.table;
        let (same, whose) = self.same_user(subscriber, &realm, &name);
        let mut values = vec![Value::Text(ha1.clone()), Value::Text(ha1b.clone())];
        values.extend(whose);
        let update = self.step(
            &format!("UPDATE {table} SET ha1 = ?, ha1b = ?, password = '' WHERE {same}"),
            values,
        );
        let (column, place) = match subscriber.has_domain {
            true => (", domain", ", ?"),
            false => ("", ""),
        };
        let mut values = vec![Value::Text(ha1), Value::Text(ha1b), Value::Text(name)];
        values.extend(subscriber.has_domain.then_some(Value::Text(realm)));
        let insert = self.step(
            &format!(
                "INSERT INTO {table} (password, ha1, ha1b, username{column}) \
                 VALUES ('', ?, ?, ?{place})"
            ),
            values,
        );
        Ok((update, insert))
    }

    /// What removes a user.
    pub(crate) fn remove(&self, subject: &Subject) -> Result<Step, Error> {
        let name = self.writable(subject)?;
        match &self.tables {
            Tables::Query => Err(read_only()),
            Tables::Signet => Ok(self.step(
                "DELETE FROM signet_users WHERE realm = ? AND username = ?",
                vec![Value::Text(subject.realm().to_string()), Value::Text(name)],
            )),
            Tables::Subscriber(subscriber) => {
                let (same, whose) = self.same_user(subscriber, subject.realm(), &name);
                let table = &subscriber.table;
                Ok(self.step(&format!("DELETE FROM {table} WHERE {same}"), whose))
            }
        }
    }

    /// What lists users, `username` and then `realm`.
    pub(crate) fn list(&self, after: Option<&Subject>, max: usize) -> Result<Step, Error> {
        let (table, realm) = match &self.tables {
            Tables::Query => {
                return Err(Error::new(
                    "users behind a statement of your own cannot be listed",
                    "list them in the database",
                ));
            }
            Tables::Signet => ("signet_users", "realm"),
            Tables::Subscriber(subscriber) if subscriber.has_domain => {
                (subscriber.table.as_str(), "domain")
            }
            Tables::Subscriber(_) => {
                return Err(Error::new(
                    "with domain=no the table does not say of which realm its users are",
                    "list them in the database",
                ));
            }
        };
        let (from, values) = match after {
            None => (String::new(), Vec::new()),
            Some(after) => {
                let name = self.writable(after)?;
                let realm_value = || Value::Text(after.realm().to_string());
                (
                    format!("WHERE {realm} > ? OR ({realm} = ? AND username > ?)"),
                    vec![realm_value(), realm_value(), Value::Text(name)],
                )
            }
        };
        Ok(self.step(
            &format!(
                "SELECT username, {realm} FROM {table} {from} \
                 ORDER BY {realm}, username LIMIT {max}"
            ),
            values,
        ))
    }

    /// The user that a row of [`Self::list`] is about; `None` for a realm that is no text.
    pub(crate) fn listed(&self, user: &[u8], realm: &[u8]) -> Option<Subject> {
        let realm: Arc<str> = Arc::from(str::from_utf8(realm).ok()?);
        Some(match &self.tables {
            Tables::Subscriber(subscriber) if subscriber.user_with_domain => {
                Subject::new(&[user, b"@", realm.as_bytes()].concat(), realm)
            }
            _ => Subject::new(user, realm),
        })
    }

    /// One and the same user, byte by byte, and not his look-alikes of another case.
    fn same_user(&self, subscriber: &Subscriber, realm: &str, name: &str) -> (String, Vec<Value>) {
        let mut conditions = Vec::new();
        let mut values = Vec::new();
        let mut same = |column: &str, value: &str| {
            // The first finds rows by the index, the second picks the one that is meant.
            conditions.push(match self.dialect {
                Dialect::Mysql => format!(
                    "{column} = ? AND CAST(CONVERT({column} USING utf8mb4) AS BINARY) \
                     = CAST(? AS BINARY)"
                ),
                Dialect::Postgres => format!("{column} = ? AND {column}::text = ?"),
            });
            values.extend([Value::Text(value.to_owned()), Value::Text(value.to_owned())]);
        };
        same("username", name);
        if subscriber.has_domain {
            same("domain", realm);
        }
        (conditions.join(" AND "), values)
    }

    fn step(&self, sql: &str, values: Vec<Value>) -> Step {
        Step {
            sql: self.dialect.numbered(sql),
            values,
        }
    }

    /// The name as it stands in the table, if it may stand there.
    fn writable(&self, subject: &Subject) -> Result<String, Error> {
        let is_fit = |text: &str| text.len() <= NAME_MAX && !text.contains('\0');
        let name = self.sent(subject).filter(|name| is_fit(name));
        name.filter(|_| is_fit(subject.realm())).ok_or_else(|| {
            Error::new(
                format!("{subject:?} cannot be a user of this store"),
                match &self.tables {
                    Tables::Subscriber(of) if of.user_with_domain => format!(
                        "with user_with_domain a name is user@{}",
                        subject.realm().escape_default()
                    ),
                    _ => format!("take UTF-8 without NUL, at most {NAME_MAX} bytes"),
                },
            )
        })
    }
}

fn read_only() -> Error {
    Error::new(
        "a statement of your own only reads users",
        "add and remove them in the database",
    )
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

fn random_hex() -> Result<String, Error> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| {
        Error::new(
            "this system has no random numbers",
            "see that getrandom works here",
        )
    })?;
    Ok(hex(&bytes))
}
