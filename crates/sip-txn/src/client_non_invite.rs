//! The non-INVITE client transaction (RFC 3261 17.1.2, figure 6).

use crate::machine::Action::{Forget, Inform, Keep, PassUp, Repeat, Send, Start, StartAtT2, Stop};
use crate::machine::{Action, ClientEvent as Event, Notice, Timer};

/// Its states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Before the request.
    Initial,
    Trying,
    Proceeding,
    Completed,
    Terminated,
}

/// Where an event leads, and what is to be done. An event that means nothing
/// in a state changes nothing.
pub(crate) const fn step(state: State, event: Event) -> (State, &'static [Action]) {
    match (state, event) {
        // RFC 3261 17.1.2.2: "When entering this state, the client transaction SHOULD set timer F to
        // fire in 64*T1 seconds. The request MUST be passed to the transport layer for transmission.
        // If an unreliable transport is in use, the client transaction MUST set timer E to fire in T1
        // seconds."
        (State::Initial, Event::Request) => (
            State::Trying,
            &[Send, Keep, Start(Timer::E), Start(Timer::F)],
        ),

        (State::Trying, Event::Timer(Timer::E)) => (State::Trying, &[Repeat, Start(Timer::E)]),
        // RFC 3261 17.1.2.2: "If Timer E fires while in the "Proceeding" state, the request MUST be
        // passed to the transport layer for retransmission, and Timer E MUST be reset with a value of
        // T2 seconds."
        (State::Proceeding, Event::Timer(Timer::E)) => {
            (State::Proceeding, &[Repeat, StartAtT2(Timer::E)])
        }

        // RFC 3261 17.1.2.2: "If Timer F fires while the client transaction is still in the "Trying"
        // state, the client transaction SHOULD inform the TU about the timeout, and then it SHOULD
        // enter the "Terminated" state."
        // RFC 3261 17.1.2.2: "If timer F fires while in the "Proceeding" state, the TU MUST be informed
        // of a timeout, and the client transaction MUST transition to the terminated state."
        (State::Trying | State::Proceeding, Event::Timer(Timer::F)) => (
            State::Terminated,
            &[Stop(Timer::E), Inform(Notice::Timeout)],
        ),

        // RFC 3261 17.1.4: "The client transaction SHOULD inform the TU that a transport failure has
        // occurred, and the client transaction SHOULD transition directly to the "Terminated" state."
        (State::Trying | State::Proceeding, Event::TransportError)
        // A connection that ends before any response is such a failure; after a provisional
        // one the final one may come over another connection (RFC 3261 18.2.2).
        | (State::Trying, Event::ConnectionLost) => (
            State::Terminated,
            &[Stop(Timer::E), Stop(Timer::F), Inform(Notice::Failed)],
        ),

        // RFC 3261 17.1.2.2: "If a provisional response is received while in the "Trying" state, the
        // response MUST be passed to the TU, and then the client transaction SHOULD move to the
        // "Proceeding" state."
        (State::Trying | State::Proceeding, Event::Provisional) => (State::Proceeding, &[PassUp]),

        // RFC 3261 17.1.2.2: "If a final response (status codes 200-699) is received while in the
        // "Trying" state, the response MUST be passed to the TU, and the client transaction MUST
        // transition to the "Completed" state."
        // RFC 3261 17.1.2.2: "If a final response (status codes 200-699) is received while in the
        // "Proceeding" state, the response MUST be passed to the TU, and the client transaction MUST
        // transition to the "Completed" state."
        // RFC 3261 17.1.2.2: "Once the client transaction enters the "Completed" state, it MUST set
        // Timer K to fire in T4 seconds for unreliable transports, and zero seconds for reliable
        // transports."
        (State::Trying | State::Proceeding, Event::Success | Event::Failure) => (
            State::Completed,
            &[
                Stop(Timer::E),
                Stop(Timer::F),
                Forget,
                Start(Timer::K),
                PassUp,
            ],
        ),
        // RFC 3261 17.1.2.2: "If Timer K fires while in this state, the client transaction MUST
        // transition to the "Terminated" state."
        (State::Completed, Event::Timer(Timer::K)) => {
            (State::Terminated, &[Inform(Notice::Terminated)])
        }

        (state, _) => (state, &[]),
    }
}
