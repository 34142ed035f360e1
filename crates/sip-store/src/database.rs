//! The file: how it is made, opened and brought up to date.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::{Bindings, Credentials, StoreError, StoreErrorKind};

/// Marks a file as one of this project's ("Sgnt").
const APPLICATION_ID: i32 = 0x5367_6e74;

/// How long a statement waits for another process's lock before it fails.
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);

/// How long opening waits for others that make or close the file, each of which
/// forces it to a disk that may be slow.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// How long opening waits before it tries again.
const BUSY_RETRY: Duration = Duration::from_millis(5);

/// The steps from each version of the schema to the next. A step that was
/// released is never changed: another is added.
const MIGRATIONS: [&str; 4] = [
    "
    CREATE TABLE domains (
        name TEXT NOT NULL PRIMARY KEY,
        created_unix_ms INTEGER NOT NULL
    ) WITHOUT ROWID;

    CREATE TABLE subscribers (
        realm TEXT NOT NULL,
        user TEXT NOT NULL,
        ha1_md5 BLOB NOT NULL,
        ha1_sha256 BLOB NOT NULL,
        ha1_sha512_256 BLOB NOT NULL,
        created_unix_ms INTEGER NOT NULL,
        updated_unix_ms INTEGER NOT NULL,
        PRIMARY KEY (realm, user)
    ) WITHOUT ROWID;

    CREATE TABLE bindings (
        aor TEXT NOT NULL,
        contact_key BLOB NOT NULL,
        uri TEXT NOT NULL,
        q INTEGER NOT NULL,
        expires_unix_ms INTEGER NOT NULL,
        call_id TEXT NOT NULL,
        cseq INTEGER NOT NULL,
        instance TEXT,
        reg_id INTEGER,
        path TEXT NOT NULL,
        flow TEXT,
        user_agent TEXT NOT NULL,
        node TEXT NOT NULL,
        PRIMARY KEY (aor, contact_key)
    ) WITHOUT ROWID;
",
    "
    CREATE TABLE ticket_secrets (
        id TEXT NOT NULL PRIMARY KEY,
        secret BLOB NOT NULL,
        created_unix_s INTEGER NOT NULL,
        not_after_unix_s INTEGER
    ) WITHOUT ROWID;
",
    "
    ALTER TABLE bindings ADD COLUMN since_unix_ms INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE bindings ADD COLUMN source TEXT;
",
    "
    CREATE TABLE aliases (
        domain TEXT NOT NULL,
        name TEXT NOT NULL,
        target TEXT NOT NULL,
        q INTEGER NOT NULL,
        PRIMARY KEY (domain, name, target)
    ) WITHOUT ROWID;

    CREATE TABLE people (
        realm TEXT NOT NULL,
        user TEXT NOT NULL,
        permissions TEXT,
        user_group TEXT,
        caller_id TEXT,
        calls_max INTEGER,
        forward_always TEXT,
        forward_busy TEXT,
        forward_no_answer TEXT,
        no_answer_s INTEGER,
        PRIMARY KEY (realm, user)
    ) WITHOUT ROWID;
",
];

/// What becomes of a file that an older version wrote.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outdated {
    /// It is brought up to date.
    Migrate,
    /// It stays as it is, and is an error.
    Refuse,
}

/// The database file `signet.db`: in WAL mode, so that readers and the writer
/// do not wait for each other, and with every commit forced to the disk.
///
/// Several connections, threads and processes may have it open at once:
/// `signet user add` works while the server runs.
pub struct Database {
    pub(crate) connection: Connection,
    path: PathBuf,
}

impl Database {
    /// Opens the file, makes it where it is missing (mode 0600), and brings its
    /// schema up to date.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::prepare_file(path).map_err(|error| error.of(path))?;
        Self::open_prepared(path, Outdated::Migrate)
    }

    fn open_prepared(path: &Path, outdated: Outdated) -> Result<Self, StoreError> {
        let give_up = Instant::now() + OPEN_TIMEOUT;
        loop {
            match Self::connect(path, outdated) {
                // SQLite answers "busy" at once, without its own waiting, where two
                // switch a new file to WAL together or one closes it last while
                // another opens it.
                Err(error) if error.kind() == StoreErrorKind::Busy && Instant::now() < give_up => {
                    std::thread::sleep(BUSY_RETRY);
                }
                done => return done.map_err(|error| error.of(path)),
            }
        }
    }

    /// The same for a file that must be there.
    pub fn open_existing(path: &Path) -> Result<Self, StoreError> {
        if let Err(error) = path.metadata() {
            return Err(StoreError::from(error).of(path));
        }
        Self::open(path)
    }

    /// The same, and a file that an older version wrote stays as it is
    /// ([`StoreErrorKind::Older`]): a server of that version may have it open, and would go on
    /// with a schema that it does not know.
    pub fn open_as_it_is(path: &Path) -> Result<Self, StoreError> {
        if let Err(error) = path.metadata() {
            return Err(StoreError::from(error).of(path));
        }
        Self::prepare_file(path).map_err(|error| error.of(path))?;
        Self::open_prepared(path, Outdated::Refuse)
    }

    /// Lets each statement wait so long for another process's lock before it fails.
    pub fn with_patience(self, at_most: Duration) -> Result<Self, StoreError> {
        self.connection.busy_timeout(at_most)?;
        Ok(self)
    }

    /// The path that it was opened with.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A connection of its own for [`crate::serve_lookups`].
    pub fn credentials(&self) -> Result<Credentials, StoreError> {
        Ok(Credentials::new(Self::open(&self.path)?))
    }

    /// A connection of its own for [`crate::serve_saves`].
    pub fn bindings(&self) -> Result<Bindings, StoreError> {
        Ok(Bindings::new(Self::open(&self.path)?))
    }

    fn prepare_file(path: &Path) -> Result<(), StoreError> {
        // Made here and not by SQLite: it holds secrets from its first byte on.
        match OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
        {
            Ok(file) => {
                file.sync_all()?;
                let folder = path
                    .parent()
                    .filter(|p| !p.as_os_str().is_empty())
                    .unwrap_or(Path::new("."));
                File::open(folder)?.sync_all()?;
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let mode = path.metadata()?.mode() & 0o777;
                if mode & 0o077 != 0 {
                    let text = format!(
                        "holds secrets and is open to others (mode {mode:03o}); type: chmod 600 {}",
                        path.display()
                    );
                    return Err(StoreError::new(StoreErrorKind::Permissions, text));
                }
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn connect(path: &Path, outdated: Outdated) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(32);
        migrate(&mut connection, outdated)?;
        let mode: String =
            connection.query_row("PRAGMA journal_mode = WAL", (), |row| row.get(0))?;
        if !mode.eq_ignore_ascii_case("wal") {
            let text = format!(
                "the file system allows no WAL (journal mode {mode}); keep the data folder on a local disk"
            );
            return Err(StoreError::new(StoreErrorKind::Io, text));
        }
        connection.execute_batch(
            "PRAGMA synchronous = FULL;
             PRAGMA trusted_schema = OFF;
             PRAGMA cell_size_check = ON;
             PRAGMA cache_size = -65536;
             PRAGMA wal_autocheckpoint = 4000;
             PRAGMA journal_size_limit = 67108864;",
        )?;
        Ok(Self {
            connection,
            path: path.to_owned(),
        })
    }
}

/// Brings the schema up to date, all or nothing.
fn migrate(connection: &mut Connection, outdated: Outdated) -> Result<(), StoreError> {
    let read = |connection: &Connection, pragma| {
        connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0))
    };
    if read(connection, "user_version")? == MIGRATIONS.len() as i64
        && read(connection, "application_id")? == i64::from(APPLICATION_ID)
    {
        return Ok(());
    }
    // Two processes may get here at once: the second finds it done.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version = read(&transaction, "user_version")?;
    let application = read(&transaction, "application_id")?;
    let tables: i64 =
        transaction.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))?;
    let is_new = version == 0 && application == 0 && tables == 0;
    if !is_new && application != i64::from(APPLICATION_ID) {
        let text = "is a database of another program; name another data folder with --data DIR";
        return Err(StoreError::new(StoreErrorKind::Damaged, text));
    }
    let Some(steps) = usize::try_from(version)
        .ok()
        .and_then(|version| MIGRATIONS.get(version..))
    else {
        let text = format!(
            "was written by a newer version (schema {version}, known {}); use that version",
            MIGRATIONS.len()
        );
        return Err(StoreError::new(StoreErrorKind::Newer, text));
    };
    if !is_new && !steps.is_empty() && outdated == Outdated::Refuse {
        let text = format!(
            "was written by an older version (schema {version}, this one has {}); the next start of the server brings it up to date",
            MIGRATIONS.len()
        );
        return Err(StoreError::new(StoreErrorKind::Older, text));
    }
    for step in steps {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", MIGRATIONS.len() as i64)?;
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests;
