//! What the gate answers to a request that it does not let through.

use std::sync::Arc;

use sip_auth::{Failure, Side};
use sip_msg::{HeaderName, Message, ResponseWriter};

use super::GateContext;

/// An answer of the gate: a challenge, 403, 400, 500 or 503.
#[derive(Debug)]
pub struct Refusal {
    pub(super) status: u16,
    pub(super) why: Why,
    /// Whether the request answered a challenge that was sent to where it came from.
    pub(super) is_of_answer: bool,
    /// What was wrong with its credentials.
    pub(super) failure: Option<Failure>,
}

#[derive(Debug)]
pub(super) enum Why {
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

    /// Appends the whole response. `mark` is what the nonce of a challenge bears.
    pub fn write(
        &self,
        cx: &GateContext<'_>,
        request: &Message,
        mark: u16,
        to_tag: &[u8],
        out: &mut Vec<u8>,
    ) {
        let reason = match self.why {
            Why::Malformed(reason) => reason,
            _ => sip_msg::write::reason_phrase(self.status),
        };
        let mut writer = ResponseWriter::begin(out, request, self.status, reason, to_tag);
        match &self.why {
            // RFC 3261 22.3: "The proxy MUST populate the 407 (Proxy Authentication Required) message with a
            // Proxy-Authenticate header field value applicable to the proxy for the requested resource."
            Why::Challenge { side, realm, stale } => {
                let user_agent = request
                    .first(HeaderName::UserAgent)
                    .map_or(&[][..], |f| f.value);
                cx.shared.authenticator.add_challenge(
                    cx.now.unix_ms,
                    *side,
                    realm,
                    *stale,
                    mark,
                    user_agent,
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

    /// Which credentials are asked for, where it is a challenge.
    pub(crate) fn asks_for(&self) -> Option<(Side, &Arc<str>)> {
        match &self.why {
            Why::Challenge { side, realm, .. } => Some((*side, realm)),
            _ => None,
        }
    }

    /// Whether the request is no one's whom the server can trust: the server's
    /// own trouble is not his fault.
    pub(crate) fn is_senders(&self) -> bool {
        !matches!(self.why, Why::Unavailable { .. })
    }

    /// What is sent in its place to a source that was refused too often.
    pub(crate) fn too_many() -> Self {
        Self {
            status: 503,
            why: Why::Unavailable {
                retry_after_s: None,
            },
            is_of_answer: false,
            failure: None,
        }
    }

    pub(super) fn forbidden() -> Self {
        Self {
            status: 403,
            why: Why::Forbidden,
            is_of_answer: false,
            failure: None,
        }
    }

    /// The refusal of a user who speaks for somebody else.
    pub(super) fn not_himself() -> Self {
        Self {
            failure: Some(Failure::NotHimself),
            ..Self::forbidden()
        }
    }

    pub(super) fn speaks_for_others(host: Box<str>) -> Self {
        Self {
            status: 403,
            why: Why::SpeaksForOthers(host),
            is_of_answer: false,
            failure: None,
        }
    }

    pub(crate) fn malformed(reason: &'static str) -> Self {
        Self {
            status: 400,
            why: Why::Malformed(reason),
            is_of_answer: false,
            failure: None,
        }
    }
}
