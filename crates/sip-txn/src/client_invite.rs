//! The INVITE client transaction (RFC 3261 17.1.1, figure 5, with RFC 6026 8.4).

use crate::machine::Action::{Ack, Forget, Inform, Keep, PassUp, Repeat, Send, Start, Stop};
use crate::machine::{Action, ClientEvent as Event, Notice, Timer};

/// Its states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Before the request.
    Initial,
    Calling,
    Proceeding,
    Completed,
    /// RFC 6026: a 2xx came; more may come.
    Accepted,
    Terminated,
}

/// Where an event leads, and what is to be done. An event that means nothing
/// in a state changes nothing.
pub(crate) const fn step(state: State, event: Event) -> (State, &'static [Action]) {
    match (state, event) {
        // RFC 3261 17.1.1.2: "The initial state, "calling", MUST be entered when the TU initiates a new
        // client transaction with an INVITE request. The client transaction MUST pass the request to
        // the transport layer for transmission (see Section 18). If an unreliable transport is being
        // used, the client transaction MUST start timer A with a value of T1."
        // RFC 3261 17.1.1.2: "For any transport, the client transaction MUST start timer B with a value
        // of 64*T1 seconds (Timer B controls transaction timeouts)."
        (State::Initial, Event::Request) => (
            State::Calling,
            &[Send, Keep, Start(Timer::A), Start(Timer::B)],
        ),

        // RFC 3261 17.1.1.2: "When timer A fires, the client transaction MUST retransmit the request by
        // passing it to the transport layer, and MUST reset the timer with a value of 2*T1."
        // RFC 3261 17.1.1.2: "When timer A fires 2*T1 seconds later, the request MUST be retransmitted
        // again (assuming the client transaction is still in this state)."
        (State::Calling, Event::Timer(Timer::A)) => (State::Calling, &[Repeat, Start(Timer::A)]),

        // RFC 3261 17.1.1.2: "If the client transaction is still in the "Calling" state when timer B
        // fires, the client transaction SHOULD inform the TU that a timeout has occurred. The client
        // transaction MUST NOT generate an ACK."
        (State::Calling, Event::Timer(Timer::B)) => (
            State::Terminated,
            &[Stop(Timer::A), Inform(Notice::Timeout)],
        ),

        // RFC 3261 17.1.4: "The client transaction SHOULD inform the TU that a transport failure has
        // occurred, and the client transaction SHOULD transition directly to the "Terminated" state."
        // A connection that ends before any response is such a failure. Once there was a
        // provisional one the peer has the request, and may answer over another connection
        // (RFC 3261 18.2.2): from then on timer C decides.
        (State::Calling, Event::TransportError | Event::ConnectionLost) => (
            State::Terminated,
            &[Stop(Timer::A), Stop(Timer::B), Inform(Notice::Failed)],
        ),

        // RFC 3261 17.1.1.2: "If the client transaction receives a provisional response while in the
        // "Calling" state, it transitions to the "Proceeding" state. In the "Proceeding" state, the
        // client transaction SHOULD NOT retransmit the request any longer. Furthermore, the provisional
        // response MUST be passed to the TU."
        (State::Calling, Event::Provisional) => {
            (State::Proceeding, &[Stop(Timer::A), Stop(Timer::B), PassUp])
        }
        // RFC 3261 17.1.1.2: "Any further provisional responses MUST be passed up to the TU while in
        // the "Proceeding" state."
        (State::Proceeding, Event::Provisional) => (State::Proceeding, &[PassUp]),

        // RFC 3261 9.1: "If there is no final response for the original request in 64*T1 seconds (T1 is
        // defined in Section 17.1.1.1), the client SHOULD then consider the original transaction
        // cancelled and SHOULD destroy the client transaction handling the original request."
        (State::Proceeding, Event::Timer(Timer::Cancelled)) => {
            (State::Terminated, &[Inform(Notice::Timeout)])
        }

        // RFC 6026 changes the state that RFC 3261 asks for here into "Accepted", so that further 2xx
        // responses still find the transaction; the rest of the sentence holds as it is.
        // RFC 3261 17.1.1.2: "When in either the "Calling" or "Proceeding" states, reception of a 2xx
        // response MUST cause the client transaction to enter the "Terminated" state, and the response
        // MUST be passed up to the TU."
        (State::Calling | State::Proceeding, Event::Success) => (
            State::Accepted,
            &[
                Stop(Timer::A),
                Stop(Timer::B),
                Forget,
                Start(Timer::M),
                PassUp,
            ],
        ),
        // RFC 6026 8.4: "Any 2xx responses that match this client transaction and that are received
        // while in the "Accepted" state MUST be passed up to the TU. The client transaction MUST NOT
        // generate an ACK to the 2xx response."
        (State::Accepted, Event::Success) => (State::Accepted, &[PassUp]),
        (State::Accepted, Event::Timer(Timer::M)) => {
            (State::Terminated, &[Inform(Notice::Terminated)])
        }

        // RFC 3261 17.1.1.2: "When in either the "Calling" or "Proceeding" states, reception of a
        // response with status code from 300-699 MUST cause the client transaction to transition to
        // "Completed". The client transaction MUST pass the received response up to the TU, and the
        // client transaction MUST generate an ACK request, even if the transport is reliable
        // (guidelines for constructing the ACK from the response are given in Section 17.1.1.3) and
        // then pass the ACK to the transport layer for transmission."
        (State::Calling | State::Proceeding, Event::Failure) => (
            State::Completed,
            &[Stop(Timer::A), Stop(Timer::B), Ack, Start(Timer::D), PassUp],
        ),
        // A 2xx after another final response is left alone: an ACK that says otherwise would be false.
        // RFC 3261 17.1.1.2: "Any retransmissions of the final response that are received while in the
        // "Completed" state MUST cause the ACK to be re-passed to the transport layer for
        // retransmission, but the newly received response MUST NOT be passed up to the TU."
        (State::Completed, Event::Failure) => (State::Completed, &[Repeat]),
        // RFC 3261 17.1.1.2: "If timer D fires while the client transaction is in the "Completed" state,
        // the client transaction MUST move to the terminated state."
        (State::Completed, Event::Timer(Timer::D)) => {
            (State::Terminated, &[Inform(Notice::Terminated)])
        }
        (State::Completed, Event::TransportError) => (
            State::Terminated,
            &[Stop(Timer::D), Inform(Notice::AckFailed)],
        ),

        (state, _) => (state, &[]),
    }
}
