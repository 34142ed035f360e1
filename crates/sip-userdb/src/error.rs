//! What can go wrong with a store.

/// A store cannot be used as it was configured; with what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    what: String,
    remedy: String,
}

impl Error {
    /// An error and its remedy, each a sentence without its full stop.
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    /// What to do about it.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }

    /// What is wrong.
    pub fn what(&self) -> &str {
        &self.what
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.remedy)
    }
}

impl std::error::Error for Error {}
