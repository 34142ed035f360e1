//! Bindings on the disk.

use std::sync::Arc;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Row, ToSql, TransactionBehavior};
use sip_engine::{Binding, BindingChange};

use crate::{Database, StoreError, flow_text};

/// Who keeps bindings over a restart. It is given many changes at once,
/// because reaching a disk, or a store at a distance, is paid for by the trip.
pub trait BindingStore {
    /// Makes all of the changes durable, in order, or none.
    fn save(&mut self, changes: &mut dyn Iterator<Item = &BindingChange>)
    -> Result<(), StoreError>;

    /// Looks at no more than `rows_max` rows, a few further each time, and
    /// deletes those that have expired.
    fn delete_expired(&mut self, unix_ms: u64, rows_max: usize) -> Result<Swept, StoreError>;

    /// Gives every binding that is alive to `each`; returns how many. One that cannot be read is
    /// passed over and told of: its phone registers again, and nobody else is held up by it.
    fn load(
        &mut self,
        unix_ms: u64,
        each: &mut dyn FnMut(BindingChange),
    ) -> Result<u64, StoreError>;
}

/// What a look for expired rows came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Rows deleted.
    pub deleted: u64,
    /// Whether the last row was reached; the next look begins at the first.
    pub is_round: bool,
}

/// The bindings in SQLite.
pub struct Bindings {
    database: Database,
    /// The row up to which [`BindingStore::delete_expired`] has looked.
    swept_to: Option<(Vec<u8>, Vec<u8>)>,
    flow: String,
}

/// Contacts that cannot be read, of which each has a line of log; all have one together.
const UNREAD_NAMED_MAX: u64 = 16;

/// Bytes stored as text, so that an operator can read them.
struct Text<'a>(&'a [u8]);

impl ToSql for Text<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0)))
    }
}

impl Bindings {
    pub(crate) fn new(database: Database) -> Self {
        Self {
            database,
            swept_to: None,
            flow: String::new(),
        }
    }

    /// The database behind it.
    pub fn database(&mut self) -> &mut Database {
        &mut self.database
    }
}

impl BindingStore for Bindings {
    fn save(
        &mut self,
        changes: &mut dyn Iterator<Item = &BindingChange>,
    ) -> Result<(), StoreError> {
        // Dropped without a commit, on any error, it is rolled back.
        let transaction = self
            .database
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut put = transaction.prepare_cached(
                "INSERT OR REPLACE INTO bindings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            )?;
            let mut remove = transaction
                .prepare_cached("DELETE FROM bindings WHERE aor = ? AND contact_key = ?")?;
            for change in changes {
                match change {
                    BindingChange::Put { aor, key, binding } => {
                        bind(&mut put, aor, key, binding, &mut self.flow)?;
                        put.raw_execute()?;
                    }
                    BindingChange::Remove { aor, key } => {
                        remove.execute((Text(aor), &**key))?;
                    }
                }
            }
        }
        transaction.commit()?;
        Ok(())
    }

    fn delete_expired(&mut self, unix_ms: u64, rows_max: usize) -> Result<Swept, StoreError> {
        // A transaction that reads first is refused at once where somebody else writes.
        let transaction = self
            .database
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut swept = Swept {
            deleted: 0,
            is_round: true,
        };
        let mut last = None;
        {
            let mut look = transaction.prepare_cached(
                "SELECT aor, contact_key, expires_unix_ms FROM bindings
                 WHERE (aor, contact_key) > (?1, ?2) ORDER BY aor, contact_key LIMIT ?3",
            )?;
            let (aor, key) = self.swept_to.clone().unwrap_or_default();
            let mut expired = Vec::new();
            let mut rows = look.query((
                Text(&aor),
                &key,
                i64::try_from(rows_max).unwrap_or(i64::MAX),
            ))?;
            let mut seen = 0;
            while let Some(row) = rows.next()? {
                let at = (bytes(row, 0)?.to_vec(), bytes(row, 1)?.to_vec());
                seen += 1;
                // One that cannot be read holds up nobody behind it.
                if millis(row, 2).is_ok_and(|at_unix_ms| at_unix_ms <= unix_ms) {
                    expired.push(at.clone());
                }
                last = Some(at);
            }
            if seen < rows_max {
                last = None;
            } else {
                swept.is_round = false;
            }
            let mut delete = transaction
                .prepare_cached("DELETE FROM bindings WHERE aor = ? AND contact_key = ?")?;
            for (aor, key) in &expired {
                swept.deleted += delete.execute((Text(aor), key))? as u64;
            }
        }
        transaction.commit()?;
        self.swept_to = last;
        Ok(swept)
    }

    fn load(
        &mut self,
        unix_ms: u64,
        each: &mut dyn FnMut(BindingChange),
    ) -> Result<u64, StoreError> {
        let mut statement = self.database.connection.prepare(
            "SELECT aor, contact_key, uri, q, expires_unix_ms, call_id, cseq, instance, reg_id, path, flow, user_agent, node, since_unix_ms, source
             FROM bindings WHERE expires_unix_ms > ?1 ORDER BY aor, contact_key",
        )?;
        let mut rows = statement.query((i64::try_from(unix_ms).unwrap_or(i64::MAX),))?;
        let mut node: Arc<str> = "".into();
        let (mut count, mut unread) = (0, 0);
        while let Some(row) = rows.next()? {
            let named = str::from_utf8(bytes(row, 12)?).unwrap_or("");
            if *node != *named {
                node = named.into();
            }
            let aor = bytes(row, 0)?;
            match read(row, node.clone()) {
                Ok(binding) => {
                    each(BindingChange::Put {
                        aor: aor.into(),
                        key: bytes(row, 1)?.into(),
                        binding: Arc::new(binding),
                    });
                    count += 1;
                }
                Err(error) => {
                    unread += 1;
                    if unread <= UNREAD_NAMED_MAX {
                        tracing::warn!(
                            "{}: a contact in the database is passed over until the phone registers again: {error}",
                            aor.escape_ascii()
                        );
                    }
                }
            }
        }
        if unread > UNREAD_NAMED_MAX {
            tracing::warn!("{unread} contacts in the database are passed over in all");
        }
        Ok(count)
    }
}

fn bind(
    put: &mut CachedStatement<'_>,
    aor: &[u8],
    key: &[u8],
    binding: &Binding,
    flow: &mut String,
) -> Result<(), StoreError> {
    flow.clear();
    let way = binding.flow.as_ref().map(|of| {
        flow_text::write(of, flow);
        Text(flow.as_bytes())
    });
    put.raw_bind_parameter(1, Text(aor))?;
    put.raw_bind_parameter(2, key)?;
    put.raw_bind_parameter(3, Text(&binding.uri))?;
    put.raw_bind_parameter(4, binding.q)?;
    put.raw_bind_parameter(
        5,
        i64::try_from(binding.expires_unix_ms).unwrap_or(i64::MAX),
    )?;
    put.raw_bind_parameter(6, Text(&binding.call_id))?;
    put.raw_bind_parameter(7, binding.cseq)?;
    put.raw_bind_parameter(8, binding.instance.as_deref().map(Text))?;
    put.raw_bind_parameter(9, binding.reg_id)?;
    put.raw_bind_parameter(10, Text(&binding.path))?;
    put.raw_bind_parameter(11, way)?;
    put.raw_bind_parameter(12, Text(&binding.user_agent))?;
    put.raw_bind_parameter(13, &*binding.node)?;
    put.raw_bind_parameter(14, i64::try_from(binding.since_unix_ms).unwrap_or(i64::MAX))?;
    let source = binding.source.as_ref().map(|of| {
        flow.clear();
        flow_text::write_source(of, flow);
        Text(flow.as_bytes())
    });
    put.raw_bind_parameter(15, source)?;
    Ok(())
}

fn read(row: &Row<'_>, node: Arc<str>) -> Result<Binding, StoreError> {
    let way = optional(row, 10)?;
    let flow = way.and_then(flow_text::read);
    Ok(Binding {
        uri: bytes(row, 2)?.into(),
        q: row.get(3)?,
        expires_unix_ms: millis(row, 4)?,
        call_id: bytes(row, 5)?.into(),
        cseq: row.get(6)?,
        instance: optional(row, 7)?.map(Into::into),
        reg_id: row.get(8)?,
        path: bytes(row, 9)?.into(),
        flow,
        user_agent: bytes(row, 11)?.into(),
        node,
        since_unix_ms: millis(row, 13)?,
        source: optional(row, 14)?.and_then(flow_text::read_source),
        // Only a datagram's flow comes back, which is kept for no other reason.
        is_translated: flow.is_some(),
        had_flow: way.is_some(),
    })
}

fn optional<'r>(row: &'r Row<'_>, column: usize) -> Result<Option<&'r [u8]>, StoreError> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes),
        _ => None,
    })
}

fn bytes<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r [u8], StoreError> {
    Ok(optional(row, column)?.unwrap_or_default())
}

fn millis(row: &Row<'_>, column: usize) -> Result<u64, StoreError> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

#[cfg(test)]
mod tests;
