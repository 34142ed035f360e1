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
        /// Whether that was moved, because what came had to wait for its turn.
        is_prolonged: bool,
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
    /// Whether it is a client's whose hello is yet to come, or the other one that it was asked
    /// for.
    pub(crate) is_silent: bool,
    /// Until when such a hello may come.
    pub(crate) hello_until_ms: u64,
    /// Since when such a hello is awaited, or what follows the answer to it: however a client
    /// dribbles that, it gains no time. `None` while its hello is being answered.
    pub(crate) since_ms: Option<u64>,
    /// Whether some of that came, and not all.
    pub(crate) has_said_part: bool,
    /// When it is to be over: known from the first hello on.
    pub(crate) ends_ms: Option<u64>,
    /// Since when a thread has its step, where the hello is still to come.
    pub(crate) thread_since_ms: Option<u64>,
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

    /// Whether its client has to wait for this side: for a turn in which its socket is read, or
    /// for a thread.
    pub(crate) fn waits_for_us(&mut self) -> bool {
        let pending = self.pending();
        pending.is_some_and(|pending| pending.is_deferred || pending.handshake.is_none())
    }

    /// Its client has said hello: from the first one on it has so long for all.
    pub(crate) fn hear_hello(&mut self, now_ms: u64, timeout_ms: u64) {
        if let Some((deadline_ms, pending)) = self.handshake() {
            let ends_ms = pending.ends_ms;
            *deadline_ms = ends_ms.unwrap_or(now_ms.saturating_add(timeout_ms));
            pending.ends_ms = Some(*deadline_ms);
            pending.is_silent = false;
            pending.since_ms = None;
            pending.has_said_part = false;
            pending.place.hear();
        }
    }

    /// That client was asked for another hello, and has until then.
    pub(crate) fn wait_for_another_hello(&mut self, until_ms: u64) {
        if let Some((deadline_ms, pending)) = self.handshake() {
            *deadline_ms = until_ms.min(*deadline_ms);
            pending.hello_until_ms = *deadline_ms;
            pending.is_silent = true;
            pending.since_ms = None;
            pending.has_said_part = false;
        }
    }

    /// Its next step is with a thread. What may be a whole hello is in it: the time for that
    /// does not run meanwhile.
    pub(crate) fn wait_for_thread(&mut self, now_ms: u64, timeout_ms: u64) {
        if let Some((deadline_ms, pending)) = self.handshake()
            && pending.is_silent
        {
            *deadline_ms = pending.ends_ms.unwrap_or(now_ms.saturating_add(timeout_ms));
            pending.thread_since_ms = Some(now_ms);
        }
    }

    /// What may be a whole hello is there, and nobody has read it: the time for that does not run
    /// meanwhile. Whether any of the time for all is left.
    pub(crate) fn wait_for_turn(&mut self, now_ms: u64, timeout_ms: u64) -> bool {
        let Some((deadline_ms, pending)) = self.handshake() else {
            return false;
        };
        if !pending.is_silent || pending.handshake.is_none() {
            return false;
        }
        let until_ms = pending.hello_until_ms.saturating_add(timeout_ms);
        *deadline_ms = pending.ends_ms.unwrap_or(until_ms);
        now_ms < *deadline_ms
    }

    /// That is done. Whether the hello is still to come.
    pub(crate) fn is_still_silent(&mut self, now_ms: u64) -> bool {
        let Some((deadline_ms, pending)) = self.handshake() else {
            return false;
        };
        if !pending.is_silent {
            return false;
        }
        let since_ms = pending.thread_since_ms.take().unwrap_or(now_ms);
        let waited_ms = now_ms.saturating_sub(since_ms);
        let until_ms = pending.hello_until_ms.saturating_add(waited_ms);
        pending.hello_until_ms = until_ms.min(pending.ends_ms.unwrap_or(u64::MAX));
        *deadline_ms = pending.hello_until_ms;
        if let Some(since_ms) = &mut pending.since_ms {
            *since_ms = since_ms.saturating_add(waited_ms);
        }
        true
    }

    fn handshake(&mut self) -> Option<(&mut u64, &mut Pending)> {
        match self {
            Self::Handshaking {
                deadline_ms,
                pending: Some(pending),
                ..
            } => Some((deadline_ms, pending)),
            _ => None,
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use sip_tls::{HandshakeConfig, HandshakePool};

    use super::*;

    fn deadline_ms(stage: &Stage) -> u64 {
        match stage {
            Stage::Handshaking { deadline_ms, .. } => *deadline_ms,
            _ => 0,
        }
    }

    /// Its step may be long in a queue, and its client has said all that it has to.
    #[test]
    fn the_time_of_another_hello_does_not_run_while_it_waits_for_a_thread() {
        let pool = HandshakePool::start(HandshakeConfig::default()).unwrap();
        let pending = Pending {
            place: pool.admit(Some([192, 0, 2, 1].into())).unwrap(),
            begun: Instant::now(),
            handshake: None,
            queued_step: None,
            is_silent: true,
            hello_until_ms: 500,
            since_ms: Some(0),
            has_said_part: false,
            ends_ms: None,
            thread_since_ms: None,
            readable: false,
            is_deferred: false,
        };
        let mut stage = Stage::Handshaking {
            deadline_ms: 500,
            closes: false,
            pending: Some(Box::new(pending)),
        };
        // The first hello comes in two records, which may be one that is not whole.
        stage.wait_for_thread(100, 1_000);
        assert_eq!(deadline_ms(&stage), 1_100);
        assert!(stage.is_still_silent(350));
        assert_eq!(deadline_ms(&stage), 750);
        // Nor is it counted against the client where places are short.
        assert_eq!(stage.pending().unwrap().since_ms, Some(250));
        assert!(stage.is_still_silent(360));
        assert_eq!(deadline_ms(&stage), 750);
        stage.hear_hello(400, 1_000);
        assert_eq!(deadline_ms(&stage), 1_400);
        stage.wait_for_another_hello(900);
        assert_eq!(deadline_ms(&stage), 900);
        stage.wait_for_thread(600, 1_000);
        assert_eq!(deadline_ms(&stage), 1_400);
        // It was not a whole one.
        assert!(stage.is_still_silent(650));
        assert_eq!(deadline_ms(&stage), 950);
        stage.wait_for_thread(700, 1_000);
        assert!(stage.is_still_silent(1_300));
        assert_eq!(deadline_ms(&stage), 1_400);
        stage.hear_hello(1_350, 1_000);
        assert!(!stage.is_still_silent(1_360));
        assert_eq!(deadline_ms(&stage), 1_400);
    }
}
