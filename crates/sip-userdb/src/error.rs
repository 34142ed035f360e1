//! What can go wrong with a store.

/// A store cannot be used as it was configured; with what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    what: String,
    remedy: String,
    is_lasting: bool,
}

impl Error {
    /// An error and its remedy, each a sentence without its full stop.
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            remedy: remedy.into(),
            is_lasting: false,
        }
    }

    /// The same of what the store says until somebody changes what is in it.
    #[must_use]
    pub fn lasting(mut self) -> Self {
        self.is_lasting = true;
        self
    }

    /// Whether it is that: to ask again helps nobody.
    pub fn is_lasting(&self) -> bool {
        self.is_lasting
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
