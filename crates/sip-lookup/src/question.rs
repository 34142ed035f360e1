//! What a pipeline is asked, what it sends and what it is told.

use std::sync::Arc;

use sip_auth::{Algorithm, DigestRequest, Qop, Reply, Secrets, Subject};

/// A look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Who it is about.
    pub subject: Subject,
    /// Which HA1 is wanted.
    pub algorithm: Algorithm,
    /// The digest itself, where the store verifies it. Such look-ups never join, and
    /// nothing of them is kept.
    pub digest: Option<Box<DigestRequest>>,
    /// What it is for.
    pub why: Why,
}

/// What a look-up is for, and so who may answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// To compare a digest with what a cache or the store has.
    Digest,
    /// The same once more: a digest did not match what a cache had, and the store is asked.
    DigestAgain,
    /// The same once more: a cache had nothing to compare a digest with, and the store is asked.
    DigestUncached,
    /// To say whether there is such a user. The store is asked: an answer that came sooner
    /// would tell whoever calls a name that others have used it just now.
    Existence,
}

/// Tells the batches of one pipeline apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BatchId(pub u64);

/// Which of the stores that hold the same users, by its place in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Replica(pub usize);

/// What one statement asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rows {
    /// The secrets of subjects, none of them twice.
    Secrets(Vec<Subject>),
    /// One digest to verify.
    Verify(Box<DigestRequest>),
}

/// A name that nobody has. Asked for in the place of one that a store cannot be asked for, so that
/// its answer comes as late as another, and to see whether a store answers at all.
pub const ABSENT_USER: &str = "signet-there-is-no-such-user";

impl Rows {
    /// The realm that it is about, or that of the first of its users.
    pub fn realm(&self) -> Option<Arc<str>> {
        match self {
            Self::Secrets(subjects) => subjects.first().map(|first| Arc::clone(first.realm())),
            Self::Verify(digest) => Some(Arc::clone(&digest.realm)),
        }
    }

    /// The same question about a user of a realm whom nobody has, with nothing in it that a
    /// stranger chose.
    #[must_use]
    pub fn about_nobody(&self, realm: &Arc<str>) -> Self {
        match self {
            Self::Secrets(_) => {
                let nobody = Subject::new(ABSENT_USER.as_bytes(), Arc::clone(realm));
                Self::Secrets(vec![nobody])
            }
            Self::Verify(_) => Self::Verify(Box::new(DigestRequest {
                user: ABSENT_USER.as_bytes().to_vec(),
                realm: Arc::clone(realm),
                nonce: b"0".to_vec(),
                method: b"REGISTER".to_vec(),
                uri: format!("sip:{realm}").into_bytes(),
                qop: Qop::Auth,
                algorithm: Algorithm::Md5,
                cnonce: b"0".to_vec(),
                nonce_count: b"00000001".to_vec(),
                response: vec![b'0'; 2 * Algorithm::Md5.digest_len()],
                body_digest: None,
            })),
        }
    }
}

/// What is to be sent now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Comes back with the answer.
    pub id: BatchId,
    /// Where it is to be sent.
    pub replica: Replica,
    /// What it asks.
    pub rows: Rows,
}

/// What a store said about one subject: his secrets, `None` where there is no such user.
/// A row that cannot be read is this user's matter and no other's.
pub type Row = Result<Option<Secrets>, BadRow>;

/// A row that is of no use: what is wrong with it, without what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadRow {
    /// It is there and is no good: what was known of its user counts no more.
    Bad(String),
    /// Whether it is there, and what is in it, was not told.
    Untold(String),
}

/// What a store said to a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchAnswer {
    /// One row for each subject, in their order.
    Rows(Vec<Row>),
    /// Whether the digest is right.
    Verified(bool),
}

/// Why a whole batch has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchFailure {
    /// No connection, or it ended: the store may be gone.
    Unreachable(String),
    /// The store ended the connection over the statement each time that it was asked, and answered
    /// another: it is there, and what it cannot bear is in the statement.
    Ended(String),
    /// The store does not let us log in: it is there, and answers nothing that we ask.
    LogInRefused(String),
    /// The store refused the statement, or answered what cannot be understood. It is there: what
    /// it does not like is in the statement.
    Refused(String),
    /// The store refuses whatever is asked about users, whoever they are, as where its table or a
    /// right is missing: it is there, and of no use.
    Unusable(String),
    /// The store broke the statement off, as for its time, a lock, or a change that it waited for:
    /// it is there, and may answer the same the next time.
    Cancelled(String),
    /// No answer in time.
    TimedOut,
}

/// A look-up that has no answer: the sender is told to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// After how long, where that is known.
    pub retry_after_s: Option<u32>,
}

/// What became of a look-up.
pub type Outcome = Result<Reply, Unavailable>;

impl std::fmt::Display for BadRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bad(why) | Self::Untold(why) => f.write_str(why),
        }
    }
}

impl std::fmt::Display for BatchFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable(why) => write!(f, "it cannot be reached: {why}"),
            Self::LogInRefused(why) => write!(
                f,
                "it refused our log-in ({why}): see whether it knows the user and the password \
                 that are configured, and lets this machine in"
            ),
            Self::Ended(why) => write!(f, "it ends the connection over the question: {why}"),
            Self::Refused(why) => write!(f, "it refused the question: {why}"),
            Self::Unusable(why) => write!(
                f,
                "no user can be asked for in it ({why}): see its tables and columns, or its \
                 address, and what it lets our user do"
            ),
            Self::Cancelled(why) => write!(f, "it broke the question off: {why}"),
            Self::TimedOut => f.write_str("it did not answer in time"),
        }
    }
}
