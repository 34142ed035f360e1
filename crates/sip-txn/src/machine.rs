//! What the four state machines have in common: their events, their actions
//! and the durations of their timers (RFC 3261 17, table 4 of its annex A).

use crate::Timers;

/// The timers, by their letters; the last ones have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Timer {
    A = 1,
    B,
    D,
    E,
    F,
    G,
    H,
    I,
    J,
    K,
    L,
    M,
    /// How long a cancelled INVITE may stay without a final response
    /// (RFC 3261 9.1).
    Cancelled,
    /// When a 100 is due to an INVITE (RFC 3261 17.2.1).
    Trying,
    /// When a 100 is due to another request (RFC 4320 4.1).
    TryingLate,
    /// When the client of an unanswered non-INVITE has given up.
    Expiry,
}

impl Timer {
    pub(crate) const ALL: [Self; 16] = [
        Self::A,
        Self::B,
        Self::D,
        Self::E,
        Self::F,
        Self::G,
        Self::H,
        Self::I,
        Self::J,
        Self::K,
        Self::L,
        Self::M,
        Self::Cancelled,
        Self::Trying,
        Self::TryingLate,
        Self::Expiry,
    ];

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|timer| *timer as u8 == number)
    }

    /// Whether this timer repeats a message. A transaction runs at most one
    /// that does and one that does not.
    pub(crate) const fn repeats(self) -> bool {
        matches!(self, Self::A | Self::E | Self::G)
    }
}

/// What happens to a client transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientEvent {
    /// The core gives the request.
    Request,
    /// A 1xx came.
    Provisional,
    /// A 2xx came.
    Success,
    /// A 300-699 came.
    Failure,
    /// A timer fired.
    Timer(Timer),
    /// A message could not be sent.
    TransportError,
    /// A message was sent, and then its connection ended.
    ConnectionLost,
}

impl ClientEvent {
    pub(crate) const fn from_status(status: u16) -> Self {
        match status {
            0..200 => Self::Provisional,
            200..300 => Self::Success,
            _ => Self::Failure,
        }
    }
}

/// What happens to a server transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerEvent {
    /// The request came again.
    Request,
    /// An ACK came.
    Ack,
    /// The core gives a 1xx.
    Provisional,
    /// The core gives a 2xx.
    Success,
    /// The core gives a 300-699.
    Failure,
    /// A timer fired.
    Timer(Timer),
    /// A message could not be sent.
    TransportError,
}

impl ServerEvent {
    pub(crate) const fn from_status(status: u16) -> Self {
        match status {
            0..200 => Self::Provisional,
            200..300 => Self::Success,
            _ => Self::Failure,
        }
    }
}

/// What a transition asks for, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Pass the message at hand to the transport.
    Send,
    /// Keep a copy of the message at hand, in the place of an older one.
    Keep,
    /// Pass the kept message to the transport once more.
    Repeat,
    /// Free the kept message.
    Forget,
    /// Write the ACK to the response at hand, send it, keep it in the place of
    /// the request.
    Ack,
    /// Pass the message at hand to the core.
    PassUp,
    /// Do not send the response that the core gave.
    Refuse,
    /// Start a timer; one that repeats doubles its interval each time.
    Start(Timer),
    /// Start a timer that repeats with T2 from now on.
    StartAtT2(Timer),
    /// Stop a timer.
    Stop(Timer),
    /// Tell the core.
    Inform(Notice),
}

/// What the core is informed of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// No final response will come (timers B and F).
    Timeout,
    /// The transport failed.
    Failed,
    /// The transport failed to take the ACK, after the final response.
    AckFailed,
    /// No ACK will come (timer H).
    AckTimeout,
    /// It is time for a 100.
    Trying,
    /// The core did not answer in time.
    Expired,
    /// The transaction ended in the ordinary way.
    Terminated,
}

impl Timers {
    /// For how long a timer runs. `None`: it is not started at all; 0: it fires
    /// at once. `interval_ms` is what a timer that repeats ran for last, 0 at first.
    pub(crate) fn duration_ms(
        &self,
        timer: Timer,
        reliable: bool,
        interval_ms: u64,
    ) -> Option<u64> {
        let doubled_ms = if interval_ms == 0 {
            self.t1_ms
        } else {
            interval_ms.saturating_mul(2)
        };
        match timer {
            // RFC 3261 17.1.1.2: "If a reliable transport is being used, the client transaction SHOULD
            // NOT start timer A (Timer A controls request retransmissions)."
            // RFC 3261 17.2.1: "For unreliable transports, timer G is set to fire in T1 seconds, and is
            // not set to fire for reliable transports."
            Timer::A | Timer::E | Timer::G if reliable => None,
            // RFC 3261 17.1.1.2: "This process MUST continue so that the request is retransmitted with
            // intervals that double after each transmission."
            // RFC 3261 17.1.1.2: "Whatever the value of T1, the exponential backoffs on retransmissions
            // described in this section MUST be used."
            Timer::A => Some(doubled_ms),
            // RFC 3261 17.1.2.2: "If timer E fires while still in this state, the timer is reset, but
            // this time with a value of MIN(2*T1, T2). When the timer fires again, it is reset to a
            // MIN(4*T1, T2). This process continues so that retransmissions occur with an exponentially
            // increasing interval that caps at T2."
            // RFC 3261 17.2.1: "timer G is reset with a value that doubles, unless that value exceeds
            // T2, in which case it is reset with the value of T2."
            Timer::E | Timer::G if interval_ms == 0 => Some(self.t1_ms),
            Timer::E | Timer::G => Some(doubled_ms.min(self.t2_ms)),
            Timer::B | Timer::F | Timer::H | Timer::L | Timer::M | Timer::Cancelled => {
                Some(self.lifetime_ms())
            }
            // RFC 3261 17.1.1.2: "The client transaction SHOULD start timer D when it enters the
            // "Completed" state, with a value of at least 32 seconds for unreliable transports, and a
            // value of zero seconds for reliable transports."
            Timer::D | Timer::I | Timer::J | Timer::K if reliable => Some(0),
            Timer::D => Some(self.d_ms),
            Timer::I | Timer::K => Some(self.t4_ms),
            Timer::J => Some(self.lifetime_ms()),
            Timer::Trying => Some(self.trying_ms),
            Timer::TryingLate => Some(self.trying_late_ms()),
            Timer::Expiry => Some(
                self.lifetime_ms()
                    .saturating_sub(self.trying_late_ms())
                    .max(1),
            ),
        }
    }

    /// 64*T1.
    pub(crate) fn lifetime_ms(&self) -> u64 {
        self.t1_ms.saturating_mul(64)
    }

    /// How long after its start a client's timer E is reset to T2.
    fn trying_late_ms(&self) -> u64 {
        let mut interval_ms = self.t1_ms.max(1);
        let mut elapsed_ms = interval_ms;
        while interval_ms.saturating_mul(2) < self.t2_ms {
            interval_ms = interval_ms.saturating_mul(2);
            elapsed_ms = elapsed_ms.saturating_add(interval_ms);
        }
        elapsed_ms
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
