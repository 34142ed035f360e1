//! What the gate answers to a request that it does not let through.

use std::sync::Arc;

use ledger::{Component, enter};
use sip_auth::{Claimant, Failure, Side};
use sip_msg::{HeaderName, Message, ResponseWriter};

use super::{GateContext, identity};
use crate::refusal::{Reason, StatusLine};

/// An answer of the gate: a challenge, 403, 400, 500 or 503.
#[derive(Debug)]
pub struct Refusal {
    status: u16,
    /// What it is recorded as.
    reason: Reason,
    why: Why,
    /// Whether the request answered a challenge that was sent to where it came from.
    is_of_answer: bool,
    /// What was wrong with its credentials.
    failure: Option<Failure>,
    /// Whether it was recorded before it is answered.
    is_recorded: bool,
}

#[derive(Debug)]
enum Why {
    Challenge {
        side: Side,
        realm: Arc<str>,
        stale: bool,
    },
    Malformed(&'static str),
    Forbidden,
    /// Its sender does not speak for this host.
    SpeaksForOthers(Box<str>),
    Unavailable {
        /// When to try again, where that is known.
        retry_after_s: Option<u32>,
    },
    /// Its sender is foreign to the domains that are known, which are not all yet.
    Later,
}

impl Refusal {
    /// The status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The host that the request named without its sender's speaking for it,
    /// where that is the reason.
    pub fn claimed(&self) -> Option<&str> {
        match &self.why {
            Why::SpeaksForOthers(host) => Some(host),
            _ => None,
        }
    }

    /// The status line of its answer.
    pub fn line(&self) -> StatusLine {
        let line = StatusLine::refused(self.status, self.reason);
        let line = match self.why {
            Why::Malformed(phrase) => line.saying(phrase),
            _ => line,
        };
        line.to_proven(self.is_of_answer).recorded(self.is_recorded)
    }

    /// Appends the whole response. `mark` is what the nonce of a challenge bears.
    pub fn write(
        &self,
        cx: &GateContext<'_>,
        request: &Message,
        mark: u64,
        to_tag: &[u8],
        out: &mut Vec<u8>,
    ) {
        let phrase = self.line().phrase();
        let mut writer = ResponseWriter::begin(out, request, self.status, phrase, to_tag);
        match &self.why {
            // RFC 3261 22.3: "The proxy MUST populate the 407 (Proxy Authentication Required) message with a
            // Proxy-Authenticate header field value applicable to the proxy for the requested resource."
            Why::Challenge { side, realm, stale } => {
                let user_agent = request
                    .first(HeaderName::UserAgent)
                    .map_or(&[][..], |f| f.value);
                // Who is named counts only where that changes what is asked.
                let tells_apart = !cx.shared.authenticator.config().lenient.is_empty();
                let user = match tells_apart {
                    true => identity::named_user(cx, request, *side),
                    false => Vec::new(),
                };
                let _authentication = enter(Component::Authentication);
                cx.shared.authenticator.add_challenge(
                    cx.now.unix_ms,
                    *side,
                    realm,
                    *stale,
                    mark,
                    &Claimant {
                        source: Some(cx.sender.flow.remote.ip()),
                        user: &user,
                        user_agent,
                    },
                    &mut writer,
                );
            }
            // RFC 3261 20.33: "The Retry-After header field can be used with a 500 (Server Internal
            // Error) or 503 (Service Unavailable) response to indicate how long the service is
            // expected to be unavailable to the requesting client"
            Why::Unavailable { retry_after_s } => {
                let seconds = retry_after_s.unwrap_or(cx.settings.bounds.retry_after_s);
                writer.number("Retry-After", u64::from(seconds));
            }
            Why::Later => {
                let seconds = cx.settings.bounds.retry_after_s;
                writer.number("Retry-After", u64::from(seconds));
            }
            Why::Malformed(_) | Why::Forbidden | Why::SpeaksForOthers(_) => {}
        }
        if !cx.settings.server_header.is_empty() {
            writer.header("Server", cx.settings.server_header.as_bytes());
        }
        writer.finish(&[]);
    }

    /// The refusal of a request that answered a challenge that was sent to where it
    /// came from.
    pub(crate) fn of_answer(mut self) -> Self {
        self.is_of_answer = true;
        self
    }

    /// Whether it is that.
    pub(crate) fn is_of_answer(&self) -> bool {
        self.is_of_answer
    }

    /// Whether it says that the credentials were wrong, and not only their nonce.
    pub(crate) fn is_of_credentials(&self) -> bool {
        matches!(
            self.failure,
            Some(Failure::WrongPassword | Failure::UnknownUser)
        )
    }

    /// What was wrong with the credentials of the request.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// Whether somebody may be guessing passwords.
    pub(crate) fn is_of_guess(&self) -> bool {
        self.is_of_credentials() || self.failure == Some(Failure::TooManyGuesses)
    }

    /// The same, after it was recorded.
    pub(crate) fn recorded(mut self) -> Self {
        self.is_recorded = true;
        self
    }

    /// The same for another reason: the gate does not know which addresses are gateways.
    pub(crate) fn because(mut self, reason: Reason) -> Self {
        self.reason = reason;
        self
    }

    /// Why it is refused.
    pub(crate) fn reason(&self) -> Reason {
        self.reason
    }

    /// Whether it is the sender's doing, who may be charged for it: the store's trouble is not.
    pub(crate) fn is_senders(&self) -> bool {
        !matches!(self.why, Why::Unavailable { .. })
    }

    /// What is sent in its place to a source that was refused too often.
    pub(crate) fn too_many(&self) -> Self {
        let why = Why::Unavailable {
            retry_after_s: None,
        };
        Self {
            is_recorded: self.is_recorded,
            ..Self::new(503, Reason::RefusedTooOften, why)
        }
    }

    /// A challenge; with a failure, of credentials that were no good.
    pub(super) fn challenge(realm: Arc<str>, side: Side, failure: Option<Failure>) -> Self {
        let stale = failure.is_some_and(Failure::is_stale);
        let reason = failure.map_or(Reason::Challenged, Reason::from);
        Self {
            failure,
            ..Self::new(side.status(), reason, Why::Challenge { side, realm, stale })
        }
    }

    /// A challenge to a caller who does not say who he is.
    pub(super) fn challenge_anonymous(realm: Arc<str>) -> Self {
        let side = Side::Proxy;
        let why = Why::Challenge {
            side,
            realm,
            stale: false,
        };
        Self::new(side.status(), Reason::AnonymousCaller, why)
    }

    /// A challenge to who may not be where he seems to be.
    pub(super) fn challenge_there(realm: Arc<str>, side: Side) -> Self {
        let why = Why::Challenge {
            side,
            realm,
            stale: true,
        };
        Self::new(side.status(), Reason::SourceUnproved, why)
    }

    /// The store's trouble, or its pipeline's.
    pub(super) fn unavailable(status: u16, reason: Reason, retry_after_s: Option<u32>) -> Self {
        Self {
            failure: Some(Failure::StoreUnavailable),
            ..Self::new(status, reason, Why::Unavailable { retry_after_s })
        }
    }

    /// What a stranger is told who may be one of ours: to come again.
    pub(super) fn later(status: u16, reason: Reason) -> Self {
        Self::new(status, reason, Why::Later)
    }

    pub(super) fn forbidden(reason: Reason) -> Self {
        Self::new(403, reason, Why::Forbidden)
    }

    /// The refusal of a user who speaks for somebody else.
    pub(super) fn not_himself() -> Self {
        Self {
            failure: Some(Failure::NotHimself),
            ..Self::forbidden(Reason::NotHimself)
        }
    }

    pub(super) fn speaks_for_others(host: Box<str>) -> Self {
        Self::new(403, Reason::SpeaksForOthers, Why::SpeaksForOthers(host))
    }

    pub(crate) fn malformed(phrase: &'static str) -> Self {
        Self::new(400, Reason::Malformed, Why::Malformed(phrase))
    }

    /// The refusal of credentials that cannot be read.
    pub(super) fn malformed_credentials(phrase: &'static str) -> Self {
        let why = Why::Malformed(phrase);
        Self {
            failure: Some(Failure::Malformed),
            ..Self::new(400, Reason::CredentialsMalformed, why)
        }
    }

    fn new(status: u16, reason: Reason, why: Why) -> Self {
        Self {
            status,
            reason,
            why,
            is_of_answer: false,
            failure: None,
            is_recorded: false,
        }
    }
}
