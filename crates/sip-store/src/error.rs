//! What goes wrong with a store: whose fault it is and what to do.

use rusqlite::ErrorCode;

/// An error of the store, worded for the operator.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    text: String,
}

/// What kind of trouble it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// Somebody else holds the database locked. It may pass.
    Busy,
    /// The disk is full.
    Full,
    /// The disk or the file system failed.
    Io,
    /// The file is no database of this project, or a damaged one.
    Damaged,
    /// A newer version of this program wrote the file.
    Newer,
    /// An older version of this program wrote the file, and it was to stay as it is.
    Older,
    /// The file's permissions let others in, or keep this process out.
    Permissions,
    /// What was asked for is already there.
    Exists,
    /// What was asked for is not there.
    NotFound,
    /// The input cannot be stored.
    Input,
    /// Anything else.
    Other,
}

impl StoreError {
    pub(crate) fn new(kind: StoreErrorKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
        }
    }

    /// What kind of trouble it is.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// The same, told of the file that it happened to.
    pub(crate) fn of(self, path: &std::path::Path) -> Self {
        Self {
            kind: self.kind,
            text: format!("{}: {}", path.display(), self.text),
        }
    }

    /// The same, told of how much was done before it.
    pub(crate) fn after(self, done: usize, of: usize) -> Self {
        Self {
            kind: self.kind,
            text: format!("after {done} of {of} users: {}", self.text),
        }
    }

    /// The same, told of the line that it happened at.
    pub(crate) fn at_line(self, line: usize) -> Self {
        Self {
            kind: self.kind,
            text: format!("line {line}: {}", self.text),
        }
    }
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for StoreError {}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let (kind, remedy) = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
                StoreErrorKind::Busy,
                "; another process holds it locked: end that one, or try again",
            ),
            Some(ErrorCode::DiskFull) => (StoreErrorKind::Full, "; make room on the disk"),
            Some(ErrorCode::SystemIoFailure) => (
                StoreErrorKind::Io,
                "; look for disk errors in the system's log",
            ),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => (
                StoreErrorKind::Damaged,
                "; end whoever has it open, remove the files of its name with -wal and -shm behind it, and only then put the last backup in its place",
            ),
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => (
                StoreErrorKind::Permissions,
                "; see that this user may write to the file and its folder, and under systemd that the folder is in ReadWritePaths= of the unit",
            ),
            _ => (StoreErrorKind::Other, ""),
        };
        Self::new(kind, format!("{error}{remedy}"))
    }
}

impl From<std::io::Error> for StoreError {
    fn from(error: std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::StorageFull => StoreErrorKind::Full,
            std::io::ErrorKind::PermissionDenied => StoreErrorKind::Permissions,
            _ => StoreErrorKind::Io,
        };
        let remedy = match error.kind() {
            std::io::ErrorKind::ReadOnlyFilesystem => {
                "; under systemd its folder must be in ReadWritePaths= of the unit"
            }
            _ => "",
        };
        Self::new(kind, format!("{error}{remedy}"))
    }
}
