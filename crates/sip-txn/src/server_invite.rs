//! The INVITE server transaction (RFC 3261 17.2.1, figure 7, with RFC 6026 8.7).

use crate::machine::Action::{Forget, Inform, Keep, PassUp, Refuse, Repeat, Send, Start, Stop};
use crate::machine::{Action, Notice, ServerEvent as Event, Timer};

/// Its states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Proceeding,
    Completed,
    Confirmed,
    /// RFC 6026: a 2xx was sent; the core may send more.
    Accepted,
    Terminated,
}

/// What a new transaction does. The request goes to the core by being new.
///
/// The core knows whether it will answer soon: it may send the 100 at once, and
/// is reminded of it otherwise.
// RFC 3261 17.2.1: "The server transaction MUST generate a 100 (Trying) response unless it knows that
// the TU will generate a provisional or final response within 200 ms, in which case it MAY generate a
// 100 (Trying) response."
pub(crate) const INITIAL: (State, &[Action]) = (State::Proceeding, &[Start(Timer::Trying)]);

/// Where an event leads, and what is to be done. An event that means nothing
/// in a state changes nothing.
pub(crate) const fn step(state: State, event: Event) -> (State, &'static [Action]) {
    match (state, event) {
        (State::Proceeding, Event::Timer(Timer::Trying)) => {
            (State::Proceeding, &[Inform(Notice::Trying)])
        }
        // RFC 3261 17.2.1: "If a request retransmission is received while in the "Proceeding" state, the
        // most recent provisional response that was received from the TU MUST be passed to the
        // transport layer for retransmission."
        (State::Proceeding, Event::Request) => (State::Proceeding, &[Repeat]),
        // RFC 3261 17.2.1: "So long as the server transaction is in the "Proceeding" state, each of
        // these MUST be passed to the transport layer for transmission."
        (State::Proceeding, Event::Provisional) => {
            (State::Proceeding, &[Stop(Timer::Trying), Send, Keep])
        }

        // RFC 6026 changes the state that RFC 3261 asks for here into "Accepted", so that a
        // retransmitted INVITE is not taken for a new one.
        // RFC 3261 17.2.1: "If, while in the "Proceeding" state, the TU passes a 2xx response to the
        // server transaction, the server transaction MUST pass this response to the transport layer
        // for transmission. It is not retransmitted by the server transaction; retransmissions of 2xx
        // responses are handled by the TU. The server transaction MUST then transition to the
        // "Terminated" state."
        (State::Proceeding, Event::Success) => (
            State::Accepted,
            &[Stop(Timer::Trying), Send, Forget, Start(Timer::L)],
        ),
        // RFC 6026 8.7: "Any retransmission of the 2xx response passed from the TU to the transaction
        // while in the "Accepted" state MUST be passed to the transport layer for transmission."
        (State::Accepted, Event::Success) => (State::Accepted, &[Send]),
        // RFC 6026 8.7: "Any ACKs received from the network while in the "Accepted" state MUST be passed
        // directly to the TU and not absorbed."
        (State::Accepted, Event::Ack) => (State::Accepted, &[PassUp]),
        // RFC 6026 8.7: "When Timer L fires and the state machine is in the "Accepted" state, the machine
        // MUST transition to the "Terminated" state."
        (State::Accepted, Event::Timer(Timer::L)) => {
            (State::Terminated, &[Inform(Notice::Terminated)])
        }

        // RFC 3261 17.2.1: "While in the "Proceeding" state, if the TU passes a response with status code
        // from 300 to 699 to the server transaction, the response MUST be passed to the transport layer
        // for transmission, and the state machine MUST enter the "Completed" state."
        // RFC 3261 17.2.1: "When the "Completed" state is entered, timer H MUST be set to fire in 64*T1
        // seconds for all transports."
        (State::Proceeding, Event::Failure) => (
            State::Completed,
            &[
                Stop(Timer::Trying),
                Send,
                Keep,
                Start(Timer::G),
                Start(Timer::H),
            ],
        ),
        // RFC 3261 17.2.1: "If timer G fires, the response is passed to the transport layer once more for
        // retransmission"
        (State::Completed, Event::Timer(Timer::G)) => {
            (State::Completed, &[Repeat, Start(Timer::G)])
        }
        // RFC 3261 17.2.1: "Furthermore, while in the "Completed" state, if a request retransmission is
        // received, the server SHOULD pass the response to the transport for retransmission."
        (State::Completed, Event::Request) => (State::Completed, &[Repeat]),
        // RFC 3261 17.2.1: "If an ACK is received while the server transaction is in the "Completed"
        // state, the server transaction MUST transition to the "Confirmed" state. As Timer G is ignored
        // in this state, any retransmissions of the response will cease."
        (State::Completed, Event::Ack) => (
            State::Confirmed,
            &[Stop(Timer::G), Stop(Timer::H), Forget, Start(Timer::I)],
        ),
        // RFC 3261 17.2.1: "If timer H fires while in the "Completed" state, it implies that the ACK was
        // never received. In this case, the server transaction MUST transition to the "Terminated"
        // state, and MUST indicate to the TU that a transaction failure has occurred."
        (State::Completed, Event::Timer(Timer::H)) => (
            State::Terminated,
            &[Stop(Timer::G), Inform(Notice::AckTimeout)],
        ),
        // RFC 3261 17.2.1: "Once timer I fires, the server MUST transition to the "Terminated" state."
        (State::Confirmed, Event::Timer(Timer::I)) => {
            (State::Terminated, &[Inform(Notice::Terminated)])
        }

        // The final response is given: what the core adds now is too late.
        (
            State::Completed | State::Confirmed | State::Terminated,
            Event::Provisional | Event::Success | Event::Failure,
        )
        | (State::Accepted, Event::Provisional | Event::Failure) => (state, &[Refuse]),

        // RFC 6026 replaces the "SHOULD transition to the terminated state" of RFC 3261 17.2.4.
        // RFC 6026 7.1: "A server transaction MUST NOT discard transaction state based only on
        // encountering a non-recoverable transport error when sending a response. Instead, the
        // associated INVITE server transaction state machine MUST remain in its current state."
        (State::Proceeding | State::Completed | State::Accepted, Event::TransportError) => {
            (state, &[Inform(Notice::Failed)])
        }

        (state, _) => (state, &[]),
    }
}
