//! An error as the operator reads it: what went wrong, and what to do.

use std::fmt;
use std::path::Path;

use sip_store::StoreError;
use sip_tls::TlsError;

use crate::config::ConfigError;

/// Why a command or the server did not do as it was told: what went wrong, naming the
/// culprit, and the remedy. For people; no program tells errors apart by it.
#[derive(Debug, PartialEq, Eq)]
pub struct Error {
    what: String,
    remedy: String,
}

impl Error {
    /// An error with its remedy.
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    /// A file or folder that could not be used.
    pub fn file(doing: &str, path: &Path, error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        let remedy = match error.kind() {
            ErrorKind::NotFound => "look whether the path is right",
            ErrorKind::ReadOnlyFilesystem => {
                "name a folder that this process may write to; systemd lets a unit write to those in its ReadWritePaths= besides its own"
            }
            ErrorKind::PermissionDenied => {
                "run as the user that the file or the folder belongs to, or name another"
            }
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room on the disk",
            ErrorKind::AlreadyExists => "name another file, or move that one away",
            _ => "look at the file and the disk that it is on",
        };
        Self::new(
            format!("cannot {doing} {}: {error}", path.display()),
            remedy,
        )
    }

    /// What went wrong.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// What to do; may be empty.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if !self.remedy.is_empty() {
            write!(f, "\n  {}", self.remedy)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// These name the remedy themselves.
macro_rules! told {
    ($($Of:ty)*) => {$(
        impl From<$Of> for Error {
            fn from(error: $Of) -> Self {
                Self::new(error.to_string(), "")
            }
        }
    )*};
}

told! { ConfigError StoreError TlsError }
