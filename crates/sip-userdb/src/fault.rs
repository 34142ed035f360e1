//! What goes wrong between a client and its store.

use sip_lookup::BatchFailure;

use crate::Error;

/// The most that is repeated of what a store says, in characters.
const SAYING_MAX: usize = 200;

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No connection could be made, or it ended.
    Unreachable(String),
    /// The store does not let us log in.
    LogInRefused(String),
    /// The store said no, or what cannot be understood.
    Refused(String),
    /// The store refuses whatever is asked about users.
    Unusable(String),
    /// The store broke the statement off, and may answer the same the next time.
    Cancelled(String),
}

/// Why a question has no answer.
#[derive(Debug)]
pub(crate) struct Unanswered {
    pub(crate) failure: BatchFailure,
    /// A connection that was made for it ended before the answer was whole.
    pub(crate) has_ended: bool,
}

impl From<BatchFailure> for Unanswered {
    fn from(failure: BatchFailure) -> Self {
        Self {
            failure,
            has_ended: false,
        }
    }
}

impl Fault {
    /// The same of what was said before any user was asked for: no name is what it did not like.
    pub(crate) fn of_any_user(self) -> Self {
        match self {
            Self::Refused(what) => Self::Unusable(what),
            other => other,
        }
    }

    /// The same of a log-in: whatever is refused then, nothing can be asked.
    pub(crate) fn of_log_in(self) -> Self {
        match self {
            Self::Refused(what) | Self::Cancelled(what) => Self::LogInRefused(what),
            other => other,
        }
    }

    /// What happened.
    pub(crate) fn what(&self) -> &str {
        let (Self::Unreachable(what)
        | Self::LogInRefused(what)
        | Self::Refused(what)
        | Self::Unusable(what)
        | Self::Cancelled(what)) = self;
        what
    }

    /// As an operator sees it.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Unreachable(what) => {
                Error::new(what, "see that the store runs and that its URL is right")
            }
            Self::LogInRefused(what) => Error::new(
                what,
                "see whether the store knows the user of its URL and the password, and lets this \
                 machine in",
            ),
            Self::Cancelled(what) => {
                Error::new(what, "try again, and see what the store is busy with")
            }
            Self::Refused(what) | Self::Unusable(what) => Error::new(
                what,
                "compare the URL, the layout and the store's own rights with docs/OPERATING.md",
            ),
        }
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Self::Unreachable(match error.kind() {
            std::io::ErrorKind::UnexpectedEof => "the store closed the connection".to_owned(),
            _ => error.to_string(),
        })
    }
}

impl From<Fault> for BatchFailure {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Unreachable(what) => Self::Unreachable(what),
            Fault::LogInRefused(what) => Self::LogInRefused(what),
            Fault::Refused(what) => Self::Refused(what),
            Fault::Unusable(what) => Self::Unusable(what),
            Fault::Cancelled(what) => Self::Cancelled(what),
        }
    }
}

/// [`Fault::of_log_in`] of what is told to whoever asked.
pub(crate) fn of_log_in(failure: BatchFailure) -> BatchFailure {
    match failure {
        BatchFailure::Refused(why) => BatchFailure::LogInRefused(why),
        other => other,
    }
}

/// What a store says, fit to be shown: cut to a length, on one line.
pub(crate) fn saying(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    clean.take(SAYING_MAX).collect()
}
