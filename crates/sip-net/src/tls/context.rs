//! What a handshake learns on its way, beside what the library tells.
//!
//! The library asks stores, verifiers and ticket makers without saying for
//! which connection. A handshake runs on one thread, a step at a time: around
//! each step its context is the thread's.

use std::cell::RefCell;

use rustls::pki_types::CertificateDer;

use super::fault::CertificateFault;

/// How a session was resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resumption {
    /// TLS 1.2 with a session id (RFC 5246 7.3).
    SessionId,
    /// TLS 1.2 with a ticket (RFC 5077).
    Ticket,
    /// TLS 1.3 with a ticket, which is a pre-shared key (RFC 8446 2.2).
    Psk,
}

impl Resumption {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Self; 3] = [Self::SessionId, Self::Ticket, Self::Psk];

    /// A short name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SessionId => "session_id",
            Self::Ticket => "ticket",
            Self::Psk => "psk",
        }
    }
}

/// What one handshake learned.
#[derive(Default)]
pub(crate) struct Context {
    /// The chain of the peer, once it was verified, in this handshake or again
    /// for a session that is resumed.
    pub(crate) chain: Vec<CertificateDer<'static>>,
    /// When the first certificate of the chain ends, in seconds since 1970;
    /// `None` where no chain was verified.
    pub(crate) not_after_unix_s: Option<u64>,
    /// How the stored session was found, where one was.
    pub(crate) found: Option<Resumption>,
    /// Why a stored session was not taken: its certificate.
    pub(crate) refused: Option<CertificateFault>,
}

thread_local! {
    static CURRENT: RefCell<Context> = RefCell::default();
}

impl Context {
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
