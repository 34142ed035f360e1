//! The secrets of TLS session tickets, which the nodes on one store share: who
//! has the secret opens the tickets that another node sealed.

use rusqlite::{Transaction, TransactionBehavior};
use zeroize::Zeroizing;

use crate::{Database, StoreError, StoreErrorKind};

/// Secrets that are read; past it the oldest are left out.
const SECRETS_MAX: u32 = 8;
/// Bytes of a secret.
const SECRET_BYTES: usize = 32;

/// A secret from which nodes derive the keys of session tickets.
#[derive(Clone, PartialEq, Eq)]
pub struct TicketSecretRow {
    /// Its name, which is no secret.
    pub id: String,
    /// The secret itself.
    pub secret: Zeroizing<[u8; SECRET_BYTES]>,
    /// When it was made, in seconds since 1970.
    pub created_unix_s: u64,
    /// When it ceases to open tickets; `None` while it is the newest.
    pub not_after_unix_s: Option<u64>,
}

// The secret is inside: it is not shown.
impl std::fmt::Debug for TicketSecretRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TicketSecretRow")
            .field("id", &self.id)
            .field("created_unix_s", &self.created_unix_s)
            .field("not_after_unix_s", &self.not_after_unix_s)
            .finish_non_exhaustive()
    }
}

/// When a new secret takes the place of the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// Only when the newest is at least this old, or there is none; 0 for
    /// whatever its age.
    pub age_min_s: u64,
    /// How long those before go on opening tickets; 0 for not at all.
    pub old_good_for_s: u64,
}

impl Renewal {
    /// Whether the newest secret is old enough, or there is none. One that says it was made by
    /// more than that after now is of a clock that was ahead: its age would not come before then.
    pub(crate) fn is_due(&self, newest_unix_s: Option<u64>, unix_s: u64) -> bool {
        newest_unix_s.is_none_or(|newest| {
            unix_s.saturating_sub(newest) >= self.age_min_s
                || newest > unix_s.saturating_add(self.age_min_s)
        })
    }
}

/// Who keeps the secrets of session tickets. All times are in seconds since 1970.
pub trait TicketSecretStore {
    /// The secrets that open tickets now: first the one without an end, then those before it, the
    /// newest first.
    fn ticket_secrets(&mut self, unix_s: u64) -> Result<Vec<TicketSecretRow>, StoreError>;

    /// Puts `fresh`, made now, in the first place, if it is time for it, and
    /// wipes what is past its end. Gives whether it did: of several nodes that
    /// find it due at once, one does.
    fn renew_ticket_secret(
        &mut self,
        fresh: &TicketSecretRow,
        when: Renewal,
    ) -> Result<bool, StoreError>;
}

impl TicketSecretStore for Database {
    fn ticket_secrets(&mut self, unix_s: u64) -> Result<Vec<TicketSecretRow>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT id, secret, created_unix_s, not_after_unix_s FROM ticket_secrets
             WHERE not_after_unix_s IS NULL OR not_after_unix_s > ?
             ORDER BY not_after_unix_s IS NULL DESC, created_unix_s DESC, id DESC LIMIT ?",
        )?;
        let mut rows = statement.query((seconds(unix_s), SECRETS_MAX))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let mut secret = Zeroizing::new([0; SECRET_BYTES]);
            let stored = row.get_ref(1)?.as_blob().unwrap_or_default();
            if stored.len() != SECRET_BYTES {
                let text = "a secret of session tickets is not of 32 bytes; type: signet tls rotate-secret --forget-old";
                return Err(StoreError::new(StoreErrorKind::Damaged, text));
            }
            secret.copy_from_slice(stored);
            found.push(TicketSecretRow {
                id: row.get(0)?,
                secret,
                created_unix_s: u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0),
                not_after_unix_s: row
                    .get::<_, Option<i64>>(3)?
                    .map(|end| u64::try_from(end).unwrap_or(0)),
            });
        }
        Ok(found)
    }

    fn renew_ticket_secret(
        &mut self,
        fresh: &TicketSecretRow,
        when: Renewal,
    ) -> Result<bool, StoreError> {
        // What is deleted is overwritten with zeros.
        self.connection.execute_batch("PRAGMA secure_delete = ON")?;
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        if !when.is_due(newest(&transaction)?, fresh.created_unix_s) {
            return Ok(false);
        }
        let now = seconds(fresh.created_unix_s);
        let end = seconds(fresh.created_unix_s.saturating_add(when.old_good_for_s));
        transaction.execute(
            "UPDATE ticket_secrets SET not_after_unix_s = ?1
             WHERE not_after_unix_s IS NULL OR not_after_unix_s > ?1",
            (end,),
        )?;
        transaction.execute(
            "DELETE FROM ticket_secrets WHERE not_after_unix_s <= ?",
            (now,),
        )?;
        transaction.execute(
            "INSERT INTO ticket_secrets (id, secret, created_unix_s, not_after_unix_s)
             VALUES (?, ?, ?, NULL)",
            (&fresh.id, fresh.secret.as_slice(), now),
        )?;
        transaction.commit()?;
        // The log of the database still has what was deleted. While others read
        // it stays, and goes with a later checkpoint.
        let _ = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()));
        Ok(true)
    }
}

/// When the secret without an end was made.
fn newest(transaction: &Transaction<'_>) -> Result<Option<u64>, StoreError> {
    let newest: Option<i64> = transaction.query_row(
        "SELECT max(created_unix_s) FROM ticket_secrets WHERE not_after_unix_s IS NULL",
        (),
        |row| row.get(0),
    )?;
    Ok(newest.map(|newest| u64::try_from(newest).unwrap_or(0)))
}

fn seconds(unix_s: u64) -> i64 {
    i64::try_from(unix_s).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
