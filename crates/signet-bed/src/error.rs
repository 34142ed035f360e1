//! What can go wrong with a relay.

use std::fmt;

/// A relay that cannot be, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    what: String,
    remedy: String,
}

impl Error {
    /// An error and its remedy, each without a full stop.
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    /// What is wrong.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// What to do about it.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.remedy)
    }
}

impl std::error::Error for Error {}
