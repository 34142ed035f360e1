//! Look-ups of stored HA1s.

use std::slice;

use rusqlite::Connection;
use rusqlite::types::ValueRef;
use sip_auth::{Algorithm, CredentialKey, Ha1};

use crate::{Database, StoreError, StoreErrorKind};

/// Who knows the HA1s of subscribers. It is asked for many at once, because a
/// store at a distance is paid for by the round trip.
pub trait CredentialStore {
    /// Appends one answer for each key, in their order: `Ok(None)` where there
    /// is no such user, or none with an HA1 for the algorithm. An error says that it could not be found out.
    fn find(&mut self, keys: &[CredentialKey], answers: &mut Vec<Result<Option<Ha1>, StoreError>>);
}

/// The subscribers in SQLite.
///
/// There is no cache above SQLite's own pages: a user who was asked for before
/// would be found sooner than one who does not exist, and that difference is
/// what an enumeration looks for. Known or not, a look-up walks the same tree
/// to the same depth.
pub struct Credentials {
    database: Database,
}

impl Credentials {
    pub(crate) fn new(database: Database) -> Self {
        Self { database }
    }

    fn find_all(
        &mut self,
        keys: &[CredentialKey],
        answers: &mut Vec<Result<Option<Ha1>, StoreError>>,
    ) -> Result<(), StoreError> {
        let connection = &self.database.connection;
        if let [key] = keys {
            // A statement by itself is a transaction already.
            return find_each(connection, slice::from_ref(key), answers);
        }
        // One transaction: one snapshot, and one lock for the whole batch. It has changed
        // nothing, so its end is the same whatever came of it.
        connection.prepare_cached("BEGIN")?.execute(())?;
        let found = find_each(connection, keys, answers);
        let ended = connection.prepare_cached("COMMIT")?.execute(());
        if !connection.is_autocommit() {
            connection.execute_batch("ROLLBACK")?;
        }
        ended?;
        found
    }
}

fn find_each(
    connection: &Connection,
    keys: &[CredentialKey],
    answers: &mut Vec<Result<Option<Ha1>, StoreError>>,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT ha1_md5, ha1_sha256, ha1_sha512_256 FROM subscribers WHERE realm = ?1 AND user = ?2",
    )?;
    for key in keys {
        // A name that is no text is nobody's; it is asked for all the same.
        let user = str::from_utf8(key.user()).unwrap_or("");
        let mut rows = statement.query((&**key.realm(), user))?;
        let answer = match rows.next()? {
            None => Ok(None),
            Some(row) => {
                let column = match key.algorithm() {
                    Algorithm::Md5 => 0,
                    Algorithm::Sha256 => 1,
                    Algorithm::Sha512_256 => 2,
                };
                let found = match row.get_ref(column)? {
                    // He has none for this algorithm.
                    ValueRef::Blob([]) => Some(None),
                    ValueRef::Blob(digest) => Ha1::from_bytes(key.algorithm(), digest).map(Some),
                    _ => None,
                };
                found.ok_or_else(|| {
                    StoreError::new(
                        StoreErrorKind::Damaged,
                        format!("the HA1 of {user} in {} is no digest", key.realm()),
                    )
                })
            }
        };
        answers.push(answer);
    }
    Ok(())
}

impl CredentialStore for Credentials {
    fn find(&mut self, keys: &[CredentialKey], answers: &mut Vec<Result<Option<Ha1>, StoreError>>) {
        let wanted = answers.len() + keys.len();
        if let Err(error) = self.find_all(keys, answers) {
            let (kind, text) = (error.kind(), error.to_string());
            // What was read before the failure is as good as it was.
            while answers.len() < wanted {
                answers.push(Err(StoreError::new(kind, text.clone())));
            }
        }
    }
}

#[cfg(test)]
mod tests;
