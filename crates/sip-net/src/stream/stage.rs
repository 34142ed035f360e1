//! Where a connection stands.

use std::time::Instant;

use sip_tls::{Handshake, HandshakeSlot, QueuedStep};

use crate::event::CloseReason;

/// Where a connection stands, with what belongs to it there alone.
pub(crate) enum Stage {
    /// It is being opened.
    Connecting {
        deadline_ms: u64,
        /// Whether it is to be closed as soon as its messages were written.
        closes: bool,
    },
    /// Its TLS handshake is under way.
    Handshaking {
        deadline_ms: u64,
        closes: bool,
        /// `None` while its next step is being taken.
        pending: Option<Box<Pending>>,
    },
    /// The request to make a WebSocket of it is awaited, or the answer to ours.
    Upgrading {
        deadline_ms: u64,
        /// Bytes of the request or answer in which its end is not.
        scanned: usize,
        /// Whether it is to be closed as soon as its messages were written.
        closes: bool,
    },
    /// It carries messages.
    Open,
    /// It ends.
    Closing {
        deadline_ms: u64,
        reason: CloseReason,
        ending: Ending,
    },
}

/// How far the end of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// What came cannot be framed, or not be answered: nothing is read any
    /// more, and the owner may answer before he closes.
    ReadStopped,
    /// The same after the owner has closed: requests that came before are yet to be
    /// answered.
    Answering,
    /// The same, but its last word is queued, behind which it is closed.
    LastWord,
    /// The last bytes are being written.
    Writing,
    /// They were written; the peer is to close.
    Lingering,
}

/// A TLS handshake.
pub(crate) struct Pending {
    pub(crate) place: HandshakeSlot,
    pub(crate) begun: Instant,
    /// `None` while a thread has it.
    pub(crate) handshake: Option<Box<Handshake>>,
    pub(crate) queued_step: Option<QueuedStep>,
    /// Whether it is a client's whose hello is yet to come.
    pub(crate) is_silent: bool,
    /// Whether the socket became readable in the meantime.
    pub(crate) readable: bool,
    /// Whether it waits in the list of those that a turn had no room for.
    pub(crate) is_deferred: bool,
}

impl Stage {
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }

    pub(crate) const fn is_handshaking(&self) -> bool {
        matches!(self, Self::Handshaking { .. })
    }

    /// Whether it is a handshake whose client has not said hello.
    pub(crate) fn is_silent(&self) -> bool {
        let Self::Handshaking { pending, .. } = self else {
            return false;
        };
        pending.as_ref().is_some_and(|pending| pending.is_silent)
    }

    /// Whether its client has to wait for this side: for a turn in which its socket is read, or
    /// for a thread.
    pub(crate) fn waits_for_us(&mut self) -> bool {
        let pending = self.pending();
        pending.is_some_and(|pending| pending.is_deferred || pending.handshake.is_none())
    }

    /// That client has said hello, and has until then.
    pub(crate) fn hear_hello(&mut self, until_ms: u64) {
        if let Self::Handshaking {
            deadline_ms,
            pending: Some(pending),
            ..
        } = self
        {
            *deadline_ms = until_ms;
            pending.is_silent = false;
        }
    }

    /// That client was asked for another hello, and has until then.
    pub(crate) fn wait_for_another_hello(&mut self, until_ms: u64) {
        if let Self::Handshaking {
            deadline_ms,
            pending: Some(pending),
            ..
        } = self
        {
            *deadline_ms = until_ms.min(*deadline_ms);
            pending.is_silent = true;
        }
    }

    /// Whether what the peer sends is taken.
    pub(crate) const fn is_read(&self) -> bool {
        matches!(self, Self::Open | Self::Upgrading { .. })
    }

    /// Whether it is not up yet, and is to be closed as soon as it is and its
    /// messages were written.
    pub(crate) const fn closes_when_open(&self) -> bool {
        matches!(
            self,
            Self::Connecting { closes: true, .. }
                | Self::Handshaking { closes: true, .. }
                | Self::Upgrading { closes: true, .. }
        )
    }

    /// How far its end is, if it ends.
    pub(crate) const fn ending(&self) -> Option<Ending> {
        match self {
            Self::Closing { ending, .. } => Some(*ending),
            _ => None,
        }
    }

    /// The handshake, where one waits for its next step.
    pub(crate) fn pending(&mut self) -> Option<&mut Pending> {
        match self {
            Self::Handshaking { pending, .. } => pending.as_deref_mut(),
            _ => None,
        }
    }

    /// Takes it out for a step.
    pub(crate) fn take_pending(&mut self) -> Option<Box<Pending>> {
        match self {
            Self::Handshaking { pending, .. } => pending.take(),
            _ => None,
        }
    }

    /// Puts it back after the step.
    pub(crate) fn put_pending(&mut self, taken: Box<Pending>) {
        if let Self::Handshaking { pending, .. } = self {
            *pending = Some(taken);
        }
    }
}
