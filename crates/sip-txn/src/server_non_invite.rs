//! The non-INVITE server transaction (RFC 3261 17.2.2, figure 8).

use crate::machine::Action::{Inform, Keep, Refuse, Repeat, Send, Start, Stop};
use crate::machine::{Action, Notice, ServerEvent as Event, Timer};

/// Its states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Trying,
    Proceeding,
    Completed,
    Terminated,
}

/// What a new transaction does. The request goes to the core by being new.
///
/// RFC 3261 waits for the core without end. Here a request that nobody
/// answered until its client must have given up (64*T1) is forgotten: RFC 4320
/// forbids the 408 that would end it otherwise.
pub(crate) const INITIAL: (State, &[Action]) = (State::Trying, &[Start(Timer::TryingLate)]);

/// Where an event leads, and what is to be done. An event that means nothing
/// in a state changes nothing.
pub(crate) const fn step(state: State, event: Event) -> (State, &'static [Action]) {
    match (state, event) {
        // RFC 4320 4.1: "Without regard to transport, an SIP element MUST respond to a non-INVITE
        // request with a Status-Code of 100 if it has not otherwise responded after the amount of time
        // it takes a client transaction's Timer E to be reset to T2."
        (State::Trying, Event::Timer(Timer::TryingLate)) => (
            State::Trying,
            &[Start(Timer::Expiry), Inform(Notice::Trying)],
        ),
        (State::Proceeding, Event::Timer(Timer::TryingLate)) => {
            (State::Proceeding, &[Start(Timer::Expiry)])
        }
        (State::Trying | State::Proceeding, Event::Timer(Timer::Expiry)) => {
            (State::Terminated, &[Inform(Notice::Expired)])
        }

        // RFC 3261 17.2.2: "Once in the "Trying" state, any further request retransmissions are
        // discarded."
        (State::Trying, Event::Request) => (State::Trying, &[]),
        // RFC 3261 17.2.2: "If a retransmission of the request is received while in the "Proceeding"
        // state, the most recently sent provisional response MUST be passed to the transport layer for
        // retransmission."
        (State::Proceeding, Event::Request) => (State::Proceeding, &[Repeat]),
        // RFC 3261 17.2.2: "While in the "Completed" state, the server transaction MUST pass the final
        // response to the transport layer for retransmission whenever a retransmission of the request
        // is received."
        (State::Completed, Event::Request) => (State::Completed, &[Repeat]),

        // RFC 3261 17.2.2: "While in the "Trying" state, if the TU passes a provisional response to the
        // server transaction, the server transaction MUST enter the "Proceeding" state. The response
        // MUST be passed to the transport layer for transmission. Any further provisional responses
        // that are received from the TU while in the "Proceeding" state MUST be passed to the transport
        // layer for transmission."
        (State::Trying | State::Proceeding, Event::Provisional) => {
            (State::Proceeding, &[Send, Keep])
        }

        // RFC 3261 17.2.2: "If the TU passes a final response (status codes 200-699) to the server while
        // in the "Proceeding" state, the transaction MUST enter the "Completed" state, and the response
        // MUST be passed to the transport layer for transmission."
        // RFC 3261 17.2.2: "When the server transaction enters the "Completed" state, it MUST set Timer J
        // to fire in 64*T1 seconds for unreliable transports, and zero seconds for reliable
        // transports."
        (State::Trying | State::Proceeding, Event::Success | Event::Failure) => (
            State::Completed,
            &[
                Stop(Timer::TryingLate),
                Stop(Timer::Expiry),
                Send,
                Keep,
                Start(Timer::J),
            ],
        ),
        // RFC 3261 17.2.2: "Any other final responses passed by the TU to the server transaction MUST be
        // discarded while in the "Completed" state. The server transaction remains in this state until
        // Timer J fires, at which point it MUST transition to the "Terminated" state."
        (State::Completed, Event::Timer(Timer::J)) => {
            (State::Terminated, &[Inform(Notice::Terminated)])
        }
        (
            State::Completed | State::Terminated,
            Event::Provisional | Event::Success | Event::Failure,
        ) => (state, &[Refuse]),

        // RFC 3261 17.2.4: "the server transaction SHOULD inform the TU that a failure has occurred, and
        // SHOULD transition to the terminated state."
        (State::Proceeding, Event::TransportError) => (
            State::Terminated,
            &[
                Stop(Timer::TryingLate),
                Stop(Timer::Expiry),
                Inform(Notice::Failed),
            ],
        ),
        (State::Completed, Event::TransportError) => {
            (State::Terminated, &[Stop(Timer::J), Inform(Notice::Failed)])
        }

        (state, _) => (state, &[]),
    }
}
