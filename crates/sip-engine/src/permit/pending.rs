//! Requests whose users must be looked up.

use sip_auth::{CredentialKey, Failure, Side, Subject};
use sip_limit::Reserved;
use sip_lookup::{Question, Why};
use sip_msg::Message;

use super::identity::CertifiedUser;
use super::{Gate, GateContext};

/// A request whose credentials were read, and whose user must be looked up:
/// his secret, or, with a certificate, whether there still is such a user.
#[derive(Debug)]
pub struct Pending {
    pub(super) credentials: Credentials,
    pub(super) side: Side,
    /// What the next question is for: whether a cache was asked before, and why that does not
    /// settle it.
    pub(super) why: Why,
    /// The places that the look-up takes.
    pub(crate) reserved: Reserved,
    /// When the look-up began.
    pub(crate) asked_ms: u64,
    /// When nobody waits for the look-up any more.
    pub(crate) until_ms: u64,
}

#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "the large one is the usual one, and boxing it would allocate"
)]
pub(super) enum Credentials {
    Digest(sip_auth::Pending),
    Certificate(CertifiedUser),
}

impl Pending {
    pub(super) fn new(credentials: Credentials, side: Side) -> Self {
        Self {
            credentials,
            side,
            why: Why::Digest,
            reserved: Reserved::default(),
            asked_ms: 0,
            until_ms: 0,
        }
    }

    /// What to look up, with the digest where the store verifies it.
    pub fn question(&self) -> Question {
        let why = self.why;
        match &self.credentials {
            Credentials::Digest(pending) => Question {
                subject: Subject::from(pending.key()),
                algorithm: pending.key().algorithm(),
                digest: pending.digest(),
                why,
            },
            Credentials::Certificate(user) => Question {
                subject: user.subject(),
                algorithm: user.algorithm,
                digest: None,
                why,
            },
        }
    }

    /// What the guard is to know of an attempt with a password: whose, by which nonce, and the
    /// mark that this bears. A certificate is no guess.
    pub(crate) fn guess(&self) -> Option<(&CredentialKey, u64, u64)> {
        match &self.credentials {
            Credentials::Digest(pending) => {
                Some((pending.key(), pending.nonce_serial(), pending.nonce_mark()))
            }
            Credentials::Certificate(_) => None,
        }
    }

    /// The answer where the credentials are not looked up: as to wrong ones.
    pub(crate) fn refuse_unseen(&self, cx: &GateContext<'_>, message: &Message) -> Gate {
        super::challenge(cx, message, self.side, Some(Failure::TooManyGuesses))
    }
}
