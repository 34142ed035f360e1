//! What a handshake learns on its way, beside what the library tells.
//!
//! The library asks stores, verifiers and ticket makers without saying for
//! which connection. A handshake runs on one thread, a step at a time: around
//! each step its context is the thread's.

use std::cell::RefCell;

use rustls::pki_types::CertificateDer;

use crate::fault::CertificateFault;
use crate::resumption::Resumption;

/// What one handshake learned.
#[derive(Default)]
pub(crate) struct Context {
    /// The chain of the peer, once it was verified, in this handshake or again
    /// for a session that is resumed.
    pub(crate) chain: Vec<CertificateDer<'static>>,
    /// When the first certificate ends of those that prove the peer, in seconds since 1970;
    /// `None` where no chain was verified.
    pub(crate) not_after_unix_s: Option<u64>,
    /// How the stored session was found, where one was.
    pub(crate) found: Option<Resumption>,
    /// How many chains of stored sessions were verified.
    pub(crate) chains_verified: u8,
    /// Why a stored session was not taken: its certificate.
    pub(crate) refused: Option<CertificateFault>,
    /// Whether nothing may be signed in this step: it was taken for a resumption.
    pub(crate) must_not_sign: bool,
    /// Whether something was to be signed all the same.
    pub(crate) was_to_sign: bool,
}

thread_local! {
    static CURRENT: RefCell<Context> = RefCell::default();
}

/// Chains of stored sessions that are verified for one handshake: a client may offer as many
/// sessions as fit into its hello. One, and another where that session does not do.
const CHAINS_VERIFIED_MAX: u8 = 2;

impl Context {
    /// Whether the chain of one more stored session may be verified; counts it.
    pub(crate) fn may_verify_chain(&mut self) -> bool {
        let may = self.chains_verified < CHAINS_VERIFIED_MAX;
        self.chains_verified += u8::from(may);
        may
    }

    /// What is left of it where the handshake begins anew: what was verified was verified.
    pub(crate) fn anew(self) -> Self {
        Self {
            chains_verified: self.chains_verified,
            ..Self::default()
        }
    }

    /// Runs a step of the handshake whose context this is.
    pub(crate) fn within<R>(&mut self, step: impl FnOnce() -> R) -> R {
        CURRENT.with_borrow_mut(|current| std::mem::swap(current, self));
        let result = step();
        CURRENT.with_borrow_mut(|current| std::mem::swap(current, self));
        result
    }
}

/// Reads or changes the context of the handshake that this thread is in.
pub(crate) fn current<R>(use_it: impl FnOnce(&mut Context) -> R) -> R {
    CURRENT.with_borrow_mut(use_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else two tickets for another name would buy four verifications.
    #[test]
    fn what_was_verified_counts_where_a_handshake_begins_anew() {
        let mut handshake = Context {
            was_to_sign: true,
            ..Context::default()
        };
        assert!(handshake.may_verify_chain());
        let mut handshake = handshake.anew();
        assert!(!handshake.was_to_sign);
        assert!(handshake.may_verify_chain());
        let mut handshake = handshake.anew();
        assert!(!handshake.may_verify_chain());
    }
}
