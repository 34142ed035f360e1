//! What an operator does: domains and users, by hand or by the thousand.

use std::collections::HashSet;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};
use sip_auth::{Algorithm, Ha1, Ha1Set, Secrets, USERNAME_MAX};
use zeroize::Zeroizing;

use crate::{Database, StoreError, StoreErrorKind, csv};

/// The columns of an export; an import may have `password` instead of the last three.
const COLUMNS: [&str; 5] = ["user", "realm", "ha1_md5", "ha1_sha256", "ha1_sha512_256"];

/// A subscriber, without what must not be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscriber {
    /// The name.
    pub user: String,
    /// The realm, which is the domain unless the operator chose another.
    pub realm: String,
    /// When he was added.
    pub created_unix_ms: u64,
    /// When his password was last set.
    pub updated_unix_ms: u64,
}

/// What is true of a row that is a user's own. Beside it stands one with the same password
/// under his name with the domain behind it, which phones give, and of which nobody need know.
const IS_OWN: &str = "(instr(user, '@') = 0 OR NOT EXISTS (
    SELECT 1 FROM subscribers AS bare WHERE bare.realm = subscribers.realm
    AND bare.user = substr(subscribers.user, 1, length(subscribers.user) - length(subscribers.realm) - 1)
    AND subscribers.user = bare.user || '@' || bare.realm))";

/// Users written in one transaction of an import: a few hundredths of a second.
const IMPORT_STEP: usize = 5_000;
/// The pause between two of them. SQLite's waiting writers look every few
/// milliseconds whether it is their turn.
const IMPORT_PAUSE: Duration = Duration::from_millis(20);

/// What an import did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Users that were not there before.
    pub added: usize,
    /// Users whose password was set anew.
    pub changed: usize,
    /// Those of both who have an HA1 for MD5 alone.
    pub md5_only: usize,
}

impl Database {
    /// Adds a user.
    pub fn add_user(
        &mut self,
        realm: &str,
        user: &str,
        password: &str,
        unix_ms: u64,
    ) -> Result<(), StoreError> {
        check_names(realm, user)?;
        self.put_password(realm, user, password, unix_ms, |is_there| match is_there {
            false => Ok(()),
            true => Err(StoreError::new(
                StoreErrorKind::Exists,
                format!(
                    "{user} is in {realm} already; to change the password type: signet user passwd"
                ),
            )),
        })
    }

    /// Sets a user's password anew.
    pub fn set_password(
        &mut self,
        realm: &str,
        user: &str,
        password: &str,
        unix_ms: u64,
    ) -> Result<(), StoreError> {
        self.put_password(realm, user, password, unix_ms, |is_there| match is_there {
            true => Ok(()),
            false => Err(no_such_user(realm, user)),
        })
    }

    /// Writes a user with his password, if he `may` be written as it stands then: somebody else
    /// may add or remove him while this waits for its turn to write.
    fn put_password(
        &mut self,
        realm: &str,
        user: &str,
        password: &str,
        unix_ms: u64,
        may: impl FnOnce(bool) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        check_password(password)?;
        let listed = ListedUser::with_password(realm, user, password);
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        may(is_there(&transaction, realm, user)?)?;
        put(&transaction, &listed, unix_ms)?;
        Ok(transaction.commit()?)
    }

    /// Removes a user and wipes what was stored of him. His bindings end when
    /// they expire.
    pub fn remove_user(&mut self, realm: &str, user: &str) -> Result<(), StoreError> {
        self.connection.execute_batch("PRAGMA secure_delete = ON")?;
        match self.connection.execute(
            "DELETE FROM subscribers WHERE realm = ?1 AND user IN (?2, ?2 || '@' || ?1)",
            (realm, user),
        )? {
            0 => Err(no_such_user(realm, user)),
            _ => Ok(()),
        }
    }

    /// Whether there is such a user.
    pub fn has_user(&mut self, realm: &str, user: &str) -> Result<bool, StoreError> {
        is_there(&self.connection, realm, user)
    }

    /// Gives every user of `realm`, or of all realms, to `each`, in order.
    pub fn users(
        &mut self,
        realm: Option<&str>,
        each: &mut dyn FnMut(Subscriber),
    ) -> Result<(), StoreError> {
        let mut statement = self.connection.prepare(&format!(
            "SELECT user, realm, created_unix_ms, updated_unix_ms FROM subscribers
             WHERE (?1 IS NULL OR realm = ?1) AND {IS_OWN} ORDER BY realm, user",
        ))?;
        let mut rows = statement.query((realm,))?;
        while let Some(row) = rows.next()? {
            each(Subscriber {
                user: row.get(0)?,
                realm: row.get(1)?,
                created_unix_ms: u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0),
                updated_unix_ms: u64::try_from(row.get::<_, i64>(3)?).unwrap_or(0),
            });
        }
        Ok(())
    }

    /// How many users there are in all realms.
    pub fn user_count(&mut self) -> Result<u64, StoreError> {
        let question = format!("SELECT count(*) FROM subscribers WHERE {IS_OWN}");
        let count: i64 = self.connection.query_row(&question, (), |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// Adds or changes the users of a list in CSV, as [`read_users`] takes it.
    ///
    /// The whole list is checked before the first user is written; then see
    /// [`Self::put_users`].
    pub fn import_users(
        &mut self,
        text: &str,
        realm_default: Option<&str>,
        unix_ms: u64,
    ) -> Result<Imported, StoreError> {
        self.put_users(&read_users(text, realm_default)?, unix_ms)
    }

    /// Adds or changes users.
    ///
    /// They are written in steps, so that a running server is not kept from its own
    /// writing; a disk that fails between two of them leaves the users of the steps
    /// before, of which the error says how many there are, and the same again completes it.
    pub fn put_users(
        &mut self,
        users: &[ListedUser],
        unix_ms: u64,
    ) -> Result<Imported, StoreError> {
        let mut imported = Imported::default();
        for (at, step) in users.chunks(IMPORT_STEP).enumerate() {
            if at > 0 {
                // A server that runs meanwhile gets its turn.
                std::thread::sleep(IMPORT_PAUSE);
            }
            self.import_step(step, unix_ms, &mut imported)
                .map_err(|error| error.after(at * IMPORT_STEP, users.len()))?;
        }
        Ok(imported)
    }

    fn import_step(
        &mut self,
        users: &[ListedUser],
        unix_ms: u64,
        imported: &mut Imported,
    ) -> Result<(), StoreError> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut step = *imported;
        for listed in users {
            let is_known = is_there(&transaction, &listed.realm, &listed.user)?;
            put(&transaction, listed, unix_ms)?;
            step.md5_only += usize::from(listed.secrets.get(Algorithm::Sha256).is_none());
            if is_known {
                step.changed += 1;
            } else {
                step.added += 1;
            }
        }
        transaction.commit()?;
        *imported = step;
        Ok(())
    }

    /// All users in CSV, with their HA1s: as secret as the passwords.
    pub fn export_users(&mut self, realm: Option<&str>) -> Result<Zeroizing<String>, StoreError> {
        let mut out = Zeroizing::new(String::new());
        csv::write(&COLUMNS, &mut out);
        let mut statement = self.connection.prepare(&format!(
            "SELECT user, realm, hex(ha1_md5), hex(ha1_sha256), hex(ha1_sha512_256) FROM subscribers
             WHERE (?1 IS NULL OR realm = ?1) AND {IS_OWN} ORDER BY realm, user",
        ))?;
        let mut rows = statement.query((realm,))?;
        while let Some(row) = rows.next()? {
            let (user, realm): (String, String) = (row.get(0)?, row.get(1)?);
            let digest = |column| {
                Ok::<_, StoreError>(Zeroizing::new(
                    row.get::<_, String>(column)?.to_ascii_lowercase(),
                ))
            };
            csv::write(
                &[&user, &realm, &digest(2)?, &digest(3)?, &digest(4)?],
                &mut out,
            );
        }
        Ok(out)
    }

    /// Adds a domain, in lower case; false where it is there already.
    pub fn add_domain(&mut self, name: &str, unix_ms: u64) -> Result<bool, StoreError> {
        let name = name.to_ascii_lowercase();
        let is_host = !name.is_empty()
            && name.len() <= 253
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-._[]:".contains(&b));
        if !is_host {
            return Err(input(&format!(
                "{name:?} is no domain; write a name like example.org"
            )));
        }
        let added = self.connection.execute(
            "INSERT OR IGNORE INTO domains VALUES (?, ?)",
            (name, i64::try_from(unix_ms).unwrap_or(i64::MAX)),
        )?;
        Ok(added > 0)
    }

    /// Removes a domain; false where there is none of that name.
    pub fn remove_domain(&mut self, name: &str) -> Result<bool, StoreError> {
        Ok(self.connection.execute(
            "DELETE FROM domains WHERE name = ?",
            (name.to_ascii_lowercase(),),
        )? > 0)
    }

    /// The domains, in order.
    pub fn domains(&mut self) -> Result<Vec<String>, StoreError> {
        let mut statement = self
            .connection
            .prepare("SELECT name FROM domains ORDER BY name")?;
        let names = statement.query_map((), |row| row.get(0))?;
        Ok(names.collect::<Result<_, _>>()?)
    }
}

/// A user of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedUser {
    /// The realm, which is the domain unless the operator chose another.
    pub realm: String,
    /// The name.
    pub user: String,
    /// His HA1s.
    pub secrets: Secrets,
    /// Those of his name with the realm behind it, as of a domain; without his password
    /// nobody knows them.
    pub with_domain: Option<Secrets>,
}

impl ListedUser {
    fn with_password(realm: &str, user: &str, password: &str) -> Self {
        let secrets_of = |name: &str| -> Secrets {
            Ha1Set::compute(name.as_bytes(), realm.as_bytes(), password.as_bytes()).into()
        };
        Self {
            realm: realm.to_owned(),
            user: user.to_owned(),
            secrets: secrets_of(user),
            with_domain: (!user.contains('@')).then(|| secrets_of(&named_with_domain(realm, user))),
        }
    }
}

fn named_with_domain(realm: &str, user: &str) -> String {
    format!("{user}@{realm}")
}

/// Reads a list of users in CSV. Its first line names the columns: `user` or `username`,
/// perhaps `realm` or `domain` (`realm_default` where it is missing or empty), and either
/// `password`, or HA1s in hexadecimal digits: `ha1_md5` or `ha1`, and, where they are
/// there and not empty, `ha1_sha256` and `ha1_sha512_256`. Kamailio's table `subscriber`
/// has such names, and an empty `password` beside `ha1` is none.
pub fn read_users(text: &str, realm_default: Option<&str>) -> Result<Vec<ListedUser>, StoreError> {
    let records = csv::parse(text)?;
    let (head, rows) = records
        .split_first()
        .ok_or_else(|| input("the list is empty"))?;
    let columns = Columns::find(&head.fields).map_err(|error| error.at_line(head.line))?;
    let mut seen = HashSet::new();
    let mut users = Vec::with_capacity(rows.len());
    for row in rows {
        let read = columns.read(&row.fields, head.fields.len(), realm_default);
        let listed = read.map_err(|error| error.at_line(row.line))?;
        let (realm, user) = (&listed.realm, &listed.user);
        if !seen.insert((realm.clone(), user.clone())) {
            return Err(
                input(&format!("{user} in {realm} stands in the list twice")).at_line(row.line),
            );
        }
        users.push(listed);
    }
    // A name with its domain counts as it stands in the list, wherever that is.
    users.sort_by_key(|listed| listed.user.contains('@'));
    Ok(users)
}

/// Where the columns of a list are.
struct Columns {
    user: usize,
    realm: Option<usize>,
    password: Option<usize>,
    /// Of the HA1s that are there, with their algorithms.
    digests: Vec<(Algorithm, usize)>,
}

impl Columns {
    fn find(head: &[String]) -> Result<Self, StoreError> {
        // Of two that say the same, neither is known to be the one that is meant.
        let find = |names: &[&str]| {
            let is_one = |h: &String| names.iter().any(|name| h.trim().eq_ignore_ascii_case(name));
            let mut found = head.iter().enumerate().filter(|(_, h)| is_one(h));
            let first = found.next();
            match (first, found.next()) {
                (Some((_, one)), Some((_, other))) => Err(input(&format!(
                    "there are the columns {} and {}, and only one of them can count; take one of them out",
                    one.trim(),
                    other.trim()
                ))),
                _ => Ok(first.map(|(at, _)| at)),
            }
        };
        let user = find(&["user", "username"])?.ok_or_else(|| {
            input("no column is named user; begin with a line like: user,realm,password")
        })?;
        let password = find(&["password"])?;
        let digests: Vec<(Algorithm, usize)> = [
            (Algorithm::Md5, find(&["ha1_md5", "ha1"])?),
            (Algorithm::Sha256, find(&["ha1_sha256"])?),
            (Algorithm::Sha512_256, find(&["ha1_sha512_256"])?),
        ]
        .into_iter()
        .filter_map(|(algorithm, at)| Some((algorithm, at?)))
        .collect();
        if password.is_none() && digests.is_empty() {
            return Err(input(
                "there is neither a column password nor one of ha1_md5 (or ha1), ha1_sha256 and ha1_sha512_256",
            ));
        }
        Ok(Self {
            user,
            // A user's realm is his domain, and lists from elsewhere say so.
            realm: find(&["realm", "domain"])?,
            password,
            digests,
        })
    }

    fn read(
        &self,
        row: &[String],
        width: usize,
        realm_default: Option<&str>,
    ) -> Result<ListedUser, StoreError> {
        if row.len() != width {
            let fields = match row.len() {
                1 => "there is 1 field".to_owned(),
                count => format!("there are {count} fields"),
            };
            return Err(input(&format!(
                "{fields}, and the first line names {width}"
            )));
        }
        let field = |at: usize| row.get(at).map(String::as_str).unwrap_or_default();
        let user = field(self.user);
        let realm = self
            .realm
            .map(field)
            .filter(|realm| !realm.is_empty())
            .or(realm_default);
        let realm = realm.ok_or_else(|| input("there is no realm; add a column realm"))?;
        let asked = as_asked_for(realm);
        check_names(&asked, user)?;
        let password = self
            .password
            .map(field)
            .filter(|password| !password.is_empty());
        if let Some(password) = password {
            check_password(password)?;
            return Ok(ListedUser::with_password(&asked, user, password));
        }
        if asked != realm {
            return Err(input(&format!(
                "phones are asked for the realm {asked}, and an HA1 counts for the one spelling that it was made with: if that is {asked}, write so; if it is {realm}, give the password instead"
            )));
        }
        let mut secrets = Secrets::default();
        for &(algorithm, at) in &self.digests {
            if field(at).is_empty() {
                continue;
            }
            let ha1 = Ha1::from_hex(algorithm, field(at).as_bytes()).ok_or_else(|| {
                input(&format!(
                    "an HA1 for {} has {} hexadecimal digits",
                    algorithm.as_str(),
                    2 * algorithm.digest_len()
                ))
            })?;
            secrets.insert(ha1);
        }
        if secrets.is_empty() {
            return Err(input(&format!(
                "{user} in {realm} has neither a password nor an HA1"
            )));
        }
        Ok(ListedUser {
            realm: realm.to_owned(),
            user: user.to_owned(),
            secrets,
            with_domain: None,
        })
    }
}

/// Whether there is such a user.
fn is_there(connection: &Connection, realm: &str, user: &str) -> Result<bool, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT 1 FROM subscribers WHERE realm = ? AND user = ?")?;
    Ok(statement.exists((realm, user))?)
}

/// Writes a user, and what is known of his name with the domain: what was there would be the
/// password before.
fn put(connection: &Connection, listed: &ListedUser, unix_ms: u64) -> Result<(), StoreError> {
    let ListedUser { realm, user, .. } = listed;
    put_row(connection, realm, user, &listed.secrets, unix_ms)?;
    if user.contains('@') {
        return Ok(());
    }
    let named = named_with_domain(realm, user);
    match &listed.with_domain {
        Some(secrets) => put_row(connection, realm, &named, secrets, unix_ms),
        None => {
            connection
                .prepare_cached("DELETE FROM subscribers WHERE realm = ? AND user = ?")?
                .execute((realm, &named))?;
            Ok(())
        }
    }
}

fn put_row(
    connection: &Connection,
    realm: &str,
    user: &str,
    secrets: &Secrets,
    unix_ms: u64,
) -> Result<(), StoreError> {
    let unix_ms = i64::try_from(unix_ms).unwrap_or(i64::MAX);
    // An algorithm without an HA1 has no bytes.
    let digest = |algorithm| secrets.get(algorithm).map_or(&[][..], Ha1::expose);
    connection
        .prepare_cached(
            "INSERT INTO subscribers VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6) ON CONFLICT (realm, user) DO UPDATE SET
             ha1_md5 = ?3, ha1_sha256 = ?4, ha1_sha512_256 = ?5, updated_unix_ms = ?6",
        )?
        .execute((realm, user, digest(Algorithm::Md5), digest(Algorithm::Sha256), digest(Algorithm::Sha512_256), unix_ms))?;
    Ok(())
}

/// A realm as phones are asked for it: a domain in lower case, without a dot at its end.
fn as_asked_for(realm: &str) -> String {
    realm.trim_end_matches('.').to_ascii_lowercase()
}

/// What an HA1 is computed from must be told apart at its colons, and what
/// stands in a header must not end it.
fn check_names(realm: &str, user: &str) -> Result<(), StoreError> {
    if user.is_empty() || user.len() > USERNAME_MAX {
        return Err(input(&format!(
            "a user's name has 1 to {USERNAME_MAX} bytes"
        )));
    }
    if user.contains(':') || user.chars().any(char::is_control) {
        return Err(input(&format!(
            "the user's name {user:?} has a colon or a control character in it"
        )));
    }
    if realm.is_empty() || realm.len() > 253 || realm.chars().any(char::is_control) {
        return Err(input(&format!(
            "{realm:?} is no realm; write the domain, like example.org"
        )));
    }
    Ok(())
}

fn check_password(password: &str) -> Result<(), StoreError> {
    if password.is_empty() || password.len() > 1_024 {
        return Err(input("a password has 1 to 1024 bytes"));
    }
    Ok(())
}

fn no_such_user(realm: &str, user: &str) -> StoreError {
    let text = format!("there is no {user} in {realm}; to see who there is type: signet user list");
    StoreError::new(StoreErrorKind::NotFound, text)
}

fn input(text: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Input, text)
}

#[cfg(test)]
mod tests;
