//! The keys of agents, calls and requests, and the events about them.

use crate::slots::Key;
use sip_msg::{ConnId, Method};
use smime::OpenError;

/// The key of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AgentKey(pub(crate) Key);

/// The key of a call. It is stale once the last event of the call was polled; a stale
/// key finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallKey(pub(crate) Key);

/// The key of a REGISTER, OPTIONS or MESSAGE under way. It is stale once the request
/// was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestKey(pub(crate) Key);

impl AgentKey {
    /// A small number for the caller's own tables; it is used again after the agent
    /// was removed.
    pub const fn index(self) -> usize {
        self.0.slot as usize
    }
}

impl CallKey {
    /// A small number for the caller's own tables; it is used again after the call
    /// has ended.
    pub const fn index(self) -> usize {
        self.0.slot as usize
    }
}

impl RequestKey {
    /// A small number for the caller's own tables; it is used again after the request
    /// has ended.
    pub const fn index(self) -> usize {
        self.0.slot as usize
    }
}

/// Why a request or a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// A final response with this status: the peer's, or our own to an incoming call.
    Status(u16),
    /// No final response came in time: treated as a 408 (RFC 3261 8.1.3.1).
    Timeout,
    /// A message could not be sent: treated as a 503 (RFC 3261 8.1.3.1).
    Transport,
    /// There was no room for another transaction.
    Full,
    /// The caller cancelled.
    Cancelled,
    /// This side hung up.
    HungUp,
    /// The other side hung up.
    PeerHungUp,
    /// The 2xx was never acknowledged.
    NoAck,
}

/// What happened. A call ends with exactly one [`Event::Failed`] or
/// [`Event::Ended`], a request with exactly one [`Event::Replied`], and a
/// REGISTER with exactly one [`Event::Registered`] or [`Event::RegisterFailed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A REGISTER was answered 2xx: the contact is bound or, with an `expires_s` of 0,
    /// removed.
    Registered {
        /// The agent.
        agent: AgentKey,
        /// The request.
        request: RequestKey,
        /// For how long the registrar bound the contact.
        expires_s: u32,
    },
    /// A REGISTER failed.
    RegisterFailed {
        /// The agent.
        agent: AgentKey,
        /// The request.
        request: RequestKey,
        /// Why.
        cause: Cause,
    },
    /// An OPTIONS or a MESSAGE was answered, or has failed.
    Replied {
        /// The agent.
        agent: AgentKey,
        /// The request.
        request: RequestKey,
        /// The final response, or why there is none.
        cause: Cause,
    },
    /// An OPTIONS or a MESSAGE arrived and was answered 200; so was a REGISTER, where
    /// [`Config::is_registrar`](crate::Config::is_registrar) is set.
    Received {
        /// The agent that it was for.
        agent: AgentKey,
        /// The method.
        method: Method,
    },
    /// An INVITE or a MESSAGE was refused for its body: S/MIME that could not be opened or is
    /// not believed, or that is missing where it is asked for.
    BodyRefused {
        /// The agent that it was for.
        agent: AgentKey,
        /// The method.
        method: Method,
        /// Why, and whose fault it is.
        error: OpenError,
    },
    /// A call arrived.
    Incoming {
        /// The agent that is called.
        agent: AgentKey,
        /// The call: ring, answer or reject.
        call: CallKey,
    },
    /// A provisional response other than 100 to an outgoing call.
    Provisional {
        /// The call.
        call: CallKey,
        /// 101 to 199.
        status: u16,
    },
    /// An outgoing call was answered, and the ACK was sent.
    Answered {
        /// The call.
        call: CallKey,
    },
    /// The ACK to our 200 arrived.
    Established {
        /// The call.
        call: CallKey,
    },
    /// A call that was answered has ended, acknowledged or not.
    Ended {
        /// The call.
        call: CallKey,
        /// Why, and by whom.
        cause: Cause,
    },
    /// A call was not established.
    Failed {
        /// The call.
        call: CallKey,
        /// Why.
        cause: Cause,
    },
    /// The agent's connection has ended.
    Disconnected {
        /// The agent.
        agent: AgentKey,
        /// The connection.
        conn: ConnId,
    },
}
